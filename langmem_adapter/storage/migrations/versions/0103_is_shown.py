"""Note messages of a thread when they enter it, and whether a model was shown them."""

import sqlalchemy as sa
from alembic import op

revision = "0103"
down_revision = "0102"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the mark; so far only messages that were shown were noted."""
    op.add_column("sources", sa.Column("is_shown", sa.Boolean(), nullable=False, server_default=sa.true()))
