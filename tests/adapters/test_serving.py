"""The store and the checkpointer of a LangGraph server, opened and closed as it does."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langmem_adapter.adapters.serving import checkpointer, shared_memory, store
from langmem_adapter.errors import StorageError
from langmem_adapter.twins import run_in_executor

if TYPE_CHECKING:
    from pathlib import Path


async def test_store_and_checkpointer_share_a_memory_that_the_first_of_them_closes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", str(tmp_path / "memory.db"))
    early = shared_memory()  # of a module that was imported before
    async with checkpointer() as saver:
        async with store() as kept:
            await kept.aput(("ann", "notes"), "1", {"text": "Buy bread"})
        async with store() as again:
            assert again is not kept and await again.aget(("ann", "notes"), "1") is not None
        assert shared_memory() is early and [thread async for thread in saver.alist(None)] == []
    with pytest.raises(StorageError, match="closed"):
        early.get_all(user_id="ann")
    serde = JsonPlusSerializer(allowed_msgpack_modules=[("app", "Trip")])
    async with checkpointer(serde=serde) as saver, store() as kept:
        assert saver.serde is serde
        assert shared_memory() is not early and await kept.aget(("ann", "notes"), "1") is not None


async def test_a_forked_child_and_whoever_comes_after_a_close_get_a_memory_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", str(tmp_path / "memory.db"))
    async with store():
        shared_memory().add("I like tea.", user_id="ann")
        child = os.fork()
        if child == 0:  # pragma: no cover - runs in the child
            signal.alarm(30)
            try:
                shared_memory().add("I like go.", user_id="ann")
                shared_memory().close()
                os._exit(0)
            finally:
                os._exit(1)
        assert (await run_in_executor(os.waitpid, child, 0))[1] == 0
        shared_memory().close()
        late = shared_memory()
        assert {item.text for item in late.get_all(user_id="ann")} == {"Likes tea", "Likes go"}
    with pytest.raises(StorageError, match="closed"):
        late.stats()
