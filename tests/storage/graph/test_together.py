"""Many writers at once: nothing twice, nothing in another's scope, nothing half written."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pytest
from sqlalchemy import func, select

from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.tables import entities, entity_names, history, relation_memories, relations
from tests.storage.graph.small_graph import Graph

if TYPE_CHECKING:
    from langmem_adapter.storage.database import Database

LONG: Final = os.environ.get("FAULTS") == "long"
SCOPES: Final = (Scope(user_id="alice"), Scope(user_id="bob"))
THREADS: Final = 8


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


# ── killed ──────────────────────────────────────────────────────────────────────────────────────────────────────────────
