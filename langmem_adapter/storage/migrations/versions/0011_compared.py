"""Which scopes were written to by comparison, and when: two adds that have not seen each other are compared."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("scopes", sa.Column("compared", sa.BigInteger().with_variant(sa.Integer, "sqlite")))


def downgrade() -> None:
    op.drop_column("scopes", "compared")
