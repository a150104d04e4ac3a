"""The indexer: keeps one vector index in step with the database by pulling its change feed.

Nobody pushes into an index. Whoever is about to search calls `Indexer.pull`: a cheap look at the database's version, and
only if somebody committed, the rows named by the changes since the last one applied, as they now stand. Applying a change
twice does no harm, and a change that was undone (a backup restored) shows in its nonce: then everything is read anew. The
snapshot with its applied change number is what Chroma's persisted index and Qdrant's shards keep, too.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from sqlalchemy import bindparam, func, select

from langmem_adapter.errors import EmbeddingMismatchError, LangmemAdapterError
from langmem_adapter.index.base import Batch
from langmem_adapter.index.snapshot import Draft, Label, load, snapshot_path, sweep
from langmem_adapter.storage.tables import MEMORIES, changes, memories

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from pathlib import Path

    from sqlalchemy import Connection, Row

    from langmem_adapter.index.base import Pks, VectorIndex
    from langmem_adapter.index.snapshot import Snapshot
    from langmem_adapter.storage.database import Database

    _Rows: TypeAlias = Sequence[Row[Any, Any, Any]]  # pk, scope_id, embedding; the last two are None where it is gone

__all__ = ["Indexer", "Verification"]

_log = logging.getLogger("langmem_adapter")

_BATCH: Final = 10_000
_SHARE: Final = 10
_NUMBER: Final = np.dtype("<f4").itemsize
_NOTHING: Final = Label("", 0, b"")

# Statements are built once. The changes of one batch, whatever space they belong to:
_NEXT: Final = (
    select(changes.c.seq).where(changes.c.seq > bindparam("applied")).order_by(changes.c.seq).limit(_BATCH).subquery()
)
_UNTIL: Final = select(func.max(_NEXT.c.seq), func.count(_NEXT.c.seq))
# Each memory that they name, once, as it stands now; without an embedding if it is gone.
_NAMED: Final = (
    select(changes.c.row)
    .where(
        changes.c.seq > bindparam("applied"), changes.c.seq <= bindparam("until"), changes.c.space == bindparam("space")
    )
    .distinct()
    .subquery()
)
_CHANGED: Final = (
    select(_NAMED.c.row.label("pk"), memories.c.scope_id, memories.c.embedding)
    .join_from(_NAMED, memories, memories.c.pk == _NAMED.c.row, isouter=True)
    .order_by(_NAMED.c.row)
)
_NONCE: Final = select(changes.c.nonce).where(changes.c.seq == bindparam("seq"))
_LAST: Final = select(changes.c.seq, changes.c.nonce).order_by(changes.c.seq.desc()).limit(1)
_COUNT: Final = select(func.count()).select_from(memories)
_ALL: Final = (
    select(memories.c.pk, memories.c.scope_id, memories.c.embedding)
    .order_by(memories.c.pk)
    .execution_options(yield_per=_BATCH)
)


@dataclass(frozen=True, slots=True)
class Verification:
    """How an index compares with its database.

    Attributes:
        checked: How many memories the database has.
        only_in_index: Rows that the database does not have.
        only_in_database: Rows that the index does not have.
        differing: Rows with another vector or another scope here than there.
    """

    checked: int
    only_in_index: tuple[int, ...]
    only_in_database: tuple[int, ...]
    differing: tuple[int, ...]

    @property
    def ok(self) -> bool:
        """Whether they agree in everything."""
        return not (self.only_in_index or self.only_in_database or self.differing)


class Indexer:
    """Feeds one index from one database. Safe to use from many threads; only one of them pulls at a time.

    At first it loads the snapshot, if there is one that fits; what it lacks comes from the database.

    Args:
        database: The truth, its tables made.
        index_factory: Makes an empty index for vectors of a given length.
        fingerprint: Of the embedding model in use; a snapshot made with another one is not loaded.
        dimensions: Length of the vectors; `None` takes it from the first memory.
        path: The snapshot's file; by default beside an SQLite file, and none for a database in memory or on a server.
        snapshot_every: Changes after which a snapshot is written, or a tenth of the index where that is more.

    Raises:
        EmbeddingMismatchError: A memory's vector has another length than the others or than *dimensions*.
        StorageError: The database failed.
    """

    def __init__(
        self,
        database: Database,
        index_factory: Callable[[int], VectorIndex],
        *,
        fingerprint: str,
        dimensions: int | None = None,
        path: Path | None = None,
        snapshot_every: int = 5_000,
    ) -> None:
        self._database = database
        self._factory = index_factory
        self._fingerprint = fingerprint
        self._dimensions = dimensions
        self._path = path or (snapshot_path(database.path, fingerprint) if database.path else None)
        self._every = snapshot_every
        self._pulling = threading.Lock()
        self._saving = threading.Lock()
        self._index = None if dimensions is None else index_factory(dimensions)
        self._label = self._saved = _NOTHING
        self._version: Hashable = None
        self._whole = True  # False while it is neither the old state nor the new
        self._pending = 0
        self._failures = 0
        self._load()
        self.pull()

    @property
    def index(self) -> VectorIndex | None:
        """The index; `None` as long as the length of its vectors is unknown, hence no memory exists.

        Take it anew for each search: a rebuild puts another one in its place.
        """
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
            EmbeddingMismatchError: A new vector has another length.
            StorageError: The database failed; the index is as it was.
        """
        version = self._database.version()  # before reading: what is committed meanwhile is left for the next pull
        if version == self._version:
            return 0
        with self._pulling, self._database.read() as connection:
            done = self._follow(connection)
            self._version = version
        self._snapshot_if_due()
        return done

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Read everything anew into a fresh index, which then takes the old one's place.

        Args:
            progress: Called after each batch with the number of memories read and of all.

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
            return _compared(self._index, connection)

    def _follow(self, connection: Connection) -> int:
        if self._label.applied == 0:
            return self._rebuild(connection)
        if self._whole and self._same_lineage(connection):
            return sum(self._pulled(connection))
        _log.warning("the vector index does not match the history of %s; reading it anew", self._database.location)
        return self._rebuild(connection)

    def _same_lineage(self, connection: Connection) -> bool:
        return connection.execute(_NONCE, {"seq": self._label.applied}).scalar() == self._label.nonce

    def _pulled(self, connection: Connection) -> Iterator[int]:
        while True:
            window = {"applied": self._label.applied}
            until, count = connection.execute(_UNTIL, window).one()
            if not count:
                return
            self._apply(connection.execute(_CHANGED, {**window, "until": until, "space": MEMORIES}).all())
            nonce = connection.execute(_NONCE, {"seq": until}).scalar_one()
            self._label = Label(self._fingerprint, until, nonce)
            self._pending += count
            yield count

    def _apply(self, rows: _Rows) -> None:
        index = self._made_for(rows) if self._index is None else self._index
        if index is None:
            return
        batch = _batch(rows, index.dimensions)
        self._whole = False  # if this is interrupted half-way, the next pull reads everything anew
        index.update(batch)
        self._index, self._whole = index, True

    def _rebuild(self, connection: Connection, progress: Callable[[int, int], None] | None = None) -> int:
        last = connection.execute(_LAST).one_or_none()
        total, done = int(connection.execute(_COUNT).scalar_one()), 0
        index = None if self._dimensions is None else self._factory(self._dimensions)
        for rows in connection.execute(_ALL).partitions():
            index = self._made_for(rows) if index is None else index
            if index is not None:
                index.update(_batch(rows, index.dimensions))
            done += len(rows)
            if progress is not None:
                progress(done, total)
        self._label = _NOTHING if last is None else Label(self._fingerprint, last.seq, last.nonce)
        self._index, self._whole, self._pending = index, True, done
        return done

    def _made_for(self, rows: _Rows) -> VectorIndex | None:
        lengths = (len(row.embedding) // _NUMBER for row in rows if row.embedding is not None)
        dimensions = self._dimensions or next(lengths, None)
        return None if dimensions is None else self._factory(dimensions)

    # ── snapshots ───────────────────────────────────────────────────────────────────────────────────────────────────

    def snapshot(self) -> bool:
        """Write a snapshot. A failure is logged and counted, never raised: a snapshot only spares time.

        Returns:
            Whether it was written; not if it failed, if there is nothing to write, or no place for it.
        """
        if self._path is None:
            return False
        try:
            return self._save(self._path)
        except OSError as error:
            self._fail("was not written", error)
            return False

    def close(self) -> None:
        """Write a snapshot if anything changed since the last one."""
        if self._label != self._saved:
            self.snapshot()

    def _snapshot_if_due(self) -> None:
        size = 0 if self._index is None else len(self._index)
        if self._pending >= max(self._every, size // _SHARE) and not self._saving.locked():
            self.snapshot()

    def _save(self, path: Path) -> bool:
        self._pending = 0  # also if it fails: the next attempt comes after as many changes, not at once
        with self._saving, Draft(path) as draft:
            with self._pulling:
                index, label = self._index, self._label
                if index is None or label.applied == 0 or not self._whole:
                    return False
                draft.write(index, label)
            draft.publish()
            self._saved = label
        return True

    def _load(self) -> None:
        if self._path is None:
            return
        try:
            snapshot = load(self._path, self._fingerprint)
            if snapshot is not None:
                self._adopt(snapshot)
        except LangmemAdapterError as error:
            self._fail("is not used, the database is read instead", error)
        try:
            sweep(self._path)
        except OSError as error:
            self._fail("has leftovers that cannot be removed", error)

    def _adopt(self, snapshot: Snapshot) -> None:
        dimensions = snapshot.vectors.shape[1]
        index = self._factory(self._dimensions or dimensions)
        index.update(Batch(snapshot.pks, snapshot.scopes, snapshot.vectors, np.empty(0, np.int64)))
        self._index, self._label, self._saved = index, snapshot.label, snapshot.label

    def _fail(self, what: str, error: Exception) -> None:
        self._failures += 1
        _log.warning("the vector index's snapshot %s %s: %s", self._path, what, error)


def _batch(rows: _Rows, dimensions: int) -> Batch:
    there = [row for row in rows if row.embedding is not None]
    for row in there:
        if len(row.embedding) != dimensions * _NUMBER:
            raise EmbeddingMismatchError(
                f"memory row {row.pk} has a vector of {len(row.embedding) // _NUMBER} dimensions, this index holds "
                f"{dimensions}; open the database with the embedding model that it was filled with, or re-embed it with: "
                "langmem-adapter reindex"
            )
    numbers = np.frombuffer(b"".join(row.embedding for row in there), "<f4").astype(np.float32, copy=False)
    return Batch(
        pks=_pks(row.pk for row in there),
        scopes=_pks(row.scope_id for row in there),
        vectors=numbers.reshape(-1, dimensions),
        gone=_pks(row.pk for row in rows if row.embedding is None),
    )


def _compared(index: VectorIndex | None, connection: Connection) -> Verification:
    seen, lacking, differing = [np.empty(0, np.int64)], [], []
    for rows in connection.execute(_ALL).partitions():
        pks = _pks(row.pk for row in rows)
        seen.append(pks)
        if index is None:
            lacking += pks.tolist()
            continue
        for row, scope, vector in zip(rows, index.scopes_of(pks), index.vectors(pks).astype("<f4"), strict=True):
            if scope < 0:
                lacking.append(row.pk)
            elif scope != row.scope_id or vector.tobytes() != row.embedding:
                differing.append(row.pk)
    known = np.concatenate(seen)
    extra = [] if index is None else np.setdiff1d(index.pks(), known).tolist()
    return Verification(len(known), tuple(extra), tuple(lacking), tuple(differing))


def _pks(numbers: Iterable[int]) -> Pks:
    return np.fromiter(numbers, np.int64)
