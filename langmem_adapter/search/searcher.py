"""The one search: behind `Memory.search` and behind the pipeline's retrieve stage.

A search pulls what was committed since the last one, asks the vector index and the words of the scopes it may see, joins the
two, and fetches the memories. It is complete for every scope, however small, and for every filter: a filter narrows what is
searched, nothing is dropped from a list that was already cut.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from langmem_adapter.records import Explanation, Hit, MemoryItem, Scope
from langmem_adapter.search.ranking import Ranked, fuse
from langmem_adapter.storage import memories
from langmem_adapter.storage.lexical import bm25
from langmem_adapter.storage.scopes import expand
from langmem_adapter.text import content_words, text_hash, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.index.base import VectorFeed
    from langmem_adapter.storage.database import Database

__all__ = ["Neighbour", "Neighbourhood", "Query", "Searcher"]

_STRATEGY: Final = "{} cosine + BM25, min-max sum"
_LEAST_CANDIDATES: Final = 60
_RECENT: Final = 3  # memories that a pronoun may point at


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for, and where.

    Attributes:
        text: The question or statement; operators and quotes are just text.
        scope: Whose memories.
        k: At most so many hits.
        filters: Metadata values that must be equal.
        threshold: Least cosine of a hit, -1 to 1.
        memory_type: Only memories of this type.
        explain: Give the parts of each score.
    """

    text: str
    scope: Scope
    k: int = 10
    filters: Mapping[str, Any] = field(default_factory=dict)
    threshold: float | None = None
    memory_type: str | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A memory that a new fact has to be compared with: its id, text and the number of its last change."""

    id: str
    text: str
    seq: int


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The memories around some facts.

    Attributes:
        seen: Number of the last change that was taken into account.
        known: Every neighbour of any fact, once.
        near: For each fact, indexes into *known*, nearest first.
        close: For each fact, whether any of them is near enough to be about the same thing.
        equal: For each fact, the index of a memory with the same words, or `None`.
    """

    seen: int
    known: tuple[Neighbour, ...]
    near: tuple[tuple[int, ...], ...]
    close: tuple[bool, ...]
    equal: tuple[int | None, ...]


class Searcher:
    """Finds memories by meaning and words.

    Args:
        database: The truth.
        indexer: Keeps the vector index up to date.
        embedder: Turns texts into vectors.
        word_weight: Share of the words in a score, 0 to 1.
        near: Cosine from which on a memory counts as near.
    """

    def __init__(
        self, database: Database, indexer: VectorFeed, embedder: Embedder, *, word_weight: float, near: float
    ) -> None:
        self._database = database
        self._indexer = indexer
        self._embedder = embedder
        self._word_weight = word_weight
        self._near = near

    def search(self, query: Query) -> list[Hit]:
        """The best hits, best first; sees everything that was committed before it began."""
        return self._find(query, self._embedder.query(query.text))

    async def asearch(self, query: Query) -> list[Hit]:
        """The async twin of `search`."""
        vector = await self._embedder.aquery(query.text)
        return await asyncio.to_thread(self._find, query, vector)

    def neighbours(self, texts: Sequence[str], scope: Scope, *, limit: int, referring: Sequence[bool]) -> Neighbourhood:
        """The memories within *scope* that new facts have to be compared with.

        Args:
            texts: The facts, whose vectors are in the embedder's cache or are made now, in one batch.
            scope: The fields that the add was given.
            limit: Neighbours for each fact.
            referring: Whether each fact speaks of somebody named earlier ("She has a dog"): then its words alone do not
                find who is meant, and the latest memories are its neighbours as well.
        """
        vectors = self._embedder.vectors(texts)
        self._indexer.pull()
        seen = self._indexer.applied
        hood = _Hood(self._near)
        with self._database.read() as connection:
            equal = memories.equal_texts(connection, scope, [text_hash(text) for text in texts])
            for text, vector, refers in zip(texts, vectors, referring, strict=True):
                ranked = self._rank(connection, Query(text, scope, k=limit), vector)
                recent = memories.latest(connection, scope, _RECENT) if refers else []
                hood.add(text, ranked, limit, recent, equal.get(text_hash(text)))
            return hood.read(connection, seen)

    def _find(self, query: Query, vector: NDArray[np.float32]) -> list[Hit]:
        self._indexer.pull()
        with self._database.read() as connection:
            ranked = self._rank(connection, query, vector)
            if query.threshold is not None:
                ranked = _at(ranked, ranked.meaning >= query.threshold)
            hits: list[Hit] = []
            for start in range(0, len(ranked.pks), query.k):  # one round, but for memories deleted this very moment
                items = memories.by_pks(connection, ranked.pks[start : start + query.k].tolist())
                hits += _hits(_at(ranked, slice(start, start + query.k)), items, explain=query.explain)
                if len(hits) >= query.k:
                    break
            return hits[: query.k]

    def _rank(self, connection: Connection, query: Query, vector: NDArray[np.float32]) -> Ranked:
        index = self._indexer.view(connection)
        if index is None:  # no memory exists yet
            nothing = np.empty(0, np.float32)
            return Ranked(np.empty(0, np.int64), nothing, nothing, nothing)
        ids = expand(connection, query.scope)
        allowed = self._allowed(connection, query)
        hidden = np.asarray(memories.expired(connection, frozenset(ids)), np.int64)
        count = max(4 * query.k, _LEAST_CANDIDATES) + len(hidden)
        near = index.search(vector, count, scopes=ids, pks=allowed)
        told, scores = bm25(connection, query.scope, content_words(query.text) or words(query.text))
        if allowed is not None:
            kept = np.isin(told, allowed)
            told, scores = told[kept], scores[kept]
        pks = np.setdiff1d(np.union1d(near.pks, told), hidden)
        meaning = index.scores(vector, pks)
        indexed = ~np.isnan(meaning)  # a memory committed since the pull comes with the next search
        lexical = np.zeros(len(pks), np.float32)
        lexical[np.isin(pks, told)] = scores[np.isin(told, pks)]
        return fuse(
            pks[indexed], meaning[indexed], lexical[indexed], word_weight=self._word_weight, strategy=near.strategy
        )

    def _allowed(self, connection: Connection, query: Query) -> NDArray[np.int64] | None:
        if not query.filters and query.memory_type is None:
            return None
        found = memories.matching(connection, query.scope, filters=query.filters, memory_type=query.memory_type)
        return np.asarray(found, np.int64)


