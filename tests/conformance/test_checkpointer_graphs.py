"""Real graphs on the checkpointer: interrupts, time travel, subgraphs, durability, and life after prune, copy and delete."""

from __future__ import annotations

import operator
import time
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from tests.conformance.calls import Calls, Way, thread

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
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


async def test_a_task_that_was_done_does_not_run_again_when_another_one_failed(
    saver: SQLAlchemySaver, way: Way
) -> None:
    ran: list[str] = []

    def good(state: State) -> dict[str, Any]:
        ran.append("good")
        return {"log": ["good"]}

    def kept() -> bool:
        found = saver.get_tuple(ADA)
        return found is not None and ["good"] in [value for *_, value in found.pending_writes or ()]

    def bad(state: State) -> dict[str, Any]:
        ran.append("bad")
        if ran.count("bad") == 1:
            while not kept():
                time.sleep(0.01)
            raise RuntimeError("the first time")
        return {"log": ["bad"]}

    builder = StateGraph(State)
    builder.add_node("good", good)
    builder.add_node("bad", bad)
    builder.add_edge(START, "good")
    builder.add_edge(START, "bad")
    graph = Calls(builder.compile(checkpointer=saver), way)
    with pytest.raises(RuntimeError, match="the first time"):
        await graph.invoke({"topic": "x", "log": []}, ADA)
    failed = await graph.state(ADA)
    assert [str(task.error) for task in failed.tasks if task.name == "bad"] == ["RuntimeError('the first time')"]
    assert (await graph.invoke(None, ADA))["log"] == ["bad", "good"]
    assert sorted(ran) == ["bad", "bad", "good"]


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


async def test_sends_are_kept_with_their_arguments(saver: SQLAlchemySaver, way: Way) -> None:
    builder = StateGraph(State)
    builder.add_node("plan", plan)
    builder.add_node("each", lambda given: {"log": [f"each {given['n']}"]})
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda _: [Send("each", {"n": n}) for n in range(3)], ["each"])
    graph = Calls(builder.compile(checkpointer=saver, interrupt_before=["each"]), way)
    await graph.invoke({"topic": "x", "log": []}, ADA)
    assert (await graph.state(ADA)).next == ("each",) * 3
    assert (await graph.invoke(None, ADA))["log"] == ["plan x", "each 0", "each 1", "each 2"]


# ── after upkeep ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_pruned_to_the_latest_checkpoint_it_goes_on(saver: SQLAlchemySaver, way: Way) -> None:
    graph = asking(saver, way)
    await graph.invoke({"topic": "Lyon", "log": []}, ADA)
    await graph.invoke(Command(resume="yes"), ADA)
    await graph.invoke({"topic": "Kyoto", "log": []}, ADA)
    before = await graph.state(ADA)
    await saver.aprune([ADA["configurable"]["thread_id"]])
    (left,) = await graph.history(ADA)
    assert left.parent_config is None
    assert left == before._replace(parent_config=None)
    after = await graph.invoke(Command(resume="no"), ADA)
    assert after["log"][-2:] == ["asked: no", "done after 5"]


async def test_a_copied_thread_and_its_original_go_on_apart(saver: SQLAlchemySaver, way: Way) -> None:
    graph, copy = asking(saver, way), thread("copy")
    await graph.invoke({"topic": "Lyon", "log": []}, ADA)
    await saver.acopy_thread(ADA["configurable"]["thread_id"], "copy")
    assert (await graph.invoke(Command(resume="yes"), ADA))["log"][1] == "asked: yes"
    assert (await graph.invoke(Command(resume="no"), copy))["log"][1] == "asked: no"
    assert len(await graph.history(ADA)) == len(await graph.history(copy)) == 5
    everything = [(found.config["configurable"]["checkpoint_id"]) for found in saver.list(None)]
    assert everything == sorted(everything, reverse=True) and len(everything) == 10


def of_run(run_id: str) -> RunnableConfig:
    return {**ADA, "metadata": {"run_id": run_id}}


async def test_after_the_latest_run_is_deleted_the_thread_stands_where_it_was(saver: SQLAlchemySaver, way: Way) -> None:
    graph = asking(saver, way)
    await graph.invoke({"topic": "Lyon", "log": []}, of_run("one"))
    await graph.invoke(Command(resume="yes"), of_run("one"))
    before = await graph.history(ADA)
    await graph.invoke({"topic": "Kyoto", "log": []}, of_run("two"))
    await saver.adelete_for_runs(["two"])
    assert await graph.history(ADA) == before
    await graph.invoke({"topic": "Oslo", "log": []}, of_run("three"))
    assert (await graph.invoke(Command(resume="well"), of_run("three")))["log"][-2] == "asked: well"


async def test_after_a_run_in_the_middle_is_deleted_the_rest_is_as_it_was(saver: SQLAlchemySaver, way: Way) -> None:
    graph = asking(saver, way)
    for run_id, topic in (("one", "Lyon"), ("two", "Kyoto"), ("three", "Oslo")):
        await graph.invoke({"topic": topic, "log": []}, of_run(run_id))
        await graph.invoke(Command(resume=run_id), of_run(run_id))
    before = [state for state in await graph.history(ADA) if (state.metadata or {})["run_id"] != "two"]
    await saver.adelete_for_runs(["two", "never existed"])
    after = await graph.history(ADA)
    assert [state.values for state in after] == [state.values for state in before]
    parents = {state.config["configurable"]["checkpoint_id"]: state.parent_config for state in after}
    assert [one for one in parents.values() if one and one["configurable"]["checkpoint_id"] not in parents] == []
    assert sum(one is None for one in parents.values()) == 1
