"""Reading relations and entities of the knowledge graph, now or at a moment.

A read names fields of a scope and sees several exact scopes; an entity of the same name in two of them is one entity to the
reader, and so is one that was merged into another. Who is whom is always read as it is known now; what is asked of the past
are the relations.

Newest recorded first means the order of `pk`, which is drawn in the order of commits.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, fields
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Integer,
    bindparam,
    column,
    exists,
    func,
    or_,
    select,
    true,
    tuple_,
    union,
    union_all,
)

from langmem_adapter.names import entity_key, owner_id, owner_key, owner_name, owner_role
from langmem_adapter.records.graph import ASSISTANT, SELF, Entity, Relation
from langmem_adapter.records.results import EntityPage, RelationPage
from langmem_adapter.storage.graph.statements import NAMES, NAMES_OF, NODES
from langmem_adapter.storage.queries import HIGHEST, Prepared, any_of, cursor, parse_cursor
from langmem_adapter.storage.scopes import OWNER, expand, of_row, within
from langmem_adapter.storage.tables import (
    BY_HAND,
    EDGE,
    ENDS,
    SAYS,
    entities,
    merges,
    relation_memories,
    relations,
    scopes,
)
from langmem_adapter.storage.timestamps import LAST

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Column, ColumnElement, Connection, Select

    from langmem_adapter.records.scope import Scope

_merged: Final = any_of(entities.c.pk, "pks"), entities.c.merged_into.is_not(None)
_WINNERS: Final = Prepared(select(entities.c.pk, entities.c.merged_into).where(*_merged))
_LOSERS: Final = Prepared(
    select(merges.c.winner_pk, merges.c.loser_pk).where(any_of(merges.c.winner_pk, "pks"), merges.c.undone_at.is_(None))
)


def called(connection: Connection, scope: Scope, scope_ids: Sequence[int], name: str) -> list[int]:
    """Pks of the entities that a caller means by a name, a word for the user or the agent, or an id; ascending.

    Args:
        connection: A read transaction.
        scope: The fields that were named.
        scope_ids: What they expand to; a name is also the id of any user or agent among them.
        name: As somebody writes it.
    """
    meant = owner_role(name) or owner_name(name, scope)
    keys = keys_of(connection, scope, meant)
    if meant == name:
        keys |= {owner_key(SELF, name), owner_key(ASSISTANT, name)}
    return sorted({pk for _, pk in with_keys(connection, scope_ids, keys)})


def with_keys(connection: Connection, scope_ids: Sequence[int], keys: Collection[str]) -> list[tuple[str, int]]:
    """Key and pk of every entity with one of some keys (`names.entity_key`, `names.owner_key`)."""
    found = NAMES.rows(connection, {"scopes": scope_ids, "keys": keys}) if keys else []
    return [(row.key, row.entity_pk) for row in found]


def keys_of(connection: Connection, scope: Scope, name: str) -> set[str]:
    """The keys that a name has in the scopes within *scope*; `SELF` and `ASSISTANT` mean the own of each."""
    if name not in {SELF, ASSISTANT}:
        return {entity_key(name)} - {""}
    if (owner := owner_id(name, scope)) is not None:
        return {owner_key(name, owner)}
    field = scopes.c.user_id if name == SELF else scopes.c.agent_id
    owners = connection.execute(select(field).where(within(scope)).distinct()).scalars()
    return {owner_key(name, owner) for owner in owners}


class People:
    """Which entities are one to the reader of some scopes: equal in a name, or merged.

    It reads from *connection*, in a read transaction, what it does not know yet.
    """

    def __init__(self, connection: Connection, scope_ids: Sequence[int]) -> None:
        self._connection = connection
        self._scope_ids = scope_ids
        self._first: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._by_key: dict[str, int] = {}

    def who(self, pk: int) -> int:
        """The least pk of those that are one with an entity."""
        if pk not in self._first:
            self.meet([pk])
        return self._first[pk]

    def members(self, pk: int) -> list[int]:
        """All that are one with an entity, itself among them."""
        return self._members[self.who(pk)]

    def everyone(self, pks: Collection[int]) -> list[int]:
        """All that are one with any of some entities, ascending."""
        self.meet(pks)
        return sorted(set(chain.from_iterable(map(self.members, pks))))

    def meet(self, pks: Iterable[int]) -> None:
        """Read about some entities at once; asking about each of them then reads nothing."""
        fresh = self._greet(pks)
        while fresh:
            pairs = self._pairs(fresh)
            fresh = self._greet(chain.from_iterable(pairs))
            for one, other in pairs:
                self._join(self._first[one], self._first[other])

    def _greet(self, pks: Iterable[int]) -> list[int]:
        fresh = [pk for pk in dict.fromkeys(pks) if pk not in self._first]
        self._first.update(zip(fresh, fresh, strict=True))
        self._members.update((pk, [pk]) for pk in fresh)
        return fresh

    def _pairs(self, pks: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs that are one: every one that has one of some entities in it, and maybe more."""
        pairs = [pair for statement in (_WINNERS, _LOSERS) for pair in statement.rows(self._connection, {"pks": pks})]
        if len(self._scope_ids) > 1:  # within a scope no name is given twice
            named = [(row.key, row.entity_pk) for row in NAMES_OF.rows(self._connection, {"pks": pks})]
            named += with_keys(self._connection, self._scope_ids, {key for key, _ in named})
            pairs += [(self._by_key.setdefault(key, pk), pk) for key, pk in named]
        return pairs

    def _join(self, one: int, other: int) -> None:
        first, later = min(one, other), max(one, other)
        if first != later:
            moved = self._members.pop(later)
            self._members[first] += moved
            self._first.update(dict.fromkeys(moved, first))


