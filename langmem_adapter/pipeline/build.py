"""The pipeline as a compiled LangGraph graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from langgraph.graph import END, START, StateGraph

from langmem_adapter.pipeline.apply import apply_stage
from langmem_adapter.pipeline.decide import decide_stage
from langmem_adapter.pipeline.extract import extract_stage
from langmem_adapter.pipeline.parse import parse_stage
from langmem_adapter.pipeline.queue import InQueue, Queue, queue_of
from langmem_adapter.pipeline.retries import RETRIES
from langmem_adapter.pipeline.retrieve import retrieve_stage
from langmem_adapter.pipeline.review import review as review_of
from langmem_adapter.pipeline.scope_check import ScopeCheck, begins, goes_on
from langmem_adapter.pipeline.stage import AskingStage
from langmem_adapter.pipeline.state import PipelineInput, PipelineOutput, PipelineState

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Checkpointer

    from langmem_adapter.arguments import Longest
    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.pipeline.stage import Step, WorkingStage
    from langmem_adapter.reasoning.base import Describer, Reasoner
    from langmem_adapter.search.searcher import Searcher
    from langmem_adapter.storage.ledger import Ledger

__all__ = ["Dependencies", "build_pipeline"]

_DESTINATIONS: Final = {"extract": ("retrieve", "decide"), "apply": ("retrieve", END)}  # of those that choose their own


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What the stages work with; they do not know `Memory`.

    Attributes:
        reasoner: Finds and compares facts.
        describer: Puts images into words; `None` leaves them to the notes.
        searcher: Finds neighbours.
        embedder: Makes vectors, once for each text of a run.
        ledger: Writes.
        longest: How long messages may be.
        candidate_tokens: Of the memories that ten facts are compared with.
        lease: Seconds for which others of its scope wait for a run, to be compared with what it adds.
        attempts: How often a run starts over after a conflict.
        trace_days: How long to keep what each run saw; 0 keeps nothing.
        graph: Whether facts are to say their relations, for the knowledge graph.
        tools: Whether facts are taken from what tools returned as well.
    """

    reasoner: Reasoner
    describer: Describer | None
    searcher: Searcher
    embedder: Embedder
    ledger: Ledger
    longest: Longest
    candidate_tokens: int
    lease: float
    attempts: int
    trace_days: float
    graph: bool = False
    tools: bool = False


def build_pipeline(
    parts: Dependencies,
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
        served: Others than `Memory.add` run it: see `served`.
        checkpointer: Keeps the state between the stages; `None` takes the parent graph's, `False` none at all.

    Returns:
        A graph from `PipelineInput` to `PipelineOutput` with the nodes parse, extract, retrieve, decide, (review,) apply.
    """
    graph = StateGraph(
        PipelineState, input_schema=PipelineInput, output_schema=PipelineState if dry else PipelineOutput
    )
    if dry or review:  # nobody waits for what is never written, nor for a person
        parts = replace(parts, lease=0)
    queue = Queue() if dry or review else queue_of(parts.ledger.database)
    for name, stage in _stages(parts, queue, dry=dry, review=review).items():
        node = ScopeCheck(stage, begins if name == "parse" else goes_on) if served else stage
        graph.add_node(name, node, retry_policy=RETRIES, destinations=_DESTINATIONS.get(name))
    graph.add_edge(START, "parse")
    graph.add_edge("parse", "extract")
    graph.add_edge("retrieve", "decide")
    if review:
        graph.add_edge("decide", "review")
        graph.add_edge("review", "apply")
    elif not dry:
        graph.add_edge("decide", "apply")
    compiled = graph.compile(checkpointer=checkpointer, name="memory_pipeline")
    return compiled.with_config(recursion_limit=10 + 4 * parts.attempts)


def _stages(parts: Dependencies, queue: Queue, *, dry: bool, review: bool) -> dict[str, Runnable[PipelineState, Step]]:
    """What the graph consists of, by name."""
    stages: dict[str, Runnable[PipelineState, Step]] = {
        "parse": parse_stage(parts.describer, parts.longest),
        "extract": extract_stage(
            parts.reasoner, parts.searcher, parts.ledger.database if parts.graph else None, tools=parts.tools
        ),
        "retrieve": InQueue(
            retrieve_stage(parts.searcher, parts.embedder, queue, tokens=parts.candidate_tokens, lease=parts.lease),
            queue,
        ),
        "decide": InQueue(decide_stage(parts.reasoner, graph=parts.graph), queue, last=dry),
    }
    if review:
        stages["review"] = AskingStage(review_of)
    if not dry:
        stages["apply"] = InQueue(_apply(parts), queue, last=True)
    return stages


def _apply(parts: Dependencies) -> WorkingStage:
    return apply_stage(
        parts.ledger,
        parts.embedder,
        attempts=parts.attempts,
        mode=parts.reasoner.mode,
        trace_days=parts.trace_days,
        graph=parts.graph,
    )
