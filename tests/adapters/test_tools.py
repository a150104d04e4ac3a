"""Memory in the hands of a model: in agents, in tool nodes, alone; whose it is, and what the model is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from langmem_adapter.adapters.tools import create_memory_tools
from langmem_adapter.errors import InvalidInputError, ScopeError, StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.escapes import DATA_ONLY
from langmem_adapter.scoping import MemoryContext
from langmem_adapter.testing import ScriptedChatModel
from tests.cases import undated

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

ALICE = "alice@example.com"
CONTEXT = MemoryContext(user_id=ALICE)
HERS: Any = {"configurable": {"user_id": ALICE}}
HIS: Any = {"configurable": {"user_id": "bob"}}


def tools_of(memory: Memory, **how: Any) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in create_memory_tools(memory, **how)}


def call(name: str, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call {name}"}])


def told(messages: list[Any]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def known(memory: Memory, user: str = ALICE) -> list[str]:
    return sorted(item.text for item in memory.get_all(user_id=user))


# ── alone ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_search_save_update_and_forget_tools(memory: Memory) -> None:
    tools = tools_of(memory)
    saved = tools["save_memory"].invoke({"content": "The user is vegetarian."}, HERS)
    [item] = memory.get_all(user_id=ALICE)
    assert saved == f"ADD {item.id}: The user is vegetarian."
    found = tools["search_memory"].invoke({"query": "food"}, HERS)
    assert undated(found) == f"{DATA_ONLY}\n{item.id}: The user is vegetarian."
    changed = tools["update_memory"].invoke({"memory_id": item.id, "content": "The user is vegan."}, HERS)
    assert changed == f"UPDATE {item.id}: The user is vegan."
    assert tools["forget_memory"].invoke({"memory_id": item.id}, HERS) == f"DELETE {item.id}: The user is vegan."
    assert (
        tools["search_memory"].invoke({"query": "food"}, HERS)
        == "Nothing is remembered about that: no memory to search."
    )
    assert [revision.event for revision in memory.history(item.id)] == ["ADD", "UPDATE", "DELETE"]


def test_what_is_saved_twice_is_kept_once(memory: Memory) -> None:
    save = tools_of(memory)["save_memory"]
    for number in range(20):
        save.invoke({"content": f"The user likes tea number {number}."}, HERS)
    again = save.invoke({"content": "the user likes Tea  number 7"}, HERS)
    assert again.startswith("Already remembered: ")
    assert again.endswith("The user likes tea number 7.")
    assert len(known(memory)) == 20
    assert save.invoke({"content": "The user likes tea number 7."}, HIS).startswith("ADD ")


def test_infer_sends_what_is_saved_through_the_pipeline(memory: Memory) -> None:
    save = tools_of(memory, infer=True)["save_memory"]
    save.invoke({"content": "I live in Kyoto."}, HERS)
    assert save.invoke({"content": "I live in Lyon."}, HERS).startswith("UPDATE ")
    assert save.invoke({"content": "I live in Lyon."}, HERS).startswith("NONE ")
    assert save.invoke({"content": "Hello!"}, HERS) == "Nothing was saved: there was no fact in it."
    assert known(memory) == ["Lives in Lyon"]


def test_tools_and_names_choose_tools_and_their_names(memory: Memory) -> None:
    tools = create_memory_tools(memory, tools=["save", "search"], names={"search": "look_up"}, user_id=ALICE)
    assert [tool.name for tool in tools] == ["save_memory", "look_up"]
    tools[0].invoke({"content": "Likes tea"})
    assert "Likes tea" in tools[1].invoke("tea")


@pytest.mark.parametrize("wrong", [{"tools": ["serach"]}, {"names": {"serach": "x"}}])
def test_an_unknown_tool_is_refused(memory: Memory, wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="a memory tool is one of 'search', 'save', 'update', 'forget'"):
        create_memory_tools(memory, **wrong)


def test_k_and_max_tokens_limit_the_search_tool(memory: Memory) -> None:
    tools = tools_of(memory, k=2, threshold=0)
    for number in range(4):
        tools["save_memory"].invoke({"content": f"Likes tea number {number}"}, HERS)
    assert len(tools["search_memory"].invoke({"query": "tea"}, HERS).splitlines()) == 1 + 2
    with pytest.raises(InvalidInputError, match="k must be"):
        create_memory_tools(memory, k=0)


# ── what the model sees ───────────────────────────────────────────────────────────────────────────────────────────────


def test_no_scope_stands_in_any_schema(memory: Memory) -> None:
    for tool in create_memory_tools(memory):
        schema = convert_to_openai_tool(tool)
        properties = schema["function"]["parameters"]["properties"]
        assert set(properties) <= {"query", "content", "memory_id", "after", "before"}
        assert all(part["description"] for part in properties.values())
        assert schema["function"]["description"]
        for word in ("user_id", "agent_id", "run_id", "config", "runtime"):
            assert word not in json.dumps(schema)


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        ("search_memory", {"query": " "}, "query is empty"),
        ("save_memory", {"content": ""}, "empty"),
        ("save_memory", {"content": "a\x00"}, "content holds a NUL"),
        ("save_memory", {"content": "I like \ud800 tea"}, "content holds a lone surrogate"),
        ("update_memory", {"memory_id": "x", "content": "\ud800"}, "content holds a lone surrogate"),
        ("update_memory", {"memory_id": "", "content": "x"}, "a memory's id is a text"),
    ],
)
async def test_what_the_model_can_put_right_is_told_to_it(memory: Memory, name: str, args: Any, reason: str) -> None:
    tool = tools_of(memory)[name]
    for answer in (tool.invoke(call(name, **args).tool_calls[0], HERS), await tool.ainvoke(args, HERS)):
        assert reason in str(getattr(answer, "content", answer))


async def test_what_is_the_developers_is_raised() -> None:
    memory = Memory(":memory:")
    tools = tools_of(memory)
    for tool, args in ((tools["search_memory"], {"query": "tea"}), (tools["save_memory"], {"content": "tea"})):
        with pytest.raises(ScopeError, match="configurable"):
            tool.invoke(args)
        with pytest.raises(ScopeError, match="configurable"):
            await tool.ainvoke(args)
    memory.close()
    with pytest.raises(StorageError, match="closed"):
        tools["search_memory"].invoke({"query": "tea"}, HERS)


# ── in agents and graphs ──────────────────────────────────────────────────────────────────────────────────────────────


def agent_with(memory: Memory, *replies: Any, **how: Any) -> Any:
    model = ScriptedChatModel(replies=replies, modes="tools")
    return create_agent(model, tools=create_memory_tools(memory), context_schema=MemoryContext, **how)


def test_a_mistake_of_the_model_does_not_stop_the_agent(memory: Memory) -> None:
    agent = agent_with(memory, call("forget_memory", memory_id="7"), call("forget_memory"), "I could not.")
    messages = agent.invoke({"messages": "Forget it."}, context=CONTEXT)["messages"]
    assert [message.status for message in messages if isinstance(message, ToolMessage)] == ["error", "error"]
    assert told(messages)[0].startswith("no memory '7' here")
    assert "memory_id" in told(messages)[1]
    assert messages[-1].text == "I could not."


# ── relations ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_with_a_graph_the_model_can_look_up_relations(database_url: str) -> None:
    with Memory(database_url, graph=True) as memory:
        memory.add("I live in Kyoto. My sister Mia works at Bosch.", user_id=ALICE, timestamp="2024-05-01")
        memory.add("I moved to Lyon.", user_id=ALICE, timestamp="2025-02-03")
        memory.add("I live in Rome.", user_id="bob")
        look = tools_of(memory)["search_relations"]
        lines = look.invoke({"query": "Where does she live?"}, HERS).splitlines()
        assert lines[:2] == [DATA_ONLY, f"{ALICE} lives in Lyon (since 2025-02-03)"]
        assert not any("Rome" in line or "Kyoto" in line for line in lines)
        assert "Mia works at Bosch (since 2024-05-01)" in look.invoke({"query": "Where does Mia work?"}, HERS)
