"""`MemoryStore`: LangGraph's `BaseStore` on a memory's database."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby, islice, takewhile
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

import numpy as np
from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from langmem_adapter.adapters.threads import check_keys
from langmem_adapter.arguments import bounded, each_of
from langmem_adapter.embedding.embedder import Embedder
from langmem_adapter.embedding.models import embedding_limits, fingerprint, resolve_embeddings
from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.filters import Filter, parse_filter
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import as_text, check_text, json_object, quoted
from langmem_adapter.storage import items
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.embedding.embedder import UnitVectors
    from langmem_adapter.index.base import VectorView
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.memory.parts import Parts
    from langmem_adapter.storage.database import Database

M = TypeVar("M", bound="Callable[..., Any]")

__all__ = ["MemoryStore"]

Index: TypeAlias = Literal[False] | list[str] | None
"""The index of a put: the store's own fields, none, or these paths."""
ReadOp: TypeAlias = "GetOp | SearchOp | ListNamespacesOp"
Candidates: TypeAlias = Mapping[int, float | None]
"""Numbers of items and their scores, best first."""
_QueryVectors: TypeAlias = "tuple[dict[str, UnitVectors], UnitVectors]"
"""The vectors of one batch: of the queries, by their text, and of what is written."""

_log = logging.getLogger("langmem_adapter")

_WHOLE: Final = "$"
_BATCH: Final = 256
_MOST: Final = 1_000_000_000
_MINUTE: Final = 60_000_000  # microseconds
_LONGEST_TTL: Final = 1e9  # minutes; some 1,900 years, which a datetime can still represent
_SWEEP_MINUTES: Final = 5.0
_MORE: Final = 4  # times as many candidates, when the first did not suffice
_FILTERED: Final = 8  # times as many from the beginning, where a filter will drop some
_MOST_READ: Final = 2_000  # rows fetched at a time
_DECODE: Final = json.JSONDecoder().raw_decode  # the text is our own, without blanks around it
_NOTHING: Final = dict[str, "UnitVectors"](), np.empty((0, 0), np.float32)


