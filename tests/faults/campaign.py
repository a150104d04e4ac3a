"""Rounds of killing: start the programs, kill them at a random moment, reopen, examine."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.faults.examine import examine
from tests.faults.journal import read
from tests.faults.processes import call, start
from tests.faults.worker import fork_on, read_on, write_on

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

__all__ = ["Campaign", "copy_database"]

_PATIENCE: Final = 110.0


@dataclass(slots=True)
class Campaign:
    """One database, and everything that happened to it.

    Attributes:
        database: A path or a URL.
        folder: Where the journals and backups lie.
        mutant: The promise that every process breaks.
        failing: Share of the commits that fail.
        kills: Processes killed so far, but for forked children.
        forks: Forked children so far; all of them were killed.
        rounds: Rounds so far.
        restored: How often a backup was restored.
    """

    database: str
    folder: Path
    mutant: str | None = None
    failing: float = 0.0
    kills: int = 0
    forks: int = 0
    rounds: int = 0
    restored: int = 0

    def __post_init__(self) -> None:
        self._journals.mkdir(parents=True)

    def round(self) -> list[str]:
        """One that forks, with two writers and a reader or alone, killed one after the other; what is wrong afterwards."""
        self.rounds += 1
        # Every second time the forking one is alone: only the last to close a file removes its log.
        writers = {"F": fork_on} if self.rounds % 2 == 0 else {"A": write_on, "B": write_on, "F": fork_on}
        journals = [self._journals / f"{self.rounds:04}{name}.jsonl" for name in writers]
        running = [
            start(program, self.database, path, f"{self.rounds}{name}", self.mutant, self.failing)
            for (name, program), path in zip(writers.items(), journals, strict=True)
        ]
        if len(writers) > 1:
            watched = self._journals / f"{self.rounds:04}R"
            running.append(start(read_on, self.database, watched, journals, self.mutant))
        try:
            _wait(journals, running)
            random.shuffle(running)
            for process in running:
                time.sleep(random.uniform(0.0, 0.15))  # the others see one of them die
                process.kill()
        finally:
            self.kills += sum(_end(process) for process in running)
            self.forks += sum(1 for _ in self._journals.glob(f"{self.rounds:04}F-*"))
        return self.examine()

    def round_and_restore(self) -> list[str]:
        """A round, after which the backup made before it is put back; the newer snapshot stays (SQLite)."""
        before, backup = set(self._journals.iterdir()), self.folder / "backup.db"
        copy_database(Path(self.database), backup)
        problems = self.round()
        copy_database(backup, Path(self.database))
        self.restored += 1
        for path in set(self._journals.iterdir()) - before:  # what they tell is undone
            path.unlink()
        return problems + self.examine()

    def examine(self) -> list[str]:
        """What is wrong with the database, seen by a process of the same kind."""
        found: list[str] = call(examine, self.database, self._journals, self.mutant)
        return found

    def acknowledged(self) -> int:
        """How many operations were acknowledged so far, but for those that a backup undid."""
        told = [read(path)[0] for path in self._journals.iterdir()]
        return sum(operation.outcome == "done" for operations in told for operation in operations)

    @property
    def _journals(self) -> Path:
        return self.folder / "journals"


def copy_database(source: Path, target: Path) -> None:
    """Copy a SQLite database with everything in its WAL, also into one that is in use."""
    old, new = sqlite3.connect(source), sqlite3.connect(target, timeout=30)
    old.backup(new)
    old.close()
    new.close()


def _wait(journals: list[Path], running: list[ForkServerProcess]) -> None:
    end = time.monotonic() + _PATIENCE
    second = journals[-1].with_name(f"{journals[-1].stem}-1.jsonl")  # so its parent has closed beside a first child
    while not (all(any(op.outcome == "done" for op in read(path)[0]) for path in journals) and second.exists()):
        assert time.monotonic() < end, "the writers do not get anywhere"
        assert all(process.is_alive() for process in running), "a process ended by itself"
        time.sleep(0.005)


def _end(process: ForkServerProcess) -> bool:
    """Whether it was alive until it was killed."""
    process.kill()
    process.join()
    killed = process.exitcode == -signal.SIGKILL
    process.close()
    return killed
