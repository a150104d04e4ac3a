"""Copying a whole database into another one: between SQLite and Postgres, either way, and into a database in use."""

from __future__ import annotations

import sqlite3
import time
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, inspect, select

from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.settings import Settings
from langmem_adapter.storage import sqlite
from langmem_adapter.storage.backup import CopyReport, backup, check_integrity, finish_copy, snapshot
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.driver_errors import translated
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.meta import prepare
from langmem_adapter.storage.row_copy import copy_rows, percent
from langmem_adapter.storage.tables import changes, meta, metadata
from langmem_adapter.storage.urls import path_of, url_of

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import URL, Connection, Engine

    from langmem_adapter.storage.row_copy import OnProgress

__all__ = ["copy"]

_OURS: Final = frozenset(("alembic_version", "changes", "history", "memories", "meta"))
_PAGES: Final = 2_000  # copied between two looks at the progress
_PAUSE: Final = 0.05
_MADE: Final = 80  # per cent of a copy into a file that exists: until then it is made beside it


def copy(
    source: str | Path | URL | Engine,
    target: str | Path | URL | Engine,
    *,
    replace: bool = False,
    progress: OnProgress | None = None,
    settings: Settings | None = None,
) -> CopyReport:
    """Copy a whole database: one state of the source, in one transaction of the target.

    Everything is copied but sessions, running jobs, and how far shared indexes have come. Programs that have the target open
    follow. After an interruption the target is as it was.

    Args:
        source: As `database` of `Memory`; a database of an older version is upgraded first, as whenever it is opened.
        target: The same; an SQLite file is made where there is none.
        replace: Delete what is in the target.
        progress: Called with the percentage that is done, and 100.
        settings: `busy_timeout` and the like; `None` reads environment and configuration files.

    Raises:
        InvalidInputError: The target is the source, or is not empty; the message says what is in it.
        StorageError: The source is damaged, newer, or no database of ours; a file as target has tables of other programs; or a
            database failed. Nothing was written.

    Example:
        >>> import tempfile
        >>> from langmem_adapter import Memory
        >>> folder = tempfile.mkdtemp()
        >>> with Memory(f"{folder}/memory.db") as memory:
        ...     added = memory.add("I live in Lyon.", user_id="alice")
        >>> copy(f"{folder}/memory.db", f"{folder}/other.db").memories
        1
    """
    path, options = path_of(url_of(source)), (settings or Settings()).database_options
    if path is not None and sqlite.identity(path) is None:
        raise StorageError(f"there is no database at {path}")
    with closing(Database(source, **options)) as old:
        tables = _tables_of(old)
        if not tables >= _OURS:
            raise StorageError(f"{old.location} is no database of langmem_adapter; nothing was copied")
        check_integrity(old)
        prepare(old)
        with closing(Database(target, **options)) as new:
            return _copy(old, new, tables, replace=replace, progress=progress)


def _copy(old: Database, new: Database, tables: set[str], *, replace: bool, progress: OnProgress | None) -> CopyReport:
    if new.location in {old.location, ":memory:"}:
        raise InvalidInputError(f"{new.location} cannot be the target; name another file or server")
    if new.path is not None and sqlite.identity(new.path) is None:
        return backup(old, new.path, progress=progress)
    if new.path is None:
        prepare(new)
        with old.read() as rows:
            return new.setup(partial(_refill, rows=rows, new=new, replace=replace, progress=progress))
    kept = {"alembic_version", *metadata.tables} | (tables if old.path else set())
    if lost := ", ".join(sorted(_tables_of(new) - kept)):
        raise StorageError(
            f"{new.location} has tables of other programs, which would be lost: {lost}; name another file"
        )
    prepare(new)
    return _refill_file(old, new, new.path, replace=replace, progress=progress)


def _tables_of(database: Database) -> set[str]:
    """Names of the tables in a database that may be another program's; its file stays as it is."""
    if database.path is None:
        with database.read() as connection:
            return set(inspect(connection).get_table_names())
    with translated(database.location), ExitStack() as undo:
        if sqlite.identity(f"{database.path}-wal") is None:  # complete by itself, and it need not get a log
            lone = sqlite3.connect(f"{database.path.as_uri()}?immutable=1", uri=True)
            undo.callback(lone.close)
        else:
            lone = undo.enter_context(database.own_connection())
        names = lone.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        return {name for (name,) in names if not name.startswith("sqlite_")}


def _check_empty(connection: Connection, new: Database) -> None:
    tables = [table for table in metadata.sorted_tables if table is not meta]
    counts = {each.name: connection.execute(select(func.count()).select_from(each)).scalar_one() for each in tables}
    if rows := ", ".join(f"{name} {count:,}" for name, count in counts.items() if count):
        hint = "name another target, or delete all of it with replace=True (--replace)"
        raise InvalidInputError(f"{new.location} is not empty, it has rows in {rows}; {hint}")


def _refill(
    connection: Connection, rows: Connection, new: Database, *, replace: bool, progress: OnProgress | None
) -> CopyReport:
    """Write over Postgres, within a write transaction."""
    if not replace:
        _check_empty(connection, new)
    above = last_seq(connection)
    for table in reversed(metadata.sorted_tables):
        if table is not changes:
            connection.execute(delete(table))
    copy_rows(rows, connection, percent(progress))
    return finish_copy(connection, location=new.location, above=above, last=last_seq(rows))


def _refill_file(old: Database, new: Database, path: Path, *, replace: bool, progress: OnProgress | None) -> CopyReport:
    """Make the copy beside the file, then write it over the file's pages, in one transaction."""
    with new.read() as connection:
        if not replace:
            _check_empty(connection, new)
        above = last_seq(connection)
    (size,) = new.maintain("PRAGMA page_size")[0]  # SQLite copies pages of the same size only
    made_of = percent(progress, 0, _MADE)
    with (
        snapshot(old, path, above=above, page_size=size, room=3, progress=made_of) as (made, report),
        closing(sqlite.open_file(made, timeout=0)) as pages,
        new.own_connection() as target,
    ):
        _write_over(pages, target, percent(progress, _MADE, 100))
    new.maintain("PRAGMA wal_checkpoint(TRUNCATE)", timeout=1)
    return report


def _write_over(pages: sqlite3.Connection, target: sqlite3.Connection, progress: OnProgress | None) -> None:
    (patience,) = target.execute("PRAGMA busy_timeout").fetchone()
    end = time.monotonic() + patience / 1000

    def look(status: int, remaining: int, total: int) -> None:
        # Contract: SQLite's own copying waits for ever for a writer. `test_copy_replace_gives_up_beside_an_open_writer`
        if status in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED} and time.monotonic() > end:
            raise sqlite3.OperationalError("database is locked")
        if progress is not None and status != sqlite3.SQLITE_DONE:  # which is after the commit
            progress(total - remaining, total)

    pages.backup(target, pages=_PAGES, progress=look, sleep=_PAUSE)
