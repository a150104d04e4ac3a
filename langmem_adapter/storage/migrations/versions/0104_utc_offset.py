"""Keep the UTC offset of who spoke beside the times of memories."""

import sqlalchemy as sa
from alembic import op

revision = "0104"
down_revision = "0103"
branch_labels = None
depends_on = None

_ROLL = "scope_id seq pk created_at updated_at actor_id expires_at memory_type utc_offset".split()


def upgrade() -> None:
    """Add the offset to memories, to their history and to the index of what a search reads; it is unknown for older ones."""
    for table in ("memories", "history"):
        op.add_column(table, sa.Column("utc_offset", sa.Integer()))
    op.drop_index("ix_memories_roll", "memories")
    op.create_index("ix_memories_roll", "memories", _ROLL)
