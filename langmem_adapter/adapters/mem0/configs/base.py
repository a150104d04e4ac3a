"""Mem0's `MemoryConfig`, read strictly, with its vector stores.

The database holds every memory. A store is an index of it: its entries are in a separate collection,
`<collection_name>_langmem_adapter`, and a collection with entries of another program is never written.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from langchain_core.vectorstores import VectorStore
from sqlalchemy import URL

from langmem_adapter.adapters.mem0.providers import (
    import_class,
    langchain_object,
    provider_row,
    read_graph_store,
    section,
)
from langmem_adapter.adapters.mem0.shapes import one_of_two
from langmem_adapter.adapters.threads import check_keys
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.index.stores import milvus_has_others, wrap_store
from langmem_adapter.index.vectorstore import StoreErrors
from langmem_adapter.records.checks import quoted
from langmem_adapter.settings import Settings, default_database
from langmem_adapter.storage.drivers import expanded

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from langchain_core.embeddings import Embeddings

    from langmem_adapter.adapters.mem0.providers import Provider, Section

__all__ = ["MemoryConfig"]

_IN_MEMORY: Final = ":memory:"
_WHERE: Final = "config.vector_store"
_VERSIONS: Final = ("v1.0", "v1.1")

ELSEWHERE: Final = {
    "custom_prompt": "give the instructions as custom_fact_extraction_prompt",
    "collection_name": "put it into vector_store.config, or name the file in history_db_path",
    "rerank": "write reranker",
    "embedding_model_dims": "give embedder.config.embedding_dims",
    "enable_graph": "give graph_store={'provider': 'sql'} for a graph, and nothing for none",
}


class MemoryConfig:
    """What a memory is built from, with Mem0's keys. What is left out comes from our own settings, offline by default.

    Args:
        llm: `{"provider": …, "config": {"model": …, …}}`; the provider `"langchain"` takes a LangChain chat model as `model`.
        embedder: The same for embeddings. `tables.toml` has the providers of each section, with their keys.
        vector_store: `{"provider": …, "config": {"path": …, "collection_name": …}}`: an index that the database feeds. Without
            *history_db_path* the database is a file beside the path, named after the collection (`mem0` if it has no name);
            with `"pgvector"` it is that Postgres.
        graph_store: `{"provider": "sql"}` keeps a knowledge graph in the same database. `{"provider": "neo4j", "config":
            {"url": …, "username": …, "password": …, "database": …, "base_label": …}}` copies it to Neo4j as well (`"memgraph"`,
            with the first three, to Memgraph); nothing waits for that server. `"custom_prompt"` beside them says which
            relations matter, `"llm"` is the model where `llm` names none, `"threshold"` can be 1. Other graph databases are
            refused. Without `graph_store` our setting decides; by default there is no graph.
        history_db_path: The SQLite file of memories and history, or an SQLAlchemy URL; `":memory:"` keeps nothing.
        reranker: `{"provider": …, "config": {…}}` orders the best hits of a search once more; `"langchain"` takes a LangChain
            `BaseDocumentCompressor` as `model`.
        version: `"v1.1"`: results are `{"results": [...]}`, and `"relations"` beside them where there is a graph; `"v1.0"`:
            the bare list.
        custom_fact_extraction_prompt: Replaces the instructions for finding facts.
        custom_instructions: The same, in the words of Mem0 2.x.
        custom_update_memory_prompt: Replaces the instructions for comparing facts with what is known.

    Raises:
        InvalidInputError: A key is unknown or cannot be honoured; the message says what to do instead.

    Example:
        >>> MemoryConfig(history_db_path=":memory:", version="v1.0").bare
        True
        >>> MemoryConfig(graph_store={"provider": "kuzu"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        langmem_adapter.errors.InvalidInputError: config.graph_store.provider 'kuzu' is not here: the graph lies in the ...
    """

    def __init__(  # noqa: PLR0913 - Mem0's keys
        self,
        *,
        llm: Mapping[str, Any] | None = None,
        embedder: Mapping[str, Any] | None = None,
        vector_store: Mapping[str, Any] | None = None,
        graph_store: Mapping[str, Any] | None = None,
        reranker: Mapping[str, Any] | None = None,
        history_db_path: str | Path | None = None,
        version: Literal["v1.0", "v1.1"] = "v1.1",
        custom_fact_extraction_prompt: str | None = None,
        custom_instructions: str | None = None,
        custom_update_memory_prompt: str | None = None,
        **others: Any,
    ) -> None:
        check_keys(others, tuple(inspect.signature(MemoryConfig).parameters)[:-1], "config", ELSEWHERE)
        if version not in _VERSIONS:
            raise InvalidInputError(f"config.version must be 'v1.0' or 'v1.1', not {quoted(version)}")
        self.llm = None if llm is None else section(llm, "llm")
        self.embedder = None if embedder is None else section(embedder, "embedder")
        self.vector_store = None if vector_store is None else read_store(section(vector_store, "vector_store"))
        self.graph = None if graph_store is None else read_graph_store(graph_store)
        if self.graph is not None:
            self.llm = self.graph.join_llm(self.llm)
        self.reranker = None if reranker is None else section(reranker, "reranker")
        self.history_db_path = history_db_path
        self.bare = version == "v1.0"
        self.custom_fact_extraction_prompt = one_of_two(
            "config.custom_instructions",
            custom_instructions,
            "custom_fact_extraction_prompt",
            custom_fact_extraction_prompt,
        )
        self.custom_update_memory_prompt = custom_update_memory_prompt
        self.database = _database(self)

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> MemoryConfig:
        """The configuration of a dict."""
        if not isinstance(config, Mapping) or not all(isinstance(key, str) for key in config):
            raise InvalidInputError(f"a configuration is a dict like {{'llm': {{…}}}}, not {type(config).__name__}")
        return cls(**config)


def _database(config: MemoryConfig) -> str | Path | URL | None:
    """Where the memories are: a file, a URL, or `None` for that of the settings."""
    store, path = config.vector_store, _database_path(config.history_db_path)
    if store is None:
        return path
    if store.url is not None:
        if path is not None:
            raise InvalidInputError(
                "config.history_db_path: the Postgres of vector_store is the database; leave it out"
            )
        return store.url
    if store.provider == "faiss" and "path" in store.arguments:
        return _database_in_folder(store, path)
    if path is not None:
        return path
    if store.provider != "faiss" and store.folder is not None:
        return Path(f"{store.folder}_langmem_adapter") / f"{store.collection}.db"
    # Each collection on a server has its own file, unless the settings name a database.
    has_own_file = store.is_named and not Settings().database
    return default_database().parent / "collections" / f"{store.collection}.db" if has_own_file else None


def _database_in_folder(store: StoreSection, path: str | Path | None) -> str | Path:
    """The folder of FAISS is that of the database: the index is beside it."""
    if store.arguments["path"] == _IN_MEMORY:
        raise InvalidInputError(
            'config.vector_store.config.path is a folder on the disk; to keep nothing, give history_db_path=":memory:" instead'
        )
    folder = expanded(_check_path(store.arguments["path"], "config.vector_store.config.path must be a folder"))
    if path is None:
        return folder / f"{store.collection}.db"
    if path == _IN_MEMORY or Path(path).parent.resolve() != folder.resolve():
        raise InvalidInputError(
            f"config.history_db_path={quoted(str(path))} does not lie in vector_store.config.path={quoted(str(folder))}: "
            "history and memories are one file here; give one of the two"
        )
    return path


def _database_path(path: object) -> str | Path | None:
    if path is None:
        return None
    checked = _check_path(path, "config.history_db_path must be the path of a file")
    return checked if isinstance(checked, str) and (checked == _IN_MEMORY or "://" in checked) else expanded(checked)


def _check_path(path: object, rule: str) -> str | Path:
    if not isinstance(path, str | Path) or not str(path).strip():
        raise InvalidInputError(f"{rule}, not {quoted(path)}")
    return path


# ── vector stores ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class StoreSection:
    """A `vector_store`; *is_named*: it names the collection, *arguments*: those of the store's class."""

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
            or path == _IN_MEMORY
            or ("uri" in self.arguments and not str(path).endswith(".db"))
        ):
            return None
        return expanded(path)


def read_store(section: Section) -> StoreSection:
    """Read a `vector_store`."""
    row, options = provider_row(section.provider, "vector_store"), dict(section.config)
    name = None if "collection_name" in row.idle else options.pop("collection_name", None)
    collection = "mem0" if name is None else name
    if not isinstance(collection, str) or not collection.strip() or Path(collection).name != collection:
        raise InvalidInputError(f"{_WHERE}.config.collection_name must be a plain name, not {quoted(collection)}")
    return StoreSection(section.provider, collection, name is not None, row.arguments(options, f"{_WHERE}.config"))


def open_store(store: StoreSection, vectors: Embeddings, closing: ExitStack) -> VectorStore:
    """The LangChain vector store; a client that is made for it is closed with *closing*."""
    row, name = provider_row(store.provider, "vector_store"), f"{store.collection}_langmem_adapter"
    # Contract: a collection with entries of another program is never written, altered or deleted.
    # `test_a_collection_of_mem0_itself_is_never_written`
    with StoreErrors(store.provider):
        if store.provider == "milvus" and store.folder is not None:
            store.arguments["uri"] = str(store.folder)
        index: VectorStore = _MAKERS.get(store.provider, _open_other)(
            row, name, vectors, dict(store.arguments), closing
        )
        wrapped = wrap_store(index)
        if wrapped.has_others():
            _refuse(wrapped.kind, wrapped.collection)
    return index


def _refuse(kind: str, collection: str) -> NoReturn:
    text = f"the {kind} collection {collection!r} holds entries of another program and is not written; name another one"
    raise InvalidInputError(text)


def _take_client(_: Provider, __: str, ___: Embeddings, options: dict[str, Any], ____: ExitStack) -> Any:
    return langchain_object(options, _WHERE, VectorStore, "a LangChain VectorStore", "client")


def _open_qdrant(row: Provider, name: str, vectors: Embeddings, options: dict[str, Any], closing: ExitStack) -> Any:
    make = import_class("langchain_qdrant:QdrantVectorStore", row.package)
    client = options.pop("client", None)
    if client is None:
        if options.keys() <= {"path"}:
            path = options.get("path", "/tmp/qdrant")  # noqa: S108 - Mem0's default
            options = {"location": _IN_MEMORY} if path == _IN_MEMORY else {"path": str(expanded(path))}
        else:
            options["check_compatibility"] = False
        client = import_class("qdrant_client:QdrantClient", row.package)(**options)
        closing.callback(client.close)
    return make(client, name, vectors, validate_embeddings=False, validate_collection_config=False)


def _open_chroma(row: Provider, name: str, vectors: Embeddings, options: dict[str, Any], _: ExitStack) -> Any:
    make = import_class("langchain_chroma:Chroma", row.package)
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


def _open_milvus(row: Provider, name: str, vectors: Embeddings, options: dict[str, Any], closing: ExitStack) -> Any:
    make = import_class("langchain_milvus:Milvus", row.package)
    with contextlib.closing(import_class("pymilvus:MilvusClient", row.package)(**options)) as client:
        if milvus_has_others(client, name):  # LangChain's class would make an index in whatever there is
            _refuse("Milvus", name)
    store = make(vectors, name, connection_args=options, primary_field="id")
    closing.callback(store.client.close)
    return store


def _open_weaviate(row: Provider, name: str, vectors: Embeddings, options: dict[str, Any], closing: ExitStack) -> Any:
    make, weaviate = (
        import_class("langchain_weaviate:WeaviateVectorStore", row.package),
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


def _open_other(row: Provider, name: str, vectors: Embeddings, options: dict[str, Any], _: ExitStack) -> Any:
    parts = {**row.defaults.get("parts", {}), **options.pop("parts", {}), "collection": name}
    parts["scheme"] = "https" if parts.pop("ssl", False) else "http"
    made = {argument: template.format(**parts) for argument, template in row.templates.items()}
    if "es_cloud_id" in options:
        del made["es_url"]
    own = {row.collection: name, row.embedding: vectors}
    return import_class(row.target, row.package)(**own, **made, **options)


_MAKERS: Final[dict[str, Callable[[Provider, str, Embeddings, dict[str, Any], ExitStack], Any]]] = {
    "langchain": _take_client,
    "qdrant": _open_qdrant,
    "chroma": _open_chroma,
    "milvus": _open_milvus,
    "weaviate": _open_weaviate,
}
