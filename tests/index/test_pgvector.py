"""pgvector on a real Postgres: the graph and its fallback, the cursor, many feeders at once, and what it refuses."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
from sqlalchemy import event, make_url, select, text

from langmem_adapter import Memory
from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError, StorageError
from langmem_adapter.index.base import Batch
from langmem_adapter.index.indexer import SharedIndexer
from langmem_adapter.index.pgvector import PgVectorIndex, require_pgvector
from langmem_adapter.index.segment import ExactIndex
from langmem_adapter.storage import feed as following
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.tables import cursors
from tests.programs import Program, python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection, Engine

pytestmark = pytest.mark.postgres

Follow: TypeAlias = "Callable[..., SharedIndexer]"
D = 32


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    opened = Database(postgres_url)
    prepare(opened)
    require_pgvector(opened)
    yield opened
    opened.close()


@pytest.fixture
def follow(database: Database) -> Iterator[Follow]:
    """Opens a feed on a connection pool of its own, as another process would."""
    databases: list[Database] = []

    def open_one(*, fingerprint: str = "spelt", dimensions: int | None = None, **options: Any) -> SharedIndexer:
        databases.append(Database(url_of(database)))
        make = partial(PgVectorIndex, databases[-1], **options)
        return SharedIndexer(databases[-1], make, fingerprint=fingerprint, dimensions=dimensions)

    yield open_one
    for opened in databases:
        opened.close()


def url_of(database: Database) -> str:
    with database.read() as connection:
        return connection.engine.url.render_as_string(hide_password=False)


def held(indexer: SharedIndexer) -> PgVectorIndex:
    assert isinstance(indexer.index, PgVectorIndex)
    return indexer.index


class TestGraph:
    @pytest.fixture
    def filled(self, database: Database, make_vectors: Any, make_batch: Any) -> tuple[PgVectorIndex, ExactIndex]:
        """2,000 memories: nineteen of twenty in scope 1, a hundred in scope 2, five in scope 3."""
        vectors = make_vectors(2000, D)
        batch = make_batch(range(2000), (3 if i < 5 else 1 if i % 20 else 2 for i in range(2000)), vectors)
        index, oracle = PgVectorIndex(database, D, exact_up_to=50), ExactIndex(D)
        with database.derived(1) as connection:
            index.prepare(connection)
            index.on(connection).update(batch)
            index.build_graph(connection)
        oracle.update(batch)
        return index, oracle

    def test_finds_nearly_what_a_full_comparison_finds_and_says_so(
        self, filled: tuple[PgVectorIndex, ExactIndex], make_vectors: Any
    ) -> None:
        index, oracle = filled
        right = 0
        for query in make_vectors(20, D, 7):
            found, truth = index.search(query, 10, scopes=[1]), oracle.search(query, 10, scopes=[1])
            assert found.strategy == "pgvector graph (HNSW)"
            assert (np.diff(found.scores) <= 0).all()
            np.testing.assert_allclose(found.scores, oracle.scores(query, found.pks), atol=1e-6)
            right += len(np.intersect1d(found.pks, truth.pks))
        assert right >= 190

    def test_small_scopes_and_named_rows_are_compared_in_full(
        self, filled: tuple[PgVectorIndex, ExactIndex], make_vectors: Any
    ) -> None:
        index, oracle = filled
        (query,) = make_vectors(1, D, 8)
        for scopes, pks in (([3], None), ([3, 99], None), ([1, 2], np.arange(0, 2000, 3))):
            found, truth = (
                index.search(query, 10, scopes=scopes, pks=pks),
                oracle.search(query, 10, scopes=scopes, pks=pks),
            )
            assert found.pks.tolist() == truth.pks.tolist()
            assert found.strategy == "pgvector exact"

    def test_everything_is_compared_where_the_graph_finds_too_few(
        self, database: Database, filled: tuple[PgVectorIndex, ExactIndex], make_vectors: Any
    ) -> None:
        index, oracle = filled
        (query,) = make_vectors(1, D, 9)
        with database.read() as connection:
            connection.execute(text("SELECT set_config('hnsw.max_scan_tuples', '1', true)"))
            found = index.on(connection).search(query, 90, scopes=[2])
        assert found.pks.tolist() == oracle.search(query, 90, scopes=[2]).pks.tolist()
        assert found.strategy == "pgvector exact, the graph found too few"

    @pytest.mark.parametrize("dimensions", [2100, 4100])
    def test_long_vectors_are_kept_whole(
        self, database: Database, make_vectors: Any, make_batch: Any, dimensions: int
    ) -> None:
        vectors = make_vectors(40, dimensions)
        index, oracle = PgVectorIndex(database, dimensions, exact_up_to=10), ExactIndex(dimensions)
        batch = make_batch(range(40), [1] * 40, vectors)
        with database.derived(1) as connection:
            index.prepare(connection)
            index.on(connection).update(batch)
            index.build_graph(connection)
        oracle.update(batch)
        found = index.search(vectors[7], 5, scopes=[1])
        assert found.pks.tolist() == oracle.search(vectors[7], 5, scopes=[1]).pks.tolist()
        assert found.strategy == ("pgvector graph (HNSW)" if dimensions <= 4000 else "pgvector exact")
        np.testing.assert_array_equal(index.vectors(np.array([7])), vectors[7:8])


class TestFeed:
    def test_each_change_is_applied_once_whoever_pulls(
        self, database: Database, follow: Follow, make_vectors: Any, make_batch: Any, write: Any
    ) -> None:
        feeds = [follow(dimensions=D) for _ in range(4)]
        vectors = make_vectors(120, D)
        together = threading.Barrier(4)

        def work(number: int) -> int:
            done = 0
            for place in range(number, 120, 4):
                together.wait(20)
                write(database, make_batch([place + 1], [number + 1], vectors[place : place + 1]))
                done += feeds[number].pull()
                found = held(feeds[number]).search(vectors[place], 1, scopes=[number + 1])
                assert found.pks.tolist() == [place + 1]
            return done

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(work, range(4))) == 120
        assert all(indexer.verify().ok for indexer in feeds)
        assert {indexer.pull() for indexer in feeds} == {0}
        assert {indexer.applied for indexer in feeds} == {120}

    def test_nothing_is_locked_or_written_when_nothing_was_committed(
        self, database: Database, follow: Follow, make_vectors: Any, make_batch: Any, write: Any
    ) -> None:
        write(database, make_batch([1], [1], make_vectors(1, D)))
        one, other = follow(), follow()
        write(database, make_batch([2], [1], make_vectors(1, D, 2)))
        one.pull()
        said: list[str] = []
        listening = other._database.read()
        with listening as connection:
            engine: Engine = connection.engine
            event.listen(engine, "before_cursor_execute", lambda *given: said.append(given[2]))
        assert other.pull() == 0
        assert other.applied == 2
        assert not [statement for statement in said if "advisory" in statement or "INSERT" in statement]

    def test_rebuild_repairs_what_verify_found_and_tells_how_far_it_is(
        self, database: Database, follow: Follow, make_vectors: Any, make_batch: Any, write: Any
    ) -> None:
        vectors = make_vectors(9, D)
        write(database, make_batch(range(1, 9), [1] * 8, vectors[:8]))
        indexer = follow()
        with database.derived(1) as connection:
            wrong = Batch(np.array([1, 77]), np.array([1, 1]), vectors[7:9], np.array([2]))
            held(indexer).on(connection).update(wrong)
        found = indexer.verify()
        assert (found.differing, found.only_in_database, found.only_in_index) == ((1,), (2,), (77,))
        seen: list[tuple[int, int]] = []
        assert indexer.rebuild(lambda done, total: seen.append((done, total))) == 8
        assert seen == [(8, 8)]
        assert indexer.verify().ok

    def test_a_failed_pull_moves_nothing(
        self, database: Database, follow: Follow, make_vectors: Any, make_batch: Any, write: Any
    ) -> None:
        write(database, make_batch([1], [1], make_vectors(1, D)))
        indexer = follow()
        write(database, make_batch([2], [1], make_vectors(1, D, 2)))
        write(database, make_batch([3], [1], make_vectors(1, 5)))
        for _ in range(2):
            with pytest.raises(EmbeddingMismatchError, match=r"row 3 .*reindex"):
                indexer.pull()
        assert held(indexer).pks().tolist() == [1]
        with database.read() as connection:
            kept = following.get(connection, held(indexer).name)
        assert kept is not None and kept.applied == 1

    def test_follows_updates_and_deletes(
        self, database: Database, follow: Follow, make_vectors: Any, make_batch: Any, write: Any
    ) -> None:
        vectors = make_vectors(10, D)
        one, other = follow(), follow()
        assert one.index is None
        write(database, make_batch(range(1, 6), [1] * 5, vectors[:5]))
        one.pull()
        write(database, make_batch([2], [1], vectors[8:9], gone=[3]))
        other.pull()
        assert one.pull() == 0
        assert held(one).pks().tolist() == [1, 2, 4, 5]
        assert held(one).search(vectors[8], 1, scopes=[1]).pks.tolist() == [2]
        assert one.verify().ok
        assert not other.write_segment()


class TestRefusals:
    def test_a_missing_package_names_the_extra(self, database: Database) -> None:
        program = """
