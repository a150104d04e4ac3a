"""The indexer keeps a vector index in step with the database by following its change feed.

Writers do not touch an index. Before a search, `pull` compares the database's version; only after a commit it reads the rows
that the changes since the last one name, as they are now. A change that is applied twice does no harm. A change that was undone
(a restored backup) has another nonce: then everything is read again.
"""

from __future__ import annotations

import atexit
import logging
import sqlite3
import threading
import weakref
from abc import ABC, abstractmethod
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, StorageError
from langmem_adapter.index.base import (
    Verification,
    as_batch,
    check_batch,
    compare_index,
    count_rows,
    read_all,
    stored_vector_length,
)
from langmem_adapter.index.generations import Generation, Generations
from langmem_adapter.index.segment import Contents, ExactIndex, SegmentError
from langmem_adapter.records.checks import redact_url
from langmem_adapter.storage import feed
from langmem_adapter.storage.erasure import erased_until
from langmem_adapter.storage.meta import check_embeddings, comparable
from langmem_adapter.storage.sqlite import open_file

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from langchain_core.vectorstores import VectorStore
    from sqlalchemy import Connection

    from langmem_adapter.index.base import VectorView
    from langmem_adapter.index.pgvector import PgVectorIndex
    from langmem_adapter.index.vectorstore import VectorStoreIndex
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.feed import Cursor, Rows, Space

_log = logging.getLogger("langmem_adapter")

_SHARE: Final = 10  # of so many memories one has changed: time to merge
_WORTH: Final = 100  # the same when it is closed: fewer changes are read again sooner than all rows are written
_PATIENCE: Final = 60.0

IndexKind: TypeAlias = Literal["faiss", "exact", "pgvector"]
SharedIndex: TypeAlias = "PgVectorIndex | VectorStoreIndex"
"""An index outside this process that a feed can follow the database with."""


class Follower(ABC):
    """A copy of rows of the database, which one thread at a time brings up to date."""

    def __init__(self) -> None:
        # Contract: only the thread that holds it moves the cursor and writes to the copy; a thread may take it again, since a
        # damaged block may be met while rows are compared. `test_only_one_thread_moves_it_on`,
        # `test_verify_mends_what_it_finds_damaged`
        self.lock: Final = threading.RLock()
        self.version: Hashable = None  # of the database: the copy contains everything that was committed before it

    def catch_up(self, read_version: Callable[[], Hashable]) -> int:
        if read_version() == self.version and self._is_intact():
            return 0
        with self.lock:
            # Contract: the version is read before the rows, so that what is committed meanwhile is left for the next time; and
            # under the lock, so that it never goes back to what was before another thread's turn.
            # `test_what_is_committed_while_it_pulls_comes_with_the_next`, `test_who_is_overtaken_sets_no_version_back`
            version = read_version()
            if version == self.version and self._is_intact():
                return 0
            count = self._follow()
            self.version = version
        return count

    @abstractmethod
    def _follow(self) -> int:
        """Apply the changes since the last time, and return their number."""

    def _is_intact(self) -> bool:
        return True


