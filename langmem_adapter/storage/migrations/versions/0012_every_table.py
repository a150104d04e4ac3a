"""Every table, as the first program that kept its databases made them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, TEXT

revision = "0012"
down_revision = None
branch_labels = None
depends_on = None

# A revision is a document: it repeats the tables as they were, and does not import those of today.
json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
moment = sa.DateTime(timezone=True)
ordered = sa.Text().with_variant(TEXT(collation="C"), "postgresql")
short, blob = sa.String(64), sa.LargeBinary
expires = sa.text("expires_at IS NOT NULL")
tables = sa.MetaData()


def key(names: str, kind: sa.types.TypeEngine = number) -> list[sa.Column]:
    return [sa.Column(name, kind, primary_key=True, autoincrement=False) for name in names.split()]


def must(kind: sa.types.TypeEngine, names: str, *to: sa.ForeignKey, **given: bool) -> list[sa.Column]:
    return [sa.Column(name, kind, *to, nullable=False, **given) for name in names.split()]


def may(kind: sa.types.TypeEngine, names: str, *to: sa.ForeignKey, **given: bool) -> list[sa.Column]:
    return [sa.Column(name, kind, *to, **given) for name in names.split()]


def to(column: str) -> sa.ForeignKey:
    return sa.ForeignKey(column)


def index(name: str, columns: str, where: sa.TextClause | None = None) -> sa.Index:
    return sa.Index(f"ix_{name}", *columns.split(), sqlite_where=where, postgresql_where=where)


sa.Table(
    "changes",
    tables,
    *key("seq"),
    *must(blob(8), "nonce"),
    *must(sa.String(16), "space"),
    *must(number, "row"),
    *must(sa.String(8), "op"),
)
sa.Table(
    "conversations",
    tables,
    sa.Column("id", number, primary_key=True),
    *must(short, "key", unique=True),
    *must(sa.Text, "session"),
    *may(sa.Text, "user_id agent_id run_id", index=True),
    *must(number, "last"),
    *must(moment, "created_at updated_at"),
    sqlite_autoincrement=True,
)
sa.Table(
    "cursors",
    tables,
    *key("name", sa.String(255)),
    *must(number, "applied"),
    *must(blob(8), "nonce"),
    *must(sa.Text, "fingerprint"),
)
sa.Table(
    "item_vectors",
    tables,
    *key("pk"),
    *must(number, "namespace_id"),
    *must(blob, "embedding"),
)
sa.Table(
    "meta",
    tables,
    *key("key", short),
    *must(sa.Text, "value"),
)
sa.Table(
    "namespaces",
    tables,
    *key("id"),
    *must(ordered, "path", unique=True),
)
sa.Table(
    "reembedded",
    tables,
    *key("pk"),
    *must(number, "seq"),
    *must(blob, "embedding"),
)
sa.Table(
    "scopes",
    tables,
    *key("id"),
    *must(short, "key", unique=True),
    *may(sa.Text, "user_id agent_id run_id", index=True),
    *must(sa.BigInteger, "word_count"),
    *may(number, "compared"),
)
sa.Table(
    "thread_checkpoints",
    tables,
    *key("thread_id ns id", ordered),
    *may(ordered, "parent_id"),
    *may(sa.Text, "run_id"),
    *must(sa.Text, "versions"),
    *may(sa.Text, "state_kind"),
    *may(blob, "state"),
    *may(sa.Text, "metadata_kind"),
    *may(blob, "metadata"),
    index("thread_checkpoints_id", "id"),
    index("thread_checkpoints_run", "run_id"),
)
sa.Table(
    "thread_values",
    tables,
    *key("thread_id ns slot", ordered),
    *must(sa.Text, "kind"),
    *must(blob, "body"),
)
sa.Table(
    "thread_writes",
    tables,
    *key("thread_id ns checkpoint_id task_id", ordered),
    *key("idx", sa.Integer),
    *must(ordered, "task_path channel"),
    *must(sa.Text, "kind"),
    *must(blob, "body"),
)
sa.Table(
    "traces",
    tables,
    *key("id", short),
    *must(moment, "created_at"),
    *must(json, "state"),
    index("traces_created", "created_at"),
)
sa.Table(
    "entities",
    tables,
    *key("pk"),
    *must(short, "id", unique=True),
    *must(number, "scope_id", to("scopes.id")),
    *must(sa.Text, "name type"),
    *must(sa.Integer, "mentions"),
    *must(moment, "created_at updated_at"),
    *may(number, "merged_into"),
    *may(sa.String(16), "owner"),
    index("entities_scope", "scope_id mentions"),
)
sa.Table(
    "history",
    tables,
    sa.Column("seq", number, to("changes.seq"), primary_key=True, autoincrement=False),
    *must(short, "id", unique=True),
    *must(short, "memory_id"),
    *may(sa.Text, "old_memory new_memory"),
    *must(sa.String(8), "event"),
    *must(moment, "created_at"),
    *may(moment, "updated_at"),
    *must(sa.Integer, "is_deleted"),
    *may(sa.Text, "actor_id role"),
    *must(number, "scope_id", to("scopes.id")),
    *must(moment, "recorded_at"),
    *must(sa.Text, "reason"),
    *must(sa.Integer, "revision"),
    *must(sa.Text, "context"),
    *must(json, "metadata"),
    *may(short, "memory_type"),
    *may(moment, "expires_at"),
    index("history_memory", "memory_id seq"),
    index("history_scope", "scope_id seq"),
)
sa.Table(
    "items",
    tables,
    *key("pk"),
    *must(sa.String(20), "id", unique=True),
    *must(number, "namespace_id", to("namespaces.id")),
    *must(sa.Text, "key value"),
    *may(sa.Text, "fields"),
    *must(sa.Integer, "vectors"),
    *must(number, "created_at updated_at"),
    *may(number, "ttl expires_at"),
    *must(number, "seq", to("changes.seq")),
    index("items_expires", "expires_at", expires),
    index("items_newest", "namespace_id seq"),
)
sa.Table(
    "memories",
    tables,
    *key("pk"),
    *must(short, "id", unique=True),
    *must(number, "scope_id", to("scopes.id")),
    *must(sa.Text, "text context"),
    *must(json, "metadata"),
    *may(short, "memory_type"),
    *may(sa.Text, "actor_id role"),
    *must(sa.String(32), "hash"),
    *must(blob, "embedding"),
    *must(moment, "created_at updated_at"),
    *may(moment, "expires_at"),
    *must(number, "seq", to("changes.seq")),
    *must(sa.Integer, "revision"),
    index("memories_expires", "expires_at"),
    index("memories_roll", "scope_id seq pk created_at updated_at actor_id expires_at memory_type"),
    index("memories_scope_hash", "scope_id hash"),
)
sa.Table(
    "relation_memories",
    tables,
    *key("relation_id memory_id", short),
    *must(number, "scope_id", to("scopes.id")),
    *must(moment, "created_at"),
    *may(moment, "dropped_at"),
    index("relation_memories_memory", "memory_id"),
    index("relation_memories_scope", "scope_id"),
)
sa.Table(
    "runs",
    tables,
    *key("key", short),
    *may(number, "scope_id", to("scopes.id")),
    *must(moment, "created_at"),
    *must(json, "result"),
    *may(json, "scope"),
    index("runs_scope", "scope_id"),
)
sa.Table(
    "turns",
    tables,
    sa.Column("conversation_id", number, to("conversations.id"), primary_key=True, autoincrement=False),
    *key("position"),
    *must(sa.Text, "role text message"),
    *must(moment, "created_at"),
)
sa.Table(
    "words",
    tables,
    sa.Column("scope_id", number, to("scopes.id"), primary_key=True, autoincrement=False),
    *key("term", short),
    *key("memory_pk"),
    *must(sa.Integer, "count length"),
    index("words_memory", "memory_pk"),
    sqlite_with_rowid=False,
)
sa.Table(
    "entity_names",
    tables,
    sa.Column("scope_id", number, to("scopes.id"), primary_key=True, autoincrement=False),
    *key("key", sa.String(256)),
    *must(sa.Text, "name"),
    *must(number, "entity_pk", to("entities.pk")),
    index("entity_names_entity", "entity_pk"),
)
sa.Table(
    "merges",
    tables,
    *key("pk"),
    *must(number, "scope_id", to("scopes.id")),
    *must(number, "winner_pk", to("entities.pk")),
    *must(number, "loser_pk", to("entities.pk")),
    *must(moment, "created_at"),
    *may(moment, "undone_at"),
    *must(json, "moved"),
    index("merges_loser", "loser_pk"),
    index("merges_scope", "scope_id"),
    index("merges_winner", "winner_pk"),
)
sa.Table(
    "relations",
    tables,
    *key("pk"),
    *must(short, "id"),
    *must(number, "scope_id", to("scopes.id")),
    *must(number, "source_pk", to("entities.pk")),
    *must(sa.String(128), "relation"),
    *must(number, "target_pk", to("entities.pk")),
    *may(moment, "valid_from valid_to"),
    *must(moment, "recorded_at"),
    *may(moment, "retired_at"),
    *must(sa.Integer, "mentions"),
    *must(sa.Float, "confidence"),
    index("relations_id", "id"),
    index("relations_pair", "source_pk target_pk retired_at"),
    index("relations_scope", "scope_id retired_at pk"),
    index("relations_source", "source_pk relation retired_at"),
    index("relations_target", "target_pk relation retired_at"),
)


def upgrade() -> None:
    tables.create_all(op.get_bind())


def downgrade() -> None:
    tables.drop_all(op.get_bind())
