"""What tells whether two entities could be one: the names of all, what is believed of them, and what was parted by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import select

from langmem_adapter.storage.graph.people import People
from langmem_adapter.storage.graph.spans import Span
from langmem_adapter.storage.graph.tables import BELIEVED, EDGE, entities, entity_names, merges, relations
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import expand

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope

__all__ = ["KnownEdge", "MergeCandidates", "NamedEntity", "merge_candidates"]

_whose, _apart = any_of(relations.c.scope_id, "scopes"), any_of(merges.c.scope_id, "scopes")
_lasting = any_of(entities.c.scope_id, "scopes"), entities.c.merged_into.is_(None), entities.c.owner.is_(None)
_edges: Final = select(*EDGE, relations.c.relation, relations.c.valid_from, relations.c.valid_to)
_EDGES: Final = Prepared(_edges.where(_whose, BELIEVED).order_by(relations.c.pk))
_PARTED: Final = Prepared(select(merges.c.winner_pk, merges.c.loser_pk).where(_apart, merges.c.undone_at.is_not(None)))
_NAMED: Final = Prepared(
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
    rows, edges, parted = (each.rows(connection, {"scopes": scope_ids}) for each in (_NAMED, _EDGES, _PARTED))
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
