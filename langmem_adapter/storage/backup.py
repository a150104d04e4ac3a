"""Backups: a consistent copy of a database that is in use, as an SQLite file of its own."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, select, text

from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.storage import sqlite
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.jobs import jobs
from langmem_adapter.storage.migrations.runner import migrate
from langmem_adapter.storage.row_copy import LEFT_OUT, RUNNING, copy_rows, percent, renew
from langmem_adapter.storage.tables import memories, metadata
from langmem_adapter.storage.urls import path_of, url_of
from langmem_adapter.twins import attempt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from langmem_adapter.storage.row_copy import OnProgress

__all__ = ["CopyReport", "backup", "check_integrity", "finish_copy", "snapshot"]

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
