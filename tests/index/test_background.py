"""What happens behind a search's back: snapshots and order, while everybody goes on writing."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from langmem_adapter.index.background import Background
from langmem_adapter.index.faiss import FaissIndex
from langmem_adapter.index.indexer import Indexer
from langmem_adapter.index.snapshot import load, snapshot_path
from langmem_adapter.storage.database import Database
from tests.index.book import Book

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langmem_adapter.index.base import Batch, Pks, Vectors

D = 16
PRINT = f"hash:{D}"


class Watched(FaissIndex):
    """An index that lets a test do something while its rows are written down, or its update fail."""

    def __init__(self, dimensions: int, reading: Callable[[], None], failing: Callable[[], None]) -> None:
        super().__init__(dimensions)
        self._watcher, self._breaker = reading, failing

    def vectors(self, pks: Pks) -> Vectors:
        self._watcher()
        return super().vectors(pks)

    def update(self, batch: Batch) -> None:
        self._breaker()
        super().update(batch)


def nothing() -> None:
    """Do nothing."""


@pytest.fixture
def vectors(make_vectors: Any) -> Vectors:
    made: Vectors = make_vectors(200, D)
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def book(path: Path) -> Iterator[Book]:
    database = Database(path)
    yield Book(database)
    database.close()


@pytest.fixture
def follow(path: Path) -> Iterator[Callable[..., Indexer]]:
    databases = []

    def open_one(
        reading: Callable[[], None] = nothing, failing: Callable[[], None] = nothing, **options: Any
    ) -> Indexer:
        databases.append(Database(path))
        factory = partial(Watched, reading=reading, failing=failing)
        return Indexer(databases[-1], factory, fingerprint=PRINT, dimensions=D, **options)

    yield open_one
    for database in databases:
        database.close()


def _do_all(waiting: list[Callable[[], object]]) -> None:
    while waiting:
        waiting.pop()()


def once(work: Callable[[], object]) -> Callable[[], None]:
    """Do *work* at the first call, and nothing at the calls that it causes and at later ones."""
    left = [work]

    def call() -> None:
        if left:
            left.pop()()

    return call


class TestSnapshotsBesideChanges:
    def test_changes_while_it_is_written_are_in_the_reopened_index(
        self, book: Book, path: Path, follow: Callable[..., Indexer], vectors: Vectors
    ) -> None:
        pks = book.put(vectors[:50], scope=1) + book.put(vectors[50:100], scope=2)
        waiting: list[Callable[[], object]] = []
        indexer = follow(reading=lambda: _do_all(waiting))

        def meanwhile() -> None:
            book.put(vectors[100:140], scope=1)
            book.change(pks[3], vectors[150])
            book.remove(pks[0], pks[99])
            assert indexer.pull() == 43

        waiting.append(meanwhile)
        assert indexer.snapshot()
        snapshot = load(snapshot_path(path, PRINT), PRINT)
        assert snapshot is not None
        assert (snapshot.label.applied, snapshot.newest.applied) == (100, 143)
        assert sorted(snapshot.pks.tolist()) == pks[1:99], "what went meanwhile is left out"
        again = follow()
        assert again.applied == 143
        assert again.verify().ok

    def test_one_with_changes_that_a_restored_backup_does_not_know_is_not_used(
        self, book: Book, path: Path, follow: Callable[..., Indexer], vectors: Vectors
    ) -> None:
        """The backup knows the change that the snapshot begins with, but not what was changed while it was written."""
        pks = book.put(vectors[:20])
        backup = path.with_name("backup.db")
        _copy(path, backup)
        waiting: list[Callable[[], object]] = []
        indexer = follow(reading=lambda: _do_all(waiting))

        def meanwhile() -> None:
            book.change(pks[5], vectors[100])
            assert indexer.pull() == 1

        waiting.append(meanwhile)
        assert indexer.snapshot()
        book.database.close()
        _copy(backup, path)
        other = Book(Database(path))
        other.put(vectors[120:130])
        again = follow()
        assert again.verify().ok
        assert again.index is not None
        assert again.index.vectors(np.array([pks[5]])).tobytes() == vectors[5].tobytes()
        other.database.close()

    def test_it_is_given_up_if_everything_was_read_anew_meanwhile(
        self, book: Book, path: Path, follow: Callable[..., Indexer], vectors: Vectors
    ) -> None:
        book.put(vectors[:20])
        waiting: list[Callable[[], object]] = []
        indexer = follow(reading=lambda: _do_all(waiting))
        waiting.append(indexer.rebuild)
        assert indexer.snapshot() is False
        assert list(path.parent.glob("*.index*")) == []
        assert indexer.snapshot_failures == 0
        assert indexer.snapshot()

    def test_what_others_deleted_is_not_written_down_at_closing(
        self, book: Book, path: Path, follow: Callable[..., Indexer], vectors: Vectors
    ) -> None:
        pks = book.put(vectors[:20])
        indexer = follow()
        book.remove(pks[7])
        indexer.close()
        assert vectors[7].tobytes() not in snapshot_path(path, PRINT).read_bytes()


class TestInTheBackground:
    def test_the_search_that_makes_one_due_does_not_wait_for_it(
        self, book: Book, path: Path, follow: Callable[..., Indexer], vectors: Vectors
    ) -> None:
        go_on, begun = threading.Event(), threading.Event()

        def wait() -> None:
            begun.set()
            assert go_on.wait(100)

        indexer = follow(reading=wait, snapshot_every=10)
        book.put(vectors[:10])
        assert indexer.pull() == 10
        assert begun.wait(100)
        book.put(vectors[10:15])
        assert indexer.pull() == 5, "pulls go on while it is written"
        assert not snapshot_path(path, PRINT).exists()
        go_on.set()
        indexer.settle()
        assert snapshot_path(path, PRINT).exists()
        assert follow().verify().ok

    def test_closing_waits_for_it_and_leaves_everything_written(
        self, book: Book, path: Path, follow: Callable[..., Indexer], vectors: Vectors
    ) -> None:
        indexer = follow(reading=once(lambda: time.sleep(0.3)), snapshot_every=10)
        book.put(vectors[:10])
        indexer.pull()
        book.put(vectors[10:15])
        indexer.pull()
        indexer.close()
        snapshot = load(snapshot_path(path, PRINT), PRINT)
        assert snapshot is not None
        assert snapshot.label.applied == 15
        assert [thread for thread in threading.enumerate() if "langmem" in thread.name] == []

    def test_a_failure_is_logged_and_counted_and_tried_again_after_as_many_changes(
        self,
        book: Book,
        tmp_path: Path,
        follow: Callable[..., Indexer],
        vectors: Vectors,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        place = tmp_path / "missing" / "x.index"
        indexer = follow(path=place, snapshot_every=10)
        failures = [indexer.snapshot_failures]
        with caplog.at_level(logging.WARNING, "langmem_adapter"):
            for start in range(0, 40, 5):
                book.put(vectors[start : start + 5])
                indexer.pull()
                indexer.settle()
                failures.append(indexer.snapshot_failures)
        assert np.diff(failures).tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
        assert "was not written" in caplog.text
        place.parent.mkdir()
        indexer.close()
        assert place.exists()

    def test_rows_out_of_order_are_put_in_order(
        self, book: Book, follow: Callable[..., Indexer], make_vectors: Any
    ) -> None:
        indexer = follow()
        many = make_vectors(9_000, D)
        for start in range(0, 9_000, 3_000):
            book.put(many[start : start + 3_000], scope=start % 2 + 1)
            indexer.pull()
        indexer.settle()
        assert isinstance(indexer.index, FaissIndex)
        assert not indexer.index.fragmented
        assert indexer.verify().ok
        indexer.close()


class TestInterruption:
    def test_an_update_that_was_interrupted_half_way_makes_it_read_everything_anew(
        self, book: Book, follow: Callable[..., Indexer], vectors: Vectors, caplog: pytest.LogCaptureFixture
    ) -> None:
        pks = book.put(vectors[:20])
        troubles: list[type[BaseException]] = []

        def fail() -> None:
            if troubles:
                raise troubles.pop()

        indexer = follow(failing=fail)
        for trouble in (KeyboardInterrupt, MemoryError):
            pks += book.put(vectors[20:30])
            before = indexer.index
            troubles.append(trouble)
            with pytest.raises(trouble):
                indexer.pull()
            assert indexer.snapshot() or indexer.index is not before, "no snapshot of half an update"
            indexer.pull()
            assert indexer.index is not before
            assert indexer.index is not None
            assert indexer.index.pks().tolist() == pks
            assert indexer.verify().ok
        assert "reading it anew" in caplog.text

    def test_the_progress_of_a_rebuild_nobody_asked_for_is_told(
        self, book: Book, follow: Callable[..., Indexer], make_vectors: Any
    ) -> None:
        book.put(make_vectors(10_050, D))
        told: list[tuple[int, int]] = []
        indexer = follow(progress=lambda done, total: told.append((done, total)))
        assert told[-1] == (10_050, 10_050)
        assert len(told) >= 2
        indexer.close()
        told.clear()
        follow(progress=lambda done, total: told.append((done, total)))
        assert told == [], "a snapshot needs none"


class TestBackground:
    def test_runs_one_piece_of_work_at_a_time_and_none_after_closing(self) -> None:
        background, go_on = Background("test"), threading.Event()

        def work() -> None:
            go_on.wait(100)

        assert background.start(work)
        assert not background.start(nothing)
        go_on.set()
        background.wait()
        assert background.start(nothing)
        background.close()
        assert not background.start(nothing)
        background.close()

    def test_work_learns_of_closing_while_it_pauses(self) -> None:
        background, seen = Background("test"), []
        assert background.start(lambda: seen.append(background.pause(1_000)))  # longer than a test may last
        background.close()
        assert seen == [True]


def _copy(source: Path, target: Path) -> None:
    import sqlite3

    with sqlite3.connect(source) as old, sqlite3.connect(target) as new:
        old.backup(new)
    old.close()
    new.close()
