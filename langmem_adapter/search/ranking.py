"""One ranking of all evidence, and the hits that it gives.

Meaning and words are each brought to 0–1 and summed by weight. On dialogue retrieval this beats reciprocal rank
fusion clearly, since it keeps how much better the first hit is than the second. The other kinds of evidence are added:
who said it, whether it tells a time, and whether it lies in the time that the query names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from langmem_adapter.records.results import Explanation, Hit
from langmem_adapter.statements.parser import single_valued

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.records.ranking import Ranking
    from langmem_adapter.records.results import MemoryItem

_Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class QueryWindow:
    """How far each memory lies in the times that a query names.

    Attributes:
        lying: 0 to 1, shape (n,): the share of the times (the first twenty, each once) that it lies in, the best brought to 1.
        topic: The terms of what the query asks beside the times; empty where it asks for a time and nothing else.
    """

    lying: Floats
    topic: frozenset[str]

    def at(self, places: Any) -> QueryWindow:
        """That of some memories."""
        return QueryWindow(self.lying[places], self.topic)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What speaks for each of some memories, which stand by age; arrays of shape (n,), or `None` where it does not count.

    Attributes:
        pks: Their numbers, ascending.
        meaning: Calibrated cosine of query and memory.
        words: BM25 score, 0 where no word is shared.
        named: Said by somebody whom the question names; `None` where it names nobody, or everybody.
        timed: It tells a time, and the question asks for one; `None` where it does not.
        graph: How much the knowledge graph leads to it, 0 to 1.
        window: How far it lies in the time that the query names; `None` where it names none.
    """

    pks: NDArray[np.int64]
    meaning: NDArray[np.floating[Any]]
    words: Floats
    named: _Bools | None
    timed: _Bools | None
    graph: Floats | None = None
    window: QueryWindow | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Memories in order, best first, with the parts of their scores; arrays of shape (n,), as in `Evidence`.

    Attributes:
        scores: The joined score.
        parts: What each kind of evidence added to the score, by name, where that was asked for.
        strategy: How the lists were searched and joined.
    """

    pks: NDArray[np.int64]
    scores: Floats
    meaning: NDArray[np.floating[Any]]
    words: Floats
    parts: dict[str, NDArray[np.floating[Any]]]
    strategy: str
    window: QueryWindow | None = None
    graph: Floats | None = None

    def __len__(self) -> int:
        """How many memories."""
        return len(self.pks)

    def at(self, places: Any) -> Ranked:
        """Some of them, in the order of *places*: a slice, an array of indexes or of truth values."""
        return Ranked(
            self.pks[places],
            self.scores[places],
            self.meaning[places],
            self.words[places],
            {name: values[places] for name, values in self.parts.items()},
            self.strategy,
            None if self.window is None else self.window.at(places),
            None if self.graph is None else self.graph[places],
        )


def fuse(
    evidence: Evidence, weights: Ranking, *, most: int | None = None, explain: bool = False, strategy: str = "exact"
) -> Ranked:
    """Order memories by all that speaks for them; ties by age, the older first.

    Gives the *most* that are wanted, `None` for all; the parts of their scores where they are to be explained; and *strategy*,
    how the vectors were searched, in the explanation.
    """
    scores = np.zeros(len(evidence.pks))
    parts: dict[str, NDArray[np.floating[Any]]] = {}

    def add(name: str, part: NDArray[np.floating[Any]]) -> None:
        np.add(scores, part, out=scores)
        if explain:
            parts[name] = part

    add("meaning", unit(evidence.meaning, 1 - weights.share))
    add("words", unit(evidence.words, weights.share))
    if evidence.named is not None and weights.speaker:
        add("speaker", evidence.named * weights.speaker)
    if evidence.timed is not None and weights.time:
        add("time", evidence.timed * weights.time)
    if evidence.window is not None and weights.window:
        add("window", evidence.window.lying * (weights.window if evidence.window.topic else 1.0))
    if evidence.graph is not None and weights.graph:
        add("graph", evidence.graph * weights.graph)
    order = _first(scores, len(scores) if most is None else most)
    held = evidence.pks, scores, evidence.meaning, evidence.words
    return Ranked(*held, parts, f"{strategy} cosine + BM25, weighted sum", evidence.window, evidence.graph).at(order)


def _first(scores: Floats, most: int) -> NDArray[np.int64]:
    if most >= len(scores):
        return np.argsort(-scores, kind="stable")
    last = len(scores) - most
    least = np.partition(scores, last)[last]
    best = np.flatnonzero(scores >= least)  # with every tie of the last place, so that the older one wins it
    return best[np.argsort(-scores[best], kind="stable")][:most]


def unit(values: NDArray[np.floating[Any]], most: float = 1.0) -> Floats:
    """Bring values to 0–*most*: 0 and less is 0, the greatest is *most*.

    The floor is 0 and not the least value: a lone weak hit must not become a perfect one by being alone, and a list of
    equals (all 0) adds nothing.

    Example:
        >>> unit(np.array([2.0, 4.0, -3.0])).tolist()
        [0.5, 1.0, 0.0]
    """
    top = float(values.max(initial=0.0))
    if top <= 0:
        return np.zeros(len(values))
    brought = values.astype(np.float64)
    np.maximum(brought, 0.0, out=brought)
    np.multiply(brought, most / top, out=brought)
    return brought


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
