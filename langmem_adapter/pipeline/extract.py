"""Extract: turns become facts.

By default the facts are about the user; where `agent_id` is given and the assistant spoke, they are about the assistant
(seed 004). `infer=False` takes each turn as it is; a procedural memory is one record of all of them. System messages are
never a source of facts, nor are earlier turns and what is known: a chat model sees them only to understand.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langgraph.types import Command

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.names import with_speaker
from langmem_adapter.pipeline.stage import Ask, NodeResult, thinking
from langmem_adapter.pipeline.state import PipelineState, finished, scope_of
from langmem_adapter.reasoning.base import ExtractInput, Extraction, KnownNames, Reasoner
from langmem_adapter.records.cost import Usage, fitting
from langmem_adapter.records.work import PROCEDURAL, Fact, Turn
from langmem_adapter.storage.graph.hints import known_names
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langmem_adapter.pipeline.stage import Planner, StageParts
    from langmem_adapter.pipeline.state import Task, Work
    from langmem_adapter.records.scope import Scope

__all__ = ["extract_stage"]

_MOST_KNOWN: Final = 20  # memories shown with each conversation, half of them the newest
_TOKENS_KNOWN: Final = 500  # of all of them
_TOKENS_OF_ONE: Final = 60
_LETTERS: Final = 4 * _TOKENS_OF_ONE


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
        return Ask(reasoner.record, questions, partial(_collected, state, places, []))
    if not task["infer"]:
        return _found(state, _verbatim(turns), Usage())
    speaks = any(turn.role == "assistant" and turn.text for turn in turns)
    questions = _questions(state, turns, places, "assistant" if scope_of(state).agent_id and speaks else "user")
    names, known = _known(parts, state, turns, places)
    tools = parts.settings.facts_from_tools
    questions = [
        replace(question, graph=names, known=_texts(memories, scope_of(state)), tools=tools)
        for question, memories in zip(questions, known, strict=True)
    ]
    shown = [memory.id for memories in known for memory in memories]
    return Ask(reasoner.extract, questions, partial(_collected, state, places, shown))


def _known(
    parts: StageParts, state: PipelineState, turns: Sequence[Turn], places: Sequence[Sequence[int]]
) -> tuple[KnownNames | None, Sequence[Sequence[Any]]]:
    """What is known, for a chat model to understand: names of the graph, and memories that each conversation may speak of."""
    if not parts.reasoner.calls_model:  # rules use the names as they are said
        return KnownNames() if parts.uses_graph else None, [()] * len(places)
    said = (reversed([turns[place] for place in item if turns[place].role != "system"]) for item in places)
    texts = ["\n".join(turn.text for turn in latest_first) for latest_first in said]
    memories = parts.searcher.spoken_of(texts, scope_of(state), most=_MOST_KNOWN, letters=_LETTERS)
    if not parts.uses_graph:
        return None, memories
    with parts.ledger.database.read() as connection:
        return KnownNames(*known_names(connection, scope_of(state), (turn.text for turn in turns))), memories


def _texts(memories: Sequence[Any], scope: Scope) -> tuple[str, ...]:
    """What memories say, with the names of those who said it."""
    told = (with_speaker(memory.text, memory.actor_id, memory.role, scope) for memory in memories)
    return tuple(fitting(told, each=_TOKENS_OF_ONE, most=_TOKENS_KNOWN))


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


def _collected(
    state: PipelineState, places: list[list[int]], shown: Sequence[str], extractions: list[Extraction]
) -> NodeResult:
    facts = [
        replace(fact, turn=item[fact.turn])
        for item, extraction in zip(places, extractions, strict=True)
        for fact in _distinct(extraction.facts, [state["turns"][place] for place in item])
    ]
    notes = [list(extraction.notes) for extraction in extractions]
    return _found(state, facts, sum((extraction.usage for extraction in extractions), Usage()), notes, shown)


def _found(
    state: PipelineState,
    facts: Sequence[Fact],
    usage: Usage,
    notes: Sequence[list[str]] = (),
    shown: Sequence[str] = (),
) -> NodeResult:
    total = Usage.from_json(state["work"]["usage"]) + usage
    changed: Work = {"usage": total.to_json(), "notes": list(notes), "known": list(dict.fromkeys(shown))}
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
