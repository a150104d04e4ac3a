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

__all__ = [
    "auroc",
    "context_tokens",
    "interval",
    "ndcg",
    "percentile",
    "recall",
    "reciprocal_rank",
    "silent",
]

_DRAWS: Final = 2_000


def recall(ranks: Sequence[int], pieces: int, k: int) -> float:
    """The share of the evidence that is among the first *k* hits.

    Args:
        ranks: See the module.
        pieces: How many pieces there are, 1 or more.
        k: How many hits count.

    Example:
        >>> recall([1, 12], pieces=4, k=10)
        0.25
    """
    return sum(rank <= k for rank in ranks) / pieces


def reciprocal_rank(ranks: Sequence[int]) -> float:
    """One divided by the rank of the first hit with evidence, 0 where there is none; its mean is the MRR.

    Example:
        >>> reciprocal_rank([2, 5]), reciprocal_rank([])
        (0.5, 0.0)
    """
    return 1 / ranks[0] if ranks else 0.0


def ndcg(ranks: Sequence[int], pieces: int, k: int = 10) -> float:
    """Normalised discounted cumulative gain of the first *k* hits, with binary relevance (Järvelin and Kekäläinen 2002).

    A memory that was made of several turns may bring several pieces at once: these count as if they came one right after
    the other, so that 1 stays the best there is. A second hit with a piece already found adds nothing.

    Example:
        >>> ndcg([1, 2], pieces=2), round(ndcg([2], pieces=1), 3)
        (1.0, 0.631)
    """
    last = gain = 0.0
    for rank in ranks:
        last = max(rank, last + 1)
        gain += 1 / math.log2(last + 1) if last <= k else 0
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(pieces, k) + 1))


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that at least so large a share (above 0) of all values does not exceed (nearest rank).

    Example:
        >>> percentile([3.0, 1.0, 2.0, 10.0], 0.5)
        2.0
    """
    return sorted(values)[math.ceil(share * len(values)) - 1]


def context_tokens(hits: Sequence[Hit]) -> int:
    """Tokens of a prompt's context that lists hits with date and speaker, by LangChain's approximate count.

    That count takes four characters for a token, which is about right for English and too few tokens for Chinese.
    """
    lines = (f"- {hit.item.created_at:%Y-%m-%d} {hit.item.actor_id or ''}: {hit.text}" for hit in hits)
    return count_tokens_approximately([HumanMessage("\n".join(lines))])


def auroc(own: Sequence[float], foreign: Sequence[float]) -> float:
    """The chance that a question of one's own scores higher than a foreign one; equal scores count half.

    Example:
        >>> auroc([0.9, 0.5], foreign=[0.1, 0.5])
        0.875
    """
    ordered = np.sort(foreign)
    below, up_to = (np.searchsorted(ordered, own, side) for side in ("left", "right"))
    return float(np.mean(below + up_to) / (2 * len(ordered)))


def silent(own: Sequence[float], foreign: Sequence[float], answered: float = 0.95) -> tuple[float, float]:
    """The highest threshold that keeps so large a share of one's own questions, and the share of foreign ones below it.

    Example:
        >>> silent([0.4, 0.6, 0.8, 0.9], foreign=[0.1, 0.5, 0.7], answered=0.75)
        (0.6, 0.6666666666666666)
    """
    threshold = -percentile([-score for score in own], answered)
    return threshold, float(np.mean(np.asarray(foreign) < threshold))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the mean lies with 95 % confidence, by a bootstrap over the values whose draws are always the same.

    Of differences between two runs, question by question, it is the paired interval: one without 0 is a change.

    Example:
        >>> low, high = interval([0.0, 1.0] * 50)
        >>> 0.35 < low < 0.5 < high < 0.65
        True
    """
    array = np.asarray(values, float)
    rng = np.random.default_rng(0)
    means = [array[rng.integers(0, len(array), len(array))].mean() for _ in range(_DRAWS)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
