"""A trace as one looks at it: the stages with their time, each fact with what became of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Final

from langmem_adapter.diffs import Part, differences
from langmem_adapter.records.work import Turn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langmem_adapter.records.cost import ModelCall
    from langmem_adapter.records.work import Change, Decision, Fact
    from langmem_adapter.storage.traces import Trace

__all__ = ["Compared", "FactOutcome", "Stage", "TraceConversation", "TraceView", "course"]

_STAGES: Final = ("parse", "extract", "retrieve", "decide", "apply")
_SHOWN: Final = ("id", "text", "since", "speaker")
_ASKS: Final = {
    "describe image": "parse",
    "facts_found": "extract",
    "record steps": "extract",
    "memory_decided": "decide",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the pipeline.

    Attributes:
        name: Which.
        milliseconds: How long it took; `None` where that is not known, or it was left out.
        begins: Where its time begins within that of all, in percent.
        length: How much of it that is, in percent.
        calls: The calls of the chat model in it.
    """

    name: str
    milliseconds: float | None
    begins: float
    length: float
    calls: Sequence[ModelCall]


@dataclass(frozen=True, slots=True)
class TraceConversation:
    """A conversation of the add.

    Attributes:
        before: Earlier turns, which only help to understand.
        turns: Its turns, each with its number within the add, from 1.
        notes: What was seen in it and not used.
    """

    before: Sequence[Turn]
    turns: Sequence[tuple[int, Turn]]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Compared:
    """A memory that facts were compared with.

    Attributes:
        id: Its id.
        text: Its text as it was shown.
        since: The date of its last statement, in ISO 8601.
        speaker: Whose statement it is, where that is somebody named.
    """

    id: str
    text: str
    since: str
    speaker: str


@dataclass(frozen=True, slots=True)
class FactOutcome:
    """What became of a fact.

    Attributes:
        number: The fact's, from 1; `None` for what no fact asked for.
        fact: The fact.
        decision: What was decided.
        parts: What that changes of the text of a memory.
        target: The memory that it concerns, as it was shown.
        change: What apply did; `None` where the two lists do not belong together.
    """

    number: int | None
    fact: Fact | None
    decision: Decision
    parts: Sequence[Part]
    target: Compared | None
    change: Change | None


@dataclass(frozen=True, slots=True)
class TraceView:
    """A trace as one looks at it.

    Attributes:
        said: The beginning of what was said.
        stages: The five of them, by name.
        milliseconds: Of all that were timed.
        conversations: What parse made of the messages.
        facts: The facts, each with its number, from 1.
        verbatim: Whether turns were kept as they are.
        compared: The memories that every fact was compared with.
        outcomes: What became of the facts, in order.
        events: How many changes there were of each kind.
        changes: Those that changed something.
        others: Calls of the chat model outside of the stages.
        is_note: Whether it is no add: a conversation was summed up.
    """

    said: str
    stages: Mapping[str, Stage]
    milliseconds: float
    conversations: Sequence[TraceConversation]
    facts: Sequence[tuple[int, Fact]]
    verbatim: bool
    compared: Sequence[Compared]
    outcomes: Sequence[FactOutcome]
    events: Mapping[str, int]
    changes: Sequence[Change]
    others: Sequence[ModelCall]
    is_note: bool


def course(trace: Trace) -> TraceView:
    """A trace as one looks at it."""
    known = [Compared(**{name: each[name] for name in _SHOWN}) for each in trace.candidates.get("known", ())]
    times, results = trace.result.usage.milliseconds, trace.result.results
    return TraceView(
        said=next((turn.text for turn in trace.turns if turn.role != "system" and turn.text), ""),
        stages=_stages(times, trace.calls),
        milliseconds=fsum(times.values()),
        conversations=_conversations(trace),
        facts=list(enumerate(trace.facts, 1)),
        verbatim=any(fact.verbatim for fact in trace.facts),
        compared=known[: trace.candidates.get("shown", 0)],
        outcomes=_outcomes(trace, {each.id: each for each in known}),
        events=Counter(change.event for change in results),
        changes=[change for change in results if change.event != "NONE" or change.relations],
        others=[call for call in trace.calls if call.task not in _ASKS],
        is_note="extract" not in times,
    )


def _stages(times: Mapping[str, float], calls: Sequence[ModelCall]) -> dict[str, Stage]:
    whole, begins, stages = fsum(times.values()) or 1.0, 0.0, {}
    for name in _STAGES:
        length = 100 * times.get(name, 0.0) / whole
        own = [call for call in calls if _ASKS.get(call.task) == name]
        stages[name] = Stage(name, times.get(name), begins, length, own)
        begins += length
    return stages


def _conversations(trace: Trace) -> list[TraceConversation]:
    state = trace.state
    notes = state["work"].get("notes", [])
    before = [Turn.from_json(each) for each in state.get("before", ())]
    numbered = list(enumerate(trace.turns, 1))
    return [
        TraceConversation(
            before=[turn for turn in before if turn.item == item],
            turns=[(number, turn) for number, turn in numbered if turn.item == item],
            notes=[note for told in notes[item : item + 1] for note in told],
        )
        for item in sorted({turn.item for turn in trace.turns})
    ]


def _outcomes(trace: Trace, known: Mapping[str, Compared]) -> list[FactOutcome]:
    results: Sequence[Change | None] = trace.result.results
    if len(results) != len(trace.decisions):  # the result of an earlier run of this name
        results = [None] * len(trace.decisions)
    pairs = zip(trace.decisions, results, strict=True)
    return [_outcome(trace, decision, change, known) for decision, change in pairs]


def _outcome(trace: Trace, decision: Decision, change: Change | None, known: Mapping[str, Compared]) -> FactOutcome:
    target = known.get(decision.memory_id or decision.past_of or "")
    before = (change and change.previous_text) or (target.text if target else "")
    parts: Sequence[Part] = ()
    if decision.event == "UPDATE" and decision.text is not None:
        parts = differences(before, decision.text)
    elif decision.event == "DELETE":
        parts = [("gone", change.text if change else before)]
    fact = None if decision.fact is None else trace.facts[decision.fact]
    return FactOutcome(None if decision.fact is None else decision.fact + 1, fact, decision, parts, target, change)
