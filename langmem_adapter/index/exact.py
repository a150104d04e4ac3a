"""The exact index in plain numpy: slow to change, easy to check, the oracle for the others."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from langmem_adapter.index.base import Batch, Found, Pks, Scores, Vectors
from langmem_adapter.index.checks import check_batch, check_dimensions, check_k, check_query
from langmem_adapter.index.truth import cosines

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["ExactIndex"]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """One state of the index: parallel arrays, ascending by pk, never changed in place."""

    pks: Pks
    scopes: Pks
    vectors: Vectors

    def locate(self, pks: Pks) -> Pks:
        """The place of each pk, -1 where there is none."""
        places = np.searchsorted(self.pks, pks)
        known = np.isin(pks, self.pks)
        return np.where(known, places, -1)


class ExactIndex:
    """Every vector compared with the query, in numpy. Each update copies all rows, so it fits some ten thousand memories.

    A search works on the state that it found when it began; nobody waits for anybody.

    Args:
        dimensions: Length of the vectors.

    Raises:
        InvalidInputError: *dimensions* is no positive `int`.

    Example:
        >>> index = ExactIndex(2)
        >>> index.update(
        ...     Batch(
        ...         pks=np.array([7, 8]),
        ...         scopes=np.array([1, 1]),
        ...         vectors=np.eye(2, dtype=np.float32),
        ...         gone=np.array([], np.int64),
        ...     )
        ... )
        >>> index.search(np.array([0.6, 0.8], np.float32), 1, scopes=[1]).pks.tolist()
        [8]
    """

    def __init__(self, dimensions: int) -> None:
        self._dimensions: Final = check_dimensions(dimensions)
        self._updating = threading.Lock()
        self._rows = _no_rows(dimensions)

    @property
    def dimensions(self) -> int:
        """Length of its vectors."""
        return self._dimensions

    def __len__(self) -> int:
        """How many vectors it holds."""
        return len(self._rows.pks)

    def update(self, batch: Batch) -> None:
        """Apply net changes; a search running meanwhile sees all of them or none."""
        check_batch(batch, self._dimensions)
        with self._updating:
            old = self._rows
            stays = ~np.isin(old.pks, np.concatenate([batch.pks, batch.gone]))
            pks = np.concatenate([old.pks[stays], batch.pks])
            scopes = np.concatenate([old.scopes[stays], batch.scopes])
            vectors = np.concatenate([old.vectors[stays], batch.vectors.reshape(-1, self._dimensions)])
            order = np.argsort(pks)
            self._rows = _Rows(pks[order], scopes[order], vectors[order])

    def adopt(self, batch: Batch) -> None:
        """Hold what *batch* holds and nothing else."""
        check_batch(batch, self._dimensions)
        order = np.argsort(batch.pks)
        with self._updating:
            self._rows = _Rows(batch.pks[order], batch.scopes[order], batch.vectors[order])

    def search(
        self,
        query: Vectors,
        k: int,
        *,
        scopes: Collection[int],
        pks: Pks | None = None,
        ordered: bool = True,
    ) -> Found:
        """The *k* nearest memories within *scopes*; see `VectorView.search`."""
        query, k, rows = check_query(query, self._dimensions), check_k(k), self._rows
        wanted = np.isin(rows.scopes, list(scopes))
        if pks is not None:
            wanted &= np.isin(rows.pks, pks)
        found, scores = rows.pks[wanted], cosines(rows.vectors[wanted], query)
        if not ordered and len(found) <= k:
            return Found(found, scores)
        order = np.lexsort((found, -scores))[:k]
        return Found(found[order], scores[order])

    def scores(self, query: Vectors, pks: Pks) -> Scores:
        """Cosines of the query with the given memories; NaN where the index has none."""
        return cosines(self.vectors(pks), check_query(query, self._dimensions))

    def vectors(self, pks: Pks) -> Vectors:
        """The stored vectors of the given memories; rows of NaN where the index has none."""
        rows = self._rows
        places = rows.locate(pks)
        result = np.full((len(places), self._dimensions), np.nan, np.float32)
        result[places >= 0] = rows.vectors[places[places >= 0]]
        return result

    def pks(self) -> Pks:
        """Every pk it holds, ascending."""
        return self._rows.pks.copy()

    def scopes_of(self, pks: Pks) -> Pks:
        """The scope id of each of the given memories; -1 where the index has none."""
        rows = self._rows
        places = rows.locate(pks)
        result = np.full(len(places), -1, np.int64)
        result[places >= 0] = rows.scopes[places[places >= 0]]
        return result

    def clear(self) -> None:
        """Forget everything."""
        with self._updating:
            self._rows = _no_rows(self._dimensions)


def _no_rows(dimensions: int) -> _Rows:
    none = np.empty(0, np.int64)
    return _Rows(none, none, np.empty((0, dimensions), np.float32))
