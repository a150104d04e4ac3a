"""Any LangChain vector store as an index: Qdrant, Chroma, Milvus, or another class with that interface.

The store proposes, the database decides. A row that is gone or belongs to another scope is dropped, and the cosine is computed
from the database's own vector, so a store's filters, scores and leftovers do not matter. Small scopes, and rows that a filter
names, are compared in the database, which is exact and takes milliseconds; so is what a store gives too few of. The cost: one
more query per search, and for a store without a filter that we know, several ever larger ones.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_URL, uuid5

import numpy as np
from sqlalchemy import bindparam, select

from langmem_adapter.errors import LangmemAdapterError, StorageError
from langmem_adapter.index.base import (
    Best,
    Nearest,
    Verification,
    align_values,
    as_batch,
    check_query,
    cosines,
    count_in_scopes,
    count_rows,
    read_memories,
    search_exactly,
)
from langmem_adapter.index.stores import StoreEntry
from langmem_adapter.records.checks import redact_urls
from langmem_adapter.storage.drivers import without_rows
from langmem_adapter.storage.feed import TEXTS, VECTORS, all_rows, birth
from langmem_adapter.storage.tables import memories

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.index.base import Batch, Pks, Scores, Vectors
    from langmem_adapter.index.stores import Store
    from langmem_adapter.storage.database import Database, OpenConnection
    from langmem_adapter.storage.feed import Cursor, Rows

_PUT: Final = 500  # memories in one call of the store
_MOST_SCOPES: Final = 500  # ids in a store's filter; more are sorted out here
_MOST_ASKED: Final = 10_000  # many stores give no more
_SLACK: Final = 16
_GROWTH: Final = 4
_ROUNDING: Final = 1e-6  # a store may return two scores nearer than this in any order
_SAME: Final = 1e-3  # a store that normalises, or keeps halves, moves a component by less
_WITNESSES: Final = 3
_NEWEST: Final = (
    select(memories.c.pk, memories.c.seq)
    .where(memories.c.seq <= bindparam("applied"))
    .order_by(memories.c.seq.desc())
    .limit(_WITNESSES)
)


class VectorStoreIndex:
    """A vector store, fed from the change feed and searched together with the database.

    Up to *exact_up_to* memories in the scopes of a search the database compares all of them itself. Each database needs its
    own collection: a copy of a database (a backup put elsewhere) has the same ids.
    """

    def __init__(self, store: Store, database: Database, dimensions: int, *, exact_up_to: int = 1_000) -> None:
        self._store = store
        self.dimensions: Final = dimensions
        self.name: Final = f"store:{store.kind}:{store.collection}"[:255]
        self.private: Final = store.private
        self._exact_up_to = exact_up_to
        self._reading: OpenConnection = database.read
        # Contract: stores inside this process move their arrays while they write, so a search waits for the write.
        # `test_nobody_searches_a_store_that_is_being_written`
        self._lock = ReadWriteLock()
        self._translated = StoreErrors(store.kind)
        self._same_model = False

    def on(self, connection: Connection) -> VectorStoreIndex:
        index = copy(self)
        vars(index).update(_reading=partial(nullcontext, connection))
        return index

    def prepare(self, connection: Connection) -> None:  # noqa: ARG002 - the feed's signature
        with self._translated:
            self._store.check(self.dimensions, None)

    def take(self, connection: Connection, rows: Rows) -> None:
        """Bring in changed memories."""
        batch, database = as_batch(rows, self.dimensions), _mark(connection)
        there = [row for row in rows if row.embedding is not None]
        entries = [
            StoreEntry(memory_id(database, row.pk), row.pk, row.scope_id, row.seq, database, vector, row.text)
            for row, vector in zip(there, batch.vectors, strict=True)
        ]
        if entries and not self._same_model:
            with self._translated:
                self._store.check(self.dimensions, entries[0])
            self._same_model = True
        self._put(entries, [memory_id(database, pk) for pk in batch.gone.tolist()])

    def _put(self, entries: Sequence[StoreEntry], gone: Sequence[str]) -> None:
        for start in range(0, len(entries), _PUT):
            with self._lock.writing(), self._translated:
                self._store.put(entries[start : start + _PUT])
        for start in range(0, len(gone), _PUT):
            with self._lock.writing(), self._translated:
                self._store.drop(gone[start : start + _PUT])

    def refill(self, connection: Connection, report: Callable[[int], None]) -> None:
        """Bring in every memory, then remove what is left over where the store can be listed; searches go on meanwhile."""
        done = 0
        for rows in all_rows(connection, TEXTS):
            self.take(connection, rows)
            done += len(rows)
            report(done)
        pks, database = set(self.on(connection).pks().tolist()), _mark(connection)
        with self._lock.reading(), self._translated:
            left = [entry.id for entry in self._store.entries(database) or () if entry.pk not in pks]
        self._put([], left)

    def holds(self, connection: Connection, cursor: Cursor) -> bool:
        """Whether the store has what the cursor says: the latest memories, as they were last changed.

        A store that was emptied, restored from a backup, or is another one of the same name gives itself away.
        """
        newest = connection.execute(_NEWEST, {"applied": cursor.applied}).all()
        ids = {memory_id(_mark(connection), row.pk): row.seq for row in newest}
        entries = self._get(list(ids))
        return entries is None or {name: entry.seq for name, entry in entries.items()} == ids

    def _get(self, ids: Sequence[str]) -> Mapping[str, StoreEntry] | None:
        with self._lock.reading(), self._translated:
            return self._store.get(ids) if ids else {}

    def __len__(self) -> int:
        with self._reading() as connection:
            return count_rows(connection, VECTORS)

    def search(
        self,
        query: Vectors,
        k: int,
        *,
        scopes: Collection[int],
        pks: Pks | None = None,
        ordered: bool = True,  # noqa: ARG002
    ) -> Nearest:
        """The *k* nearest memories within *scopes*, in any case in order; `Found.strategy` tells who found them."""
        query = check_query(query, self.dimensions)
        with self._reading() as connection:
            if pks is None and count_in_scopes(connection, scopes, self._exact_up_to + 1) > self._exact_up_to:
                proposed = self._proposed(connection, query, k, {int(scope) for scope in scopes})
                if proposed is not None:
                    return Nearest(proposed.pks, proposed.scores, self._store.kind)
                strategy = f"exact, {self._store.kind} gave too few"
            else:
                strategy = "exact"
            best = search_exactly(connection, query, k, scopes, pks)
            return Nearest(best.pks, best.scores, strategy)

    def _proposed(self, connection: Connection, query: Vectors, k: int, scopes: set[int]) -> Best | None:
        """The best of what the store gives, asked for more and more; `None` if that is not all there is."""
        narrow = sorted(scopes) if len(scopes) <= _MOST_SCOPES else None
        database, wanted = _mark(connection), 2 * k + _SLACK
        while wanted <= _MOST_ASKED:
            with self._lock.reading(), self._translated:
                pks, count = self._store.nearest(query, wanted, narrow, database)
            best, safe = self._checked(connection, query, k, np.array(pks, np.int64), scopes)
            if count < wanted:
                return best if len(best.pks) >= count_in_scopes(connection, scopes, k) else None
            if safe:
                return best
            wanted *= _GROWTH
        return None

    def _checked(self, connection: Connection, query: Vectors, k: int, pks: Pks, scopes: set[int]) -> tuple[Best, bool]:
        """The best of these by the database's own word, and whether what the store left out cannot be among them."""
        batch = read_memories(connection, pks, self.dimensions)
        ours = np.isin(batch.scopes, list(scopes))
        scores = cosines(batch.vectors[ours], query)
        best = Best(k)
        best.add(batch.pks[ours], scores)
        return best, len(scores) > k and bool(best.scores[-1] > scores.min() + _ROUNDING)

    def scores(self, query: Vectors, pks: Pks) -> Scores:
        return cosines(self.vectors(pks), check_query(query, self.dimensions))

    def vectors(self, pks: Pks) -> Vectors:
        batch = self._read(pks)
        return align_values(pks, batch.pks, batch.vectors, np.nan)

    def pks(self) -> Pks:
        with self._reading() as connection:
            return np.fromiter(connection.execute(select(memories.c.pk).order_by(memories.c.pk)).scalars(), np.int64)

    def scopes_of(self, pks: Pks) -> Pks:
        batch = self._read(pks)
        return align_values(pks, batch.pks, batch.scopes, -1)

    def _read(self, pks: Pks) -> Batch:
        with self._reading() as connection:
            return read_memories(connection, pks, self.dimensions)

    def compare(self, connection: Connection) -> Verification:
        """What the store itself holds, and the memories: as far as the store lets itself be looked into."""
        database = _mark(connection)
        pks: set[int] = set()
        lacking: list[int] = []
        differing: list[int] = []
        unchecked: dict[str, None] = {}
        for rows in all_rows(connection, TEXTS):
            pks.update(row.pk for row in rows)
            entries = self._get([memory_id(database, row.pk) for row in rows])
            if entries is None:
                unchecked["it cannot be read by id: its entries were not compared"] = None
                continue
            for row in rows:
                entry = entries.get(memory_id(database, row.pk))
                if entry is None:
                    lacking.append(row.pk)
                elif not _agree(row, entry):
                    differing.append(row.pk)
            if not all(len(entry.vector) for entry in entries.values()):
                unchecked["it does not show its vectors: they were not compared"] = None
        extra = self._extra(database, pks, unchecked)
        return Verification(len(pks), extra, tuple(lacking), tuple(differing), tuple(unchecked))

    def _extra(self, database: str, pks: set[int], unchecked: dict[str, None]) -> tuple[int, ...]:
        with self._lock.reading(), self._translated:
            entries = self._store.entries(database)
            if entries is None:
                unchecked["it cannot be listed: entries that only the store has were not checked"] = None
                return ()
            return tuple(sorted({entry.pk for entry in entries} - pks))


