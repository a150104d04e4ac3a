"""Conversations and their turns."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
moment = sa.DateTime(timezone=True)
owners = ("user_id", "agent_id", "run_id")


def upgrade() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", number, primary_key=True),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("session", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text) for name in owners),
        sa.Column("last", number, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("updated_at", moment, nullable=False),
        sqlite_autoincrement=True,
    )
    for name in owners:
        op.create_index(f"ix_conversations_{name}", "conversations", [name])
    op.create_table(
        "turns",
        sa.Column("conversation_id", number, sa.ForeignKey("conversations.id"), primary_key=True),
        sa.Column("position", number, primary_key=True, autoincrement=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("created_at", moment, nullable=False),
    )


def downgrade() -> None:
    for table in ("turns", "conversations"):
        op.drop_table(table)
