"""Cursors: how far the indexes that processes share have come in the change feed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "cursors",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("applied", number, nullable=False),
        sa.Column("nonce", sa.LargeBinary(8), nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("cursors")
