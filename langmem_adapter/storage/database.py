"""The database: engine, transactions, who may use it.

Reads run in deferred transactions of their own, so a reader never waits for a writer (WAL). Writes are queued and share their
commits (`storage.group_commit`).
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
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
from langmem_adapter.storage.group_commit import GroupCommit
from langmem_adapter.storage.prepared_statements import driver_cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from sqlalchemy.engine.interfaces import DBAPIConnection

T = TypeVar("T")
OpenConnection: TypeAlias = "Callable[[], AbstractContextManager[Connection]]"

# Contract: every writer on Postgres takes this advisory lock before it draws a change number, so that numbers are committed in
# their order and no follower of the feed passes over one. `test_no_change_becomes_visible_after_a_later_one`
_WRITE_LOCK: Final = 0x6C616E676D656D  # "langmem"
_SESSION: Final = "SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'; SET LOCAL client_encoding = 'UTF8'"
_PAUSE: Final = 0.05
_UNPREPARED: Final = {"psycopg": {"prepare": False}}
_COMMITTED: Final = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"  # else the lock would come after the snapshot
# Of libpq: how long it waits for a server that the network does not lead to any more. Left alone it is a quarter of an hour
# for what was sent and two hours for an answer. https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
_PATIENCE: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_THRESHOLD: Final = TypeAdapter[int | None](PrepareThreshold)
# What `search` keeps of a scope is made of: the changes, and the language of its words (`storage.meta`).
_VERSION: Final = text("SELECT coalesce(max(seq), 0), (SELECT value FROM meta WHERE key = 'language') FROM changes")


class Database:
    """One SQL database: SQLite (embedded, the default) or Postgres.

    Args:
        where: A path (SQLite), `":memory:"`, an SQLAlchemy URL, or an `Engine` for Postgres.
        busy_timeout: This and the rest as in `Settings`.

    Raises:
        InvalidInputError: *where* names no database that is supported.
        MissingDependencyError: The driver is not installed.
        StorageError: The database cannot be opened.
    """

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
        self._engine = where if isinstance(where, Engine) else self._create(url, prepare_threshold, pool)
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
        return url.database if url.database == ":memory:" else str(self.path or redact_url(str(url)))

    @property
    def commits(self) -> int:
        """How many there were of what was queued: fewer than writes, where those shared some."""
        return self._writers.commits

    @property
    def inherited(self) -> bool:
        """Whether this process was forked from the one that opened it, so that it is of no use here."""
        return os.getpid() != self._process

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
            self._refuse_loss(connection.connection.dbapi_connection)
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Callable[[], Connection]]:
        """The connection of a read transaction that begins when it is first asked for."""
        with ExitStack() as stack:
            yield cache(lambda: stack.enter_context(self.read()))

    def version(self) -> Hashable:
        """A token that changes whenever anybody, in any process, commits anything: cheap enough for every search.

        SQLite: `PRAGMA data_version` on a raw connection of its own (through the pool it costs ten times as much).
        """
        self._refuse()
        if self.path is not None:
            return self._file_version(self.path)
        if self.dialect == "sqlite":
            return self.commits
        with self.read() as connection:
            return tuple(connection.execute(_VERSION).one())

    def _file_version(self, path: Path) -> Hashable:
        with translated(self.location), self._polling:
            # Contract: who asked before `close` leaves no connection open after it: here it opens none, and what the pool
            # opens is closed with its transaction (`_lone`). `test_who_is_overtaken_by_close_leaves_nothing_open`
            self._refuse_closed()
            if self._poll is None or not self._poll.take():
                self._poll = sqlite.open_wal(path, timeout=self._busy_timeout)
                self._polls += 1
            try:
                self._refuse_loss(self._poll)
                # Contract: the number is of this connection alone, another one may show the same though something was written
                # between them; so the connection's own number goes with it.
                # `test_the_parent_goes_on_where_it_was`
                return self._polls, self._poll.execute("PRAGMA data_version").fetchone()[0]
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
        return self._writers.ended([self._enqueue(work)])[0].result()

    async def awrite(self, work: Callable[[Connection], T]) -> T:
        """The async twin of `write`: waiting tasks share one commit, a task cancelled before its turn writes nothing."""
        future = self._enqueue(work)
        # Contract: soon, not at once: whoever is ready may queue first.
        # `test_who_is_told_that_it_is_written_finds_it`
        asyncio.get_running_loop().call_soon(self._writers.flush_beside)
        return await asyncio.wrap_future(future)

    def write_each(self, works: Sequence[Callable[[Connection], T]]) -> list[T | LangmemAdapterError]:
        """Run several pieces of writing, which share a commit; each ends with its own result or its own error."""
        return [_outcome(future) for future in self._writers.ended([self._enqueue(work) for work in works])]

    @contextmanager
    def derived(self, lock: int) -> Iterator[Connection]:
        """A transaction on Postgres for what is derived from the truth; writers do not wait for it, nor it for them.

        It takes an advisory lock first, so that one process at a time does this work, and sees whatever was committed before
        each of its statements: above all by the holder of the lock before.
        """
        self._refuse()
        with translated(self.location), self._engine.begin() as connection:
            self._begin(connection, f"{_COMMITTED}; SELECT pg_advisory_xact_lock({lock:d})")
            yield connection

    def setup(self, work: Callable[[Connection], T]) -> T:
        """Run *work* in a write transaction before the tables exist (migrations)."""
        with self._write_transaction() as connection:
            return work(connection)

    def maintain(self, statement: str, *, timeout: float | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement that SQLite does not accept in a transaction; none in memory and on a server.

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
            raise InvalidInputError(f"{self.location} is no SQLite file")
        with translated(self.location), closing(sqlite.open_wal(self.path, timeout=self._busy_timeout)) as connection:
            yield connection
            self._refuse_replaced()
            self._refuse_loss(connection)

    def vacuum(self, table: str) -> None:
        """Vacuum a table on Postgres, once nothing else changes it.

        Raises:
            StorageError: It was not vacuumed; the message says why.
        """
        # Contract: nothing is set for a session, which behind a pooler belongs to others as well; so the server does not wait
        # for the lock, and says in a warning that it did not vacuum. `test_purge_vacuums_behind_a_pooler_and_sets_nothing`
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
        """Finish what waits and close every connection; the object is of no use afterwards.

        In a process that was forked from the one which opened it, nothing is done: all of it belongs to the parent.
        """
        if self.inherited:
            return
        try:
            self._writers.finish()
        finally:
            self._close()

    def _close(self) -> None:
        with self._polling:
            self.closed = True
            if self._poll is not None:
                self._poll.close()
                self._poll = None
        # Contract: nobody closes the one connection of a database in memory while another thread reads on it, which crashes the
        # interpreter; who waited for it is refused. test_a_database_in_memory_is_not_closed_under_a_reader.
        with self._memory_lock:
            self._engine.dispose()

    def _enqueue(self, work: Callable[[Connection], T]) -> Future[T]:
        self._refuse_closed()  # on an event loop, which may not touch the disk; the commit looks at the file
        return self._writers.enqueue(work)

    @contextmanager
    def _write_transaction(self, wait: float | None = None) -> Iterator[Connection]:
        with translated(self.location), self._lone(), self._writes.connect() as connection:
            used = connection.connection.dbapi_connection
            if self.path is not None:
                connection.execution_options(sqlite_waits=(self._lock_timeout(wait), self._lock_timeout()))
            with connection.begin():
                self._begin(connection, f"{_COMMITTED}; SELECT pg_advisory_xact_lock({_WRITE_LOCK})", wait)
                # Contract: a writer without its -shm would overwrite what others committed. So the check comes before the
                # commit, and before a large transaction writes earlier. `test_nothing_is_acknowledged_once_the_shm_is_gone`
                self._refuse_loss(used, writes=True)
                yield connection
                self._refuse_loss(used)
                if self.path is not None:
                    sqlite.refuse_links(self.path)
            # Contract: nothing is acknowledged that was written into a file, or a log, which is no longer at its place. It is
            # looked at while the connection is ours: once given back, a fork or `close` may end it, and the log with it. That
            # somebody closes meanwhile is no error of a write that is kept. tests/faults/test_crash.py and
            # `test_nothing_is_acknowledged_that_went_into_a_file_no_longer_at_its_place` and those beside it.
            self._refuse_replaced()
            self._refuse_loss(used)

    def _begin(self, connection: Connection, order: str, wait: float | None = None) -> None:
        # Contract: whatever server, user, environment or pool decide about a session, a transaction of ours reads dates and
        # texts in one way, and waits as long as we say. LOCAL, since a caller's own Engine keeps its sessions as they are, and
        # behind a pooler no session is ours at all. `test_what_a_server_sets_changes_nothing`
        if self.dialect == "postgresql":
            if getattr(connection.connection.dbapi_connection, "autocommit", False):
                raise InvalidInputError("this Engine commits each statement by itself; make it without AUTOCOMMIT")
            sql = f"{_SESSION}; SET LOCAL lock_timeout = {self._lock_timeout(wait)}; {order}"
            with driver_cursor(connection, sql) as cursor:  # not prepared: several statements in one cannot be
                cursor.execute(sql, **_UNPREPARED.get(self._engine.driver, {}))

    def _lock_timeout(self, seconds: float | None = None) -> int:
        """Milliseconds, as Postgres takes them: 0 is no end, and a month the most."""
        seconds = self._busy_timeout if seconds is None else seconds
        return 0 if math.isinf(seconds) else max(1, int(min(seconds, sqlite.LONGEST) * 1000))

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
            if self.closed:
                self._engine.dispose()

    def _refuse_closed(self) -> None:
        if self.closed:
            raise StorageError("this memory is closed; open it again")
        self.refuse_inherited()
        if self._loss:
            raise StorageError(self._loss)

    def refuse_inherited(self) -> None:
        """Raise a `StorageError` in a process that was forked from the one which opened it."""
        if self.inherited:
            raise StorageError(
                "this memory was opened before the process forked, and works only in the process that opened it; open one "
                "of its own in each child, after the fork (gunicorn: post_fork; multiprocessing: the initializer)"
            )

    def _refuse_loss(self, used: object, *, writes: bool = False) -> None:
        if isinstance(used, sqlite.FileConnection) and (loss := used.loss(writes=writes)):
            self._loss = loss
            raise StorageError(loss)

    def _refuse(self) -> None:
        self._refuse_closed()
        self._refuse_replaced()

    def _refuse_replaced(self) -> None:
        # Otherwise SQLite goes on writing into a file that nobody can open any more.
        if self._file is not None and self.path is not None and self._file != sqlite.identity(self.path):
            raise StorageError(
                f"{self.location}: the file was removed or replaced after it was opened here; open it again, and restore "
                "backups into the file itself (langmem-adapter copy BACKUP FILE --replace), which running programs follow"
            )

    # ── the engine ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _create(self, url: URL, threshold: int | None, pool: Mapping[str, Any]) -> Engine:
        if url.get_backend_name() == "sqlite":
            path = path_of(url)
            if path is not None:
                _make_folder(path.parent)
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


def _outcome(future: Future[Any]) -> Any:
    try:
        return future.result()
    except LangmemAdapterError as error:
        return error


def _arguments(url: URL, threshold: int | None) -> dict[str, int | str | None]:
    """What the driver gets beside a URL, which comes first; another driver has other names for it."""
    # Of a database in SQL_ASCII the driver gives bytes for texts, unless it asks for an encoding.
    waits = {name: value for name, value in (_PATIENCE | {"client_encoding": "utf8"}).items() if name not in url.query}
    if not url.drivername.endswith("+psycopg"):
        return {**waits} if url.drivername.endswith("+psycopg2") else {}
    try:
        return {**waits, "prepare_threshold": _THRESHOLD.validate_python(url.query.get("prepare_threshold", threshold))}
    except ValidationError:
        raise InvalidInputError("prepare_threshold in the database URL is a number from 0, or None") from None


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
