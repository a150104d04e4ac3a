"""What each operator asks of a value."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, Final, TypeAlias

__all__ = ["OPERATORS", "ORDER", "Test", "comparison", "moment"]

Test: TypeAlias = Callable[[Any], bool]

ORDER: Final = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
"""Operators that put values in an order."""
OPERATORS: Final = ("eq", "ne", *ORDER, "in", "nin", "contains", "icontains", "exists")
"""All of them, without `$`."""

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_LONGEST_DATE: Final = 40


def moment(value: object, *, wall: bool = False) -> datetime | None:
    """The time that a value means, in UTC; `None` where it means none. With *wall* what a clock shows there, as if it were UTC.

    Example:
        >>> moment("2024-05-01T12:00:00+02:00")
        datetime.datetime(2024, 5, 1, 10, 0, tzinfo=datetime.timezone.utc)
        >>> moment("tomorrow"), moment(20240501)
        (None, None)
    """
    if isinstance(value, str):
        return _read_date(value, wall) if len(value) <= _LONGEST_DATE else None
    if isinstance(value, datetime):
        return _in_utc(value, wall)
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else None


@lru_cache(maxsize=65_536)  # the same rows are compared again with every search
def _read_date(text: str, wall: bool) -> datetime | None:  # noqa: FBT001 - a key of the cache
    try:
        return _in_utc(datetime.fromisoformat(text), wall) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _in_utc(value: datetime, wall: bool) -> datetime | None:  # noqa: FBT001 - as `moment` says
    try:
        return value.replace(tzinfo=UTC) if wall or value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:  # the first or last hours of the calendar, in another zone
        return None


def is_day(operand: object) -> bool:
    """Whether an operand names a day without a time."""
    if isinstance(operand, str):
        return len(operand) == len("2024-05-01") and moment(operand) is not None
    return isinstance(operand, date) and not isinstance(operand, datetime)


def comparison(name: str, operand: Any) -> Test:
    """What one of `OPERATORS` asks of a value; the operand is plain JSON or a datetime, of the kind that the operator takes."""
    match name:
        case "eq" | "ne":
            found: Test = _OneOf([operand])
        case "in" | "nin":
            found = _OneOf(operand)
        case "contains":
            found = _containing(operand)
        case "icontains":
            found = _containing_in_any_case(operand)
        case "exists":
            return (lambda value: value is not None) if operand else (lambda value: value is None)
        case _:
            return _ordered(ORDER[name], operand)
    return (lambda value: not found(value)) if name in {"ne", "nin"} else found


class _OneOf:
    """Whether a value equals one of these, or is a list with a member that does."""

    __slots__ = ("_moments", "_others", "_plain", "_times")

    def __init__(self, operands: Sequence[Any]) -> None:
        self._plain = frozenset(value for value in operands if _hashed(value))
        # A datetime given means the texts of that time too; a text given means datetimes, of texts but itself.
        points = [(value, (is_day(value), moment(value, wall=is_day(value)))) for value in operands]
        self._moments = frozenset(point for _, point in points if point[1] is not None)
        self._times = frozenset(point for value, point in points if isinstance(value, date))
        self._others = [value for value in operands if not _hashed(value) and not isinstance(value, date)]

    def __call__(self, value: Any) -> bool:
        return self.equals(value) or (isinstance(value, list | tuple) and any(map(self.equals, value)))

    def equals(self, value: Any) -> bool:
        """Whether the value itself equals one of these."""
        if _hashed(value) and value in self._plain:
            return True
        if self._moments and isinstance(value, datetime):
            return any((wall, moment(value, wall=wall)) in self._moments for wall in (False, True))
        if self._times and isinstance(value, str):
            return any((wall, moment(value, wall=wall)) in self._times for wall in (False, True))
        return any(_same(other, value) for other in self._others)


def _hashed(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON."""
    if one is None or isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list):
        pairs = zip(one, other, strict=False) if isinstance(other, list | tuple) else ()
        return isinstance(other, list | tuple) and len(one) == len(other) and all(_same(*pair) for pair in pairs)
    if isinstance(one, dict):
        return isinstance(other, Mapping) and one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    return bool(one == other)


def _ordered(compare: Callable[[Any, Any], bool], operand: Any) -> Test:
    if isinstance(operand, int | float):
        return lambda value: _hashed(value) and not isinstance(value, str) and compare(value, operand)
    when, wall = moment(operand), is_day(operand)
    if when is None:
        return lambda value: isinstance(value, str) and compare(value, operand)

    def test(value: Any) -> bool:
        at = moment(value, wall=wall)
        if at is not None:
            return compare(at, when)
        return isinstance(value, str) and isinstance(operand, str) and compare(value, operand)

    return test


def _containing(operand: Any) -> Test:
    equals = _OneOf([operand]).equals

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return isinstance(operand, str) and operand in value
        return isinstance(value, list | tuple) and any(map(equals, value))

    return test


def _containing_in_any_case(operand: str) -> Test:
    folded = operand.casefold()

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return folded in value.casefold()
        return isinstance(value, list | tuple) and any(
            isinstance(part, str) and part.casefold() == folded for part in value
        )

    return test
