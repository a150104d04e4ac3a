"""Memories that have not been read for relations: stored as they were said, or before there was a graph."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import exists, func, or_, select, update

from langmem_adapter.storage.courses import courses
from langmem_adapter.storage.graph.tables import SAYS, relation_memories
from langmem_adapter.storage.moments import local
from langmem_adapter.storage.scopes import ids_within, of_row
from langmem_adapter.storage.tables import memories, scopes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.courses import CourseRows

__all__ = ["Unread", "Waiting", "texts", "unread", "was_read"]

_says: Final = exists().where(relation_memories.c.memory_id == memories.c.id, SAYS)
_OPEN: Final = (func.coalesce(memories.c.related, 0) == 0, memories.c.memory_type.is_(None), ~_says)


class Waiting(NamedTuple):
    """A memory that is to be read: where it stands, who said it, and how many letters it has."""

    pk: int
    home: int
    role: str | None
    letters: int


class Unread(NamedTuple):
    """A memory as it is read, and since when it says what it says."""

    pk: int
    id: str
    seq: int
    text: str
    actor: str | None
    role: str | None
    scope: Scope
    since: datetime


def unread(connection: Connection, scope: Scope) -> list[Waiting]:
    """The facts within *scope* that were not read and say nothing.

    Those of one exact scope and one role stand together, oldest first. Expired ones are left out, and so are records.
    """
    lasting = or_(memories.c.expires_at.is_(None), memories.c.expires_at > datetime.now(UTC))
    whose = memories.c.scope_id.in_(ids_within(scope))
    order = memories.c.scope_id, memories.c.role, memories.c.pk
    query = select(memories.c.pk, *order[:2], func.length(memories.c.text)).where(whose, lasting, *_OPEN)
    return [Waiting(*row) for row in connection.execute(query.order_by(*order))]


def texts(connection: Connection, pks: Sequence[int]) -> list[Unread]:
    """Those of some memories that are there and still not read, oldest first."""
    columns = memories, scopes.c.user_id, scopes.c.agent_id, scopes.c.run_id
    query = select(*columns).join_from(memories, scopes, memories.c.scope_id == scopes.c.id)
    rows = connection.execute(query.where(memories.c.pk.in_(pks), *_OPEN).order_by(memories.c.pk)).all()
    known = courses(connection, [row.id for row in rows])
    return [
        Unread(row.pk, row.id, row.seq, row.text, row.actor_id, row.role, of_row(row), _since(known[row.id], row))
        for row in rows
    ]


def was_read(connection: Connection, memory: Unread) -> bool:
    """Note that a memory was read, and whether that is so: it stands as it was read, and nobody has read it meanwhile."""
    as_it_was = memories.c.pk == memory.pk, memories.c.seq == memory.seq
    return connection.execute(update(memories).where(*as_it_was, *_OPEN).values(related=1)).rowcount == 1


def _since(course: CourseRows, row: Any) -> datetime:
    """The date of the first of the statements, one after the other up to now, that say what the memory says."""
    since: datetime = row.updated_at
    for step in reversed(course.steps):
        if step.text != row.text:
            break
        since = min(since, step.valid_from)
    return local(since, row.utc_offset)
