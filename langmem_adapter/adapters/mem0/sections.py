"""Sections of Mem0's configuration, each `{"provider": …, "config": {…}}`, read so that no key of them is without effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from langmem_adapter.adapters.calls import only
from langmem_adapter.arguments import flag
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import quoted

__all__ = ["GraphStore", "Section", "graph_store_of", "section"]

_SQL: Final = "sql"
_LOGIN: Final = ("url", "username", "password")
_SERVERS: Final = {"neo4j": (*_LOGIN, "database", "base_label"), "memgraph": _LOGIN}
_BESIDE: Final = ("custom_prompt", "threshold", "llm")
_LABELS: Final = {True: "__Entity__", False: "Entity"}
_ONE_CALL: Final = "facts and relations come of one call; say it once, as config.llm, or leave out graph_store.llm"
_BY_NAME: Final = (
    "names are one where they are spelled alike, never where their vectors are near, which merges strangers; leave it out, or "
    "say 1.0, and look through engine.graph.suggest_merges() now and then"
)


class Section(NamedTuple):
    """A provider and its options."""

    provider: str
    config: dict[str, Any]


def section(
    given: object, name: str, elsewhere: Mapping[str, str] | None = None, *, beside: tuple[str, ...] = ()
) -> Section:
    """Provider and options of the section *name* of the configuration.

    It may have the keys *beside* as well, which the caller reads; *elsewhere* says what to do instead of certain others.
    """
    shape = f"config.{name} must be {{'provider': '…', 'config': {{…}}}}"
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"{shape}, not {type(given).__name__}")
    only(given, ("provider", "config", *beside), f"config.{name}", elsewhere)
    provider, options = given.get("provider"), given.get("config")
    if not isinstance(provider, str):
        raise InvalidInputError(
            f"{shape}; the provider is {'missing' if provider is None else f'a {type(provider).__name__}'}"
        )
    if not isinstance(options, Mapping | None):
        raise InvalidInputError(f"{shape}; its config is a {type(options).__name__}")
    return Section(provider, dict(options or {}))


# ── the graph ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class GraphStore:
    """What a `graph_store` says: where the graph is shown, instructions for its relations beside ours, and their model."""

    server: dict[str, Any] | None = field(repr=False)  # arguments of `GraphMemory.mirror`, a password among them
    prompt: str | None
    llm: Section | None

    def llm_beside(self, llm: Section | None) -> Section | None:
        """The one model that finds facts and relations, where *llm* is the one for facts."""
        if llm is None or self.llm is None or llm == self.llm:
            return llm or self.llm
        raise InvalidInputError(f"config.graph_store.llm is another model than config.llm: {_ONE_CALL}")


def graph_store_of(given: object) -> GraphStore:
    """Read a `graph_store`."""
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


def _server(provider: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
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
    only(options, _SERVERS[provider], where)
    texts = {key: _text(options.get(key), f"{where}.{key}") for key in (*_LOGIN, "database")}
    if texts["url"] is None:
        raise InvalidInputError(f"{where}.url is missing: the address of the server, like bolt://localhost:7687")
    if (texts["username"] is None) != (texts["password"] is None):
        raise InvalidInputError(
            f"{where} needs username and password, or neither: then NEO4J_USERNAME and NEO4J_PASSWORD are taken, if set"
        )
    base = options.get("base_label")
    label = _LABELS[base is not None and flag(base, f"{where}.base_label")]
    return {"driver": texts.pop("url"), "dialect": provider, "label": label, **texts}


def _text(given: object, name: str) -> str | None:
    if not isinstance(given, str | None):
        raise InvalidInputError(f"{name} must be a text, not {type(given).__name__}")
    return given or None