def _check_place(method: M) -> M:
    """A method of LangGraph's `BaseStore` with its place checked before LangGraph reads it."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = signature.bind(*args, **kwargs).arguments
        for name in ("namespace", "namespace_prefix", "prefix", "suffix"):
            if name in arguments and (arguments[name] is not None or name.startswith("namespace")):
                _labels(arguments[name])
        as_text(arguments.get("key"), "a key")
        return method(*args, **kwargs)

    return cast("M", call)


def _labels(labels: object) -> tuple[str, ...]:
    namespace = tuple(each_of(labels, "a namespace"))
    for label in namespace:
        if not isinstance(label, str):
            raise InvalidNamespaceError(f"a label of a namespace is a text, not {quoted(label)}")
    return namespace


class MemoryStore(BaseStore):
    """A store for LangGraph in a memory's database: durable, shared by processes, searched by meaning.

    It may be given to `compile(store=…)`, `create_agent(store=…)` and LangMem's tools, sync and async. Items are independent of
    the memories; every store over one memory sees the same items. Values are JSON objects; anything else is an error.
    Items have no scope: `Memory.purge` leaves them, `delete` removes one.

    Without a query, items come in the order of their last change, the latest first. With one, each item's score is the
    highest cosine of its vectors; items without vectors follow, with the score `None`, if the limit is not reached. Filters
    are those of `langmem_adapter.filters`. A read within a batch sees the state before the batch's puts.

    Args:
        memory: Its database and, unless *index* says otherwise, its embeddings are used; closing it is up to the caller.
        index: What is searched by meaning. `None` embeds whole values with the memory's own embeddings; a mapping may name
            `embed`, `dims` and `fields`, as for every LangGraph store (without `embed`, the memory's own embeddings); `False`
            keeps no vectors, and queries are ignored. A function given as `embed` is identified by its name: give it a text
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
        self._fields = _read_index(self._parts, index)
        self.ttl_config = None if ttl is None else _check_ttl_config(ttl)
        self._sweeper: TTLSweeper | None = None

    @property
    def index_config(self) -> IndexConfig | None:
        """The fields that are embedded, and by which model, as in LangGraph's own stores; `None` for `index=False`."""
        return None if self._fields is None else self._fields.config

    @planned
    def batch(self, ops: Iterable[Op]) -> Plan[list[Result]]:
        """Carry out some operations: those that read first, then all puts in one transaction.

        Raises:
            InvalidNamespaceError: A namespace is none; nothing was done.
            InvalidInputError: Another part of an operation is not understood, or a value is no JSON; nothing was done.
            FilterError: A filter is not understood; nothing was done.
            EmbeddingMismatchError: The vectors kept come from another embedding model; nothing was written.
            StorageError: The database refused or failed; nothing was written.
        """
        work = Operations(ops, self._fields)
        embedded = Plan.calling(self._embed, self._aembed, work)
        return embedded.and_then(lambda vectors: Plan(partial(self._read, work, vectors))).and_then(self._write)

    abatch = awaited(batch)  # type: ignore[arg-type]  # mypy takes `self` from the base class

    get, aget = _check_place(BaseStore.get), _check_place(BaseStore.aget)
    put, aput = _check_place(BaseStore.put), _check_place(BaseStore.aput)
    delete, adelete = _check_place(BaseStore.delete), _check_place(BaseStore.adelete)
    search, asearch = _check_place(BaseStore.search), _check_place(BaseStore.asearch)
    list_namespaces = _check_place(BaseStore.list_namespaces)
    alist_namespaces = _check_place(BaseStore.alist_namespaces)

    @planned
    def sweep_ttl(self) -> Plan[int]:
        """Delete every item that has expired, of any store, and count them."""
        return Plan.in_new_thread(self._sweep)

    asweep_ttl = awaited(sweep_ttl)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep in a thread, now and every few minutes (5 by default), until `stop_ttl_sweeper` or the memory's end.

        Returns:
            A future that is done when the thread has ended; cancel it to end the thread. A running sweeper is reused.
        """
        if self._sweeper is None or self._sweeper.done.done():
            configured = (self.ttl_config or {}).get("sweep_interval_minutes")
            minutes = _check_ttl(sweep_interval_minutes or configured or _SWEEP_MINUTES, "sweep_interval_minutes")
            self._sweeper = TTLSweeper(self._sweep, minutes or _SWEEP_MINUTES)
            self._parts.writers.add(self._sweeper)
        return self._sweeper.done

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End the thread of `start_ttl_sweeper`, and wait *timeout* seconds for it; whether it has ended, or there was none."""
        return self._sweeper is None or self._sweeper.close(timeout)

    def _sweep(self) -> int:
        now, count = items.present(), 0
        while gone := self._database.write(partial(items.sweep, now=now)):
            count += gone
        return count

    @planned
    def reindex(self, progress: Callable[[int, int], None] | None = None) -> Plan[int]:
        """Embed every item anew, with this store's model and fields: after either of them changed.

        Meanwhile items that are not embedded yet have no score. Interrupted, it begins again when it is called again. It calls
        *progress* after each batch with the number of items done and of all, and returns how many items have vectors now.

        Raises:
            InvalidInputError: This store keeps no vectors.
            EmbeddingMismatchError: A program wrote vectors of the old model meanwhile; close it and call this again.
            StorageError: The database failed; call it again.
        """
        if self._fields is None:
            raise InvalidInputError(
                "this store was made with index=False; make it with the embeddings that it shall have"
            )
        return Plan.in_new_thread(partial(_embed_all, self._database, self._fields, progress))

    areindex = awaited(reindex)

    # ── the steps of a batch ────────────────────────────────────────────────────────────────────────────────────────

    def _embed(self, work: Operations) -> _QueryVectors:
        if self._fields is None:
            return _NOTHING
        embedder = self._fields.embedder
        return {query: embedder.query(query) for query in work.queries}, embedder.vectors(work.texts)

    async def _aembed(self, work: Operations) -> _QueryVectors:
        if self._fields is None:
            return _NOTHING
        embedder = self._fields.embedder
        texts, *queries = await asyncio.gather(embedder.avectors(work.texts), *map(embedder.aquery, work.queries))
        return dict(zip(work.queries, queries, strict=True)), texts

    def _read(
        self, work: Operations, vectors: _QueryVectors
    ) -> tuple[list[Result], Callable[[Connection], None] | None]:
        """The results of the readings, and the writes after them."""
        now, results = items.present(), list[Result]([None] * work.count)
        queries, texts = vectors
        mark = None if self._fields is None else self._fields.mark
        touched: list[Any] = []
        if work.readings:
            feed = self._parts.feed(items.ITEMS, mark) if queries and mark is not None else None
            if feed is not None:
                feed.pull()
            omit_expired = bool((self.ttl_config or {}).get("omit_expired"))
            with self._database.read() as connection:
                index = None if feed is None else feed.view(lambda: connection)
                reader = Reader(connection, index, now=now, omit_expired=omit_expired)
                for place, op in work.readings.items():
                    if isinstance(op, GetOp):
                        results[place] = reader.get(op)
                    elif isinstance(op, SearchOp):
                        results[place] = reader.search(op, work.filters[place], queries.get(op.query or ""))
                    else:
                        results[place] = reader.namespaces(op)
            touched = list(reader.touched.values())
        puts = work.puts(texts)

        def write_all(connection: Connection) -> None:
            items.refresh(connection, touched, now)
            items.write(connection, puts, fingerprint=mark)

        return results, write_all if puts or touched else None

    def _write(self, answer: tuple[list[Result], Callable[[Connection], None] | None]) -> Plan[list[Result]]:
        results, work = answer
        if work is None:
            return Plan.of(results)
        return Plan.calling(self._database.write, self._database.awrite, work).then(lambda _: results)


class TTLSweeper:
    """Sweeps at once, and then every so many minutes, until it is closed or *done* is cancelled; a daemon thread."""

    def __init__(self, sweep: Callable[[], int], minutes: float) -> None:
        self.done: Future[None] = Future()
        self._sweep = sweep
        self._seconds = minutes * 60
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="langmem-adapter ttl sweeper", daemon=True)
        self.done.add_done_callback(lambda _: self._stopping.set())
        self._thread.start()

    def close(self, timeout: float | None = None) -> bool:
        """End the thread, wait for it so many seconds (`None`: until it has ended), and tell whether it has ended."""
        self._stopping.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._sweep()
            except StorageError as error:  # no caller waits for it: the next sweep tries again
                _log.warning("expired items were not swept: %s", error)
            self._stopping.wait(self._seconds)
        with suppress(InvalidStateError):  # it was cancelled
            self.done.set_result(None)


