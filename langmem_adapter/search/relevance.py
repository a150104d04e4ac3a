"""Relevance: how well a memory answers a question, 0 to 1, comparable between questions.

How much of what the question asks the memory speaks of, by itself or in the turns around it; the rarer a word among the
memories, the more it counts, and one that no memory knows counts most: who asks of what was never said gets little from
everybody. A related word ("moved" for "live") counts in part; words of talk that nobody said ("now") do not count. Beside it,
calibrated meaning, which can speak alone: short facts often answer in quite other words. Numbers:
`tests/benchmarks/relevance.py`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from langmem_adapter.search.smalltalk import is_talk, telling
from langmem_adapter.text import groups_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.search.calibration import Scale
    from langmem_adapter.search.question import Question
    from langmem_adapter.search.ranking import Ranked
    from langmem_adapter.search.scope_cache import Load, ScopeCache

__all__ = ["RELEVANT", "relevance"]

RELEVANT: Final = 0.25
"""Relevance from which on a memory belongs into a prompt (`threshold="auto"`).

With hashes, of the questions that can be answered .97 (LoCoMo), .95 (REALTALK), .96 (BEAM) and .98 (MemoryBank) find something,
of those about other data sets .30, .37, .08 and .09. Of 30 short facts 24 are found, alone or among a chat's 488 messages; the
others share no word with their question.
"""

_WORDS: Final = 0.8  # share of the words; meaning has the rest
_ALONE: Final = 0.6  # of meaning where no word speaks
_RELATED: Final = 0.4  # of the only word of a query, where a related one is found ("divorced" for "married")
_RELATED_BESIDE: Final = 0.3  # the same beside other words, so that a related word alone does not reach `RELEVANT`
_COMMON: Final = 1.0  # how fast a word loses weight with the memories that hold it
_BY_ANOTHER: Final = 0.8  # of what is said neither by nor of a person whom the query names


def relevance(
    ranked: Ranked, items: Sequence[MemoryItem], asked: Question, cache: ScopeCache, load: Load, scale: Scale | None
) -> NDArray[np.float64]:
    """How well each of some memories, ranked and fetched, answers a query: shape (n,), 0 to 1.

    Without a scale of the embedding model the query asks for all that is known: everything answers that. A query for a time
    alone is answered by what lies in it.
    """
    if scale is None:
        return np.ones(len(ranked))
    if ranked.window is not None and not ranked.window.topic:
        return (ranked.window.lying > 0).astype(np.float64)
    places = np.searchsorted(cache.columns.pks, ranked.pks)
    near = np.minimum(np.maximum(ranked.meaning / scale.answering, 0.0), 1.0)  # `clip` takes twice as long
    worth = _WORDS * _answered(ranked, places, asked, cache, load) + (1 - _WORDS) * near
    if scale.understands:
        worth = np.maximum(worth, _ALONE * near)
    concerned: NDArray[np.float64] = np.where(_concerned(places, items, asked, cache), worth, _BY_ANOTHER * worth)
    return np.minimum(concerned, 1.0)


def _answered(
    ranked: Ranked, places: NDArray[np.int64], asked: Question, cache: ScopeCache, load: Load
) -> NDArray[np.float64]:
    """The share of the query that each memory answers: its words or related ones; beside them, the time that it names."""
    most, answered = 0.0, np.zeros(len(places))
    terms = asked.terms if ranked.window is None else ranked.window.topic
    for held, holders in _held(places, terms, asked, cache, load):
        weight = 1 / (1 + _COMMON * math.log1p(holders))
        most, answered = most + weight, answered + weight * held
    if ranked.window is not None:
        most, answered = most + 1, np.where(answered > 0, answered + ranked.window.lying, 0.0)
    share: NDArray[np.float64] = answered / max(most, 1e-9)
    return share if ranked.graph is None else np.maximum(share, ranked.graph)


def _held(
    places: NDArray[np.int64], wanted: frozenset[str], asked: Question, cache: ScopeCache, load: Load
) -> Iterator[tuple[NDArray[np.float64], int]]:
    """For each wanted word how far each memory holds it, or a related one, and how many of all do."""
    groups, terms = sorted(asked.groups), sorted(telling(wanted))
    alone = sum(not is_talk(term, asked.language) for term in terms) <= 1
    worth = _RELATED if alone else _RELATED_BESIDE
    related = dict(zip(groups, cache.held(groups, places, load), strict=True))
    for term, (holding, known) in zip(terms, cache.held(terms, places, load), strict=True):
        held = holding.astype(float)
        for group in groups_of([term], asked.language):
            near, many = related[group]
            held, known = np.maximum(held, worth * near), max(known, many)  # noqa: PLW2901 - as its group is known
        if known or not is_talk(term, asked.language):
            yield held, known


def _concerned(places: NDArray[np.int64], items: Sequence[MemoryItem], asked: Question, cache: ScopeCache) -> Any:
    """Whether each is said by or of somebody whom the question names; all of them, where it names nobody or everybody."""
    named = cache.said_by(asked.names)
    if named is None:
        return True
    concerned = named[places]
    for place in np.flatnonzero(~concerned).tolist():
        text = items[place].text.casefold()
        concerned[place] = any(name in text for name in asked.names)
    return concerned
