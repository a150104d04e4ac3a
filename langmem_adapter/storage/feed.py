"""The change feed: writing it, and following it with a cursor.

One feed names the changed rows of every space: memories, items of a LangGraph store, entities and relations of the knowledge
graph. Indexes, the word caches of a search and mirrors of the graph follow it, and apply the current rows. A reader has a
`Cursor`: the last change that it has applied, the nonce of that change, and the embedding model of its vectors. The nonce tells
whether the history is still the same: after a backup was restored the numbers continue, the nonces do not.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import Column, Select, bindparam, func, insert, select, update

from langmem_adapter.forks import cached_property
from langmem_adapter.storage.queries import Prepared
from langmem_adapter.storage.tables import MEMORIES, changes, cursors, memories

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Row

Rows: TypeAlias = "Sequence[Row[*tuple[Any, ...]]]"
"""Rows of a space: pk, scope_id, embedding and its `more`; all but the first are `None` where the row was deleted."""


@dataclass(frozen=True, eq=False)
class Space:
    """One kind of rows with vectors in the change feed."""

    name: str
    pk: Column[int]  # what the changes name
    scope: Column[int]  # what a search is narrowed by
    embedding: Column[bytes]
    model: str  # key in `meta` of the fingerprint of the model that they come from
    remedy: str  # what to do about vectors of another model than the one in use; `{location}` is the database's
    more: tuple[Column[Any], ...] = ()  # what else a follower reads of each row
    sizes: Select[*tuple[Any, ...]] | None = None  # a faster way to count the rows of each scope, ascending by scope
    batch: int = 10_000  # changes or rows read at a time

    @cached_property
    def all(self) -> Select[*tuple[Any, ...]]:
        """Every row, ascending by pk."""
        query = select(self.pk, *self._rest).order_by(self.pk)
        return query.execution_options(yield_per=self.batch)

    @cached_property
    def counts(self) -> Select[*tuple[Any, ...]]:
        """Each scope with rows, ascending, and their number."""
        plain = select(self.scope, func.count()).group_by(self.scope).order_by(self.scope)
        return plain if self.sizes is None else self.sizes

    @cached_property
    def until(self) -> Select[*tuple[Any, ...]]:
        """The end of the next batch of changes of all spaces, and their number."""
        after = select(changes.c.seq).where(changes.c.seq > bindparam("applied"))
        batch = after.order_by(changes.c.seq).limit(self.batch).subquery()
        return select(func.max(batch.c.seq), func.count(batch.c.seq))

    @cached_property
    def changed(self) -> Select[*tuple[Any, ...]]:
        """The current rows of this space that the changes of a batch name, each once."""
        within = changes.c.seq > bindparam("applied"), changes.c.seq <= bindparam("until")
        named = select(changes.c.row).where(*within, changes.c.space == self.name).distinct().subquery()
        query = select(named.c.row.label("pk"), *self._rest)
        return query.join_from(named, self.pk.table, self.pk == named.c.row, isouter=True).order_by(named.c.row)

    @property
    def _rest(self) -> tuple[Any, ...]:
        return self.scope.label("scope_id"), self.embedding.label("embedding"), *self.more


_CHUNK: Final = 10_000
_MODEL: Final = "embeddings"
_REMEDY: Final = (
    "langmem-adapter reindex -d {location} --embeddings NAME (in Python: langmem_adapter.maintenance.reindex)"
)
_COLUMNS: Final = (memories.c.pk, memories.c.scope_id, memories.c.embedding)

VECTORS: Final = Space(MEMORIES, *_COLUMNS, _MODEL, _REMEDY)
"""Memories, for an index of vectors."""

TEXTS: Final = Space(MEMORIES, *_COLUMNS, _MODEL, _REMEDY, (memories.c.seq, memories.c.text), batch=2_000)
"""Memories, for an index that keeps the texts as well."""


_FIRST: Final = select(changes.c.nonce).order_by(changes.c.seq).limit(1)
LAST_SEQ: Final = select(func.coalesce(func.max(changes.c.seq), 0))
"""Number of the last change; 0 in an empty database."""
_LAST_SEQ: Final = Prepared(LAST_SEQ)
INSERT_CHANGE: Final = Prepared(insert(changes))
"""Writes a change; it needs the write lock."""


def new_change(seq: int, space: str, row: int, op: str) -> dict[str, Any]:
    """A row for `INSERT_CHANGE`: *op* is `"put"` or `"delete"`."""
    return {"seq": seq, "nonce": secrets.token_bytes(8), "space": space, "row": row, "op": op}


def insert_changes(connection: Connection, space: str, pks: Sequence[int], op: str) -> None:
    """Write a change of each of some rows."""
    for start in range(0, len(pks), _CHUNK):
        rows = enumerate(pks[start : start + _CHUNK], last_seq(connection) + 1)
        INSERT_CHANGE.run(connection, *(new_change(seq, space, pk, op) for seq, pk in rows))


# ── the feed ────────────────────────────────────────────────────────────────────────────────────────────────────────


def last_seq(connection: Connection) -> int:
    """Number of the last change; 0 in an empty database."""
    return int(_LAST_SEQ.first(connection)[0])


def birth(connection: Connection) -> bytes | None:
    """The nonce of the first change, which tells one database from another; `None` before any change."""
    return connection.execute(_FIRST).scalar()


def all_rows(connection: Connection, space: Space) -> Iterator[Rows]:
    """Every row of a space, in batches, ascending by pk."""
    yield from connection.execute(space.all).partitions()


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position of a reader."""

    applied: int  # number of the last change that it has applied; 0 before the first
    nonce: bytes  # that change's nonce, 8 bytes
    fingerprint: str = ""  # of the embedding model of its vectors; empty without vectors


