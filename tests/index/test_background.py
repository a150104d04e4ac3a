"""What happens behind a search's back: snapshots and order, while everybody goes on writing."""

from __future__ import annotations

import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest

from langmem_adapter.index.faiss import FaissIndex
from langmem_adapter.index.generations import Generations
from langmem_adapter.index.indexer import Indexer
from langmem_adapter.storage.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langmem_adapter.index.base import Batch, Vectors
    from langmem_adapter.index.segment import Contents
    from langmem_adapter.storage.feed import Cursor
    from tests.index.book import Book

Follow: TypeAlias = "Callable[..., Indexer]"
D = 16
PRINT = f"hash:{D}"


class Watched(Generations):
    """Files that let a test do something while one of them is written."""

    writing: Callable[[], None]

    def publish(self, contents: Contents, cursor: Cursor) -> None:
        self.writing()
        super().publish(contents, cursor)


class Breaking(FaissIndex):
    """An index whose update a test lets fail."""

    def __init__(self, dimensions: int, failing: Callable[[], None]) -> None:
        super().__init__(dimensions)
        self._failing = failing

    def update(self, batch: Batch) -> None:
        self._failing()
        super().update(batch)


def nothing() -> None:
    """Do nothing."""


@pytest.fixture
def vectors(make_vectors: Any) -> Vectors:
    made: Vectors = make_vectors(200, D)
    return made


@pytest.fixture
def follow(path: Path) -> Iterator[Follow]:
    databases = []

    def open_one(
        writing: Callable[[], None] = nothing,
        failing: Callable[[], None] = nothing,
        place: Path | None = None,
        **options: Any,
    ) -> Indexer:
        databases.append(Database(path))
        files = Watched.for_database(path, PRINT) if place is None else Watched(place)
        assert isinstance(files, Watched)
        files.writing = writing
        factory = partial(Breaking, failing=failing)
        return Indexer(databases[-1], factory, fingerprint=PRINT, dimensions=D, files=files, **options)

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


def written(path: Path) -> tuple[int, list[int]]:
    """Up to which change the files beside a database go, and whose vectors they hold."""
    generation = Generations.for_database(path, PRINT).latest(PRINT)
    assert generation is not None
    return generation.cursor.applied, sorted(generation.segment.catalogue.pks.tolist())


class TestPulling:
    def test_only_one_thread_moves_it_on(self, book: Book, follow: Follow, vectors: Vectors) -> None:
        begun, go_on = threading.Event(), threading.Event()
        waiting: list[Callable[[], object]] = []
        indexer = follow(failing=lambda: _do_all(waiting.copy()))
        book.put(vectors[:5])
        indexer.pull()
        book.put(vectors[5:8])
        waiting += [lambda: go_on.wait(30), begun.set]
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(indexer.pull)
            assert begun.wait(30)
            second = pool.submit(indexer.pull)
            with pytest.raises(FutureTimeoutError):
                second.result(0.2)
            go_on.set()
            assert (first.result(30), second.result(30)) == (3, 0)

    def test_what_is_committed_while_it_pulls_comes_with_the_next(
        self, book: Book, follow: Follow, vectors: Vectors
    ) -> None:
        waiting: list[Callable[[], object]] = []
        indexer = follow(failing=lambda: _do_all(waiting))
        book.put(vectors[:5])
        indexer.pull()
        book.put(vectors[5:8])
        waiting.append(lambda: book.put(vectors[8:10]))
        assert [indexer.pull() for _ in range(3)] == [3, 2, 0]


