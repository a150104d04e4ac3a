"""The scope of a memory (user, agent, run), and how records become JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypedDict

from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.records.checks import check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SCOPE_FIELDS: Final = ("user_id", "agent_id", "run_id")
_LONGEST_ID: Final = 512  # three of them, in UTF-8, fit into an index row of Postgres


class ScopeArguments(TypedDict, total=False):
    """The keyword arguments of a scope, declared once: methods take `**scope: Unpack[ScopeArguments]`."""

    user_id: str | None
    agent_id: str | None
    run_id: str | None


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a memory: a user, an agent, a run, or any combination; at least one.

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
        langmem_adapter.errors.ScopeError: user_id is missing: pass user_id=…, agent_id=… or run_id=…
    """

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        named = [name for name in SCOPE_FIELDS if getattr(self, name) is not None]
        if not named:
            raise ScopeError("user_id is missing: pass user_id=…, agent_id=… or run_id=…")
        for name in named:
            value: object = getattr(self, name)
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


_names: Final[Callable[[type], tuple[str, ...]]] = cache(
    lambda kind: tuple(part.name for part in dataclasses.fields(kind))
)


def shallow(record: Any) -> dict[str, Any]:
    """The fields of a slotted dataclass, in order, as they are."""
    return {name: getattr(record, name) for name in record.__slots__}


def as_iso(value: datetime | None) -> str | None:
    """A time as ISO 8601 text in UTC."""
    return None if value is None else value.astimezone(UTC).isoformat()


class Form(NamedTuple):
    """How a value becomes plain JSON types, and back; `None` stays."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


TIME: Final = Form(as_iso, datetime.fromisoformat)
LOCAL_TIME: Final = Form(datetime.isoformat, datetime.fromisoformat)
"""A time with its UTC offset, which says what day it was."""
LIST: Final = Form(list, tuple)
MAPPING: Final = Form(dict, dict)


def forms(**fields: Form) -> Mapping[str, Form]:
    """How the fields of a record that are no plain JSON become that."""
    return fields


class Portable:
    """A slotted dataclass that travels through the pipeline's state as plain JSON types."""

    __slots__ = ()
    _forms = forms()

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        data = shallow(self)
        for name, form in self._forms.items():
            if data[name] is not None:
                data[name] = form.write(data[name])
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`; what is missing has its default."""
        values = {**data}
        for name, form in cls._forms.items():
            if values.get(name) is not None:
                values[name] = form.read(values[name])
        return cls(**values)


def several(kind: type[Portable]) -> Form:
    """A tuple of such records."""
    return Form(lambda parts: [part.to_json() for part in parts], lambda data: tuple(map(kind.from_json, data)))


def as_data(record: Any) -> dict[str, Any]:
    """A record of `langmem_adapter.records` as plain JSON types; a scope becomes its three fields."""
    data: dict[str, Any] = {}
    for name in _names(type(record)):
        value = getattr(record, name)
        if isinstance(value, Scope):
            data.update({field: getattr(value, field) for field in SCOPE_FIELDS})
        elif isinstance(value, datetime):
            data[name] = value.isoformat()
        else:
            data[name] = _plain(value)
    return data


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return as_data(value)
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
