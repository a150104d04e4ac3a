"""Reading the knowledge graph: relations, entities, and who is whom.

A read names fields of a scope and sees several exact scopes; an entity of the same name in two of them is one entity to the
reader, and so is one that was merged into another. Who is whom is always read as it is known now; what is asked of the past
are the relations. Newest recorded first means the order of `pk`, which is drawn in the order of commits.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sqlalchemy import Integer, String, bindparam, literal, or_, select

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.names import entity_key, speaker
from langmem_adapter.records.graph import SELF, Relation
from langmem_adapter.storage.graph_tables import entities, entity_names, merges, relation_memories, relations
from langmem_adapter.storage.prepared import Prepared, any_of
from langmem_adapter.storage.scopes import expand, of_row, within
from langmem_adapter.storage.tables import scopes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy import ColumnElement, Connection

    from langmem_adapter.records.scope import Scope

__all__ = ["NOW", "People", "When", "by_pks", "called", "conditions", "cursor", "of_memories", "page", "parse_cursor"]

_EVER: Final = datetime.min.replace(tzinfo=UTC)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_LAST: Final = 2**63 - 1
_APART: Final = 64
"""Up to so many scopes or entities are read one by one, each in the order of an index, and more in one statement."""

Column: TypeAlias = Literal["scope_id", "source_pk", "target_pk"]


@dataclass(frozen=True, slots=True)
class When:
    """Which beliefs are read: what was known at one moment about another.

    Attributes:
        held: Relations that held at this moment; `None`: whenever.
        known: What was believed at this moment; `None`: what is believed now.
        history: Beliefs that are retired as well; *known* then bounds when they were recorded.
    """

    held: datetime | None = None
    known: datetime | None = None
    history: bool = False

    @property
    def past(self) -> bool:
        """Whether rows are wanted that nobody believes any more."""
        return self.history or self.known is not None

    @property
    def values(self) -> dict[str, datetime]:
        """The parameters of `conditions`."""
        return {
            "until": self.held or _NEVER,
            "since": self.held or _EVER,
            "recorded": self.known or _NEVER,
            "retired": _EVER if self.history else self.known or _NEVER,
        }


NOW: Final = When()
"""What is believed now, about whatever time."""


def conditions(*, past: bool) -> list[ColumnElement[bool]]:
    """The conditions on rows of `relations` that `When.values` completes.

    Args:
        past: Rows that are retired are wanted as well (`When.past`). Else an index leads past them.
    """
    held = [
        or_(relations.c.valid_from.is_(None), relations.c.valid_from <= bindparam("until")),
        or_(relations.c.valid_to.is_(None), relations.c.valid_to > bindparam("since")),
    ]
    if not past:
        return [relations.c.retired_at.is_(None), *held]
    return [
        relations.c.recorded_at <= bindparam("recorded"),
        or_(relations.c.retired_at.is_(None), relations.c.retired_at > bindparam("retired")),
        *held,
    ]


# ── relations ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_source, _target = entities.alias("source"), entities.alias("target")
_RELATIONS: Final = Prepared(
    select(
        *(column for column in relations.c if column.name not in {"scope_id", "source_pk", "target_pk"}),
        _source.c.name.label("source"),
        _source.c.type.label("source_type"),
        _target.c.name.label("target"),
        _target.c.type.label("target_type"),
        scopes.c.user_id,
        scopes.c.agent_id,
        scopes.c.run_id,
    )
    .join_from(relations, _source, relations.c.source_pk == _source.c.pk)
    .join(_target, relations.c.target_pk == _target.c.pk)
    .join(scopes, relations.c.scope_id == scopes.c.id)
    .where(any_of(relations.c.pk, "pks"))
    .order_by(relations.c.pk.desc())
)
_said: Final = relation_memories.c
_SAID: Final = {
    past: Prepared(
        select(_said.relation_id, _said.memory_id)
        .where(
            any_of(_said.relation_id, "ids"),
            *([or_(_said.dropped_at.is_(None), _said.dropped_at > bindparam("retired"))] if past else []),
            *([_said.created_at <= bindparam("recorded")] if past else [_said.dropped_at.is_(None)]),
        )
        .order_by(_said.created_at, _said.memory_id)
    )
    for past in (False, True)
}
_OF_MEMORIES: Final = Prepared(
    select(_said.memory_id, relations.c.pk)
    .join_from(relation_memories, relations, _said.relation_id == relations.c.id)
    .where(any_of(_said.memory_id, "ids"), _said.dropped_at.is_(None), *conditions(past=False))
    .order_by(relations.c.pk)
)


def page(
    connection: Connection,
    scope: Scope,
    when: When,
    *,
    k: int,
    entity: str | None = None,
    relation: str | None = None,
    after: str | None = None,
) -> tuple[list[Relation], str | None]:
    """Relations within *scope*, newest recorded first, and the cursor of the next page.

    Args:
        connection: A read transaction.
        scope: Whose graph.
        when: Which beliefs.
        k: At most so many.
        entity: Only relations of the thing of this name, at either end.
        relation: Only relations of this name, in the form of `names.relation_name`.
        after: The cursor that the page before gave.

    Raises:
        InvalidInputError: The cursor is none of ours.
    """
    last = _LAST if after is None else parse_cursor(after, 1)[0]
    pks = newest(connection, scope, when, k=k + 1, entity=entity, relation=relation, last=last)
    following = cursor(pks[k - 1]) if len(pks) > k else None
    return by_pks(connection, pks[:k], when), following


def newest(
    connection: Connection,
    scope: Scope,
    when: When,
    *,
    k: int,
    entity: str | None = None,
    relation: str | None = None,
    last: int = _LAST,
) -> list[int]:
    """Pks of relations, newest recorded first; see `page`.

    Args:
        connection: A read transaction.
        scope: Whose graph.
        when: Which beliefs.
        k: At most so many.
        entity: Only relations of the thing of this name.
        relation: Only relations of this name.
        last: Only relations with a smaller pk.
    """
    scope_ids = expand(connection, scope)
    wanted: list[tuple[Column, Sequence[int]]] = [("scope_id", scope_ids)]
    if entity is not None:
        members = People(connection, scope_ids).everyone(called(connection, scope, scope_ids, entity))
        wanted = [("source_pk", members), ("target_pk", members)]
    values = {**when.values, "k": k, "last": last, "relation": relation}
    found = [pks for column, ids in wanted for pks in _newest_of(connection, column, ids, when, values)]
    return list(islice(dict.fromkeys(heapq.merge(*found, reverse=True)), k))


def _newest_of(
    connection: Connection, column: Column, ids: Sequence[int], when: When, values: dict[str, Any]
) -> list[list[int]]:
    """Pks of the newest relations whose column has one of some values, in descending lists."""
    named = values["relation"] is not None
    if len(ids) <= _APART:
        each = _newest_statement(column, past=when.past, named=named, several=False)
        lists = [each.tuples(connection, {**values, "id": one}) for one in ids]
    else:
        lists = [_newest_statement(column, past=when.past, named=named, several=True).tuples(connection, {**values, "ids": ids})]
    return [[pk for (pk,) in rows] for rows in lists]


@lru_cache
def _newest_statement(column: Column, *, past: bool, named: bool, several: bool) -> Prepared:
    chosen = any_of(relations.c[column], "ids") if several else relations.c[column] == bindparam("id")
    called = [relations.c.relation == bindparam("relation")] if named else []
    query = select(relations.c.pk).where(chosen, *called, relations.c.pk < bindparam("last"), *conditions(past=past))
    return Prepared(query.order_by(relations.c.pk.desc()).limit(bindparam("k", type_=Integer)))


def by_pks(connection: Connection, pks: Sequence[int], when: When = NOW) -> list[Relation]:
    """Relations by pk, newest recorded first, each with the memories that say it.

    Args:
        connection: A read transaction.
        pks: Which rows.
        when: The memories that said so then.
    """
    if not pks:
        return []
    rows = _RELATIONS.rows(connection, {"pks": pks})
    said: defaultdict[str, list[str]] = defaultdict(list)
    values = {**when.values, "ids": list({row.id for row in rows})}
    for relation_id, memory_id in _SAID[when.past].tuples(connection, values):
        said[relation_id].append(memory_id)
    return [_relation(row, tuple(said[row.id]) if row.id in said else ()) for row in rows]


def of_memories(connection: Connection, memory_ids: Sequence[str], when: When) -> dict[str, list[int]]:
    """Pks of the relations that some memories say, by memory.

    Args:
        connection: A read transaction.
        memory_ids: Which memories.
        when: When the relations hold; only what is believed now is read.
    """
    found: defaultdict[str, list[int]] = defaultdict(list)
    for memory_id, pk in _OF_MEMORIES.tuples(connection, {**when.values, "ids": memory_ids}):
        found[memory_id].append(pk)
    return dict(found)


def _relation(row: Any, memory_ids: tuple[str, ...]) -> Relation:
    return Relation(
        id=row.id,
        source=row.source,
        relation=row.relation,
        target=row.target,
        source_type=row.source_type,
        target_type=row.target_type,
        scope=of_row(row),
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        recorded_at=row.recorded_at,
        retired_at=row.retired_at,
        mentions=row.mentions,
        confidence=row.confidence,
        memory_ids=memory_ids,
    )


# ── who is whom ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_NAMED: Final = Prepared(
    select(entity_names.c.key, entity_names.c.entity_pk).where(
        any_of(entity_names.c.scope_id, "scopes"), any_of(entity_names.c.key, "keys")
    )
)
_NAMES: Final = Prepared(
    select(entity_names.c.key, entity_names.c.entity_pk).where(any_of(entity_names.c.entity_pk, "pks"))
)
_WINNERS: Final = Prepared(
    select(entities.c.pk, entities.c.merged_into).where(any_of(entities.c.pk, "pks"), entities.c.merged_into.is_not(None))
)
_LOSERS: Final = Prepared(
    select(merges.c.loser_pk, merges.c.winner_pk).where(any_of(merges.c.winner_pk, "pks"), merges.c.undone_at.is_(None))
)


def called(connection: Connection, scope: Scope, scope_ids: Sequence[int], name: str) -> list[int]:
    """Pks of the entities of a name, ascending; the words for the user and the assistant mean those of the scope.

    Args:
        connection: A read transaction.
        scope: The fields that were named.
        scope_ids: What they expand to.
        name: As somebody writes it.
    """
    keys = _keys(connection, scope, name)
    return sorted({pk for _, pk in with_keys(connection, scope_ids, keys)})


def with_keys(connection: Connection, scope_ids: Sequence[int], keys: Collection[str]) -> list[tuple[str, int]]:
    """Key and pk of every entity with one of some keys (`names.entity_key`)."""
    return _NAMED.tuples(connection, {"scopes": scope_ids, "keys": keys}) if keys else []


def _keys(connection: Connection, scope: Scope, name: str) -> set[str]:
    stands_for = speaker(name)
    if stands_for is None:
        return {key} if (key := entity_key(name)) else set()
    field = "user_id" if stands_for == SELF else "agent_id"
    if field in scope.named:
        return {entity_key(scope.named[field])}
    owners = connection.execute(select(scopes.c[field]).where(within(scope)).distinct()).scalars()
    return {entity_key(stands_for if owner is None else owner) for owner in owners}


class People:
    """Which entities are one to the reader of some scopes: equal in a name, or merged.

    Asked about more and more entities, it reads what it does not know yet.

    Args:
        connection: A read transaction, for as long as it is asked.
        scope_ids: What the scope expands to.
    """

    def __init__(self, connection: Connection, scope_ids: Sequence[int]) -> None:
        self._connection = connection
        self._scope_ids = scope_ids
        self._parents: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._by_key: dict[str, int] = {}

    def who(self, pk: int) -> int:
        """The least pk of those that are one with an entity."""
        self.meet([pk])
        return self._root(pk)

    def members(self, pk: int) -> list[int]:
        """All that are one with an entity, itself among them."""
        return self._members[self.who(pk)]

    def everyone(self, pks: Iterable[int]) -> list[int]:
        """All that are one with any of some entities, ascending."""
        known = list(pks)
        self.meet(known)
        return sorted({member for pk in known for member in self.members(pk)})

    def meet(self, pks: Iterable[int]) -> None:
        """Read about some entities at once; then asking about each reads nothing."""
        fresh = {pk for pk in pks if pk not in self._parents}
        while fresh:
            for pk in fresh:
                self._parents[pk], self._members[pk] = pk, [pk]
            pairs = self._same(list(fresh))
            fresh = {pk for pair in pairs for pk in pair if pk not in self._parents}
            for pk in fresh:
                self._parents[pk], self._members[pk] = pk, [pk]
            for one, other in pairs:
                self._join(one, other)
