"""Two processes that have one file open with different logs: what `add` acknowledges is there, or it raises an error."""

from __future__ import annotations

import multiprocessing
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from langmem_adapter.errors import StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.storage import sqlite
from tests.cases import each
from tests.faults.kernel import bind_mount, obey_modes
from tests.faults.processes import call, start
from tests.faults.worker import EMBEDDINGS, USER

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

    from tests.faults.conftest import Bound

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be removed there")

SECONDS: Final = 100
OTHER_LOG: Final = "uses another FILE-wal or FILE-shm"


def open_memory(path: Path, patience: float = 30.0) -> Memory:
    return Memory(path, embeddings=EMBEDDINGS, index="exact", settings=Settings(trace_days=0, busy_timeout=patience))


def write(where: Path, name: str, mounted: Path | None, pipe: Connection) -> None:
    """Add memories, the first at once and as many others as the pipe says; send what was acknowledged, and the error."""
    acknowledged: list[str] = []

    def add(text: str) -> None:
        memory.add(text, user_id=USER, infer=False)
        acknowledged.append(text)

    error = ""
    try:
        if mounted is not None:
            bind_mount(mounted, where)
        with open_memory(where, 1.0) as memory:
            add(f"{name} first")
            pipe.send(None)
            for number in range(pipe.recv()):
                add(f"{name} {number}")
    except (StorageError, PermissionError) as failure:
        error = f"{type(failure).__name__}: {failure}"
    pipe.send((acknowledged, error))
    pipe.recv()  # lives on after `close`


class Writer:
    """A process that runs `write`."""

    def __init__(self, where: Path, name: str, mounted: Path | None = None) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = start(write, where, name, mounted, theirs)
        self._ready = self._received()

    def go_on(self, adds: int) -> None:
        """Let it add the other memories."""
        if self._ready is None:
            self._pipe.send(adds)

    def result(self) -> tuple[list[str], str]:
        """What it sent."""
        result: tuple[list[str], str] = self._received() if self._ready is None else self._ready
        return result

    def end(self) -> None:
        """Let the process end."""
        self._pipe.send(None)
        self._process.join(SECONDS)
        self._process.kill()

    def _received(self) -> Any:
        assert self._pipe.poll(SECONDS), "the writer hangs"
        return self._pipe.recv()


def keep(_: Path) -> None:
    """Change nothing."""


def remove(*ends: str) -> Callable[[Path], None]:
    def act(path: Path) -> None:
        for end in ends:
            path.with_name(f"{path.name}{end}").unlink()

    return act


def link(path: Path) -> None:
    path.parent.joinpath("other", path.name).hardlink_to(path)


def symlink(path: Path) -> None:
    path.parent.joinpath("other", path.name).symlink_to(path)


