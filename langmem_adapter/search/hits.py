"""From ranked memories to hits, with the parts of their scores, and the newest value of an attribute first."""

from __future__ import annotations

from collections import defaultdict
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
    """Hits in which the values of one single-valued attribute of one speaker are ordered newest first, and their old places.

    "I live in Paris", a year later "I moved to Berlin": both are stored where messages are kept word for word, and the older
    one often shares more words with the query. Each hit gets the score of its new place, so that scores stay descending, and
    at least the relevance of the hit that had it.
    """
    places: defaultdict[object, list[int]] = defaultdict(list)
    for place, hit in enumerate(hits):
        if attribute := single_valued(hit.text):
            item = hit.item
            places[item.scope, item.actor_id, item.role, item.memory_type, attribute].append(place)
    order = list(range(len(hits)))
    for group in places.values():
        newest = sorted(group, key=lambda place: hits[place].item.updated_at, reverse=True)
        for place, source in zip(group, newest, strict=True):
            order[place] = source
    return [
        hits[place] if source == place else _moved(hits[source], hits[place]) for place, source in enumerate(order)
    ], order


def _moved(hit: Hit, place: Hit) -> Hit:
    """A hit in the place of another; the explanation tells what that adds."""
    moved = replace(hit, score=place.score, relevance=max(hit.relevance, place.relevance))
    if hit.explanation is None:
        return moved
    parts = {**hit.explanation.parts, "newer": place.score - hit.score}
    return replace(moved, explanation=replace(hit.explanation, parts=parts))
