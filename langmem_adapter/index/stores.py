"""LangChain vector stores (Qdrant, Chroma, Milvus, any other) as places for the vectors of memories.

Qdrant, Chroma and Milvus are used through their own clients: filters, vectors that are ready, listing. Any other store is used
through the methods that every LangChain `VectorStore` has. These know no filter: there the caller asks for more until it has
enough.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

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
        return {"pk": self.pk, "scope_id": self.scope, "seq": self.seq, "database": self.database}


class Store:
    """Any LangChain store: documents; ready vectors where it has `add_embeddings`. Methods may raise what its driver raises."""

    def __init__(self, store: Any) -> None:
        self._store: Final = store
        self.kind = type(store).__name__
        names = (getattr(store, name, None) for name in ("collection_name", "index_name", "table_name"))
        self.collection = next((name for name in names if isinstance(name, str)), "")
        self._add = _adder(store)

    @property
    def private(self) -> bool:
        """Whether it lives in this process and dies with it."""
        return isinstance(self._store, InMemoryVectorStore)

    def check(self, dimensions: int, sample: StoreEntry | None) -> None:
        """Refuse, with `EmbeddingMismatchError`, a store that cannot hold these vectors, or makes its own.

        A collection that is missing is made, where the store needs one before its first entry.
        """
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

    def _check_length(self, length: int | str, dimensions: int) -> None:
        if length != dimensions:
            raise EmbeddingMismatchError(
                f"the {self.kind} collection {self.collection} holds vectors of {length} dimensions, ours have {dimensions}; "
                "make a collection for them"
            )

    def has_others(self) -> bool | None:
        """Whether it holds an entry that no index of ours has put there; `None` if it cannot tell."""
        return None

    def put(self, entries: Sequence[StoreEntry]) -> None:
        ids = [entry.id for entry in entries]
        if there := self.get(ids):  # most stores overwrite by id, as they should; some refuse an id that they have
            self._store.delete(list(there))
        if self._add is not None:
            self._add(entries)
        else:
            documents = [Document(entry.text, id=entry.id, metadata=entry.metadata) for entry in entries]
            self._store.add_documents(documents, ids=ids)

    def drop(self, ids: Sequence[str]) -> None:
        """Remove by id; unknown ids are ignored."""
        there = self.get(ids)
        if present := list(ids) if there is None else list(there):
            self._store.delete(present)

    def nearest(
        self,
        query: Vectors,
        k: int,
        scopes: Sequence[int] | None,  # noqa: ARG002 - every store has its own filters
        database: str,
    ) -> tuple[list[int], int]:
        """Pks of the nearest, and how many it gave in all; fewer than *k* means that there are no more.

        The store narrows by *scopes* as it can. *database* is the mark of the database: entries of others are left out.
        """
        documents = self._store.similarity_search_by_vector(query.tolist(), k=k)
        every = [document.metadata for document in documents]
        ours = [int(each["pk"]) for each in every if each.get("database") == database and "pk" in each]
        return ours, len(documents)

    def get(self, ids: Sequence[str]) -> dict[str, StoreEntry] | None:
        """Those of the given ids that it has; `None` if it cannot tell."""
        if type(self._store).get_by_ids is VectorStore.get_by_ids:
            return None
        documents = self._store.get_by_ids(list(ids))
        return {str(document.id): StoreEntry.read(str(document.id), document.metadata) for document in documents}

    def entries(self, database: str) -> Iterator[StoreEntry] | None:  # noqa: ARG002 - it cannot
        """Everything that it has of a database; `None` if it cannot be listed."""
        return None


def _adder(store: Any) -> Callable[[Sequence[StoreEntry]], object] | None:
    """How a store takes ready vectors: `add_embeddings` comes with two signatures."""
    add = getattr(store, "add_embeddings", None)
    names = set() if add is None else set(inspect.signature(add).parameters)
    apart = {"texts", "embeddings"} <= names  # PGVector, PGVectorStore; FAISS, OpenSearch and Elasticsearch take pairs
    if add is None or not (apart or "text_embeddings" in names):
        return None

    def put(entries: Sequence[StoreEntry]) -> None:
        texts, vectors = [entry.text for entry in entries], [entry.vector.tolist() for entry in entries]
        pairs = {"text_embeddings": list(zip(texts, vectors, strict=True))}
        arguments = {"texts": texts, "embeddings": vectors} if apart else pairs
        add(**arguments, metadatas=[entry.metadata for entry in entries], ids=[entry.id for entry in entries])

    return put


def wrap_store(store: VectorStore) -> Store:
    """The methods for a store."""
    if not isinstance(store, VectorStore):
        raise InvalidInputError(
            f"an index is 'faiss', 'exact', 'pgvector' or a LangChain VectorStore, not a {type(store).__name__}"
        )
    names = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(store).__mro__}
    kinds = {"langchain_qdrant.QdrantVectorStore": _Qdrant, "langchain_chroma.Chroma": _Chroma}
    kinds["langchain_milvus.Milvus"] = _Milvus
    return next((kind for name, kind in kinds.items() if name in names), Store)(store)


class _Qdrant(Store):
    """Points with ready vectors; filters on the payload; exact search within them is Qdrant's own affair."""

    def __init__(self, store: Any) -> None:
        from qdrant_client import models  # noqa: PLC0415 - there is one where there is such a store

        super().__init__(store)
        if store.retrieval_mode.value == "sparse":
            raise InvalidInputError("this Qdrant store holds sparse vectors only; make it with RetrievalMode.DENSE")
        self._models: Final = models
        self._client: Final = store.client
        self.kind = "Qdrant"
        self._metadata_key: Final = store.metadata_payload_key

    @property
    def private(self) -> bool:
        return getattr(getattr(self._client, "_client", None), "location", None) == ":memory:"

    def check(self, dimensions: int, sample: StoreEntry | None) -> None:  # noqa: ARG002 - it gets our vectors
        name, distance = self._store.vector_name, self._models.Distance
        if not self._client.collection_exists(self.collection):
            size = self._models.VectorParams(size=dimensions, distance=distance.COSINE)
            self._client.create_collection(self.collection, vectors_config={name: size} if name else size)
        vectors = self._client.get_collection(self.collection).config.params.vectors
        kept: Any = vectors.get(name) if isinstance(vectors, dict) else vectors
        self._check_length(getattr(kept, "size", "no"), dimensions)
        if kept.distance == distance.MANHATTAN:
            raise InvalidInputError(
                f"the Qdrant collection {self.collection} compares by Manhattan distance; use Cosine"
            )

    def has_others(self) -> bool:
        if not self._client.collection_exists(self.collection):
            return False
        mark = self._models.PayloadField(key=f"{self._metadata_key}.database")
        unmarked = self._models.Filter(must=[self._models.IsEmptyCondition(is_empty=mark)])
        points, _ = self._client.scroll(self.collection, scroll_filter=unmarked, limit=1, with_payload=False)
        return bool(points)

    def put(self, entries: Sequence[StoreEntry]) -> None:
        points = []
        for entry in entries:
            vector, name = entry.vector.tolist(), self._store.vector_name
            payload = {self._store.content_payload_key: entry.text, self._metadata_key: entry.metadata}
            vectors = {name: vector} if name else vector
            points.append(self._models.PointStruct(id=entry.id, vector=vectors, payload=payload))
        self._client.upsert(self.collection, points, wait=True)

    def drop(self, ids: Sequence[str]) -> None:
        self._client.delete(self.collection, self._models.PointIdsList(points=list(ids)), wait=True)

    def nearest(self, query: Vectors, k: int, scopes: Sequence[int] | None, database: str) -> tuple[list[int], int]:
        points = self._client.query_points(
            self.collection,
            query=query.tolist(),
            using=self._store.vector_name or None,
            query_filter=self._filter(scopes, database),
            limit=k,
            with_payload=[f"{self._metadata_key}.pk"],
        ).points
        return [point.payload[self._metadata_key]["pk"] for point in points], len(points)

    def _filter(self, scopes: Sequence[int] | None, database: str) -> Any:
        models, key = self._models, self._metadata_key
        must = [models.FieldCondition(key=f"{key}.database", match=models.MatchValue(value=database))]
        if scopes is not None:
            must.append(models.FieldCondition(key=f"{key}.scope_id", match=models.MatchAny(any=list(scopes))))
        return models.Filter(must=must)

    def get(self, ids: Sequence[str]) -> dict[str, StoreEntry] | None:
        points = self._client.retrieve(self.collection, list(ids), with_payload=True, with_vectors=True)
        return {str(point.id): self._entry(point) for point in points}

    def entries(self, database: str) -> Iterator[StoreEntry]:
        offset, more = None, True
        options = {"scroll_filter": self._filter(None, database), "limit": _PAGE}
        while more:
            points, offset = self._client.scroll(
                self.collection, **options, offset=offset, with_payload=True, with_vectors=True
            )
            yield from map(self._entry, points)
            more = offset is not None

    def _entry(self, point: Any) -> StoreEntry:
        name = self._store.vector_name
        vector = point.vector.get(name) if isinstance(point.vector, dict) else point.vector
        return StoreEntry.read(str(point.id), point.payload[self._metadata_key], vector)


