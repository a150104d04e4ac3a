"""`SQLAlchemySaver`: LangGraph's checkpointer on SQLite and Postgres."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from uuid import UUID

from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple, get_checkpoint_metadata
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from sqlalchemy import URL
from sqlalchemy import Engine as SQLEngine

from langmem_adapter.adapters.checkpointer.serializer import checked, path_to_problem
from langmem_adapter.arguments import each_of
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_nesting, check_text, quoted
from langmem_adapter.settings import Settings
from langmem_adapter.storage import checkpoints
from langmem_adapter.storage import checkpoints as storage
from langmem_adapter.storage.checkpoints import Loaded, Packed, ThreadSpace, slots_of
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.queries import HIGHEST
from langmem_adapter.twins import Plan, awaited, beside, planned

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Iterable, Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, DeltaChannelHistory
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from sqlalchemy import Connection

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.storage.checkpoints import Version

_LONGEST_ID: Final = 512  # in UTF-8 it still fits into an index row of Postgres, beside the rest of the key
_WHICH: Final = 'which thread? give config={"configurable": {"thread_id": "..."}}'


def place_of(config: RunnableConfig) -> tuple[ThreadSpace, str | None]:
    """The thread and namespace that a config names (by default that of the graph), and the checkpoint where it names one."""
    named = _configurable(config)
    ns = check_text(named.get("checkpoint_ns") or "", "checkpoint_ns")
    return ThreadSpace(thread_id_of(named.get("thread_id")), ns), _checkpoint_id(named)


def config_of(space: ThreadSpace, checkpoint_id: str) -> RunnableConfig:
    """The config that names a checkpoint."""
    return {"configurable": {"thread_id": space.thread_id, "checkpoint_ns": space.ns, "checkpoint_id": checkpoint_id}}


def selection_of(
    config: RunnableConfig | None, before: RunnableConfig | None, equal: Mapping[str, Any] | None
) -> tuple[dict[str, str], str | None]:
    """Which checkpoints a list is wanted of: what their rows hold, and the id that they are older than; errors as `place_of`.

    What *config* does not name is left free. Of the values that the metadata must have, a run is looked up by its index.
    """
    named = {} if config is None else _configurable(config)
    if not isinstance(equal, Mapping | None):
        raise InvalidInputError(f"filter is a dict of values that the metadata must have, not {quoted(equal)}")
    ns, run_id = named.get("checkpoint_ns"), (equal or {}).get("run_id")
    wanted = {
        "thread_id": None if config is None else thread_id_of(named.get("thread_id")),
        "ns": None if ns is None else check_text(ns, "checkpoint_ns"),
        "id": _checkpoint_id(named),
        "run_id": check_text(run_id, "run_id") if isinstance(run_id, str) else None,
    }
    older_than = None if before is None else _checkpoint_id(_configurable(before))
    return {name: value for name, value in wanted.items() if value is not None}, older_than


def thread_id_of(value: object) -> str:
    """A thread's id as text, neither blank nor too long; numbers and UUIDs are taken, too."""
    value = as_text(value)
    if value is None or value == "":
        raise InvalidInputError(_WHICH)
    thread_id = check_text(value, "thread_id")
    if len(thread_id) > _LONGEST_ID:
        raise InvalidInputError(
            f"thread_id has {len(thread_id)} characters; {_LONGEST_ID} are allowed, use a hash of it"
        )
    return thread_id


def as_text(value: object) -> object:
    """An id as text where it is a UUID or a number, which LangGraph's savers take, too; what is neither stays as it is."""
    is_number = isinstance(value, int) and abs(value) < 10**_LONGEST_ID
    return str(value) if is_number or isinstance(value, UUID) else value


def listed(values: Iterable[str], name: str) -> list[str]:
    """Several values as a list; one text is an error, since nobody means its letters."""
    if isinstance(values, str):
        raise InvalidInputError(f"{name} must be a list; write {name}=[{quoted(values)}]")
    return each_of(values, name)