class _Hood:
    """Collects the neighbours of several facts; each memory stands once."""

    def __init__(self, near: float) -> None:
        self._near_enough = near
        self._facts: list[tuple[str, list[int], bool, int | None]] = []

    def add(self, text: str, ranked: Ranked, limit: int, recent: list[int], equal: int | None) -> None:
        pks = ranked.pks[:limit].tolist()
        close = bool(np.any(ranked.meaning[:limit] >= self._near_enough) or recent)
        extra = [pk for pk in (*recent, *([] if equal is None else [equal])) if pk not in pks]
        self._facts.append((text, pks + extra, close, equal))

    def read(self, connection: Connection, seen: int) -> Neighbourhood:
        pks = list(dict.fromkeys(pk for _, near, _, _ in self._facts for pk in near))
        items = memories.by_pks(connection, pks)
        seqs = memories.sequence_numbers(connection, [item.id for item in items.values()])
        place = {pk: number for number, pk in enumerate(pk for pk in pks if pk in items)}
        known = tuple(Neighbour(items[pk].id, items[pk].text, seqs[items[pk].id]) for pk in place)
        return Neighbourhood(
            seen=seen,
            known=known,
            near=tuple(tuple(place[pk] for pk in near if pk in place) for _, near, _, _ in self._facts),
            close=tuple(close or self._shares_a_word(text, near, items) for text, near, close, _ in self._facts),
            equal=tuple(None if equal is None else place.get(equal) for *_, equal in self._facts),
        )

    def _shares_a_word(self, text: str, near: list[int], items: Mapping[int, MemoryItem]) -> bool:
        told = content_words(text)
        return any(told & content_words(items[pk].text) for pk in near if pk in items)


def _at(ranked: Ranked, places: Any) -> Ranked:
    parts = (ranked.pks[places], ranked.scores[places], ranked.meaning[places], ranked.words[places])
    return Ranked(*parts, ranked.strategy)


def _hits(ranked: Ranked, items: Mapping[int, MemoryItem], *, explain: bool) -> list[Hit]:
    rows = zip(ranked.pks.tolist(), ranked.scores.tolist(), ranked.meaning.tolist(), ranked.words.tolist(), strict=True)
    strategy = _STRATEGY.format(ranked.strategy)
    return [
        Hit(items[pk], score, Explanation(meaning, told, strategy) if explain else None)
        for pk, score, meaning, told in rows
        if pk in items
    ]
