"""The FAISS index, the default: exact search by FAISS' inner-product kernels over a segment and a tail of later rows.

Only rows of the searched scopes are compared; a scope is a range of the segment. Within a scope of a thousand among a million
memories a graph search (HNSW) with a filter finds one in twenty. Segment, tail and removed rows are published together as one
state, so readers need no lock, and no native code reads rows that move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import faiss
import numpy as np

from langmem_adapter.index.segment import ExactIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langmem_adapter.index.base import Scores, Vectors
    from langmem_adapter.index.segment import Where


class FaissIndex(ExactIndex):
    """Exact search at memory speed."""

    def _products(self, query: Vectors, vectors: Vectors, rows: Where) -> Scores:
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
            # Contract: the caller's number of OpenMP threads stays as it was; FAISS keeps it per calling thread. For us it is
            # one: two that wait for each other make a query ten times slower on a busy machine.
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
