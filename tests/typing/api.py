"""The public types, as a user's type checker sees them. Checked by mypy, never run.

A line that must not type-check carries a `type: ignore` with its code: mypy (strict) reports an ignore that is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, assert_type

from langchain_core.tools import BaseTool

import langmem_adapter
from langmem_adapter import (
    AddResult,
    Change,
    Entity,
    Memory,
    MemoryItem,
    Neighbour,
    Page,
    Relation,
    RelationChange,
    Scope,
    SearchResults,
    Settings,
)
from langmem_adapter.adapters.retriever import MemoryRetriever
from langmem_adapter.conversation import Experience, ExperienceMemory, Reflection, reflect
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import LangmemAdapterError, MemoryNotFoundError, ModelReplyError, StorageError
from langmem_adapter.index.base import Verification
from langmem_adapter.records.graph import GraphChanges
from langmem_adapter.records.results import EntityPage, Event, Explanation, History, RelationPage, Usage
from langmem_adapter.storage.backup import CopyReport
from langmem_adapter.storage.erasure import Erasure
from langmem_adapter.storage.meta import Stats
from langmem_adapter.storage.scopes import ScopeCount
from langmem_adapter.storage.traces import Trace, TracePage
from langmem_adapter.testing import ScriptedChatModel
from langmem_adapter.twins import Plan, awaited, planned


def opening() -> None:
    assert_type(Memory(), Memory)
    assert_type(Memory(":memory:", model="offline", embeddings="hash:64", index="exact", settings=Settings()), Memory)
    assert_type(Memory(model=ScriptedChatModel(replies=["x"]), embeddings=HashEmbeddings(64)), Memory)
    with Memory(":memory:") as memory:
        assert_type(memory, Memory)
        assert_type(memory.mode, str)
        assert_type(memory.settings, Settings)
    Memory(index="hnsw")  # type: ignore[arg-type]
    Memory(modle="offline")  # type: ignore[call-arg]
    Memory(7)  # type: ignore[arg-type]


def remembering(memory: Memory) -> None:
    result = memory.add("I like tea.", user_id="a")
    assert_type(result, AddResult)
    assert_type(result.results, tuple[Change, ...])
    assert_type(result.results[0].event, Event)
    assert_type(result.results[0].id, str | None)
    assert_type(result.usage, Usage)
    assert_type(result.notes, tuple[str, ...])
    assert_type(result.by_event("ADD"), tuple[Change, ...])
    result.by_event("ADDED")  # type: ignore[arg-type]
    result.results[0].text = "frozen"  # type: ignore[misc]
    memory.add(
        [{"role": "user", "content": "x"}], user_id="a", agent_id="g", run_id="r", metadata={"n": 1}, infer=False
    )
    memory.add("x", user_id="a", timestamp=1.5, expires_at=datetime.now(), idempotency_key="k", prompt="p")  # noqa: DTZ005
    memory.add("x", user_id="a", context=["y"])
    memory.add("x", "a")  # type: ignore[call-arg]
    memory.add("x", user="a")  # type: ignore[call-arg]
    memory.add("x", user_id=7)  # type: ignore[arg-type]
    memory.add()  # type: ignore[call-arg]
    assert_type(memory.add_many([{"messages": "x", "user_id": "a"}]), list[AddResult | Exception])


def finding(memory: Memory) -> None:
    hits = memory.search("tea", user_id="a", k=3, filters={"n": 1}, threshold=0.5, explain=True)
    assert_type(hits, SearchResults)
    assert_type(hits[0].item, MemoryItem)
    assert_type(hits[0].text, str)
    assert_type(hits[0].explanation, Explanation | None)
    memory.search("tea", user_id="a", limit=3)  # type: ignore[call-arg]
    item = memory.get("id", user_id="a")
    assert_type(item, MemoryItem)
    assert_type(item.scope, Scope)
    assert_type(item.metadata, Mapping[str, Any])
    assert_type(item.created_at, datetime)
    page = memory.get_all(user_id="a", k=10, after=None, include_expired=True)
    assert_type(page, Page)
    assert_type(page[0], MemoryItem)
    assert_type(page[:2], tuple[MemoryItem, ...])
    assert_type(page.next, str | None)
    assert_type([item.text for item in page], list[str])
    assert_type(memory.history("id"), History)


def lending(memory: Memory) -> None:
    assert_type(memory.as_retriever(user_id="a", k=3, filters={"n": 1}, threshold=0.5), MemoryRetriever)
    memory.as_retriever(limit=3)  # type: ignore[call-arg]
    memory.as_retriever(k="3")  # type: ignore[arg-type]
    assert_type(memory.tools(tools=["search", "save"], names={"search": "look_up"}, infer=True), list[BaseTool])
    memory.tools(tools=["serach"])  # type: ignore[list-item]
    memory.tools(name="look_up")  # type: ignore[call-arg]


def editing(memory: Memory) -> None:
    assert_type(memory.update("id", "text", metadata={}, expires_at=None), Change)
    assert_type(memory.update("id", expires_at=...), Change)
    assert_type(memory.delete("id", user_id="a"), Change)
    assert_type(memory.delete_all(user_id="a"), int)
    assert_type(memory.restore("id", 1), Change)
    assert_type(memory.reset(), Erasure)
    assert_type(memory.purge(user_id="a"), Erasure)
    assert_type(memory.sweep(), int)
    memory.restore("id", "1")  # type: ignore[arg-type]
    memory.delete()  # type: ignore[call-arg]


def looking_after_it(memory: Memory) -> None:
    assert_type(memory.scopes(), list[ScopeCount])
    assert_type(memory.stats(), Stats)
    assert_type(memory.backup("b.db", force=True), CopyReport)
    memory.backup()  # type: ignore[call-arg]
    assert_type(memory.verify(), Verification)
    assert_type(memory.trace("id"), Trace)
    assert_type(memory.traces(user_id="a", k=10, after=None), TracePage)
    assert_type(memory.replay("id", user_id="a"), AddResult)
    assert_type(memory.close(), None)


async def awaiting() -> None:
    async with Memory(":memory:") as memory:
        assert_type(await memory.aadd("x", user_id="a"), AddResult)
        assert_type(await memory.aadd_many([]), list[AddResult | Exception])
        assert_type(await memory.asearch("x", user_id="a"), SearchResults)
        assert_type(await memory.aget("id"), MemoryItem)
        assert_type(await memory.aget_all(user_id="a"), Page)
        assert_type(await memory.ahistory("id"), History)
        assert_type(await memory.aupdate("id", "x"), Change)
        assert_type(await memory.adelete("id"), Change)
        assert_type(await memory.adelete_all(user_id="a"), int)
        assert_type(await memory.arestore("id", 1), Change)
        assert_type(await memory.astats(), Stats)
        assert_type(await memory.abackup("b.db"), CopyReport)
        assert_type(await memory.atrace("id"), Trace)
        assert_type(await memory.atraces(user_id="a"), TracePage)
        await memory.aadd("x", user="a")  # type: ignore[call-arg]
        await memory.asearch(7, user_id="a")  # type: ignore[arg-type]
        memory.aget("id").text  # type: ignore[attr-defined]  # noqa: B018 - a coroutine has none


def failing() -> None:
    assert_type(MemoryNotFoundError("id").memory_id, str)
    assert_type(ModelReplyError("x", reply="y").reply, str)
    assert_type(StorageError("x").transient, bool)
    error: LangmemAdapterError = langmem_adapter.ScopeError("x")
    value: ValueError = langmem_adapter.ScopeError("x")
    lookup: LookupError = MemoryNotFoundError("id")
    assert_type((error, value, lookup), tuple[LangmemAdapterError, ValueError, LookupError])
    Scope(user="a")  # type: ignore[call-arg]


class Twins:
    """The pair that every method is."""

    @planned
    def boil(self, litres: float, *, tea: str | None = None) -> Plan[bytes]:
        """Boil."""
        return Plan(f"{litres} {tea}".encode)

    aboil = awaited(boil)


async def twins(kettle: Twins) -> None:
    assert_type(kettle.boil(1.5, tea="oolong"), bytes)
    assert_type(await kettle.aboil(1.5, tea="oolong"), bytes)
    kettle.boil("much")  # type: ignore[arg-type]
    await kettle.aboil(1, milk=True)  # type: ignore[call-arg]


def the_graph(memory: Memory, result: AddResult) -> None:
    assert_type(result.relations, GraphChanges)
    assert_type(result.relations.added, tuple[Relation, ...])
    assert_type(memory.graph.relations(user_id="a"), RelationPage)
    assert_type(memory.graph.relations(user_id="a")[0], Relation)
    assert_type(memory.graph.entities(user_id="a"), EntityPage)
    assert_type(memory.graph.entities(user_id="a")[0], Entity)
    assert_type(memory.graph.neighbours("x", user_id="a"), list[Neighbour])
    assert_type(memory.graph.path("x", "y", user_id="a"), list[Relation])
    assert_type(memory.graph.add("a", "b", "c", user_id="a"), RelationChange)
    assert_type(memory.graph.draw(user_id="a"), str)
    memory.graph.draw(format="svg", user_id="a")  # type: ignore[arg-type]


async def the_graph_awaited(memory: Memory) -> None:
    assert_type(await memory.graph.arelations(user_id="a"), RelationPage)


async def experience(memory: Memory) -> None:
    pool = ExperienceMemory(memory, user_id="a")

    @pool.cached
    def length(*, req: str) -> int:
        return len(req)

    @pool.cached(tag="later")
    async def later(*, req: str) -> int:
        return len(req)

    assert_type(length(req="x"), int)
    assert_type(await later(req="x"), int)
    length(request="x")  # type: ignore[call-arg]
    assert_type(pool.add("x", "y", score=10), Change)
    assert_type(pool.query("x", exact=True), list[Experience])
    assert_type(await pool.acount(), int)
    assert_type(reflect(memory, "Ann", user_id="a"), Reflection)
