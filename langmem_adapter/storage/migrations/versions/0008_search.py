"""What search keeps beside a memory: all that it asks of every memory of a scope stands in one index."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

ROLL = ["scope_id", "seq", "pk", "created_at", "updated_at", "actor_id", "expires_at", "memory_type"]


def upgrade() -> None:
    op.drop_index("ix_memories_scope_seq", "memories")
    op.create_index("ix_memories_roll", "memories", ROLL)


def downgrade() -> None:
    op.drop_index("ix_memories_roll", "memories")
    op.create_index("ix_memories_scope_seq", "memories", ["scope_id", "seq"])
