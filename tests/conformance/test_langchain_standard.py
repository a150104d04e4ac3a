"""LangChain's own standard tests, on our retriever and on each of our tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from langmem_adapter.adapters.retriever import MemoryRetriever
from langmem_adapter.adapters.tools import create_memory_tools
from langmem_adapter.memory.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.tools import BaseTool

ALICE = "alice@example.com"
TEXTS = ("Likes tea", "Is vegetarian", "Plays chess", "Lives in Lyon", "Has a dog")


class _OnMemory:
    """A memory with something in it, for each test."""

    memory: Memory

    @pytest.fixture(autouse=True)
    def _opened(self) -> Iterator[None]:
        with Memory(":memory:") as self.memory:
            for text in TEXTS:
                self.memory.add(text, user_id=ALICE, infer=False)
            yield


class TestMemoryRetriever(_OnMemory, RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[MemoryRetriever]:
        return MemoryRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory, "user_id": ALICE}

    @property
    def retriever_query_example(self) -> str:
        return "What does she drink?"


class _OnTool(_OnMemory):
    number: int

    @property
    def tool_constructor(self) -> BaseTool:
        return create_memory_tools(self.memory, user_id=ALICE)[self.number]

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        known = self.memory.get_all(user_id=ALICE)[0].id
        given = {"query": "tea"}, {"content": "Likes go"}, {"memory_id": known, "content": "x"}, {"memory_id": known}
        return given[self.number]


class TestSearchMemory(_OnTool, ToolsUnitTests):
    number = 0


class TestSearchMemoryAtWork(_OnTool, ToolsIntegrationTests):
    number = 0


class TestSaveMemory(_OnTool, ToolsUnitTests):
    number = 1


class TestSaveMemoryAtWork(_OnTool, ToolsIntegrationTests):
    number = 1


class TestUpdateMemory(_OnTool, ToolsUnitTests):
    number = 2


class TestUpdateMemoryAtWork(_OnTool, ToolsIntegrationTests):
    number = 2


class TestForgetMemory(_OnTool, ToolsUnitTests):
    number = 3


class TestForgetMemoryAtWork(_OnTool, ToolsIntegrationTests):
    number = 3
