"""Records as plain JSON types, and back."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from langmem_adapter.records.scope import SCOPE_FIELDS, Scope

__all__ = ["as_data", "as_iso", "of_iso", "shallow"]


def shallow(record: Any) -> dict[str, Any]:
    """The fields of a slotted dataclass, in order, as they are."""
    return {name: getattr(record, name) for name in record.__slots__}


def as_iso(value: datetime | None) -> str | None:
    """A time as ISO 8601 text in UTC."""
    return None if value is None else value.astimezone(UTC).isoformat()


def of_iso(value: str | None) -> datetime | None:
    """The inverse of `as_iso`."""
    return None if value is None else datetime.fromisoformat(value)


def as_data(record: object) -> dict[str, Any]:
    """A record of `langmem_adapter.records` as plain JSON types; a scope becomes its three fields."""
    data: dict[str, Any] = {}
    for part in dataclasses.fields(record):  # type: ignore[arg-type]  # callers give records
        value = getattr(record, part.name)
        if isinstance(value, Scope):
            data.update({name: getattr(value, name) for name in SCOPE_FIELDS})
        elif isinstance(value, datetime):
            data[part.name] = value.isoformat()
        else:
            data[part.name] = _plain(value)
    return data


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return as_data(value)
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
