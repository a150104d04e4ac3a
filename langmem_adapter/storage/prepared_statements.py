"""Statements prepared once and given to the driver as they are.

SQLAlchemy compiles a statement once, too, but it still prepares every execution: caches are asked, a context and a result
object made, some 60 microseconds where SQLite itself needs 5. Reads and writes that happen in every call go this shorter way:
the same SQL, the same conversions of values, the same transaction and the same errors, straight on the driver's cursor.
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import ARRAY, JSON, ColumnElement, Float, Text, TypeDecorator, bindparam
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.ext.compiler import compiles

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.engine import Dialect
    from sqlalchemy.engine.interfaces import DBAPICursor
    from sqlalchemy.sql.compiler import SQLCompiler
    from sqlalchemy.sql.expression import Executable
    from sqlalchemy.types import TypeEngine

__all__ = ["Prepared", "any_of"]

_Values: TypeAlias = Mapping[str, Any]

_DECODE: Final = json.JSONDecoder().decode
_FORMS: Final = 1_024
"""Statements times dialects that are kept; every engine has a dialect object of its own."""


class Prepared:
    """A statement that is compiled once per dialect.

    It runs in the transaction of the connection that it is given, which must have begun one (as `Database.read` and
    `Database.write` do). Events of SQLAlchemy like `before_cursor_execute` do not see it. The statement may not expand
    (`in_` with a list): write `any_of`; an INSERT is given every column, defaults of Python are not filled in.

    Args:
        statement: Any Core statement with named parameters.

    Raises:
        TypeError: At its first use: it needs a part of SQLAlchemy's execution that is left out here.

    Example:
        >>> from sqlalchemy import column, create_engine, select, table
        >>> add = Prepared(select((bindparam("one") + bindparam("two")).label("sum")))
        >>> with create_engine("sqlite://").begin() as connection:
        ...     add.rows(connection, {"one": 1, "two": 2})[0].sum
        3
    """

    __slots__ = ("__weakref__", "statement")

    def __init__(self, statement: Executable) -> None:
        self.statement: Final = statement

    def run(self, connection: Connection, values: _Values) -> int:
        """Execute it once.

        Returns:
            How many rows it touched.
        """
        form = _form(self, connection.dialect)
        with _cursor(connection, form) as cursor:
            cursor.execute(form.sql, form.bound(values))
            return cursor.rowcount

    def many(self, connection: Connection, rows: Sequence[_Values]) -> None:
        """Execute it once for each of some rows; nothing happens where there are none."""
        if len(rows) > 1:
            form = _form(self, connection.dialect)
            with _cursor(connection, form) as cursor:
                cursor.executemany(form.sql, [form.bound(values) for values in rows])
        elif rows:
            self.run(connection, rows[0])

    def rows(self, connection: Connection, values: _Values = {}) -> list[Any]:  # noqa: B006 - never written to
        """Every row that it gives, as named tuples.

        Raises:
            DBAPIError: The driver's error, as SQLAlchemy wraps it; so in every other method.
        """
        form = _form(self, connection.dialect)
        with _cursor(connection, form) as cursor:
            cursor.execute(form.sql, form.bound(values))
            return form.read(cursor.fetchall())

    def tuples(self, connection: Connection, values: _Values) -> list[Any]:
        """Every row as a plain tuple, for statements that give thousands."""
        form = _form(self, connection.dialect)
        with _cursor(connection, form) as cursor:
            cursor.execute(form.sql, form.bound(values))
            return form.converted(cursor.fetchall())

    def rows_on(self, driver: Any, dialect: Dialect, values: _Values) -> list[Any]:
        """The same on a bare connection of the driver; its errors come as they are.

        Args:
            driver: Of `sqlite3`.
            dialect: Of the database that it belongs to.
            values: The parameters.
        """
        form = _form(self, dialect)
        return form.read(driver.execute(form.sql, form.bound(values)).fetchall())

    def first(self, connection: Connection, values: _Values = {}) -> Any:  # noqa: B006 - never written to
        """The first row as a named tuple; `None` where there is none."""
        form = _form(self, connection.dialect)
        with _cursor(connection, form) as cursor:
            cursor.execute(form.sql, form.bound(values))
            found = cursor.fetchone()
        return None if found is None else form.read([found])[0]


# ── lists as one parameter ──────────────────────────────────────────────────────────────────────────────────────────────


class _Listed(TypeDecorator[Any]):
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


class any_of(ColumnElement[bool]):  # noqa: N801 - used like SQLAlchemy's functions
    """The condition that a column has one of the values of a list, which is one parameter however long it is.

    Args:
        column: An indexed column of numbers or texts.
        name: The parameter's name.

    Example:
        >>> from sqlalchemy import Integer, column, create_engine, literal, select
        >>> chosen = select(literal(7).label("seven")).where(any_of(column("seven", Integer), "numbers"))
        >>> with create_engine("sqlite://").begin() as connection:
        ...     Prepared(chosen).rows(connection, {"numbers": [5, 6, 7]})
        [Row(seven=7)]
    """

    inherit_cache = False

    def __init__(self, column: ColumnElement[Any], name: str) -> None:
        self.column: Final = column
        self.values: Final = bindparam(name, type_=_Listed(column.type))


@compiles(any_of)
def _any_of(element: any_of, compiler: SQLCompiler, **options: Any) -> str:
    column, values = compiler.process(element.column, **options), compiler.process(element.values, **options)
    listed = "{} IN (SELECT value FROM json_each({}))" if compiler.dialect.name == "sqlite" else "{} = ANY ({})"
    return listed.format(column, values)


# ── how a statement is given to one driver ──────────────────────────────────────────────────────────────────────────────


class _Form:
    """A statement in one dialect: its SQL, and how values go in and come out."""

    __slots__ = ("_fixed", "_from_driver", "_make", "_order", "_to_driver", "sql")

    def __init__(self, statement: Any, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        _refuse_what_expands(compiled)
        columns = list(getattr(statement, "exported_columns", ()))
        self.sql: Final[str] = compiled.string
        self._fixed: Final = {name: value for name, value in compiled.params.items() if value is not None}
        self._order: Final[list[str] | None] = compiled.positiontup if compiled.positional else None
        # By name: a parameter that a statement names twice is converted once.
        self._to_driver: Final = {
            name: convert
            for bind, name in compiled.bind_names.items()
            if (convert := bind.type.dialect_impl(dialect).bind_processor(dialect)) is not None
        }
        self._from_driver: Final = [
            (place, convert)
            for place, column in enumerate(columns)
            if (convert := _from_driver(column.type, dialect)) is not None
        ]
        self._make: Final = _row([column.key for column in columns])

    def bound(self, values: _Values) -> Any:
        """Values as the driver wants them."""
        given = {**self._fixed, **values}
        try:
            for name, convert in self._to_driver.items():
                given[name] = convert(given[name])
            return given if self._order is None else [given[name] for name in self._order]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StatementError(f"a value cannot be used: {error!r}", self.sql, None, error) from error

    def read(self, found: Sequence[Sequence[Any]]) -> list[Any]:
        """Rows as they are meant, from rows as the driver gives them."""
        return list(map(self._make, self.converted(found)))

    def converted(self, found: Sequence[Sequence[Any]]) -> list[Any]:
        """The same as plain tuples."""
        if not self._from_driver or not found:
            return list(found)
        columns: list[Any] = list(zip(*found, strict=True))
        for place, convert in self._from_driver:
            columns[place] = map(convert, columns[place])
        return list(zip(*columns, strict=True))


def _from_driver(type_: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    if isinstance(type_, JSON) and dialect.name == "sqlite":
        return _from_json
    if isinstance(type_, Float):  # both drivers give floats, and SQLAlchemy asks for the type's number to know that
        return None
    return type_.dialect_impl(dialect).result_processor(dialect, None)


def _from_json(value: Any) -> Any:
    """What SQLAlchemy reads, through four functions less; a lone number comes as such, for SQLite knows no JSON."""
    if value == "{}":  # what most metadata is
        return {}
    return _DECODE(value) if isinstance(value, str) else value


@lru_cache(maxsize=_FORMS)
def _form(prepared: Prepared, dialect: Dialect) -> _Form:
    return _Form(prepared.statement, dialect)


def _row(names: list[str]) -> Callable[[Iterable[Any]], Any]:
    row: Any = namedtuple("Row", tuple(names), rename=True)  # type: ignore[misc]  # noqa: PYI024 - known here only
    make: Callable[[Iterable[Any]], Any] = row._make
    return make


def _refuse_what_expands(compiled: Any) -> None:
    parts = ("post_compile_params", "insert_prefetch", "update_prefetch")
    if any(getattr(compiled, part, ()) for part in parts):
        raise TypeError(
            f"this statement cannot be prepared (a list that expands, or a column's default): {compiled.string}"
        )


@contextmanager
def _cursor(connection: Connection, form: _Form) -> Iterator[DBAPICursor]:
    """A cursor of the driver within the connection's transaction; its errors are those that SQLAlchemy would raise."""
    dialect = connection.dialect
    driver = connection.connection
    cursor = None
    try:
        cursor = driver.cursor()  # on a lost connection this fails already
        yield cursor
    except dialect.loaded_dbapi.Error as error:
        lost = dialect.is_disconnect(error, driver, cursor)
        if lost:
            connection.invalidate(error)
        raise DBAPIError(form.sql, None, error, connection_invalidated=lost) from error
    finally:
        if cursor is not None:
            cursor.close()
