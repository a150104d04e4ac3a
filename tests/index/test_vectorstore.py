"""Vector stores as indexes: the database has the last word, whatever a store loses, keeps too long, or makes up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from sqlalchemy import delete

from langmem_adapter import Memory
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError, StorageError
from langmem_adapter.index.indexer import SharedIndexer
from langmem_adapter.index.segment import ExactIndex
from langmem_adapter.index.stores import wrap_store
from langmem_adapter.index.vectorstore import VectorStoreIndex
from langmem_adapter.storage import feed
from langmem_adapter.storage import feed as following
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.tables import changes, memories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langchain_core.documents import Document
    from sqlalchemy import Connection

    from langmem_adapter.index.base import VectorView

Follow: TypeAlias = "Callable[..., SharedIndexer]"
D = 24
KINDS = ("qdrant", "chroma", "any store")


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    opened_one = Database(path)
    prepare(opened_one)
    yield opened_one
    opened_one.close()


@pytest.fixture
def put(database: Database, make_batch: Any, write: Any) -> Callable[..., None]:
    """Commits memories and deletions to the database, the way any process would."""
    return lambda *batch, **options: write(database, make_batch(*batch, **options))


@pytest.fixture
def follow(path: Path) -> Iterator[Follow]:
    """Opens a feed of a store on a connection pool of its own, as another process would."""
    databases: list[Database] = []

    def open_one(
        store: VectorStore, *, fingerprint: str = "spelt", exact_up_to: int = 0, patience: float = 60
    ) -> SharedIndexer:
        databases.append(Database(path))
        make = partial(VectorStoreIndex, wrap_store(store), databases[-1], exact_up_to=exact_up_to)
        return SharedIndexer(databases[-1], make, fingerprint=fingerprint, patience=patience)

    yield open_one
    for one in databases:
        one.close()


def held(indexer: SharedIndexer) -> VectorView:
    assert indexer.index is not None
    return indexer.index


def opened_kind(kind: str) -> str:
    return {"qdrant": "Qdrant", "chroma": "Chroma"}[kind]


class Broken(InMemoryVectorStore):
    """A store whose writes fail while `down`."""

    down = False

    def add_documents(self, documents: list[Document], ids: list[str] | None = None, **options: Any) -> list[str]:
        if self.down:
            raise ConnectionError("nobody there")
        return super().add_documents(documents, ids, **options)


class TestSearch:
    @pytest.mark.parametrize("kind", KINDS)
    def test_what_the_store_lost_behind_our_back_is_found_in_the_database(
        self, kind: str, follow: Follow, open_store: Any, make_vectors: Any, put: Any
    ) -> None:
        vectors = make_vectors(20, D)
        put(range(1, 21), [1] * 20, vectors)
        store = open_store(kind, D)
        indexer = follow(store)
        ids = {entry.pk: entry.id for entry in _entries(indexer, store, range(1, 21))}
        wrap_store(store).drop([ids[pk] for pk in range(1, 19)])
        found = held(indexer).search(vectors[4], 5, scopes=[1])
        assert found.pks[0] == 5 and len(found.pks) == 5
        assert "gave too few" in found.strategy
        assert set(range(1, 19)) <= set(indexer.verify().only_in_database)

    @pytest.mark.parametrize("kind", KINDS)
    def test_rows_that_only_the_store_has_are_never_found(
        self, kind: str, database: Database, follow: Follow, open_store: Any, make_vectors: Any, put: Any
    ) -> None:
        vectors = make_vectors(20, D)
        put(range(1, 21), [1] * 20, vectors)
        store = open_store(kind, D)
        indexer = follow(store)
        database.write(lambda connection: connection.execute(delete(memories).where(memories.c.pk == 5)))
        assert 5 not in held(indexer).search(vectors[4], 20, scopes=[1]).pks
        report = indexer.verify()
        if kind == "any store":
            assert any("cannot be listed" in said for said in report.unchecked)
        else:
            assert report.only_in_index == (5,)
            indexer.rebuild()
            assert indexer.verify().ok
        assert bool(report.unchecked) == (kind == "any store")

    def test_another_databases_memories_in_the_same_collection_stay_apart(
        self, tmp_path: Path, open_store: Any, make_vectors: Any, make_batch: Any, write: Any
    ) -> None:
        store, vectors = open_store("qdrant", D), make_vectors(20, D)
        databases, feeds = [], []
        for number in range(2):
            one = Database(tmp_path / f"{number}.db")
            prepare(one)
            write(one, make_batch(range(1, 11), [1] * 10, vectors[number * 10 : number * 10 + 10]))
            make = partial(VectorStoreIndex, wrap_store(store), one, exact_up_to=0)
            feeds.append(SharedIndexer(one, make, fingerprint="spelt"))
            databases.append(one)
        for number, indexer in enumerate(feeds):
            assert held(indexer).search(vectors[number * 10], 1, scopes=[1]).scores[0] == pytest.approx(1, abs=1e-6)
            assert indexer.verify().ok
        for one in databases:
            one.close()

    def test_a_rare_scope_is_complete_in_a_store_without_filters(
        self, database: Database, follow: Follow, open_store: Any, make_vectors: Any, make_batch: Any, write: Any
    ) -> None:
        vectors, oracle = make_vectors(600, D), ExactIndex(D)
        batch = make_batch(range(1, 601), (2 if i % 100 == 0 else 1 for i in range(600)), vectors)
        write(database, batch)
        oracle.update(batch)
        index = held(follow(open_store("any store", D)))
        for k in (1, 5, 6, 30):
            found = index.search(vectors[7], k, scopes=[2])
            assert found.pks.tolist() == oracle.search(vectors[7], k, scopes=[2]).pks.tolist()

    @pytest.mark.parametrize("kind", KINDS)
    def test_of_many_equal_memories_the_oldest_come_first(
        self, kind: str, follow: Follow, open_store: Any, make_vectors: Any, put: Any
    ) -> None:
        equal = np.repeat(make_vectors(1, D), 60, axis=0)
        put(range(60, 0, -1), [1] * 60, equal)
        found = held(follow(open_store(kind, D))).search(equal[0], 5, scopes=[1])
        assert found.pks.tolist() == [1, 2, 3, 4, 5]

    @pytest.mark.parametrize("kind", KINDS)
    def test_who_searched_is_told(
        self, kind: str, follow: Follow, open_store: Any, make_vectors: Any, put: Any
    ) -> None:
        vectors = make_vectors(50, D)
        put(range(1, 51), [1] * 50, vectors)
        store = open_store(kind, D)
        for exact_up_to, strategy in ((0, wrap_store(store).kind), (50, "exact")):
            index = held(follow(store, exact_up_to=exact_up_to))
            assert index.search(vectors[3], 5, scopes=[1]).strategy == strategy
        named = index.search(vectors[3], 5, scopes=[1], pks=np.array([4, 9]))
        assert (named.pks[0], named.strategy) == (4, "exact")


class TestFeed:
    @pytest.mark.parametrize("kind", ["qdrant", "chroma"])
    def test_the_cursor_outlives_the_process_and_spares_the_reading(
        self, kind: str, tmp_path: Path, follow: Follow, open_store: Any, make_vectors: Any, put: Any
    ) -> None:
        store = open_store(kind, D, folder=str(tmp_path / "store"))
        put(range(1, 6), [1] * 5, make_vectors(5, D))
        first = follow(store)
        put([3], [2], make_vectors(1, D, 4), gone=[1])
        second = follow(store)
        assert second.applied == 7
        assert first.pull() == 0
        assert first.applied == 7
        assert held(first).search(make_vectors(1, D, 4)[0], 1, scopes=[2]).pks.tolist() == [3]
        for indexer in (first, second):
            assert indexer.verify().ok
            assert indexer.verify().checked == 4

    @pytest.mark.parametrize("kind", ["qdrant", "chroma"])
    def test_an_emptied_or_exchanged_store_gives_itself_away(
        self,
        kind: str,
        tmp_path: Path,
        follow: Follow,
        open_store: Any,
        make_vectors: Any,
        put: Any,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        put(range(1, 6), [1] * 5, make_vectors(5, D))
        one, other = (follow(open_store(kind, D, folder=str(tmp_path / name))) for name in ("one", "other"))
        assert "rebuilding it" in caplog.text
        put([6], [2], make_vectors(1, D, 6))
        for indexer in (one, other):  # they share a cursor, but not what it stands for
            indexer.pull()
            found = held(indexer).search(make_vectors(1, D, 6)[0], 1, scopes=[2])
            assert (found.pks.tolist(), found.strategy) == ([6], opened_kind(kind))
            assert indexer.verify().ok

    def test_a_failed_write_is_a_typed_error_and_nothing_is_lost(
        self, follow: Follow, make_vectors: Any, put: Any, spelt: Embeddings
    ) -> None:
        vectors, store = make_vectors(4, D), Broken(spelt)
        put([1, 2], [1, 1], vectors[:2])
        indexer = follow(store)
        store.down = True
        put([3], [1], vectors[2:3], gone=[1])
        for _ in range(2):
            with pytest.raises(StorageError, match="Broken failed: ConnectionError: nobody there") as caught:
                indexer.pull()
            assert caught.value.transient
            assert indexer.applied == 2
        store.down = False
        assert indexer.pull() == 2
        assert indexer.verify().ok
        assert held(indexer).search(vectors[2], 3, scopes=[1]).pks.tolist()[0] == 3

    def test_a_history_that_went_back_is_read_anew(
        self, database: Database, follow: Follow, open_store: Any, make_vectors: Any, put: Any
    ) -> None:
        vectors = make_vectors(40, D)
        put(range(1, 11), [1] * 10, vectors[:10])
        indexer = follow(open_store("qdrant", D))

        def go_back(connection: Connection) -> None:
            connection.execute(delete(memories).where(memories.c.pk > 5))
            connection.execute(delete(changes).where(changes.c.seq > 5))

        database.write(go_back)
        put(range(6, 9), [1] * 3, vectors[20:23])
        put([7], [1], vectors[30:31])
        put([], [], vectors[:0], gone=[8])
        indexer.pull()
        assert indexer.verify().ok
        assert held(indexer).pks().tolist() == [1, 2, 3, 4, 5, 6, 7]

    def test_many_feeders_of_one_store_miss_nothing(
        self, tmp_path: Path, follow: Follow, open_store: Any, make_vectors: Any, put: Any
    ) -> None:
        store, vectors = open_store("chroma", D, folder=str(tmp_path / "store")), make_vectors(24, D)
        feeds, together = [follow(store) for _ in range(3)], threading.Barrier(3)

        def work(number: int) -> int:
            done = 0
            for place in range(number, 24, 3):
                together.wait(30)
                put([place + 1], [number + 1], vectors[place : place + 1])
                done += feeds[number].pull()
                found = held(feeds[number]).search(vectors[place], 1, scopes=[number + 1])
                assert found.pks.tolist() == [place + 1]
            return done

        with ThreadPoolExecutor(3) as pool:
            assert sum(pool.map(work, range(3))) >= 24  # the first of them reads everything, counted as memories
        assert all(indexer.verify().ok for indexer in feeds)

    def test_nobody_searches_a_store_that_is_being_written(
        self, follow: Follow, spelt: Embeddings, make_vectors: Any, put: Any
    ) -> None:
        begun, go_on = threading.Event(), threading.Event()

        class Slow(InMemoryVectorStore):
            def add_documents(self, *given: Any, **options: Any) -> list[str]:
                begun.set()
                assert go_on.wait(30)
                return super().add_documents(*given, **options)

        indexer, vectors = follow(Slow(spelt)), make_vectors(1, D)
        put([1], [1], vectors)
        with ThreadPoolExecutor(2) as pool:
            fed = pool.submit(indexer.pull)
            assert begun.wait(30)
            found = pool.submit(held(indexer).search, vectors[0], 1, scopes=[1])
            with pytest.raises(FutureTimeoutError):
                found.result(0.2)
            go_on.set()
            assert fed.result(30) == 1 and found.result(30).pks.tolist() == [1]

    def test_whoever_waits_too_long_for_another_feeder_is_told(
        self, follow: Follow, open_store: Any, make_vectors: Any, put: Any
    ) -> None:
        put([1], [1], make_vectors(1, D))
        indexer = follow(open_store("any store", D), patience=0.05)
        other = follow(open_store("any store", D), patience=0.05)
        put([2], [1], make_vectors(1, D, 2))
        with indexer._alone(held(indexer)), pytest.raises(StorageError, match="another process feeds"):  # type: ignore[arg-type]
            other.pull()
        assert other.pull() == 1

    def test_stores_of_one_process_have_cursors_of_their_own(
        self, database: Database, follow: Follow, open_store: Any, make_vectors: Any, put: Any
    ) -> None:
        for kind in KINDS:
            feeds = [follow(open_store(kind, D)) for _ in range(2)]
            for start in (0, 5):
                put(range(start + 1, start + 6), [1] * 5, make_vectors(5, D, start))
                for indexer in feeds:
                    indexer.pull()
                    assert indexer.verify().ok
            with database.read() as connection:
                assert following.get(connection, f"store:{kind}:memories") is None


class Texts(InMemoryVectorStore):
    """Takes ready vectors as PGVector does."""

    def add_embeddings(
        self, texts: list[str], embeddings: list[list[float]], metadatas: list[dict[str, Any]], ids: list[str]
    ) -> None:
        for text, vector, metadata, name in zip(texts, embeddings, metadatas, ids, strict=True):
            self.store[name] = {"id": name, "vector": vector, "text": text, "metadata": metadata}


class Pairs(Texts):
    """Takes ready vectors as FAISS does, which refuses an id that it has."""

    def add_embeddings(  # type: ignore[override]
        self, text_embeddings: list[tuple[str, list[float]]], metadatas: list[dict[str, Any]], ids: list[str]
    ) -> None:
        assert not set(ids) & set(self.store)
        texts, vectors = [text for text, _ in text_embeddings], [vector for _, vector in text_embeddings]
        super().add_embeddings(texts, vectors, metadatas, ids)


class Silent(Embeddings):
    """Must not be asked: the vectors are there already."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise AssertionError(texts)

    def embed_query(self, text: str) -> list[float]:
        raise AssertionError(text)


