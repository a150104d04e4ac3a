"""The programs that are killed: writers that keep a journal, and a reader that searches beside them."""

from __future__ import annotations

import itertools
import os
import random
import signal
import sqlite3
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Engine, event

from langmem_adapter.errors import LangmemAdapterError, MemoryNotFoundError, StorageError
from langmem_adapter.index.indexer import Indexer
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from tests.faults.journal import Evidence, Journal, lines
from tests.faults.kernel import die_with_parent
from tests.faults.mutants import mutate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sqlalchemy import Connection

__all__ = ["EMBEDDINGS", "USER", "fork_on", "open_memory", "read_on", "snapshot_failures", "write_on"]

USER: Final = "shared"
EMBEDDINGS: Final = "hash:32"
_THREADS: Final = 2
_LONGEST: Final = 300.0  # seconds: nobody outlives a test that went wrong
_THINGS: Final = "tea chess jazz hiking sushi violin tennis opera cactus bicycle".split()


def open_memory(database: str, **options: Any) -> Memory:
    """The memory that all of them share; it writes snapshots all the time."""
    settings = Settings(merge_after=5, trace_days=0, **options)
    return Memory(database, embeddings=EMBEDDINGS, settings=settings)


def snapshot_failures(memory: Memory) -> int:
    """How many snapshots it could not read or write."""
    indexer = memory.parts.indexer
    assert isinstance(indexer, Indexer)
    return indexer.failures


