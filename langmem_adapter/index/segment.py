"""The contents of an index in memory: an immutable segment, an append-only tail, removed rows.

The file is that of `faiss.write_index` for an `IndexFlatIP`. It is mapped read-only, so processes share its pages. FAISS' own
mapping is not used, since it makes a cold scan ten times slower, nor its reader, which takes flipped bits for data: each block
of rows has a checksum, which is compared when the block is touched for the first time.

One writer at a time appends and publishes; readers hold what was published and need no lock. Rows are never overwritten: a
memory that changes gets another row, and the old one the number of the update that removed it, so a reader that began before
that update still sees the old row.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from langmem_adapter.errors import StorageError
from langmem_adapter.index.base import Batch, Nearest, Pks, check_batch, check_query, cosines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from langmem_adapter.index.base import Scores, Vectors

Digests: TypeAlias = NDArray[np.uint64]

HEADER: Final = struct.Struct("<4siqqqBiQ")
"""FAISS' header of an `IndexFlatIP`: kind, dimensions, rows, twice 2**20, trained, metric, numbers; the rows follow."""

_KIND: Final = b"IxFI"
_DUMMY: Final = 1 << 20
_TRAINED: Final = 1
_INNER_PRODUCT: Final = 0
_BLOCK: Final = 1 << 17  # bytes that have one checksum
_NUMBER: Final = 4


class SegmentError(StorageError):
    """A file of the vector index is not what was written: it has to be made again from the database."""


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """Which memory lies in which row."""

    pks: Pks  # the pk in each row, shape (n,)
    scopes: Pks  # the scopes, ascending, shape (m,)
    starts: Pks  # the first row of each, and the number of rows, shape (m + 1,)
    sorted_pks: Pks  # the same pks, ascending
    rows: NDArray[np.uint32]  # the row of each of them

    @classmethod
    def of(cls, pks: Pks, scopes: Pks) -> Catalogue:
        """Of rows that are sorted by scope."""
        first = np.flatnonzero(np.concatenate([[True], scopes[1:] != scopes[:-1]])[: len(scopes)])
        order = np.argsort(pks, kind="stable")
        return cls(pks, scopes[first], np.append(first, len(pks)), pks[order], order.astype(np.uint32))

    def __len__(self) -> int:
        return len(self.pks)

    def find(self, pks: Pks) -> Pks:
        """The row of each pk, -1 where there is none."""
        if not len(self.sorted_pks):
            return np.full(len(pks), -1, np.int64)
        places = self.sorted_pks.searchsorted(pks)
        places[places == len(self.sorted_pks)] = 0
        rows = self.rows[places].astype(np.int64)
        rows[self.sorted_pks[places] != pks] = -1
        return rows

    def range_of(self, scope: int) -> slice:
        place = int(self.scopes.searchsorted(scope))
        if place == len(self.scopes) or self.scopes[place] != scope:
            return slice(0, 0)
        return slice(int(self.starts[place]), int(self.starts[place + 1]))

    def rows_of(self, scopes: Collection[int]) -> Pks:
        """The rows of several scopes, ascending."""
        wanted = np.unique(np.fromiter(scopes, np.int64, len(scopes)))
        places = self.scopes.searchsorted(wanted)
        present = places < len(self.scopes)
        present[present] = self.scopes[places[present]] == wanted[present]
        places = places[present]
        starts, lengths = self.starts[places], self.starts[places + 1] - self.starts[places]
        before = np.cumsum(lengths) - lengths
        rows: Pks = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
        return rows

    def scopes_of(self, rows: Pks) -> Pks:
        scopes: Pks = self.scopes[self.starts.searchsorted(rows, side="right") - 1]
        return scopes


