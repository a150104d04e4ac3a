"""Whatever lies where the snapshot should be: a search gives what the database says, or the snapshot was right."""

from __future__ import annotations

import random
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import faiss
import numpy as np
import pytest

from langmem_adapter.errors import StorageError
from langmem_adapter.index.generations import Generations
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from tests.faults.campaign import copy_database
from tests.faults.mutants import mutate
from tests.faults.processes import call
from tests.faults.worker import snapshot_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.faults.conftest import Bound

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


def _with(files: Files, end: str, data: bytes) -> Files:
    return {name: data if name.endswith(end) else whole for name, whole in files.items()}


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


def _cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data))]


def _flip(data: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << dice.randrange(8)]) + data[place + 1 :]


def _flip_many(data: bytes, dice: random.Random) -> bytes:
    for _ in range(dice.randrange(2, 40)):
        data = _flip(data, dice)
    return data


def _extend(data: bytes, dice: random.Random) -> bytes:
    return data + dice.randbytes(dice.randrange(1, 5000))


def _swap_blocks(data: bytes, dice: random.Random) -> bytes:
    size = dice.randrange(16, 512)
    one, other = sorted(dice.sample(range(0, len(data) - size, size), 2))
    return (
        data[:one]
        + data[other : other + size]
        + data[one + size : other]
        + data[one : one + size]
        + data[other + size :]
    )


def _zero_page(data: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(data) // 512) * 512
    return data[:place] + bytes(len(data[place : place + 512])) + data[place + 512 :]


def _repeat_part(data: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(data) - 64)
    return data[:place] + data[place : place + 64] + data[place:]


def _noise(data: bytes, dice: random.Random) -> bytes:
    return dice.randbytes(len(data))


def _foreign_index(data: bytes, dice: random.Random) -> bytes:
    index = faiss.IndexFlatIP(48)
    index.add(np.random.default_rng(dice.randrange(1000)).standard_normal((COUNT, 48)).astype(np.float32))
    return faiss.serialize_index(index).tobytes()


DAMAGES = [_cut, _flip, _flip_many, _extend, _swap_blocks, _zero_page, _repeat_part, _noise, _foreign_index]


def damaged(world: World, count: int) -> Iterator[tuple[str, Files]]:
    dice = random.Random(4711)
    made = 0
    while made < count:
        damage, end = DAMAGES[made % len(DAMAGES)], (".index", ".faiss")[made // len(DAMAGES) % 2]
        (good,) = (data for name, data in world.good.items() if name.endswith(end))
        data = damage(good, dice)
        if data != good:
            made += 1
            yield f"{damage.__name__} {made} of {end}", _with(world.good, end, data)


@pytest.mark.timeout(600)
def test_search_is_right_with_a_damaged_index_file(world: World, bound: Bound, measured: Callable[[str], None]) -> None:
    count = bound(63, long=300)
    for name, files in damaged(world, count):
        put(world.path, files)
        with open_memory(world.path) as memory:
            assert answers(memory) == world.truth, name
            assert memory.verify().ok, name
            assert snapshot_failures(memory) == 1, f"{name}: nobody noticed"
        assert files_of(world.path) != files, f"{name}: good ones are written at the end"
    measured(f"files of the index: {count} damaged ones, {count} rebuilt, 0 wrong answers")


@pytest.mark.parametrize("kind", ["older", "good"])
def test_search_uses_a_whole_snapshot(world: World, kind: str) -> None:
    put(world.path, getattr(world, kind))
    with open_memory(world.path) as memory:
        assert answers(memory) == world.truth
        assert memory.verify().ok
        assert snapshot_failures(memory) == 0


def test_search_ignores_the_snapshot_of_another_database(world: World) -> None:
    put(world.path, world.other)
    with open_memory(world.path) as memory:
        assert answers(memory) == world.truth
        assert memory.verify().ok


@pytest.mark.parametrize("kind", ["folder", "link", "missing", "empty", "unreadable"])
def test_search_ignores_other_things_in_place_of_a_snapshot(world: World, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "memory.db"
    copy_database(world.path, path)
    place = Generations.for_database(path, "hash:48/2").manifest
    (honest,) = (data for name, data in world.other.items() if name.endswith(".index"))
    (tmp_path / "elsewhere").write_bytes(honest)
    match kind:
        case "folder":
            place.mkdir()
        case "link":
            place.symlink_to(tmp_path / "elsewhere")
        case "empty":
            place.touch()
        case "unreadable":
            place.write_bytes(honest)
            place.chmod(0)
    with open_memory(path) as memory:
        assert answers(memory) == world.truth
        assert memory.verify().ok
    assert (tmp_path / "elsewhere").read_bytes() == honest


# ── an older backup is put back ─────────────────────────────────────────────────────────────────────────────────────


def put_back(folder: Path, lost: int, written: int, mutant: str | None = None) -> tuple[bool, bool]:
    """Lose some memories to a restored backup, write others, reopen with the newer snapshot.

    Args:
        folder: An empty folder.
        lost: Memories added after the backup was made.
        written: Memories added after it was put back, by a program that leaves the snapshot alone.
        mutant: A promise to break.

    Returns:
        Whether index and database agree, and whether searches give what the database says.
    """
    mutate(mutant)
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


@pytest.mark.parametrize("written", [0, 20, 40])
def test_verify_catches_an_engine_without_the_lineage_check(tmp_path: Path, written: int) -> None:
    assert call(put_back, tmp_path, 20, written, "no lineage check") != (True, True)


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


def test_search_after_the_database_was_replaced_by_a_newer_one(world: World, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with open_memory(path) as memory:
        fill(memory, 5, 10)
    kept = files_of(path)
    for left in tmp_path.iterdir():
        left.unlink()
    copy_database(world.path, path)
    put(path, kept)
    with open_memory(path) as memory:
        assert answers(memory) == world.truth
        assert memory.verify().ok
