"""Reading relations and entities of the knowledge graph, now or at a moment.

A read names fields of a scope and sees several exact scopes; an entity of the same name in two of them is one entity to the
reader, and so is one that was merged into another. Which entities are one is read as of now; only relations are read of the
past. Newest recorded first means the order of `pk`, which is drawn in the order of commits.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, fields
from datetime import UTC, datetime
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

from langmem_adapter.arguments import flag, parse_time
from langmem_adapter.names import entity_key, owner_id, owner_key, owner_name, owner_role
from langmem_adapter.records.graph import ASSISTANT, SELF, Entity, Relation
from langmem_adapter.records.results import EntityPage, RelationPage
from langmem_adapter.storage.graph.rows import NAMES, NAMES_OF, NODES
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

    from sqlalchemy import Column, ColumnElement, Connection, Select

    from langmem_adapter.records.scope import Scope

_merged: Final = any_of(entities.c.pk, "pks"), entities.c.merged_into.is_not(None)
_WINNERS: Final = Prepared(select(entities.c.pk, entities.c.merged_into).where(*_merged))
_LOSERS: Final = Prepared(
    select(merges.c.winner_pk, merges.c.loser_pk).where(any_of(merges.c.winner_pk, "pks"), merges.c.undone_at.is_(None))
)


def find_entities(connection: Connection, scope: Scope, scope_ids: Sequence[int], name: str) -> list[int]:
    """Pks of the entities that a name, a word for the user or the agent, or an id stands for; ascending.

    *scope* has the fields that were named, *scope_ids* what they expand to: a name is also the id of any user or agent among
    these.
    """
    entity = owner_role(name) or owner_name(name, scope)
    keys = keys_of(connection, scope, entity)
    if entity == name:
        keys |= {owner_key(SELF, name), owner_key(ASSISTANT, name)}
    return sorted({pk for _, pk in with_keys(connection, scope_ids, keys)})


def with_keys(connection: Connection, scope_ids: Sequence[int], keys: Collection[str]) -> list[tuple[str, int]]:
    """Key and pk of every entity with one of some keys (`names.entity_key`, `names.owner_key`)."""
    rows = NAMES.rows(connection, {"scopes": scope_ids, "keys": keys}) if keys else []
    return [(row.key, row.entity_pk) for row in rows]


def keys_of(connection: Connection, scope: Scope, name: str) -> set[str]:
    """The keys that a name has in the scopes within *scope*; `SELF` and `ASSISTANT` mean the own of each."""
    if name not in {SELF, ASSISTANT}:
        return {entity_key(name)} - {""}
    if (owner := owner_id(name, scope)) is not None:
        return {owner_key(name, owner)}
    field = scopes.c.user_id if name == SELF else scopes.c.agent_id
    owners = connection.execute(select(field).where(within(scope)).distinct()).scalars()
    return {owner_key(name, owner) for owner in owners}


class EntityGroups:
    """Which entities are one to the reader of some scopes: equal in a name, or merged.

    It reads from *connection*, in a read transaction, what it does not know yet. A group goes by the least pk in it.
    """

    def __init__(self, connection: Connection, scope_ids: Sequence[int]) -> None:
        self._connection = connection
        self._scope_ids = scope_ids
        self._first: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._by_key: dict[str, int] = {}

    def first(self, pk: int) -> int:
        """The least pk of those that are one with an entity."""
        if pk not in self._first:
            self.load([pk])
        return self._first[pk]

    def members(self, pk: int) -> list[int]:
        return self._members[self.first(pk)]

    def all_members(self, pks: Collection[int]) -> list[int]:
        """All that are one with any of some entities, ascending."""
        self.load(pks)
        return sorted(set(chain.from_iterable(map(self.members, pks))))

    def load(self, pks: Iterable[int]) -> None:
        """Read about some entities at once; asking about each of them then reads nothing."""
        fresh = self._add(pks)
        while fresh:
            pairs = self._pairs(fresh)
            fresh = self._add(chain.from_iterable(pairs))
            for pair in pairs:
                first, later = sorted(self._first[pk] for pk in pair)
                if first != later:
                    moved = self._members.pop(later)
                    self._members[first] += moved
                    self._first.update(dict.fromkeys(moved, first))

    def _add(self, pks: Iterable[int]) -> list[int]:
        fresh = [pk for pk in dict.fromkeys(pks) if pk not in self._first]
        self._first.update(zip(fresh, fresh, strict=True))
        self._members.update((pk, [pk]) for pk in fresh)
        return fresh

    def _pairs(self, pks: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs that are one: every one that has one of some entities in it, and maybe more."""
        pairs = [pair for statement in (_WINNERS, _LOSERS) for pair in statement.rows(self._connection, {"pks": pks})]
        if len(self._scope_ids) > 1:  # within a scope no two entities have one name
            names = [(row.key, row.entity_pk) for row in NAMES_OF.rows(self._connection, {"pks": pks})]
            names += with_keys(self._connection, self._scope_ids, {key for key, _ in names})
            pairs += [(self._by_key.setdefault(key, pk), pk) for key, pk in names]
        return pairs


