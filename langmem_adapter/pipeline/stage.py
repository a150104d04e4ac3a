"""What a stage of the pipeline is: a node of the graph whose work is a plan (`langmem_adapter.twins`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.runnables import Runnable, RunnableConfig
    from langgraph.types import Command

    from langmem_adapter.arguments import Longest
    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.pipeline.state import PipelineState
    from langmem_adapter.reasoning.base import Describer, Reasoner
    from langmem_adapter.search.searcher import Searcher
    from langmem_adapter.settings import Settings
    from langmem_adapter.storage.ledger import Ledger

__all__ = ["Ask", "NodeResult", "Planner", "StageParts", "StateEdit", "thinking"]

StateEdit: TypeAlias = dict[str, Any]
"""What a node changes in a graph's state."""
NodeResult: TypeAlias = "StateEdit | Command[Any]"
"""An update, and perhaps where to go with it."""
Planner: TypeAlias = "Callable[[PipelineState, RunnableConfig | None], Plan[NodeResult]]"
"""From the state to what a stage does."""


class StageParts(Protocol):
    """What the stages work with: some of the parts of a memory, which they do not know as a whole."""

    settings: Settings
    longest: Longest
    uses_graph: bool
    reasoner: Reasoner
    describer: Describer | None
    searcher: Searcher
    embedder: Embedder
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Ask:
    """Questions for somebody, asked side by side, and what to make of the answers: a step, or what is to be asked next."""

    whom: Runnable[Any, Any]
    questions: Sequence[Any]
    then: Callable[[list[Any]], NodeResult | Ask]


def thinking(think: Callable[[PipelineState], NodeResult | Ask]) -> Planner:
    """A stage that thinks, and may ask somebody.

    It thinks, and reads the answers, beside the event loop: both take as long as the conversation is.
    """
    return lambda state, config: Plan(partial(think, state)).and_then(partial(_answered, config))


def _answered(config: RunnableConfig | None, step: NodeResult | Ask) -> Plan[NodeResult]:
    if not isinstance(step, Ask):
        return Plan.known(step)
    answers = Plan.calling(step.whom.batch, step.whom.abatch, list(step.questions), config)
    return answers.and_then(lambda given: Plan(partial(step.then, given))).and_then(partial(_answered, config))
