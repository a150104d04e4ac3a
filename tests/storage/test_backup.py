"""`Memory.backup`: a whole database in a file that only its owner reads, or an error and no file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from langmem_adapter.errors import InvalidInputError, StorageError
from langmem_adapter.storage.backup import copy
from tests.storage.copies import LEFT_OUT, copied, fill, open_memory, rows_of

if TYPE_CHECKING:
    from pathlib import Path


async def test_backup_is_a_database_with_everything_but_what_running_programs_own(
    database_url: str, tmp_path: Path
) -> None:
    fill(database_url)
    source, files, mask = rows_of(database_url), [tmp_path / "a.db", tmp_path / "b.db"], os.umask(0)
    progress: list[tuple[int, int]] = []
    try:
        with open_memory(database_url) as memory:
            report = memory.backup(files[0], progress=lambda *done: progress.append(done))
            await memory.abackup(str(files[1]))
            assert memory.verify().ok
    finally:
        os.umask(mask)
    assert report.location == str(files[0])
    assert (report.memories, report.changes) == (len(source["memories"]), max(source["changes"])[0])
    assert all(0 <= done <= total == 100 for done, total in progress)
    backups = [rows_of(str(file)) for file in files]
    for file, rows in zip(files, backups, strict=True):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert copied(rows) == copied(source)
        assert not any(rows[name] for name in LEFT_OUT) and [job[5] for job in rows["jobs"]] == ["waiting"]
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert not file.with_name(f"{file.name}-wal").exists()
        with open_memory(str(file)) as restored:
            assert restored.verify().ok
            assert "Lives in Kyoto" in {hit.text for hit in restored.search("Where?", user_id="ada")}
    last = [max(rows["changes"]) for rows in (source, *backups)]
    assert len({change[0] for change in last}) == 1 and len({change[1] for change in last}) == 3  # each its own nonce


def test_backup_of_a_database_in_memory(tmp_path: Path) -> None:
    with open_memory(":memory:") as memory:
        memory.add("I live in Lyon.", user_id="ada")
        assert memory.backup(tmp_path / "b.db").memories == 1
    with open_memory(str(tmp_path / "b.db")) as restored:
        assert restored.get_all(user_id="ada")[0].text == "Lives in Lyon"
        assert restored.verify().ok


def test_backup_replaces_a_file_only_with_force(tmp_path: Path) -> None:
    file = tmp_path / "b.db"
    with open_memory(str(tmp_path / "m.db")) as memory:
        memory.add("I live in Lyon.", user_id="ada")
        memory.backup(file)
        memory.add("I like tea.", user_id="ada")
        content = file.read_bytes()
        with pytest.raises(InvalidInputError, match=r"exists.*--force"):
            memory.backup(file)
        assert not list(tmp_path.glob(".backup*"))
        assert file.read_bytes() == content
        assert memory.backup(file, force=True).memories == 2
        for path in (tmp_path / "m.db", "postgresql://localhost/x", ":memory:", tmp_path / "m.db" / ".." / "m.db"):
            with pytest.raises(InvalidInputError):
                memory.backup(path, force=True)
        assert memory.get_all(user_id="ada", k=9)
    with open_memory(str(file)) as restored:
        assert len(restored.get_all(user_id="ada")) == 2


def test_backup_never_replaces_a_database_in_use(tmp_path: Path) -> None:
    with open_memory(str(tmp_path / "m.db")) as memory, open_memory(str(tmp_path / "other.db")) as other:
        other.add("I like tea.", user_id="bob")
        with pytest.raises(StorageError, match=r"in use.*copy --replace"):
            memory.backup(tmp_path / "other.db", force=True)
        assert other.search("tea", user_id="bob")
    log = tmp_path / "gone.db-wal"  # left by a program that was killed
    log.write_bytes(b"x" * 100)
    with open_memory(str(tmp_path / "m.db")) as memory, pytest.raises(StorageError, match="in use"):
        memory.backup(tmp_path / "gone.db")


def test_backup_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    with open_memory(str(tmp_path / "m.db")) as memory:
        memory.add("I live in Lyon.", user_id="ada")
        with pytest.raises(StorageError, match=r"cannot be written: No such file or directory"):
            memory.backup(tmp_path / "missing" / "b.db")
        monkeypatch.setattr("langmem_adapter.storage.backup._STEPS", 10)

        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt(done, total)

        with pytest.raises(KeyboardInterrupt):
            memory.backup(folder / "b.db", progress=stop)
        usage = shutil.disk_usage(folder)._replace(free=1000)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
        with pytest.raises(StorageError, match=r"0 MiB free.*needs about 1:"):
            memory.backup(folder / "b.db")
        assert list(folder.iterdir()) == []
        assert memory.verify().ok


def test_backup_is_restored_by_copy_into_the_database_that_it_was_made_of(database_url: str, tmp_path: Path) -> None:
    with open_memory(database_url) as memory:
        kept = memory.add("I live in Lyon.", user_id="ada").results[0]
        memory.backup(tmp_path / "b.db")
        memory.update(str(kept.id), "Lives in Rome")
        memory.add("I like tea.", user_id="ada")
        assert len(memory.search("tea Rome", user_id="ada")) == 2
        copy(tmp_path / "b.db", database_url, replace=True)
        assert [hit.text for hit in memory.search("tea Rome", user_id="ada")] == ["Lives in Lyon"]
        memory.update(str(kept.id), "Lives in Oslo")
        assert [each.new_text for each in memory.history(str(kept.id))] == ["Lives in Lyon", "Lives in Oslo"]
        assert memory.verify().ok
