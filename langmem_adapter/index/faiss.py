"""The default index: FAISS' inner-product kernel over one block of float32 rows.

Searched exactly, over the rows of the scopes in question and no others: within a scope of a thousand among a million
memories a graph search (HNSW) with a filter finds one in twenty, an exact one takes a fraction of a millisecond. Rows are
overwritten in place and a deleted row is filled with the last one, because FAISS' own `remove_ids` moves all of them. Rows
that lie sorted by scope, as they do after loading and after `compact`, are read like one small matrix.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, TypeVar

import faiss
import numpy as np

from langmem_adapter.index.base import Batch, Found, Pks, Scores, Vectors
from langmem_adapter.index.checks import check_batch, check_dimensions, check_k, check_query
from langmem_adapter.index.lock import ReadWriteLock
from langmem_adapter.index.slots import PkSlots, ScopeSlots, Where

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

__all__ = ["FaissIndex"]

_Number = TypeVar("_Number", bound=np.generic)

_FREE: Final = -1
_SPARE: Final = 4  # of so many slots one is taken: the memory of the others is given back
_LEAST: Final = 1024
_GROWTH: Final = (
    32  # grows by so small a part at a time: little memory lies idle, and large blocks are remapped, not copied
)
_STRAYS: Final = 10  # of so many rows one is out of order: time to compact
_FEW_STRAYS: Final = 8192
_FEW: Final = 256  # so many are sorted faster than chosen from
_OURS: Final = 2  # references to an array that only an attribute holds, while they are counted
_STEP: Final = 2048  # rows put in order under one lock: some milliseconds


class FaissIndex:
    """Exact search within scopes at memory speed, cheap changes, any number of threads.

    Args:
        dimensions: Length of the vectors.

    Raises:
        InvalidInputError: *dimensions* is no positive `int`.

    Example:
        >>> index = FaissIndex(2)
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
        self._lock = ReadWriteLock()
        self._empty()

    @property
    def dimensions(self) -> int:
        """Length of its vectors."""
        return self._dimensions

    def __len__(self) -> int:
        """How many vectors it holds."""
        return self._count

    # ── searching ───────────────────────────────────────────────────────────────────────────────────────────────────

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
        query, k = check_query(query, self._dimensions), check_k(k)
        with self._lock.reading():
            where = self._candidates(scopes, pks)
            return _best(self._pks[where], self._products(query, where), k, ordered=ordered)

    def scores(self, query: Vectors, pks: Pks) -> Scores:
        """Cosines of the query with the given memories; NaN where the index has none."""
        query = check_query(query, self._dimensions)
        result = np.full(len(pks), np.nan, np.float32)
        with self._lock.reading():
            slots = self._by_pk.find(pks, self._pks)
            result[slots >= 0] = self._products(query, slots[slots >= 0])
        return result

    def vectors(self, pks: Pks) -> Vectors:
        """The stored vectors of the given memories; rows of NaN where the index has none."""
        with self._lock.reading():
            slots = self._by_pk.find(pks, self._pks)
            if (slots >= 0).all():
                return self._vectors[slots]
            result = np.full((len(pks), self._dimensions), np.nan, np.float32)
            result[slots >= 0] = self._vectors[slots[slots >= 0]]
        return result

    def pks(self) -> Pks:
        """Every pk it holds, ascending."""
        with self._lock.reading():
            return np.sort(self._pks[: self._count])

    def scopes_of(self, pks: Pks) -> Pks:
        """The scope id of each of the given memories; -1 where the index has none."""
        with self._lock.reading():
            slots = self._by_pk.find(pks, self._pks)
            return np.where(slots >= 0, self._scopes[slots], -1) if self._count else slots

    def _candidates(self, scopes: Collection[int], pks: Pks | None) -> Where:
        if pks is None:
            return self._by_scope.find(scopes, self._scopes)
        slots = self._by_pk.find(np.unique(pks), self._pks)
        slots = slots[slots >= 0]
        return slots[np.isin(self._scopes[slots], list(scopes))]

    def _products(self, query: Vectors, where: Where) -> Scores:
        # Row by row with one kernel: equal vectors get equal scores wherever they lie, so that ties are ties. (FAISS' two
        # entries share it; BLAS computes a matrix's last rows in another way than the others.)
        if isinstance(where, slice):
            return self._products_together(query, self._vectors[where])
        return self._products_scattered(query, np.ascontiguousarray(where))

    def _products_together(self, query: Vectors, rows: Vectors) -> Scores:
        result = np.empty(len(rows), np.float32)
        if len(rows):
            faiss.fvec_inner_products_ny(  # type: ignore[attr-defined]  # FAISS' own stubs leave it out
                _pointer(result), _pointer(query), _pointer(rows), self._dimensions, len(rows)
            )
        return result

    def _products_scattered(self, query: Vectors, slots: Pks) -> Scores:
        result = np.empty(len(slots), np.float32)
        if len(slots):
            # Two OpenMP threads that wait for each other make one query ten times slower on a busy machine. FAISS keeps the
            # number per calling thread; the caller's own is put back.
            before = faiss.omp_get_max_threads()
            faiss.omp_set_num_threads(1)
            try:
                faiss.fvec_inner_products_by_idx(  # type: ignore[attr-defined]  # as above
                    _pointer(result),
                    _pointer(query),
                    _pointer(self._vectors),
                    _pointer(slots),
                    self._dimensions,
                    1,
                    len(slots),
                )
            finally:
                faiss.omp_set_num_threads(before)
        return result

    # ── changing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def update(self, batch: Batch) -> None:
        """Apply net changes; a search running meanwhile sees all of them or none."""
        check_batch(batch, self._dimensions)
        with self._lock.writing():
            self._own()
            if len(batch.pks):
                self._reserve(self._count + len(batch.pks))
                self._put(batch)
            if len(batch.gone):
                self._remove(batch.gone)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock.writing():
            self._empty()

    def adopt(self, batch: Batch) -> None:
        """Hold what *batch* holds and nothing else, in its own arrays. Sorted by scope they are best.

        Whoever keeps them, or a view of them, must not write to them; the index then goes on with a copy when it changes first.
        """
        check_batch(batch, self._dimensions)
        with self._lock.writing():
            self._pks, self._scopes = _owned(batch.pks), _owned(batch.scopes)
            self._vectors = _owned(batch.vectors)
            self._count, self._strays, self._adopted = len(batch.pks), 0, True
            self._sort_hints()

    @property
    def fragmented(self) -> bool:
        """Whether so many rows lie apart from their scope that `compact` pays."""
        return self._strays > max(_FEW_STRAYS, self._count // _STRAYS)

    def compact(self) -> Iterator[int]:
        """Put the rows of each scope beside each other, in steps; see `Compactable.compact`."""
        with self._lock.reading():
            pks, scopes = self._pks[: self._count].copy(), self._scopes[: self._count].copy()
            strays = self._strays
        order, placed = pks[np.lexsort((pks, scopes))], 0
        for start in range(0, len(order), _STEP):
            with self._lock.writing():
                self._own()
                placed += self._gather(order[start : start + _STEP], placed)
            yield placed
        with self._lock.writing():
            self._strays -= strays  # those that came meanwhile stay out of order
            self._sort_hints()

    def _gather(self, pks: Pks, first: int) -> int:
        """Put these memories into the slots from *first* on, and what was there where they were; tell how many."""
        slots = self._by_pk.find(pks, self._pks)
        slots = slots[slots >= first]  # not what was deleted meanwhile, or has moved among the rows in order
        targets = np.arange(first, first + len(slots))
        if not np.array_equal(slots, targets):
            displaced, freed = np.setdiff1d(targets, slots), np.setdiff1d(slots, targets)
            for array in (self._vectors, self._pks, self._scopes):
                moving = array[slots]
                array[freed] = array[displaced]
                array[targets] = moving
            self._note(np.concatenate([targets, freed]))
        return len(slots)

    def _own(self) -> None:
        # Contract: before arrays that came with a batch are written to or resized, nobody else refers to them or to a view of
        # them (a view counts as a reference to what it looks into). `test_views_of_a_batch_outlive_its_adoption`
        if self._adopted:
            for name in ("_vectors", "_pks", "_scopes"):
                if sys.getrefcount(getattr(self, name)) > _OURS:
                    setattr(self, name, getattr(self, name).copy())
            self._adopted = False

    def _empty(self) -> None:
        self._count, self._strays, self._adopted = 0, 0, False
        self._pks, self._scopes = np.empty(0, np.int64), np.empty(0, np.int64)
        self._vectors = np.empty((0, self._dimensions), np.float32)
        self._by_pk, self._by_scope = PkSlots(), ScopeSlots()

    def _put(self, batch: Batch) -> None:
        slots = self._by_pk.find(batch.pks, self._pks)
        new = np.flatnonzero(slots < 0)
        # Memories of a scope that come together lie together, in order: the processor reads ahead.
        new = new[np.lexsort((batch.pks[new], batch.scopes[new]))]
        slots[new] = np.arange(self._count, self._count + len(new))
        self._vectors[slots] = batch.vectors
        self._pks[slots], self._scopes[slots] = batch.pks, batch.scopes
        self._count += len(new)
        self._strays += len(new)
        self._note(slots)

    def _remove(self, pks: Pks) -> None:
        slots = self._by_pk.find(pks, self._pks)
        slots = slots[slots >= 0]
        old, self._count = self._count, self._count - len(slots)
        holes = slots[slots < self._count]
        movers = np.setdiff1d(np.arange(self._count, old), slots)
        for array in (self._vectors, self._pks, self._scopes):
            array[holes] = array[movers]
        self._vectors[self._count : old] = 0  # what is deleted does not linger in memory
        self._pks[self._count : old] = self._scopes[self._count : old] = _FREE
        self._strays += len(holes)
        self._note(holes)
        if self._count < len(self._pks) // _SPARE > _LEAST:
            self._resize(self._count)
            self._sort_hints()

    def _note(self, slots: Pks) -> None:
        self._by_pk.note(slots, self._pks, self._count)
        self._by_scope.note(slots, self._scopes, self._count)

    def _sort_hints(self) -> None:
        self._by_pk, self._by_scope = PkSlots(), ScopeSlots()
        self._by_pk.sort(self._pks[: self._count])
        self._by_scope.sort(self._scopes[: self._count])

    def _reserve(self, needed: int) -> None:
        capacity = len(self._pks)
        if needed > capacity:
            self._resize(max(needed, capacity + max(capacity // _GROWTH, _LEAST)))

    def _resize(self, capacity: int) -> None:
        # Contract: in place, so that a large block is remapped and never stands twice in memory. Nobody else refers to the
        # arrays: views of them do not outlive the lock, and those of a batch are copied before (`_own`, with its test).
        for array in (self._vectors, self._scopes, self._pks):
            array.resize((capacity, *array.shape[1:]), refcheck=False)
        self._pks[self._count :] = self._scopes[self._count :] = _FREE


def _owned(array: NDArray[_Number]) -> NDArray[_Number]:
    """The array, or a copy if it is only a view of somebody else's memory and could not be resized."""
    return array if array.flags.owndata and array.flags.c_contiguous and array.flags.writeable else array.copy()


def _pointer(array: NDArray[Any]) -> Any:
    """For FAISS: the bare address, which keeps no array alive; name the array as long as it is used."""
    return faiss.swig_ptr(array)


def _best(pks: Pks, scores: Scores, k: int, *, ordered: bool) -> Found:
    if k < len(pks) > _FEW:
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        kept = scores >= least  # every tie with the last place, so that the lower pk wins it
        pks, scores = pks[kept], scores[kept]
    if not ordered and len(pks) <= k:
        return Found(pks.copy(), scores)  # a view of the index must not outlive the lock
    order = np.lexsort((pks, -scores))[:k]
    return Found(pks[order], scores[order])
