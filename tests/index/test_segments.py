"""The files of an index: FAISS can read them, and damage is never an answer."""

from __future__ import annotations

import os
import resource
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
import pytest
import xxhash

from langmem_adapter.index.base import Batch
from langmem_adapter.index.faiss import FaissIndex
from langmem_adapter.index.generations import Generations
from langmem_adapter.index.indexer import Indexer, open_index
from langmem_adapter.index.segment import Contents, SegmentError, block_rows
from langmem_adapter.storage.feed import Cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langmem_adapter.index.base import Vectors
    from tests.index.book import Book

D = 12
COUNT = 50
CURSOR = Cursor(4711, b"\x00\x01nonce\xff", "hash:12")
NOBODY = np.empty(0, np.int64)


@pytest.fixture
def index(make_vectors: Any, make_batch: Any) -> FaissIndex:
    made = FaissIndex(D)
    made.update(make_batch(range(5, 5 + COUNT), (i % 3 for i in range(COUNT)), make_vectors(COUNT, D)))
    return made


@pytest.fixture
def files(index: FaissIndex, tmp_path: Path) -> Generations:
    made = Generations(tmp_path / "memory.index")
    made.publish(index.contents, CURSOR)
    return made


def segment_of(files: Generations) -> Path:
    (found,) = files.manifest.parent.glob("*.faiss")
    return found


def opened(files: Generations) -> FaissIndex | None:
    generation = files.latest("hash:12")
    if generation is None:
        return None
    index = FaissIndex(D)
    index.hold(Contents.of(generation.segment))
    return index


def same(one: FaissIndex, other: FaissIndex) -> bool:
    """Whether two hold the same, bit by bit."""
    pks = one.pks()
    alike = np.array_equal(pks, other.pks()) and np.array_equal(one.scopes_of(pks), other.scopes_of(pks))
    return alike and one.vectors(pks).tobytes() == other.vectors(pks).tobytes()


class TestFormat:
    def test_is_what_faiss_itself_writes_and_reads(self, index: FaissIndex, files: Generations, tmp_path: Path) -> None:
        generation = files.latest("hash:12")
        assert generation is not None
        plain = faiss.IndexFlatIP(D)
        plain.add(index.vectors(generation.segment.catalogue.pks))
        faiss.write_index(plain, str(tmp_path / "theirs"))
        assert segment_of(files).read_bytes() == (tmp_path / "theirs").read_bytes()
        assert faiss.read_index(str(segment_of(files))).ntotal == COUNT

    @pytest.mark.parametrize("mapped", [True, False])
    def test_gives_back_every_bit(self, index: FaissIndex, files: Generations, mapped: bool) -> None:  # noqa: FBT001
        again = opened(Generations(files.manifest, mapped=mapped))
        assert again is not None and same(again, index)
        generation = files.latest("hash:12")
        assert generation is not None and generation.cursor == CURSOR

    def test_many_blocks_and_generations(self, tmp_path: Path, make_vectors: Any, make_batch: Any) -> None:
        files, count = Generations(tmp_path / "x.index"), 3 * block_rows(D) + 7
        index = FaissIndex(D)
        index.update(make_batch(range(count), cycle_of(count), make_vectors(count, D)))
        for change in range(3):
            files.publish(index.contents, CURSOR)
            again = opened(files)
            assert again is not None and same(again, index)
            index = again
            index.update(make_batch([change, count + change], [1, 9], make_vectors(2, D, change), [50 + change]))
        assert segment_of(files).name == "x.3.faiss"

    def test_only_its_owner_may_read_them(self, files: Generations) -> None:
        modes = {path.name: path.stat().st_mode & 0o777 for path in files.manifest.parent.iterdir()}
        assert set(modes.values()) == {0o600}, modes


def cycle_of(count: int) -> Iterator[int]:
    return (scope for scope, _ in zip(cycle(range(7)), range(count), strict=False))


def damages() -> Iterator[tuple[str, Callable[[bytes], bytes]]]:
    rng = np.random.default_rng(0)
    for share in (0.0, 0.02, 0.3, 0.7, 0.999):
        yield f"cut to {share}", partial(_cut, share=share)
    for number in range(120):
        place = float(rng.random())
        yield f"a bit flipped at {place:.4f}", partial(_flipped, place=place, bit=number % 8)
    for more in (1, 16, 4096):
        yield f"{more} bytes more", partial(_longer, more=more)
    yield "twice", lambda data: data + data
    yield "zeros", lambda data: bytes(len(data))
    yield "rows swapped", lambda data: data[:45] + data[93:141] + data[45:93] + data[141:]
    yield "another one's", lambda data: data[:45] + data[45:][::-1]


def _cut(data: bytes, share: float) -> bytes:
    return data[: int(share * len(data))]


def _longer(data: bytes, more: int) -> bytes:
    return data + bytes(more)


