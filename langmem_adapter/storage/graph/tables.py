"""The tables of the knowledge graph.

An entity is known by its names: one row of `entity_names` for each, none of them twice in a scope. The user and the agent of a
scope are entities under a key that no name has (`names.owner_key`), so a namesake is somebody else. A relation keeps its `id`
through all its beliefs; each belief is a row of its own, of which `retired_at` alone is ever changed (and the count of
mentions). `relation_memories` says which memories state it: a relation stands as long as one of them does.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, String, Table, Text, select

from langmem_adapter.storage.moments import UTCDateTime
from langmem_adapter.storage.tables import Json, Number, metadata, scopes

__all__ = ["BELIEVED", "BY_HAND", "EDGE", "ENDS", "ENTITIES", "ENTITIES_OF", "MOST_MENTIONS", "RELATIONS", "SAYS"]
__all__ += ["entities", "entity_names", "merges", "relation_memories", "relations"]

ENTITIES: Final = "entities"
RELATIONS: Final = "relations"
"""Names of the two spaces in the change feed."""
BY_HAND: Final = ""
"""Stands in `relation_memories` for whoever writes relations by hand: they stand although no memory says them."""

MOST_MENTIONS: Final = 2**31 - 1
"""Counted no further: Postgres keeps no more in the column, and one that overflows fails every write of its scope."""


def _scope() -> Column[int]:
    return Column("scope_id", Number, ForeignKey("scopes.id"), nullable=False)


entities: Final = Table(
    "entities",
    metadata,
    Column("pk", Number, primary_key=True, autoincrement=False),
    Column("id", String(64), nullable=False, unique=True),
    _scope(),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("mentions", Integer, nullable=False),
    Column("created_at", UTCDateTime, nullable=False),
    Column("updated_at", UTCDateTime, nullable=False),
    Column("merged_into", Number),
    Column("owner", String(16)),  # SELF or ASSISTANT, where it is the scope's own
    Index("ix_entities_scope", "scope_id", "mentions"),
)

entity_names: Final = Table(
    "entity_names",
    metadata,
    Column("scope_id", Number, ForeignKey("scopes.id"), primary_key=True),
    Column("key", String(256), primary_key=True),
    Column("name", Text, nullable=False),
    Column("entity_pk", Number, ForeignKey("entities.pk"), nullable=False),
    Index("ix_entity_names_entity", "entity_pk"),
)

relations: Final = Table(
    "relations",
    metadata,
    Column("pk", Number, primary_key=True, autoincrement=False),
    Column("id", String(64), nullable=False),
    _scope(),
    Column("source_pk", Number, ForeignKey("entities.pk"), nullable=False),
    Column("relation", String(128), nullable=False),
    Column("target_pk", Number, ForeignKey("entities.pk"), nullable=False),
    Column("valid_from", UTCDateTime),
    Column("valid_to", UTCDateTime),
    Column("recorded_at", UTCDateTime, nullable=False),
    Column("retired_at", UTCDateTime),
    Column("mentions", Integer, nullable=False),
    Column("confidence", Float, nullable=False),
    Index("ix_relations_id", "id"),
    Index("ix_relations_pair", "source_pk", "target_pk", "retired_at"),
    Index("ix_relations_source", "source_pk", "relation", "retired_at"),
    Index("ix_relations_target", "target_pk", "relation", "retired_at"),
    Index("ix_relations_scope", "scope_id", "retired_at", "pk"),
)

# Which memories say so. `dropped_at` is when one of them was deleted or no longer did; a restored one says it again.
relation_memories: Final = Table(
    "relation_memories",
    metadata,
    Column("relation_id", String(64), primary_key=True),
    Column("memory_id", String(64), primary_key=True),
    _scope(),
    Column("created_at", UTCDateTime, nullable=False),
    Column("dropped_at", UTCDateTime),
    Index("ix_relation_memories_memory", "memory_id"),
    Index("ix_relation_memories_scope", "scope_id"),
)

# What a merge of two entities did, so that it can be undone: the rows of relations that it retired and those it wrote.
merges: Final = Table(
    "merges",
    metadata,
    Column("pk", Number, primary_key=True, autoincrement=False),
    _scope(),
    Column("winner_pk", Number, ForeignKey("entities.pk"), nullable=False),
    Column("loser_pk", Number, ForeignKey("entities.pk"), nullable=False),
    Column("created_at", UTCDateTime, nullable=False),
    Column("undone_at", UTCDateTime),
    Column("moved", Json, nullable=False),
    Index("ix_merges_winner", "winner_pk"),
    Index("ix_merges_loser", "loser_pk"),
    Index("ix_merges_scope", "scope_id"),
)

# ── what many statements say ────────────────────────────────────────────────────────────────────────────────────────────

ENDS: Final = (relations.c.source_pk, relations.c.target_pk)
EDGE: Final = (relations.c.pk, *ENDS)
BELIEVED: Final = relations.c.retired_at.is_(None)
SAYS: Final = relation_memories.c.dropped_at.is_(None)
"""The condition that a memory still says a relation."""
ENTITIES_OF: Final = select(entities, scopes.c.user_id, scopes.c.agent_id, scopes.c.run_id).join(
    scopes, entities.c.scope_id == scopes.c.id
)
"""Entities, each with the scope that it is of."""
