"""Names that the knowledge graph knows already, for a model to use again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import desc, func, select

from langmem_adapter.names import keys_in
from langmem_adapter.storage.graph.tables import entities, entity_names, relations
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import expand

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope

__all__ = ["known_names"]

_MOST: Final = 30  # that are named, or relations in use
_BESIDE: Final = 10  # that are not named; all together some two hundred tokens
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
    .where(any_of(relations.c.scope_id, "scopes"), relations.c.retired_at.is_(None))
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


def known_names(
    connection: Connection, scope: Scope, texts: Iterable[str]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Names of entities with their types, and of relations, that a conversation may be about.

    Args:
        connection: A read transaction.
        scope: Whose graph.
        texts: What is said. Entities named in it come first, then those that are stated most.

    Returns:
        At most 40 of the first, 30 of the second.
    """
    scope_ids = list(expand(connection, scope))
    keys = {key for text in texts for key in keys_in(text)}
    named = _NAMED.rows(connection, {"scopes": scope_ids, "keys": list(keys)})
    often = _OFTEN.rows(connection, {"scopes": scope_ids})
    nodes = dict.fromkeys((row.name, row.type) for row in (*named, *often))
    return tuple(nodes), tuple(row.relation for row in _IN_USE.rows(connection, {"scopes": scope_ids}))