class TestMergingBesideChanges:
    def test_changes_while_it_is_written_are_in_the_reopened_index(
        self, book: Book, path: Path, follow: Follow, vectors: Vectors
    ) -> None:
        pks = book.put(vectors[:50], scope=1) + book.put(vectors[50:100], scope=2)
        waiting: list[Callable[[], object]] = []
        indexer = follow(writing=lambda: _do_all(waiting))

        def meanwhile() -> None:
            book.put(vectors[100:140], scope=1)
            book.change(pks[3], vectors[150])
            book.remove(pks[0], pks[99])
            assert indexer.pull() == 43

        waiting.append(meanwhile)
        assert indexer.write_segment()
        assert written(path) == (100, pks)
        again = follow()
        assert again.applied == indexer.applied == 143
        assert again.verify().ok and indexer.verify().ok

    def test_only_one_process_writes_at_a_time(self, book: Book, path: Path, follow: Follow, vectors: Vectors) -> None:
        book.put(vectors[:20])
        indexer = follow()
        with Generations.for_database(path, PRINT).merging() as alone:
            assert alone and not indexer.write_segment()
        assert indexer.write_segment() and indexer.failures == 0

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_child_forked_during_a_merge_keeps_nobody_from_the_next(
        self, book: Book, follow: Follow, vectors: Vectors
    ) -> None:
        children: list[int] = []

        def fork() -> None:
            children.append(os.fork())
            if not children[-1]:  # pragma: no cover - lives until it is ended
                while True:
                    time.sleep(1)

        book.put(vectors[:20])
        indexer = follow(writing=once(fork))
        try:
            assert indexer.write_segment()
            book.put(vectors[20:30])
            assert indexer.write_segment() and indexer.failures == 0
        finally:
            os.kill(children[0], 9)
            os.waitpid(children[0], 0)

    def test_who_has_it_open_takes_up_what_another_wrote(
        self, book: Book, path: Path, follow: Follow, vectors: Vectors
    ) -> None:
        pks = book.put(vectors[:20])
        one, other = follow(), follow()
        assert one.write_segment()
        book.remove(pks[0])
        pks += book.put(vectors[20:25])
        assert one.write_segment()
        book.put(vectors[30:31])
        other.pull()
        assert isinstance(other.index, FaissIndex)
        assert len(other.index.contents.segment) == 24
        assert other.verify().ok
        assert len(list(path.parent.glob("*.faiss"))) == 1

    def test_what_others_deleted_is_not_written_down_at_closing(
        self, book: Book, path: Path, follow: Follow, vectors: Vectors
    ) -> None:
        pks = book.put(vectors[:20])
        indexer = follow()
        book.remove(pks[7])
        indexer.close()
        assert written(path)[1] == pks[:7] + pks[8:]
        (segment,) = path.parent.glob("*.faiss")
        assert vectors[7].tobytes() not in segment.read_bytes()


class TestInTheBackground:
    def test_the_search_that_makes_one_due_does_not_wait_for_it(
        self, book: Book, path: Path, follow: Follow, vectors: Vectors
    ) -> None:
        go_on, begun = threading.Event(), threading.Event()

        def wait() -> None:
            begun.set()
            assert go_on.wait(100)

        indexer = follow(writing=wait, merge_after=10)
        book.put(vectors[:10])
        assert indexer.pull() == 10
        assert begun.wait(100)
        book.put(vectors[10:15])
        assert indexer.pull() == 5, "pulls go on while it is written"
        assert not Generations.for_database(path, PRINT).manifest.exists()
        go_on.set()
        indexer.settle()
        assert Generations.for_database(path, PRINT).manifest.exists()
        assert follow().verify().ok

    def test_a_failure_is_logged_and_counted_and_tried_again_after_as_many_changes(
        self, book: Book, tmp_path: Path, follow: Follow, vectors: Vectors, caplog: pytest.LogCaptureFixture
    ) -> None:
        place = tmp_path / "missing" / "x.index"
        indexer = follow(place=place, merge_after=10)
        failures = [indexer.failures]
        with caplog.at_level(logging.WARNING, "langmem_adapter"):
            for start in range(0, 40, 5):
                book.put(vectors[start : start + 5])
                indexer.pull()
                indexer.settle()
                failures.append(indexer.failures)
        assert np.diff(failures).tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
        assert "were not written" in caplog.text
        place.parent.mkdir()
        indexer.close()
        assert place.exists()

    def test_closing_waits_for_it_and_leaves_everything_written(
        self, book: Book, path: Path, follow: Follow, vectors: Vectors
    ) -> None:
        indexer = follow(writing=once(lambda: time.sleep(0.3)), merge_after=10)
        book.put(vectors[:10])
        indexer.pull()
        book.put(vectors[10:15])
        indexer.pull()
        indexer.close()
        assert written(path)[0] == 15
        assert [thread for thread in threading.enumerate() if "langmem" in thread.name] == []


class TestInterruption:
    def test_an_update_that_was_interrupted_half_way_makes_it_read_everything_anew(
        self, book: Book, follow: Follow, vectors: Vectors, caplog: pytest.LogCaptureFixture
    ) -> None:
        pks = book.put(vectors[:20])
        troubles: list[type[BaseException]] = []

        def fail() -> None:
            if troubles:
                raise troubles.pop()

        indexer = follow(failing=fail)
        for trouble in (KeyboardInterrupt, MemoryError):
            pks += book.put(vectors[20:30])
            troubles.append(trouble)
            with pytest.raises(trouble):
                indexer.pull()
            assert indexer.write_segment(), "all was read anew before it was written"
            assert indexer.index is not None
            assert indexer.index.pks().tolist() == pks
            assert indexer.verify().ok
        assert "rebuilding it" in caplog.text
