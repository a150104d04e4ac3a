"""The indexer: keeps one vector index in step with the database by pulling its change feed.

Nobody pushes into an index. Whoever is about to search calls `Indexer.pull`: a cheap look at the database's version, and
only if somebody committed, the rows named by the changes since the last one applied, as they now stand. Applying a change
twice does no harm, and a change that was undone (a backup restored) shows in its nonce: then everything is read anew. The
snapshot with its applied change number is what Chroma's persisted index and Qdrant's shards keep, too.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

import numpy as np

from langmem_adapter.errors import LangmemAdapterError
from langmem_adapter.index.background import Background
from langmem_adapter.index.base import Batch, Compactable, Loadable
from langmem_adapter.index.compare import compared
from langmem_adapter.index.rows import as_batch, count, first_length, length, read_all
from langmem_adapter.index.snapshot import Draft, Label, load, snapshot_path, sweep
from langmem_adapter.storage import feed
from langmem_adapter.storage.erasure import erased_until
from langmem_adapter.storage.meta import check_embeddings, comparable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from langmem_adapter.index.base import VectorIndex, Verification
    from langmem_adapter.index.snapshot import Snapshot
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.feed import Rows, Space

__all__ = ["Indexer"]

_log = logging.getLogger("langmem_adapter")

_SHARE: Final = 10
_LOOK: Final = 1_000  # changes after which the order is looked at: asking a protocol takes longer than a small search
_PAUSE: Final = 0.005  # seconds between two steps of compaction, about as long as one takes: searches go on
_NOTHING: Final = Label("", 0, b"")


class Indexer:
    """Feeds one index from one database. Safe to use from many threads; only one of them pulls at a time.

    Where the vectors kept are those of another model it is open, empty, and every pull is refused.

    At first it loads the snapshot, if there is one that fits; what it lacks comes from the database. Later snapshots are
    written, and the index is put in order, by a thread in the background; `close` waits for it.

    Args:
        database: The truth, its tables made.
        index_factory: Makes an empty index for vectors of a given length.
        fingerprint: Of the embedding model in use; a snapshot made with another one is not loaded.
        dimensions: Length of the vectors; `None` takes it from the first row.
        space: What it is an index of; by default of the memories.
        path: The snapshot's file; by default beside an SQLite file, and none for a database in memory or on a server.
        snapshot_every: Changes after which a snapshot is written, or a tenth of the index where that is more.
        progress: Called while everything is read anew (at the start without a usable snapshot, after a restored backup)
            with the number of memories read and of all.

    Raises:
        EmbeddingMismatchError: A memory's vector has another length than the others or than *dimensions*.
        StorageError: The database failed.
    """

    def __init__(  # noqa: PLR0913 - what is followed, where the copy lies, who is told: none of them has a place elsewhere
        self,
        database: Database,
        index_factory: Callable[[int], VectorIndex],
        *,
        fingerprint: str,
        dimensions: int | None = None,
        space: Space = feed.VECTORS,
        path: Path | None = None,
        snapshot_every: int = 5_000,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._database = database
        self._factory = index_factory
        self._fingerprint = fingerprint
        self._dimensions = dimensions
        self._space = space
        self._path = path or _beside(database, fingerprint, space)
        self._every = snapshot_every
        self._progress = progress
        self._pulling = threading.Lock()
        self._saving = threading.Lock()
        self._background = Background("langmem-adapter index")
        self._index = None if dimensions is None else index_factory(dimensions)
        self._label = self._saved = _NOTHING
        self._newest = _NOTHING  # the last change that a row may show; after the label only while a snapshot is fresh
        self._version: Hashable = None
        self._whole = True  # False while it is neither the old state nor the new
        self._pending = self._unlooked = 0  # changes since a snapshot was due, and since the order was looked at
        self._failures = 0
        if comparable(database, fingerprint, space):  # else the first pull says so: what needs no vectors goes on
            self._load()
            self.pull()

    @property
    def index(self) -> VectorIndex | None:
        """The index; `None` as long as the length of its vectors is unknown, hence no memory exists.

        Take it anew for each search: a rebuild puts another one in its place.
        """
        return self._index

    @property
    def version(self) -> Hashable:
        """What `Database.version` said before the last pull."""
        return self._version

    def view(self, connect: Callable[[], Connection]) -> VectorIndex | None:  # noqa: ARG002 - the feed's signature
        """The index, which needs no transaction; see `VectorFeed.view`."""
        return self._index

    @property
    def applied(self) -> int:
        """Number of the last change that the index contains; 0 when it began empty."""
        return self._label.applied

    @property
    def snapshot_failures(self) -> int:
        """How many snapshots could not be read or written; each was logged, none did harm."""
        return self._failures

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
        if done:
            self._tidy_if_due(done)
        return done

    def _catch_up(self) -> int:
        version = self._database.version()  # before reading: what is committed meanwhile is left for the next pull
        if version == self._version:
            return 0
        with self._pulling, self._database.read() as connection:
            done = self._follow(connection)
            self._version = version
        return done

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Read everything anew into a fresh index, which then takes the old one's place.

        Args:
            progress: Called after each batch with the number of memories read and of all; by default the indexer's own.

        Returns:
            How many memories there are.

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
            return compared(self._index, connection, self._space)

    def _follow(self, connection: Connection) -> int:
        check_embeddings(
            connection, self._fingerprint, self._space
        )  # the database may have been re-embedded since it was opened
        if self._label.applied == 0:
            return self._rebuild(connection)
        if self._whole and self._same_lineage(connection):
            return sum(self._pulled(connection))
        _log.warning("the vector index does not match the history of %s; reading it anew", self._database.location)
        return self._rebuild(connection)

    def _same_lineage(self, connection: Connection) -> bool:
        return feed.follows(connection, self._newest.applied, self._newest.nonce)

    def _pulled(self, connection: Connection) -> Iterator[int]:
        while (window := feed.window(connection, self._label.applied, self._space)) is not None:
            self._apply(window.rows)
            self._label = Label(self._fingerprint, window.until, window.nonce)
            if window.until > self._newest.applied:
                self._newest = self._label
            self._pending += window.count
            yield window.count

    def _apply(self, rows: Rows) -> None:
        index = self._made(self._dimensions or length(rows)) if self._index is None else self._index
        if index is None:
            return
        batch = as_batch(rows, index.dimensions)
        self._whole = False  # if this is interrupted half-way, the next pull reads everything anew
        index.update(batch)
        self._index, self._whole = index, True

    def _rebuild(self, connection: Connection, progress: Callable[[int, int], None] | None = None) -> int:
        last = feed.last(connection, self._fingerprint)
        total, told = count(connection, self._space), progress or self._progress
        index = self._made(self._dimensions or first_length(connection, self._space))
        if index is not None and total:
            self._fill(index, connection, lambda done: None if told is None else told(done, total))
        self._label = self._newest = _NOTHING if last is None else Label(self._fingerprint, last.applied, last.nonce)
        self._index, self._whole, self._pending = index, True, total
        return total

    def _fill(self, index: VectorIndex, connection: Connection, progress: Callable[[int], None]) -> None:
        _put_all(index, read_all(connection, self._space, index.dimensions, progress))

    def _made(self, dimensions: int | None) -> VectorIndex | None:
        return None if dimensions is None else self._factory(dimensions)

    # ── snapshots ───────────────────────────────────────────────────────────────────────────────────────────────────

    def snapshot(self) -> bool:
        """Bring the index up to date and write a snapshot, after one that is being written has been finished.

        A failure is logged and counted, never raised: a snapshot only spares time.

        Returns:
            Whether it was written; not if it failed, if there is nothing to write, or no place for it.
        """
        if self._path is None:
            return False
        try:
            self._catch_up()  # what others deleted, or erased, must not come back to the disk
            return self._save(self._path)
        except (OSError, LangmemAdapterError) as error:
            self._fail("was not written", error)
            return False

    def settle(self) -> None:
        """Wait until the background thread has nothing left to do."""
        self._background.wait()

    def close(self) -> None:
        """Wait for the background thread, and write a snapshot if anything changed since the last one."""
        self._background.close()
        if self._label != self._saved:
            self.snapshot()

    def _tidy_if_due(self, done: int) -> None:
        self._unlooked += done
        look = self._unlooked >= _LOOK
        if look:
            self._unlooked = 0
        if self._is_due() or (look and self._disordered() is not None):
            self._background.start(self._tidy)

    def _is_due(self) -> bool:
        size = 0 if self._index is None else len(self._index)
        return self._path is not None and self._pending >= max(self._every, size // _SHARE)

    def _disordered(self) -> Compactable | None:
        return self._index if isinstance(self._index, Compactable) and self._index.fragmented else None

    def _tidy(self) -> None:
        disordered = self._disordered()
        if disordered is not None:
            for _ in disordered.compact():
                if self._background.pause(_PAUSE):
                    return  # closing: order can wait, and closing writes the snapshot
        if self._is_due():
            self.snapshot()

    def _save(self, path: Path) -> bool:
        self._pending = 0  # also if it fails: the next attempt comes after as many changes, not at once
        with self._saving, Draft(path) as draft:
            with self._pulling:
                index, label = self._index, self._label
                if index is None or label.applied == 0 or not self._whole:
                    return False
            draft.write(index, label)  # pulls go on meanwhile; what they change is applied again after loading
            with self._pulling:
                if index is not self._index or not self._whole:  # read anew, or interrupted half-way
                    return False
                newest = self._newest
            draft.publish(newest)
            self._saved = label
        return self._holds_nothing_erased(path, label)

    def _holds_nothing_erased(self, path: Path, label: Label) -> bool:
        # Contract: looked at after it was published, since whoever erases removes the snapshots after having written down that
        # he does; and where nobody can tell, it goes. `test_none_stays_that_nobody_can_tell_to_be_clean`
        clean = False
        try:
            with self._database.read() as connection:
                clean = erased_until(connection) <= label.applied
        finally:
            if not clean:
                path.unlink(missing_ok=True)
                self._saved = _NOTHING
        return clean

    def _load(self) -> None:
        if self._path is None:
            return
        try:
            snapshot = load(self._path, self._fingerprint)
            if snapshot is not None:
                self._adopt(snapshot)
                self._holds_nothing_erased(self._path, snapshot.label)
        except LangmemAdapterError as error:
            self._fail("is not used, the database is read instead", error)
        try:
            sweep(self._path)
        except OSError as error:
            self._fail("has leftovers that cannot be removed", error)

    def _adopt(self, snapshot: Snapshot) -> None:
        index = self._factory(self._dimensions or snapshot.vectors.shape[1])
        _put_all(index, Batch(snapshot.pks, snapshot.scopes, snapshot.vectors, np.empty(0, np.int64)))
        self._index, self._newest = index, snapshot.newest
        self._label = self._saved = snapshot.label

    def _fail(self, what: str, error: Exception) -> None:
        self._failures += 1
        _log.warning("the vector index's snapshot %s %s: %s", self._path, what, error)


def _beside(database: Database, fingerprint: str, space: Space) -> Path | None:
    mark = fingerprint if space is feed.VECTORS else f"{space.name} {fingerprint}"
    return snapshot_path(database.path, mark) if database.path else None


def _put_all(index: VectorIndex, batch: Batch) -> None:
    if isinstance(index, Loadable):
        index.adopt(batch)
    else:
        index.update(batch)