import sys
sys.modules["pgvector"] = sys.modules["pgvector.sqlalchemy"] = None
from langmem_adapter import Memory
from langmem_adapter.errors import MissingDependencyError
try:
    Memory(sys.argv[1], index="pgvector")
except MissingDependencyError as error:
    print(error)
"""
        done = python("-c", program, url_of(database))
        assert "pip install 'langchain-langmem-adapter[postgres]'" in done.stdout

    def test_sqlite_names_the_fix(self) -> None:
        with pytest.raises(InvalidInputError, match=r"pgvector.*lives in Postgres.*postgresql\+psycopg"):
            Memory(":memory:", index="pgvector")

    def test_a_server_that_may_not_have_the_extension_names_the_statement(self, postgres_url: str) -> None:
        admin = Database(postgres_url)
        name = make_url(postgres_url).database

        def make_role(connection: Connection) -> None:
            connection.execute(text(f"CREATE ROLE guest_{name} LOGIN"))
            for what in ("SCHEMA public", "ALL TABLES IN SCHEMA public"):
                connection.execute(text(f"GRANT ALL ON {what} TO guest_{name}"))

        admin.write(make_role)
        try:
            url = make_url(postgres_url).set(username=f"guest_{name}")
            with pytest.raises(StorageError, match="CREATE EXTENSION vector"):
                Memory(url, index="pgvector")
        finally:
            admin.write(lambda connection: connection.execute(text(f"DROP OWNED BY guest_{name} CASCADE")))
            admin.write(lambda connection: connection.execute(text(f"DROP ROLE guest_{name}")))
            admin.close()


WRITER = """
import sys
from langmem_adapter import Memory
url, who = sys.argv[1:]
with Memory(url, index="pgvector") as memory:
    for number in range(20):
        text = f"{who} owns lamp number {number}"
        memory.add(text, user_id="both", infer=False)
        assert text in [hit.text for hit in memory.search(text, user_id="both", k=3)], text
