"""Vectors, batches, databases and vector stores for the tests of the indexes."""

from __future__ import annotations

import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from langmem_adapter.index.base import Batch, check_batch
from langmem_adapter.index.indexer import SharedIndexer
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.migrations import prepare
from tests.index.book import Book, batch_of, write_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from langchain_core.vectorstores import VectorStore

    from langmem_adapter.index.base import Vectors
    from langmem_adapter.index.pgvector import PgVectorIndex


class MakeVectors(Protocol):
    def __call__(self, count: int, dimensions: int, seed: int = 0) -> Vectors: ...


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def book(path: Path) -> Iterator[Book]:
    database = Database(path)
    yield Book(database)
    database.close()


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., Batch]:
    return batch_of


@pytest.fixture(scope="session")
def make_vectors() -> MakeVectors:
    def make(count: int, dimensions: int, seed: int = 0) -> Vectors:
        plain = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
        unit: Vectors = plain / np.linalg.norm(plain, axis=1, keepdims=True)
        return unit

    return make


# ── indexes outside the process ─────────────────────────────────────────────────────────────────────────────────────


class Spelt(Embeddings):
    """Of texts that spell their vectors."""

    def embed_query(self, text: str) -> list[float]:
        numbers: list[float] = np.frombuffer(bytes.fromhex(text), "<f4").tolist()
        return numbers

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


@pytest.fixture(scope="session")
def spelt() -> Embeddings:
    return Spelt()


class Fed:
    """An index that is fed from a database, with the ways of one that is fed directly: its batches become memories."""

    def __init__(self, database: Database, feed: SharedIndexer) -> None:
        self.database = database
        self.feed = feed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.feed.index, name)

    def __len__(self) -> int:
        assert self.feed.index is not None
        return len(self.feed.index)

    def update(self, batch: Batch) -> None:
        check_batch(batch, self.dimensions)
        self.database.write(partial(write_batch, batch=batch))
        self.feed.pull()


@pytest.fixture(scope="session")
def write() -> Callable[[Database, Batch], None]:
    """Commits a batch as memories, the way any process would."""
    return lambda database, batch: database.write(partial(write_batch, batch=batch))


class OpenStore(Protocol):
    def __call__(self, kind: str, dimensions: int, *, folder: str | None = None) -> VectorStore: ...


@pytest.fixture
def open_store() -> Iterator[OpenStore]:
    """Vector stores by kind: empty ones, or what lies in a folder."""
    with _stores() as open_one:
        yield open_one


@contextmanager
def _stores() -> Iterator[OpenStore]:
    with ExitStack() as stack:

        def open_one(kind: str, dimensions: int, *, folder: str | None = None) -> VectorStore:
            if kind == "qdrant":
                return _qdrant(stack, dimensions, folder)
            return _chroma(stack, folder) if kind == "chroma" else InMemoryVectorStore(Spelt())

        yield open_one


def _qdrant(stack: ExitStack, dimensions: int, folder: str | None) -> VectorStore:
    from langchain_qdrant import QdrantVectorStore
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=folder) if folder else QdrantClient(":memory:")
    stack.callback(client.close)
    if not client.collection_exists("memories"):
        shape = models.VectorParams(size=dimensions, distance=models.Distance.COSINE)
        client.create_collection("memories", vectors_config=shape)
    return QdrantVectorStore(client, "memories", Spelt(), validate_embeddings=False, validate_collection_config=False)


def _chroma(stack: ExitStack, folder: str | None) -> VectorStore:
    import chromadb
    from langchain_chroma import Chroma

    quiet = chromadb.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(folder, quiet) if folder else chromadb.EphemeralClient(quiet)
    # Ephemeral clients of one process share everything, so each test has a collection of its own.
    name = "memories" if folder else f"memories-{uuid.uuid4().hex}"
    # Chroma searches a graph; at this breadth it finds what a full comparison finds among some hundred vectors.
    breadth = {"hnsw": {"space": "cosine", "ef_construction": 200, "ef_search": 1000, "max_neighbors": 32}}
    store = Chroma(name, Spelt(), client=client, collection_configuration=breadth)
    if folder is None:
        stack.callback(store.delete_collection)
    return store


@pytest.fixture(scope="session")
def vector_postgres(new_postgres: Callable[[], AbstractContextManager[str]]) -> Iterator[Database]:
    """One database with the extension, for tests that clear their table: making one for each takes longer than they do."""
    with _with_vectors(new_postgres) as database:
        yield database


@contextmanager
def _with_vectors(new_postgres: Callable[[], AbstractContextManager[str]]) -> Iterator[Database]:
    from langmem_adapter.index.pgvector import require_pgvector

    with new_postgres() as url:
        database = Database(url)
        require_pgvector(database)
        yield database
        database.close()


OpenOutside: TypeAlias = "Callable[[str, int], PgVectorIndex | Fed]"


@pytest.fixture
def open_outside(request: pytest.FixtureRequest) -> Iterator[OpenOutside]:
    """Empty indexes outside the process by kind, which search there however little they hold."""
    with _outside(lambda _: request.getfixturevalue("vector_postgres")) as open_one:
        yield open_one


@pytest.fixture(scope="module")
def open_lasting(request: pytest.FixtureRequest) -> Iterator[OpenOutside]:
    """The same, for tests that only read and share one."""
    with _outside(lambda own: own.enter_context(_with_vectors(request.getfixturevalue("new_postgres")))) as open_one:
        yield open_one


@contextmanager
def _outside(postgres: Callable[[ExitStack], Database]) -> Iterator[OpenOutside]:
    with _stores() as open_store, ExitStack() as stack:

        def open_one(kind: str, dimensions: int) -> PgVectorIndex | Fed:
            if kind == "pgvector":
                return _pgvector(postgres(stack), dimensions)
            return _fed(stack, open_store(kind, dimensions), dimensions)

        yield open_one


def _pgvector(database: Database, dimensions: int) -> PgVectorIndex:
    from langmem_adapter.index.pgvector import PgVectorIndex

    index = PgVectorIndex(database, dimensions, exact_up_to=None)
    with database.derived(1) as connection:
        index.prepare(connection)
    index.update(replace(Batch.empty(dimensions), gone=index.pks()))
    return index


def _fed(stack: ExitStack, store: VectorStore, dimensions: int) -> Fed:
    from langmem_adapter.index.stores import wrap_store
    from langmem_adapter.index.vectorstore import VectorStoreIndex

    database = Database(":memory:")
    prepare(database)
    stack.callback(database.close)
    make = partial(VectorStoreIndex, wrap_store(store), database, exact_up_to=0)
    return Fed(database, SharedIndexer(database, make, fingerprint="spelt", dimensions=dimensions))
