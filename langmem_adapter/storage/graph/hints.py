"""Entity names for extraction, memories without relations, and candidates for a merge of entities.

Such a memory says where somebody lives, for the news of a move.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import desc, exists, func, or_, select, update

from langmem_adapter.names import candidate_keys
from langmem_adapter.storage.graph.reads import People
from langmem_adapter.storage.graph.rows import Span
from langmem_adapter.storage.graph.writes import ends, normal, single
from langmem_adapter.storage.memories import timelines
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.scopes import expand, ids_within, of_row
from langmem_adapter.storage.tables import (
    BELIEVED,
    EDGE,
    SAYS,
    entities,
    entity_names,
    memories,
    merges,
    relation_memories,
    relations,
    scopes,
)
from langmem_adapter.storage.timestamps import local

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.memories import MemoryTimeline

_says: Final = exists().where(relation_memories.c.memory_id == memories.c.id, SAYS)
_OPEN: Final = (func.coalesce(memories.c.related, 0) == 0, memories.c.memory_type.is_(None), ~_says)


class Waiting(NamedTuple):
    """A memory that is to be read: where it stands, who said it, and how many letters it has."""

    pk: int
    home: int
    role: str | None
    letters: int


class Unread(NamedTuple):
    """A memory as it is read, and since when it says what it says."""

    pk: int
    id: str
    seq: int
    text: str
    actor: str | None
    role: str | None
    scope: Scope
    since: datetime


def unread(connection: Connection, scope: Scope) -> list[Waiting]:
    """The facts within *scope* that were not read and say nothing.

    Those of one exact scope and one role stand together, oldest first. Expired ones are left out, and so are records.
    """
    lasting = or_(memories.c.expires_at.is_(None), memories.c.expires_at > datetime.now(UTC))
    whose = memories.c.scope_id.in_(ids_within(scope))
    order = memories.c.scope_id, memories.c.role, memories.c.pk
    query = select(memories.c.pk, *order[:2], func.length(memories.c.text)).where(whose, lasting, *_OPEN)
    return [Waiting(*row) for row in connection.execute(query.order_by(*order))]


def texts(connection: Connection, pks: Sequence[int]) -> list[Unread]:
    """Those of some memories that are there and still not read, oldest first."""
    columns = memories, scopes.c.user_id, scopes.c.agent_id, scopes.c.run_id
    query = select(*columns).join_from(memories, scopes, memories.c.scope_id == scopes.c.id)
    rows = connection.execute(query.where(memories.c.pk.in_(pks), *_OPEN).order_by(memories.c.pk)).all()
    known = timelines(connection, [row.id for row in rows])
    return [
        Unread(row.pk, row.id, row.seq, row.text, row.actor_id, row.role, of_row(row), _since(known[row.id], row))
        for row in rows
    ]


def was_read(connection: Connection, memory: Unread) -> bool:
    """Note that a memory was read, and whether that is so: it stands as it was read, and nobody has read it meanwhile."""
    as_it_was = memories.c.pk == memory.pk, memories.c.seq == memory.seq
    return connection.execute(update(memories).where(*as_it_was, *_OPEN).values(related=1)).rowcount == 1


def _since(course: MemoryTimeline, row: Any) -> datetime:
    """The date of the first of the statements, one after the other up to now, that say what the memory says."""
    since: datetime = row.updated_at
    for step in reversed(course.steps):
        if step.text != row.text:
            break
        since = min(since, step.valid_from)
    return local(since, row.utc_offset)


_MOST: Final = 30  # that are named, or relations in use
_BESIDE: Final = 10  # that are not named; all together some two hundred tokens
_MOST_RIVALS: Final = 50
_RECENT: Final = 2_000  # relations whose names are counted, however many there are
# Reasoners have words of their own for the user and the agent.
_NODE: Final = select(entities.c.name, entities.c.type).where(entities.c.owner.is_(None))
_NAMED: Final = Prepared(
    _NODE.join(entity_names, entity_names.c.entity_pk == entities.c.pk)
    .where(any_of(entity_names.c.scope_id, "scopes"), any_of(entity_names.c.key, "keys"))
    .order_by(desc(entities.c.mentions), entities.c.pk)
    .limit(_MOST)
)
_OFTEN: Final = Prepared(
    _NODE.where(any_of(entities.c.scope_id, "scopes"), entities.c.merged_into.is_(None))
    .order_by(desc(entities.c.mentions), entities.c.pk)
    .limit(_BESIDE)
)
_recent: Final = (
    select(relations.c.relation)
    .where(any_of(relations.c.scope_id, "scopes"), BELIEVED)
    .order_by(desc(relations.c.pk))
    .limit(_RECENT)
    .subquery()
)
_IN_USE: Final = Prepared(
    select(_recent.c.relation)
    .group_by(_recent.c.relation)
    .order_by(func.count().desc(), _recent.c.relation)
    .limit(_MOST)
)
_SAYING: Final = Prepared(
    select(memories.c.pk)
    .join_from(relations, entity_names, entity_names.c.entity_pk == relations.c.source_pk)
    .join(relation_memories, relation_memories.c.relation_id == relations.c.id)
    .join(memories, memories.c.id == relation_memories.c.memory_id)
    .where(
        any_of(entity_names.c.scope_id, "scopes"),
        any_of(entity_names.c.key, "sources"),
        any_of(relations.c.relation, "relations"),
        BELIEVED,
        SAYS,
        memories.c.memory_type.is_(None),
    )
    .order_by(desc(relations.c.pk), memories.c.pk)
    .limit(_MOST_RIVALS)
)


def known_names(
    connection: Connection, scope: Scope, texts: Iterable[str]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """At most 40 names of entities with their types, and 30 of relations, that a conversation may be about.

    Entities that are named in the texts come first, then those that are stated most.
    """
    scope_ids = list(expand(connection, scope))
    keys = {key for text in texts for key in candidate_keys(text)}
    named = _NAMED.rows(connection, {"scopes": scope_ids, "keys": list(keys)})
    often = _OFTEN.rows(connection, {"scopes": scope_ids})
    nodes = dict.fromkeys((row.name, row.type) for row in (*named, *often))
    return tuple(nodes), tuple(row.relation for row in _IN_USE.rows(connection, {"scopes": scope_ids}))


def rivals(connection: Connection, scope: Scope, scope_ids: Iterable[int], triples: Sequence[Triple]) -> list[int]:
    """Pks of the facts that say a relation of the same kind and the same source as new triples, the latest first.

    Of relations that can have several targets nothing is found. The speakers are those of *scope*.
    """
    lone = [normal(triple) for triple in triples if single(normal(triple))]
    if not lone:
        return []
    asked = {
        "scopes": list(scope_ids),
        "sources": [ends(triple, scope)[0].key for triple in lone],
        "relations": [triple.relation for triple in lone],
    }
    return list(dict.fromkeys(row.pk for row in _SAYING.rows(connection, asked)))


_whose, _apart = any_of(relations.c.scope_id, "scopes"), any_of(merges.c.scope_id, "scopes")
_lasting = any_of(entities.c.scope_id, "scopes"), entities.c.merged_into.is_(None), entities.c.owner.is_(None)
_edges: Final = select(*EDGE, relations.c.relation, relations.c.valid_from, relations.c.valid_to)
_EDGES: Final = Prepared(_edges.where(_whose, BELIEVED).order_by(relations.c.pk))
_PARTED: Final = Prepared(select(merges.c.winner_pk, merges.c.loser_pk).where(_apart, merges.c.undone_at.is_not(None)))
_CANDIDATE_NAMES: Final = Prepared(
    select(entities.c.pk, entities.c.name, entity_names.c.name.label("alias"), entities.c.type, entities.c.mentions)
    .join(entity_names, entity_names.c.entity_pk == entities.c.pk)
    .where(*_lasting)
    .order_by(entities.c.pk, entity_names.c.key)
)


class NamedEntity(NamedTuple):
    """Somebody or something that has a name of its own; its pk is the least of those that are one."""

    pk: int
    name: str
    names: tuple[str, ...]  # all that it is called
    type: str
    mentions: int


class KnownEdge(NamedTuple):
    """What is believed of two."""

    source: int
    relation: str
    target: int
    span: Span


class MergeCandidates(NamedTuple):
    """Everybody in a scope."""

    named: list[NamedEntity]  # whoever has a relation that is believed, but for the scope's own user and agent
    edges: list[KnownEdge]  # what is believed, of any time
    apart: set[frozenset[int]]  # pairs that a relation connects, or that were one until somebody undid it


def merge_candidates(connection: Connection, scope: Scope) -> MergeCandidates:
    """Everybody within *scope*; those of one name in several exact scopes are one."""
    scope_ids = expand(connection, scope)
    rows, edges, parted = (each.rows(connection, {"scopes": scope_ids}) for each in (_CANDIDATE_NAMES, _EDGES, _PARTED))
    people = People(connection, scope_ids)
    pairs = [*((edge.source_pk, edge.target_pk) for edge in edges), *parted]
    people.meet({row.pk for row in rows}.union(*pairs))
    who = people.who
    told = [KnownEdge(who(e.source_pk), e.relation, who(e.target_pk), Span(e.valid_from, e.valid_to)) for e in edges]
    related = {end for edge in told for end in (edge.source, edge.target)}
    named = _grouped([(who(row.pk), row) for row in rows if who(row.pk) in related])
    return MergeCandidates(named, told, {frozenset(map(who, pair)) for pair in pairs})


def _grouped(rows: Iterable[tuple[int, Any]]) -> list[NamedEntity]:
    groups: dict[int, NamedEntity] = {}
    for pk, row in rows:
        known = groups.get(pk) or NamedEntity(pk, row.name, (), "", 0)
        groups[pk] = known._replace(
            names=tuple(dict.fromkeys((*known.names, row.alias))),
            type=known.type or row.type,
            mentions=max(known.mentions, row.mentions),
        )
    return list(groups.values())
