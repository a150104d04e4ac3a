"""The default index: FAISS' inner-product kernel over one block of float32 rows.

Searched exactly, over the rows of the scopes in question and no others: within a scope of a thousand among a million
memories a graph search (HNSW) with a filter finds one in twenty, an exact one takes a fraction of a millisecond. Rows are
overwritten in place and a deleted row is filled with the last one, because FAISS' own `remove_ids` moves all of them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import faiss
import numpy as np

from langmem_adapter.index.base import Batch, Found, Pks, Scores, Vectors
from langmem_adapter.index.checks import check_batch, check_dimensions, check_k, check_query
from langmem_adapter.index.lock import ReadWriteLock
from langmem_adapter.index.slots import PkSlots, ScopeSlots

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["FaissIndex"]

_FREE: Final = -1
_SPARE: Final = 4  # of so many slots one is taken: the memory of the others is given back
_LEAST: Final = 1024


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

    def search(self, query: Vectors, k: int, *, scopes: Collection[int], pks: Pks | None = None) -> Found:
        """The *k* nearest memories within *scopes*; see `VectorIndex.search`.

        Raises:
            EmbeddingMismatchError: The query has another length.
            InvalidInputError: The query is not finite float32, or *k* is below 1.
        """
        query, k = check_query(query, self._dimensions), check_k(k)
        with self._lock.reading():
            slots = self._candidates(scopes, pks)
            found, scores = self._pks[slots], self._products(query, slots)
        return _best(found, scores, k)

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
        result = np.full((len(pks), self._dimensions), np.nan, np.float32)
        with self._lock.reading():
            slots = self._by_pk.find(pks, self._pks)
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

    def _candidates(self, scopes: Collection[int], pks: Pks | None) -> Pks:
        if pks is None:
            return self._by_scope.find(scopes, self._scopes)
        slots = self._by_pk.find(np.unique(pks), self._pks)
        slots = slots[slots >= 0]
        return slots[np.isin(self._scopes[slots], list(scopes))]

    def _products(self, query: Vectors, slots: Pks) -> Scores:
        # Row by row with one kernel: equal vectors get equal scores wherever they lie, so that ties are ties.
        result = np.empty(len(slots), np.float32)
        slots = np.ascontiguousarray(slots)  # named: FAISS gets a bare pointer, which keeps no array alive
        if len(slots):
            with _one_thread():
                faiss.fvec_inner_products_by_idx(  # type: ignore[attr-defined]  # FAISS' own stubs leave it out
                    faiss.swig_ptr(result),
                    faiss.swig_ptr(query),
                    faiss.swig_ptr(self._vectors),
                    faiss.swig_ptr(slots),
                    self._dimensions,
                    1,
                    len(slots),
                )
        return result

    # ── changing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def update(self, batch: Batch) -> None:
        """Apply net changes; a search running meanwhile sees all of them or none.

        Raises:
            EmbeddingMismatchError: The vectors have another length.
            InvalidInputError: The batch is not what `Batch` promises; nothing was changed.
        """
        check_batch(batch, self._dimensions)
        with self._lock.writing():
            if len(batch.pks):
                self._reserve(self._count + len(batch.pks))
                self._put(batch)
            if len(batch.gone):
                self._remove(batch.gone)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock.writing():
            self._empty()

    def _empty(self) -> None:
        self._count = 0
        self._pks = self._scopes = np.empty(0, np.int64)
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
        self._note(holes)
        if self._count < len(self._pks) // _SPARE > _LEAST:
            self._move(self._count)
            self._by_pk, self._by_scope = PkSlots(), ScopeSlots()
            self._note(np.arange(self._count))

    def _note(self, slots: Pks) -> None:
        self._by_pk.note(slots, self._pks, self._count)
        self._by_scope.note(slots, self._scopes, self._count)

    def _reserve(self, needed: int) -> None:
        capacity = len(self._pks)
        if needed > capacity:
            # By half at a time: amortised constant, and pages that were never written take no memory.
            self._move(max(needed, capacity + capacity // 2))

    def _move(self, capacity: int) -> None:
        pks, scopes = np.full(capacity, _FREE, np.int64), np.full(capacity, _FREE, np.int64)
        vectors = np.empty((capacity, self._dimensions), np.float32)
        for new, old in ((pks, self._pks), (scopes, self._scopes), (vectors, self._vectors)):
            new[: self._count] = old[: self._count]
        self._pks, self._scopes, self._vectors = pks, scopes, vectors


@contextmanager
def _one_thread() -> Iterator[None]:
    # Two OpenMP threads that wait for each other make one query ten times slower on a busy machine. FAISS keeps the number
    # per calling thread; the caller's own is put back.
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _best(pks: Pks, scores: Scores, k: int) -> Found:
    if k < len(pks):
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        kept = scores >= least  # every tie with the last place, so that the lower pk wins it
        pks, scores = pks[kept], scores[kept]
    order = np.lexsort((pks, -scores))[:k]
    return Found(pks[order], scores[order])
