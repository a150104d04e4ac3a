"""Relevance: how well a memory answers a question, 0 to 1, comparable between questions.

How much of what the question asks the memory speaks of, by itself or in the turns around it; the rarer a word among the
memories, the more it counts, and one that no memory knows counts most: who asks of what was never said gets little from
everybody. Beside it, calibrated meaning. Numbers: `tests/benchmarks/relevance.py`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.search.calibration import Scale
    from langmem_adapter.search.question import Question
    from langmem_adapter.search.ranking import Ranked
    from langmem_adapter.search.shelf import Load, Shelf

__all__ = ["RELEVANT", "relevance"]

RELEVANT: Final = 0.3
"""Relevance from which on a memory belongs into a prompt: with it 95 of 100 questions that can be answered find something."""

_WORDS: Final = 0.7  # share of the words; meaning has the rest
_COMMON: Final = 0.5  # how fast a word loses weight with the memories that hold it
_BY_ANOTHER: Final = 0.8  # of what is said neither by nor of somebody whom the question names


def relevance(
    ranked: Ranked, items: Sequence[MemoryItem], asked: Question, shelf: Shelf, load: Load, scale: Scale | None
) -> NDArray[np.float64]:
    """How well each of some memories answers a question.

    Args:
        ranked: The memories.
        items: The same, fetched.
        asked: The question.
        shelf: All memories of their scope.
        load: Reads words that the shelf does not know yet.
        scale: Of the embedding model; `None` for who asks what is known of them: everything answers that.

    Returns:
        Shape (n,), 0 to 1.
    """
    if scale is None:
        return np.ones(len(ranked))
    near = np.clip(ranked.meaning / scale.answering, 0, 1)
    told = _WORDS * _answered(ranked.pks, asked, shelf, load) + (1 - _WORDS) * near
    worth: NDArray[np.float64] = np.where(_concerned(ranked.pks, items, asked, shelf), told, _BY_ANOTHER * told)
    return worth


def _answered(pks: NDArray[np.int64], asked: Question, shelf: Shelf, load: Load) -> NDArray[np.float64]:
    """The share of the question's words, by weight, that each memory holds."""
    holders = shelf.holders(sorted(asked.terms), load)
    weights = [1 / (1 + _COMMON * np.log1p(len(held))) for held in holders]
    held = [weight * np.isin(pks, these) for weight, these in zip(weights, holders, strict=True)]
    share: NDArray[np.float64] = np.sum(held, axis=0) / max(sum(weights), 1e-9)
    return np.broadcast_to(share, len(pks))


def _concerned(pks: NDArray[np.int64], items: Sequence[MemoryItem], asked: Question, shelf: Shelf) -> Any:
    """Whether each is said by or of somebody whom the question names; all of them, where it names nobody or everybody."""
    named = [shelf.names[name] for name in asked.names if name in shelf.names]
    if not 0 < len(named) < len(shelf.names):
        return True
    by = reduce(np.logical_or, named)[np.searchsorted(shelf.roll.pks, pks)]
    of = [any(name in item.text.casefold() for name in asked.names) for item in items]
    return by | np.array(of, np.bool_)
