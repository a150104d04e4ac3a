"""The change feed as a follower reads it, and the cursors of followers that keep theirs in the database.

One feed tells of every space: memories, items of a LangGraph store, entities and relations of the knowledge graph. A follower
follows one or two of them and reads the rows that its changes name as they now stand. It is at a `Cursor`: the last change it
has applied, that change's nonce, and the embedding model whose vectors it holds. The nonce tells whether this is still the
same history: after a backup was restored the numbers go on as if nothing had happened, the nonces do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import Column, Select, bindparam, func, insert, select, update

from langmem_adapter.forks import cached_property
from langmem_adapter.storage.prepared import Prepared
from langmem_adapter.storage.tables import MEMORIES, changes, cursors, memories

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Row

__all__ = [
    "INSERT_CHANGE",
    "LAST_SEQ",
    "TEXTS",
    "VECTORS",
    "Cursor",
    "Named",
    "Rows",
    "Space",
    "Window",
    "all_rows",
    "birth",
    "follows",
    "get",
    "last",
    "last_seq",
    "lock_of",
    "named",
    "put",
    "window",
]

Rows: TypeAlias = "Sequence[Row[*tuple[Any, ...]]]"
"""Rows of a space: pk, scope_id, embedding and its `more`; all but the first are `None` where the row is gone."""


@dataclass(frozen=True, eq=False)
class Space:
    """One kind of rows with vectors, as the feed tells of them.

    Attributes:
        name: Its name in the change feed.
        pk: The column that the changes name.
        scope: What a search is narrowed by.
        embedding: The vectors, float32 bytes.
        model: Key in `meta` of the fingerprint of the model that they come from.
        remedy: What to do about vectors of another model than the one in use; `{location}` is the database's.
        more: What else a follower reads of each row.
        sizes: A quicker way to ask for each scope and its number of rows, ascending by scope.
        batch: Changes or rows read in one go.
    """

    name: str
    pk: Column[int]
    scope: Column[int]
    embedding: Column[bytes]
    model: str
    remedy: str
    more: tuple[Column[Any], ...] = ()
    sizes: Select[*tuple[Any, ...]] | None = None
    batch: int = 10_000

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
        rows: Each row of the space that they name, once, as it stands now.
        count: How many changes they are.
        until: The last one's number.
        nonce: Its nonce.
    """

    rows: Rows
    count: int
    until: int
    nonce: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """The next changes, as the rows of several spaces that they name.

    Attributes:
        rows: Pks by space, each once, in the order of their first change.
        until: The last change's number.
        nonce: Its nonce.
    """

    rows: Mapping[str, Sequence[int]]
    until: int
    nonce: bytes


_NONCE: Final = select(changes.c.nonce).where(changes.c.seq == bindparam("seq"))
_FIRST: Final = select(changes.c.nonce).order_by(changes.c.seq).limit(1)
_LAST: Final = select(changes.c.seq, changes.c.nonce).order_by(changes.c.seq.desc()).limit(1)
_CURSOR: Final = select(cursors.c.applied, cursors.c.nonce, cursors.c.fingerprint)
_NEXT: Final = (
    select(changes.c.seq, changes.c.nonce, changes.c.space, changes.c.row)
    .where(changes.c.seq > bindparam("applied"))
    .order_by(changes.c.seq)
)


LAST_SEQ: Final = select(func.coalesce(func.max(changes.c.seq), 0))
"""Number of the last change; 0 in an empty database."""
_LAST_SEQ: Final = Prepared(LAST_SEQ)
INSERT_CHANGE: Final = Prepared(insert(changes))
"""A change, written by whoever holds the write lock."""


# ── the feed ────────────────────────────────────────────────────────────────────────────────────────────────────────


def last(connection: Connection, fingerprint: str) -> Cursor | None:
    """The cursor of a follower that has applied everything; `None` while nothing ever changed."""
    row = connection.execute(_LAST).one_or_none()
    return None if row is None else Cursor(row.seq, row.nonce, fingerprint)


def last_seq(connection: Connection) -> int:
    """Number of the last change; 0 in an empty database."""
    return int(_LAST_SEQ.first(connection)[0])


def birth(connection: Connection) -> bytes | None:
    """The nonce of the very first change, which tells one database from another; `None` while nothing ever changed."""
    return connection.execute(_FIRST).scalar()


def follows(connection: Connection, applied: int, nonce: bytes) -> bool:
    """Whether the change of this number and nonce is part of this database's history."""
    return connection.execute(_NONCE, {"seq": applied}).scalar() == nonce


def window(connection: Connection, applied: int, space: Space) -> Window | None:
    """The changes after number *applied*, at most a batch of them; `None` where there are no more.

    Whether the rows are newer than the last of these changes does not matter: those changes come again.
    """
    until, number = connection.execute(space.until, {"applied": applied}).one()
    if not number:
        return None
    rows = connection.execute(space.changed, {"applied": applied, "until": until}).all()
    return Window(rows, number, until, connection.execute(_NONCE, {"seq": until}).scalar_one())


def named(connection: Connection, applied: int, spaces: Collection[str], most: int) -> Named | None:
    """What the changes after number *applied* name, at most so many of them; `None` where there are no more.

    As with `window`, the rows may be newer than these changes.
    """
    found = connection.execute(_NEXT.limit(most), {"applied": applied}).all()
    if not found:
        return None
    rows: dict[str, dict[int, None]] = {space: {} for space in spaces}
    for change in found:
        if change.space in rows:
            rows[change.space][change.row] = None
    return Named({space: list(pks) for space, pks in rows.items()}, found[-1].seq, found[-1].nonce)


def all_rows(connection: Connection, space: Space) -> Iterator[Rows]:
    """Every row of a space, in batches, ascending by pk."""
    yield from connection.execute(space.all).partitions()


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
