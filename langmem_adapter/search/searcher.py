"""The one search: behind `Memory.search`, its guests, and the pipeline's retrieve stage.

A search pulls what was committed since the last one, asks the vector index and the words of the scopes it may see, joins
what speaks for each memory, and fetches the best. It is complete for every scope, however small, and for every filter: a
filter narrows what is searched, nothing is dropped from a list that was already cut.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from langmem_adapter.search import history, question, rerank
from langmem_adapter.search.evidence import candidates, evidence, led_to, with_leads
from langmem_adapter.search.hits import explained, raised
from langmem_adapter.search.neighbours import Neighbourhood, best_that_fit, neighbourhood, room, whole
from langmem_adapter.search.query import Query
from langmem_adapter.search.ranking import Evidence, Ranked, Weights, fuse
from langmem_adapter.search.shelves import Shelves, loader
from langmem_adapter.search.versions import newest_first
from langmem_adapter.statements.attributes import attributes
from langmem_adapter.storage import follow, memories
from langmem_adapter.storage.graph.rivals import rivals
from langmem_adapter.text import topics
from langmem_adapter.tracing import is_heard, shown, stage
from langmem_adapter.twins import Plan, beside

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.index.base import VectorFeed, Vectors
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.results import Hit
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.search.base import EvidenceSource
    from langmem_adapter.search.question import Question
    from langmem_adapter.search.shelf import Shelf
    from langmem_adapter.search.shelves import Standing
    from langmem_adapter.storage.database import Database, Reading
    from langmem_adapter.storage.past import Then

__all__ = ["Searcher"]

_SPARE: Final = 4  # times as many as are wanted are ordered
_LEADING: Final = 20  # best memories that the knowledge graph is asked to lead on from
_LOOKED_AT: Final = 10  # first hits, among which newer versions are looked for, however many are wanted


class Searcher:
    """Finds memories by meaning, words, speakers and time.

    Args:
        database: The truth.
        indexer: Keeps the vector index up to date.
        embedder: Turns texts into vectors.
        weights: How much each kind of evidence counts.
        graph: Leads to memories from elsewhere.
    """

    def __init__(
        self,
        database: Database,
        indexer: VectorFeed,
        embedder: Embedder,
        *,
        weights: Weights,
        graph: EvidenceSource | None = None,
    ) -> None:
        self._database = database
        self._indexer = indexer
        self._embedder = embedder
        self._weights = weights
        self._graph = graph
        self._shelves = Shelves()

    def search(self, query: Query) -> list[Hit]:
        """The best hits, best first; sees everything that was committed before it began."""
        asked, standing = self._read(query)
        pool = self._finding(query, asked, standing, self._embedder.query(asked.text)).run()
        return pool[: query.k] if query.rerank is None else rerank.reranked(query.rerank, pool, query.text, query.k)

    async def asearch(self, query: Query) -> list[Hit]:
        """The async twin of `search`."""
        if self._embedder.asks_nobody and query.rerank is None and not is_heard():
            # Once to a thread and back, not twice: under load each way costs a server a tenth of the CPU of a request.
            return await beside(self.search, query)
        asked, standing = await beside(self._read, query)
        vector = await self._embedder.aquery(asked.text)
        pool = await self._finding(query, asked, standing, vector).arun()
        if query.rerank is None:
            return pool[: query.k]
        return await rerank.areranked(query.rerank, pool, query.text, query.k)

    def neighbours(
        self, facts: Sequence[str], scope: Scope, *, tokens: int, stated: Sequence[Triple] = ()
    ) -> Neighbourhood:
        """The memories within *scope* that new facts have to be compared with: older facts, no records.

        All of them, where they fit. Of more, what fits in three fifths of the room (what comes further down is hardly
        better than chance): those that say another value of a relation which can have one only, and the newest; the rest
        is shared by the facts: to each the nearest by meaning, by words and by topic.

        Args:
            facts: Their texts; their vectors are in the embedder's cache or are made now, in one batch.
            scope: The fields that the add was given.
            tokens: Of the memories around ten facts, see `Settings.candidate_tokens`.
            stated: What the facts say of relations.
        """
        most = room(tokens, len(facts))
        with self._database.read() as connection:
            everything = whole(connection, scope, most)
            if everything is not None:
                return neighbourhood(connection, scope, facts, everything, seen=follow.last(connection).applied)
        vectors = self._embedder.vectors(facts)
        version = self._pulled()
        seen = self._indexer.applied
        with self._database.read() as connection:
            standing = self._shelves.of(connection, scope, version)
            ranked = [
                near
                for text, vector in zip(facts, vectors, strict=True)
                for near in self._near(connection, standing, Query(text, scope, facts=True), vector)
            ]
            named = rivals(connection, scope, standing.scope_ids, stated)
            best = best_that_fit(connection, scope, most * 3 // 5, named=named, ranked=ranked)
            return neighbourhood(connection, scope, facts, best, seen=seen)

    def _near(
        self, connection: Connection, standing: Standing, query: Query, vector: NDArray[np.float32]
    ) -> tuple[list[int], list[int], list[int]]:
        """Pks by meaning, by words, and by topic, nearest first."""
        language = standing.shelf.language
        asked = question.read(query.text, (), language)
        weights = Weights(word=self._weights.word)
        ranked = self._rank(lambda: connection, standing, query, asked, vector, weights=weights)
        meant, told = (np.argsort(-values, kind="stable") for values in (ranked.meaning, ranked.words))
        return (
            ranked.pks[meant].tolist(),
            ranked.pks[told[ranked.words[told] > 0]].tolist(),
            self._holding(connection, standing, topics(asked.terms, language) | attributes(query.text)),
        )

    def spoken_of(self, texts: Sequence[str], scope: Scope, *, most: int, letters: int) -> list[list[Any]]:
        """The memories within *scope* that each text may speak of: those that share its words, best first, and the newest.

        Nothing is embedded. Records are left out.

        Args:
            texts: What is said.
            scope: The fields that the add was given.
            most: Memories for each text; half of them, where there are as many, are the newest.
            letters: Shown of a memory; of a longer one the beginning.

        Returns:
            Rows with id and text.
        """
        version = self._pulled()
        with self._database.read() as connection:
            standing = self._shelves.of(connection, scope, version)
            newest = memories.latest(connection, scope, most - most // 2)
            found = [
                [*self._holding(connection, standing, terms)[: most // 2], *newest]
                for terms in (question.read(text, (), standing.shelf.language).terms for text in texts)
            ]
            rows = {row.pk: row for row in memories.texts(connection, {pk for pks in found for pk in pks}, letters)}
        return [[rows[pk] for pk in dict.fromkeys(pks) if pk in rows] for pks in found]

    def alike(
        self, vectors: Vectors, scope: Scope, *, memory_type: str, k: int, threshold: float
    ) -> list[list[tuple[str, float]]]:
        """For each vector the memories of a type within *scope* that lie as near as the threshold: ids and cosines, best first.

        Args:
            vectors: Unit vectors of texts (not of questions), shape (n, dimensions).
            scope: Which memories.
            memory_type: The same.
            k: At most so many for each.
            threshold: Least cosine.
        """
        version = self._pulled()
        with self._database.read() as connection:
            standing = self._shelves.of(connection, scope, version)
            allowed = standing.shelf.roll.pks[standing.shelf.shown(time.time(), memory_type)]
            index = self._indexer.view(lambda: connection)
            if index is None or not len(allowed):
                return [[] for _ in vectors]
            near = [index.search(vector, k, scopes=standing.scope_ids, pks=allowed) for vector in vectors]
            found = [[*zip(each.pks.tolist(), each.scores.tolist(), strict=True)] for each in near]
            ids = {row.pk: row.id for row in memories.texts(connection, {pk for pairs in found for pk, _ in pairs}, 0)}
        return [[(ids[pk], score) for pk, score in pairs if score >= threshold and pk in ids] for pairs in found]

    def _holding(self, connection: Connection, standing: Standing, terms: Iterable[str]) -> list[int]:
        """Pks of the facts that hold any of some terms, the best first, and of equal ones the newest."""
        shelf = standing.shelf
        worth = shelf.words(terms, (), related=0, load=loader(lambda: connection, standing.scope_ids))
        if (shown := shelf.shown(time.time(), facts=True)) is not None:
            worth = np.where(shown, worth, 0)
        best = len(worth) - 1 - np.argsort(-worth[::-1], kind="stable")
        found: list[int] = shelf.roll.pks[best[worth[best] > 0]].tolist()
        return found

    def forget(self) -> None:
        """Keep nothing of what was searched, because it was erased."""
        self._shelves.forget()

    # ── one search ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _pulled(self) -> Hashable:
        self._indexer.pull()
        return self._indexer.version

    def _read(self, query: Query) -> tuple[Question, Standing]:
        version = self._pulled()
        standing = self._shelves.fresh(query.scope, version)
        if standing is None:
            with self._database.read() as connection:
                standing = self._shelves.of(connection, query.scope, version)
        return question.read(query.text, standing.shelf.names, standing.shelf.language), standing

    def _finding(self, query: Query, *given: Any) -> Plan[list[Hit]]:
        return stage(Plan(partial(self._find, query, *given)), "find", inputs={"query": query.text}, shown=shown)

    def _find(self, query: Query, asked: Question, standing: Standing, vector: NDArray[np.float32]) -> list[Hit]:
        with self._database.reading() as reading:
            if query.then is not None:
                return self._find_then(reading.connection(), query, query.then, asked, vector)
            wanted = _wanted(query, self._weights)
            few = None if query.explain or query.threshold is not None else _SPARE * wanted
            for most in (few, None):
                ranked = self._rank(reading.connection, standing, query, asked, vector, most=most)
                hits = self._hits(reading, query, asked, ranked, wanted)
                if most is None or len(hits) == wanted or len(ranked) < most:
                    break  # else more than the spare ones were deleted this very moment
            return hits

    def _rank(
        self,
        connect: Callable[[], Connection],
        standing: Standing,
        query: Query,
        asked: Question,
        vector: NDArray[np.float32],
        *,
        weights: Weights | None = None,
        most: int | None = None,
    ) -> Ranked:
        index, weights = self._indexer.view(connect), weights or self._weights
        shelf, load = standing.shelf, loader(connect, standing.scope_ids)
        words = shelf.words(asked.terms, asked.groups, related=weights.related, load=load)
        if index is None:  # no memory exists yet
            return fuse(evidence(shelf, asked, np.empty(0, np.int64), np.empty(0), words, load, weights), weights)
        allowed = self._allowed(connect, query, shelf)
        places, meaning, strategy = candidates(index, vector, standing, words, allowed, 4 * query.k)
        told = evidence(shelf, asked, places, meaning, words, load, weights)
        if leads := self._leads(connect, standing, query, told, weights):
            if places is not None:
                places, meaning = with_leads(index, vector, shelf.roll.pks, allowed, places, meaning, leads)
                told = evidence(shelf, asked, places, meaning, words, load, weights)
            told = replace(told, graph=led_to(told.pks, leads))
        return fuse(told, weights, most=most, explain=query.explain, strategy=strategy)

    def _leads(
        self,
        connect: Callable[[], Connection],
        standing: Standing,
        query: Query,
        told: Evidence,
        weights: Weights,
    ) -> Mapping[int, float]:
        if self._graph is None or not weights.graph:
            return {}
        best = fuse(told, weights, most=_LEADING)
        scores = dict(zip(best.pks.tolist(), best.scores.tolist(), strict=True))
        return self._graph.leads(connect(), standing.scope_ids, query.text, scores)

    def _allowed(self, connect: Callable[[], Connection], query: Query, shelf: Shelf) -> NDArray[np.bool_] | None:
        allowed = shelf.shown(time.time(), query.memory_type, facts=query.facts)
        if not query.filters:
            return allowed
        found = memories.matching(connect(), query.scope, filters=query.filters, memory_type=query.memory_type)
        kept: NDArray[np.bool_] = np.isin(shelf.roll.pks, found)
        return kept if allowed is None else kept & allowed

    def _hits(self, reading: Reading, query: Query, asked: Question, ranked: Ranked, wanted: int) -> list[Hit]:
        if query.threshold is not None:
            ranked = ranked.at(ranked.meaning >= query.threshold)
        hits: list[Hit] = []
        vectors: list[Vectors] = []
        index = self._indexer.view(reading.connection)
        for start in range(0, len(ranked), wanted):  # one round, but for memories deleted this very moment
            part = ranked.at(slice(start, start + wanted))
            items = memories.best(reading, part.pks.tolist())
            if len(items) < len(part):
                part = part.at([pk in items for pk in part.pks.tolist()])
            hits += explained(part, [items[pk] for pk in part.pks.tolist()], ranked if query.explain else None)
            vectors += [] if index is None else [index.vectors(part.pks)]
            if len(hits) >= wanted:
                break
        return self._ordered(query, asked, hits[:wanted], np.concatenate(vectors)[:wanted]) if hits else []

    def _ordered(self, query: Query, asked: Question, hits: list[Hit], vectors: Vectors) -> list[Hit]:
        order = list(range(len(hits)))
        if self._weights.newest_first and len(hits) > 1:
            first = [hit.item for hit in hits[:_LOOKED_AT]]
            order[:_LOOKED_AT] = newest_first(first, vectors[:_LOOKED_AT], asked.text, asked.language)
            hits = [raised(hits[place], hit.score) for place, hit in zip(order, hits, strict=True)]
        if query.rerank == "mmr":
            return [hits[place] for place in rerank.diverse([hit.score for hit in hits], vectors[order], query.k)]
        return hits

    def _find_then(
        self, connection: Connection, query: Query, when: Then, asked: Question, vector: NDArray[np.float32]
    ) -> list[Hit]:
        then = history.read(connection, query, when, self._embedder, asked.language)
        words = then.shelf.words(asked.terms, asked.groups, related=self._weights.related, load=then.load)
        told = evidence(then.shelf, asked, None, then.vectors @ vector, words, then.load, self._weights)
        ranked = fuse(told, self._weights, explain=query.explain, strategy="history")
        if query.threshold is not None:
            ranked = ranked.at(ranked.meaning >= query.threshold)
        best = ranked.at(slice(0, _wanted(query, self._weights)))
        places = np.searchsorted(then.shelf.roll.pks, best.pks)
        hits = explained(best, [then.items[pk] for pk in best.pks.tolist()], ranked if query.explain else None)
        return self._ordered(query, asked, hits, then.vectors[places])


def _wanted(query: Query, weights: Weights) -> int:
    if query.rerank is not None:
        return rerank.pool(query.k)
    return max(query.k, _LOOKED_AT) if weights.newest_first else query.k
