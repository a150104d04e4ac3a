"""Backups, and copies of a whole database between SQLite and Postgres.

Values are copied as SQLite stores them: a date as text in UTC, JSON as text, a Boolean as 0 or 1. Postgres reads all of these.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import sys
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import (
    JSON,
    Boolean,
    Integer,
    Text,
    cast,
    delete,
    func,
    insert,
    inspect,
    not_,
    select,
    text,
    type_coerce,
    update,
)
from sqlalchemy.types import NULLTYPE

from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.settings import Settings
from langmem_adapter.storage import sqlite
from langmem_adapter.storage.conversations import NUMBERED, last_number, set_number
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.drivers import path_of, translated, url_of
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.jobs import jobs
from langmem_adapter.storage.meta import unreadable_dates
from langmem_adapter.storage.migrations import migrate, prepare
from langmem_adapter.storage.queries import driver_cursor
from langmem_adapter.storage.tables import changes, cursors, memories, meta, metadata, reembedded, sessions
from langmem_adapter.storage.timestamps import UTCDateTime
from langmem_adapter.twins import attempt

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import URL, Column, Connection, Engine, Select, Table

OnProgress: TypeAlias = "Callable[[int, int], None]"
"""Called with how much is done, and of how much."""

_MIB: Final = 1024**2
_STEPS: Final = 50_000  # of SQLite's machine between two calls for the progress
_BATCH: Final = 2_000
_REQUIRED: Final = frozenset(("alembic_version", "changes", "history", "memories", "meta"))
# These rows, and running jobs, belong to programs that use the source.
_OF_PROGRAMS: Final = (sessions, cursors, reembedded)
_RUNNING: Final = jobs.c.state == "running"
_SIZES: Final = {
    "sqlite": text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"),
    "postgresql": text(
        "SELECT sum(pg_total_relation_size(to_regclass(name))) FROM unnest(CAST(:names AS text[])) name"
    ),
}


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What a backup or a copy has.

    Attributes:
        location: Its path, or its URL without a password.
        memories: Its current memories.
        changes: Number of the last change of the source that is in it.
    """

    location: str
    memories: int
    changes: int


# ── backups ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def backup(
    database: Database, file: str | Path, *, force: bool = False, progress: OnProgress | None = None
) -> CopyReport:
    """Write a backup of an open database into an SQLite file; see `Memory.backup`.

    Raises:
        InvalidInputError: *file* exists, or names a server.
        StorageError: The database failed, or *file* cannot be written or is in use.
    """
    path = path_of(url_of(file))
    if path is None:
        raise InvalidInputError("a backup is an SQLite file: to copy into Postgres, use langmem-adapter copy")
    if path == database.path:
        raise InvalidInputError(f"{path} is the database itself: give the backup another name")
    if path.exists() and not force:
        raise InvalidInputError(f"{path} exists: give another name, or replace it with force=True (--force)")
    # Contract: SQLite reads a log that lies beside a file into that file, also the log of another file.
    # `test_backup_never_replaces_a_database_in_use`
    if sqlite.identity(f"{path}-wal") is not None:
        hint = "close it, or write into it with langmem-adapter copy --replace"
        raise StorageError(f"{path} is in use as a database, {path.name}-wal is there: {hint}")
    progress = _percent(progress)
    try:
        with _work_folder(path) as folder:
            size, copied = _check_disk(database, path.parent), folder / "memory.db"
            with closing(sqlite.open_file(copied, timeout=0)) as connection:  # creates it with mode 0600
                if database.path is None:
                    connection.execute("PRAGMA journal_mode=WAL")  # writes the first page
            if database.path is not None:
                _vacuum_into(database, copied, size, progress)
            with closing(Database(copied)) as new:
                if database.path is None:
                    migrate(new)
                    with database.read() as rows:
                        new.setup(partial(_copy_rows, rows, progress=progress))
                report = new.setup(partial(_finish, location=str(path)))
                _check_integrity(new)
            copied.replace(path)
            sqlite.sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
    return report


@contextmanager
def _work_folder(target: Path) -> Iterator[Path]:
    """A folder beside a file, for this process alone; it is empty, also where a backup was killed before."""
    folder = target.with_name(f".backup-{target.name}")
    with ExitStack() as undo:
        # Contract: the system releases the lock of a process that is killed, so the next backup removes what it left.
        # `test_backup_removes_what_a_killed_backup_left`
        while True:
            folder.mkdir(mode=0o700, exist_ok=True)
            if sys.platform == "win32":
                break
            undo.callback(os.close, descriptor := os.open(folder, os.O_RDONLY))
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StorageError(
                    f"another backup into {target} is running: wait for its end", transient=True
                ) from None
            if sqlite.identity(descriptor) == sqlite.identity(folder):  # else another process has just removed it
                break
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        for file in folder.iterdir():
            file.unlink()
        yield folder


