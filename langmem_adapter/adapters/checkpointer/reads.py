"""How a checkpointer reads: one checkpoint, many of them, and what delta channels are made of."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import CheckpointTuple

from langmem_adapter.adapters.checkpointer.arguments import checked_limit, config_of, listed, place_of, selection_of
from langmem_adapter.records.checks import check_text
from langmem_adapter.storage import checkpoints as storage
from langmem_adapter.storage import threads
from langmem_adapter.twins import Plan, awaited, beside, planned

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import DeltaChannelHistory
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langmem_adapter.storage.checkpoints import Loaded, Packed, ThreadSpace
    from langmem_adapter.storage.database import Database

__all__ = ["CheckpointReads"]


class CheckpointReads:
    """The methods of `SQLAlchemySaver` that read."""

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

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────────

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
                made[channel]["seed"] = self._checked.loads_typed(seed)
        return made

    def _tuple(self, loaded: Loaded) -> CheckpointTuple:
        row, unpack = loaded.row, self._checked.loads_typed
        space = storage.ThreadSpace(row.thread_id, row.ns)
        held = {channel: unpack(value) for channel, value in loaded.values.items()}
        state = unpack((row.state_kind, row.state))
        return CheckpointTuple(
            config=config_of(space, row.id),
            checkpoint=state | {"channel_versions": dict(loaded.versions), "channel_values": held},
            metadata=unpack((row.metadata_kind, row.metadata)),
            parent_config=None if row.parent_id is None else config_of(space, row.parent_id),
            pending_writes=[self._pending(write) for write in loaded.writes],
        )

    def _pending(self, write: Any) -> tuple[str, str, Any]:
        return write.task_id, write.channel, self._checked.loads_typed((write.kind, write.body))
