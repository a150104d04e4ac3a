"""From ranked memories to hits, with the parts of their scores where these were asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from langmem_adapter.records.results import Explanation, Hit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.search.ranking import Ranked

__all__ = ["explained", "raised"]

_STRATEGY: Final = "{} cosine + BM25, weighted sum"


def explained(
    ranked: Ranked, items: Sequence[MemoryItem], relevance: NDArray[np.float64], among: Ranked | None
) -> list[Hit]:
    """Hits, in the order of *ranked*.

    Args:
        ranked: The memories that are shown, best first.
        items: The same, fetched.
        relevance: Of each, shape (n,).
        among: All that they were ranked among, for the explanations; `None` for none.
    """
    found = list(map(Hit, items, ranked.scores.tolist(), relevance.tolist()))
    if among is None:
        return found
    ranks = _ranks(among)
    return [
        replace(hit, explanation=_explanation(ranked, place, {name: of[pk] for name, of in ranks.items() if pk in of}))
        for place, (hit, pk) in enumerate(zip(found, ranked.pks.tolist(), strict=True))
    ]


def _ranks(ranked: Ranked) -> dict[str, dict[int, int]]:
    ranks = {}
    for name, values in (("meaning", ranked.meaning), ("words", ranked.words)):
        held = np.flatnonzero(values > 0) if name == "words" else np.arange(len(values))
        order = held[np.argsort(-values[held], kind="stable")]
        ranks[name] = {pk: rank for rank, pk in enumerate(ranked.pks[order].tolist(), 1)}
    return ranks


def _explanation(ranked: Ranked, place: int, ranks: Mapping[str, int]) -> Explanation:
    parts = {name: float(values[place]) for name, values in ranked.parts.items()}
    meaning, words = float(ranked.meaning[place]), float(ranked.words[place])
    return Explanation(meaning, words, _STRATEGY.format(ranked.strategy), parts, ranks)


def raised(hit: Hit, score: float) -> Hit:
    """A hit with the score of the place that it moved to, so that scores go on descending; its explanation tells why."""
    if score == hit.score:
        return hit
    if hit.explanation is None:
        return replace(hit, score=score)
    parts = {**hit.explanation.parts, "newer": score - hit.score}
    return replace(hit, score=score, explanation=replace(hit.explanation, parts=parts))