class VectorFeed(Follower):
    """Keeps one index in step with one database. Safe to use from many threads."""

    index: VectorView | None  # `None` while no memory exists, hence the length of its vectors is unknown

    def __init__(self, database: Database, fingerprint: str, space: Space) -> None:
        super().__init__()
        self._database = database
        self._fingerprint = fingerprint
        self._space = space

    def pull(self) -> int:
        """Bring the index up to date with everything that was committed before this call, and count the changes.

        It opens its own transaction. Where it fails, the index is as it was, and the next call applies the changes.
        """
        return self.catch_up(self._database.version)

    @property
    @abstractmethod
    def applied(self) -> int:
        """Number of the last change that the index is known to contain; 0 when it began empty."""

    @abstractmethod
    def view(self, connect: Callable[[], Connection]) -> VectorView | None:
        """The index as seen from a read transaction, with no second connection."""

    @abstractmethod
    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Read everything again from the database, and return the number of memories."""

    @abstractmethod
    def verify(self) -> Verification:
        """Compare the index with the database, after bringing it up to date; `unchecked` says what could not be."""

    def write_segment(self) -> bool:
        """Write the index to its files where it has some; `True` if a file was written."""
        return False

    def close(self) -> None:
        """Write what has changed, and release the vectors and their file. A store given by the user stays open."""


_open: weakref.WeakSet[Indexer] = weakref.WeakSet()


class Indexer(VectorFeed):
    """Feeds an index of this process.

    If the stored vectors are those of another model it is open, empty, and every pull is refused. It first opens the latest
    generation of its files that fits; what is missing comes from the database. Later ones are written by a thread in the
    background, by `close`, and when the interpreter ends.

    Without *dimensions* their number is that of the first row. *files* are by default beside an SQLite file, and none for a
    database in memory or on a server. A generation is written after *merge_after* changes, or a tenth of the index where that
    is more.
    """

    def __init__(  # noqa: PLR0913 - what is followed, and where the copy lies: none of them has a place elsewhere
        self,
        database: Database,
        index_factory: Callable[[int], ExactIndex],
        *,
        fingerprint: str,
        dimensions: int | None = None,
        space: Space = feed.VECTORS,
        files: Generations | None = None,
        mapped: bool = True,
        merge_after: int = 5_000,
    ) -> None:
        super().__init__(database, fingerprint, space)
        self._factory = index_factory
        if files is None and database.path:
            mark = fingerprint if space is feed.VECTORS else f"{space.name} {fingerprint}"
            files = Generations.for_database(database.path, mark, mapped=mapped)
        self._files = files
        self._every = merge_after
        self._merging = threading.Lock()
        self._thread: threading.Thread | None = None  # merges in the background
        self._closed = False
        self.index: ExactIndex | None = None if dimensions is None else index_factory(dimensions)
        self._cursor = feed.NOTHING
        self._whole = True  # False while it is neither the old state nor the new
        self._behind = self._pending = 0  # changes since the segment was made; since the last attempt at the next
        self.failures = 0  # how many times its files could not be read or written; each was logged, none did harm
        if comparable(database, fingerprint, space):  # else the first pull says so: what needs no vectors goes on
            with self.lock, database.read() as connection:
                self._load_newer(connection)
            self.pull()
        _open.add(self)

    def view(self, connect: Callable[[], Connection]) -> ExactIndex | None:  # noqa: ARG002 - it needs no transaction
        return self.index

    @property
    def applied(self) -> int:
        return self._cursor.applied

    def pull(self) -> int:
        count = super().pull()
        if count and self._is_due():
            with self.lock:
                if not self._closed and (self._thread is None or not self._thread.is_alive()):
                    # A daemon, which never keeps a program from ending.
                    self._thread = threading.Thread(
                        target=self._merge_if_due, name="langmem-adapter index", daemon=True
                    )
                    self._thread.start()
        return count

    def _merge_if_due(self) -> None:
        if self._is_due():
            self.write_segment()

    def _is_intact(self) -> bool:
        # Contract: reading behind the end of a mapped file kills the process, so its size is looked at before each search; who
        # cuts the file off while it is being read is not found out. `test_a_file_cut_off_while_it_is_open_is_noticed`
        return self.index is None or self.index.contents.segment.rows.whole

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> int:
        with self.lock, self._database.read() as connection:
            return self._rebuild(connection, progress)

    def verify(self) -> Verification:
        with self.lock, self._database.read() as connection:
            self._apply_changes(connection)
            return compare_index(self.index, connection, self._space)

    def _follow(self) -> int:
        with self._database.read() as connection:
            return self._apply_changes(connection) if self._is_intact() else self._rebuild(connection)

    def _apply_changes(self, connection: Connection) -> int:
        check_embeddings(connection, self._fingerprint, self._space)  # it may have been re-embedded since it was opened
        if self._cursor.applied == 0:
            return self._rebuild(connection)
        if self._files is not None and self._files.changed():
            self._load_newer(connection)
        if not self._whole or not feed.is_known(connection, self._cursor):
            _log.warning("the vector index does not match the history of %s; rebuilding it", self._database.location)
            return self._rebuild(connection)
        count = 0
        for window in feed.windows(connection, self._cursor, self._space):
            self._apply(window.rows)
            self._cursor = window.cursor
            count += window.count
            self._behind += window.count
            self._pending += window.count
        return count

    def _apply(self, rows: Rows) -> None:
        first = next((row.embedding for row in rows if row.embedding is not None), None)
        index = self._make_index(None if first is None else len(first) // 4)
        if index is None:
            return
        batch = as_batch(rows, index.dimensions)
        # Contract: an update that is interrupted half-way is never merged or gone on from: the next pull reads everything anew.
        # `test_an_update_that_was_interrupted_half_way_makes_it_read_everything_anew`
        self._whole = False
        index.update(batch)
        self.index, self._whole = index, True

    def _rebuild(self, connection: Connection, progress: Callable[[int, int], None] | None = None) -> int:
        end = feed.last(connection, self._fingerprint)
        total = count_rows(connection, self._space)
        index = self._make_index(stored_vector_length(connection, self._space))
        if index is not None:
            report = None if progress is None else lambda count: progress(count, total)
            index.adopt(read_all(connection, self._space, index.dimensions, report))
        self._cursor = end
        self.index, self._whole = index, True
        self._behind = self._pending = total
        return total

    def _make_index(self, dimensions: int | None) -> ExactIndex | None:
        return self._factory(dimensions) if self.index is None and dimensions is not None else self.index

    def write_segment(self, *, ending: bool = False) -> bool:
        """See `VectorFeed.write_segment`: where something (at the end: much) changed, and no other process writes."""
        try:
            if ending and self._behind < max(1, self._size // _WORTH):
                return False
            super().pull()  # what others deleted, or erased, must not come back to the disk
            return self._merge()
        except (OSError, LangmemAdapterError) as error:
            self._fail("were not written", error)
            return False

    def settle(self) -> None:
        """Wait until the background thread has nothing left to do."""
        thread = self._thread
        while thread is not None and thread.is_alive():  # in rounds, for the same reason as `BackgroundWriter`
            thread.join(timeout=1)

    def close(self) -> None:
        """Wait for the background thread, write as `finish` does, and release the vectors and their file."""
        _open.discard(self)
        with self.lock:
            self._closed = True
        self.settle()
        self.finish()
        # Contract: readers keep what they read, who comes later is told. `test_a_closed_index_lets_go_of_its_file`
        if self.index is not None:
            self.index.hold(self.index.contents.closed())

    def finish(self) -> None:
        """Write what has changed, where it is more than a hundredth."""
        if self._files is not None and not self._database.inherited:
            self.write_segment(ending=True)

    def _is_due(self) -> bool:
        return self._pending >= max(self._every, self._size // _SHARE)

    @property
    def _size(self) -> int:
        return 0 if self.index is None else len(self.index)

    def _merge(self) -> bool:
        with self._merging:
            with self.lock:
                index, cursor = self.index, self._cursor
                if index is None or cursor.applied == 0 or not self._whole:
                    return False
                contents = index.contents
                self._pending = 0  # also if it fails: the next attempt comes after as many changes
            if self._files is None:
                generation: Generation | None = Generation(cursor, contents.in_memory())
            else:
                generation = self._publish(self._files, contents, cursor)
            if generation is not None:
                with self.lock, self._database.read() as connection:
                    self._take_up(generation, connection)
            return generation is not None and self._files is not None

    def _publish(self, files: Generations, contents: Contents, cursor: Cursor) -> Generation | None:
        """The generation as it was written; `None` if another process writes, or has erased it."""
        with files.merging() as alone:
            if not alone:
                return None
            files.publish(contents, cursor)
            # Contract: checked after publishing, since an erasure first records itself and then removes the files. Where the
            # check is impossible, the files are removed. `test_none_stays_that_was_begun_before_an_erasure`,
            # `test_none_stays_that_nobody_can_tell_to_be_clean`
            clean = False
            try:
                with self._database.read() as connection:
                    clean = erased_until(connection) <= cursor.applied
            finally:
                if not clean:
                    files.remove()
            return files.latest(self._fingerprint) if clean else None

    def _take_up(self, generation: Generation, connection: Connection) -> None:
        """Hold a generation, and what has changed since it was made."""
        cursor, dimensions = generation.cursor, generation.segment.rows.vectors.shape[1]
        if not feed.is_known(connection, cursor):
            return
        contents, pending = Contents.of(generation.segment), 0
        for window in feed.windows(connection, cursor, self._space):
            batch = as_batch(window.rows, dimensions)
            check_batch(batch, dimensions)
            contents, pending = contents.after(batch), pending + window.count
            cursor = window.cursor
        index = self._factory(dimensions) if self.index is None else self.index
        if index.dimensions == dimensions:
            index.hold(contents, self._mend)
            self.index, self._cursor, self._whole = index, cursor, True
            self._behind = self._pending = pending

    def _mend(self) -> None:
        """Put what the database says in the place of a segment that is damaged."""
        _log.warning("the vector index's file beside %s is damaged; rebuilding it", self._database.location)
        self.failures += 1
        self.rebuild()

    def _load_newer(self, connection: Connection) -> None:
        if self._files is None:
            return
        try:
            generation = self._files.latest(self._fingerprint)
            if generation is None:
                return
            if erased_until(connection) <= generation.cursor.applied:
                self._take_up(generation, connection)
            else:  # what a process leaves behind that was killed between writing it and looking
                self._files.remove()
        except (OSError, LangmemAdapterError) as error:
            self._fail("are not used, the database is read instead", error)

    def _fail(self, what: str, error: Exception) -> None:
        files = self._database.location if self._files is None else self._files.manifest
        if isinstance(error, FileNotFoundError) and Path(files).parent.exists():
            return  # another process erased what was being written
        self.failures += 1
        named = "" if isinstance(error, SegmentError) else f" {files}"  # which names its file itself
        _log.warning("the vector index's files%s %s: %s", named, what, error)


@atexit.register
def _finish_all() -> None:
    """Let a program that never closes its memory open it warm the next time."""
    for indexer in list(_open):
        indexer.finish()


@dataclass(slots=True)
class _Turn:
    """The time in which this process alone feeds the index; the cursor is kept when it ends well."""

    connection: Connection  # reads the memories; on Postgres it also writes whatever is derived
    cursor: Cursor | None


class SharedIndexer(VectorFeed):
    """Feeds an index that processes share: its cursor is stored in the database, and one process at a time moves it.

    If nothing was committed since, or another process has applied it, a pull is one cheap query. Otherwise the process takes
    the index's lock, reads the cursor again, and applies what is missing. The cursor moves last: a change is never missed.

    On SQLite it waits *patience* seconds for another process that feeds the index.
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
        super().__init__(database, fingerprint, feed.TEXTS)
        self._factory = index_factory
        self._patience = patience
        self._cursor: Cursor | None = None  # where we last saw or left it
        self._last = 0  # the last change of a database that holds no memory
        self.index: SharedIndex | None = None if dimensions is None else index_factory(dimensions)
        self._ready = False
        if comparable(database, fingerprint):  # else the first pull says so: what needs no vectors goes on
            self.pull()

    @property
    def applied(self) -> int:
        return self._last if self._cursor is None else self._cursor.applied

    def view(self, connect: Callable[[], Connection]) -> VectorView | None:
        connection = connect()
        check_embeddings(connection, self._fingerprint)
        return None if self.index is None else self.index.on(connection)

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> int:
        with self.lock:
            index = self._open_index()
            if index is None:
                return 0
            with self._take_turn(index) as turn:
                return self._refill(index, turn, progress)

    def verify(self) -> Verification:
        with self.lock:
            index = self._open_index()
            if index is None:
                return Verification(0, (), (), ())
            with self._take_turn(index) as turn:
                self._apply_changes(index, turn)
                return index.compare(turn.connection)

    def _follow(self) -> int:
        if self._is_current() or (index := self._open_index()) is None:
            return 0
        with self._take_turn(index) as turn:
            return self._apply_changes(index, turn)

    def _is_current(self) -> bool:
        """Whether the index has everything already, by our own work or by that of others."""
        if self.index is None or not self._ready:
            return False
        with self._database.read() as connection:
            cursor = self._read_cursor(self.index, connection)
            if cursor is None or cursor != feed.last(connection, self._fingerprint):
                return False
            if cursor != self._cursor and not self.index.holds(connection, cursor):
                return False
        self._cursor = cursor
        return True

    def _apply_changes(self, index: SharedIndex, turn: _Turn) -> int:
        check_embeddings(turn.connection, self._fingerprint)  # it may have been re-embedded since it was opened
        if turn.cursor is None:
            return self._refill(index, turn)
        if not self._fits(index, turn.connection, turn.cursor):
            _log.warning("the index %s is not where its cursor says; rebuilding it", index.name)
            return self._refill(index, turn)
        count = 0
        for window in feed.windows(turn.connection, turn.cursor, self._space):
            index.take(turn.connection, window.rows)
            turn.cursor = window.cursor
            count += window.count
        return count

    def _fits(self, index: SharedIndex, connection: Connection, cursor: Cursor) -> bool:
        if cursor.fingerprint != self._fingerprint or not feed.is_known(connection, cursor):
            return False
        # Another process moved it, or this one has just opened it: is it really this index that was fed?
        return cursor == self._cursor or index.holds(connection, cursor)

    def _refill(self, index: SharedIndex, turn: _Turn, progress: Callable[[int, int], None] | None = None) -> int:
        end = feed.last(turn.connection, self._fingerprint)
        # Contract: the cursor is taken before the rows are read: writers go on meanwhile, and what is newer comes again, as a
        # change. `test_many_feeders_of_one_store_miss_nothing`
        total = count_rows(turn.connection, self._space)
        index.refill(turn.connection, lambda count: None if progress is None else progress(count, total))
        turn.cursor = end
        return total

    def _open_index(self) -> SharedIndex | None:
        if self.index is None:
            with self._database.read() as connection:
                check_embeddings(connection, self._fingerprint)
                dimensions = stored_vector_length(connection, self._space)
                self._last = feed.last(connection).applied
            self.index = None if dimensions is None else self._factory(dimensions)
        return self.index

    @contextmanager
    def _take_turn(self, index: SharedIndex) -> Iterator[_Turn]:
        # Contract: on SQLite not the database's own write lock, since writers would have to wait for a store at the other end
        # of a network; a separate lock, for this index. `test_whoever_waits_too_long_for_another_feeder_is_told`
        on_postgres = self._database.dialect == "postgresql"
        lock = self._database.derived(feed.lock_of(index.name)) if on_postgres else self._alone(index)
        with lock as shared:
            with self._database.read() if shared is None else nullcontext(shared) as connection:
                cursor = self._read_cursor(index, connection)
                turn = _Turn(connection, cursor)
                if not self._ready:
                    index.prepare(connection)
                yield turn
            if turn.cursor is not None and turn.cursor != cursor and not index.private:
                put = partial(feed.put, name=index.name, cursor=turn.cursor)
                self._database.write(put) if shared is None else put(shared)
        self._cursor, self._ready = turn.cursor, True

    def _read_cursor(self, index: SharedIndex, connection: Connection) -> Cursor | None:
        return self._cursor if index.private else feed.get(connection, index.name)

    @contextmanager
    def _alone(self, index: SharedIndex) -> Iterator[None]:
        """Hold the lock of this database's feed of this index: that of an empty SQLite file, which dies with its holder."""
        if self._database.path is None:  # in memory: no other process can use it
            yield
            return
        path = self._database.path
        lock = path.with_name(f"{path.name}.{feed.lock_of(index.name) % 2**64:016x}.lock")
        try:
            with closing(open_file(lock, timeout=self._patience)) as connection:
                connection.execute("BEGIN EXCLUSIVE")
                yield
        except sqlite3.Error as error:
            raise StorageError(
                f"{lock}: {error}; another process feeds the index {index.name}, or the folder is not writable",
                transient=True,
            ) from error


