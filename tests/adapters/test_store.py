"""What LangGraph's contract does not speak of: durability, other processes, embedding models, configuration, guests."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore
from langgraph.store.base import BaseStore, ListNamespacesOp, MatchCondition, PutOp
from langgraph.store.base.batch import AsyncBatchedBaseStore

from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError, ModelError, StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage.items import ITEMS, erase
from tests.programs import python
from tests.store_kinds import Letters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from langgraph.runtime import Runtime
    from langgraph.store.base import Op, Result

INDEX: Any = {"dims": 37, "embed": Letters(), "fields": ["text"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with Memory(path) as opened:
        yield opened


def index(**changes: Any) -> Any:
    return {**INDEX, **changes}


def keys(store: BaseStore, **how: Any) -> list[str]:
    return [item.key for item in store.search((), **how)]


def agree(store: MemoryStore) -> bool:
    """Whether the index of the vectors is what the database says."""
    assert store._fields is not None
    feed = store._parts.feed(ITEMS, store._fields.mark)
    return feed.verify().ok


# ── durability ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_index_is_told_as_by_the_reference_stores(memory: Memory) -> None:
    model, given = HashEmbeddings(64), MemoryStore(memory).index_config
    assert given is not None and given["fields"] == ["$"] and isinstance(given["embed"], HashEmbeddings)
    told = MemoryStore(memory, index={"embed": model, "dims": 64, "fields": ["text"]}).index_config
    assert told == {"embed": model, "dims": 64, "fields": ["text"]}
    assert MemoryStore(memory, index=False).index_config is None


def test_items_outlive_the_program(path: Path) -> None:
    with Memory(path) as memory:
        MemoryStore(memory, INDEX).put(("u", "ann"), "k", {"text": "aaa"})
        MemoryStore(memory, INDEX).put(("u", "bob"), "k", {"text": "bbb"})
        assert MemoryStore(memory, INDEX).search(("u",), query="a")[0].namespace == ("u", "ann")
    for _ in range(2):  # from the snapshot, and without it
        with Memory(path) as memory:
            store = MemoryStore(memory, INDEX)
            assert [item.namespace[1] for item in store.search(("u",), query="b")] == ["bob", "ann"]
            assert agree(store)
        for snapshot in path.parent.glob("*.index"):
            snapshot.unlink()


def test_another_process_is_seen_at_once(path: Path, memory: Memory) -> None:
    store = MemoryStore(memory)
    store.put(("u",), "mine", {"text": "tea"})
    assert keys(store, query="tea") == ["mine"]
    program = (
        "import sys; from langmem_adapter import Memory; from langmem_adapter.adapters.store import MemoryStore\n"
        "with Memory(sys.argv[1]) as memory:\n"
        "    MemoryStore(memory).put(('u',), 'theirs', {'text': 'coffee'})\n"
        "    print([item.key for item in MemoryStore(memory).search((), query='coffee')])"
    )
    done = python("-c", program, path)
    assert done.stdout.strip() == "['theirs', 'mine']"
    assert keys(store, query="coffee") == ["theirs", "mine"]


def test_a_batch_is_written_whole_or_not_at_all(memory: Memory) -> None:
    class Broken(Letters):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return super().embed_documents(texts)[:-1]

    store = MemoryStore(memory, index(embed=Broken()))
    with pytest.raises(InvalidInputError, match="1 vectors for 2 texts"):
        store.batch([PutOp(("a",), key, {"text": key}) for key in "12"])
    assert keys(store) == []


def test_many_threads_write_and_search(memory: Memory) -> None:
    store = MemoryStore(memory, INDEX)

    def work(number: int) -> None:
        for turn in range(10):
            store.put(("u", str(number)), str(turn), {"text": "ab"[turn % 2]})
            store.put(("shared",), str(turn % 3), {"text": "ab"[number % 2], "by": number})
            assert len(store.search(("u", str(number)), query="a", limit=50)) == turn + 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert len(keys(store, limit=100)) == 63
    assert agree(store)


def test_memories_and_items_do_not_mix(memory: Memory) -> None:
    store = MemoryStore(memory)
    memory.add("I like tea", user_id="ann")
    store.put(("ann",), "k", {"text": "I like tea"})
    assert keys(store, query="tea") == ["k"]
    assert [hit.text for hit in memory.search("tea", user_id="ann")] == ["Likes tea"]
    assert memory.verify().ok and agree(store)


def test_what_is_erased_is_in_no_search(path: Path, memory: Memory) -> None:
    store = MemoryStore(memory, INDEX)
    store.batch([PutOp(("u", key), key, {"text": "a"}) for key in "123"])
    assert len(keys(store, query="a")) == 3
    with Memory(path) as other:
        assert other.parts.database.write(erase) == 3
    assert keys(store, query="a") == keys(store) == [] and store.list_namespaces() == []
    store.put(("u",), "k", {"text": "a"})
    assert keys(store, query="a") == ["k"] and agree(store)


def test_a_closed_memory_says_so(path: Path) -> None:
    memory = Memory(path)
    store = MemoryStore(memory)
    running = store.start_ttl_sweeper(10)
    memory.close()
    assert running.done()
    with pytest.raises(StorageError, match="closed"):
        store.get(("a",), "k")


# ── embeddings ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_by_default_whole_values_are_found_with_the_memorys_own_embeddings(memory: Memory) -> None:
    store = MemoryStore(memory)
    store.put(("u",), "1", {"title": "The violin lesson", "when": {"day": "Monday"}})
    store.put(("u",), "2", {"title": "Olives and bread"})
    found = store.search(("u",), query="violin on Monday")
    assert [item.key for item in found] == ["1", "2"]
    assert found[0].score is not None and found[0].score > 0.2


def test_without_vectors_a_query_is_ignored(memory: Memory) -> None:
    store = MemoryStore(memory, index=False)
    store.put(("u",), "1", {"text": "aaa"}, index=["text"])
    assert [item.score for item in store.search((), query="aaa")] == [None]


def test_a_match_condition_of_one_label_may_be_a_text(memory: Memory) -> None:
    store = MemoryStore(memory, index=False)
    every = [("test", "documents", "public"), ("test", "documents", "private"), ("prod", "public"), ("public", "test")]
    for namespace in every:
        store.put(namespace, "k", {})
    ending = (MatchCondition("suffix", "public"),)  # type: ignore[arg-type]  # as LangGraph's own test of Postgres has it
    assert store.batch([ListNamespacesOp(match_conditions=ending)]) == [[every[2], every[0]]]


def embed_letters(texts: Sequence[str]) -> list[list[float]]:
    return Letters().embed_documents(list(texts))


async def aembed_letters(texts: Sequence[str]) -> list[list[float]]:
    return embed_letters(texts)


@pytest.mark.parametrize("embed", [embed_letters, Letters(), "hash:37"])
def test_embeddings_are_functions_objects_or_names(memory: Memory, embed: Any) -> None:
    store = MemoryStore(memory, {"dims": 37, "embed": embed, "fields": ["text"]})
    store.put(("u",), "1", {"text": "violin"})
    store.put(("u",), "2", {"text": "bread"})
    assert keys(store, query="violins") == ["1", "2"]


def test_an_async_function_embeds_for_async_callers(memory: Memory) -> None:
    store = MemoryStore(memory, {"dims": 37, "embed": aembed_letters, "fields": ["text"]})

    async def work() -> list[str]:
        await store.aput(("u",), "1", {"text": "aaa"})
        await store.aput(("u",), "2", {"text": "bbb"})
        return [item.key for item in await store.asearch((), query="b")]

    assert asyncio.run(work()) == ["2", "1"]
    with pytest.raises(ModelError, match=r"^EmbeddingsLambda failed: ValueError: .*async function"):
        store.search((), query="b and something new")


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (True, "must be None"),
        ("openai", "must be None"),
        ({"field": ["text"]}, "no 'field' here: did you mean 'fields'"),
        ({"dims": 3}, "belongs to"),
        ({"dims": 0, "embed": embed_letters}, "whole number from 1, not 0"),
        ({"dims": 3, "embed": 7}, "must be Embeddings"),
        ({"fields": "text"}, "list of paths"),
        ({"fields": [""]}, "list of paths"),
    ],
)
def test_index_config_that_is_not_understood_is_refused(memory: Memory, config: Any, named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        MemoryStore(memory, config)


@pytest.mark.parametrize(
    ("ttl", "named"), [(5, "mapping"), ({"default": 5}, "no 'default' here"), ({"default_ttl": -1}, "minutes")]
)
def test_ttl_config_that_is_not_understood_is_refused(memory: Memory, ttl: Any, named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        MemoryStore(memory, ttl=ttl)


def test_vectors_of_the_wrong_length_are_refused(memory: Memory) -> None:
    store = MemoryStore(memory, {"dims": 12, "embed": embed_letters, "fields": ["text"]})
    with pytest.raises(EmbeddingMismatchError, match="37 dimensions, 12 were expected"):
        store.put(("u",), "k", {"text": "aaa"})
    store.put(("u",), "k", {"text": "aaa"}, index=False)
    assert keys(store) == ["k"]


def test_vectors_of_two_models_are_never_compared(memory: Memory) -> None:
    old, new = MemoryStore(memory, INDEX), MemoryStore(memory, {"embed": "hash:64"})
    old.put(("u",), "1", {"text": "violin"})
    for refused in (lambda: new.search((), query="violin"), lambda: new.put(("u",), "2", {"text": "bread"})):
        with pytest.raises(EmbeddingMismatchError, match=r"vectors of the items .* of letters.*reindex\(\)"):
            refused()
    assert keys(new) == ["1"]
    new.put(("u",), "2", {"text": "bread"}, index=False)
    assert new.get(("u",), "2") is not None


def test_reindex_changes_model_and_fields(memory: Memory) -> None:
    old = MemoryStore(memory, INDEX)
    old.batch(
        [PutOp(("u",), str(n), {"text": f"fact {n}", "title": "violin" if n == 3 else "bread"}) for n in range(300)]
    )
    old.put(("u",), "own", {"text": "harbour", "note": "lantern"}, index=["note"])
    old.put(("u",), "none", {"title": "violin"}, index=False)
    before = old.get(("u",), "3")
    new, told = MemoryStore(memory, {"embed": "hash:64", "fields": ["title"]}), list[tuple[int, int]]()
    assert new.reindex(lambda done, total: told.append((done, total))) == 301
    assert told == [(256, 302), (302, 302)]
    assert keys(new, query="violin", limit=1) == ["3"] and keys(new, query="lantern", limit=1) == ["own"]
    assert new.search((), query="violin", filter={"title": "violin"})[-1].score is None
    assert new.get(("u",), "3") == before and agree(new)
    with pytest.raises(EmbeddingMismatchError):
        old.search((), query="fact")
    assert asyncio.run(old.areindex()) == 301
    assert keys(old, query="fact 7", limit=1) == ["7"] and agree(old)
    with pytest.raises(InvalidInputError, match="index=False"):
        MemoryStore(memory, index=False).reindex()


def test_two_reindexes_at_once_give_each_item_its_vectors_once(memory: Memory) -> None:
    store = MemoryStore(memory, INDEX)
    store.put(("u",), "1", {"text": "violin"})
    others: list[int] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        if not others:  # the other one has read the same items by the time that ours are written
            others.append(0)
            others[0] = MemoryStore(memory, {"embed": embed, "dims": 37, "fields": ["text"]}).reindex()
        return Letters().embed_documents(list(texts))

    mine = MemoryStore(memory, {"embed": embed, "dims": 37, "fields": ["text"]})
    assert (mine.reindex(), others) == (1, [1])
    assert keys(mine, query="violin", limit=1) == ["1"] and agree(mine)


def test_after_a_reindex_of_the_memory_the_store_names_its_own(path: Path) -> None:
    from langmem_adapter.maintenance.reindex import reindex

    with Memory(path, embeddings="hash:64") as memory:
        MemoryStore(memory).put(("u",), "k", {"text": "violin"})
    reindex(path, "hash:128")
    with Memory(path, embeddings="hash:128") as memory:
        store = MemoryStore(memory)
        with pytest.raises(EmbeddingMismatchError, match="reindex"):
            store.search((), query="violin")
        assert store.reindex() == 1
        assert keys(store, query="violin") == ["k"]


# ── guests ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Talk(MessagesState):
    """The state of a small graph."""


def remember(state: Talk, runtime: Runtime[None]) -> dict[str, Any]:
    assert runtime.store is not None
    text = str(state["messages"][-1].content)
    found = runtime.store.search(("ann",), query=text, limit=1)
    runtime.store.put(("ann",), str(len(state["messages"])), {"text": text})
    return {"messages": [AIMessage(found[0].value["text"] if found else "nothing")]}


async def aremember(state: Talk, runtime: Runtime[None]) -> dict[str, Any]:
    assert runtime.store is not None
    text = str(state["messages"][-1].content)
    found = await runtime.store.asearch(("ann",), query=text, limit=1)
    return {"messages": [AIMessage(found[0].value["text"])]}


def test_a_graph_uses_it_sync_and_async(memory: Memory) -> None:
    store = MemoryStore(memory, {"fields": ["text"]})
    said: list[str] = []
    for node in (remember, remember):
        graph = StateGraph(Talk).add_node("node", node).add_edge(START, "node").compile(store=store)
        said.append(graph.invoke({"messages": [HumanMessage("I play the violin")]})["messages"][-1].content)
    graph = StateGraph(Talk).add_node("node", aremember).add_edge(START, "node").compile(store=store)
    answer = asyncio.run(graph.ainvoke({"messages": [HumanMessage("Which violin?")]}))
    assert [*said, answer["messages"][-1].content] == ["nothing", "I play the violin", "I play the violin"]


class Caller(FakeMessagesListChatModel):
    """A chat model with prepared answers that may be given tools."""

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self


@tool
def save_note(text: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Keep a note."""
    store.put(("notes",), "1", {"text": text})
    return "kept"


