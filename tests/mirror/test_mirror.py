"""The mirror of the knowledge graph, read back over Bolt from a server in a process of its own."""

from __future__ import annotations

import pytest

from langmem_adapter import Memory
from langmem_adapter.storage import feed
from tests.bolt import GraphServer, nodes, relations

pytestmark = pytest.mark.xdist_group("bolt")

ALICE = {"user_id": "alice"}


def lineage_of(memory: Memory) -> str:
    with memory.engine.database.read() as connection:
        return (feed.birth(connection) or b"").hex()


def test_first(bolt_server: GraphServer) -> None:
    with (
        Memory(":memory:") as memory,
        bolt_server.driver() as driver,
        memory.graph.mirror(driver, database=bolt_server.database) as mirror,
    ):
        memory.graph.add("Anna", "lives in", "Lyon", **ALICE)
        mirror.run_once()
        print(nodes(bolt_server, lineage_of(memory)), relations(bolt_server, lineage_of(memory)))
