"""What somebody plainly says of himself takes the place of what he said before, and of nothing else.

The rules weigh every pair of statements here; a memory, which takes ten times as long, is told those of two speakers and a
tenth of the others, and shows the same. `make bench` tells it all of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

import pytest

from langmem_adapter.reasoning.base import Comparison, ExtractInput, KnownMemory
from langmem_adapter.reasoning.rules.reasoner import RuleReasoner
from langmem_adapter.records.work import Turn
from tests.benchmarks.candidates import LANGUAGES
from tests.benchmarks.updates import DATES, MADE_GOAL, Outcome, Said, said_of, told

if TYPE_CHECKING:
    from langmem_adapter.records.work import Fact

RULES: Final = RuleReasoner()
SHARE: Final = 10

pytestmark = pytest.mark.parametrize("code", LANGUAGES.values(), ids=LANGUAGES.keys())


def facts(text: str, date: str) -> tuple[Fact, ...]:
    time = datetime.fromisoformat(date)
    return RULES.extract.invoke(ExtractInput((Turn("user", text, "user", time),), "user", time.date())).facts


def weighed(said: Said) -> Outcome:
    """What stands by the rules alone."""
    before = list(dict.fromkeys(fact.text for fact in facts(said.old, DATES[0])))
    known = tuple(KnownMemory(number, text, date=DATES[0][:10]) for number, text in enumerate(before))
    after = dict(enumerate(before))
    for verdict in RULES.decide.invoke(Comparison(facts(said.new, DATES[1]), known)).verdicts:
        if verdict.event == "DELETE" and verdict.number is not None:
            after.pop(verdict.number, None)
        elif verdict.event != "NONE":
            after[len(before) + len(after) if verdict.number is None else verdict.number] = verdict.text
    return Outcome(said, frozenset(before), frozenset(after.values()))


def outcomes(code: str, kind: str) -> list[Outcome]:
    said = [one for one in said_of(code) if one.kind == kind]
    return [*map(weighed, (one for one in said if not one.speakers)), *told(one for one in said if one.speakers)]


def test_plain_updates_are_made(code: str) -> None:
    found = outcomes(code, "update")
    missed = [outcome for outcome in found if not outcome.made]
    assert len(missed) <= (1 - MADE_GOAL) * len(found), missed


def test_statements_that_only_look_alike_overwrite_nothing(code: str) -> None:
    assert not [outcome for outcome in outcomes(code, "alike") if outcome.overwritten]


def test_a_memory_shows_what_the_rules_say(code: str) -> None:
    said = [one for one in said_of(code) if not one.speakers][::SHARE]
    assert told(said) == [weighed(one) for one in said]
