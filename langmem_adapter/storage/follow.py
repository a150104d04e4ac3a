"""Following the change feed: where a reader stands, whether that is still this history, and what comes next.

Indexes of this process and shared ones, the word caches of a search, and mirrors of the graph all read the feed in this way,
and only apply the rows that it names, as they now stand. A reader stands at a `Cursor`: the last change that it has applied,
that change's nonce, and the embedding model whose vectors it holds. The nonce tells whether this is still the same history:
after a backup was restored the numbers go on as if nothing had happened, the nonces do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, insert, select, update

from langmem_adapter.storage.prepared_statements import Prepared
from langmem_adapter.storage.tables import changes, cursors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.storage.feed import Rows, Space

__all__ = [
    "NOTHING",
    "Cursor",
    "NamedRows",
    "Window",
    "changed",
    "get",
    "is_known",
    "last",
    "lock_of",
    "named",
    "put",
    "windows",
]


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a reader has come."""

    applied: int  # number of the last change that it has applied; 0 before the first
    nonce: bytes  # that change's nonce, 8 bytes
    fingerprint: str = ""  # of the embedding model of its vectors; empty without vectors


NOTHING: Final = Cursor(0, b"")
"""Before the first change."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The next changes, as each row of a space that they name, once, and where a reader stands that has applied them."""

    rows: Rows
    count: int
    cursor: Cursor


@dataclass(frozen=True, slots=True, eq=False)
class NamedRows:
    """The next changes, as the pks that they name, by space, each once; and where a reader stands that has applied them."""

    rows: Mapping[str, Sequence[int]]
    cursor: Cursor


_NONCE: Final = Prepared(select(changes.c.nonce).where(changes.c.seq == bindparam("seq")))
_LAST: Final = Prepared(select(changes.c.seq, changes.c.nonce).order_by(changes.c.seq.desc()).limit(1))
_AFTER: Final = (
    select(changes.c.seq, changes.c.nonce, changes.c.space, changes.c.row)
    .where(changes.c.seq > bindparam("applied"))
    .order_by(changes.c.seq)
)
_CHANGED: Final = Prepared(
    select(changes.c.row)
    .where(changes.c.seq > bindparam("applied"), changes.c.space == bindparam("space"))
    .order_by(changes.c.seq)
    .limit(bindparam("most"))
)
_KEPT: Final = select(cursors.c.applied, cursors.c.nonce, cursors.c.fingerprint)


def last(connection: Connection, fingerprint: str = "") -> Cursor:
    """The cursor of a reader that has applied everything; its number is 0 while nothing ever changed."""
    row = _LAST.first(connection)
    return Cursor(0, b"", fingerprint) if row is None else Cursor(row.seq, row.nonce, fingerprint)


def is_known(connection: Connection, cursor: Cursor) -> bool:
    """Whether a cursor stands in this database's history."""
    if not cursor.applied:
        return True
    row = _NONCE.first(connection, {"seq": cursor.applied})
    return row is not None and row.nonce == cursor.nonce


def windows(connection: Connection, cursor: Cursor, space: Space) -> Iterator[Window]:
    """What comes after a cursor, a batch of changes at a time.

    Whether the rows are newer than the last of their changes does not matter: those changes come again.
    """
    while True:
        asked = {"applied": cursor.applied}
        until, count = connection.execute(space.until, asked).one()
        if not count:
            return
        rows = connection.execute(space.changed, {**asked, "until": until}).all()
        cursor = Cursor(until, _NONCE.first(connection, {"seq": until}).nonce, cursor.fingerprint)
        yield Window(rows, count, cursor)


def named(connection: Connection, cursor: Cursor, spaces: Collection[str], most: int) -> NamedRows | None:
    """What the changes after a cursor name, at most so many of them; `None` where there are no more.

    As with `windows`, the rows may be newer than these changes.
    """
    found = connection.execute(_AFTER.limit(most), {"applied": cursor.applied}).all()
    if not found:
        return None
    rows: dict[str, dict[int, None]] = {space: {} for space in spaces}
    for change in found:
        if change.space in rows:
            rows[change.space][change.row] = None
    end = Cursor(found[-1].seq, found[-1].nonce, cursor.fingerprint)
    return NamedRows({space: list(pks) for space, pks in rows.items()}, end)


def changed(connection: Connection, cursor: Cursor, space: str, most: int) -> list[int] | None:
    """Pks of the rows of a space that changed after a cursor, in the order of their first change.

    `None` where they are more than *most*, or where the cursor stands in another history (a backup was restored).
    """
    if not is_known(connection, cursor):
        return None
    rows = _CHANGED.rows(connection, {"applied": cursor.applied, "space": space, "most": most + 1})
    return None if len(rows) > most else list(dict.fromkeys(row.row for row in rows))


# ── kept cursors ────────────────────────────────────────────────────────────────────────────────────────────────────


def get(connection: Connection, name: str) -> Cursor | None:
    """The cursor of the reader of this name."""
    row = connection.execute(_KEPT.where(cursors.c.name == name)).one_or_none()
    return None if row is None else Cursor(row.applied, row.nonce, row.fingerprint)


def put(connection: Connection, name: str, cursor: Cursor) -> None:
    """Keep a reader's cursor, within a write transaction."""
    values = {"applied": cursor.applied, "nonce": cursor.nonce, "fingerprint": cursor.fingerprint}
    if connection.execute(update(cursors).where(cursors.c.name == name).values(values)).rowcount == 0:
        connection.execute(insert(cursors).values(name=name, **values))


def lock_of(name: str) -> int:
    """The number of the advisory lock that the readers of one name take on Postgres."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
