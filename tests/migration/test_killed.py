"""A migration that is killed before a commit and run again makes what one run makes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Engine, event

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.memory.memory import Memory
from langmem_adapter.migration import writer
from langmem_adapter.migration.chats import chat_rows, remembered, windows
from langmem_adapter.migration.langgraph import store_rows
from langmem_adapter.migration.mem0 import find_store, memory_rows
from langmem_adapter.records.scope import Scope
from tests.faults.processes import start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langmem_adapter.migration.writer import SourceRow

ANN = Scope(user_id="ann")
ROWS = 24
SOURCES = ["mem0", "langgraph", "chat"]


def write_sources(folder: Path) -> None:
    """A store of Mem0 with a history, a store of LangGraph and a chat, of 24 rows each."""
    memories, history = [], list[Any]()
    for number in range(ROWS):
        dates = [f"2025-01-{day:02}T00:00:{number:02}+00:00" for day in (1, 2)]
        memories.append({"id": f"id {number}", "memory": f"Likes tea {number}", "user_id": f"user{number % 3}"})
        memories[-1] |= {"created_at": dates[0], "updated_at": dates[1]}
        history += [(f"id {number}", None, f"Likes jam {number}", "ADD", dates[0], None)]
        history += [(f"id {number}", f"Likes jam {number}", f"Likes tea {number}", "UPDATE", *dates)]
    (folder / "mem0").mkdir()
    (folder / "mem0" / "all.json").write_text(json.dumps(memories))
    with sqlite3.connect(folder / "mem0" / "history.db") as connection:
        connection.execute("CREATE TABLE history (memory_id, old_memory, new_memory, event, created_at, updated_at)")
        connection.executemany("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?)", history)
    with sqlite3.connect(folder / "langgraph") as connection:
        connection.execute("CREATE TABLE store (prefix, key, value, created_at, updated_at)")
        items = [("a.b", str(number), json.dumps({"n": number}), "2025-01-01", "2025-01-02") for number in range(ROWS)]
        connection.executemany("INSERT INTO store VALUES (?, ?, ?, ?, ?)", items)
    lines = (
        {"role": "user", "content": f"I live in town {number}", "session": str(number % 2)} for number in range(ROWS)
    )
    (folder / "chat").write_text("\n".join(map(json.dumps, lines)))


def rows_of(source: str, folder: Path) -> Iterator[SourceRow]:
    if source == "mem0":
        return memory_rows(find_store(folder / "mem0" / "all.json"), ANN, Counter())
    if source == "langgraph":
        return store_rows(str(folder / "langgraph"), None, None, ANN)
    return chat_rows(str(folder / "chat"), ANN, Counter())


def migrate(source: str, url: str, folder: str, commits: int) -> None:
    """Migrate in batches of five, and die before a commit."""
    writer._BATCH = 5  # type: ignore[misc]  # a child's
    memory = open_memory(url)

    @event.listens_for(Engine, "commit")
    def commit(_: object) -> None:
        nonlocal commits
        commits -= 1
        if not commits:
            os.kill(os.getpid(), signal.SIGKILL)

    writer.Migration(memory).take(rows_of(source, Path(folder)))
    for group in windows(rows_of(source, Path(folder))) if source == "chat" else ():
        memory.add(**remembered(group))
    memory.close()


def open_memory(url: str) -> Memory:
    return Memory(url, model="offline", embeddings="hash:32")


def contents(url: str) -> list[Any]:
    """All that a migration makes, without ids that are drawn and times at which it was recorded."""
    with open_memory(url) as memory:
        assert memory.verify().ok
        users: list[Any] = [{"user_id": user} for user in ("ann", "user0", "user1", "user2")]
        items = sorted((item for user in users for item in memory.get_all(k=1_000, **user)), key=lambda item: item.text)
        histories = [
            [(each.event, each.new_text, each.valid_from) for each in memory.history(item.id)] for item in items
        ]
        stored = MemoryStore(memory).search((), limit=1_000)
        talks = [SQLChatMessageHistory(session, memory, user_id="ann").messages for session in "01"]
        is_chat = bool(talks[0])
        return [
            [(each.text, dict(each.scope.named), None if is_chat else (each.id, each.created_at)) for each in items],
            [[each[:2] for each in revisions] if is_chat else revisions for revisions in histories],
            sorted((item.key, item.value["n"], item.created_at, item.updated_at) for item in stored),
            [[(each.id, each.text) for each in talk] for talk in talks],
            memory.stats().memories,
        ]


@pytest.mark.parametrize("source", SOURCES)
def test_migrate_that_is_killed_and_run_again_makes_what_one_run_makes(
    database_url: str, tmp_path: Path, source: str
) -> None:
    write_sources(tmp_path)
    whole = str(tmp_path / "whole.db")
    for url, dice in ((whole, [0]), (database_url, [1, 2, 3, 4, 2, 0])):
        ends = []
        for commits in dice:
            child = start(migrate, source, url, str(tmp_path), commits)
            child.join()
            ends.append(child.exitcode)
        assert ends == [-signal.SIGKILL if commits else 0 for commits in dice]
    made = contents(database_url)
    assert made == contents(whole) and any(made[:4])
