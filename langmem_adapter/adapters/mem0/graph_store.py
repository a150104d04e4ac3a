"""Mem0's `graph_store`: the graph is kept in SQL, beside the memories, and shown in a graph server where one is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from langmem_adapter.adapters.mem0.sections import Section, only, section
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import quoted

__all__ = ["GraphServer", "GraphStore", "graph_store_of"]

Provider: TypeAlias = Literal["neo4j", "memgraph"]

_SQL: Final = "sql"
_LOGIN: Final = ("url", "username", "password")
_SERVERS: Final[Mapping[str, tuple[Provider, tuple[str, ...]]]] = {
    "neo4j": ("neo4j", (*_LOGIN, "database", "base_label")),
    "memgraph": ("memgraph", _LOGIN),
}
_BESIDE: Final = ("custom_prompt", "threshold", "llm")
_LABELS: Final = {True: "__Entity__", False: "Entity"}
_ONE_CALL: Final = "facts and relations come of one call; say it once, as config.llm, or leave out graph_store.llm"
_BY_NAME: Final = (
    "names are one where they are spelled alike, never where their vectors are near, which merges strangers; leave it out, or "
    "say 1.0, and look through engine.graph.suggest_merges() now and then"
)


@dataclass(frozen=True, slots=True)
class GraphServer:
    """A graph server that shall show the graph.

    Attributes:
        provider: What it is.
        url: Its address.
        username: Its login; `None` takes `NEO4J_USERNAME` and `NEO4J_PASSWORD`, and where there is none either, goes without.
        password: The same.
        database: The database's name there; `None` for the server's default.
        label: Of the nodes: with Mem0's `base_label` the one that Mem0 gives them.
    """

    provider: Provider
    url: str
    username: str | None
    password: str | None = field(repr=False)
    database: str | None
    label: str


@dataclass(frozen=True, slots=True)
class GraphStore:
    """What a `graph_store` says.

    Attributes:
        server: Where the graph is shown; `None` for nowhere.
        prompt: Instructions for the relations, beside ours.
        llm: The model for them.
    """

    server: GraphServer | None
    prompt: str | None
    llm: Section | None

    def llm_beside(self, llm: Section | None) -> Section | None:
        """The one model that finds facts and relations, where *llm* is the one for facts.

        Raises:
            InvalidInputError: They are two.
        """
        if llm is None or self.llm is None or llm == self.llm:
            return llm or self.llm
        raise InvalidInputError(f"config.graph_store.llm is another model than config.llm: {_ONE_CALL}")


def graph_store_of(given: object) -> GraphStore:
    """Read a `graph_store`.

    Raises:
        InvalidInputError: Something in it cannot be honoured; the text says what to do instead.
    """
    provider, options = section(given, "graph_store", beside=_BESIDE)
    beside = {key: given.get(key) for key in _BESIDE} if isinstance(given, Mapping) else {}
    if beside["threshold"] is not None:
        _check_threshold(beside["threshold"])
    return GraphStore(
        server=_server(provider, options),
        prompt=_text(beside["custom_prompt"], "config.graph_store.custom_prompt"),
        llm=None if beside["llm"] is None else section(beside["llm"], "graph_store.llm"),
    )


def _check_threshold(given: object) -> None:
    """From which cosine of their names Mem0 takes two nodes for one; those here are one where the names are the same."""
    if isinstance(given, bool) or not isinstance(given, int | float) or given != 1:
        raise InvalidInputError(f"config.graph_store.threshold={quoted(given)} cannot be honoured: {_BY_NAME}")


def _server(provider: str, options: Mapping[str, Any]) -> GraphServer | None:
    where = "config.graph_store.config"
    if provider == _SQL:
        beside = "the graph lies in the database of the memories; leave it out"
        only(options, (), where, dict.fromkeys(options, beside))
        return None
    if provider not in _SERVERS:
        raise InvalidInputError(
            f"config.graph_store.provider {quoted(provider)} is not here: the graph lies in the database of the memories; say "
            f"{{'provider': {_SQL!r}}}, without a config, or 'neo4j' or 'memgraph' to see it there as well"
        )
    kind, keys = _SERVERS[provider]
    only(options, keys, where)
    texts = {key: _text(options.get(key), f"{where}.{key}") for key in (*_LOGIN, "database")}
    if texts["url"] is None:
        raise InvalidInputError(f"{where}.url is missing: the address of the server, like bolt://localhost:7687")
    if (texts["username"] is None) != (texts["password"] is None):
        raise InvalidInputError(
            f"{where} needs username and password, or neither: then NEO4J_USERNAME and NEO4J_PASSWORD are taken, if set"
        )
    base = options.get("base_label")
    if not isinstance(base, bool | None):
        raise InvalidInputError(f"{where}.base_label must be True or False, not {quoted(base)}")
    return GraphServer(kind, texts["url"], texts["username"], texts["password"], texts["database"], _LABELS[bool(base)])


def _text(given: object, name: str) -> str | None:
    if not isinstance(given, str | None):
        raise InvalidInputError(f"{name} must be a text, not {type(given).__name__}")
    return given or None
