"""The one rule for whose memory it is, for every guest: the signed-in user, then what the call says, then the constructor.

Frameworks are recognised by the shape of what they hand over (`runtime.context`, `config["configurable"]`), so that nothing
of LangGraph has to be imported here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope

__all__ = ["MemoryContext", "check_owner", "configured", "resolve_again", "resolve_scope"]

_NOBODY: Final = (
    "whose memory? say it with the call, as context=MemoryContext(user_id=...) or {'configurable': {'user_id': ...}},"
    " or give user_id to the constructor"
)


@dataclass(frozen=True, slots=True)
class MemoryContext:
    """Whose memory a run works with, as the runtime context of an agent or graph (`context_schema=MemoryContext`).

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


def resolve_scope(
    *,
    explicit: object = None,
    runtime: object = None,
    config: Mapping[str, Any] | None = None,
    default: object = None,
) -> Scope:
    """Whose memory a call works with.

    Each field is taken from the first of these that names it: the user that a LangGraph server has authenticated (`user_id`
    only), *explicit*, the runtime's context, `config["configurable"]`, *default*. Nothing that comes with the call may name
    another user than the authenticated one. What a constructor fixes is only a default: it completes a scope, and an agent
    alone is none, since it would open the memories of all that agent's users; who means that says it with the call.

    Args:
        explicit: What the call itself names: a `Scope`, a mapping or any object with the fields; `None` says nothing.
        runtime: LangGraph's `Runtime` or `ToolRuntime`, or anything with a `context`.
        config: The `RunnableConfig`; by default that of *runtime*, where it has one.
        default: What the adapter's constructor was given, like *explicit*.

    Returns:
        The scope.

    Raises:
        ScopeError: Nobody says whose, a field is blank or no `str`, or the call contradicts the authenticated user.

    Example:
        >>> resolve_scope(config={"configurable": {"user_id": "alice"}}, default=Scope(agent_id="guide"))
        Scope(user_id='alice', agent_id='guide')
        >>> resolve_scope(default=Scope(agent_id="guide"))
        Traceback (most recent call last):
        langmem_adapter.errors.ScopeError: agent_id alone opens the memories of all its users; whose memory? say it ...
    """
    merged = _first_of(_said(explicit, runtime, config).values())
    scope = _first_of([merged, _named(default)])
    if not scope:
        raise ScopeError(_NOBODY)
    if not merged and scope.keys() == {"agent_id"}:
        raise ScopeError(f"agent_id alone opens the memories of all its users; {_NOBODY}")
    return Scope(**scope)


def resolve_again(begun: Scope, *, runtime: object = None, config: Mapping[str, Any] | None = None) -> Scope:
    """The scope that a run was begun for, as its state has it, where the call names no other.

    A state outlives the call that wrote it: whoever may write to its thread can change it, or go on with what somebody else
    began. So what it says has to agree with all that the call says: the signed-in user, the runtime's context and
    `config["configurable"]`. A call that says nothing goes on with whatever the state has; where not everybody may do that,
    let the server sign people in.

    Raises:
        ScopeError: The call names a field that the state has otherwise, or not at all.
    """
    for whose, named in _said(None, runtime, config).items():
        for field, value in named.items():
            if getattr(begun, field) != value:
                raise ScopeError(
                    f"{whose} names {field} {value!r}, but this run was begun for another scope; begin one of your own"
                )
    return begun


def check_owner(said: object, scope: Scope, name: str, *, fields: Collection[str] = SCOPE_FIELDS) -> None:
    """Refuse what says by itself whose it is, and is about to be filed for somebody else.

    Args:
        said: A message or a mapping: its own `user_id`, `agent_id` and `run_id`, also among a message's `additional_kwargs`.
        scope: What it is filed under.
        name: What to call it in the error.
        fields: The fields that must agree; one that *scope* does not name would be lost.

    Raises:
        InvalidInputError: They differ.
    """
    own = (
        said if isinstance(said, Mapping) else {**_further(said, "additional_kwargs"), **_further(said, "model_extra")}
    )
    for field in fields:
        value = own.get(field)
        if value is not None and value != getattr(scope, field):
            raise InvalidInputError(
                f"{name} names {field} {quoted(value)} and would be filed under {scope}; add it apart with {field}=…, or "
                f"remove the field"
            )


def _further(message: object, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] | None = getattr(message, name, None)
    return found or {}


def _part(whole: object, name: str) -> Any:
    return whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name, None)


def _named(source: object) -> dict[str, Any]:
    return {name: value for name in SCOPE_FIELDS if (value := _part(source, name)) is not None}


def configured(configurable: object) -> dict[str, Any]:
    """The fields of a scope that a run's `configurable`, or the metadata of its checkpoint, names."""
    # A LangGraph server writes into it, too: the id of its own run, new each time, and an empty user where nobody signed in.
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


def _said(explicit: object, runtime: object, config: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """What a call names, by who says it, the first to be believed first; all agree with the signed-in user."""
    configurable = _part(config or _part(runtime, "config"), "configurable")
    said = {
        "the argument": _named(explicit),
        "the runtime context": _named(_part(runtime, "context")),
        "config['configurable']": configured(configurable),
    }
    user = _authenticated(_part(_part(runtime, "server_info"), "user"), configurable)
    if user is None:
        return said
    for whose, named in said.items():
        if named.get("user_id", user) != user:
            raise ScopeError(
                f"{whose} names user {named['user_id']!r}, but {user!r} is signed in; leave user_id out, it is known"
            )
    return {"the server": {"user_id": user}, **said}


def _first_of(sources: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for source in reversed([*sources]) for name, value in source.items()}
