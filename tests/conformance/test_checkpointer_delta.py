"""Delta channels in real graphs: their history, and what prune, copy and delete leave of it."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import START, StateGraph
from langgraph.types import Overwrite

from langmem_adapter.errors import InvalidInputError
from tests.conformance.calls import Calls, Way, thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from langmem_adapter.adapters.checkpointer import SQLAlchemySaver

pytestmark = pytest.mark.filterwarnings("ignore:.*DeltaChannel.*")


def extend(known: list[str], said: Sequence[list[str]]) -> list[str]:
    return [*known, *(one for each in said for one in each)]


class State(TypedDict):
    said: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=4)]
    never_kept: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=1_000)]
    count: Annotated[int, operator.add]


def first(state: State) -> dict[str, Any]:
    return {"said": [f"first {state['count']}"], "never_kept": [f"n{state['count']}"], "count": 1}


def left(state: State) -> dict[str, Any]:
    return {"said": [f"left {state['count']}"]}


def right(state: State) -> dict[str, Any]:
    return {"said": [f"right {state['count']}"]}


def build(saver: BaseCheckpointSaver[str], way: Way) -> Calls:
    builder = StateGraph(State)
    builder.add_node("first", first)
    builder.add_node("right", right)  # added before left: writes are applied in the order of paths, not of ids
    builder.add_node("left", left)
    builder.add_edge(START, "first")
    builder.add_edge("first", "left")
    builder.add_edge("first", "right")
    return Calls(builder.compile(checkpointer=saver), way)


async def talk(graph: Calls, config: RunnableConfig, turns: int, **options: Any) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for turn in range(turns):
        state = await graph.invoke({"said": [f"input {turn}"], "never_kept": [], "count": 0}, config, **options)
    return state


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_every_state_of_a_thread_is_rebuilt_as_the_reference_rebuilds_it(
    saver: SQLAlchemySaver, way: Way, durability: str
) -> None:
    seen = []
    for one in (saver, InMemorySaver()):
        graph = build(one, way)
        last = await talk(graph, thread("t"), 5, durability=durability)
        states = [state.values for state in await graph.history(thread("t"))]
        assert states[0] == last
        seen.append(states)
    assert seen[0] == seen[1]
    assert len(seen[0][0]["said"]) == 5 * 4
    assert seen[0][0]["never_kept"] == [f"n{turn}" for turn in range(5)]


async def test_a_walk_goes_further_than_is_fetched_in_one_go(saver: SQLAlchemySaver, way: Way) -> None:
    graph = build(saver, way)
    last = await talk(graph, thread("t"), 40)
    assert last["never_kept"] == [f"n{turn}" for turn in range(40)]
    assert (await graph.state(thread("t"))).values == last
    history = saver.get_delta_channel_history(config=thread("t"), channels=["never_kept", "said"])
    assert [write[2] for write in history["never_kept"]["writes"] if write[2]] == [[f"n{turn}"] for turn in range(40)]
    assert isinstance(history["said"]["seed"], _DeltaSnapshot)
    assert "seed" not in history["never_kept"]


async def test_a_fork_follows_its_own_parents_only(saver: SQLAlchemySaver, way: Way) -> None:
    graph = build(saver, way)
    await talk(graph, thread("t"), 3)
    old = (await graph.history(thread("t")))[4]
    forked = await graph.update(old.config, {"said": ["forked"]}, as_node="first")
    after = await graph.invoke(None, forked)
    assert after["said"][: len(old.values["said"]) + 1] == [*old.values["said"], "forked"]
    reset = await graph.update(thread("t"), {"said": Overwrite(["anew"])}, as_node="left")
    assert (await graph.state(reset)).values["said"] == ["anew"]


@pytest.mark.parametrize("durability", ["sync", "exit"])
async def test_a_pruned_thread_shows_its_latest_state_only_and_goes_on(
    saver: SQLAlchemySaver, way: Way, durability: str
) -> None:
    graph = build(saver, way)
    twin = build(InMemorySaver(), way)
    for calls in (graph, twin):
        await talk(calls, thread("t"), 6, durability=durability)
    before = (await graph.state(thread("t"))).values
    await saver.aprune(["t"])
    assert (await graph.state(thread("t"))).values == before
    assert [state.values for state in await graph.history(thread("t"))] == [before]
    forked = await graph.update(thread("t"), None, as_node="__copy__")
    assert (await graph.state(forked)).values == before
    await saver.aprune(["t"])
    assert (await graph.state(thread("t"))).values == before
    for calls in (graph, twin):
        await talk(calls, thread("t"), 2, durability=durability)
    assert (await graph.state(thread("t"))).values == (await twin.state(thread("t"))).values


async def test_pruning_leaves_what_the_state_is_rebuilt_from_and_no_more(saver: SQLAlchemySaver, way: Way) -> None:
    class Short(TypedDict):
        said: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=3)]
        size: int

    builder = StateGraph(Short)
    builder.add_node("answer", lambda state: {"said": [f"answer {len(state['said'])}"], "size": len(state["said"])})
    builder.add_edge(START, "answer")
    graph = Calls(builder.compile(checkpointer=saver), way)
    said: list[str] = []
    for turn in range(8):
        said = (await graph.invoke({"said": [f"input {turn}"]}, thread("t")))["said"]
        await saver.aprune(["t"])
        (state,) = await graph.history(thread("t"))
        assert state.values == {"said": said, "size": len(said) - 1}
        history = saver.get_delta_channel_history(config=thread("t"), channels=["said", "size"])
        assert len(history["said"]["writes"]) <= 4
        assert history["size"] == {"writes": []}
        gone = saver.get_tuple(state.parent_config or thread("nobody"))
        assert gone is None
    assert len(said) == 16


async def test_a_copy_goes_on_from_the_same_state_by_itself(saver: SQLAlchemySaver, way: Way) -> None:
    graph = build(saver, way)
    before = await talk(graph, thread("one"), 3)
    await saver.acopy_thread("one", "two")
    await saver.adelete_thread("one")
    assert (await graph.state(thread("two"))).values == before
    after = await graph.invoke({"said": ["on"], "never_kept": [], "count": 0}, thread("two"))
    assert after["said"][: len(before["said"])] == before["said"]
    assert after["never_kept"] == ["n0", "n1", "n2", "n3"]


def of_run(run_id: str) -> RunnableConfig:
    return {**thread("t"), "metadata": {"run_id": run_id}}


async def test_a_run_that_later_ones_are_rebuilt_from_is_not_deleted(saver: SQLAlchemySaver, way: Way) -> None:
    graph = build(saver, way)
    for run_id in ("r1", "r2", "r3"):
        await talk(graph, of_run(run_id), 1)
    states = [state.values for state in await graph.history(thread("t"))]
    with pytest.raises(InvalidInputError, match="rebuilt from what these runs wrote to a DeltaChannel"):
        await saver.adelete_for_runs(["r1"])
    assert [state.values for state in await graph.history(thread("t"))] == states
    await saver.adelete_for_runs(["r3"])
    kept = await graph.history(thread("t"))
    assert {(state.metadata or {})["run_id"] for state in kept} == {"r1", "r2"}
    assert [state.values for state in kept] == states[len(states) - len(kept) :]
    await talk(graph, of_run("r4"), 1)
    assert (await graph.state(thread("t"))).values["never_kept"] == ["n0", "n1", "n2"]
    await saver.adelete_for_runs(["r1", "r2", "r4"])
    assert await graph.history(thread("t")) == []