NOTHING: Final = Cursor(0, b"")
"""Before the first change."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The rows of a space that the next changes name, each once, and the cursor after them."""

    rows: Rows
    count: int
    cursor: Cursor


@dataclass(frozen=True, slots=True, eq=False)
class NamedRows:
    """The pks that the next changes name, by space, each once, and the cursor after them."""

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
_STORED: Final = select(cursors.c.applied, cursors.c.nonce, cursors.c.fingerprint)


def last(connection: Connection, fingerprint: str = "") -> Cursor:
    """The cursor of a reader that has applied everything; its number is 0 before any change."""
    row = _LAST.first(connection)
    return Cursor(0, b"", fingerprint) if row is None else Cursor(row.seq, row.nonce, fingerprint)


def is_known(connection: Connection, cursor: Cursor) -> bool:
    """Whether a cursor belongs to this database's history."""
    if not cursor.applied:
        return True
    row = _NONCE.first(connection, {"seq": cursor.applied})
    return row is not None and row.nonce == cursor.nonce


def windows(connection: Connection, cursor: Cursor, space: Space) -> Iterator[Window]:
    """The changes after a cursor, in batches. A row may be newer than its change: the later change comes again."""
    while True:
        values = {"applied": cursor.applied}
        until, count = connection.execute(space.until, values).one()
        if not count:
            return
        rows = connection.execute(space.changed, {**values, "until": until}).all()
        cursor = Cursor(until, _NONCE.first(connection, {"seq": until}).nonce, cursor.fingerprint)
        yield Window(rows, count, cursor)


def named(connection: Connection, cursor: Cursor, spaces: Collection[str], most: int) -> NamedRows | None:
    """The pks that at most *most* changes after a cursor name; `None` after the last change."""
    next_changes = connection.execute(_AFTER.limit(most), {"applied": cursor.applied}).all()
    if not next_changes:
        return None
    rows: dict[str, dict[int, None]] = {space: {} for space in spaces}
    for change in next_changes:
        if change.space in rows:
            rows[change.space][change.row] = None
    end = Cursor(next_changes[-1].seq, next_changes[-1].nonce, cursor.fingerprint)
    return NamedRows({space: list(pks) for space, pks in rows.items()}, end)


def changed(connection: Connection, cursor: Cursor, space: str, most: int) -> list[int] | None:
    """Pks of the rows of a space that changed after a cursor, in the order of their first change.

    `None` where they are more than *most*, or the cursor belongs to another history (a backup was restored).
    """
    if not is_known(connection, cursor):
        return None
    rows = _CHANGED.rows(connection, {"applied": cursor.applied, "space": space, "most": most + 1})
    return None if len(rows) > most else list(dict.fromkeys(row.row for row in rows))


# ── stored cursors ────────────────────────────────────────────────────────────────────────────────────────────────────


def get(connection: Connection, name: str) -> Cursor | None:
    row = connection.execute(_STORED.where(cursors.c.name == name)).one_or_none()
    return None if row is None else Cursor(row.applied, row.nonce, row.fingerprint)


def put(connection: Connection, name: str, cursor: Cursor) -> None:
    """Store a reader's cursor, within a write transaction."""
    values = {"applied": cursor.applied, "nonce": cursor.nonce, "fingerprint": cursor.fingerprint}
    if connection.execute(update(cursors).where(cursors.c.name == name).values(values)).rowcount == 0:
        connection.execute(insert(cursors).values(name=name, **values))


def lock_of(name: str) -> int:
    """The number of the advisory lock on Postgres for the readers of one name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
