"""Joining what meaning and words say into one order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.search.ranking import Evidence, Ranked, fuse, nearby

if TYPE_CHECKING:
    from collections.abc import Sequence

COSINES = st.floats(-1, 1, width=32)
BM25 = st.just(0.0) | st.floats(0.0078125, 64, width=32)
ROWS = st.lists(st.tuples(COSINES, BM25), max_size=20)
WEIGHTS = st.floats(0, 1)


def ranked(rows: Sequence[tuple[float, float]], words: float, pks: Sequence[int] | None = None) -> Ranked:
    numbers = range(1, len(rows) + 1) if pks is None else pks
    return fuse(evidence(rows, list(numbers)), Ranking.plain(words))


def evidence(rows: Sequence[tuple[float, float]], pks: Sequence[int], **more: Any) -> Evidence:
    count = len(rows)
    plain = {
        "named": None,
        "asking": np.zeros(count),
        "timed": None,
        "told": 100.0 * np.arange(count),
    }
    return Evidence(
        pks=np.array(pks, np.int64),
        meaning=np.array([row[0] for row in rows], np.float64),
        words=np.array([row[1] for row in rows], np.float64),
        **{**plain, **more},
    )


@given(ROWS, WEIGHTS)
def test_every_memory_stands_once_with_its_own_evidence(rows: list[tuple[float, float]], weight: float) -> None:
    got = ranked(rows, weight)
    assert sorted(got.pks.tolist()) == list(range(1, len(rows) + 1))
    for pk, meaning, words in zip(got.pks.tolist(), got.meaning.tolist(), got.words.tolist(), strict=True):
        assert (meaning, words) == rows[pk - 1]
    assert [part.dtype for part in (got.pks, got.scores, got.meaning, got.words)] == [np.int64, *[np.float64] * 3]


@given(ROWS, WEIGHTS)
def test_scores_fall_from_at_most_one_to_no_less_than_zero(rows: list[tuple[float, float]], weight: float) -> None:
    scores = ranked(rows, weight).scores
    assert np.all(np.diff(scores) <= 0)
    assert np.all((scores >= 0) & (scores <= 1 + 1e-6))


@given(ROWS, WEIGHTS)
def test_more_meaning_and_more_words_never_rank_lower(rows: list[tuple[float, float]], weight: float) -> None:
    place = {pk: number for number, pk in enumerate(ranked(rows, weight).pks.tolist())}
    for one, (meaning, words) in enumerate(rows, start=1):
        for other, (less, fewer) in enumerate(rows, start=1):
            if meaning > max(less, 0) and words > fewer and 0 < weight < 1:
                assert place[one] < place[other] or meaning - less < 1e-5


def test_equals_stand_by_age_the_older_first() -> None:
    assert ranked([(0.5, 1.0)] * 4, 0.5, [1, 3, 7, 9]).pks.tolist() == [1, 3, 7, 9]


@pytest.mark.parametrize(("weight", "order"), [(0.0, [2, 3, 1]), (1.0, [1, 3, 2]), (0.4, [3, 2, 1])])
def test_the_weight_decides_between_meaning_and_words(weight: float, order: list[int]) -> None:
    assert ranked([(0.1, 4.0), (0.9, 0.0), (0.8, 3.5)], weight).pks.tolist() == order


def test_a_lone_weak_hit_is_not_made_strong_by_its_neighbours_below_zero() -> None:
    got = ranked([(-0.2, 0.0), (-0.5, 0.0)], 0.5)
    assert got.scores.tolist() == [0.0, 0.0]
    assert got.pks.tolist() == [1, 2]


def test_how_much_better_the_first_is_stays_visible() -> None:
    got = ranked([(0.9, 0.0), (0.3, 0.0), (0.29, 0.0)], 0.0)
    assert got.scores[0] - got.scores[1] > 50 * (got.scores[1] - got.scores[2])


def test_of_nothing_comes_nothing() -> None:
    got = ranked([], 0.5)
    assert [part.shape for part in (got.pks, got.scores, got.meaning, got.words)] == [(0,)] * 4


# ── what else speaks for a memory ─────────────────────────────────────────────────────────────────────────────────────

EQUAL = [(0.5, 1.0)] * 3


@pytest.mark.parametrize(
    ("weights", "more", "best"),
    [
        ({"speaker": 0.2}, {"named": np.array([False, True, False])}, 2),
        ({"question": 0.2}, {"asking": np.array([1.0, 0.5, 0.0])}, 3),
        ({"time": 0.2}, {"timed": np.array([False, False, True])}, 3),
        ({"graph": 0.2}, {"graph": np.array([0.0, 0.5, 0.1])}, 2),
    ],
)
def test_each_kind_of_evidence_decides_between_equals(
    weights: dict[str, float], more: dict[str, Any], best: int
) -> None:
    plain = Ranking.plain(0.5)
    assert fuse(evidence(EQUAL, [1, 2, 3], **more), plain.model_copy(update=weights)).pks[0] == best
    assert fuse(evidence(EQUAL, [1, 2, 3], **more), plain).pks.tolist() == [1, 2, 3]


def test_the_newest_takes_no_place_of_what_words_and_meaning_speak_for() -> None:
    told = evidence(
        [(0.9, 3.0), (0.1, 0.0), (0.0, 0.0), (0.8, 2.9)], [1, 2, 3, 4], recency=np.array([0.0, 0.5, 1.0, 0.0])
    )
    recent = Ranking.plain(0.5).model_copy(update={"recency": 0.2})
    assert fuse(told, Ranking.plain(0.5)).pks.tolist() == [1, 4, 2, 3]
    assert fuse(told, recent).pks.tolist() == [1, 4, 3, 2]


def test_what_stands_near_the_answer_is_lifted() -> None:
    rows = [(0.9, 3.0), (0.8, 2.0), (0.4, 0.0), (0.45, 0.0)]
    told = evidence(rows, [1, 2, 3, 4], told=np.array([0.0, 0.1, 0.2, 100.0]))
    plain = Ranking.plain(0.5)
    assert fuse(told, plain).pks.tolist() == [1, 2, 4, 3]
    assert fuse(told, plain.model_copy(update={"conversation": 0.4})).pks.tolist() == [1, 2, 3, 4]


@given(st.lists(st.tuples(st.floats(-1, 2), st.floats(0, 1_000)), max_size=30))
def test_each_has_the_best_score_that_reaches_it(rows: list[tuple[float, float]]) -> None:
    scores, told = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    halved = [(np.maximum(scores, 0) * 0.5 ** np.abs(told - place)).max() for place in told]
    assert nearby(scores, told) == pytest.approx(halved, abs=1e-6)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.integers(0, 1_000_000))
def test_equals_stay_equals_wherever_they_were_told(scores: list[float], place: int) -> None:
    told = 64.0 * np.arange(len(scores))
    assert nearby(np.array(scores), told).tolist() == nearby(np.array(scores), told + place).tolist()


@given(ROWS)
def test_the_parts_sum_up_to_the_score(rows: list[tuple[float, float]]) -> None:
    told = evidence(rows, range(1, len(rows) + 1), asking=np.linspace(0, 1, len(rows)))
    got = fuse(told, Ranking(), explain=True)
    assert np.sum(list(got.parts.values()), axis=0) == pytest.approx(got.scores)


# ── the weights ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ({"words": 1.1}, "weight 'words'"),
        ({"speaker": -0.1, "time": float("nan")}, "weight 'speaker'.*weight 'time': .*finite"),
        ({"word_weight": 0.5}, "unknown weight 'word_weight'; known are words, related"),
    ],
)
def test_a_weight_that_cannot_be_is_refused(weights: dict[str, float], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        Ranking(**weights)


def test_the_share_of_the_words_suits_the_embeddings_unless_it_was_said() -> None:
    assert [Ranking().suited(mark).words for mark in ("hash:64/2", "static/1f", "openai.Embeddings")] == [
        0.7,
        0.68,
        0.55,
    ]
    assert Ranking(words=0.1).suited("hash:64/2") == Ranking(words=0.1)
