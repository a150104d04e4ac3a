"""Reading the relations of the knowledge graph: as they are believed now, or were at any moment, about any moment.

Newest recorded first means the order of `pk`, which is drawn in the order of commits.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sqlalchemy import BigInteger, Integer, bindparam, column, func, or_, select, true, union_all
from sqlalchemy.dialects.postgresql import ARRAY

from langmem_adapter.records.graph import Relation
from langmem_adapter.records.results import RelationPage
from langmem_adapter.storage.cursors import HIGHEST, cursor, parse_cursor
from langmem_adapter.storage.graph.people import People, called
from langmem_adapter.storage.graph.tables import (
    BELIEVED,
    BY_HAND,
    EDGE,
    ENDS,
    SAYS,
    entities,
    relation_memories,
    relations,
)
from langmem_adapter.storage.moments import FIRST, LAST, UTCDateTime
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import expand, of_row, within
from langmem_adapter.storage.tables import scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection
    from sqlalchemy.engine import Dialect

    from langmem_adapter.records.scope import Scope

__all__ = ["ALL", "NOW", "When", "around", "by_pks", "conditions", "every", "newest", "of_memories", "page"]

ALL: Final = 2**31 - 1
"""More than there can be."""
_APART: Final = 64
"""Up to so many scopes or entities are read one by one, each in the order of an index, and more in one statement."""

_TOGETHER: Final = 1_000
"""Relations that are held at a time where all are read."""


class _Bound(UTCDateTime):
    """A moment that rows are compared with; `FIRST` and `LAST` lie beyond whatever a row may hold."""

    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        ends = ("", "\U0010ffff") if dialect.name == "sqlite" else ("-infinity", "infinity")
        beyond, plain = dict(zip((FIRST, LAST), ends, strict=True)), super().bind_processor(dialect)
        return lambda value: beyond[value] if value in beyond or plain is None else plain(value)


# One object each, however often they stand in a statement: `Prepared` converts a parameter's value once for each.
_UNTIL, _SINCE, _RECORDED, _RETIRED = (
    bindparam(name, type_=_Bound()) for name in ("until", "since", "recorded", "retired")
)

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
    def values(self) -> dict[str, Any]:
        """The parameters of `conditions`."""
        return {
            "until": self.held or LAST,
            "since": self.held or FIRST,
            "recorded": self.known or LAST,
            "retired": FIRST if self.history else self.known or LAST,
        }


NOW: Final = When()
"""What is believed now, about whatever time."""


def conditions(*, past: bool) -> list[ColumnElement[bool]]:
    """The conditions on rows of `relations` that `When.values` completes; *past* is that of `When`."""
    return [*_believed(past=past), *_HELD]


_HELD: Final = (
    or_(relations.c.valid_from.is_(None), relations.c.valid_from <= _UNTIL),
    or_(relations.c.valid_to.is_(None), relations.c.valid_to > _SINCE),
)


def _believed(*, past: bool) -> list[ColumnElement[bool]]:
    if not past:
        return [BELIEVED]  # an index leads past the others
    return [relations.c.recorded_at <= _RECORDED, or_(BELIEVED, relations.c.retired_at > _RETIRED)]


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
            _said.memory_id != BY_HAND,
            or_(SAYS, _said.dropped_at > _RETIRED) if past else SAYS,
            *([_said.created_at <= _RECORDED] if past else []),
        )
        .order_by(_said.created_at, _said.memory_id)
    )
    for past in (False, True)
}
_OF_MEMORIES: Final = Prepared(
    select(_said.memory_id, relations.c.pk)
    .join_from(relation_memories, relations, _said.relation_id == relations.c.id)
    .where(any_of(_said.memory_id, "ids"), SAYS, *conditions(past=False))
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
    wanted: list[tuple[Column, Sequence[int]]] = [("scope_id", scope_ids)]
    if entity is not None:
        members = People(connection, scope_ids).everyone(called(connection, scope, scope_ids, entity))
        wanted = [("source_pk", members), ("target_pk", members)]
    values = {**when.values, "k": k, "last": last, "relation": relation}
    found: list[list[tuple[int]]] = []
    for of, ids in wanted:
        several = len(ids) > _APART
        read = _newest_statement(of, past=when.past, named=relation is not None, several=several)
        asked = [{"ids": ids}] if several else [{"id": one} for one in ids]
        found += [read.rows(connection, {**values, **each}) for each in asked]
    return [pk for (pk,) in islice(dict.fromkeys(heapq.merge(*found, reverse=True)), k)]


@lru_cache
def _newest_statement(column: Column, *, past: bool, named: bool, several: bool) -> Prepared:
    chosen = any_of(relations.c[column], "ids") if several else relations.c[column] == bindparam("id")
    called = [relations.c.relation == bindparam("relation")] if named else []
    query = select(relations.c.pk).where(chosen, *called, relations.c.pk < bindparam("last"), *conditions(past=past))
    return Prepared(query.order_by(relations.c.pk.desc()).limit(bindparam("k", type_=Integer)))


def every(connection: Connection, scope: Scope, when: When) -> Iterator[Sequence[tuple[int, int, int]]]:
    """All relations within *scope*, however many: pk, source and target, the first recorded first, some at a time."""
    of_scope = select(*EDGE).join(scopes, relations.c.scope_id == scopes.c.id).where(within(scope))
    query = of_scope.where(*conditions(past=when.past)).order_by(relations.c.pk)
    in_parts = query.execution_options(yield_per=_TOGETHER)
    for rows in connection.execute(in_parts, when.values).partitions():
        yield [tuple(row) for row in rows]


def by_pks(connection: Connection, pks: Collection[int], when: When = NOW) -> dict[int, Relation]:
    """Relations by pk, newest recorded first, each with the memories that said so then."""
    if not pks:
        return {}
    rows = _RELATIONS.rows(connection, {"pks": pks})
    said: defaultdict[str, list[str]] = defaultdict(list)
    values = {**when.values, "ids": list({row.id for row in rows})}
    for relation_id, memory_id in _SAID[when.past].rows(connection, values):
        said[relation_id].append(memory_id)
    return {
        row.pk: Relation(
            scope=of_row(row), memory_ids=tuple(said.get(row.id, ())), **{name: getattr(row, name) for name in _AS_KEPT}
        )
        for row in rows
    }


def of_memories(connection: Connection, memory_ids: Sequence[str], when: When) -> dict[str, list[int]]:
    """Pks of the relations that some memories say and that hold then, by memory; only what is believed now is read."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for memory_id, pk in _OF_MEMORIES.rows(connection, {**when.values, "ids": memory_ids}):
        found[memory_id].append(pk)
    return dict(found)


