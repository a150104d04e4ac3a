"""The scope of a call, resolved in the same way by every integration: authenticated user, call, constructor.

LangGraph's objects are recognised by their attributes (`runtime.context`, `config["configurable"]`); it is not imported here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope, ScopeArguments

if TYPE_CHECKING:
    from langmem_adapter.records.results import Threshold

__all__ = [
    "MemoryContext",
    "ScopeOptions",
    "SearchOptions",
    "check_owner",
    "configured",
    "resolve_again",
    "resolve_scope",
]

_NO_SCOPE: Final = (
    "user_id is missing: pass context=MemoryContext(user_id=…) or {'configurable': {'user_id': …}} with the call,"
    " or user_id=… to the constructor"
)


@dataclass(frozen=True, slots=True)
class MemoryContext:
    """The scope of a run, as the runtime context of an agent or graph (`context_schema=MemoryContext`).

    Any other context with fields (or keys) of these names works as well.

    Args:
        user_id: The user.
        agent_id: The agent.
        run_id: The run or session.
        timezone: IANA name of the user's time zone, as `"Asia/Shanghai"`, for "today" and "last week".

    Example:
        >>> MemoryContext(user_id="alice@example.com", timezone="Asia/Tokyo")
        MemoryContext(user_id='alice@example.com', agent_id=None, run_id=None, timezone='Asia/Tokyo')
    """

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    timezone: str | None = None


class ScopeOptions(ScopeArguments, total=False):
    """The scope and time zone of an integration where the call does not name them; see `resolve_scope`.

    Attributes:
        timezone: IANA name of the user's time zone; see `MemoryContext`.
    """

    timezone: str | None


class SearchOptions(ScopeOptions, total=False):
    """How an integration searches, beside its scope.

    Attributes:
        k: At most so many memories.
        threshold: Least relevance of a memory; see `Memory.search`.
        max_tokens: At most so many tokens of them; the best come first, a long one is cut to the passage that answers.
    """

    k: int
    threshold: Threshold
    max_tokens: int | None


def resolve_scope(
    *,
    explicit: object = None,
    runtime: object = None,
    config: Mapping[str, Any] | None = None,
    default: object = None,
) -> Scope:
    """The scope of a call.

    Each field is taken from the first source that names it: the user that a LangGraph server has authenticated (`user_id`
    only), *explicit*, the runtime's context, `config["configurable"]`, *default*. No source of the call may name another user
    than the authenticated one. A constructor's default completes a scope. A default agent alone is no scope, since it would
    open the memories of all its users; to read these, pass agent_id with the call.

    Args:
        explicit: The argument of the call: a `Scope`, a mapping or any object with the fields, or `None`.
        runtime: LangGraph's `Runtime` or `ToolRuntime`, or anything with a `context`.
        config: The `RunnableConfig`; by default that of *runtime*, where it has one.
        default: The argument of the integration's constructor, like *explicit*.

    Raises:
        ScopeError: No source names a field, one is blank or no `str`, or the call contradicts the authenticated user.

    Example:
        >>> resolve_scope(config={"configurable": {"user_id": "alice"}}, default=Scope(agent_id="guide"))
        Scope(user_id='alice', agent_id='guide')
        >>> resolve_scope(default=Scope(agent_id="guide"))
        Traceback (most recent call last):
        langmem_adapter.errors.ScopeError: agent_id alone opens the memories of all its users; user_id is missing: pass ...
    """
    merged = _first_of(_sources(explicit, runtime, config).values())
    scope = _first_of([merged, _named(default)])
    if not scope:
        raise ScopeError(_NO_SCOPE)
    if not merged and scope.keys() == {"agent_id"}:
        raise ScopeError(f"agent_id alone opens the memories of all its users; {_NO_SCOPE}")
    return Scope(**scope)


def resolve_again(begun: Scope, *, runtime: object = None, config: Mapping[str, Any] | None = None) -> Scope:
    """The scope in the state of a run that is resumed, if the call does not contradict it.

    A state outlives the call that wrote it, and other callers may write to its thread. So it must agree with everything that
    the call names, else it is a `ScopeError`. A call that names nothing resumes any state.
    """
    for source, named in _sources(None, runtime, config).items():
        for field, value in named.items():
            if getattr(begun, field) != value:
                raise ScopeError(
                    f"{source} names {field} {value!r}, but this run was begun for another scope; begin a new run"
                )
    return begun


def check_owner(message: object, scope: Scope, name: str, *, fields: Collection[str] = SCOPE_FIELDS) -> None:
    """Refuse a message, or a mapping, that names another scope than the one it would be stored under."""
    parts = (getattr(message, name, None) for name in ("additional_kwargs", "model_extra"))
    own = (
        message
        if isinstance(message, Mapping)
        else {key: value for part in parts for key, value in (part or {}).items()}
    )
    for field in fields:
        value = own.get(field)
        if value is not None and value != getattr(scope, field):
            raise InvalidInputError(
                f"{name} names {field} {quoted(value)} and would be filed under {scope}; add it apart with {field}=…, or "
                f"remove the field"
            )


def _part(whole: object, name: str) -> Any:
    return whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name, None)


def _named(source: object) -> dict[str, Any]:
    return {name: value for name in SCOPE_FIELDS if (value := _part(source, name)) is not None}


def configured(configurable: object) -> dict[str, Any]:
    """The fields of a scope that a run's `configurable`, or the metadata of its checkpoint, names."""
    # A LangGraph server writes into it, too: the id of its run, new each time, and an empty user without authentication.
    named = _named(configurable)
    if _part(configurable, "assistant_id") is None or _part(configurable, "graph_id") is None:
        return named
    return {name: value for name, value in named.items() if name != "run_id" and value != ""}


def _authenticated(user: object, configurable: object) -> Any:
    # A server without authentication has a user as well, called "".
    user = user if user is not None else _part(configurable, "langgraph_auth_user")
    identity = _part(configurable, "langgraph_auth_user_id") if user is None else _part(user, "identity")
    if user is not None and identity is None:
        raise ScopeError("the server's authenticated user has no identity; return one from your @auth.authenticate")
    return None if identity == "" else identity


def _sources(explicit: object, runtime: object, config: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """The fields that each source of a call names, in the order of precedence; all agree with the authenticated user."""
    configurable = _part(config or _part(runtime, "config"), "configurable")
    sources = {
        "the argument": _named(explicit),
        "the runtime context": _named(_part(runtime, "context")),
        "config['configurable']": configured(configurable),
    }
    user = _authenticated(_part(_part(runtime, "server_info"), "user"), configurable)
    if user is None:
        return sources
    for source, named in sources.items():
        if named.get("user_id", user) != user:
            raise ScopeError(f"{source} names user {named['user_id']!r}, but {user!r} is signed in; leave user_id out")
    return {"the server": {"user_id": user}, **sources}


def _first_of(sources: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for source in reversed([*sources]) for name, value in source.items()}
