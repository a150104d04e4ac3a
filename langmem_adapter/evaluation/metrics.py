"""How good a list of hits is: recall, reciprocal rank and discounted gain with binary relevance; percentiles; tokens.

A hit is judged by the pieces of evidence that it brings. `ranks` holds, for each piece that was found, the rank (from 1) of
the first hit that brings it, in ascending order; pieces that were not found are missing from it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from langchain_core.messages import HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.records.results import Hit

__all__ = ["context_tokens", "ndcg", "percentile", "recall", "reciprocal_rank"]


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
