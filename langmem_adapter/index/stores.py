"""LangChain vector stores as places for our vectors: what each kind can do, and how it is told.

Qdrant, Chroma and Milvus are spoken to in their own words (filters, vectors given ready, listing); any other store in the
words that every LangChain `VectorStore` knows, which do not include a filter: there the caller looks further until it has
enough.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langmem_adapter.index.base import Vectors

_PAGE: Final = 500
_NEAR_ENOUGH: Final = 0.99  # cosine of two vectors of one text by one model, whatever rounding a provider does


@dataclass(frozen=True, slots=True, eq=False)
class StoreEntry:
    """A memory as a store gets it, or has it."""

    id: str  # a UUID: Qdrant takes nothing else
    pk: int
    scope: int  # the id of its scope
    seq: int  # the number of its last change
    database: str  # tells this database's memories from others in the same collection
    vector: Vectors  # its unit vector; without numbers where a store does not show it
    text: str = ""  # never read back

    @classmethod
    def read(cls, name: str, metadata: Mapping[str, Any], vector: Any = None) -> StoreEntry:
        """As a store gives it back; some give numbers back as floats."""
        pk, scope, seq = (int(metadata[key]) for key in ("pk", "scope_id", "seq"))
        numbers = np.asarray([] if vector is None else vector, np.float32)
        return cls(name, pk, scope, seq, str(metadata["database"]), numbers)

    @property
    def metadata(self) -> dict[str, Any]:
        """What stands beside it in the store."""
        return {"pk": self.pk, "scope_id": self.scope, "seq": self.seq, "database": self.database}


class Store(Protocol):
    """What the index needs of a store. Every method may raise whatever the store's driver raises."""

    @property
    def kind(self) -> str:
        """Its kind, for people."""

    @property
    def collection(self) -> str:
        """Name of the collection in it."""

    @property
    def private(self) -> bool:
        """Whether it lives in this process and dies with it."""

    def check(self, dimensions: int, sample: StoreEntry | None) -> None:
        """Refuse, with `EmbeddingMismatchError`, a store that cannot hold these vectors, or makes others of its own.

        A collection that is missing is made, where the store needs one before its first entry.
        """

    def has_others(self) -> bool | None:
        """Whether it holds an entry that no index of ours has put there; `None` if it cannot tell."""

    def put(self, entries: Sequence[StoreEntry]) -> None:
        """Insert or overwrite by id."""

    def drop(self, ids: Sequence[str]) -> None:
        """Remove by id; unknown ids are ignored."""

    def nearest(self, query: Vectors, k: int, scopes: Sequence[int] | None, database: str) -> tuple[list[int], int]:
        """Pks of the nearest, and how many it gave in all; fewer than *k* means that there are no more.

        Args:
            query: A unit vector.
            k: How many to ask for.
            scopes: Restrict to these as the store can; `None` means all.
            database: Whose; others are left out.
        """

    def held(self, ids: Sequence[str]) -> dict[str, StoreEntry] | None:
        """Those of the given ids that it has; `None` if it cannot tell."""

    def listing(self, database: str) -> Iterator[StoreEntry] | None:
        """Everything that it has of a database; `None` if it cannot be listed."""


def wrap_store(store: VectorStore) -> Store:
    """The right words for a store.

    Raises:
        InvalidInputError: It is no vector store, or one that cannot be searched by dense vectors.
    """
    if not isinstance(store, VectorStore):
        raise InvalidInputError(
            f"an index is 'faiss', 'exact', 'pgvector' or a LangChain VectorStore, not a {type(store).__name__}"
        )
    names = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(store).__mro__}
    if "langchain_qdrant.QdrantVectorStore" in names:
        return _Qdrant(store)
    if "langchain_chroma.Chroma" in names:
        return _Chroma(store)
    if "langchain_milvus.Milvus" in names:
        return _Milvus(store)
    return _Any(store)


def _check_length(store: Store, held: int | str, dimensions: int) -> None:
    if held != dimensions:
        raise EmbeddingMismatchError(
            f"the {store.kind} collection {store.collection} holds vectors of {held} dimensions, ours have {dimensions}; make "
            "a collection for them"
        )


