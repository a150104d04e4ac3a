"""Review: a person looks at the decisions before they are applied.

The node stops the graph (LangGraph's `interrupt`) with the decisions as its value, and goes on with the answer: accepted,
edited or rejected, one by one. It stands before apply, so nothing is written while the run waits, and the node may run twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from langgraph.types import interrupt

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.names import says
from langmem_adapter.pipeline.state import finished, known_texts
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.work import Decision

if TYPE_CHECKING:
    from langmem_adapter.pipeline.state import PipelineState

__all__ = ["review"]

_ACTIONS: Final = ("accept", "reject", "edit")


def review(state: PipelineState) -> dict[str, Any]:
    """Stop with the decisions, resume with what became of them.

    The interrupt's value is `{"decisions": [{"number", "event", "text", "previous_text", "memory_id", "reason",
    "relations"}, …]}`.
    Resume with `Command(resume=…)`: `"accept"` or `"reject"` for all, or a mapping from number, as text, to `"accept"`,
    `"reject"` or `{"action": "edit", "text": …}`, which keeps the relations that the new text still speaks of; what is not
    named is accepted. A rejected decision becomes NONE, with
    that as its reason. An answer that is none of these stops the run again, with what is wrong as `"error"` in the value.
    """
    decisions = [Decision.from_json(decision) for decision in state["decisions"]]
    open_ones = [number for number, decision in enumerate(decisions) if decision.event != "NONE"]
    if not open_ones:
        return finished(state, "review")
    known = known_texts(state)
    shown = {"decisions": [_shown(known, decisions[number], number) for number in open_ones]}
    reviewed = _answered(shown, decisions, open_ones)
    return {"decisions": [decision.to_json() for decision in reviewed], **finished(state, "review")}


def _answered(shown: dict[str, Any], decisions: list[Decision], open_ones: list[int]) -> list[Decision]:
    answer = interrupt(shown)
    while True:
        try:
            actions = _actions(answer, open_ones)
            return [_reviewed(decision, actions.get(number, "accept")) for number, decision in enumerate(decisions)]
        except InvalidInputError as error:
            # An error would end the node, and the answer that caused it would be replayed at every resume: ask again.
            answer = interrupt({**shown, "error": str(error)})


def _shown(known: Mapping[str, str], decision: Decision, number: int) -> dict[str, Any]:
    return {
        "number": number,
        "event": decision.event,
        "text": decision.text,
        "previous_text": known.get(str(decision.memory_id)),
        "memory_id": decision.memory_id,
        "reason": decision.reason,
        "relations": [triple.to_json() for triple in decision.relations],
    }


def _actions(answer: object, numbers: list[int]) -> dict[int, Any]:
    if isinstance(answer, str) and answer in {"accept", "reject"}:
        return dict.fromkeys(numbers, answer)
    if not isinstance(answer, Mapping):
        raise InvalidInputError(f"resume a review with 'accept', 'reject' or a mapping by number, not {answer!r}")
    return {_number(key, numbers): action for key, action in answer.items()}


def _number(key: object, numbers: list[int]) -> int:
    if str(key) not in {str(number) for number in numbers}:
        raise InvalidInputError(f"there is no decision {key!r} to review; the numbers are {numbers}")
    return int(str(key))


def _reviewed(decision: Decision, action: object) -> Decision:
    match action:
        case "accept" | {"action": "accept"}:
            return decision
        case "reject" | {"action": "reject"}:
            memory_id, told = decision.memory_id, "rejected in review"
            return Decision("NONE", memory_id, decision.text, told, fact=decision.fact, seen=decision.seen)
        case {"action": "edit", "text": str(text)} if text.strip() and decision.event != "DELETE":
            relations = tuple(each for each in decision.relations if says(text, each.target) or says(text, each.source))
            reason = f"{decision.reason}; edited in review"
            return replace(decision, text=check_text(text, "text"), reason=reason, relations=relations)
    raise InvalidInputError(
        f"a review answers each decision with one of {_ACTIONS}, an edit as {{'action': 'edit', 'text': '…'}} and never of a "
        f"DELETE; got {action!r}"
    )