class LoadedRows:
    """Vectors in this process's memory: (n, dimensions), float32, C-contiguous; they must not be written to from now on."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors: Final = vectors

    def check(self, rows: slice | Pks) -> None:
        """Make sure that these rows are what was written."""

    @property
    def whole(self) -> bool:
        return True


class ClosedRows(LoadedRows):
    """The vectors of a closed index: reading them is an error."""

    def check(self, rows: slice | Pks) -> None:  # noqa: ARG002 - see `LoadedRows.check`
        raise StorageError("this memory is closed; open it again")


class FileRows(LoadedRows):
    """Vectors in a mapped file; it stays open as long as this object lives.

    Each block is compared with its checksum when it is touched for the first time, and not again: a block that is overwritten
    in place after that is not noticed. *descriptor* belongs to this object from now on.
    """

    def __init__(self, descriptor: int, count: int, dimensions: int, digests: Digests) -> None:
        self._descriptor: Final = descriptor
        self._size: Final = file_size(count, dimensions)
        if not self.whole:
            raise SegmentError("has a segment of another size than it was written with")
        mapped = mmap.mmap(descriptor, self._size, access=mmap.ACCESS_READ)
        if mapped[: HEADER.size] != header(count, dimensions):
            raise SegmentError("has a segment with another header than it was written with")
        numbers = np.frombuffer(mapped, np.float32, count * dimensions, HEADER.size)
        super().__init__(numbers.reshape(count, dimensions))
        self._bytes = memoryview(mapped)[HEADER.size :]
        self._block = block_rows(dimensions)
        self._digests = digests
        # Contract: a block's flag only ever turns true, and only after its bytes were compared; two threads may both compare
        # it. `test_damage_in_a_later_block_is_found_each_time`, `test_blocks_are_compared_once_whoever_touches_them`
        self._known = np.zeros(len(digests), np.bool_)

    def __del__(self) -> None:
        """Give back the file; its mapping goes with the arrays that look into it."""
        os.close(self._descriptor)

    @property
    def whole(self) -> bool:
        """Whether the file still has its size: reading behind the end of a mapped file kills the process."""
        return os.fstat(self._descriptor).st_size == self._size

    def check(self, rows: slice | Pks) -> None:
        """Compare the blocks of these rows that were not compared yet."""
        if isinstance(rows, slice):
            if rows.start == rows.stop:
                return
            first, last = rows.start // self._block, (rows.stop - 1) // self._block
            if self._known[first : last + 1].all():
                return
            blocks: Iterable[int] = (first + np.flatnonzero(~self._known[first : last + 1])).tolist()
        else:
            touched = rows // self._block
            unknown = touched[~self._known[touched]]
            if not len(unknown):
                return
            blocks = np.unique(unknown).tolist()
        for block in blocks:
            self._compare(block)

    def _compare(self, block: int) -> None:
        size = self._block * self.vectors.shape[1] * _NUMBER
        if xxhash.xxh3_64_intdigest(self._bytes[block * size : (block + 1) * size]) != self._digests[block]:
            raise SegmentError("a segment of the vector index is damaged: a checksum differs")
        self._known[block] = True


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Vectors that never change, and which memory's they are."""

    rows: LoadedRows
    catalogue: Catalogue

    @classmethod
    def of(cls, batch: Batch) -> Segment:
        """In this process, from rows in any order; in the batch's own arrays where they are sorted by scope and pk."""
        pks, scopes, vectors = batch.pks, batch.scopes, batch.vectors
        order = np.lexsort((pks, scopes))
        if not np.array_equal(order, np.arange(len(order))):
            pks, scopes, vectors = pks[order], scopes[order], vectors[order]
        return cls(LoadedRows(vectors), Catalogue.of(pks, scopes))

    def loaded(self) -> Segment:
        """The same, checked and copied to this process's memory."""
        self.rows.check(slice(0, len(self)))
        return Segment(LoadedRows(self.rows.vectors.copy()), self.catalogue)

    def __len__(self) -> int:
        return len(self.catalogue)


def header(count: int, dimensions: int) -> bytes:
    """The beginning of FAISS' file of so many vectors."""
    return HEADER.pack(_KIND, dimensions, count, _DUMMY, _DUMMY, _TRAINED, _INNER_PRODUCT, count * dimensions)


def file_size(count: int, dimensions: int) -> int:
    """Bytes of FAISS' file of so many vectors."""
    return HEADER.size + count * dimensions * _NUMBER


