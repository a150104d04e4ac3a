"""Joining lists of evidence into one ranking.

Scores are brought to 0–1 within each list (min-max) and summed by weight. On dialogue retrieval this beats reciprocal rank
fusion clearly, since it keeps how much better the first hit is than the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Ranked", "fuse"]


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Memories in order, best first, with the parts of their scores.

    Attributes:
        pks: Shape (n,), int64.
        scores: The joined score, shape (n,), 0 to 1.
        meaning: Cosine of query and memory, shape (n,).
        words: BM25 score, shape (n,), 0 where no word is shared.
        strategy: How the vectors were searched.
    """

    pks: NDArray[np.int64]
    scores: NDArray[np.float32]
    meaning: NDArray[np.float32]
    words: NDArray[np.float32]
    strategy: str = "exact"


def fuse(
    pks: NDArray[np.int64],
    meaning: NDArray[np.float32],
    words: NDArray[np.float32],
    *,
    word_weight: float,
    strategy: str = "exact",
) -> Ranked:
    """Order memories by meaning and words together; ties by age, the older first.

    Args:
        pks: Shape (n,).
        meaning: Cosines, shape (n,).
        words: BM25 scores, shape (n,).
        word_weight: Share of the words, 0 to 1.
        strategy: How the vectors were searched, for the explanation.

    Example:
        >>> both = fuse(np.array([1, 2]), np.array([0.1, 0.9]), np.array([3.0, 0.0]), word_weight=0.4)
        >>> both.pks.tolist()
        [2, 1]
    """
    scores = (1 - word_weight) * _unit(meaning) + word_weight * _unit(words)
    order = np.lexsort((pks, -scores))
    return Ranked(pks[order], scores[order].astype(np.float32), meaning[order], words[order], strategy)


def _unit(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    # The floor is 0 and not the smallest score: a lone weak hit must not become a perfect one by being alone, and a
    # list of equals (all 0) adds nothing.
    top = float(scores.max(initial=0.0))
    return np.clip(scores, 0.0, None) / np.float32(top) if top > 0 else np.zeros_like(scores)
