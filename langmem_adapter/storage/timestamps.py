"""Timestamps in the database: aware UTC datetimes, and UTC offsets beside them.

A date that Python cannot hold (`infinity`, the year 20000, a text that is none) was not written by this package. Its row is
read with `FIRST` or `LAST` in its place, and `meta.unreadable` names it.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import DateTime, TypeDecorator
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql.compiler import SQLCompiler

_log = logging.getLogger("langmem_adapter")

FIRST: Final = datetime.min.replace(tzinfo=UTC)
"""The first moment that Python can hold."""
LAST: Final = datetime.max.replace(tzinfo=UTC)
"""The last one."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
COUNTED: Final = {"kept as": "microseconds since EPOCH"}
"""The `info` of a column that keeps times as numbers."""


class UTCDateTime(TypeDecorator[datetime]):
    """An aware UTC datetime: `timestamptz` on Postgres, naive UTC text on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        aware = value and value.astimezone(UTC)
        return aware.replace(tzinfo=None) if aware and dialect.name == "sqlite" else aware

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - as SQLAlchemy calls it
        return value and value.astimezone(UTC)

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Postgres gives nothing that the driver cannot read: its error would take every other row with it."""
        return bounded(column)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        """On SQLite parse the text directly: SQLAlchemy's pattern takes three times as long."""
        return _parse if dialect.name == "sqlite" else super().result_processor(dialect, coltype)


class bounded(FunctionElement[Any]):  # noqa: N801 - used like SQLAlchemy's functions
    """A column of dates, on Postgres within `FIRST` and `LAST`."""

    type = UTCDateTime()
    inherit_cache = True


@compiles(bounded)
def _compile_bounded(element: bounded, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.clauses.clauses[0], **options)
    if compiler.dialect.name == "sqlite":
        return column
    first, last = (f"timestamptz '{limit.isoformat(' ', 'microseconds')}'" for limit in (FIRST, LAST))
    return f"CASE WHEN {column} > {last} THEN {last} WHEN {column} < {first} THEN {first} ELSE {column} END"


def _parse(value: object) -> datetime | None:
    try:
        return None if value is None else datetime.fromisoformat(f"{value}Z")  # its zone is `UTC` itself
    except ValueError:
        instead = LAST if isinstance(value, str) and value > "9999" else FIRST
        _log.warning("a date in the database is none: %.60r is read as %s; Memory.verify tells where", value, instead)
        return instead


def local(time: datetime, minutes: int | None) -> datetime:
    """A time at a stored UTC offset, which says what day it was for the speaker; without one in the system's zone."""
    try:
        return time.astimezone(None if minutes is None else timezone(timedelta(minutes=minutes)))
    except (OverflowError, OSError, ValueError):  # the first or last hours of the calendar
        return time


def offset_minutes(time: datetime) -> int:
    return int((time.utcoffset() or timedelta()) / timedelta(minutes=1))
