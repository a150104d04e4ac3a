"""`SQLAlchemySaver`: LangGraph's checkpointer (`BaseCheckpointSaver`) on SQLite and Postgres."""

from __future__ import annotations

import copy
import json
import secrets
import sys
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from uuid import UUID

from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple, get_checkpoint_metadata
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import EXT_PYDANTIC_V2, JsonPlusSerializer
from sqlalchemy import URL
from sqlalchemy import Engine as SQLEngine

from langmem_adapter.arguments import bounded, each_of, one_of
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_nesting, check_text, quoted
from langmem_adapter.settings import Settings
from langmem_adapter.storage import checkpoints
from langmem_adapter.storage.checkpoints import Loaded, Packed, ThreadSpace, slots_of
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.queries import HIGHEST
from langmem_adapter.twins import Plan, awaited, planned, run_in_executor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, DeltaChannelHistory
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.event_hooks import SerdeEvent
    from sqlalchemy import Connection

    from langmem_adapter.memory.memory import Memory

__all__ = ["SQLAlchemySaver"]

T = TypeVar("T")

_LONGEST_ID: Final = 512  # in UTF-8 it still fits into an index row of Postgres, beside the rest of the key
_LAST_TYPED: Final = EXT_PYDANTIC_V2  # msgpack extensions up to this number carry the name of a type
_NO_THREAD: Final = 'thread_id is missing: give config={"configurable": {"thread_id": "..."}}'
_OWN_COLUMNS: Final = frozenset({"channel_values", "channel_versions"})  # of a checkpoint: they are kept apart
_STRATEGIES: Final = {"keep_latest": checkpoints.keep_latest, "delete": checkpoints.delete_thread}


