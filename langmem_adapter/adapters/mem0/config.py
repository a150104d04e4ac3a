"""Mem0's configuration: read strictly, so that no key of it is without effect."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from langmem_adapter.adapters.calls import only
from langmem_adapter.adapters.mem0.filters import either
from langmem_adapter.adapters.mem0.sections import graph_store_of, section
from langmem_adapter.adapters.mem0.stores import MEMORY, StoreSection, read_store
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import quoted
from langmem_adapter.settings import Settings, default_database
from langmem_adapter.storage.urls import expanded

if TYPE_CHECKING:
    from sqlalchemy import URL

__all__ = ["ELSEWHERE", "MemoryConfig"]

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
            *history_db_path* the database is a file beside the path, named after the collection (`mem0` if it has no name); of
            `"pgvector"` it is that Postgres.
        graph_store: `{"provider": "sql"}` keeps a knowledge graph as well, in the same database: entities and relations, found
            with the facts. `{"provider": "neo4j", "config": {"url": …, "username": …, "password": …, "database": …,
            "base_label": …}}` does so, too, and shows it in Neo4j a moment later (`"memgraph"`: in Memgraph; with the first
            three); nothing waits for that server. Beside them `"custom_prompt"` says which relations matter, `"llm"` is the
            model where `llm` names none, and `"threshold"` can be 1: names are one where they are spelled alike. Without
            `graph_store` our setting decides, by default there is no graph. Other graph databases (`"kuzu"`, …) are refused:
            nothing would be written there.
        history_db_path: The SQLite file that everything is kept in, memories and history; `":memory:"` keeps nothing.
            An SQLAlchemy URL serves too.
        reranker: `{"provider": …, "config": {…}}` orders the best hits of a search once more; `"langchain"` takes a LangChain
            `BaseDocumentCompressor` as `model`. Without it meaning and words are joined into one order.
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
        only(others, tuple(inspect.signature(MemoryConfig).parameters)[:-1], "config", ELSEWHERE)
        if version not in _VERSIONS:
            raise InvalidInputError(f"config.version must be 'v1.0' or 'v1.1', not {quoted(version)}")
        self.llm = None if llm is None else section(llm, "llm")
        self.embedder = None if embedder is None else section(embedder, "embedder")
        self.vector_store = None if vector_store is None else read_store(section(vector_store, "vector_store"))
        self.graph = None if graph_store is None else graph_store_of(graph_store)
        if self.graph is not None:
            self.llm = self.graph.llm_beside(self.llm)
        self.reranker = None if reranker is None else section(reranker, "reranker")
        self.history_db_path = history_db_path
        self.bare = version == "v1.0"
        self.custom_fact_extraction_prompt = either(
            "config.custom_instructions",
            custom_instructions,
            "custom_fact_extraction_prompt",
            custom_fact_extraction_prompt,
        )
        self.custom_update_memory_prompt = custom_update_memory_prompt
        self.database = _database(self)

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> MemoryConfig:
        """The configuration that a dict describes."""
        if not isinstance(config, Mapping) or not all(isinstance(key, str) for key in config):
            raise InvalidInputError(f"a configuration is a dict like {{'llm': {{…}}}}, not {type(config).__name__}")
        return cls(**config)


# ── where the data lie ────────────────────────────────────────────────────────────────────────────────────────────────


def _database(config: MemoryConfig) -> str | Path | URL | None:
    store, name = config.vector_store, _file(config.history_db_path)
    if store is None:
        return name
    if store.url is not None:
        if name is not None:
            raise InvalidInputError(
                "config.history_db_path: the Postgres of vector_store is the database; leave it out"
            )
        return store.url
    if store.provider == "faiss":
        return _of_faiss(store, name)
    if name is None and store.folder is not None:
        return Path(f"{store.folder}_langmem_adapter") / f"{store.collection}.db"
    return _of_collection(store) if name is None else name


def _of_faiss(store: StoreSection, name: str | Path | None) -> str | Path | None:
    """The folder of FAISS is that of the database: the index lies beside it."""
    if "path" not in store.arguments:
        return _of_collection(store) if name is None else name
    folder = _folder(store.arguments["path"])
    if name is None:
        return folder / f"{store.collection}.db"
    if name == MEMORY or Path(name).parent.resolve() != folder.resolve():
        raise InvalidInputError(
            f"config.history_db_path={quoted(str(name))} does not lie in vector_store.config.path={quoted(str(folder))}: "
            "history and memories are one file here; give one of the two"
        )
    return name


def _of_collection(store: StoreSection) -> Path | None:
    """Each collection on a server has a file of its own, unless the settings name a database."""
    if not store.is_named or Settings().database:
        return None
    return default_database().parent / "collections" / f"{store.collection}.db"


def _folder(path: object) -> Path:
    if path == MEMORY:
        raise InvalidInputError(
            'config.vector_store.config.path is a folder on the disk; to keep nothing, give history_db_path=":memory:" instead'
        )
    return expanded(_checked_path(path, "config.vector_store.config.path must be a folder"))


def _file(path: object) -> str | Path | None:
    if path is None:
        return None
    given = _checked_path(path, "config.history_db_path must be the path of a file")
    return given if isinstance(given, str) and (given == MEMORY or "://" in given) else expanded(given)


def _checked_path(path: object, rule: str) -> str | Path:
    if not isinstance(path, str | Path) or not str(path).strip():
        raise InvalidInputError(f"{rule}, not {quoted(path)}")
    return path
