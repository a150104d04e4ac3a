"""The database: engine, transactions, group commit, error translation.

Reads run in deferred transactions of their own, so a reader never waits for a writer (WAL). Writes are queued: whoever
finds the write lock free commits everything that is waiting, in one transaction with a savepoint each, so that a hundred
waiting writers share one commit and each still gets its own result or its own error (group commit, as in every serious
database since DeWitt et al. 1984). Sync callers flush on their own thread; async callers let a worker thread flush and
await their future: one truth for both.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeAlias, TypeVar

from sqlalchemy import URL, Connection, Engine, StaticPool, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from langmem_adapter.addresses import ENCODED, cleaned, shown
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, MissingDependencyError, StorageError
from langmem_adapter.records.checks import check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from types import TracebackType

    from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
    from sqlalchemy.pool import ConnectionPoolEntry

    from langmem_adapter.storage.prepared import Prepared

__all__ = ["Database", "Reading"]

T = TypeVar("T")
_Outcome: TypeAlias = "tuple[Any, LangmemAdapterError | None]"

_WRITE_LOCK: Final = 0x6C616E676D656D  # "langmem": the advisory lock that every writer on Postgres takes first
_MOST_PER_COMMIT: Final = 512
# What a shelf of `search` is made of: the changes, and the language of its words (`storage.meta`).
_VERSION: Final = text("SELECT coalesce(max(seq), 0), (SELECT value FROM meta WHERE key = 'language') FROM changes")


@dataclass(slots=True, eq=False)
class _Waiting(Generic[T]):
    """One piece of writing, and who waits for it."""

    work: Callable[[Connection], T]
    future: Future[T] = field(default_factory=Future)


class Reading:
    """Reads from a database, in a transaction from when one is needed until the `with` block ends.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stack = ExitStack()
        self._begun: Connection | None = None

    def __enter__(self) -> Self:
        """Begin, with nothing."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """End the transaction, if there is one."""
        return self._stack.__exit__(kind, error, trace)

    def connection(self) -> Connection:
        """The read transaction; it begins with the first call."""
        if self._begun is None:
            self._begun = self._stack.enter_context(self._database.read())
        return self._begun

    def rows(self, statement: Prepared, values: Mapping[str, Any]) -> list[Any]:
        """The rows of a statement: in the transaction where it has begun, else by itself."""
        if self._begun is None:
            return self._database.glance(statement, values)
        return statement.rows(self._begun, values)


class Database:
    """One SQL database: SQLite (embedded, the default) or Postgres.

    Args:
        where: A path (SQLite), `":memory:"`, an SQLAlchemy URL, or an `Engine` (Postgres; for SQLite give its path, since
            the driver must be set up our way).
        busy_timeout: Seconds to wait for another process's write on SQLite.

    Raises:
        InvalidInputError: *where* is not understood or names a database that is not supported.
        MissingDependencyError: The driver is not installed.
        StorageError: The database cannot be opened; the message says why.
    """

    def __init__(self, where: str | Path | URL | Engine, *, busy_timeout: float = 30.0) -> None:
        self._busy_timeout = busy_timeout
        self._engine = where if isinstance(where, Engine) else self._create(_as_url(where))
        if isinstance(where, Engine) and self.dialect == "sqlite":
            raise InvalidInputError("an Engine is taken for Postgres only; for SQLite give its path or URL")
        self._reads = self._engine.execution_options(sqlite_begin="DEFERRED")
        self._writes = self._engine.execution_options(sqlite_begin="IMMEDIATE")
        self._queue: deque[_Waiting[Any]] = deque()
        self._flushing = threading.Lock()
        self._commits = 0
        self._poll: sqlite3.Connection | None = None
        self._polling = threading.Lock()
        self._process = os.getpid()
        self._closed = False
        self._file: tuple[int, int] | None = None  # which file lies at the path, as it was opened

    # ── what it is ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def dialect(self) -> str:
        """`"sqlite"` or `"postgresql"`."""
        return self._engine.dialect.name

    @cached_property
    def path(self) -> Path | None:
        """The SQLite file; `None` in memory and on a server."""
        name = self._engine.url.database
        return Path(name).resolve() if self.dialect == "sqlite" and name and not _in_memory(self._engine.url) else None

    @cached_property
    def location(self) -> str:
        """Where the data lies, without any password."""
        return str(self.path) if self.path else shown(str(self._engine.url))

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A read transaction: all of it sees one state of the database.

        Raises:
            StorageError: The database failed.
        """
        self._refuse()
        with translated(self.location), self._lone(), self._reads.begin() as connection:
            if self.dialect == "postgresql":
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            yield connection

    def reading(self) -> Reading:
        """A reader that begins its transaction when it is first needed: what reads one statement alone needs none."""
        return Reading(self)

    def glance(self, statement: Prepared, values: Mapping[str, Any]) -> list[Any]:
        """The rows of one statement, read by itself: a transaction costs more than reading ten rows.

        Whether the file is still the one that was opened is not asked again: who searches has just asked for `version`.

        Raises:
            StorageError: The database failed.
        """
        if self.path is None:
            with self.read() as connection:
                return statement.rows(connection, values)
        self._refuse_closed()
        with translated(self.location), self._polling:
            return statement.rows_on(self._raw(), self._engine.dialect, values)

    def version(self) -> Hashable:
        """A token that changes whenever anybody, in any process, commits anything: cheap enough for every search.

        SQLite: `PRAGMA data_version` on a raw connection of its own (through the pool it costs ten times as much).
        """
        self._refuse()
        if self.path is None and self.dialect == "sqlite":
            return self._commits
        if self.path is None:
            with self.read() as connection:
                return tuple(connection.execute(_VERSION).one())
        with translated(self.location), self._polling:
            return int(self._raw().execute("PRAGMA data_version").fetchone()[0])

    def _raw(self) -> sqlite3.Connection:
        if self._poll is None:
            self._poll = sqlite3.connect(str(self.path), check_same_thread=False, timeout=self._busy_timeout)
        return self._poll

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run *work* in a write transaction and return its result once that is committed.

        Args:
            work: Gets the connection, must not commit, and may run on another thread than the caller's. If it raises, only
                its own changes are undone.

        Raises:
            StorageError: The database refused or failed; nothing of *work* is kept.
        """
        future = self._enqueue(work)
        while not future.done():
            self._flush()
        return future.result()

    async def awrite(self, work: Callable[[Connection], T]) -> T:
        """The async twin of `write`: waiting tasks share one commit, a task cancelled before its turn writes nothing."""
        future = self._enqueue(work)
        loop = asyncio.get_running_loop()
        # Soon, not at once: whoever is ready may queue first and share the commit.
        loop.call_soon(loop.run_in_executor, None, self._flush)
        return await asyncio.wrap_future(future)

    def write_each(self, works: Sequence[Callable[[Connection], T]]) -> list[T | LangmemAdapterError]:
        """Run several pieces of writing, which share a commit; each ends with its own result or its own error.

        Args:
            works: As for `write`.
        """
        futures = [self._enqueue(work) for work in works]
        while not all(future.done() for future in futures):
            self._flush()
        return [_outcome(future) for future in futures]

    @contextmanager
    def derived(self, lock: int) -> Iterator[Connection]:
        """A transaction on Postgres for what is derived from the truth; writers do not wait for it, nor it for them.

        It sees whatever was committed before each of its statements: above all by the holder of the lock before.

        Args:
            lock: Number of the advisory lock that it takes first, so that one process at a time does this work.

        Raises:
            StorageError: The database refused or failed; nothing is kept.
        """
        self._refuse()
        with translated(self.location), self._engine.begin() as connection:
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL READ COMMITTED"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": lock})
            yield connection

    def setup(self, work: Callable[[Connection], T]) -> T:
        """Run *work* in a write transaction before the tables exist (migrations)."""
        with translated(self.location), self._lone(), self._transaction() as connection:
            return work(connection)

    def maintain(self, statement: str, *, timeout: float | None = None) -> list[tuple[Any, ...]]:
        """Run one statement outside any transaction, on a connection of its own: a checkpoint, a vacuum.

        Args:
            statement: SQL that the database does not accept in a transaction.
            timeout: Seconds to wait for other connections on SQLite; default `busy_timeout`.

        Returns:
            Its rows; none for a database in memory, which has no files to look after.

        Raises:
            StorageError: The database refused or failed.
        """
        self._refuse()
        with translated(self.location):
            if self.path is not None:
                wait = self._busy_timeout if timeout is None else timeout
                with closing(sqlite3.connect(self.path, timeout=wait, isolation_level=None)) as lone:
                    return lone.execute(statement).fetchall()
            if self.dialect == "sqlite":
                return []
            with self._engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                found = connection.exec_driver_sql(statement)
                return [tuple(row) for row in found] if found.returns_rows else []

    def close(self) -> None:
        """Finish what waits and close every connection; the object is of no use afterwards."""
        while self._queue:
            self._flush()
        with self._polling:
            if self._poll is not None:
                self._poll.close()
                self._poll = None
        self._closed = True
        self._engine.dispose()

    def _enqueue(self, work: Callable[[Connection], T]) -> Future[T]:
        self._refuse_closed()  # on an event loop, which may not touch the disk; the commit looks at the file
        waiting = _Waiting(work)
        self._queue.append(waiting)
        return waiting.future

    def _flush(self) -> None:
        with self._flushing:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _MOST_PER_COMMIT))]
            # A cancelled task gave up before its turn came: its work is not begun at all.
            batch = [waiting for waiting in batch if waiting.future.set_running_or_notify_cancel()]
            if batch:
                self._commit(batch)

    def _commit(self, batch: list[_Waiting[Any]]) -> None:
        outcomes: list[_Outcome] = []
        try:
            with translated(self.location), self._lone(), self._transaction() as connection:
                outcomes = [self._attempt(connection, waiting, alone=len(batch) == 1) for waiting in batch]
            self._refuse()  # nothing is acknowledged that lies in a file which has been replaced meanwhile
            self._commits += 1
        except LangmemAdapterError as error:
            outcomes = [(None, error)] * len(batch)
        finally:  # nobody may wait for ever: a defect or an interrupt in one work reaches its neighbours as an error
            broken = StorageError("a write beside this one broke the transaction; nothing was written, try again")
            outcomes = outcomes if len(outcomes) == len(batch) else [(None, broken)] * len(batch)
            for waiting, outcome in zip(batch, outcomes, strict=True):
                _settle(waiting.future, *outcome)

    def _attempt(self, connection: Connection, waiting: _Waiting[Any], *, alone: bool) -> _Outcome:
        if alone:  # no neighbour to protect: no savepoint, its error rolls the transaction back
            return waiting.work(connection), None
        try:
            with translated(self.location), connection.begin_nested():
                return waiting.work(connection), None
        except LangmemAdapterError as error:
            return None, error

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._writes.begin() as connection:
            if self.dialect == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _WRITE_LOCK})
            yield connection

    @contextmanager
    def _lone(self) -> Iterator[None]:
        """In memory there is one connection for everybody: one thread at a time."""
        if self.path is None and self.dialect == "sqlite":
            with self._memory_lock:
                yield
        else:
            yield

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StorageError("this memory is closed; open it again")
        if os.getpid() != self._process:
            raise StorageError("this memory was opened before the process forked; open it again in the child process")

    def _refuse(self) -> None:
        self._refuse_closed()
        # Otherwise SQLite goes on writing into a file that nobody can open any more.
        if self._file is not None and self.path is not None and self._file != _identity(self.path):
            raise StorageError(
                f"{self.location}: the file was removed or replaced after it was opened here; open it again, and restore "
                "backups into the file itself (sqlite3 FILE '.restore BACKUP'), which running programs follow"
            )

    # ── the engine ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _create(self, url: URL) -> Engine:
        self._memory_lock = threading.RLock()
        if url.get_backend_name() not in {"sqlite", "postgresql"}:
            raise InvalidInputError(f"{url.get_backend_name()} is not supported; use SQLite or postgresql+psycopg://…")
        try:
            if url.get_backend_name() == "sqlite":
                return self._create_sqlite(url)
            return create_engine(url, pool_pre_ping=True)
        except (ModuleNotFoundError, NoSuchModuleError) as error:
            raise MissingDependencyError(f"the driver of {url.drivername}", extra="postgres") from error
        except (ArgumentError, ValueError):  # its text may quote any part of the URL
            raise InvalidInputError(_UNREADABLE) from None

    def _create_sqlite(self, url: URL) -> Engine:
        arguments = {"timeout": self._busy_timeout, "check_same_thread": False}
        if _in_memory(url):
            engine = create_engine(url, connect_args=arguments, poolclass=StaticPool)
        else:
            _make_folder(Path(str(url.database)).parent)
            engine = create_engine(url, connect_args=arguments, pool_size=16, max_overflow=64)
        event.listen(engine, "connect", partial(_on_connect, self._busy_timeout))
        event.listen(engine, "connect", self._note_file)
        event.listen(engine, "begin", _on_begin)
        return engine

    def _note_file(self, *_: object) -> None:
        if self._file is None and self.path is not None:
            self._file = _identity(self.path)


_UNREADABLE: Final = (
    "not a database URL; write it like sqlite:///folder/memory.db or postgresql+psycopg://user:password@host:5432/name, "
    f"{ENCODED}"
)
# Where half a password would be taken for something else: SQLAlchemy sees another @ behind the password, or a query in it.
_AMBIGUOUS: Final = re.compile(r"[\w+]+://(?:(?>[^:/]*(?::[^@]*)?@).*@|[^:/]*:[^@]*\?[^@]*=[^@]*@)", re.DOTALL)


def _outcome(future: Future[Any]) -> Any:
    try:
        return future.result()
    except LangmemAdapterError as error:
        return error


def _settle(future: Future[Any], result: Any, error: LangmemAdapterError | None) -> None:
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _as_url(where: str | Path | URL) -> URL:
    url = where if isinstance(where, URL) else _read(str(where))
    if url.get_backend_name() != "sqlite":
        for part in (url.username, url.password, url.host, url.database, *chain(*url.normalized_query.values())):
            check_text(str(part), "the database URL")  # libpq drops what follows a NUL, errors quote what is no UTF-8
    return url


def _read(name: str) -> URL:
    if not name.strip():
        raise InvalidInputError("the database's name is blank; give a path, ':memory:' or an SQLAlchemy URL")
    if "://" not in name:
        return URL.create("sqlite", database=name if name == ":memory:" else str(Path(name).expanduser()))
    try:
        url = make_url(name)
    except (ArgumentError, ValueError):  # a port that is no number; its text quotes what stands there
        raise InvalidInputError(_UNREADABLE) from None
    if _AMBIGUOUS.match(name) and url.get_backend_name() != "sqlite":
        raise InvalidInputError(_UNREADABLE)
    return url.set(drivername="postgresql+psycopg") if url.drivername in {"postgres", "postgresql"} else url


def _in_memory(url: URL) -> bool:
    return not url.database or url.database == ":memory:" or "mode=memory" in url.database


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the folder {folder}: {error.strerror}") from error


_PAUSE: Final = 0.02


def _on_connect(patience: float, connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver's own transaction handling is switched off: it begins too late and commits around DDL.
    connection.isolation_level = None
    cursor = connection.cursor()
    _to_wal(cursor, time.monotonic() + patience)
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _to_wal(cursor: DBAPICursor, end: float) -> None:
    # SQLite does not wait here: while another process recovers the log of a killed one, or closes it, this fails at once.
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _on_begin(connection: Connection) -> None:
    cursor = connection.connection.cursor()
    cursor.execute(f"BEGIN {connection.get_execution_options().get('sqlite_begin', 'DEFERRED')}")
    cursor.close()


_HINTS: Final = {
    "database is locked": "another process holds the write lock; raise the setting busy_timeout or look who it is",
    "database or disk is full": "free some space; nothing was written",
    "readonly database": "the file or its folder is not writable for this user; SQLite needs both",
    "unable to open database file": "the folder does not exist or may not be entered by this user",
    "file is not a database": "this file is no SQLite database; give another path",
    "disk image is malformed": "the file is damaged; restore a backup",
    # The write stands in the WAL and was not synced: a process that opens the file after a crash takes it for committed.
    "disk I/O error": "the disk failed; should the process die before its next write, this one may still come true: look first",
}

_TRANSIENT: Final = ("database is locked", "deadlock detected", "could not serialize", "server closed the connection")


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Turn the driver's errors into `StorageError`s that say what to do; our own errors pass unchanged."""
    try:
        yield
    except DBAPIError as error:
        raise _storage_error(location, str(error.orig), lost=error.connection_invalidated) from error
    except sqlite3.Error as error:
        raise _storage_error(location, str(error)) from error
    except SQLAlchemyError as error:
        raise _storage_error(location, str(error)) from error


def _storage_error(location: str, message: str, *, lost: bool = False) -> StorageError:
    hint = next((hint for sign, hint in _HINTS.items() if sign in message), None)
    transient = lost or any(sign in message for sign in _TRANSIENT)
    told = cleaned(message.strip())
    return StorageError(f"{location}: {told}{f' ({hint})' if hint else ''}", transient=transient)
