"""The change feed as a follower reads it, and the cursors of followers that keep theirs in the database.

A follower is at a `Cursor`: the last change it has applied, that change's nonce, and the embedding model whose vectors it
holds. The nonce tells whether this is still the same history: after a backup was restored the numbers go on as if nothing
had happened, the nonces do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import bindparam, func, insert, select, update

from langmem_adapter.storage.tables import MEMORIES, changes, cursors, memories

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Row

__all__ = [
    "BATCH",
    "Cursor",
    "Rows",
    "Window",
    "all_rows",
    "birth",
    "follows",
    "get",
    "last",
    "lock_of",
    "put",
    "window",
]

Rows: TypeAlias = "Sequence[Row[*tuple[Any, ...]]]"
"""Rows of pk, scope_id, seq, text, embedding; all but the first are `None` where the memory is gone."""

BATCH: Final = 2_000
"""Changes or memories read in one go."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a follower has come.

    Attributes:
        applied: Number of the last change that it has applied.
        nonce: That change's nonce, 8 bytes.
        fingerprint: Of the embedding model whose vectors it holds.
    """

    applied: int
    nonce: bytes
    fingerprint: str


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The next changes, as net changes.

    Attributes:
        rows: Each memory that they name, once, as it stands now.
        count: How many changes they are.
        until: The last one's number.
        nonce: Its nonce.
    """

    rows: Rows
    count: int
    until: int
    nonce: bytes


# Statements are built once. The changes of one batch, whatever space they belong to:
_NEXT: Final = (
    select(changes.c.seq).where(changes.c.seq > bindparam("applied")).order_by(changes.c.seq).limit(BATCH).subquery()
)
_UNTIL: Final = select(func.max(_NEXT.c.seq), func.count(_NEXT.c.seq))
_NAMED: Final = (
    select(changes.c.row)
    .where(
        changes.c.seq > bindparam("applied"), changes.c.seq <= bindparam("until"), changes.c.space == bindparam("space")
    )
    .distinct()
    .subquery()
)
_CHANGED: Final = (
    select(_NAMED.c.row.label("pk"), memories.c.scope_id, memories.c.seq, memories.c.text, memories.c.embedding)
    .join_from(_NAMED, memories, memories.c.pk == _NAMED.c.row, isouter=True)
    .order_by(_NAMED.c.row)
)
_ALL: Final = (
    select(memories.c.pk, memories.c.scope_id, memories.c.seq, memories.c.text, memories.c.embedding)
    .order_by(memories.c.pk)
    .execution_options(yield_per=BATCH)
)
_NONCE: Final = select(changes.c.nonce).where(changes.c.seq == bindparam("seq"))
_FIRST: Final = select(changes.c.nonce).order_by(changes.c.seq).limit(1)
_LAST: Final = select(changes.c.seq, changes.c.nonce).order_by(changes.c.seq.desc()).limit(1)
_CURSOR: Final = select(cursors.c.applied, cursors.c.nonce, cursors.c.fingerprint)


# ── the feed ────────────────────────────────────────────────────────────────────────────────────────────────────────


def last(connection: Connection, fingerprint: str) -> Cursor | None:
    """The cursor of a follower that has applied everything; `None` while nothing ever changed."""
    row = connection.execute(_LAST).one_or_none()
    return None if row is None else Cursor(row.seq, row.nonce, fingerprint)


def birth(connection: Connection) -> bytes | None:
    """The nonce of the very first change, which tells one database from another; `None` while nothing ever changed."""
    return connection.execute(_FIRST).scalar()


def follows(connection: Connection, cursor: Cursor) -> bool:
    """Whether the change that a cursor stands at is part of this database's history."""
    return connection.execute(_NONCE, {"seq": cursor.applied}).scalar() == cursor.nonce


def window(connection: Connection, applied: int) -> Window | None:
    """The changes after number *applied*, at most `BATCH` of them; `None` where there are no more.

    Whether the rows are newer than the last of these changes does not matter: those changes come again.
    """
    until, number = connection.execute(_UNTIL, {"applied": applied}).one()
    if not number:
        return None
    rows = connection.execute(_CHANGED, {"applied": applied, "until": until, "space": MEMORIES}).all()
    return Window(rows, number, until, connection.execute(_NONCE, {"seq": until}).scalar_one())


def all_rows(connection: Connection) -> Iterator[Rows]:
    """Every memory, in batches, ascending by pk."""
    yield from connection.execute(_ALL).partitions()


def lock_of(name: str) -> int:
    """The number of the advisory lock that the followers of one name take on Postgres."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


# ── kept cursors ────────────────────────────────────────────────────────────────────────────────────────────────────


def get(connection: Connection, name: str) -> Cursor | None:
    """The cursor of the follower of this name."""
    row = connection.execute(_CURSOR.where(cursors.c.name == name)).one_or_none()
    return None if row is None else Cursor(row.applied, row.nonce, row.fingerprint)


def put(connection: Connection, name: str, cursor: Cursor) -> None:
    """Keep a follower's cursor, within a write transaction."""
    values = {"applied": cursor.applied, "nonce": cursor.nonce, "fingerprint": cursor.fingerprint}
    if connection.execute(update(cursors).where(cursors.c.name == name).values(values)).rowcount == 0:
        connection.execute(insert(cursors).values(name=name, **values))
