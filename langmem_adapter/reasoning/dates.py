"""The dates that chat models are asked for: ISO 8601, a day, a month or a year."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

__all__ = ["Period", "interval", "period"]

Period = tuple[datetime, datetime]
"""A stretch of time, half-open: a year, a month, a day; of an exact time, both ends are that time."""

_DATE: Final = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
_NO_DATE: Final = frozenset({"", "null", "none", "unknown", "present"})


def period(value: Any) -> Period | None:
    """The time that a date means, in UTC where no zone is named; `None` where it says that there is no date.

    Raises:
        ValueError: It is no date.

    Example:
        >>> [str(time.date()) for time in period("2019-05")]
        ['2019-05-01', '2019-06-01']
    """
    text = "" if value is None else str(value).strip()
    if text.casefold() in _NO_DATE:
        return None
    try:
        return _period(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:40]!r} is no date in ISO 8601, like 2019, 2019-05 or 2019-05-31") from None


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


def _period(text: str) -> Period:
    told = _DATE.fullmatch(text)
    if told is None:
        time = datetime.fromisoformat(text)
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
        return time, time
    year, month, day = (int(part) if part else None for part in told.groups())
    start = datetime(year or 0, month or 1, day or 1, tzinfo=UTC)
    if day is not None:
        return start, start + timedelta(days=1)
    return start, (start + timedelta(days=31 if month else 366)).replace(day=1)
