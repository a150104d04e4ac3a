"""Keys with which programs call the server."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

SCOPE = ("user_id", "agent_id", "run_id")


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text) for name in SCOPE),
        sa.Column("rights", sa.String(32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
    )
    for name in SCOPE:
        op.create_index(f"ix_api_keys_{name}", "api_keys", [name])


def downgrade() -> None:
    op.drop_table("api_keys")
