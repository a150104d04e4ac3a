"""A served pipeline in the hands of somebody who is signed in, and sends whatever he likes."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import TYPE_CHECKING, Any, Final, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send
from sqlalchemy import select, union

from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, MemoryNotFoundError, ScopeError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.pipeline.retrieve import queue_of
from langmem_adapter.pipeline.state import PipelineInput
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.tables import (
    entities,
    history,
    memories,
    relation_memories,
    relations,
    runs,
    scopes,
    traces,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

ALICE: Final[Any] = {"user_id": "alice"}
PLACE: Final = "Zanzibar"  # stands in every text of Alice's
STAGES: Final = ["parse", "extract", "retrieve", "decide", "review", "apply"]


def signed_in(user: str, thread: str = "") -> RunnableConfig:
    """A run of a server on which somebody is signed in; in a thread of its own where none is named."""
    who = {"langgraph_auth_user": {"identity": user}}
    return {"configurable": {"thread_id": thread or uuid.uuid4().hex, **who}}


class House:
    """A memory with a knowledge graph, its pipeline as it is served, and what Alice has in it.

    Attributes:
        trace_id: Of Alice's first run.
        keys: Names by which her runs and traces might be addressed.
        ids: Of her memories, and of one of Bob's.
        bobs: The state of a run of Bob's, for him to forge.
    """

    def __init__(self, path: Path) -> None:
        self.memory = Memory(path, graph=True)
        self.graph = self.memory.build_pipeline(review=True, checkpointer=InMemorySaver())
        added = self.memory.add(f"I live in {PLACE}. I moved to {PLACE}.", **ALICE, idempotency_key="order 1")
        other = self.memory.add(f"My boss lives in {PLACE}.", **ALICE, agent_id="guide")
        self.trace_id = str(added.trace_id)
        self.ids = [str(change.id) for change in (*added.results, *other.results)]
        with self.memory.parts.database.read() as connection:
            kept = union(select(runs.c.key), select(traces.c.id))
            self.keys = ["order 1", *connection.execute(kept).scalars()]
        self.ids += [str(change.id) for change in self.memory.add("I live in Paris.", user_id="bob").results]
        config = signed_in("bob")
        self.graph.invoke({"messages": "I live in Rome."}, config)
        self.bobs: dict[str, Any] = self.graph.get_state(config).values

    def run(self, said: str, user: str, **how: Any) -> Any:
        """What a run gives that is accepted in review."""
        config = signed_in(user)
        self.graph.invoke({"messages": said, **how}, config)
        return self.graph.invoke(Command(resume="accept"), config)["result"]

    def hers(self) -> list[Any]:
        """Every row of Alice's."""
        owned = select(scopes.c.id).where(scopes.c.user_id == "alice")
        queries = [
            select(table).where(table.c.scope_id.in_(owned))
            for table in (memories, history, relations, entities, relation_memories)
        ]
        queries.append(select(runs).where(runs.c.scope["user_id"].as_string() == "alice"))
        queries.append(select(traces).where(traces.c.state["task"]["scope"]["user_id"].as_string() == "alice"))
        with self.memory.parts.database.read() as connection:
            return [sorted(map(repr, connection.execute(query))) for query in queries]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    built = House(tmp_path_factory.mktemp("served") / "m.db")
    yield built
    built.memory.close()


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_build_pipeline_the_name_of_somebody_elses_run_opens_nothing(house: House) -> None:
    before = house.hers()
    for number, key in enumerate(house.keys):
        result = house.run(f"I own {number} canoes.", "bob", key=key, infer=False)
        assert [change["text"] for change in result["results"]] == [f"I own {number} canoes."]
        assert house.memory.trace(result["trace_id"]).scope == Scope("bob")
    assert house.hers() == before
    assert house.memory.trace(house.trace_id).scope == Scope("alice")


def test_build_pipeline_nobody_can_use_up_a_name_before_its_owner(house: House) -> None:
    (planted,) = house.run("I like poison.", "bob", key="order 2", infer=False)["results"]
    (added,) = house.memory.add("I like vanilla.", user_id="cy", infer=False, idempotency_key="order 2").results
    assert (added.event, added.text) == ("ADD", "I like vanilla.")
    assert added.id != planted["id"]


def test_build_pipeline_a_name_is_the_same_for_the_graph_and_for_add(house: House) -> None:
    first = house.run("I like tea.", "cy", key="order 3")["results"]
    again = house.memory.add("I like milk.", user_id="cy", idempotency_key="order 3").results
    assert [change.to_json() for change in again] == first


@pytest.mark.parametrize("key", ["", " ", 7, "nul\x00"])
def test_build_pipeline_a_name_that_is_none_is_refused(house: House, key: object) -> None:
    with pytest.raises(InvalidInputError, match="key"):
        house.graph.invoke({"messages": "I like tea.", "key": key}, signed_in("bob"))


