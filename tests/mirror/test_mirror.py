"""The mirror of the knowledge graph, read back over Bolt from a server in a process of its own."""

from __future__ import annotations

import pytest

from langmem_adapter import Memory
from langmem_adapter.storage import feed

pytestmark = pytest.mark.xdist_group("bolt")

ALICE = {"user_id": "alice"}


def lineage_of(memory: Memory) -> str:
    with memory.engine.database.read() as connection:
        return (feed.birth(connection) or b"").hex()
