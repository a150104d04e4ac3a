"""Search: `Memory.search`, the integrations, and the memories that new facts are compared with.

A search pulls what was committed since the last one, reads the vector index and the words of the scopes that it may see, adds
up the evidence for each memory, and fetches the best. It is complete for every scope and filter: a filter narrows what is
searched; nothing is dropped from a list that was already cut.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping  # noqa: TC003 - `pipeline.state` checks by these types
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import zip_longest
from math import ceil
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from langmem_adapter.index.base import cosines
from langmem_adapter.names import named_speaker
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.records.results import FORGET, Abstained, SearchResults, tokens_in
from langmem_adapter.search.passages import fit_hits
from langmem_adapter.search.query import Query, asks_for, read_question, rerank_hits, rerank_pool, select_diverse
from langmem_adapter.search.ranking import (
    EvidenceReader,
    Nearness,
    explain_hits,
    fuse,
    graph_strengths,
    newest_value_first,
    rank_newest,
    read_past_scope,
)
from langmem_adapter.search.relevance import RAW, RELEVANT, relevance
from langmem_adapter.search.scope_cache import ScopeCaches, posting_loader
from langmem_adapter.statements.reader import attributes
from langmem_adapter.storage import feed, memories
from langmem_adapter.storage.graph.hints import rivals
from langmem_adapter.storage.meta import language_of
from langmem_adapter.storage.timestamps import local
from langmem_adapter.text import text_hash, topics
from langmem_adapter.tracing import describe_hits, has_handlers, stage
from langmem_adapter.twins import Plan, run_in_executor, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.index.base import Vectors
    from langmem_adapter.index.indexer import VectorFeed
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.results import Hit
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.search.query import Question
    from langmem_adapter.search.ranking import EvidenceSource, Ranked
    from langmem_adapter.search.relevance import Calibration, Scale
    from langmem_adapter.search.scope_cache import CachedAt, ScopeCache
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.memories import AsOf
    from langmem_adapter.twins import PlanSteps

_SPARE: Final = 4  # times as many as are wanted are ordered
_BUDGET_SHARE: Final = 4  # a prompt gets all memories of a user where they take a quarter of its budget
_BESIDE: Final = 10  # tokens that a memory takes beside its text: its number or speaker, its date, quotes
_LEADING: Final = 20  # best memories that the knowledge graph is asked to lead on from
_REORDERED: Final = 10  # first hits, among which the newest value of an attribute comes first, however many are wanted

_SHARING: Final = 10  # facts that have the setting's tokens together
_LETTERS: Final = 400  # shown of a text where not everything fits; every setting has room for one of them
_MOST_SHARES: Final = 5  # fifty facts are compared at once
_MOST_READ: Final = 20  # times as many as fit: among the nearest are texts that are never compared
_MOST_NAMED: Final = 3  # texts that a request to forget may mean
_OWNER: Final = re.compile(r"^我们?的?")  # it makes other words of what follows, in a language without spaces
_RESERVED: Final = 4  # a quarter of the places is for the newest, and as much for what the graph names


class QueryVector(NamedTuple):
    """The vector of a question, and what cosines with it mean."""

    vector: NDArray[np.float32]
    scale: Scale


class SearchContext(NamedTuple):
    """A query that was read: its question, the memories of its scope, its vector; `None` if everything is asked for."""

    query: Query
    question: Question
    cached: CachedAt
    vector: QueryVector | None

    @property
    def scale(self) -> Scale | None:
        """Of the embedding model."""
        return None if self.vector is None else self.vector.scale


class Searcher:
    """Finds memories by meaning, words, speakers and time, and through the knowledge graph."""

    def __init__(
        self,
        database: Database,
        indexer: VectorFeed,
        embedder: Embedder,
        calibration: Calibration,
        *,
        weights: Ranking,
        graph: EvidenceSource | None = None,
    ) -> None:
        self._database = database
        self._indexer = indexer
        self._embedder = embedder
        self._calibration = calibration
        self._weights = weights
        self._graph = graph
        self._caches = ScopeCaches(database)

    def search(self, query: Query) -> SearchResults:
        """The best hits, best first; sees everything that was committed before it began."""
        return self._plan_search(query).run()

    async def asearch(self, query: Query) -> SearchResults:
        """The async twin of `search`."""
        if self._embedder.asks_nobody and query.rerank is None and not has_handlers():
            # Once to a thread and back, not twice: under load each way costs a server a tenth of the CPU of a request.
            return await run_in_executor(self.search, query)
        return await self._plan_search(query).arun()

    def neighbours(
        self, facts: Sequence[str], scope: Scope, *, tokens: int, stated: Sequence[Triple] = ()
    ) -> Neighbourhood:
        """The memories within *scope* that new facts are compared with: older facts, no records.

        All of them, where they fit into *tokens* for ten facts. Otherwise three fifths of the places are filled (what comes
        further down is hardly better than chance): memories that state another value of a single-valued relation, the newest,
        and for each fact the nearest by meaning, by words and by topic. *stated* are the relations of the facts.
        """
        most = candidate_budget(tokens, len(facts))
        with self._database.read() as connection:
            rows = read_whole_scope(connection, scope, most)
            if rows is not None:
                return _neighbourhood(connection, scope, facts, rows, seen=feed.last(connection).applied)
        vectors = self._embedder.vectors(facts)
        cached = self._cached(scope)
        seen = self._indexer.applied
        with self._database.read() as connection:
            ranked = [
                pks
                for text, vector in zip(facts, vectors, strict=True)
                for pks in self._near(connection, cached, Query(text, scope, facts=True), vector)
            ]
            named = rivals(connection, scope, cached.scope_ids, stated)
            best = _best_that_fit(connection, scope, most * 3 // 5, named=named, ranked=ranked)
            return _neighbourhood(connection, scope, facts, best, seen=seen)

    def _near(
        self, connection: Connection, cached: CachedAt, query: Query, vector: NDArray[np.float32]
    ) -> Sequence[list[int]]:
        """Pks by meaning, by words, and by topic, nearest first."""
        language = cached.cache.language
        question = read_question(query.text, (), language)
        context = SearchContext(query, question, cached, QueryVector(vector, RAW))
        ranked = self._rank(lambda: connection, context, weights=Ranking.plain(self._weights.share))
        by_meaning, by_words = (np.argsort(-values, kind="stable") for values in (ranked.meaning, ranked.words))
        lexical_candidates: list[int] = ranked.pks[by_words[ranked.words[by_words] > 0]].tolist()
        marks = topics(question.terms, language) | attributes(query.text)
        return ranked.pks[by_meaning].tolist(), lexical_candidates, self._with_marks(connection, cached, marks)

    def _with_marks(self, connection: Connection, cached: CachedAt, marks: Iterable[str]) -> list[int]:
        """Pks of the facts that bear any of some marks, the best first, and of equal ones the newest."""
        cache = cached.cache
        scores = cache.words(marks, (), related=0, load=posting_loader(lambda: connection, cached.scope_ids))
        if (current := cache.current(time.time(), facts=True)) is not None:
            scores = np.where(current, scores, 0)
        best = len(scores) - 1 - np.argsort(-scores[::-1], kind="stable")
        pks: list[int] = cache.columns.pks[best[scores[best] > 0]].tolist()
        return pks

    def same(self, facts: Sequence[str], hood: Neighbourhood, threshold: float) -> list[list[int]]:
        """For each fact the places of the memories in *hood* with a likeness of at least the threshold."""
        candidates = hood.known[: hood.shown]
        if not candidates or self._calibration.is_hashed:
            return [[] for _ in facts]
        scales = [self._calibration.of(fact).run() for fact in facts]
        rows = self._database.fetch(memories.embeddings, [memory.id for memory in candidates])
        stored = [
            (place, np.frombuffer(rows[memory.id], "<f4"))
            for place, memory in enumerate(candidates)
            if memory.id in rows
        ]
        return [
            [place for place, other in stored if scale.likeness(vector @ other) >= threshold]
            for scale, vector in zip(scales, self._embedder.vectors(facts), strict=True)
        ]

    def alike(
        self, texts: Sequence[str], vectors: Vectors, scope: Scope, *, memory_type: str, k: int, threshold: float
    ) -> list[list[tuple[str, float]]]:
        """For each statement the id and likeness of at most *k* memories of a type that reach the threshold, best first."""
        scales = [self._calibration.of(text).run() for text in texts]
        cached = self._cached(scope)
        with self._database.read() as connection:
            allowed = cached.cache.columns.pks[cached.cache.current(time.time(), memory_type)]
            index = self._indexer.view(lambda: connection)
            if index is None or not len(allowed):
                return [[] for _ in vectors]
            near = [index.search(vector, k, scopes=cached.scope_ids, pks=allowed) for vector in vectors]
            scored = [
                list(zip(each.pks.tolist(), scale.likeness(each.scores).tolist(), strict=True))
                for scale, each in zip(scales, near, strict=True)
            ]
            ids = {row.pk: row.id for row in memories.texts(connection, {pk for each in scored for pk, _ in each}, 0)}
        return [[(ids[pk], score) for pk, score in each if score >= threshold and pk in ids] for each in scored]

    def forget(self) -> None:
        """Clear the caches, because memories were erased."""
        self._caches.forget()

    # ── one search ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _cached(self, scope: Scope) -> CachedAt:
        self._indexer.pull()
        return self._caches.of(scope, self._indexer.version)

    @steps
    def _plan_search(self, query: Query) -> PlanSteps[SearchResults]:
        question, cached = yield from Plan(partial(self._read, query))
        kind = asks_for(query.text, question.language, question.terms)
        if kind == "nothing":
            return SearchResults(abstained=Abstained("small talk"))
        vector = None
        if kind == "something":
            numbers = yield from Plan.calling(self._embedder.query, self._embedder.aquery, question.text)
            vector = QueryVector(numbers, (yield from self._calibration.of(question.text)))
        plan = Plan(partial(self._find, SearchContext(query, question, cached, vector)))
        results = yield from stage(plan, "find", inputs={"query": query.text}, summarize=describe_hits)
        if query.rerank is not None:
            results = yield from rerank_hits(query.rerank, query.text, query.k, results)
        return _limit_tokens(query, question, results)

    def _read(self, query: Query) -> tuple[Question, CachedAt]:
        cached = self._cached(query.scope)
        return read_question(query.text, cached.cache.names, cached.cache.language), cached

    def _find(self, context: SearchContext) -> SearchResults:
        query, cache = context.query, context.cached.cache
        with self._database.reading() as connect:
            if query.past is not None:
                return _select(query, cache, self._find_past(connect(), context, query.past))
            small = _is_small(query, cache)
            wanted = max(_wanted(query), len(cache)) if small else _wanted(query)
            few = None if query.explain else _SPARE * wanted
            for most in (few, None):
                ranked = self._rank(connect, context, most=most)
                hits = self._hits(connect, context, ranked, wanted)
                if most is None or len(hits) == wanted or len(ranked) < most:
                    break  # else more than the spare ones were deleted this very moment
            asks_time_alone = ranked.window is not None and not ranked.window.topic
            if small and hits and not asks_time_alone:
                tokens = sum(_tokens(hit.text) for hit in hits)
                if tokens * _BUDGET_SHARE <= (query.max_tokens or 0):
                    return SearchResults(sorted(hits, key=attrgetter("item.created_at")))
            return _select(query, cache, hits)

    def _rank(
        self,
        connect: Callable[[], Connection],
        context: SearchContext,
        *,
        weights: Ranking | None = None,
        most: int | None = None,
    ) -> Ranked:
        query, question, cached, vector = context
        index, weights = self._indexer.view(connect), weights or self._weights
        cache, load = cached.cache, posting_loader(connect, cached.scope_ids)
        allowed = self._allowed(connect, query, cache)
        if index is None or vector is None:  # no memory existed yet, or everything is asked for
            return rank_newest(cache, allowed, question, load)
        reader = EvidenceReader(cache, query, question, load, weights)
        nearness = Nearness(index, vector.vector, cached, reader.words, 4 * query.k)
        places, scores, strategy = nearness.of(allowed)
        if reader.window is not None and places is not None:
            lying = reader.window.lying > 0
            places, scores = nearness.with_window((places, scores), lying if allowed is None else lying & allowed)
        evidence = reader.evidence(places, vector.scale.meaning(scores))
        if self._graph is not None and weights.graph:
            first = fuse(evidence, weights, most=_LEADING)
            best = dict(zip(first.pks.tolist(), first.scores.tolist(), strict=True))
            if leads := self._graph.leads(connect(), cached.scope_ids, query.text, best):
                if places is not None:
                    places, scores = nearness.with_leads((places, scores), leads, allowed)
                    evidence = reader.evidence(places, vector.scale.meaning(scores))
                evidence = replace(evidence, graph=graph_strengths(evidence.pks, leads))
        return fuse(evidence, weights, most=most, explain=query.explain, strategy=strategy)

    def _allowed(self, connect: Callable[[], Connection], query: Query, cache: ScopeCache) -> NDArray[np.bool_] | None:
        moment = -np.inf if query.expired else time.time()
        masks = [cache.current(moment, query.memory_type, facts=query.facts)]
        if query.bounds is not None:
            masks.append(query.bounds.hold(cache.columns, query.reference_time))
        if query.filters:
            pks = memories.matching(
                connect(),
                query.scope,
                filters=query.filters,
                memory_type=query.memory_type,
                include_expired=query.expired,
            )
            masks.append(np.isin(cache.columns.pks, pks))
        present = [mask for mask in masks if mask is not None]
        return reduce(np.logical_and, present) if present else None

    def _hits(
        self, connect: Callable[[], Connection], context: SearchContext, ranked: Ranked, wanted: int
    ) -> list[Hit]:
        query, question, cached, _ = context
        hits: list[Hit] = []
        vectors: list[Vectors] = []
        index = self._indexer.view(connect) if query.rerank == "mmr" else None
        load = posting_loader(connect, cached.scope_ids)
        for start in range(0, len(ranked), wanted):  # one round, but for memories deleted this very moment
            part = ranked.at(slice(start, start + wanted))
            items = memories.by_pks(connect(), part.pks.tolist())
            if len(items) < len(part):
                part = part.at([pk in items for pk in part.pks.tolist()])
            there = [items[pk] for pk in part.pks.tolist()]
            scores = relevance(part, there, question, cached.cache, load, context.scale)
            hits += explain_hits(part, there, scores, ranked if query.explain else None)
            vectors += [] if index is None else [index.vectors(part.pks)]
            if len(hits) >= wanted:
                break
        return _order(context, ranked, hits[:wanted], np.concatenate(vectors)[:wanted] if vectors else None)

    def _find_past(self, connection: Connection, context: SearchContext, when: AsOf) -> list[Hit]:
        query, question, _, vector = context
        past = read_past_scope(connection, query, when, self._embedder, question.language)
        columns = past.cache.columns
        if vector is None:
            ranked = rank_newest(past.cache, None, question, past.load)
        else:
            reader = EvidenceReader(past.cache, query, question, past.load, self._weights)
            evidence = reader.evidence(None, vector.scale.meaning(cosines(past.vectors, vector.vector)))
            ranked = fuse(evidence, self._weights, explain=query.explain, strategy="history")
        if query.bounds is not None:
            places = np.searchsorted(columns.pks, ranked.pks)
            ranked = ranked.at(query.bounds.hold(columns, query.reference_time)[places])
        best = ranked.at(slice(0, _wanted(query)))
        items = [past.items[pk] for pk in best.pks.tolist()]
        scores = relevance(best, items, question, past.cache, past.load, context.scale)
        hits = explain_hits(best, items, scores, ranked if query.explain else None)
        return _order(context, ranked, hits, past.vectors[np.searchsorted(columns.pks, best.pks)])


def _select(query: Query, cache: ScopeCache, hits: list[Hit]) -> SearchResults:
    """The hits that reach the threshold, or the reason why there are none."""
    if not hits:
        matches_nothing = query.narrowed and len(cache)
        none = Abstained("nothing matches", narrowed=query.narrowed) if matches_nothing else Abstained("empty")
        return SearchResults(abstained=none)
    best = hits[: query.k] if query.rerank is None else hits
    if query.threshold is None:
        return SearchResults(best)
    least = RELEVANT if query.threshold == "auto" else query.threshold
    kept = [hit for hit in best if hit.relevance >= least]
    nearest = max(best, key=lambda hit: round(hit.relevance, 2))
    return SearchResults(kept, abstained=None if kept else Abstained("below threshold", nearest, least))


def _is_small(query: Query, cache: ScopeCache) -> bool:
    """Whether all memories of a user may fit a share of a prompt's budget, so that it gets all; filters do not count."""
    if query.threshold != "auto" or not query.scope.user_id or query.rerank is not None or query.narrowed:
        return False
    return len(cache) * _BESIDE * _BUDGET_SHARE <= (query.max_tokens or 0)