def _check_ttl_config(ttl: TTLConfig) -> TTLConfig:
    if not isinstance(ttl, Mapping):
        raise InvalidInputError(f"ttl must be a mapping like {{'default_ttl': 60}}, not {type(ttl).__name__}")
    check_keys(ttl, tuple(TTLConfig.__annotations__), "ttl")
    for name in ("default_ttl", "sweep_interval_minutes"):
        _check_ttl(ttl.get(name), f"ttl[{name!r}]")
    return TTLConfig(**ttl)


def _check_ttl(ttl: object, name: str) -> float | None:
    """A lifetime in minutes, a positive number and not too long, or `None`."""
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl <= _LONGEST_TTL:
        raise InvalidInputError(f"{name} is a number of minutes, above 0, not {quoted(ttl)}; None means for ever")
    return float(ttl)


# ── the index ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class FieldIndex:
    """The paths of a value that are embedded, as LangGraph writes them, and the model that does it, with its fingerprint."""

    def __init__(self, embedder: Embedder, mark: str, fields: object) -> None:
        self.embedder: Final = embedder
        self.mark: Final = mark
        self._paths: Final = _parse_paths(fields, "index['fields']")
        self._fields: Final[Any] = fields

    @property
    def config(self) -> IndexConfig:
        """LangGraph's form of it; `dims` only where they are known already."""
        config = IndexConfig(embed=self.embedder.embeddings, fields=list(self._fields))
        if self.embedder.dimensions is not None:
            config["dims"] = self.embedder.dimensions
        return config

    def texts(self, value: Mapping[str, Any], index: Index, name: str) -> list[str]:
        """The texts of a value that are embedded, at the store's own paths or at those of *index*; blank ones are left out."""
        paths = self._paths if index is None else [] if index is False else _parse_paths(index, "index")
        texts = [text for path in paths for text in get_text_at_path(value, path) if text.strip()]
        if len(texts) > items.PLACES:
            raise InvalidInputError(
                f"{name} would have {len(texts):,} vectors, {items.PLACES:,} are allowed; index less of it"
            )
        return texts


