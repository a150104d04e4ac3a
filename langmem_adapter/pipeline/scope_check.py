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
from typing_extensions import TypedDict

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
        _read(state)
        scope, whole = scope_of(state), _is_whole(state)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(
            "the state is not as a stage leaves it; begin a run of its own with messages"
        ) from error
    resolve_again(scope, runtime=get_runtime(), config=config)
    if not whole:
        raise InvalidInputError("the state holds parts of different runs; begin a run of its own with messages")
    return state


class _Made(TypedDict):
    """What the stages leave in the state, as records."""

    task: Task
    turns: list[Turn]
    before: list[Turn]
    facts: list[Fact]
    candidates: Neighbourhood | None
    decisions: list[Decision]
    work: Work


_made: Final = cache(lambda: TypeAdapter(_Made))


def _read(state: Mapping[str, Any]) -> None:
    """Read the state as the stages do: what they could not read is an error here."""
    parts: dict[str, Any] = {name: state[name] for name in _Made.__annotations__}
    made = _made().validate_json(json.dumps({**parts, "candidates": {**state["candidates"]} or None}), strict=True)
    for name in ("turns", "before", "facts", "decisions"):
        for record, told in zip(made[name], state[name], strict=True):
            record.from_json(told)
    work = {name: state["work"][name] for name in begun(0)}
    _ = Usage() + Usage.from_json(work["usage"])


def _is_whole(state: Mapping[str, Any]) -> bool:
    """Whether each part of the state that names a place of another names one which that has."""
    turns, facts, candidates = state["turns"], state["facts"], state["candidates"]
    places: list[tuple[int | None, Sequence[Any]]] = [(turn["item"], state["task"]["items"]) for turn in turns]
    places += [(fact["turn"], turns) for fact in facts]
    places += [(decision.get("fact"), facts) for decision in state["decisions"]]
    places += [(known, candidates["known"]) for own in candidates.get("equal", ()) for known in own]
    return all(place is None or 0 <= place < len(whole) for place, whole in places)
