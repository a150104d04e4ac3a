"""Which memories have been read for relations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("memories", sa.Column("related", sa.Integer))


def downgrade() -> None:
    op.drop_column("memories", "related")
