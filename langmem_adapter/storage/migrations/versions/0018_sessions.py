"""Logins to the page."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("key_id", sa.String(16), sa.ForeignKey("api_keys.id", ondelete="CASCADE"), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_sessions_key_id", "sessions", ["key_id"])


def downgrade() -> None:
    op.drop_table("sessions")
