"""Relevance compares between questions, whatever else a scope holds; integrations that write prompts go by it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.messages import HumanMessage

from langmem_adapter import InvalidInputError, Memory
from langmem_adapter.adapters.nodes import recall_node
from langmem_adapter.records.escapes import DATA_ONLY
from langmem_adapter.search.relevance import RELEVANT
from tests.cases import undated

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


def relevances(question: str, *told: tuple[str, str]) -> list[float]:
    """How well each of some memories, said by somebody, answers a question; the first is of May 2024, the rest of June."""
    with Memory(":memory:") as memory:
        for place, (name, text) in enumerate(told):
            message = HumanMessage(text, name=name or None)
            memory.add(message, user_id="alice", infer=False, timestamp=f"2024-0{min(5 + place, 6)}-11")
        hits = {hit.text: hit.relevance for hit in memory.search(question, user_id="alice", k=len(told))}
        return [hits.get(text, 0.0) for _, text in told]


def test_a_rare_word_weighs_more_than_one_that_many_memories_hold() -> None:
    gardens = [("", f"The garden of the {place} was open on the weekend.") for place in PLACES]
    told = ("", "My aunt keeps a ferret."), ("", "My aunt grows roses in the garden.")
    rare, common, *_ = relevances("Does my aunt have a ferret in the garden?", *told, *gardens)
    assert rare > common + 0.02


def test_what_is_said_by_or_of_whom_a_question_names_is_more_relevant_than_what_others_say_of_others() -> None:
    said = ("Lena", "I go to work by tram."), ("Marc", "Lena and I go to work by tram.")
    else_ = ("Marc", "I go to work by tram too."), ("Marc", "Tom and I go to work by tram.")
    by, of, *others = relevances("How does Lena go to work by tram?", *said, *else_)
    assert min(by, of) > max(others) + 0.1


def test_neither_a_window_beside_a_topic_nor_a_related_word_beside_another_reaches_a_prompt() -> None:
    question = "Which guitar, amplifier and strings did I buy for the concert of my band in May 2024?"
    assert max(relevances(question, ("", "We painted the fence."), ("", "We sold the boat."))) < RELEVANT
    assert max(relevances("Where does Zelda live?", ("", "I moved to Rome."), ("", "My flat is small."))) < RELEVANT


@pytest.mark.parametrize("least", [-0.1, 1.5, "x", float("nan")])
def test_a_threshold_out_of_range_says_what_it_is_now(memory: Memory, least: Any) -> None:
    calls: list[Any] = [partial(memory.search, "tea"), memory.recall, memory.tools, memory.as_retriever]
    for call in calls:
        with pytest.raises(InvalidInputError, match="least relevance of a hit, from 0 to 1, and no cosine"):
            call(user_id="alice", threshold=least)


def test_recall_and_tools_add_nothing_below_the_threshold(memory: Memory) -> None:
    def recalled(question: str, **how: Any) -> list[str]:
        lines: str = memory.recall(user_id="alice", **how).invoke(question)["memories"]
        return [line.removeprefix("- ") for line in undated(lines).splitlines()[1:]]

    assert recalled(FOREIGN[0]) == []
    assert recalled(ANSWERED[1])[0] == KNOWN[1] and len(recalled(ANSWERED[1])) < 4
    assert len(recalled(FOREIGN[0], threshold=0)) == 10
    assert recalled(FOREIGN[0], k=20, threshold=0.3) == []
    (search,) = memory.tools(tools=["search"], user_id="alice")
    assert search.invoke({"query": FOREIGN[0]}) == f"Nothing is remembered about that: nothing above {RELEVANT:g}."
    assert KNOWN[1] in search.invoke({"query": ANSWERED[1]})


def test_threshold_auto_gives_all_of_a_small_scope_in_order_of_time_where_there_is_a_budget() -> None:
    with Memory(":memory:") as memory:
        for place, known in enumerate(reversed(KNOWN[:8])):
            memory.add(known, user_id="alice", infer=False, timestamp=f"2024-0{8 - place}-01")
            memory.add(known, agent_id="guide", infer=False)

        def given(query: str, *, max_tokens: int | None, **how: Any) -> list[str]:
            how = how or {"user_id": "alice"}
            return [hit.text for hit in memory.search(query, k=2, threshold="auto", max_tokens=max_tokens, **how)]

        assert given(FOREIGN[0], max_tokens=1_000) == list(KNOWN[:8])
        assert given(ANSWERED[0], max_tokens=1_000) == list(KNOWN[:8])
        assert given("thank you!", max_tokens=1_000) == []
        assert given(FOREIGN[0], max_tokens=500) == given(FOREIGN[0], max_tokens=None) == []
        assert given(FOREIGN[0], max_tokens=1_000, agent_id="guide") == []
        assert given(ANSWERED[0], max_tokens=500) == [KNOWN[0]]


@pytest.mark.parametrize(
    "how",
    [
        {"k": 40},
        {"k": 40, "max_tokens": 2_000},
        {"after": "2024-05-18", "max_tokens": 2_000},
        {"before": "2024-05-03", "max_tokens": 2_000},
        {"filters": {"created_at": {"gte": "2024-05-18"}}, "max_tokens": 2_000},
        {"as_of": "2024-06-01", "k": 40},
    ],
)
def test_no_filter_bound_or_budget_makes_a_memory_small(how: dict[str, Any]) -> None:
    with Memory(":memory:") as memory:
        memory.add_many(
            [
                {
                    "messages": f"Soup number {n} had leek and {n} carrots.",
                    "timestamp": f"2024-05-{n % 20 + 1:02}",
                    **ALICE,
                }
                for n in range(60)
            ]
        )
        found = memory.search(FOREIGN[1], user_id="alice", threshold="auto", **how)
        assert found.abstained is not None and (found, found.abstained.reason) == ([], "below threshold")
        assert memory.search("Which soup had carrots?", user_id="alice", threshold="auto", **how)


@pytest.mark.parametrize("most", [0, -1, "x", 1.5])
def test_max_tokens_is_at_least_1_in_every_integration(memory: Memory, most: Any) -> None:
    for call in (memory.recall, memory.tools, memory.as_retriever, partial(recall_node, memory)):
        with pytest.raises(InvalidInputError, match="max_tokens"):
            call(user_id="alice", max_tokens=most)


def test_abstained_says_why_a_search_is_empty(memory: Memory) -> None:
    def why(**how: Any) -> str:
        return str(memory.search(FOREIGN[0], **{"user_id": "alice", **how}).abstained)

    assert why(user_id="bob") == "no memory to search"
    assert why(before="2001-02-03") == "no memory passes before=2001-02-03"
    assert why(filters={"topic": "x"}, memory_type="y") == "no memory passes memory_type='y', filters"
    assert why(rerank=Dropping()) == "the reranker dropped every hit"
    assert why(threshold=1).startswith("nothing above 1; nearest (0.")
    assert why(k=1) == "None"


class Dropping(BaseDocumentCompressor):
    """A reranker that finds nothing worth keeping."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> list[Any]:
        del documents, query, callbacks
        return []


