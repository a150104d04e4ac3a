"""The database: engine, read and write transactions, group commit.

Reads run in separate deferred transactions, so a reader never waits for a writer (WAL). Writes wait in a queue, and the
first that finds it free commits for all of them (DeWitt et al. 1984): a hundred waiting writers share one transaction, with a
savepoint each, so that each still gets its own result or its own error.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeAlias, TypeVar
from weakref import WeakSet

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, MissingDependencyError, StorageError
from langmem_adapter.forks import cached_property
from langmem_adapter.records.checks import redact_url
from langmem_adapter.settings import PrepareThreshold
from langmem_adapter.storage import sqlite
from langmem_adapter.storage.drivers import LOCK_TIMEOUT, UNREADABLE, path_of, translated, url_of
from langmem_adapter.storage.queries import driver_cursor
from langmem_adapter.twins import Outcome, attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy.engine.interfaces import DBAPIConnection

P = ParamSpec("P")
T = TypeVar("T")
OpenConnection: TypeAlias = "Callable[[], AbstractContextManager[Connection]]"

# Contract: every writer on Postgres takes this advisory lock before it draws a change number, so that numbers are committed in
# their order and no follower of the feed passes over one. `test_write_makes_no_change_visible_after_a_later_one`
_WRITE_LOCK: Final = 0x6C616E676D656D  # "langmem"
_SET_SESSION: Final = "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'; SET LOCAL client_encoding = 'UTF8'"
_PAUSE: Final = 0.05
_NOT_PREPARED: Final = {"psycopg": {"prepare": False}}
_READ_COMMITTED: Final = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"  # else the lock would come after the snapshot
# Of libpq: how long it waits for a server that the network does not lead to any more. Left alone it is a quarter of an hour
# for what was sent and two hours for an answer. https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
_TIMEOUTS: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_THRESHOLD: Final = TypeAdapter[int | None](PrepareThreshold)
# What `search` keeps of a scope is made of: the changes, and the language of its words (`storage.meta`).
_VERSION: Final = text("SELECT coalesce(max(seq), 0), (SELECT value FROM meta WHERE key = 'language') FROM changes")


# ── group commit ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_MAX_BATCH: Final = 512
_UNKNOWN: Final = (
    "this write was interrupted, and may be in the database or not; check, or repeat it with the same "
    "idempotency_key, which writes nothing twice"
)


@dataclass(slots=True, eq=False)
class _QueuedWrite(Generic[T]):
    work: Callable[[Connection], T]
    future: Future[T] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)

    @property
    def is_pending(self) -> bool:
        return not (self.future.done() or self.future.running())

    def begin(self) -> bool:
        return self.is_pending and self.future.set_running_or_notify_cancel()

    def end(self, outcome: Outcome[T]) -> None:
        if self.future.running():
            outcome.settle(self.future)


class GroupCommit:
    """The queue of one database.

    Sync callers flush on the calling thread; async callers let a thread of the queue flush, and await their future. A write
    waits *patience* seconds for other processes, from when it was queued.
    """

    def __init__(
        self, location: str, transaction: Callable[[float], AbstractContextManager[Connection]], patience: float
    ) -> None:
        self.commits = 0
        self._patience: Final = patience
        self._location: Final = location
        self._transaction: Final = transaction
        self._queue: deque[_QueuedWrite[Any]] = deque()
        self._flushing = threading.Lock()
        self._thread_lock = threading.Lock()
        self._has_thread = False

    def enqueue(self, work: Callable[[Connection], T]) -> Future[T]:
        queued = _QueuedWrite(work)
        self._queue.append(queued)
        return queued.future

    def wait(self, futures: list[Future[T]]) -> list[Future[T]]:
        """Return the futures of `enqueue` once each is done."""
        try:
            for future in futures:
                while not future.done():
                    self._flush()
        finally:  # a caller that is interrupted before its turn writes nothing
            for future in futures:
                future.cancel()
        return futures

    def finish(self) -> None:
        """Commit what waits, except what is under way."""
        # Contract: a write under way is not waited for, since it may wait for this.
        # `test_write_is_acknowledged_where_close_comes_meanwhile`
        while any(queued.is_pending for queued in self._queue.copy()):
            self._flush()

    def flush_in_thread(self) -> None:
        """Flush on a thread of the queue's own, unless one is running."""
        # Contract: the commit that a task waits for needs no thread of others: the executor of a loop may be gone, full or
        # shut down. `test_awrite_returns_where_the_loop_has_no_executor`
        try:
            with self._thread_lock:
                if not self._has_thread:  # it looks into the queue once more when it is done
                    threading.Thread(target=self._flush_all, name="langmem-adapter writes").start()
                    self._has_thread = True
        except RuntimeError:  # no thread can start: too many of them, or the interpreter ends
            self._flush_all()

    def _flush_all(self) -> None:
        try:
            while self._queue:
                self._flush()
        finally:
            # Contract: an interrupt ends its batch alone. `test_write_interrupted_anywhere_leaves_no_caller_waiting`
            with self._thread_lock:
                self._has_thread = False
            if self._queue:
                self.flush_in_thread()

    def _flush(self) -> None:
        # Contract: an interrupt may come between any two steps, and no caller waits for ever: each write leaves the queue with
        # an outcome, and none is begun twice. `test_write_interrupted_anywhere_leaves_no_caller_waiting`
        with self._flushing:
            batch = [self._queue[place] for place in range(min(len(self._queue), _MAX_BATCH))]
            try:
                self._commit([queued for queued in batch if queued.begin()])
            finally:
                for queued in batch:
                    queued.end(Outcome(None, StorageError(f"{self._location}: {_UNKNOWN}")))
                while self._queue and self._queue[0].future.done():
                    self._queue.popleft()

    def _commit(self, batch: list[_QueuedWrite[Any]]) -> None:
        # Contract: nothing is acknowledged before its commit has returned. `test_awrite_acknowledges_only_what_is_committed`
        if not batch:
            return
        outcomes: list[Outcome[Any]] = []
        error = attempt(self._commit_all, batch, outcomes).error
        # Contract: a write waits for locks of other processes until `busy_timeout` after it was queued, however often it is
        # tried: those queued later go on waiting. `test_busy_timeout_is_one_deadline`
        while isinstance(error, StorageError) and error.waited and not outcomes and batch:
            expired = sum(queued.since + self._patience <= time.monotonic() for queued in batch) or 1
            for queued in batch[:expired]:
                queued.end(Outcome(None, error))
            batch = batch[expired:]
            error = attempt(self._commit_all, batch, outcomes).error if batch else error
        if error is None:
            self.commits += 1
        elif not isinstance(error, Exception):  # an interrupt is the caller's own
            raise error
        else:
            if outcomes and (not isinstance(error, LangmemAdapterError) or getattr(error, "transient", False)):
                unknown, is_storage = f"{self._location}: {_UNKNOWN} ({error!r})", isinstance(error, StorageError)
                cause, error = error, StorageError(unknown, transient=is_storage, brief=_UNKNOWN)
                error.__cause__ = cause
            outcomes = [Outcome(None, error)] * len(batch)
        for queued, outcome in zip(batch, outcomes, strict=True):
            queued.end(outcome)

    def _commit_all(self, batch: list[_QueuedWrite[Any]], outcomes: list[Outcome[Any]]) -> None:
        wait = max(0.0, batch[0].since + self._patience - time.monotonic())
        with self._transaction(wait) as connection:
            # Contract: of writers that share a commit each has its own savepoint; one that is alone needs none, its error rolls
            # the transaction back. `test_write_each_undoes_a_failed_write_alone`
            if len(batch) == 1:
                outcomes.append(Outcome(batch[0].work(connection)))
            else:
                outcomes += [self._run_in_savepoint(connection, queued.work) for queued in batch]

    def _run_in_savepoint(self, connection: Connection, work: Callable[[Connection], T]) -> Outcome[T]:
        savepoint = connection.begin_nested()
        outcome = attempt(translated(self._location)(work), connection)
        if outcome.error is None:
            savepoint.commit()
        elif isinstance(outcome.error, Exception):
            if lost := attempt(savepoint.rollback).error:  # the whole transaction was ended: by SQLite, on a full disk
                raise outcome.error if isinstance(lost, Exception) and isinstance(outcome.error, StorageError) else lost
        else:
            raise outcome.error
        return outcome


