"""Memories that have not been read for relations: stored as they were said, or before there was a graph."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import bindparam, exists, func, or_, select, update

from langmem_adapter.storage.courses import courses
from langmem_adapter.storage.graph.tables import relation_memories
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import of_row, within
from langmem_adapter.storage.tables import memories, scopes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.courses import CourseRows

__all__ = ["Unread", "Waiting", "texts", "unread", "was_read"]

_says: Final = exists().where(relation_memories.c.memory_id == memories.c.id, relation_memories.c.dropped_at.is_(None))
_OPEN: Final = (func.coalesce(memories.c.related, 0) == 0, memories.c.memory_type.is_(None), ~_says)
_COLUMNS: Final = [memories.c[name] for name in ("pk", "id", "seq", "text", "actor_id", "role", "updated_at")]
_TEXTS: Final = Prepared(
    select(*_COLUMNS, scopes.c.user_id, scopes.c.agent_id, scopes.c.run_id)
    .join_from(memories, scopes, memories.c.scope_id == scopes.c.id)
    .where(any_of(memories.c.pk, "pks"), *_OPEN)
    .order_by(memories.c.pk)
)
_READ: Final = (
    update(memories)
    .where(memories.c.pk == bindparam("_pk"), memories.c.seq == bindparam("_seq"), *_OPEN)
    .values(related=1)
)


class Waiting(NamedTuple):
    """A memory that is to be read: where it stands, who said it, and how many letters it has."""

    pk: int
    home: int
    role: str | None
    letters: int


class Unread(NamedTuple):
    """A memory as it is read.

    Attributes:
        since: Since when it says what it says.
    """

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
    home = memories.c.scope_id
    whose = home.in_(select(scopes.c.id).where(within(scope)))
    query = select(memories.c.pk, home, memories.c.role, func.length(memories.c.text)).where(whose, lasting, *_OPEN)
    found = connection.execute(query.order_by(home, memories.c.role, memories.c.pk))
    return [Waiting(*row) for row in found]


def texts(connection: Connection, pks: Sequence[int]) -> list[Unread]:
    """Those of some memories that are there and still not read, oldest first."""
    rows = _TEXTS.rows(connection, {"pks": pks})
    known = courses(connection, [row.id for row in rows])
    return [_unread(row, _since(known[row.id], row)) for row in rows]


def was_read(connection: Connection, memory: Unread) -> bool:
    """Note that a memory was read.

    Returns:
        Whether that is so: it still stands as it was read, and nobody has read it meanwhile.
    """
    return connection.execute(_READ, {"_pk": memory.pk, "_seq": memory.seq}).rowcount == 1


def _unread(row: Any, since: datetime) -> Unread:
    return Unread(row.pk, row.id, row.seq, row.text, row.actor_id, row.role, of_row(row), since)


def _since(course: CourseRows, row: Any) -> datetime:
    """The date of the first of the statements, one after the other up to now, that say what the memory says."""
    since: datetime = row.updated_at
    for step in reversed(course.steps):
        if step.text != row.text:
            break
        since = min(since, step.valid_from)
    return since
