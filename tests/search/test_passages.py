"""A budget of tokens: what of the hits is shown within it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langmem_adapter import Memory
from langmem_adapter.adapters.middleware import MemoryMiddleware
from langmem_adapter.adapters.nodes import recall_node
from langmem_adapter.adapters.retriever import MemoryRetriever, recall
from langmem_adapter.adapters.tools import create_memory_tools
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.results import Hit, MemoryItem, tokens_in
from langmem_adapter.records.scope import Scope
from langmem_adapter.search.passages import fit_hits
from tests.cases import each, undated

ANN: dict[str, Any] = {"user_id": "ann"}
LETTER = (
    "Dear assistant, here is how my week went. "
    + "I walked the dog and watered the plants as on every other day. " * 40
)
DEADLINE = "The deadline of the tax report has moved to the ninth of June."
LONG = f"{LETTER}{DEADLINE} {LETTER}".strip()
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def passage(text: str, question: str, most: int) -> str:
    """What is shown of a memory alone."""
    return "".join(hit.passage for hit in fit_hits([hit(text)], question, most))


def hit(text: str) -> Hit:
    return Hit(MemoryItem("1", text, Scope(**ANN), {}, None, None, None, DAY, DAY, None, 1, ""), 1.0, 1.0)


@pytest.fixture(scope="module")
def memory() -> Any:
    with Memory(":memory:") as memory:
        said = [LONG, f"{LETTER} Another deadline is the one of the visa.", "The tax office is in Lyon.", "I like tea."]
        memory.add(said, **ANN, infer=False)
        yield memory


def test_max_tokens_cuts_a_long_hit_to_the_passage_that_answers(memory: Memory) -> None:
    whole = memory.search("When is the deadline of the tax report?", **ANN)
    hits = memory.search("When is the deadline of the tax report?", **ANN, max_tokens=150)
    assert {hit.id for hit in hits} == {hit.id for hit in whole}
    assert sum(tokens_in(hit.passage) for hit in hits) <= 150
    long = next(hit for hit in hits if hit.text == LONG)
    assert DEADLINE in long.passage
    assert (long.cut, long.passage[0], long.passage[-1]) == (long.passage, "…", "…")
    assert [hit.cut for hit in hits if hit.text == "I like tea."] == [None]


async def test_every_integration_keeps_max_tokens(memory: Memory) -> None:
    question = "When is the deadline of the tax report?"
    retriever = MemoryRetriever(memory=memory, max_tokens=150, **ANN)
    first, *_ = found = await retriever.ainvoke(question)
    assert sum(tokens_in(document.page_content) for document in found) <= 150
    assert DEADLINE in first.page_content
    assert first.metadata["text"] == LONG
    [search] = create_memory_tools(memory, tools=["search"], max_tokens=150, **ANN)
    told = search.invoke({"query": question})
    assert DEADLINE in told
    assert tokens_in(told) <= 150
    listed = recall(memory, max_tokens=150, **ANN).invoke(question)["memories"]
    assert DEADLINE in listed
    assert "- I like tea." in undated(listed).split("\n")


def test_the_past_and_what_is_ranked_anew_have_the_same_budget(memory: Memory) -> None:
    hows: list[dict[str, Any]] = [{"as_of": "2100-01-01"}, {"rerank": "mmr"}]
    for how in hows:
        hits = memory.search("deadline of the tax report", **ANN, max_tokens=100, **how)
        assert DEADLINE in " ".join(hit.passage for hit in hits)
        assert sum(tokens_in(hit.passage) for hit in hits) <= 100


TOLD = "He told me, while it rained outside, that the bridge is closed until March."
TRIP = f"I bought a drum. It was red. The shop sells guitars, too. Then we had lunch. I met cousin Paul. {TOLD} He was late."


@each(
    ("question", "most", "shown"),
    [
        # What tells nothing is no padding, however much room there is.
        ("bridge", 40, f"… I met cousin Paul. {TOLD} He was late."),
        ("the drum", 40, "I bought a drum. It was red. …"),
        # What answers does not fit: what stands beside it is none, and this is shown from its beginning, too.
        ("bridge", 9, "I bought a drum. It was red. …"),
        # What shares no word is shown from its beginning.
        ("xylophone", 9, "I bought a drum. It was red. …"),
        ("bridge", 2, ""),
    ],
)
def test_a_passage_is_what_answers_and_what_stands_beside_it(question: str, most: int, shown: str) -> None:
    assert passage(TRIP, question, most) == shown


def test_the_best_hit_may_have_the_whole_budget_and_is_never_lost_for_nothing() -> None:
    answer = f"The deadline is {'in June or ' * 13}in May."
    long, short = hit(f"{answer} {LETTER}"), hit("I like tea.")
    shown = [each.passage for each in fit_hits([long, hit(LETTER), short], "When is the deadline?", 50)]
    assert (tokens_in(answer) > 40, shown) == (True, [f"{answer} …", short.text])
    # Of a later one nothing that answers fits: it is left out.
    assert fit_hits([short, hit(f"Ok. {DEADLINE} {DEADLINE}"), short], "deadline", 12) == [short, short]


def test_where_nothing_fits_the_result_says_so(memory: Memory) -> None:
    nothing = memory.search("deadline", **ANN, max_tokens=1)
    assert not nothing
    assert nothing.abstained is not None
    assert nothing.abstained.reason == "no room"


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "many", True])
def test_a_budget_is_a_number_of_tokens(memory: Memory, wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="max_tokens must be a whole number"):
        memory.search("tea", **ANN, max_tokens=wrong)


def test_the_list_of_a_prompt_goes_by_the_count_it_was_given(memory: Memory) -> None:
    def letters(messages: Any) -> int:
        return len(messages[0].text)

    listed = recall(memory, max_tokens=300, count_tokens=letters, **ANN).invoke("deadline of the tax report")
    assert DEADLINE in listed["memories"]
    assert letters([HumanMessage(listed["memories"])]) <= 300


def test_budgets_are_counted_alike(memory: Memory) -> None:
    said = ["预算是多少我不知道。" * 20 + f"第{number}个预算是{number}千元。" for number in range(30)]
    memory.add(said, user_id="wu", infer=False)
    found = memory.search("预算是多少？", user_id="wu", k=30, max_tokens=300)
    listed = recall(memory, user_id="wu", k=30, threshold=0, max_tokens=300).invoke("预算是多少？")["memories"]
    assert sum(tokens_in(hit.passage) for hit in found) <= 300
    assert 150 < tokens_in(listed) <= 300


@each("wrong", [0, -5, 0.5, float("nan"), float("inf"), True, "many"])
def test_a_budget_of_a_prompt_is_a_number_of_tokens(memory: Memory, wrong: Any) -> None:
    for step in (recall, recall_node, MemoryMiddleware):
        with pytest.raises(InvalidInputError, match="max_tokens must be a whole number"):
            step(memory, max_tokens=wrong)


_TEXTS = st.text(st.sampled_from("ab 犬茶。.!?\n🙂é0,"), max_size=400) | st.sampled_from(
    [LONG, "茶" * 500, "x" * 900, "ok.\n" * 500]
)


@settings(max_examples=60, deadline=None)
@given(_TEXTS, st.sampled_from(["a b", "茶", "the deadline", "?"]), st.integers(1, 200))
def test_a_passage_is_made_of_the_text_and_keeps_to_its_length(text: str, question: str, most: int) -> None:
    shown = passage(text, question, most)
    assert shown == text or tokens_in(shown) <= most
    assert shown or most < 20 or not any(character.isalnum() for character in text) or len(text) <= 400
    place = 0
    for part in shown.split("…"):
        place = text.find(part.strip(), place)
        assert place >= 0


@each(
    "text",
    ["Anna, whom I met in Rome, lives in Oslo", "I never want to live in London again.", "我再也不想住在伦敦了。"],
)
def test_what_is_one_sentence_is_given_whole_or_not_at_all(text: str) -> None:
    shown = {passage(text, "Where do I live? 我住在哪里？", most) for most in range(1, 40)}
    assert shown == {"", text}


_SENTENCES = st.lists(
    st.sampled_from(
        ["I never lived in Rome.", "Dr. Wu lives in Oslo!", "It rained, and it was cold.", "Do I live here?"]
    ),
    min_size=1,
    max_size=9,
)


@settings(max_examples=60, deadline=None)
@given(_SENTENCES, st.integers(1, 60))
def test_a_passage_is_made_of_whole_sentences(said: list[str], most: int) -> None:
    shown = passage(" ".join(said), "Where do I live?", most)
    for part in shown.strip("… ").split(" … ") if shown else []:
        assert any(part == " ".join(said[first:last]) for first in range(len(said)) for last in range(len(said) + 1))


_END = re.compile(r"(?<=[!\n。…])\s*|(?<!Dr)(?<=\.)\s")


@each(
    "said", ["a! ", "Yes. No. Ok. ", "ok.\n", "预算。", "Dr. Wu lives in Oslo! I never lived in Rome.\n", "1,2\n", "…"]
)
def test_a_long_text_of_short_sentences_is_read_in_whole_sentences(said: str) -> None:
    answer = "The budget is nine."
    text = f"{said * (50_000 // len(said))}\n{answer}\n{said * (40_000 // len(said))}"
    sentences = {*_END.split(said.strip()), answer, ""}
    for most in (20, 1_000, 15_000):
        shown = passage(text, "What is the budget?", most)
        assert answer in shown
        assert tokens_in(shown) <= most
        for part in shown.strip("… ").split(" … "):
            assert part in text
            assert {*map(str.strip, _END.split(part))} <= sentences
