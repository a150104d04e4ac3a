"""A disk that is full, broken or read-only: a typed error that says what to do, nothing half-written, reading goes on."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from langmem_adapter.errors import LangmemAdapterError, StorageError
from tests.faults.examine import examine
from tests.faults.journal import Journal
from tests.faults.kernel import SYNCS, WRITES, obey_modes, small_disk, under_faults
from tests.faults.processes import call
from tests.faults.worker import USER, open_memory, snapshot_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langmem_adapter.memory.memory import Memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the faults are made by Linux' own means")

COUNT: Final = 20


@pytest.fixture
def database(tmp_path: Path) -> str:
    (tmp_path / "db").mkdir()
    return str(tmp_path / "db" / "memory.db")


def add(memory: Memory, journal: Journal, text: str) -> str:
    """Add a memory and note what came of it."""
    number = journal.intend([("ADD", text)])
    try:
        (change,) = memory.add(text, user_id=USER, infer=False).results
    except LangmemAdapterError as error:
        journal.refused(number, error)
        raise
    journal.done(number, [change.id])
    return str(change.id)


def fill(database: str) -> tuple[Memory, Journal, list[str]]:
    """A memory with twenty notes, and the journal that says so."""
    journals = Path(database).parent.parent / "journals"
    journals.mkdir()
    memory, journal = open_memory(database), Journal(journals / "all.jsonl")
    return memory, journal, [add(memory, journal, f"note {number}") for number in range(COUNT)]


def error_of(action: Callable[[], object]) -> str:
    """Text of the `StorageError` that an action raises; anything else is a failure."""
    with pytest.raises(StorageError) as caught:
        action()
    return str(caught.value)


# ── a disk that refuses ─────────────────────────────────────────────────────────────────────────────────────────────


def write_on_a_refusing_disk(database: str, calls: Sequence[str], number: int) -> dict[str, Any]:
    memory, _, ids = fill(database)

    def work() -> dict[str, Any]:
        errors = [
            error_of(lambda: memory.update(ids[0], "changed")),
            error_of(lambda: memory.delete(ids[1])),
            error_of(lambda: memory.delete_all(user_id=USER)),
            error_of(lambda: memory.add("one more", user_id=USER, infer=False)),  # a phantom, should it be found later
        ]
        found = memory.search("note 3", user_id=USER)
        written, failures = memory.parts.indexer.write_segment(), snapshot_failures(memory)
        return {"errors": errors, "found": found[0].text, "snapshot": written, "failures": failures}

    told = under_faults(calls, number, work)
    verified, texts = memory.verify().ok, sorted(item.text for item in memory.get_all(user_id=USER))
    return {**told, "verified": verified, "texts": texts}


def go_on(database: str, calls: Sequence[str], number: int) -> None:
    told = write_on_a_refusing_disk(database, calls, number)
    assert told["verified"]
    memory, journal = open_memory(database), Journal(Path(database).parent.parent / "journals" / "more.jsonl")
    add(memory, journal, "after the disk came back")
    memory.close()


FAULTS = [
    pytest.param(WRITES, errno.ENOSPC, "database or disk is full (free some space", id="full"),
    pytest.param(WRITES, errno.EIO, "disk I/O error", id="failing writes"),
    pytest.param(SYNCS, errno.EIO, "disk I/O error", id="failing syncs"),
]


@pytest.mark.parametrize(("calls", "number", "message"), FAULTS)
def test_add_on_a_failing_disk_is_a_storage_error(
    database: str, calls: Sequence[str], number: int, message: str
) -> None:
    told = call(write_on_a_refusing_disk, database, calls, number)
    assert len(told["errors"]) == 4 and all(message in error for error in told["errors"]), told["errors"]
    assert told["found"] == "note 3"
    assert told["texts"] == sorted(f"note {number}" for number in range(COUNT))
    assert told["verified"]
    assert told["snapshot"] is False and told["failures"] >= 1, "a snapshot that fails is counted and not raised"


@pytest.mark.parametrize(("calls", "number", "message"), FAULTS)
def test_the_same_process_writes_again_when_the_disk_is_back(
    database: str, calls: Sequence[str], number: int, message: str
) -> None:
    call(go_on, database, calls, number)
    assert call(examine, database, Path(database).parent.parent / "journals") == []
    connection = sqlite3.connect(database)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


@pytest.mark.parametrize(("calls", "number", "message"), FAULTS)
def test_add_survives_a_crash_right_after_a_failure(
    database: str, calls: Sequence[str], number: int, message: str
) -> None:
    told = call(write_on_a_refusing_disk, database, calls, number)  # its process is killed, not closed
    with open_memory(database) as memory:
        texts = sorted(item.text for item in memory.get_all(user_id=USER))
        assert memory.verify().ok
    # A commit that was written and not synced may come true when the file is opened after a crash: the error says so.
    possible = [sorted([*told["texts"], "one more"])] if calls == SYNCS else []
    assert texts in [told["texts"], *possible]
    assert all("may still be stored" in error for error in told["errors"]) == (number == errno.EIO)


# ── a disk that is really full ──────────────────────────────────────────────────────────────────────────────────────


def fill_a_small_disk(folder: Path) -> dict[str, Any]:
    (folder / "db").mkdir()
    make_space = small_disk(folder / "db", 5 << 20)
    memory, journal, ids = fill(str(folder / "db" / "memory.db"))
    error = _fill_up(memory, journal)
    told = {
        "error": error,
        "update": error_of(lambda: memory.update(ids[0], "words " * 16_000)),
        "found": memory.search("note 3", user_id=USER)[0].text,
        "verified": memory.verify().ok,
    }
    make_space()
    add(memory, journal, "after space was made")
    memory.close()
    return {**told, "wrong": examine(str(folder / "db" / "memory.db"), folder / "journals")}


def _fill_up(memory: Memory, journal: Journal) -> str:
    for number in range(500):
        try:
            add(memory, journal, f"number {number}{' words' * 4000}")
        except StorageError as error:
            return str(error)
    return "the disk never became full"


def test_add_on_a_full_disk(tmp_path: Path) -> None:
    told = call(fill_a_small_disk, tmp_path)
    for error in (told["error"], told["update"]):
        assert "database or disk is full" in error or "disk I/O error" in error
    assert told["found"] == "note 3"
    assert told["verified"]
    assert told["wrong"] == []


# ── a disk that may not be written ──────────────────────────────────────────────────────────────────────────────────


def open_read_only(database: str, file_mode: int, folder_mode: int) -> tuple[str, str]:
    """The errors of opening a database that may not be written, and of creating one beside it."""
    obey_modes()
    path = Path(database)
    path.chmod(file_mode)
    path.parent.chmod(folder_mode)
    try:
        return error_of(lambda: _open_and_add(database)), _error_of_new(path.with_name("new.db"))
    finally:
        path.parent.chmod(0o700)
        path.chmod(0o600)


def _open_and_add(database: str) -> None:
    with open_memory(database) as memory:
        memory.add("one more", user_id=USER, infer=False)


def _error_of_new(path: Path) -> str:
    try:
        _open_and_add(str(path))
    except StorageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"),
    [(0o600, 0o500), (0o400, 0o500), (0o400, 0o700)],
    ids=["folder", "folder and file", "file"],
)
def test_memory_names_the_fix_where_files_cannot_be_written(database: str, file_mode: int, folder_mode: int) -> None:
    with open_memory(database) as memory:
        memory.add("note 1", user_id=USER, infer=False)
    error, error_of_new = call(open_read_only, database, file_mode, folder_mode)
    assert "is not writable for this user" in error or "may not be entered" in error, error
    assert (error_of_new == "") == (folder_mode == 0o700), error_of_new
    with open_memory(database) as memory:
        assert [item.text for item in memory.get_all(user_id=USER)] == ["note 1"]
        assert memory.verify().ok


def lose_the_folder(database: str) -> dict[str, Any]:
    obey_modes()
    memory, journal, _ = fill(database)
    folder = Path(database).parent
    folder.chmod(0o500)
    try:
        add(memory, journal, "added while the folder was read-only")
        found = memory.search("added while", user_id=USER)[0].text
        return {"found": found, "snapshot": memory.parts.indexer.write_segment(), "verified": memory.verify().ok}
    finally:
        memory.close()
        folder.chmod(0o700)


def test_memory_in_a_folder_that_becomes_read_only(database: str) -> None:
    told = call(lose_the_folder, database)
    assert told == {"found": "added while the folder was read-only", "snapshot": False, "verified": True}
    assert call(examine, database, Path(database).parent.parent / "journals") == []


# ── files that are no database ──────────────────────────────────────────────────────────────────────────────────────


def _overwrite_pages(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"no database at all, but more bytes than a header has" * 100),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        _overwrite_pages,
    ],
    ids=["foreign", "cut off", "overwritten"],
)
def test_memory_refuses_a_damaged_database(database: str, damage: Callable[[Path], object]) -> None:
    with open_memory(database) as memory:
        for number in range(COUNT):
            memory.add(f"note {number}", user_id=USER, infer=False)
    damage(Path(database))
    assert error_of(lambda: _read_all(database))


def _read_all(database: str) -> None:
    memory = open_memory(database)
    try:
        memory.search("note 3", user_id=USER)
        assert len(memory.get_all(user_id=USER, k=100)) == COUNT
    finally:
        memory.close()