class ReadWriteLock:
    """Many readers at once, or one writer alone: native code that reads vectors while they move crashes the process.

    Waiting writers go first, so that steady searches cannot starve an update. Not re-entrant: a thread that holds it, in
    whichever way, must not ask for it again.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())  # its lock is held during a write
        self._readers = 0
        self._waiting = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._readers)
            finally:
                self._waiting -= 1
                self._changed.notify_all()
            yield


class StoreErrors:
    """A store raises whatever its driver raises: all of it, and nothing of ours, becomes a `StorageError`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, LangmemAdapterError):
            message = redact_urls(without_rows(error))
            raise StorageError(
                f"the vector store {self._kind} failed: {type(error).__name__}: {message}", transient=True
            ) from error


def _agree(row: Any, entry: StoreEntry) -> bool:
    if (entry.pk, entry.scope, entry.seq) != (row.pk, row.scope_id, row.seq):
        return False
    ours = np.frombuffer(row.embedding, "<f4")
    near = len(ours) == len(entry.vector) and bool(np.abs(ours - entry.vector).max() <= _SAME)
    return near or not len(entry.vector)


def _mark(connection: Connection) -> str:
    """Tells one database from another; empty while it never held anything."""
    return (birth(connection) or b"").hex()


def memory_id(database: str, pk: int) -> str:
    """A memory's id in a store: a UUID, the same whenever and by whomever it is computed."""
    return str(uuid5(uuid5(NAMESPACE_URL, f"langmem_adapter:{database}"), str(pk)))
