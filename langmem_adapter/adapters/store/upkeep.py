"""What a store does beside its batches: it deletes what has expired, and embeds every item anew for another model."""

from __future__ import annotations

import json
import logging
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.adapters.store.fields import as_bytes
from langmem_adapter.errors import StorageError
from langmem_adapter.storage import items
from langmem_adapter.storage.item_writes import drop_vectors, give_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langmem_adapter.adapters.store.fields import FieldIndex, Index
    from langmem_adapter.storage.database import Database

__all__ = ["TTLSweeper", "reindex"]

_log = logging.getLogger("langmem_adapter")

_BATCH: Final = 256


class TTLSweeper:
    """Sweeps at once, and then every so many minutes, until it is closed. It never keeps a program from ending.

    Attributes:
        done: Is set when the thread has ended; cancelling it ends the thread.
    """

    def __init__(self, sweep: Callable[[], int], minutes: float) -> None:
        self.done: Future[None] = Future()
        self._sweep = sweep
        self._seconds = minutes * 60
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="langmem-adapter ttl sweeper", daemon=True)
        self.done.add_done_callback(lambda _: self._stopping.set())
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the thread lives."""
        return self._thread.is_alive()

    def close(self, timeout: float | None = None) -> bool:
        """End the thread, wait for it so many seconds (`None`: until it has ended), and tell whether it has ended."""
        self._stopping.set()
        self._thread.join(timeout)
        return not self.running

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._sweep()
            except StorageError as error:  # nobody waits for it: the next sweep tries again
                _log.warning("expired items were not swept: %s", error)
            self._stopping.wait(self._seconds)
        with suppress(InvalidStateError):  # it was cancelled
            self.done.set_result(None)


def reindex(database: Database, fields: FieldIndex, progress: Callable[[int, int], None] | None) -> int:
    """Drop the vectors of every item, and make them anew; see `MemoryStore.reindex`."""
    database.write(partial(drop_vectors, fingerprint=fields.mark))
    with database.read() as connection:
        total = items.count(connection)
    last = done = indexed = 0
    while rows := _after(database, last):
        vectors = _vectors(fields, rows)
        database.write(partial(give_vectors, vectors=vectors, rows=rows, fingerprint=fields.mark))
        last, done, indexed = rows[-1].pk, done + len(rows), indexed + sum(map(bool, vectors.values()))
        if progress is not None:
            progress(done, max(total, done))
    return indexed


def _after(database: Database, pk: int) -> list[Any]:
    with database.read() as connection:
        return items.after(connection, pk, _BATCH)


def _vectors(fields: FieldIndex, rows: Sequence[Any]) -> dict[int, list[bytes]]:
    texts = {row.pk: fields.texts(json.loads(row.value), _index(row), f"the item {row.key!r}") for row in rows}
    made = iter(fields.embedder.vectors([text for found in texts.values() for text in found]))
    return {pk: [as_bytes(next(made)) for _ in found] for pk, found in texts.items()}


def _index(row: Any) -> Index:
    index: Index = None if row.fields is None else json.loads(row.fields) or False
    return index