def _check_disk(source: Database, folder: Path) -> int:
    with source.read() as connection:
        names = {"names": [*metadata.tables]} if source.dialect == "postgresql" else {}
        size = int(connection.execute(_SIZES[source.dialect], names).scalar_one())
    needed = size if source.path else 2 * size  # rows are written into the log first
    free = shutil.disk_usage(folder).free
    if free < needed:
        space = f"{free // _MIB:,} MiB free, and the copy needs about {needed // _MIB + 1:,}"
        raise StorageError(f"{folder} has {space}: free some space, or write to another disk")
    return size


def _vacuum_into(source: Database, path: Path, size: int, progress: OnProgress | None) -> None:
    errors: list[BaseException] = []

    def report() -> bool:
        if progress is not None and (error := attempt(progress, path.stat().st_size, size).error) is not None:
            errors.append(error)
        return bool(errors)

    with source.own_connection() as connection:
        connection.execute("PRAGMA page_size=4096")
        connection.set_progress_handler(report, _STEPS)
        outcome = attempt(connection.execute, "VACUUM INTO ?", (str(path),))
        if errors:  # SQLite would say only that it was interrupted
            raise errors[0]
        outcome.unwrap()


def _check_integrity(database: Database) -> None:
    for (finding,) in database.maintain("PRAGMA integrity_check(1)"):
        if finding != "ok":
            raise StorageError(f"{database.location}: the file is damaged ({finding}): use another backup")


