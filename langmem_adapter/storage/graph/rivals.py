"""Memories that say another value of what can have one only: where somebody lives, for the news of a move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import desc, select

from langmem_adapter.storage.graph.claims import ends, normal, single
from langmem_adapter.storage.graph.tables import entity_names, relation_memories, relations
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.tables import memories

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.scope import Scope

__all__ = ["rivals"]

_MOST: Final = 50
_SAYING: Final = Prepared(
    select(memories.c.pk)
    .join_from(relations, entity_names, entity_names.c.entity_pk == relations.c.source_pk)
    .join(relation_memories, relation_memories.c.relation_id == relations.c.id)
    .join(memories, memories.c.id == relation_memories.c.memory_id)
    .where(
        any_of(entity_names.c.scope_id, "scopes"),
        any_of(entity_names.c.key, "sources"),
        any_of(relations.c.relation, "relations"),
        relations.c.retired_at.is_(None),
        relation_memories.c.dropped_at.is_(None),
        memories.c.memory_type.is_(None),
    )
    .order_by(desc(relations.c.pk), memories.c.pk)
    .limit(_MOST)
)


def rivals(connection: Connection, scope: Scope, scope_ids: Iterable[int], triples: Sequence[Triple]) -> list[int]:
    """Pks of the facts that say a relation of the same kind and the same source, the latest first.

    Args:
        connection: A read transaction.
        scope: Whose speakers they are.
        scope_ids: Where to look.
        triples: What new facts state; of those relations that can have several targets nothing is found.
    """
    lone = [normal(triple) for triple in triples if single(normal(triple))]
    if not lone:
        return []
    asked = {
        "scopes": list(scope_ids),
        "sources": [ends(triple, scope)[0].key for triple in lone],
        "relations": [triple.relation for triple in lone],
    }
    return list(dict.fromkeys(row.pk for row in _SAYING.rows(connection, asked)))
