"""Which messages of a thread were remembered, and which memories came of each."""

import sqlalchemy as sa
from alembic import op

from langmem_adapter.storage.moments import UTCDateTime

revision = "0101"
down_revision = "0100"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the two tables."""
    op.create_table(
        "sources",
        sa.Column("thread", sa.String(64), primary_key=True),
        sa.Column("message_id", sa.Text, primary_key=True),
        sa.Column("thread_id", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text) for name in ("user_id", "agent_id", "run_id")),
        sa.Column("given", sa.String(32), nullable=False),
        sa.Column("digest", sa.String(32)),
        sa.Column("created_at", UTCDateTime, nullable=False),
    )
    op.create_index("ix_sources_thread_id", "sources", ["thread_id"])
    op.create_table(
        "source_memories",
        sa.Column("thread", sa.String(64), primary_key=True),
        sa.Column("message_id", sa.Text, primary_key=True),
        sa.Column("memory_id", sa.String(64), primary_key=True),
        sa.Column("seq", _NUMBER, nullable=False),
        sa.ForeignKeyConstraint(["thread", "message_id"], ["sources.thread", "sources.message_id"], ondelete="CASCADE"),
    )
    op.create_index("ix_source_memories_memory", "source_memories", ["memory_id"])
