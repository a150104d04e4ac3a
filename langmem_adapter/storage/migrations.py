"""Migrations: the schema is brought up to date when a database is opened.

An empty database gets the tables of `storage.tables` at once; revisions are for those that hold something. A test compares
both: it opens databases of the first release; that schema is frozen in tests/storage/schema. All of it is one write
transaction, so several processes may open a new file at once: one migrates, the others find it done.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy import inspect, make_url, text
from sqlalchemy.schema import CreateIndex, CreateTable

from langmem_adapter.errors import StorageError
from langmem_adapter.storage import checkpoints, conversations, items, jobs, lexical, meta, sources  # noqa: F401 - some add their tables to `metadata`
from langmem_adapter.storage.tables import metadata
from langmem_adapter.storage.timestamps import UTCDateTime
from langmem_adapter.text import TOKENIZER, check_language

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from langmem_adapter.storage.database import Database

# ── revisions ───────────────────────────────────────────────────────────────────────────────────────────────────────────

# A revision spells out what changes with Alembic's operations and does not read `storage.tables`.


def _sources(op: Any) -> None:
    """Which messages of a thread were remembered, and which memories came of each."""
    message = [sa.Column("thread", sa.String(64), primary_key=True), sa.Column("message_id", sa.Text, primary_key=True)]
    op.create_table(
        "sources",
        *message,
        sa.Column("thread_id", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text) for name in ("user_id", "agent_id", "run_id")),
        sa.Column("given", sa.String(32), nullable=False),
        sa.Column("digest", sa.String(32)),
        sa.Column("created_at", UTCDateTime, nullable=False),
    )
    op.create_index("ix_sources_thread_id", "sources", ["thread_id"])
    op.create_table(
        "source_memories",
        *message,
        sa.Column("memory_id", sa.String(64), primary_key=True),
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["thread", "message_id"], ["sources.thread", "sources.message_id"], ondelete="CASCADE"),
    )
    op.create_index("ix_source_memories_memory", "source_memories", ["memory_id"])


def _is_verbatim(op: Any) -> None:
    """Memories that are kept in the user's words; none of before is."""
    for table in ("memories", "history"):
        op.add_column(table, sa.Column("is_verbatim", sa.Boolean(), nullable=False, server_default=sa.false()))


def _is_shown(op: Any) -> None:
    """Whether a model was shown a message; until now only such messages were noted."""
    op.add_column("sources", sa.Column("is_shown", sa.Boolean(), nullable=False, server_default=sa.true()))


def _utc_offset(op: Any) -> None:
    """The UTC offset of the speaker, unknown for older memories, also in the index that a search reads."""
    for table in ("memories", "history"):
        op.add_column(table, sa.Column("utc_offset", sa.Integer()))
    op.drop_index("ix_memories_roll", "memories")
    columns = "scope_id seq pk created_at updated_at actor_id expires_at memory_type utc_offset"
    op.create_index("ix_memories_roll", "memories", columns.split())


FIRST: Final = "0100"
"""The schema of the first release."""
REVISIONS: Final[dict[str, Callable[[Any], None]]] = {
    "0101": _sources,
    "0102": _is_verbatim,
    "0103": _is_shown,
    "0104": _utc_offset,
}
"""The change to each schema from the one before, in order."""
HEAD: Final = max(REVISIONS)
"""The schema that this code uses."""

# ── opening a database ──────────────────────────────────────────────────────────────────────────────────────────────────

_HIDDEN: Final = text("""
    SELECT relname FROM pg_class WHERE relname = ANY (:names) AND pg_table_is_visible(oid) AND row_security_active(oid)
    AND NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = pg_class.oid AND polpermissive AND polcmd IN ('*', 'r')
    AND (0 = ANY (polroles) OR EXISTS (SELECT FROM unnest(polroles) role WHERE pg_has_role(role, 'USAGE')))) ORDER BY 1
""")
_CREATE_VERSION: Final = "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
_TOKENIZER: Final = "tokenizer"  # key in `meta`


