"""Dates that Python cannot hold: each spoils its own row, and no other."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
from sqlalchemy import create_engine, text

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage.tables import metadata
from langmem_adapter.storage.timestamps import UTCDateTime

if TYPE_CHECKING:
    from collections.abc import Callable

SPOILED: Final[dict[str, list[object]]] = {
    "sqlite": ["soon", "", "2024-02-31 10:00:00.000000", "2024-01-01", "2024-01-01 00:00:00+02:00", 20240101],
    "postgres": ["infinity", "-infinity", "20000-01-01 00:00:00+00", "0044-03-15 00:00:00+00 BC"],
}
KINDS: Final = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
DATED: Final = {
    table.name: [column.name for column in table.c if isinstance(column.type, UTCDateTime)]
    for table in metadata.sorted_tables
}
ENDED: Final = {"valid_to", "retired_at", "dropped_at", "undone_at"}


def _spoil(url: str, table: str, columns: list[str], value: object, where: str = "true") -> None:
    engine = create_engine(url if "://" in url else f"sqlite:///{url}")
    with engine.begin() as connection:
        kept = "CAST(CAST(:value AS text) AS timestamptz)" if "postgres" in url and isinstance(value, str) else ":value"
        for column in columns:
            connection.execute(text(f"UPDATE {table} SET {column} = {kept} WHERE {where}"), {"value": value})
    engine.dispose()


def _paged(memory: Memory, **how: Any) -> list[str]:
    found, after = list[str](), None
    for _ in range(100):
        page = memory.get_all(user_id="alice", k=1, after=after, include_expired=True, **how)
        found += [item.id for item in page]
        if (after := page.next) is None:
            break
    return found


def _everything(memory: Memory) -> dict[str, Any]:
    """What each way of reading finds, without the dates."""
    ids = sorted(_paged(memory))
    later = datetime(2100, 1, 1, tzinfo=UTC)
    return {
        "list": ids,
        "get": [memory.get(id_).text for id_ in ids],
        "history": [[revision.event for revision in memory.history(id_)] for id_ in ids],
        "known": len(_paged(memory, known_at=later)),
        "search": len(memory.search("tea", user_id="alice")),
        "relations": sorted(relation.text for relation in memory.graph.relations(user_id="alice", history=True)),
        "turns": len(SQLChatMessageHistory("s", memory, user_id="alice").messages),
        "items": len(MemoryStore(memory, index=False).search(("a",))),
        "scopes": [count.memories for count in memory.scopes()],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_verify_names_damaged_dates_and_reads_go_on(
    kind: str, shared_url: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "langmem_adapter")
    url = shared_url(kind)
    with Memory(url, embeddings="hash:64", graph=True) as memory:
        ids = [str(memory.add(f"I like tea {n}", user_id="alice", infer=False).results[0].id) for n in range(9)]
        memory.add("I live in Lyon.", user_id="alice")
        SQLChatMessageHistory("s", memory, user_id="alice").add_user_message("Hello!")
        MemoryStore(memory, index=False).put(("a",), "tea", {"cups": 2})
        before = _everything(memory)
        assert memory.verify().ok
    for number, value in enumerate(SPOILED[kind]):
        for table in ("memories", "history"):
            name = "id" if table == "memories" else "memory_id"
            _spoil(url, table, ["created_at", "updated_at"], value, f"{name} = '{ids[number]}'")
    for table, columns in DATED.items():
        if table not in {"memories", "history"}:  # a belief that was retired, whenever, is not shown
            _spoil(url, table, [column for column in columns if column not in ENDED], SPOILED[kind][0])
    _spoil(url, "items", ["created_at", "updated_at"], 2**62)
    with Memory(url, embeddings="hash:64", graph=True) as memory:
        assert _everything(memory) == before
        found = memory.verify()
        assert not found.ok
        assert {each.row["id"] for each in found.unreadable if each.table == "memories"} == {*ids[: len(SPOILED[kind])]}
        assert "memories.created_at of pk" in str(next(each for each in found.unreadable if each.table == "memories"))
        assert {"history", "traces", "relations", "turns", "items"} <= {each.table for each in found.unreadable}
        for id_ in ids[:2]:
            memory.update(id_, metadata={"mended": True})
        for id_ in ids[2:]:
            memory.delete(id_)
        assert not [each for each in memory.verify().unreadable if each.table == "memories"]
        assert len(_paged(memory)) == len(before["list"]) - 7