def open_index(kind: Literal["faiss", "exact"], dimensions: int) -> ExactIndex:
    """An empty index."""
    if kind == "exact":
        return ExactIndex(dimensions)
    from langmem_adapter.index.faiss import FaissIndex  # noqa: PLC0415 - loading FAISS takes longer than a whole start

    return FaissIndex(dimensions)


def open_feed(
    database: Database,
    index: IndexKind | VectorStore,
    *,
    fingerprint: str,
    dimensions: int | None,
    merge_after: int,
    mapped: bool = True,
) -> VectorFeed:
    """An index and what keeps it in step with the database."""
    model: Any = {"fingerprint": fingerprint, "dimensions": dimensions}
    if index in ("faiss", "exact"):
        return Indexer(database, partial(open_index, index), **model, mapped=mapped, merge_after=merge_after)
    # What cannot work is refused here: a shared index itself is opened when there is a first memory.
    if index == "pgvector":
        from langmem_adapter.index.pgvector import PgVectorIndex, require_pgvector  # noqa: PLC0415 - only with Postgres

        require_pgvector(database)
        return SharedIndexer(database, partial(PgVectorIndex, database), **model)
    if isinstance(index, str):
        raise InvalidInputError(
            f"there is no index {redact_url(index)!r}; choose 'faiss', 'exact', 'pgvector' or a VectorStore"
        )
    from langmem_adapter.index.stores import wrap_store  # noqa: PLC0415 - LangChain's stores take a while to import
    from langmem_adapter.index.vectorstore import VectorStoreIndex  # noqa: PLC0415 - the same

    return SharedIndexer(database, partial(VectorStoreIndex, wrap_store(index), database), **model)
