"""Relevance compares between questions, whatever else a scope holds; doors that write prompts go by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from langchain_core.messages import HumanMessage

from langmem_adapter import InvalidInputError, Memory
from langmem_adapter.search.relevance import RELEVANT
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Iterator

KNOWN = (
    "I live in a small flat in Lyon, close to the river.",
    "My sister Jesica plays the cello in an orchestra in Oslo.",
    "I am allergic to peanuts, so I read every label.",
    "Our cat Miso sleeps on the piano.",
    "I work as a nurse at the children's hospital.",
    "We hiked through the Alps for two weeks last August.",
    "My bicycle was stolen in front of the library.",
    "I am learning Portuguese with an app every evening.",
    "My father repairs old radios in his garage.",
    "I voted for a new playground in our street.",
    "I gave up coffee and drink green tea instead.",
    "我女儿在学游泳，每周六上课。",
)
ANSWERED = (
    "Where is my flat?",
    "What does my sister Jesica play?",
    "What am I allergic to?",
    "Where does our cat sleep?",
    "At which hospital do I work?",
    "Where did we hike last August?",
    "Where was my bicycle stolen?",
    "Which language am I learning?",
    "What does my father repair?",
    "Do I drink coffee or tea?",
    "我女儿在学什么？",
)
FOREIGN = (
    "When does Brandon's wedding take place?",
    "Which guitar did I buy for the concert?",
    "How many miles did I run in the marathon?",
    "What grade did Tim get in algebra?",
    "Who designed the logo of my bakery?",
    "Which recipe needs saffron?",
    "What was the score of the basketball final?",
    "Which shade of blue did I paint the kitchen?",
    "Why did the deployment to Kubernetes fail?",
    "我哪天去北京出差？",
)
PLACES = "harbour desert castle market forest station temple valley stadium museum".split()


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as memory:
        memory.add(list(KNOWN), user_id="alice", infer=False)
        yield memory


def best(memory: Memory, questions: tuple[str, ...]) -> list[float]:
    return [max(hit.relevance for hit in memory.search(question, user_id="alice")) for question in questions]


def test_what_is_known_is_more_relevant_than_what_is_not_whatever_was_asked(memory: Memory) -> None:
    assert min(best(memory, ANSWERED)) > RELEVANT > max(best(memory, FOREIGN))


def test_a_thousand_unrelated_memories_hardly_move_relevance(memory: Memory) -> None:
    def told() -> dict[tuple[str, str], float]:
        hits = ((question, hit) for question in ANSWERED for hit in memory.search(question, user_id="alice", k=3))
        return {(question, hit.id): hit.relevance for question, hit in hits}

    before = told()
    memory.add_many(
        [
            {"messages": f"On day {n} the {PLACES[n % 10]} had {n % 37} guests of the {PLACES[n // 10 % 10]}.", **ALICE}
            for n in range(1_000)
        ]
    )
    after = told()
    moved = [abs(before[pair] - after[pair]) for pair in before.keys() & after.keys()]
    assert len(moved) >= len(ANSWERED) and np.quantile(moved, 0.95) <= 0.08


ALICE: dict[str, Any] = {"user_id": "alice", "infer": False}


@pytest.mark.parametrize("least", [-0.1, 1.5, "x", float("nan")])
def test_a_threshold_out_of_range_says_what_it_is_now(memory: Memory, least: Any) -> None:
    for door in (memory.search, lambda _, **how: memory.recall(**how), lambda _, **how: memory.tools(**how)):
        with pytest.raises(InvalidInputError, match="least relevance of a hit, from 0 to 1, and no cosine any more"):
            door("tea", user_id="alice", threshold=least)
    with pytest.raises(InvalidInputError, match="threshold"):
        memory.as_retriever(user_id="alice", threshold=least)


def test_doors_that_write_prompts_are_silent_about_what_nobody_knows(memory: Memory) -> None:
    def recalled(question: str, **how: Any) -> list[str]:
        lines: str = memory.recall(user_id="alice", **how).invoke(question)["memories"]
        return [line.removeprefix("- ") for line in lines.splitlines()]

    assert recalled(FOREIGN[0]) == []
    assert recalled(ANSWERED[1])[0] == KNOWN[1] and len(recalled(ANSWERED[1])) < 4
    assert len(recalled(FOREIGN[0], threshold=0)) == 10
    assert len(recalled(FOREIGN[0], k=20)) == len(KNOWN)  # all that there is may stand in a prompt
    assert recalled(FOREIGN[0], k=20, threshold=0.3) == []
    (search,) = memory.tools(tools=["search"], user_id="alice")
    assert search.invoke({"query": FOREIGN[0]}) == "Nothing is remembered about that."
    assert KNOWN[1] in search.invoke({"query": ANSWERED[1]})


def test_a_middleware_adds_nothing_where_nothing_is_known(memory: Memory) -> None:
    from langchain.agents import create_agent

    from langmem_adapter import MemoryMiddleware

    model = ScriptedChatModel(replies=[lambda messages: messages[-1].text] * 3)
    agent = create_agent(model, middleware=[MemoryMiddleware(memory, user_id="alice")])
    for question in (FOREIGN[0], "thank you!"):
        assert agent.invoke({"messages": [HumanMessage(question)]})["messages"][-1].text == question


def test_a_newer_version_is_as_relevant_as_the_one_that_it_stands_before() -> None:
    with Memory(":memory:") as memory:
        memory.add("I live in Paris.", user_id="bob", infer=False, timestamp="2025-01-01")
        memory.add(list(KNOWN[1:]), user_id="bob", infer=False, timestamp="2025-02-01")
        memory.add("I moved to Berlin.", user_id="bob", infer=False, timestamp="2025-06-01")
        newer, older = memory.search("Where do I live?", user_id="bob", threshold=0.5)
        assert (newer.text, older.text) == ("I moved to Berlin.", "I live in Paris.")
        assert newer.relevance == older.relevance
