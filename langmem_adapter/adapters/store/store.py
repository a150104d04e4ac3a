"""`MemoryStore`: LangGraph's `BaseStore` on a memory's database."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from langgraph.store.base import BaseStore, GetOp, IndexConfig, Op, Result, SearchOp, TTLConfig

from langmem_adapter.adapters.store.operations import (
    Operations,
    Reader,
    ReadOp,
    as_bytes,
    asked,
    check_ttl,
    field_index,
)
from langmem_adapter.adapters.threads import check_keys
from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.storage import items
from langmem_adapter.storage.items import ITEMS, Put, drop_vectors, give_vectors, present, refresh, sweep, write
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.adapters.store.operations import FieldIndex, Index
    from langmem_adapter.embedding.embedder import UnitVectors
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.storage.database import Database

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


_After: TypeAlias = "Callable[[Connection], None] | None"
_Meanings: TypeAlias = "tuple[dict[str, UnitVectors], UnitVectors]"
"""The vectors that one batch needs: of what is looked for, by its text, and of what is written."""

_TTL_KEYS: Final = tuple(TTLConfig.__annotations__)
_SWEEP_MINUTES: Final = 5.0
_NOTHING: Final = dict[str, "UnitVectors"](), np.empty((0, 0), np.float32)


class MemoryStore(BaseStore):
    """A store for LangGraph that lies in a memory's database: durable, shared by processes, searched by meaning.

    It may be given to `compile(store=…)`, `create_agent(store=…)` and LangMem's tools, sync and async. Items lie beside the
    memories and have nothing to do with them; every store over one memory sees the same items. Values are JSON objects:
    what cannot be kept as JSON is an error, never silently turned into text.

    Without a query, items come in the order of their last change, the latest first. With one, each item's score is the
    highest cosine of its vectors; items without vectors follow, with the score `None`, if the limit is not reached. Filters
    are those of `langmem_adapter.filters`. A read within a batch sees the state before the batch's puts.

    Args:
        memory: Whose database and, unless *index* says otherwise, whose embeddings are used. It stays the caller's to close.
        index: What is searched by meaning. `None` embeds whole values with the memory's own embeddings; a mapping may name
            `embed`, `dims` and `fields`, as for every LangGraph store (without `embed`, the memory's own embeddings); `False`
            keeps no vectors, and queries are ignored. A function given as `embed` is known by its name: give it a text
            attribute `fingerprint` if two of one name make different vectors.
        ttl: `default_ttl` and `refresh_on_read` for items that expire, in minutes; `omit_expired` hides them before a sweep
            deletes them; `sweep_interval_minutes` is for `start_ttl_sweeper`.

    Raises:
        InvalidInputError: *index* or *ttl* is not understood.

    Example:
        >>> from langmem_adapter import Memory
        >>> memory = Memory(":memory:")
        >>> store = MemoryStore(memory, index={"fields": ["text"]})
        >>> store.put(("ann", "notes"), "1", {"text": "The violin lesson is on Monday", "year": 2026})
        >>> store.put(("ann", "notes"), "2", {"text": "Buy bread and olives", "year": 2025})
        >>> [item.key for item in store.search(("ann",), query="When do I play the violin?")]
        ['1', '2']
        >>> [item.key for item in store.search(("ann",), filter={"year": {"$lt": 2026}})]
        ['2']
        >>> store.list_namespaces()
        [('ann', 'notes')]
        >>> memory.close()
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Memory,
        index: IndexConfig | Literal[False] | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self._parts = parts_of(memory, "a MemoryStore")
        self._database = self._parts.database
        self._fields = field_index(self._parts, index)
        self.ttl_config = None if ttl is None else _checked_ttl(ttl)
        self._sweeper: TTLSweeper | None = None

    @property
    def index_config(self) -> IndexConfig | None:
        """What is searched by meaning, and by which model, as LangGraph's own stores say it; `None` for `index=False`."""
        return None if self._fields is None else self._fields.config

    @planned
    def batch(self, ops: Iterable[Op]) -> Plan[list[Result]]:
        """Carry out some operations: those that read first, then all puts in one transaction.

        Args:
            ops: LangGraph's get, put, search and list operations.

        Returns:
            The result of each, in order; `None` for a put.

        Raises:
            InvalidNamespaceError: A namespace is none; nothing was done.
            InvalidInputError: Another part of an operation is not understood, or a value is no JSON; nothing was done.
            FilterError: A filter is not understood; nothing was done.
            EmbeddingMismatchError: The vectors kept come from another embedding model; nothing was written.
            StorageError: The database refused or failed; nothing was written.
        """
        work = Operations(ops, self._fields)
        embedded = Plan.calling(self._embed, self._aembed, work)
        return embedded.and_then(lambda meanings: Plan(partial(self._answer, work, meanings))).and_then(self._settle)

    abatch = awaited(batch)  # type: ignore[arg-type]  # mypy takes `self` from the base class, whose name this is

    get, aget = asked(BaseStore.get), asked(BaseStore.aget)
    put, aput = asked(BaseStore.put), asked(BaseStore.aput)
    delete, adelete = asked(BaseStore.delete), asked(BaseStore.adelete)
    search, asearch = asked(BaseStore.search), asked(BaseStore.asearch)
    list_namespaces, alist_namespaces = asked(BaseStore.list_namespaces), asked(BaseStore.alist_namespaces)

    # ── what expires ────────────────────────────────────────────────────────────────────────────────────────────────

    @planned
    def sweep_ttl(self) -> Plan[int]:
        """Delete every item that has expired, whoever put it.

        Returns:
            How many.
        """
        return Plan.apart(self._sweep)

    asweep_ttl = awaited(sweep_ttl)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep in a thread of its own, now and every few minutes, until `stop_ttl_sweeper` or the memory's end.

        Args:
            sweep_interval_minutes: Instead of the configured one; 5 where none is.

        Returns:
            Is done when the thread has ended; cancel it to end the thread. The one that is running already, if there is one.
        """
        if self._sweeper is None or not self._sweeper.running:
            configured = (self.ttl_config or {}).get("sweep_interval_minutes")
            minutes = check_ttl(sweep_interval_minutes or configured or _SWEEP_MINUTES, "sweep_interval_minutes")
            self._sweeper = TTLSweeper(self._sweep, minutes or _SWEEP_MINUTES)
            self._parts.writers.add(self._sweeper)
        return self._sweeper.done

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End the thread of `start_ttl_sweeper`.

        Args:
            timeout: Seconds to wait for it; `None` until it has ended.

        Returns:
            Whether it has ended, or there was none.
        """
        return self._sweeper is None or self._sweeper.close(timeout)

    def _sweep(self) -> int:
        now, count = present(), 0
        while gone := self._database.write(partial(sweep, now=now)):
            count += gone
        return count

    # ── another embedding model ─────────────────────────────────────────────────────────────────────────────────────

    @planned
    def reindex(self, progress: Callable[[int, int], None] | None = None) -> Plan[int]:
        """Embed every item anew, with this store's model and fields: after either of them changed.

        Others may go on meanwhile; items whose turn has not come yet are found, but have no score. Interrupted, it begins
        again when it is called again.

        Args:
            progress: Called after each batch with the number of items done and of all.

        Returns:
            How many items have vectors now.

        Raises:
            InvalidInputError: This store keeps no vectors.
            EmbeddingMismatchError: Somebody wrote vectors of the old model meanwhile; close that program and call it again.
            StorageError: The database failed; call it again.
        """
        if self._fields is None:
            raise InvalidInputError(
                "this store was made with index=False; make it with the embeddings that it shall have"
            )
        return Plan.apart(partial(reindex, self._database, self._fields, progress))

    areindex = awaited(reindex)

    # ── the steps of a batch ────────────────────────────────────────────────────────────────────────────────────────

    def _embed(self, work: Operations) -> _Meanings:
        if self._fields is None:
            return _NOTHING
        embedder = self._fields.embedder
        return {query: embedder.query(query) for query in work.queries}, embedder.vectors(work.texts)

    async def _aembed(self, work: Operations) -> _Meanings:
        if self._fields is None:
            return _NOTHING
        embedder = self._fields.embedder
        texts, *queries = await asyncio.gather(embedder.avectors(work.texts), *map(embedder.aquery, work.queries))
        return dict(zip(work.queries, queries, strict=True)), texts

    def _answer(self, work: Operations, meanings: _Meanings) -> tuple[list[Result], _After]:
        """What the readings find, and what is to be written after them."""
        now, results = present(), list[Result]([None] * work.count)
        queries, texts = meanings
        touched = self._read(work, queries, now, results) if work.readings else []
        return results, self._after(work.puts(texts), touched, now)

    def _read(self, work: Operations, queries: Mapping[str, UnitVectors], now: int, results: list[Result]) -> list[Any]:
        """Fill in what the readings find; the rows of the items that live on because of it."""
        feed = None
        if queries and self._fields is not None:
            feed = self._parts.feed(ITEMS, self._fields.mark)
            feed.pull()
        omit = bool((self.ttl_config or {}).get("omit_expired"))
        with self._database.read() as connection:
            index = None if feed is None else feed.view(lambda: connection)
            reader = Reader(connection, index, now=now, omit_expired=omit)
            for place, op in work.readings.items():
                results[place] = _result(reader, op, work, place, queries)
        return list(reader.touched.values())

    def _settle(self, answered: tuple[list[Result], _After]) -> Plan[list[Result]]:
        """Write what is to be written, and give the results."""
        results, after = answered
        if after is None:
            return Plan.known(results)
        return Plan.calling(self._database.write, self._database.awrite, after).then(lambda _: results)

    def _after(self, puts: list[Put], touched: list[Any], now: int) -> _After:
        if not puts and not touched:
            return None
        mark = None if self._fields is None else self._fields.mark

        def after(connection: Connection) -> None:
            refresh(connection, touched, now)
            write(connection, puts, fingerprint=mark)

        return after


def _result(reader: Reader, op: ReadOp, work: Operations, place: int, queries: Mapping[str, UnitVectors]) -> Result:
    if isinstance(op, GetOp):
        return reader.get(op)
    if isinstance(op, SearchOp):
        return reader.search(op, work.filters[place], queries.get(op.query or ""))
    return reader.namespaces(op)


def _checked_ttl(ttl: TTLConfig) -> TTLConfig:
    if not isinstance(ttl, Mapping):
        raise InvalidInputError(f"ttl must be a mapping like {{'default_ttl': 60}}, not {type(ttl).__name__}")
    check_keys(ttl, _TTL_KEYS, "ttl")
    for name in ("default_ttl", "sweep_interval_minutes"):
        check_ttl(ttl.get(name), f"ttl[{name!r}]")
    return TTLConfig(**ttl)
