"""Extract: turns become facts.

By default the facts are about the user; where `agent_id` is given and the assistant spoke, they are about the assistant
(seed 004). `infer=False` takes each turn as it is; a procedural memory is one record of all of them. System messages are
never a source.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from langgraph.types import Command

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.clock import finished
from langmem_adapter.pipeline.stage import Ask, AskingStage, Step
from langmem_adapter.pipeline.state import PipelineState, scope_of
from langmem_adapter.reasoning.base import Extraction, KnownNames, Question, Reasoner
from langmem_adapter.records.cost import Usage
from langmem_adapter.records.work import PROCEDURAL, Fact, Turn
from langmem_adapter.storage.graph.known_names import known_names
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.pipeline.state import Task
    from langmem_adapter.storage.database import Database

__all__ = ["extract_stage"]


def extract_stage(reasoner: Reasoner, graph: Database | None = None, *, tools: bool = False) -> AskingStage:
    """The second stage: `turns` to `facts`. Several conversations are read at once, each on its own.

    Args:
        reasoner: Who reads.
        graph: Where the names of the knowledge graph are looked up, if relations are wanted as well.
        tools: Whether what tools returned is a source as well.
    """
    extract = partial(_extract, reasoner, tools)
    if graph is None:
        return AskingStage(extract)
    return AskingStage(extract, look=partial(_known, reasoner, graph))


def _known(reasoner: Reasoner, graph: Database, state: PipelineState) -> KnownNames:
    if not reasoner.calls_model or not state["task"]["infer"]:  # rules use the names as they are said
        return KnownNames()
    with graph.read() as connection:
        return KnownNames(*known_names(connection, scope_of(state), (turn["text"] for turn in state["turns"])))


def _extract(reasoner: Reasoner, tools: bool, state: PipelineState, known: KnownNames | None = None) -> Step | Ask:  # noqa: FBT001 - a setting
    if state["task"]["prompt"] is not None:
        _check_reader(reasoner, state["task"])
    turns = [Turn.from_json(turn) for turn in state["turns"]]
    places = _by_item(turns)
    if state["task"]["memory_type"] == PROCEDURAL:
        questions = [_question(state, turns, item, "procedure") for item in places]
        return Ask(reasoner.record, questions, partial(_collected, state, places))
    if not state["task"]["infer"]:
        return _found(state, _verbatim(turns), Usage())
    speaks = any(turn.role == "assistant" and turn.text for turn in turns)
    about = "assistant" if scope_of(state).agent_id and speaks else "user"
    questions = [replace(_question(state, turns, item, about, known), tools=tools) for item in places]
    return Ask(reasoner.extract, questions, partial(_collected, state, places))


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


def _question(
    state: PipelineState, turns: Sequence[Turn], item: Sequence[int], about: str, known: KnownNames | None = None
) -> Question:
    told = tuple(turns[place] for place in item)
    return Question(told, about, told[-1].time.date(), state["task"]["prompt"], known)


def _collected(state: PipelineState, places: list[list[int]], extractions: list[Extraction]) -> Step:
    facts = [
        replace(fact, turn=item[fact.turn])
        for item, extraction in zip(places, extractions, strict=True)
        for fact in _distinct(extraction.facts)
    ]
    notes = [list(extraction.notes) for extraction in extractions]
    return _found(state, facts, sum((extraction.usage for extraction in extractions), Usage()), notes)


def _found(state: PipelineState, facts: Sequence[Fact], usage: Usage, notes: Sequence[list[str]] = ()) -> Step:
    total = Usage.from_json(state["work"]["usage"]) + usage
    work = finished(state, "extract", {"usage": total.to_json(), "notes": list(notes)}, facts=len(facts))
    # A command costs half of what a conditional edge does, which reads the whole state once more.
    compared = facts and not facts[0].verbatim
    return Command(
        update={"facts": [fact.to_json() for fact in facts], **work}, goto="retrieve" if compared else "decide"
    )


def _distinct(facts: Sequence[Fact]) -> list[Fact]:
    return list({text_hash(fact.text): fact for fact in reversed(facts)}.values())[::-1]
