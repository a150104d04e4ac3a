"""A graph that others run than `Memory.add`: every stage asks again whose memory it is.

Between two stages the state belongs to whoever may write to the thread: a `Command`, `update_state`, somebody else's `resume`.
What it says of the scope is compared with the call, in one place, before the stage sees any of it.
"""

from __future__ import annotations

import json
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.runnables.config import ensure_config
from langgraph.runtime import get_runtime
from pydantic import TypeAdapter

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.pipeline.state import Task, Work, begun, scope_of
from langmem_adapter.records.cost import Usage
from langmem_adapter.records.work import Decision, Fact, Turn
from langmem_adapter.scoping import resolve_again, resolve_scope
from langmem_adapter.search.candidates import Neighbourhood
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

    from langmem_adapter.pipeline.stage import Planner
    from langmem_adapter.pipeline.state import PipelineState
    from langmem_adapter.records.scope import Scope

__all__ = ["begins", "for_caller", "goes_on"]


def for_caller(stage: Planner, whose: Callable[[PipelineState, RunnableConfig], PipelineState]) -> Planner:
    """A stage that is run for whoever calls, on the state as *whose* (`begins` or `goes_on`) lets it be seen."""
    return lambda state, config: Plan(partial(whose, state, ensure_config(config))).and_then(
        lambda seen: stage(seen, config)
    )


def begins(state: PipelineState, config: RunnableConfig) -> PipelineState:
    """A run begins: its scope follows `resolve_scope`, with the input's `scope` as the argument.

    Raises:
        ScopeError: Nobody says whose memory it is, or the input and the rest of the call name two.
    """
    runtime = get_runtime()
    scope = resolve_scope(explicit=state.get("scope"), runtime=runtime, config=config)
    return {**state, "scope": resolve_again(scope, runtime=runtime, config=config).named}


def goes_on(state: PipelineState, config: RunnableConfig) -> PipelineState:
    """A run goes on: the call is for the scope that it was begun for, and what its stages made belongs together.

    Raises:
        ScopeError: It is for another.
        InvalidInputError: A part of the state is no stage's work, or they are of several runs.
    """
    try:
        scope = _scope_read(state)
    except (KeyError, TypeError, ValueError) as error:
        told = "the state holds what no stage leaves there, or parts of different runs; begin a run of its own"
        raise InvalidInputError(f"{told} with messages") from error
    resolve_again(scope, runtime=get_runtime(), config=config)
    return state


_TYPES: Final[Mapping[str, Any]] = {
    "task": Task,
    "turns": list[Turn],
    "before": list[Turn],
    "facts": list[Fact],
    "candidates": Neighbourhood | None,
    "decisions": list[Decision],
    "work": Work,
}
_adapter: Final = cache(TypeAdapter)


def _scope_read(state: PipelineState) -> Scope:
    """Whose it is, once all of the state was read as the stages read it: what they could not is an error here."""
    parts: dict[str, Any] = {**state, "candidates": {**state["candidates"]} or None}
    for name, kind in _TYPES.items():
        made = _adapter(kind).validate_json(json.dumps(parts[name]), strict=True)
        for record, told in zip(made, parts[name], strict=True) if isinstance(made, list) else ():
            record.from_json(told)
    _ = Usage() + Usage.from_json({name: parts["work"][name] for name in begun(0)}["usage"])
    turns, facts, known = state["turns"], state["facts"], state["candidates"].get("known", ())
    places: list[tuple[int | None, Sequence[Any]]] = [(turn["item"], state["task"]["items"]) for turn in turns]
    places += [(fact["turn"], turns) for fact in facts]
    places += [(decision.get("fact"), facts) for decision in state["decisions"]]
    places += [(place, known) for own in state["candidates"].get("equal", ()) for place in own]
    if not all(place is None or 0 <= place < len(whole) for place, whole in places):
        raise ValueError("a part names a place of another, which that has not")
    return scope_of(state)
