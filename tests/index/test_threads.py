"""Several threads on one index: nobody reads a row while it moves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any, Literal, get_args

import faiss
import numpy as np
import pytest

from langmem_adapter.index.base import Batch
from langmem_adapter.index.indexer import open_index
from langmem_adapter.index.vectorstore import ReadWriteLock

if TYPE_CHECKING:
    from langmem_adapter.index.base import Vectors

D = 64
MANY = 3000
ROUNDS = 300
Kind = Literal["faiss", "exact"]


def vectors_of(pks: np.ndarray) -> Vectors:
    """A vector that names its memory and scope: any mixture of two rows shows."""
    vectors = np.zeros((len(pks), D), np.float32)
    vectors[:, 0], vectors[:, 1], vectors[:, 2:] = pks, pks % 5, (pks % 97)[:, None]
    return vectors


def batch(pks: np.ndarray, gone: np.ndarray) -> Batch:
    return Batch(pks, pks % 5, vectors_of(pks), gone)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_searches_beside_a_writer_never_see_a_memory_with_the_vector_of_another(kind: Kind) -> None:
    index = open_index(kind, D)
    index.update(batch(np.arange(0, MANY, 2), np.empty(0, np.int64)))

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        first = np.eye(1, D, dtype=np.float32)[0]  # its product with a vector is the memory's own number
        for _ in range(ROUNDS):
            scope = int(rng.integers(5))
            found = index.search(first, 50, scopes=[scope])
            assert (found.pks % 5 == scope).all()
            np.testing.assert_array_equal(found.scores, found.pks)
            asked = rng.integers(0, MANY, 40)
            got = index.vectors(asked)
            there = ~np.isnan(got[:, 0])
            np.testing.assert_array_equal(got[there], vectors_of(asked[there]))

    def write() -> None:
        rng = np.random.default_rng(99)
        for _ in range(ROUNDS):
            pks = rng.choice(MANY, int(rng.integers(1, 400)), replace=False)
            half = len(pks) // 2
            index.update(batch(pks[:half], pks[half:]))

    with ThreadPoolExecutor(5) as pool:
        for future in [*(pool.submit(read, seed) for seed in range(4)), pool.submit(write)]:
            future.result()
    pks = index.pks()
    np.testing.assert_array_equal(index.vectors(pks), vectors_of(pks))


def test_a_search_uses_one_thread_and_leaves_the_callers_setting_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    used, compare = list[int](), faiss.fvec_inner_products_by_idx  # type: ignore[attr-defined]  # not in FAISS' own stubs

    def count(*arguments: Any) -> None:
        used.append(faiss.omp_get_max_threads())
        compare(*arguments)

    monkeypatch.setattr(faiss, "fvec_inner_products_by_idx", count)
    index = open_index("faiss", D)
    index.update(batch(np.arange(10), np.empty(0, np.int64)))
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    try:
        index.search(np.ones(D, np.float32), 3, scopes=[1])
        assert (used, faiss.omp_get_max_threads()) == ([1], 2)
    finally:
        faiss.omp_set_num_threads(before)


class TestReadWriteLock:
    def test_readers_share_it(self) -> None:
        lock, both = ReadWriteLock(), threading.Barrier(2, timeout=5)

        def read() -> None:
            with lock.reading():
                both.wait()

        with ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(read), pool.submit(read)]:
                future.result(5)

    def test_a_waiting_writer_goes_before_new_readers(self) -> None:
        lock, order = ReadWriteLock(), []

        def write() -> None:
            with lock.writing():
                order.append("writer")

        def read() -> None:
            with lock.reading():
                order.append("reader")

        with ThreadPoolExecutor(2) as pool:
            with lock.reading():
                writer = pool.submit(write)
                with pytest.raises(FutureTimeoutError):
                    writer.result(0.1)
                reader = pool.submit(read)
                with pytest.raises(FutureTimeoutError):
                    reader.result(0.1)
            writer.result(5)
            reader.result(5)
        assert order == ["writer", "reader"]