ALL: Final = 2**31 - 1
"""More than there can be."""
_MOST_SINGLE: Final = 64
"""Up to so many scopes or entities are read one by one, each in the order of an index, and more in one statement."""
_PARTITION: Final = 1_000
"""Relations that are in memory at a time where all are read."""
_AS_OF, _KNOWN_AT = (bindparam(name, type_=relations.c.recorded_at.type) for name in ("as_of", "known_at"))


@dataclass(frozen=True, slots=True)
class GraphTime:
    """Which rows of relations are read: what was known at one moment about another."""

    as_of: datetime | None = None  # relations that held at this moment; `None`: whenever
    known_at: datetime | None = None  # what was recorded and not retired at this moment; `None`: now
    history: bool = False  # rows that are retired as well; *known_at* then bounds when they were recorded

    @classmethod
    def parse(cls, as_of: object, known_at: object, *, history: bool = False, ever: bool = False) -> GraphTime:
        """What callers give: relations that hold now, or at any time with *ever* or the history."""
        past, times = flag(history, "history"), {"as_of": as_of, "known_at": known_at}
        moments = {name: None if time is None else parse_time(time, name) for name, time in times.items()}
        if as_of is None and not (past or ever):
            moments["as_of"] = datetime.now(UTC)
        return cls(**moments, history=past)

    @property
    def has_past(self) -> bool:
        return self.history or self.known_at is not None

    @property
    def shape(self) -> GraphTime:
        """One for all that have these conditions, whatever their moments: a statement is made once for it."""
        return GraphTime(self.as_of and LAST, self.known_at and LAST, self.history)

    @property
    def values(self) -> dict[str, datetime | None]:
        return {"as_of": self.as_of, "known_at": self.known_at}

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        return [*self.recorded(), *self.valid]

    @property
    def valid(self) -> list[ColumnElement[bool]]:
        since, until = relations.c.valid_from, relations.c.valid_to
        if self.as_of is None:
            return []
        return [or_(since.is_(None), since <= _AS_OF), or_(until.is_(None), until > _AS_OF)]

    def recorded(
        self, begins: Column[Any] = relations.c.recorded_at, ends: Column[Any] = relations.c.retired_at
    ) -> list[ColumnElement[bool]]:
        """Those on the recorded time; for now, an index leads past what is retired."""
        if not self.has_past:
            return [ends.is_(None)]
        begun = [] if self.known_at is None else [begins <= _KNOWN_AT]
        return begun if self.history else [*begun, or_(ends.is_(None), ends > _KNOWN_AT)]


NOW: Final = GraphTime()
"""What is known now, about whatever time."""


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
_support: Final = relation_memories.c


def page(
    connection: Connection, scope: Scope, when: GraphTime, *, k: int, after: str | None = None, **only: str | None
) -> RelationPage:
    """Relations within *scope*, newest recorded first; *only* has the arguments of `newest`."""
    last = HIGHEST if after is None else parse_cursor(after, int)[0]
    pks = newest(connection, scope, when, k=k + 1, last=last, **only)
    following = cursor(pks[k - 1]) if len(pks) > k else None
    return RelationPage(tuple(by_pks(connection, pks[:k], when).values()), following)


def newest(
    connection: Connection,
    scope: Scope,
    when: GraphTime,
    *,
    k: int,
    entity: str | None = None,
    relation: str | None = None,
    last: int = HIGHEST,
) -> list[int]:
    """Pks of relations of an entity, of this name, newest recorded first."""
    scope_ids = expand(connection, scope)
    wanted: dict[str, Sequence[int]] = {"scope_id": scope_ids}
    if entity is not None:
        pks = find_entities(connection, scope, scope_ids, entity)
        wanted = dict.fromkeys((end.name for end in ENDS), EntityGroups(connection, scope_ids).all_members(pks))
    values = {**when.values, "relation": relation, "last": last, "k": k}
    lists: list[list[int]] = []
    for name, ids in wanted.items():
        is_single = len(ids) <= _MOST_SINGLE
        statement = _newest_of(name, when.shape, has_name=relation is not None, is_single=is_single)
        results = (statement.rows(connection, {**values, "of": of}) for of in (ids if is_single else [ids]))
        lists += [[pk for (pk,) in rows] for rows in results]
    return list(islice(dict.fromkeys(heapq.merge(*lists, reverse=True)), k))