ALL: Final = 2**31 - 1
"""More than there can be."""
_APART: Final = 64
"""Up to so many scopes or entities are read one by one, each in the order of an index, and more in one statement."""

_TOGETHER: Final = 1_000
"""Relations that are held at a time where all are read."""
_HELD, _KNOWN = (bindparam(name, type_=relations.c.recorded_at.type) for name in ("held", "known"))


@dataclass(frozen=True, slots=True)
class When:
    """Which beliefs are read: what was known at one moment about another."""

    held: datetime | None = None  # relations that held at this moment; `None`: whenever
    known: datetime | None = None  # what was believed at this moment; `None`: what is believed now
    history: bool = False  # beliefs that are retired as well; *known* then bounds when they were recorded

    @property
    def past(self) -> bool:
        """Whether rows are wanted that nobody believes any more."""
        return self.history or self.known is not None

    @property
    def shape(self) -> When:
        """One that stands for all that have these conditions, whatever their moments: a statement is made once for it."""
        return When(self.held and LAST, self.known and LAST, self.history)

    @property
    def values(self) -> dict[str, datetime | None]:
        """The parameters of the conditions."""
        return {"held": self.held, "known": self.known}

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """The conditions on rows of `relations`."""
        return [*self.believed(), *self.holding]

    @property
    def holding(self) -> list[ColumnElement[bool]]:
        """Those of them that ask whether a relation held."""
        since, until = relations.c.valid_from, relations.c.valid_to
        if self.held is None:
            return []
        return [or_(since.is_(None), since <= _HELD), or_(until.is_(None), until > _HELD)]

    def believed(
        self, begins: Column[Any] = relations.c.recorded_at, ends: Column[Any] = relations.c.retired_at
    ) -> list[ColumnElement[bool]]:
        """The conditions on what is known from one moment to another; now, an index leads past what is so no longer."""
        if not self.past:
            return [ends.is_(None)]
        begun = [] if self.known is None else [begins <= _KNOWN]
        return begun if self.history else [*begun, or_(ends.is_(None), ends > _KNOWN)]


NOW: Final = When()
"""What is believed now, about whatever time."""


