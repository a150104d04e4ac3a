"""Reading the relations of the knowledge graph: as they are believed now, or were at any moment, about any moment.

Newest recorded first means the order of `pk`, which is drawn in the order of commits.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, fields
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ARRAY, BigInteger, Integer, bindparam, column, func, or_, select, true, union_all

from langmem_adapter.records.graph import Relation
from langmem_adapter.records.results import RelationPage
from langmem_adapter.storage.cursors import HIGHEST, cursor, parse_cursor
from langmem_adapter.storage.graph.people import People, called
from langmem_adapter.storage.graph.tables import BY_HAND, EDGE, ENDS, SAYS, entities, relation_memories, relations
from langmem_adapter.storage.moments import LAST
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import OWNER, expand, of_row, within
from langmem_adapter.storage.tables import scopes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Column, ColumnElement, Connection, Select

    from langmem_adapter.records.scope import Scope

__all__ = ["ALL", "NOW", "When", "around", "by_pks", "every", "newest", "of_memories", "page"]

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