class _Chroma(Store):
    """Records with ready vectors; filters on the metadata."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        # LangChain's class takes no ready vectors and keeps the collection, which does, to itself.
        self._records: Final = store._collection  # noqa: SLF001 - see above
        self._client: Final = store._client  # noqa: SLF001 - the same
        self.collection = str(self._records.name)

    @property
    def private(self) -> bool:
        settings = self._client.get_settings()
        return not settings.is_persistent and settings.chroma_server_host is None

    def check(self, dimensions: int, sample: StoreEntry | None) -> None:  # noqa: ARG002 - it gets our vectors
        vectors = self._records.get(limit=1, include=["embeddings"])["embeddings"]
        if len(vectors):
            self._check_length(len(vectors[0]), dimensions)

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
        reply = self._records.query(query_embeddings=query[None], n_results=k, where=where, include=["metadatas"])
        pks = [int(metadata["pk"]) for metadata in reply["metadatas"][0]]
        return pks, len(pks)

    def get(self, ids: Sequence[str]) -> dict[str, StoreEntry] | None:
        return {entry.id: entry for entry in self._read(ids=list(ids))}

    def entries(self, database: str) -> Iterator[StoreEntry]:
        offset, page = 0, list[Any]([None] * _PAGE)
        while len(page) == _PAGE:
            page = self._read(where={"database": database}, limit=_PAGE, offset=offset)
            yield from page
            offset += _PAGE

    def _read(self, **options: Any) -> list[Any]:
        reply = self._records.get(**options, include=["metadatas", "embeddings"])
        return list(map(StoreEntry.read, reply["ids"], reply["metadatas"], reply["embeddings"]))


class _Milvus(Store):
    """Entities with ready vectors, in dynamic fields; filters on them."""

    private: Final = False

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self._client: Final = store.client
        # The names of these two are kept to itself by LangChain's class.
        self._id: Final = store._primary_field  # noqa: SLF001 - see above
        self._vector: Final = store._vector_field  # noqa: SLF001 - the same

    def check(self, dimensions: int, sample: StoreEntry | None) -> None:  # noqa: ARG002 - it gets our vectors
        if not self._client.has_collection(self.collection):
            names = {"primary_field_name": self._id, "vector_field_name": self._vector}
            kind = {"id_type": "string", "max_length": 64, "metric_type": "COSINE", "consistency_level": "Strong"}
            self._client.create_collection(self.collection, dimensions, auto_id=False, **names, **kind)
        fields = self._client.describe_collection(self.collection)["fields"]
        sizes = {field["name"]: field["params"].get("dim") for field in fields}
        self._check_length(int(sizes.get(self._vector) or 0), dimensions)
        self._client.load_collection(self.collection)

    def has_others(self) -> bool:
        return milvus_has_others(self._client, self.collection)

    def put(self, entries: Sequence[StoreEntry]) -> None:
        rows = []
        for entry in entries:
            metadata = entry.metadata
            own = {"text": entry.text, "memory_pk": metadata.pop("pk")}  # `pk` is LangChain's name of the primary key
            rows.append({self._id: entry.id, self._vector: entry.vector.tolist(), **own, **metadata})
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

    def get(self, ids: Sequence[str]) -> dict[str, StoreEntry] | None:
        return {entry.id: entry for entry in map(self._entry, self._client.get(self.collection, list(ids)))}

    def entries(self, database: str) -> Iterator[StoreEntry]:
        only = f'database == "{database}"'
        pages = self._client.query_iterator(self.collection, _PAGE, filter=only, output_fields=["*"])
        while page := pages.next():
            yield from map(self._entry, page)
        pages.close()

    def _entry(self, row: Mapping[str, Any]) -> StoreEntry:
        return StoreEntry.read(row[self._id], {**row, "pk": row["memory_pk"]}, row.get(self._vector))


def milvus_has_others(client: Any, collection: str) -> bool:
    if not client.has_collection(collection):
        return False
    client.load_collection(collection)
    return any("database" not in row for row in client.query(collection, limit=1, output_fields=["*"]))
