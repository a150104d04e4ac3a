"""The FAISS index, the default: exact search by FAISS' inner-product kernels over a segment and a tail of later rows.

Only rows of the searched scopes are compared; a scope is a range of the segment. Within a scope of a thousand among a million
memories a graph search (HNSW) with a filter finds one in twenty. Segment, tail and removed rows are published together as one
state, so readers need no lock, and no native code reads rows that move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import faiss
import numpy as np

from langmem_adapter.index.base import Batch, Nearest, Pks, Scores, Vectors, check_batch, check_query
from langmem_adapter.index.segment import Contents, Segment, SegmentError, Where

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

_Result = TypeVar("_Result")

_FEW: Final = 256  # so many are sorted faster than chosen from


class FaissIndex:
    """Exact search within scopes at memory speed, cheap changes, any number of threads."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions: Final = dimensions
        self._mend: Callable[[], object] | None = None
        # Contract: readers take this once, and look at nothing else; the writer puts another one in its place.
        # `test_a_search_sees_an_update_whole_or_not_at_all`
        self._contents = Contents.of(Segment.of(Batch.empty(dimensions)))

    @property
    def contents(self) -> Contents:
        """What it holds now."""
        return self._contents

    def __len__(self) -> int:
        """How many vectors it holds."""
        return self._contents.count

    # ── searching ───────────────────────────────────────────────────────────────────────────────────────────────────

    def search(
        self, query: Vectors, k: int, *, scopes: Collection[int], pks: Pks | None = None, ordered: bool = True
    ) -> Nearest:
        """The *k* nearest memories within *scopes*; see `VectorView.search`."""
        query = check_query(query, self.dimensions)
        pks_in_scopes, scores = self._read(lambda contents: _compared(contents, query, scopes, pks))
        return _best(pks_in_scopes, scores, k, ordered=ordered)

    def scores(self, query: Vectors, pks: Pks) -> Scores:
        """Cosines of the query with the given memories; NaN where the index has none."""
        query = check_query(query, self.dimensions)
        return self._read(lambda contents: _scores(contents, query, pks))

    def vectors(self, pks: Pks) -> Vectors:
        """The stored vectors of the given memories; rows of NaN where the index has none."""
        return self._read(lambda contents: _vectors(contents, pks))

    def pks(self) -> Pks:
        """Every pk it holds, ascending."""
        return self._contents.pks()

    def scopes_of(self, pks: Pks) -> Pks:
        """The scope id of each of the given memories; -1 where the index has none."""
        contents = self._contents
        rows, newer = contents.find(pks)
        scopes = np.full(len(pks), -1, np.int64)
        scopes[rows >= 0] = contents.segment.catalogue.scopes_of(rows[rows >= 0])
        scopes[newer >= 0] = contents.tail.scopes[newer[newer >= 0]]
        return scopes

    def _read(self, read: Callable[[Contents], _Result]) -> _Result:
        while True:
            contents = self._contents
            try:
                return read(contents)
            except SegmentError:
                if self._mend is None:
                    raise
                if contents.segment is self._contents.segment:  # else another thread has replaced it
                    self._mend()

    # ── changing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def update(self, batch: Batch) -> None:
        """Apply net changes; a search running meanwhile sees all of them or none."""
        check_batch(batch, self.dimensions)
        self._contents = self._contents.after(batch)

    def adopt(self, batch: Batch) -> None:
        """Hold what *batch* holds and nothing else; see `Segment.of`."""
        check_batch(batch, self.dimensions)
        self.hold(Contents.of(Segment.of(batch)))

    def hold(self, contents: Contents, mend: Callable[[], object] | None = None) -> None:
        """Hold this and nothing else; see `Mergeable.hold`."""
        self._mend, self._contents = mend or self._mend, contents


def _compared(contents: Contents, query: Vectors, scopes: Collection[int], pks: Pks | None) -> tuple[Pks, Scores]:
    rows, newer = contents.rows(scopes, pks), contents.tail_rows(scopes, pks)
    contents.segment.rows.check(rows)
    pks_of_rows, scores = contents.segment.catalogue.pks[rows], _products(query, contents.segment.rows.vectors, rows)
    if newer is None or not len(newer):
        return pks_of_rows, scores
    more = _products(query, contents.tail.vectors, newer)
    return np.concatenate([pks_of_rows, contents.tail.pks[newer]]), np.concatenate([scores, more])


def _scores(contents: Contents, query: Vectors, pks: Pks) -> Scores:
    result = np.full(len(pks), np.nan, np.float32)
    rows, newer = contents.find(pks)
    there = rows[rows >= 0]
    contents.segment.rows.check(there)
    result[rows >= 0] = _products(query, contents.segment.rows.vectors, there)
    result[newer >= 0] = _products(query, contents.tail.vectors, newer[newer >= 0])
    return result


def _vectors(contents: Contents, pks: Pks) -> Vectors:
    rows, newer = contents.find(pks)
    there = rows[rows >= 0]
    contents.segment.rows.check(there)
    if len(there) == len(pks):
        return contents.segment.rows.vectors[there]
    result = np.full((len(pks), contents.segment.rows.vectors.shape[1]), np.nan, np.float32)
    result[rows >= 0] = contents.segment.rows.vectors[there]
    result[newer >= 0] = contents.tail.vectors[newer[newer >= 0]]
    return result


def _products(query: Vectors, vectors: Vectors, rows: Where) -> Scores:
    # Row by row with one kernel: equal vectors get equal scores wherever they lie, so that ties are ties. (FAISS' two
    # entries share it; BLAS computes a matrix's last rows in another way than the others.)
    if isinstance(rows, slice):
        vectors = vectors[rows]
        result = np.empty(len(vectors), np.float32)
        if len(vectors):
            faiss.fvec_inner_products_ny(  # type: ignore[attr-defined]  # FAISS' own stubs leave it out
                _pointer(result), _pointer(query), _pointer(vectors), len(query), len(vectors)
            )
        return result
    rows, result = np.ascontiguousarray(rows), np.empty(len(rows), np.float32)
    if len(rows):
        # Contract: the caller's number of OpenMP threads stays as it was; FAISS keeps it per calling thread. For us it is one:
        # two that wait for each other make a query ten times slower on a busy machine.
        # `test_a_search_uses_one_thread_and_leaves_the_callers_setting_alone`
        before = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)
        try:
            faiss.fvec_inner_products_by_idx(  # type: ignore[attr-defined]  # as above
                _pointer(result), _pointer(query), _pointer(vectors), _pointer(rows), len(query), 1, len(rows)
            )
        finally:
            faiss.omp_set_num_threads(before)
    return result


def _pointer(array: NDArray[Any]) -> Any:
    """For FAISS: the bare address of an array that lies in one piece, and that the caller keeps alive until FAISS is done."""
    return faiss.swig_ptr(array)


def _best(pks: Pks, scores: Scores, k: int, *, ordered: bool) -> Nearest:
    if k < len(pks) > _FEW:
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        kept = scores >= least  # every tie with the last place, so that the lower pk wins it
        pks, scores = pks[kept], scores[kept]
    if not ordered and len(pks) <= k:
        return Nearest(pks, scores)
    order = np.lexsort((pks, -scores))[:k]
    return Nearest(pks[order], scores[order])
