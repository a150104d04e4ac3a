"""A graph that others run than `Memory.add`: every stage asks again whose memory it is.

Between two stages the state belongs to whoever may write to the thread: a `Command`, `update_state`, somebody else's `resume`.
What it says of the scope is compared with the call, in one place, before the stage sees any of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.runnables.config import ensure_config
from langgraph.runtime import get_runtime

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.state import scope_of
from langmem_adapter.scoping import resolve_again, resolve_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langchain_core.runnables import RunnableConfig

    from langmem_adapter.pipeline.stage import Planner
    from langmem_adapter.pipeline.state import PipelineState

__all__ = ["begins", "for_caller", "goes_on"]


def for_caller(stage: Planner, whose: Callable[[PipelineState, RunnableConfig], PipelineState]) -> Planner:
    """A stage that is run for whoever calls, on the state as *whose* (`begins` or `goes_on`) lets it be seen."""
    return lambda state, config: stage(whose(state, ensure_config(config)), config)


def begins(state: PipelineState, config: RunnableConfig) -> PipelineState:
    """A run begins: its scope follows `resolve_scope`, with the input's `scope` as the argument.

    Raises:
        ScopeError: Nobody says whose memory it is, or the input and the rest of the call name two.
    """
    runtime = get_runtime()
    scope = resolve_scope(explicit=state.get("scope"), runtime=runtime, config=config)
    begun: PipelineState = {**state, "scope": resolve_again(scope, runtime=runtime, config=config).named}
    begun.pop("parsed", None)  # nobody else has checked it
    return begun


def goes_on(state: PipelineState, config: RunnableConfig) -> PipelineState:
    """A run goes on: the call is for the scope that it was begun for, and what its stages made belongs together.

    Raises:
        ScopeError: It is for another.
        InvalidInputError: Parts of several runs stand in the state.
    """
    resolve_again(scope_of(state), runtime=get_runtime(), config=config)
    if not (_within("facts", "turn", state, "turns") and _within("decisions", "fact", state, "facts")):
        raise InvalidInputError("the state holds parts of different runs; begin a run of its own with messages")
    return state


def _within(parts: str, place: str, state: Mapping[str, Any], whole: str) -> bool:
    """Whether each of these parts of the state names a place that the whole has."""
    most = len(state.get(whole, []))
    places = (part.get(place) for part in state.get(parts, []))
    return all(each is None or 0 <= each < most for each in places)
