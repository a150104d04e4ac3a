"""Copying every row of a database into another one, table by table; from SQLite to Postgres and back as well.

A value travels as SQLite keeps it: a date as text in UTC, JSON as text, a Boolean as 0 or 1. `COPY` of Postgres reads all of
these.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import JSON, Boolean, Integer, Text, cast, func, insert, not_, select, text, type_coerce, update
from sqlalchemy.types import NULLTYPE

from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.storage.jobs import jobs
from langmem_adapter.storage.moments import UTCDateTime, unreadable
from langmem_adapter.storage.prepared_statements import driver_cursor
from langmem_adapter.storage.tables import changes, cursors, metadata, reembedded, sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Column, Connection, Select, Table

__all__ = ["LEFT_OUT", "RUNNING", "OnProgress", "copy_rows", "percent", "renew"]

OnProgress: TypeAlias = "Callable[[int, int], None]"
"""Gets how much is done, and of how much."""

LEFT_OUT: Final = (sessions, cursors, reembedded)
"""Tables that a copy has no rows in: they belong to the programs that use the source."""
RUNNING: Final = jobs.c.state == "running"
"""Condition on jobs, which do as well."""

_NUMBERED: Final = ("conversations", "notes")  # whose ids the database draws
_BATCH: Final = 2_000
_LAST_NUMBER: Final = {
    "sqlite": text("SELECT seq FROM sqlite_sequence WHERE name = :name"),
    "postgresql": text("SELECT pg_sequence_last_value(pg_get_serial_sequence(:name, 'id')::regclass)"),
}
# Contract: a sequence does not take part in its transaction, so it is only ever set forward: after a rollback the rows that
# are there again keep their ids to themselves. `test_copy_that_is_interrupted_leaves_the_target_as_it_was`
_SET_NUMBER: Final = {
    "sqlite": text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"),
    "postgresql": text(
        "SELECT setval(name::regclass, greatest(:last, pg_sequence_last_value(name::regclass))) "
        "FROM pg_get_serial_sequence(:name, 'id') AS name"
    ),
}


def copy_rows(source: Connection, target: Connection, progress: OnProgress | None = None) -> None:
    """Copy all rows but those that belong to running programs, within a read and a write transaction.

    The tables of the target are empty, on Postgres but for `changes`, which is written over.

    Raises:
        StorageError: A date in the source cannot be copied.
    """
    if wrong := list(unreadable(source, metadata)):
        raise StorageError(
            f"no program here can read {len(wrong)} dates; correct them, or delete their rows: {wrong[0]}"
        )
    queries = {table: _query(table, source.dialect.name) for table in metadata.sorted_tables if table not in LEFT_OUT}
    counts = [select(func.count()).select_from(query.subquery()) for query in queries.values()]
    total, done = sum(source.execute(count).scalar_one() for count in counts), 0

    def rows_of(query: Select[Any]) -> Iterator[Any]:
        nonlocal done
        for rows in source.execute(query, execution_options={"yield_per": _BATCH}).partitions():
            yield from rows
            done += len(rows)
            if progress is not None:
                progress(done, total)

    for name in _NUMBERED:
        last = source.execute(_LAST_NUMBER[source.dialect.name], {"name": name}).scalar()
        if last is not None:
            target.execute(_SET_NUMBER[target.dialect.name], {"name": name, "last": last})
    for table, query in queries.items():
        _insert(target, table, rows_of(query))


def renew(connection: Connection, last: int, above: int) -> None:
    """Let a copy go on in a history of its own, within the transaction that makes it.

    Args:
        connection: A write transaction of the copy.
        last: Number of the last change of the source.
        above: Number of the last change that programs know which have the copy open.
    """
    # Contract: a program that has read up to *above* finds another nonce there and another number at the end, so it reads
    # everything anew, as does a shared index that was fed by the source. `test_copy_replace_is_followed_by_open_memories`
    nonce = secrets.token_bytes(8)
    connection.execute(update(changes).where(changes.c.seq >= last).values(nonce=nonce))
    if above >= max(1, last):
        connection.execute(insert(changes).values(seq=above + 1, nonce=nonce, space="copy", row=0, op="copy"))


def percent(progress: OnProgress | None, start: int = 0, end: int = 100) -> OnProgress | None:
    """Progress of a part of the work, told as per cent of the whole."""
    if progress is None:
        return None
    return lambda done, total: progress(start + (end - start) * min(done, total) // max(1, total), 100)


def _query(table: Table, dialect: str) -> Select[Any]:
    query = select(*(_portable(column, dialect) for column in table.c))
    return query.where(not_(RUNNING)) if table is jobs else query


def _portable(column: Column[Any], dialect: str) -> Any:
    if dialect == "postgresql":
        if isinstance(column.type, UTCDateTime):
            return func.to_char(column, "YYYY-MM-DD HH24:MI:SS.US")  # in the zone of the session, which is UTC
        if isinstance(column.type, JSON):
            return cast(column, Text)
        if isinstance(column.type, Boolean):
            return cast(column, Integer)
    return type_coerce(column, NULLTYPE)


def _insert(target: Connection, table: Table, rows: Iterator[Any]) -> None:
    columns = ", ".join(map(target.dialect.identifier_preparer.quote, table.c.keys()))
    if target.dialect.name == "sqlite":
        statement = f"INSERT INTO {table.name} ({columns}) VALUES ({', '.join('?' * len(table.c))})"  # noqa: S608 - names of ours
        with driver_cursor(target, statement) as cursor:
            cursor.executemany(statement, rows)
    elif (
        table is changes
    ):  # not deleted before: for each change Postgres would read all deleted memories, which name it
        target.exec_driver_sql("CREATE TEMPORARY TABLE copied_changes (LIKE changes) ON COMMIT DROP")
        _copy_in(target, f"copied_changes ({columns})", rows)
        new = ", ".join(f"{name} = excluded.{name}" for name in columns.split(", "))
        rest = f"SELECT {columns} FROM copied_changes ON CONFLICT (seq) DO UPDATE SET {new}"  # noqa: S608 - the same
        target.exec_driver_sql(f"INSERT INTO changes ({columns}) {rest}")
    else:
        _copy_in(target, f"{table.name} ({columns})", rows)


def _copy_in(target: Connection, where: str, rows: Iterator[Any]) -> None:
    statement = f"COPY {where} FROM STDIN"
    with driver_cursor(target, statement) as cursor:
        if not hasattr(cursor, "copy"):
            raise InvalidInputError("only the driver psycopg can copy: write postgresql+psycopg://…")
        with cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
