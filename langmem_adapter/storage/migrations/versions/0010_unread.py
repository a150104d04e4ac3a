"""What was written and never read goes: the scope of a trace, which its state says too, and how many memories a scope has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_traces_scope", "traces")
    op.drop_column("traces", "scope_key")
    op.drop_column("scopes", "memory_count")


def downgrade() -> None:
    op.add_column("scopes", sa.Column("memory_count", sa.Integer, nullable=False, server_default="0"))
    op.add_column("traces", sa.Column("scope_key", sa.String(64), nullable=False, server_default=""))
    op.create_index("ix_traces_scope", "traces", ["scope_key"])