# ── writers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_on(database: str, journal: Path, name: str, mutant: str | None, failing: float) -> None:
    """Write until killed, in several threads, so that commits are shared.

    Args:
        database: Where.
        journal: A file of its own.
        name: Unlike that of any other writer of this database, now or earlier.
        mutant: The promise to break.
        failing: Share of the commits that fail as on a broken disk.
    """
    mutate(mutant)
    memory, notes = open_memory(database), Journal(journal)
    if failing:
        _fail_commits(failing)
    writers = [_Writer(memory, notes, f"{name}{number}") for number in range(_THREADS)]
    threads = [threading.Thread(target=writer.run, daemon=True) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fork_on(database: str, journal: Path, name: str, mutant: str | None, failing: float) -> None:
    """Fork until killed: each child writes with a memory of its own, while the parent uses its one, closes it, opens another.

    Half of the children are forked while another thread writes; where that refuses them the file, they give up. Every child
    is killed; its journal lies beside the parent's and is named for its number. Everything is imported before: a child
    forked in the midst of an import has half a module, whosever it is.
    """
    mutate(mutant)
    with open_memory(":memory:") as first:
        added = first.add("tea", user_id=USER, infer=False).results[0].id
        first.search("tea", user_id=USER)
        first.update(str(added), "chess")
        first.verify()
    dice, notes, end = random.Random(name), Journal(journal), time.monotonic() + _LONGEST
    for number in itertools.takewhile(lambda _: time.monotonic() < end, itertools.count()):
        memory = open_memory(database)
        if dice.random() < 0.5:
            threading.Thread(target=_write_beside, args=(memory, notes, f"{name}t{number}"), daemon=True).start()
        told = journal.with_name(f"{journal.stem}-{number}.jsonl")
        parent, child = os.getpid(), os.fork()
        if child == 0:
            die_with_parent(parent)
            _write_in_child(database, told, f"{name}c{number}", failing)
        _write_some(memory, notes, f"{name}p{number}")
        while not any(line["say"] in {"done", "refused"} for line in lines(told)):
            time.sleep(0.002)
        memory.close()
        with open_memory(database) as again:
            _write_some(again, notes, f"{name}q{number}")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _write_some(memory: Memory, notes: Journal, name: str) -> None:
    writer = _Writer(memory, notes, name)
    for _ in range(random.randint(1, 6)):
        writer.step()


def _write_beside(memory: Memory, notes: Journal, name: str) -> None:
    with suppress(StorageError):  # it was closed before a look at it
        _write_some(memory, notes, name)


def _write_in_child(database: str, journal: Path, name: str, failing: float) -> None:
    try:
        write_on(database, journal, name, None, failing)
    except StorageError as error:
        notes = Journal(journal)
        notes.refused(notes.intend([]), error)
        if "forked while" not in str(error):
            notes.problem(f"a forked child could not open the database: {error}")
    finally:
        signal.pause()


def _fail_commits(share: float) -> None:
    dice = random.Random()

    def fail(connection: Connection) -> None:
        writing = connection.get_execution_options().get("sqlite_begin") == "IMMEDIATE"
        if writing and dice.random() < share:
            raise sqlite3.OperationalError("disk I/O error (a test's)")

    event.listen(Engine, "commit", fail)


class _Writer:
    def __init__(self, memory: Memory, journal: Journal, name: str) -> None:
        self._memory = memory
        self._journal = journal
        self._name = name
        self._dice = random.Random(name)
        self._said = 0
        self._living: list[str] = []
        self._dead: list[str] = []

    def run(self) -> None:
        """Write until the time is over."""
        end = time.monotonic() + _LONGEST
        self._add()
        while time.monotonic() < end:
            self.step()

    def step(self) -> None:
        """Do one thing."""
        kinds = (self._add, self._add_many, self._update, self._delete, self._restore, self._look)
        self._dice.choices(kinds, (45, 10, 22, 13, 5, 5))[0]()

    def _do(self, evidence: Sequence[Evidence], action: Callable[[], list[str]]) -> list[str]:
        number = self._journal.intend(evidence)
        try:
            ids = action()
        except LangmemAdapterError as error:
            self._journal.refused(number, error)
            return []
        self._journal.done(number, ids)
        return ids

    def _text(self) -> str:
        self._said += 1
        return f"{self._dice.choice(_THINGS)} and {self._dice.choice(_THINGS)} {self._name}x{self._said}"

    def _add(self) -> None:
        text = self._text()

        def act() -> list[str]:
            result = self._memory.add(text, user_id=USER, run_id=self._name, infer=False)
            return [str(change.id) for change in result.results]

        self._living += self._do([("ADD", text)], act)

    def _add_many(self) -> None:
        texts = [self._text() for _ in range(3)]

        def act() -> list[str]:
            items = [{"messages": text, "user_id": USER, "run_id": self._name, "infer": False} for text in texts]
            results = self._memory.add_many(items)
            failed = [result for result in results if isinstance(result, Exception)]
            if failed:
                raise failed[0]
            return [str(change.id) for result in results for change in getattr(result, "results", ())]

        self._living += self._do([("ADD", text) for text in texts], act)

    def _update(self) -> None:
        text, memory_id = self._text(), self._some(self._living)
        if memory_id is not None:
            self._do([("UPDATE", text)], lambda: [str(self._memory.update(memory_id, text).id)])

    def _delete(self) -> None:
        memory_id = self._some(self._living)
        if memory_id is not None and self._do(
            [("DELETE", memory_id)], lambda: [str(self._memory.delete(memory_id).id)]
        ):
            self._dead.append(memory_id)
            if memory_id in self._living:
                self._living.remove(memory_id)

    def _restore(self) -> None:
        if self._dead:
            memory_id = self._dead.pop()
            self._living += self._do([("RESTORE", memory_id)], lambda: [str(self._memory.restore(memory_id, 1).id)])

    def _look(self) -> None:
        self._memory.search(self._dice.choice(_THINGS), user_id=USER)
        _verify(self._memory, self._journal)

    def _some(self, own: Sequence[str]) -> str | None:
        if self._dice.random() < 0.2:  # somebody else's, who may be changing it at this moment
            return self._dice.choice([item.id for item in self._memory.get_all(user_id=USER, k=20)] or [None])
        return self._dice.choice(own) if own else None


# ── the reader ──────────────────────────────────────────────────────────────────────────────────────────────────────


def read_on(database: str, journal: Path, writers: Sequence[Path], mutant: str | None) -> None:
    """Search and verify until killed; what the writers' journals show as added before a search must be in it."""
    mutate(mutant)
    memory, notes, dice = open_memory(database), Journal(journal), random.Random()
    end = time.monotonic() + _LONGEST
    while time.monotonic() < end:
        added = _added(dice.choice(writers))
        if added is not None:
            _look(memory, notes, *added)
        _verify(memory, notes)


def _verify(memory: Memory, notes: Journal) -> None:
    report = memory.verify()
    if not report.ok:
        notes.problem(f"the index of a running process differs from the database: {report}")


def _added(journal: Path) -> tuple[str, str] | None:
    """Text and id of the memory that a writer added last."""
    intended: dict[int, list[list[str]]] = {}
    last = None
    for line in lines(journal):
        if line["say"] == "intend":
            intended[line["number"]] = line["evidence"]
        elif line["say"] == "done" and intended[line["number"]][0][0] == "ADD":
            last = intended[line["number"]][0][1], line["ids"][0]
    return last


def _look(memory: Memory, notes: Journal, text: str, memory_id: str) -> None:
    found = memory.search(text, user_id=USER, k=5)
    if any(hit.id == memory_id for hit in found):
        return
    try:
        changed = len(memory.history(memory_id)) > 1
    except MemoryNotFoundError:
        changed = False
    if not changed:
        notes.problem(f"a search did not find {text!r}, which was acknowledged before it began")
