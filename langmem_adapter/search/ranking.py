"""The ranking: evidence for each memory of a scope, its weighted sum, and the hits that it gives.

Meaning and words are each scaled to 0–1 and summed by weight. On dialogue retrieval this beats reciprocal rank fusion clearly,
since it keeps how much better the first hit is than the second. The other kinds of evidence are added: the speaker, whether the
text tells a time, whether it lies in the time window that the query names, and the knowledge graph.

"What did we do on the first weekend of May?", "last week" and 4月28号我们聊了什么 share hardly a word with what answers them. A
memory lies in a window by the day of its speaker on which it was first or last written, or by a date that its text names, which
is stored beside its words (`statements.periods`). A window ranks, it does not filter; bounds (`Bounds`) filter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from langmem_adapter.records.results import Explanation, Hit
from langmem_adapter.records.scope import shallow
from langmem_adapter.search.query import names_topic
from langmem_adapter.search.scope_cache import Floats, Postings, ScopeCache, ScopeColumns
from langmem_adapter.statements.dates import SEASONS, WEEKDAYS
from langmem_adapter.statements.periods import days_over, split_periods
from langmem_adapter.statements.reader import single_valued
from langmem_adapter.storage import lexical
from langmem_adapter.storage.memories import AsOf, PastMemory, current_vectors, memories_as_of
from langmem_adapter.storage.timestamps import offset_minutes
from langmem_adapter.text import TELLS_TIME, groups_of, meaningful, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.index.base import VectorView
    from langmem_adapter.records.ranking import Ranking
    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.search.query import Query, Question
    from langmem_adapter.search.scope_cache import CachedAt, Load, Places
    from langmem_adapter.statements.periods import Period


@dataclass(frozen=True, slots=True, eq=False)
class QueryWindow:
    """How far each memory lies in the times that a query names."""

    lying: Floats  # 0 to 1: the share of the times that it lies in, the best scaled to 1
    topic: frozenset[str]  # terms of what the query asks beside the times; empty where it asks for a time alone

    def at(self, places: Any) -> QueryWindow:
        """That of some memories."""
        return QueryWindow(self.lying[places], self.topic)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Evidence:
    """The evidence for some memories; arrays of shape (n,), or `None` where it does not count."""

    pks: Places
    meaning: NDArray[np.floating[Any]]  # calibrated cosine of query and memory
    words: Floats  # BM25 score, 0 where no word is shared
    named: NDArray[np.bool_] | None = None  # stated by a speaker whom the question names
    timed: NDArray[np.bool_] | None = None  # it tells a time, and the question asks for one
    graph: Floats | None = None  # how much the knowledge graph leads to it, 0 to 1
    window: QueryWindow | None = None  # how far it lies in the time that the query names


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ranked:
    """Memories in order, best first, with the parts of their scores."""

    pks: Places
    meaning: NDArray[np.floating[Any]]
    words: Floats
    scores: Floats
    parts: dict[str, NDArray[np.floating[Any]]]  # what each kind of evidence added to the score, by name, if asked for
    strategy: str  # how the lists were searched and joined
    graph: Floats | None = None
    window: QueryWindow | None = None

    def __len__(self) -> int:
        """How many memories."""
        return len(self.pks)

    def at(self, places: Any) -> Ranked:
        """Some of them, in the order of *places*: a slice, an array of indexes or of truth values."""
        return Ranked(
            pks=self.pks[places],
            meaning=self.meaning[places],
            words=self.words[places],
            graph=None if self.graph is None else self.graph[places],
            window=None if self.window is None else self.window.at(places),
            scores=self.scores[places],
            parts={name: values[places] for name, values in self.parts.items()},
            strategy=self.strategy,
        )


def fuse(
    evidence: Evidence, weights: Ranking, *, most: int | None = None, explain: bool = False, strategy: str = "exact"
) -> Ranked:
    """The best *most* memories by their evidence, ties by age; *strategy* says how the vectors were searched."""
    window = evidence.window
    lying, is_time_alone = (None, False) if window is None else (window.lying, not window.topic)
    weighted: tuple[tuple[str, NDArray[Any] | None, float], ...] = (
        ("speaker", evidence.named, weights.speaker),
        ("time", evidence.timed, weights.time),
        ("window", lying, weights.window and (1.0 if is_time_alone else weights.window)),
        ("graph", evidence.graph, weights.graph),
    )
    parts: dict[str, NDArray[np.floating[Any]]] = {
        "meaning": scale_to_unit(evidence.meaning, 1 - weights.share),
        "words": scale_to_unit(evidence.words, weights.share),
    }
    parts |= {name: values * weight for name, values, weight in weighted if values is not None and weight}
    scores = np.zeros(len(evidence.pks))
    for part in parts.values():
        np.add(scores, part, out=scores)
    order = _first(scores, len(scores) if most is None else most)
    return Ranked(
        pks=evidence.pks,
        meaning=evidence.meaning,
        words=evidence.words,
        graph=evidence.graph,
        window=window,
        scores=scores,
        parts=parts if explain else {},
        strategy=f"{strategy} cosine + BM25, weighted sum",
    ).at(order)


def _first(scores: Floats, most: int) -> NDArray[np.int64]:
    if most >= len(scores):
        return np.argsort(-scores, kind="stable")
    last = len(scores) - most
    least = np.partition(scores, last)[last]
    best = np.flatnonzero(scores >= least)  # with every tie of the last place, so that the older one wins it
    return best[np.argsort(-scores[best], kind="stable")][:most]


def rank_newest(cache: ScopeCache, allowed: NDArray[np.bool_] | None, question: Question, load: Load) -> Ranked:
    """The ranking if everything is asked for: what shares words with the question, then the newest first."""
    places = np.arange(len(cache)) if allowed is None else np.flatnonzero(allowed)
    words = cache.words(meaningful(question.terms, question.language), (), related=0, load=load)[places]
    parts: dict[str, NDArray[np.floating[Any]]] = {"words": scale_to_unit(words, 2.0), "recency": cache.recency[places]}
    scores = parts["words"] + parts["recency"]
    pks, order = cache.columns.pks[places], np.argsort(-scores, kind="stable")
    meaning = np.zeros(len(places))
    return Ranked(pks=pks, meaning=meaning, words=words, scores=scores, parts=parts, strategy="newest").at(order)


def scale_to_unit(values: NDArray[np.floating[Any]], most: float = 1.0) -> Floats:
    """Scale values to 0–*most*: 0 and less is 0, the greatest is *most*.

    The floor is 0 and not the least value: a lone weak hit must not become a perfect one by being alone, and a list of
    equals (all 0) adds nothing.

    Example:
        >>> scale_to_unit(np.array([2.0, 4.0, -3.0])).tolist()
        [0.5, 1.0, 0.0]
    """
    top = float(values.max(initial=0.0))
    if top <= 0:
        return np.zeros(len(values))
    scaled = values.astype(np.float64)
    np.maximum(scaled, 0.0, out=scaled)
    np.multiply(scaled, most / top, out=scaled)
    return scaled


def explain_hits(
    ranked: Ranked, items: Sequence[MemoryItem], relevance: NDArray[np.float64], among: Ranked | None
) -> list[Hit]:
    """Hits, in the order of *ranked*, explained by all that they were ranked *among*, where that is given."""
    hits = list(map(Hit, items, ranked.scores.tolist(), relevance.tolist()))
    if among is None:
        return hits
    by_meaning, by_words = _ranks(ranked.meaning, among.meaning), _ranks(ranked.words, among.words)
    explained: list[Hit] = []
    for place, hit in enumerate(hits):
        parts = {name: float(values[place]) for name, values in ranked.parts.items()}
        meaning, words = float(ranked.meaning[place]), float(ranked.words[place])
        ranks = {"meaning": by_meaning[place]} if "meaning" in parts else {}
        ranks |= {"words": by_words[place]} if words > 0 else {}
        explained.append(replace(hit, explanation=Explanation(meaning, words, ranked.strategy, parts, ranks)))
    return explained


def _ranks(values: NDArray[np.floating[Any]], among: NDArray[np.floating[Any]]) -> list[int]:
    """The rank of each value among all of them, from 1; equal values share the better one."""
    ranks: list[int] = (len(among) + 1 - np.sort(among).searchsorted(values, side="right")).tolist()
    return ranks


def newest_value_first(hits: Sequence[Hit]) -> tuple[list[Hit], list[int]]:
    """Put newer values of a speaker's single-valued attribute right before older ones; also returns the old places.

    Messages that are kept word for word hold both "I live in Paris" and "I moved to Berlin". Each hit gets the score of its new
    place; one that moves up is at least as relevant as the older value behind it.
    """
    groups = [_attribute(hit) for hit in hits]
    order: list[int] = []
    for place, group in enumerate(groups):
        moment = hits[place].item.updated_at
        same = [at for at, other in enumerate(groups) if group and other == group and hits[at].item.updated_at > moment]
        newer = sorted(set(same).difference(order), key=lambda at: hits[at].item.updated_at, reverse=True)
        order += [*newer, place] if place not in order else []
    return [_move(hits[source], hits[place], up=source > place) for place, source in enumerate(order)], order


def _attribute(hit: Hit) -> object:
    item, attribute = hit.item, single_valued(hit.text)
    return attribute and (item.scope, item.actor_id, item.role, item.memory_type, attribute)


def _move(hit: Hit, place: Hit, *, up: bool) -> Hit:
    """A hit in the place of another; the explanation tells what that adds."""
    if hit is place:
        return hit
    relevance = max(hit.relevance, place.relevance) if up else hit.relevance
    parts = hit.explanation and {**hit.explanation.parts, "newer": place.score - hit.score}
    explanation = hit.explanation and replace(hit.explanation, parts=parts or {})
    return replace(hit, score=place.score, relevance=relevance, explanation=explanation)


# ── time windows ────────────────────────────────────────────────────────────────────────────────────────────────────


_ENDLESS: Final = {date.min: -np.inf, date.max: np.inf}
_NO_PKS: Final = np.empty(0, np.int64)
_MOST: Final = 20  # times of one query; more are a list of dates
_REQUEST: Final = re.compile(
    r"^\W*(?:(?:please|can you|could you|would you|will you|help me|let's)\W+)*"
    r"(?:write|draft|compose|draw|paint|sing|invent|create|generate|design|make up|tell me a (?:story|joke))\b"
    r"|^\W*(?:请|麻烦)?你?(?:帮我|给我|替我|为我|帮忙)?(?:写|画|编|创作|生成|设计)",
    re.IGNORECASE,
)
_UNDATED: Final = re.compile(
    rf"(?<!last )(?<!this )(?<!next )\b(?:{'|'.join((*SEASONS, *WEEKDAYS))}|christmas|halloween|new year's eve)\b(?! \d)"
    "|(?<![去今明前]年)[春夏秋冬][天季]|(?<![上下这本])(?:周|星期)[一二三四五六日天]|圣诞节|元旦",
    re.IGNORECASE,
)


def read_window(query: Query, question: Question, cache: ScopeCache, load: Load) -> QueryWindow | None:
    """The window that a query names; `None` where there is none, or one beside a topic in which nothing lies."""
    if not len(cache):
        return None
    text, language, moment = question.text, question.language, query.reference_time
    times, rest = split_periods(_UNDATED.sub(" ", text) if _REQUEST.match(text) else text, moment.date())
    if not times:
        return None
    lying, written = np.zeros(len(cache)), cache.columns.local(moment)
    holders = cache.holders([f"@{year:04}" for year in cache.years], load)
    years = [year for year, pks in zip(cache.years, holders, strict=True) if len(pks)]
    for period in list(dict.fromkeys(times))[:_MOST]:
        spans = _spans(period, moment.date(), cache.years)
        begins, ends = (np.sort([_second(day) for day in days]) for days in zip(*spans, strict=True))
        # Written, first or last, on any of these days of its speaker: more of them have begun by then than have ended.
        first, last = begins.searchsorted(written, "right") > ends.searchsorted(written, "right")
        dated = cache.holders([term for span in spans for term in days_over(*span, years)], load)
        lying += first | last | np.isin(cache.columns.pks, np.concatenate([_NO_PKS, *dated]))
    topic = question.terms.intersection(words(rest, language)) if names_topic(rest, language) else frozenset[str]()
    best = lying.max(initial=0.0)
    return QueryWindow(lying / max(best, 1.0), topic) if best > 0 or not topic else None


def _spans(period: Period, today: date, years: list[int]) -> list[tuple[date, date]]:
    """The days of a period: without a year those of any year with messages, but "since May" is of the latest."""
    if period.yearly and period.begins and period.ends:
        later = period.ends.year - period.begins.year
        return list(zip(_each(period.begins, years), _each(period.ends, years, later), strict=True))
    if period.yearly and (period.begins or period.ends or today) > today:
        period = period.moved(-1)
    return [(period.begins or date.min, period.ends or date.max)]


def _each(day: date, years: list[int], later: int = 0) -> list[date]:
    """A day in each of some years, or so many years later; 29 February is 1 March in most, as in `Period.moved`."""
    months = (np.clip(np.array(years) + later, date.min.year, date.max.year) - 1970) * 12 + day.month - 1
    days: list[date] = (months.astype("datetime64[M]").astype("datetime64[D]") + (day.day - 1)).tolist()
    return days


def _second(day: date) -> float:
    return _ENDLESS.get(day) or datetime.combine(day, time(), UTC).timestamp()


# ── searching the past ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)
class PastScope:
    """A scope at a past moment: its cache, its memories by pk, their unit vectors in its order; and rows of words by term."""

    cache: ScopeCache
    items: dict[int, MemoryItem]
    vectors: NDArray[np.float32]
    words: dict[str, list[Any]]

    def load(self, terms: Sequence[str]) -> list[Any]:
        """The rows of some terms."""
        return [row for term in terms for row in self.words.get(term, ())]


def read_past_scope(connection: Connection, query: Query, when: AsOf, embedder: Embedder, language: str) -> PastScope:
    """The scope of a query at a past moment; texts that have changed since are embedded again, in one batch."""
    past = memories_as_of(connection, query.scope, when, filters=query.filters, memory_type=query.memory_type)
    past.sort(key=lambda memory: memory.pk)
    numbers = {scope: number for number, scope in enumerate(dict.fromkeys(memory.item.scope for memory in past))}
    words: defaultdict[str, list[Any]] = defaultdict(list)
    columns, total = [], 0
    for memory in past:
        item = memory.item
        own = {"pk": memory.pk, "context": memory.context, "utc_offset": offset_minutes(item.updated_at)}
        columns.append({**shallow(item), **own, "scope_id": numbers[item.scope]})
        rows = lexical.postings(columns[-1], language)
        total += rows[0]["length"]
        for row in rows:
            words[row["term"]].append((row["term"], memory.pk, row["count"], row["length"]))
    scope_columns = ScopeColumns.of(SimpleNamespace(**row) for row in columns)
    cache = ScopeCache(scope_columns, words=total, postings=Postings(), language=language)
    return PastScope(cache, {memory.pk: memory.item for memory in past}, _vectors(connection, past, embedder), words)


def _vectors(connection: Connection, past: Sequence[PastMemory], embedder: Embedder) -> NDArray[np.float32]:
    stored = current_vectors(connection, past)
    texts = [memory.item.text for memory in past if memory.pk not in stored]
    fresh = dict(zip(texts, embedder.vectors(texts), strict=True))
    vectors = [stored[memory.pk] if memory.pk in stored else fresh[memory.item.text] for memory in past]
    return np.stack(vectors) if vectors else np.zeros((0, embedder.dimensions or 1), np.float32)


# ── reading evidence ────────────────────────────────────────────────────────────────────────────────────────────────

_Near: TypeAlias = tuple[NDArray[np.int64], NDArray[np.floating[Any]]]
"""Places of memories, ascending, and their cosines."""

_CANDIDATES: Final = 1_000  # compared in full; a scope up to this size is compared whole


class EvidenceSource(Protocol):
    """Leads from a question, and from the memories that answer it best so far, to others."""

    def leads(
        self, connection: Connection, scope_ids: Sequence[int], text: str, best: Mapping[int, float]
    ) -> Mapping[int, float]:
        """Memories that the question leads to, by number, with how much each counts: above 0, at most 1.

        *best* are the memories that answer it best so far, with their scores.
        """


class EvidenceReader:
    """Reads the evidence for the memories of a scope; what does not count is not looked up."""

    def __init__(self, cache: ScopeCache, query: Query, question: Question, load: Load, weights: Ranking) -> None:
        self._cache, self._question, self._load, self._weights = cache, question, load, weights
        self.window = read_window(query, question, cache, load) if weights.window else None
        # The words of a time stand for the window: a "yesterday" of last year is another day.
        terms, groups = question.terms, question.groups
        if self.window is not None and self.window.topic:
            terms, groups = self.window.topic, frozenset(groups_of(self.window.topic, question.language))
        self.words = cache.words(terms, groups, related=weights.related, load=load)

    def evidence(self, places: Places | None, meaning: NDArray[np.floating[Any]]) -> Evidence:
        """The evidence for the memories at some places, ascending, `None` for all, beside their calibrated cosines."""
        cache, question = self._cache, self._question
        here = slice(None) if places is None else places
        named = cache.stated_by(question.names)
        return Evidence(
            pks=cache.columns.pks[here],
            meaning=meaning,
            words=self.words[here],
            named=None if named is None else named[here],
            timed=cache.marked(TELLS_TIME, self._load)[here] if question.when and self._weights.time else None,
            window=None if self.window is None else self.window.at(here),
        )


class Nearness:
    """How near the memories of a scope are to a question: which of them are compared, and their cosines."""

    def __init__(
        self, index: VectorView, vector: NDArray[np.float32], cached: CachedAt, words: Floats, least: int
    ) -> None:
        self._index, self._vector, self._scope_ids, self._words = index, vector, cached.scope_ids, words
        self._pks: Final = cached.cache.columns.pks
        self._most: Final = max(least, _CANDIDATES)

    def of(self, allowed: NDArray[np.bool_] | None) -> tuple[Places | None, NDArray[np.float32], str]:
        """Places of the memories that are compared, `None` for all of them, with their cosines."""
        pks, most = self._pks, self._most
        chosen = None if allowed is None else pks[allowed]
        near = self._index.search(self._vector, most, scopes=self._scope_ids, pks=chosen, ordered=False)
        if len(near.pks) == len(pks) and (near.pks == pks).all():  # all of them, in order: so they lie in the index
            return None, near.scores, near.strategy
        places = np.searchsorted(pks, near.pks)
        here = _is_at(pks, places, near.pks)
        meaning = np.full(len(pks), np.nan, np.float32)
        meaning[places[here]] = near.scores[here]
        if (len(pks) if chosen is None else len(chosen)) > most:
            words = self._words if allowed is None else np.where(allowed, self._words, 0)
            best = np.flatnonzero(words > 0)
            if len(best) > most:
                best = best[np.argpartition(-words[best], most)[:most]]
            best = best[np.isnan(meaning[best])]
            meaning[best] = self._index.scores(self._vector, pks[best])
        indexed = ~np.isnan(meaning)  # a memory committed since the pull comes with the next search
        if indexed.all():
            return None, meaning, near.strategy
        places = np.flatnonzero(indexed)
        return places, meaning[places], near.strategy

    def with_leads(self, near: _Near, leads: Mapping[int, float], allowed: NDArray[np.bool_] | None) -> _Near:
        """The candidates, and the memories that the graph leads to, with their cosines."""
        wanted = np.array(sorted(leads), np.int64)
        places = np.searchsorted(self._pks, wanted)
        places = places[_is_at(self._pks, places, wanted)]
        places = places if allowed is None else places[allowed[places]]
        scores = self._index.scores(self._vector, self._pks[places])
        indexed = ~np.isnan(scores)  # the rest comes with the next pull
        return _join(near, (places[indexed], scores[indexed]))

    def with_window(self, near: _Near, lying: NDArray[np.bool_]) -> _Near:
        """The candidates, and the best of the memories that lie in a window of time, with their cosines."""
        places, scores, _ = self.of(lying)
        return _join(near, (np.arange(len(scores)) if places is None else places, scores))


def _join(near: _Near, more: _Near) -> _Near:
    places, first = np.unique(np.concatenate([near[0], more[0]]), return_index=True)
    return places, np.concatenate([near[1], more[1]])[first]


def graph_strengths(pks: Places, leads: Mapping[int, float]) -> Floats:
    """How much the graph leads to each of some memories, which are in order."""
    wanted = np.array(sorted(leads), np.int64)
    places = np.searchsorted(pks, wanted)
    here = _is_at(pks, places, wanted)
    strengths = np.zeros(len(pks))
    strengths[places[here]] = [leads[pk] for pk in wanted[here].tolist()]
    return strengths


def _is_at(pks: Places, places: Places, wanted: Places) -> NDArray[np.bool_]:
    here: NDArray[np.bool_] = places < len(pks)
    here[here] = pks[places[here]] == wanted[here]
    return here
