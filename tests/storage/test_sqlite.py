from __future__ import annotations

import gc
import math
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from langmem_adapter import InvalidInputError, Memory, StorageError
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.meta import language_of, put
from langmem_adapter.storage.migrations import prepare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files(folder: Path) -> dict[str, int]:
    return {path.name: mode(path) for path in folder.iterdir()}


def test_memory_files_have_mode_0600(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Memory(tmp_path / "m.db") as memory:
            memory.add("I like tea.", user_id="ada")
            assert files(tmp_path) == dict.fromkeys(("m.db", "m.db-wal", "m.db-shm"), 0o600)
        assert set(files(tmp_path).values()) == {0o600}  # and the index's
    finally:
        os.umask(before)


def test_memory_keeps_the_mode_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "m.db").touch()
    (tmp_path / "m.db").chmod(0o660)
    with Memory(tmp_path / "m.db") as memory:
        memory.add("I like tea.", user_id="ada")
        assert {mode(tmp_path / name) for name in ("m.db", "m.db-wal")} == {0o660}


def test_memory_opened_twice_keeps_its_locks(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db") as memory:
        memory.add("I like tea.", user_id="ada")
        with Memory(
            tmp_path / "m.db"
        ):  # another process would take itself for the last one, had this one lost its locks
            look = "import sqlite3; sqlite3.connect('m.db').execute('SELECT count(*) FROM memories').fetchall()"
            subprocess.run([sys.executable, "-c", look], cwd=tmp_path, check=True)
        memory.add("I live in Lyon.", user_id="ada")
    assert len(Memory(tmp_path / "m.db").get_all(user_id="ada")) == 2


def test_write_is_refused_into_a_file_that_was_replaced(tmp_path: Path) -> None:
    for name in ("m.db", "other.db"):
        with Memory(tmp_path / name) as memory:
            memory.add("I like tea.", user_id="ada")
    database = Database(tmp_path / "m.db")
    database.write(lambda connection: put(connection, "first", "x"))
    (tmp_path / "other.db").replace(tmp_path / "m.db")
    with pytest.raises(StorageError, match=r"file was removed or replaced.*open it again"):
        database.write(lambda connection: put(connection, "second", "x"))
    database.close()


@pytest.mark.parametrize("act", ["remove", "replace", "shorten", "empty"])
def test_add_is_refused_once_the_log_is_gone(tmp_path: Path, act: str) -> None:
    log = tmp_path / "m.db-wal"
    memory = Memory(tmp_path / "m.db")
    kept = memory.add("I like tea.", user_id="ada").results[0].id
    content = log.read_bytes()
    if act in {"shorten", "empty"}:
        os.truncate(log, 100 if act == "shorten" else 0)
    else:
        log.unlink()
    if act == "replace":
        log.write_bytes(content)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"write-ahead log was (removed or replaced|shortened).*open it again"):
            memory.add("I live in Lyon.", user_id="ada")
    with pytest.raises(StorageError, match="write-ahead log"):
        memory.search("tea", user_id="ada")
    memory.close()
    if act == "replace":
        with Memory(tmp_path / "m.db") as again:
            assert again.get(str(kept)).text == "Likes tea"


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:///file:{path}?uri=true",
        "sqlite:///file:{path}?mode=rwc&uri=true",
        "sqlite:///{path}?timeout=5",
        "sqlite:///file:shared?mode=memory&cache=shared&uri=true",
        "file:{path}?mode=ro",
        "sqlite+aiosqlite:///{path}",
        "sqlite+pysqlcipher://:key@/{path}",
    ],
)
def test_an_address_that_says_more_than_the_path_is_refused_and_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=r"path alone"):
        Memory(address.format(path=tmp_path / "m.db"))
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_names_the_path_alone_is_that_path(tmp_path: Path) -> None:
    path = tmp_path / "a b ü 记.db"
    with Memory(path) as memory:
        memory.add("I like tea.", user_id="ada")
    with Memory(f"sqlite+pysqlite:///{path}") as memory:
        assert [item.text for item in memory.get_all(user_id="ada")] == ["Likes tea"]


def test_busy_timeout_infinite_waits(tmp_path: Path) -> None:
    standing, free = threading.Event(), threading.Event()
    one, two = (Database(tmp_path / "m.db", busy_timeout=math.inf) for _ in range(2))
    prepare(one)

    def stand(_: object) -> None:
        standing.set()
        free.wait()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(one.write, stand)
        standing.wait()
        second = threads.submit(two.write, lambda _: "waited")
        wait([second], timeout=0.2)  # where it is turned away, that happens at once
        free.set()
        first.result()
        assert second.result() == "waited"
    one.close()
    two.close()


class _Overtaken(Database):
    """Somebody closes it between a call's first look at it and the rest."""

    overtaken = False

    @property
    def location(self) -> str:
        if self.overtaken:
            self.overtaken = False
            self.close()
        return str(self.path)


def _read(database: Database) -> None:
    with database.read():
        pass


def test_close_during_a_call_leaves_no_connection_open(tmp_path: Path) -> None:
    ways: dict[str, Callable[[Database], object]] = {
        "version": Database.version,
        "read": _read,
        "write": lambda database: database.write(language_of),
    }
    for way, call in ways.items():
        (tmp_path / way).mkdir()
        database = _Overtaken(tmp_path / way / "m.db")
        prepare(database)
        database.overtaken = True
        with suppress(StorageError):
            call(database)
        assert not database.overtaken
    gc.collect()
    # the log goes with the last connection
    assert [[path.name for path in (tmp_path / way).iterdir()] for way in ways] == [["m.db"]] * 3


def test_stats_ignores_a_file_that_vanishes(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db") as memory:
        (tmp_path / "m.db.gone").symlink_to("nowhere")
        assert (memory.stats().size or 0) >= (tmp_path / "m.db").stat().st_size
