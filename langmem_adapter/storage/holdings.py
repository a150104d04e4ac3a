"""Who has something here, and how much: users, agents and runs as a list, and what an erasure of one would take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, func, literal, or_, select, true, union_all

from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.conversations import conversations
from langmem_adapter.storage.erasure import COUNTED, Erasure, belongs, related_to
from langmem_adapter.storage.graph.tables import relations
from langmem_adapter.storage.scopes import OWNER, reach
from langmem_adapter.storage.tables import memories, scopes

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Select, Subquery, Table

__all__ = ["ORDERS", "Holder", "held", "holder", "holders", "number_of"]

ORDERS: Final = ("name", "memories", "relations", "first", "last")
"""What a list of holders can be sorted by."""

_SUMS: Final[dict[str, Any]] = {"memories": func.sum, "relations": func.sum, "first": func.min, "last": func.max}


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who has something here.

    Attributes:
        scope: A read of it sees all that is counted here, whatever its other fields are.
        memories: How many.
        relations: How many that are believed.
        first: The date of the earliest memory, or when the earliest conversation began; `None` where there is neither any more.
        last: When the latest of them changed.
    """

    scope: Scope
    memories: int
    relations: int
    first: datetime | None
    last: datetime | None


def holders(
    connection: Connection,
    field: str,
    scope: Scope | None = None,
    *,
    begins: str = "",
    sort: str = "-memories",
    most: int = 50,
    skipped: int = 0,
) -> list[Holder]:
    """Some of the users, agents or runs (*field*) that have something, or had it and left a history.

    Args:
        connection: A read transaction.
        field: One of `SCOPE_FIELDS`.
        scope: Within which; `None` for everybody.
        begins: How their names begin.
        sort: One of `ORDERS`, then by name; a `-` in front of it reverses the first.
        most: At most so many.
        skipped: How many of the first are left out.
    """
    rows = _named(field, scope, begins)
    found = select(rows.c.name, *_sums(rows)).group_by(rows.c.name)
    by = found.selected_columns[sort.removeprefix("-")]
    order = (by.desc() if sort.startswith("-") else by.asc()).nulls_last()
    query = found.order_by(order, rows.c.name).limit(most).offset(skipped)
    own = {} if scope is None else scope.named
    return [_holder(Scope(**{**own, field: row.name}), row) for row in connection.execute(query)]


def number_of(connection: Connection, field: str, scope: Scope | None = None, *, begins: str = "") -> int:
    """How many there are of `holders`."""
    rows = _named(field, scope, begins)
    return int(connection.execute(select(func.count(rows.c.name.distinct()))).scalar_one())


def holder(connection: Connection, scope: Scope) -> Holder:
    """What is within a scope."""
    rows = _rows(scope).subquery()
    return _holder(scope, connection.execute(select(*_sums(rows))).one())


def held(connection: Connection, scope: Scope) -> Erasure:
    """What an erasure of a scope would remove, as far as a user would ask for it.

    Traces and answers of others that show something of it are not looked for: that takes reading all of them.
    """
    shown = {name: rows for name, rows in COUNTED.items() if name not in {"words", "runs", "scopes"}}
    counts = {name: select(func.count()).select_from(rows).where(belongs(rows, scope)) for name, rows in shown.items()}
    found: dict[str, Any] = {name: connection.execute(query).scalar_one() for name, query in counts.items()}
    return Erasure(**found, relations=connection.execute(related_to(scope)).scalar_one())


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _rows(scope: Scope | None) -> Any:
    """A row for each exact scope, and for each conversation, with what it has."""
    said, nothing = conversations.c, _numbers(literal(0), literal(0))
    talks = select(*(said[name] for name in SCOPE_FIELDS), *nothing, said.created_at, said.updated_at)
    return union_all(_kept().where(_inside(scope, scopes)), talks.where(_inside(scope, conversations)))


def _kept() -> Select[Any]:
    number, first, last = func.count(), func.min(memories.c.created_at), func.max(memories.c.updated_at)
    stated = select(memories.c.scope_id, number.label("number"), first.label("first"), last.label("last"))
    remembered = stated.group_by(memories.c.scope_id).subquery()
    believed = select(relations.c.scope_id, number.label("number")).where(relations.c.retired_at.is_(None))
    related = believed.group_by(relations.c.scope_id).subquery()
    numbers = _numbers(remembered.c.number, related.c.number)
    return (
        select(*OWNER, *numbers, remembered.c.first, remembered.c.last)
        .outerjoin_from(scopes, remembered, remembered.c.scope_id == scopes.c.id)
        .outerjoin(related, related.c.scope_id == scopes.c.id)
    )


def _inside(scope: Scope | None, table: Table) -> ColumnElement[bool]:
    return and_(reach(scope, table), or_(*(table.c[name].is_not(None) for name in SCOPE_FIELDS)))


def _numbers(kept: Any, related: Any) -> tuple[Any, Any]:
    return func.coalesce(kept, 0).label("memories"), func.coalesce(related, 0).label("relations")


def _named(field: str, scope: Scope | None, begins: str) -> Subquery:
    rows = _rows(scope).subquery()
    name = rows.c[field]
    fits = true() if not begins else func.substr(name, 1, len(begins)) == begins
    return select(name.label("name"), *(rows.c[each] for each in _SUMS)).where(and_(name.is_not(None), fits)).subquery()


def _sums(rows: Subquery) -> list[Any]:
    return [join(rows.c[name]).label(name) for name, join in _SUMS.items()]


def _holder(scope: Scope, row: Any) -> Holder:
    return Holder(scope, int(row.memories or 0), int(row.relations or 0), row.first, row.last)
