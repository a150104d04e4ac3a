"""Mem0's vector stores by name: where the memories lie, and the LangChain vector store that finds them.

The database holds every memory. A store is an index of it: its entries lie in a collection of their own,
`<collection_name>_langmem_adapter`, and a collection with entries of another program is never written.
"""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from langchain_core.vectorstores import VectorStore
from sqlalchemy import URL

from langmem_adapter.adapters.mem0.models import langchain_object
from langmem_adapter.adapters.mem0.tables import chosen, imported
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.index.stores import milvus_has_others, opened
from langmem_adapter.index.vectorstore import StoreErrors
from langmem_adapter.records.checks import quoted
from langmem_adapter.storage.urls import expanded

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from langchain_core.embeddings import Embeddings

    from langmem_adapter.adapters.mem0.sections import Section
    from langmem_adapter.adapters.mem0.tables import Provider

__all__ = ["MEMORY", "StoreSection", "open_store", "read_store"]

MEMORY: Final = ":memory:"
_WHERE: Final = "config.vector_store"


@dataclass(frozen=True, slots=True)
class StoreSection:
    """What a `vector_store` says; *is_named* is whether it names the collection, *arguments* are those of the store's class."""

    provider: str
    collection: str
    is_named: bool
    arguments: dict[str, Any] = field(repr=False)  # keys and passwords among them

    @property
    def url(self) -> URL | str | None:
        """The Postgres that is the database, if it is one."""
        if self.provider not in {"pgvector", "supabase"}:
            return None
        parts = self.arguments
        if "connection_string" in parts:
            return str(parts["connection_string"])
        return URL.create(
            "postgresql+psycopg",
            username=parts.get("user"),
            password=parts.get("password"),
            host=parts.get("host", "localhost"),
            port=int(parts.get("port", 5432)),
            database=parts.get("dbname", "postgres"),
            query={"sslmode": parts["sslmode"]} if "sslmode" in parts else {},
        )

    @property
    def folder(self) -> Path | None:
        """Where a store on this machine keeps its files, if the configuration says so."""
        path = self.arguments.get("path") or self.arguments.get("uri")
        if (
            not isinstance(path, str | Path)
            or path == MEMORY
            or ("uri" in self.arguments and not str(path).endswith(".db"))
        ):
            return None
        return expanded(path)


def read_store(section: Section) -> StoreSection:
    """Read a `vector_store`.

    Raises:
        InvalidInputError: The provider is unknown, or an option cannot be honoured.
    """
    row, options = chosen(section.provider, "vector_store"), dict(section.config)
    given = None if "collection_name" in row.idle else options.pop("collection_name", None)
    collection = "mem0" if given is None else given
    if not isinstance(collection, str) or not collection.strip() or Path(collection).name != collection:
        raise InvalidInputError(f"{_WHERE}.config.collection_name must be a plain name, not {quoted(collection)}")
    return StoreSection(section.provider, collection, given is not None, row.arguments(options, f"{_WHERE}.config"))


def open_store(store: StoreSection, vectors: Embeddings, closing: ExitStack) -> VectorStore:
    """The LangChain vector store; a client that is made for it is closed with *closing*.

    Raises:
        InvalidInputError: Its collection holds entries of another program.
        MissingDependencyError: Its package is not installed.
        StorageError: The store cannot be reached.
    """
    row, name = chosen(store.provider, "vector_store"), f"{store.collection}_langmem_adapter"
    # Contract: a collection with entries of another program is never written, altered or deleted.
    # `test_a_collection_of_mem0_itself_is_never_written`
    with StoreErrors(store.provider):
        if store.provider == "milvus" and store.folder is not None:
            store.arguments["uri"] = str(store.folder)
        index: VectorStore = _MAKERS.get(store.provider, _other)(row, name, vectors, dict(store.arguments), closing)
        kept = opened(index)
        if kept.has_others():
            _refuse(kept.kind, kept.collection)
    return index


def _refuse(kind: str, collection: str) -> NoReturn:
    text = f"the {kind} collection {collection!r} holds entries of another program and is not written; name another one"
    raise InvalidInputError(text)


