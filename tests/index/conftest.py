"""Vectors, batches and databases for the tests of the indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pytest

from langmem_adapter.index.base import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langmem_adapter.index.base import Pks, Vectors


class MakeBatch(Protocol):
    def __call__(
        self, pks: Iterable[int], scopes: Iterable[int], vectors: Vectors, gone: Iterable[int] = ()
    ) -> Batch: ...


class MakeVectors(Protocol):
    def __call__(self, count: int, dimensions: int, seed: int = 0) -> Vectors: ...


def _pks(numbers: Iterable[int]) -> Pks:
    return np.fromiter(numbers, np.int64)


@pytest.fixture(scope="session")
def make_batch() -> MakeBatch:
    def make(pks: Iterable[int], scopes: Iterable[int], vectors: Vectors, gone: Iterable[int] = ()) -> Batch:
        return Batch(_pks(pks), _pks(scopes), vectors, _pks(gone))

    return make


@pytest.fixture(scope="session")
def make_vectors() -> MakeVectors:
    def make(count: int, dimensions: int, seed: int = 0) -> Vectors:
        plain = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
        unit: Vectors = plain / np.linalg.norm(plain, axis=1, keepdims=True)
        return unit

    return make
