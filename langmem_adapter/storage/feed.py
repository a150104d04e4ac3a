"""The change feed: writing it, and following it with a cursor.

One feed tells of every space: memories, items of a LangGraph store, entities and relations of the knowledge graph. Who reads it
on and on is a follower (`storage.feed`).

Indexes of this process and shared ones, the word caches of a search, and mirrors of the graph all read the feed in this way,
and only apply the rows that it names, as they now stand. A reader stands at a `Cursor`: the last change that it has applied,
that change's nonce, and the embedding model whose vectors it holds. The nonce tells whether this is still the same history:
after a backup was restored the numbers go on as if nothing had happened, the nonces do not.
"""

from __future__ import annotations

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
"""Rows of a space: pk, scope_id, embedding and its `more`; all but the first are `None` where the row is gone."""


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
    sizes: Select[*tuple[Any, ...]] | None = None  # a quicker way to count the rows of each scope, ascending by scope
    batch: int = 10_000  # changes or rows read in one go

    # Statements are built once.

    @cached_property
    def all(self) -> Select[*tuple[Any, ...]]:
        """Every row, ascending by pk."""
        query = select(self.pk, *self._rest).order_by(self.pk)
        return query.execution_options(yield_per=self.batch)

    @cached_property
    def counts(self) -> Select[*tuple[Any, ...]]:
        """Each scope that has rows, ascending, and how many."""
        plain = select(self.scope, func.count()).group_by(self.scope).order_by(self.scope)
        return plain if self.sizes is None else self.sizes

    @cached_property
    def until(self) -> Select[*tuple[Any, ...]]:
        """The end of the next batch of changes, whatever space they belong to, and how many they are."""
        after = select(changes.c.seq).where(changes.c.seq > bindparam("applied"))
        batch = after.order_by(changes.c.seq).limit(self.batch).subquery()
        return select(func.max(batch.c.seq), func.count(batch.c.seq))

    @cached_property
    def changed(self) -> Select[*tuple[Any, ...]]:
        """Each row of this space that the changes of a batch name, once, as it stands now."""
        within = changes.c.seq > bindparam("applied"), changes.c.seq <= bindparam("until")
        named = select(changes.c.row).where(*within, changes.c.space == self.name).distinct().subquery()
        query = select(named.c.row.label("pk"), *self._rest)
        return query.join_from(named, self.pk.table, self.pk == named.c.row, isouter=True).order_by(named.c.row)

    @property
    def _rest(self) -> tuple[Any, ...]:
        return self.scope.label("scope_id"), self.embedding.label("embedding"), *self.more


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
"""A change, written by whoever holds the write lock."""


# ── the feed ────────────────────────────────────────────────────────────────────────────────────────────────────────


def last_seq(connection: Connection) -> int:
    """Number of the last change; 0 in an empty database."""
    return int(_LAST_SEQ.first(connection)[0])


def birth(connection: Connection) -> bytes | None:
    """The nonce of the very first change, which tells one database from another; `None` while nothing ever changed."""
    return connection.execute(_FIRST).scalar()


def all_rows(connection: Connection, space: Space) -> Iterator[Rows]:
    """Every row of a space, in batches, ascending by pk."""
    yield from connection.execute(space.all).partitions()


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
