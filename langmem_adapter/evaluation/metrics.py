"""How good a list of hits is, how well silence is told from an answer, and how far means can be trusted.

A hit is judged by the pieces of evidence that it brings. `ranks` holds, for each piece that was found, the rank (from 1) of
the first hit that brings it, in ascending order; pieces that were not found are missing from it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from langchain_core.messages import HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.records.results import Hit

__all__ = ["auroc", "context_tokens", "interval", "ndcg", "percentile", "recall", "reciprocal_rank", "silent"]

_DRAWS: Final = 2_000


def recall(ranks: Sequence[int], pieces: int, k: int) -> float:
    """The share of the evidence, of 1 or more *pieces*, that is among the first *k* hits."""
    return sum(rank <= k for rank in ranks) / pieces


def reciprocal_rank(ranks: Sequence[int]) -> float:
    """One divided by the rank of the first hit with evidence, 0 where there is none; its mean is the MRR."""
    return 1 / ranks[0] if ranks else 0.0


def ndcg(ranks: Sequence[int], pieces: int, k: int = 10) -> float:
    """Normalised discounted cumulative gain of the first *k* hits, with binary relevance (Järvelin and Kekäläinen 2002).

    A memory that was made of several turns may bring several pieces at once: these count as if they came one right after
    the other, so that 1 stays the best there is. A second hit with a piece already found adds nothing.
    """
    last = gain = 0.0
    for rank in ranks:
        last = max(rank, last + 1)
        gain += 1 / math.log2(last + 1) if last <= k else 0
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(pieces, k) + 1))


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that at least so large a share (above 0) of all values does not exceed (nearest rank)."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def context_tokens(hits: Sequence[Hit]) -> int:
    """Tokens of a prompt's context that lists hits with date and speaker, by LangChain's approximate count.

    That count takes four characters for a token, which is about right for English and too few tokens for Chinese.
    """
    lines = (f"- {hit.item.created_at:%Y-%m-%d} {hit.item.actor_id or ''}: {hit.text}" for hit in hits)
    return count_tokens_approximately([HumanMessage("\n".join(lines))])


def auroc(own: Sequence[float], foreign: Sequence[float]) -> float:
    """The chance that a question of one's own scores higher than a foreign one; equal scores count half."""
    ordered = np.sort(foreign)
    below, up_to = (np.searchsorted(ordered, own, side) for side in ("left", "right"))
    return float(np.mean(below + up_to) / (2 * len(ordered)))


def silent(own: Sequence[float], foreign: Sequence[float], answered: float = 0.95) -> tuple[float, float]:
    """The highest threshold that keeps so large a share of one's own questions, and the share of foreign ones below it."""
    threshold = -percentile([-score for score in own], answered)
    return threshold, float(np.mean(np.asarray(foreign) < threshold))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the mean lies with 95 % confidence, by a bootstrap over the values whose draws are always the same.

    Of differences between two runs, question by question, it is the paired interval: one without 0 is a change.
    """
    array = np.asarray(values, float)
    rng = np.random.default_rng(0)
    means = [array[rng.integers(0, len(array), len(array))].mean() for _ in range(_DRAWS)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
