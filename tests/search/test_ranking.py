"""Joining what meaning and words say into one order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.search.ranking import Evidence, QueryWindow, Ranked, fuse

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
    return Evidence(
        pks=np.array(pks, np.int64),
        meaning=np.array([row[0] for row in rows], np.float64),
        words=np.array([row[1] for row in rows], np.float64),
        **{"named": None, "timed": None, **more},
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
def test_ranking_words_weighs_words_against_meaning(weight: float, order: list[int]) -> None:
    assert ranked([(0.1, 4.0), (0.9, 0.0), (0.8, 3.5)], weight).pks.tolist() == order


def test_a_lone_weak_hit_is_not_made_strong_by_its_neighbours_below_zero() -> None:
    got = ranked([(-0.2, 0.0), (-0.5, 0.0)], 0.5)
    assert got.scores.tolist() == [0.0, 0.0]
    assert got.pks.tolist() == [1, 2]


# ── what else speaks for a memory ─────────────────────────────────────────────────────────────────────────────────────

EQUAL = [(0.5, 1.0)] * 3


@pytest.mark.parametrize(
    ("weights", "more", "best"),
    [
        ({"speaker": 0.2}, {"named": np.array([False, True, False])}, 2),
        ({"window": 0.2}, {"window": QueryWindow(np.array([0.0, 1.0, 0.5]), frozenset({"tea"}))}, 2),
        ({"time": 0.2}, {"timed": np.array([False, False, True])}, 3),
        ({"graph": 0.2}, {"graph": np.array([0.0, 0.5, 0.1])}, 2),
    ],
)
def test_each_weight_of_ranking_decides_between_equals(
    weights: dict[str, float], more: dict[str, Any], best: int
) -> None:
    plain = Ranking.plain(0.5)
    assert fuse(evidence(EQUAL, [1, 2, 3], **more), plain.model_copy(update=weights)).pks[0] == best
    assert fuse(evidence(EQUAL, [1, 2, 3], **more), plain).pks.tolist() == [1, 2, 3]


def test_a_window_counts_fully_where_a_query_asks_for_a_time_and_nothing_else() -> None:
    rows, lying = [(0.9, 3.0), (0.1, 0.0)], np.array([0.0, 1.0])
    for topic, best in ((frozenset({"tea"}), 1), (frozenset[str](), 2)):
        assert fuse(evidence(rows, [1, 2], window=QueryWindow(lying, topic)), Ranking(words=0.5)).pks[0] == best


@given(ROWS)
def test_explain_parts_sum_up_to_the_score(rows: list[tuple[float, float]]) -> None:
    window = QueryWindow(np.linspace(0, 1, len(rows)), frozenset({"tea"}))
    got = fuse(evidence(rows, range(1, len(rows) + 1), window=window), Ranking(), explain=True)
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
        0.75,
        0.68,
        0.55,
    ]
    assert Ranking(words=0.1).suited("hash:64/2") == Ranking(words=0.1)


# ── values of one attribute ───────────────────────────────────────────────────────────────────────────────────────────


def first(query: str, *statements: tuple[str, str], **how: Any) -> list[str]:
    """The hits of a query on what speakers said a month after each other."""
    with Memory(":memory:") as memory:
        for month, (name, text) in enumerate(statements, 1):
            message = {"role": "user", "content": text, "name": name}
            memory.add(message, user_id="ann", infer=False, timestamp=f"2025-{month:02}-01")
        return [hit.text for hit in memory.search(query, user_id="ann", **how)]


def test_search_orders_the_values_of_a_single_valued_attribute_newest_first() -> None:
    old, new = "I live in Paris.", "I moved to Berlin."
    said = [("ann", old), ("ann", "I live for the weekend."), ("ann", new)]
    for how in ({}, {"k": 1}, {"as_of": "2025-06-01"}):
        assert first("Where do I live?", *said, **how)[0] == new
    assert first("Where do I live?", *said, as_of="2025-02-02")[0] == old
    assert first("Where did I live in January 2025?", *said)[0] == old
    assert first("Where do I live?", ("Ben", old), ("Ann", new))[0] == old
    assert (
        first("Which tea do I like?", ("ann", "I like green tea."), ("ann", "I like herbs."))[0] == "I like green tea."
    )


def test_scores_fall_and_sum_up_where_the_newest_value_comes_first() -> None:
    with Memory(":memory:") as memory:
        for day, text in (("2025-01-01", "I live in a flat in Leeds."), ("2025-05-01", "I moved to York.")):
            memory.add(text, user_id="ann", infer=False, timestamp=day)
        hits = memory.search("Do I live in a flat?", user_id="ann", explain=True)
        assert [hit.text for hit in hits] == ["I moved to York.", "I live in a flat in Leeds."]
        assert hits[0].score >= hits[1].score and hits[0].relevance >= hits[1].relevance
        for hit in hits:
            assert hit.explanation and sum(hit.explanation.parts.values()) == pytest.approx(hit.score)
