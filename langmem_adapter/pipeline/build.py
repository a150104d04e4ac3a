"""The pipeline as a compiled LangGraph graph, with an optional human review.

The node stops the graph (LangGraph's `interrupt`) with the decisions as its value, and goes on with the answer: accepted,
edited or rejected, one by one. It stands before apply, so nothing is written while the run waits, and the node may run twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, interrupt

from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.names import mentions_name
from langmem_adapter.pipeline.apply import apply_stage
from langmem_adapter.pipeline.decide import decide_stage
from langmem_adapter.pipeline.extract import extract_stage
from langmem_adapter.pipeline.parse import parse_stage
from langmem_adapter.pipeline.retrieve import Queue, in_queue, queue_of, retrieve_stage
from langmem_adapter.pipeline.state import (
    PipelineInput,
    PipelineOutput,
    PipelineState,
    begins,
    finished,
    for_caller,
    goes_on,
    known_texts,
    thinking,
)
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.results import Decision
from langmem_adapter.tracing import PlanNode

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Checkpointer

    from langmem_adapter.pipeline.state import Planner, StageParts

_ACTIONS: Final = ("accept", "reject", "edit")


def review_stage(state: PipelineState) -> dict[str, Any]:
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
            relations = tuple(
                each
                for each in decision.relations
                if mentions_name(text, each.target) or mentions_name(text, each.source)
            )
            reason = f"{decision.reason}; edited in review"
            return replace(decision, text=check_text(text, "text"), reason=reason, relations=relations)
    raise InvalidInputError(
        f"a review answers each decision with one of {_ACTIONS}, an edit as {{'action': 'edit', 'text': '…'}} and never of a "
        f"DELETE; got {action!r}"
    )


_DESTINATIONS: Final = {"extract": ("retrieve", "decide"), "apply": ("retrieve", END)}  # of those that choose their own


def build_pipeline(
    parts: StageParts,
    *,
    review: bool = False,
    dry: bool = False,
    served: bool = False,
    checkpointer: Checkpointer = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Compile the five stages.

    Args:
        parts: What they work with.
        review: Stop before apply, with the decisions as the interrupt's value; needs a checkpointer, here or in the parent.
        dry: End after decide; nothing is written.
        served: Others than `Memory.add` run it: each stage asks whose memory it is.
        checkpointer: Keeps the state between the stages; `None` takes the parent graph's, `False` none at all.

    Returns:
        A graph from `PipelineInput` to `PipelineOutput` with the nodes parse, extract, retrieve, decide, (review,) apply.
    """
    graph = StateGraph(
        PipelineState, input_schema=PipelineInput, output_schema=PipelineState if dry else PipelineOutput
    )
    for name, stage in _stages(parts, dry=dry, review=review).items():
        node = for_caller(stage, begins if name == "parse" else goes_on) if served else stage
        graph.add_node(name, PlanNode(node), retry_policy=RETRIES, destinations=_DESTINATIONS.get(name))
    graph.add_edge(START, "parse")
    graph.add_edge("parse", "extract")
    graph.add_edge("retrieve", "decide")
    if review:
        graph.add_edge("decide", "review")
        graph.add_edge("review", "apply")
    elif not dry:
        graph.add_edge("decide", "apply")
    compiled = graph.compile(checkpointer=checkpointer, name="memory_pipeline")
    # Without it LangGraph fails to run it within a graph that is called with durability="sync".
    alone = {"__pregel_durability": "async"} if checkpointer is False else {}
    return compiled.with_config(recursion_limit=10 + 4 * parts.settings.attempts, configurable=alone)


def _stages(parts: StageParts, *, dry: bool, review: bool) -> dict[str, Planner]:
    """What the graph consists of, by name."""
    waits = not (dry or review)  # nobody waits for what is never written, nor for a person
    queue = queue_of(parts.ledger.database) if waits else Queue()
    lease = 2.5 * parts.settings.model_timeout if waits else 0.0  # decide and its repair are two calls
    stages = {
        "parse": parse_stage(parts.describer, parts.longest),
        "extract": extract_stage(parts),
        "retrieve": in_queue(retrieve_stage(parts, queue, lease=lease), queue),
        "decide": in_queue(decide_stage(parts.reasoner, graph=parts.uses_graph), queue, last=dry),
    }
    if review:
        stages["review"] = thinking(review_stage)
    if not dry:
        stages["apply"] = in_queue(apply_stage(parts), queue, last=True)
    return stages


def _worth_another_try(error: Exception) -> bool:
    # Models are asked again where they are called (`langmem_adapter.providers`): two that count would multiply.
    # What has waited for a lock has used up `busy_timeout`, the one deadline of all tries.
    return isinstance(error, StorageError) and error.transient and not error.waited


RETRIES: Final = RetryPolicy(initial_interval=0.2, max_interval=5.0, max_attempts=3, retry_on=_worth_another_try)
"""Of a failure of the database that may pass (a lost connection): three tries, 0.2 seconds and more between them."""
