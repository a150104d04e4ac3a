"""Records as plain JSON types, and back."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.records.scope import SCOPE_FIELDS, Scope

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["as_data", "as_iso", "of_iso", "shallow"]

_names: Final[Callable[[type], tuple[str, ...]]] = cache(
    lambda kind: tuple(part.name for part in dataclasses.fields(kind))
)


def shallow(record: Any) -> dict[str, Any]:
    """The fields of a slotted dataclass, in order, as they are."""
    return {name: getattr(record, name) for name in record.__slots__}


def as_iso(value: datetime | None) -> str | None:
    """A time as ISO 8601 text in UTC."""
    return None if value is None else value.astimezone(UTC).isoformat()


def of_iso(value: str | None) -> datetime | None:
    """The inverse of `as_iso`."""
    return None if value is None else datetime.fromisoformat(value)


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
