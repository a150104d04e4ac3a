"""What integrations read from a call (scope, thread, time zone), check of their arguments, and do when memory fails."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from langchain_core.runnables.config import ensure_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import get_runtime
from pydantic import ValidationError

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import quoted
from langmem_adapter.scoping import resolve_scope
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.runnables import RunnableConfig

    from langmem_adapter.records.scope import Scope

__all__ = [
    "OnError",
    "forgiving",
    "making",
    "only",
    "part_of_state",
    "scope_of_call",
    "thread_of_call",
    "timezone_of_call",
]

R = TypeVar("R")

_log = logging.getLogger("langmem_adapter")

OnError: TypeAlias = Literal["raise", "log"]
"""What happens when memory fails: `"raise"` fails the call as well, `"log"` goes on without memory."""


@contextmanager
def making(guest: str, memory: object) -> Iterator[None]:
    """Make a guest of a memory that is one of LangChain's pydantic models: what it says of a field becomes our error."""
    parts_of(memory, guest)
    try:
        yield
    except ValidationError as error:
        told = "; ".join(f"{part['loc'][0]}: {part['msg']}" for part in error.errors())
        raise InvalidInputError(f"{guest} cannot be made; {told}") from None


def only(
    given: Mapping[str, Any],
    known: tuple[str, ...],
    where: str,
    elsewhere: Mapping[str, str] | None = None,
    otherwise: str | None = None,
) -> None:
    """Refuse the first key of a part of a configuration that is not known.

    The error says what to do instead: what *elsewhere* has for certain keys, and for the rest *otherwise*, by default to take a
    known key.
    """
    for key in (key if isinstance(key, str) else quoted(key) for key in given if key not in known):
        near = difflib.get_close_matches(key, known, n=1)
        guess = f"did you mean {near[0]!r}?" if near else otherwise or f"known are {', '.join(known)}"
        raise InvalidInputError(f"{where} has no {key!r} here: {(elsewhere or {}).get(key, guess)}")


def scope_of_call(default: object, config: RunnableConfig | None = None, *, explicit: object = None) -> Scope:
    """The scope that a call works with, anywhere in LangChain or LangGraph: see `resolve_scope`.

    *default* comes from the integration's constructor; *config*, of the call, completes that of the run around it.
    """
    return resolve_scope(explicit=explicit, runtime=_runtime(), config=ensure_config(config), default=default)


def timezone_of_call(config: RunnableConfig | None = None, default: str | None = None) -> dict[str, Any]:
    """The `timezone` of the runtime's context, else of `configurable`, else *default*, as an argument of `Memory`."""
    context = getattr(_runtime(), "context", None)
    named = context.get("timezone") if isinstance(context, Mapping) else getattr(context, "timezone", None)
    zones = (named, ensure_config(config).get("configurable", {}).get("timezone"), default)
    return next(({"timezone": zone} for zone in zones if zone is not None), {})


def thread_of_call() -> str | None:
    """The id of the thread that a call works in; `None` where it has none."""
    thread_id = ensure_config().get("configurable", {}).get("thread_id")
    return None if thread_id in {None, ""} else str(thread_id)


def forgiving(plan: Plan[R], otherwise: R, *, on_error: OnError, doing: str) -> Plan[R]:
    """A plan that, with `on_error="log"`, gives *otherwise* where it fails, and says so in the log, with what it was *doing*.

    LangGraph's `GraphBubbleUp` is no failure: the graph pauses.
    """

    def instead(error: Exception) -> Plan[R] | None:
        if isinstance(error, GraphBubbleUp):
            return None
        _log.error("memory failed to %s; the call goes on without", doing, exc_info=error)
        return Plan.known(otherwise)

    return plan if on_error == "raise" else plan.or_else(instead)


def part_of_state(state: Any, key: str, argument: str) -> Any:
    """What a graph's state, a mapping or an object with attributes, holds under a key; *argument* is what says another one."""
    try:
        return state[key] if isinstance(state, Mapping) else getattr(state, key)
    except (KeyError, AttributeError):
        raise InvalidInputError(
            f"the graph's state has no {quoted(key)}; name another part of it with {argument}=..."
        ) from None


def _runtime() -> object:
    try:
        return get_runtime()
    except (RuntimeError, KeyError):  # no graph is running
        return None