def test_an_agents_tools_get_it(memory: Memory) -> None:
    from langchain.agents import create_agent

    call = {"name": "save_note", "args": {"text": "buy olives"}, "id": "1", "type": "tool_call"}
    model = Caller(responses=[AIMessage("", tool_calls=[call]), AIMessage("done")])
    store = MemoryStore(memory)
    create_agent(model, tools=[save_note], store=store).invoke({"messages": [HumanMessage("note: buy olives")]})
    assert [item.value for item in store.search(("notes",), query="olives")] == [{"text": "buy olives"}]


class Batched(AsyncBatchedBaseStore):
    """What LangGraph's server wraps around a store: operations of one moment become one batch."""

    def __init__(self, inner: BaseStore) -> None:
        super().__init__()
        self._inner = inner

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._inner.batch(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._inner.abatch(ops)


def test_it_may_be_wrapped_as_langgraphs_server_does(memory: Memory) -> None:
    inner = MemoryStore(memory, INDEX)

    async def work() -> list[Any]:
        store = Batched(inner)
        await asyncio.gather(*(store.aput(("u",), str(n), {"text": "a" * (n + 1) + "b"}) for n in range(20)))
        found = await asyncio.gather(*(store.asearch(("u",), query="b", limit=n) for n in range(1, 4)))
        got = await store.aget(("u",), "7")
        assert got is not None and got.value == {"text": "aaaaaaaab"}
        return [[item.key for item in page] for page in found]

    assert asyncio.run(work()) == [["0"], ["0", "1"], ["0", "1", "2"]]


def test_langmems_tools_keep_their_memories_in_it(memory: Memory) -> None:
    langmem = pytest.importorskip("langmem", reason="langmem is not installed: its pins would decide about ours")
    store = MemoryStore(memory, {"fields": ["content"]})
    manage = langmem.create_manage_memory_tool(namespace=("memories",), store=store)
    search = langmem.create_search_memory_tool(namespace=("memories",), store=store)
    manage.invoke({"content": "Ann plays the violin", "action": "create"})
    assert "violin" in search.invoke({"query": "Which instrument?"})
    (item,) = store.search(("memories",))
    manage.invoke({"content": "Ann plays the cello", "action": "update", "id": item.key})
    assert "cello" in search.invoke({"query": "Which instrument?"})
    manage.invoke({"action": "delete", "id": item.key})
    assert store.search(("memories",)) == []
