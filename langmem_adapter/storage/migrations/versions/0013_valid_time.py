"""Since when, and until when, was true what a revision says; and whose past it belongs to.

What was written so far counts from the date of its statement, and no revision from before the one that it followed.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

moment = sa.DateTime(timezone=True)
VALID = """
UPDATE history SET valid_from = (
    SELECT max(coalesce(earlier.updated_at, earlier.created_at)) FROM history AS earlier
    WHERE earlier.memory_id = history.memory_id AND earlier.seq <= history.seq)
"""
DATED = """
UPDATE memories SET updated_at = coalesce(
    (SELECT max(valid_from) FROM history WHERE history.memory_id = memories.id), updated_at)
"""


def upgrade() -> None:
    # SQLite adds no column that must have a value without one for the rows that stand.
    op.add_column(
        "history", sa.Column("valid_from", moment, nullable=False, server_default="1970-01-01 00:00:00.000000")
    )
    op.add_column("history", sa.Column("valid_to", moment))
    op.add_column("history", sa.Column("past_of", sa.String(64)))
    op.create_index("ix_history_past", "history", ["past_of"])
    op.execute(VALID)
    op.execute(DATED)
    if op.get_context().dialect.name == "postgresql":
        op.alter_column("history", "valid_from", server_default=None)


def downgrade() -> None:
    op.drop_index("ix_history_past", "history")
    for name in ("past_of", "valid_to", "valid_from"):
        op.drop_column("history", name)
