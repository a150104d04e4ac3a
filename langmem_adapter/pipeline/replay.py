"""Replaying a trace as a dry run: the same turns, today's reasoner and memories, nothing written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langmem_adapter.pipeline.state import cost_of
from langmem_adapter.records.plain import shallow
from langmem_adapter.records.results import AddResult
from langmem_adapter.records.work import Change, Decision, Turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langmem_adapter.pipeline.state import PipelineInput
    from langmem_adapter.storage.traces import Trace

__all__ = ["said_again", "would_be"]


def said_again(trace: Trace) -> PipelineInput:
    """The graph's input that gives the turns of a trace once more."""
    items: list[dict[str, Any]] = [{**item, "messages": []} for item in trace.state["task"]["items"]]
    for turn in trace.turns:
        items[turn.item]["messages"].append(_message(turn))
    for turn in map(Turn.from_json, trace.state.get("before", [])):
        items[turn.item].setdefault("context", []).append(_message(turn))
    return {
        "items": items,
        "scope": trace.scope.named,
        "infer": trace.state["task"]["infer"],
        "memory_type": trace.state["task"]["memory_type"],
        "prompt": trace.state["task"]["prompt"],
    }


def would_be(output: Mapping[str, Any], mode: str) -> AddResult:
    """What a run that ended before apply would have done."""
    known = {memory["id"]: memory["text"] for memory in output.get("candidates", {}).get("known", [])}
    decisions = [Decision.from_json(decision) for decision in output["decisions"]]
    return AddResult(
        results=tuple(_change(decision, known) for decision in decisions),
        mode=mode,
        usage=cost_of(output["work"]),
        notes=("a dry run: nothing was written",),
    )


def _message(turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": turn.text, "timestamp": turn.time.isoformat()}
    if turn.actor != turn.role:
        message["name"] = turn.actor
    if turn.calls:
        message["tool_calls"] = [shallow(call) for call in turn.calls]
    if turn.role == "tool":  # LangChain demands that it answers a call
        message |= {"tool_call_id": turn.answers or "replayed", "status": "error" if turn.failed else "success"}
    return message


def _change(decision: Decision, known: Mapping[str, str]) -> Change:
    before = known.get(str(decision.memory_id))
    return Change(
        id=decision.memory_id,
        text=before if decision.event == "DELETE" and before is not None else decision.text or "",
        event=decision.event,
        previous_text=before if decision.event == "UPDATE" else None,
        reason=decision.reason,
    )