# ── Qdrant ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Qdrant:
    """Points with ready vectors; filters on the payload; exact search within them is Qdrant's own affair."""

    def __init__(self, store: Any) -> None:
        from qdrant_client import models  # noqa: PLC0415 - there is one where there is such a store

        if store.retrieval_mode.value == "sparse":
            raise InvalidInputError("this Qdrant store holds sparse vectors only; make it with RetrievalMode.DENSE")
        self._models: Final = models
        self._client: Final = store.client
        self._store: Final = store
        self.collection: Final = str(store.collection_name)
        self.kind: Final = "Qdrant"
        self._prefix: Final = f"{store.metadata_payload_key}."

    @property
    def private(self) -> bool:
        return getattr(getattr(self._client, "_client", None), "location", None) == ":memory:"

    def check(self, dimensions: int, sample: StoreEntry | None) -> None:  # noqa: ARG002 - it gets our vectors
        if not self._client.collection_exists(self.collection):
            size = self._models.VectorParams(size=dimensions, distance=self._models.Distance.COSINE)
            name = self._store.vector_name
            self._client.create_collection(self.collection, vectors_config={name: size} if name else size)
        vectors = self._client.get_collection(self.collection).config.params.vectors
        kept: Any = vectors.get(self._store.vector_name) if isinstance(vectors, dict) else vectors
        _check_length(self, getattr(kept, "size", "no"), dimensions)
        if kept.distance == self._models.Distance.MANHATTAN:
            raise InvalidInputError(
                f"the Qdrant collection {self.collection} compares by Manhattan distance; use Cosine"
            )

    def has_others(self) -> bool:
        if not self._client.collection_exists(self.collection):
            return False
        mark = self._models.PayloadField(key=f"{self._prefix}database")
        unmarked = self._models.Filter(must=[self._models.IsEmptyCondition(is_empty=mark)])
        points, _ = self._client.scroll(self.collection, scroll_filter=unmarked, limit=1, with_payload=False)
        return bool(points)

    def put(self, entries: Sequence[StoreEntry]) -> None:
        points = [self._point(entry) for entry in entries]
        self._client.upsert(self.collection, points, wait=True)

    def _point(self, entry: StoreEntry) -> Any:
        vector, name = entry.vector.tolist(), self._store.vector_name
        payload = {self._store.content_payload_key: entry.text, self._store.metadata_payload_key: entry.metadata}
        return self._models.PointStruct(id=entry.id, vector={name: vector} if name else vector, payload=payload)

    def drop(self, ids: Sequence[str]) -> None:
        self._client.delete(self.collection, self._models.PointIdsList(points=list(ids)), wait=True)

    def nearest(self, query: Vectors, k: int, scopes: Sequence[int] | None, database: str) -> tuple[list[int], int]:
        points = self._client.query_points(
            self.collection,
            query=query.tolist(),
            using=self._store.vector_name or None,
            query_filter=self._filter(scopes, database),
            limit=k,
            with_payload=[f"{self._prefix}pk"],
        ).points
        found = [point.payload[self._store.metadata_payload_key]["pk"] for point in points]
        return found, len(points)

    def _filter(self, scopes: Sequence[int] | None, database: str) -> Any:
        models = self._models
        must = [models.FieldCondition(key=f"{self._prefix}database", match=models.MatchValue(value=database))]
        if scopes is not None:
            must.append(models.FieldCondition(key=f"{self._prefix}scope_id", match=models.MatchAny(any=list(scopes))))
        return models.Filter(must=must)

    def held(self, ids: Sequence[str]) -> dict[str, StoreEntry] | None:
        points = self._client.retrieve(self.collection, list(ids), with_payload=True, with_vectors=True)
        return {str(point.id): self._held(point) for point in points}

    def listing(self, database: str) -> Iterator[StoreEntry]:
        offset, more, chosen = None, True, self._filter(None, database)
        while more:
            points, offset = self._client.scroll(
                self.collection,
                scroll_filter=chosen,
                limit=_PAGE,
                offset=offset,
                with_payload=True,
                with_vectors=True,
            )
            yield from map(self._held, points)
            more = offset is not None

    def _held(self, point: Any) -> StoreEntry:
        name = self._store.vector_name
        vector = point.vector.get(name) if isinstance(point.vector, dict) else point.vector
        return StoreEntry.read(str(point.id), point.payload[self._store.metadata_payload_key], vector)


