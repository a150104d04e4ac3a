"""The one search: behind `Memory.search`, its guests, and the pipeline's retrieve stage.

A search pulls what was committed since the last one, asks the vector index and the words of the scopes it may see, joins
what speaks for each memory, and fetches the best. It is complete for every scope, however small, and for every filter: a
filter narrows what is searched, nothing is dropped from a list that was already cut.
"""

from __future__ import annotations

import time
from collections.abc import Mapping  # noqa: TC003 - `pipeline.state` checks by these types
from dataclasses import dataclass, field, replace
from functools import partial
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
from langmem_adapter.search.query import Query, asks_for, diverse, pool, read_question, reranking
from langmem_adapter.search.ranking import (
    Evidence,
    EvidenceReader,
    Nearness,
    Ranked,
    explained,
    fuse,
    led_to,
    newest,
    newest_value_first,
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
from langmem_adapter.twins import Plan, beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.index.base import Vectors
    from langmem_adapter.index.indexer import VectorFeed
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.results import Hit
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.search.query import Question
    from langmem_adapter.search.ranking import EvidenceSource, PastScope
    from langmem_adapter.search.relevance import Calibration, Scale
    from langmem_adapter.search.scope_cache import CachedAt, ScopeCache
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.memories import AsOf

_SHARING: Final = 10  # facts that have the setting's tokens together
_BESIDE: Final = 10  # tokens that a memory takes beside its text: its number or speaker, its date, quotes
_LETTERS: Final = 400  # shown of a text where not everything fits; every setting has room for one of them
_MOST_SHARES: Final = 5  # fifty facts are compared at once
_MOST_READ: Final = 20  # times as many as have room: among the nearest are texts that are never compared
_MOST_NAMED: Final = 3  # texts that a request to forget may mean
_RESERVED: Final = 4  # a quarter of the room is for the newest, and as much for what the graph names


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that new facts are compared with.

    Attributes:
        text: As it is shown.
        seq: Number of its last change.
        since: The date of its last statement with its UTC offset, in ISO 8601.
        speaker: Whose statement it is, as `names.named_speaker` has it.
        cut: Whether *text* is not all of it.
    """

    id: str
    text: str
    seq: int
    since: str
    speaker: str
    cut: bool


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The memories that some facts are compared with.

    Attributes:
        seen: Number of the last change that was taken into account.
        known: Those that a reasoner is shown, oldest statement first; behind them, those that only say a fact's own words.
        shown: How many of them it is shown.
        equal: For each fact, the indexes of memories with the same words: of each speaker's the oldest. For a request to
            forget, of those that say what is to be forgotten.
        alike: For each fact, the indexes of memories that embeddings take for the same statement.
        holding: For each request to forget, by its place, the texts in the user's own words that hold all of its words.
    """

    seen: int
    known: tuple[Candidate, ...]
    shown: int
    equal: tuple[tuple[int, ...], ...]
    holding: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    alike: tuple[tuple[int, ...], ...] = ()


def room(tokens: int, facts: int) -> int:
    """Tokens that the memories around so many facts may take: the setting's for ten of them, five times as many at most."""
    return tokens * max(1, min(_MOST_SHARES, ceil(facts / _SHARING)))


def whole(connection: Connection, scope: Scope, most: int) -> list[Any] | None:
    """Every fact within *scope*; `None` where they take more than *most* tokens, which is found out without reading them."""
    count, letters = memories.extent(connection, scope, most // _BESIDE + 1)
    if count * _BESIDE + letters // 4 > most:
        return None
    rows = memories.every_text(connection, scope)
    return rows if sum(_tokens(row.text) for row in rows) <= most else None


def best_that_fit(
    connection: Connection, scope: Scope, most: int, *, named: Sequence[int], ranked: Sequence[Sequence[int]]
) -> list[Any]:
    """Memories within *scope* that take at most so many tokens; of long ones the beginning, with an ellipsis at its end.

    Args:
        connection: A read transaction.
        scope: The fields that the add was given.
        most: Tokens.
        named: Pks of those that say something else of what a fact says can have one value only.
        ranked: For each fact, pks by each kind of nearness, nearest first; they take turns.
    """
    count = most // _BESIDE
    newest = memories.latest(connection, scope, count // _RESERVED, compared=True)
    taking_turns = [pk for turn in zip_longest(*ranked) for pk in turn if pk is not None]
    near = memories.compared(connection, list(dict.fromkeys(taking_turns))[: _MOST_READ * count])[:count]
    rows = {row.pk: row for row in memories.texts(connection, {*named, *newest, *near}, _LETTERS)}
    chosen: dict[int, Any] = {}
    for pks, share in ((named, most // _RESERVED), (newest, most // _RESERVED), (near, most)):
        left = min(share, most - sum(_tokens(row.text) for row in chosen.values()))
        chosen |= {row.pk: row for row in _fitting((rows[pk] for pk in pks if pk in rows and pk not in chosen), left)}
    return list(chosen.values())


def neighbourhood(
    connection: Connection, scope: Scope, facts: Iterable[str], shown: Iterable[Any], *, seen: int
) -> Neighbourhood:
    """Put together what some facts are compared with."""
    facts = list(facts)
    words = [text_hash(fact.removeprefix(FORGET)) for fact in facts]
    equal = memories.equal_texts(connection, scope, words)
    rows = sorted(shown, key=lambda row: (row.updated_at, row.pk))
    others = {pk for pks in equal.values() for pk in pks}.difference(row.pk for row in rows)
    known = [*rows, *memories.texts(connection, others, _LETTERS)]
    place = {row.pk: number for number, row in enumerate(known)}
    return Neighbourhood(
        seen=seen,
        known=tuple(
            Candidate(
                row.id,
                row.text,
                row.seq,
                local(row.updated_at, row.utc_offset).isoformat(),
                named_speaker(row.actor_id, row.role, scope),
                row.letters > len(row.text),
            )
            for row in known
        ),
        shown=len(rows),
        equal=tuple(tuple(place[pk] for pk in equal.get(each, ()) if pk in place) for each in words),
        holding={
            str(number): tuple(
                memories.holding(connection, scope, fact.removeprefix(FORGET), language_of(connection), _MOST_NAMED)
            )
            for number, fact in enumerate(facts)
            if fact.startswith(FORGET)
        },
    )


def _fitting(rows: Iterable[Any], left: int) -> Iterator[Any]:
    for row in rows:
        if _tokens(row.text) <= left:
            left -= _tokens(row.text)
            yield row


def _tokens(text: str) -> int:
    return _BESIDE + tokens_in(text)


_SPARE: Final = 4  # times as many as are wanted are ordered
_BUDGET_SHARE: Final = 4  # a prompt gets all memories of a user where they take a quarter of its budget
_LEADING: Final = 20  # best memories that the knowledge graph is asked to lead on from
_REORDERED: Final = 10  # first hits, among which the newest value of an attribute comes first, however many are wanted


class _Aim(NamedTuple):
    """The vector of a question, and what cosines with it mean."""

    vector: NDArray[np.float32]
    scale: Scale


class _Inquiry(NamedTuple):
    """A query that was read: its question, the memories that it is put to, and its aim; `None` for who asks for everything."""

    query: Query
    asked: Question
    standing: CachedAt
    aim: _Aim | None

    @property
    def scale(self) -> Scale | None:
        """Of the embedding model."""
        return None if self.aim is None else self.aim.scale


class Searcher:
    """Finds memories by meaning, words, speakers and time, and by what the knowledge graph leads to."""

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
        return self._searching(query).run()

    async def asearch(self, query: Query) -> SearchResults:
        """The async twin of `search`."""
        if self._embedder.asks_nobody and query.rerank is None and not has_handlers():
            # Once to a thread and back, not twice: under load each way costs a server a tenth of the CPU of a request.
            return await beside(self.search, query)
        return await self._searching(query).arun()

    def neighbours(
        self, facts: Sequence[str], scope: Scope, *, tokens: int, stated: Sequence[Triple] = ()
    ) -> Neighbourhood:
        """The memories within *scope* that new facts have to be compared with: older facts, no records.

        All of them, where they fit. Of more, what fits in three fifths of the room (what comes further down is hardly
        better than chance): those that say another value of a relation which can have one only, and the newest; the rest
        is shared by the facts: to each the nearest by meaning, by words and by topic.

        *tokens* is the room around ten facts, see `Settings.candidate_tokens`; *stated* what the facts say of relations.
        """
        most = room(tokens, len(facts))
        with self._database.read() as connection:
            everything = whole(connection, scope, most)
            if everything is not None:
                return neighbourhood(connection, scope, facts, everything, seen=feed.last(connection).applied)
        vectors = self._embedder.vectors(facts)
        standing = self._cached(scope)
        seen = self._indexer.applied
        with self._database.read() as connection:
            ranked = [
                near
                for text, vector in zip(facts, vectors, strict=True)
                for near in self._near(connection, standing, Query(text, scope, facts=True), vector)
            ]
            named = rivals(connection, scope, standing.scope_ids, stated)
            best = best_that_fit(connection, scope, most * 3 // 5, named=named, ranked=ranked)
            return neighbourhood(connection, scope, facts, best, seen=seen)

    def _near(
        self, connection: Connection, standing: CachedAt, query: Query, vector: NDArray[np.float32]
    ) -> tuple[list[int], list[int], list[int]]:
        """Pks by meaning, by words, and by topic, nearest first."""
        language = standing.cache.language
        asked = read_question(query.text, (), language)
        weights = Ranking.plain(self._weights.share)
        inquiry = _Inquiry(query, asked, standing, _Aim(vector, RAW))
        ranked = self._rank(lambda: connection, inquiry, weights=weights)
        meant, told = (np.argsort(-values, kind="stable") for values in (ranked.meaning, ranked.words))
        return (
            ranked.pks[meant].tolist(),
            ranked.pks[told[ranked.words[told] > 0]].tolist(),
            self._holding(connection, standing, topics(asked.terms, language) | attributes(query.text)),
        )

    def same(self, facts: Sequence[str], hood: Neighbourhood, threshold: float) -> list[list[int]]:
        """For each fact the places of the memories shown in *hood* that embeddings take for the same statement.

        These lie as near as the threshold, a calibrated cosine (`calibration.Scale`). Hash embeddings know none.
        """
        shown = hood.known[: hood.shown]
        if not shown or self._calibration.is_hashed:
            return [[] for _ in facts]
        scales = [self._calibration.of(fact).run() for fact in facts]
        with self._database.read() as connection:
            found = memories.embeddings(connection, [known.id for known in shown])
        stored = {id_: np.frombuffer(vector, "<f4") for id_, vector in found.items()}
        own = self._embedder.vectors(facts)
        likeness = [
            {
                place: scale.likeness(vector @ stored[known.id])
                for place, known in enumerate(shown)
                if known.id in stored
            }
            for scale, vector in zip(scales, own, strict=True)
        ]
        return [[place for place, like in each.items() if like >= threshold] for each in likeness]

    def alike(
        self, texts: Sequence[str], vectors: Vectors, scope: Scope, *, memory_type: str, k: int, threshold: float
    ) -> list[list[tuple[str, float]]]:
        """For each statement the memories of a type within *scope* that lie as near as the threshold, best first.

        At most *k* for each: their ids and likeness, a calibrated cosine, see `calibration.Scale`.
        """
        scales = [self._calibration.of(text).run() for text in texts]
        standing = self._cached(scope)
        with self._database.read() as connection:
            allowed = standing.cache.columns.pks[standing.cache.shown(time.time(), memory_type)]
            index = self._indexer.view(lambda: connection)
            if index is None or not len(allowed):
                return [[] for _ in vectors]
            near = [index.search(vector, k, scopes=standing.scope_ids, pks=allowed) for vector in vectors]
            likeness = [scale.likeness(each.scores).tolist() for scale, each in zip(scales, near, strict=True)]
            found = [[*zip(each.pks.tolist(), like, strict=True)] for each, like in zip(near, likeness, strict=True)]
            ids = {row.pk: row.id for row in memories.texts(connection, {pk for pairs in found for pk, _ in pairs}, 0)}
        return [[(ids[pk], score) for pk, score in pairs if score >= threshold and pk in ids] for pairs in found]

    def _holding(self, connection: Connection, standing: CachedAt, terms: Iterable[str]) -> list[int]:
        """Pks of the facts that hold any of some terms, the best first, and of equal ones the newest."""
        cache = standing.cache
        worth = cache.words(terms, (), related=0, load=posting_loader(lambda: connection, standing.scope_ids))
        if (shown := cache.shown(time.time(), facts=True)) is not None:
            worth = np.where(shown, worth, 0)
        best = len(worth) - 1 - np.argsort(-worth[::-1], kind="stable")
        found: list[int] = cache.columns.pks[best[worth[best] > 0]].tolist()
        return found

    def forget(self) -> None:
        """Keep nothing of what was searched, because it was erased."""
        self._caches.forget()

    # ── one search ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _cached(self, scope: Scope) -> CachedAt:
        self._indexer.pull()
        return self._caches.of(scope, self._indexer.version)

    def _read(self, query: Query) -> tuple[Question, CachedAt]:
        standing = self._cached(query.scope)
        return read_question(query.text, standing.cache.names, standing.cache.language), standing

    def _searching(self, query: Query) -> Plan[SearchResults]:
        return Plan(partial(self._read, query)).and_then(lambda read: self._answering(query, *read))

    def _answering(self, query: Query, asked: Question, standing: CachedAt) -> Plan[SearchResults]:
        wanted = asks_for(query.text, asked.language, asked.terms)
        if wanted == "nothing":
            return Plan.known(SearchResults(abstained=Abstained("small talk")))
        aim = self._aim(asked) if wanted == "something" else Plan[_Aim | None].known(None)
        found = aim.and_then(lambda known: self._finding(_Inquiry(query, asked, standing, known)))
        if query.rerank is not None:
            found = found.and_then(partial(reranking, query.rerank, query.text, query.k))
        return found.then(partial(_within, query, asked))

    def _aim(self, asked: Question) -> Plan[_Aim | None]:
        vector = Plan.calling(self._embedder.query, self._embedder.aquery, asked.text)
        return vector.and_then(lambda known: self._calibration.of(asked.text).then(partial(_Aim, known)))

    def _finding(self, inquiry: _Inquiry) -> Plan[SearchResults]:
        return stage(
            Plan(partial(self._find, inquiry)), "find", inputs={"query": inquiry.query.text}, summarize=describe_hits
        )

    def _find(self, inquiry: _Inquiry) -> SearchResults:
        query, cache = inquiry.query, inquiry.standing.cache
        with self._database.reading() as connect:
            if query.then is not None:
                return _given(query, cache, self._find_then(connect(), inquiry, query.then))
            small = _is_small(query, cache)
            wanted = max(_wanted(query), len(cache)) if small else _wanted(query)
            few = None if query.explain else _SPARE * wanted
            for most in (few, None):
                ranked = self._rank(connect, inquiry, most=most)
                hits = self._hits(connect, inquiry, ranked, wanted)
                if most is None or len(hits) == wanted or len(ranked) < most:
                    break  # else more than the spare ones were deleted this very moment
            asks_time_alone = ranked.window is not None and not ranked.window.topic
            if (
                small
                and hits
                and not asks_time_alone
                and sum(_tokens(hit.text) for hit in hits) * _BUDGET_SHARE <= (query.max_tokens or 0)
            ):
                return SearchResults(sorted(hits, key=attrgetter("item.created_at")))
            return _given(query, cache, hits)

    def _rank(
        self,
        connect: Callable[[], Connection],
        inquiry: _Inquiry,
        *,
        weights: Ranking | None = None,
        most: int | None = None,
    ) -> Ranked:
        query, asked, standing, aim = inquiry
        index, weights = self._indexer.view(connect), weights or self._weights
        cache, load = standing.cache, posting_loader(connect, standing.scope_ids)
        allowed = self._allowed(connect, query, cache)
        if index is None or aim is None:  # no memory existed yet, or all that is known is asked for
            return newest(cache, allowed, asked, load)
        reader = EvidenceReader(cache, query, asked, load, weights)
        nearness = Nearness(index, aim.vector, standing, reader.words, 4 * query.k)
        places, cosines, strategy = nearness.of(allowed)
        if reader.window is not None and places is not None:
            lying = reader.window.lying > 0
            places, cosines = nearness.with_window((places, cosines), lying if allowed is None else lying & allowed)
        told = reader.evidence(places, aim.scale.meaning(cosines))
        if leads := self._leads(connect, inquiry, told, weights):
            if places is not None:
                places, cosines = nearness.with_leads((places, cosines), leads, allowed)
                told = reader.evidence(places, aim.scale.meaning(cosines))
            told = replace(told, graph=led_to(told.pks, leads))
        return fuse(told, weights, most=most, explain=query.explain, strategy=strategy)

    def _leads(
        self, connect: Callable[[], Connection], inquiry: _Inquiry, told: Evidence, weights: Ranking
    ) -> Mapping[int, float]:
        if self._graph is None or not weights.graph:
            return {}
        best = fuse(told, weights, most=_LEADING)
        scores = dict(zip(best.pks.tolist(), best.scores.tolist(), strict=True))
        return self._graph.leads(connect(), inquiry.standing.scope_ids, inquiry.query.text, scores)

    def _allowed(self, connect: Callable[[], Connection], query: Query, cache: ScopeCache) -> NDArray[np.bool_] | None:
        moment = -np.inf if query.expired else time.time()
        allowed = cache.shown(moment, query.memory_type, facts=query.facts)
        if query.bounds is not None:
            within = query.bounds.hold(cache.columns, query.asked_at)
            allowed = within if allowed is None else within & allowed
        if not query.filters:
            return allowed
        found = memories.matching(
            connect(), query.scope, filters=query.filters, memory_type=query.memory_type, include_expired=query.expired
        )
        kept: NDArray[np.bool_] = np.isin(cache.columns.pks, found)
        return kept if allowed is None else kept & allowed

    def _hits(self, connect: Callable[[], Connection], inquiry: _Inquiry, ranked: Ranked, wanted: int) -> list[Hit]:
        query, asked, standing, _ = inquiry
        hits: list[Hit] = []
        vectors: list[Vectors] = []
        index = self._indexer.view(connect) if query.rerank == "mmr" else None
        load = posting_loader(connect, standing.scope_ids)
        for start in range(0, len(ranked), wanted):  # one round, but for memories deleted this very moment
            part = ranked.at(slice(start, start + wanted))
            items = memories.by_pks(connect(), part.pks.tolist())
            if len(items) < len(part):
                part = part.at([pk in items for pk in part.pks.tolist()])
            shown = [items[pk] for pk in part.pks.tolist()]
            worth = relevance(part, shown, asked, standing.cache, load, inquiry.scale)
            hits += explained(part, shown, worth, ranked if query.explain else None)
            vectors += [] if index is None else [index.vectors(part.pks)]
            if len(hits) >= wanted:
                break
        return _ordered(inquiry, ranked, hits[:wanted], np.concatenate(vectors)[:wanted] if vectors else None)

    def _find_then(self, connection: Connection, inquiry: _Inquiry, when: AsOf) -> list[Hit]:
        query, asked, _, aim = inquiry
        then = read_past_scope(connection, query, when, self._embedder, asked.language)
        ranked = newest(then.cache, None, asked, then.load) if aim is None else self._rank_then(then, query, asked, aim)
        if query.bounds is not None:
            places = np.searchsorted(then.cache.columns.pks, ranked.pks)
            ranked = ranked.at(query.bounds.hold(then.cache.columns, query.asked_at)[places])
        best = ranked.at(slice(0, _wanted(query)))
        places = np.searchsorted(then.cache.columns.pks, best.pks)
        items = [then.items[pk] for pk in best.pks.tolist()]
        worth = relevance(best, items, asked, then.cache, then.load, inquiry.scale)
        hits = explained(best, items, worth, ranked if query.explain else None)
        return _ordered(inquiry, ranked, hits, then.vectors[places])

    def _rank_then(self, then: PastScope, query: Query, asked: Question, aim: _Aim) -> Ranked:
        reader = EvidenceReader(then.cache, query, asked, then.load, self._weights)
        told = reader.evidence(None, aim.scale.meaning(cosines(then.vectors, aim.vector)))
        return fuse(told, self._weights, explain=query.explain, strategy="history")


def _given(query: Query, cache: ScopeCache, hits: list[Hit]) -> SearchResults:
    """The hits that are as relevant as was asked for, or why there are none."""
    if not hits:
        matches_nothing = query.narrowed and len(cache.columns.pks)
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


def _within(query: Query, asked: Question, found: SearchResults) -> SearchResults:
    """The hits within the budget of tokens."""
    if query.max_tokens is None or not found:
        return found
    kept = fit_hits(found, query.text, query.max_tokens, language=asked.language)
    return SearchResults(kept, abstained=None if kept else Abstained("no room", found[0]))


def _wanted(query: Query) -> int:
    return max(query.k, _REORDERED) if query.rerank is None else pool(query.k)


def _ordered(inquiry: _Inquiry, ranked: Ranked, hits: list[Hit], vectors: Vectors | None) -> list[Hit]:
    """The hits, of one attribute's values the newest first, unless the query names a time; as diverse as it wants them."""
    query, order = inquiry.query, list(range(len(hits)))
    if ranked.window is None:
        hits[:_REORDERED], order[:_REORDERED] = newest_value_first(hits[:_REORDERED])
    if query.rerank == "mmr" and vectors is not None:
        scores = [hit.score for hit in hits]
        return [hits[place] for place in diverse(scores, vectors[order], query.k, (inquiry.scale or RAW).likeness)]
    return hits
