"""The exact index in plain numpy: slow to change, easy to check, the oracle for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from langmem_adapter.index.base import Batch, Found, Pks, Scores, Vectors
from langmem_adapter.index.checks import check_batch, check_query
from langmem_adapter.index.truth import cosines, spread

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["ExactIndex"]


class ExactIndex:
    """Every vector compared with the query, in numpy. Each update copies all rows, so it fits some ten thousand memories.

    A search works on the state that it found when it began; nobody waits for anybody.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions: Final = dimensions
        self._rows = Batch.empty(dimensions)  # ascending by pk; another one with every change

    def __len__(self) -> int:
        """How many vectors it holds."""
        return len(self._rows.pks)

    def update(self, batch: Batch) -> None:
        """Apply net changes; a search running meanwhile sees all of them or none."""
        check_batch(batch, self.dimensions)
        old = self._rows
        stays = ~np.isin(old.pks, np.concatenate([batch.pks, batch.gone]))
        self._rows = _ascending(
            np.concatenate([old.pks[stays], batch.pks]),
            np.concatenate([old.scopes[stays], batch.scopes]),
            np.concatenate([old.vectors[stays], batch.vectors.reshape(-1, self.dimensions)]),
        )

    def adopt(self, batch: Batch) -> None:
        """Hold what *batch* holds and nothing else."""
        check_batch(batch, self.dimensions)
        self._rows = _ascending(batch.pks, batch.scopes, batch.vectors)

    def search(
        self, query: Vectors, k: int, *, scopes: Collection[int], pks: Pks | None = None, ordered: bool = True
    ) -> Found:
        """The *k* nearest memories within *scopes*; see `VectorView.search`."""
        query, rows = check_query(query, self.dimensions), self._rows
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
        return cosines(self.vectors(pks), check_query(query, self.dimensions))

    def vectors(self, pks: Pks) -> Vectors:
        """The stored vectors of the given memories; rows of NaN where the index has none."""
        rows = self._rows
        return spread(pks, rows.pks, rows.vectors, np.nan)

    def pks(self) -> Pks:
        """Every pk it holds, ascending."""
        return self._rows.pks.copy()

    def scopes_of(self, pks: Pks) -> Pks:
        """The scope id of each of the given memories; -1 where the index has none."""
        rows = self._rows
        return spread(pks, rows.pks, rows.scopes, -1)


def _ascending(pks: Pks, scopes: Pks, vectors: Vectors) -> Batch:
    order = np.argsort(pks)
    return Batch(pks[order], scopes[order], vectors[order], np.empty(0, np.int64))
