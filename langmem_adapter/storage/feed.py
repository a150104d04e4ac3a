"""The change feed: what is written into it, and the rows of a space that its changes name.

One feed tells of every space: memories, items of a LangGraph store, entities and relations of the knowledge graph. Who reads it
on and on is a follower (`storage.follow`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import Column, Select, bindparam, func, insert, select

from langmem_adapter.forks import cached_property
from langmem_adapter.storage.prepared_statements import Prepared
from langmem_adapter.storage.tables import MEMORIES, changes, memories

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Row

__all__ = [
    "INSERT_CHANGE",
    "LAST_SEQ",
    "TEXTS",
    "VECTORS",
    "Rows",
    "Space",
    "all_rows",
    "birth",
    "last_seq",
]

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
