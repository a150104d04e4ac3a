"""Adds that a server carries out later."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

SCOPE = ("user_id", "agent_id", "run_id")


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(64), primary_key=True),
        *(sa.Column(name, sa.Text) for name in SCOPE),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("progress", sa.String(32)),
        sa.Column("error", sa.Text),
        sa.Column("owner", sa.String(64)),
        sa.Column("lease", sa.DateTime(timezone=True)),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
    )
    for name in SCOPE:
        op.create_index(f"ix_jobs_{name}", "jobs", [name])
    op.create_index("ix_jobs_state", "jobs", ["state", "created_at"])


def downgrade() -> None:
    op.drop_table("jobs")
