"""The setting `busy_timeout`: one deadline for all tries of a call, on SQLite and on Postgres."""

from __future__ import annotations

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from sqlalchemy import Engine, event, insert

from langmem_adapter.errors import LangmemAdapterError, StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.storage.database import Database, GroupCommit
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.tables import meta
from langmem_adapter.twins import attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection


def put(connection: Connection) -> None:
    connection.execute(insert(meta).values(key="a", value="b"))


@contextmanager
def locked(where: str) -> Iterator[None]:
    """Another writer has the write lock of a database."""
    other, has_it, free = Database(where, busy_timeout=math.inf), threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        has_it.set()
        free.wait()

    thread = threading.Thread(target=other.write, args=(hold,))
    thread.start()
    has_it.wait()
    try:
        yield
    finally:
        free.set()
        thread.join()
        other.close()


def first_of(results: list[Any]) -> None:
    if isinstance(results[0], LangmemAdapterError):
        raise results[0]


CALLS: Final[dict[str, Callable[[Memory], object]]] = {
    "add": lambda memory: memory.add("I live in Lyon.", user_id="a"),
    "add verbatim": lambda memory: memory.add("I live in Lyon.", user_id="a", infer=False),
    "aadd": lambda memory: asyncio.run(memory.aadd("I live in Lyon.", user_id="a")),
    "add_many": lambda memory: first_of(memory.add_many([{"messages": "I live in Lyon.", "user_id": "a"}])),
    "update": lambda memory: memory.update(memory.get_all(user_id="b").items[0].id, text="I live in Oslo."),
    "delete_all": lambda memory: memory.delete_all(user_id="b"),
}


def test_busy_timeout_is_waited_for_once(database_url: str) -> None:
    begins: list[str] = []

    def note(connection: Connection) -> None:
        begins.append(str(connection.get_execution_options()["sqlite_begin"]))

    with Memory(database_url, embeddings="hash:64", settings=Settings(busy_timeout=0.05)) as memory:
        memory.add("I live in Rome.", user_id="b", infer=False)
        with locked(database_url):
            event.listen(Engine, "begin", note)
            try:
                for name, call in CALLS.items():
                    begins.clear()
                    error = attempt(call, memory).error
                    assert isinstance(error, StorageError), name
                    assert (error.transient, error.waited) == (True, True), name
                    assert begins.count("IMMEDIATE") == 1, name
            finally:
                event.remove(Engine, "begin", note)
        assert memory.add("I live in Lyon.", user_id="a", infer=False).results


def test_busy_timeout_is_one_deadline(tmp_path: Path) -> None:
    where, waits, first = str(tmp_path / "memory.db"), list[int](), threading.Event()
    with closing(Database(where)) as database:
        prepare(database)

    def note(statement: str) -> None:
        if statement.startswith("PRAGMA busy_timeout"):
            waits.append(int(statement.rsplit(maxsplit=1)[-1]))
        elif statement == "BEGIN IMMEDIATE":
            first.set()

    def trace(connection: Any, _: object) -> None:
        connection.set_trace_callback(note)

    with locked(where):
        event.listen(Engine, "connect", trace)
        with closing(Database(where, busy_timeout=2.0)) as database, ThreadPoolExecutor(2) as threads:
            tasks = [threads.submit(attempt, database.write, put)]
            first.wait()  # the second one is queued while the first one waits for the lock
            tasks.append(threads.submit(attempt, database.write, put))
            errors = [task.result().error for task in tasks]
        event.remove(Engine, "connect", trace)
    assert all(isinstance(error, StorageError) and error.waited for error in errors)
    before_first, _, before_second, _ = waits
    assert 0 < before_second < before_first <= 2_000


def test_those_queued_with_an_expired_write_wait_on(tmp_path: Path) -> None:
    patience: list[float] = []

    @contextmanager
    def transaction(wait: float) -> Iterator[Connection]:
        patience.append(wait)
        raise StorageError("locked", transient=True, waited=True)
        yield

    queue = GroupCommit("here", transaction, 1_000.0)
    futures = [queue.enqueue(lambda _: None) for _ in range(3)]
    with pytest.raises(StorageError):
        queue.wait(futures)[0].result()
    assert len(patience) == 3
    assert all(isinstance(future.exception(), StorageError) for future in futures)
