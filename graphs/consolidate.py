"""Tidying a scope's memories as a deployable graph, for a schedule (a cron job of the server) or by hand.

Give it `{"scope": {"user_id": "alice"}}`, and `"dry_run": true` to see what it would do. Run again, it finds nothing to do.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from langchain_core.runnables import RunnableConfig  # noqa: TC002 - LangGraph reads the annotations of nodes
from langgraph.channels import EphemeralValue
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime  # noqa: TC002 - the same
from typing_extensions import TypedDict

from langmem_adapter.adapters.serving import shared_memory
from langmem_adapter.maintenance.consolidate import Tidied, Tidier
from langmem_adapter.pipeline.run import RETRIES
from langmem_adapter.records.results import Usage
from langmem_adapter.records.scope import Scope
from langmem_adapter.scoping import MemoryContext, resolve_again, resolve_scope

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

    from langmem_adapter.memory.memory import Memory

__all__ = ["graph", "make_graph"]

_BATCH: Final = 20  # memories of one step
_MOST_STEPS: Final = 10_000


class Given(TypedDict, total=False):
    """What the graph takes: the scope, by default that of the run's context, and whether nothing shall be done."""

    scope: Annotated[dict[str, str], EphemeralValue]
    dry_run: Annotated[bool, EphemeralValue]


class Report(TypedDict, total=False):
    """What the graph gives."""

    changes: list[dict[str, Any]]  # what was done (or would be), each with id, text, event, previous_text and reason
    compared: int  # memories that had something older beside them
    skipped: list[str]  # memories that somebody changed meanwhile; the next run sees to them
    usage: dict[str, Any]


class Task(TypedDict):
    """What a run is to do; each step asks again whether the call is for this scope."""

    scope: dict[str, str]
    dry_run: bool


class State(Given, Report, total=False):
    """Everything between the two: what to do, and ids of memories still to be gone through, oldest first."""

    task: Task
    pending: list[str]


def make_graph(memory: Memory) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph: gather, then compare until nothing is left; checkpointer and store come from whoever runs it."""
    tidier = Tidier(memory)
    builder = StateGraph(State, input_schema=Given, output_schema=Report, context_schema=MemoryContext)
    builder.add_node("gather", partial(_gather, tidier), retry_policy=RETRIES)
    builder.add_node("compare", partial(_compare, tidier), retry_policy=RETRIES)
    builder.add_edge(START, "gather")
    builder.add_conditional_edges("gather", _next)
    builder.add_conditional_edges("compare", _next)
    return builder.compile(name="consolidate").with_config(recursion_limit=_MOST_STEPS)


def _next(state: State) -> Literal["compare", "__end__"]:
    return "compare" if state["pending"] else "__end__"


def _gather(tidier: Tidier, state: State, runtime: Runtime[MemoryContext], config: RunnableConfig) -> dict[str, Any]:
    begun = resolve_scope(explicit=state.get("scope"), runtime=runtime, config=config)
    scope = resolve_again(begun, runtime=runtime, config=config)
    nothing = {"changes": [], "compared": 0, "skipped": [], "usage": Usage().to_json()}
    task: Task = {"scope": scope.named, "dry_run": state.get("dry_run", False)}
    return {"task": task, "pending": tidier.pending(scope), **nothing}


def _compare(tidier: Tidier, state: State, runtime: Runtime[MemoryContext], config: RunnableConfig) -> dict[str, Any]:
    scope = resolve_again(Scope(**state["task"]["scope"]), runtime=runtime, config=config)
    dry_run = state["task"]["dry_run"]
    settled = [change["id"] for change in state["changes"]]
    done = Tidied()
    for memory_id in state["pending"][:_BATCH]:
        done += tidier.tidy(memory_id, scope, dry_run=dry_run, without=[*settled, *done.ids] if dry_run else ())
    return {
        "pending": state["pending"][_BATCH:],
        "changes": [*state["changes"], *(change.to_json() for change in done.changes)],
        "compared": state["compared"] + done.compared,
        "skipped": [*state["skipped"], *done.skipped],
        "usage": (Usage.from_json(state["usage"]) + done.usage).to_json(),
    }


graph = make_graph(shared_memory())
