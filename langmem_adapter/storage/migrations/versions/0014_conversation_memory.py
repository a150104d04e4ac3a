"""To find turns by more than their position, and to keep beside them what was made of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
FOUND_BY = ("message_id", "label", "cause", "sender")


def upgrade() -> None:
    for name in FOUND_BY:
        op.add_column("turns", sa.Column(name, sa.Text))
    op.add_column("turns", sa.Column("fingerprint", sa.String(32)))
    op.add_column("turns", sa.Column("memory_id", sa.String(64)))
    op.create_index("ix_turns_fingerprint", "turns", ["conversation_id", "fingerprint", "message_id"])
    op.create_index("ix_turns_cause", "turns", ["conversation_id", "cause"])
    op.create_table(
        "notes",
        sa.Column("id", number, primary_key=True),
        sa.Column("conversation_id", number, sa.ForeignKey("conversations.id"), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("covers_from", number, nullable=False),
        sa.Column("covers_to", number, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("source", sa.String(64), nullable=False),
        sa.Column("made_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_notes_kind", "notes", ["conversation_id", "kind", "id"])


def downgrade() -> None:
    op.drop_table("notes")
    for name in ("ix_turns_fingerprint", "ix_turns_cause"):
        op.drop_index(name, "turns")
    for name in (*FOUND_BY, "fingerprint", "memory_id"):
        op.drop_column("turns", name)