def _flipped(data: bytes, place: float, bit: int) -> bytes:
    at = int(place * len(data))
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def read_all(files: Generations, index: FaissIndex) -> bytes:
    again = opened(files)
    assert again is not None
    return again.vectors(index.pks()).tobytes()


class TestDamage:
    @pytest.mark.parametrize("which", ["manifest", "segment"])
    def test_is_refused_at_the_latest_when_it_is_touched(
        self, index: FaissIndex, files: Generations, which: str
    ) -> None:
        path = files.manifest if which == "manifest" else segment_of(files)
        honest = path.read_bytes()
        for _, damage in damages():
            path.write_bytes(damage(honest))
            with pytest.raises(SegmentError, match=r"of the vector index|memory\.index"):
                read_all(files, index)

    def test_damage_in_a_later_block_is_found_each_time(
        self, tmp_path: Path, make_vectors: Any, make_batch: Any
    ) -> None:
        files, count = Generations(tmp_path / "x.index"), 3 * block_rows(D)
        index = FaissIndex(D)
        index.update(make_batch(range(count), [1] * count, make_vectors(count, D)))
        files.publish(index.contents, CURSOR)
        with segment_of(files).open("r+b") as file:
            file.seek(-3, os.SEEK_END)
            file.write(b"x")
        for pks in (None, np.arange(count)):
            mapped = opened(files)
            assert mapped is not None
            for _ in range(2):
                with pytest.raises(SegmentError, match="checksum"):
                    mapped.search(np.ones(D, np.float32), 1, scopes=[1], pks=pks)
        with pytest.raises(SegmentError, match="checksum"):
            Generations(files.manifest, mapped=False).latest("hash:12")

    def test_blocks_are_compared_once_whoever_touches_them(
        self, files: Generations, index: FaissIndex, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        again, compared, plain = opened(files), list[int](), xxhash.xxh3_64_intdigest

        def digest(data: bytes) -> int:
            compared.append(len(data))
            return plain(data)

        monkeypatch.setattr(xxhash, "xxh3_64_intdigest", digest)
        assert again is not None
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _: again.vectors(index.pks()).tobytes(), range(8)):
                assert found == index.vectors(index.pks()).tobytes()
        assert 1 <= len(compared) <= 4
        again.vectors(index.pks())
        assert len(compared) <= 4

    def test_a_foreign_embedding_model_is_refused(self, files: Generations) -> None:
        with pytest.raises(SegmentError, match=r"memory\.index.*'hash:12'.*'openai:x'"):
            files.latest("openai:x")

    def test_links_pipes_and_folders_are_refused(self, files: Generations) -> None:
        segment, manifest = segment_of(files), files.manifest
        for path in (segment, manifest):
            kept = path.with_name("kept")
            path.rename(kept)
            for make in (lambda path, kept=kept: path.symlink_to(kept), os.mkfifo, lambda path: path.mkdir()):
                make(path)
                with pytest.raises(SegmentError):
                    files.latest("hash:12")
                path.rmdir() if path.is_dir() else path.unlink()
            kept.rename(path)
        assert files.latest("hash:12") is not None

    def test_without_its_segment_there_is_none_and_no_news(self, files: Generations) -> None:
        segment_of(files).unlink()
        assert files.latest("hash:12") is None
        assert not files.changed()

    def test_of_a_block_that_nobody_touches_hurts_nobody(
        self, tmp_path: Path, make_vectors: Any, make_batch: Any
    ) -> None:
        files, rows = Generations(tmp_path / "x.index"), block_rows(D)
        index = FaissIndex(D)
        index.update(make_batch(range(2 * rows), (n // rows for n in range(2 * rows)), make_vectors(2 * rows, D)))
        files.publish(index.contents, CURSOR)
        with segment_of(files).open("r+b") as file:
            file.seek(-3, os.SEEK_END)
            file.write(b"x")
        again = opened(files)
        assert again is not None
        query = index.vectors(np.array([3]))[0]
        assert again.search(query, 1, scopes=[0]).pks.tolist() == [3]
        with pytest.raises(SegmentError, match="checksum"):
            again.search(query, 1, scopes=[1])


class TestWriting:
    def test_a_full_disk_leaves_the_previous_generation_and_nothing_else(
        self, index: FaissIndex, files: Generations
    ) -> None:
        before, limits = sorted(files.manifest.parent.iterdir()), resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # Python ignores SIGXFSZ: a write fails with EFBIG
        try:
            with pytest.raises(OSError, match="too large"):
                files.publish(index.contents, CURSOR)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert sorted(files.manifest.parent.iterdir()) == before
        again = opened(files)
        assert again is not None and same(again, index)

    def test_a_disk_with_too_little_room_is_not_even_begun_with(
        self, index: FaissIndex, files: Generations, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
        with pytest.raises(OSError, match=r"needs .* bytes, 1,000 are free"):
            files.publish(index.contents, CURSOR)

    def test_a_link_in_its_place_is_replaced_and_not_followed(self, index: FaissIndex, tmp_path: Path) -> None:
        victim, files = tmp_path / "victim", Generations(tmp_path / "x.index")
        victim.write_text("mine")
        files.manifest.symlink_to(victim)
        files.publish(index.contents, CURSOR)
        assert victim.read_text() == "mine"
        assert not files.manifest.is_symlink()


# ── while it is open ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def warm(book: Book, make_vectors: Any) -> Iterator[Indexer]:
    """An indexer that has opened a segment of a hundred rows."""
    book.put(make_vectors(100, D))
    make = partial(open_index, "faiss")
    Indexer(book.database, make, fingerprint="hash:12", dimensions=D).close()
    indexer = Indexer(book.database, make, fingerprint="hash:12", dimensions=D)
    yield indexer
    indexer.close()


def answers(indexer: Indexer, vectors: Vectors) -> list[list[int]]:
    indexer.pull()
    assert indexer.index is not None
    return [indexer.index.search(vector, 3, scopes=[1]).pks.tolist() for vector in vectors]


class TestWhileItIsOpen:
    @pytest.mark.parametrize("what", ["deleted", "replaced", "overwritten", "cut off"])
    def test_the_answers_stay_the_same(self, warm: Indexer, tmp_path: Path, make_vectors: Any, what: str) -> None:
        (path,) = tmp_path.glob("*.faiss")
        asked = make_vectors(5, D, seed=3)
        honest = [np.argsort(-(make_vectors(100, D) @ one), kind="stable")[:3] + 1 for one in asked]
        if what == "deleted":
            path.unlink()
        elif what == "replaced":
            other = path.with_name("other")
            other.write_bytes(bytes(path.stat().st_size))
            other.replace(path)
        elif what == "overwritten":
            path.write_bytes(path.read_bytes()[:45] + bytes(path.stat().st_size - 45))
        else:
            os.truncate(path, 100)
        assert answers(warm, asked) == [found.tolist() for found in honest]
        assert warm.verify().ok

    def test_a_file_cut_off_while_it_is_open_is_noticed(self, warm: Indexer, tmp_path: Path, make_vectors: Any) -> None:
        (path,) = tmp_path.glob("*.faiss")
        os.truncate(path, 45)
        answers(warm, make_vectors(1, D))
        assert isinstance(warm.index, FaissIndex)
        assert warm.index.contents.segment.rows.whole

    def test_verify_mends_what_it_finds_damaged(self, warm: Indexer, tmp_path: Path) -> None:
        (path,) = tmp_path.glob("*.faiss")
        with path.open("r+b") as file:
            file.seek(200)
            file.write(b"damage")
        assert warm.verify().ok
        assert warm.failures == 1
        assert warm.write_segment()
        assert warm.verify().ok and warm.failures == 1


def test_who_began_before_an_update_finds_what_was(make_vectors: Any, make_batch: Any) -> None:
    index, pks, new = FaissIndex(D), np.arange(3), make_vectors(3, D, 2)
    index.update(make_batch(pks, [1, 1, 1], make_vectors(3, D)))
    before = index.contents
    expected = [found.tolist() for found in before.find(np.arange(5))]
    index.update(make_batch([0, 1, 4], [2, 1, 1], new, gone=[2]))
    index.update(make_batch([0], [1], new[1:2]))
    assert [found.tolist() for found in before.find(np.arange(5))] == expected == [[-1] * 5, [0, 1, 2, -1, -1]]


def test_a_search_sees_an_update_whole_or_not_at_all(make_vectors: Any) -> None:
    """A memory that moves to and fro is always found once, with one of its two vectors."""
    index, done, pks = FaissIndex(D), threading.Event(), np.arange(40)
    states = [make_vectors(40, D, seed) for seed in (1, 2)]
    index.adopt(Batch(pks.copy(), pks % 2, states[0].copy(), NOBODY))
    first = np.eye(1, D, dtype=np.float32)[0]

    def look() -> int:
        rounds = 0
        while not done.is_set() or not rounds:
            found = index.search(first, 100, scopes=[0, 1])
            assert sorted(found.pks.tolist()) == pks.tolist()
            got = dict(zip(found.pks.tolist(), found.scores.tolist(), strict=True))
            assert any(all(got[pk] == state[pk][0] for pk in got) for state in states), "half an update"
            rounds += 1
        return rounds

    with ThreadPoolExecutor(2) as pool:
        looking = [pool.submit(look) for _ in range(2)]
        try:
            for turn in range(1, 600):
                index.update(Batch(pks.copy(), pks % 2, states[turn % 2].copy(), NOBODY))
                if turn % 100 == 0:
                    index.hold(Contents.of(index.contents.in_memory()))
        finally:
            done.set()
        assert all(task.result(30) for task in looking)
