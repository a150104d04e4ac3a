"""What a fork leaves whole: the parent's memory, the child's own one, and everything that either was told is written."""

from __future__ import annotations

import gc
import http.client
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from sqlalchemy import create_engine

from langmem_adapter import Memory, StorageError
from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.conversation import WorkingMemory
from langmem_adapter.conversation.working import ObjectLog
from langmem_adapter.forks import Lock, cached_property
from langmem_adapter.storage import sqlite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 warns of every fork

PATIENCE = 60  # seconds until a child counts as hanging


def in_child(function: Callable[[], Any]) -> Any:
    """What a function returns in a child of this very process, or the text of the `StorageError` that it raises."""
    receiving, sending = multiprocessing.get_context("fork").Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:  # pragma: no cover - runs in the child
        try:
            sending.send(function())
        except StorageError as error:
            sending.send(str(error))
        finally:
            os._exit(0)
    try:
        sending.close()
        assert receiving.poll(PATIENCE), "the child hangs"
        return receiving.recv()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def texts(where: Path | str) -> set[str]:
    with Memory(where) as memory:
        return {item.text for item in memory.get_all(user_id="ada", k=1000)}


def write(where: Path | str, pipe: Connection) -> None:
    """Add twenty memories of a child's own, each when it is told to."""
    with Memory(where) as memory:
        for number in range(20):
            pipe.recv()
            memory.add(f"note {number}", user_id="ada", infer=False)
            pipe.send(number)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_with_a_memory_of_its_own_loses_nothing_while_the_parent_closes(tmp_path: Path, method: Any) -> None:
    where, context = tmp_path / "m.db", multiprocessing.get_context(method)
    parent = Memory(where)
    parent.add("of the parent", user_id="ada", infer=False)
    parent.search("parent", user_id="ada")
    own, theirs = context.Pipe()
    child = context.Process(target=write, args=(where, theirs), daemon=True)
    child.start()
    for number in range(20):
        if number == 10:
            parent.close()
        own.send(None)
        assert own.poll(PATIENCE)
        assert own.recv() == number
    child.join(PATIENCE)
    assert texts(where) == {"of the parent", *(f"note {number}" for number in range(20))}


@contextmanager
def in_use(memory: Memory) -> Iterator[None]:
    """A call runs in another thread, and does not end before this block does."""
    begun, end = threading.Event(), threading.Event()

    def read() -> None:
        with memory.parts.database.read() as connection:
            connection.exec_driver_sql("SELECT count(*) FROM memories").scalar()
            begun.set()
            end.wait(PATIENCE)

    thread = threading.Thread(target=read)
    thread.start()
    assert begun.wait(PATIENCE)
    yield
    end.set()
    thread.join()


def test_a_file_that_was_in_use_is_not_opened_in_the_child(tmp_path: Path) -> None:
    where = tmp_path / "m.db"
    with Memory(where) as parent:
        with in_use(parent):
            told = in_child(lambda: Memory(where))
        assert "forked while its parent was using the file" in told and "spawn" in told
        assert in_child(lambda: sorted(texts(where))) == []  # nobody uses it now
        parent.add("I like tea.", user_id="ada")
    assert texts(where) == {"Likes tea"}


def test_what_was_in_use_is_never_closed_in_the_child(tmp_path: Path) -> None:
    held = [sqlite.open_wal(tmp_path / "m.db", timeout=1)]

    def is_open() -> bool:
        held.clear()
        gc.collect()
        return any(path.resolve() == tmp_path / "m.db" for path in Path("/proc/self/fd").iterdir())

    assert in_child(is_open)
    held[0].close()


INHERITED: dict[str, Callable[[Memory], Any]] = {
    "add": lambda memory: memory.add("I like tea.", user_id="ada"),
    "add_many": lambda memory: memory.add_many([{"messages": "I like tea.", "user_id": "ada"}])[0],
    "search": lambda memory: memory.search("tea", user_id="ada"),
    "get_all": lambda memory: memory.get_all(user_id="ada"),
    "delete_all": lambda memory: memory.delete_all(user_id="ada"),
    "purge": lambda memory: memory.purge(user_id="ada"),
    "verify": lambda memory: memory.verify(),
    "background": lambda memory: memory.background(),
    "graph": lambda memory: memory.graph.relations(user_id="ada"),
    "recall": lambda memory: memory.recall(user_id="ada").invoke("tea"),
    "pipeline": lambda memory: memory.pipeline.invoke({"messages": "I like tea.", "scope": {"user_id": "ada"}}),
    "store": lambda memory: MemoryStore(memory).get(("a",), "b"),
    "saver": lambda memory: SQLAlchemySaver(memory).get_tuple({"configurable": {"thread_id": "1"}}),
}


def test_an_inherited_memory_refuses_every_call_at_once_and_closes_without_a_word(tmp_path: Path) -> None:
    parent = Memory(tmp_path / "m.db")
    parent.add("I live in Lyon.", user_id="ada")
    with in_use(parent):

        def child() -> dict[str, str]:
            told = {}
            for name, call in INHERITED.items():
                try:
                    told[name] = repr(call(parent))
                except StorageError as error:
                    told[name] = str(error)
            parent.close()
            return told

        told = in_child(child)
    assert {name for name, said in told.items() if "before the process forked" not in said} == set()
    parent.add("I like tea.", user_id="ada")
    parent.close()
    assert texts(tmp_path / "m.db") == {"Lives in Lyon", "Likes tea"}


