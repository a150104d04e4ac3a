"""What is read of the graph: neighbours, paths, the part that is drawn, what lies around one entity, what answers a question.

The graph has no vectors of its own. What is near in meaning is found through the memories: those that answer a question say
relations, and these are what it asks for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from math import log, sqrt
from typing import TYPE_CHECKING, Final, TypeAlias

from langmem_adapter.knowledge.draw import MOST_NODES
from langmem_adapter.knowledge.walk import Ground, reach, shortest
from langmem_adapter.names import keys_in
from langmem_adapter.records.graph import Entity, Neighbour, Relation
from langmem_adapter.search.question import LONGEST
from langmem_adapter.storage.graph import entities as graph_entities
from langmem_adapter.storage.graph import reads as graph_reads
from langmem_adapter.storage.graph.people import People, with_keys
from langmem_adapter.storage.meta import language_of
from langmem_adapter.storage.scopes import expand
from langmem_adapter.text import content_words, subjects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.knowledge.walk import Hop
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.reads import When

__all__ = ["COUNTED", "Edge", "Ego", "Near", "Part", "Tie", "drawn", "ego", "found", "neighbours", "parts", "path"]

_FOLLOWED: Final = 100
"""Relations of an entity that are followed in each direction, beside as many as neighbours are wanted."""
_MOST_ARROWS: Final = 2_000
"""Relations of a drawing."""
_MOST_TIES: Final = 1_000
"""Relations around one entity."""
_NEWEST: Final = 500
"""So many of the scope's relations, and of each entity's that is named, are compared with the words of a question."""
COUNTED: Final = 1_000
"""Entities around one are counted up to so many: each costs a look at its relations."""


@dataclass(frozen=True, slots=True)
class Near:
    """An entity, and how many relations lie between it and the one in the middle at least."""

    entity: Entity
    hops: int


@dataclass(frozen=True, slots=True)
class Tie:
    """A relation, with the places that its ends have among the entities."""

    relation: Relation
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation between two entities by their ids; of one relation there may be several rows, where the history is read."""

    row: int
    source: str
    target: str
    relation: Relation


Part: TypeAlias = Entity | Edge


@dataclass(frozen=True, slots=True)
class Ego:
    """What lies around one entity, at whatever time it did.

    Attributes:
        entities: It first, then those around it, nearest first; of one distance those of the newest relations first.
        ties: What is between them, newest recorded first.
        found: How many entities there are, up to `COUNTED`.
    """

    entities: Sequence[Near]
    ties: Sequence[Tie]
    found: int


def neighbours(connection: Connection, scope: Scope, when: When, entity: str, *, hops: int, k: int) -> list[Neighbour]:
    """The neighbours of an entity, nearest first."""
    ground = Ground(connection, scope, when)
    reached = reach(partial(ground.around, most=_FOLLOWED + k), ground.called(entity), hops=hops, most=k)
    entities = graph_entities.by_pks(connection, ground.people, list(reached))
    pks = {pk for each in reached.values() for pk in each.relations}
    relations = graph_reads.by_pks(connection, list(pks), when)
    return [
        Neighbour(entities[number], each.hops, tuple(relations[pk] for pk in each.relations))
        for number, each in reached.items()
    ]


def path(connection: Connection, scope: Scope, when: When, source: str, target: str, *, most: int) -> list[Relation]:
    """The relations on a shortest way from one entity to another."""
    ground = Ground(connection, scope, when)
    pks = shortest(ground.around, ground.called(source), ground.called(target), most=most)
    relations = graph_reads.by_pks(connection, pks, when)
    return [relations[pk] for pk in pks]


def drawn(
    connection: Connection, scope: Scope, when: When, entity: str | None, *, hops: int
) -> tuple[list[Relation], bool]:
    """The relations that are drawn, newest first, and whether some were left out: those around an entity, or the newest."""
    if entity is None:
        pks = graph_reads.newest(connection, scope, when, k=_MOST_ARROWS + 1)
        cut = len(pks) > _MOST_ARROWS
    else:
        pks, cut = _surroundings(Ground(connection, scope, when), entity, hops)
    return list(graph_reads.by_pks(connection, pks[:_MOST_ARROWS], when).values()), cut


def _surroundings(ground: Ground, entity: str, hops: int) -> tuple[list[int], bool]:
    """The relations between an entity and those around it, newest first, and whether there is more around it."""
    starts = ground.called(entity)
    found = reach(partial(ground.around, most=_FOLLOWED + MOST_NODES), starts, hops=hops, most=MOST_NODES)
    kept = dict([*found.items()][: MOST_NODES - len(starts)])
    pks = {pk for each in kept.values() for pk in each.relations}
    seen = {*starts, *kept}
    pks.update(pk for pk, *ends in ground.around(sorted(seen), most=_FOLLOWED) if seen.issuperset(ends))
    return sorted(pks, reverse=True), len(kept) < len(found) or len(pks) > _MOST_ARROWS


def ego(connection: Connection, scope: Scope, entity: str | None, *, hops: int, most: int) -> Ego | None:
    """What lies around an entity, by all that is believed now about whatever time, of at most so many entities.

    Without a name it is the scope's own user or agent, or else whoever is mentioned most often. `None` where nobody is called
    so, or nobody is known at all.
    """
    ground = Ground(connection, scope, graph_reads.NOW)
    starts = _heart(ground, connection, scope) if entity is None else ground.called(entity)
    if not starts:
        return None
    follow = partial(ground.around, most=COUNTED)
    reached = reach(follow, starts, hops=hops, most=COUNTED - len(starts))
    far = dict.fromkeys(starts, 0) | {number: each.hops for number, each in reached.items()}
    shown = list(far)[:most]
    known = graph_entities.by_pks(connection, ground.people, shown)
    nearest = [Near(known[number], far[number]) for number in shown]
    return Ego(nearest, _ties(connection, follow(shown), shown), len(far))


def _heart(ground: Ground, connection: Connection, scope: Scope) -> list[int]:
    """Whom a graph is about."""
    for name in (scope.user_id, scope.agent_id):
        if name is not None and ground.around(own := ground.called(name), most=1):
            return own
    mentioned = graph_entities.page(connection, scope, graph_reads.NOW, k=1)
    return ground.called(mentioned[0].name) if mentioned else []


def _ties(connection: Connection, edges: Sequence[Hop], shown: Sequence[int]) -> list[Tie]:
    places = {number: place for place, number in enumerate(shown)}
    inside = [edge for edge in edges if places.keys() >= {*edge[1:]}][:_MOST_TIES]
    relations = graph_reads.by_pks(connection, [pk for pk, *_ in inside])
    return [Tie(relations[pk], places[source], places[target]) for pk, source, target in inside]


def parts(connection: Connection, scope: Scope, when: When) -> Iterator[Part]:
    """The whole graph, however large: every relation, the first recorded first, and each entity before its first relation."""
    people, ids = People(connection, expand(connection, scope)), dict[int, str]()
    for rows in graph_reads.every(connection, scope, when):
        people.meet(pk for _, *ends in rows for pk in ends)
        fresh = {people.who(pk) for _, *ends in rows for pk in ends} - ids.keys()
        for number, entity in sorted(graph_entities.by_pks(connection, people, fresh).items()):
            ids[number] = entity.id
            yield entity
        relations = graph_reads.by_pks(connection, [pk for pk, *_ in rows], when)
        for pk, source, target in rows:
            yield Edge(pk, ids[people.who(source)], ids[people.who(target)], relations[pk])


# ── by a question ───────────────────────────────────────────────────────────────────────────────────────────────────────


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
