"""The tables of the database, as SQLAlchemy Core.

`changes` is the change feed of every index, in commit order: a writer draws its `seq` under the write lock (`BEGIN IMMEDIATE`
on SQLite, an advisory lock on Postgres), so no reader sees 455 while 454 is uncommitted. Rows of `changes` are never removed,
so no number is used twice; a memory's `pk` and a scope's `id` are the `seq` of their first change.

An entity has one row of `entity_names` for each of its names, which are unique within a scope. The user and the agent of a
scope are entities under a key that no name has (`names.owner_key`). A relation has one `id` and a row for each belief, of which
only `retired_at` and the count of mentions ever change. `relation_memories` says which memories state it: a relation is removed
when the last one is.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB

from langmem_adapter.records.scope import SCOPE_FIELDS
from langmem_adapter.storage.timestamps import UTCDateTime

MEMORIES: Final = "memories"
"""Name of the space of memories in the change feed."""


Json: Final = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
Number: Final = BigInteger().with_variant(Integer, "sqlite")


def _scope() -> Column[Any]:
    return Column("scope_id", Number, ForeignKey("scopes.id"), nullable=False)


def _is_verbatim() -> Column[Any]:
    """Whether the text is kept in the user's words, see `MemoryItem.is_verbatim`."""
    return Column("is_verbatim", Boolean, nullable=False, server_default=false())


metadata: Final = MetaData()

meta: Final = Table(
    "meta", metadata, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False)
)

scopes: Final = Table(
    "scopes",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("key", String(64), nullable=False, unique=True),
    *(Column(name, Text, index=True) for name in SCOPE_FIELDS),
    Column("word_count", BigInteger, nullable=False),
    Column("compared", Number),  # last change of its memories by a write that had compared and could see them all
)

changes: Final = Table(
    "changes",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=False),
    Column("nonce", LargeBinary(8), nullable=False),
    Column("space", String(16), nullable=False),
    Column("row", Number, nullable=False),
    Column("op", String(8), nullable=False),
)

# How far the indexes that processes share have come in the change feed, and with vectors of which embedding model.
cursors: Final = Table(
    "cursors",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("applied", Number, nullable=False),
    Column("nonce", LargeBinary(8), nullable=False),
    Column("fingerprint", Text, nullable=False),
)

