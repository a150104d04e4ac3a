"""The checkpointer against LangGraph's own in-memory one, whatever happens in whatever order."""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from langgraph.errors import EmptyInputError
from langgraph.graph import START, StateGraph

from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.errors import InvalidInputError
from tests.conformance.calls import thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# ── any calls in any order ────────────────────────────────────────────────────────────────────────────────────────────

IDS = [f"{number:04}" for number in range(6)]
THREADS = ["a", "ab", "A", "ü", "a%", "_", "user@example.com"]
SPACES = ["", "child:1", "child:1|grand:2"]
VALUES = st.one_of(
    st.none(), st.integers(-5, 5), st.text(max_size=3), st.lists(st.integers(-9, 9), max_size=3), st.binary(max_size=3)
)
METADATA = st.dictionaries(
    st.sampled_from(["source", "step", "score", "a.b", 'qu"ote', "$.x"]),
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.floats(-2, 2), st.sampled_from(["1", "x", "true"])),
    max_size=3,
)
PLACES = st.fixed_dictionaries({"thread_id": st.sampled_from(THREADS), "checkpoint_ns": st.sampled_from(SPACES)})
PUTS = st.tuples(
    st.just("put"),
    PLACES,
    st.sampled_from(IDS),
    st.sampled_from([None, *IDS]),
    st.dictionaries(st.sampled_from(["x", "y", "z"]), VALUES, max_size=3),
    METADATA,
)
WRITES = st.tuples(
    st.just("write"),
    PLACES,
    st.sampled_from(IDS),
    st.lists(st.tuples(st.sampled_from(["x", "y", ERROR, INTERRUPT, RESUME]), VALUES), max_size=3),
    st.sampled_from(["t1", "t2", "T1"]),
    st.sampled_from(["", "~p, a", "~p, B", "~p, é"]),
)


def play(saver: Any, calls: Sequence[Any]) -> None:
    heads: dict[Any, dict[str, Any]] = {}
    for number, (kind, place, one, *rest) in enumerate(calls):
        config = {"configurable": {**place, "checkpoint_id": one}}
        if kind == "write":
            saver.put_writes(config, *rest)
            continue
        parent, values, metadata = rest
        head = heads.setdefault(tuple(place.values()), {"values": {}, "versions": {}})
        new = dict.fromkeys(values, f"{number:04}.5")
        head["values"] |= values
        head["versions"] |= new
        checkpoint = empty_checkpoint() | {
            "id": one,
            "channel_values": dict(head["values"]),
            "channel_versions": dict(head["versions"]),
            "ts": str(number),
        }
        config["configurable"]["checkpoint_id"] = parent
        saver.put(config, checkpoint, metadata, new)


def told(found: Any) -> Any:
    if found is None:
        return None
    config = {name: found.config["configurable"][name] for name in ("thread_id", "checkpoint_ns", "checkpoint_id")}
    return config, found.checkpoint, found.metadata, found.parent_config, found.pending_writes


def in_order(found: Any) -> list[Any]:
    rows = [told(one) for one in found]
    return sorted(rows, key=lambda row: (row[0]["thread_id"], row[0]["checkpoint_ns"]))  # stable: newest first in each


@pytest.fixture(scope="module")
def saver() -> Iterator[SQLAlchemySaver]:
    with SQLAlchemySaver(":memory:") as opened:
        yield opened


@settings(max_examples=20)
@given(calls=st.lists(st.one_of(PUTS, WRITES), max_size=12), equal=METADATA, before=st.sampled_from([None, *IDS]))
def test_it_answers_as_the_reference_does(
    saver: SQLAlchemySaver, calls: list[Any], equal: dict[str, Any], before: str | None
) -> None:
    reference = InMemorySaver()
    saver.prune(THREADS, strategy="delete")
    for one in (saver, reference):
        play(one, unrepeated(calls))
    for thread_id in THREADS:
        assert in_order(saver.list(thread(thread_id))) == in_order(reference.list(thread(thread_id)))
        for ns in SPACES:
            for checkpoint_id in ("", *IDS):
                config = thread(thread_id, checkpoint_ns=ns, checkpoint_id=checkpoint_id)
                assert told(saver.get_tuple(config)) == told(reference.get_tuple(config))
                histories = [
                    one.get_delta_channel_history(config=config, channels=["x", "y"]) for one in (saver, reference)
                ]
                assert histories[0] == histories[1]
    cursor = None if before is None else thread("any", checkpoint_id=before)
    everything = list(saver.list(None, filter=equal, before=cursor))
    assert in_order(everything) == in_order(reference.list(None, filter=equal, before=cursor))
    for limit in (0, 1, 3):
        assert list(saver.list(None, filter=equal, before=cursor, limit=limit)) == everything[:limit]


