"""Exact search over the database's own vectors, in numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from sqlalchemy import func, literal, select

from langmem_adapter.index.base import Batch, Found, Pks, Scores, Vectors, as_batch, check_batch, check_query
from langmem_adapter.storage.tables import memories

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

_Number = TypeVar("_Number", bound=np.generic)

_CHUNK: Final = 500  # values of one IN: databases bound their number
_BATCH: Final = 5_000
_ROW: Final = select(memories.c.pk, memories.c.scope_id, memories.c.embedding).execution_options(yield_per=_BATCH)


class Best:
    """The *k* best of all that it is shown, ties by lower pk."""

    def __init__(self, k: int) -> None:
        self._k = k
        self.pks: Pks = np.empty(0, np.int64)
        self.scores: Scores = np.empty(0, np.float32)

    def add(self, pks: Pks, scores: Scores) -> None:
        """Show it some more."""
        pks, scores = np.concatenate([self.pks, pks]), np.concatenate([self.scores, scores])
        order = np.lexsort((pks, -scores))[: self._k]
        self.pks, self.scores = pks[order], scores[order]


def cosines(vectors: Vectors, query: Vectors) -> Scores:
    """The product of each unit vector with the query; equal vectors get equal scores wherever they stand."""
    # Contract: equal vectors have equal scores wherever they stand, so not `@`: BLAS sums a block's last rows in another order.
    # `test_ties_go_to_the_lower_pk`, and for a search of the past `test_equals_come_in_the_same_order_now_and_then`
    scores: Scores = np.einsum("ij,j->i", vectors, query)
    return scores


def spread(wanted: Pks, there: Pks, values: NDArray[_Number], missing: float) -> NDArray[_Number]:
    """The value of each wanted pk, *missing* for who is not among those that are there.

    Example:
        >>> spread(np.array([9, 7, 8]), np.array([7, 9]), np.array([70, 90]), -1).tolist()
        [90, 70, -1]
    """
    result = np.full((len(wanted), *values.shape[1:]), missing, values.dtype)
    if len(there):
        order = np.argsort(there)
        places = order[np.minimum(np.searchsorted(there, wanted, sorter=order), len(there) - 1)]
        known = there[places] == wanted
        result[known] = values[places[known]]
    return result


def read(connection: Connection, pks: Pks, dimensions: int) -> Batch:
    """Those of the given memories that exist, each once, in no order.

    Raises:
        EmbeddingMismatchError: A vector has another length.
    """
    rows = [
        row for chunk in _chunks(pks.tolist()) for row in connection.execute(_ROW.where(memories.c.pk.in_(chunk))).all()
    ]
    return as_batch(rows, dimensions)


def size(connection: Connection, scopes: Collection[int], most: int) -> int:
    """How many memories the scopes have together, counted up to *most*."""
    found = 0
    for chunk in _chunks(scopes):
        some = select(literal(1)).where(memories.c.scope_id.in_(chunk)).limit(most - found).subquery()
        found += int(connection.execute(select(func.count()).select_from(some)).scalar_one())
        if found >= most:
            break
    return found


def compared_exactly(
    connection: Connection, query: Vectors, k: int, scopes: Collection[int], pks: Pks | None = None
) -> Best:
    """Compare every memory of the scopes, or of the given pks within them, with the query.

    Reads each vector: a thousand take some milliseconds, a hundred thousand half a second.
    """
    best = Best(k)
    if pks is not None:
        batch = read(connection, pks, len(query))
        within = np.isin(batch.scopes, list(scopes))
        best.add(batch.pks[within], cosines(batch.vectors[within], query))
        return best
    for chunk in _chunks(scopes):
        for rows in connection.execute(_ROW.where(memories.c.scope_id.in_(chunk))).partitions():
            batch = as_batch(rows, len(query))
            best.add(batch.pks, cosines(batch.vectors, query))
    return best


def _chunks(numbers: Collection[int]) -> Iterator[Sequence[int]]:
    distinct = sorted({int(number) for number in numbers})
    for start in range(0, len(distinct), _CHUNK):
        yield distinct[start : start + _CHUNK]


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
