"""What speaks for the memories that a question is compared with: which they are, and their cosines, words and circumstances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from langmem_adapter.search.ranking import Evidence
from langmem_adapter.search.window import read_window
from langmem_adapter.text import TELLS_TIME, groups_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.index.base import VectorView
    from langmem_adapter.records.ranking import Ranking
    from langmem_adapter.search.query import Query
    from langmem_adapter.search.question import Question
    from langmem_adapter.search.scope_cache import Load, Places, ScopeCache
    from langmem_adapter.search.scope_caches import CachedAt

__all__ = ["EvidenceReader", "EvidenceSource", "Nearness", "led_to"]

_Near: TypeAlias = tuple[NDArray[np.int64], NDArray[np.floating[Any]]]
"""Places of memories, ascending, and their cosines."""

_CANDIDATES: Final = 1_000  # compared in full; a scope up to this size is compared whole


class EvidenceSource(Protocol):
    """Leads from a question, and from the memories that answer it best so far, to others."""

    def leads(
        self, connection: Connection, scope_ids: Sequence[int], text: str, best: Mapping[int, float]
    ) -> Mapping[int, float]:
        """Memories that speak to a question, besides what their own words say.

        Args:
            connection: A read transaction.
            scope_ids: Where to look.
            text: The question, as it was asked.
            best: The memories that answer it best so far, by their numbers, with their scores.

        Returns:
            How much each speaks for, above 0 and at most 1, by its number; only of the searched scopes.
        """


class EvidenceReader:
    """Reads what speaks for the memories of a scope to a question; what does not count is not looked up.

    Attributes:
        words: BM25 scores of all the memories.
        window: The time that the query names, `None` where it names none.
    """

    def __init__(self, cache: ScopeCache, query: Query, asked: Question, load: Load, weights: Ranking) -> None:
        self._cache, self._asked, self._load, self._weights = cache, asked, load, weights
        self.window = read_window(query, asked, cache, load) if weights.window else None
        # The words of a time stand for the window: a "yesterday" of last year is another day.
        terms, groups = asked.terms, asked.groups
        if self.window is not None and self.window.topic:
            terms, groups = self.window.topic, frozenset(groups_of(self.window.topic, asked.language))
        self.words = cache.words(terms, groups, related=weights.related, load=load)

    def evidence(self, places: Places | None, meaning: NDArray[np.floating[Any]]) -> Evidence:
        """What speaks for the memories at some places, ascending, `None` for all, beside their calibrated cosines."""
        cache, asked, load, weights = self._cache, self._asked, self._load, self._weights
        here = slice(None) if places is None else places
        named = cache.said_by(asked.names)
        return Evidence(
            pks=cache.columns.pks[here],
            meaning=meaning,
            words=self.words[here],
            named=None if named is None else named[here],
            timed=cache.marked(TELLS_TIME, load)[here] if asked.when and weights.time else None,
            window=None if self.window is None else self.window.at(here),
        )


class Nearness:
    """How near the memories of a scope are to a question: which of them are compared, and their cosines."""

    def __init__(
        self, index: VectorView, vector: NDArray[np.float32], standing: CachedAt, words: NDArray[np.float64], least: int
    ) -> None:
        self._index, self._vector, self._standing, self._words = index, vector, standing, words
        self._pks: Final = standing.cache.columns.pks
        self._most: Final = max(least, _CANDIDATES)

    def of(self, allowed: NDArray[np.bool_] | None) -> tuple[Places | None, NDArray[np.float32], str]:
        """Places of the memories that are compared, `None` for all of them, with their cosines."""
        pks, most = self._pks, self._most
        chosen = None if allowed is None else pks[allowed]
        near = self._index.search(self._vector, most, scopes=self._standing.scope_ids, pks=chosen, ordered=False)
        if len(near.pks) == len(pks) and (near.pks == pks).all():  # all of them, in order: so they lie in the index
            return None, near.scores, near.strategy
        found = np.searchsorted(pks, near.pks)
        here = _known(pks, found, near.pks)
        meaning = np.full(len(pks), np.nan, np.float32)
        meaning[found[here]] = near.scores[here]
        if (len(pks) if chosen is None else len(chosen)) > most:
            told = self._words if allowed is None else np.where(allowed, self._words, 0)
            best = np.flatnonzero(told > 0)
            if len(best) > most:
                best = best[np.argpartition(-told[best], most)[:most]]
            best = best[np.isnan(meaning[best])]
            meaning[best] = self._index.scores(self._vector, pks[best])
        indexed = ~np.isnan(meaning)  # a memory committed since the pull comes with the next search
        if indexed.all():
            return None, meaning, near.strategy
        places = np.flatnonzero(indexed)
        return places, meaning[places], near.strategy

    def with_leads(self, found: _Near, leads: Mapping[int, float], allowed: NDArray[np.bool_] | None) -> _Near:
        """The candidates, and the memories that something leads to, with their cosines."""
        wanted = np.array(sorted(leads), np.int64)
        places = np.searchsorted(self._pks, wanted)
        places = places[_known(self._pks, places, wanted)]
        places = places if allowed is None else places[allowed[places]]
        scores = self._index.scores(self._vector, self._pks[places])
        indexed = ~np.isnan(scores)  # the rest comes with the next pull
        return _joined(found, (places[indexed], scores[indexed]))

    def with_window(self, found: _Near, lying: NDArray[np.bool_]) -> _Near:
        """The candidates, and the best of the memories that lie in a window of time, with their cosines."""
        places, scores, _ = self.of(lying)
        return _joined(found, (np.arange(len(scores)) if places is None else places, scores))


def _joined(found: _Near, more: _Near) -> _Near:
    places, first = np.unique(np.concatenate([found[0], more[0]]), return_index=True)
    return places, np.concatenate([found[1], more[1]])[first]


def led_to(pks: NDArray[np.int64], leads: Mapping[int, float]) -> NDArray[np.float64]:
    """How much is led to each of some memories, which stand in order."""
    wanted = np.array(sorted(leads), np.int64)
    places = np.searchsorted(pks, wanted)
    here = _known(pks, places, wanted)
    told = np.zeros(len(pks))
    told[places[here]] = [leads[pk] for pk in wanted[here].tolist()]
    return told


def _known(pks: NDArray[np.int64], places: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    here: NDArray[np.bool_] = places < len(pks)
    here[here] = pks[places[here]] == wanted[here]
    return here
