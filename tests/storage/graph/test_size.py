"""A user with twenty thousand relations: one more reads what it needs, by the indexes, and nothing else."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from sqlalchemy import event, func, select

from langmem_adapter.storage.graph import edits
from langmem_adapter.storage.graph import reads as graph_reads
from langmem_adapter.storage.graph import rows as sql
from langmem_adapter.storage.graph.reads import GraphTime
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.tables import CURRENT, relations
from tests.cases import each
from tests.storage.graph.small_graph import Graph, by_hand

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.queries import Prepared

MANY: Final = 20_000
READS: Final[dict[str, tuple[Prepared, dict[str, list[Any]]]]] = {
    "between": (sql.BETWEEN, sql.pairs_of([(1, 2), (2, 1)])),
    "from": (sql.FROM, {"pks": [1], "names": ["lives_in"]}),
    "to": (sql.TO, {"pks": [1], "names": ["married_to"]}),
    "by id": (sql.BY_ID, {"ids": ["a", "b"]}),
    "retired": (sql.LAST_RETIRED, {"ids": ["a", "b"]}),
    "links": (sql.LINKS, {"ids": ["a", "b"]}),
    "support": (sql.SUPPORT, {"ids": ["a", "b"]}),
    "names": (sql.NAMES, {"scopes": [1], "keys": ["a", "b"]}),
}


_SERIES: Final = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {many}) INSERT INTO {into} "
# Negative numbers are those that the change feed never gives.
_VISITS: Final = {
    "entities (pk, id, scope_id, name, type, mentions, created_at, updated_at)": (
        "-x, 'e' || x, {scope}, 'place ' || x, '', 1, {date}, {date}"
    ),
    "entity_names (scope_id, key, name, entity_pk)": "{scope}, 'place ' || x, 'place ' || x, -x",
    "relations (pk, id, scope_id, source_pk, relation, target_pk, recorded_at, mentions, confidence)": (
        "-x, 'r' || x, {scope}, {user}, 'visited', -x, {date}, 1, 1.0"
    ),
    "relation_memories (relation_id, memory_id, scope_id, created_at)": "'r' || x, 'm' || x, {scope}, {date}",
}


@pytest.fixture(scope="module")
def hub(shared_database: Database) -> Graph:
    """One user who has visited many places, and lived in one."""
    graph = Graph(Ledger(shared_database, fingerprint="hash:64/2"))
    graph.said("user lives_in Paris", 2019)
    (first,) = graph.rows()
    known = {"scope": first.scope_id, "user": first.source_pk, "date": "'2019-01-01 00:00:00.000000'"}
    many = MANY if shared_database.dialect == "sqlite" else MANY // 4
    known["date"] += "::timestamptz" if shared_database.dialect == "postgresql" else ""
    with shared_database._engine.begin() as connection:
        for into, values in _VISITS.items():
            connection.exec_driver_sql(f"{_SERIES.format(many=many, into=into)} SELECT {values.format(**known)} FROM n")
        if shared_database.dialect == "postgresql":  # which does so by itself; to SQLite nobody gives the command
            connection.exec_driver_sql("ANALYZE")
    return graph


def test_relate_beside_a_hub_reads_a_handful_of_rows(hub: Graph) -> None:
    if hub.ledger.database.dialect != "sqlite":
        pytest.skip("the statements of SQLite's driver are traced")
    found: list[str] = []
    engine = hub.ledger.database._engine

    def trace(driver: Any, *_: object) -> None:
        driver.set_trace_callback(found.append)

    event.listen(engine, "checkout", trace)
    try:
        hub.add(
            "Moved to Rome, and has seen Oslo",
            "user lives_in Rome",
            "user visited Oslo",
            "user visited place_77",
            when=2021,
        )
    finally:
        event.remove(engine, "checkout", trace)
    asked = [
        statement for statement in found if statement.startswith("SELECT") and re.search("relation|entit", statement)
    ]
    assert 3 <= len(asked) <= 8
    with hub.ledger.database.read() as connection:
        assert sum(len(connection.exec_driver_sql(each).all()) for each in asked) < 40
        for each in asked:
            plan = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {each}")]
            assert not [step for step in plan if re.match("SCAN (?!json_each|scopes)", step)], (each, plan)
    assert "alice lives_in Paris 2019-2021" in hub.now()


@each("name", READS)
def test_statements_of_a_write_use_an_index(hub: Graph, name: str) -> None:
    statement, values = READS[name]
    with hub.ledger.database.read() as connection:
        plan = explained(connection, statement, values)
    assert not re.search(r"SCAN (relations|relation_memories|entity_names)|Seq Scan on", plan), plan
    assert "ix_" in plan or "_pkey" in plan or "sqlite_autoindex" in plan, plan
    if name == "between":
        assert "ix_relations_pair" in plan, plan


def explained(connection: Connection, statement: Prepared, values: dict[str, list[Any]]) -> str:
    """How the database would carry out a statement."""
    compiled: Any = statement.statement.compile(dialect=connection.dialect)  # type: ignore[attr-defined]
    sqlite = connection.dialect.name == "sqlite"
    given = {key: json.dumps(value) if sqlite and key != "pairs" else value for key, value in values.items()}
    bound: Any = tuple(given[key] for key in compiled.positiontup) if sqlite else given
    rows = connection.exec_driver_sql(f"EXPLAIN {'QUERY PLAN ' if sqlite else ''}{compiled}", bound)
    return "\n".join(str(row[-1]) for row in rows)


def test_around_a_hub_costs_little_more_than_a_count(hub: Graph) -> None:
    if hub.ledger.database.dialect != "sqlite":
        pytest.skip("the steps of SQLite's machine are counted")
    pk = hub.rows()[0].source_pk
    held = select(func.count()).where(relations.c.source_pk == pk, CURRENT)
    steps: Counter[str] = Counter()
    with hub.ledger.database.read() as connection:
        driver: Any = connection.connection.dbapi_connection
        looks: dict[str, Callable[[], object]] = {
            "count": lambda: connection.execute(held).all(),
            "newest": lambda: graph_reads.around(connection, [pk], GraphTime(datetime.now(UTC)), most=100),
        }
        for name, look in looks.items():
            driver.set_progress_handler(partial(steps.update, [name]), 1_000)
            look()
            driver.set_progress_handler(None, 0)
    assert 0 < steps["newest"] < 4 * steps["count"], steps


def test_restore_of_a_memory_of_a_hub_reads_its_own_relations(hub: Graph) -> None:
    memory = hub.add("Has seen Bonn", "user visited Bonn", when=2019)
    hub.decide("DELETE", memory, None, when=None)
    hub.decide("ADD", memory, "Has seen Bonn", when=2019)
    assert "alice visited Bonn 2019-" in hub.now()
    hub.said("user visited Ulm", 2019)
    by_hand(hub.ledger, edits.withdraw, hub.ids()["alice visited Ulm 2019-"])
