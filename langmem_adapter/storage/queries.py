"""Queries: prepared statements, lists as one parameter, filters in SQL, and pages with cursors.

SQLAlchemy compiles a statement once, but prepares every execution anew. `make bench` shows the cost: a search takes a third
more CPU, an add a sixth more. So the statements of an add or a search are `Prepared`; all others are plain Core.
"""

from __future__ import annotations

import base64
import json
from collections import namedtuple
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import (
    ARRAY,
    JSON,
    ColumnElement,
    Float,
    Text,
    TypeDecorator,
    and_,
    bindparam,
    literal,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.filters import FIELDS, TIMES, is_day, parse_moment
from langmem_adapter.records.checks import quoted
from langmem_adapter.storage.tables import memories, scopes
from langmem_adapter.storage.timestamps import FIRST, LAST, bounded, local

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select
    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql.compiler import SQLCompiler
    from sqlalchemy.sql.expression import Executable
    from sqlalchemy.types import TypeEngine

    from langmem_adapter.filters import Condition, Filter, Values

_Parameters: TypeAlias = Mapping[str, Any]
_CACHE_SIZE: Final = 1_024  # statements times dialects; every engine has its own dialect object


class Prepared:
    """A statement that is compiled once per dialect and runs in the transaction of its connection.

    Its errors are SQLAlchemy's. It takes no list that expands (`in_`): write `any_of`. An INSERT needs every column.
    """

    def __init__(self, statement: Executable) -> None:
        self.statement: Final = statement

    def rows(self, connection: Connection, values: _Parameters = {}) -> list[Any]:  # noqa: B006 - never written to
        form = _compiled(self.statement, connection.dialect)
        with driver_cursor(connection, form.sql) as cursor:
            cursor.execute(form.sql, form.bound(values))
            return form.read(cursor.fetchall())

    def first(self, connection: Connection, values: _Parameters = {}) -> Any:  # noqa: B006 - never written to
        return next(iter(self.rows(connection, values)), None)

    def run(self, connection: Connection, *rows: _Parameters) -> None:
        if not rows:
            return
        form = _compiled(self.statement, connection.dialect)
        with driver_cursor(connection, form.sql) as cursor:
            if len(rows) == 1:
                cursor.execute(form.sql, form.bound(rows[0]))
            else:
                cursor.executemany(form.sql, [form.bound(values) for values in rows])


class _Compiled:
    """A statement in one dialect: its SQL, and how values go in and come out."""

    def __init__(self, statement: Any, dialect: Dialect) -> None:
        # Contract: what SQLAlchemy's compiler says of a statement (order and names of parameters, their types and those of the
        # columns) is no public promise. `test_prepared_rows_reads_what_sqlalchemy_reads` and its neighbours compare every
        # kind of value with what SQLAlchemy itself does, and fail where that changes.
        compiled = statement.compile(dialect=dialect)
        columns = list(getattr(statement, "exported_columns", ()))
        self.sql: Final[str] = compiled.string
        self._fixed: Final = {name: value for name, value in compiled.params.items() if value is not None}
        self._order: Final[list[str] | None] = compiled.positiontup if compiled.positional else None
        processors = {
            name: bind.type.dialect_impl(dialect).bind_processor(dialect) for bind, name in compiled.bind_names.items()
        }
        self._to_driver: Final = {name: convert for name, convert in processors.items() if convert is not None}
        is_plain = self._order is not None and len(self._order) > 1 and not self._fixed and not self._to_driver
        self._pick: Final = itemgetter(*self._order or ()) if is_plain else None  # words of memories are many
        converters = enumerate(_result_processor(column.type, dialect) for column in columns)
        self._from_driver: Final = [(place, convert) for place, convert in converters if convert is not None]
        row: Any = namedtuple("Row", [column.key for column in columns], rename=True)  # type: ignore[misc]  # noqa: PYI024 - names are known here only
        self._make: Final = row._make

    def bound(self, values: _Parameters) -> Any:
        try:
            if self._pick is not None:
                return self._pick(values)
            bound = {**self._fixed, **values}
            for name, convert in self._to_driver.items():
                bound[name] = convert(bound[name])
            return bound if self._order is None else [bound[name] for name in self._order]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StatementError(f"a value cannot be used: {error!r}", self.sql, None, error) from error

    def read(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        if self._from_driver and rows:
            columns: list[Any] = list(zip(*rows, strict=True))
            for place, convert in self._from_driver:
                columns[place] = map(convert, columns[place])
            rows = list(zip(*columns, strict=True))
        return list(map(self._make, rows))


_decode: Final = json.JSONDecoder().decode
_compiled: Final = lru_cache(maxsize=_CACHE_SIZE)(_Compiled)


def _result_processor(type_: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    if isinstance(type_, Float):  # both drivers give floats, and SQLAlchemy asks for the type's number to know that
        return None
    if isinstance(type_, JSON) and dialect.name == "sqlite":
        return _from_json
    return type_.dialect_impl(dialect).result_processor(dialect, None)


def _from_json(value: Any) -> Any:
    """What SQLAlchemy reads, through four functions less; a lone number comes as such, since SQLite has no JSON type."""
    if value == "{}":  # most metadata
        return {}
    return _decode(value) if isinstance(value, str) else value


@contextmanager
def driver_cursor(connection: Connection, sql: str) -> Iterator[Any]:
    """A cursor of the driver within the connection's transaction; its errors are those that SQLAlchemy would raise."""
    dialect = connection.dialect
    driver = connection.connection
    cursor = None
    try:
        cursor = driver.cursor()  # on a lost connection this fails already
        yield cursor
    except dialect.loaded_dbapi.Error as error:
        is_lost = dialect.is_disconnect(error, driver, cursor)
        if is_lost:
            connection.invalidate(error)
        raise DBAPIError(sql, None, error, connection_invalidated=is_lost) from error
    finally:
        if cursor is not None:
            cursor.close()


# ── lists as one parameter ──────────────────────────────────────────────────────────────────────────────────────────────


class _List(TypeDecorator[Any]):
    """A list as one value: JSON on SQLite, an array on Postgres."""

    impl = Text
    cache_ok = True

    def __init__(self, item: TypeEngine[Any]) -> None:
        super().__init__()
        self.item = item

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else ARRAY(self.item))

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return json.dumps(list(value)) if dialect.name == "sqlite" else list(value)


class any_of(FunctionElement[Any]):  # noqa: N801 - used like SQLAlchemy's functions
    """The condition that a column has one of the values of a list, which is one parameter however long it is.

    *values* are the values, or the parameter's name.
    """

    inherit_cache = True

    def __init__(self, column: ColumnElement[Any], values: str | Collection[Any]) -> None:
        kind = _List(column.type)
        one = bindparam(values, type_=kind) if isinstance(values, str) else bindparam(None, values, kind, unique=True)
        super().__init__(column, one)


@compiles(any_of)
def _compile_any_of(element: any_of, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(part, **options) for part in element.clauses)
    form = "{} IN (SELECT value FROM json_each({}))" if compiler.dialect.name == "sqlite" else "{} = ANY ({})"
    return form.format(column, values)


# ── filters ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

# A filter decides in Python. Where a condition on a memory's own column must hold, the database narrows first, so that a
# filter by time or actor does not read the whole scope. Every value is a bound parameter.

COLUMNS: Final[dict[str, Any]] = {name: memories.c[name] if name in memories.c else scopes.c[name] for name in FIELDS}
"""The column of each field of a memory that a filter can name."""
_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": ColumnElement.__eq__,
    "gt": ColumnElement.__gt__,
    "gte": ColumnElement.__ge__,
    "lt": ColumnElement.__lt__,
    "lte": ColumnElement.__le__,
}
_DAY: Final = timedelta(days=1)
_SLACK: Final = {"gt": -_DAY, "gte": -_DAY, "lt": _DAY, "lte": _DAY}  # a day begins at another time for each speaker
_MAX_VALUES: Final = 500


def filter_columns(filters: Filter) -> list[str]:
    """Names of the fields that a filter reads besides keys of the metadata."""
    return [name for name in FIELDS if any(key == name or key.startswith(f"{name}.") for key in filters.fields)]


def values_reader(filters: Filter) -> Callable[[Any], Values]:
    """A function that makes of a row what the filter reads: the metadata, and the fields of `filter_columns`."""
    names = filter_columns(filters)

    def value(row: Any, name: str) -> Any:
        value = getattr(row, name)
        return local(value, row.utc_offset) if name in {"created_at", "updated_at"} else value

    return lambda row: {**row.metadata, **{name: value(row, name) for name in names}} if names else row.metadata


def filter_conditions(filters: Filter) -> list[ColumnElement[bool]]:
    """Conditions in SQL that hold for every memory which the filter matches."""
    return [clause for each in filters.conditions if (clause := _filter_condition(each)) is not None]


def _filter_condition(condition: Condition) -> ColumnElement[bool] | None:
    column: Any = COLUMNS.get(condition.key)
    operator, operand = condition.operator, condition.operand
    if column is None or condition.key == "metadata":
        return None
    if operator == "eq" and operand is None:
        return column.is_(None)  # type: ignore[no-any-return]
    if condition.key in TIMES:
        compare, limit = _COMPARE.get(operator), parse_moment(operand)
        slack = _SLACK.get(operator) if is_day(operand) else timedelta()
        if compare is None or limit is None or slack is None or not FIRST + _DAY < limit < LAST - _DAY:
            return None
        return compare(column, limit + slack)  # type: ignore[no-any-return]
    if operator == "in" and len(operand) <= _MAX_VALUES and all(isinstance(part, str) for part in operand):
        return column.in_(operand)  # type: ignore[no-any-return]
    return column == operand if operator == "eq" and isinstance(operand, str) else None


# ── pages ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

HIGHEST: Final = 2**63 - 1
"""The highest number that both databases compare with."""


def cursor(*place: int | str) -> str:
    """The cursor of a page that ends at a place in the order."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def parse_cursor(after: object, *kinds: type) -> list[Any]:
    """The inverse of `cursor`, for a place of such kinds."""
    try:
        place: Any = json.loads(base64.urlsafe_b64decode(after.encode())) if isinstance(after, str) else None
        json.dumps(place, ensure_ascii=False).encode()  # a lone surrogate fails here
    except (ValueError, RecursionError):
        place = None
    if not isinstance(place, list) or [type(part) for part in place] != [*kinds]:
        raise _invalid_cursor(after)
    if any(abs(part) > HIGHEST for part in place if isinstance(part, int)):
        raise _invalid_cursor(after)
    return place


def _invalid_cursor(after: object) -> InvalidInputError:
    return InvalidInputError(f"after={quoted(after)} is no cursor of this list: pass the `next` of the page before")


def read_page(
    connection: Connection,
    query: Select[Any],
    created_at: ColumnElement[datetime],
    pk: ColumnElement[Any],
    *,
    k: int,
    after: str | None,
    matches: Callable[[Any], bool] | None = None,
) -> tuple[Sequence[Any], str | None]:
    """A page of the rows of a query that match, newest first, and the cursor of the next page; *pk* is among the columns."""
    date = bounded(created_at)
    if after is not None:
        text, last = parse_cursor(after, str, pk.type.python_type)
        limit = _cursor_date(connection, created_at, text, after)
        query = query.where(or_(date < limit, and_(date == limit, pk < last)))
    query = query.add_columns(type_coerce(date, Text).label("place")).order_by(date.desc(), pk.desc())
    with connection.execute(query if matches else query.limit(k + 1), execution_options={"yield_per": 1000}) as stream:
        rows = list(islice(filter(matches, stream) if matches else stream, k + 1))
    following = cursor(str(rows[k - 1].place), rows[k - 1]._mapping[pk]) if len(rows) > k else None
    return rows[:k], following


def _cursor_date(
    connection: Connection, created_at: ColumnElement[datetime], text: str, after: str
) -> ColumnElement[Any]:
    """The date of a cursor, as the database compares it: on SQLite the text that is stored."""
    stored, on_sqlite = literal(text, Text()), connection.dialect.name == "sqlite"
    try:
        date = literal(datetime.fromisoformat(text))
    except ValueError:  # on SQLite a page may end at a row with an unreadable date
        rows = select(stored).where(type_coerce(created_at, Text) == stored).limit(1)
        if not on_sqlite or connection.execute(rows).first() is None:
            raise _invalid_cursor(after) from None
    return stored if on_sqlite else date
