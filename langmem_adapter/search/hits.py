"""From ranked memories to hits, with the parts of their scores where these were asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from langmem_adapter.records.results import Explanation, Hit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.search.ranking import Ranked

__all__ = ["explained", "raised"]


def explained(
    ranked: Ranked, items: Sequence[MemoryItem], relevance: NDArray[np.float64], among: Ranked | None
) -> list[Hit]:
    """Hits, in the order of *ranked*, explained by all that they were ranked *among*, where that is given."""
    found = list(map(Hit, items, ranked.scores.tolist(), relevance.tolist()))
    if among is None:
        return found
    meant, worded = _ranks(ranked.meaning, among.meaning), _ranks(ranked.words, among.words)
    told = map(_explanation, [ranked] * len(found), range(len(found)), meant, worded)
    return [replace(hit, explanation=explanation) for hit, explanation in zip(found, told, strict=True)]


def _ranks(shown: NDArray[np.floating[Any]], among: NDArray[np.floating[Any]]) -> list[int]:
    """The rank of each value among all of them, from 1; equal values share the better one."""
    ranks: list[int] = (len(among) + 1 - np.sort(among).searchsorted(shown, side="right")).tolist()
    return ranks


def _explanation(ranked: Ranked, place: int, meant: int, worded: int) -> Explanation:
    parts = {name: float(values[place]) for name, values in ranked.parts.items()}
    meaning, words = float(ranked.meaning[place]), float(ranked.words[place])
    ranks = {"meaning": meant} if "meaning" in parts else {}
    return Explanation(meaning, words, ranked.strategy, parts, ranks | ({"words": worded} if words > 0 else {}))


def raised(hits: Sequence[Hit], order: Sequence[int]) -> list[Hit]:
    """Hits in another order, each with the score of its new place, so that scores go on descending.

    One that moved up, since it is a newer version, is as relevant as the older one that it stands before; its explanation
    tells why.
    """
    moved = [_moved(hits[place], hits[at].score) for at, place in enumerate(order)]
    for at, place in enumerate(order[:-1]):
        if place > at:
            moved[at] = replace(moved[at], relevance=max(moved[at].relevance, hits[order[at + 1]].relevance))
    return moved


def _moved(hit: Hit, score: float) -> Hit:
    if score == hit.score:
        return hit
    if hit.explanation is None:
        return replace(hit, score=score)
    parts = {**hit.explanation.parts, "newer": score - hit.score}
    return replace(hit, score=score, explanation=replace(hit.explanation, parts=parts))