def test_a_lock_that_a_thread_holds_is_free_in_the_child() -> None:
    lock = Lock()

    def take() -> str:
        with lock:
            return "taken"

    with lock:
        assert in_child(take) == "taken"


class Slow:
    begun, end = threading.Event(), threading.Event()
    slow = False

    @cached_property
    def value(self) -> int:
        if self.slow:
            self.begun.set()
            self.end.wait(PATIENCE)
        return 4


def test_a_child_does_not_wait_for_what_another_thread_was_computing() -> None:
    busy, idle = Slow(), Slow()
    busy.slow = True
    thread = threading.Thread(target=lambda: busy.value)
    thread.start()
    assert Slow.begun.wait(PATIENCE)
    assert in_child(lambda: idle.value) == 4
    Slow.end.set()
    thread.join()
    assert busy.value == 4


def test_the_parent_goes_on_where_it_was(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db") as parent, Memory(tmp_path / "m.db") as other:
        for number in range(3):
            in_child(lambda: None)
            other.add(f"note {number}", user_id="ada", infer=False)
            assert len(parent.search("note", user_id="ada")) == number + 1


@pytest.mark.postgres
def test_a_child_that_uses_the_parents_engine_leaves_its_connections_alone(postgres_url: str) -> None:
    engine = create_engine(postgres_url)
    with Memory(engine) as parent:
        parent.add("I live in Lyon.", user_id="ada")

        def child() -> list[str]:
            with Memory(engine) as own:
                own.add("I like tea.", user_id="ada")
                return sorted(item.text for item in own.get_all(user_id="ada"))

        assert in_child(child) == ["Likes tea", "Lives in Lyon"]
        assert len(parent.get_all(user_id="ada")) == 2
    engine.dispose()


APP = """
import pathlib, threading, time
from langmem_adapter import Memory, StorageError

FOLDER = pathlib.Path(__file__).parent
inherited, own = Memory(FOLDER / "m.db"), []
inherited.add("of the master", user_id="ada", infer=False)

def close_when_told():  # runs in the master alone
    while not (FOLDER / "close").exists():
        time.sleep(0.01)
    inherited.close()
    (FOLDER / "closed").touch()

threading.Thread(target=close_when_told, daemon=True).start()

def app(environ, start_response):
    text = environ["PATH_INFO"].strip("/")
    try:
        if text == "inherited":
            inherited.add(text, user_id="ada")
        own or own.append(Memory(FOLDER / "m.db"))
        own[0].add(text, user_id="ada", infer=False)
        start_response("200 OK", [])
    except StorageError as error:
        text = str(error)
        start_response("500 Failed", [])
    return [text.encode()]
"""


class Request(http.client.HTTPConnection):
    """A request to a server at a Unix socket."""

    def __init__(self, socket_path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = socket_path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self._path))


def asked(socket_path: Path, text: str) -> tuple[int, str]:
    request = Request(socket_path)
    try:
        request.request("GET", f"/{text}")
        response = request.getresponse()
        return response.status, response.read().decode()
    finally:
        request.close()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_workers_of_gunicorn_with_preload_lose_nothing_while_the_master_closes(tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(APP)
    socket_path = tmp_path / "s"
    command = [sys.executable, "-m", "gunicorn", "--preload", "-w", "2", "-b", f"unix:{socket_path}", "served:app"]
    told = (tmp_path / "told").open("w")
    master = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, stderr=told)
    try:
        until(lambda: socket_path.exists() or master.poll() is not None)
        answers = [asked(socket_path, f"note{number}") for number in range(8)]
        (tmp_path / "close").touch()
        until((tmp_path / "closed").exists)
        answers += [asked(socket_path, f"note{number}") for number in range(8, 16)]
        status, refusal = asked(socket_path, "inherited")
    finally:
        master.terminate()
        master.wait(PATIENCE)
        told.close()
    assert answers == [(200, f"note{number}") for number in range(16)], (tmp_path / "told").read_text()
    assert (status, "post_fork" in refusal) == (500, True)
    assert texts(tmp_path / "m.db") == {"of the master", *(f"note{number}" for number in range(16))}


def test_a_log_that_another_thread_holds_is_free_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    log, reading, going_on = WorkingMemory([HumanMessage("Hi", id="1")]), threading.Event(), threading.Event()
    read = ObjectLog.read

    def slow(log: ObjectLog, *arguments: Any) -> Any:
        reading.set()
        assert going_on.wait(PATIENCE)
        return read(log, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(ObjectLog, "read", slow)
        thread = threading.Thread(target=log.get)
        thread.start()
        assert reading.wait(PATIENCE)
        try:
            assert in_child(log.count) == 1
        finally:
            going_on.set()
            thread.join()
    assert log.add(HumanMessage("Ho", id="2"))