def _read_index(parts: Parts, index: IndexConfig | Literal[False] | None) -> FieldIndex | None:
    """What a store embeds, from its configuration; `None` where it embeds nothing."""
    if index is False:
        return None
    if index is None:
        return FieldIndex(parts.embedder, parts.fingerprint, [_WHOLE])
    if not isinstance(index, Mapping):
        raise InvalidInputError(
            f"index must be None (the memory's own embeddings), False (no vectors) or a mapping, not {type(index).__name__}"
        )
    check_keys(index, tuple(IndexConfig.__annotations__), "index")
    fields, dims = index.get("fields") or [_WHOLE], index.get("dims")
    if (embed := index.get("embed")) is None:
        if dims is not None:
            raise InvalidInputError(
                "index['dims'] belongs to index['embed']; give both, or neither for the memory's own"
            )
        return FieldIndex(parts.embedder, parts.fingerprint, fields)
    if dims is not None:
        bounded(dims, "index['dims']", most=inf)
    if isinstance(embed, Embeddings | str):
        vectors = resolve_embeddings(embed, parts.settings)
        mark = fingerprint(vectors)
    elif callable(embed):
        # A function is identified by its name, unless it says otherwise: its module changes with every refactoring.
        vectors, own = ensure_embeddings(embed), getattr(embed, "fingerprint", None)
        name = getattr(embed, "__name__", type(embed).__name__)
        mark = own if isinstance(own, str) else f"function:{name}:{dims or 'any'}"
    else:
        raise InvalidInputError(
            f"index['embed'] must be Embeddings, a name like 'openai:text-embedding-3-small' or a function of texts, "
            f"not {type(embed).__name__}"
        )
    limits = embedding_limits(embed, vectors, parts.settings)
    return FieldIndex(Embedder(vectors, dimensions=dims, limits=limits), mark, fields)


def vector_bytes(vector: UnitVectors) -> bytes:
    """A vector as the database keeps it."""
    return vector.astype("<f4", copy=False).tobytes()


def _parse_paths(fields: object, name: str) -> list[str | list[str]]:
    if not isinstance(fields, list | tuple) or not all(isinstance(path, str) and path.strip() for path in fields):
        raise InvalidInputError(f"{name} must be a list of paths like ['title', 'notes[*].text'], not {quoted(fields)}")
    return [path if path == _WHOLE else tokenize_path(path) for path in fields]


def _embed_all(database: Database, fields: FieldIndex, progress: Callable[[int, int], None] | None) -> int:
    """Drop the vectors of every item, and make them anew; see `MemoryStore.reindex`."""

    def texts_of(row: Any) -> list[str]:
        index: Index = None if row.fields is None else json.loads(row.fields) or False
        return fields.texts(json.loads(row.value), index, f"the item {row.key!r}")

    database.write(partial(items.drop_vectors, fingerprint=fields.mark))
    with database.read() as connection:
        total = items.count(connection)
    last = done = indexed = 0
    while True:
        with database.read() as connection:
            rows = items.after(connection, last, _BATCH)
        if not rows:
            return indexed
        texts = {row.pk: texts_of(row) for row in rows}
        made = iter(fields.embedder.vectors([text for each in texts.values() for text in each]))
        vectors = {pk: [vector_bytes(next(made)) for _ in each] for pk, each in texts.items()}
        database.write(partial(items.give_vectors, vectors=vectors, rows=rows, fingerprint=fields.mark))
        last, done, indexed = rows[-1].pk, done + len(rows), indexed + sum(map(bool, vectors.values()))
        if progress is not None:
            progress(done, max(total, done))


