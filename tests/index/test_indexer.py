"""The indexer on real databases: it follows every commit, whoever made it, and trusts no file more than the database."""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
from sqlalchemy import Engine, delete, event, update

from langmem_adapter.errors import EmbeddingMismatchError, StorageError
from langmem_adapter.index.faiss import FaissIndex
from langmem_adapter.index.generations import Generations, erase_index_files
from langmem_adapter.index.indexer import Indexer, open_index
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.erasure import remove
from langmem_adapter.storage.tables import changes, memories
from tests.index.book import Book, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from langmem_adapter.index.base import Vectors
    from langmem_adapter.index.segment import ExactIndex

Follow: TypeAlias = "Callable[..., Indexer]"
D = 16
PRINT = f"hash:{D}"


@pytest.fixture
def vectors(make_vectors: Any) -> Vectors:
    made: Vectors = make_vectors(60, D)
    return made


@pytest.fixture
def follow(path: Path) -> Iterator[Follow]:
    """Opens an indexer on a database of its own, as another process would."""
    databases = []

    def open_one(**options: Any) -> Indexer:
        databases.append(Database(options.pop("database", path)))
        given = {"fingerprint": PRINT, "dimensions": D, **options}
        return Indexer(databases[-1], partial(open_index, given.pop("kind", "faiss")), **given)

    yield open_one
    for database in databases:
        database.close()


def manifest_of(path: Path) -> Path:
    return Generations.for_database(path, PRINT).manifest


def held(indexer: Indexer) -> ExactIndex:
    assert indexer.index is not None
    return indexer.index


class TestPull:
    def test_follows_inserts_updates_and_deletes(self, book: Book, follow: Follow, vectors: Vectors) -> None:
        indexer = follow()
        first = book.put(vectors[:10], scope=1)
        second = book.put(vectors[10:20], scope=2)
        assert indexer.pull() > 0
        assert held(indexer).pks().tolist() == first + second
        assert held(indexer).search(vectors[15], 1, scopes=[2]).pks.tolist() == [second[5]]
        book.change(first[0], vectors[50])
        book.remove(first[1], second[0])
        assert indexer.pull() == 3
        assert held(indexer).search(vectors[50], 1, scopes=[1]).pks.tolist() == [first[0]]
        assert held(indexer).pks().tolist() == [pk for pk in first + second if pk not in {first[1], second[0]}]
        assert indexer.applied == 23
        assert indexer.verify().ok

    def test_opens_no_transaction_when_nothing_was_committed(self, book: Book, follow: Follow) -> None:
        indexer = follow()
        book.put(np.eye(1, D, dtype=np.float32))
        begun: list[Connection] = []

        def note(connection: Connection) -> None:
            begun.append(connection)

        event.listen(Engine, "begin", note)
        try:
            assert [indexer.pull() for _ in range(4)] == [1, 0, 0, 0]
        finally:
            event.remove(Engine, "begin", note)
        assert len(begun) == 1

    def test_more_changes_than_one_batch_holds(self, book: Book, follow: Follow, make_vectors: Any) -> None:
        indexer = follow()
        book.put(make_vectors(1, D))
        indexer.pull()
        book.put(make_vectors(10_500, D))
        assert indexer.pull() == 10_500
        assert indexer.verify().ok

    def test_two_indexers_see_each_others_commits(self, book: Book, follow: Follow, vectors: Vectors) -> None:
        one, other = follow(), follow(kind="exact")
        for place in range(10):
            pks = book.put(vectors[place : place + 1])
            for indexer in (one, other):
                indexer.pull()
                assert held(indexer).search(vectors[place], 1, scopes=[1]).pks.tolist() == pks

    def test_two_threads_pull_once_each_and_agree(self, book: Book, follow: Follow, vectors: Vectors) -> None:
        indexer, together = follow(), threading.Barrier(4)

        def work(number: int) -> None:
            for place in range(number, 60, 4):
                together.wait(10)
                (pk,) = book.put(vectors[place : place + 1], scope=number + 1)
                indexer.pull()
                assert held(indexer).search(vectors[place], 1, scopes=[number + 1]).pks.tolist() == [pk]

        with ThreadPoolExecutor(4) as pool:
            for future in [pool.submit(work, number) for number in range(4)]:
                future.result()
        assert len(held(indexer)) == 60
        assert indexer.verify().ok

    def test_works_in_memory_without_any_file(self, vectors: Vectors) -> None:
        book = Book(Database(":memory:"))
        indexer = Indexer(book.database, partial(open_index, "exact"), fingerprint=PRINT)
        pks = book.put(vectors[:3])
        indexer.pull()
        assert held(indexer).pks().tolist() == pks
        assert indexer.write_segment() is False
        indexer.close()
        book.database.close()


