"""Whatever lies where the snapshot should be: a search gives what the database says, or the snapshot was right."""

from __future__ import annotations

import random
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from langmem_adapter.errors import StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from tests.faults.campaign import copy_database
from tests.faults.worker import snapshot_failures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


COUNT: Final = 120
QUESTIONS: Final = ("tea and jazz", "a bicycle in the opera", "chess 17", "hiking")
THINGS: Final = "tea chess jazz hiking sushi violin tennis opera cactus bicycle".split()
Answers = list[tuple[str, Any]]  # a score, or about which


@contextmanager
def open_memory(path: Path, index: Any = "faiss") -> Iterator[Memory]:
    settings = Settings(merge_after=10_000, trace_days=0)
    with Memory(path, embeddings="hash:48", index=index, settings=settings) as memory:
        yield memory
        memory.search("tea", user_id="a")  # what is written at the end is what the last search knew


def answers(memory: Memory) -> Answers:
    """The score of every hit of every question; by id, since two indexes may round nearly equal scores differently."""
    results = (memory.search(question, user_id="a", k=COUNT) for question in QUESTIONS)
    return [(hit.id, hit.score) for hits in results for hit in sorted(hits, key=lambda hit: hit.id)]


def fill(memory: Memory, seed: int, count: int = COUNT) -> list[str]:
    dice = random.Random(seed)
    said = [f"{dice.choice(THINGS)} and {dice.choice(THINGS)} {number}" for number in range(count)]
    items = [{"messages": text, "user_id": "a", "infer": False} for text in said]
    return [str(change.id) for result in memory.add_many(items) for change in getattr(result, "results", ())]


Files = dict[str, bytes]  # the manifest and the segment of an index, by the ends of their names


def files_of(path: Path) -> Files:
    return {file.name.removeprefix(path.name): file.read_bytes() for file in _beside(path)}


def put(path: Path, files: Files) -> None:
    """Let these lie beside a database, and no others."""
    for file in _beside(path):
        file.unlink()
    for name, data in files.items():
        path.with_name(path.name + name).write_bytes(data)


def _beside(path: Path) -> list[Path]:
    return [*path.parent.glob(f"{path.name}.*.index"), *path.parent.glob(f"{path.name}.*.faiss")]


@dataclass(frozen=True, slots=True)
class World:
    """A database with the files of its index, and what a search of it must give."""

    path: Path
    good: Files
    older: Files
    other: Files
    truth: Answers


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    path, other = folder / "memory.db", folder / "other.db"
    with open_memory(path) as memory:
        ids = fill(memory, 1)
    older = files_of(path)
    with open_memory(path) as memory:
        for number, memory_id in enumerate(ids[:40]):
            _ = memory.delete(memory_id) if number % 2 else memory.update(memory_id, f"Sells tea {number}")
        soon = datetime.now(UTC) - timedelta(seconds=1)
        memory.update(ids[50], expires_at=soon)
    with open_memory(other) as memory:  # as many changes, in the same order, other texts
        ids = fill(memory, 2)
        for memory_id in ids[:41]:
            memory.update(memory_id, "Sells stamps")
    return World(path, files_of(path), older, files_of(other), _truth(path))


def _truth(path: Path) -> Answers:
    """By the exact index, from a copy without any snapshot."""
    copy = path.parent / "copy" / "memory.db"
    copy.parent.mkdir(exist_ok=True)
    copy_database(path, copy)
    with open_memory(copy, "exact") as memory:
        truth = [(id_, pytest.approx(score, abs=1e-5)) for id_, score in answers(memory)]
    shutil.rmtree(copy.parent)
    return truth


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["older", "good"])
def test_search_uses_a_whole_snapshot(world: World, kind: str) -> None:
    put(world.path, getattr(world, kind))
    with open_memory(world.path) as memory:
        assert answers(memory) == world.truth
        assert memory.verify().ok
        assert snapshot_failures(memory) == 0


# ── an older backup is put back ─────────────────────────────────────────────────────────────────────────────────────


def put_back(folder: Path, lost: int, written: int) -> tuple[bool, bool]:
    """Lose some memories to a restored backup, write others, reopen with the newer snapshot.

    Args:
        folder: An empty folder.
        lost: Memories added after the backup was made.
        written: Memories added after it was put back, by a program that leaves the snapshot alone.

    Returns:
        Whether index and database agree, and whether searches give what the database says.
    """
    path, backup = folder / "memory.db", folder / "backup.db"
    with open_memory(path) as memory:
        fill(memory, 1, 30)
    copy_database(path, backup)
    with open_memory(path) as memory:
        fill(memory, 2, lost)
    newer = files_of(path)
    copy_database(backup, path)
    if written:
        with open_memory(path) as memory:
            fill(memory, 3, written)
    put(path, newer)
    truth = _truth(path)
    with open_memory(path) as memory:
        right = answers(memory) == truth
        return memory.verify().ok, right


@pytest.mark.parametrize("written", [0, 10, 20, 40])
def test_a_restored_backup_with_the_newer_snapshot_beside_it_is_read_anew(tmp_path: Path, written: int) -> None:
    assert put_back(tmp_path, 20, written) == (True, True)


@pytest.mark.parametrize("more", [0, 25])
def test_search_follows_a_backup_restored_under_running_processes(tmp_path: Path, more: int) -> None:
    path, backup = tmp_path / "memory.db", tmp_path / "backup.db"
    with open_memory(path) as one, open_memory(path) as two:
        kept = fill(one, 1, 30)
        copy_database(path, backup)
        lost = fill(one, 2, 20)
        one.delete(kept[0])
        assert len(two.search("tea", user_id="a", k=100)) == 49
        copy_database(backup, path)
        if more:
            fill(two, 3, more)
        truth = _truth(path)
        for memory in (one, two):
            assert answers(memory) == truth
            assert memory.verify().ok
            assert {item.id for item in memory.get_all(user_id="a", k=100)}.isdisjoint(lost)
        assert one.get(kept[0]).id == kept[0]
        assert one.update(kept[0], "Sells stamps").event == "UPDATE"
        assert two.search("Sells stamps", user_id="a", k=1)[0].id == kept[0]


@pytest.mark.parametrize("backup", ["moved", "copied", "none"])
def test_add_is_refused_where_the_file_was_replaced(tmp_path: Path, backup: str) -> None:
    path, saved = tmp_path / "memory.db", tmp_path / "backup.db"
    with Memory(path, embeddings="hash:48") as memory:
        fill(memory, 1, 10)
        copy_database(path, saved)
        fill(memory, 2, 5)
        for name in ("memory.db", "memory.db-wal", "memory.db-shm"):
            (tmp_path / name).unlink()
        if backup != "none":
            shutil.move(saved, path) if backup == "moved" else shutil.copy(saved, path)
        for act in (
            lambda: memory.add("I like tea.", user_id="a", infer=False),
            lambda: memory.search("tea", user_id="a"),
            lambda: memory.get_all(user_id="a"),
        ):
            with pytest.raises(StorageError, match="removed or replaced"):
                act()
    with open_memory(path) as memory:
        assert len(memory.get_all(user_id="a", k=100)) == (0 if backup == "none" else 10)
        assert memory.verify().ok