def _limit_tokens(query: Query, question: Question, results: SearchResults) -> SearchResults:
    if query.max_tokens is None or not results:
        return results
    kept = fit_hits(results, query.text, query.max_tokens, language=question.language)
    return SearchResults(kept, abstained=None if kept else Abstained("no room", results[0]))


def _wanted(query: Query) -> int:
    return max(query.k, _REORDERED) if query.rerank is None else rerank_pool(query.k)


def _order(context: SearchContext, ranked: Ranked, hits: list[Hit], vectors: Vectors | None) -> list[Hit]:
    """The hits, of one attribute's values the newest first, unless the query names a time; as diverse as it wants them."""
    query, order = context.query, list(range(len(hits)))
    if ranked.window is None:
        hits[:_REORDERED], order[:_REORDERED] = newest_value_first(hits[:_REORDERED])
    if query.rerank == "mmr" and vectors is not None:
        scores = [hit.score for hit in hits]
        places = select_diverse(scores, vectors[order], query.k, (context.scale or RAW).likeness)
        return [hits[place] for place in places]
    return hits


# ── candidates ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that new facts are compared with."""

    id: str
    text: str  # as it is shown
    seq: int  # number of its last change
    since: str  # the date of its last statement with its UTC offset, in ISO 8601
    speaker: str  # see `names.named_speaker`
    cut: bool  # whether *text* is not all of it


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The memories that some facts are compared with. What a reasoner is not shown, it cannot correct.

    Attributes:
        seen: Number of the last change that was taken into account.
        known: Those that a reasoner is shown, oldest statement first; behind them, those that only say a fact's own words.
        shown: How many of them it is shown.
        equal: For each fact (without "Forget"), places of memories with the same words: of each speaker's the oldest.
        alike: For each fact, places of memories that embeddings take for the same statement.
        holding: For each request to forget, by its place, the texts in the user's own words that hold all of its words.
    """

    seen: int
    known: tuple[Candidate, ...]  # named like in stored traces and states
    shown: int
    equal: tuple[tuple[int, ...], ...]
    holding: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alike: tuple[tuple[int, ...], ...] = ()


def candidate_budget(tokens: int, facts: int) -> int:
    """Tokens that the memories around so many facts may take: the setting's for ten of them, five times as many at most."""
    return tokens * max(1, min(_MOST_SHARES, ceil(facts / _SHARING)))


