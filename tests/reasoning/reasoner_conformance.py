"""What holds for every reasoner, with or without a model: subclass it and give a fixture `reasoner`."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pytest

from langmem_adapter.reasoning.base import Comparison, ExtractInput, KnownMemory, Reasoner
from langmem_adapter.records.results import Fact, Turn, Usage

if TYPE_CHECKING:
    from langmem_adapter.reasoning.base import DecideOutput

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
MEMORIES = ("Name is John", "Loves cheese pizza", "Likes to play cricket", "Lives in Paris")
FACTS = ("Name is John", "Dislikes cheese pizza", "Likes to play cricket with friends", "Has a sister", "Name is John")
COMPARISONS = {
    "nothing": ((), ()),
    "nothing known": (FACTS, ()),
    "no facts": ((), MEMORIES),
    "both": (FACTS, MEMORIES),
    "Chinese": (("名字是John", "不喜欢奶酪披萨", "有一个姐姐"), ("名字是John", "爱吃奶酪披萨")),
}


def turn(text: str, role: str = "user") -> Turn:
    return Turn(role, text, role, NOON)


def question(*turns: Turn, about: str = "user") -> ExtractInput:
    return ExtractInput(turns, about, NOON.date())


def comparison(facts: tuple[str, ...], known: tuple[str, ...]) -> Comparison:
    return Comparison(
        tuple(Fact(text, 0) for text in facts), tuple(KnownMemory(number, text) for number, text in enumerate(known))
    )


def check_answer(answer: DecideOutput, asked: Comparison) -> None:
    """What `DecideOutput` and `FactDecision` promise, whatever was asked."""
    numbers = {memory.number for memory in asked.memories}
    assert {decision.fact for decision in answer.decisions} == set(range(len(asked.facts)))
    assert [decision.fact for decision in answer.decisions] == sorted(decision.fact for decision in answer.decisions)
    for decision in answer.decisions:
        assert decision.text.strip()
        assert decision.reason.strip()
        assert decision.number is None or decision.number in numbers
        if decision.event == "ADD":
            assert decision.number is None
        if decision.event in {"UPDATE", "DELETE"}:
            assert decision.number is not None
    changed = Counter(v.number for v in answer.decisions if v.event in {"UPDATE", "DELETE"})
    assert all(times == 1 for times in changed.values())


class ReasonerConformance:
    """Tests that any `Reasoner` passes; a model behind it may be scripted with plain, empty or repeated replies."""

    def test_it_is_a_reasoner_that_names_itself(self, reasoner: Reasoner) -> None:
        assert isinstance(reasoner, Reasoner)
        assert reasoner.mode

    def test_its_parts_are_runnables_with_names(self, reasoner: Reasoner) -> None:
        assert reasoner.extract.get_name() != reasoner.decide.get_name()

    @pytest.mark.parametrize("text", ["", "   ", "\n\t"])
    def test_an_empty_turn_says_nothing(self, reasoner: Reasoner, text: str) -> None:
        assert reasoner.extract.invoke(question(turn(text))).facts == ()

    def test_no_turns_say_nothing(self, reasoner: Reasoner) -> None:
        assert reasoner.extract.invoke(question()).facts == ()

    def test_the_system_message_is_never_a_source(self, reasoner: Reasoner) -> None:
        asked = question(turn("My name is Root. I live in Oslo.", "system"))
        assert reasoner.extract.invoke(asked).facts == ()

    def test_facts_come_from_turns_that_are_there(self, reasoner: Reasoner) -> None:
        asked = question(turn("You are kind.", "system"), turn("Hi, my name is John."), turn("I love hiking."))
        for fact in reasoner.extract.invoke(asked).facts:
            assert fact.text.strip()
            assert asked.turns[fact.turn].role == "user"
            assert not fact.verbatim

    @pytest.mark.parametrize("name", COMPARISONS)
    def test_every_fact_gets_a_usable_verdict(self, reasoner: Reasoner, name: str) -> None:
        asked = comparison(*COMPARISONS[name])
        check_answer(reasoner.decide.invoke(asked), asked)

    async def test_sync_async_and_batch_agree(self, reasoner: Reasoner) -> None:
        asked = question(turn("Hi, my name is John. I love hiking."))
        found = reasoner.extract.invoke(asked)
        assert (await reasoner.extract.ainvoke(asked)).facts == found.facts
        assert [one.facts for one in reasoner.extract.batch([asked, asked])] == [found.facts] * 2
        weighed = comparison(*COMPARISONS["both"])
        answer = reasoner.decide.invoke(weighed)
        assert (await reasoner.decide.ainvoke(weighed)).decisions == answer.decisions
        assert [one.decisions for one in reasoner.decide.batch([weighed, weighed])] == [answer.decisions] * 2

    def test_usage_is_counted(self, reasoner: Reasoner) -> None:
        assert isinstance(reasoner.extract.invoke(question(turn("Hi."))).usage, Usage)

    def test_dates_do_not_break_it(self, reasoner: Reasoner) -> None:
        for day in (date.min, date.max):
            reasoner.extract.invoke(
                ExtractInput((turn("I have a flight tomorrow. I met Ann yesterday."),), "user", day)
            )