@cache
def _newest_of(name: str, shape: GraphTime, *, has_name: bool, is_single: bool) -> Prepared:
    chosen = relations.c[name] == bindparam("of") if is_single else any_of(relations.c[name], "of")
    of_name = [relations.c.relation == bindparam("relation")] if has_name else []
    query = select(relations.c.pk).where(chosen, *of_name, relations.c.pk < bindparam("last"), *shape.conditions)
    return Prepared(query.order_by(relations.c.pk.desc()).limit(bindparam("k", type_=Integer)))


def every(connection: Connection, scope: Scope, when: GraphTime) -> Iterator[Sequence[tuple[int, int, int]]]:
    """All relations within *scope*, however many: pk, source and target, the first recorded first, some at a time."""
    of_scope = select(*EDGE).join(scopes, relations.c.scope_id == scopes.c.id).where(within(scope))
    query = of_scope.where(*when.conditions).order_by(relations.c.pk)
    for rows in connection.execute(query.execution_options(yield_per=_PARTITION), when.values).partitions():
        yield [tuple(row) for row in rows]


def by_pks(connection: Connection, pks: Collection[int], when: GraphTime = NOW) -> dict[int, Relation]:
    """Relations by pk, newest recorded first, each with the memories that stated it then."""
    if not pks:
        return {}
    rows = _RELATIONS.rows(connection, {"pks": pks})
    memory_ids: defaultdict[str, list[str]] = defaultdict(list)
    for link in _support_of(when.shape).rows(connection, {**when.values, "ids": {row.id for row in rows}}):
        memory_ids[link.relation_id].append(link.memory_id)
    return {
        row.pk: Relation(
            scope=of_row(row), memory_ids=tuple(memory_ids[row.id]), **{name: getattr(row, name) for name in _STORED}
        )
        for row in rows
    }


_STORED: Final = [field.name for field in fields(Relation) if field.name not in {"scope", "memory_ids"}]


@cache
def _support_of(shape: GraphTime) -> Prepared:
    query = select(_support.relation_id, _support.memory_id).order_by(_support.created_at, _support.memory_id)
    chosen = any_of(_support.relation_id, "ids"), _support.memory_id != BY_HAND
    return Prepared(query.where(*chosen, *shape.recorded(_support.created_at, _support.dropped_at)))


def of_memories(connection: Connection, memory_ids: Sequence[str], when: GraphTime) -> dict[str, list[int]]:
    """Pks of the relations that some memories state now and that hold then, by memory."""
    pks: defaultdict[str, list[int]] = defaultdict(list)
    for row in _relations_of(when.shape).rows(connection, {**when.values, "ids": memory_ids}):
        pks[row.memory_id].append(row.pk)
    return dict(pks)


@cache
def _relations_of(shape: GraphTime) -> Prepared:
    query = select(_support.memory_id, relations.c.pk).join(relations, _support.relation_id == relations.c.id)
    return Prepared(query.where(any_of(_support.memory_id, "ids"), SAYS, *shape.conditions).order_by(relations.c.pk))


# ── the relations around some entities ──────────────────────────────────────────────────────────────────────────────────


def around(
    connection: Connection, pks: Sequence[int], when: GraphTime, *, most: int = ALL
) -> list[tuple[int, int, int]]:
    """The relations of some entities: pk, source and target, newest recorded first.

    Of an entity with more than *most* relations in one direction, only the newest of these are looked at.
    """
    values = {**when.values, "most": most}
    many = connection.dialect.name == "postgresql"  # one question, since each has to travel
    statement = _around(when.shape, many=many)
    parameters = [{"pks": pks}] if many else [{"pk": pk} for pk in pks]
    rows = {row for each in parameters for row in statement.rows(connection, {**values, **each})}
    return sorted(rows, reverse=True)


@cache
def _around(shape: GraphTime, *, many: bool) -> Prepared:
    if not many:
        return Prepared(union_all(*(_newest(end, bindparam("pk"), shape) for end in ENDS)))
    listed = func.unnest(bindparam("pks", type_=ARRAY(BigInteger))).table_valued(column("pk", BigInteger))
    each = listed.render_derived()
    parts = [_newest(end, each.c.pk, shape).lateral() for end in ENDS]
    return Prepared(union_all(*(select(part).select_from(each).join(part, true()) for part in parts)))


def _newest(end: Column[int], entity: ColumnElement[int], shape: GraphTime) -> Select[tuple[int, int, int]]:
    """The newest are found in an index, before anything else is read of them."""
    query = select(relations.c.pk).where(end == entity, *shape.recorded()).order_by(relations.c.pk.desc())
    newest = query.limit(bindparam("most", type_=Integer)).subquery()
    return select(*EDGE).join(newest, relations.c.pk == newest.c.pk).where(*shape.valid)


