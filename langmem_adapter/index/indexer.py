"""The indexer keeps one vector index in step with the database by its change feed.

Nobody pushes into an index. Whoever is about to search calls `Indexer.pull`: a cheap look at the database's version, and
only if somebody committed, the rows named by the changes since the last one applied, as they now stand. Applying a change
twice does no harm, and a change that was undone (a backup restored) shows in its nonce: then everything is read anew.
"""

from __future__ import annotations

import atexit
import logging
import sqlite3
import threading
import weakref
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, StorageError
from langmem_adapter.index.base import (
    ExactIndex,
    Verification,
    as_batch,
    check_batch,
    compare_index,
    count_rows,
    first_length,
    length,
    read_all,
)
from langmem_adapter.index.generations import Generation, Generations
from langmem_adapter.index.segment import Contents, Mergeable, SegmentError
from langmem_adapter.records.checks import redact_url
from langmem_adapter.storage import feed
from langmem_adapter.storage import feed as follow
from langmem_adapter.storage.erasure import erased_until
from langmem_adapter.storage.feed import NOTHING
from langmem_adapter.storage.meta import check_embeddings, comparable
from langmem_adapter.storage.sqlite import open_file

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from langchain_core.vectorstores import VectorStore
    from sqlalchemy import Connection

    from langmem_adapter.index.base import VectorIndex, VectorView
    from langmem_adapter.index.pgvector import PgVectorIndex
    from langmem_adapter.index.vectorstore import VectorStoreIndex
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.feed import Cursor, Rows, Space


