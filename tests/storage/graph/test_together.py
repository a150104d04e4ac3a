"""Many writers at once: nothing twice, nothing in another's scope, nothing half written."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pytest
from sqlalchemy import func, select

from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.tables import entities, entity_names, history, relation_memories, relations, scopes
from tests.faults.processes import call, start
from tests.storage.graph.small_graph import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG: Final = os.environ.get("FAULTS") == "long"
SCOPES: Final = (Scope(user_id="alice"), Scope(user_id="bob"))
THREADS: Final = 8


def state_all(where: str, name: str, rounds: int) -> None:
    """What one process does: eight threads state the same and other things of two users."""
    database = Database(where)
    ledger = Ledger(database, fingerprint="hash:64/2")
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda number: _state(ledger, f"{name}{number}", rounds), range(THREADS)))
    database.close()


def _state(ledger: Ledger, name: str, rounds: int) -> None:
    for number in range(rounds):
        for scope in SCOPES:
            graph = Graph(ledger, scope)
            same = [
                "user likes tea",
                "Ann friend_of Bea" if number % 2 else "Bea friend_of Ann",
                f"user lives_in City_{number}",
            ]
            graph.add(f"fact {name} {number}", *same, f"user knows {name}_{number}", when=2000 + number)


def examine(database: Database) -> None:
    with database.read() as connection:
        believed = list(connection.execute(select(relations).where(relations.c.retired_at.is_(None))))
        names = connection.execute(select(entity_names.c.scope_id, entity_names.c.name, entity_names.c.entity_pk)).all()
        of = dict(connection.execute(select(entities.c.pk, entities.c.scope_id)).all())
        counted = connection.execute(select(func.count()).select_from(entities)).scalar()
        linked = connection.execute(
            select(relation_memories.c.relation_id, relation_memories.c.memory_id, relation_memories.c.scope_id)
        ).all()
        home = dict(connection.execute(select(history.c.memory_id, history.c.scope_id)).all())
    assert len(names) == counted == len({(scope_id, name.casefold()) for scope_id, name, _ in names})
    assert all(of[pk] == scope_id for scope_id, _, pk in names)
    assert all(of[row.source_pk] == of[row.target_pk] == row.scope_id for row in believed)
    assert all(home[memory_id] == scope_id for _, memory_id, scope_id in linked)
    by_triple: dict[Any, list[Any]] = {}
    for row in believed:
        ends = sorted((row.source_pk, row.target_pk)) if row.relation == "friend_of" else [row.source_pk, row.target_pk]
        by_triple.setdefault((row.relation, *ends), []).append(row)
    assert not [rows for rows in by_triple.values() if len(rows) > 1]
    homes = [row for row in believed if row.relation == "lives_in" and row.valid_to is None]
    assert len({row.source_pk for row in homes}) == len(homes)


@pytest.mark.timeout(600)
def test_relate_from_threads_of_one_ledger(shared_database: Database) -> None:
    ledger, rounds = Ledger(shared_database, fingerprint="hash:64/2"), 40 if LONG else 6
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda number: _state(ledger, f"t{number}", rounds), range(THREADS)))
    examine(shared_database)
    for scope in SCOPES:
        graph = Graph(ledger, scope)
        expected = {
            "tea",
            "Ann",
            "Bea",
            *(f"City_{n}" for n in range(rounds)),
            *(f"t{t}_{n}" for t in range(THREADS) for n in range(rounds)),
        }
        assert {row.target for row in graph.rows()} | {"Ann", "Bea"} == expected
        (tea,) = [row for row in graph.rows() if row.retired_at is None and row.target == "tea"]
        assert tea.mentions == len(graph.sayers(tea.id)) == THREADS * rounds


@pytest.mark.timeout(600)
def test_relate_from_two_processes_on_one_file(tmp_path: Path) -> None:
    where, rounds = str(tmp_path / "m.db"), 20 if LONG else 3
    database = Database(where)
    prepare(database)
    with ThreadPoolExecutor(2) as both:
        list(both.map(lambda name: call(state_all, where, name, rounds, seconds=500), "ab"))
    examine(database)
    with database.read() as connection:
        told = connection.execute(
            select(func.count()).select_from(relations).where(relations.c.mentions == 2 * THREADS * rounds)
        )
        assert (told.scalar() or 0) >= len(SCOPES)  # the tea of each
    database.close()


# ── killed ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _wait(database: Database, text: str, count: int) -> None:
    """Until so many memories with such texts have been committed, and some of each scope."""
    told = select(func.count(), func.count(history.c.scope_id.distinct())).where(history.c.new_memory.like(text))
    while True:
        with database.read() as connection:
            memories, owners = connection.execute(told).one()
        if memories >= count and owners == len(SCOPES):
            return
        time.sleep(0.01)


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Database]:
    """A database whose writers were killed again and again."""
    where = str(tmp_path / "m.db")
    prepared = Database(where)
    prepare(prepared)
    for number in range(40 if LONG else 4):
        process = start(state_all, where, f"k{number}", 10_000)
        _wait(prepared, f"fact k{number}%", 10 + 7 * (number % 4))
        process.kill()
        process.join()
        process.close()
    yield prepared
    prepared.close()


@pytest.mark.timeout(300)
def test_kill_of_a_writer_leaves_each_memory_with_all_its_relations(killed: Database) -> None:
    examine(killed)
    links = relation_memories.c
    with killed.read() as connection:
        written = dict(connection.execute(select(history.c.memory_id, history.c.new_memory)).all())
        said: dict[str, int] = dict(
            connection.execute(select(links.memory_id, func.count()).group_by(links.memory_id)).all()
        )
        known = set(connection.execute(select(relations.c.id)).scalars())
        assert set(connection.execute(select(links.relation_id)).scalars()) <= known
        assert connection.execute(select(func.count()).select_from(scopes)).scalar() == len(SCOPES)
    assert written
    assert said == dict.fromkeys(written, 4)