# ── operations ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Operations:
    """The operations of one `batch`; of several puts of one item the last one counts, as in LangGraph's own stores."""

    def __init__(self, ops: Iterable[Op], fields: FieldIndex | None) -> None:
        checked = [_check_op(op) for op in each_of(ops, "ops")]
        self.count: Final = len(checked)
        # By their place: those that read, and the filters of searches.
        self.readings: Final = {place: op for place, op in enumerate(checked) if not isinstance(op, PutOp)}
        searches = {place: op for place, op in self.readings.items() if isinstance(op, SearchOp)}
        self.filters: Final[dict[int, Filter]] = {
            place: parse_filter(op.filter, fields=()) for place, op in searches.items()
        }
        queries = (op.query for op in searches.values() if fields is not None and op.query is not None)
        self.queries: Final[list[str]] = list(dict.fromkeys(queries))
        last = {(op.namespace, op.key): op for op in checked if isinstance(op, PutOp)}
        self._puts: Final = [_prepare_put(op, fields) for op in last.values()]
        self.texts: Final = [text for _, texts in self._puts for text in texts]

    def puts(self, vectors: UnitVectors) -> list[items.Put]:
        """The puts and deletions, given the vectors of `texts`."""
        remaining = iter(vectors)
        return [replace(put, vectors=[vector_bytes(next(remaining)) for _ in texts]) for put, texts in self._puts]


def _prepare_put(op: PutOp, fields: FieldIndex | None) -> tuple[items.Put, list[str]]:
    """One put without its vectors, and what is embedded of its value."""
    name = f"the item {op.key!r}"
    value = None if op.value is None else json_object(op.value, f"the value of {name}")
    texts = [] if fields is None or value is None else fields.texts(json.loads(value), op.index, name)
    index = None if op.index is None else json.dumps(op.index or [])
    ttl = None if op.ttl is None else max(1, round(op.ttl * _MINUTE))
    return items.Put(op.namespace, op.key, value, index, ttl=ttl), texts


def _check_op(op: Op) -> Op:
    match op:
        case GetOp():
            return op._replace(namespace=_namespace(op.namespace), key=check_text(op.key, "a key"))
        case PutOp():
            if not (namespace := _namespace(op.namespace)):
                raise InvalidNamespaceError("Namespace cannot be empty.")
            if op.index is not None and op.index is not False and not isinstance(op.index, list | tuple):
                raise InvalidInputError(f"index must be None, False or a list of paths, not {quoted(op.index)}")
            return op._replace(namespace=namespace, key=check_text(op.key, "a key"), ttl=_check_ttl(op.ttl, "ttl"))
        case SearchOp():
            _check_page(op)
            query = None if op.query is None or not check_text(op.query, "query").strip() else op.query
            return op._replace(namespace_prefix=_namespace(op.namespace_prefix), query=query)
        case ListNamespacesOp():
            _check_page(op)
            if op.max_depth is not None:
                bounded(op.max_depth, "max_depth", most=inf)
            conditions = each_of(op.match_conditions or (), "match_conditions")
            return op._replace(match_conditions=tuple(map(_condition, conditions)))
        case _:
            raise InvalidInputError(
                f"a store carries out get, put, search and list operations, not {type(op).__name__}"
            )


def _condition(condition: object) -> MatchCondition:
    if not isinstance(condition, MatchCondition) or condition.match_type not in ("prefix", "suffix"):
        raise InvalidInputError(f"namespaces match by 'prefix' or 'suffix', not by {quoted(condition)}")
    path = (condition.path,) if isinstance(condition.path, str) else condition.path
    return MatchCondition(condition.match_type, _namespace(path))


def _check_page(op: SearchOp | ListNamespacesOp) -> None:
    bounded(op.limit, "limit", least=0, most=_MOST)
    bounded(op.offset, "offset", least=0, most=_MOST)


def _namespace(labels: Iterable[str]) -> tuple[str, ...]:
    namespace = _labels(labels)
    validate_op_namespace(GetOp(namespace, ""))
    items.encode(namespace)
    return namespace


