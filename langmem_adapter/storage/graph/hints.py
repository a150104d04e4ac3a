"""What others look up in the knowledge graph: names for extraction, memories without relations, candidates for merges."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import desc, exists, func, or_, select, update

from langmem_adapter.names import candidate_keys
from langmem_adapter.storage.graph.reads import EntityGroups
from langmem_adapter.storage.graph.rows import Span
from langmem_adapter.storage.graph.writes import ends, normal, single
from langmem_adapter.storage.memories import timelines
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.scopes import OWNER, expand, ids_within, of_row
from langmem_adapter.storage.tables import (
    CURRENT,
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

# ── memories that were not read for relations ───────────────────────────────────────────────────────────────────────────

_states: Final = exists().where(relation_memories.c.memory_id == memories.c.id, SAYS)
_UNREAD: Final = (func.coalesce(memories.c.related, 0) == 0, memories.c.memory_type.is_(None), ~_states)


class UnreadMemory(NamedTuple):
    """A memory as it is read, and since when it says what it says."""

    pk: int
    id: str
    seq: int
    text: str
    actor: str | None
    role: str | None
    scope: Scope
    since: datetime


def list_unread(connection: Connection, scope: Scope) -> Sequence[Any]:
    """The facts within *scope* that were not read and state no relation, without records and expired ones.

    Rows of pk, scope_id, role and letters; those of one exact scope and one role are neighbours, oldest first.
    """
    lasting = or_(memories.c.expires_at.is_(None), memories.c.expires_at > datetime.now(UTC))
    order = memories.c.scope_id, memories.c.role, memories.c.pk
    query = select(memories.c.pk, *order[:2], func.length(memories.c.text).label("letters")).order_by(*order)
    return connection.execute(query.where(memories.c.scope_id.in_(ids_within(scope)), lasting, *_UNREAD)).all()


def load_unread(connection: Connection, pks: Sequence[int]) -> list[UnreadMemory]:
    """Those of some memories that are there and still not read, oldest first."""
    query = select(memories, *OWNER).join_from(memories, scopes, memories.c.scope_id == scopes.c.id)
    rows = connection.execute(query.where(memories.c.pk.in_(pks), *_UNREAD).order_by(memories.c.pk)).all()
    histories = timelines(connection, [row.id for row in rows])
    return [
        UnreadMemory(
            row.pk, row.id, row.seq, row.text, row.actor_id, row.role, of_row(row), _since(histories[row.id], row)
        )
        for row in rows
    ]


def mark_read(connection: Connection, memory: UnreadMemory) -> bool:
    """Note that a memory was read, and whether that is so: it is unchanged and still unread."""
    unchanged = memories.c.pk == memory.pk, memories.c.seq == memory.seq
    return connection.execute(update(memories).where(*unchanged, *_UNREAD).values(related=1)).rowcount == 1


def _since(timeline: MemoryTimeline, row: Any) -> datetime:
    """The date of the first of the statements, one after the other up to now, that say what the memory says."""
    since: datetime = row.updated_at
    for step in reversed(timeline.steps):
        if step.text != row.text:
            break
        since = min(since, step.valid_from)
    return local(since, row.utc_offset)


# ── names for extraction ────────────────────────────────────────────────────────────────────────────────────────────────

_MOST_NAMED: Final = 30  # entities named in the texts, or relations in use
_MOST_OFTEN: Final = 10  # entities not named there; all together some two hundred tokens
_MOST_RIVALS: Final = 50
_RECENT: Final = 2_000  # most relations of which the names are counted
# Reasoners have their own words for the user and the agent.
_NODE: Final = select(entities.c.name, entities.c.type).where(entities.c.owner.is_(None))
_NAMED: Final = Prepared(
    _NODE.join(entity_names, entity_names.c.entity_pk == entities.c.pk)
    .where(any_of(entity_names.c.scope_id, "scopes"), any_of(entity_names.c.key, "keys"))
    .order_by(desc(entities.c.mentions), entities.c.pk)
    .limit(_MOST_NAMED)
)
_OFTEN: Final = Prepared(
    _NODE.where(any_of(entities.c.scope_id, "scopes"), entities.c.merged_into.is_(None))
    .order_by(desc(entities.c.mentions), entities.c.pk)
    .limit(_MOST_OFTEN)
)
_of_scopes: Final = any_of(relations.c.scope_id, "scopes")
_newest: Final = select(relations.c.relation).where(_of_scopes, CURRENT).order_by(desc(relations.c.pk))
_recent: Final = _newest.limit(_RECENT).subquery().c.relation
_IN_USE: Final = Prepared(select(_recent).group_by(_recent).order_by(func.count().desc(), _recent).limit(_MOST_NAMED))
_RIVALS: Final = Prepared(
    select(memories.c.pk)
    .join_from(relations, entity_names, entity_names.c.entity_pk == relations.c.source_pk)
    .join(relation_memories, relation_memories.c.relation_id == relations.c.id)
    .join(memories, memories.c.id == relation_memories.c.memory_id)
    .where(
        any_of(entity_names.c.scope_id, "scopes"),
        any_of(entity_names.c.key, "sources"),
        any_of(relations.c.relation, "relations"),
        CURRENT,
        SAYS,
        memories.c.memory_type.is_(None),
    )
    .order_by(desc(relations.c.pk), memories.c.pk)
    .limit(_MOST_RIVALS)
)


def load_names(
    connection: Connection, scope: Scope, texts: Iterable[str]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """At most 40 names of entities with their types, and 30 of relations, that a conversation may be about.

    Entities that are named in the texts come first, then those that are stated most.
    """
    values = {
        "scopes": list(expand(connection, scope)),
        "keys": list({key for text in texts for key in candidate_keys(text)}),
    }
    rows = (*_NAMED.rows(connection, values), *_OFTEN.rows(connection, values))
    names = dict.fromkeys((row.name, row.type) for row in rows)
    return tuple(names), tuple(name for (name,) in _IN_USE.rows(connection, values))


def rivals(connection: Connection, scope: Scope, scope_ids: Iterable[int], triples: Sequence[Triple]) -> list[int]:
    """Pks of the facts that state a relation of the same kind and source as new triples of *scope*, the latest first.

    For relations that can have several targets it gives none.
    """
    alone = [each for each in map(normal, triples) if single(each)]
    if not alone:
        return []
    values = {
        "scopes": list(scope_ids),
        "sources": [ends(triple, scope)[0].key for triple in alone],
        "relations": [triple.relation for triple in alone],
    }
    return list(dict.fromkeys(pk for (pk,) in _RIVALS.rows(connection, values)))


# ── candidates for merges ───────────────────────────────────────────────────────────────────────────────────────────────

_edges: Final = select(*EDGE, relations.c.relation, relations.c.valid_from, relations.c.valid_to)
_EDGES: Final = Prepared(_edges.where(_of_scopes, CURRENT).order_by(relations.c.pk))
_SPLIT: Final = Prepared(
    select(merges.c.winner_pk, merges.c.loser_pk).where(
        any_of(merges.c.scope_id, "scopes"), merges.c.undone_at.is_not(None)
    )
)
_CANDIDATES: Final = Prepared(
    select(entities.c.pk, entities.c.name, entity_names.c.name.label("alias"), entities.c.type, entities.c.mentions)
    .join(entity_names, entity_names.c.entity_pk == entities.c.pk)
    .where(any_of(entities.c.scope_id, "scopes"), entities.c.merged_into.is_(None), entities.c.owner.is_(None))
    .order_by(entities.c.pk, entity_names.c.key)
)


class NamedEntity(NamedTuple):
    """An entity with its own name; its pk is the least of those that are one."""

    pk: int
    name: str
    names: tuple[str, ...]
    type: str
    mentions: int


class CurrentEdge(NamedTuple):
    """A current relation between two."""

    source: int
    relation: str
    target: int
    span: Span


class MergeCandidates(NamedTuple):
    """The entities in a scope that may be one."""

    named: list[NamedEntity]  # those that have a current relation, but for the scope's own user and agent
    edges: list[CurrentEdge]  # current relations, of any time
    different: set[frozenset[int]]  # pairs that a relation connects, or with an undone merge


def merge_candidates(connection: Connection, scope: Scope) -> MergeCandidates:
    """The entities within *scope*; those of one name in several exact scopes are one."""
    scope_ids = expand(connection, scope)
    rows, edges, split = (each.rows(connection, {"scopes": scope_ids}) for each in (_CANDIDATES, _EDGES, _SPLIT))
    groups = EntityGroups(connection, scope_ids)
    pairs = [*((edge.source_pk, edge.target_pk) for edge in edges), *split]
    groups.load({row.pk for row in rows}.union(*pairs))
    first = groups.first
    current = [
        CurrentEdge(first(e.source_pk), e.relation, first(e.target_pk), Span(e.valid_from, e.valid_to)) for e in edges
    ]
    related = {end for edge in current for end in (edge.source, edge.target)}
    named: dict[int, NamedEntity] = {}
    for row in rows:
        if (pk := first(row.pk)) in related:
            entity = named.get(pk) or NamedEntity(pk, row.name, (), "", 0)
            names = tuple(dict.fromkeys((*entity.names, row.alias)))
            named[pk] = entity._replace(
                names=names, type=entity.type or row.type, mentions=max(entity.mentions, row.mentions)
            )
    return MergeCandidates(list(named.values()), current, {frozenset(map(first, pair)) for pair in pairs})