def unrepeated(calls: list[Any]) -> list[Any]:
    """Without a second put of a checkpoint, and with parents that came before: LangGraph does not do otherwise."""
    known: set[Any] = set()
    kept = []
    for call in calls:
        if call[0] == "put":
            place, one, parent = tuple(call[1].values()), call[2], call[3]
            if (place, one) in known:
                continue
            known.add((place, one))
            kept.append((*call[:3], parent if (place, parent) in known and parent != one else None, *call[4:]))
        else:
            kept.append(call)
    return kept


# ── upkeep of real threads ────────────────────────────────────────────────────────────────────────────────────────────


def extend(known: list[str], said: Sequence[list[str]]) -> list[str]:
    return [*known, *(one for each in said for one in each)]


class State(TypedDict):
    said: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=3)]
    rare: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=2)]
    unkept: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=1_000)]
    plain: Annotated[list[str], operator.add]


class PlainState(TypedDict):
    said: Annotated[list[str], operator.add]


def answer(state: State) -> dict[str, Any]:
    number = len(state["said"])
    told = {"said": [f"s{number}"], "plain": [f"p{number}"]}
    return told | ({"rare": [f"r{number}"], "unkept": [f"u{number}"]} if number // 3 % 3 != 2 else {})


def plain_answer(state: PlainState) -> dict[str, Any]:
    return {"said": [f"s{len(state['said'])}"]}


def close(_: Any) -> dict[str, Any]:
    return {"said": ["closed"]}


def builder_of(state: Any, node: Any) -> Any:
    builder: Any = StateGraph(state)
    builder.add_node("answer", node)
    builder.add_node("close", close)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", "close")
    return builder


DELTA, PLAIN = builder_of(State, answer), builder_of(PlainState, plain_answer)

STEPS = st.one_of(
    st.tuples(st.just("invoke"), st.sampled_from(["sync", "exit"]), st.just(0)),
    st.tuples(st.just("fork"), st.sampled_from(["answer", "close"]), st.integers(0, 6)),
    st.tuples(st.just("resume"), st.just(""), st.integers(0, 6)),
)


def live(graph: Any, steps: list[Any]) -> None:
    for number, (kind, how, back) in enumerate(steps):
        config: Any = thread("t") | {"metadata": {"run_id": f"run {number}"}}
        history = list(graph.get_state_history(thread("t")))
        if kind == "invoke" or not history:
            graph.invoke({"said": [f"in {number}"]}, config, durability=how or "sync")
            continue
        past = history[min(back, len(history) - 1)].config
        if kind == "fork":
            past = graph.update_state(
                past | {"metadata": config["metadata"]}, {"said": [f"fork {number}"]}, as_node=how
            )
        with suppress(EmptyInputError):  # the empty checkpoint that an "exit" run began with has nothing to go on with
            graph.invoke(None, {**config, **past})


def states(graph: Any) -> dict[str, Any]:
    history = graph.get_state_history(thread("t"))
    return {state.config["configurable"]["checkpoint_id"]: state.values for state in history}


@pytest.mark.filterwarnings("ignore:.*DeltaChannel.*")
@settings(max_examples=12)
@given(
    steps=st.lists(STEPS, min_size=1, max_size=7),
    gone=st.sets(st.integers(0, 6), min_size=1, max_size=3),
    more=st.lists(STEPS, max_size=3),
)
@example(steps=[("invoke", "sync", 0)] * 4, gone={6}, more=[])  # a snapshot, a turn without a write, a turn with one
def test_no_upkeep_changes_a_state_that_is_left(
    saver: SQLAlchemySaver, steps: list[Any], gone: set[int], more: list[Any]
) -> None:
    saver.delete_thread("t")
    graph = DELTA.compile(checkpointer=saver)
    live(graph, steps)
    for _ in range(2):
        before = states(graph)
        try:
            saver.delete_for_runs([f"run {number}" for number in gone])
        except InvalidInputError:
            assert states(graph) == before
        left = states(graph)
        assert left.items() <= before.items()
        saver.prune(["t"])
        assert states(graph) == dict(list(left.items())[:1])
        live(graph, more)


@settings(max_examples=8)
@given(steps=st.lists(STEPS, min_size=1, max_size=7), gone=st.sets(st.integers(0, 6), min_size=1, max_size=3))
@example(steps=[("invoke", "sync", 0), ("invoke", "sync", 0), ("fork", "close", 2)], gone={6})  # beside another branch
def test_without_delta_channels_any_run_may_go_and_nothing_else_is_left(
    saver: SQLAlchemySaver, steps: list[Any], gone: set[int]
) -> None:
    saver.delete_thread("t")
    graph = PLAIN.compile(checkpointer=saver)
    live(graph, steps)
    before = states(graph)
    saver.delete_for_runs([f"run {number}" for number in gone])
    left = states(graph)
    assert left.items() <= before.items()
    saver.prune(["t"])
    assert states(graph) == dict(list(left.items())[:1])
    latest = saver.get_tuple(thread("t"))
    assert latest is None or latest.parent_config is None