class Reader:
    """Answers the operations of one batch from one state of the database; *index* is `None` where there are no queries."""

    def __init__(self, connection: Connection, index: VectorView | None, *, now: int, omit_expired: bool) -> None:
        self.touched: Final[dict[int, Any]] = {}  # rows of items that were read and live on because of it
        self._connection = connection
        self._index = index
        self._now = now
        self._omit_expired = omit_expired

    def get(self, op: GetOp) -> Item | None:
        """One item."""
        row = items.by_key(self._connection, op.namespace, op.key)
        if row is None or not self._lives(row):
            return None
        self._touch(op, [row])
        return Item(value=_DECODE(row.value)[0], **_fields(row))

    def search(self, op: SearchOp, condition: Filter, vector: UnitVectors | None) -> list[SearchItem]:
        """The items under a prefix that meet a condition: nearest first, or those that changed last first.

        A page is cut from the whole ranking; nothing is left out because a filter, or several vectors of one item, took its
        place among too few candidates.
        """
        end = op.offset + op.limit
        ids = items.expand(self._connection, op.namespace_prefix)
        if not op.limit or not ids:
            return []
        first = end * _FILTERED if condition else end
        matching = self._matching(self._candidates(ids, first, vector), condition)
        page = list(islice(matching, op.offset, end))
        rows = items.by_pks(self._connection, [pk for pk, _, _ in page])
        self._touch(op, list(rows.values()))
        return [SearchItem(value=value, score=score, **_fields(rows[pk])) for pk, value, score in page]

    def namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        """The namespaces that have items, in order; those that are alike up to `max_depth` once."""
        conditions = op.match_conditions or ()
        now = self._now if self._omit_expired else None
        paths = (takewhile(lambda label: label != "*", each.path) for each in conditions if each.match_type == "prefix")
        every = items.listed(self._connection, max(map(tuple, paths), key=len, default=()), now=now)
        matching = (namespace for namespace in every if all(_matches(each, namespace) for each in conditions))
        distinct = (namespace for namespace, _ in groupby(matching, lambda namespace: namespace[: op.max_depth]))
        return list(islice(distinct, op.offset, op.offset + op.limit))

    def _candidates(self, ids: Sequence[int], first: int, vector: UnitVectors | None) -> Iterator[Candidates]:
        if vector is not None:
            yield from self._scored(ids, first, vector)
        for pks in items.newest(self._connection, ids, first=first, unindexed=vector is not None):
            yield dict.fromkeys(pks)

    def _scored(self, ids: Sequence[int], first: int, vector: UnitVectors) -> Iterator[Candidates]:
        seen: set[int] = set()
        count = first
        while self._index is not None:
            nearest = self._index.search(vector, count, scopes=ids)
            pks, scores = (nearest.pks // items.PLACES).tolist(), nearest.scores.tolist()
            # The nearest of an item's vectors counts.
            best = dict(zip(reversed(pks), reversed(scores), strict=True))
            yield {pk: best[pk] for pk in pks if pk not in seen}
            if len(pks) < count:
                return
            seen.update(pks)
            count *= _MORE

    def _matching(
        self, candidates: Iterator[Candidates], condition: Filter
    ) -> Iterator[tuple[int, dict[str, Any], float | None]]:
        for scores in candidates:
            remaining = iter(scores)
            while chosen := list(islice(remaining, _MOST_READ)):
                for row in items.values_by_pks(self._connection, chosen):
                    if self._lives(row) and condition.matches(value := _DECODE(row.value)[0]):
                        yield row.pk, value, scores[row.pk]

    def _lives(self, row: Any) -> bool:
        return not self._omit_expired or row.expires_at is None or row.expires_at > self._now

    def _touch(self, op: GetOp | SearchOp, rows: Sequence[Any]) -> None:
        if op.refresh_ttl:
            self.touched.update((row.pk, row) for row in rows if row.ttl is not None)


def _fields(row: Any) -> dict[str, Any]:
    return {
        "key": row.key,
        "namespace": items.decode(row.path),
        "created_at": items.moment(row.created_at),
        "updated_at": items.moment(row.updated_at),
    }


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    pairs = zip(condition.path, namespace, strict=False)
    if condition.match_type == "suffix":
        pairs = zip(reversed(tuple(condition.path)), reversed(namespace), strict=False)
    return len(condition.path) <= len(namespace) and all(pattern in ("*", label) for pattern, label in pairs)
