"""A segment: vectors that never change, sorted by scope and within it by pk, in this process or in a file of FAISS.

The file is the one that `faiss.write_index` writes of an `IndexFlatIP`: anybody can read it with `faiss.read_index`. It is
mapped read-only, so that processes share its pages, and only what is searched is read. FAISS' own mapping is not used (it
asks the kernel for random reads, which makes a cold scan ten times slower), nor FAISS' reader, which takes flipped bits for
data: each block of rows has a checksum, and is compared with it when it is touched for the first time.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import xxhash
from numpy.typing import NDArray

from langmem_adapter.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from langmem_adapter.index.base import Batch, Pks, Vectors

__all__ = [
    "HEADER",
    "Catalogue",
    "ClosedRows",
    "FileRows",
    "LoadedRows",
    "Segment",
    "SegmentError",
    "block_rows",
    "file_size",
    "header",
]

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
        """Of rows that are sorted by scope.

        Example:
            >>> Catalogue.of(np.array([7, 9, 8]), np.array([1, 1, 4])).starts.tolist()
            [0, 2, 3]
        """
        first = np.flatnonzero(np.concatenate([[True], scopes[1:] != scopes[:-1]])[: len(scopes)])
        order = np.argsort(pks, kind="stable")
        return cls(pks, scopes[first], np.append(first, len(pks)), pks[order], order.astype(np.uint32))

    def __len__(self) -> int:
        """How many rows."""
        return len(self.pks)

    def find(self, pks: Pks) -> Pks:
        """The row of each pk, -1 where there is none."""
        if not len(self.sorted_pks):
            return np.full(len(pks), -1, np.int64)
        places = self.sorted_pks.searchsorted(pks)
        places[places == len(self.sorted_pks)] = 0
        found = self.rows[places].astype(np.int64)
        found[self.sorted_pks[places] != pks] = -1
        return found

    def range_of(self, scope: int) -> slice:
        """The rows of one scope."""
        place = int(self.scopes.searchsorted(scope))
        if place == len(self.scopes) or self.scopes[place] != scope:
            return slice(0, 0)
        return slice(int(self.starts[place]), int(self.starts[place + 1]))

    def rows_of(self, scopes: Collection[int]) -> Pks:
        """The rows of several scopes, ascending."""
        wanted = np.unique(np.fromiter(scopes, np.int64, len(scopes)))
        places = self.scopes.searchsorted(wanted)
        known = places < len(self.scopes)
        known[known] = self.scopes[places[known]] == wanted[known]
        places = places[known]
        starts, lengths = self.starts[places], self.starts[places + 1] - self.starts[places]
        before = np.cumsum(lengths) - lengths
        rows: Pks = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
        return rows

    def scopes_of(self, rows: Pks) -> Pks:
        """The scope of each of some rows."""
        found: Pks = self.scopes[self.starts.searchsorted(rows, side="right") - 1]
        return found


class LoadedRows:
    """Vectors in this process's memory: (n, dimensions), float32, C-contiguous; nobody may write to them from now on."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors: Final = vectors

    def check(self, rows: slice | Pks) -> None:
        """Make sure that these rows are what was written.

        Raises:
            SegmentError: They are not.
        """

    @property
    def whole(self) -> bool:
        """Whether all of them can be read without harm."""
        return True


class ClosedRows(LoadedRows):
    """What a closed index holds instead of vectors: whoever reads on is told so."""

    def check(self, rows: slice | Pks) -> None:  # noqa: ARG002 - see `LoadedRows.check`
        """Refuse it."""
        raise StorageError("this memory is closed; open it again")


class FileRows(LoadedRows):
    """Vectors in a mapped file; it stays open as long as this object lives.

    Each block is compared with its checksum when it is touched for the first time, and not again: a block that is overwritten
    in place after that is not noticed. *descriptor* belongs to this object from now on.

    Raises:
        SegmentError: The file has another size or header.
        OSError: It cannot be mapped.
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
        """Compare the blocks of these rows that nobody has compared yet."""
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

    def __len__(self) -> int:
        """How many rows."""
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