def write_with_sqlite(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE foreigners(text)")
        connection.execute("INSERT INTO foreigners VALUES ('kept')")
        connection.commit()


def replace_shm(path: Path) -> None:
    remove("-shm")(path)
    call(write_with_sqlite, str(path))


def move(path: Path) -> None:
    path.rename(path.parent / "other" / path.name)


def move_back(path: Path) -> None:
    path.parent.joinpath("other", path.name).rename(path)


def unlink(path: Path) -> None:
    path.parent.joinpath("other", path.name).unlink()


@dataclass(frozen=True)
class Case:
    """What happens between the first and the second writer; parts of their errors, empty for none."""

    act: Callable[[Path], None]
    first: str = ""
    second: str = ""
    other: bool = True  # the second writer opens the file in the folder `other`
    mounted: bool = False
    restore: Callable[[Path], None] = keep


CASES: Final = {
    "nothing": Case(keep, other=False),
    "symbolic link": Case(symlink),
    "-shm removed": Case(remove("-shm"), "FILE-shm) was removed", OTHER_LOG, other=False),
    "-wal removed": Case(remove("-wal"), "log was removed", OTHER_LOG, other=False),
    "both removed": Case(remove("-wal", "-shm"), "was removed", OTHER_LOG, other=False),
    "hard link": Case(link, "2 names (hard links)", "2 names (hard links)", restore=unlink),
    "bind mount": Case(lambda path: (path.parent / "other" / path.name).touch(), "", "mount the folder", mounted=True),
    "moved": Case(move, "removed or replaced", OTHER_LOG, restore=move_back),
    "-shm replaced": Case(replace_shm, "FILE-shm) was removed or replaced", "", other=False),
}


@each("name", CASES)
def test_two_processes_lose_nothing_that_add_acknowledged(tmp_path: Path, bound: Bound, name: str) -> None:
    case, path, adds = CASES[name], tmp_path / name / "m.db", bound(5, long=60)
    (path.parent / "other").mkdir(parents=True)
    first = Writer(path, "first")
    case.act(path)
    second = Writer(path.parent / "other" / path.name if case.other else path, "second", path if case.mounted else None)
    first.go_on(adds)
    second.go_on(adds)
    results = [first.result(), second.result()]
    if "PermissionError" in results[1][1]:
        return  # mounting is not allowed
    case.restore(path)
    for (acknowledged, error), part in zip(results, (case.first, case.second), strict=True):
        assert (part in error) if part else not error, error
        assert part or len(acknowledged) == 1 + adds
    second.end()
    if case.act is not replace_shm:  # else the first one keeps the file until its end
        check(path, results)
    first.end()
    check(path, results)


def check(path: Path, results: list[tuple[list[str], str]]) -> None:
    """The file is whole and has all that was acknowledged."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with open_memory(path) as memory:
        texts = {item.text for item in memory.get_all(user_id=USER, k=1000)}
        assert memory.verify().ok
    assert texts >= {text for acknowledged, _ in results for text in acknowledged}


def test_add_in_a_folder_mounted_twice(tmp_path: Path) -> None:
    path = tmp_path / "one" / "m.db"
    path.parent.mkdir()
    (tmp_path / "two").mkdir()
    first = Writer(path, "first")
    second = start(_write_mounted, tmp_path)
    second.join(SECONDS)
    first.go_on(1)
    results = [first.result()]
    first.end()
    assert results[0][1] == ""
    assert second.exitcode == 0
    check(path, results)


def _write_mounted(folder: Path) -> None:
    try:
        bind_mount(folder / "one", folder / "two")
    except PermissionError:
        return
    with open_memory(folder / "two" / "m.db") as memory:
        memory.add("of the second", user_id=USER, infer=False)


def _open_mounted(folder: Path) -> str:
    path = folder / "a b\t\\ ü\r记.db"
    path.touch()
    try:
        bind_mount(path, path)
        open_memory(path).close()
    except PermissionError:
        return "mount the folder"
    except StorageError as error:
        return str(error)
    return "opened"


def test_memory_refuses_a_mounted_file(tmp_path: Path) -> None:
    assert "mount the folder" in call(_open_mounted, tmp_path)


def test_add_is_refused_while_the_file_has_a_hard_link(tmp_path: Path) -> None:
    path, copy = tmp_path / "m.db", tmp_path / "copy.db"
    with open_memory(path) as memory:
        memory.add("first", user_id=USER, infer=False)
        copy.hardlink_to(path)
        with pytest.raises(StorageError, match=r"hard links.*remove the other names"):
            memory.add("second", user_id=USER, infer=False)
        assert [item.text for item in memory.get_all(user_id=USER)] == ["first"]
        copy.unlink()
        memory.add("third", user_id=USER, infer=False)
        assert {item.text for item in memory.get_all(user_id=USER)} == {"first", "third"}


def test_add_is_refused_once_the_shm_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    memory = open_memory(path, 0.1)
    memory.add("first", user_id=USER, infer=False)
    (tmp_path / "m.db-shm").unlink()
    for _ in range(2):
        with pytest.raises(StorageError, match=r"FILE-shm\) was removed.*open it again"):
            memory.search("first", user_id=USER)
        with pytest.raises(StorageError, match=r"FILE-shm\) was removed.*open it again"):
            memory.add("second", user_id=USER, infer=False)
    with pytest.raises(StorageError, match="FILE-shm"):  # this process has it open
        open_memory(path, 0.1)
    memory.close()
    with open_memory(path) as memory:
        assert [item.text for item in memory.get_all(user_id=USER)] == ["first"]
        memory.add("third", user_id=USER, infer=False)


UNCLOSED: Final = """
import sys
from pathlib import Path
from langmem_adapter.storage.sqlite import open_wal
connection = open_wal(Path(sys.argv[1]), timeout=1)
connection.execute("CREATE TABLE first(text)")
print("ready", flush=True)
sys.stdin.readline()
"""
CLOSED: Final = """
connection.close()
try:
    open_wal(Path(sys.argv[1]), timeout=1)
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize("way", ["close", "exit without close"])
def test_close_keeps_what_others_wrote_after_the_shm_was_replaced(tmp_path: Path, way: str) -> None:
    path = tmp_path / "m.db"
    code = UNCLOSED + (CLOSED if way == "close" else "")
    program = subprocess.Popen([sys.executable, "-c", code, path], stdin=-1, stdout=-1, text=True)
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    replace_shm(path)
    output = program.communicate("\n", SECONDS)[0]
    assert ("end this process" in output) == (way == "close")
    assert program.returncode == 0
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT text FROM foreigners").fetchall() == [("kept",)]


def _read_only(folder: Path) -> list[Any]:
    obey_modes()
    with closing(sqlite.open_wal(folder / "m.db", timeout=1)) as connection:
        return connection.execute("SELECT text FROM foreigners").fetchall()


def test_open_wal_opens_a_read_only_file(tmp_path: Path) -> None:
    sqlite.open_wal(tmp_path / "m.db", timeout=1).close()
    write_with_sqlite(str(tmp_path / "m.db"))
    (tmp_path / "m.db").chmod(0o400)
    assert call(_read_only, tmp_path) == [("kept",)]


def test_open_wal_reads_a_log_that_was_left(tmp_path: Path) -> None:
    def content(path: Path) -> list[Any]:
        with closing(sqlite.open_wal(path, timeout=1)) as connection:
            return connection.execute("SELECT text FROM notes").fetchall()

    path = tmp_path / "m.db"
    with closing(sqlite.open_wal(path, timeout=1)) as connection:
        connection.execute("CREATE TABLE notes(text)")
        connection.execute("INSERT INTO notes VALUES ('kept')")
        for number, ends in enumerate([("-wal",), ("-wal", "-shm")]):
            for end in ("", *ends):
                copy = tmp_path / f"copy{number}.db{end}"
                copy.write_bytes(path.with_name(f"m.db{end}").read_bytes())
    assert content(tmp_path / "copy0.db") == content(tmp_path / "copy1.db") == [("kept",)]


def put_in_place(path: Path) -> None:
    """Rename a copy, as rsync does, over a file that is in use."""
    backup = path.with_name("backup.db")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    write_with_sqlite(str(backup))
    backup.replace(path)


@pytest.mark.parametrize("here", [True, False])
def test_a_backup_is_not_opened_with_the_log_of_the_file_before(tmp_path: Path, here: bool) -> None:  # noqa: FBT001
    path = tmp_path / "m.db"
    user = open_memory(path) if here else Writer(path, "first")
    put_in_place(path)
    backup = path.read_bytes()
    with pytest.raises(StorageError, match=r"another file, which this one replaced; close that program"):
        open_memory(path, 0.1)
    assert path.read_bytes() == backup
    if isinstance(user, Memory):
        user.close()
    else:
        user.go_on(1)
        assert "removed or replaced" in user.result()[1]
        user.end()
    with open_memory(path) as memory:
        assert len(memory.get_all(user_id=USER)) == (0 if here else 1)
        memory.add("second", user_id=USER, infer=False)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT text FROM foreigners").fetchall() == [("kept",)]


def test_open_wal_keeps_locks_of_this_process(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    sqlite.open_wal(path, timeout=1).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE others(text)")
        sqlite.open_wal(path, timeout=1).close()
        other.execute("BEGIN IMMEDIATE")
        sqlite.open_wal(path, timeout=1).close()
        look = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        program = subprocess.run([sys.executable, "-c", look, path], capture_output=True, text=True, check=False)
        assert "database is locked" in program.stderr


@pytest.mark.parametrize("way", ["close", "exit without close"])
def test_close_empties_the_log_of_a_file_that_was_moved(tmp_path: Path, way: str) -> None:
    path, moved = tmp_path / "m.db", tmp_path / "moved.db"
    code = UNCLOSED + (CLOSED if way == "close" else "")
    program = subprocess.Popen([sys.executable, "-c", code, path], stdin=-1, stdout=-1, text=True)
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    path.rename(moved)
    program.communicate("\n", SECONDS)
    assert program.returncode == 0
    write_with_sqlite(str(path))  # beside the log that was left
    for file, table in ((moved, "first"), (path, "foreigners")):
        with closing(sqlite.open_wal(file, timeout=1)) as connection:
            assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [(table,)]


def test_memory_refuses_a_folder_or_device(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", "/dev/null"):
        with pytest.raises(StorageError, match="give the path of a file"):
            Memory(path)
