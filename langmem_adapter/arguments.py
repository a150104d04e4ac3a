"""What callers give, checked: each function returns it ready for use, or raises an error that names the fix."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope

if TYPE_CHECKING:
    from langmem_adapter.records.results import Threshold

T = TypeVar("T")

_MOST_HITS: Final = 10_000
_MOST_TOKENS: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Longest:
    """How what is added is read: `Settings.max_text`, `Settings.max_message` and `Settings.timezone`."""

    text: int = 100_000
    message: int = 1_000_000
    timezone: str | None = None

    def check_text(self, text: str, name: str) -> None:
        """Refuse a text that is too long for a memory; *name* is its name in the error."""
        _check_length(text, name, self.text, "max_text")

    def check_message(self, text: str, name: str) -> None:
        """Refuse a message that is too long to find facts in."""
        _check_length(text, name, self.message, "max_message")


def _check_length(text: str, name: str, most: int, setting: str) -> None:
    if len(text) > most:
        raise InvalidInputError(
            f"{name} has {len(text):,} letters, and at most {most:,} are taken; split it, or raise the setting {setting}"
        )


def optional_scope(fields: Mapping[str, Any]) -> Scope | None:
    """The scope of the fields that are set, or `None` if none is."""
    named = {name: fields[name] for name in SCOPE_FIELDS if fields.get(name) is not None}
    return Scope(**named) if named else None


def memory_id_of(memory_id: object, *, name: str = "a memory's id") -> str:
    """Check an id: a text that is not blank. *name* is its name in the error."""
    if not isinstance(memory_id, str) or not memory_id.strip():
        raise InvalidInputError(f"{name} is a text, not {quoted(memory_id)}")
    return check_text(memory_id, "the id")


def filled(text: object, name: str) -> str:
    """A text with something in it; *name* is its name in the error."""
    if not check_text(text, name).strip():
        raise InvalidInputError(f"{name} is empty")
    return str(text)


def flag(value: object, name: str) -> bool:
    """`True` or `False`; *name* is its name in the error."""
    if not isinstance(value, bool):
        raise InvalidInputError(f"{name} must be True or False, not {quoted(value)}")
    return value


def each_of(items: object, name: str) -> list[Any]:
    """The items of a list, or of whatever else gives them one by one; *name* is its name in the error."""
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise InvalidInputError(f"{name} must be a list, not {quoted(items)}")
    return list(items)


def one_of(value: object, choices: Iterable[T], name: str) -> T:
    """A value that is one of the *choices*; *name* is its name in the error."""
    among = list(choices)
    for each in among:
        if isinstance(value, str) and value == each:
            return each
    raise InvalidInputError(f"{name} is one of {', '.join(map(repr, among))}, not {quoted(value)}")


def bounded(k: object, name: str = "k", *, least: int = 1, most: float = _MOST_HITS) -> int:
    """How many: a whole number from *least* to *most*, by default 10,000; *name* is its name in the error."""
    if isinstance(k, bool) or not isinstance(k, int) or not least <= k <= most:
        end = "" if most == inf else f" to {most:,}"
        raise InvalidInputError(f"{name} must be a whole number from {least}{end}, not {quoted(k)}")
    return k


def tokens(most: object) -> int | None:
    """At most how many tokens, or `None` for any number."""
    return None if most is None else bounded(most, "max_tokens", most=_MOST_TOKENS)


def seconds(value: object, name: str) -> float:
    """Seconds from 0, infinity among them; *name* is their name in the error."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidInputError(f"{name} is a number of seconds from 0, not {quoted(value)}")
    return float(min(value, sys.float_info.max))


def relevance(threshold: object) -> Threshold:
    """The least relevance of a hit, from 0 to 1, `None` for any, or `"auto"`."""
    if threshold is None or threshold == "auto":
        return None if threshold is None else "auto"
    return _share(
        threshold, "threshold is the least relevance of a hit, from 0 to 1, and no cosine (None: any, or 'auto')"
    )


def likeness(threshold: object) -> float:
    """The least likeness of two texts, from 0 to 1."""
    return _share(threshold, "threshold is a calibrated cosine from 0 (nothing in common) to 1 (the same)")


def _share(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInputError(f"{what}, not {quoted(value)}")
    return float(value)


def local_time(value: object, name: str, zone: tzinfo | None) -> datetime:
    """An aware datetime, of a datetime, ISO 8601 text or Unix seconds; without an offset it is the local time of *zone*."""
    fix = "write it like 2026-05-01 or 2026-05-01T12:00"
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            fix = "is it in milliseconds? A Unix time is in seconds"
            value = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value)  # as `fromtimestamp`, also on Windows
            value = value.astimezone(zone)
        if isinstance(value, datetime):
            if value.utcoffset() is None:
                value = value.replace(tzinfo=zone) if zone is not None else value.replace(tzinfo=None).astimezone()
            value.astimezone(UTC)  # refused here where UTC has no such time
            return value
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInputError(f"{name}={quoted(value)} is no point in time ({error}); {fix}") from None
    raise InvalidInputError(f"{name} must be a datetime, ISO 8601 text or Unix seconds, not {type(value).__name__}")


def parse_time(value: object, name: str, zone: tzinfo | None = UTC) -> datetime:
    """The same in UTC; see `local_time`."""
    return local_time(value, name, zone).astimezone(UTC)
