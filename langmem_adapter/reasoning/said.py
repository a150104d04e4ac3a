"""Numbers, dates, flags and degrees as chat models write them."""

from __future__ import annotations

import math
import re
import sys
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Period", "degree", "first_of", "flag", "interval", "number_of", "period"]

Period = tuple[datetime, datetime]
"""A stretch of time, half-open: a year, a month, a day; of an exact time, both ends are that time."""

_DATE: Final = re.compile(r"(\d{4})(?:[-/.年](\d{1,2})(?:[-/.月](\d{1,2}))?)?[年月日]?", re.ASCII)
_OPEN: Final = frozenset({"", "null", "none", "unknown", "n/a", "now", "present", "ongoing", "current"})
_FOR_EVER: Final = 9999  # the year by which "without end" is written
_PERCENT: Final = re.compile(r"\s*(\d{1,4}(?:\.\d{1,9})?)\s*(%?)\s*", re.ASCII)
_NUMBER: Final = re.compile(r"[#\[(\"'\s]*(-?\d{1,9})[\])\"'\s.]*")
_FLAGS: Final[dict[Any, bool]] = {
    **dict.fromkeys(("true", "yes", "1", "是"), True),
    **dict.fromkeys(("false", "no", "0", "none", "null", "", "否"), False),
}


def first_of(members: Mapping[str, Any], *names: str) -> Any:
    """The first of these members that is there and not `null`."""
    return next((members[name] for name in names if members.get(name) is not None), None)


def number_of(value: Any) -> int | None:
    """The whole number that a value is, or is written as (`"#2"`)."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    plain = _NUMBER.fullmatch(str(value)[:100])
    return int(plain[1]) if plain else None


def period(value: Any) -> Period | None:
    """The time that a date means: ISO 8601, a day, a month or a year; in UTC where no zone is named.

    Returns:
        `None` for what says no date: `null`, a blank, `"unknown"`, `"present"`, the year 9999.

    Raises:
        ValueError: It is no date.

    Example:
        >>> [str(time.date()) for time in period("2019-05")]
        ['2019-05-01', '2019-06-01']
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(_no_date(value))  # noqa: TRY004 - told like any other date that cannot be read
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = unicodedata.normalize("NFKC", str(value)).strip()
    if text.casefold() in _OPEN:
        return None
    try:
        return _period(text)
    except (ValueError, OverflowError):
        raise ValueError(_no_date(text)) from None


def interval(since: Period | None, until: Period | None) -> tuple[datetime | None, datetime | None]:
    """From when and until when: the beginnings of both; of one period named twice, its beginning and its end.

    Raises:
        ValueError: It ends before it begins.
    """
    start, end = since and since[0], until and until[0]
    if start and until and until[0] <= start:
        end = until[1]
    if start and end and end <= start:
        raise ValueError(f"valid_to ({end.isoformat()}) is not after valid_from ({start.isoformat()})")
    return start, end


def flag(value: Any) -> bool:
    """Yes or no; `null` is no.

    Raises:
        ValueError: It is neither.
    """
    said = value if isinstance(value, bool) or value is None else str(value)[:10].strip().casefold()
    if said is None or isinstance(said, bool):
        return bool(said)
    if said not in _FLAGS:
        raise ValueError(f"must be true or false, not {str(value)[:40]!r}")
    return _FLAGS[said]


def degree(value: Any) -> float | None:
    """A number, or a text with one, in percent where it says so.

    Returns:
        `None` where it is no number.

    Example:
        >>> degree("80%"), degree(7), degree("high")
        (0.8, 7.0, None)
    """
    number = _percent(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or math.isnan(number):
        return None
    return float(min(number, sys.float_info.max))


def _percent(text: str) -> float | None:
    told = _PERCENT.fullmatch(text)
    return None if told is None else float(told[1]) / (100 if told[2] else 1)


def _period(text: str) -> Period | None:
    told = _DATE.fullmatch(text)
    if told is None:
        time = datetime.fromisoformat(text)
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
        return None if time.year == _FOR_EVER else (time, time)
    year, month, day = (int(part) if part else None for part in told.groups())
    if year is None or year == _FOR_EVER:
        return None
    start = datetime(year, month or 1, day or 1, tzinfo=UTC)
    if day is not None:
        return start, start + timedelta(days=1)
    return start, datetime(year + (month in {None, 12}), 1 if month is None else month % 12 + 1, 1, tzinfo=UTC)


def _no_date(value: Any) -> str:
    return f"{str(value)[:40]!r} is no date in ISO 8601, like 2019, 2019-05 or 2019-05-31"