# ── relations ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_source, _target = entities.alias("source"), entities.alias("target")
_RELATIONS: Final = Prepared(
    select(
        *(column for column in relations.c if column.name not in {"scope_id", "source_pk", "target_pk"}),
        _source.c.name.label("source"),
        _source.c.type.label("source_type"),
        _target.c.name.label("target"),
        _target.c.type.label("target_type"),
        *OWNER,
    )
    .join_from(relations, _source, relations.c.source_pk == _source.c.pk)
    .join(_target, relations.c.target_pk == _target.c.pk)
    .join(scopes, relations.c.scope_id == scopes.c.id)
    .where(any_of(relations.c.pk, "pks"))
    .order_by(relations.c.pk.desc())
)
_said: Final = relation_memories.c


def page(
    connection: Connection,
    scope: Scope,
    when: When,
    *,
    k: int,
    entity: str | None = None,
    relation: str | None = None,
    after: str | None = None,
) -> RelationPage:
    """Relations within *scope*, newest recorded first; `GraphMemory.relations` says what the arguments mean.

    Raises:
        InvalidInputError: The cursor is none of ours.
    """
    last = HIGHEST if after is None else parse_cursor(after, int)[0]
    pks = newest(connection, scope, when, k=k + 1, entity=entity, relation=relation, last=last)
    following = cursor(pks[k - 1]) if len(pks) > k else None
    return RelationPage(tuple(by_pks(connection, pks[:k], when).values()), following)


def newest(
    connection: Connection,
    scope: Scope,
    when: When,
    *,
    k: int,
    entity: str | None = None,
    relation: str | None = None,
    last: int = HIGHEST,
) -> list[int]:
    """Pks of relations, newest recorded first; see `page`."""
    scope_ids = expand(connection, scope)
    wanted: dict[str, Sequence[int]] = {"scope_id": scope_ids}
    if entity is not None:
        members = People(connection, scope_ids).everyone(called(connection, scope, scope_ids, entity))
        wanted = {end.name: members for end in ENDS}
    values = {**when.values, "relation": relation, "last": last, "k": k}
    found: list[list[int]] = []
    for of, ids in wanted.items():
        apart = len(ids) <= _APART
        statement = _newest_of(of, when.shape, named=relation is not None, apart=apart)
        asked = [{**values, "of": one} for one in (ids if apart else [ids])]
        found += [[pk for (pk,) in statement.rows(connection, each)] for each in asked]
    return list(islice(dict.fromkeys(heapq.merge(*found, reverse=True)), k))


@cache
def _newest_of(of: str, shape: When, *, named: bool, apart: bool) -> Prepared:
    chosen = relations.c[of] == bindparam("of") if apart else any_of(relations.c[of], "of")
    of_name = [relations.c.relation == bindparam("relation")] if named else []
    query = select(relations.c.pk).where(chosen, *of_name, relations.c.pk < bindparam("last"), *shape.conditions)
    return Prepared(query.order_by(relations.c.pk.desc()).limit(bindparam("k", type_=Integer)))


def every(connection: Connection, scope: Scope, when: When) -> Iterator[Sequence[tuple[int, int, int]]]:
    """All relations within *scope*, however many: pk, source and target, the first recorded first, some at a time."""
    of_scope = select(*EDGE).join(scopes, relations.c.scope_id == scopes.c.id).where(within(scope))
    query = of_scope.where(*when.conditions).order_by(relations.c.pk)
    for rows in connection.execute(query.execution_options(yield_per=_TOGETHER), when.values).partitions():
        yield [tuple(row) for row in rows]


def by_pks(connection: Connection, pks: Collection[int], when: When = NOW) -> dict[int, Relation]:
    """Relations by pk, newest recorded first, each with the memories that said so then."""
    if not pks:
        return {}
    rows = _RELATIONS.rows(connection, {"pks": pks})
    said: defaultdict[str, list[str]] = defaultdict(list)
    for link in _said_by(when.shape).rows(connection, {**when.values, "ids": {row.id for row in rows}}):
        said[link.relation_id].append(link.memory_id)
    return {
        row.pk: Relation(
            scope=of_row(row), memory_ids=tuple(said.get(row.id, ())), **{name: getattr(row, name) for name in _AS_KEPT}
        )
        for row in rows
    }


