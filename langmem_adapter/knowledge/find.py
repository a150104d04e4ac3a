"""Finding relations by a question: by the names in it, by its words, and by the memories that answer it.

The graph has no vectors of its own. What is near in meaning is found through the memories: those that answer the question say
relations, and these are what it asks for.
"""

from __future__ import annotations

from collections import Counter
from math import log, sqrt
from typing import TYPE_CHECKING, Final

from langmem_adapter.names import keys_in
from langmem_adapter.search.question import LONGEST
from langmem_adapter.storage.graph import reads as graph_reads
from langmem_adapter.storage.graph.people import People, with_keys
from langmem_adapter.storage.meta import language_of
from langmem_adapter.storage.scopes import expand
from langmem_adapter.text import content_words, subjects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.graph import Relation
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.reads import When

__all__ = ["found"]

_NEWEST: Final = 500
"""So many of the scope's relations, and of each entity's that is named, are compared with the words of the question."""


def found(
    connection: Connection, scope: Scope, when: When, query: str, memory_ids: Sequence[str], k: int
) -> list[Relation]:
    """The relations that answer a question, of which the beginning is read, best first."""
    query = query[:LONGEST]
    scope_ids = expand(connection, scope)
    said = graph_reads.of_memories(connection, memory_ids, when)
    ranks = {pk: rank for rank, one in reversed([*enumerate(memory_ids, 1)]) for pk in said.get(one, ())}
    named = _named(connection, scope_ids, query, when)
    newest = graph_reads.newest(connection, scope, when, k=_NEWEST)
    relations = graph_reads.by_pks(connection, list({*ranks, *named, *newest}))
    told = _told(relations, query, language_of(connection))
    scores = {pk: told[pk] + named[pk] / 2 + (1 / sqrt(ranks[pk]) if pk in ranks else 0) for pk in relations}
    best = sorted((pk for pk in relations if scores[pk] > 0), key=lambda pk: -scores[pk])
    return [relations[pk] for pk in best[:k]]


def _named(connection: Connection, scope_ids: Sequence[int], query: str, when: When) -> Counter[int]:
    """How many ends of each relation the question names, and never the owner's: nearly everything is said of him."""
    pks = {pk for _, pk in with_keys(connection, scope_ids, keys_in(query))}
    everyone = People(connection, scope_ids).everyone(pks)
    edges = graph_reads.around(connection, everyone, when, most=_NEWEST)
    return Counter({pk: len({*ends}.intersection(everyone)) for pk, *ends in edges})


def _told(relations: Mapping[int, Relation], query: str, language: str) -> dict[int, float]:
    """How much of the question each relation's words repeat, from 0 to 1; rare words count more."""
    asked = _terms(query, language)
    shared = {pk: asked & _terms(relation.text, language) for pk, relation in relations.items()}
    holding = Counter(term for terms in shared.values() for term in terms)
    weights = {term: log(1 + len(relations) / max(holding[term], 1)) for term in asked}
    whole = sum(weights.values()) or 1
    return {pk: sum(weights[term] for term in terms) / whole for pk, terms in shared.items()}


def _terms(text: str, language: str) -> set[str]:
    """The words of a text, and the groups of related words that they belong to."""
    return content_words(text, language) | subjects(text, language)
