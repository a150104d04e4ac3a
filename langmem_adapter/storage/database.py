"""The database: engine, transactions, group commit, error translation.

Reads run in deferred transactions of their own, so a reader never waits for a writer (WAL). Writes are queued: whoever
finds the write lock free commits everything that is waiting, in one transaction with a savepoint each, so that a hundred
waiting writers share one commit and each still gets its own result or its own error (group commit, as in every serious
database since DeWitt et al. 1984). Sync callers flush on their own thread; async callers let a thread of the database's
flush and await their future: one truth for both.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar
from weakref import WeakSet

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from langmem_adapter.addresses import shown
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, MissingDependencyError, StorageError
from langmem_adapter.forks import cached_property
from langmem_adapter.storage import sqlite
from langmem_adapter.storage.driver_errors import translated
from langmem_adapter.storage.urls import UNREADABLE, path_of, url_of
from langmem_adapter.twins import Outcome, attempt

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from sqlalchemy.engine.interfaces import DBAPIConnection

    from langmem_adapter.storage.prepared_statements import Prepared

__all__ = ["Database", "ReadSession"]

T = TypeVar("T")

# Contract: every writer on Postgres takes this advisory lock before it draws a change number, so that numbers are committed in
# their order and no follower of the feed passes over one. `test_no_change_becomes_visible_after_a_later_one`
_WRITE_LOCK: Final = 0x6C616E676D656D  # "langmem"
_SESSION: Final = "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'; SET LOCAL client_encoding = 'UTF8'"
_COMMITTED: Final = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"  # else the lock would come after the snapshot
_MOST_PER_COMMIT: Final = 512
# Of libpq: how long it waits for a server that the network does not lead to any more. Left alone it is a quarter of an hour
# for what was sent and two hours for an answer. https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
_PATIENCE: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_UNKNOWN: Final = (
    "broken off, and it is not known whether it was written; look, or repeat it with the same idempotency_key, which writes "
    "nothing twice"
)
# What a shelf of `search` is made of: the changes, and the language of its words (`storage.meta`).
_VERSION: Final = text("SELECT coalesce(max(seq), 0), (SELECT value FROM meta WHERE key = 'language') FROM changes")


@dataclass(slots=True, eq=False)
class _Waiting(Generic[T]):
    """One piece of writing, and who waits for it."""

    work: Callable[[Connection], T]
    future: Future[T] = field(default_factory=Future)

    @property
    def fresh(self) -> bool:
        """Whether it was neither begun nor given up."""
        return not (self.future.done() or self.future.running())

    def begins(self) -> bool:
        """Whether it is to be done now."""
        return self.fresh and self.future.set_running_or_notify_cancel()

    def end(self, outcome: Outcome[T]) -> None:
        """Tell who waits; who has an end keeps it."""
        if not self.future.running():
            return
        if outcome.error is None:
            self.future.set_result(outcome.result)
        else:
            self.future.set_exception(outcome.error)


class ReadSession:
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

    Attributes:
        commits: How many there were of what was queued: fewer than writes, where those shared some.

    Args:
        where: A path (SQLite), `":memory:"`, an SQLAlchemy URL, or an `Engine` (Postgres; for SQLite give its path, since
            the driver must be set up our way).
        busy_timeout: Seconds to wait for another process's write; `inf` waits without an end.

    Raises:
        InvalidInputError: *where* is not understood or names a database that is not supported.
        MissingDependencyError: The driver is not installed.
        StorageError: The database cannot be opened; the message says why.
    """

    def __init__(self, where: str | Path | URL | Engine, *, busy_timeout: float = 30.0) -> None:
        self._busy_timeout = busy_timeout
        self._memory_lock = threading.RLock()
        self._engine = where if isinstance(where, Engine) else self._create(url_of(where))
        if isinstance(where, Engine) and url_of(where.url).get_backend_name() == "sqlite":
            raise InvalidInputError("an Engine is taken for Postgres only; for SQLite give its path or URL")
        self._reads = self._engine.execution_options(sqlite_begin="DEFERRED")
        self._writes = self._engine.execution_options(sqlite_begin="IMMEDIATE")
        self._queue: deque[_Waiting[Any]] = deque()
        self._flushing = threading.Lock()
        self._beside = threading.Lock()
        self._has_thread = False
        self.commits = 0
        self._poll: sqlite.FileConnection | None = None
        self._polls = 0
        self._polling = threading.Lock()
        self._process = os.getpid()
        self._closed = False
        self._file: sqlite.Identity = None  # which file lies at the path, as it was first used
        self._log_lost = False
        _OPEN.add(self)

    # ── what it is ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def dialect(self) -> str:
        """`"sqlite"` or `"postgresql"`."""
        return self._engine.dialect.name

    @cached_property
    def path(self) -> Path | None:
        """The SQLite file; `None` in memory and on a server."""
        return path_of(self._engine.url)

    @cached_property
    def location(self) -> str:
        """Where the data lies, without any password."""
        url = self._engine.url
        return url.database if url.database == ":memory:" else str(self.path or shown(str(url)))

    @property
    def inherited(self) -> bool:
        """Whether this process was forked from the one that opened it, so that it is of no use here."""
        return os.getpid() != self._process

    @property
    def closed(self) -> bool:
        """Whether somebody has closed it."""
        return self._closed

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A read transaction: all of it sees one state of the database.

        Raises:
            StorageError: The database failed.
        """
        self._refuse()
        with translated(self.location), self._lone(), self._reads.begin() as connection:
            self._begin(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection

    def reading(self) -> ReadSession:
        """A reader that begins its transaction when it is first needed: what reads one statement alone needs none."""
        return ReadSession(self)

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
        with self._raw(self.path) as connection:
            return statement.rows_on(connection, self._engine.dialect, values)

    def version(self) -> Hashable:
        """A token that changes whenever anybody, in any process, commits anything: cheap enough for every search.

        SQLite: `PRAGMA data_version` on a raw connection of its own (through the pool it costs ten times as much).
        """
        self._refuse()
        if self.path is None and self.dialect == "sqlite":
            return self.commits
        if self.path is None:
            with self.read() as connection:
                return tuple(connection.execute(_VERSION).one())
        with self._raw(self.path) as connection:
            # Contract: the number is of this connection alone, another one may show the same though something was written
            # between them; so the connection's own number goes with it. `test_the_version_changes_with_every_commit_of_anybody`
            return self._polls, connection.execute("PRAGMA data_version").fetchone()[0]

    @contextmanager
    def _raw(self, path: Path) -> Iterator[sqlite3.Connection]:
        with translated(self.location), self._polling:
            # Contract: who asked before `close` leaves no connection open after it: here it opens none, and what the pool
            # opens is closed with its transaction (`_lone`). `test_who_is_overtaken_by_close_leaves_nothing_open`
            self._refuse_closed()
            if self._poll is None or not self._poll.take():
                self._poll = sqlite.open_wal(path, timeout=self._busy_timeout)
                self._polls += 1
            try:
                yield self._poll
            finally:
                self._poll.give_back()

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run *work* in a write transaction and return its result once that is committed.

        Args:
            work: Gets the connection, must not commit, and may run on another thread than the caller's. If it raises, only
                its own changes are undone.

        Raises:
            StorageError: The database refused or failed; nothing of *work* is kept, unless the message says that this is
                not known.
        """
        return self._ended([self._enqueue(work)])[0].result()

    async def awrite(self, work: Callable[[Connection], T]) -> T:
        """The async twin of `write`: waiting tasks share one commit, a task cancelled before its turn writes nothing."""
        future = self._enqueue(work)
        # Contract: soon, not at once: whoever is ready may queue first.
        # `test_waiting_tasks_share_one_commit_and_keep_their_own_errors`
        asyncio.get_running_loop().call_soon(self._flush_beside)
        return await asyncio.wrap_future(future)

    def write_each(self, works: Sequence[Callable[[Connection], T]]) -> list[T | LangmemAdapterError]:
        """Run several pieces of writing, which share a commit; each ends with its own result or its own error."""
        return [_outcome(future) for future in self._ended([self._enqueue(work) for work in works])]

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
            self._begin(connection, f"{_COMMITTED}; SELECT pg_advisory_xact_lock({lock:d})")
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
                with closing(sqlite.open_file(self.path, timeout=wait)) as lone:
                    return lone.execute(statement).fetchall()
            if self.dialect == "sqlite":
                return []
            with self._engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                connection.exec_driver_sql(f"SET lock_timeout = {self._lock_timeout}")
                try:
                    found = connection.exec_driver_sql(statement)
                    return [tuple(row) for row in found] if found.returns_rows else []
                finally:
                    connection.exec_driver_sql("RESET lock_timeout")

    def close(self) -> None:
        """Finish what waits and close every connection; the object is of no use afterwards.

        In a process that was forked from the one which opened it, nothing is done: all of it belongs to the parent.
        """
        if self.inherited:
            return
        try:
            # Contract: a write under way is not waited for, since it may wait for this.
            # `test_a_write_that_is_kept_is_acknowledged_also_where_somebody_closes_meanwhile`
            while any(waiting.fresh for waiting in self._queue.copy()):
                self._flush()
        finally:
            self._close()

    def _close(self) -> None:
        with self._polling:
            self._closed = True
            if self._poll is not None:
                self._poll.close()
                self._poll = None
        # Contract: nobody closes the one connection of a database in memory while another thread reads on it, which crashes the
        # interpreter; who waited for it is refused. Proven by test_a_database_in_memory_is_not_closed_under_a_reader.
        with self._memory_lock:
            self._engine.dispose()

    def _enqueue(self, work: Callable[[Connection], T]) -> Future[T]:
        self._refuse_closed()  # on an event loop, which may not touch the disk; the commit looks at the file
        waiting = _Waiting(work)
        self._queue.append(waiting)
        return waiting.future

    def _ended(self, futures: list[Future[T]]) -> list[Future[T]]:
        try:
            for future in futures:
                while not future.done():
                    self._flush()
        finally:  # who is interrupted before its turn writes nothing
            for future in futures:
                future.cancel()
        return futures

    def _flush(self) -> None:
        # Contract: an interrupt may come between any two steps, and nobody waits for ever: who is in the queue leaves it with
        # an end, and is not begun again where it was begun. `test_an_interrupt_anywhere_leaves_nobody_waiting`
        with self._flushing:
            batch = [self._queue[place] for place in range(min(len(self._queue), _MOST_PER_COMMIT))]
            try:
                self._commit([waiting for waiting in batch if waiting.begins()])
            finally:
                for waiting in batch:
                    waiting.end(Outcome(None, StorageError(f"{self.location}: this write was {_UNKNOWN}")))
                while self._queue and self._queue[0].future.done():
                    self._queue.popleft()

    def _flush_beside(self) -> None:
        # Contract: the commit that a task waits for waits for no thread of others: the executor of a loop may be gone, full or
        # shut down with what it was given. What a task reads before goes there as long as it takes work (`twins.beside`).
        # `test_a_task_gets_its_result_where_the_loop_has_no_executor_any_more`
        try:
            with self._beside:
                if not self._has_thread:  # it looks into the queue once more when it is done
                    threading.Thread(target=self._flush_all, name="langmem-adapter writes").start()
                    self._has_thread = True
        except RuntimeError:  # no thread is to be had: too many of them, or the interpreter ends
            self._flush_all()

    def _flush_all(self) -> None:
        try:
            while self._queue:
                self._flush()
        finally:
            # Contract: an interrupt ends its batch, not the next one's. `test_an_interrupt_anywhere_leaves_nobody_waiting`
            with self._beside:
                self._has_thread = False
            if self._queue:
                self._flush_beside()

    def _commit(self, batch: list[_Waiting[Any]]) -> None:
        # Contract: nothing is acknowledged before its commit has returned. `test_who_is_told_that_it_is_written_finds_it`
        if not batch:
            return
        outcomes: list[Outcome[Any]] = []
        error = attempt(self._commit_all, batch, outcomes).error
        if error is None:
            self.commits += 1
        elif not isinstance(error, Exception):  # an interrupt is the caller's own
            raise error
        else:
            shared = _broken_off(self.location, error) if outcomes else error
            outcomes = [Outcome(None, shared)] * len(batch)
        for waiting, outcome in zip(batch, outcomes, strict=True):
            waiting.end(outcome)

    def _commit_all(self, batch: list[_Waiting[Any]], outcomes: list[Outcome[Any]]) -> None:
        with translated(self.location), self._lone(), self._transaction() as connection:
            outcomes += [self._attempt(connection, waiting, alone=len(batch) == 1) for waiting in batch]

    def _attempt(self, connection: Connection, waiting: _Waiting[Any], *, alone: bool) -> Outcome[Any]:
        # Contract: of writers that share a commit each has its own savepoint; one that is alone needs none, its error rolls the
        # transaction back. `test_a_failed_write_in_a_group_commit_leaves_its_neighbours_alone`
        if alone:
            return Outcome(waiting.work(connection))
        savepoint = connection.begin_nested()
        outcome = attempt(self._translated, waiting.work, connection)
        if outcome.error is None:
            savepoint.commit()
        elif isinstance(outcome.error, Exception):
            savepoint.rollback()
        else:
            raise outcome.error
        return outcome

    def _translated(self, work: Callable[[Connection], T], connection: Connection) -> T:
        with translated(self.location):
            return work(connection)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._writes.connect() as connection:
            with connection.begin():
                self._begin(connection, f"{_COMMITTED}; SELECT pg_advisory_xact_lock({_WRITE_LOCK})")
                yield connection
            # Contract: nothing is acknowledged that was written into a file, or a log, which is no longer at its place. It is
            # looked at while the connection is ours: once given back, a fork or `close` may end it, and the log with it. That
            # somebody closes meanwhile is no error of a write that is kept. Proven by tests/storage/test_sqlite.py and
            # tests/faults/test_crash.py.
            self._refuse_replaced()
            self._refuse_lost_log(connection.connection.dbapi_connection)

    def _begin(self, connection: Connection, order: str) -> None:
        # Contract: whatever server, user, environment or pool decide about a session, a transaction of ours reads dates and
        # texts in one way, and waits as long as we say. LOCAL, since a caller's own Engine keeps its sessions as they are, and
        # behind a pooler no session is ours at all. `test_what_a_server_sets_changes_nothing`
        if self.dialect == "postgresql":
            waits = f"SET LOCAL lock_timeout = {self._lock_timeout}"
            connection.exec_driver_sql(f"{_SESSION}; {waits}; {order}").close()

    @property
    def _lock_timeout(self) -> int:
        """Milliseconds, as Postgres takes them: 0 is no end, and a month the most."""
        return 0 if math.isinf(self._busy_timeout) else max(1, int(min(self._busy_timeout, sqlite.LONGEST) * 1000))

    @contextmanager
    def _lone(self) -> Iterator[None]:
        """In memory there is one connection for everybody: one thread at a time. Elsewhere `close` may come before the end."""
        if self.path is None and self.dialect == "sqlite":
            with self._memory_lock:
                self._refuse_closed()
                yield
            return
        try:
            yield
        finally:
            if self._closed:
                self._engine.dispose()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StorageError("this memory is closed; open it again")
        self.refuse_inherited()
        if self._log_lost:
            raise StorageError(self._lost())

    def refuse_inherited(self) -> None:
        """Refuse to work in a process that was forked from the one which opened it.

        Raises:
            StorageError: This is one.
        """
        if self.inherited:
            raise StorageError(
                "this memory was opened before the process forked, and works only in the process that opened it; open one "
                "of its own in each child, after the fork (gunicorn: post_fork; multiprocessing: the initializer)"
            )

    def _refuse_lost_log(self, used: object) -> None:
        if isinstance(used, sqlite.FileConnection) and self.path is not None:
            lost = used.log != sqlite.identity(self.path.with_name(f"{self.path.name}-wal"))
            self._log_lost = self._log_lost or lost
            if lost:
                raise StorageError(self._lost())

    def _lost(self) -> str:
        return (
            f"{self.location}: its write-ahead log was removed or replaced while it was open here, so the last write may be "
            "lost; close this memory, open it again and look. Never remove or copy over FILE-wal while a program runs"
        )

    def _refuse(self) -> None:
        self._refuse_closed()
        self._refuse_replaced()

    def _refuse_replaced(self) -> None:
        # Otherwise SQLite goes on writing into a file that nobody can open any more.
        if self._file is not None and self.path is not None and self._file != sqlite.identity(self.path):
            raise StorageError(
                f"{self.location}: the file was removed or replaced after it was opened here; open it again, and restore "
                "backups into the file itself (sqlite3 FILE '.restore BACKUP'), which running programs follow"
            )

    # ── the engine ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _create(self, url: URL) -> Engine:
        if url.get_backend_name() == "sqlite":
            path = path_of(url)
            if path is not None:
                _make_folder(path.parent)
            engine = sqlite.create(url, path, timeout=self._busy_timeout)
            event.listen(engine, "connect", self._note_file)
            return engine
        try:
            return create_engine(url, pool_pre_ping=True, connect_args=_patience(url))
        except (ModuleNotFoundError, NoSuchModuleError) as error:
            raise MissingDependencyError(f"the driver of {url.drivername}", extra="postgres") from error
        except (ArgumentError, ValueError):  # its text may quote any part of the URL
            raise InvalidInputError(UNREADABLE) from None

    def _note_file(self, connection: DBAPIConnection, _: object) -> None:
        if isinstance(connection, sqlite.FileConnection):
            self._file = self._file or connection.file

    def forget_connections(self) -> None:
        """In a forked child: leave the parent's connections to a server alone, also where the child uses its `Engine`."""
        if self.dialect == "postgresql":
            self._engine.dispose(close=False)


def _outcome(future: Future[Any]) -> Any:
    try:
        return future.result()
    except LangmemAdapterError as error:
        return error


def _broken_off(location: str, error: Exception) -> Exception:
    """What a commit that failed tells: the database's own word, unless it gave none."""
    if isinstance(error, LangmemAdapterError) and not getattr(error, "transient", False):
        return error
    brief = f"this write was {_UNKNOWN}"
    told = StorageError(f"{location}: {brief} ({error!r})", transient=isinstance(error, StorageError), brief=brief)
    told.__cause__ = error
    return told


def _patience(url: URL) -> dict[str, int]:
    """The same for a URL, whose own word comes first; another driver has other names for it."""
    if not url.drivername.endswith(("+psycopg", "+psycopg2")):
        return {}
    return {name: value for name, value in _PATIENCE.items() if name not in url.query}


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the folder {folder}: {error.strerror}") from error


# ── forks ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

_OPEN: Final[WeakSet[Database]] = WeakSet()


def _in_child() -> None:
    for database in list(_OPEN):
        database.forget_connections()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
