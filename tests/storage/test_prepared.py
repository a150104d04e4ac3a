"""Prepared statements: the same values, rows and errors as through SQLAlchemy, on every database."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, bindparam, column, delete, event, func, insert, literal, or_, select

from langmem_adapter.errors import StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.tables import changes, memories, meta, metadata, runs, traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WHEN: Final = datetime(2024, 5, 1, 12, 30, 0, 250_000, tzinfo=timezone(timedelta(hours=3)))
INSERT_RUN: Final = Prepared(insert(runs))
INSERT_CHANGE: Final = Prepared(insert(changes))
INSERT_META: Final = Prepared(insert(meta))
CHOSEN: Final = Prepared(select(changes).where(any_of(changes.c.seq, "numbers")).order_by(changes.c.seq))


@pytest.fixture
def ready(database: Database) -> Database:
    """A database with its tables."""
    prepare(database)
    return database


def run(key: str, **given: Any) -> dict[str, Any]:
    """A row of `runs`, which has every kind of column but bytes."""
    return {"key": key, "scope_id": None, "created_at": WHEN, "result": [], "scope": None, **given}


def change(seq: int) -> dict[str, Any]:
    """A row of `changes`, which has bytes."""
    return {"seq": seq, "nonce": bytes([seq] * 8), "space": "memories", "row": seq, "op": "put"}


def test_prepared_run_writes_what_sqlalchemy_writes(ready: Database) -> None:
    result = [{"text": "Likes “tea” 茶", "nested": [1, 2.5, True, None]}]
    with_prepared, with_core = run("one", result=result), run("two", result=result)

    def write(connection: Any) -> None:
        INSERT_RUN.run(connection, with_prepared)
        connection.execute(insert(runs), with_core)

    ready.write(write)
    with ready.read() as connection:
        rows = connection.execute(select(runs).order_by(runs.c.key)).all()
    assert rows[0]._mapping == {**with_prepared, "created_at": WHEN.astimezone(UTC)}
    assert tuple(rows[0])[1:] == tuple(rows[1])[1:]


def test_prepared_rows_reads_what_sqlalchemy_reads(database_url: str) -> None:
    """Every kind of value that any table has, also under another name."""
    with Memory(database_url, graph=True) as memory:
        memory.add("I live in Lyon. I like tea.", user_id="ann", metadata={"kind": [1, "two", None]})
        memory.add("I live in Oslo.", user_id="ann", expires_at=WHEN + timedelta(days=36_500))
    with closing(Database(database_url)) as database, database.read() as connection:
        read = {table.name: connection.execute(select(table)).all() for table in metadata.sorted_tables}
        for table in metadata.sorted_tables:
            rows = Prepared(select(table)).rows(connection)
            assert [row._asdict() for row in rows] == [row._asdict() for row in read[table.name]], table
        named = Prepared(select(memories.c.created_at.label("since"), memories.c.pk).order_by(memories.c.pk))
        first = named.first(connection)
    assert (first.since, first.pk) == min((row.created_at, row.pk) for row in read["memories"])
    assert all(read[name] for name in ("memories", "history", "changes", "relations", "traces", "runs"))


def test_prepared_run_takes_any_number_of_rows(ready: Database) -> None:
    for rows in ([], [change(1)], [change(2), change(3), change(4)]):
        ready.write(lambda connection, rows=rows: INSERT_CHANGE.run(connection, *rows))  # type: ignore[misc]
    with ready.read() as connection:
        assert [row.seq for row in CHOSEN.rows(connection, {"numbers": range(10)})] == [1, 2, 3, 4]


def test_prepared_uses_values_of_the_statement(ready: Database) -> None:
    ready.write(lambda connection: INSERT_CHANGE.run(connection, *[change(1), change(2)]))
    query = Prepared(
        select(func.count()).where(changes.c.space == "memories", changes.c.seq >= bindparam("seq")).limit(5)
    )
    with ready.read() as connection:
        assert query.first(connection, {"seq": 2})[0] == 1


@pytest.mark.parametrize("count", [0, 1, 3, 2_000])
def test_any_of_takes_a_list_of_any_length(ready: Database, count: int) -> None:
    ready.write(lambda connection: INSERT_CHANGE.run(connection, *[change(seq) for seq in range(1, 4)]))
    with ready.read() as connection:
        found = [row.seq for row in CHOSEN.rows(connection, {"numbers": list(range(1, count + 1))})]
    assert found == [1, 2, 3][:count]


def test_any_of_takes_texts_as_they_are(ready: Database) -> None:
    keys = ["plain", "it's", '"quoted", [1]', "100 %", "茶", ":name %(name)s ?"]
    ready.write(lambda connection: INSERT_META.run(connection, *[{"key": key, "value": "v"} for key in keys]))
    chosen = Prepared(select(meta.c.key).where(any_of(meta.c.key, "keys")))
    with ready.read() as connection:
        assert {row.key for row in chosen.rows(connection, {"keys": [*keys, "another"]})} == set(keys)


def test_any_of_may_name_a_list_twice(ready: Database) -> None:
    ready.write(lambda connection: INSERT_CHANGE.run(connection, *[change(seq) for seq in range(1, 4)]))
    either = Prepared(select(changes.c.seq).where(or_(any_of(changes.c.seq, "n"), any_of(changes.c.row, "n"))))
    with ready.read() as connection:
        assert sorted(row.seq for row in either.rows(connection, {"n": [1, 3]})) == [1, 3]


def test_any_of_is_understood_by_sqlalchemy_itself(ready: Database) -> None:
    ready.write(lambda connection: INSERT_CHANGE.run(connection, *[change(1), change(2)]))
    with ready.read() as connection:
        for numbers, known in ([2, 9], [2]), ([1, 2, 3], [1, 2]):  # one compiled statement for lists of any length
            assert [row.seq for row in connection.execute(CHOSEN.statement, {"numbers": numbers})] == known


def test_prepared_run_turns_a_driver_error_into_a_storage_error(ready: Database) -> None:
    def write(connection: Any) -> None:
        INSERT_CHANGE.run(connection, change(1))
        INSERT_CHANGE.run(connection, change(1))

    with pytest.raises(StorageError, match=r"(?i)unique"):
        ready.write(write)
    with ready.read() as connection:
        assert CHOSEN.rows(connection, {"numbers": [1]}) == []
    ready.write(lambda connection: INSERT_CHANGE.run(connection, change(1)))


def test_on_a_full_disk_each_of_those_who_share_a_commit_is_told_so(tmp_path: Path) -> None:
    item: dict[str, Any] = {"messages": "tea " * 20_000, "infer": False}
    with Memory(tmp_path / "m.db") as memory:
        memory.add("tea", user_id="ann", infer=False)

        @event.listens_for(Engine, "begin")
        def fill(connection: Connection) -> None:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA max_page_count = 1")  # as many as it has

        try:
            results = memory.add_many([{**item, "user_id": f"u{number}"} for number in range(5)])
        finally:
            event.remove(Engine, "begin", fill)
        assert ["database or disk is full" in str(result) for result in results] == [True] * 5
        assert [each.scope for each in memory.scopes()] == [Scope(user_id="ann")]


def test_prepared_run_refuses_a_value_of_another_type(ready: Database) -> None:
    with pytest.raises(StorageError, match="cannot be used"):
        ready.write(lambda connection: INSERT_RUN.run(connection, run("a", created_at="yesterday")))


def test_prepared_run_refuses_a_missing_value(ready: Database) -> None:
    with pytest.raises(StorageError, match="nonce"):
        ready.write(lambda connection: INSERT_CHANGE.run(connection, {"seq": 1}))


def test_a_prepared_statement_serves_many_databases_at_once() -> None:
    count = Prepared(select(func.count(changes.c.seq)))
    databases = [Database(":memory:") for _ in range(4)]
    try:
        for number, database in enumerate(databases):
            prepare(database)
            database.write(lambda c, n=number: INSERT_CHANGE.run(c, *[change(seq) for seq in range(n)]))  # type: ignore[misc]
        for number, database in enumerate(databases):
            with database.read() as connection:
                assert count.first(connection) == (number,)
    finally:
        for database in databases:
            database.close()


def test_any_of_uses_the_index() -> None:
    database = Database(":memory:")
    prepare(database)
    query = select(memories.c.pk).where(any_of(memories.c.id, "ids"))
    with database.read() as connection:
        sql = str(query.compile(dialect=connection.dialect))
        plan = " ".join(str(row) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", ("[]",)))
    database.close()
    assert "SEARCH memories USING" in plan


@pytest.fixture(scope="module")
def shared() -> Iterator[Database]:
    """One database in memory for many examples."""
    database = Database(":memory:")
    prepare(database)
    yield database
    database.close()


@given(state=st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=9), st.lists))
def test_prepared_returns_any_json(shared: Database, state: Any) -> None:
    write = Prepared(insert(traces))
    read = Prepared(
        select(traces.c.state, literal(1).label("one"), column("id")).where(traces.c.id == bindparam("trace"))
    )
    forget = Prepared(delete(traces))
    row = {**dict.fromkeys(SCOPE_FIELDS), "id": "t", "created_at": WHEN, "summary": {}, "state": {"it": state}}

    def round_trip(connection: Any) -> Any:
        forget.run(connection, {})
        write.run(connection, row)
        return read.first(connection, {"trace": "t"})

    assert shared.write(round_trip) == ({"it": state}, 1, "t")
