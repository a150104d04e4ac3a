"""The first schema that was kept: `runner` makes it, like that of today, from the tables. Nothing climbs to it."""

from __future__ import annotations

revision = "0012"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody is below it."""
