"""One run of the pipeline, from the caller's side: arguments in, results out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.arguments import flag
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.parse import OF_ITEM, ParsedConversation, conversation_of, is_verbatim, key_of
from langmem_adapter.pipeline.state import cost_of, known_texts
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.cost import Usage
from langmem_adapter.records.results import AddResult
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.records.work import PROCEDURAL, Change, Decision, Turn
from langmem_adapter.twins import arguments_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from langmem_adapter.arguments import Longest
    from langmem_adapter.storage.traces import Trace

__all__ = ["Run", "grouped", "run_of", "said_again", "would_be"]

_OF_RUN: Final = ("infer", "memory_type", "prompt", "idempotency_key")
_KNOWN: Final = frozenset((*SCOPE_FIELDS, *OF_ITEM, *_OF_RUN))


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of the pipeline is given.

    Attributes:
        key: Names the run within its scope; new ids derive from both.
        repeatable: Whether the caller named the run, so that it may have happened before.
        conversations: What was said, read.
    """

    scope: Scope
    infer: bool
    memory_type: str | None
    prompt: str | None
    key: str
    repeatable: bool
    conversations: list[ParsedConversation]

    def state(self) -> dict[str, Any]:
        """The graph's input."""
        how = {name: getattr(self, name) for name in ("infer", "memory_type", "prompt", "key")}
        return {"items": self.conversations, "scope": self.scope.named, **how}

    def results(self, output: Mapping[str, Any]) -> list[AddResult]:
        """One result per item, in order, from the graph's output."""
        result = output["result"]
        changes: list[list[Change]] = [[] for _ in self.conversations]
        for change, item in zip(result["results"], result["items"], strict=True):
            changes[item].append(Change.from_json(change))
        usage = Usage.from_json(result["usage"])
        return [
            AddResult(
                results=tuple(own),
                mode=result["mode"],
                usage=usage,
                notes=tuple(notes),
                trace_id=result["trace_id"],
            )
            for own, notes in zip(changes, result["notes"], strict=True)
        ]


def run_of(arguments: object, longest: Longest) -> Run:
    """The run of one `add`.

    Raises:
        ScopeError: No scope is named.
        InvalidInputError: An argument does not exist, or cannot be used; the message says which.
    """
    arguments = arguments_of(arguments, "add", _KNOWN)
    scope = Scope(**{name: arguments.get(name) for name in SCOPE_FIELDS})
    infer, prompt, named = arguments.get("infer", True), arguments.get("prompt"), arguments.get("idempotency_key")
    if prompt is not None:
        check_text(prompt, "prompt")
    memory_type = _memory_type(arguments.get("memory_type"), scope)
    infer = flag(infer, "infer")
    read = conversation_of(arguments, scope=scope, longest=longest, verbatim=is_verbatim(infer, memory_type))
    return Run(scope, infer, memory_type, prompt, key_of(named, "idempotency_key"), named is not None, [read])


def grouped(runs: Iterable[tuple[int, Run]]) -> list[tuple[list[int], Run]]:
    """Runs that may share one transaction, joined: same scope, same instructions, no name of their own.

    Each comes with its place among the caller's items, and goes with the places of all that it joins.
    """
    joined: dict[object, tuple[list[int], Run]] = {}
    for place, run in runs:
        group = place if run.repeatable else (run.scope, run.infer, run.memory_type, run.prompt)
        places, first = joined.setdefault(group, ([], run))
        places.append(place)
        if first is not run:
            first.conversations.extend(run.conversations)
    return list(joined.values())


def _memory_type(memory_type: object, scope: Scope) -> str | None:
    if memory_type is not None and memory_type != PROCEDURAL:
        raise InvalidInputError(f"memory_type must be {PROCEDURAL!r} or left out, not {quoted(memory_type)}")
    if memory_type == PROCEDURAL and scope.agent_id is None:
        raise InvalidInputError("a procedural memory is a record of what an agent did; give agent_id")
    return PROCEDURAL if memory_type else None


# ── once more, as a dry run ────────────────────────────────────────────────────────────────────────────────────────────


def said_again(trace: Trace) -> dict[str, Any]:
    """The graph's input that gives the turns of a trace once more, under a name of its own.

    Raises:
        InvalidInputError: It has none.
    """
    state, task = trace.state, trace.state["task"]
    if not trace.turns:
        raise InvalidInputError("there is nothing to remember: the trace has no turns")
    before = [Turn.from_json(turn) for turn in state.get("before", [])]
    items = []
    for place, item in enumerate(task["items"]):
        said = [replace(turn, dated=True) for turn in trace.turns if turn.item == place]  # they are not said today
        given = {**item, "messages": [turn.text for turn in said]}
        items.append(ParsedConversation(given, [turn for turn in before if turn.item == place], said))
    return {"items": items, **{name: task[name] for name in ("scope", "infer", "memory_type", "prompt")}}


def would_be(output: Mapping[str, Any], mode: str) -> AddResult:
    """What a run that ended before apply would have done."""
    known = known_texts(output)
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
