"""How a checkpointer reads and writes: checkpoints, what tasks wrote, what delta channels are made of, and whole threads."""

from __future__ import annotations

import json
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, get_checkpoint_metadata

from langmem_adapter.adapters.checkpointer import arguments
from langmem_adapter.adapters.checkpointer.arguments import (
    as_text,
    config_of,
    listed,
    place_of,
    selection_of,
    thread_id_of,
)
from langmem_adapter.adapters.checkpointer.serializer import path_to_problem
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_nesting, check_text, quoted
from langmem_adapter.storage import checkpoints as storage
from langmem_adapter.storage import threads
from langmem_adapter.storage.checkpoints import Loaded, Packed, ThreadSpace, slots_of
from langmem_adapter.twins import Plan, awaited, beside, planned

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, DeltaChannelHistory
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from sqlalchemy import Connection

    from langmem_adapter.storage.database import Database

__all__ = ["Checkpoints"]

T = TypeVar("T")

_APART: Final = frozenset({"channel_values", "channel_versions"})  # of a checkpoint: they are kept in their own places
_STRATEGIES: Final = {"keep_latest": threads.keep_latest, "delete": threads.delete_thread}


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
        return chain.from_iterable(
            self._pages(filter, arguments.checked_limit(limit), *selection_of(config, before, filter))
        )

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The async twin of `list`: the same arguments, results and errors."""
        pages = self._pages(filter, arguments.checked_limit(limit), *selection_of(config, before, filter))
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
        return self._changing(partial(threads.delete_thread, thread_id=thread_id_of(thread_id)))

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
        return self._changing(partial(threads.delete_runs, run_ids=ids))

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
        return self._changing(partial(threads.copy_thread, source=source, target=target))

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
            "versions": json.dumps(arguments.checked_versions(checkpoint["channel_versions"]), separators=(",", ":")),
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
            found = threads.histories(connection, space, checkpoint_id, channels)
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