class TestVectors:
    @pytest.mark.parametrize("kind", [Texts, Pairs])
    def test_ready_vectors_are_given_where_the_store_takes_them(
        self, kind: type[InMemoryVectorStore], follow: Follow, make_vectors: Any, put: Any
    ) -> None:
        vectors = make_vectors(8, D)
        indexer = follow(kind(Silent()))
        put(range(1, 8), [1] * 7, vectors[:7])
        indexer.pull()
        put([2], [1], vectors[7:], gone=[1])
        indexer.pull()
        assert held(indexer).search(vectors[7], 1, scopes=[1]).pks.tolist() == [2]
        assert indexer.verify().ok

    @pytest.mark.parametrize(("theirs", "said"), [(HashEmbeddings(64), "another model"), (HashEmbeddings(32), "32")])
    def test_a_store_that_embeds_with_another_model_is_refused(self, theirs: Embeddings, said: str) -> None:
        class Other(Embeddings):
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [vector[::-1] for vector in theirs.embed_documents(texts)]

            embed_query = HashEmbeddings(64).embed_query

        memory = Memory(":memory:", embeddings="hash:64", index=InMemoryVectorStore(Other()))
        memory.add("Owns a lamp", user_id="u", infer=False)
        with pytest.raises(EmbeddingMismatchError, match=said):
            memory.search("lamp", user_id="u")
        memory.close()

    @pytest.mark.parametrize("kind", ["qdrant", "chroma"])
    def test_a_collection_for_vectors_of_another_length_is_refused(self, kind: str, open_store: Any) -> None:
        store = open_store(kind, 32)
        with Memory(":memory:", embeddings="hash:32", index=store) as memory:
            memory.add("Owns a lamp", user_id="u", infer=False)
            assert memory.search("lamp", user_id="u")
        with Memory(":memory:", embeddings="hash:64", index=store) as memory:
            memory.add("Owns a lamp", user_id="u", infer=False)
            with pytest.raises(EmbeddingMismatchError, match=r"32 dimensions, ours have 64"):
                memory.search("lamp", user_id="u")

    @pytest.mark.parametrize(("index", "said"), [(object(), "LangChain VectorStore"), ("annoy", "'faiss', 'exact'")])
    def test_no_vector_store_is_refused(self, index: Any, said: str) -> None:
        with pytest.raises(InvalidInputError, match=said):
            Memory(":memory:", index=index)


