"""Mark memories that are kept in the user's words."""

import sqlalchemy as sa
from alembic import op

revision = "0101"
down_revision = "0100"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the mark to memories and to their history; no memory of before has it."""
    for table in ("memories", "history"):
        op.add_column(table, sa.Column("is_verbatim", sa.Boolean(), nullable=False, server_default=sa.false()))
