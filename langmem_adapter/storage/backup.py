"""Backups, and copies of a whole database between SQLite and Postgres.

A value travels as SQLite keeps it: a date as text in UTC, JSON as text, a Boolean as 0 or 1. `COPY` of Postgres reads all of
these.
"""

from __future__ import annotations

import secrets
import shutil
import sqlite3
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import URL, Column, Connection, Engine, Select, Table

OnProgress: TypeAlias = "Callable[[int, int], None]"
"""Gets how much is done, and of how much."""

LEFT_OUT: Final = (sessions, cursors, reembedded)
"""Tables that a copy has no rows in: they belong to the programs that use the source."""
RUNNING: Final = jobs.c.state == "running"
"""Condition on jobs, which do as well."""

_NUMBERED: Final = ("conversations", "notes")  # whose ids the database draws
_BATCH: Final = 2_000
_LAST_NUMBER: Final = {
    "sqlite": text("SELECT seq FROM sqlite_sequence WHERE name = :name"),
    "postgresql": text("SELECT pg_sequence_last_value(pg_get_serial_sequence(:name, 'id')::regclass)"),
}
# Contract: a sequence does not take part in its transaction, so it is only ever set forward: after a rollback the rows that
# are there again keep their ids to themselves. `test_copy_that_is_interrupted_leaves_the_target_as_it_was`
_SET_NUMBER: Final = {
    "sqlite": text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"),
    "postgresql": text(
        "SELECT setval(name::regclass, greatest(:last, pg_sequence_last_value(name::regclass))) "
        "FROM pg_get_serial_sequence(:name, 'id') AS name"
    ),
}


def copy_rows(source: Connection, target: Connection, progress: OnProgress | None = None) -> None:
    """Copy all rows but those that belong to running programs, within a read and a write transaction.

    The tables of the target are empty, on Postgres but for `changes`, which is written over.

    Raises:
        StorageError: A date in the source cannot be copied.
    """
    if wrong := list(unreadable_dates(source, metadata)):
        raise StorageError(
            f"no program here can read {len(wrong)} dates; correct them, or delete their rows: {wrong[0]}"
        )
    queries = {table: _query(table, source.dialect.name) for table in metadata.sorted_tables if table not in LEFT_OUT}
    counts = [select(func.count()).select_from(query.subquery()) for query in queries.values()]
    total, done = sum(source.execute(count).scalar_one() for count in counts), 0

    def rows_of(query: Select[Any]) -> Iterator[Any]:
        nonlocal done
        for rows in source.execute(query, execution_options={"yield_per": _BATCH}).partitions():
            yield from rows
            done += len(rows)
            if progress is not None:
                progress(done, total)

    for name in _NUMBERED:
        last = source.execute(_LAST_NUMBER[source.dialect.name], {"name": name}).scalar()
        if last is not None:
            target.execute(_SET_NUMBER[target.dialect.name], {"name": name, "last": last})
    for table, query in queries.items():
        _insert(target, table, rows_of(query))


def renew(connection: Connection, last: int, above: int) -> None:
    """Let a copy go on in a history of its own, within the transaction that makes it.

    Args:
        connection: A write transaction of the copy.
        last: Number of the last change of the source.
        above: Number of the last change that programs know which have the copy open.
    """
    # Contract: a program that has read up to *above* finds another nonce there and another number at the end, so it reads
    # everything anew, as does a shared index that was fed by the source. `test_copy_replace_is_followed_by_open_memories`
    nonce = secrets.token_bytes(8)
    connection.execute(update(changes).where(changes.c.seq >= last).values(nonce=nonce))
    if above >= max(1, last):
        connection.execute(insert(changes).values(seq=above + 1, nonce=nonce, space="copy", row=0, op="copy"))


def percent(progress: OnProgress | None, start: int = 0, end: int = 100) -> OnProgress | None:
    """Progress of a part of the work, told as per cent of the whole."""
    if progress is None:
        return None
    return lambda done, total: progress(start + (end - start) * min(done, total) // max(1, total), 100)


def _query(table: Table, dialect: str) -> Select[Any]:
    query = select(*(_portable(column, dialect) for column in table.c))
    return query.where(not_(RUNNING)) if table is jobs else query


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
        statement = f"INSERT INTO {table.name} ({columns}) VALUES ({', '.join('?' * len(table.c))})"  # noqa: S608 - names of ours
        with driver_cursor(target, statement) as cursor:
            cursor.executemany(statement, rows)
    elif (
        table is changes
    ):  # not deleted before: for each change Postgres would read all deleted memories, which name it
        target.exec_driver_sql("CREATE TEMPORARY TABLE copied_changes (LIKE changes) ON COMMIT DROP")
        _copy_in(target, f"copied_changes ({columns})", rows)
        new = ", ".join(f"{name} = excluded.{name}" for name in columns.split(", "))
        rest = f"SELECT {columns} FROM copied_changes ON CONFLICT (seq) DO UPDATE SET {new}"  # noqa: S608 - the same
        target.exec_driver_sql(f"INSERT INTO changes ({columns}) {rest}")
    else:
        _copy_in(target, f"{table.name} ({columns})", rows)


def _copy_in(target: Connection, where: str, rows: Iterator[Any]) -> None:
    statement = f"COPY {where} FROM STDIN"
    with driver_cursor(target, statement) as cursor:
        if not hasattr(cursor, "copy"):
            raise InvalidInputError("only the driver psycopg can copy: write postgresql+psycopg://…")
        with cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)