def _given(_: Provider, __: str, ___: Embeddings, options: dict[str, Any], ____: ExitStack) -> Any:
    return langchain_object(options, _WHERE, VectorStore, "a LangChain VectorStore", "client")


def _qdrant(row: Provider, name: str, vectors: Embeddings, options: dict[str, Any], closing: ExitStack) -> Any:
    make = imported("langchain_qdrant:QdrantVectorStore", row.package)
    client = options.pop("client", None)
    if client is None:
        if options.keys() <= {"path"}:
            path = options.get("path", "/tmp/qdrant")  # noqa: S108 - Mem0's default
            options = {"location": MEMORY} if path == MEMORY else {"path": str(expanded(path))}
        else:
            options["check_compatibility"] = False
        client = imported("qdrant_client:QdrantClient", row.package)(**options)
        closing.callback(client.close)
    return make(client, name, vectors, validate_embeddings=False, validate_collection_config=False)


def _chroma(row: Provider, name: str, vectors: Embeddings, options: dict[str, Any], _: ExitStack) -> Any:
    make = imported("langchain_chroma:Chroma", row.package)
    import chromadb  # noqa: PLC0415 - it comes with langchain-chroma, and takes long to load

    quiet = chromadb.Settings(anonymized_telemetry=False)
    if "client" in options:
        client = options["client"]
    elif {"api_key", "tenant"} <= options.keys():
        client = chromadb.CloudClient(options["tenant"], "mem0", options["api_key"], settings=quiet)
    elif "host" in options:
        client = chromadb.HttpClient(options["host"], int(options.get("port", 8000)), settings=quiet)
    else:
        client = chromadb.PersistentClient(str(expanded(options.get("path", "db"))), quiet)
    return make(name, vectors, client=client, collection_configuration={"hnsw": {"space": "cosine"}})


def _milvus(row: Provider, name: str, vectors: Embeddings, options: dict[str, Any], closing: ExitStack) -> Any:
    make = imported("langchain_milvus:Milvus", row.package)
    with contextlib.closing(imported("pymilvus:MilvusClient", row.package)(**options)) as client:
        if milvus_has_others(client, name):  # LangChain's class would make an index in whatever there is
            _refuse("Milvus", name)
    store = make(vectors, name, connection_args=options, primary_field="id")
    closing.callback(store.client.close)
    return store


def _weaviate(row: Provider, name: str, vectors: Embeddings, options: dict[str, Any], closing: ExitStack) -> Any:
    make, weaviate = (
        imported("langchain_weaviate:WeaviateVectorStore", row.package),
        importlib.import_module("weaviate"),
    )
    address, headers = options["cluster_url"], options.get("additional_headers")
    host, _, port = address.partition("://")[2].rstrip("/").partition(":")
    if host in {"localhost", "127.0.0.1"}:
        client = weaviate.connect_to_local(host, int(port or 8080), headers=headers)
    else:
        key = options.get("auth_client_secret")
        client = weaviate.connect_to_weaviate_cloud(address, auth_credentials=key, headers=headers)
    closing.callback(client.close)
    return make(client=client, index_name=name, text_key="text", embedding=vectors)


def _other(row: Provider, name: str, vectors: Embeddings, options: dict[str, Any], _: ExitStack) -> Any:
    parts = {**row.defaults.get("parts", {}), **options.pop("parts", {}), "collection": name}
    parts["scheme"] = "https" if parts.pop("ssl", False) else "http"
    made = {argument: template.format(**parts) for argument, template in row.templates.items()}
    if "es_cloud_id" in options:
        del made["es_url"]
    own = {row.collection: name, row.embedding: vectors}
    return imported(row.target, row.package)(**own, **made, **options)


_MAKERS: Final[dict[str, Callable[[Provider, str, Embeddings, dict[str, Any], ExitStack], Any]]] = {
    "langchain": _given,
    "qdrant": _qdrant,
    "chroma": _chroma,
    "milvus": _milvus,
    "weaviate": _weaviate,
}
