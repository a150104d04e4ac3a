"""The memories of a database as an index takes them: the rows that changed, or all of them, sorted by scope.

A rebuild reads a million vectors; each is put into its final place at once, so that nothing is copied or sorted afterwards
and no vector stands in memory twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from sqlalchemy import func, select

from langmem_adapter.errors import EmbeddingMismatchError
from langmem_adapter.index.base import Batch
from langmem_adapter.storage.tables import memories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sqlalchemy import Connection, Row

    from langmem_adapter.index.base import Pks, Vectors

__all__ = ["Rows", "all_rows", "as_batch", "count", "first_length", "length", "read_all"]

Rows: TypeAlias = "Sequence[Row[Any, Any, Any]]"
"""pk, scope_id, embedding; the last two are None where the memory is gone."""

_BATCH: Final = 10_000
_NUMBER: Final = np.dtype("<f4").itemsize

_COUNTS: Final = select(memories.c.scope_id, func.count()).group_by(memories.c.scope_id).order_by(memories.c.scope_id)
_COUNT: Final = select(func.count()).select_from(memories)
_FIRST: Final = select(memories.c.embedding).limit(1)
_ALL: Final = (
    select(memories.c.pk, memories.c.scope_id, memories.c.embedding)
    .order_by(memories.c.pk)
    .execution_options(yield_per=_BATCH)
)


def count(connection: Connection) -> int:
    """How many memories there are."""
    return int(connection.execute(_COUNT).scalar_one())


def all_rows(connection: Connection) -> Iterator[Rows]:
    """Every memory, ascending by pk, in batches."""
    return iter(connection.execute(_ALL).partitions())


def first_length(connection: Connection) -> int | None:
    """How many numbers the vector of some memory has; `None` where no memory is."""
    embedding = connection.execute(_FIRST).scalar_one_or_none()
    return None if embedding is None else len(embedding) // _NUMBER


def length(rows: Rows) -> int | None:
    """How many numbers the first vector among *rows* has; `None` where there is none."""
    return next((len(row.embedding) // _NUMBER for row in rows if row.embedding is not None), None)


def as_batch(rows: Rows, dimensions: int) -> Batch:
    """The rows as net changes for an index.

    Raises:
        EmbeddingMismatchError: A vector has another length than *dimensions*.
    """
    there = [row for row in rows if row.embedding is not None]
    return Batch(
        pks=_pks(row.pk for row in there),
        scopes=_pks(row.scope_id for row in there),
        vectors=_vectors(there, dimensions),
        gone=_pks(row.pk for row in rows if row.embedding is None),
    )


def read_all(connection: Connection, dimensions: int, progress: Callable[[int], None]) -> Batch:
    """Every memory, sorted by scope and within it by pk. The transaction must see one state from beginning to end.

    Args:
        connection: In a transaction.
        dimensions: Length of the vectors.
        progress: Called after each batch with the number of memories read.

    Raises:
        EmbeddingMismatchError: A vector has another length.
    """
    scopes, counts = np.array(connection.execute(_COUNTS).all(), np.int64).reshape(-1, 2).T
    next_free = np.cumsum(counts) - counts
    pks, vectors = np.empty(counts.sum(), np.int64), np.empty((counts.sum(), dimensions), np.float32)
    done = 0
    for rows in all_rows(connection):
        places = _places(np.searchsorted(scopes, _pks(row.scope_id for row in rows)), next_free)
        pks[places] = _pks(row.pk for row in rows)
        vectors[places] = _vectors(rows, dimensions)
        done += len(rows)
        progress(done)
    return Batch(pks, np.repeat(scopes, counts), vectors, np.empty(0, np.int64))


def _places(groups: Pks, next_free: Pks) -> Pks:
    """The next free place of each row's group, which is taken by that."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    rank = np.arange(len(groups)) - np.searchsorted(ordered, ordered)
    places = np.empty_like(groups)
    places[order] = next_free[ordered] + rank
    next_free += np.bincount(groups, minlength=len(next_free))
    return places


def _vectors(rows: Rows, dimensions: int) -> Vectors:
    wrong = next((row for row in rows if len(row.embedding) != dimensions * _NUMBER), None)
    if wrong is not None:
        raise EmbeddingMismatchError(
            f"memory row {wrong.pk} has a vector of {len(wrong.embedding) // _NUMBER} dimensions, this index holds "
            f"{dimensions}; open the database with the embedding model that it was filled with, or re-embed it with: "
            "langmem-adapter reindex"
        )
    numbers = np.frombuffer(b"".join([row.embedding for row in rows]), "<f4")
    return numbers.astype(np.float32, copy=False).reshape(-1, dimensions)


def _pks(numbers: Iterable[int]) -> Pks:
    return np.fromiter(numbers, np.int64)
