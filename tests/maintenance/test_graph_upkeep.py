"""Tidying, sweeping and editing by hand leave the graph as the memories that are left say it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from langmem_adapter.maintenance.consolidate import Tidied, Tidier
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.graph import edits
from tests.storage.graph.small_graph import Graph, by_hand

if TYPE_CHECKING:
    from collections.abc import Iterator

ALICE = Scope(user_id="alice")


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:", graph=True, embeddings="hash:64") as opened:
        yield opened


@pytest.fixture
def graph(memory: Memory) -> Graph:
    return Graph(memory.parts.ledger, ALICE)


def test_tidy_moves_relations_to_the_memory_that_stays(memory: Memory, graph: Graph) -> None:
    kept = graph.add("Likes green tea", "user likes tea", when=2019)
    graph.add("likes green tea!", "user likes tea", "user drinks tea", when=2020)
    before = graph.ids()
    tidier = Tidier(memory)
    done = sum((tidier.tidy(memory_id, ALICE) for memory_id in tidier.pending(ALICE)), Tidied())
    assert [change.event for change in done.changes] == ["DELETE"]
    assert graph.ids() == before
    assert {frozenset(graph.sayers(each)) for each in before.values()} == {frozenset({kept})}
    memory.delete(kept)
    assert graph.now() == []


def test_delete_and_delete_all_end_relations(memory: Memory, graph: Graph) -> None:
    ids = [
        graph.add(f"Likes tea, says {place}", "user likes tea", f"user likes tea_{place}", when=2019)
        for place in range(4)
    ]
    memory.delete(ids[0], user_id="alice")
    memory.delete_many(ids[1:3])
    assert graph.now() == ["alice likes tea 2019-", "alice likes tea_3 2019-"]
    assert memory.delete_all(user_id="alice") == 1
    assert graph.now() == []
    memory.restore(ids[2], 1)
    assert graph.now() == ["alice likes tea 2019-", "alice likes tea_2 2019-"]


def test_update_of_metadata_keeps_relations(memory: Memory, graph: Graph) -> None:
    memory_id = graph.add("Likes tea", "user likes tea", when=2019)
    rows = graph.rows()
    memory.update(memory_id, metadata={"seen": True})
    memory.update_many([{"memory_id": memory_id, "text": "Likes tea very much"}])
    assert graph.rows() == rows


def test_sweep_ends_relations_of_expired_memories(memory: Memory, graph: Graph) -> None:
    memory_id = graph.add("Is in Oslo", "user is_in Oslo", when=2019)
    memory.update(memory_id, expires_at=datetime.now(UTC) - timedelta(days=1))
    assert memory.sweep() == 1
    assert graph.now() == [f"alice is_in Oslo 2019-{datetime.now(UTC).year}"]
    memory.restore(memory_id, 1)
    assert graph.now() == ["alice is_in Oslo 2019-"]


def test_purge_erases_the_graph_of_one_scope(memory: Memory, graph: Graph) -> None:
    other = Graph(memory.parts.ledger, Scope(user_id="carol"))
    for each in (graph, other):
        each.add("Likes tea", "user likes tea", when=2019)
        each.said("Bob knows Ann", 2019)
        by_hand(memory.parts.ledger, edits.merge, "Bob", "Robert", within=each.scope)
    memory.purge(user_id="alice")
    assert graph.rows() == []
    assert other.now() == ["Robert knows Ann 2019-", "alice likes tea 2019-"]
    memory.reset()
    assert other.rows() == []
