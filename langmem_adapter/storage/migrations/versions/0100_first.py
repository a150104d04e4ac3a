"""The schema of the first release: the tables of the code. Whoever adds a revision writes them out here."""

from __future__ import annotations

from alembic import op

from langmem_adapter.storage.tables import metadata

revision = "0100"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make all tables."""
    metadata.create_all(op.get_bind())


def downgrade() -> None:
    """Take them away, and all that they hold."""
    metadata.drop_all(op.get_bind())