_SIZES: Final = {
    "sqlite": text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"),
    "postgresql": text(
        "SELECT sum(pg_total_relation_size(to_regclass(name))) FROM unnest(CAST(:names AS text[])) name"
    ),
}
_EVERY: Final = 50_000  # steps of SQLite's machine between two looks at the progress
_MIB: Final = 1024**2


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What a backup or a copy holds.

    Attributes:
        location: Where it is.
        memories: Current memories in it.
        changes: Number of the last change of the source that is in it.
    """

    location: str
    memories: int
    changes: int


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
        raise InvalidInputError("a backup is an SQLite file; to copy into Postgres, use langmem-adapter copy")
    if path == database.path:
        raise InvalidInputError(f"{path} is the database itself; give the backup another name")
    if path.exists() and not force:
        raise InvalidInputError(f"{path} exists; give another name, or replace it with force=True (--force)")
    # Contract: SQLite reads a log that lies beside a file into that file, whosever it was.
    # `test_backup_never_replaces_a_database_in_use`
    if sqlite.identity(f"{path}-wal") is not None:
        hint = "close it, or write into it with langmem-adapter copy --replace"
        raise StorageError(f"{path} is in use as a database, {path.name}-wal is there; {hint}")
    with snapshot(database, path, progress=percent(progress)) as (made, report):
        made.replace(path)
        sqlite.sync_folder(path.parent)
    return report


@contextmanager
def snapshot(
    source: Database, beside: Path, *, above: int = 0, page_size: int = 4096, room: int = 1, progress: OnProgress | None
) -> Iterator[tuple[Path, CopyReport]]:
    """A whole copy as an SQLite file, in a folder that lies beside another file and is gone at the end.

    Args:
        source: What is copied, its tables made.
        beside: The other file.
        above: See `renew`.
        page_size: Bytes of a page.
        room: How many times the size of the source must be free on the disk.
        progress: Called with how much is done, and of how much.
    """
    with ExitStack() as undo:
        undo.enter_context(_os_errors(beside))
        size = _check_room(source, beside.parent, room)
        path = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix=".backup-", dir=beside.parent)), "memory.db")
        with closing(sqlite.open_file(path, timeout=0)) as connection:  # makes it with mode 0600
            if source.path is None:
                connection.execute(f"PRAGMA page_size={page_size}")
                connection.execute("PRAGMA journal_mode=WAL")  # writes the first page
        if source.path is not None:
            _vacuum(source, path, size, page_size, progress)
        with closing(Database(path)) as made:
            if source.path is None:
                migrate(made)
                with source.read() as rows:
                    made.setup(partial(copy_rows, rows, progress=progress))
            report = made.setup(partial(finish_copy, location=str(beside), above=above))
            check_integrity(made)
        yield path, report


def finish_copy(connection: Connection, *, location: str, above: int, last: int | None = None) -> CopyReport:
    """Remove what belongs to running programs from a copy and renew it, within its write transaction."""
    for table in LEFT_OUT:
        connection.execute(delete(table))
    connection.execute(delete(jobs).where(RUNNING))
    last = last_seq(connection) if last is None else last
    renew(connection, last, above)
    return CopyReport(location, connection.execute(select(func.count()).select_from(memories)).scalar_one(), last)


def check_integrity(database: Database) -> None:
    """Raise a `StorageError` where an SQLite file is damaged."""
    for (finding,) in database.maintain("PRAGMA integrity_check(1)"):
        if finding != "ok":
            raise StorageError(f"{database.location}: the file is damaged ({finding}); use another backup")


def _vacuum(source: Database, path: Path, size: int, page_size: int, progress: OnProgress | None) -> None:
    errors: list[BaseException] = []

    def look() -> bool:
        if progress is not None and (error := attempt(progress, path.stat().st_size, size).error) is not None:
            errors.append(error)
        return bool(errors)

    with source.own_connection() as connection:
        connection.execute(f"PRAGMA page_size={page_size}")
        connection.set_progress_handler(look, _EVERY)
        outcome = attempt(connection.execute, "VACUUM INTO ?", (str(path),))
        if errors:  # SQLite would say only that it was interrupted
            raise errors[0]
        outcome.given()


def _check_room(source: Database, folder: Path, room: int) -> int:
    with source.read() as connection:
        names = {"names": [*metadata.tables]} if source.dialect == "postgresql" else {}
        size = int(connection.execute(_SIZES[source.dialect], names).scalar_one())
    needed = size * (room + (source.path is None))  # rows are written into the log first
    free = shutil.disk_usage(folder).free
    if free < needed:
        needs = f"{free // _MIB:,} MiB free, and the copy needs about {needed // _MIB + 1:,}"
        raise StorageError(f"{folder} has {needs}; free some space, or write to another disk")
    return size


@contextmanager
def _os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


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
