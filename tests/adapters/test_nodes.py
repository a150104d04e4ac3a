"""Memory as nodes of any StateGraph, and the pipeline as a subgraph."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph, add_messages

from langmem_adapter.adapters.nodes import recall_node, remember_node
from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.escapes import DATA_ONLY
from langmem_adapter.records.scope import Scope
from langmem_adapter.scoping import MemoryContext
from tests.cases import undated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.runnables import RunnableConfig

ALICE = MemoryContext(user_id="alice@example.com")


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    memories: str
    changes: list[dict[str, Any]]


@dataclass
class Talk:
    talk: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)
    notes: str = ""


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


def answer(state: State) -> dict[str, Any]:
    return {"messages": [AIMessage(f"I know: {state['memories']}")]}


def chat(memory: Memory, checkpointer: Any = None, **how: Any) -> Any:
    graph = StateGraph(State, context_schema=MemoryContext)
    graph.add_node("recall", recall_node(memory))
    graph.add_node("answer", answer)
    graph.add_node("remember", remember_node(memory, **how))
    graph.add_edge(START, "recall").add_edge("recall", "answer").add_edge("answer", "remember").add_edge(
        "remember", END
    )
    return graph.compile(checkpointer=checkpointer)


def test_recall_node_and_remember_node_in_a_graph(memory: Memory) -> None:
    graph = chat(memory, output_key="changes")
    said = graph.invoke({"messages": "I am vegetarian."}, context=ALICE)
    assert [(change["event"], change["text"]) for change in said["changes"]] == [("ADD", "Is vegetarian")]
    asked = graph.invoke({"messages": "What shall I cook?"}, context=ALICE)
    assert undated(asked["messages"][-1].text) == f"I know: {DATA_ONLY}\n- Is vegetarian"
    assert asked["changes"] == []


def test_remember_node_remembers_the_latest_turn_of_a_thread(memory: Memory) -> None:
    graph = chat(memory, InMemorySaver(), output_key="changes")
    config = {"configurable": {"thread_id": "t", "user_id": "alice"}}
    graph.invoke({"messages": "I am vegetarian."}, config)
    second = graph.invoke({"messages": [HumanMessage("I live in Lyon."), HumanMessage("I like tea.")]}, config)
    assert [change["text"] for change in second["changes"]] == ["Lives in Lyon", "Likes tea"]


def test_what_is_recalled_names_who_said_it_where_several_speak() -> None:
    said = [("Nate", "I like tea."), ("Joanna", "I like tea."), ("ann", "I like go.")]
    with Memory(":memory:") as memory:
        for name, text in said:
            memory.add({"role": "user", "name": name, "content": text}, user_id="ann")
        recalled = memory.recall("q", user_id="ann").invoke({"q": "Who likes what?"})["memories"]
        listed = sorted(undated(recalled).splitlines())
        assert listed == ["- Joanna: Likes tea", "- Likes go", "- Nate: Likes tea", DATA_ONLY]
        search, save, *_ = memory.tools(user_id="ann")
        assert "Joanna: Likes tea" in search.invoke({"query": "Who likes tea?"})
        assert "Already" not in save.invoke({"content": "Likes tea"})  # that of the user is another one
        assert "Already" in save.invoke({"content": "Likes tea"})


def test_messages_key_and_output_key_are_chosen_and_a_state_may_be_an_object(memory: Memory) -> None:
    memory.add("I like tea.", user_id="alice")
    graph = StateGraph(Talk).add_node(
        "recall", recall_node(memory, messages_key="talk", output_key="notes", user_id="alice")
    )
    compiled: Any = graph.add_edge(START, "recall").compile()
    assert undated(compiled.invoke({"talk": "What do I like?"})["notes"]) == f"{DATA_ONLY}\n- Likes tea"


def test_messages_key_that_is_missing_names_the_fix(memory: Memory) -> None:
    graph: Any = StateGraph(State).add_node("recall", recall_node(memory, messages_key="chat", user_id="a"))
    with pytest.raises(InvalidInputError, match="messages_key"):
        graph.add_edge(START, "recall").compile().invoke({"messages": "Hi"})


def test_background_writer_remembers_after_the_turn(memory: Memory) -> None:
    writer = memory.background(after=60)
    graph = chat(memory, background=writer)
    graph.invoke({"messages": "I like tea."}, context=ALICE)
    assert len(memory.scopes()) == 0
    writer.drain()
    assert [item.text for item in memory.get_all(user_id=ALICE.user_id)] == ["Likes tea"]
    with pytest.raises(InvalidInputError, match="output_key"):
        remember_node(memory, background=writer, output_key="changes")


def test_remember_node_with_an_empty_turn_changes_nothing(memory: Memory) -> None:
    node = StateGraph(State).add_node("remember", remember_node(memory, output_key="changes", user_id="a"))
    compiled: Any = node.add_edge(START, "remember").compile()
    assert compiled.invoke({"messages": [AIMessage("Hello!")]})["changes"] == []


# ── the pipeline as a subgraph ────────────────────────────────────────────────────────────────────────────────────────


class Notes(TypedDict, total=False):
    messages: list[Any]
    scope: dict[str, str]
    result: dict[str, Any]
    log: Annotated[list[str], operator.add]


def test_the_pipeline_is_a_node_that_shares_its_keys_with_the_graph_around_it(memory: Memory) -> None:
    graph = StateGraph(Notes)
    graph.add_node("memory", memory.build_pipeline())
    graph.add_node("log", lambda state: {"log": [change["text"] for change in state["result"]["results"]]})
    compiled: Any = graph.add_edge(START, "memory").add_edge("memory", "log").compile(checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    for said in ("I like tea.", "I live in Lyon."):
        state = compiled.invoke({"messages": [HumanMessage(said)], "scope": {"user_id": "alice"}}, config)
    assert state["log"] == ["Likes tea", "Lives in Lyon"]
    assert {item.scope for item in memory.get_all(user_id="alice")} == {Scope("alice")}


def test_whose_memory_the_pipeline_fills_may_come_with_the_call(memory: Memory) -> None:
    pipeline: Any = memory.build_pipeline()
    pipeline.invoke({"messages": "I like tea."}, {"configurable": {"user_id": "alice"}})
    graph: Any = StateGraph(State, context_schema=MemoryContext).add_node("memory", memory.build_pipeline())
    graph.add_edge(START, "memory").compile().invoke({"messages": "I live in Lyon."}, context=MemoryContext("alice"))
    assert len(memory.get_all(user_id="alice")) == 2
    with pytest.raises(ScopeError, match="user_id is missing"):
        pipeline.invoke({"messages": "I like tea."})


async def test_its_stages_can_be_watched_from_outside(memory: Memory) -> None:
    graph: Any = StateGraph(Notes).add_node("memory", memory.build_pipeline()).add_edge(START, "memory").compile()
    given = {"messages": "I like tea.", "scope": {"user_id": "alice"}}
    stages = [
        next(iter(update))
        async for where, update in graph.astream(given, stream_mode="updates", subgraphs=True)
        if where
    ]
    assert stages == ["parse", "extract", "retrieve", "decide", "apply"]
