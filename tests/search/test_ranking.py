"""Joining what meaning and words say into one order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.search.ranking import Ranked, fuse

if TYPE_CHECKING:
    from collections.abc import Sequence

COSINES = st.floats(-1, 1, width=32)
BM25 = st.just(0.0) | st.floats(0.0078125, 64, width=32)
ROWS = st.lists(st.tuples(COSINES, BM25), max_size=20)
WEIGHTS = st.floats(0, 1)


def ranked(rows: Sequence[tuple[float, float]], word_weight: float, pks: Sequence[int] | None = None) -> Ranked:
    numbers = range(1, len(rows) + 1) if pks is None else pks
    return fuse(
        np.fromiter(numbers, np.int64),
        np.array([row[0] for row in rows], np.float32),
        np.array([row[1] for row in rows], np.float32),
        word_weight=word_weight,
    )


@given(ROWS, WEIGHTS)
def test_every_memory_stands_once_with_its_own_evidence(rows: list[tuple[float, float]], weight: float) -> None:
    got = ranked(rows, weight)
    assert sorted(got.pks.tolist()) == list(range(1, len(rows) + 1))
    for pk, meaning, words in zip(got.pks.tolist(), got.meaning.tolist(), got.words.tolist(), strict=True):
        assert (meaning, words) == rows[pk - 1]
    assert [part.dtype for part in (got.pks, got.scores, got.meaning, got.words)] == [np.int64, *[np.float32] * 3]


@given(ROWS, WEIGHTS)
def test_scores_fall_from_at_most_one_to_no_less_than_zero(rows: list[tuple[float, float]], weight: float) -> None:
    scores = ranked(rows, weight).scores
    assert np.all(np.diff(scores) <= 0)
    assert np.all((scores >= 0) & (scores <= 1 + 1e-6))


@given(ROWS, WEIGHTS, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_how_the_memories_came(
    rows: list[tuple[float, float]], weight: float, random: object
) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = ranked([rows[place] for place in order], weight, [place + 1 for place in order])
    assert shuffled.pks.tolist() == ranked(rows, weight).pks.tolist()


@given(ROWS, WEIGHTS)
def test_more_meaning_and_more_words_never_rank_lower(rows: list[tuple[float, float]], weight: float) -> None:
    place = {pk: number for number, pk in enumerate(ranked(rows, weight).pks.tolist())}
    for one, (meaning, words) in enumerate(rows, start=1):
        for other, (less, fewer) in enumerate(rows, start=1):
            if meaning > max(less, 0) and words > fewer and 0 < weight < 1:
                assert place[one] < place[other] or meaning - less < 1e-5


def test_equals_stand_by_age_the_older_first() -> None:
    assert ranked([(0.5, 1.0)] * 4, 0.5, [7, 3, 9, 1]).pks.tolist() == [1, 3, 7, 9]


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
