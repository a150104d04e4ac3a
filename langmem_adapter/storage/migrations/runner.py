"""Bringing a database's schema up to date when it is opened.

An empty database gets the tables of today at once; Alembic's revisions are for those that hold something, and a test holds
both to the same schema: it opens databases of the first release, whose schema is frozen in tests/storage/schema. All of it
happens in one write transaction (`BEGIN IMMEDIATE` on SQLite, the writers' advisory lock on Postgres), so that six
processes may open a new file at once: one migrates, the others find it done. Alembic itself is imported only when there is
something to migrate.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect, make_url, text
from sqlalchemy.schema import CreateIndex, CreateTable

from langmem_adapter.errors import StorageError
from langmem_adapter.storage import checkpoints, conversations, items, jobs, sources  # noqa: F401 - they add their tables to `metadata`
from langmem_adapter.storage import tables as graph  # noqa: F401 - the same
from langmem_adapter.storage.tables import metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from langmem_adapter.storage.database import Database

HEAD: Final = "0104"
"""The schema that this code speaks."""

_FIRST: Final = "0100"
_HIDDEN: Final = text("""
    SELECT relname FROM pg_class WHERE relname = ANY (:names) AND pg_table_is_visible(oid) AND row_security_active(oid)
    AND NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = pg_class.oid AND polpermissive AND polcmd IN ('*', 'r')
    AND (0 = ANY (polroles) OR EXISTS (SELECT FROM unnest(polroles) role WHERE pg_has_role(role, 'USAGE')))) ORDER BY 1
""")
_VERSION: Final = "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"


def migrate(database: Database) -> None:
    """Bring the schema to `HEAD`."""
    with database.read() as connection:
        if database.dialect == "postgresql":
            _refuse_hidden(connection)
        if schema_version(connection) == HEAD:
            return
    database.setup(_upgrade)


def _refuse_hidden(connection: Connection) -> None:
    tables = connection.execute(_HIDDEN, {"names": ["alembic_version", *metadata.tables]}).scalars().all()
    if tables:
        raise StorageError(
            f"row-level security hides every row of {', '.join(tables)} from this role, which no policy lets read "
            "them: connect as the owner of the tables, or CREATE POLICY … TO <role> USING (true), or DISABLE ROW LEVEL SECURITY"
        )


def schema_version(connection: Connection) -> str | None:
    """The schema version that a database has; `None` for an empty one."""
    names = set(inspect(connection).get_table_names())
    if "alembic_version" not in names:
        if names & {"memories", "history", "changes"}:
            raise StorageError("this database has tables of these names from another program; give another one")
        return None
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar() or "")


def _upgrade(connection: Connection) -> None:
    version = schema_version(connection)
    if version is None:
        _create(connection)
    elif version != HEAD:
        _climb(connection, version)


def _create(connection: Connection) -> None:
    for statement in _schema(connection.dialect.name):
        connection.exec_driver_sql(statement)
    connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:head)"), {"head": HEAD})


@cache
def _schema(dialect_name: str) -> tuple[str, ...]:
    dialect = make_url(f"{dialect_name}://").get_dialect()()
    tables = metadata.sorted_tables
    indexes = sorted((index for table in tables for index in table.indexes), key=lambda index: str(index.name))
    made: list[CreateTable | CreateIndex] = [*map(CreateTable, tables), *map(CreateIndex, indexes)]
    return _VERSION, *(str(statement.compile(dialect=dialect)) for statement in made)


def _climb(connection: Connection, version: str) -> None:
    if not version:
        raise StorageError("the table alembic_version, which names the schema, is empty; restore a backup")
    if version < _FIRST:
        raise StorageError(
            f"the database has schema {version} of a langmem_adapter that was never released; nothing reads it: give another "
            "database, and add to it what this one was made from"
        )
    if version > HEAD:
        raise StorageError(
            f"the database has schema {version} of a newer langmem_adapter; this one knows {HEAD}: upgrade the package"
        )
    loggers = [logging.getLogger(f"alembic.runtime.{name}") for name in ("migration", "plugins")]
    for logger in loggers:  # what Alembic tells of steps of ours is not for the program's log
        logger.addFilter(_is_warning)
    try:
        from alembic import command  # noqa: PLC0415 - half a second that only an old database costs
        from alembic.config import Config  # noqa: PLC0415 - the same

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, HEAD)
    finally:
        for logger in loggers:
            logger.removeFilter(_is_warning)


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING
