"""The knowledge graph: entities, their names, relations, who says so, merges."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
moment = sa.DateTime(timezone=True)
tables = ("merges", "relation_memories", "relations", "entity_names", "entities")


def scope() -> sa.Column:
    return sa.Column("scope_id", number, sa.ForeignKey("scopes.id"), nullable=False)


def entity(name: str) -> sa.Column:
    return sa.Column(name, number, sa.ForeignKey("entities.pk"), nullable=False)


def upgrade() -> None:
    op.create_table(
        "entities",
        sa.Column("pk", number, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        scope(),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("mentions", sa.Integer, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("updated_at", moment, nullable=False),
        sa.Column("merged_into", number),
    )
    op.create_index("ix_entities_scope", "entities", ["scope_id", "mentions"])
    op.create_table(
        "entity_names",
        sa.Column("scope_id", number, sa.ForeignKey("scopes.id"), primary_key=True),
        sa.Column("key", sa.String(256), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        entity("entity_pk"),
    )
    op.create_index("ix_entity_names_entity", "entity_names", ["entity_pk"])
    _relations()
    op.create_table(
        "merges",
        sa.Column("pk", number, primary_key=True, autoincrement=False),
        scope(),
        entity("winner_pk"),
        entity("loser_pk"),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("undone_at", moment),
        sa.Column("moved", sa.JSON().with_variant(JSONB(), "postgresql"), nullable=False),
    )
    for name in ("winner", "loser"):
        op.create_index(f"ix_merges_{name}", "merges", [f"{name}_pk"])
    op.create_index("ix_merges_scope", "merges", ["scope_id"])


def _relations() -> None:
    op.create_table(
        "relations",
        sa.Column("pk", number, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String(64), nullable=False),
        scope(),
        entity("source_pk"),
        sa.Column("relation", sa.String(128), nullable=False),
        entity("target_pk"),
        sa.Column("valid_from", moment),
        sa.Column("valid_to", moment),
        sa.Column("recorded_at", moment, nullable=False),
        sa.Column("retired_at", moment),
        sa.Column("mentions", sa.Integer, nullable=False),
        sa.Column("confidence", sa.Float, nullable=False),
    )
    op.create_index("ix_relations_id", "relations", ["id"])
    op.create_index("ix_relations_pair", "relations", ["source_pk", "target_pk", "retired_at"])
    op.create_index("ix_relations_source", "relations", ["source_pk", "relation", "retired_at"])
    op.create_index("ix_relations_target", "relations", ["target_pk", "relation", "retired_at"])
    op.create_index("ix_relations_scope", "relations", ["scope_id", "retired_at", "pk"])
    op.create_table(
        "relation_memories",
        sa.Column("relation_id", sa.String(64), primary_key=True),
        sa.Column("memory_id", sa.String(64), primary_key=True),
        scope(),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("dropped_at", moment),
    )
    op.create_index("ix_relation_memories_memory", "relation_memories", ["memory_id"])
    op.create_index("ix_relation_memories_scope", "relation_memories", ["scope_id"])


def downgrade() -> None:
    for table in tables:
        op.drop_table(table)
