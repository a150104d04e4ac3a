"""What adds saw and did: a list of them, and one as the pipeline that it ran through."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

from langmem_adapter.records.escapes import DiffPart, differences
from langmem_adapter.records.results import Change, Decision, ModelCall, Turn
from langmem_adapter.server.page.layout import PREFIX, pieces
from langmem_adapter.server.page.view import AddressScope, Filled, Reading
from langmem_adapter.storage.traces import Trace, TracePage

_STAGES: Final = ("parse", "extract", "retrieve", "decide", "apply")
_ASKS: Final = {
    "describe image": "parse",
    "facts_found": "extract",
    "record steps": "extract",
    "memory_decided": "decide",
}


class _Asked(AddressScope):
    after: Filled[str] = None


router = APIRouter(prefix=f"{PREFIX}/traces")


@router.get("")
async def listed(view: Reading, asked: Annotated[_Asked, Query()]) -> Response:
    fields = await view.shown(asked)
    page = TracePage() if fields is None else await view.memory.atraces(**fields, after=asked.after)
    days = view.memory.settings.trace_days
    return view.show("traces", fields, page=page, days=days, is_first=asked.after is None)


@router.get("/{trace_id}")
async def one(view: Reading, trace_id: str, asked: Annotated[AddressScope, Query()]) -> Response:
    fields = view.whose(asked)
    trace = await view.memory.atrace(trace_id, **fields)
    return view.show("trace", fields or trace.scope.named, trace=trace, course=_course(trace))


def _course(trace: Trace) -> dict[str, Any]:
    """What the template shows beside the trace; facts and turns are numbered from 1."""
    known: list[dict[str, str]] = trace.candidates.get("known", [])
    times, results = trace.result.usage.milliseconds, trace.result.results
    return {
        "said": next((turn.text for turn in trace.turns if turn.role != "system" and turn.text), ""),
        "stages": _stages(times, trace.calls),
        "milliseconds": fsum(times.values()),
        "conversations": _conversations(trace),
        "facts": list(enumerate(trace.facts, 1)),
        "verbatim": any(fact.verbatim for fact in trace.facts),
        "compared": known[: trace.candidates.get("shown", 0)],
        "outcomes": _outcomes(trace, {each["id"]: each for each in known}),
        "events": Counter(change.event for change in results),
        "changes": [change for change in results if change.event != "NONE" or change.relations],
        "others": [call for call in trace.calls if call.task not in _ASKS],
        "is_note": "extract" not in times,  # a conversation was summed up
    }


def _stages(times: Mapping[str, float], calls: Sequence[ModelCall]) -> dict[str, dict[str, Any]]:
    """Each stage with its time, `None` where it was left out, its piece of the time of all, and its calls of the model."""
    told = pieces({name: times.get(name, 0.0) for name in _STAGES}, fsum(times.values()))
    return {
        piece.name: {
            "milliseconds": times.get(piece.name),
            "piece": piece,
            "calls": [call for call in calls if _ASKS.get(call.task) == piece.name],
        }
        for piece in told
    }


def _conversations(trace: Trace) -> list[dict[str, Any]]:
    """What parse made of the messages of each: earlier turns, its own with their numbers, and what was not used."""
    notes = trace.state["work"].get("notes", [])
    before = [Turn.from_json(each) for each in trace.state.get("before", ())]
    numbered = list(enumerate(trace.turns, 1))
    return [
        {
            "before": [turn for turn in before if turn.item == item],
            "turns": [(number, turn) for number, turn in numbered if turn.item == item],
            "notes": [note for told in notes[item : item + 1] for note in told],
        }
        for item in sorted({turn.item for turn in trace.turns})
    ]


def _outcomes(trace: Trace, known: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    results: Sequence[Change | None] = trace.result.results
    if len(results) != len(trace.decisions):  # the result of an earlier run of this name
        results = [None] * len(trace.decisions)
    pairs = zip(trace.decisions, results, strict=True)
    return [_outcome(decision, change, known) for decision, change in pairs]


def _outcome(decision: Decision, change: Change | None, known: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """What became of a fact, and what that changes of the text of a memory."""
    target = known.get(decision.memory_id or decision.past_of or "")
    before = (change and change.previous_text) or (target["text"] if target else "")
    parts: Sequence[DiffPart] = ()
    if decision.event == "UPDATE" and decision.text is not None:
        parts = differences(before, decision.text)
    elif decision.event == "DELETE":
        parts = [("gone", change.text if change else before)]
    number = None if decision.fact is None else decision.fact + 1
    return {"number": number, "decision": decision, "parts": parts, "target": target}
