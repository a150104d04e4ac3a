"""The instructions: what they say is what we read, they stay as they are, and they do not grow."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langmem_adapter.reasoning.base import Comparison, ExtractInput, KnownMemory, KnownNames
from langmem_adapter.reasoning.llm import LLMReasoner
from langmem_adapter.reasoning.prompts import TASKS, comparison_messages, extraction_messages, instructions
from langmem_adapter.reasoning.replies import DecisionReply, FactsReply, GraphReply
from langmem_adapter.reasoning.structured_output import read_reply
from langmem_adapter.records.graph import Triple
from langmem_adapter.records.results import FORGET, Fact, Turn
from langmem_adapter.testing import ScriptedChatModel
from tests.reasoning.examples import examples

NOON = datetime(2031, 5, 7, 12, tzinfo=UTC)
SCHEMAS: dict[str, Any] = {"user": FactsReply, "assistant": FactsReply, "graph": GraphReply, "decide": DecisionReply}
EXAMPLES = [(task, data, reply) for task in SCHEMAS for data, reply in examples(task)]
SNAPSHOTS = {
    "user": "506922b58897",
    "assistant": "0ba35ef0c6cb",
    "small": "5766798b2302",
    "graph": "91c8fff5d5b5",
    "kept": "50a54aeeb20c",
    "decide": "5f1b8427d18f",
    "record": "36e337317e9a",
    "summary": "1a6ee56b22fd",
    "title": "7bc70b29e1a0",
    "related": "89ffee198cea",
    "rewrite": "cfce4c9ba09b",
}
CEILINGS = {
    "user": 740,
    "assistant": 700,
    "small": 250,
    "graph": 360,
    "kept": 200,
    "decide": 800,
    "record": 340,
    "summary": 340,
    "title": 130,
    "related": 150,
    "rewrite": 160,
}  # tokens, of four letters each


@pytest.mark.parametrize("task", TASKS)
def test_prompt_what_is_said_to_models_changes_on_purpose_alone(task: str) -> None:
    """Models answer other prompts otherwise: whoever changes one puts the new hash here, and looks at what it does."""
    assert hashlib.sha256(instructions(task).encode()).hexdigest()[:12] == SNAPSHOTS[task]
    assert len(instructions(task)) / 4 <= CEILINGS[task]


@pytest.mark.parametrize(("task", "data", "reply"), EXAMPLES)
def test_prompt_every_example_has_the_form_that_we_ask_for(task: str, data: Any, reply: Any) -> None:
    schema = SCHEMAS[task]
    read = read_reply(AIMessage(json.dumps(reply)), schema)
    items = schema.wire["properties"][schema.root]["items"]
    for sent in reply[schema.root]:
        assert [*sent] == items["required"]
    assert len(getattr(read, schema.root)) == len(reply[schema.root])


@pytest.mark.parametrize(("task", "data", "reply"), EXAMPLES)
def test_prompt_every_example_is_answered_by_its_reply_without_a_repair(task: str, data: Any, reply: Any) -> None:
    model = ScriptedChatModel(replies=[json.dumps(reply)])
    reasoner = LLMReasoner(model)
    if task == "decide":
        known = tuple(KnownMemory(int(memory["id"]), memory["text"]) for memory in data["memories"])
        answer = reasoner.decide.invoke(Comparison(tuple(Fact(fact["text"], 0) for fact in data["facts"]), known))
        assert [(v.fact, v.event) for v in answer.decisions] == [(e["fact"], e["event"]) for e in reply["memory"]]
        return
    about = "assistant" if task == "assistant" else "user"
    turns, before = (
        tuple(Turn(turn["role"], turn["text"], turn["role"], NOON) for turn in data.get(part, ()))
        for part in ("conversation", "before")
    )
    graph = KnownNames() if task == "graph" else None
    found = reasoner.extract.invoke(ExtractInput(turns, about, NOON.date(), graph=graph, before=before))
    assert [(fact.text, fact.turn, fact.date) for fact in found.facts] == [
        (fact["text"], fact["turn"], fact["date"]) for fact in reply["facts"]
    ]
    assert found.notes == ()


def test_prompt_our_mark_of_a_wish_is_the_one_that_models_are_told() -> None:
    assert all(f'"{FORGET}' in instructions(task) for task in ("user", "assistant", "decide"))


def question(**more: Any) -> ExtractInput:
    return ExtractInput((Turn("user", "Hi", "user", NOON),), "user", NOON.date(), **more)


def test_prompt_the_fixed_part_comes_first_and_is_the_same_whatever_is_asked() -> None:
    earlier = (Turn("assistant", "Hello", "assistant", NOON),)
    one, other = (extraction_messages(asked) for asked in (question(), question(before=earlier)))
    assert one[0] == other[0]
    assert one[0].content == instructions("user")
    lead, data, form = str(other[1].content).split("\n\n")
    assert (lead, form) == (str(one[1].content).split("\n\n")[0], str(one[1].content).split("\n\n")[2])
    assert [*json.loads(data)] == ["today", "weekday", "before", "conversation"]
    assert json.loads(data)["before"] == [{"role": "assistant", "text": "Hello"}]


def test_prompt_a_comparison_shows_speakers_dates_and_relations_where_there_are_any() -> None:
    fact = Fact("Moved to Oslo", 0, relations=(Triple("user", "lives_in", "Oslo", valid_from=NOON),), date="2031-05-07")
    known = (KnownMemory(0, "Lives in Lyon", speaker="Ann"), KnownMemory(1, "Has a dog"))
    plain, graph = (comparison_messages(Comparison((fact,), known, graph=graph))[1].content for graph in (False, True))
    assert json.loads(str(plain).split("\n\n")[1]) == {
        "memories": [{"id": "0", "text": "Lives in Lyon", "speaker": "Ann"}, {"id": "1", "text": "Has a dog"}],
        "facts": [{"number": 0, "text": "Moved to Oslo", "date": "2031-05-07"}],
    }
    (shown,) = json.loads(str(graph).split("\n\n")[1])["facts"]
    assert shown["relations"][0] == {
        "source": "user",
        "relation": "lives_in",
        "target": "Oslo",
        "target_type": None,
        "valid_from": "2031-05-07",
        "valid_to": None,
        "ended": False,
    }


@pytest.mark.parametrize("day", range(7))
def test_prompt_today_has_its_weekday(day: int) -> None:
    names = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    today = date(2026, 3, 2 + day)
    shown = str(extraction_messages(ExtractInput((Turn("user", "Hi", "user", NOON),), "user", today))[1].content)
    assert f'{{"today": "{today.isoformat()}", "weekday": "{names[day]}"' in shown
