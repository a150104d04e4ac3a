"""What the graph knows of what is being said: names for a model to use again, and memories of another value.

Such a memory says where somebody lives, for the news of a move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import desc, func, select

from langmem_adapter.names import keys_in
from langmem_adapter.storage.graph.claims import ends, normal, single
from langmem_adapter.storage.graph.tables import BELIEVED, SAYS, entities, entity_names, relation_memories, relations
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import expand
from langmem_adapter.storage.tables import memories

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.scope import Scope

__all__ = ["known_names", "rivals"]

_MOST: Final = 30  # that are named, or relations in use
_BESIDE: Final = 10  # that are not named; all together some two hundred tokens
_MOST_RIVALS: Final = 50
_RECENT: Final = 2_000  # relations whose names are counted, however many there are
# Reasoners have words of their own for the user and the agent.
_NODE: Final = select(entities.c.name, entities.c.type).where(entities.c.owner.is_(None))
_NAMED: Final = Prepared(
    _NODE.join(entity_names, entity_names.c.entity_pk == entities.c.pk)
    .where(any_of(entity_names.c.scope_id, "scopes"), any_of(entity_names.c.key, "keys"))
    .order_by(desc(entities.c.mentions), entities.c.pk)
    .limit(_MOST)
)
_OFTEN: Final = Prepared(
    _NODE.where(any_of(entities.c.scope_id, "scopes"), entities.c.merged_into.is_(None))
    .order_by(desc(entities.c.mentions), entities.c.pk)
    .limit(_BESIDE)
)
_recent: Final = (
    select(relations.c.relation)
    .where(any_of(relations.c.scope_id, "scopes"), BELIEVED)
    .order_by(desc(relations.c.pk))
    .limit(_RECENT)
    .subquery()
)
_IN_USE: Final = Prepared(
    select(_recent.c.relation)
    .group_by(_recent.c.relation)
    .order_by(func.count().desc(), _recent.c.relation)
    .limit(_MOST)
)
_SAYING: Final = Prepared(
    select(memories.c.pk)
    .join_from(relations, entity_names, entity_names.c.entity_pk == relations.c.source_pk)
    .join(relation_memories, relation_memories.c.relation_id == relations.c.id)
    .join(memories, memories.c.id == relation_memories.c.memory_id)
    .where(
        any_of(entity_names.c.scope_id, "scopes"),
        any_of(entity_names.c.key, "sources"),
        any_of(relations.c.relation, "relations"),
        BELIEVED,
        SAYS,
        memories.c.memory_type.is_(None),
    )
    .order_by(desc(relations.c.pk), memories.c.pk)
    .limit(_MOST_RIVALS)
)


def known_names(
    connection: Connection, scope: Scope, texts: Iterable[str]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """At most 40 names of entities with their types, and 30 of relations, that a conversation may be about.

    Entities that are named in the texts come first, then those that are stated most.
    """
    scope_ids = list(expand(connection, scope))
    keys = {key for text in texts for key in keys_in(text)}
    named = _NAMED.rows(connection, {"scopes": scope_ids, "keys": list(keys)})
    often = _OFTEN.rows(connection, {"scopes": scope_ids})
    nodes = dict.fromkeys((row.name, row.type) for row in (*named, *often))
    return tuple(nodes), tuple(row.relation for row in _IN_USE.rows(connection, {"scopes": scope_ids}))


def rivals(connection: Connection, scope: Scope, scope_ids: Iterable[int], triples: Sequence[Triple]) -> list[int]:
    """Pks of the facts that say a relation of the same kind and the same source as new triples, the latest first.

    Of relations that can have several targets nothing is found. The speakers are those of *scope*.
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
