"""LangGraph store items."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "namespaces",
        sa.Column("id", number, primary_key=True, autoincrement=False),
        sa.Column("path", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False, unique=True),
    )
    op.create_table(
        "items",
        sa.Column("pk", number, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String(20), nullable=False, unique=True),
        sa.Column("namespace_id", number, sa.ForeignKey("namespaces.id"), nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("fields", sa.Text),
        sa.Column("vectors", sa.Integer, nullable=False),
        sa.Column("created_at", number, nullable=False),
        sa.Column("updated_at", number, nullable=False),
        sa.Column("ttl", number),
        sa.Column("expires_at", number),
        sa.Column("seq", number, sa.ForeignKey("changes.seq"), nullable=False),
    )
    op.create_index("ix_items_newest", "items", ["namespace_id", "seq"])
    expires = sa.text("expires_at IS NOT NULL")
    op.create_index("ix_items_expires", "items", ["expires_at"], sqlite_where=expires, postgresql_where=expires)
    op.create_table(
        "item_vectors",
        sa.Column("pk", number, primary_key=True, autoincrement=False),
        sa.Column("namespace_id", number, nullable=False),
        sa.Column("embedding", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    for table in ("item_vectors", "items", "namespaces"):
        op.drop_table(table)
