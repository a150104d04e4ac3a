"""Erasing from the knowledge graph: a scope's relations and entities, and what its memories said beyond it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, exists, func, select, update

from langmem_adapter.storage.graph.tables import (
    RELATIONS,
    entities,
    entity_names,
    merges,
    relation_memories,
    relations,
)
from langmem_adapter.storage.tables import history

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Select

__all__ = ["HOLDING", "erase"]

HOLDING: Final = (relation_memories, merges, relations, entity_names, entities)
"""The tables, each before those that it points to."""
_CHUNK: Final = 500

_link: Final = relation_memories.c
_of_it: Final = exists().where(_link.relation_id == relations.c.id)


def erase(
    connection: Connection, ids: Select[tuple[int]], tell: Callable[[str, Sequence[int]], None]
) -> tuple[int, int]:
    """Remove the relations and entities of some scopes, while their history still says which memories are theirs.

    A relation of another scope that one of these memories said as well is that scope's own, names and all, and stays; it
    is believed no longer where no other memory says it.

    Args:
        connection: A write transaction.
        ids: Numbers of the scopes.
        tell: Takes a space of the change feed and the rows that go from it.

    Returns:
        How many relations and entities there were.
    """
    _unsay(connection, ids, tell)
    count = select(func.count(relations.c.id.distinct())).where(relations.c.scope_id.in_(ids))
    related = int(connection.execute(count).scalar_one())
    gone = [connection.execute(delete(table).where(table.c.scope_id.in_(ids))).rowcount for table in HOLDING]
    return related, gone[HOLDING.index(entities)]


def _unsay(connection: Connection, ids: Select[tuple[int]], tell: Callable[[str, Sequence[int]], None]) -> None:
    theirs = select(history.c.memory_id).where(history.c.scope_id.in_(ids))
    elsewhere = _link.memory_id.in_(theirs), _link.scope_id.not_in(ids)
    said = connection.execute(select(_link.relation_id).where(*elsewhere).distinct()).scalars().all()
    connection.execute(delete(relation_memories).where(*elsewhere))
    for start in range(0, len(said), _CHUNK):
        named = relations.c.id.in_(said[start : start + _CHUNK])
        # One without any memory was written by hand, and stands.
        silent = relations.c.retired_at.is_(None), _of_it, ~_of_it.where(_link.dropped_at.is_(None))
        connection.execute(update(relations).where(named, *silent).values(retired_at=datetime.now(UTC)))
        tell(
            RELATIONS, connection.execute(select(relations.c.pk).where(named).order_by(relations.c.pk)).scalars().all()
        )
