"""The deployable graphs: what they look like, and what they do offline."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send
from pydantic import TypeAdapter

from langmem_adapter.errors import ScopeError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.scoping import MemoryContext
from langmem_adapter.testing import ScriptedChatModel
from tests.cases import undated

if TYPE_CHECKING:
    from collections.abc import Callable

    Load = Callable[[str], Any]

ROOT = Path(__file__).resolve().parents[2]
ALICE = MemoryContext("alice@example.com")

PICTURES = {
    "memory_pipeline": """
        __start__ --> parse
        decide --> apply
        extract -.-> decide
        extract -.-> retrieve
        parse --> extract
        retrieve --> decide
        apply -.-> __end__
        apply -.-> retrieve
    """,
    "chat_agent": """
        LangmemAdapterMemory.before_agent --> model
        __start__ --> LangmemAdapterMemory.before_agent
        model --> LangmemAdapterMemory.after_agent
        LangmemAdapterMemory.after_agent --> __end__
    """,
    "consolidate": """
        __start__ --> gather
        compare -.-> __end__
        gather -.-> __end__
        gather -.-> compare
        compare -.-> compare
    """,
}


def _arrows(text: str) -> list[str]:
    return sorted(
        line.strip().rstrip(";").replace("\\2e", ".").replace("&nbsp;", "") for line in text.splitlines() if ">" in line
    )


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_the_picture_of_each_graph(load: Load, name: str) -> None:
    drawn = load(name).graph.get_graph().draw_mermaid(with_styles=False)
    assert _arrows(drawn) == _arrows(PICTURES[name])


def test_langgraph_json_serves_every_graph_of_the_folder_and_the_routes(load: Load) -> None:
    config = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    served = config["graphs"]
    assert config["http"]["app"] == "./graphs/rest.py:app"
    assert sorted([*served, "rest"]) == sorted(path.stem for path in (ROOT / "graphs").glob("*.py"))
    for name, entry in served.items():
        assert entry["path"] == f"./graphs/{name}.py:graph"
        graph = load(name).graph
        assert (graph.checkpointer, graph.store) == (None, None)  # the server brings its own


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_a_server_can_show_what_each_graph_takes_keeps_and_gives(load: Load, name: str) -> None:
    graph = load(name).graph
    taken, given = graph.get_input_jsonschema()["properties"], graph.get_output_jsonschema()["properties"]
    assert taken and given
    kept = {key: TypeAdapter(graph.channels[key].UpdateType).json_schema() for key in graph.stream_channels_list}
    assert kept.keys() >= taken.keys() | given.keys()


# ── the agent ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_agent_without_a_model_answers_from_its_memories_and_says_so(load: Load) -> None:
    graph = load("chat_agent").graph
    first = graph.invoke({"messages": "I am vegetarian."}, context=ALICE)
    assert first["messages"][-1].text == "(no model) I remember nothing about that."
    second = await graph.ainvoke({"messages": "What shall I cook?\n- steak?"}, context=ALICE)
    assert undated(second["messages"][-1].text) == "(no model) What I remember about that: Is vegetarian"
    other = graph.invoke({"messages": "What shall I cook?"}, context=MemoryContext("bob"))
    assert other["messages"][-1].text == "(no model) I remember nothing about that."
    with pytest.raises(ScopeError):
        graph.invoke({"messages": "What shall I cook?"})


def test_the_agent_works_with_the_checkpointer_and_store_it_is_given(load: Load) -> None:
    graph = load("chat_agent").graph
    graph.checkpointer, graph.store = InMemorySaver(), InMemoryStore()
    config = {"configurable": {"thread_id": "t"}}
    for said in ("I am vegetarian.", "I live in Lyon."):
        result = graph.invoke({"messages": said}, config, context=ALICE)
    assert len(result["messages"]) == 4
    assert set(graph.get_state(config).values) >= {"messages"}


# ── tidying ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def untidy(load: Load) -> tuple[Any, Memory]:
    module, memory = load("consolidate"), Memory()
    for text in ("Lives in Kyoto", "Likes tea", "Lives in Lyon", "likes tea!"):
        memory.add(text, user_id=ALICE.user_id, infer=False)
    return module.graph, memory


async def test_consolidate_reports_what_it_did_and_finds_nothing_more(untidy: tuple[Any, Memory]) -> None:
    graph, memory = untidy
    scope = {"user_id": ALICE.user_id}
    foretold = graph.invoke({"scope": scope, "dry_run": True})
    assert len(memory.get_all(user_id=ALICE.user_id)) == 4
    done = await graph.ainvoke({"scope": scope})
    assert done == foretold
    assert [(change["event"], change["text"]) for change in done["changes"]] == [
        ("UPDATE", "Lives in Lyon"),
        ("DELETE", "Lives in Lyon"),
        ("DELETE", "likes tea!"),
    ]
    assert sorted(item.text for item in memory.get_all(user_id=ALICE.user_id)) == ["Likes tea", "Lives in Lyon"]
    assert graph.invoke({"scope": scope})["changes"] == []


def test_consolidate_goes_through_any_number_in_bounded_steps(load: Load) -> None:
    graph, memory = load("consolidate").graph, Memory()
    memory.add_many([{"messages": "Likes tea", "user_id": "alice", "infer": False} for _ in range(45)])
    steps = list(graph.stream({"scope": {"user_id": "alice"}}, stream_mode="updates"))
    assert [next(iter(step)) for step in steps] == ["gather", "compare", "compare", "compare"]
    assert len(memory.get_all(user_id="alice")) == 1


def test_consolidate_knows_whose_memories_from_the_context_too(untidy: tuple[Any, Memory]) -> None:
    graph, memory = untidy
    graph.invoke({}, context=ALICE)
    assert len(memory.get_all(user_id=ALICE.user_id)) == 2
    with pytest.raises(ScopeError):
        graph.invoke({})


def test_what_one_run_of_a_thread_was_given_is_no_matter_of_the_next(untidy: tuple[Any, Memory]) -> None:
    graph, memory = untidy
    graph.checkpointer = InMemorySaver()
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({"scope": {"user_id": ALICE.user_id}, "dry_run": True}, config)
    assert graph.invoke({}, config, context=MemoryContext("bob"))["changes"] == []
    graph.invoke({}, config, context=ALICE)
    assert len(memory.get_all(user_id=ALICE.user_id)) == 2


def test_who_says_that_he_is_somebody_else_goes_on_with_no_run(untidy: tuple[Any, Memory]) -> None:
    graph, memory = untidy
    graph.checkpointer = InMemorySaver()
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({}, config, context=ALICE, interrupt_before=["compare"])
    with pytest.raises(ScopeError, match="the runtime context names user_id 'bob'"):
        graph.invoke(None, config, context=MemoryContext("bob"))
    graph.invoke(None, config)
    assert len(memory.get_all(user_id=ALICE.user_id)) == 2


@pytest.mark.parametrize("way", ["goto", "send", "update_state"])
def test_whatever_is_written_into_the_state_touches_and_shows_nothing_of_others(
    untidy: tuple[Any, Memory], way: str
) -> None:
    graph, memory = untidy
    graph.checkpointer = InMemorySaver()
    hers = memory.get_all(user_id=ALICE.user_id)
    for scope in ({"user_id": "bob"}, {"user_id": ALICE.user_id}, {"agent_id": "guide"}):
        config = {"configurable": {"thread_id": str(scope), "langgraph_auth_user": {"identity": "bob"}}}
        graph.invoke({}, config)
        state = {**graph.get_state(config).values, "pending": [item.id for item in hers]}
        state["task"] = {"scope": scope, "dry_run": False}
        if way == "update_state":
            graph.update_state(config, state, as_node="gather")
        goto = "compare" if way == "goto" else Send("compare", state)
        sent = None if way == "update_state" else Command(update=state if way == "goto" else None, goto=goto)
        with nullcontext() if scope == {"user_id": "bob"} else pytest.raises(ScopeError):
            assert graph.invoke(sent, config)["changes"] == []
    assert memory.get_all(user_id=ALICE.user_id) == hers


def test_the_agent_with_a_model_may_use_memory_tools(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("chat_agent")
    model = ScriptedChatModel(replies=["Noted.", "Tea."], modes="tools")
    monkeypatch.setattr(module, "named_model", lambda *_: model)
    with Memory(":memory:", model=ScriptedChatModel(replies=['{"facts": []}'])) as memory:
        result = module.make_graph(memory).invoke({"messages": "Hi"}, context=ALICE)
    assert result["messages"][-1].text == "Noted."
    assert model.options[0]["tools"]
