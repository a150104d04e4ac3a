"""What tells whether two entities could be one: the names of all, what is believed of them, and what was parted by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import select

from langmem_adapter.storage.graph.people import People
from langmem_adapter.storage.graph.spans import Span
from langmem_adapter.storage.graph.tables import BELIEVED, ENTITIES_OF, entities, entity_names, merges, relations
from langmem_adapter.storage.scopes import expand, ids_within, within

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope

__all__ = ["KnownEdge", "MergeCandidates", "NamedEntity", "merge_candidates"]


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
    whose = ids_within(scope)
    believed = relations.c.scope_id.in_(whose), BELIEVED
    edges = connection.execute(select(relations).where(*believed).order_by(relations.c.pk)).all()
    undone = merges.c.scope_id.in_(whose), merges.c.undone_at.is_not(None)
    parted = connection.execute(select(merges.c.winner_pk, merges.c.loser_pk).where(*undone)).all()
    people = People(connection, expand(connection, scope))
    pairs = [*((edge.source_pk, edge.target_pk) for edge in edges), *parted]
    people.meet(pk for pair in pairs for pk in pair)
    who = people.who
    told = [KnownEdge(who(e.source_pk), e.relation, who(e.target_pk), Span(e.valid_from, e.valid_to)) for e in edges]
    related = {end for edge in told for end in (edge.source, edge.target)}
    named = [each for each in _named(connection, scope, people) if each.pk in related]
    return MergeCandidates(named, told, {frozenset(map(who, pair)) for pair in pairs})


def _named(connection: Connection, scope: Scope, people: People) -> list[NamedEntity]:
    query = ENTITIES_OF.add_columns(entity_names.c.name.label("alias"))
    query = query.join(entity_names, entity_names.c.entity_pk == entities.c.pk)
    query = query.where(within(scope), entities.c.merged_into.is_(None), entities.c.owner.is_(None))
    rows = connection.execute(query.order_by(entities.c.pk, entity_names.c.key)).all()
    people.meet(row.pk for row in rows)
    groups: dict[int, NamedEntity] = {}
    for row in rows:
        pk = people.who(row.pk)
        known = groups.get(pk) or NamedEntity(pk, row.name, (), "", 0)
        groups[pk] = known._replace(
            names=tuple(dict.fromkeys((*known.names, row.alias))),
            type=known.type or row.type,
            mentions=max(known.mentions, row.mentions),
        )
    return list(groups.values())
