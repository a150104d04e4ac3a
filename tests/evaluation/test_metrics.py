from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_adapter.evaluation.runner import (
    auroc,
    context_tokens,
    interval,
    ndcg,
    percentile,
    recall,
    reciprocal_rank,
    silent,
)
from langmem_adapter.records.results import Hit, MemoryItem
from langmem_adapter.records.scope import Scope

RELEVANT = st.lists(st.booleans(), max_size=30)
MISSING = st.integers(0, 4)


@given(RELEVANT, MISSING, st.integers(1, 30))
def test_recall_mrr_and_ndcg_equal_the_textbook(relevant: list[bool], missing: int, k: int) -> None:
    pieces = sum(relevant) + missing
    if not pieces:
        return
    ranks = [rank for rank, right in enumerate(relevant, 1) if right]
    assert recall(ranks, pieces, k) == sum(relevant[:k]) / pieces
    assert reciprocal_rank(ranks) == (1 / (relevant.index(True) + 1) if any(relevant) else 0)
    gains = sum(right / math.log2(place + 2) for place, right in enumerate(relevant[:k]))
    ideal = sum(1 / math.log2(place + 2) for place in range(min(pieces, k)))
    assert ndcg(ranks, pieces, k) == pytest.approx(gains / ideal)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12).map(sorted), MISSING)
def test_ndcg_lies_between_zero_and_one(ranks: list[int], missing: int) -> None:
    assert 0 <= ndcg(ranks, len(ranks) + missing) <= 1 + 1e-9


def test_ndcg_and_recall_of_worked_examples() -> None:
    assert ndcg([1, 1, 1], pieces=3) == recall([1, 1, 1], pieces=3, k=1) == 1
    # Three pieces, found at 1 and 4: (1 + 1/log2(5)) / (1 + 1/log2(3) + 1/log2(4)).
    assert ndcg([1, 4], pieces=3) == pytest.approx(0.6713, abs=1e-4)
    assert ndcg([11], pieces=1) == ndcg([], pieces=1) == 0


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_percentile_is_the_nearest_rank(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6
    assert sum(value < found for value in values) < share * len(values) + 1e-6


SHARES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=20)


@given(SHARES, SHARES)
def test_auroc_is_the_share_of_ordered_pairs(own: list[float], foreign: list[float]) -> None:
    pairs = [(mine > theirs) + (mine == theirs) / 2 for mine in own for theirs in foreign]
    assert auroc(own, foreign) == pytest.approx(sum(pairs) / len(pairs))


@given(SHARES, SHARES, st.floats(0.01, 1))
def test_silent_takes_the_highest_threshold(own: list[float], foreign: list[float], answered: float) -> None:
    threshold, share = silent(own, foreign, answered)
    assert sum(score >= threshold for score in own) >= answered * len(own) - 1e-6
    assert all(
        sum(score >= higher for score in own) < answered * len(own) + 1e-6 for higher in own if higher > threshold
    )
    assert share == pytest.approx(sum(score < threshold for score in foreign) / len(foreign))


@settings(max_examples=20)
@given(SHARES)
def test_interval_holds_the_mean_and_is_deterministic(values: list[float]) -> None:
    low, high = interval(values)
    assert min(values) <= low <= high <= max(values)
    assert low - 1e-9 <= sum(values) / len(values) <= high + 1e-9
    assert interval(values) == (low, high)


def test_context_tokens_counts_dates_speakers_and_words() -> None:
    when = datetime(2024, 3, 3, tzinfo=UTC)
    item = MemoryItem("1", "I sold my boat", Scope("a"), {}, None, "Theo", "user", when, when, None, 1, "")
    assert context_tokens([]) == 4  # what the message around it costs
    one, two = context_tokens([Hit(item, 1.0, 1.0)]), context_tokens([Hit(item, 1.0, 1.0)] * 2)
    assert one == math.ceil(len("user" + "- 2024-03-03 Theo: I sold my boat") / 4) + 3
    assert one < two < 2 * one
