"""Review: a person accepts, edits or rejects decisions before they are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langmem_adapter.errors import ScopeError
from langmem_adapter.memory.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

SAID = {"messages": "I like tea. I live in Rome. My name is Ann.", "scope": {"user_id": "a"}}
THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m.db") as opened:
        yield opened


def texts(memory: Memory) -> set[str]:
    return {item.text for item in memory.get_all(user_id="a")}


def waiting(memory: Memory, saver: InMemorySaver) -> Any:
    graph = memory.build_pipeline(review=True, checkpointer=saver)
    stopped = graph.invoke(SAID, THREAD)
    return graph, stopped["__interrupt__"][0].value["decisions"]


def test_review_the_run_stops_before_apply_and_shows_the_decisions(memory: Memory) -> None:
    _, shown = waiting(memory, InMemorySaver())
    assert [(d["number"], d["event"], d["text"]) for d in shown] == [
        (0, "ADD", "Likes tea"),
        (1, "ADD", "Lives in Rome"),
        (2, "ADD", "Name is Ann"),
    ]
    assert memory.stats().changes == 0


def test_review_accepted_edited_and_rejected_decisions(memory: Memory) -> None:
    graph, _ = waiting(memory, InMemorySaver())
    answer = {"0": {"action": "edit", "text": "Likes green tea"}, "2": "reject"}
    result = graph.invoke(Command(resume=answer), THREAD)["result"]
    assert texts(memory) == {"Likes green tea", "Lives in Rome"}
    told = [(change["event"], change["reason"]) for change in result["results"]]
    assert told[0][1].endswith("edited in review")
    assert told[2] == ("NONE", "rejected in review")
    assert memory.search("green tea", user_id="a")[0].text == "Likes green tea"


@pytest.mark.parametrize(("answer", "expected"), [("accept", 3), ("reject", 0)])
def test_review_all_at_once(memory: Memory, answer: str, expected: int) -> None:
    graph, _ = waiting(memory, InMemorySaver())
    graph.invoke(Command(resume=answer), THREAD)
    assert len(texts(memory)) == expected


@pytest.mark.parametrize(
    "answer", ["maybe", 7, {"9": "accept"}, {"0": "maybe"}, {"0": {"action": "edit", "text": " "}}, ["accept"]]
)
def test_review_an_answer_that_is_none_is_asked_again_with_what_is_wrong(memory: Memory, answer: Any) -> None:
    graph, shown = waiting(memory, InMemorySaver())
    (stop,) = graph.invoke(Command(resume=answer), THREAD)["__interrupt__"]
    assert stop.value["decisions"] == shown
    assert stop.value["error"]
    assert memory.stats().changes == 0
    graph.invoke(Command(resume="accept"), THREAD)
    assert len(texts(memory)) == 3


def test_a_review_outlives_the_process_that_asked(tmp_path: Path) -> None:
    saver = InMemorySaver()
    with Memory(tmp_path / "m.db") as first:
        waiting(first, saver)
    with Memory(tmp_path / "m.db") as second:
        second.build_pipeline(review=True, checkpointer=saver).invoke(Command(resume="accept"), THREAD)
        assert len(texts(second)) == 3


def test_review_what_changed_while_the_run_waited_is_compared_again(memory: Memory) -> None:
    graph, _ = waiting(memory, InMemorySaver())
    memory.add("I live in Rome.", user_id="a")
    again = graph.invoke(Command(resume="accept"), THREAD)
    while "__interrupt__" in again:  # the conflict led back to retrieve, and to a new review
        again = graph.invoke(Command(resume="accept"), THREAD)
    assert texts(memory) == {"Likes tea", "Lives in Rome", "Name is Ann"}
    assert [change["event"] for change in again["result"]["results"]].count("NONE") == 1


@pytest.mark.parametrize("whose", [{"user_id": "bob"}, {"user_id": "a", "agent_id": "guide"}, {"user_id": ""}])
def test_who_says_that_he_is_somebody_else_answers_no_review(memory: Memory, whose: dict[str, str]) -> None:
    graph, _ = waiting(memory, InMemorySaver())
    for given in ({"config": {"configurable": {"thread_id": "t", **whose}}}, {"config": THREAD, "context": whose}):
        with pytest.raises(ScopeError, match="begun for another"):
            graph.invoke(Command(resume={"0": {"action": "edit", "text": "Likes poison"}}), **given)
    assert memory.stats().changes == 0
    graph.invoke(Command(resume="accept"), {"configurable": {"thread_id": "t", "user_id": "a"}})
    assert len(texts(memory)) == 3


def test_review_a_run_is_for_one(memory: Memory) -> None:
    graph = memory.build_pipeline(review=True, checkpointer=InMemorySaver())
    with pytest.raises(ScopeError, match="names user_id 'bob'"):
        graph.invoke(SAID, {"configurable": {"thread_id": "t", "user_id": "bob"}})


def test_nothing_to_decide_is_nothing_to_review(memory: Memory) -> None:
    memory.add(SAID["messages"], user_id="a")
    graph = memory.build_pipeline(review=True, checkpointer=InMemorySaver())
    assert "__interrupt__" not in graph.invoke(SAID, THREAD)
