"""Extract: turns become facts.

By default the facts are about the user; where `agent_id` is given and the assistant spoke, they are about the assistant
(seed 004). `infer=False` takes each turn as it is; a procedural memory is one record of all of them. System messages are
never a source of facts, nor are earlier turns: a chat model sees them only to understand. Memories are not shown to it: models
copy them in place of what is new.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from langgraph.types import Command

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.state import Ask, NodeResult, PipelineState, finished, scope_of, thinking
from langmem_adapter.reasoning.base import ExtractInput, Extraction, KnownNames, Reasoner
from langmem_adapter.records.results import PROCEDURAL, Fact, Turn, Usage
from langmem_adapter.storage.graph.hints import known_names
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langmem_adapter.pipeline.state import Planner, StageParts, Task, Work


def extract_stage(parts: StageParts) -> Planner:
    """The second stage: `turns` to `facts`. Several conversations are read at once, each on its own."""
    return thinking(partial(_extract, parts))


def _extract(parts: StageParts, state: PipelineState) -> NodeResult | Ask:
    task, reasoner = state["task"], parts.reasoner
    if task["prompt"] is not None:
        _check_reader(reasoner, task)
    turns = [Turn.from_json(turn) for turn in state["turns"]]
    places = _by_item(turns)
    if task["memory_type"] == PROCEDURAL:
        questions = _questions(state, turns, places, "procedure")
        return Ask(reasoner.record, questions, partial(_collected, state, places))
    if not task["infer"]:
        return _found(state, _verbatim(turns), Usage())
    speaks = any(turn.role == "assistant" and turn.text for turn in turns)
    questions = _questions(state, turns, places, "assistant" if scope_of(state).agent_id and speaks else "user")
    names, tools = _graph_names(parts, state, turns), parts.settings.facts_from_tools
    must_read = task.get("on_bad_reply") == "raise"
    questions = [replace(question, graph=names, tools=tools, must_read=must_read) for question in questions]
    return Ask(reasoner.extract, questions, partial(_collected, state, places))


def _graph_names(parts: StageParts, state: PipelineState, turns: Sequence[Turn]) -> KnownNames | None:
    """The names of the graph that a chat model is to use again; rules use the names as they are said."""
    if not parts.uses_graph or not parts.reasoner.calls_model:
        return KnownNames() if parts.uses_graph else None
    with parts.ledger.database.read() as connection:
        return KnownNames(*known_names(connection, scope_of(state), (turn.text for turn in turns)))


def _check_reader(reasoner: Reasoner, task: Task) -> None:
    if not reasoner.calls_model:
        raise InvalidInputError(
            "prompt is an instruction for a chat model, and there is none; also give model='openai:…' or the like"
        )
    if not task["infer"] and task["memory_type"] != PROCEDURAL:
        raise InvalidInputError(
            "prompt says how facts are found, and infer=False keeps messages as they are; leave one out"
        )


def _verbatim(turns: Sequence[Turn]) -> list[Fact]:
    return [
        Fact(turn.text, place, verbatim=True) for place, turn in enumerate(turns) if turn.role != "system" and turn.text
    ]


def _by_item(turns: Sequence[Turn]) -> list[list[int]]:
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, turn in enumerate(turns):
        places[turn.item].append(place)
    return [places[item] for item in sorted(places)]


def _questions(
    state: PipelineState, turns: Sequence[Turn], places: Sequence[Sequence[int]], about: str
) -> list[ExtractInput]:
    before: defaultdict[int, list[Turn]] = defaultdict(list)
    for turn in map(Turn.from_json, state.get("before", [])):
        before[turn.item].append(turn)
    told = [tuple(turns[place] for place in item) for item in places]
    prompt = state["task"]["prompt"]
    return [ExtractInput(own, about, own[-1].time.date(), prompt, before=tuple(before[own[0].item])) for own in told]


def _collected(state: PipelineState, places: list[list[int]], extractions: list[Extraction]) -> NodeResult:
    facts = [
        replace(fact, turn=item[fact.turn])
        for item, extraction in zip(places, extractions, strict=True)
        for fact in _distinct(extraction.facts, [state["turns"][place] for place in item])
    ]
    notes = [list(extraction.notes) for extraction in extractions]
    return _found(state, facts, sum((extraction.usage for extraction in extractions), Usage()), notes)


def _found(state: PipelineState, facts: Sequence[Fact], usage: Usage, notes: Sequence[list[str]] = ()) -> NodeResult:
    total = Usage.from_json(state["work"]["usage"]) + usage
    changed: Work = {"usage": total.to_json(), "notes": list(notes)}
    work = finished(state, "extract", changed, facts=len(facts))
    # A command costs half of what a conditional edge does, which reads the whole state once more.
    compared = facts and not facts[0].verbatim
    return Command(
        update={"facts": [fact.to_json() for fact in facts], **work}, goto="retrieve" if compared else "decide"
    )


def _distinct(facts: Sequence[Fact], turns: Sequence[Mapping[str, Any]]) -> list[Fact]:
    """Each speaker's facts once for each date given, the first of those in the same words."""
    told = {(text_hash(fact.text), *_source(fact, turns[fact.turn])): fact for fact in reversed(facts)}
    return list(told.values())[::-1]


def _source(fact: Fact, turn: Mapping[str, Any]) -> tuple[str, datetime | None]:
    return "" if fact.unattributed else turn["actor"], datetime.fromisoformat(turn["time"]) if turn.get(
        "dated"
    ) else None