# ── Chroma ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Chroma:
    """Records with ready vectors; filters on the metadata."""

    def __init__(self, store: Any) -> None:
        # LangChain's class takes no ready vectors and keeps the collection, which does, to itself.
        self._records: Final = store._collection  # noqa: SLF001 - see above
        self._client: Final = store._client  # noqa: SLF001 - the same
        self.collection: Final = str(self._records.name)
        self.kind: Final = "Chroma"

    @property
    def private(self) -> bool:
        settings = self._client.get_settings()
        return not settings.is_persistent and settings.chroma_server_host is None

    def check(self, dimensions: int, sample: StoreEntry | None) -> None:  # noqa: ARG002 - it gets our vectors
        found = self._records.get(limit=1, include=["embeddings"])["embeddings"]
        if len(found):
            _check_length(self, len(found[0]), dimensions)

    def has_others(self) -> bool:
        return any("database" not in (metadata or {}) for metadata in self._records.peek(1)["metadatas"])

    def put(self, entries: Sequence[StoreEntry]) -> None:
        self._records.upsert(
            ids=[entry.id for entry in entries],
            embeddings=np.stack([entry.vector for entry in entries]),
            metadatas=[entry.metadata for entry in entries],
            documents=[entry.text for entry in entries],
        )

    def drop(self, ids: Sequence[str]) -> None:
        self._records.delete(ids=list(ids))

    def nearest(self, query: Vectors, k: int, scopes: Sequence[int] | None, database: str) -> tuple[list[int], int]:
        where: dict[str, Any] = {"database": database}
        if scopes is not None:
            where = {"$and": [where, {"scope_id": {"$in": list(scopes)}}]}
        found = self._records.query(query_embeddings=query[None], n_results=k, where=where, include=["metadatas"])
        pks = [int(metadata["pk"]) for metadata in found["metadatas"][0]]
        return pks, len(pks)

    def held(self, ids: Sequence[str]) -> dict[str, StoreEntry] | None:
        found = self._records.get(ids=list(ids), include=["metadatas", "embeddings"])
        return {held.id: held for held in _chroma_rows(found)}

    def listing(self, database: str) -> Iterator[StoreEntry]:
        offset, more = 0, True
        while more:
            found = self._records.get(
                where={"database": database}, limit=_PAGE, offset=offset, include=["metadatas", "embeddings"]
            )
            yield from _chroma_rows(found)
            offset, more = offset + _PAGE, len(found["ids"]) == _PAGE


def _chroma_rows(found: Mapping[str, Any]) -> Iterator[StoreEntry]:
    for name, metadata, vector in zip(found["ids"], found["metadatas"], found["embeddings"], strict=True):
        yield StoreEntry.read(name, metadata, vector)


# ── Milvus ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Milvus:
    """Entities with ready vectors, in dynamic fields; filters on them."""

    def __init__(self, store: Any) -> None:
        self._client: Final = store.client
        # The names of these two are kept to itself by LangChain's class.
        self._id: Final = store._primary_field  # noqa: SLF001 - see above
        self._vector: Final = store._vector_field  # noqa: SLF001 - the same
        self.collection: Final = str(store.collection_name)
        self.kind: Final = "Milvus"
        self.private: Final = False

    def check(self, dimensions: int, sample: StoreEntry | None) -> None:  # noqa: ARG002 - it gets our vectors
        if not self._client.has_collection(self.collection):
            names = {"primary_field_name": self._id, "vector_field_name": self._vector}
            kind = {"id_type": "string", "max_length": 64, "metric_type": "COSINE", "consistency_level": "Strong"}
            self._client.create_collection(self.collection, dimensions, auto_id=False, **names, **kind)
        fields = self._client.describe_collection(self.collection)["fields"]
        sizes = {field["name"]: field["params"].get("dim") for field in fields}
        _check_length(self, int(sizes.get(self._vector) or 0), dimensions)
        self._client.load_collection(self.collection)

    def has_others(self) -> bool:
        return milvus_has_others(self._client, self.collection)

    def put(self, entries: Sequence[StoreEntry]) -> None:
        rows = [
            {self._id: entry.id, self._vector: entry.vector.tolist(), "text": entry.text, **_milvus_fields(entry)}
            for entry in entries
        ]
        self._client.upsert(self.collection, rows)

    def drop(self, ids: Sequence[str]) -> None:
        self._client.delete(self.collection, ids=list(ids))

    def nearest(self, query: Vectors, k: int, scopes: Sequence[int] | None, database: str) -> tuple[list[int], int]:
        within = "" if scopes is None else f" and scope_id in {list(scopes)}"
        (hits,) = self._client.search(
            self.collection,
            [query.tolist()],
            filter=f'database == "{database}"{within}',
            limit=k,
            output_fields=["memory_pk"],
            anns_field=self._vector,
        )
        return [int(hit["entity"]["memory_pk"]) for hit in hits], len(hits)

    def held(self, ids: Sequence[str]) -> dict[str, StoreEntry] | None:
        return {held.id: held for held in map(self._held, self._client.get(self.collection, list(ids)))}

    def listing(self, database: str) -> Iterator[StoreEntry]:
        pages = self._client.query_iterator(
            self.collection, _PAGE, filter=f'database == "{database}"', output_fields=["*"]
        )
        while page := pages.next():
            yield from map(self._held, page)
        pages.close()

    def _held(self, row: Mapping[str, Any]) -> StoreEntry:
        return StoreEntry.read(row[self._id], {**row, "pk": row["memory_pk"]}, row.get(self._vector))