@cache
def _said_by(shape: When) -> Prepared:
    query = select(_said.relation_id, _said.memory_id).order_by(_said.created_at, _said.memory_id)
    by_whom = any_of(_said.relation_id, "ids"), _said.memory_id != BY_HAND
    return Prepared(query.where(*by_whom, *shape.believed(_said.created_at, _said.dropped_at)))


def of_memories(connection: Connection, memory_ids: Sequence[str], when: When) -> dict[str, list[int]]:
    """Pks of the relations that some memories say and that hold then, by memory; what is believed now is read."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for row in _said_of(when.shape).rows(connection, {**when.values, "ids": memory_ids}):
        found[row.memory_id].append(row.pk)
    return dict(found)


@cache
def _said_of(shape: When) -> Prepared:
    query = select(_said.memory_id, relations.c.pk).join(relations, _said.relation_id == relations.c.id)
    return Prepared(query.where(any_of(_said.memory_id, "ids"), SAYS, *shape.conditions).order_by(relations.c.pk))


_AS_KEPT: Final = [field.name for field in fields(Relation) if field.name not in {"scope", "memory_ids"}]


# ── the relations around some entities ──────────────────────────────────────────────────────────────────────────────────


def around(connection: Connection, pks: Sequence[int], when: When, *, most: int = ALL) -> list[tuple[int, int, int]]:
    """The relations of some entities: pk, source and target, newest recorded first.

    Of an entity with more than *most* relations in one direction, only the newest of these are looked at.
    """
    values = {**when.values, "most": most}
    if connection.dialect.name == "postgresql":  # one question, since each has to travel
        rows = _around(when.shape, many=True).rows(connection, {**values, "pks": pks})
    else:
        one = _around(when.shape, many=False)
        rows = [row for pk in pks for row in one.rows(connection, {**values, "pk": pk})]
    return sorted(set(rows), reverse=True)


@cache
def _around(shape: When, *, many: bool) -> Prepared:
    if not many:
        return Prepared(union_all(*(_newest(end, bindparam("pk"), shape) for end in ENDS)))
    listed = func.unnest(bindparam("pks", type_=ARRAY(BigInteger))).table_valued(column("pk", BigInteger))
    each = listed.render_derived()
    parts = [_newest(end, each.c.pk, shape).lateral() for end in ENDS]
    return Prepared(union_all(*(select(part).select_from(each).join(part, true()) for part in parts)))


def _newest(end: Column[int], entity: ColumnElement[int], shape: When) -> Select[tuple[int, int, int]]:
    """The newest are found in an index, before anything else is read of them."""
    query = select(relations.c.pk).where(end == entity, *shape.believed()).order_by(relations.c.pk.desc())
    newest = query.limit(bindparam("most", type_=Integer)).subquery()
    return select(*EDGE).join(newest, relations.c.pk == newest.c.pk).where(*shape.holding)


_FIRST: Final = (2**31 - 1, HIGHEST)


def entity_page(
    connection: Connection,
    scope: Scope,
    when: When,
    *,
    k: int,
    kind: str | None = None,
    unrelated: bool = False,
    after: str | None = None,
) -> EntityPage:
    """Entities within *scope*, the most mentioned first; `GraphMemory.entities` says what the arguments mean.

    Raises:
        InvalidInputError: The cursor is none of ours.
    """
    scope_ids = expand(connection, scope)
    people = People(connection, scope_ids)
    place = _FIRST if after is None else parse_cursor(after, int, int)
    values = {**when.values, "scopes": scope_ids, "mentions": place[0], "last": place[1], "k": k + 1, "kind": kind}
    if len(scope_ids) == 1 and not when.past:
        statement = _ranked(when.shape, typed=kind is not None, unrelated=unrelated)
        values["scope"] = scope_ids[0]
    else:
        statement = _every(when.shape, unrelated=unrelated)
    pks = [pk for (pk,) in statement.rows(connection, values)]
    groups = _groups(connection, people, pks).values()
    ranked = sorted((group for group in groups if kind in {None, _type(group)}), key=_place, reverse=True)
    ranked = [group for group in ranked if _place(group) < tuple(place)]
    following = cursor(*_place(ranked[k - 1])) if len(ranked) > k else None
    return EntityPage(tuple(_entities(connection, people, ranked[:k])), following)


def entities_by_pks(connection: Connection, people: People, pks: Collection[int]) -> dict[int, Entity]:
    """Entities, each once for all that are one with it, by the least pk of these."""
    groups = _groups(connection, people, pks)
    return dict(zip(groups, _entities(connection, people, list(groups.values())), strict=True))


def _groups(connection: Connection, people: People, pks: Collection[int]) -> dict[int, list[Any]]:
    """The rows of those that are one, oldest first, but for rows that were merged into another."""
    groups: dict[int, list[Any]] = {}
    for row in NODES.rows(connection, {"pks": people.everyone(pks)}) if pks else ():
        if row.merged_into is None:
            groups.setdefault(people.who(row.pk), []).append(row)
    return groups


def _place(group: Sequence[Any]) -> tuple[int, int]:
    """Where a group stands in the order: by its mentions, and by its age."""
    return sum(row.mentions for row in group), group[0].pk


def _type(group: Sequence[Any]) -> str:
    return next((row.type for row in group if row.type), "")


def _entities(connection: Connection, people: People, groups: Sequence[Sequence[Any]]) -> list[Entity]:
    names: dict[int, dict[str, str]] = {}
    pks = [row.pk for group in groups for row in group]
    for pk, key, name in NAMES_OF.rows(connection, {"pks": pks}) if pks else ():
        names.setdefault(people.who(pk), {}).setdefault(key, name)
    return [_entity(group, names.get(people.who(group[0].pk), {})) for group in groups]


def _entity(group: Sequence[Any], names: dict[str, str]) -> Entity:
    """One entity of those that are one; it is called what the oldest is called."""
    oldest = group[0]
    return Entity(
        id=oldest.id,
        name=oldest.name,
        type=_type(group),
        scope=of_row(oldest),
        aliases=tuple(name for name in names.values() if name != oldest.name),
        mentions=_place(group)[0],
        created_at=min(row.created_at for row in group),
        updated_at=max(row.updated_at for row in group),
    )


@cache
def _every(shape: When, *, unrelated: bool) -> Prepared:
    if unrelated:
        return Prepared(
            select(entities.c.pk).where(any_of(entities.c.scope_id, "scopes"), entities.c.merged_into.is_(None))
        )
    chosen = any_of(relations.c.scope_id, "scopes"), *shape.conditions
    return Prepared(union(*(select(end).where(*chosen) for end in ENDS)))


@cache
def _ranked(shape: When, *, typed: bool, unrelated: bool) -> Prepared:
    """Of an exact scope no more are read than a page holds."""
    order = entities.c.mentions, entities.c.pk
    # The numbers are those of a cursor, hence of anybody.
    after = tuple_(*order) < tuple_(*(bindparam(name, type_=BigInteger) for name in ("mentions", "last")))
    chosen = [entities.c.scope_id == bindparam("scope"), entities.c.merged_into.is_(None), after]
    if typed:
        chosen.append(entities.c.type == bindparam("kind"))
    if not unrelated:
        chosen.append(or_(*(exists().where(end == entities.c.pk, *shape.conditions) for end in ENDS)))
    query = select(entities.c.pk).where(*chosen).order_by(*(column.desc() for column in order))
    return Prepared(query.limit(bindparam("k", type_=Integer)))
