"""Unit vectors of texts: cached, batched, checked."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings

from langmem_adapter.embedding.embedder import Embedder
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError
from langmem_adapter.providers import Limits
from langmem_adapter.testing import CountingEmbeddings
from tests.cases import each

TEXTS = ["Likes tea", "Has a dog", "Likes tea", "喜欢茶"]


class Fixed(Embeddings):
    """Returns what it was given, whatever it is asked."""

    def __init__(self, vectors: Any) -> None:
        self.vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:  # noqa: ARG002 - the interface
        return self.vectors  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> list[float]:  # noqa: ARG002 - the interface
        return self.vectors[0]  # type: ignore[no-any-return]


def counting(dimensions: int = 64) -> CountingEmbeddings:
    return CountingEmbeddings(HashEmbeddings(dimensions))


def test_each_distinct_text_is_embedded_once_in_one_call() -> None:
    embeddings = counting()
    embedder = Embedder(embeddings, dimensions=None)
    vectors = embedder.vectors(TEXTS)
    assert vectors.shape == (4, 64)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    assert np.array_equal(vectors[0], vectors[2])
    assert embeddings.documents == [["Likes tea", "Has a dog", "喜欢茶"]]


async def test_many_texts_are_embedded_in_calls_of_a_bounded_size() -> None:
    texts = [f"Owns boat number {number}" for number in range(600)]
    for mode in ("sync", "async"):
        embeddings = counting()
        embedder = Embedder(embeddings, dimensions=None, limits=Limits())
        vectors = embedder.vectors(texts) if mode == "sync" else await embedder.avectors(texts)
        assert [len(batch) for batch in embeddings.documents] == [256, 256, 88]
        assert np.array_equal(vectors, Embedder(HashEmbeddings(64), dimensions=None).vectors(texts))


def test_only_missing_texts_are_embedded() -> None:
    embeddings = counting()
    embedder = Embedder(embeddings, dimensions=None)
    first = embedder.vectors(TEXTS)
    again = embedder.vectors(["New", *TEXTS])
    assert np.array_equal(again[1:], first)
    assert embeddings.documents[1:] == [["New"]]


def test_queries_have_their_own_entries() -> None:
    embeddings = counting()
    embedder = Embedder(embeddings, dimensions=None)
    embedder.vectors(["Likes tea"])
    vector = embedder.query("Likes tea")
    assert np.array_equal(embedder.query("Likes tea"), vector)
    assert vector.shape == (64,)
    assert embeddings.queries == ["Likes tea"]
    assert embeddings.texts == 2


async def test_async_shares_the_cache() -> None:
    embeddings = counting()
    embedder = Embedder(embeddings, dimensions=None)
    vectors = await embedder.avectors(TEXTS)
    assert np.array_equal(vectors, embedder.vectors(TEXTS))
    assert np.array_equal(await embedder.aquery("tea"), embedder.query("tea"))
    assert embeddings.calls == 2


def test_no_texts_need_no_call() -> None:
    embeddings = counting()
    embedder = Embedder(embeddings, dimensions=None)
    assert embedder.vectors([]).shape == (0, 0)
    embedder.query("tea")
    assert embedder.vectors([]).shape == (0, 64)
    assert embeddings.documents == []


def test_the_cache_is_bounded_and_forgets_the_oldest() -> None:
    embeddings = counting()
    embedder = Embedder(embeddings, dimensions=None, cached=2)
    embedder.vectors(["a1", "b2"])
    embedder.vectors(["a1"])
    embedder.vectors(["c3"])
    embedder.vectors(["a1"])
    assert embeddings.texts == 3
    embedder.vectors(["b2"])
    assert embeddings.texts == 4


@given(
    st.lists(
        st.lists(st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-3), min_size=3, max_size=3), min_size=1, max_size=5
    )
)
def test_vectors_are_normalised(raw: list[list[float]]) -> None:
    vectors = Embedder(Fixed(raw), dimensions=None).vectors([str(number) for number in range(len(raw))])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_another_dimension_than_stored_names_the_fix() -> None:
    embedder = Embedder(counting(32), dimensions=64)
    with pytest.raises(EmbeddingMismatchError, match=r"32 dimensions, 64 were expected.*reindex"):
        embedder.vectors(["tea"])
    with pytest.raises(EmbeddingMismatchError, match="reindex"):
        embedder.query("tea")


def test_a_changing_dimension_is_noticed() -> None:
    fixed = Fixed([[1.0, 0.0]])
    embedder = Embedder(fixed, dimensions=None)
    embedder.vectors(["tea"])
    fixed.vectors = [[1.0, 0.0, 0.0]]
    with pytest.raises(EmbeddingMismatchError):
        embedder.vectors(["coffee"])


BAD: list[tuple[str, Any, str]] = [
    ("NaN", [[1.0, float("nan")]], "no usable vector.*'My long"),
    ("infinite", [[1.0, float("inf")]], "no usable vector"),
    ("zeros", [[0.0, 0.0]], "no usable vector"),
    ("too short for a float", [[5e-324, 5e-324]], "no usable vector"),
    ("too long for a float", [[1.7e308, 1.7e308]], "no usable vector"),
    ("an integer too large for a float", [[10**400, 1]], "numbers"),
    ("too few", [], "0 vectors for 1 texts"),
    ("too many", [[1.0], [1.0]], "2 vectors for 1 texts"),
    ("empty vector", [[]], "shape"),
    ("nested", [[[1.0, 0.0]]], "shape"),
    ("flat", [1.0], "shape"),
    ("words", [["a", "b"]], "numbers"),
    ("None", [[None, 1.0]], "numbers|no usable vector"),
]


@each(("vectors", "problem"), [row[1:] for row in BAD])
def test_what_is_no_vector_is_refused_with_the_texts_beginning(vectors: Any, problem: str) -> None:
    text = "My long story begins " + "x" * 1000
    with pytest.raises(InvalidInputError, match=problem) as caught:
        Embedder(Fixed(vectors), dimensions=None).vectors([text])
    assert "My long story begins" in str(caught.value)
    assert len(str(caught.value)) < 400


@each("number", [1e200, 3.4e38, 1e-200])
def test_vectors_of_huge_and_tiny_numbers_become_unit_vectors(number: float) -> None:
    with warnings.catch_warnings(action="error"):
        (unit,) = Embedder(Fixed([[number, 0.0, -number]]), dimensions=None).vectors(["tea"])
    assert unit.tolist() == pytest.approx([0.5**0.5, 0.0, -(0.5**0.5)])


def test_uneven_vectors_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="equally long"):
        Embedder(Fixed([[1.0], [1.0, 2.0]]), dimensions=None).vectors(["a", "b"])


def test_a_refused_vector_is_not_remembered() -> None:
    fixed = Fixed([[0.0, 0.0]])
    embedder = Embedder(fixed, dimensions=None)
    with pytest.raises(InvalidInputError):
        embedder.vectors(["tea"])
    fixed.vectors = [[0.0, 2.0]]
    assert embedder.vectors(["tea"]).tolist() == [[0.0, 1.0]]


def test_callers_cannot_spoil_the_cache() -> None:
    embedder = Embedder(counting(), dimensions=None)
    embedder.vectors(["tea"])[:] = 0
    assert np.linalg.norm(embedder.vectors(["tea"])[0]) == pytest.approx(1, abs=1e-5)
    with pytest.raises(ValueError, match="read-only"):
        embedder.query("tea")[:] = 0


def test_many_threads_get_the_same_vectors() -> None:
    embedder = Embedder(counting(), dimensions=None, cached=8)
    expected = {text: HashEmbeddings(64).vector(text) for text in (f"text {number}" for number in range(20))}
    start = Barrier(8)

    def work(seed: int) -> bool:
        start.wait()
        texts = [*expected][seed:] + [*expected][:seed]
        rounds = [embedder.vectors(texts) for _ in range(20)]
        return all(np.allclose(vectors, [expected[text] for text in texts], atol=1e-6) for vectors in rounds)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_a_cache_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least one"):
        Embedder(counting(), dimensions=None, cached=0)


def test_errors_of_the_model_come_through_unchanged() -> None:
    class Down(HashEmbeddings):
        def embed_query(self, text: str) -> list[float]:
            raise ConnectionError(text)

    with pytest.raises(ConnectionError):
        Embedder(Down(), dimensions=None).vectors(["tea"])