@pytest.mark.parametrize("embeddings", ["hash:512", "static"])
@pytest.mark.parametrize(
    ("before", "after", "question"),
    [
        ("I live in Kyoto.", "I moved to Rome.", "Where do I live?"),
        ("I live in Kyoto.", "I moved to Rome.", "Hey, where do I live now?"),
        ("I am married to Tom.", "I got divorced.", "Am I married?"),
        ("我住在北京。", "我搬到上海了。", "我住在哪里？"),
    ],
)
def test_what_is_told_in_a_related_word_reaches_the_prompt(
    embeddings: str, before: str, after: str, question: str
) -> None:
    with Memory(":memory:", embeddings=embeddings) as memory:
        for text in KNOWN[1:]:
            memory.add(text, user_id="ada", infer=False)
        memory.add(before, user_id="ada")
        [change] = memory.add(after, user_id="ada").results
        told = memory.recall(user_id="ada").invoke(question)["memories"]
        assert change.event == "UPDATE"
        assert undated(told) == f"{DATA_ONLY}\n- {change.text}"


def test_a_fact_is_not_found_by_what_else_was_said_in_its_turn(memory: Memory) -> None:
    memory.add("I live in Zanzibar and I love jazz.", user_id="eve")
    assert [hit.text for hit in memory.search("Who lives in Zanzibar?", user_id="eve", threshold="auto")]
    for found in memory.search("Zanzibar", user_id="eve", k=1):
        memory.delete(found.id, user_id="eve")
    assert not memory.search("Who lives in Zanzibar?", user_id="eve", threshold=RELEVANT)
    assert memory.search("What music do I love?", user_id="eve", threshold=RELEVANT)