_ROLL: Final = "created_at updated_at actor_id expires_at memory_type utc_offset"
memories: Final = Table(
    "memories",
    metadata,
    Column("pk", Number, primary_key=True, autoincrement=False),
    Column("id", String(64), nullable=False, unique=True),
    _scope(),
    Column("text", Text, nullable=False),
    Column("context", Text, nullable=False),
    Column("metadata", Json, nullable=False),
    Column("memory_type", String(64)),
    Column("actor_id", Text),
    Column("role", Text),
    Column("hash", String(32), nullable=False),
    Column("embedding", LargeBinary, nullable=False),
    Column("created_at", UTCDateTime, nullable=False),
    Column("updated_at", UTCDateTime, nullable=False),
    Column("expires_at", UTCDateTime),
    Column("seq", Number, ForeignKey("changes.seq"), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("related", Integer),  # 1 where the text has been read for relations, whether it states some or not
    _is_verbatim(),
    Column("utc_offset", Integer),  # minutes, where the last statement was made; NULL before schema 0104
    # What a search asks of every memory of a scope, so that it need not read their texts and vectors from the disk.
    Index("ix_memories_roll", *f"scope_id seq pk {_ROLL}".split()),
    Index("ix_memories_scope_hash", "scope_id", "hash"),
    Index("ix_memories_expires", "expires_at"),
)

# The columns id … role are those of seed 001, so that its SQL runs on our file; updated_at is NULL in an ADD row, as there.
history: Final = Table(
    "history",
    metadata,
    Column("seq", Number, ForeignKey("changes.seq"), primary_key=True, autoincrement=False),
    Column("id", String(64), nullable=False, unique=True),
    Column("memory_id", String(64), nullable=False),
    Column("old_memory", Text),
    Column("new_memory", Text),
    Column("event", String(8), nullable=False),
    Column("created_at", UTCDateTime, nullable=False),
    Column("updated_at", UTCDateTime),
    Column("is_deleted", Integer, nullable=False),
    Column("actor_id", Text),
    Column("role", Text),
    _scope(),
    Column("recorded_at", UTCDateTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("context", Text, nullable=False),
    Column("metadata", Json, nullable=False),
    Column("memory_type", String(64)),
    Column("expires_at", UTCDateTime),
    Column("valid_from", UTCDateTime, nullable=False),
    Column("valid_to", UTCDateTime),  # where it was over when it was written
    Column("past_of", String(64)),  # the current memory, where the row is dated before it: see storage/memories.py
    _is_verbatim(),
    Column("utc_offset", Integer),  # minutes, where the last statement was made; NULL before schema 0104
    Index("ix_history_memory", "memory_id", "seq"),
    Index("ix_history_past", "past_of"),
    Index("ix_history_scope", "scope_id", "seq"),
)

# One row per memory and term. `length` repeats the memory's number of terms, which spares BM25 a join.
words: Final = Table(
    "words",
    metadata,
    Column("scope_id", Number, ForeignKey("scopes.id"), primary_key=True),
    Column("term", String(64), primary_key=True),
    Column("memory_pk", Number, primary_key=True),
    Column("count", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    Index("ix_words_memory", "memory_pk"),
    sqlite_with_rowid=False,
)

# The stages of an add: see storage/traces.py. Its id is that of its run. It has the scope's fields, since a scope without
# memories has no row. The columns of a list come before the state: SQLite reads a row only as far as needed.
traces: Final = Table(
    "traces",
    metadata,
    Column("id", String(64), primary_key=True),
    *(Column(name, Text) for name in SCOPE_FIELDS),
    Column("created_at", UTCDateTime, nullable=False),
    Column("summary", Json, nullable=False),
    Column("state", Json, nullable=False),
    Index("ix_traces_created", "created_at", "id"),
    *(Index(f"ix_traces_{name}", name, "created_at", "id") for name in SCOPE_FIELDS),
)

# The result of an add: a run that is repeated or resumed changes nothing twice. The key is the UUID of the run's name within
# its exact scope, so no caller can use a run of another one. Items and threads that a migration took have an empty result here.
runs: Final = Table(
    "runs",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("scope_id", Number, ForeignKey("scopes.id")),
    Column("created_at", UTCDateTime, nullable=False),
    Column("result", Json, nullable=False),
    Column("scope", Json),  # of the run, also where it added nothing and so has no scope_id
    Index("ix_runs_scope", "scope_id"),
)

# Vectors of another embedding model, made while the old ones are still in use: see maintenance/reindex.py. `seq` is that of
# the memory when its text was embedded; another one means that the vector is out of date.
reembedded: Final = Table(
    "reembedded",
    metadata,
    Column("pk", Number, primary_key=True, autoincrement=False),
    Column("seq", Number, nullable=False),
    Column("embedding", LargeBinary, nullable=False),
)

# Who may call the server: see storage/keys.py. A key names its scope itself, since it may be there before any memory is.
api_keys: Final = Table(
    "api_keys",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("name", Text, nullable=False),
    *(Column(name, Text, index=True) for name in SCOPE_FIELDS),
    Column("rights", String(32), nullable=False),
    Column("created_at", UTCDateTime, nullable=False),
    Column("revoked_at", UTCDateTime),
)

# Logins to the page: see storage/keys.py.
sessions: Final = Table(
    "sessions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("key_id", String(16), ForeignKey("api_keys.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("ends_at", UTCDateTime, nullable=False),
)


ENTITIES: Final = "entities"
RELATIONS: Final = "relations"
"""Names of the two spaces in the change feed."""
BY_HAND: Final = ""
"""The `memory_id` in `relation_memories` of a relation that was written by hand, without a memory."""

MOST_MENTIONS: Final = 2**31 - 1
"""The maximum of the column on Postgres: a larger count would fail every write of its scope."""


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

# The memories that state a relation. `dropped_at` is when one was deleted or no longer stated it; a restored one states it.
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

# ── parts of many queries ────────────────────────────────────────────────────────────────────────────────────────────

ENDS: Final = (relations.c.source_pk, relations.c.target_pk)
EDGE: Final = (relations.c.pk, *ENDS)
CURRENT: Final = relations.c.retired_at.is_(None)
SAYS: Final = relation_memories.c.dropped_at.is_(None)
"""The condition that a memory still states a relation."""
ENTITIES_OF: Final = select(entities, scopes.c.user_id, scopes.c.agent_id, scopes.c.run_id).join(
    scopes, entities.c.scope_id == scopes.c.id
)
"""Entities, each with its scope."""
