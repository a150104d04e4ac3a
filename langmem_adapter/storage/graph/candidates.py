"""What tells whether two entities could be one: the names of all, what is believed of them, and what was parted by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import select

from langmem_adapter.storage.graph.people import People
from langmem_adapter.storage.graph.spans import Span
from langmem_adapter.storage.graph.tables import entities, entity_names, merges, relations
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import expand

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope

__all__ = ["KnownEdge", "MergeCandidates", "NamedEntity", "merge_candidates"]

_NAMED: Final = Prepared(
    select(entities.c.pk, entities.c.name, entities.c.type, entities.c.mentions, entity_names.c.name.label("alias"))
    .join_from(entities, entity_names, entity_names.c.entity_pk == entities.c.pk)
    .where(any_of(entities.c.scope_id, "scopes"), entities.c.merged_into.is_(None), entities.c.owner.is_(None))
    .order_by(entities.c.pk, entity_names.c.key)
)
_EDGES: Final = Prepared(
    select(*(relations.c[name] for name in ("source_pk", "relation", "target_pk", "valid_from", "valid_to")))
    .where(any_of(relations.c.scope_id, "scopes"), relations.c.retired_at.is_(None))
    .order_by(relations.c.pk)
)
_PARTED: Final = Prepared(
    select(merges.c.winner_pk, merges.c.loser_pk).where(
        any_of(merges.c.scope_id, "scopes"), merges.c.undone_at.is_not(None)
    )
)


class NamedEntity(NamedTuple):
    """Somebody or something that has a name of its own.

    Attributes:
        pk: The least of those that are one.
        names: All that it is called, `name` among them.
    """

    pk: int
    name: str
    names: tuple[str, ...]
    type: str
    mentions: int


class KnownEdge(NamedTuple):
    """What is believed of two."""

    source: int
    relation: str
    target: int
    span: Span


class MergeCandidates(NamedTuple):
    """Everybody in a scope.

    Attributes:
        named: Whoever has a relation that is believed, but for the scope's own user and agent.
        edges: What is believed, of any time.
        parted: Pairs that were one for a while, until somebody undid it.
    """

    named: list[NamedEntity]
    edges: list[KnownEdge]
    parted: set[frozenset[int]]


def merge_candidates(connection: Connection, scope: Scope) -> MergeCandidates:
    """Everybody within *scope*; those of one name in several exact scopes are one."""
    scope_ids = expand(connection, scope)
    rows = _NAMED.rows(connection, {"scopes": scope_ids})
    edges = _EDGES.rows(connection, {"scopes": scope_ids})
    parted = _PARTED.tuples(connection, {"scopes": scope_ids})
    people = People(connection, scope_ids)
    people.meet({row.pk for row in rows}.union(*((edge.source_pk, edge.target_pk) for edge in edges), *parted))
    related = {people.who(pk) for edge in edges for pk in (edge.source_pk, edge.target_pk)}
    groups: dict[int, NamedEntity] = {}
    for row, pk in [(row, pk) for row in rows if (pk := people.who(row.pk)) in related]:
        known = groups.get(pk) or NamedEntity(pk, row.name, (), "", 0)
        new = row.alias not in known.names
        groups[pk] = known._replace(
            names=(*known.names, row.alias) if new else known.names,
            type=known.type or row.type,
            mentions=max(known.mentions, row.mentions),
        )
    who = people.who
    told = [KnownEdge(who(e.source_pk), e.relation, who(e.target_pk), Span(e.valid_from, e.valid_to)) for e in edges]
    return MergeCandidates(list(groups.values()), told, {frozenset(map(who, pair)) for pair in parted})
