"""Extract: turns become facts.

By default the facts are about the user; where `agent_id` is given and the assistant spoke, they are about the assistant
(seed 004). `infer=False` takes each turn as it is; a procedural memory is one record of all of them. System messages are
never a source of facts, nor are earlier turns and what is known: a chat model sees them only to understand.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langgraph.types import Command

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.names import with_speaker
from langmem_adapter.pipeline.clock import finished
from langmem_adapter.pipeline.stage import Ask, AskingStage, Step
from langmem_adapter.pipeline.state import PipelineState, scope_of
from langmem_adapter.reasoning.base import ExtractInput, Extraction, KnownNames, Reasoner
from langmem_adapter.records.cost import Usage, fitting
from langmem_adapter.records.work import PROCEDURAL, Fact, Turn
from langmem_adapter.storage.graph.hints import known_names
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langmem_adapter.pipeline.state import Task, Work
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.search.searcher import Searcher
    from langmem_adapter.storage.database import Database

__all__ = ["extract_stage"]

_MOST_KNOWN: Final = 20  # memories shown with each conversation, half of them the newest
_TOKENS_KNOWN: Final = 500  # of all of them
_TOKENS_OF_ONE: Final = 60
_LETTERS: Final = 4 * _TOKENS_OF_ONE


def extract_stage(
    reasoner: Reasoner, searcher: Searcher, graph: Database | None = None, *, tools: bool = False
) -> AskingStage:
    """The second stage: `turns` to `facts`. Several conversations are read at once, each on its own.

    Args:
        reasoner: Who reads.
        searcher: Finds memories that the turns may speak of, for a chat model to understand them.
        graph: Where the names of the knowledge graph are looked up, if relations are wanted as well.
        tools: Whether what tools returned is a source as well.
    """
    return AskingStage(partial(_extract, reasoner, tools), look=partial(_look, reasoner, searcher, graph))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known already, for a chat model to understand the turns.

    Attributes:
        names: Of the knowledge graph, where there is one.
        memories: Rows of those that each conversation may speak of; none where nobody would read them.
    """

    names: KnownNames | None
    memories: Sequence[Sequence[Any]] = ()


def _look(reasoner: Reasoner, searcher: Searcher, graph: Database | None, state: PipelineState) -> _Seen:
    task = state["task"]
    # Rules use the names as they are said; a record, and what is kept verbatim, are of the turns alone.
    if not reasoner.calls_model or not task["infer"] or task["memory_type"] == PROCEDURAL:
        return _Seen(None if graph is None else KnownNames())
    turns = [Turn.from_json(turn) for turn in state["turns"]]
    said = (reversed([turns[place] for place in item if turns[place].role != "system"]) for item in _by_item(turns))
    texts = ["\n".join(turn.text for turn in latest_first) for latest_first in said]
    memories = searcher.spoken_of(texts, scope_of(state), most=_MOST_KNOWN, letters=_LETTERS)
    if graph is None:
        return _Seen(None, memories)
    with graph.read() as connection:
        return _Seen(KnownNames(*known_names(connection, scope_of(state), (turn.text for turn in turns))), memories)


def _extract(reasoner: Reasoner, tools: bool, state: PipelineState, seen: _Seen) -> Step | Ask:  # noqa: FBT001 - a setting
    if state["task"]["prompt"] is not None:
        _check_reader(reasoner, state["task"])
    turns = [Turn.from_json(turn) for turn in state["turns"]]
    places = _by_item(turns)
    ask = partial(_question, state, turns, _earlier(state))
    if state["task"]["memory_type"] == PROCEDURAL:
        questions = [ask(item, "procedure") for item in places]
        return Ask(reasoner.record, questions, partial(_collected, state, places, []))
    if not state["task"]["infer"]:
        return _found(state, _verbatim(turns), Usage())
    speaks = any(turn.role == "assistant" and turn.text for turn in turns)
    about = "assistant" if scope_of(state).agent_id and speaks else "user"
    questions = [
        replace(ask(item, about), graph=seen.names, known=_texts(memories, scope_of(state)), tools=tools)
        for item, memories in zip(places, seen.memories or [()] * len(places), strict=True)
    ]
    shown = [memory.id for memories in seen.memories for memory in memories]
    return Ask(reasoner.extract, questions, partial(_collected, state, places, shown))


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


def _earlier(state: PipelineState) -> Mapping[int, list[Turn]]:
    before: defaultdict[int, list[Turn]] = defaultdict(list)
    for turn in state.get("before", []):
        before[turn["item"]].append(Turn.from_json(turn))
    return before


def _question(
    state: PipelineState, turns: Sequence[Turn], before: Mapping[int, list[Turn]], item: Sequence[int], about: str
) -> ExtractInput:
    told = tuple(turns[place] for place in item)
    earlier = tuple(before.get(told[0].item, ()))
    return ExtractInput(told, about, told[-1].time.date(), state["task"]["prompt"], before=earlier)


def _collected(
    state: PipelineState, places: list[list[int]], shown: Sequence[str], extractions: list[Extraction]
) -> Step:
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
) -> Step:
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


def _source(fact: Fact, turn: Mapping[str, Any]) -> tuple[str, str]:
    return "" if fact.unattributed else turn["actor"], turn["time"] if turn.get("dated") else ""
