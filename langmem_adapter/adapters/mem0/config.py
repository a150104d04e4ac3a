"""Mem0's configuration: read strictly, so that no key of it is without effect."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from langmem_adapter.adapters.calls import only
from langmem_adapter.adapters.mem0.filters import either
from langmem_adapter.adapters.mem0.sections import graph_store_of, section
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import quoted
from langmem_adapter.storage.urls import expanded

__all__ = ["MemoryConfig"]

_VERSIONS: Final = ("v1.0", "v1.1")
_MEMORY: Final = ":memory:"

_ELSEWHERE: Final = {
    "custom_prompt": "give the instructions as custom_fact_extraction_prompt",
    "collection_name": "one file is one collection: put it into vector_store.config, or name the file in history_db_path",
    "embedding_model_dims": "give embedder.config.embedding_dims",
    "enable_graph": "give graph_store={'provider': 'sql'} for a graph, and nothing for none",
}
_STORE_ELSEWHERE: Final = {
    "distance_strategy": "nearness is always the cosine; leave it out, or say 'cosine'",
    "normalize_L2": "vectors are always normalised; leave it out, or say True",
    "embedding_model_dims": "the embedder knows it; leave it out, or repeat embedder.config.embedding_dims",
}
_STORES: Final = {
    "pgvector": "leave it out, and give the address 'postgresql+psycopg://…' as history_db_path",
    "langchain": "leave it out, the vectors lie in the database",
}
_STORE_FIX: Final = "use 'faiss' with the folder of the data in vector_store.config.path, or leave vector_store out"


class MemoryConfig:
    """What a memory is built from, with Mem0's keys. What is left out comes from our own settings, offline by default.

    Args:
        llm: `{"provider": …, "config": {"model": …, "temperature": …, "max_tokens": …, "api_key": …, "openai_base_url": …,
            "enable_vision": …}}`; the provider `"langchain"` takes a LangChain chat model as `model`.
        embedder: `{"provider": …, "config": {"model": …, "embedding_dims": …, "api_key": …, "openai_base_url": …}}`; the
            provider `"langchain"` takes LangChain embeddings as `model`.
        vector_store: `{"provider": "faiss", "config": {"path": folder, "collection_name": name}}`: the data lie in
            `folder/name.db`, the name is `mem0` if not given.
        graph_store: `{"provider": "sql"}` keeps a knowledge graph as well, in the same database: entities and relations, found
            with the facts. `{"provider": "neo4j", "config": {"url": …, "username": …, "password": …, "database": …,
            "base_label": …}}` does so, too, and shows it in Neo4j a moment later (`"memgraph"`: in Memgraph; with the first
            three); nothing waits for that server. Beside them `"custom_prompt"` says which relations matter, `"llm"` is the
            model where `llm` names none, and `"threshold"` can be 1: names are one where they are spelled alike. Without
            `graph_store` our setting decides, by default there is no graph. Other graph databases (`"kuzu"`, …) are refused:
            nothing would be written there.
        history_db_path: The SQLite file that everything is kept in, memories and history; `":memory:"` keeps nothing.
            An SQLAlchemy URL serves too.
        reranker: `{"provider": "langchain", "config": {"model": …}}`: a LangChain `BaseDocumentCompressor` that orders the best
            hits of a search once more. Without it meaning and words are joined into one order.
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
        only(others, tuple(inspect.signature(MemoryConfig).parameters)[:-1], "config", _ELSEWHERE)
        if version not in _VERSIONS:
            raise InvalidInputError(f"config.version must be 'v1.0' or 'v1.1', not {quoted(version)}")
        self.llm = None if llm is None else section(llm, "llm")
        self.embedder = None if embedder is None else section(embedder, "embedder")
        self.vector_store = None if vector_store is None else section(vector_store, "vector_store")
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


def _database(config: MemoryConfig) -> str | Path | None:
    options = _store(config)
    name = _file(config.history_db_path)
    if name is None:
        return _in_folder(options)
    if "collection_name" in options:
        raise InvalidInputError(
            "config.history_db_path and vector_store.config.collection_name both name the file; give one of them"
        )
    if "path" in options and (name == _MEMORY or Path(name).parent.resolve() != _folder(options["path"]).resolve()):
        raise InvalidInputError(
            f"config.history_db_path={quoted(str(name))} does not lie in "
            f"vector_store.config.path={quoted(str(options['path']))}: history and memories are one file here; "
            "give one of the two"
        )
    return name


def _store(config: MemoryConfig) -> dict[str, Any]:
    if config.vector_store is None:
        return {}
    provider, options = config.vector_store
    if provider != "faiss":
        raise InvalidInputError(
            f"config.vector_store.provider {quoted(provider)} is not here: {_STORES.get(provider, _STORE_FIX)}"
        )
    dims = config.embedder[1].get("embedding_dims") if config.embedder else None
    fitting = {"distance_strategy": "cosine", "normalize_L2": True, "embedding_model_dims": dims}
    rest = {key: value for key, value in options.items() if key not in fitting or value != fitting[key]}
    only(rest, ("path", "collection_name"), "config.vector_store.config", _STORE_ELSEWHERE)
    return rest


def _in_folder(options: Mapping[str, Any]) -> Path | None:
    name = options.get("collection_name", "mem0")
    if not isinstance(name, str) or not name.strip() or Path(name).name != name:
        raise InvalidInputError(f"config.vector_store.config.collection_name must be a plain name, not {quoted(name)}")
    if "path" in options:
        return _folder(options["path"]) / f"{name}.db"
    if "collection_name" in options:
        raise InvalidInputError(
            "config.vector_store.config.collection_name names a file in path; also give path, its folder"
        )
    return None


def _folder(path: object) -> Path:
    given = _checked_path(path, "config.vector_store.config.path must be a folder")
    if given == _MEMORY:
        raise InvalidInputError(
            'config.vector_store.config.path is a folder on the disk; to keep nothing, give history_db_path=":memory:" instead'
        )
    return expanded(given)


def _file(path: object) -> str | Path | None:
    if path is None:
        return None
    given = _checked_path(path, "config.history_db_path must be the path of a file")
    as_it_is = isinstance(given, str) and (given == _MEMORY or "://" in given)
    return given if as_it_is else expanded(given)


def _checked_path(path: object, rule: str) -> str | Path:
    if not isinstance(path, str | Path) or not str(path).strip():
        raise InvalidInputError(f"{rule}, not {quoted(path)}")
    return path
