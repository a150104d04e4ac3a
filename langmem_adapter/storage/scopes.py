"""Scopes (user_id, agent_id, run_id) as rows and as conditions, and the rows of a scope that a search reads."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement, and_, bindparam, func, select, true

from langmem_adapter.errors import MemoryNotFoundError
from langmem_adapter.forks import bounded_cache
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.tables import memories, scopes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from sqlalchemy import Column, Connection, Select, Table

_NAMESPACE: Final = uuid.UUID("6f2d1c1e-9f1b-5d0a-8a53-6c616e676d65")


@dataclass(frozen=True, slots=True)
class ScopeCount:
    """One scope that has memories."""

    scope: Scope
    memories: int
    updated_at: datetime  # when the latest of them changed
    created_at: datetime  # the date of the earliest


OWNER: Final = [scopes.c[name] for name in SCOPE_FIELDS]
"""The columns that `of_row` reads."""


def key_of(scope: Scope) -> str:
    """Hash of the three fields with their lengths, so that `("a|b", "c")` and `("a", "b|c")` differ."""
    parts = (getattr(scope, name) for name in SCOPE_FIELDS)
    plain = "".join("-" if part is None else f"{len(part)}:{part}" for part in parts)
    return blake2b(plain.encode(), digest_size=32).hexdigest()


def id_within(scope: Scope, name: str) -> str:
    """The UUID of a name within an exact scope: in another scope the same name has another one."""
    return str(uuid.uuid5(_NAMESPACE, f"{key_of(scope)}:{name}"))


def between(wide: Scope, narrow: Scope) -> list[Scope]:
    """Every scope from a wide one to a narrow one within it, both included."""
    more = [name for name in narrow.named if name not in wide.named]
    chosen = chain.from_iterable(combinations(more, count) for count in range(len(more) + 1))
    return [Scope(**wide.named, **{name: narrow.named[name] for name in names}) for names in chosen]


def within(scope: Scope, rows: Table = scopes) -> ColumnElement[bool]:
    """Condition on `scopes`, or a table with its three columns: the named fields are equal, the others are free."""
    return and_(true(), *(rows.c[name] == value for name, value in scope.named.items()))


def reach(scope: Scope | None, rows: Table = scopes) -> ColumnElement[bool]:
    """The same; any row where *scope* is `None`."""
    return true() if scope is None else within(scope, rows)


def ids_within(scope: Scope) -> Select[Any]:
    """The ids of every scope that a read of *scope* sees, as a subquery."""
    return select(scopes.c.id).where(within(scope))


def check_visible(row: Any, scope: Scope | None, name: str, kind: str = "memory") -> Any:
    """Return a row with the three columns that a read of *scope* sees."""
    if row is None or (scope is not None and not scope.covers(of_row(row))):
        raise MemoryNotFoundError(name, kind)
    return row


def expand(connection: Connection, scope: Scope) -> tuple[int, ...]:
    """Ids of every scope that a read of *scope* sees, ascending."""
    return tuple(row.id for row in _ids_of(*scope.named).rows(connection, scope.named))


@cache
def _ids_of(*fields: str) -> Prepared:
    named = (scopes.c[name] == bindparam(name) for name in fields)
    return Prepared(select(scopes.c.id).where(*named).order_by(scopes.c.id))


def ids_with_prefix(
    connection: Connection, ids: Column[str], prefix: str, scope: Scope | None, *, most: int
) -> list[str]:
    """At most *most* ids of a column that begin with *prefix*; within *scope*, where there is one."""
    rows = ids.table
    query = select(ids).distinct().where(func.substr(ids, 1, len(prefix)) == prefix)
    if scope is not None:
        query = query.where(rows.c.scope_id.in_(ids_within(scope)) if "scope_id" in rows.c else within(scope, rows))
    return list(connection.execute(query.order_by(ids).limit(most)).scalars())


def of_row(row: Any) -> Scope:
    """The scope of a row that carries the three columns."""
    return _scope(row.user_id, row.agent_id, row.run_id)


def owner_of(row: Any) -> Scope | None:
    """The same; `None` where all three are null."""
    return of_row(row) if any(getattr(row, name) is not None for name in SCOPE_FIELDS) else None


@bounded_cache(4_096)  # many rows of a search are of one scope
def _scope(user_id: str | None, agent_id: str | None, run_id: str | None) -> Scope:
    return Scope(user_id, agent_id, run_id)


def counts(connection: Connection, scope: Scope | None = None) -> list[ScopeCount]:
    """Every scope with memories, or every one within *scope*, the largest first."""
    number, last, first = func.count(), func.max(memories.c.updated_at), func.min(memories.c.created_at)
    query = (
        select(*OWNER, number.label("memories"), last.label("last"), first.label("first"))
        .join_from(scopes, memories, memories.c.scope_id == scopes.c.id)
        .where(reach(scope))
        .group_by(scopes.c.id, *OWNER)
        .order_by(number.desc(), scopes.c.id)
    )
    rows = connection.execute(query)
    return [ScopeCount(of_row(row), row.memories, row.last, row.first) for row in rows]


# ── what a search reads ─────────────────────────────────────────────────────────────────────────────────────────────────

MOST: Final = 5_000
"""Changes up to which it is faster to read each changed row; beyond, all rows are read again."""

_COLUMNS: Final = "pk scope_id created_at updated_at actor_id expires_at memory_type utc_offset".split()
_ROW: Final = select(*(memories.c[name] for name in _COLUMNS))
_OF_SCOPES: Final = Prepared(_ROW.where(any_of(memories.c.scope_id, "scopes")))
_OF_MEMORIES: Final = Prepared(_ROW.where(any_of(memories.c.pk, "pks")))
_BY_ID: Final = any_of(scopes.c.id, "ids")
_NAMES: Final = select(scopes.c.id, *OWNER).where(_BY_ID)
_WORD_COUNT: Final = select(func.coalesce(func.sum(scopes.c.word_count), 0)).where(_BY_ID)


def of_scopes(connection: Connection, scope_ids: Iterable[int]) -> list[Any]:
    """A row of every memory of some scopes, in no order."""
    return _OF_SCOPES.rows(connection, {"scopes": list(scope_ids)})


def of_memories(connection: Connection, pks: Iterable[int]) -> list[Any]:
    """The same rows of some memories; deleted ones are missing."""
    return _OF_MEMORIES.rows(connection, {"pks": list(pks)})


def scopes_of(connection: Connection, ids: Iterable[int]) -> dict[int, Scope]:
    return {row.id: of_row(row) for row in connection.execute(_NAMES, {"ids": list(ids)})}


def word_count(connection: Connection, scope_ids: Iterable[int]) -> int:
    """The number of words in the memories of some scopes, weighted as they are stored."""
    return int(connection.execute(_WORD_COUNT, {"ids": list(scope_ids)}).scalar_one())