class _Checkpoints:
    """The methods of `SQLAlchemySaver` that read and write, with an async twin each."""

    _database: Database
    _checked: SerializerProtocol

    @planned
    def get_tuple(self, config: RunnableConfig) -> Plan[CheckpointTuple | None]:
        """The checkpoint that *config* names, by default the latest of its thread, with its writes and its parent."""
        space, checkpoint_id = _parse_place(config)

        def get() -> CheckpointTuple | None:
            with self._database.read() as connection:
                loaded = checkpoints.get(connection, space, checkpoint_id)
            return None if loaded is None else self._tuple(loaded)

        return Plan(get)

    aget_tuple = awaited(get_tuple)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first, read as they are needed.

        Args:
            config: Names the thread, and optionally the namespace and the checkpoint; `None` means all threads.
            filter: Values that their metadata must have; an `int` is no `str`.
            before: Only checkpoints older than the one that this config names.
            limit: How many at most.

        Raises:
            InvalidInputError: No thread in the config, or a negative limit.
        """
        return chain.from_iterable(self._pages(config, filter, before, limit))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The async twin of `list`: the same arguments, results and errors."""
        pages = self._pages(config, filter, before, limit)
        while page := await run_in_executor(next, pages, None):
            for checkpoint in page:
                yield checkpoint

    @planned
    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Plan[Mapping[str, DeltaChannelHistory]]:
        """The first value of delta channels at a checkpoint, and what was written since."""
        space, checkpoint_id = _parse_place(config)
        names = [check_text(name, "a channel") for name in each_of(channels, "channels")]

        def read() -> dict[str, DeltaChannelHistory]:
            with self._database.read() as connection:
                rows = checkpoints.histories(connection, space, checkpoint_id, names)
            histories: dict[str, DeltaChannelHistory] = {}
            for channel, (seed, writes) in rows.items():
                histories[channel] = {"writes": [self._pending(write) for write in writes]}
                if seed is not None:
                    histories[channel]["seed"] = self._unpack(channel, seed)
            return histories

        return Plan(read)

    aget_delta_channel_history = awaited(get_delta_channel_history)

    @planned
    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Plan[RunnableConfig]:
        """Keep a checkpoint, in one transaction.

        The `checkpoint_id` of *config* is the parent. Only values of the channels of *new_versions* are written.

        Raises:
            InvalidInputError: No thread, metadata with too many levels, or a value that could not be read again.
            StorageError: The database refused or failed; nothing was written.
        """
        space, parent_id = _parse_place(config)
        whole = get_checkpoint_metadata(config, metadata)

        def draft() -> Callable[[Connection], None]:
            check_nesting(whole, "the checkpoint's metadata")
            run_id, values, versions = whole.get("run_id"), checkpoint["channel_values"], checkpoint["channel_versions"]
            for channel, version in versions.items():
                if not isinstance(version, str | int | float):
                    raise InvalidInputError(
                        f"channel {channel!r} has version {quoted(version)}; a version is a str, an int or a float"
                    )
            state = self._pack(
                "the checkpoint", {key: value for key, value in checkpoint.items() if key not in _OWN_COLUMNS}
            )
            packed = self._pack("the metadata", whole)
            row = space._asdict() | {
                "id": check_text(checkpoint["id"], "the checkpoint's id"),
                "parent_id": None if parent_id == checkpoint["id"] else parent_id,
                "run_id": None if run_id is None else check_text(str(run_id), "run_id"),
                "versions": json.dumps(dict(versions), separators=(",", ":")),
                "state_kind": state.kind,
                "state": state.body,
                "metadata_kind": packed.kind,
                "metadata": packed.body,
            }
            slots = slots_of({check_text(name, "a channel"): version for name, version in new_versions.items()})
            changed = {
                slot: self._pack(f"channel {name!r}", values[name]) for name, slot in slots.items() if name in values
            }
            return partial(checkpoints.put, checkpoint=row, changed=changed)

        return self._pack_and_write(draft, _config(space, checkpoint["id"]))

    aput = awaited(put)

    @planned
    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> Plan[None]:
        """Keep what a task wrote, so that it need not run again; a second call changes nothing.

        Raises:
            InvalidInputError: No thread or checkpoint, or a value that could not be read again.
            StorageError: The database refused or failed; nothing was written.
        """
        space, checkpoint_id = _parse_place(config)
        if checkpoint_id is None:
            raise InvalidInputError(
                "put_writes needs a checkpoint_id in the config; give it the config that put returned"
            )
        check_text(task_id, "task_id")
        check_text(task_path, "task_path")
        task = {"checkpoint_id": checkpoint_id, "task_id": task_id, "task_path": task_path}

        def draft() -> Callable[[Connection], None]:
            rows = []
            for idx, (channel, value) in enumerate(writes):
                cell = {"idx": WRITES_IDX_MAP.get(channel, idx), "channel": check_text(channel, "a channel")}
                rows.append({**space._asdict(), **task, **cell, **self._pack(f"channel {channel!r}", value)._asdict()})
            return partial(checkpoints.put_writes, written=rows)

        return self._pack_and_write(draft, None)

    aput_writes = awaited(put_writes)

    @planned
    def delete_thread(self, thread_id: str) -> Plan[None]:
        """Delete everything of a thread."""
        return self._write(partial(checkpoints.delete_thread, thread_id=_check_thread_id(thread_id)))

    adelete_thread = awaited(delete_thread)

    @planned
    def delete_for_runs(self, run_ids: Sequence[str]) -> Plan[None]:
        """Delete the checkpoints that runs wrote (`run_id` in their metadata), in all threads, all or none.

        Raises:
            InvalidInputError: A checkpoint of another run is rebuilt from what these wrote to a `DeltaChannel`.
        """
        ids = [check_text(_as_text(run_id), "run_id") for run_id in each_of(run_ids, "run_ids")]
        return self._write(partial(checkpoints.delete_runs, run_ids=ids))

    adelete_for_runs = awaited(delete_for_runs)

    @planned
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> Plan[None]:
        """Copy all of a thread to a new one, which may have no checkpoints or writes yet: both go on for themselves."""
        source, target = _check_thread_id(source_thread_id), _check_thread_id(target_thread_id)
        return self._write(partial(checkpoints.copy_thread, source=source, target=target))

    acopy_thread = awaited(copy_thread)

    @planned
    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> Plan[None]:
        """Make threads shorter, in one transaction.

        The strategy `"keep_latest"` keeps the latest checkpoint of each namespace, and what its delta channels are rebuilt
        from, which is not listed any more; `"delete"` keeps nothing.
        """
        one_of(strategy, _STRATEGIES, "strategy")
        ids = [_check_thread_id(thread_id) for thread_id in each_of(thread_ids, "thread_ids")]

        def prune_all(connection: Connection) -> None:
            for thread_id in ids:
                _STRATEGIES[strategy](connection, thread_id)

        return self._write(prune_all)

    aprune = awaited(prune)

    def _pack_and_write(self, draft: Callable[[], Callable[[Connection], None]], result: T) -> Plan[T]:
        """Serialize values, then write them; an async call serializes them outside the event loop."""
        return Plan(draft).and_then(self._write).then(lambda _: result)

    def _write(self, work: Callable[[Connection], None]) -> Plan[None]:
        return Plan.calling(self._database.write, self._database.awrite, work)

    def _pack(self, what: str, value: Any) -> Packed:
        try:
            kind, body = self._checked.dumps_typed(value)
        except InvalidInputError as error:
            raise InvalidInputError(f"{what}: {error}") from error
        return Packed(kind, bytes(body))

    def _unpack(self, channel: str, value: tuple[str, bytes]) -> Any:
        try:
            return self._checked.loads_typed(value)
        except InvalidInputError as error:
            raise InvalidInputError(f"channel {channel!r}: {error}") from error

    def _pages(
        self,
        config: RunnableConfig | None,
        metadata: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Iterator[Sequence[CheckpointTuple]]:
        equal, older_than = _parse_selection(config, before, metadata)
        most = None if limit is None else min(bounded(limit, "limit", least=0, most=inf), HIGHEST)

        def has_values(packed: Packed) -> bool:
            values = self._checked.loads_typed(packed)
            return all(values.get(name) == value for name, value in (metadata or {}).items())

        def pages() -> Iterator[Sequence[CheckpointTuple]]:
            # A transaction for each page: a slow reader keeps no writer waiting.
            left, after, keep = most, None, has_values if metadata else None
            while left != 0:
                with self._database.read() as connection:
                    page, after = checkpoints.page(connection, equal, older_than, after=after, keep=keep, most=left)
                if page:
                    yield [self._tuple(loaded) for loaded in page]
                if after is None:
                    return
                left = None if left is None else left - len(page)

        return pages()

    def _tuple(self, loaded: Loaded) -> CheckpointTuple:
        row, unpack = loaded.row, self._checked.loads_typed
        space = ThreadSpace(row.thread_id, row.ns)
        values = {channel: self._unpack(channel, value) for channel, value in loaded.values.items()}
        state = unpack((row.state_kind, row.state))
        return CheckpointTuple(
            config=_config(space, row.id),
            checkpoint=state | {"channel_versions": dict(loaded.versions), "channel_values": values},
            metadata=unpack((row.metadata_kind, row.metadata)),
            parent_config=None if row.parent_id is None else _config(space, row.parent_id),
            pending_writes=[self._pending(write) for write in loaded.writes],
        )

    def _pending(self, write: Any) -> tuple[str, str, Any]:
        return write.task_id, write.channel, self._unpack(write.channel, (write.kind, write.body))


class _Done:
    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


class SQLAlchemySaver(_Checkpoints, BaseCheckpointSaver[str]):
    """A LangGraph checkpointer: keeps the state of threads, so that a graph can stop, go on, and go back in time.

    The whole of `BaseCheckpointSaver`, in one class for sync and async graphs, on SQLite and Postgres. A step writes the
    channels that it changed, in one transaction. Any number of threads, tasks and processes may use one database; it may be
    that of a `Memory`. Threads have no scope: `Memory.purge` leaves them, `delete_thread` removes one.

    A value comes back as it was put in, or there is an error: a type that LangGraph's strict msgpack does not know must be
    allowed. With an `EncryptedSerializer` states, writes and metadata are encrypted; ids and names of channels are not.

    Args:
        database: A path (SQLite), `":memory:"`, an SQLAlchemy URL, a Postgres `Engine`, or a `Memory` to share its database.
        serde: LangGraph's serializer for states; `None` is its strict one, `JsonPlusSerializer(allowed_msgpack_modules=None)`.

    Raises:
        InvalidInputError: The database is not understood, or the serializer falls back to pickle.
        MissingDependencyError: The driver is not installed.
        StorageError: The database cannot be opened.

    Example:
        >>> from langgraph.graph import START, MessagesState, StateGraph
        >>> builder = StateGraph(MessagesState)
        >>> _ = builder.add_node("greet", lambda state: {"messages": [("ai", "Hello!")]})
        >>> _ = builder.add_edge(START, "greet")
        >>> with SQLAlchemySaver(":memory:") as saver:
        ...     graph = builder.compile(checkpointer=saver)
        ...     thread = {"configurable": {"thread_id": "ada@example.com"}}
        ...     for text in ("Hi!", "Me again."):
        ...         state = graph.invoke({"messages": [("human", text)]}, thread)
        >>> [message.content for message in state["messages"]]
        ['Hi!', 'Hello!', 'Me again.', 'Hello!']
    """

    def __init__(
        self, database: str | Path | URL | SQLEngine | Memory, *, serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        self._checked = check_serializer(self.serde)
        self._database, self._is_shared = _open_database(database)

    @classmethod
    def from_conn_string(cls, conn_string: str, *, serde: SerializerProtocol | None = None) -> Self:
        """A saver on a path (SQLite), `":memory:"` or an SQLAlchemy URL; `with` and `async with` close it."""
        return cls(conn_string, serde=serde)

    def setup(self) -> Awaitable[None]:
        """Nothing is left to do: tables are made when the database is opened. May be awaited, as with LangGraph's savers."""
        return _Done()

    @planned
    def close(self) -> Plan[None]:
        """Close the database, unless it is that of a `Memory`; the object is of no use afterwards."""
        return Plan(lambda: None if self._is_shared else self._database.close())

    aclose = awaited(close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """The same saver, on the same database, that allows more types, like `[("app.models", "Trip")]`."""
        clone: Self = super().with_allowlist(extra_allowlist)  # type: ignore[assignment] # a shallow copy of this one
        if clone is not self:
            clone._checked = check_serializer(clone.serde)
        return clone

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph fixes the signature
        """The version after *current*: a number that grows as text, and chance, so that two branches do not share one."""
        number = 0 if current is None else int(str(current).split(".", maxsplit=1)[0])
        return f"{number + 1:032}.{secrets.randbelow(10**16):016}"


def _open_database(where: object) -> tuple[Database, bool]:
    """A database, and whether a `Memory` shares and closes it."""
    # A memory is recognised by its parts: importing it, with all that it needs, is not needed here.
    shared = getattr(getattr(where, "parts", None), "database", None)
    if isinstance(shared, Database):
        return shared, True
    if not isinstance(where, str | Path | URL | SQLEngine):
        raise InvalidInputError(
            f"a {type(where).__name__} is no database; give a path, ':memory:', a URL, a Postgres Engine or a Memory"
        )
    with ExitStack() as undo:
        database = Database(where, **Settings().database_options)
        undo.callback(database.close)
        prepare(database)
        undo.pop_all()
    return database, False


# ── configs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _parse_place(config: RunnableConfig) -> tuple[ThreadSpace, str | None]:
    """The thread and namespace that a config names (by default that of the graph), and the checkpoint where it names one."""
    fields = _configurable(config)
    ns = check_text(fields.get("checkpoint_ns") or "", "checkpoint_ns")
    return ThreadSpace(_check_thread_id(fields.get("thread_id")), ns), _checkpoint_id(fields)


def _config(space: ThreadSpace, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": space.thread_id, "checkpoint_ns": space.ns, "checkpoint_id": checkpoint_id}}


def _parse_selection(
    config: RunnableConfig | None, before: RunnableConfig | None, equal: Mapping[str, Any] | None
) -> tuple[dict[str, str], str | None]:
    """Column values of the checkpoints to list, and the id that they are older than; a run is looked up by its index."""
    fields = {} if config is None else _configurable(config)
    if not isinstance(equal, Mapping | None):
        raise InvalidInputError(f"filter is a dict of values that the metadata must have, not {quoted(equal)}")
    ns, run_id = fields.get("checkpoint_ns"), (equal or {}).get("run_id")
    values = {
        "thread_id": None if config is None else _check_thread_id(fields.get("thread_id")),
        "ns": None if ns is None else check_text(ns, "checkpoint_ns"),
        "id": _checkpoint_id(fields),
        "run_id": check_text(run_id, "run_id") if isinstance(run_id, str) else None,
    }
    older_than = None if before is None else _checkpoint_id(_configurable(before))
    return {name: value for name, value in values.items() if value is not None}, older_than


def _configurable(config: RunnableConfig | None) -> Mapping[str, Any]:
    fields = config.get("configurable") if isinstance(config, Mapping) else None
    if not fields or not isinstance(fields, Mapping):
        raise InvalidInputError(_NO_THREAD)
    return fields


def _checkpoint_id(fields: Mapping[str, Any]) -> str | None:
    value = fields.get("checkpoint_id")
    return check_text(value, "checkpoint_id") if value else None


def _check_thread_id(value: object) -> str:
    """A thread's id as text, neither blank nor too long; numbers and UUIDs are taken, too."""
    value = _as_text(value)
    if value is None or value == "":
        raise InvalidInputError(_NO_THREAD)
    thread_id = check_text(value, "thread_id")
    if len(thread_id) > _LONGEST_ID:
        raise InvalidInputError(
            f"thread_id has {len(thread_id)} characters; {_LONGEST_ID} are allowed, use a hash of it"
        )
    return thread_id


def _as_text(value: object) -> object:
    """An id as text where it is a UUID or a number, which LangGraph's savers take, too; what is neither stays as it is."""
    is_number = isinstance(value, int) and abs(value) < 10**_LONGEST_ID
    return str(value) if is_number or isinstance(value, UUID) else value


# ── values ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_serializer(serde: SerializerProtocol) -> SerializerProtocol:
    """Check a serializer: values come back unchanged, or not at all. Pickle is refused."""
    if isinstance(serde, EncryptedSerializer):
        outer = copy.copy(serde)
        outer.serde = check_serializer(serde.serde)
        return outer
    if not isinstance(serde, JsonPlusSerializer):
        return serde
    if serde.pickle_fallback:
        raise InvalidInputError(
            "pickle_fallback runs code from the database; leave it out, and allow types with allowed_msgpack_modules"
        )
    return _CheckedSerializer(serde)


class _CheckedSerializer:
    """LangGraph's serializer, with an error where it would give back the bare fields of an object as a dict.

    A value with a type that comes up for the first time is read again at once.
    """

    def __init__(self, serde: JsonPlusSerializer) -> None:
        self._serde = serde
        self._proven: frozenset[tuple[str, str]] = frozenset()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        try:
            kind, data = self._serde.dumps_typed(obj)
        except TypeError as error:
            raise InvalidInputError(
                f"a {type(obj).__name__} in the graph's state cannot be kept ({error}); keep plain data in the state, or "
                "annotate that key with UntrackedValue, which is not kept"
            ) from error
        if kind == "msgpack" and not _types(data) <= self._proven:
            self.loads_typed((kind, data))
        return kind, data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        with _watching() as blocked:
            value = self._serde.loads_typed(data)
        if blocked:
            raise InvalidInputError(_advice(blocked))
        new = _types(data[1]) - self._proven if data[0] == "msgpack" else set()
        for module, name in sorted(new):
            if not hasattr(sys.modules.get(module), name):
                raise InvalidInputError(
                    f"the graph's state holds a {module}.{name}, and there is no such name at the top level of that module: "
                    "define the class there (or keep the old name as an alias), else it would come back as its bare fields"
                )
        self._proven |= new
        return value


def _types(data: bytes) -> set[tuple[str, str]]:
    """The types that msgpack data names, by module and name, without making anything of them."""
    types: set[tuple[str, str]] = set()

    def note(code: int, inner: bytes) -> None:
        part = reader.loads_typed(("msgpack", inner))
        if code <= _LAST_TYPED:
            types.add((part[0], part[1]))

    reader = JsonPlusSerializer(__unpack_ext_hook__=note)
    reader.loads_typed(("msgpack", data))
    return types


_BLOCKED: Final[ContextVar[list[SerdeEvent] | None]] = ContextVar("blocked", default=None)
"""What LangGraph's serializer has blocked while a value is read here; `None` while none is."""


def _listen(event: SerdeEvent) -> None:
    blocked = _BLOCKED.get()
    if blocked is not None and event["kind"] in {"msgpack_blocked", "msgpack_method_blocked"}:
        blocked.append(event)


register_serde_event_listener(_listen)


@contextmanager
def _watching() -> Iterator[list[SerdeEvent]]:
    blocked: list[SerdeEvent] = []
    token = _BLOCKED.set(blocked)
    try:
        yield blocked
    finally:
        _BLOCKED.reset(token)


def _advice(blocked: list[SerdeEvent]) -> str:
    types = sorted({(event["module"], event["name"]) for event in blocked})
    names = ", ".join(".".join(one) for one in types)
    if any("method" in event for event in blocked):
        return f"the graph's state holds {names}, made by a method that is never allowed; convert it to a plain type"
    return (
        f"the graph's state holds {names}, which strict msgpack does not read; allow it: serde=JsonPlusSerializer("
        f"allowed_msgpack_modules={types}), the only way behind a LangGraph server (see adapters.serving.checkpointer); "
        f"elsewhere saver.with_allowlist({types}) does it, too, or LANGGRAPH_STRICT_MSGPACK=true, with which LangGraph allows "
        "the types that a graph's state schema names"
    )
