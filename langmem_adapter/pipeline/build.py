"""The pipeline as a compiled LangGraph graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

from langmem_adapter.errors import StorageError
from langmem_adapter.pipeline.apply import apply_stage
from langmem_adapter.pipeline.decide import decide_stage
from langmem_adapter.pipeline.extract import extract_stage
from langmem_adapter.pipeline.parse import parse_stage
from langmem_adapter.pipeline.queue import Queue, in_queue, queue_of
from langmem_adapter.pipeline.retrieve import retrieve_stage
from langmem_adapter.pipeline.review import review as review_of
from langmem_adapter.pipeline.scope_check import begins, for_caller, goes_on
from langmem_adapter.pipeline.stage import thinking
from langmem_adapter.pipeline.state import PipelineInput, PipelineOutput, PipelineState
from langmem_adapter.tracing import PlanNode

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Checkpointer

    from langmem_adapter.pipeline.stage import Planner, StageParts

__all__ = ["RETRIES", "build_pipeline"]

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
        stages["review"] = thinking(review_of)
    if not dry:
        stages["apply"] = in_queue(apply_stage(parts), queue, last=True)
    return stages


def _worth_another_try(error: Exception) -> bool:
    # Models are asked again where they are called (`langmem_adapter.limits`): two that count would multiply.
    # What has waited for a lock has used up `busy_timeout`, the one deadline of all tries.
    return isinstance(error, StorageError) and error.transient and not error.waited


RETRIES: Final = RetryPolicy(initial_interval=0.2, max_interval=5.0, max_attempts=3, retry_on=_worth_another_try)
"""Of a failure of the database that may pass (a lost connection): three tries, 0.2 seconds and more between them."""