def block_rows(dimensions: int) -> int:
    """How many rows have one checksum."""
    return max(1, _BLOCK // (dimensions * _NUMBER))


RemovedAt: TypeAlias = NDArray[np.uint32]
"""For each row the number of the update that removed it; 0 while it is current."""

_LEAST: Final = 64


def is_current_at(removed_at: RemovedAt, update: int) -> NDArray[np.bool_]:
    """Which rows are current after an update, whatever later ones removed."""
    mask: NDArray[np.bool_] = (removed_at == 0) | (removed_at > update)
    return mask


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """The rows at one moment; arrays have room for more than *count* rows."""

    # Contract: arrays are written to behind `count` alone, but for `removed_at`, where 0 becomes the number of an update that
    # no reader of an older state looks at; the dicts may be newer than `count`, and who asks them leaves out rows behind it.
    # `test_a_search_sees_an_update_whole_or_not_at_all`, `test_who_began_before_an_update_finds_what_was`
    vectors: Vectors
    pks: Pks
    scopes: Pks
    removed_at: RemovedAt
    count: int
    latest: dict[int, int]  # the latest row of each memory, by pk
    older: dict[int, int]  # the row that the same memory had before, by row
    by_scope: dict[int, tuple[Pks, int]]  # the rows of each scope, and how many they are

    @classmethod
    def empty(cls, dimensions: int) -> Tail:
        none = np.empty(0, np.int64)
        return cls(np.empty((0, dimensions), np.float32), none, none, np.empty(0, np.uint32), 0, {}, {}, {})

    def find(self, pk: int) -> int:
        """The row of a memory, -1 where it has none here; it may have gone."""
        row = self.latest.get(pk, -1)
        while row >= self.count:
            row = self.older.get(row, -1)
        return row

    def rows_of(self, scopes: Collection[int]) -> Pks | None:
        """The rows of some scopes, `None` for none; some of them may have gone."""
        if not self.count:
            return None
        entries = (self.by_scope.get(int(scope)) for scope in dict.fromkeys(scopes))
        parts = [entry[0][: entry[1]] for entry in entries if entry]
        parts = [rows if rows[-1] < self.count else rows[: rows.searchsorted(self.count)] for rows in parts]
        return (parts[0] if len(parts) == 1 else np.concatenate(parts)) if parts else None

    def remove(self, pks: Pks, update: int) -> int:
        """Mark the rows of these memories as removed by an update, and return their number."""
        rows = [row for pk in pks.tolist() if (row := self.latest.get(pk, -1)) >= 0 and not self.removed_at[row]]
        self.removed_at[rows] = update
        return len(rows)

    def with_rows(self, batch: Batch) -> Tail:
        """The tail with the rows of a batch behind it, those of one scope beside each other."""
        new, start = len(batch.pks), self.count
        order = np.lexsort((batch.pks, batch.scopes)) if new > 1 else slice(None)
        tail = self._with_room(start + new)
        pks, scopes, there = batch.pks[order], batch.scopes[order], slice(start, start + new)
        tail.vectors[there], tail.pks[there], tail.scopes[there] = batch.vectors[order], pks, scopes
        for row, pk in enumerate(pks.tolist(), start):
            if pk in tail.latest:
                tail.older[row] = tail.latest[pk]
            tail.latest[pk] = row
        firsts = np.flatnonzero(np.concatenate([[True], scopes[1:] != scopes[:-1]]))
        for first, last in zip(firsts.tolist(), [*firsts[1:].tolist(), new], strict=True):
            _append(tail.by_scope, int(scopes[first]), np.arange(start + first, start + last))
        return replace(tail, count=start + new)

    def _with_room(self, needed: int) -> Tail:
        if needed <= len(self.pks):
            return self
        capacity = max(needed, 2 * len(self.pks), _LEAST)
        arrays = ("vectors", "pks", "scopes", "removed_at")
        grown: dict[str, Any] = {name: _grow(getattr(self, name), self.count, capacity) for name in arrays}
        return replace(self, **grown)


def _append(by_scope: dict[int, tuple[Pks, int]], scope: int, rows: Pks) -> None:
    array, count = by_scope.get(scope, (np.empty(0, np.int64), 0))
    needed = count + len(rows)
    if needed > len(array):
        array = _grow(array, count, max(needed, 2 * len(array)))
    array[count:needed] = rows
    by_scope[scope] = array, needed


def _grow(array: NDArray[Any], count: int, capacity: int) -> NDArray[Any]:
    larger = np.zeros((capacity, *array.shape[1:]), array.dtype)
    larger[:count] = array[:count]
    return larger


Where: TypeAlias = Pks | slice
"""Some rows: their numbers, or a slice where they lie together."""
_TOGETHER: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """What an index holds at one moment; it never changes."""

    segment: Segment  # most of it
    removed_at: RemovedAt  # which of the segment's rows have gone, and when
    tail: Tail  # what came since
    update: int  # number of the last update
    count: int  # how many memories
    removed_count: int  # how many of the segment's rows have gone

    @classmethod
    def of(cls, segment: Segment) -> Contents:
        tail = Tail.empty(segment.rows.vectors.shape[1])
        return cls(segment, np.zeros(len(segment), np.uint32), tail, 0, len(segment), 0)

    def after(self, batch: Batch) -> Contents:
        """What it holds after net changes. Only for the one writer: what was before can be read on, but not go on from."""
        update = self.update + 1
        pks = np.concatenate([batch.pks, batch.gone])
        rows = self.segment.catalogue.find(pks)
        rows = rows[rows >= 0]
        rows = rows[self.removed_at[rows] == 0]
        self.removed_at[rows] = update
        count = self.count + len(batch.pks) - self.tail.remove(pks, update) - len(rows)
        tail = self.tail.with_rows(batch) if len(batch.pks) else self.tail
        return Contents(self.segment, self.removed_at, tail, update, count, self.removed_count + len(rows))

    def rows(self, scopes: Collection[int], pks: Pks | None) -> Where:
        """The segment's rows of some scopes, or of the given memories within them, that have not gone."""
        catalogue = self.segment.catalogue
        if pks is not None:
            chosen = catalogue.find(np.unique(pks))
            chosen = chosen[chosen >= 0]
            return self.current(chosen[np.isin(catalogue.scopes_of(chosen), list(scopes))])
        if len(scopes) != 1:
            return self.current(catalogue.rows_of(scopes))
        (scope,) = scopes
        together = catalogue.range_of(scope)
        if not self.removed_count or (is_current := is_current_at(self.removed_at[together], self.update)).all():
            return together
        rows: Pks = together.start + np.flatnonzero(is_current)
        return rows

    def current(self, rows: Pks) -> Pks:
        return rows[is_current_at(self.removed_at[rows], self.update)] if self.removed_count else rows

    def tail_rows(self, scopes: Collection[int], pks: Pks | None) -> Pks | None:
        """The tail's rows in the same way; `None` for none."""
        rows = self.tail.rows_of(scopes)
        if rows is None:
            return None
        rows = rows[is_current_at(self.tail.removed_at[rows], self.update)]
        return rows if pks is None else rows[np.isin(self.tail.pks[rows], pks)]

    def find(self, pks: Pks) -> tuple[Pks, Pks]:
        """The row of each memory in the segment, and in the tail; -1 where it has none there, or it has gone."""
        rows = self.segment.catalogue.find(pks)
        if self.removed_count:
            present = np.flatnonzero(rows >= 0)
            rows[present[~is_current_at(self.removed_at[rows[present]], self.update)]] = -1
        newer = np.full(len(pks), -1, np.int64)
        if self.tail.count:
            missing = np.flatnonzero(rows < 0)
            newer[missing] = [self.tail.find(pk) for pk in pks[missing].tolist()]
            there = missing[newer[missing] >= 0]
            newer[there[~is_current_at(self.tail.removed_at[newer[there]], self.update)]] = -1
        return rows, newer

    def values_of(self, pks: Pks, shape: tuple[int, ...], read: Callable[[Vectors, Pks], Vectors]) -> Vectors:
        """A value of each memory that *read* makes of vectors and rows; NaN where there is none."""
        rows, newer = self.find(pks)
        there = rows[rows >= 0]
        self.segment.rows.check(there)
        if len(there) == len(pks):
            return read(self.segment.rows.vectors, there)
        values = np.full((len(pks), *shape), np.nan, np.float32)
        values[rows >= 0] = read(self.segment.rows.vectors, there)
        values[newer >= 0] = read(self.tail.vectors, newer[newer >= 0])
        return values

    def pks(self) -> Pks:
        kept = self.segment.catalogue.pks[is_current_at(self.removed_at, self.update)]
        return np.sort(np.concatenate([kept, self.tail.pks[self._tail_rows()]]))

    def merged(self, most: int) -> tuple[Catalogue, Iterator[Vectors]]:
        """All of it in the order of a segment: which memory will lie in which row, and the vectors, so many rows at a time."""
        kept = np.flatnonzero(is_current_at(self.removed_at, self.update))
        catalogue, newer = self.segment.catalogue, self._tail_rows()
        pks = np.concatenate([catalogue.pks[kept], self.tail.pks[newer]])
        scopes = np.concatenate([catalogue.scopes_of(kept), self.tail.scopes[newer]])
        order = np.lexsort((pks, scopes))
        sources = np.concatenate([kept, -1 - newer])[order]  # below 0: in the tail
        blocks = (self._read(sources[start : start + most]) for start in range(0, len(sources), most))
        return Catalogue.of(pks[order], scopes[order]), blocks

    def in_memory(self) -> Segment:
        """All of it as one segment in this process."""
        catalogue, blocks = self.merged(_TOGETHER)
        vectors = np.empty((self.count, self.tail.vectors.shape[1]), np.float32)
        for number, block in enumerate(blocks):
            vectors[number * _TOGETHER : (number + 1) * _TOGETHER] = block
        return Segment(LoadedRows(vectors), catalogue)

    def closed(self) -> Contents:
        """The same without the segment's vectors, hence without the file that they may lie in."""
        return replace(self, segment=Segment(ClosedRows(self.segment.rows.vectors[:0].copy()), self.segment.catalogue))

    def _read(self, sources: Pks) -> Vectors:
        taken = np.empty((len(sources), self.tail.vectors.shape[1]), np.float32)
        old = sources >= 0
        self.segment.rows.check(sources[old])
        taken[old], taken[~old] = self.segment.rows.vectors[sources[old]], self.tail.vectors[-1 - sources[~old]]
        return taken

    def _tail_rows(self) -> Pks:
        return np.flatnonzero(is_current_at(self.tail.removed_at[: self.tail.count], self.update))


_FEW: Final = 256  # so many are sorted faster than chosen from
_Result = TypeVar("_Result")


class ExactIndex:
    """Exact search in numpy within scopes: cheap changes by one thread at a time, searches by any number of threads.

    An update that holds NaN, another length or a memory twice is refused whole.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions: Final = dimensions
        self._mend: Callable[[], object] | None = None
        # Contract: readers take this once, and look at nothing else; the writer puts another one in its place.
        # `test_a_search_sees_an_update_whole_or_not_at_all`
        self.contents = Contents.of(Segment.of(Batch.empty(dimensions)))

    def __len__(self) -> int:
        return self.contents.count

    def update(self, batch: Batch) -> None:
        check_batch(batch, self.dimensions)
        self.contents = self.contents.after(batch)

    def adopt(self, batch: Batch) -> None:
        """Hold the rows of *batch* and nothing else; its arrays must not be written to from then on."""
        check_batch(batch, self.dimensions)
        self.hold(Contents.of(Segment.of(batch)))

    def hold(self, contents: Contents, mend: Callable[[], object] | None = None) -> None:
        """Hold this and nothing else; a reader that finds it damaged calls *mend*, which holds something else, or raises."""
        self._mend, self.contents = mend or self._mend, contents

    def search(
        self, query: Vectors, k: int, *, scopes: Collection[int], pks: Pks | None = None, ordered: bool = True
    ) -> Nearest:
        query = check_query(query, self.dimensions)
        candidates, scores = self._read(lambda contents: self._compared(contents, query, scopes, pks))
        if k < len(candidates) > _FEW:
            least = np.partition(scores, len(scores) - k)[len(scores) - k]
            kept = scores >= least  # every tie with the last place, so that the lower pk wins it
            candidates, scores = candidates[kept], scores[kept]
        if not ordered and len(candidates) <= k:
            return Nearest(candidates, scores)
        order = np.lexsort((candidates, -scores))[:k]
        return Nearest(candidates[order], scores[order])

    def scores(self, query: Vectors, pks: Pks) -> Scores:
        query = check_query(query, self.dimensions)
        return self._read(
            lambda contents: contents.values_of(pks, (), lambda vectors, rows: self._products(query, vectors, rows))
        )

    def vectors(self, pks: Pks) -> Vectors:
        return self._read(
            lambda contents: contents.values_of(pks, (self.dimensions,), lambda vectors, rows: vectors[rows])
        )

    def pks(self) -> Pks:
        return self.contents.pks()

    def scopes_of(self, pks: Pks) -> Pks:
        contents = self.contents
        rows, newer = contents.find(pks)
        scopes = np.full(len(pks), -1, np.int64)
        scopes[rows >= 0] = contents.segment.catalogue.scopes_of(rows[rows >= 0])
        scopes[newer >= 0] = contents.tail.scopes[newer[newer >= 0]]
        return scopes

    def _read(self, read: Callable[[Contents], _Result]) -> _Result:
        while True:
            contents = self.contents
            try:
                return read(contents)
            except SegmentError:
                if self._mend is None:
                    raise
                if contents.segment is self.contents.segment:  # else another thread has replaced it
                    self._mend()

    def _compared(
        self, contents: Contents, query: Vectors, scopes: Collection[int], pks: Pks | None
    ) -> tuple[Pks, Scores]:
        segment, tail = contents.segment, contents.tail
        rows, newer = contents.rows(scopes, pks), contents.tail_rows(scopes, pks)
        segment.rows.check(rows)
        candidates, scores = segment.catalogue.pks[rows], self._products(query, segment.rows.vectors, rows)
        if newer is None or not len(newer):
            return candidates, scores
        more = self._products(query, tail.vectors, newer)
        return np.concatenate([candidates, tail.pks[newer]]), np.concatenate([scores, more])

    def _products(self, query: Vectors, vectors: Vectors, rows: Where) -> Scores:
        return cosines(vectors[rows], query)
