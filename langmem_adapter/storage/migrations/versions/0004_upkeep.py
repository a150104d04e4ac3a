"""Upkeep: whose run it was, and the vectors of a change of embedding model under way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("runs", sa.Column("scope", json))
    op.create_table(
        "reembedded",
        sa.Column("pk", number, primary_key=True, autoincrement=False),
        sa.Column("seq", number, nullable=False),
        sa.Column("embedding", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("reembedded")
    op.drop_column("runs", "scope")