_AS_KEPT: Final = [field.name for field in fields(Relation) if field.name not in {"scope", "memory_ids"}]


# ── the relations around some entities ──────────────────────────────────────────────────────────────────────────────────


def around(connection: Connection, pks: Sequence[int], when: When, *, most: int = ALL) -> list[tuple[int, int, int]]:
    """The relations of some entities: pk, source and target, newest recorded first.

    Of an entity with more than *most* relations in one direction, only the newest of these are looked at.
    """
    if connection.dialect.name == "postgresql":  # one question, since each has to travel
        rows = _AROUND_MANY[when.past].rows(connection, {**when.values, "pks": pks, "most": most})
    else:
        values = {**when.values, "most": most}
        rows = [row for pk in pks for row in _AROUND[when.past].rows(connection, {**values, "pk": pk})]
    return sorted(set(rows), reverse=True)


def _newest(end: ColumnElement[int], entity: ColumnElement[int], *, past: bool) -> Any:
    """The newest are found in an index, before anything else is read of them."""
    query = select(relations.c.pk).where(end == entity, *_believed(past=past)).order_by(relations.c.pk.desc())
    newest = query.limit(bindparam("most", type_=Integer)).subquery()
    return select(*EDGE).join_from(newest, relations, relations.c.pk == newest.c.pk).where(*_HELD)


def _around_many(*, past: bool) -> Prepared:
    pks = func.unnest(bindparam("pks", type_=ARRAY(BigInteger)))
    each = pks.table_valued(column("pk", BigInteger)).render_derived()
    parts = [_newest(end, each.c.pk, past=past).lateral() for end in ENDS]
    return Prepared(union_all(*(select(part).select_from(each).join(part, true()) for part in parts)))


_AROUND: Final = {
    past: Prepared(union_all(*(_newest(end, bindparam("pk"), past=past) for end in ENDS))) for past in (False, True)
}
_AROUND_MANY: Final = {past: _around_many(past=past) for past in (False, True)}