def checked_limit(limit: int | None) -> int | None:
    """How many at most: a whole number from 0."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidInputError(
            f"limit={quoted(limit)} is no number from 0; give how many checkpoints you want at most, or None for all"
        )
    return min(limit, HIGHEST)


def checked_versions(versions: Mapping[str, Version]) -> dict[str, Version]:
    """The versions of channels: text or numbers."""
    for channel, version in versions.items():
        if not isinstance(version, str | int | float):
            raise InvalidInputError(
                f"channel {channel!r} has version {quoted(version)}; a version is a str, an int or a float"
            )
    return dict(versions)


def _configurable(config: RunnableConfig | None) -> Mapping[str, Any]:
    named = config.get("configurable") if isinstance(config, Mapping) else None
    if not named or not isinstance(named, Mapping):
        raise InvalidInputError(_WHICH)
    return named


def _checkpoint_id(named: Mapping[str, Any]) -> str | None:
    found = named.get("checkpoint_id")
    return check_text(found, "checkpoint_id") if found else None


T = TypeVar("T")

_APART: Final = frozenset({"channel_values", "channel_versions"})  # of a checkpoint: they are kept in their own places
_STRATEGIES: Final = {"keep_latest": checkpoints.keep_latest, "delete": checkpoints.delete_thread}


class Checkpoints:
    """The methods of `SQLAlchemySaver` that read and write."""

    _database: Database
    _checked: SerializerProtocol

    @planned
    def get_tuple(self, config: RunnableConfig) -> Plan[CheckpointTuple | None]:
        """A checkpoint with its writes and its parent, or `None`.

        Args:
            config: Names it; without `checkpoint_id` the latest of the thread is meant.
        """
        return Plan(partial(self._get_tuple, *place_of(config)))

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
            config: Names the thread, and if it likes the namespace and the checkpoint; `None` means all threads.
            filter: Values that their metadata must have; an `int` is no `str`.
            before: Only checkpoints older than the one that this config names.
            limit: How many at most.

        Raises:
            InvalidInputError: No thread in the config, or a negative limit.
        """
        return chain.from_iterable(self._pages(filter, checked_limit(limit), *selection_of(config, before, filter)))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The async twin of `list`: the same arguments, results and errors."""
        pages = self._pages(filter, checked_limit(limit), *selection_of(config, before, filter))
        while found := await beside(next, pages, None):
            for one in found:
                yield one

    @planned
    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Plan[Mapping[str, DeltaChannelHistory]]:
        """What delta channels are made of at a checkpoint: a value to begin with, and what was written since.

        Args:
            config: Names the checkpoint.
            channels: The channels.
        """
        space, checkpoint_id = place_of(config)
        names = [check_text(name, "a channel") for name in listed(channels, "channels")]
        return Plan(partial(self._histories, space, checkpoint_id, names))

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

        Args:
            config: Of the run; its `checkpoint_id` is the parent.
            checkpoint: The checkpoint.
            metadata: What is known about it.
            new_versions: Versions of the channels that changed; only their values are written.

        Returns:
            The config that names this checkpoint.

        Raises:
            InvalidInputError: No thread, metadata with too many levels, or a value that could not be read again.
            StorageError: The database refused or failed; nothing was written.
        """
        space, parent_id = place_of(config)
        whole = get_checkpoint_metadata(config, metadata)
        draft = partial(self._draft, space, parent_id, checkpoint, whole, new_versions)
        return self._writing(draft, config_of(space, checkpoint["id"]))

    aput = awaited(put)

    @planned
    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> Plan[None]:
        """Keep what a task wrote, so that it need not run again; said a second time, it changes nothing.

        Args:
            config: Names the checkpoint that the task ran from.
            writes: Channels and values, in order.
            task_id: The task.
            task_path: Where the task stands among those of its step.

        Raises:
            InvalidInputError: No thread or checkpoint, or a value that could not be read again.
            StorageError: The database refused or failed; nothing was written.
        """
        space, checkpoint_id = place_of(config)
        if checkpoint_id is None:
            raise InvalidInputError(
                "put_writes needs a checkpoint_id in the config; give it the config that put returned"
            )
        check_text(task_id, "task_id")
        check_text(task_path, "task_path")
        task = {"checkpoint_id": checkpoint_id, "task_id": task_id, "task_path": task_path}
        return self._writing(partial(self._draft_writes, space._asdict() | task, writes), None)

    aput_writes = awaited(put_writes)

    @planned
    def delete_thread(self, thread_id: str) -> Plan[None]:
        """Delete everything of a thread."""
        return self._changing(partial(checkpoints.delete_thread, thread_id=thread_id_of(thread_id)))

    adelete_thread = awaited(delete_thread)

    @planned
    def delete_for_runs(self, run_ids: Sequence[str]) -> Plan[None]:
        """Delete the checkpoints that runs wrote (`run_id` in their metadata), in all threads, all or none.

        Args:
            run_ids: The runs.

        Raises:
            InvalidInputError: A checkpoint of another run is rebuilt from what these wrote to a `DeltaChannel`.
        """
        ids = [check_text(as_text(run_id), "run_id") for run_id in listed(run_ids, "run_ids")]
        return self._changing(partial(checkpoints.delete_runs, run_ids=ids))

    adelete_for_runs = awaited(delete_for_runs)

    @planned
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> Plan[None]:
        """Copy all of a thread to a new one: both go on from there, each for itself.

        Args:
            source_thread_id: The thread; where it has no checkpoints, nothing happens.
            target_thread_id: The new one.

        Raises:
            InvalidInputError: The new one has checkpoints already, or something that a task wrote to one.
        """
        source, target = thread_id_of(source_thread_id), thread_id_of(target_thread_id)
        return self._changing(partial(checkpoints.copy_thread, source=source, target=target))

    acopy_thread = awaited(copy_thread)

    @planned
    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> Plan[None]:
        """Make threads shorter, in one transaction.

        Args:
            thread_ids: The threads.
            strategy: `"keep_latest"` keeps the latest checkpoint of each namespace, and what its delta channels are rebuilt
                from, which is not listed any more; `"delete"` keeps nothing.

        Raises:
            InvalidInputError: There is no such strategy.
        """
        if not isinstance(strategy, str) or strategy not in _STRATEGIES:
            raise InvalidInputError(f"no strategy {quoted(strategy)}; give one of {', '.join(_STRATEGIES)}")
        ids = [thread_id_of(thread_id) for thread_id in listed(thread_ids, "thread_ids")]
        return self._changing(partial(_for_each, ids, _STRATEGIES[strategy]))

    aprune = awaited(prune)

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _writing(self, draft: Callable[[], Callable[[Connection], None]], result: T) -> Plan[T]:
        """A write whose values are packed first, in async calls beside the event loop."""
        return Plan(draft).and_then(self._changing).then(lambda _: result)

    def _changing(self, work: Callable[[Connection], None]) -> Plan[None]:
        return Plan.calling(self._database.write, self._database.awrite, work)

    def _draft(
        self,
        space: ThreadSpace,
        parent_id: str | None,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Callable[[Connection], None]:
        check_nesting(metadata, "the checkpoint's metadata")
        run_id, held = metadata.get("run_id"), checkpoint["channel_values"]
        state = self._pack("the checkpoint", {key: value for key, value in checkpoint.items() if key not in _APART})
        about = self._pack("the metadata", metadata)
        row = space._asdict() | {
            "id": check_text(checkpoint["id"], "the checkpoint's id"),
            "parent_id": None if parent_id == checkpoint["id"] else parent_id,
            "run_id": None if run_id is None else check_text(str(run_id), "run_id"),
            "versions": json.dumps(checked_versions(checkpoint["channel_versions"]), separators=(",", ":")),
            "state_kind": state.kind,
            "state": state.body,
            "metadata_kind": about.kind,
            "metadata": about.body,
        }
        slots = slots_of({check_text(name, "a channel"): version for name, version in new_versions.items()})
        changed = {slot: self._pack(f"channel {name!r}", held[name]) for name, slot in slots.items() if name in held}
        return partial(storage.put, checkpoint=row, changed=changed)

    def _draft_writes(self, task: Mapping[str, str], writes: Sequence[tuple[str, Any]]) -> Callable[[Connection], None]:
        rows = []
        for idx, (channel, value) in enumerate(writes):
            said = {"idx": WRITES_IDX_MAP.get(channel, idx), "channel": check_text(channel, "a channel")}
            rows.append({**task, **said, **self._pack(f"channel {channel!r}", value)._asdict()})
        return partial(storage.put_writes, written=rows)

    def _pack(self, what: str, value: Any) -> Packed:
        try:
            kind, body = self._checked.dumps_typed(value)
        except InvalidInputError as error:
            raise InvalidInputError(f"{what}{path_to_problem(value, self._checked)}: {error}") from error
        return Packed(kind, bytes(body))

    def _unpack(self, channel: str, value: tuple[str, bytes]) -> Any:
        try:
            return self._checked.loads_typed(value)
        except InvalidInputError as error:
            raise InvalidInputError(f"channel {channel!r}: {error}") from error

    def _get_tuple(self, space: ThreadSpace, checkpoint_id: str | None) -> CheckpointTuple | None:
        with self._database.read() as connection:
            loaded = storage.get(connection, space, checkpoint_id)
        return None if loaded is None else self._tuple(loaded)

    def _pages(
        self, metadata: Mapping[str, Any] | None, limit: int | None, equal: Mapping[str, str], before: str | None
    ) -> Generator[Sequence[CheckpointTuple], None, None]:
        # A transaction for each page: whoever reads slowly keeps nobody waiting.
        keep = partial(self._has, metadata) if metadata else None
        after, more = None, limit != 0
        while more:
            with self._database.read() as connection:
                found, after = storage.page(connection, equal, before, after=after, keep=keep, most=limit)
            if found:
                yield [self._tuple(loaded) for loaded in found]
            limit = None if limit is None else limit - len(found)
            more = after is not None

    def _has(self, wanted: Mapping[str, Any], metadata: Packed) -> bool:
        known = self._checked.loads_typed(metadata)
        return all(known.get(name) == value for name, value in wanted.items())

    def _histories(
        self, space: ThreadSpace, checkpoint_id: str | None, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        with self._database.read() as connection:
            found = checkpoints.histories(connection, space, checkpoint_id, channels)
        made: dict[str, DeltaChannelHistory] = {}
        for channel, (seed, writes) in found.items():
            made[channel] = {"writes": [self._pending(write) for write in writes]}
            if seed is not None:
                made[channel]["seed"] = self._unpack(channel, seed)
        return made

    def _tuple(self, loaded: Loaded) -> CheckpointTuple:
        row, unpack = loaded.row, self._checked.loads_typed
        space = ThreadSpace(row.thread_id, row.ns)
        held = {channel: self._unpack(channel, value) for channel, value in loaded.values.items()}
        state = unpack((row.state_kind, row.state))
        return CheckpointTuple(
            config=config_of(space, row.id),
            checkpoint=state | {"channel_versions": dict(loaded.versions), "channel_values": held},
            metadata=unpack((row.metadata_kind, row.metadata)),
            parent_config=None if row.parent_id is None else config_of(space, row.parent_id),
            pending_writes=[self._pending(write) for write in loaded.writes],
        )

    def _pending(self, write: Any) -> tuple[str, str, Any]:
        return write.task_id, write.channel, self._unpack(write.channel, (write.kind, write.body))


def _for_each(thread_ids: Sequence[str], change: Callable[[Connection, str], None], connection: Connection) -> None:
    for thread_id in thread_ids:
        change(connection, thread_id)


S = TypeVar("S", bound="SQLAlchemySaver")


class _Opening(AbstractContextManager[S], AbstractAsyncContextManager[S]):
    """Opens a saver for a `with` statement, and in a worker thread for an `async with` statement."""

    def __init__(self, opener: Callable[[], S]) -> None:
        self._opener = opener

    def __enter__(self) -> S:
        self._open = self._opener()
        return self._open

    def __exit__(self, *_: object) -> None:
        self._open.close()

    async def __aenter__(self) -> S:
        self._open = await beside(self._opener)
        return self._open

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()


class _Done:
    """What may be awaited, and need not be."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


class SQLAlchemySaver(Checkpoints, BaseCheckpointSaver[str]):
    """A LangGraph checkpointer: keeps the state of threads, so that a graph can stop, go on, and go back in time.

    The whole of `BaseCheckpointSaver`, in one class for sync and async graphs, on SQLite and Postgres. A step writes the
    channels that it changed, in one transaction, and everybody who waits shares a commit. Any number of threads, tasks and
    processes may use one database; it may be that of a `Memory`, whose tables stand beside these.

    A value comes back as it was put in, or there is an error: a type that LangGraph's strict msgpack does not know must be
    allowed. With an `EncryptedSerializer` states, writes and metadata are encrypted; ids of threads, checkpoints, runs and
    tasks and names of channels are not.

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
        ...     for said in ("Hi!", "Me again."):
        ...         state = graph.invoke({"messages": [("human", said)]}, thread)
        >>> [message.content for message in state["messages"]]
        ['Hi!', 'Hello!', 'Me again.', 'Hello!']
    """

    def __init__(
        self, database: str | Path | URL | SQLEngine | Memory, *, serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        self._checked = checked(self.serde)
        self._database, self._lent = _opened(database)

    # ── opening and closing ─────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def from_conn_string(cls, conn_string: str, *, serde: SerializerProtocol | None = None) -> _Opening[Self]:
        """A saver that is open within a `with` or an `async with` statement.

        Args:
            conn_string: A path (SQLite), `":memory:"` or an SQLAlchemy URL.
            serde: See the class.

        Example:
            >>> with SQLAlchemySaver.from_conn_string(":memory:") as saver:
            ...     saver.get({"configurable": {"thread_id": "1"}}) is None
            True
        """
        return _Opening(partial(cls, conn_string, serde=serde))

    def setup(self) -> Awaitable[None]:
        """Nothing is left to do: tables are made when the database is opened. May be awaited, as with LangGraph's savers."""
        return _Done()

    @planned
    def close(self) -> Plan[None]:
        """Close the database, unless it is that of a `Memory`; the object is of no use afterwards."""
        return Plan(lambda: None if self._lent else self._database.close())

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
        """The same saver, on the same database, that allows more types.

        Args:
            extra_allowlist: Module and name of each type, like `[("app.models", "Trip")]`.
        """
        clone: Self = super().with_allowlist(extra_allowlist)  # type: ignore[assignment] # a shallow copy of this one
        if clone is not self:
            clone._checked = checked(clone.serde)
        return clone

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph fixes the signature
        """The version after this one: a number that grows as text, and chance, so that two branches do not share one.

        Args:
            current: The version before; `None` for the first.
            channel: Not used.
        """
        number = 0 if current is None else int(str(current).split(".", maxsplit=1)[0])
        return f"{number + 1:032}.{secrets.randbelow(10**16):016}"


def _opened(where: object) -> tuple[Database, bool]:
    """A database, ready to be used, and whether it is lent: that of a `Memory` is the memory's to close."""
    # A memory is known by its parts: importing it, with all that it needs, is not needed here.
    lent = getattr(getattr(where, "parts", None), "database", None)
    if isinstance(lent, Database):
        return lent, True
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
