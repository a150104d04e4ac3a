"""The schema of the first release, which later revisions begin from: no database climbs to it, `runner` makes them whole."""

revision = "0100"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing."""