# ── entities ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def entity_page(
    connection: Connection,
    scope: Scope,
    when: GraphTime,
    *,
    k: int,
    kind: str | None = None,
    unrelated: bool = False,
    after: str | None = None,
) -> EntityPage:
    """Entities within *scope*, the most mentioned first; `GraphMemory.entities` says what the arguments mean."""
    scope_ids = expand(connection, scope)
    groups = EntityGroups(connection, scope_ids)
    place = (2**31 - 1, HIGHEST) if after is None else parse_cursor(after, int, int)
    values = {**when.values, "scopes": scope_ids, "mentions": place[0], "last": place[1], "k": k + 1, "kind": kind}
    if len(scope_ids) == 1 and not when.has_past:
        statement = _ranked(when.shape, has_type=kind is not None, unrelated=unrelated)
        values["scope"] = scope_ids[0]
    else:
        statement = _every(when.shape, unrelated=unrelated)
    pks = [pk for (pk,) in statement.rows(connection, values)]
    rows = _rows_by_group(connection, groups, pks).values()
    ranked = sorted((group for group in rows if kind in {None, _type(group)}), key=_place, reverse=True)
    ranked = [group for group in ranked if _place(group) < tuple(place)]
    following = cursor(*_place(ranked[k - 1])) if len(ranked) > k else None
    return EntityPage(tuple(_entities(connection, groups, ranked[:k])), following)


def entities_by_pks(connection: Connection, groups: EntityGroups, pks: Collection[int]) -> dict[int, Entity]:
    """Entities, each once for all that are one with it, by the least pk of these."""
    rows = _rows_by_group(connection, groups, pks)
    return dict(zip(rows, _entities(connection, groups, list(rows.values())), strict=True))


def _rows_by_group(connection: Connection, groups: EntityGroups, pks: Collection[int]) -> dict[int, list[Any]]:
    """The rows of those that are one, oldest first, but for rows that were merged into another."""
    rows: dict[int, list[Any]] = {}
    for row in NODES.rows(connection, {"pks": groups.all_members(pks)}) if pks else ():
        if row.merged_into is None:
            rows.setdefault(groups.first(row.pk), []).append(row)
    return rows


def _place(group: Sequence[Any]) -> tuple[int, int]:
    """The place of a group in the order: by its mentions, and by its age."""
    return sum(row.mentions for row in group), group[0].pk


def _type(group: Sequence[Any]) -> str:
    return next((row.type for row in group if row.type), "")


def _entities(connection: Connection, groups: EntityGroups, rows: Sequence[Sequence[Any]]) -> list[Entity]:
    """An entity for each group, with the name of the oldest in it."""
    names: defaultdict[int, dict[str, str]] = defaultdict(dict)
    pks = [row.pk for group in rows for row in group]
    for pk, key, name in NAMES_OF.rows(connection, {"pks": pks}) if pks else ():
        names[groups.first(pk)].setdefault(key, name)
    return [
        Entity(
            id=group[0].id,
            name=group[0].name,
            type=_type(group),
            scope=of_row(group[0]),
            aliases=tuple(name for name in names[groups.first(group[0].pk)].values() if name != group[0].name),
            mentions=_place(group)[0],
            created_at=min(row.created_at for row in group),
            updated_at=max(row.updated_at for row in group),
        )
        for group in rows
    ]


@cache
def _every(shape: GraphTime, *, unrelated: bool) -> Prepared:
    if unrelated:
        chosen = any_of(entities.c.scope_id, "scopes"), entities.c.merged_into.is_(None)
        return Prepared(select(entities.c.pk).where(*chosen))
    conditions = any_of(relations.c.scope_id, "scopes"), *shape.conditions
    return Prepared(union(*(select(end).where(*conditions) for end in ENDS)))


@cache
def _ranked(shape: GraphTime, *, has_type: bool, unrelated: bool) -> Prepared:
    """Of an exact scope no more are read than a page holds."""
    order = entities.c.mentions, entities.c.pk
    # The numbers come from a cursor, which a user can write.
    after = tuple_(*order) < tuple_(*(bindparam(name, type_=BigInteger) for name in ("mentions", "last")))
    chosen = [entities.c.scope_id == bindparam("scope"), entities.c.merged_into.is_(None), after]
    if has_type:
        chosen.append(entities.c.type == bindparam("kind"))
    if not unrelated:
        chosen.append(or_(*(exists().where(end == entities.c.pk, *shape.conditions) for end in ENDS)))
    query = select(entities.c.pk).where(*chosen).order_by(*(column.desc() for column in order))
    return Prepared(query.limit(bindparam("k", type_=Integer)))
