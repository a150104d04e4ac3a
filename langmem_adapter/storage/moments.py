"""Moments as the database keeps them, and those that Python cannot hold.

A date that our own writers never wrote (`infinity`, the year 20000, a text that is none) is one bad value: its row is read with
a stand-in, the last moment that the database does not sort after it, or the first there is. So whatever is compared in SQL and
in Python comes out the same. `unreadable` finds such rows.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import DateTime, Text, TypeDecorator, cast, not_, or_, select, type_coerce
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Column, ColumnElement, Connection, MetaData, Table
    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql.compiler import SQLCompiler

_log = logging.getLogger("langmem_adapter")

FIRST: Final = datetime.min.replace(tzinfo=UTC)
"""The first moment that Python can hold."""
LAST: Final = datetime.max.replace(tzinfo=UTC)
"""The last one."""
_STEP: Final = timedelta(microseconds=1)
_MOMENTS: Final = range((LAST - FIRST) // _STEP + 1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
COUNTED: Final = {"kept as": "microseconds since EPOCH"}
"""The `info` of a column that keeps moments as numbers."""
_COUNTS: Final[list[Any]] = [(end - EPOCH) // _STEP for end in (FIRST, LAST)]
_IDS: Final = {"id", "memory_id"}


class UTCDateTime(TypeDecorator[datetime]):
    """An aware UTC datetime: `timestamptz` on Postgres, naive UTC text on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC on the way in."""
        if value is None:
            return None
        aware = value.astimezone(UTC)
        return aware.replace(tzinfo=None) if dialect.name == "sqlite" else aware

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - as SQLAlchemy calls it
        """Come back aware; on SQLite `result_processor` sees to that."""
        return None if value is None else value.astimezone(UTC)

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Postgres gives nothing that the driver cannot read: its error would take every other row with it."""
        return held(column)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        """On SQLite straight from its text: SQLAlchemy's own way through a pattern takes three times as long."""
        return _from_text if dialect.name == "sqlite" else super().result_processor(dialect, coltype)


def local(moment: datetime, minutes: int | None) -> datetime:
    """A moment at a stored UTC offset, which says what day it was for who spoke; without one in the system's zone."""
    try:
        return moment.astimezone(None if minutes is None else timezone(timedelta(minutes=minutes)))
    except (OverflowError, OSError, ValueError):  # the first or last hours of the calendar
        return moment


def minutes_of(moment: datetime) -> int:
    """The UTC offset of a moment, as it is stored."""
    return int((moment.utcoffset() or timedelta()) / timedelta(minutes=1))


class held(FunctionElement[Any]):  # noqa: N801 - used like SQLAlchemy's functions
    """A column of moments as Python can hold them; on SQLite, which has only texts, as it is."""

    type = UTCDateTime()
    inherit_cache = True


@compiles(held)
def _as_it_is(element: held, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses.clauses[0], **options)


@compiles(held, "postgresql")
def _bounded(element: held, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.clauses.clauses[0], **options)
    first, last = (f"timestamptz '{moment.isoformat(' ', 'microseconds')}'" for moment in (FIRST, LAST))
    return f"CASE WHEN {column} > {last} THEN {last} WHEN {column} < {first} THEN {first} ELSE {column} END"


def _from_text(value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        return datetime.fromisoformat(f"{value}Z")  # its zone is `UTC` itself
    except ValueError:
        instead = nearest(value)
        _log.warning("a date in the database is none: %.60r is read as %s; Memory.verify tells where", value, instead)
        return instead


def nearest(value: object) -> datetime:
    """The stand-in for what SQLite keeps in place of a date.

    Example:
        >>> nearest("2024-02-31 10:00:00.000000").isoformat(" ")
        '2024-02-29 23:59:59.999999+00:00'
        >>> nearest("soon") == LAST, nearest(7) == FIRST
        (True, True)
    """
    if isinstance(value, int | float):  # SQLite sorts numbers before texts
        return FIRST
    return FIRST + max(0, bisect_right(_MOMENTS, str(value), key=_text) - 1) * _STEP


def _text(number: int) -> str:
    return (FIRST + number * _STEP).replace(tzinfo=None).isoformat(" ", "microseconds")


# ── where they are ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A value of the database that is no moment which Python can hold: what names its row, and what stands there as text."""

    table: str
    column: str
    row: dict[str, Any]
    stored: str

    def __str__(self) -> str:
        """Where it is, for whoever mends it."""
        row = ", ".join(f"{name} {value}" for name, value in self.row.items())
        return f"{self.table}.{self.column} of {row}: {self.stored!r}"


def unreadable(connection: Connection, metadata: MetaData) -> Iterator[Unreadable]:
    """Every date in the tables that is read with a stand-in."""
    for table in metadata.sorted_tables:
        if dates := [column for column in table.c if isinstance(column.type, UTCDateTime)]:
            yield from _unreadable(connection, table, dates)
        for column in (column for column in table.c if column.info is COUNTED):
            names = _names(table)
            for *row, stored in connection.execute(select(*names, column).where(not_(column.between(*_COUNTS)))):
                yield _at(column, names, row, stored)


def _unreadable(connection: Connection, table: Table, dates: list[Column[Any]]) -> Iterator[Unreadable]:
    names = _names(table)
    if connection.dialect.name == "sqlite":  # reads every text: SQL knows other dates than Python
        query, zone = select(*names, *(type_coerce(date, Text) for date in dates)), "Z"
    else:
        beyond = or_(*(not_(date.between(FIRST, LAST)) for date in dates))
        query, zone = select(*names, *(cast(date, Text) for date in dates)).where(beyond), ""
    with connection.execute(query, execution_options={"yield_per": 1000}) as rows:
        for row in rows:
            for column, stored in zip(dates, row[len(names) :], strict=True):
                if stored is not None and not _is_date(f"{stored}{zone}"):
                    yield _at(column, names, row, stored)


def _names(table: Table) -> list[Column[Any]]:
    return [column for column in table.c if column.primary_key or column.name in _IDS]


def _at(column: Column[Any], names: list[Column[Any]], row: Sequence[Any], stored: object) -> Unreadable:
    named = {name.name: value for name, value in zip(names, row, strict=False)}
    return Unreadable(column.table.name, column.name, named, str(stored))


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