def milvus_has_others(client: Any, collection: str) -> bool:
    """See `Store.has_others`; the first entry tells."""
    if not client.has_collection(collection):
        return False
    client.load_collection(collection)
    return any("database" not in row for row in client.query(collection, limit=1, output_fields=["*"]))


def _milvus_fields(entry: StoreEntry) -> dict[str, Any]:
    """What stands beside an entity; `pk` is what LangChain's class calls the primary key."""
    metadata = entry.metadata
    return {"memory_pk": metadata.pop("pk"), **metadata}


# ── any other ───────────────────────────────────────────────────────────────────────────────────────────────────────


class _Any:
    """Documents, by the methods that all vector stores share; ready vectors where it has `add_embeddings`."""

    def __init__(self, store: VectorStore) -> None:
        self._store: Final = store
        self._add: Final = _adder(store)
        self.kind: Final = type(store).__name__
        names = (getattr(store, name, None) for name in ("collection_name", "index_name", "table_name"))
        self.collection: Final = next((name for name in names if isinstance(name, str)), "")

    @property
    def private(self) -> bool:
        return isinstance(self._store, InMemoryVectorStore)

    def check(self, dimensions: int, sample: StoreEntry | None) -> None:
        embeddings = self._store.embeddings
        if self._add is not None or sample is None or embeddings is None:
            return
        theirs = np.asarray(embeddings.embed_documents([sample.text])[0], np.float64)
        if len(theirs) != dimensions:
            raise EmbeddingMismatchError(
                f"the vector store {self.kind} embeds with {len(theirs)} dimensions, ours have {dimensions}; give it the "
                "embeddings that the memory has"
            )
        if float(theirs @ sample.vector) < _NEAR_ENOUGH * float(np.linalg.norm(theirs)):
            raise EmbeddingMismatchError(
                f"the vector store {self.kind} embeds with another model than the memory; give both the same embeddings"
            )

    def has_others(self) -> bool | None:
        return None

    def put(self, entries: Sequence[StoreEntry]) -> None:
        ids = [entry.id for entry in entries]
        there = self.held(ids)
        if there:  # most stores overwrite by id, as they should; some refuse an id that they have
            self._store.delete(list(there))
        if self._add is not None:
            self._add(entries)
        else:
            documents = [Document(entry.text, id=entry.id, metadata=entry.metadata) for entry in entries]
            self._store.add_documents(documents, ids=ids)

    def drop(self, ids: Sequence[str]) -> None:
        there = self.held(ids)
        known = list(ids) if there is None else list(there)
        if known:
            self._store.delete(known)

    def nearest(
        self,
        query: Vectors,
        k: int,
        scopes: Sequence[int] | None,  # noqa: ARG002 - every store has filters of its own
        database: str,
    ) -> tuple[list[int], int]:
        found = self._store.similarity_search_by_vector(query.tolist(), k=k)
        ours = [document.metadata for document in found if _is_ours(document.metadata, database)]
        return [int(metadata["pk"]) for metadata in ours], len(found)

    def held(self, ids: Sequence[str]) -> dict[str, StoreEntry] | None:
        if type(self._store).get_by_ids is VectorStore.get_by_ids:
            return None
        found = self._store.get_by_ids(list(ids))
        return {str(document.id): StoreEntry.read(str(document.id), document.metadata) for document in found}

    def listing(self, database: str) -> Iterator[StoreEntry] | None:  # noqa: ARG002 - it cannot
        return None


def _is_ours(metadata: Mapping[str, Any], database: str) -> bool:
    return metadata.get("database") == database and "pk" in metadata


def _adder(store: VectorStore) -> Callable[[Sequence[StoreEntry]], object] | None:
    """How a store takes ready vectors: `add_embeddings` comes with two signatures."""
    add = getattr(store, "add_embeddings", None)
    names = set() if add is None else set(inspect.signature(add).parameters)
    apart = {"texts", "embeddings"} <= names  # PGVector, PGVectorStore; FAISS, OpenSearch and Elasticsearch take pairs
    if add is None or not (apart or "text_embeddings" in names):
        return None

    def put(entries: Sequence[StoreEntry]) -> None:
        texts, vectors = [entry.text for entry in entries], [entry.vector.tolist() for entry in entries]
        pairs = list(zip(texts, vectors, strict=True))
        given = {"texts": texts, "embeddings": vectors} if apart else {"text_embeddings": pairs}
        add(**given, metadatas=[entry.metadata for entry in entries], ids=[entry.id for entry in entries])

    return put
