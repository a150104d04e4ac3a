"""Many at once in one database: everything is there, everybody sees it, every memory has its own vector."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
import snowballstemmer
from langchain_core.vectorstores import InMemoryVectorStore
from sqlalchemy import select

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage.tables import memories
from langmem_adapter.text import words
from tests.faults.processes import start
from tests.faults.worker import EMBEDDINGS, USER, open_memory

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier
    from pathlib import Path


COUNT: Final = 200
THREADS: Final = 8
VECTORS: Final = HashEmbeddings(int(EMBEDDINGS.partition(":")[2]))


def check_vectors(memory: Memory, count: int) -> None:
    """Every memory is there, with the vector of its own text, in the database and in the index."""
    index = memory.parts.indexer.index
    with memory.parts.database.read() as connection:
        rows = connection.execute(select(memories.c.pk, memories.c.text, memories.c.embedding)).all()
    assert len(rows) == len({row.text for row in rows}) == count
    assert memory.verify().ok and index is not None
    for row, vector in zip(rows, index.vectors(np.array([row.pk for row in rows])), strict=True):
        assert row.embedding == vector.tobytes()
        np.testing.assert_allclose(vector, VECTORS.vector(row.text), atol=1e-6)


def test_add_in_threads_splits_the_same_words() -> None:
    stems = [f"{letter}{other}k" for letter in "bdfghlmnprst" for other in "aeiou"]
    texts = [f"{stem}{ending}" for stem in stems for ending in ("ing", "ings", "ed", "s", "fully", "ation")]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            told = list(pool.map(lambda _: [words(text) for text in texts], range(THREADS)))
    finally:
        sys.setswitchinterval(before)
    alone = snowballstemmer.stemmer("english")
    assert told == [[[alone.stemWord(text)] for text in texts]] * THREADS


def texts_of(memory: Memory) -> tuple[set[str], set[str]]:
    """What a list and what a search show."""
    listed = {item.text for item in memory.get_all(user_id=USER, k=1000)}
    return listed, {hit.text for hit in memory.search("note", user_id=USER, k=1000)}


def add_beside_another(database: str, name: str, together: Barrier) -> None:
    with open_memory(database) as memory:
        together.wait(100)
        for number in range(COUNT):
            memory.add(f"note {name} {number}", user_id=USER, infer=False)
        together.wait(100)  # both have added everything, nobody has closed or waited
        expected = {f"note {name} {number}" for name in "AB" for number in range(COUNT)}
        assert texts_of(memory) == (expected, expected)
        check_vectors(memory, 2 * COUNT)
        together.wait(100)


def test_two_processes_add_two_hundred_each_and_both_see_all_at_once(tmp_path: Path) -> None:
    import multiprocessing

    together = multiprocessing.get_context("forkserver").Barrier(2)
    running = [start(add_beside_another, str(tmp_path / "memory.db"), name, together) for name in "AB"]
    for process in running:
        process.join(100)
    assert [process.exitcode for process in running] == [0, 0]
    with open_memory(str(tmp_path / "memory.db")) as memory:
        check_vectors(memory, 2 * COUNT)


@pytest.mark.parametrize("where", ["memory.db", ":memory:"])
def test_eight_threads_add_and_one_searches(tmp_path: Path, where: str) -> None:
    name = where if where == ":memory:" else str(tmp_path / where)
    over, each = threading.Event(), 10
    with open_memory(name) as memory, ThreadPoolExecutor(THREADS + 1) as pool:

        def add(thread: int) -> None:
            for number in range(each):
                text = f"note {thread}{number}"
                memory.add(text, user_id=USER, infer=False)
                assert memory.search(text, user_id=USER, k=1)[0].text == text  # its own write, at once

        def search() -> int:
            searches, most = 0, 0
            while not over.is_set():
                found = len(memory.search("note", user_id=USER, k=1000))
                assert found >= most, "a search saw less than the one before"
                searches, most = searches + 1, found
            return searches

        searching = pool.submit(search)
        for future in [pool.submit(add, thread) for thread in range(THREADS)]:
            future.result()
        over.set()
        assert searching.result() > 0
        check_vectors(memory, THREADS * each)


@pytest.mark.parametrize("index", ["faiss", InMemoryVectorStore(VECTORS)])
def test_who_is_overtaken_sets_no_version_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: Any) -> None:
    with (
        Memory(tmp_path / "memory.db", embeddings=EMBEDDINGS, index=index) as memory,
        ThreadPoolExecutor(1) as pool,
    ):
        ask, pull = memory.parts.database.version, memory.parts.indexer.pull
        asked, overtaken = threading.Event(), threading.Event()

        def ask_slowly() -> object:
            version = ask()
            if threading.current_thread() is not threading.main_thread():
                asked.set()
                overtaken.wait(10)
            return version

        def pull_then_wait() -> None:
            pull()
            overtaken.set()
            late.result(10)

        memory.add("note A", user_id=USER, infer=False)
        monkeypatch.setattr(memory.parts.database, "version", ask_slowly)
        late = pool.submit(pull)
        assert asked.wait(10)
        assert [hit.text for hit in memory.search("note A", user_id=USER)] == ["note A"]
        memory.add("note B", user_id=USER, infer=False)
        monkeypatch.setattr(memory.parts.indexer, "pull", pull_then_wait)
        assert {hit.text for hit in memory.search("note B", user_id=USER)} == {"note A", "note B"}


async def test_two_hundred_adds_gathered_with_two_hundred_searches(tmp_path: Path) -> None:
    async with open_memory(str(tmp_path / "memory.db")) as memory:

        async def add(number: int) -> None:
            await memory.aadd(f"note {number}", user_id=USER, infer=False)

        async def search(number: int) -> None:
            hits: Any = await memory.asearch(f"note {number}", user_id=USER, k=300)
            assert len({hit.id for hit in hits}) == len(hits)

        await asyncio.gather(*(work(number) for number in range(COUNT) for work in (add, search)))
        found = await memory.asearch("note", user_id=USER, k=1000)
        assert {hit.text for hit in found} == {f"note {number}" for number in range(COUNT)}
        check_vectors(memory, COUNT)