def prepare(database: Database, language: str | None = None) -> None:
    """Make a database ready: its schema, and words of the current tokenizer in the right language.

    Another *language* than the database has writes all its words anew, in one transaction. Other processes that have it open
    follow: writers and searches read the language from the database. `None` keeps it; a new database is English.
    """
    language = None if language is None else check_language(language)
    migrate(database)
    with database.read() as connection:
        is_ready = _has_words_of(connection, language or meta.language_of(connection))
    if not is_ready:
        database.write(partial(_tokenize, language=language))


def migrate(database: Database) -> None:
    with database.read() as connection:
        if database.dialect == "postgresql":
            _refuse_hidden(connection)
        if schema_version(connection) == HEAD:
            return
    database.setup(_upgrade)


def schema_version(connection: Connection) -> str | None:
    """The schema that a database has; `None` for an empty one."""
    names = set(inspect(connection).get_table_names())
    if "alembic_version" not in names:
        if names & {"memories", "history", "changes"}:
            raise StorageError("this database has tables of these names from another program: use another database")
        return None
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar() or "")


def _refuse_hidden(connection: Connection) -> None:
    tables = connection.execute(_HIDDEN, {"names": ["alembic_version", *metadata.tables]}).scalars().all()
    if tables:
        raise StorageError(
            f"row-level security hides every row of {', '.join(tables)} from this role, which no policy lets read "
            "them: connect as the owner of the tables, or CREATE POLICY … TO <role> USING (true), or DISABLE ROW LEVEL SECURITY"
        )


def _upgrade(connection: Connection) -> None:
    version = schema_version(connection)
    if version is None:
        for statement in _create_statements(connection.dialect.name):
            connection.exec_driver_sql(statement)
        connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:head)"), {"head": HEAD})
    elif not version:
        raise StorageError("the table alembic_version, which names the schema, is empty: restore a backup")
    elif version < FIRST:
        raise StorageError(
            f"the database has schema {version} of a langmem_adapter that was never released; nothing reads it: use another "
            "database, and add to it what this one was made from"
        )
    elif version > HEAD:
        raise StorageError(
            f"the database has schema {version} of a newer langmem_adapter; this one knows {HEAD}: upgrade the package"
        )
    elif version < HEAD:
        _run_revisions(connection, version)


@cache
def _create_statements(dialect_name: str) -> tuple[str, ...]:
    dialect = make_url(f"{dialect_name}://").get_dialect()()
    tables = metadata.sorted_tables
    indexes = sorted((index for table in tables for index in table.indexes), key=lambda index: str(index.name))
    creates: list[CreateTable | CreateIndex] = [*map(CreateTable, tables), *map(CreateIndex, indexes)]
    return _CREATE_VERSION, *(str(statement.compile(dialect=dialect)) for statement in creates)


def _run_revisions(connection: Connection, version: str) -> None:
    from alembic.migration import MigrationContext  # noqa: PLC0415 - half a second that only an old database costs
    from alembic.operations import Operations  # noqa: PLC0415 - the same

    operations = Operations(MigrationContext.configure(connection))
    for revision, change in REVISIONS.items():
        if revision > version:
            change(operations)
    connection.execute(text("UPDATE alembic_version SET version_num = :head"), {"head": HEAD})


def _has_words_of(connection: Connection, language: str) -> bool:
    return (meta.get(connection, _TOKENIZER), meta.get(connection, meta.LANGUAGE)) == (TOKENIZER, language)


def _tokenize(connection: Connection, language: str | None) -> None:
    language = language or meta.language_of(connection)
    # Contract: asked again within the write transaction, since another process that opens the file may have been faster.
    # `test_prepare_by_six_processes_at_once`
    if not _has_words_of(connection, language):
        lexical.rebuild(connection, language)
        meta.put(connection, _TOKENIZER, TOKENIZER)
        meta.put(connection, meta.LANGUAGE, language)