class Background:
    """Runs one piece of work at a time, in a thread that never keeps a program from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(self, work: Callable[[], None]) -> bool:
        """Begin *work* if nothing is running and it is not closed, and tell whether it was begun."""
        with self._guard:
            if self._closed or (self._thread is not None and self._thread.is_alive()):
                return False
            self._thread = threading.Thread(target=work, name=self._name, daemon=True)
            self._thread.start()
            return True

    def wait(self) -> None:
        """Wait until what is running has finished."""
        thread = self._thread
        while thread is not None and thread.is_alive():  # in rounds, for the same reason as `BackgroundWriter`
            thread.join(timeout=1)

    def close(self) -> None:
        """Begin nothing any more, and wait until what is running has finished."""
        with self._guard:
            self._closed = True
        self.wait()


_log = logging.getLogger("langmem_adapter")

_SHARE: Final = 10  # of so many memories one has changed: time to merge
_WORTH: Final = 100  # the same when it is closed: fewer changes are read again sooner than all rows are written
_open: weakref.WeakSet[Indexer] = weakref.WeakSet()


class Indexer:
    """Feeds one index from one database. Safe to use from many threads; only one of them pulls at a time.

    Where the vectors kept are those of another model it is open, empty, and every pull is refused.

    At first it opens the latest generation of its files, if there is one that fits; what it lacks comes from the database.
    Later ones are written by a thread in the background, by `close`, and when the interpreter ends.

    Args:
        database: The truth, its tables made.
        index_factory: Makes an empty index for vectors of a given length.
        fingerprint: Of the embedding model in use; files made with another one are not opened.
        dimensions: Length of the vectors; `None` takes it from the first row.
        space: What it is an index of; by default of the memories.
        files: Where it is kept; by default beside an SQLite file, and nowhere for a database in memory or on a server.
        mapped: Whether its file is mapped; else it is read into memory.
        merge_after: Changes after which a generation is written, or a tenth of the index where that is more.

    Attributes:
        index: The index; `None` while the length of its vectors is unknown, hence no memory exists. Take it anew each time.
        version: What `Database.version` said before the last pull: everything committed before that is in the index.
        failures: How many times its files could not be read or written; each was logged, none did harm.

    Raises:
        EmbeddingMismatchError: A memory's vector has another length than the others or than *dimensions*.
        StorageError: The database failed.
    """

    def __init__(  # noqa: PLR0913 - what is followed, and where the copy lies: none of them has a place elsewhere
        self,
        database: Database,
        index_factory: Callable[[int], VectorIndex],
        *,
        fingerprint: str,
        dimensions: int | None = None,
        space: Space = feed.VECTORS,
        files: Generations | None = None,
        mapped: bool = True,
        merge_after: int = 5_000,
    ) -> None:
        self._database = database
        self._factory = index_factory
        self._fingerprint = fingerprint
        self._space = space
        self._files = files or _beside(database, fingerprint, space, mapped=mapped)
        self._every = merge_after
        # Contract: whoever holds it, and nobody else, moves the cursor and writes to the index; a thread may take it again,
        # since a damaged block may be met while rows are compared. `test_only_one_thread_moves_it_on`,
        # `test_verify_mends_what_it_finds_damaged`
        self._pulling = threading.RLock()
        self._merging = threading.Lock()
        self._background = Background("langmem-adapter index")
        self.index = None if dimensions is None else index_factory(dimensions)
        self._cursor = NOTHING
        self.version: Hashable = None
        self._whole = True  # False while it is neither the old state nor the new
        self._behind = self._pending = 0  # changes since the segment was made; since somebody tried to make the next
        self.failures = 0
        if comparable(database, fingerprint, space):  # else the first pull says so: what needs no vectors goes on
            with self._pulling, database.read() as connection:
                self._load_newer(connection)
            self.pull()
        _open.add(self)

    def view(self, connect: Callable[[], Connection]) -> VectorIndex | None:  # noqa: ARG002 - see `SharedIndexer.view`
        """The index, which needs no transaction."""
        return self.index

    @property
    def applied(self) -> int:
        """Number of the last change that the index contains; 0 when it began empty."""
        return self._cursor.applied

    # ── following ───────────────────────────────────────────────────────────────────────────────────────────────────

    def pull(self) -> int:
        """Bring the index up to date with everything that anybody committed before this call.

        Not to be called inside a `Database.read` block: it opens its own.

        Returns:
            How many changes were applied; after a rebuild, how many memories were read.

        Raises:
            EmbeddingMismatchError: The database was re-embedded with another model since it was opened here, or a new
                vector has another length; the index is as it was.
            StorageError: The database failed; the index is as it was.
        """
        done = self._catch_up()
        if done and self._is_due():
            self._background.start(self._merge_in_background)
        return done

    def _catch_up(self) -> int:
        if self._database.version() == self.version and self._is_intact():
            return 0
        with self._pulling:
            # Contract: asked before reading, so that what is committed meanwhile is left for the next pull; and in one's turn,
            # so that it never goes back to what was before another's pull.
            # `test_what_is_committed_while_it_pulls_comes_with_the_next`, `test_who_is_overtaken_sets_no_version_back`
            version, intact = self._database.version(), self._is_intact()
            if version == self.version and intact:
                return 0
            with self._database.read() as connection:
                done = self._follow(connection) if intact else self._rebuild(connection)
            self.version = version
        return done

    def _is_intact(self) -> bool:
        # Contract: reading behind the end of a mapped file kills the process, so its size is looked at before each search; who
        # cuts the file off while it is being read is not found out. `test_a_file_cut_off_while_it_is_open_is_noticed`
        # A protocol is asked for longer than a search takes.
        contents: Contents | None = getattr(self.index, "contents", None)
        return contents is None or contents.segment.rows.whole

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Read everything anew, out of the database alone, and tell how many memories there are.

        *progress* is told after each batch how many were read, and of how many.

        Raises:
            EmbeddingMismatchError: A memory's vector has another length.
            StorageError: The database failed; the index is as it was.
        """
        with self._pulling, self._database.read() as connection:
            return self._rebuild(connection, progress)

    def verify(self) -> Verification:
        """Compare the index with the database, row by row and bit by bit, after bringing it up to date."""
        with self._pulling, self._database.read() as connection:
            self._follow(connection)
            return compare_index(self.index, connection, self._space)

    def _follow(self, connection: Connection) -> int:
        check_embeddings(connection, self._fingerprint, self._space)  # it may have been re-embedded since it was opened
        if self._cursor.applied == 0:
            return self._rebuild(connection)
        if self._files is not None and self._files.changed():
            self._load_newer(connection)
        if self._whole and follow.is_known(connection, self._cursor):
            return sum(self._pulled(connection))
        _log.warning("the vector index does not match the history of %s; reading it anew", self._database.location)
        return self._rebuild(connection)

    def _pulled(self, connection: Connection) -> Iterator[int]:
        for window in follow.windows(connection, self._cursor, self._space):
            self._apply(window.rows)
            self._cursor = window.cursor
            self._behind += window.count
            self._pending += window.count
            yield window.count

    def _apply(self, rows: Rows) -> None:
        index = self._opened(lambda: length(rows))
        if index is None:
            return
        batch = as_batch(rows, index.dimensions)
        # Contract: an update that is interrupted half-way is never merged or gone on from: the next pull reads everything anew.
        # `test_an_update_that_was_interrupted_half_way_makes_it_read_everything_anew`
        self._whole = False
        index.update(batch)
        self.index, self._whole = index, True

    def _rebuild(self, connection: Connection, progress: Callable[[int, int], None] | None = None) -> int:
        end = follow.last(connection, self._fingerprint)
        total = count_rows(connection, self._space)
        index = self._opened(lambda: first_length(connection, self._space))
        if index is not None:
            told = None if progress is None else lambda done: progress(done, total)
            index.adopt(read_all(connection, self._space, index.dimensions, told))
        self._cursor = end
        self.index, self._whole = index, True
        self._behind = self._pending = total
        return total

    def _opened(self, look: Callable[[], int | None]) -> VectorIndex | None:
        """The index; a new one where the length of its vectors is known now."""
        if self.index is not None:
            return self.index
        dimensions = look()
        return None if dimensions is None else self._factory(dimensions)

    # ── its files ───────────────────────────────────────────────────────────────────────────────────────────────────

    def write_segment(self, *, ending: bool = False) -> bool:
        """Bring the index up to date and merge it into a new segment; tell whether a file was written.

        Not where there is nothing to write (at the end: little), or somebody writes one. A failure is logged and counted alone.
        """
        try:
            if ending and self._behind < max(1, self._size() // _WORTH) and self._unread() < self._every:
                return False
            self._catch_up()  # what others deleted, or erased, must not come back to the disk
            return self._merge()
        except (OSError, LangmemAdapterError) as error:
            self._fail("were not written", error)
            return False

    def settle(self) -> None:
        """Wait until the background thread has nothing left to do."""
        self._background.wait()

    def close(self) -> None:
        """Wait for the background thread, write as `finish` does, and let go of the vectors and their file."""
        _open.discard(self)
        self._background.close()
        self.finish()
        # Contract: readers keep what they read, who comes later is told. `test_a_closed_index_lets_go_of_its_file`
        if isinstance(self.index, Mergeable):
            self.index.hold(self.index.contents.closed())

    def finish(self) -> None:
        """Write what has changed: more than a hundredth, or *merge_after* changes that nobody has searched since."""
        if self._files is not None and not self._database.inherited:
            self.write_segment(ending=True)

    def _unread(self) -> int:
        try:
            if self.version in {None, self._database.version()}:
                return 0
            with self._database.read() as connection:
                return follow.last(connection).applied - self._cursor.applied
        except StorageError:  # it was closed before, or its file is gone: nothing is left to write
            return 0

    def _is_due(self) -> bool:
        return self._pending >= max(self._every, self._size() // _SHARE)

    def _size(self) -> int:
        return 0 if self.index is None else len(self.index)

    def _merge_in_background(self) -> None:
        if self._is_due():
            self.write_segment()

    def _merge(self) -> bool:
        with self._merging:
            with self._pulling:
                index, cursor = self.index, self._cursor
                if not isinstance(index, Mergeable) or cursor.applied == 0 or not self._whole:
                    return False
                contents = index.contents
                self._pending = 0  # also if it fails: the next attempt comes after as many changes
            if self._files is None:
                self._put_in_place(Generation(cursor, contents.in_memory()))
                return False
            return self._written(self._files, contents, cursor)

    def _written(self, files: Generations, contents: Contents, cursor: Cursor) -> bool:
        with files.merging() as alone:
            if not alone:
                return False
            files.publish(contents, cursor)
            if not self._holds_nothing_erased(files, cursor):
                return False
            generation = files.latest(self._fingerprint)
        if generation is None:  # somebody has just erased it
            return False
        self._put_in_place(generation)
        return True

    def _put_in_place(self, generation: Generation) -> None:
        with self._pulling, self._database.read() as connection:
            self._take_up(generation, connection)

    def _take_up(self, generation: Generation, connection: Connection) -> None:
        """Hold a generation, and what has changed since it was made."""
        cursor, dimensions = generation.cursor, generation.segment.rows.vectors.shape[1]
        if not follow.is_known(connection, cursor):
            return
        contents, pending = Contents.of(generation.segment), 0
        for window in follow.windows(connection, cursor, self._space):
            batch = as_batch(window.rows, dimensions)
            check_batch(batch, dimensions)
            contents, pending = contents.after(batch), pending + window.count
            cursor = window.cursor
        index = self._factory(dimensions) if self.index is None else self.index
        if isinstance(index, Mergeable) and index.dimensions == dimensions:
            index.hold(contents, self._mend)
            self.index, self._cursor, self._whole = index, cursor, True
            self._behind = self._pending = pending

    def _mend(self) -> None:
        """Put what the database says in the place of a segment that is damaged."""
        _log.warning("the vector index's file beside %s is damaged; reading it anew", self._database.location)
        self.failures += 1
        self.rebuild()

    def _holds_nothing_erased(self, files: Generations, cursor: Cursor) -> bool:
        # Contract: looked at after it was published, since whoever erases removes the files after having written down that
        # he does; and where nobody can tell, they go. `test_none_stays_that_was_begun_before_an_erasure`,
        # `test_none_stays_that_nobody_can_tell_to_be_clean`
        clean = False
        try:
            with self._database.read() as connection:
                clean = erased_until(connection) <= cursor.applied
        finally:
            if not clean:
                files.remove()
        return clean

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
            return  # somebody erased what was being written
        self.failures += 1
        named = "" if isinstance(error, SegmentError) else f" {files}"  # which names its file itself
        _log.warning("the vector index's files%s %s: %s", named, what, error)


def _beside(database: Database, fingerprint: str, space: Space, *, mapped: bool) -> Generations | None:
    mark = fingerprint if space is feed.VECTORS else f"{space.name} {fingerprint}"
    return Generations.beside(database.path, mark, mapped=mapped) if database.path else None


@atexit.register
def _finish_all() -> None:
    """Let a program that never closes its memory open it warm the next time."""
    for indexer in list(_open):
        indexer.finish()


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
        total = count_rows(turn.connection, feed.TEXTS)
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


VectorFeed: TypeAlias = Indexer | SharedIndexer
"""Keeps one index in step with the database by pulling its change feed, and hands it to whoever searches."""
IndexKind: TypeAlias = Literal["faiss", "exact", "pgvector"]


def open_index(kind: Literal["faiss", "exact"], dimensions: int) -> VectorIndex:
    """An empty index.

    Example:
        >>> open_index("exact", 3).dimensions
        3
    """
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
    """An index and what keeps it in step with the database.

    Args:
        database: The truth, its tables made.
        index: `"faiss"` or `"exact"` in this process, `"pgvector"` inside Postgres, or any LangChain vector store.
        fingerprint: Of the embedding model in use.
        dimensions: Length of the vectors; `None` takes it from the first memory.
        merge_after: Changes after which an index of this process writes its files anew.
        mapped: Whether its file is mapped; else it is read into memory.
    """
    if index in ("faiss", "exact"):
        make = partial(open_index, index)
        return Indexer(
            database, make, fingerprint=fingerprint, dimensions=dimensions, mapped=mapped, merge_after=merge_after
        )
    return SharedIndexer(database, _shared(database, index), fingerprint=fingerprint, dimensions=dimensions)


def _shared(database: Database, index: str | VectorStore) -> Callable[[int], SharedIndex]:
    # What cannot work is refused here: the index itself is opened when there is a first memory.
    if index == "pgvector":
        from langmem_adapter.index.pgvector import PgVectorIndex, require_pgvector  # noqa: PLC0415 - only for who has Postgres

        require_pgvector(database)
        return partial(PgVectorIndex, database)
    if isinstance(index, str):
        raise InvalidInputError(
            f"there is no index {redact_url(index)!r}; choose 'faiss', 'exact', 'pgvector' or a VectorStore"
        )
    from langmem_adapter.index.stores import wrap_store  # noqa: PLC0415 - LangChain's stores take a while to import
    from langmem_adapter.index.vectorstore import VectorStoreIndex  # noqa: PLC0415 - the same

    return partial(VectorStoreIndex, wrap_store(index), database)
