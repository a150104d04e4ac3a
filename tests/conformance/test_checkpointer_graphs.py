"""Real graphs on the checkpointer: interrupts, time travel, subgraphs, durability, and life after prune, copy and delete."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from tests.conformance.calls import Calls, Way, thread

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


ADA = thread("user:ada.lovelace@example.com/travel #1 ü 旅")


class State(TypedDict):
    topic: str
    log: Annotated[list[str], operator.add]


def plan(state: State) -> dict[str, Any]:
    return {"log": [f"plan {state['topic']}"]}


def ask(state: State) -> dict[str, Any]:
    return {"log": [f"asked: {interrupt({'about': state['topic']})}"]}


def done(state: State) -> dict[str, Any]:
    return {"log": [f"done after {len(state['log'])}"]}


def asking(saver: BaseCheckpointSaver[str], way: Way) -> Calls:
    builder = StateGraph(State)
    for node in (plan, ask, done):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "ask")
    builder.add_edge("ask", "done")
    return Calls(builder.compile(checkpointer=saver), way)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_an_interrupted_run_goes_on_with_another_saver(
    saver: SQLAlchemySaver, threads_url: str, way: Way, durability: str
) -> None:
    stopped = await asking(saver, way).invoke({"topic": "Lyon", "log": []}, ADA, durability=durability)
    assert stopped["__interrupt__"][0].value == {"about": "Lyon"}
    with SQLAlchemySaver(threads_url) as another:
        graph = asking(another, way)
        assert (await graph.state(ADA)).next == ("ask",)
        after = await graph.invoke(Command(resume="yes"), ADA, durability=durability)
    assert after["log"] == ["plan Lyon", "asked: yes", "done after 2"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_the_whole_history_is_that_of_the_reference(saver: SQLAlchemySaver, way: Way, durability: str) -> None:
    told = []
    for one in (saver, InMemorySaver()):
        graph = asking(one, way)
        for topic in ("Lyon", "Kyoto"):
            await graph.invoke({"topic": topic, "log": []}, ADA, durability=durability)
            await graph.invoke(Command(resume="yes"), ADA, durability=durability)
        states = await graph.history(ADA)
        told.append(
            [(state.values, state.next, (state.metadata or {}).get("step"), len(state.tasks)) for state in states]
        )
    assert told[0] == told[1]


async def test_time_travel_and_a_fork_leave_the_past_as_it_was(saver: SQLAlchemySaver, way: Way) -> None:
    graph = asking(saver, way)
    await graph.invoke({"topic": "Lyon", "log": []}, ADA)
    await graph.invoke(Command(resume="yes"), ADA)
    past = await graph.history(ADA)
    before = next(state for state in past if state.next == ("ask",))
    forked = await graph.update(before.config, {"topic": "Kyoto"})
    assert (await graph.state(forked)).values["topic"] == "Kyoto"
    again = await graph.invoke(None, forked)
    assert again["__interrupt__"][0].value == {"about": "Kyoto"}
    answered = await graph.invoke(Command(resume="no"), ADA)
    assert answered == {"topic": "Kyoto", "log": ["plan Lyon", "asked: no", "done after 2"]}
    now = await graph.history(ADA)
    assert [state for state in now if state.config in [old.config for old in past]] == past
    assert (await graph.history(ADA, filter={"source": "fork"})) == []
    assert len(await graph.history(ADA, filter={"source": "update"})) == 1
    assert await graph.history(ADA, before=past[0].config, limit=2) == past[1:3]


async def test_subgraphs_have_their_own_state_and_are_resumed(saver: SQLAlchemySaver, way: Way) -> None:
    inner = StateGraph(State)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    builder = StateGraph(State)
    builder.add_node("plan", plan)
    builder.add_node("inner", inner.compile())
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "inner")
    graph = Calls(builder.compile(checkpointer=saver), way)
    await graph.invoke({"topic": "Lyon", "log": []}, ADA)
    state = await graph.state(ADA, subgraphs=True)
    within: Any = state.tasks[0].state
    assert within.next == ("ask",)
    assert within.values["topic"] == "Lyon"
    await saver.aprune([ADA["configurable"]["thread_id"]])
    namespaces = [found.config["configurable"]["checkpoint_ns"] for found in saver.list(ADA)]
    assert len(namespaces) == len(set(namespaces)) == 2
    after = await graph.invoke(Command(resume="yes"), ADA)
    assert after["log"][-1] == "asked: yes"


# ── after upkeep ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_copied_thread_and_its_original_go_on_apart(saver: SQLAlchemySaver, way: Way) -> None:
    graph, copy = asking(saver, way), thread("copy")
    await graph.invoke({"topic": "Lyon", "log": []}, ADA)
    await saver.acopy_thread(ADA["configurable"]["thread_id"], "copy")
    assert (await graph.invoke(Command(resume="yes"), ADA))["log"][1] == "asked: yes"
    assert (await graph.invoke(Command(resume="no"), copy))["log"][1] == "asked: no"
    assert len(await graph.history(ADA)) == len(await graph.history(copy)) == 5
    everything = [(found.config["configurable"]["checkpoint_id"]) for found in saver.list(None)]
    assert everything == sorted(everything, reverse=True) and len(everything) == 10
