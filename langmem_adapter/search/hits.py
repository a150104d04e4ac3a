"""From ranked memories to hits, with the parts of their scores, and the newest value of an attribute first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from langmem_adapter.records.results import Explanation, Hit
from langmem_adapter.statements.parser import single_valued

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.search.ranking import Ranked

__all__ = ["explained", "newest_value_first"]


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


def newest_value_first(hits: Sequence[Hit]) -> tuple[list[Hit], list[int]]:
    """Hits in which newer values of a single-valued attribute of a speaker come right before older ones, and their old places.

    "I live in Paris", a year later "I moved to Berlin": both are stored where messages are kept word for word, and the older
    one often shares more words with the query. Each hit gets the score of its new place, so that scores stay descending; one
    that moves up is at least as relevant as the older value behind it.
    """
    groups = [_attribute(hit) for hit in hits]
    order: list[int] = []
    for place, group in enumerate(groups):
        then = hits[place].item.updated_at
        same = [at for at, other in enumerate(groups) if group and other == group and hits[at].item.updated_at > then]
        newer = sorted(set(same).difference(order), key=lambda at: hits[at].item.updated_at, reverse=True)
        order += [*newer, place] if place not in order else []
    return [_moved(hits[source], hits[place], up=source > place) for place, source in enumerate(order)], order


def _attribute(hit: Hit) -> object:
    item, attribute = hit.item, single_valued(hit.text)
    return attribute and (item.scope, item.actor_id, item.role, item.memory_type, attribute)


def _moved(hit: Hit, place: Hit, *, up: bool) -> Hit:
    """A hit in the place of another; the explanation tells what that adds."""
    if hit is place:
        return hit
    relevance = max(hit.relevance, place.relevance) if up else hit.relevance
    parts = hit.explanation and {**hit.explanation.parts, "newer": place.score - hit.score}
    explanation = hit.explanation and replace(hit.explanation, parts=parts or {})
    return replace(hit, score=place.score, relevance=relevance, explanation=explanation)
