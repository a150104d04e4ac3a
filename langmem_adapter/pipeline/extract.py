"""Extract, the second stage of the pipeline: turns become facts.

By default the facts are about the user; where `agent_id` is given and the assistant spoke, they are about the assistant
(seed 004). `infer=False` takes each turn as it is; a procedural memory is one record of all of them. System messages are
never a source of facts, nor are earlier turns: a chat model sees them only to understand. It does not see memories: models
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
from langmem_adapter.pipeline.state import Ask, NodeResult, PipelineState, finish_stage, scope_of, thinking
from langmem_adapter.reasoning.base import ExtractInput, KnownNames
from langmem_adapter.records.results import PROCEDURAL, Fact, Turn, Usage
from langmem_adapter.storage.graph.hints import load_names
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.pipeline.state import Planner, StageParts, Thoughts, Work
    from langmem_adapter.reasoning.base import Extraction


def extract_stage(parts: StageParts) -> Planner:
    """The second stage: `turns` to `facts`. Several conversations are read at once, each separately."""
    return thinking(partial(_extract, parts))


def _extract(parts: StageParts, state: PipelineState) -> Thoughts:
    task, reasoner = state["task"], parts.reasoner
    if task["prompt"] is not None and not reasoner.calls_model:
        raise InvalidInputError(
            "prompt is an instruction for a chat model, and there is none; also give model='openai:…' or the like"
        )
    if task["prompt"] is not None and not task["infer"] and task["memory_type"] != PROCEDURAL:
        raise InvalidInputError(
            "prompt says how facts are found, and infer=False keeps messages as they are; leave one out"
        )
    turns = [Turn.from_json(turn) for turn in state["turns"]]
    by_item: defaultdict[int, list[int]] = defaultdict(list)
    for place, turn in enumerate(turns):
        by_item[turn.item].append(place)
    places = [by_item[item] for item in sorted(by_item)]
    if task["memory_type"] == PROCEDURAL:
        return _collect(state, places, (yield Ask(reasoner.record, _questions(state, turns, places, "procedure"))))
    if not task["infer"]:
        kept = [(place, turn.text) for place, turn in enumerate(turns) if turn.role != "system" and turn.text]
        return _finish(state, [Fact(text, place, verbatim=True) for place, text in kept], Usage())
    speaks = any(turn.role == "assistant" and turn.text for turn in turns)
    questions = _questions(state, turns, places, "assistant" if scope_of(state).agent_id and speaks else "user")
    names, tools = _graph_names(parts, state, turns), parts.settings.facts_from_tools
    must_read = task.get("on_bad_reply") == "raise"
    questions = [replace(question, graph=names, tools=tools, must_read=must_read) for question in questions]
    return _collect(state, places, (yield Ask(reasoner.extract, questions)))


def _graph_names(parts: StageParts, state: PipelineState, turns: Sequence[Turn]) -> KnownNames | None:
    """The names of the graph that a chat model is to use again; rules use the names as they are said."""
    if not parts.uses_graph or not parts.reasoner.calls_model:
        return KnownNames() if parts.uses_graph else None
    texts = (turn.text for turn in turns)
    return KnownNames(*parts.ledger.database.fetch(load_names, scope_of(state), texts))


def _questions(
    state: PipelineState, turns: Sequence[Turn], places: Sequence[Sequence[int]], about: str
) -> list[ExtractInput]:
    before: defaultdict[int, list[Turn]] = defaultdict(list)
    for turn in map(Turn.from_json, state.get("before", [])):
        before[turn.item].append(turn)
    prompt = state["task"]["prompt"]
    own = [tuple(turns[place] for place in item) for item in places]
    return [ExtractInput(each, about, each[-1].time.date(), prompt, before=tuple(before[each[0].item])) for each in own]


def _collect(state: PipelineState, places: list[list[int]], extractions: list[Extraction]) -> NodeResult:
    """The facts of all conversations; each speaker's once for each date given, the first of those in the same words."""
    facts: list[Fact] = []
    for item, extraction in zip(places, extractions, strict=True):
        distinct: dict[tuple[Any, ...], Fact] = {}
        for fact in reversed(extraction.facts):
            turn = state["turns"][item[fact.turn]]
            actor = "" if fact.unattributed else turn["actor"]
            date = datetime.fromisoformat(turn["time"]) if turn.get("dated") else None
            distinct[text_hash(fact.text), actor, date] = replace(fact, turn=item[fact.turn])
        facts += reversed(distinct.values())
    notes = [list(extraction.notes) for extraction in extractions]
    return _finish(state, facts, sum((extraction.usage for extraction in extractions), Usage()), notes)


def _finish(state: PipelineState, facts: Sequence[Fact], usage: Usage, notes: Sequence[list[str]] = ()) -> NodeResult:
    total = Usage.from_json(state["work"]["usage"]) + usage
    changed: Work = {"usage": total.to_json(), "notes": list(notes)}
    work = finish_stage(state, "extract", changed, facts=len(facts))
    # A command costs half of what a conditional edge does, which reads the whole state once more.
    goto = "retrieve" if facts and not facts[0].verbatim else "decide"
    return Command(update={"facts": [fact.to_json() for fact in facts], **work}, goto=goto)
