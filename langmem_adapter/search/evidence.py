"""What speaks for the memories that a question is compared with: which they are, and their cosines, words and circumstances."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from langmem_adapter.search.ranking import Evidence
from langmem_adapter.text import TELLS_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from langmem_adapter.index.base import VectorView
    from langmem_adapter.records.ranking import Ranking
    from langmem_adapter.search.question import Question
    from langmem_adapter.search.scope_cache import Load, ScopeCache
    from langmem_adapter.search.scope_caches import CachedAt

__all__ = ["candidates", "evidence", "led_to", "with_leads", "with_window"]

_CANDIDATES: Final = 1_000  # compared in full; a scope up to this size is compared whole


def evidence(  # noqa: PLR0913 - what each kind of evidence is read from
    shelf: ScopeCache,
    asked: Question,
    places: NDArray[np.int64] | None,
    meaning: NDArray[np.floating[Any]],
    words: NDArray[np.float64],
    load: Load,
    weights: Ranking,
    *,
    lifted: NDArray[np.float64] | None = None,
) -> Evidence:
    """What speaks for the memories at some places of a shelf.

    Args:
        shelf: The memories.
        asked: The question.
        places: Which of them, ascending, shape (n,); `None` for all.
        meaning: Their calibrated cosines, shape (n,).
        words: BM25 scores of all the shelf's memories.
        load: Reads words that the shelf does not know yet.
        weights: What does not count is not looked up.
        lifted: How far all the shelf's memories lie in the time that the question names (`window.lift`).
    """
    here = slice(None) if places is None else places
    named = [shelf.names[name] for name in asked.names if name in shelf.names]
    some = 0 < len(named) < len(shelf.names)
    return Evidence(
        pks=shelf.roll.pks[here],
        meaning=meaning,
        words=words[here],
        named=reduce(np.logical_or, named)[here] if some else None,
        asking=shelf.asking(load)[here] if weights.question else None,
        timed=shelf.marked(TELLS_TIME, load)[here] if asked.when and weights.time else None,
        told=shelf.told(load)[here] if weights.conversation else None,
        recency=shelf.recency[here] if weights.recency else None,
        window=None if lifted is None else lifted[here],
    )


def candidates(
    index: VectorView,
    vector: NDArray[np.float32],
    standing: CachedAt,
    words: NDArray[np.float64],
    allowed: NDArray[np.bool_] | None,
    least: int,
) -> tuple[NDArray[np.int64] | None, NDArray[np.float32], str]:
    """Places of the memories that are compared, `None` for all of them, with their cosines."""
    pks, most = standing.shelf.roll.pks, max(least, _CANDIDATES)
    chosen = None if allowed is None else pks[allowed]
    near = index.search(vector, most, scopes=standing.scope_ids, pks=chosen, ordered=False)
    if len(near.pks) == len(pks) and (near.pks == pks).all():  # all of them, in order: so they lie in the index
        return None, near.scores, near.strategy
    found = np.searchsorted(pks, near.pks)
    here = _known(pks, found, near.pks)
    meaning = np.full(len(pks), np.nan, np.float32)
    meaning[found[here]] = near.scores[here]
    if (len(pks) if chosen is None else len(chosen)) > most:
        told = words if allowed is None else np.where(allowed, words, 0)
        best = np.flatnonzero(told > 0)
        if len(best) > most:
            best = best[np.argpartition(-told[best], most)[:most]]
        best = best[np.isnan(meaning[best])]
        meaning[best] = index.scores(vector, pks[best])
    indexed = ~np.isnan(meaning)  # a memory committed since the pull comes with the next search
    if indexed.all():
        return None, meaning, near.strategy
    places = np.flatnonzero(indexed)
    return places, meaning[places], near.strategy


def with_leads(
    index: VectorView,
    vector: NDArray[np.float32],
    pks: NDArray[np.int64],
    allowed: NDArray[np.bool_] | None,
    places: NDArray[np.int64],
    meaning: NDArray[np.floating[Any]],
    leads: Mapping[int, float],
) -> tuple[NDArray[np.int64], NDArray[np.floating[Any]]]:
    """The candidates, and the memories that something leads to, with their cosines."""
    wanted = np.array(sorted(leads), np.int64)
    found = np.searchsorted(pks, wanted)
    found = found[_known(pks, found, wanted)]
    found = np.setdiff1d(found if allowed is None else found[allowed[found]], places)
    scores = index.scores(vector, pks[found])
    found, scores = found[~np.isnan(scores)], scores[~np.isnan(scores)]  # the rest comes with the next pull
    order = np.argsort(np.concatenate([places, found]), kind="stable")
    return np.concatenate([places, found])[order], np.concatenate([meaning, scores])[order]


def with_window(
    index: VectorView,
    vector: NDArray[np.float32],
    standing: CachedAt,
    words: NDArray[np.float64],
    lying: NDArray[np.bool_],
    least: int,
    found: tuple[NDArray[np.int64], NDArray[np.floating[Any]]],
) -> tuple[NDArray[np.int64], NDArray[np.floating[Any]]]:
    """The candidates, and the best of the memories that lie in a window of time, with their cosines."""
    places, scores, _ = candidates(index, vector, standing, words, lying, least)
    more = np.arange(len(scores)) if places is None else places
    places, first = np.unique(np.concatenate([found[0], more]), return_index=True)
    return places, np.concatenate([found[1], scores])[first]


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
