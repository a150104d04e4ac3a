"""Statements of an add or a search, compiled once and given to the driver as they are; all others are plain Core.

SQLAlchemy compiles a statement once, too, but prepares every execution anew. `make bench` shows what that costs: a search
takes a third more CPU, with or without the graph, and an add a sixth more.
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import ARRAY, JSON, ColumnElement, Float, Text, TypeDecorator, bindparam
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql.compiler import SQLCompiler
    from sqlalchemy.sql.expression import Executable
    from sqlalchemy.types import TypeEngine

_Parameters: TypeAlias = Mapping[str, Any]

_DECODE: Final = json.JSONDecoder().decode
_FORMS: Final = 1_024
"""Statements times dialects that are kept; every engine has a dialect object of its own."""


class Prepared:
    """A statement that is compiled once per dialect, and runs in the transaction that its connection has begun.

    Its errors are SQLAlchemy's. It takes no list that expands (`in_`): write `any_of`; an INSERT is given every column.
    """

    def __init__(self, statement: Executable) -> None:
        self.statement: Final = statement

    def rows(self, connection: Connection, values: _Parameters = {}) -> list[Any]:  # noqa: B006 - never written to
        """Every row that it gives, as named tuples."""
        form = _form(self.statement, connection.dialect)
        with driver_cursor(connection, form.sql) as cursor:
            cursor.execute(form.sql, form.bound(values))
            return form.read(cursor.fetchall())

    def first(self, connection: Connection, values: _Parameters = {}) -> Any:  # noqa: B006 - never written to
        """The first row; `None` where there is none."""
        return next(iter(self.rows(connection, values)), None)

    def run(self, connection: Connection, *rows: _Parameters) -> None:
        """Execute it once for each of some rows of values; nothing happens where there are none."""
        if not rows:  # as most of the statements that a write could need
            return
        form = _form(self.statement, connection.dialect)
        with driver_cursor(connection, form.sql) as cursor:
            if len(rows) == 1:
                cursor.execute(form.sql, form.bound(rows[0]))
            else:
                cursor.executemany(form.sql, [form.bound(values) for values in rows])


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


class any_of(FunctionElement[Any]):  # noqa: N801 - used like SQLAlchemy's functions
    """The condition that a column has one of the values of a list, which is one parameter however long it is.

    Args:
        column: An indexed column of numbers or texts.
        listed: The values, or the parameter's name.

    Example:
        >>> from sqlalchemy import Integer, column, create_engine, literal, select
        >>> chosen = select(literal(7).label("seven")).where(any_of(column("seven", Integer), "numbers"))
        >>> with create_engine("sqlite://").begin() as connection:
        ...     connection.execute(chosen, {"numbers": [5, 6, 7]}).all()
        [(7,)]
    """

    inherit_cache = True

    def __init__(self, column: ColumnElement[Any], listed: str | Collection[Any]) -> None:
        kind = _Listed(column.type)
        one = bindparam(listed, type_=kind) if isinstance(listed, str) else bindparam(None, listed, kind, unique=True)
        super().__init__(column, one)


@compiles(any_of)
def _any_of(element: any_of, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(part, **options) for part in element.clauses)
    listed = "{} IN (SELECT value FROM json_each({}))" if compiler.dialect.name == "sqlite" else "{} = ANY ({})"
    return listed.format(column, values)


# ── how a statement is given to one driver ──────────────────────────────────────────────────────────────────────────────


class _Form:
    """A statement in one dialect: its SQL, and how values go in and come out."""

    def __init__(self, statement: Any, dialect: Dialect) -> None:
        # Contract: what SQLAlchemy's compiler says of a statement (its order and names of parameters, their types and those of
        # the columns) is nobody's public promise. `test_what_is_read_prepared_is_what_sqlalchemy_reads` and its neighbours hold
        # every kind of value beside what SQLAlchemy itself does with it, and fail where that changes.
        compiled = statement.compile(dialect=dialect)
        columns = list(getattr(statement, "exported_columns", ()))
        self.sql: Final[str] = compiled.string
        self._fixed: Final = {name: value for name, value in compiled.params.items() if value is not None}
        self._order: Final[list[str] | None] = compiled.positiontup if compiled.positional else None
        kinds = {name: bind.type.dialect_impl(dialect) for bind, name in compiled.bind_names.items()}
        self._to_driver: Final = {
            name: convert for name, kind in kinds.items() if (convert := kind.bind_processor(dialect)) is not None
        }
        types = ((place, _from_driver(column.type, dialect)) for place, column in enumerate(columns))
        self._from_driver: Final = [(place, convert) for place, convert in types if convert is not None]
        row: Any = namedtuple("Row", [column.key for column in columns], rename=True)  # type: ignore[misc]  # noqa: PYI024 - known here only
        self._make: Final = row._make

    def bound(self, values: _Parameters) -> Any:
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
        if self._from_driver and found:
            columns: list[Any] = list(zip(*found, strict=True))
            for place, convert in self._from_driver:
                columns[place] = map(convert, columns[place])
            found = list(zip(*columns, strict=True))
        return list(map(self._make, found))


_form: Final = lru_cache(maxsize=_FORMS)(_Form)


def _from_driver(type_: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    if isinstance(type_, Float):  # both drivers give floats, and SQLAlchemy asks for the type's number to know that
        return None
    if isinstance(type_, JSON) and dialect.name == "sqlite":
        return _from_json
    return type_.dialect_impl(dialect).result_processor(dialect, None)


def _from_json(value: Any) -> Any:
    """What SQLAlchemy reads, through four functions less; a lone number comes as such, for SQLite knows no JSON."""
    if value == "{}":  # what most metadata is
        return {}
    return _DECODE(value) if isinstance(value, str) else value


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
        lost = dialect.is_disconnect(error, driver, cursor)
        if lost:
            connection.invalidate(error)
        raise DBAPIError(sql, None, error, connection_invalidated=lost) from error
    finally:
        if cursor is not None:
            cursor.close()
