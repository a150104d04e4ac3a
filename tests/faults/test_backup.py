"""Backups while processes write lack nothing acknowledged before; a copy that is killed leaves the target as it was."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest

from langmem_adapter.errors import StorageError
from langmem_adapter.storage import backup as backups
from langmem_adapter.storage.backup import backup, copy
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.migrations import prepare
from tests.faults.examine import examine_backup
from tests.faults.journal import count, read
from tests.faults.processes import call, start
from tests.faults.worker import write_on
from tests.storage.copies import Rows, copied, fill, open_memory, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.faults.conftest import Bound
    from tests.faults.journal import Evidence

WRITERS: Final = "ABCD"
PER_DATABASE: Final = 10
PATIENCE: Final = 100.0


def acknowledged(journals: list[Path]) -> Counter[Evidence]:
    return sum((count(read(path)[0], "done") for path in journals), Counter())


def backups_beside_writers(database: str, folder: Path, times: int) -> int:
    """Make backups while four processes write; how many operations the last one was to hold."""
    folder.mkdir()
    journals = [folder / f"{name}.jsonl" for name in WRITERS]
    with closing(Database(database)) as opened:
        prepare(opened)
        running = [start(write_on, database, path, path.stem, None, 0.0) for path in journals]
        try:
            end = time.monotonic() + PATIENCE
            while not all(acknowledged([path]) for path in journals):
                assert time.monotonic() < end, "the writers do not get anywhere"
                time.sleep(0.01)
            for number in range(times):
                before, file = acknowledged(journals), folder / f"{number}" / "backup.db"
                file.parent.mkdir()
                report = backup(opened, file)
                assert all(process.is_alive() for process in running), "a writer ended by itself"
                assert call(examine_backup, str(file), before) == [], (number, report)
        finally:
            for process in running:
                process.kill()
                process.join()
    assert [problem for path in journals for problem in read(path)[1]] == []
    return before.total()


@pytest.mark.timeout(1800)
def test_backup_beside_four_writing_processes(tmp_path: Path, bound: Bound, measured: Callable[[str], None]) -> None:
    times, held = bound(3, long=100), 0
    for first in range(0, times, PER_DATABASE):
        number = min(PER_DATABASE, times - first)
        held += backups_beside_writers(str(tmp_path / f"{first}.db"), tmp_path / str(first), number)
    measured(
        f"SQLite: {times} backups beside four writers, {held} operations acknowledged before them: 0 lost, all clean"
    )


@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_backup_of_postgres_beside_four_writing_clients(
    postgres_url: str, tmp_path: Path, bound: Bound, measured: Callable[[str], None]
) -> None:
    times = bound(1, long=10)
    held = backups_beside_writers(postgres_url, tmp_path / "backups", times)
    measured(f"Postgres: {times} backups beside four writers, {held} operations acknowledged before them: 0 lost")


def copy_with_replace(source: str, target: str) -> None:
    copy(source, target, replace=True)


def test_copy_killed_at_random_moments_leaves_the_target_as_it_was(
    database_url: str, tmp_path: Path, bound: Bound, measured: Callable[[str], None]
) -> None:
    sources, rounds, kept = [str(tmp_path / "a.db"), str(tmp_path / "b.db")], bound(2, long=60), 0
    fill(sources[0])
    with open_memory(sources[1]) as memory:
        memory.add("I like chess.", user_id="bob")
    contents: list[Rows] = [copied(rows_of(source)) for source in sources]
    copy(sources[0], database_url)
    before = contents[0]
    for number in range(1, rounds + 1):
        process = start(copy_with_replace, sources[number % 2], database_url)
        process.join(random.uniform(0, 1.0))
        process.kill()
        process.join()
        now = copied(rows_of(database_url))
        assert now in (before, contents[number % 2]), number
        kept, before = kept + (now == before), now
    with open_memory(database_url) as memory:
        assert memory.verify().ok
    where = "Postgres" if "://" in database_url else "SQLite"
    measured(f"{where}: a copy killed {rounds} times, {kept} times before its commit: 0 halves")


def back_up_and_wait(database: str, file: str) -> None:
    backups._STEPS = 10  # type: ignore[misc]
    with closing(Database(database)) as opened:
        backup(opened, file, progress=lambda *_: time.sleep(PATIENCE))


def test_backup_removes_what_a_killed_backup_left(tmp_path: Path) -> None:
    source, folder = str(tmp_path / "m.db"), tmp_path / "backups"
    fill(source)
    folder.mkdir()
    process = start(back_up_and_wait, source, str(folder / "b.db"))
    while not list(folder.glob(".backup-*/*")):
        time.sleep(0.01)
    with closing(Database(source)) as opened:
        with pytest.raises(StorageError, match="another backup"):
            backup(opened, folder / "b.db")
        process.kill()
        process.join()
        assert backup(opened, folder / "b.db").memories > 0
    assert [path.name for path in folder.iterdir()] == ["b.db"]