async def test_a_replay_stays_within_the_scope_that_is_named(house: House) -> None:
    assert house.memory.replay(house.trace_id, **ALICE).results
    for scope in ({"user_id": "bob"}, {"user_id": "alice", "agent_id": "guide"}, {"run_id": "r"}):
        with pytest.raises(MemoryNotFoundError):
            house.memory.replay(house.trace_id, **scope)
        with pytest.raises(MemoryNotFoundError):
            await house.memory.areplay(house.trace_id, **scope)


# ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


SCOPES: Final = [
    {"user_id": "bob"},
    {"user_id": "alice"},
    {"agent_id": "guide"},
    {"user_id": "alice", "agent_id": "guide"},
    {"user_id": "bob", "agent_id": "guide"},
]


@st.composite
def forged(draw: st.DrawFn, house: House) -> dict[str, Any]:
    """The state of a run of Bob's with Alice's scope, names and ids wherever they may do harm."""
    state: dict[str, Any] = json.loads(json.dumps(house.bobs))
    ids, seen = st.sampled_from(house.ids), st.none() | st.integers(1, 12)
    decision: dict[str, Any] = {
        **state["decisions"][0],
        "event": draw(st.sampled_from(["ADD", "UPDATE", "DELETE", "NONE"])),
        "memory_id": draw(st.none() | ids),
        "successor_id": draw(st.none() | ids),
        "seen": draw(seen),
    }
    speaker, shown = draw(st.sampled_from(["", "Eve"])), {"since": "2026-01-01", "cut": False}
    known = [
        {"id": each, "text": "Lives in Paris", "seq": draw(st.integers(1, 12)), "speaker": speaker, **shown}
        for each in house.ids
    ]
    task = {"scope": draw(st.sampled_from(SCOPES)), "key": draw(st.sampled_from(house.keys))}
    return {
        **state,
        "task": {**state["task"], **task},
        "candidates": {
            **state["candidates"],
            "known": known,
            "shown": len(known),
            "equal": [draw(st.sampled_from([[], [0]]))],
        },
        "decisions": [decision, *state["decisions"]][: draw(st.integers(1, 2))],
    }


def _sent(house: House, state: dict[str, Any], way: str, stage: str) -> list[str]:
    """All that comes back where a state is sent to a stage, errors included, until the run ends."""
    config = signed_in("bob")
    house.graph.invoke({"messages": "Hello!"}, config)
    if way == "update_state":
        house.graph.update_state(config, state, as_node=stage)
    goto = stage if way == "goto" else Send(stage, state)
    first = None if way == "update_state" else Command(update=state if way == "goto" else None, goto=goto)
    told: list[str] = []
    for step in (first, Command(resume="accept")):
        try:
            told += (repr(part) for part in house.graph.stream(step, config, stream_mode="updates"))
        except LangmemAdapterError as error:  # a state may also make no sense
            told.append(str(error))
    return [*told, repr(house.graph.get_state(config).values)]


@settings(max_examples=25)
@given(data=st.data(), way=st.sampled_from(["goto", "send", "update_state"]), stage=st.sampled_from(STAGES))
def test_build_pipeline_whatever_is_written_into_a_state_touches_and_shows_nothing_of_others(
    house: House, data: st.DataObject, way: str, stage: str
) -> None:
    before = house.hers()
    told = _sent(house, data.draw(forged(house)), way, stage)
    assert house.hers() == before
    assert not any(PLACE in each for each in told)


@pytest.mark.parametrize("stage", STAGES[1:])
async def test_build_pipeline_a_stage_asks_again_whose_memory_it_is(house: House, stage: str) -> None:
    for scope in SCOPES[1:4]:
        state = {**house.bobs, "task": {**house.bobs["task"], "scope": scope}}
        config = signed_in("bob")
        await house.graph.ainvoke({"messages": "I like chess."}, config)
        with pytest.raises(ScopeError):
            await house.graph.ainvoke(Command(update=state, goto=stage), config)
        with pytest.raises(ScopeError):
            house.graph.invoke(Command(goto=Send(stage, state)), config)


def test_build_pipeline_nobody_answers_somebody_elses_review(house: House) -> None:
    config = signed_in("dee", "dees")
    house.graph.invoke({"messages": "I like jazz."}, config)
    for answer in ("accept", "reject"):
        with pytest.raises(ScopeError):
            house.graph.invoke(Command(resume=answer), signed_in("bob", "dees"))
    result = house.graph.invoke(Command(resume={"0": {"action": "edit", "text": "Likes blues"}}), config)["result"]
    assert [change["text"] for change in result["results"]] == ["Likes blues"]