def _percent(progress: OnProgress | None) -> OnProgress | None:
    if progress is None:
        return None
    return lambda done, total: progress(100 * min(done, total) // max(1, total), 100)


# ── copies ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def copy(
    source: str | Path | URL | Engine,
    target: str | Path | URL | Engine,
    *,
    replace: bool = False,
    progress: OnProgress | None = None,
    settings: Settings | None = None,
) -> CopyReport:
    """Copy a whole database: one state of the source, in one transaction of the target.

    Everything is copied except sessions, running jobs, and the cursors of shared indexes. Programs that have the target open
    follow. After an interruption the target is as it was.

    Args:
        source: As `database` of `Memory`; a database of an older version is upgraded first, as always when it is opened.
        target: The same; an SQLite file is created where there is none.
        replace: Delete the memories that are in the target.
        progress: Called with the percentage that is done, and 100.
        settings: `busy_timeout` and the like; `None` reads environment and configuration files.

    Raises:
        InvalidInputError: The target is the source, or is not empty.
        StorageError: The source is damaged, newer, or no database of langmem_adapter; or a database failed. Nothing was
            written.

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
        raise StorageError(f"there is no database at {path}: check the path")
    with closing(Database(source, **options)) as old:
        if not _table_names(old) >= _REQUIRED:
            raise StorageError(f"{old.location} is no database of langmem_adapter; nothing was copied")
        _check_integrity(old)
        prepare(old)
        with closing(Database(target, **options)) as new:
            if new.location in {old.location, ":memory:"}:
                raise InvalidInputError(f"{new.location} cannot be the target: name another file or server")
            if new.path is not None and sqlite.identity(new.path) is None:
                return backup(old, new.path, progress=progress)
            if new.path is not None and (names := _table_names(new)) and not names >= _REQUIRED:
                raise StorageError(f"{new.location} is a database of another program: name another file")
            prepare(new)
            with old.read() as rows:
                fill = partial(_refill, rows=rows, new=new, replace=replace, progress=_percent(progress))
                report = new.setup(fill)
            new.maintain("PRAGMA wal_checkpoint(TRUNCATE)", timeout=1)
            return report


def _table_names(database: Database) -> set[str]:
    """Names of the tables in a database that may be another program's; its file is not changed."""
    if database.path is None:
        with database.read() as connection:
            return set(inspect(connection).get_table_names())
    with translated(database.location), ExitStack() as undo:
        if sqlite.identity(f"{database.path}-wal") is None:  # complete by itself, and it need not get a log
            file = sqlite3.connect(f"{database.path.as_uri()}?immutable=1", uri=True)
            undo.callback(file.close)
        else:
            file = undo.enter_context(database.own_connection())
        return {name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def _refill(
    connection: Connection, rows: Connection, new: Database, *, replace: bool, progress: OnProgress | None
) -> CopyReport:
    if not replace:
        tables = [table for table in metadata.sorted_tables if table is not meta]
        counts = {each.name: connection.execute(select(func.count()).select_from(each)).scalar_one() for each in tables}
        if full := ", ".join(f"{name} {count:,}" for name, count in counts.items() if count):
            hint = "name another target, or delete all of it with replace=True (--replace)"
            raise InvalidInputError(f"{new.location} is not empty, it has rows in {full}: {hint}")
    above = last_seq(connection)
    for table in reversed(metadata.sorted_tables):
        if table is not changes or new.dialect == "sqlite":  # see `_insert`
            connection.execute(delete(table))
    _copy_rows(rows, connection, progress)
    return _finish(connection, location=new.location, above=above, last=last_seq(rows))


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _copy_rows(source: Connection, target: Connection, progress: OnProgress | None = None) -> None:
    """Copy all rows except those that belong to running programs; the target's tables are empty, see `_insert`."""
    if unreadable := list(unreadable_dates(source, metadata)):
        raise StorageError(
            f"{len(unreadable)} dates cannot be read: correct them, or delete their rows: {unreadable[0]}"
        )
    dialect, tables = source.dialect.name, [table for table in metadata.sorted_tables if table not in _OF_PROGRAMS]
    queries = {table: select(*(_portable(column, dialect) for column in table.c)) for table in tables}
    queries[jobs] = queries[jobs].where(not_(_RUNNING))
    counts = [select(func.count()).select_from(query.subquery()) for query in queries.values()]
    total, done = sum(source.execute(count).scalar_one() for count in counts), 0

    def read(query: Select[Any]) -> Iterator[Any]:
        nonlocal done
        for rows in source.execute(query, execution_options={"yield_per": _BATCH}).partitions():
            yield from rows
            done += len(rows)
            if progress is not None:
                progress(done, total)

    for table in NUMBERED:
        set_number(target, table, last_number(source, table))
    for table, query in queries.items():
        _insert(target, table, read(query))


def _portable(column: Column[Any], dialect: str) -> Any:
    if dialect == "postgresql":
        if isinstance(column.type, UTCDateTime):
            return func.to_char(column, "YYYY-MM-DD HH24:MI:SS.US")  # in the zone of the session, which is UTC
        if isinstance(column.type, JSON):
            return cast(column, Text)
        if isinstance(column.type, Boolean):
            return cast(column, Integer)
    return type_coerce(column, NULLTYPE)


def _insert(target: Connection, table: Table, rows: Iterator[Any]) -> None:
    columns = ", ".join(map(target.dialect.identifier_preparer.quote, table.c.keys()))
    if target.dialect.name == "sqlite":
        statement = f"INSERT INTO {table.name} ({columns}) VALUES ({', '.join('?' * len(table.c))})"  # noqa: S608 - our own names
        with driver_cursor(target, statement) as cursor:
            cursor.executemany(statement, rows)
        return
    into = "copied_changes" if table is changes else table.name
    # They are not deleted before: for each change Postgres would read all deleted memories, which refer to it.
    if table is changes:
        target.exec_driver_sql("CREATE TEMPORARY TABLE copied_changes (LIKE changes) ON COMMIT DROP")
    statement = f"COPY {into} ({columns}) FROM STDIN"
    with driver_cursor(target, statement) as cursor:
        if not hasattr(cursor, "copy"):
            raise InvalidInputError("only the driver psycopg can copy: write postgresql+psycopg://…")
        with cursor.copy(statement) as copying:
            for row in rows:
                copying.write_row(row)
    if table is changes:
        new = ", ".join(f"{name} = excluded.{name}" for name in columns.split(", "))
        rest = f"SELECT {columns} FROM copied_changes ON CONFLICT (seq) DO UPDATE SET {new}"  # noqa: S608 - the same
        target.exec_driver_sql(f"INSERT INTO changes ({columns}) {rest}")


def _finish(connection: Connection, *, location: str, above: int = 0, last: int | None = None) -> CopyReport:
    """Remove what belongs to running programs from a copy, and let it continue with a separate history.

    Args:
        connection: The transaction that writes the copy.
        location: Where it is.
        above: Number of the last change that programs know which have the copy open.
        last: Number of the last change of the source; by default that of the copy.
    """
    for table in _OF_PROGRAMS:
        connection.execute(delete(table))
    connection.execute(delete(jobs).where(_RUNNING))
    last = last_seq(connection) if last is None else last
    # Contract: a program that has read up to *above* finds another nonce there and another number at the end, so it reads
    # everything again, as does a shared index that was fed by the source. `test_copy_replace_is_followed_by_open_memories`
    nonce = secrets.token_bytes(8)
    connection.execute(update(changes).where(changes.c.seq >= last).values(nonce=nonce))
    if above >= max(1, last):
        connection.execute(insert(changes).values(seq=above + 1, nonce=nonce, space="copy", row=0, op="copy"))
    return CopyReport(location, connection.execute(select(func.count()).select_from(memories)).scalar_one(), last)
