"""What every guest of a memory asks of what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.adapters.classic import ConversationMemory
from langmem_adapter.adapters.middleware import MemoryMiddleware
from langmem_adapter.adapters.nodes import recall_node, remember_node
from langmem_adapter.adapters.retriever import MemoryRetriever, recall
from langmem_adapter.adapters.roles import RoleNodes
from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.adapters.summarizing import summarize_node, summarizer
from langmem_adapter.adapters.tools import create_memory_tools
from langmem_adapter.conversation import ExperienceMemory, reflect
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.maintenance.consolidate import Tidier
from langmem_adapter.memory.memory import Memory
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GUESTS: dict[str, Callable[[Any], object]] = {
    "MemoryMiddleware": MemoryMiddleware,
    "MemoryStore": MemoryStore,
    "SQLAlchemySaver": SQLAlchemySaver,
    "SQLChatMessageHistory": lambda memory: SQLChatMessageHistory("s", memory),
    "ConversationMemory": lambda memory: ConversationMemory(memory=memory),
    "MemoryRetriever": lambda memory: MemoryRetriever(memory=memory),
    "create_memory_tools": create_memory_tools,
    "recall": recall,
    "recall_node": recall_node,
    "remember_node": remember_node,
    "RoleNodes": lambda memory: RoleNodes(memory, "engineer"),
    "summarize_node": summarize_node,
    "summarizer": summarizer,
    "Tidier": Tidier,
    "ExperienceMemory": lambda memory: ExperienceMemory(memory, user_id="u"),
    "reflect": lambda memory: reflect(memory, "Ann", user_id="u"),
}


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", embeddings="hash:64") as opened:
        yield opened


@each("name", GUESTS)
@each("given", [1, None, {"llm": {}}])
def test_every_integration_refuses_what_is_no_memory(name: str, given: object) -> None:
    with pytest.raises(InvalidInputError, match="Memory"):
        GUESTS[name](given)


@pytest.mark.parametrize("name", GUESTS)
def test_a_memory_is_taken(memory: Memory, name: str) -> None:
    assert GUESTS[name](memory)


def test_on_error_and_background_are_checked(memory: Memory) -> None:
    wrong: Any = 1
    for call in (MemoryMiddleware, lambda memory, **given: ConversationMemory(memory=memory, **given)):
        with pytest.raises(ValueError, match="on_error"):
            call(memory, on_error=wrong)
    with pytest.raises(InvalidInputError, match="on_error"):
        memory.background(on_error=wrong)
    with pytest.raises(InvalidInputError, match="background"):
        MemoryMiddleware(memory, background=wrong)
    with pytest.raises(InvalidInputError, match="background"):
        remember_node(memory, background=wrong)


@pytest.mark.parametrize("limit", [-1, "7", True])
def test_list_of_a_saver_takes_a_limit_from_0(memory: Memory, limit: Any) -> None:
    saver = SQLAlchemySaver(memory)
    with pytest.raises(InvalidInputError, match="limit"):
        list(saver.list(None, limit=limit))
    assert not list(saver.list(None, limit=2**70))


def test_the_graph_of_mem0_is_sent_to_its_door() -> None:
    wrong: Any = {"provider": "neo4j", "config": {}}
    with pytest.raises(InvalidInputError, match=r"adapters\.mem0"):
        Memory(":memory:", graph=wrong)
