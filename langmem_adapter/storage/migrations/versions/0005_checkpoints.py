"""LangGraph checkpoints: the checkpoints of threads, the values of their channels, the writes of their tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TEXT

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ordered = sa.Text().with_variant(TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "thread_checkpoints",
        sa.Column("thread_id", ordered, primary_key=True),
        sa.Column("ns", ordered, primary_key=True),
        sa.Column("id", ordered, primary_key=True),
        sa.Column("parent_id", ordered),
        sa.Column("run_id", sa.Text),
        sa.Column("versions", sa.Text, nullable=False),
        sa.Column("state_kind", sa.Text),
        sa.Column("state", sa.LargeBinary),
        sa.Column("metadata_kind", sa.Text),
        sa.Column("metadata", sa.LargeBinary),
    )
    op.create_index("ix_thread_checkpoints_id", "thread_checkpoints", ["id"])
    op.create_index("ix_thread_checkpoints_run", "thread_checkpoints", ["run_id"])
    op.create_table(
        "thread_values",
        sa.Column("thread_id", ordered, primary_key=True),
        sa.Column("ns", ordered, primary_key=True),
        sa.Column("slot", ordered, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "thread_writes",
        sa.Column("thread_id", ordered, primary_key=True),
        sa.Column("ns", ordered, primary_key=True),
        sa.Column("checkpoint_id", ordered, primary_key=True),
        sa.Column("task_id", ordered, primary_key=True),
        sa.Column("idx", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("task_path", ordered, nullable=False),
        sa.Column("channel", ordered, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("thread_writes")
    op.drop_table("thread_values")
    op.drop_table("thread_checkpoints")