class TestDimensions:
    def test_are_taken_from_the_first_memory(self, book: Book, follow: Follow, vectors: Vectors) -> None:
        indexer = follow(dimensions=None)
        assert indexer.index is None
        book.put(vectors[:2])
        indexer.pull()
        assert held(indexer).dimensions == D
        assert len(held(indexer)) == 2

    def test_another_length_is_an_error_that_names_the_fix(
        self, book: Book, follow: Follow, make_vectors: Any, vectors: Vectors
    ) -> None:
        indexer = follow()
        kept = book.put(vectors[:1])
        indexer.pull()
        (wrong,) = book.put(make_vectors(1, 5))
        for _ in range(2):
            with pytest.raises(EmbeddingMismatchError, match=rf"row {wrong} .* 5 dimensions.*{D}.*reindex"):
                indexer.pull()
        assert held(indexer).pks().tolist() == kept
        with pytest.raises(EmbeddingMismatchError):
            follow()


class TestSnapshots:
    def test_a_snapshot_is_loaded_and_the_rest_replayed(
        self, book: Book, follow: Follow, vectors: Vectors, caplog: pytest.LogCaptureFixture
    ) -> None:
        pks = book.put(vectors[:20])
        first = follow()
        assert first.write_segment()
        book.remove(pks[0])
        book.change(pks[1], vectors[40])
        pks += book.put(vectors[20:22], scope=2)
        # Tampering shows that the snapshot was used: what no change names is not read again.
        book.database.write(lambda c: c.execute(delete(memories).where(memories.c.pk == pks[5])))
        second = follow()
        assert held(second).pks().tolist() == pks[1:]
        assert held(second).search(vectors[40], 1, scopes=[1]).pks.tolist() == [pks[1]]
        assert second.verify().only_in_index == (pks[5],)
        assert caplog.records == []

    def test_closing_writes_one_if_anything_changed(
        self, book: Book, path: Path, follow: Follow, vectors: Vectors
    ) -> None:
        place = manifest_of(path)
        follow().close()
        assert not place.exists()
        book.put(vectors[:3])
        indexer = follow()
        indexer.close()
        first = place.stat().st_ino
        indexer.close()
        follow().close()
        assert place.stat().st_ino == first

    def test_a_closed_index_lets_go_of_its_file(self, book: Book, follow: Follow, vectors: Vectors) -> None:
        book.put(vectors[:30])
        indexer = follow()
        assert indexer.write_segment()
        index = held(indexer)
        assert isinstance(index, FaissIndex)
        reading = index.contents
        file = weakref.ref(reading.segment.rows)
        indexer.close()
        assert np.array_equal(reading.segment.rows.vectors, vectors[:30])
        for read in (lambda: index.search(vectors[0], 1, scopes=[1]), lambda: index.vectors(index.pks())):
            with pytest.raises(StorageError, match="is closed"):
                read()
        del reading
        assert file() is None
        indexer.close()

    @pytest.mark.parametrize("damage", [lambda d: d[:-9], lambda d: d[:200] + b"!" + d[201:], lambda d: d + b"x"])
    def test_a_damaged_one_is_read_anew_from_the_database(
        self,
        book: Book,
        path: Path,
        follow: Follow,
        vectors: Vectors,
        caplog: pytest.LogCaptureFixture,
        damage: Callable[[bytes], bytes],
    ) -> None:
        book.put(vectors[:20])
        follow().close()
        place = manifest_of(path)
        place.write_bytes(damage(place.read_bytes()))
        with caplog.at_level(logging.WARNING, "langmem_adapter"):
            indexer = follow()
        assert indexer.verify().ok
        assert len(held(indexer)) == 20
        assert indexer.failures == 1
        assert f"the database is read instead: {place} " in caplog.text
        assert caplog.text.count(str(place)) == 1

    def test_one_of_another_database_is_not_used(
        self, book: Book, path: Path, follow: Follow, vectors: Vectors
    ) -> None:
        other = Book(Database(path.with_name("other.db")))
        other.put(vectors[30:50])
        follow(database=path.with_name("other.db")).close()
        book.put(vectors[:20])
        for file in path.parent.glob("other.db.*.[if]*"):
            shutil.copy(file, file.with_name(file.name.replace("other", "memory")))
        indexer = follow()
        assert indexer.verify().ok
        assert indexer.failures == 0
        other.database.close()

    def test_none_stays_that_nobody_can_tell_to_be_clean(self, path: Path, book: Book, vectors: Vectors) -> None:
        class Closing(Generations):
            def publish(self, *given: Any) -> None:
                super().publish(*given)
                database.close()  # who wrote it cannot look any more

        database = Database(path)
        book.put(vectors)
        files = Closing.for_database(path, PRINT)
        indexer = Indexer(database, FaissIndex, fingerprint=PRINT, dimensions=D, files=files)
        assert not indexer.write_segment() and indexer.failures == 1
        assert not list(path.parent.glob("*.faiss")) and not files.manifest.exists()

    def test_none_stays_that_was_begun_before_an_erasure(self, path: Path, book: Book, vectors: Vectors) -> None:
        class Overtaken(Generations):
            def publish(self, *given: Any) -> None:
                remove(book.database, Scope(user_id="1"))
                erase_index_files(path, patience=0)
                super().publish(*given)

        book.put(vectors, scope=1)
        files = Overtaken.for_database(path, PRINT)
        indexer = Indexer(book.database, FaissIndex, fingerprint=PRINT, dimensions=D, files=files)
        assert not indexer.write_segment() and indexer.failures == 0
        assert not list(path.parent.glob("*.faiss")) and not files.manifest.exists()

    def test_leftovers_of_killed_processes_go_with_the_next_generation(
        self, path: Path, book: Book, follow: Follow, vectors: Vectors
    ) -> None:
        manifest = manifest_of(path)
        draft, segment = manifest.with_name(f".{manifest.name}.x7.tmp"), manifest.with_suffix(".7.faiss")
        stranger = manifest.with_name("mine.7.faiss")
        for file in (draft, segment, stranger):
            file.write_bytes(b"half of one")
        book.put(vectors)
        follow().close()
        left = sorted(file.name for file in path.parent.glob("*faiss"))
        assert left == sorted([stranger.name, manifest.with_suffix(".8.faiss").name])
        assert not draft.exists()

    @pytest.mark.parametrize("written", [1, 2, 3], ids=["the segment", "a draft of the manifest", "both"])
    def test_who_merges_beside_who_erases_keeps_silent_and_loses_nothing(
        self,
        book: Book,
        follow: Follow,
        vectors: Vectors,
        path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        written: int,
    ) -> None:
        book.put(vectors)
        indexer, steps, sync = follow(), itertools.count(1), os.fsync

        def erase_meanwhile(descriptor: int) -> None:
            sync(descriptor)
            if next(steps) == written:
                erase_index_files(path, patience=0)

        monkeypatch.setattr(os, "fsync", erase_meanwhile)
        assert not indexer.write_segment()
        for reader in (indexer, follow()):
            assert reader.verify().ok
            assert len(held(reader)) == len(vectors)
            assert reader.failures == 0
        assert caplog.records == []
        assert indexer.write_segment()
        assert Generations.for_database(path, PRINT).latest(PRINT) is not None

    def test_one_from_after_a_restored_backup_is_not_used(
        self, book: Book, path: Path, follow: Follow, vectors: Vectors
    ) -> None:
        book.put(vectors[:10])
        backup = path.with_name("backup.db")
        _copy(path, backup)
        book.put(vectors[10:20])
        follow().close()
        book.database.close()
        _copy(backup, path)
        again = Book(Database(path))
        again.put(vectors[20:50])  # more than were lost: the change numbers do not tell
        indexer = follow()
        assert indexer.verify().ok
        assert held(indexer).search(vectors[15], 1, scopes=[1]).scores[0] < 0.99
        again.database.close()

    def test_one_is_written_after_so_many_changes(
        self, book: Book, path: Path, follow: Follow, vectors: Vectors
    ) -> None:
        place = manifest_of(path)
        indexer = follow(merge_after=10)
        for start, there in ((0, False), (5, True)):
            book.put(vectors[start : start + 5])
            indexer.pull()
            indexer.settle()
            assert place.exists() is there

    def test_one_of_another_length_is_not_used(
        self, book: Book, follow: Follow, make_vectors: Any, vectors: Vectors
    ) -> None:
        book.put(vectors[:5])
        follow().close()
        book.database.write(lambda c: c.execute(update(memories).values(embedding=make_vectors(1, 8).tobytes())))
        indexer = follow(dimensions=8)
        assert held(indexer).dimensions == 8
        assert indexer.verify().ok

    @pytest.mark.parametrize("folder", ["missing", "a file"])
    def test_where_none_can_be_written_everything_else_works(
        self, book: Book, tmp_path: Path, follow: Follow, vectors: Vectors, folder: str
    ) -> None:
        (tmp_path / "a file").touch()
        indexer = follow(files=Generations(tmp_path / folder / "x.index"), merge_after=1)
        before = indexer.failures
        pks = book.put(vectors[:3])
        assert indexer.pull() == 3
        assert held(indexer).pks().tolist() == pks
        assert indexer.write_segment() is False
        indexer.close()
        assert indexer.failures > before


