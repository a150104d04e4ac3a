"""Traces: what each add saw and did."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "traces",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("scope_key", sa.String(64), nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("state", json, nullable=False),
    )
    op.create_index("ix_traces_created", "traces", ["created_at"])
    op.create_index("ix_traces_scope", "traces", ["scope_key"])


def downgrade() -> None:
    op.drop_table("traces")