async def test_build_pipeline_nobody_leaves_or_takes_somebody_elses_place(house: House) -> None:
    queue, whose = queue_of(house.memory.parts.database), Scope("alice")
    graph = house.memory.build_pipeline(checkpointer=InMemorySaver())
    queue.take(whose, "hers", lease=1_000)
    config = signed_in("bob")
    graph.invoke({"messages": "Hello!"}, config)
    for stage in ("retrieve", "decide", "apply"):
        for key in ("hers", "his"):
            state = {**house.bobs, "task": {**house.bobs["task"], "scope": whose.named, "key": key}, "decisions": []}
            with pytest.raises(ScopeError):
                graph.invoke(Command(goto=Send(stage, state)), config)
    waiting = asyncio.create_task(queue.atake(whose, "next", lease=1_000))
    await _breath()
    assert not waiting.done()
    queue.leave(whose, "hers")
    await _breath()
    assert waiting.done()
    queue.leave(whose, "next")


async def _breath() -> None:
    """Let every task go as far as it can without waiting for a thread."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_build_pipeline_a_state_without_sense_hinders_no_purge(house: House) -> None:
    config = signed_in("bob")
    house.memory.add("I like chess.", user_id="bob", agent_id="clerk")
    house.graph.invoke({"messages": "Hello!"}, config)
    work = {**house.bobs["work"], "usage": {}}
    house.graph.invoke(Command(goto=Send("apply", {**house.bobs, "work": work, "decisions": []})), config)
    assert house.memory.purge(agent_id="clerk").memories == 1


def _places(part: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a state, whatever lies above it first."""
    named = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for name, within in named:
        yield (*place, name)
        yield from _places(within, (*place, name))


@settings(max_examples=60)
@given(data=st.data(), way=st.sampled_from(["goto", "send", "update_state"]), stage=st.sampled_from(STAGES[1:]))
def test_build_pipeline_a_state_without_sense_is_refused_in_words_of_ours(
    house: House, data: st.DataObject, way: str, stage: str
) -> None:
    state = json.loads(json.dumps(house.bobs))
    *above, name = data.draw(st.sampled_from([*_places({key: state[key] for key in PARSED})]))
    within = state
    for each in above:
        within = within[each]
    within[name] = data.draw(st.sampled_from([None, "", "99", -1, 99, True, [], [5], [[5]], {}, {"x": 1}]))
    _sent(house, state, way, stage)


# ── what only the stages hand on ──────────────────────────────────────────────────────────────────────────────────────


PARSED: Final = ("task", "turns", "before", "facts", "candidates", "decisions", "work")


class Everything(TypedDict, total=False):
    """The state of a graph around the pipeline which calls its own things as that does its inner ones."""

    messages: Any
    scope: Any
    parsed: Any
    task: Any
    turns: Any
    before: Any
    facts: Any
    candidates: Any
    decisions: Any
    work: Any
    result: Any


def _around(graph: Any) -> Any:
    return StateGraph(Everything).add_node("memory", graph).add_edge(START, "memory").compile()


@pytest.mark.parametrize("around", [lambda graph: graph, _around], ids=["alone", "subgraph"])
@pytest.mark.parametrize(
    "of",
    [lambda memory: memory.pipeline, lambda memory: memory.build_pipeline(checkpointer=False)],
    ids=["pipeline", "build_pipeline"],
)
async def test_nobody_gives_a_pipeline_what_its_stages_make(
    house: House, of: Callable[[Memory], Any], around: Callable[[Any], Any]
) -> None:
    assert set(of(house.memory).get_input_jsonschema()["properties"]) == set(PipelineInput.__annotations__)
    graph, before = around(of(house.memory)), house.hers()
    hers: dict[str, Any] = dict(house.memory.trace(house.trace_id).state)
    parts: dict[str, Any] = {name: hers[name] for name in PARSED} | {"parsed": {**hers, "before": []}, "result": hers}
    inner = [parts, dict.fromkeys(parts), dict.fromkeys(parts, "x"), *({name: part} for name, part in parts.items())]
    for number, extra in enumerate(inner):
        own = {"messages": f"Note {number}.", "scope": {"user_id": "dan"}}
        done = graph.invoke({**own, **extra}) if number % 2 else await graph.ainvoke({**own, **extra})
        assert [turn["text"] for turn in done["turns"]] == [own["messages"]]
        assert house.memory.trace(done["result"]["trace_id"]).scope == Scope("dan")
    assert house.hers() == before


def test_a_pipeline_that_a_server_keeps_asks_at_every_stage(house: House) -> None:
    served = house.memory.pipeline.copy(update={"checkpointer": InMemorySaver()})
    before = house.hers()
    forged = {**house.bobs, "task": {**house.bobs["task"], "scope": ALICE}}
    for stage in ("parse", "retrieve", "decide"):  # each with one stage after it
        config = signed_in("bob")
        served.invoke({"messages": "Hello!"}, config)
        served.update_state(config, forged, as_node=stage)
        for step in (None, Command(update=forged, goto="apply"), Command(goto=Send("extract", forged))):
            with pytest.raises(ScopeError):
                served.invoke(step, config)
    with pytest.raises(ScopeError):
        served.invoke({"messages": "Hello!", "scope": ALICE}, signed_in("bob"))
    assert house.hers() == before
