"""What a conversation costs in calls and tokens of the chat model: the part of an add that is paid for.

A hundred messages of an invented person go in one by one. The model is a scripted one whose answers come from the offline
rules, so that its decisions are sensible ones and the same in every run; tokens are counted as a quarter of the letters, sent
and received, as the scripted model reports them.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.memory.memory import Memory
from langmem_adapter.reasoning.base import Comparison, ExtractInput, KnownMemory, KnownNames
from langmem_adapter.reasoning.rules import RuleReasoner
from langmem_adapter.records.results import Fact, Turn, Usage
from langmem_adapter.testing import ScriptedChatModel
from tests.benchmarks.material import requested

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["bench_cost", "conversation"]

_RULES: Final = RuleReasoner()
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_CITIES: Final = "Oslo Rome Kyoto Lyon Lima".split()
_THINGS: Final = "chess jazz hiking sailing sushi opera tennis pottery coffee gardening".split()
_PEOPLE: Final = "Ada Ben Cleo Dan Eve".split()


def conversation() -> list[str]:
    """A hundred messages: facts, repetitions, changes of mind, moves, questions and small talk."""
    lines: list[str] = []
    for number in range(10):
        thing, city, person = _THINGS[number], _CITIES[number % 5], _PEOPLE[number % 5]
        lines += [
            f"I like {thing}.",
            "Good morning! How are you today?",
            f"I moved to {city}.",
            f"My friend {person} plays {thing}.",
            f"Can you recommend a book about {thing}?",
            f"I really love {thing}.",
            f"I work at the {thing} museum.",
            "Thanks, that helps a lot.",
            f"I don't like {_THINGS[(number + 5) % 10]}." if number % 2 else f"I am {30 + number} years old.",
            f"On Sundays I do {thing} with {person}.",
        ]
    return lines


def bench_cost(report: Callable[[str, float, str], None], *, messages: int = 100) -> None:
    """Print calls and tokens per add, with and without a knowledge graph.

    Args:
        report: Prints a line.
        messages: How many messages of the conversation to use.
    """
    for graph in (False, True):
        _bench_one(report, conversation()[:messages], graph=graph)


def _bench_one(report: Callable[[str, float, str], None], told: list[str], *, graph: bool) -> None:
    total, mode = Usage(), "on" if graph else "off"
    model = ScriptedChatModel(replies=[_answer] * (4 * len(told)))
    with Memory(":memory:", model=model, embeddings="hash:512", graph=graph) as memory:
        for line in told:
            total += memory.add(line, user_id="bench").usage
        stats = memory.stats()
        relations = len(memory.graph.relations(user_id="bench", k=10_000))
    report(f"conversation: model calls per add, graph {mode}", total.model_calls / len(told), "calls")
    report(f"conversation: tokens sent per add, graph {mode}", total.input_tokens / len(told), "tokens")
    report(f"conversation: tokens received per add, graph {mode}", total.output_tokens / len(told), "tokens")
    report(f"conversation: memories kept, graph {mode}", stats.memories, "memories")
    report(f"conversation: relations kept, graph {mode}", relations, "relations")


def _found(shown: dict[str, Any]) -> str:
    turns = tuple(Turn(turn["role"], turn["text"], turn["role"], _NOW) for turn in shown["conversation"])
    graph = KnownNames() if "known_entities" in shown else None
    facts = _RULES.extract.invoke(ExtractInput(turns, "user", _NOW.date(), graph=graph)).facts
    reply: dict[str, Any] = {"facts": [fact.text for fact in facts]}
    if graph is not None:
        told = [(place, triple) for place, fact in enumerate(facts) for triple in fact.relations]
        named = [(t.source, t.source_type) for _, t in told] + [(t.target, t.target_type) for _, t in told]
        reply["entities"] = [{"name": name, "type": kind} for name, kind in dict.fromkeys(named)]
        reply["relations"] = [{**triple.to_json(), "fact": place} for place, triple in told]
    return json.dumps(reply)


def _answer(messages: list[Any]) -> str:
    shown = requested(messages)
    if "conversation" in shown:
        return _found(shown)
    known = tuple(KnownMemory(int(memory["id"]), memory["text"]) for memory in shown["memories"])
    facts = tuple(Fact(fact["text"], 0) for fact in shown["facts"])
    decisions = _RULES.decide.invoke(Comparison(facts, known)).decisions
    entries = [
        {
            "id": str(decision.number) if decision.event != "ADD" else "new",
            "text": decision.text,
            "event": decision.event,
            "fact": decision.fact,
        }
        for decision in decisions
        if decision.event == "ADD" or decision.number is not None
    ]
    return json.dumps({"memory": entries})
