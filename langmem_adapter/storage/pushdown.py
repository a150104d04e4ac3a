"""Filters as storage uses them: what they read of a row, and what the database itself can leave out.

A filter decides in Python. Where it surely asks something of one of a memory's own columns, the database narrows first, so
that a filter by time or actor does not read the whole scope; every value is a bound parameter.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement

from langmem_adapter.filters import FIELDS, TIMES, is_day, parse_moment
from langmem_adapter.storage.moments import FIRST, LAST, local
from langmem_adapter.storage.tables import memories, scopes

if TYPE_CHECKING:
    from collections.abc import Callable

    from langmem_adapter.filters import Condition, Filter, Values

COLUMNS: Final[dict[str, Any]] = {name: memories.c[name] if name in memories.c else scopes.c[name] for name in FIELDS}
"""Column of each field of a memory that a filter can name."""

_ORDER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": ColumnElement.__eq__,
    "gt": ColumnElement.__gt__,
    "gte": ColumnElement.__ge__,
    "lt": ColumnElement.__lt__,
    "lte": ColumnElement.__le__,
}
_DAY: Final = timedelta(days=1)
_SLACK: Final = {"gt": -_DAY, "gte": -_DAY, "lt": _DAY, "lte": _DAY}  # a day begins at another time for each speaker
_MOST: Final = 500


def columns_read(wanted: Filter) -> list[str]:
    """Names of the fields that a filter reads besides keys of the metadata."""
    return [name for name in FIELDS if any(key == name or key.startswith(f"{name}.") for key in wanted.fields)]


def values_reader(wanted: Filter) -> Callable[[Any], Values]:
    """How a row, with its metadata and the columns that the filter reads, becomes what the filter is asked about."""
    own = columns_read(wanted)
    if not own:
        return lambda row: row.metadata
    return lambda row: {**row.metadata, **{name: _value(row, name) for name in own}}


def _value(row: Any, name: str) -> Any:
    value = getattr(row, name)
    return local(value, row.utc_offset) if name in {"created_at", "updated_at"} else value


def conditions(wanted: Filter) -> list[ColumnElement[bool]]:
    """What surely holds for every memory that the filter holds for, as far as the database can tell."""
    return [found for condition in wanted.conditions if (found := _condition(condition)) is not None]


def _condition(condition: Condition) -> ColumnElement[bool] | None:
    column = COLUMNS.get(condition.key)
    operand = condition.operand
    if column is None or condition.key == "metadata":
        return None
    if condition.operator == "eq" and operand is None:
        return column.is_(None)  # type: ignore[no-any-return]
    if condition.key in TIMES:
        compare = _ORDER.get(condition.operator)
        limit, slack = parse_moment(operand), _SLACK.get(condition.operator) if is_day(operand) else timedelta()
        if compare is None or limit is None or slack is None or not FIRST + _DAY < limit < LAST - _DAY:
            return None
        return compare(column, limit + slack)  # type: ignore[no-any-return]
    if condition.operator == "in" and len(operand) <= _MOST and all(isinstance(part, str) for part in operand):
        return column.in_(operand)  # type: ignore[no-any-return]
    return column == operand if condition.operator == "eq" and isinstance(operand, str) else None
