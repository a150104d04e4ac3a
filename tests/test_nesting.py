"""JSON comes back from wherever it may be put: one limit of levels at every door, far from the end of anybody's stack."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.errors import FilterError, InvalidInputError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.checks import DEEPEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


def nested(levels: int) -> Any:
    value: Any = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


def added(memory: Memory, levels: int) -> Any:
    (change,) = memory.add("I like tea.", user_id="a", infer=False, metadata={"a": nested(levels - 1)}).results
    return memory.get(str(change.id)).metadata["a"]


def updated(memory: Memory, levels: int) -> Any:
    (change,) = memory.add("I like tea.", user_id="b", infer=False).results
    memory.update(str(change.id), metadata={"a": nested(levels - 1)})
    return memory.search("tea", user_id="b")[-1].item.metadata["a"]


def put(memory: Memory, levels: int) -> Any:
    store = MemoryStore(memory, index=False)
    store.put(("a",), "k", {"a": nested(levels - 1)})
    (item,) = store.search(("a",))
    return item.value["a"]


def said(memory: Memory, levels: int) -> Any:
    history = SQLChatMessageHistory(str(levels), memory)
    history.add_message(
        HumanMessage("tea", additional_kwargs={"a": nested(levels - 3)})
    )  # within the message, its fields
    return history.messages[0].additional_kwargs["a"]


def checkpointed(memory: Memory, levels: int) -> Any:
    saver, metadata = SQLAlchemySaver(memory), {"source": "loop", "a": nested(levels - 1)}
    saver.put(THREAD, empty_checkpoint(), metadata, {})  # type: ignore[arg-type]  # LangGraph lets callers add keys
    (found,) = saver.list(THREAD, filter={"a": metadata["a"]})
    return found.metadata["a"]  # type: ignore[typeddict-item]  # the same


DOORS = [added, updated, put, said, checkpointed]


def deep_in_the_stack(call: Callable[[], Any], frames: int) -> Any:
    return call() if not frames else deep_in_the_stack(call, frames - 1)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: str(door.__name__))
def test_what_is_taken_comes_back_and_what_is_too_deep_is_refused(
    memory: Memory, door: Callable[[Memory, int], Any]
) -> None:
    inner = DEEPEST - (3 if door is said else 1)
    assert deep_in_the_stack(lambda: door(memory, DEEPEST), sys.getrecursionlimit() // 2) == nested(inner)
    for levels in (DEEPEST + 1, 980, 100_000):
        with pytest.raises(InvalidInputError, match=f"deeper than {DEEPEST} levels"):
            door(memory, levels)


def test_whatever_is_kept_can_be_asked_for(memory: Memory) -> None:
    metadata = {"a": nested(DEEPEST - 1)}
    (change,) = memory.add("I like tea.", user_id="c", infer=False, metadata=metadata).results
    for wanted in ({"a": {"eq": metadata["a"]}}, {"a": [metadata["a"]]}):
        assert [item.id for item in memory.get_all(user_id="c", filters=wanted)] == [change.id]
    with pytest.raises(FilterError, match=f"{DEEPEST} deep"):
        memory.get_all(user_id="c", filters={"a": {"eq": nested(DEEPEST + 1)}})


def test_metadata_of_lists_that_share_lists_is_refused(memory: Memory) -> None:
    value: Any = ["x"]
    for _ in range(10):
        value = [value, value]
    memory.add("I like jam.", user_id="d", infer=False, metadata={"a": value})
    for _ in range(DEEPEST - 13):
        value = [value, value]
    with pytest.raises(InvalidInputError, match="more than 10,000,000 values"):
        memory.add("I like tea.", user_id="d", infer=False, metadata={"a": value})
