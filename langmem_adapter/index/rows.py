"""The rows of a space as an index takes them: the rows that changed, or all of them, sorted by scope.

A rebuild reads a million vectors; each is put into its final place at once, so that nothing is copied or sorted afterwards
and no vector stands in memory twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import func, select

from langmem_adapter.index.base import Batch, Verification
from langmem_adapter.index.checks import check_length
from langmem_adapter.storage.feed import all_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy import Connection

    from langmem_adapter.index.base import Pks, Vectors, VectorView
    from langmem_adapter.storage.feed import Rows, Space

__all__ = ["as_batch", "compared", "count", "first_length", "length", "read_all"]

_NUMBER: Final = np.dtype("<f4").itemsize


def count(connection: Connection, space: Space) -> int:
    """How many rows there are."""
    return int(connection.execute(select(func.count()).select_from(space.pk.table)).scalar_one())


def first_length(connection: Connection, space: Space) -> int | None:
    """How many numbers the vector of some row has; `None` where there is no row."""
    embedding = connection.execute(select(space.embedding).limit(1)).scalar_one_or_none()
    return None if embedding is None else len(embedding) // _NUMBER


def length(rows: Rows) -> int | None:
    """How many numbers the first vector among *rows* has; `None` where there is none."""
    return next((len(row.embedding) // _NUMBER for row in rows if row.embedding is not None), None)


def as_batch(rows: Rows, dimensions: int) -> Batch:
    """The rows as net changes for an index."""
    there = [row for row in rows if row.embedding is not None]
    return Batch(
        pks=_pks(row.pk for row in there),
        scopes=_pks(row.scope_id for row in there),
        vectors=_vectors(there, dimensions),
        gone=_pks(row.pk for row in rows if row.embedding is None),
    )


def read_all(
    connection: Connection, space: Space, dimensions: int, progress: Callable[[int], None] | None = None
) -> Batch:
    """Every row, sorted by scope and within it by pk. The transaction must see one state from beginning to end.

    *progress* is told after each batch how many rows were read.
    """
    scopes, counts = np.array(connection.execute(space.counts).all(), np.int64).reshape(-1, 2).T
    next_free = np.cumsum(counts) - counts
    pks, vectors = np.empty(counts.sum(), np.int64), np.empty((counts.sum(), dimensions), np.float32)
    done = 0
    for rows in all_rows(connection, space):
        places = _places(np.searchsorted(scopes, _pks(row.scope_id for row in rows)), next_free)
        pks[places] = _pks(row.pk for row in rows)
        vectors[places] = _vectors(rows, dimensions)
        done += len(rows)
        if progress is not None:
            progress(done)
    return Batch(pks, np.repeat(scopes, counts), vectors, np.empty(0, np.int64))


def compared(index: VectorView | None, connection: Connection, space: Space) -> Verification:
    """Compare an index with what a transaction sees, row by row and bit by bit; `None` stands for an empty one."""
    seen, lacking, differing = [np.empty(0, np.int64)], [], []
    for rows in all_rows(connection, space):
        pks = np.array([row.pk for row in rows], np.int64)
        seen.append(pks)
        if index is None:
            lacking += pks.tolist()
            continue
        for row, scope, vector in zip(rows, index.scopes_of(pks), index.vectors(pks).astype("<f4"), strict=True):
            if scope < 0:
                lacking.append(row.pk)
            elif scope != row.scope_id or vector.tobytes() != row.embedding:
                differing.append(row.pk)
    known = np.concatenate(seen)
    extra = [] if index is None else np.setdiff1d(index.pks(), known).tolist()
    return Verification(len(known), tuple(extra), tuple(lacking), tuple(differing))


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
        check_length(f"the vector of memory row {wrong.pk}", len(wrong.embedding) / _NUMBER, dimensions)
    numbers = np.frombuffer(b"".join([row.embedding for row in rows]), "<f4")
    return numbers.astype(np.float32, copy=False).reshape(-1, dimensions)


def _pks(numbers: Iterable[int]) -> Pks:
    return np.fromiter(numbers, np.int64)