def read_whole_scope(connection: Connection, scope: Scope, most: int) -> list[Any] | None:
    """Every fact within *scope*; `None` where they take more than *most* tokens, mostly without reading them."""
    count, letters = memories.extent(connection, scope, most // _BESIDE + 1)
    if count * _BESIDE + letters // 4 > most:
        return None
    rows = memories.every_text(connection, scope)
    return rows if sum(_tokens(row.text) for row in rows) <= most else None


def _best_that_fit(
    connection: Connection, scope: Scope, most: int, *, named: Sequence[int], ranked: Sequence[Sequence[int]]
) -> list[Any]:
    """Memories that take at most so many tokens: those *named* first, then the newest, then *ranked* ones.

    *ranked* are, for each fact and kind of nearness, pks nearest first: they take turns.
    """
    count = most // _BESIDE
    newest = memories.latest(connection, scope, count // _RESERVED, compared=True)
    taking_turns = [pk for turn in zip_longest(*ranked) for pk in turn if pk is not None]
    near = memories.compared(connection, list(dict.fromkeys(taking_turns))[: _MOST_READ * count])[:count]
    rows = {row.pk: row for row in memories.texts(connection, {*named, *newest, *near}, _LETTERS)}
    chosen: dict[int, Any] = {}
    left = most
    for pks, share in ((named, most // _RESERVED), (newest, most // _RESERVED), (near, most)):
        candidate_budget = min(share, left)
        for row in [rows[pk] for pk in pks if pk in rows and pk not in chosen]:
            if (tokens := _tokens(row.text)) <= candidate_budget:
                candidate_budget, left = candidate_budget - tokens, left - tokens
                chosen[row.pk] = row
    return list(chosen.values())


def _neighbourhood(
    connection: Connection, scope: Scope, facts: Sequence[str], rows: Iterable[Any], *, seen: int
) -> Neighbourhood:
    """The memories of *rows*, with those that say the same as some facts."""
    hashes = [text_hash(fact.removeprefix(FORGET)) for fact in facts]
    equal = memories.equal_texts(connection, scope, hashes)
    ordered = sorted(rows, key=lambda row: (row.updated_at, row.pk))
    others = {pk for pks in equal.values() for pk in pks}.difference(row.pk for row in ordered)
    every = [*ordered, *memories.texts(connection, others, _LETTERS)]
    place = {row.pk: number for number, row in enumerate(every)}
    language = language_of(connection)
    wishes = {
        str(number): _OWNER.sub("", fact.removeprefix(FORGET))
        for number, fact in enumerate(facts)
        if fact.startswith(FORGET)
    }
    return Neighbourhood(
        seen=seen,
        known=tuple(_candidate(row, scope) for row in every),
        shown=len(ordered),
        equal=tuple(tuple(place[pk] for pk in equal.get(each, ()) if pk in place) for each in hashes),
        holding={
            number: tuple(memories.holding(connection, scope, wish, language, _MOST_NAMED))
            for number, wish in wishes.items()
        },
    )


def _candidate(row: Any, scope: Scope) -> Candidate:
    since = local(row.updated_at, row.utc_offset).isoformat()
    speaker = named_speaker(row.actor_id, row.role, scope)
    return Candidate(row.id, row.text, row.seq, since, speaker, row.letters > len(row.text))


def _tokens(text: str) -> int:
    return _BESIDE + tokens_in(text)