# ── the database ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Database:
    """One SQL database: SQLite (embedded, the default) or Postgres. The options are those of `Settings`."""

    def __init__(
        self,
        where: str | Path | URL | Engine,
        *,
        busy_timeout: float = 30.0,
        prepare_threshold: int | None = 5,
        **pool: float,
    ) -> None:
        self._busy_timeout = busy_timeout
        self._memory_lock = threading.RLock()
        url = url_of(where)
        self._engine = where if isinstance(where, Engine) else self._create_engine(url, prepare_threshold, pool)
        self._reads = self._engine.execution_options(sqlite_begin="DEFERRED")
        self._writes = self._engine.execution_options(sqlite_begin="IMMEDIATE")
        self._writers = GroupCommit(self.location, self._write_transaction, busy_timeout)
        self._poll: sqlite.FileConnection | None = None
        self._polls = 0
        self._polling = threading.Lock()
        self._process = os.getpid()
        self.closed = False
        self._file: sqlite.Identity = None  # which file lies at the path, as it was first used
        self._loss = ""
        _OPEN.add(self)

    @property
    def dialect(self) -> str:
        return self._engine.dialect.name

    @cached_property
    def path(self) -> Path | None:
        """The SQLite file; `None` in memory and on a server."""
        return path_of(self._engine.url)

    @cached_property
    def location(self) -> str:
        """Where the data lies, without any password."""
        url = self._engine.url
        return url.database if url.database == ":memory:" else str(self.path or redact_url(str(url)))

    @property
    def commits(self) -> int:
        """The number of commits: fewer than writes, where those shared some."""
        return self._writers.commits

    @property
    def inherited(self) -> bool:
        """Whether this process was forked from the one that opened the database; then it cannot be used here."""
        return os.getpid() != self._process

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A read transaction: all of it sees one state of the database."""
        self._refuse()
        with translated(self.location), self._hold(), self._reads.begin() as connection:
            self._begin(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._refuse_loss(connection.connection.dbapi_connection)
            yield connection

    def fetch(self, read: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a storage function with a read transaction."""
        with self.read() as connection:
            return read(connection, *args, **kwargs)

    @contextmanager
    def reading(self) -> Iterator[Callable[[], Connection]]:
        """A read transaction that begins with the first call of the function."""
        with ExitStack() as stack:
            yield cache(lambda: stack.enter_context(self.read()))

    def version(self) -> Hashable:
        """A token that changes with every commit of any process: cheap enough for every search.

        SQLite: `PRAGMA data_version` on a separate raw connection (through the pool it costs ten times as much).
        """
        self._refuse()
        if self.dialect != "sqlite":
            with self.read() as connection:
                return tuple(connection.execute(_VERSION).one())
        if self.path is None:
            return self.commits
        with translated(self.location), self._polling:
            # Contract: a call that `close` overtakes leaves no connection open: here it opens none, and what the pool opens is
            # closed with its transaction (`_hold`). `test_close_during_a_call_leaves_no_connection_open`
            self._refuse_closed()
            if self._poll is None or not self._poll.take():
                self._poll = sqlite.open_wal(self.path, timeout=self._busy_timeout)
                self._polls += 1
            try:
                self._refuse_loss(self._poll)
                # Contract: the number is of this connection alone; another one may show the same though something was written
                # between them. So the number of the connection goes with it. `test_the_parent_goes_on_where_it_was`
                return self._polls, self._poll.execute("PRAGMA data_version").fetchone()[0]
            finally:
                self._poll.give_back()

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run *work* in a write transaction and return its result once that is committed.

        It must not commit, and may run on another thread than the caller's. If it raises, only its own changes are undone. Of
        a `StorageError` nothing is kept, unless the message says that this is unknown.
        """
        return self._writers.wait([self._enqueue(work)])[0].result()

    async def awrite(self, work: Callable[[Connection], T]) -> T:
        """The async twin of `write`: waiting tasks share one commit, a task cancelled before its turn writes nothing."""
        future = self._enqueue(work)
        # Contract: soon, not at once: other tasks that are ready queue first. `test_awrite_acknowledges_only_what_is_committed`
        asyncio.get_running_loop().call_soon(self._writers.flush_in_thread)
        return await asyncio.wrap_future(future)

    def write_each(self, works: Sequence[Callable[[Connection], T]]) -> list[T | LangmemAdapterError]:
        """Run several writes, which share a commit; each ends with its own result or its own error."""
        outcomes = [attempt(future.result) for future in self._writers.wait([self._enqueue(work) for work in works])]
        return [each.error if isinstance(each.error, LangmemAdapterError) else each.unwrap() for each in outcomes]

    @contextmanager
    def derived(self, lock: int) -> Iterator[Connection]:
        """A transaction on Postgres for derived data; it and writers do not wait for each other.

        It takes an advisory lock first, so that one process at a time does this work, and sees what was committed before each
        of its statements, above all by the process that had the lock before.
        """
        self._refuse()
        with translated(self.location), self._engine.begin() as connection:
            self._begin(connection, f"{_READ_COMMITTED}; SELECT pg_advisory_xact_lock({lock:d})")
            yield connection

    def setup(self, work: Callable[[Connection], T]) -> T:
        """Run *work* in a write transaction before the tables exist (migrations)."""
        with self._write_transaction() as connection:
            return work(connection)

    def maintain(self, statement: str, *, timeout: float | None = None) -> list[tuple[Any, ...]]:
        """Run a statement that SQLite does not accept in a transaction, and return its rows; none in memory and on a server.

        It waits *timeout* seconds for other connections, by default `busy_timeout`.
        """
        if self.path is None:
            return []
        with self.own_connection() as connection:
            if timeout is not None:
                connection.execute(f"PRAGMA busy_timeout={int(timeout * 1000)}")
            return connection.execute(statement).fetchall()

    @contextmanager
    def own_connection(self) -> Iterator[sqlite.FileConnection]:
        """A connection of the driver to an SQLite file, outside the pool and outside any transaction."""
        self._refuse()
        if self.path is None:
            raise InvalidInputError(f"{self.location} is no SQLite file: open a database by its path")
        with translated(self.location), closing(sqlite.open_wal(self.path, timeout=self._busy_timeout)) as connection:
            yield connection
            self._refuse_replaced()
            self._refuse_loss(connection)

    def vacuum(self, table: str) -> None:
        """Vacuum a table on Postgres, once nothing else changes it; a `StorageError` says why it was not."""
        # Contract: nothing is set for a session, which a pooler shares; so the server does not wait for the lock, and a warning
        # says that it did not vacuum. `test_purge_vacuums_behind_a_pooler_and_sets_nothing`
        end, statement = time.monotonic() + self._busy_timeout, f'VACUUM (SKIP_LOCKED) "{table}"'
        self._refuse()
        with translated(self.location), self._engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            warnings: list[tuple[str | None, str | None]] = []
            driver: Any = connection.connection.dbapi_connection
            driver.add_notice_handler(note := lambda notice: warnings.append((notice.sqlstate, notice.message_primary)))
            try:
                connection.exec_driver_sql(statement)
                while warnings and warnings[-1][0] == LOCK_TIMEOUT and time.monotonic() < end:
                    warnings.clear()
                    time.sleep(_PAUSE)
                    connection.exec_driver_sql(statement)
            finally:
                driver.remove_notice_handler(note)
        if warnings:
            raise StorageError(f"{self.location}: {warnings[-1][1]}", transient=True)

    def close(self) -> None:
        """Commit what waits and close every connection; the object cannot be used afterwards.

        In a forked child nothing is done: the connections belong to the parent.
        """
        if self.inherited:
            return
        try:
            self._writers.finish()
        finally:
            with self._polling:
                self.closed = True
                if self._poll is not None:
                    self._poll.close()
                    self._poll = None
            # Contract: the one connection of a database in memory is not closed while another thread reads on it, which would
            # crash the interpreter; later readers are refused. test_close_in_memory_waits_for_a_reader.
            with self._memory_lock:
                self._engine.dispose()

    def _enqueue(self, work: Callable[[Connection], T]) -> Future[T]:
        self._refuse_closed()  # on an event loop, which may not touch the disk; the commit looks at the file
        return self._writers.enqueue(work)

    @contextmanager
    def _write_transaction(self, wait: float | None = None) -> Iterator[Connection]:
        with translated(self.location), self._hold(), self._writes.connect() as connection:
            used = connection.connection.dbapi_connection
            if self.path is not None:
                connection.execution_options(sqlite_waits=(self._lock_timeout(wait), self._lock_timeout()))
            with connection.begin():
                self._begin(connection, f"{_READ_COMMITTED}; SELECT pg_advisory_xact_lock({_WRITE_LOCK})", wait)
                # Contract: a writer without its -shm would overwrite what others committed. So the check comes before the
                # commit, and before a large transaction spills. `test_add_is_refused_once_the_shm_is_gone`
                self._refuse_loss(used, writes=True)
                yield connection
                self._refuse_loss(used)
                if self.path is not None:
                    sqlite.refuse_links(self.path)
            # Contract: nothing is acknowledged that was written into a file, or a log, which is no longer at its path. This is
            # checked while the connection is in use: later a fork or `close` may end it, and the log with it. A `close` that
            # comes meanwhile is no error of a write that is kept. tests/faults/test_crash.py and
            # `test_write_is_refused_into_a_file_that_was_replaced` and those beside it.
            self._refuse_replaced()
            self._refuse_loss(used)

    def _begin(self, connection: Connection, order: str, wait: float | None = None) -> None:
        # Contract: whatever server, user, environment or pool set for a session, a transaction reads dates and texts in one way
        # and waits for `busy_timeout`. LOCAL, since a caller's Engine keeps its sessions as they are, and a pooler shares them.
        # `test_memory_ignores_settings_of_the_server`
        if self.dialect == "postgresql":
            if getattr(connection.connection.dbapi_connection, "autocommit", False):
                raise InvalidInputError("this Engine commits each statement by itself: create it without AUTOCOMMIT")
            sql = f"{_SET_SESSION}; SET LOCAL lock_timeout = {self._lock_timeout(wait)}; {order}"
            with driver_cursor(connection, sql) as cursor:  # not prepared: several statements in one cannot be
                cursor.execute(sql, **_NOT_PREPARED.get(self._engine.driver, {}))

    def _lock_timeout(self, seconds: float | None = None) -> int:
        """Milliseconds, as Postgres takes them: 0 is no end, and a month the maximum."""
        seconds = self._busy_timeout if seconds is None else seconds
        return 0 if math.isinf(seconds) else max(1, int(min(seconds, sqlite.LONGEST) * 1000))

    @contextmanager
    def _hold(self) -> Iterator[None]:
        """In memory all threads share one connection: one thread at a time. Elsewhere `close` may come before the end."""
        if self.path is None and self.dialect == "sqlite":
            with self._memory_lock:
                self._refuse_closed()
                yield
            return
        pool = self._engine.pool  # `dispose` makes a new one, and a connection in use comes back into the old one
        try:
            yield
        finally:
            if self.closed:
                pool.dispose()
                self._engine.dispose()

    def _refuse_closed(self) -> None:
        if self.closed:
            raise StorageError("this memory is closed: open it again")
        self.refuse_inherited()
        if self._loss:
            raise StorageError(self._loss)

    def refuse_inherited(self) -> None:
        """Raise a `StorageError` in a process that was forked from the one which opened it."""
        if self.inherited:
            raise StorageError(
                "this memory was opened before the process forked, and works only in the process that opened it; open a "
                "new one in each child, after the fork (gunicorn: post_fork; multiprocessing: the initializer)"
            )

    def _refuse_loss(self, used: object, *, writes: bool = False) -> None:
        if isinstance(used, sqlite.FileConnection) and (loss := used.loss(writes=writes)):
            self._loss = loss
            raise StorageError(loss)

    def _refuse(self) -> None:
        self._refuse_closed()
        self._refuse_replaced()

    def _refuse_replaced(self) -> None:
        # Otherwise SQLite goes on writing into a file that no process can open.
        if self._file is not None and self.path is not None and self._file != sqlite.identity(self.path):
            raise StorageError(
                f"{self.location}: the file was removed or replaced after it was opened here; open it again, and restore "
                "backups into the file itself (langmem-adapter copy BACKUP FILE --replace), which running programs follow"
            )

    def _create_engine(self, url: URL, threshold: int | None, pool: Mapping[str, Any]) -> Engine:
        if url.get_backend_name() == "sqlite":
            if (path := path_of(url)) is not None:
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise StorageError(f"cannot make the folder {path.parent}: {error.strerror}") from error
            engine = sqlite.create(url, path, timeout=self._busy_timeout)
            event.listen(engine, "connect", self._note_file)
            return engine
        arguments, url = _arguments(url, threshold), url.difference_update_query(["prepare_threshold"])
        try:
            return create_engine(url, pool_pre_ping=True, hide_parameters=True, connect_args=arguments, **pool)
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


def _arguments(url: URL, threshold: int | None) -> dict[str, int | str | None]:
    """What the driver gets beside a URL, which comes first; another driver has other names for it."""
    # Of a database in SQL_ASCII the driver gives bytes for texts, unless it asks for an encoding.
    waits = {name: value for name, value in (_TIMEOUTS | {"client_encoding": "utf8"}).items() if name not in url.query}
    if not url.drivername.endswith("+psycopg"):
        return {**waits} if url.drivername.endswith("+psycopg2") else {}
    try:
        return {**waits, "prepare_threshold": _THRESHOLD.validate_python(url.query.get("prepare_threshold", threshold))}
    except ValidationError:
        raise InvalidInputError("prepare_threshold in the database URL is a number from 0, or None") from None


# ── forks ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

_OPEN: Final[WeakSet[Database]] = WeakSet()


def _in_child() -> None:
    for database in list(_OPEN):
        database.forget_connections()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