"""


class TestMemory:
    def test_two_processes_see_each_others_memories_at_once(self, postgres_url: str) -> None:
        with Memory(postgres_url, index="pgvector") as memory:
            memory.add("Owns a lamp", user_id="both", infer=False)
            writers = [Program("-c", WRITER, postgres_url, who) for who in ("Ann", "Ben")]
            assert [writer.end().returncode for writer in writers] == [0, 0]
            assert memory.stats().memories == 41
            assert memory.verify().ok
        database = Database(postgres_url)
        with database.read() as connection:
            assert len(connection.execute(select(cursors.c.name)).all()) == 1
        database.close()

    def test_keeps_finds_changes_and_forgets(self, postgres_url: str) -> None:
        with Memory(postgres_url, index="pgvector") as memory:
            assert memory.search("anything", user_id="alice") == []
            memory.add("I am vegetarian and I live in Lyon.", user_id="alice")
            memory.add("I live in Oslo.", user_id="bob")
            (home,) = memory.search("Where does she live?", user_id="alice", k=1)
            assert home.text == "Lives in Lyon"
            memory.update(home.id, "Lives in Paris")
            assert memory.search("Paris", user_id="alice", k=1)[0].text == "Lives in Paris"
            memory.delete_all(user_id="alice")
            assert memory.search("Paris", user_id="alice") == []
            assert memory.verify().ok
        with Memory(postgres_url, index="faiss") as plain, Memory(postgres_url, index="pgvector") as shared:
            for memory in (plain, shared):
                assert [hit.text for hit in memory.search("Oslo", user_id="bob")] == ["Lives in Oslo"]

    async def test_many_searches_at_once_need_one_connection_each(self, postgres_url: str) -> None:
        import asyncio

        async with Memory(postgres_url, index="pgvector") as memory:
            await asyncio.gather(*(memory.aadd(f"Owns lamp {i}", user_id="u", infer=False) for i in range(40)))
            found = await asyncio.gather(*(memory.asearch(f"lamp {i}", user_id="u", k=3) for i in range(40)))
            assert all(len(hits) == 3 for hits in found)
