"""What every vector index promises, run for each of them."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pytest

from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError
from langmem_adapter.index.base import Batch
from langmem_adapter.index.indexer import open_index
from langmem_adapter.index.segment import ExactIndex
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable

    from langmem_adapter.index.base import Vectors

Kind = Literal["faiss", "exact"]
D = 48
N = 210  # memories: pks from 100, in seven scopes in turn
END = 100 + N
NOBODY = np.empty(0, np.int64)


PGVECTOR = pytest.param("pgvector", marks=pytest.mark.postgres)
OUTSIDE = (PGVECTOR, "qdrant", "chroma", "any store")


@pytest.fixture(params=(*get_args(Kind), *OUTSIDE))
def index(request: pytest.FixtureRequest) -> ExactIndex:
    if request.param in get_args(Kind):
        return open_index(request.param, D)
    outside: ExactIndex = request.getfixturevalue("open_outside")(request.param, D)
    return outside


@pytest.fixture(scope="module")
def vectors(make_vectors: Any) -> Vectors:
    made: Vectors = make_vectors(N, D)
    return made


@pytest.fixture
def filled(index: ExactIndex, vectors: Vectors, make_batch: Any) -> ExactIndex:
    """All of them."""
    index.update(make_batch(range(100, END), (i % 7 for i in range(N)), vectors))
    return index


@pytest.fixture(params=(*get_args(Kind), *OUTSIDE), scope="module")
def standing(request: pytest.FixtureRequest, vectors: Vectors, make_batch: Any) -> ExactIndex:
    """As `filled`, for all the tests that change nothing."""
    if request.param in get_args(Kind):
        index = open_index(request.param, D)
    else:
        index = request.getfixturevalue("open_lasting")(request.param, D)
    index.update(make_batch(range(100, END), (i % 7 for i in range(N)), vectors))
    return index


def nearest(vectors: Vectors, query: Vectors, places: list[int], k: int) -> tuple[list[int], list[float]]:
    """The reference: double precision, a Python sort, pk = 100 + place."""
    scores = {place: float(vectors[place].astype(float) @ query.astype(float)) for place in places}
    best = sorted(scores, key=lambda place: (-scores[place], place))[:k]
    return [100 + place for place in best], [scores[place] for place in best]


class TestSearch:
    def test_equals_a_full_comparison_within_the_scopes(
        self, standing: ExactIndex, vectors: Vectors, make_vectors: Any
    ) -> None:
        for seed in range(8):
            rng = np.random.default_rng(seed)
            scopes = rng.choice(7, rng.integers(1, 8), replace=False).tolist()
            query, k = make_vectors(1, D, seed + 1000)[0], int(rng.integers(1, 50))
            found = standing.search(query, k, scopes=scopes)
            pks, scores = nearest(vectors, query, [i for i in range(N) if i % 7 in scopes], k)
            assert found.pks.tolist() == pks
            np.testing.assert_allclose(found.scores, scores, atol=1e-6)
            assert found.pks.dtype == np.int64
            assert found.scores.dtype == np.float32

    def test_with_pks_looks_at_those_of_the_scopes_only(
        self, standing: ExactIndex, vectors: Vectors, make_vectors: Any
    ) -> None:
        for seed in range(4):
            chosen = np.random.default_rng(seed).choice(np.arange(90, END + 20), 60)  # some unknown, some twice
            query = make_vectors(1, D, seed)[0]
            found = standing.search(query, 7, scopes={1, 2}, pks=chosen)
            places = sorted({int(pk) - 100 for pk in chosen if 100 <= pk < END and (pk - 100) % 7 in {1, 2}})
            assert found.pks.tolist() == nearest(vectors, query, places, 7)[0]

    def test_without_order_it_gives_the_same_memories(self, standing: ExactIndex, vectors: Vectors) -> None:
        for k, scopes in product((1, 29, 30, 31, 100, N, 10_000), ([3], [0, 1, 5], range(7))):
            found = standing.search(vectors[0], k, scopes=scopes)
            loose = standing.search(vectors[0], k, scopes=scopes, ordered=False)
            assert dict(zip(loose.pks.tolist(), loose.scores.tolist(), strict=True)) == dict(
                zip(found.pks.tolist(), found.scores.tolist(), strict=True)
            )

    def test_finds_nothing_where_nothing_is(self, standing: ExactIndex, vectors: Vectors) -> None:
        for found in (
            standing.search(vectors[0], 5, scopes=[99, 7]),
            standing.search(vectors[0], 5, scopes=[]),
            standing.search(vectors[0], 5, scopes=[1], pks=NOBODY),
            standing.search(vectors[0], 5, scopes=[1], pks=np.array([5, 9_999])),
        ):
            assert found.pks.shape == found.scores.shape == (0,)

    def test_ties_go_to_the_lower_pk(self, index: ExactIndex, vectors: Vectors, make_batch: Any) -> None:
        same = np.repeat(vectors[:1], 10, axis=0)
        order = np.random.default_rng(1).permutation(10)
        index.update(make_batch(order, order % 2, same))
        index.update(make_batch(range(50, 90), [2] * 40, vectors[1:41]))
        for k in (1, 3, 4, 9, 10):
            assert index.search(vectors[0], k, scopes=[0, 1, 2]).pks.tolist() == list(range(k))
        for query in vectors[1:9]:  # most sums of these products depend on the order in which they are made
            assert index.search(query, 10, scopes=[0, 1]).pks.tolist() == list(range(10))
            assert index.search(query, 10, scopes=[0, 1], pks=np.arange(10)).pks.tolist() == list(range(10))

    def test_what_was_found_stays_as_it_was_when_the_index_changes(
        self, filled: ExactIndex, vectors: Vectors, make_batch: Any
    ) -> None:
        found = filled.search(vectors[0], N, scopes=[3], ordered=False)
        pks, scores = found.pks.tolist(), found.scores.tolist()
        filled.update(make_batch([], [], vectors[:0], gone=pks))
        assert found.pks.tolist() == pks and found.scores.tolist() == scores


class TestUpdate:
    def test_overwrites_in_place(self, filled: ExactIndex, vectors: Vectors, make_batch: Any) -> None:
        filled.update(make_batch([130, 131], [2, 3], vectors[[150, 151]]))
        assert len(filled) == N
        np.testing.assert_array_equal(filled.vectors(np.array([130, 131])), vectors[[150, 151]])
        assert 130 in filled.search(vectors[150], 2, scopes=range(7)).pks

    def test_deletes(self, filled: ExactIndex, vectors: Vectors, make_batch: Any) -> None:
        gone = list(range(100, END, 3))
        filled.update(make_batch([], [], vectors[:0], gone))
        left = sorted(set(range(100, END)) - set(gone))
        assert len(filled) == len(left)
        assert filled.pks().tolist() == left
        query = vectors[0]
        places = [pk - 100 for pk in left if (pk - 100) % 7 in {0, 4}]
        assert filled.search(query, 20, scopes=[0, 4]).pks.tolist() == nearest(vectors, query, places, 20)[0]

    def test_an_empty_batch_changes_nothing(self, standing: ExactIndex) -> None:
        standing.update(Batch(NOBODY, NOBODY, np.empty((0, 3), np.float32), NOBODY))
        assert len(standing) == N

    def test_gives_memory_back_after_a_large_deletion_and_still_answers(
        self, index: ExactIndex, make_vectors: Any, make_batch: Any
    ) -> None:
        count = 8000 if isinstance(index, ExactIndex) else 300  # what lies outside gives nothing back, and takes long
        again = count // 8
        many = make_vectors(count, D)
        index.update(make_batch(range(count), (i % 5 for i in range(count)), many))
        index.update(make_batch([], [], many[:0], range(8, count)))
        assert index.pks().tolist() == list(range(8))
        np.testing.assert_array_equal(index.vectors(np.arange(8)), many[:8])
        index.update(make_batch(range(count - again, count), [1] * again, many[-again:]))
        assert index.search(many[-23], 1, scopes=[1]).pks.tolist() == [count - 23]

    def test_keeps_its_own_copy(self, index: ExactIndex, vectors: Vectors, make_batch: Any) -> None:
        mine = vectors[:2].copy()
        index.update(make_batch([1, 2], [0, 0], mine))
        mine[:] = 0
        np.testing.assert_array_equal(index.vectors(np.array([1, 2])), vectors[:2])

    def test_moves_a_memory_to_another_scope_and_back(
        self, filled: ExactIndex, vectors: Vectors, make_batch: Any
    ) -> None:
        for scope, other in ((5, 2), (2, 5), (5, 2), (2, 5)):
            filled.update(make_batch([130], [scope], vectors[30:31]))
            assert filled.scopes_of(np.array([130])).tolist() == [scope]
            assert filled.search(vectors[30], 1, scopes=[scope]).pks.tolist() == [130]
            assert 130 not in filled.search(vectors[30], N, scopes=[other]).pks
            everything = filled.search(vectors[30], N, scopes=range(7)).pks
            assert sorted(everything.tolist()) == list(range(100, END))

    def test_puts_and_deletes_in_one_batch(self, filled: ExactIndex, vectors: Vectors, make_batch: Any) -> None:
        filled.update(make_batch([END - 1, 5, 800], [0, 0, 0], vectors[:3], [100, END - 2, END - 3]))
        assert filled.pks().tolist() == [5, *range(101, END - 3), END - 1, 800]
        np.testing.assert_array_equal(filled.vectors(np.array([END - 1, 5, 800])), vectors[:3])

    def test_takes_back_what_was_deleted(self, filled: ExactIndex, vectors: Vectors, make_batch: Any) -> None:
        filled.update(make_batch([], [], vectors[:0], range(100, END)))
        assert len(filled) == 0
        assert len(filled.search(vectors[0], 5, scopes=range(7)).pks) == 0
        filled.update(make_batch([250, 110], [1, 1], vectors[:2], [111]))
        assert filled.pks().tolist() == [110, 250]
        assert filled.search(vectors[0], 5, scopes=[1]).pks[0] == 250


class TestLookup:
    def test_scores_and_vectors_keep_the_order_and_mark_the_unknown(
        self, standing: ExactIndex, vectors: Vectors
    ) -> None:
        asked = np.array([END - 1, 3, 100, 100, 10_000])
        scores = standing.scores(vectors[0], asked)
        np.testing.assert_allclose(scores[[0, 2, 3]], vectors[[N - 1, 0, 0]] @ vectors[0], atol=1e-6)
        assert np.isnan(scores).tolist() == [False, True, False, False, True]
        got = standing.vectors(asked)
        np.testing.assert_array_equal(got[[0, 2, 3]], vectors[[N - 1, 0, 0]])
        assert np.isnan(got[[1, 4]]).all()
        assert standing.scopes_of(asked).tolist() == [(N - 1) % 7, -1, 0, 0, -1]

    def test_an_empty_index_knows_nobody(self, index: ExactIndex, vectors: Vectors) -> None:
        asked = np.array([1, 2])
        assert np.isnan(index.scores(vectors[0], asked)).all()
        assert np.isnan(index.vectors(asked)).all()
        assert index.scopes_of(asked).tolist() == [-1, -1]
        assert index.scores(vectors[0], NOBODY).shape == (0,)
        assert index.vectors(NOBODY).shape == (0, D)


def _nan(batch: Batch) -> Batch:
    vectors = batch.vectors.copy()
    vectors[1, 2] = np.nan
    return Batch(batch.pks, batch.scopes, vectors, batch.gone)


BAD_BATCHES: dict[str, tuple[Callable[[Batch], Batch], type[Exception]]] = {
    "dimension": (lambda b: Batch(b.pks, b.scopes, b.vectors[:, :5].copy(), b.gone), EmbeddingMismatchError),
    "nan": (_nan, InvalidInputError),
    "the same memory twice": (lambda b: Batch(b.pks // 2 * 2, b.scopes, b.vectors, b.gone), InvalidInputError),
    "put and gone": (lambda b: Batch(b.pks, b.scopes, b.vectors, b.pks[:1]), InvalidInputError),
    "infinity": (lambda b: Batch(b.pks, b.scopes, b.vectors / np.float32(0), b.gone), InvalidInputError),
}


class TestRefusals:
    @each("name", BAD_BATCHES)
    @pytest.mark.parametrize("standing", [*get_args(Kind), PGVECTOR], indirect=True)  # a store is given no batches
    def test_a_bad_batch_changes_nothing(
        self, standing: ExactIndex, vectors: Vectors, make_batch: Any, name: str
    ) -> None:
        spoil, error = BAD_BATCHES[name]
        with np.errstate(all="ignore"):
            bad = spoil(make_batch([100, 101, 102], [6, 6, 6], vectors[10:13]))
        with pytest.raises(error):
            standing.update(bad)
        assert standing.pks().tolist() == list(range(100, END))
        np.testing.assert_array_equal(standing.vectors(np.arange(100, END)), vectors)

    def test_another_dimension_names_the_fix(self, standing: ExactIndex, vectors: Vectors) -> None:
        with pytest.raises(EmbeddingMismatchError, match=r"5 dimensions.*48.*reindex"):
            standing.search(vectors[0, :5], 3, scopes=[1])

    def test_an_unusable_query_is_refused(self, standing: ExactIndex) -> None:
        for query in (np.full(D, value, np.float32) for value in (np.nan, np.inf)):
            with pytest.raises(InvalidInputError):
                standing.search(query, 3, scopes=[1])
            with pytest.raises(InvalidInputError):
                standing.scores(query, np.array([100]))
