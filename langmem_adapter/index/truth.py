"""Vectors straight from the database: what a search is checked against, and an exact search of last resort."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from sqlalchemy import func, literal, select

from langmem_adapter.index.rows import as_batch
from langmem_adapter.storage.tables import memories

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.index.base import Batch, Pks, Scores, Vectors

__all__ = ["Best", "compared_exactly", "cosines", "read", "size", "spread"]

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
