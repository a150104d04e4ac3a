"""Apply, the fifth stage of the pipeline: decisions become one transaction, and the run's result.

If others changed the memories that the decisions were based on, nothing is written: the run goes back to retrieve.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from langgraph.types import Command

from langmem_adapter.errors import ConflictError
from langmem_adapter.pipeline.parse import is_verbatim
from langmem_adapter.pipeline.state import cost_of, finish_stage, scope_of
from langmem_adapter.records.results import FORGET, Change, Decision, Usage
from langmem_adapter.storage.scopes import id_within
from langmem_adapter.storage.sources import RememberedError
from langmem_adapter.storage.traces import TraceDraft
from langmem_adapter.storage.write import Write
from langmem_adapter.twins import Plan, steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from numpy.typing import NDArray

    from langmem_adapter.pipeline.state import NodeResult, PipelineState, Planner, StageParts, StateEdit
    from langmem_adapter.twins import PlanSteps

_KEPT: Final = "existing memories keep their expiry; Memory.update(id, expires_at=…) changes it"
_CALLED: Final = "calls of tools are kept by memory_type='procedural_memory' only"
_TRACED: Final = ("task", "before", "turns", "facts", "candidates", "decisions", "work")


def apply_stage(parts: StageParts) -> Planner:
    """The fifth stage: `decisions` to `result`; vectors that retrieve has made come from the embedder's cache."""
    ledger, embedder, settings = parts.ledger, parts.embedder, parts.settings

    @steps
    def plan(state: PipelineState, _: RunnableConfig | None) -> PlanSteps[NodeResult]:
        decisions = [Decision.from_json(decision) for decision in state["decisions"]]
        kept = (each for each in decisions if each.event in {"ADD", "UPDATE"} and each.past_of is None)
        texts = [decision.text for decision in kept if decision.text is not None]
        vectors = yield from Plan.calling(embedder.vectors, embedder.avectors, texts)
        write = _write(state, decisions, dict(zip(texts, vectors, strict=True)), parts)
        changes: tuple[Change, ...] = ()
        try:
            if decisions or write.trace is not None or write.thread is not None:
                changes = yield from Plan.calling(ledger.apply, ledger.aapply, write)
        except RememberedError:
            raise
        except ConflictError:
            tries = state["work"]["attempts"] + 1
            if tries >= settings.attempts:
                raise ConflictError(
                    f"other writers changed the same memories {tries} times in a row; nothing was written, try again"
                ) from None
            return Command(update={"work": {**state["work"], "attempts": tries}}, goto="retrieve")
        done = finish_stage(state, "apply", changes=sum(change.event != "NONE" for change in changes))
        result = _result({**state, **done}, decisions, changes, parts)  # type: ignore[typeddict-item]
        trace_id = id_within(scope_of(state), state["task"]["key"]) if settings.trace_days else None
        return {"result": {**result, "trace_id": trace_id}, **done}

    return plan


def _write(
    state: PipelineState, decisions: Sequence[Decision], vectors: dict[str, NDArray[Any]], parts: StageParts
) -> Write:
    task, scope, candidates = state["task"], scope_of(state), state.get("candidates")
    return Write(
        decisions=tuple(decisions),
        scope=scope,
        within=scope,
        vectors=vectors,
        seen=candidates["seen"] if candidates else None,
        key=task["key"],
        trace=_trace(state, parts.reasoner.mode, parts.settings.trace_days),
        related=parts.uses_graph and not is_verbatim(task["infer"], task["memory_type"]),
        thread=task.get("thread"),
        digests=task.get("digests", {}),
    )


def _trace(state: PipelineState, mode: str, days: float) -> TraceDraft | None:
    if not days:
        return None
    kept: dict[str, Any] = {name: state.get(name) for name in _TRACED if name in state}
    # Contract: a trace's calls can be read, whatever was written into the state; `Leftovers` looks for erased names in them.
    # test_served.py::test_build_pipeline_a_state_without_sense_hinders_no_purge.
    kept["work"] = {**state["work"], "usage": Usage.from_json(state["work"]["usage"]).to_json()}
    return TraceDraft(days, {**kept, "mode": mode})


def _result(
    state: PipelineState, decisions: Sequence[Decision], changes: Sequence[Change], parts: StageParts
) -> StateEdit:
    turns, facts = state["turns"], state["facts"]
    items: list[int] = [turns[facts[d.fact]["turn"]]["item"] for d in decisions if d.fact is not None]
    if len(items) != len(changes):  # the result of an earlier run of this name, which has one item and other facts
        items = [0] * len(changes)
    turns_of: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    changes_of: defaultdict[int, list[Change]] = defaultdict(list)
    for turn in turns:
        turns_of[turn["item"]].append(turn)
    for item, change in zip(items, changes, strict=True):
        changes_of[item].append(change)
    places = range(len(state["task"]["items"]))
    return {
        "results": [change.to_json() for change in changes],
        "items": items,
        "notes": [_notes(state, item, turns_of[item], changes_of[item], parts) for item in places],
        "mode": parts.reasoner.mode,
        "usage": cost_of(state["work"]).to_json(),
    }


def _notes(
    state: PipelineState, item: int, turns: Sequence[Mapping[str, Any]], changes: Sequence[Change], parts: StageParts
) -> list[str]:
    notes = [note for turn in turns for note in turn.get("notes", ())]
    notes += [note for own in state["work"].get("notes", [])[item : item + 1] for note in own]
    notes += filter(None, (parts.embedder.note(change.text) for change in changes))
    unchanged = [change for change in changes if change.event == "NONE"]
    if not changes:
        notes.append(f"found no fact worth keeping in {len(turns)} message{'s' if len(turns) > 1 else ''}")
    if any(change.id for change in unchanged) and state["task"]["items"][item].get("expires_at") is not None:
        notes.append(_KEPT)
    if is_verbatim(state["task"]["infer"], state["task"]["memory_type"]):
        notes += ["system messages are never stored"] * any(turn["role"] == "system" for turn in turns)
        notes += [_CALLED] * any(turn.get("calls") for turn in turns)
    # Forget requests that matched no memory.
    return notes + [f"{change.text!r}: {change.reason}" for change in unchanged if change.text.startswith(FORGET)]
