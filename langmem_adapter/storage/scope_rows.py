"""What a search asks of every memory of a scope, without its text and vector.

Each row is pk, scope_id, created_at, updated_at, actor_id, expires_at, memory_type, utc_offset. One index holds all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, select

from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import OWNER, of_row
from langmem_adapter.storage.tables import memories, scopes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope

__all__ = [
    "MOST",
    "of_memories",
    "of_scopes",
    "scopes_of",
    "word_count",
]

MOST: Final = 5_000
"""Changes up to which it pays to look at each; beyond, all is read anew."""


_COLUMNS: Final = "pk scope_id created_at updated_at actor_id expires_at memory_type utc_offset".split()
_ROW: Final = select(*(memories.c[name] for name in _COLUMNS))
_OF_SCOPES: Final = Prepared(_ROW.where(any_of(memories.c.scope_id, "scopes")))
_OF_MEMORIES: Final = Prepared(_ROW.where(any_of(memories.c.pk, "pks")))
_OF_THEM: Final = any_of(scopes.c.id, "ids")
_NAMES: Final = select(scopes.c.id, *OWNER).where(_OF_THEM)
_WORD_COUNT: Final = select(func.coalesce(func.sum(scopes.c.word_count), 0)).where(_OF_THEM)


def of_scopes(connection: Connection, scope_ids: Iterable[int]) -> list[Any]:
    """The rows of every memory of some scopes, in no order."""
    return _OF_SCOPES.rows(connection, {"scopes": list(scope_ids)})


def of_memories(connection: Connection, pks: Iterable[int]) -> list[Any]:
    """The rows of some memories; those that are gone are missing."""
    return _OF_MEMORIES.rows(connection, {"pks": list(pks)})


def scopes_of(connection: Connection, ids: Iterable[int]) -> dict[int, Scope]:
    """Scopes by their ids."""
    return {row.id: of_row(row) for row in connection.execute(_NAMES, {"ids": list(ids)})}


def word_count(connection: Connection, scope_ids: Iterable[int]) -> int:
    """How many words the memories of some scopes have together, weighted as they are stored."""
    return int(connection.execute(_WORD_COUNT, {"ids": list(scope_ids)}).scalar_one())
