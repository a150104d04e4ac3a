"""Pages of dated rows, and the cursors between them."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Text, and_, literal, or_, select, type_coerce

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import quoted
from langmem_adapter.storage.moments import held

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import ColumnElement, Connection, Select

HIGHEST: Final = 2**63 - 1
"""The highest number that both databases compare with."""


def cursor(*place: int | str) -> str:
    """The cursor of a page that ends at a place in the order."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def parse_cursor(after: object, *kinds: type) -> list[Any]:
    """The inverse of `cursor`, for a place of such kinds; numbers are those that a database can compare with."""
    place = _read(after) if isinstance(after, str) else None
    if not isinstance(place, list) or [type(part) for part in place] != [*kinds]:
        raise no_cursor(after)
    if any(abs(part) > HIGHEST for part in place if isinstance(part, int)):
        raise no_cursor(after)
    return place


def _read(after: str) -> object:
    try:
        place: object = json.loads(base64.urlsafe_b64decode(after.encode()))
        json.dumps(place, ensure_ascii=False).encode()  # a lone surrogate fails here
    except (ValueError, RecursionError):
        return None
    return place


def no_cursor(after: object) -> InvalidInputError:
    """The error for what is no cursor of ours."""
    return InvalidInputError(f"after={quoted(after)} is no cursor of ours; give the `next` of the page before")


def place(created_at: ColumnElement[datetime]) -> ColumnElement[Any]:
    """What a cursor says of the date of a row: on SQLite, where texts are compared, that which is kept."""
    return type_coerce(held(created_at), Text).label("place")


def newest(created_at: ColumnElement[datetime], pk: ColumnElement[Any]) -> tuple[ColumnElement[Any], ...]:
    """The order of pages: the newest statement first."""
    return held(created_at).desc(), pk.desc()


def below(
    connection: Connection, after: str, created_at: ColumnElement[datetime], pk: ColumnElement[Any]
) -> ColumnElement[bool]:
    """Condition on rows in the order of `newest`: they come after the page that gave this cursor.

    Raises:
        InvalidInputError: The cursor is none of ours.
    """
    created, last = parse_cursor(after, str, pk.type.python_type)
    moment = _moment(connection, created_at, created, after)
    return or_(held(created_at) < moment, and_(held(created_at) == moment, pk < last))


def listed(
    connection: Connection,
    query: Select[Any],
    created_at: ColumnElement[datetime],
    pk: ColumnElement[Any],
    *,
    k: int,
    after: str | None,
    fits: Callable[[Any], bool] | None = None,
) -> tuple[Sequence[Any], str | None]:
    """A page of the rows of a query that fit, *pk* among their columns, the newest first, and the cursor of the next page.

    Raises:
        InvalidInputError: The cursor is none of ours.
    """
    if after is not None:
        query = query.where(below(connection, after, created_at, pk))
    query = query.add_columns(place(created_at)).order_by(*newest(created_at, pk))
    with connection.execute(query if fits else query.limit(k + 1), execution_options={"yield_per": 1000}) as found:
        rows = list(islice(filter(fits, found) if fits else found, k + 1))
    following = cursor(str(rows[k - 1].place), rows[k - 1]._mapping[pk]) if len(rows) > k else None
    return rows[:k], following


def _moment(
    connection: Connection, created_at: ColumnElement[datetime], created: str, after: str
) -> ColumnElement[Any]:
    text, on_sqlite = literal(created, Text()), connection.dialect.name == "sqlite"
    try:
        moment = literal(datetime.fromisoformat(created))
    except ValueError:  # on SQLite a page may end at a row with such a text
        kept = select(text).where(type_coerce(created_at, Text) == text).limit(1)
        if not on_sqlite or connection.execute(kept).first() is None:
            raise no_cursor(after) from None
    return text if on_sqlite else moment
