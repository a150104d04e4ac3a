"""The interface of a vector index, the checks of its input, and exact search over the database's own vectors, in numpy.

An index holds unit vectors by memory `pk` and scope id. It does not decide who may see what: a search names scopes, or rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, literal, select

from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError
from langmem_adapter.storage.feed import all_rows
from langmem_adapter.storage.tables import memories

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.storage.feed import Rows, Space
    from langmem_adapter.storage.meta import Unreadable

Pks: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.float32]
Vectors: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Net changes to bring an index up to date: each pk occurs once, in `pks` or in `gone`."""

    pks: Pks  # memories to insert or overwrite, shape (n,)
    scopes: Pks  # the scope id of each, shape (n,), int64
    vectors: Vectors  # their unit vectors, shape (n, dimensions), float32, C-contiguous
    gone: Pks  # memories to forget, shape (m,); unknown ones are ignored

    @classmethod
    def empty(cls, dimensions: int) -> Batch:
        none = np.empty(0, np.int64)
        return cls(none, none, np.empty((0, dimensions), np.float32), none)


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """Pks and cosines, best first if asked for; ties by lower pk, in every index. *strategy* says how it was searched."""

    pks: Pks
    scores: Scores
    strategy: str = "exact"


@dataclass(frozen=True, slots=True)
class Verification:
    """How an index compares with its database.

    Attributes:
        checked: How many memories the database has.
        only_in_index: Rows that the database does not have.
        only_in_database: Rows that the index does not have.
        differing: Rows with another vector or another scope here than there.
        unchecked: What could not be compared, in words; empty for every built-in index.
        unreadable: Rows that cannot be read: dates that Python cannot hold (they are read with a replacement, which an update
            of the memory makes its date), and messages of conversations that are none.
        turns: How many messages of conversations were read.
        notes: How many summaries and titles there are.
    """

    checked: int
    only_in_index: tuple[int, ...]
    only_in_database: tuple[int, ...]
    differing: tuple[int, ...]
    unchecked: tuple[str, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    turns: int = 0
    notes: int = 0

    @property
    def ok(self) -> bool:
        """Whether they agree in everything that could be compared, and all of it can be read."""
        return not (self.only_in_index or self.only_in_database or self.differing or self.unreadable)


class VectorView(Protocol):
    """Unit vectors by memory pk, searchable within scopes: all that a search needs. Safe to use from many threads."""

    @property
    def dimensions(self) -> int:
        """Length of its vectors."""

    def __len__(self) -> int:
        """How many vectors it holds."""

    def search(
        self, query: Vectors, k: int, *, scopes: Collection[int], pks: Pks | None = None, ordered: bool = True
    ) -> Nearest:
        """The *k* nearest memories within scopes, however small; only these *pks* of them, where a filter chose some.

        Without *ordered* they may come in any order: sorting takes longer than comparing.
        """

    def scores(self, query: Vectors, pks: Pks) -> Scores:
        """Cosines of the query with the given memories, in their order; NaN where the index has none."""

    def vectors(self, pks: Pks) -> Vectors:
        """The stored vectors of the given memories, in their order; rows of NaN where the index has none."""

    def pks(self) -> Pks:
        """Every pk it holds, ascending."""

    def scopes_of(self, pks: Pks) -> Pks:
        """The scope id of each of the given memories, in their order; -1 where the index has none."""


_CHUNK: Final = 8192  # rows looked at in one go: no second copy of a large batch


def check_query(query: Vectors, dimensions: int) -> Vectors:
    check_length("the query", len(query), dimensions)
    if not math.isfinite(np.vdot(query, query)) and not np.isfinite(query).all():
        raise InvalidInputError("the query vector holds NaN or infinity; the embedding model failed, embed it again")
    return np.ascontiguousarray(query, np.float32)


def check_batch(batch: Batch, dimensions: int) -> None:
    """Refuse a batch that an index of *dimensions* cannot take: the rows of a database may be damaged."""
    if (named := len(batch.pks) + len(batch.gone)) > 1 and len(np.unique(np.append(batch.pks, batch.gone))) < named:
        raise InvalidInputError("a memory occurs twice in one Batch; pass net changes")
    if len(batch.vectors):
        check_length("a new vector", batch.vectors.shape[1], dimensions)
    for start in range(0, len(batch.vectors), _CHUNK):
        rows = batch.vectors[start : start + _CHUNK]
        if math.isfinite(np.vdot(rows, rows)):  # four times as fast as each number; unit vectors never overflow
            continue
        fine = np.isfinite(rows).all(axis=1)
        if not fine.all():
            pk = batch.pks[start + int(np.argmin(fine))]
            raise InvalidInputError(f"the vector of memory row {pk} holds NaN or infinity; embed its text again")


def check_length(what: str, length: float, dimensions: int) -> None:
    if length != dimensions:
        raise EmbeddingMismatchError(
            f"{what} has {length:g} dimensions, this index holds vectors of {dimensions}; open the database with the "
            "embedding model that it was filled with, or re-embed it with: langmem-adapter reindex"
        )


_NUMBER: Final = np.dtype("<f4").itemsize


def count_rows(connection: Connection, space: Space) -> int:
    return int(connection.execute(select(func.count()).select_from(space.pk.table)).scalar_one())


def stored_vector_length(connection: Connection, space: Space) -> int | None:
    embedding = connection.execute(select(space.embedding).limit(1)).scalar_one_or_none()
    return None if embedding is None else len(embedding) // _NUMBER


def as_batch(rows: Rows, dimensions: int) -> Batch:
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
    """Every row, sorted by scope and within it by pk; each vector is copied once, into its final place.

    The transaction must see one state from beginning to end. *progress* is called after each batch with the number of rows.
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


def compare_index(index: VectorView | None, connection: Connection, space: Space) -> Verification:
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
    every = np.concatenate(seen)
    extra = [] if index is None else np.setdiff1d(index.pks(), every).tolist()
    return Verification(len(every), tuple(extra), tuple(lacking), tuple(differing))


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


_Number = TypeVar("_Number", bound=np.generic)

_IN: Final = 500  # values of one IN: databases bound their number
_BATCH: Final = 5_000
_ROW: Final = select(memories.c.pk, memories.c.scope_id, memories.c.embedding).execution_options(yield_per=_BATCH)


class Best:
    """The *k* best of all that it is shown, ties by lower pk."""

    def __init__(self, k: int) -> None:
        self._k = k
        self.pks: Pks = np.empty(0, np.int64)
        self.scores: Scores = np.empty(0, np.float32)

    def add(self, pks: Pks, scores: Scores) -> None:
        pks, scores = np.concatenate([self.pks, pks]), np.concatenate([self.scores, scores])
        order = np.lexsort((pks, -scores))[: self._k]
        self.pks, self.scores = pks[order], scores[order]


def cosines(vectors: Vectors, query: Vectors) -> Scores:
    """The product of each unit vector with the query; equal vectors get equal scores in every row."""
    # Contract: equal vectors have equal scores in every row, so not `@`: BLAS sums a block's last rows in another order.
    # `test_ties_go_to_the_lower_pk`, and for a search of the past `test_equals_come_in_the_same_order_now_and_then`
    scores: Scores = np.einsum("ij,j->i", vectors, query)
    return scores


def align_values(wanted: Pks, there: Pks, values: NDArray[_Number], missing: float) -> NDArray[_Number]:
    """The value of each wanted pk, *missing* for who is not among those that are there.

    Example:
        >>> align_values(np.array([9, 7, 8]), np.array([7, 9]), np.array([70, 90]), -1).tolist()
        [90, 70, -1]
    """
    result = np.full((len(wanted), *values.shape[1:]), missing, values.dtype)
    if len(there):
        order = np.argsort(there)
        places = order[np.minimum(np.searchsorted(there, wanted, sorter=order), len(there) - 1)]
        present = there[places] == wanted
        result[present] = values[places[present]]
    return result


def read_memories(connection: Connection, pks: Pks, dimensions: int) -> Batch:
    """Those of the given memories that exist, each once, in no order."""
    rows = [
        row for chunk in _chunks(pks.tolist()) for row in connection.execute(_ROW.where(memories.c.pk.in_(chunk))).all()
    ]
    return as_batch(rows, dimensions)


def count_in_scopes(connection: Connection, scopes: Collection[int], most: int) -> int:
    """How many memories the scopes have together, counted up to *most*."""
    count = 0
    for chunk in _chunks(scopes):
        some = select(literal(1)).where(memories.c.scope_id.in_(chunk)).limit(most - count).subquery()
        count += int(connection.execute(select(func.count()).select_from(some)).scalar_one())
        if count >= most:
            break
    return count


def search_exactly(
    connection: Connection, query: Vectors, k: int, scopes: Collection[int], pks: Pks | None = None
) -> Best:
    """Compare every memory of the scopes, or of the given pks within them, with the query.

    Reads each vector: a thousand take some milliseconds, a hundred thousand half a second.
    """
    best = Best(k)
    if pks is not None:
        batch = read_memories(connection, pks, len(query))
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
    for start in range(0, len(distinct), _IN):
        yield distinct[start : start + _IN]
