"""Scopes, changes, memories, history, words, runs, meta."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# A revision is a document: it repeats the types as they were, and does not import the tables of today.
json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "meta", sa.Column("key", sa.String(64), primary_key=True), sa.Column("value", sa.Text, nullable=False)
    )
    op.create_table(
        "scopes",
        sa.Column("id", number, primary_key=True, autoincrement=False),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("user_id", sa.Text, index=True),
        sa.Column("agent_id", sa.Text, index=True),
        sa.Column("run_id", sa.Text, index=True),
        sa.Column("memory_count", sa.Integer, nullable=False),
        sa.Column("word_count", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "changes",
        sa.Column("seq", number, primary_key=True, autoincrement=False),
        sa.Column("nonce", sa.LargeBinary(8), nullable=False),
        sa.Column("space", sa.String(16), nullable=False),
        sa.Column("row", number, nullable=False),
        sa.Column("op", sa.String(8), nullable=False),
    )
    op.create_table(
        "memories",
        sa.Column("pk", number, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("scope_id", number, sa.ForeignKey("scopes.id"), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("context", sa.Text, nullable=False),
        sa.Column("metadata", json, nullable=False),
        sa.Column("memory_type", sa.String(64)),
        sa.Column("actor_id", sa.Text),
        sa.Column("role", sa.Text),
        sa.Column("hash", sa.String(32), nullable=False),
        sa.Column("embedding", sa.LargeBinary, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("updated_at", moment, nullable=False),
        sa.Column("expires_at", moment),
        sa.Column("seq", number, sa.ForeignKey("changes.seq"), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    op.create_index("ix_memories_scope_seq", "memories", ["scope_id", "seq"])
    op.create_index("ix_memories_scope_hash", "memories", ["scope_id", "hash"])
    op.create_index("ix_memories_expires", "memories", ["expires_at"])
    op.create_table(
        "history",
        sa.Column("seq", number, sa.ForeignKey("changes.seq"), primary_key=True, autoincrement=False),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("memory_id", sa.String(64), nullable=False),
        sa.Column("old_memory", sa.Text),
        sa.Column("new_memory", sa.Text),
        sa.Column("event", sa.String(8), nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("updated_at", moment),
        sa.Column("is_deleted", sa.Integer, nullable=False),
        sa.Column("actor_id", sa.Text),
        sa.Column("role", sa.Text),
        sa.Column("scope_id", number, sa.ForeignKey("scopes.id"), nullable=False),
        sa.Column("recorded_at", moment, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("context", sa.Text, nullable=False),
        sa.Column("metadata", json, nullable=False),
        sa.Column("memory_type", sa.String(64)),
        sa.Column("expires_at", moment),
    )
    op.create_index("ix_history_memory", "history", ["memory_id", "seq"])
    op.create_index("ix_history_scope", "history", ["scope_id", "seq"])
    op.create_table(
        "words",
        sa.Column("scope_id", number, sa.ForeignKey("scopes.id"), primary_key=True),
        sa.Column("term", sa.String(64), primary_key=True),
        sa.Column("memory_pk", number, primary_key=True),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("length", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_words_memory", "words", ["memory_pk"])
    op.create_table(
        "runs",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("scope_id", number, sa.ForeignKey("scopes.id")),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("result", json, nullable=False),
    )
    op.create_index("ix_runs_scope", "runs", ["scope_id"])


def downgrade() -> None:
    for table in ("runs", "words", "history", "memories", "changes", "scopes", "meta"):
        op.drop_table(table)
