"""Replaying a trace as a dry run: the same turns, today's reasoner and memories, nothing written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langmem_adapter.pipeline.parse import key_of
from langmem_adapter.pipeline.state import cost_of
from langmem_adapter.records.results import AddResult
from langmem_adapter.records.work import Change, Decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langmem_adapter.storage.traces import Trace

__all__ = ["said_again", "would_be"]


def said_again(trace: Trace) -> dict[str, Any]:
    """The graph's input that gives the turns of a trace once more, under a name of its own."""
    state = trace.state
    return {
        "task": {**state["task"], "key": key_of(None)},
        "turns": [{**turn, "dated": True} for turn in state["turns"]],  # they are not said today
        "before": state.get("before", []),
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


def _change(decision: Decision, known: Mapping[str, str]) -> Change:
    before = known.get(str(decision.memory_id))
    return Change(
        id=decision.memory_id,
        text=before if decision.event == "DELETE" and before is not None else decision.text or "",
        event=decision.event,
        previous_text=before if decision.event == "UPDATE" else None,
        reason=decision.reason,
    )
