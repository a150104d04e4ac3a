"""The indexer keeps one vector index in step with the database by its change feed.

Nobody pushes into an index. Whoever is about to search calls `Indexer.pull`: a cheap look at the database's version, and
only if somebody committed, the rows named by the changes since the last one applied, as they now stand. Applying a change
twice does no harm, and a change that was undone (a backup restored) shows in its nonce: then everything is read anew.
"""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Final

from langmem_adapter.errors import LangmemAdapterError, StorageError
from langmem_adapter.index.base import as_batch, check_batch, compared, count, first_length, length, read_all
from langmem_adapter.index.generations import Generation, Generations
from langmem_adapter.index.segment import Contents, Mergeable, SegmentError
from langmem_adapter.storage import feed
from langmem_adapter.storage import feed as follow
from langmem_adapter.storage.erasure import erased_until
from langmem_adapter.storage.feed import NOTHING
from langmem_adapter.storage.meta import check_embeddings, comparable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from sqlalchemy import Connection

    from langmem_adapter.index.base import VectorIndex, Verification
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
            return compared(self.index, connection, self._space)

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
        total = count(connection, self._space)
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
