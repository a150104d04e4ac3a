"""What guests ask of those who make and call them: fields that fit, whose memory it is, and whether it may fail with it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from langchain_core.runnables.config import ensure_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import get_runtime
from pydantic import ValidationError

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import quoted
from langmem_adapter.scoping import resolve_scope
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.runnables import RunnableConfig

    from langmem_adapter.records.scope import Scope

__all__ = ["OnError", "Update", "forgiving", "making", "part_of_state", "scope_of_call"]

R = TypeVar("R")

_log = logging.getLogger("langmem_adapter")

OnError: TypeAlias = Literal["raise", "log"]
"""What becomes of the guest's work when memory fails: it fails as well, or it goes on without."""

Update: TypeAlias = dict[str, Any]
"""What a node changes in a graph's state."""


@contextmanager
def making(guest: str) -> Iterator[None]:
    """Make a guest that is one of LangChain's pydantic models: what it says of a field becomes our error."""
    try:
        yield
    except ValidationError as error:
        told = "; ".join(f"{part['loc'][0]}: {part['msg']}" for part in error.errors())
        raise InvalidInputError(f"{guest} cannot be made; {told}") from None


def scope_of_call(default: object, config: RunnableConfig | None = None, *, explicit: object = None) -> Scope:
    """Whose memory a call works with, anywhere in LangChain or LangGraph: see `resolve_scope`.

    Args:
        default: What the adapter's constructor was given.
        config: What the call was given; it completes that of the run around it.
        explicit: What the call itself names.

    Raises:
        ScopeError: Nobody says whose, or it is said twice.
    """
    return resolve_scope(explicit=explicit, runtime=_runtime(), config=ensure_config(config), default=default)


def forgiving(plan: Plan[R], otherwise: R, *, on_error: OnError, doing: str) -> Plan[R]:
    """A plan that, with `on_error="log"`, gives *otherwise* where it fails, and says so in the log.

    Args:
        plan: What is to be done.
        otherwise: What to give instead.
        on_error: Whether failures are raised or logged.
        doing: What it does, for the log: `"recall"`.
    """

    def run() -> R:
        with _noting(doing, on_error):
            return plan.run()
        return otherwise

    async def arun() -> R:
        with _noting(doing, on_error):
            return await plan.arun()
        return otherwise

    return Plan(run, arun)


def part_of_state(state: Any, key: str, argument: str) -> Any:
    """What a graph's state holds under a name.

    Args:
        state: The state: a mapping, or an object with attributes.
        key: The name.
        argument: The argument that says another one, for the error.

    Raises:
        InvalidInputError: It has nothing of that name.
    """
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


@dataclass(frozen=True, slots=True)
class _noting:  # noqa: N801 - used like a function
    """Whatever a model's client raises: these errors share no base. The log has the traceback."""

    doing: str
    on_error: OnError

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        # What bubbles up is no failure: the graph pauses.
        if not isinstance(error, Exception) or isinstance(error, GraphBubbleUp) or self.on_error == "raise":
            return False
        _log.error("memory failed to %s; the call goes on without", self.doing, exc_info=error)
        return True
