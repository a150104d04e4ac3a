"""Erasing from the knowledge graph: what the memories of some scopes said beyond them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, exists, select, update

from langmem_adapter.storage.graph.tables import RELATIONS, relation_memories, relations
from langmem_adapter.storage.prepared_statements import any_of
from langmem_adapter.storage.tables import history

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection, Select

__all__ = ["unsay"]

_link: Final = relation_memories.c
_of_it: Final = exists().where(_link.relation_id == relations.c.id)


def unsay(connection: Connection, ids: Select[Any], tell: Callable[[Connection, str, Sequence[int]], None]) -> None:
    """Take back what the memories of some scopes say in others, while their history still says which memories are theirs.

    A relation of another scope that one of these memories said as well is that scope's own, names and all, and stays; it
    is believed no longer where no other memory says it. *tell* takes a space of the change feed and the rows that go from it.
    """
    theirs = select(history.c.memory_id).where(history.c.scope_id.in_(ids))
    elsewhere = _link.memory_id.in_(theirs), _link.scope_id.not_in(ids)
    said = connection.execute(select(_link.relation_id).where(*elsewhere).distinct()).scalars().all()
    connection.execute(delete(relation_memories).where(*elsewhere))
    named = any_of(relations.c.id, said)
    # One without any memory was written by hand, and stands.
    silent = relations.c.retired_at.is_(None), _of_it, ~_of_it.where(_link.dropped_at.is_(None))
    connection.execute(update(relations).where(named, *silent).values(retired_at=datetime.now(UTC)))
    tell(connection, RELATIONS, connection.execute(select(relations.c.pk).where(named)).scalars().all())
