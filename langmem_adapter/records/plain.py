"""Records as plain JSON types, and back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

__all__ = ["as_iso", "of_iso", "shallow"]


def shallow(record: Any) -> dict[str, Any]:
    """The fields of a slotted dataclass, in order, as they are."""
    return {name: getattr(record, name) for name in record.__slots__}


def as_iso(value: datetime | None) -> str | None:
    """A time as ISO 8601 text in UTC."""
    return None if value is None else value.astimezone(UTC).isoformat()


def of_iso(value: str | None) -> datetime | None:
    """The inverse of `as_iso`."""
    return None if value is None else datetime.fromisoformat(value)
