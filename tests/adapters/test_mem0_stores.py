"""Mem0's `vector_store` by name, on real engines; Milvus and stores made by the real Mem0 are in `providers.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import chromadb
import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models
from sqlalchemy import make_url

from langmem_adapter.adapters.mem0 import Memory
from langmem_adapter.adapters.mem0.configs import MemoryConfig, VectorStoreConfig
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import InvalidInputError, StorageError

if TYPE_CHECKING:
    from pathlib import Path

QUIET = chromadb.Settings(anonymized_telemetry=False)


def ours(provider: str, /, history: Any = None, **options: Any) -> Memory:
    """A memory on a store, with embeddings of 64 numbers."""
    vectors = {"provider": "langchain", "config": {"model": HashEmbeddings(64)}}
    store = VectorStoreConfig(provider=provider, config=options)
    return Memory(MemoryConfig(vector_store=store, embedder=vectors, history_db_path=history))


def works(memory: Memory, number: int) -> None:
    """Two memories more, found by the store."""
    memory.add(["I like tea.", "I live in Lyon."], user_id="a", infer=False)
    assert len(memory.get_all(user_id="a")) == number
    assert memory.search("tea", filters={"user_id": "a"})[0]["memory"] == "I like tea."
    assert memory.engine.verify().ok and not memory.engine.verify().unchecked


@pytest.mark.parametrize("provider", ["qdrant", "chroma"])
def test_a_vector_store_on_a_path_holds_its_own_collection_and_the_database_lies_beside_it(
    provider: str, tmp_path: Path
) -> None:
    for number in (2, 4):
        with ours(provider, path=str(tmp_path / "store"), collection_name="shop", embedding_model_dims=1536) as memory:
            works(memory, number)
    with ours(provider, path=str(tmp_path / "store"), collection_name="other") as memory:
        assert len(memory.get_all(user_id="a")) == 0
    assert {path.name for path in (tmp_path / "store_langmem_adapter").glob("*.db")} == {"shop.db", "other.db"}
    if provider == "qdrant":
        client = QdrantClient(path=str(tmp_path / "store"))
        names = [each.name for each in client.get_collections().collections]
        client.close()
    else:
        names = [each.name for each in chromadb.PersistentClient(str(tmp_path / "store"), QUIET).list_collections()]
    assert "shop_langmem_adapter" in names and "shop" not in names


def test_a_vector_store_takes_a_client_and_leaves_it_open(tmp_path: Path) -> None:
    client = QdrantClient(":memory:")
    with ours("qdrant", tmp_path / "m.db", client=client, collection_name="shop") as memory:
        works(memory, 2)
    assert client.count("shop_langmem_adapter").count == 2
    with ours("chroma", tmp_path / "c.db", client=chromadb.PersistentClient(str(tmp_path / "c"), QUIET)) as other:
        works(other, 2)
    with ours("qdrant", ":memory:", path=":memory:") as third:
        works(third, 2)


@pytest.mark.parametrize("provider", ["qdrant", "chroma", "langchain"])
def test_a_collection_with_entries_of_another_program_is_refused_and_left_as_it_is(
    provider: str, tmp_path: Path
) -> None:
    payload = {"data": "I like tea.", "user_id": "a", "hash": "x"}  # as Mem0 keeps a memory
    if provider == "chroma":
        chroma = chromadb.PersistentClient(str(tmp_path / "c"), QUIET)
        collection = chroma.create_collection("shop_langmem_adapter")
        collection.add("1", [1.0] * 64, payload)
        options: dict[str, Any] = {"client": chroma, "collection_name": "shop"}
    else:
        client = QdrantClient(":memory:")
        size = models.VectorParams(size=64, distance=models.Distance.COSINE)
        client.create_collection("shop_langmem_adapter", size)
        client.upsert("shop_langmem_adapter", [models.PointStruct(id=1, vector=[1.0] * 64, payload=payload)])
        options = {"client": client, "collection_name": "shop"}
        if provider == "langchain":
            store = QdrantVectorStore(
                client, "shop_langmem_adapter", HashEmbeddings(64), validate_collection_config=False
            )
            options = {"client": store}
    with pytest.raises(InvalidInputError, match="'shop_langmem_adapter' holds entries of another program"):
        ours(provider, ":memory:", **options)
    if provider == "chroma":
        assert collection.get()["metadatas"] == [payload]
    else:
        assert [point.payload for point in client.scroll("shop_langmem_adapter")[0]] == [payload]


def test_a_langchain_vector_store_is_used_as_it_is() -> None:
    store = InMemoryVectorStore(HashEmbeddings(64))
    with ours("langchain", ":memory:", client=store, collection_name="x") as memory:
        memory.add("I like tea.", user_id="a", infer=False)
        assert memory.search("tea", filters={"user_id": "a"})[0]["memory"] == "I like tea."
        assert memory.vector_store is store and len(store.store) == 1


def test_a_database_holds_one_collection(tmp_path: Path) -> None:
    for _ in range(2):
        ours("faiss", tmp_path / "m.db", collection_name="shop").close()
    with pytest.raises(InvalidInputError, match=r"holds the collection 'shop', not 'other'.*history_db_path"):
        ours("qdrant", tmp_path / "m.db", path=":memory:", collection_name="other")
    ours("qdrant", tmp_path / "m.db", path=":memory:", collection_name="shop").close()


def test_collections_on_a_server_have_files_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for name in ("one", "two"):
        ours("qdrant", client=QdrantClient(":memory:"), collection_name=name).close()
    assert {path.name for path in tmp_path.rglob("*.db")} == {"one.db", "two.db"}


def test_a_server_that_is_away_is_a_storage_error() -> None:
    with pytest.raises(StorageError, match="the vector store chroma failed"):
        ours("chroma", ":memory:", host="127.0.0.1", port=9)


@pytest.mark.postgres
def test_pgvector_is_the_database_and_the_index(postgres_url: str) -> None:
    url = make_url(postgres_url)
    parts = {"user": url.username, "dbname": url.database, "host": url.query["host"], "hnsw": True, "diskann": False}
    for number, options in ((2, parts), (4, {"connection_string": postgres_url}), (6, parts)):
        with ours("pgvector", **options) as memory:
            works(memory, number)
            assert memory.vector_store == "pgvector" and str(url.database) in memory.engine.location
    with pytest.raises(InvalidInputError, match="leave it out"):
        ours("pgvector", ":memory:", **parts)
    with pytest.raises(InvalidInputError, match=r"holds the collection 'mem0', not 'other'.*dbname"):
        ours("supabase", connection_string=postgres_url, collection_name="other")