@pytest.mark.parametrize(
    ("kind", "where"),
    [*product(KINDS, ["file", "memory"]), pytest.param("qdrant", "postgres", marks=pytest.mark.postgres)],
)
def test_memory_on_each_database_with_each_store(
    kind: str, where: str, path: Path, request: pytest.FixtureRequest, open_store: Any
) -> None:
    url = request.getfixturevalue("postgres_url") if where == "postgres" else path if where == "file" else ":memory:"
    store = InMemoryVectorStore(HashEmbeddings(64)) if kind == "any store" else open_store(kind, 64)
    with Memory(url, embeddings="hash:64", index=store) as memory:
        memory.add("I am vegetarian and I live in Lyon.", user_id="alice")
        memory.add("I live in Oslo.", user_id="bob")
        (home,) = memory.search("Where does she live?", user_id="alice", k=1)
        assert home.text == "Lives in Lyon"
        memory.update(home.id, "Lives in Paris")
        assert memory.search("Paris", user_id="alice", k=1)[0].text == "Lives in Paris"
        assert [hit.text for hit in memory.search("Paris", user_id="bob")] == ["Lives in Oslo"]
        memory.delete_all(user_id="alice")
        assert memory.search("Paris", user_id="alice") == []
        assert memory.verify().ok
        memory.reset()
        assert memory.search("Oslo", user_id="bob") == []
        assert memory.verify().ok


def _entries(indexer: SharedIndexer, store: VectorStore, pks: range) -> list[Any]:
    with indexer._database.read() as connection:
        database = (feed.birth(connection) or b"").hex()
    from langmem_adapter.index.vectorstore import memory_id

    found = wrap_store(store).get([memory_id(database, pk) for pk in pks])
    assert found is not None
    return list(found.values())
