"""Store and checkpointer of a LangGraph server, on one memory for all of its process.

In the server's `langgraph.json`:

    "store": {"path": "langmem_adapter.adapters.serving.store"},
    "checkpointer": {"path": "langmem_adapter.adapters.serving.checkpointer"}

Database, model and embeddings come from the settings: environment `LANGMEM_ADAPTER_*`, or the user's own
`langmem_adapter.toml`. Graphs get the same memory from `shared_memory()`.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.forks import Lock
from langmem_adapter.memory.memory import Memory
from langmem_adapter.twins import run_in_executor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langgraph.checkpoint.serde.base import SerializerProtocol

__all__ = ["checkpointer", "shared_memory", "store"]


class _Shared:
    def __init__(self) -> None:
        self._lock = Lock()
        self._memory: Memory | None = None
        self._has_closer = False
        self._process = os.getpid()

    def open(self) -> Memory:
        # Contract: what a forked child inherits is its parent's, to be closed there.
        # tests/adapters/test_serving.py::test_a_forked_child_and_whoever_comes_after_a_close_get_a_memory_of_their_own.
        with self._lock:
            if self._process != os.getpid():
                self._memory, self._has_closer, self._process = None, False, os.getpid()
            if self._memory is None or self._memory.parts.database.closed:
                self._memory = Memory()
            return self._memory

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Memory]:
        # Contract: the first to enter closes, since a server leaves what it entered in its own thread, from the last to the
        # first, and never what it entered in threads of its runs.
        # tests/adapters/test_serving.py::test_store_and_checkpointer_share_a_memory_that_the_first_of_them_closes.
        memory = await run_in_executor(self.open)
        with self._lock:
            is_first, self._has_closer = not self._has_closer, True
        try:
            yield memory
        finally:
            if is_first:
                with self._lock:
                    last, self._memory, self._has_closer = self._memory, None, False
                await (last or memory).aclose()


_SHARED: Final = _Shared()


def shared_memory() -> Memory:
    """The memory of this process, opened by the settings at the first call, and again after it was closed.

    A forked child opens another one. A compiled graph or a store of the parent's memory keeps using that.
    """
    return _SHARED.open()


@asynccontextmanager
async def store() -> AsyncIterator[MemoryStore]:
    """The `store.path` of a LangGraph server: a `MemoryStore` on `shared_memory()`, with its embeddings.

    Items that were given a lifetime are deleted after it. Of *store* and *checkpointer*, the first to be entered closes the
    memory in the end.
    """
    async with _SHARED.use() as shared:
        served = MemoryStore(shared)
        served.start_ttl_sweeper()
        yield served


@asynccontextmanager
async def checkpointer(*, serde: SerializerProtocol | None = None) -> AsyncIterator[SQLAlchemySaver]:
    """The `checkpointer.path` of a LangGraph server: an `SQLAlchemySaver` on the database of `shared_memory()`.

    A server does not pass the types in the state of its graphs to the checkpointer. If a state has your own types, let the
    path name an object in your module: `threads = partial(checkpointer, serde=…)`.

    Args:
        serde: LangGraph's serializer for states, as `JsonPlusSerializer(allowed_msgpack_modules=[("app.models", "Trip")])`;
            `None` is its strict one.
    """
    async with _SHARED.use() as shared:
        yield SQLAlchemySaver(shared, serde=serde)