class TestRebuildAndVerify:
    def test_rebuild_reads_everything_and_tells_how_far_it_is(
        self, book: Book, follow: Follow, make_vectors: Any
    ) -> None:
        indexer = follow()
        book.put(make_vectors(10_050, D))
        seen: list[tuple[int, int]] = []
        assert indexer.rebuild(lambda done, total: seen.append((done, total))) == 10_050
        assert seen == [(10_000, 10_050), (10_050, 10_050)]
        assert indexer.pull() == 0
        assert indexer.verify().ok

    def test_rebuild_repairs_what_verify_found(self, book: Book, follow: Follow, vectors: Vectors) -> None:
        pks = book.put(vectors[:6])
        book.put(vectors[6:7], scope=2)
        indexer = follow()

        def tamper(connection: Connection) -> None:
            flipped = update(memories).where(memories.c.pk == pks[0])
            connection.execute(flipped.values(embedding=vectors[30].tobytes()))
            connection.execute(update(memories).where(memories.c.pk == pks[1]).values(scope_id=2))
            connection.execute(update(memories).where(memories.c.pk == pks[2]).values(embedding=b"short"))
            connection.execute(delete(memories).where(memories.c.pk == pks[3]))
            connection.execute(update(memories).where(memories.c.pk == pks[4]).values(pk=900))

        book.database.write(tamper)
        report = indexer.verify()
        assert not report.ok
        assert report.differing == (pks[0], pks[1], pks[2])
        assert report.only_in_index == (pks[3], pks[4])
        assert report.only_in_database == (900,)
        assert report.checked == 6
        book.change(pks[2], vectors[31])
        indexer.rebuild()
        assert indexer.verify().ok

    def test_a_database_that_went_back_in_time_while_open_is_read_anew(
        self, book: Book, follow: Follow, vectors: Vectors
    ) -> None:
        pks = book.put(vectors[:10])
        indexer = follow()

        def go_back(connection: Connection) -> None:
            connection.execute(delete(memories).where(memories.c.pk > pks[4]))
            connection.execute(delete(changes).where(changes.c.seq > pks[4]))
            put(connection, vectors[20:40], scope=1)

        book.database.write(go_back)
        indexer.pull()
        assert indexer.verify().ok
        assert len(held(indexer)) == 25


def _copy(source: Path, target: Path) -> None:
    import sqlite3

    with sqlite3.connect(source) as old, sqlite3.connect(target) as new:
        old.backup(new)
    old.close()
    new.close()
