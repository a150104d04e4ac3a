"""The feed of an index that processes share: its cursor stands in the database, and one process at a time moves it.

Whoever is about to search pulls, as with an index of one's own. If nothing was committed since, or another process has
already applied it, that is one cheap query. Otherwise the process takes the index's own lock, looks at the cursor again, and
applies what is missing; the cursor moves only when the index has everything, so a change may be applied twice, which does no
harm, but never missed. A cursor whose nonce or embedding model is not the database's means that everything is read anew.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from langmem_adapter.errors import StorageError
from langmem_adapter.index.base import Verification, count, first_length
from langmem_adapter.storage import feed
from langmem_adapter.storage import feed as follow
from langmem_adapter.storage.meta import check_embeddings, comparable
from langmem_adapter.storage.sqlite import open_file

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from sqlalchemy import Connection

    from langmem_adapter.index.base import VectorView
    from langmem_adapter.index.pgvector import PgVectorIndex
    from langmem_adapter.index.vectorstore import VectorStoreIndex
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.feed import Cursor

_log = logging.getLogger("langmem_adapter")

_PATIENCE: Final = 60.0

SharedIndex: TypeAlias = "PgVectorIndex | VectorStoreIndex"
"""An index outside this process that a feed can follow the database with."""


@dataclass(slots=True)
class _Turn:
    """The time in which this process alone feeds the index; the cursor is kept when it ends well."""

    connection: Connection  # reads the memories; on Postgres it also writes whatever is derived
    cursor: Cursor | None


class SharedIndexer:
    """Feeds one shared index from one database. Safe to use from many threads, processes and machines.

    Args:
        database: The truth, its tables made.
        index_factory: Opens the index for vectors of a given length.
        fingerprint: Of the embedding model in use.
        dimensions: Length of the vectors; `None` takes it from the first memory.
        patience: Seconds to wait for another process that feeds the index, on SQLite.

    Attributes:
        index: The index; `None` while the length of its vectors is unknown, hence no memory exists. Take it anew each time.
        version: What `Database.version` said before the last pull: everything committed before that is in the index.
    """

    def __init__(
        self,
        database: Database,
        index_factory: Callable[[int], SharedIndex],
        *,
        fingerprint: str,
        dimensions: int | None = None,
        patience: float = _PATIENCE,
    ) -> None:
        self._database = database
        self._factory = index_factory
        self._fingerprint = fingerprint
        self._patience = patience
        self._pulling = threading.Lock()
        self.version: Hashable = None
        self._cursor: Cursor | None = None  # where we last saw or left it
        self._seen = 0  # the last change of a database that holds no memory
        self.index: SharedIndex | None = None if dimensions is None else index_factory(dimensions)
        self._ready = False
        if comparable(database, fingerprint):  # else the first pull says so: what needs no vectors goes on
            self.pull()

    @property
    def applied(self) -> int:
        """Number of the last change that the index is known to contain."""
        return self._seen if self._cursor is None else self._cursor.applied

    def view(self, connect: Callable[[], Connection]) -> VectorView | None:
        """The index as seen from a read transaction, with no second connection."""
        connection = connect()
        check_embeddings(connection, self._fingerprint)
        return None if self.index is None else self.index.on(connection)

    # ── following ───────────────────────────────────────────────────────────────────────────────────────────────────

    def pull(self) -> int:
        """Bring the index up to date with every commit before this call, and give how many changes this process applied.

        After a rebuild it is how many memories were read. Not to be called inside a `Database.read` block: it opens its own.
        After an error the cursor is where it was, and nothing is lost.
        """
        if self._database.version() == self.version:
            return 0
        with self._pulling:
            # Contract: see `Indexer`. `test_who_is_overtaken_sets_no_version_back`
            version = self._database.version()
            if version == self.version:
                return 0
            done = 0 if self._at_the_end() else self._follow()
            self.version = version
        return done

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Bring every memory into the index anew, and tell how many there are; searches go on meanwhile.

        *progress* is told after each batch how many memories were read, and of how many.
        """
        with self._pulling:
            index = self._opened()
            if index is None:
                return 0
            with self._turn(index) as turn:
                return self._refill(index, turn, progress)

    def verify(self) -> Verification:
        """Compare the index with the database, after bringing it up to date; `unchecked` says what could not be."""
        with self._pulling:
            index = self._opened()
            if index is None:
                return Verification(0, (), (), ())
            with self._turn(index) as turn:
                self._catch_up(index, turn)
                return index.compare(turn.connection)

    def write_segment(self) -> bool:
        """Nothing: the index outlives this process by itself."""
        return False

    def close(self) -> None:
        """Nothing: a store given by the user is the user's to close."""

    def _at_the_end(self) -> bool:
        """Whether the index has everything already, by our own work or by that of others."""
        if self.index is None or not self._ready:
            return False
        with self._database.read() as connection:
            kept = self._kept(self.index, connection)
            if kept is None or kept != follow.last(connection, self._fingerprint):
                return False
            if kept != self._cursor and not self.index.holds(connection, kept):
                return False
        self._cursor = kept
        return True

    def _follow(self) -> int:
        index = self._opened()
        if index is None:
            return 0
        with self._turn(index) as turn:
            return self._catch_up(index, turn)

    def _catch_up(self, index: SharedIndex, turn: _Turn) -> int:
        check_embeddings(turn.connection, self._fingerprint)  # it may have been re-embedded since it was opened
        if turn.cursor is None:
            return self._refill(index, turn)
        if not self._fits(index, turn.connection, turn.cursor):
            _log.warning("the index %s is not where its cursor says; reading everything anew", index.name)
            return self._refill(index, turn)
        done = 0
        for window in follow.windows(turn.connection, turn.cursor, feed.TEXTS):
            index.take(turn.connection, window.rows)
            turn.cursor = window.cursor
            done += window.count
        return done

    def _fits(self, index: SharedIndex, connection: Connection, cursor: Cursor) -> bool:
        if cursor.fingerprint != self._fingerprint or not follow.is_known(connection, cursor):
            return False
        # Somebody else moved it, or we have just come: is it really this index that was fed?
        return cursor == self._cursor or index.holds(connection, cursor)

    def _refill(self, index: SharedIndex, turn: _Turn, progress: Callable[[int, int], None] | None = None) -> int:
        end = follow.last(turn.connection, self._fingerprint)
        # Contract: the cursor is taken before the rows are read: writers go on meanwhile, and what is newer comes again, as a
        # change. `test_many_feeders_of_one_store_miss_nothing`
        total = count(turn.connection, feed.TEXTS)
        index.refill(turn.connection, lambda done: None if progress is None else progress(done, total))
        index.settle(turn.connection)
        turn.cursor = end
        return total

    def _opened(self) -> SharedIndex | None:
        if self.index is None:
            with self._database.read() as connection:
                check_embeddings(connection, self._fingerprint)
                dimensions = first_length(connection, feed.TEXTS)
                self._seen = follow.last(connection).applied
            self.index = None if dimensions is None else self._factory(dimensions)
        return self.index

    # ── taking turns ────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _turn(self, index: SharedIndex) -> Iterator[_Turn]:
        turns = self._turn_on_postgres if self._database.dialect == "postgresql" else self._turn_on_sqlite
        with turns(index) as turn:
            if not self._ready:
                index.prepare(turn.connection)
            yield turn
        self._cursor, self._ready = turn.cursor, True

    @contextmanager
    def _turn_on_postgres(self, index: SharedIndex) -> Iterator[_Turn]:
        with self._database.derived(follow.lock_of(index.name)) as connection:
            kept = self._kept(index, connection)
            turn = _Turn(connection, kept)
            yield turn
            if turn.cursor is not None and turn.cursor != kept and not index.private:
                follow.put(connection, index.name, turn.cursor)

    @contextmanager
    def _turn_on_sqlite(self, index: SharedIndex) -> Iterator[_Turn]:
        # Contract: not the database's own write lock, since writers would have to wait for a store at the other end of a
        # network; a lock of its own, for this index. `test_whoever_waits_too_long_for_another_feeder_is_told`
        with self._alone(index):
            with self._database.read() as connection:
                kept = self._kept(index, connection)
                turn = _Turn(connection, kept)
                yield turn
            if turn.cursor is not None and turn.cursor != kept and not index.private:
                self._database.write(partial(follow.put, name=index.name, cursor=turn.cursor))

    def _kept(self, index: SharedIndex, connection: Connection) -> Cursor | None:
        return self._cursor if index.private else follow.get(connection, index.name)

    @contextmanager
    def _alone(self, index: SharedIndex) -> Iterator[None]:
        """Hold the lock of this database's feed of this index: that of an empty SQLite file, which dies with its holder."""
        if self._database.path is None:  # in memory: nobody else can be there
            yield
            return
        path = self._database.path
        lock = path.with_name(f"{path.name}.{follow.lock_of(index.name) % 2**64:016x}.lock")
        try:
            with closing(open_file(lock, timeout=self._patience)) as connection:
                connection.execute("BEGIN EXCLUSIVE")
                yield
        except sqlite3.Error as error:
            raise StorageError(
                f"{lock}: {error}; another process feeds the index {index.name}, or the folder is not writable",
                transient=True,
            ) from error
