"""Whose memory it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.records.checks import check_text

__all__ = ["SCOPE_FIELDS", "Scope"]

SCOPE_FIELDS: Final = ("user_id", "agent_id", "run_id")
_LONGEST_ID: Final = 512  # three of them, in UTF-8, fit into an index row of Postgres


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory it is: a user, an agent, a run, or any combination; at least one.

    Values are compared for equality, never as patterns: `"*"` is a user called `*`.

    Args:
        user_id: The user, up to 512 characters, not blank; `None` where it does not apply.
        agent_id: The agent, likewise.
        run_id: The run or session, likewise.

    Raises:
        ScopeError: None is given, or one is blank, not a `str` or too long.

    Example:
        >>> Scope(user_id="alice")
        Scope(user_id='alice')
        >>> Scope()
        Traceback (most recent call last):
        langmem_adapter.errors.ScopeError: whose memory? give at least one of user_id, agent_id, run_id
    """

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse a scope that nobody could name again."""
        named = [name for name in SCOPE_FIELDS if getattr(self, name) is not None]
        if not named:
            raise ScopeError("whose memory? give at least one of user_id, agent_id, run_id")
        for name in named:
            _check_id(getattr(self, name), name)

    def __repr__(self) -> str:
        """Show only the fields that are set."""
        return f"Scope({', '.join(f'{name}={value!r}' for name, value in self.named.items())})"

    @property
    def named(self) -> dict[str, str]:
        """The fields that are set, in the fixed order user, agent, run."""
        return {name: value for name in SCOPE_FIELDS if (value := getattr(self, name)) is not None}

    def covers(self, other: Scope) -> bool:
        """Whether a read within this scope sees *other*: the fields named here are equal there, the rest is free."""
        return all(getattr(other, name) == value for name, value in self.named.items())


def _check_id(value: object, name: str) -> None:
    if not isinstance(value, str):
        raise ScopeError(f"{name} must be a str, not {type(value).__name__}; write {name}=str(...)")
    if not value.strip():
        raise ScopeError(f"{name} is blank; leave it out or give the id")
    if len(value) > _LONGEST_ID:
        raise ScopeError(f"{name} has {len(value)} characters; {_LONGEST_ID} are allowed, use a hash of it")
    try:
        check_text(value, name)
    except InvalidInputError as error:
        raise ScopeError(str(error)) from None
