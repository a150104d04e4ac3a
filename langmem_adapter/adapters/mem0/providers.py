"""Providers of a Mem0 configuration: chat models, embeddings, rerankers and graph stores, made by LangChain."""

from __future__ import annotations

import importlib
import json
import logging
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from pydantic import Field

from langmem_adapter.adapters.threads import check_keys
from langmem_adapter.arguments import bounded, flag
from langmem_adapter.errors import InvalidInputError, MissingDependencyError, ModelError
from langmem_adapter.providers import NO_KEY, limits_of, provider_errors
from langmem_adapter.reasoning.replies import UnusableReplyError, json_values
from langmem_adapter.records.checks import check_server_url, quoted
from langmem_adapter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.callbacks import Callbacks


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider of a section of Mem0's configuration; `tables.toml` says what its fields mean."""

    target: str = ""
    keys: str = ""
    package: str = ""
    values: Mapping[str, list[Any]] = field(default_factory=dict)
    idle: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    otherwise: str | None = None
    collection: str = ""
    embedding: str = "embedding"
    templates: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """The argument for each key."""
        pairs = (word.partition(">") for word in self.keys.split())
        return {key: argument or key for key, _, argument in pairs}

    def arguments(self, options: Mapping[str, Any], where: str, *, complete: bool = True) -> dict[str, Any]:
        """The arguments of the target for the `config` of the section *where*; `None` and `""` count as left out."""
        names = self.names
        used = {key: value for key, value in _flatten(options, names).items() if value not in (None, "", {})}
        check_keys(used, tuple(dict.fromkeys((*names, *self.values, *self.idle))), where, self.reasons, self.otherwise)
        arguments: dict[str, Any] = {}
        for key, value in used.items():
            if key in self.values and value not in self.values[key]:
                reason = self.reasons.get(key, f"possible are {', '.join(map(repr, self.values[key]))}")
                raise InvalidInputError(f"{where}.{key}={quoted(value)} cannot be honoured: {reason}")
            if key in names:
                _put(arguments, names[key], value, f"{where}.{key}")
        for key in self.needed:
            if complete and key not in used:
                raise InvalidInputError(f"{where}.{key} is missing")
        variables = {name: os.environ[variable] for name, variable in self.env.items() if os.environ.get(variable)}
        return {**self.defaults, **variables, **arguments}


@cache
def providers(section: str) -> Mapping[str, Provider]:
    """The table of a section: `"llm"`, `"embedder"`, `"reranker"` or `"vector_store"`."""
    table = tomllib.loads(files(__package__).joinpath("tables.toml").read_text(encoding="utf-8"))[section]
    first = table.pop("*")
    rows = {name: _join(table.get(row.pop("like", None), {}), row) for name, row in table.items()}
    return {name: Provider(**_join(first, row)) for name, row in rows.items()}


def provider_row(provider: str, section: str) -> Provider:
    """The row of a provider; an unknown one is an `InvalidInputError`."""
    table = providers(section)
    if provider not in table:
        key = "client" if section == "vector_store" else "model"
        raise InvalidInputError(
            f"config.{section}.provider {quoted(provider)} is not here: make the LangChain object and give that as "
            f"{{'provider': 'langchain', 'config': {{'{key}': …}}}}, or use one of {', '.join(sorted(table))}"
        )
    return table[provider]


def import_class(target: str, package: str) -> Any:
    """The class that `module:Class` names; without the package a `MissingDependencyError`."""
    module, _, path = target.partition(":")
    try:
        return attrgetter(path)(importlib.import_module(module))
    except ImportError as error:
        raise MissingDependencyError(package) from error


def _join(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two rows in one: keys are joined, tables are merged, else the second overrides the first."""
    row = {**first, **second}
    for key in first.keys() & second.keys():
        if isinstance(first[key], Mapping):
            row[key] = {**first[key], **second[key]}
        elif key == "keys":
            row[key] = f"{first[key]} {second[key]}"
    return row


def _flatten(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Options with the keys of nested mappings as paths, where the table has such paths."""
    nested = {name.partition(".")[0] for name in names if "." in name}
    flat: dict[str, Any] = {}
    for key, value in options.items():
        is_nested = key in nested and isinstance(value, Mapping)
        flat |= {f"{key}.{inner}": each for inner, each in value.items()} if is_nested else {key: value}
    return flat


def _put(arguments: dict[str, Any], path: str, value: Any, where: str) -> None:
    outer, _, inner = path.partition(".")
    if inner:
        arguments, outer = arguments.setdefault(outer, {}), inner
    if arguments.setdefault(outer, value) != value:
        raise InvalidInputError(f"{where} gives {outer} twice, and differently; give one of them")


_SQL: Final = "sql"
_LOGIN: Final = ("url", "username", "password")
_SERVERS: Final = {"neo4j": (*_LOGIN, "database", "base_label"), "memgraph": _LOGIN}
_BESIDE: Final = ("threshold", "custom_prompt", "llm")
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


def section(config: object, name: str, *, beside: tuple[str, ...] = ()) -> Section:
    """Provider and options of the section *name* of the configuration, which may have the keys *beside* as well."""
    shape = f"config.{name} must be {{'provider': '…', 'config': {{…}}}}"
    if not isinstance(config, Mapping):
        raise InvalidInputError(f"{shape}, not {type(config).__name__}")
    check_keys(config, ("provider", "config", *beside), f"config.{name}")
    provider, options = config.get("provider"), config.get("config")
    if not isinstance(provider, str):
        problem = "missing" if provider is None else f"a {type(provider).__name__}"
        raise InvalidInputError(f"{shape}; the provider is {problem}")
    if not isinstance(options, Mapping | None):
        raise InvalidInputError(f"{shape}; its config is a {type(options).__name__}")
    return Section(provider, dict(options or {}))


# ── the graph ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class GraphStore:
    """A `graph_store`: the server that shows the graph, instructions for its relations, and their model."""

    server: dict[str, Any] | None = field(repr=False)  # arguments of `GraphMemory.mirror`, a password among them
    prompt: str | None
    llm: Section | None

    def join_llm(self, llm: Section | None) -> Section | None:
        """The one model for facts (*llm*) and relations."""
        if llm is None or self.llm is None or llm == self.llm:
            return llm or self.llm
        raise InvalidInputError(f"config.graph_store.llm is another model than config.llm: {_ONE_CALL}")


def read_graph_store(config: object) -> GraphStore:
    """Read a `graph_store`."""
    provider, options = section(config, "graph_store", beside=_BESIDE)
    threshold, prompt, llm = (config.get(key) if isinstance(config, Mapping) else None for key in _BESIDE)
    # From which cosine of their names Mem0 takes two nodes for one; those here are one where the names are the same.
    if threshold is not None and (isinstance(threshold, bool) or threshold != 1):
        raise InvalidInputError(f"config.graph_store.threshold={quoted(threshold)} cannot be honoured: {_BY_NAME}")
    return GraphStore(
        server=_server(provider, options),
        prompt=_text(prompt, "config.graph_store.custom_prompt"),
        llm=None if llm is None else section(llm, "graph_store.llm"),
    )


def _server(provider: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    where = "config.graph_store.config"
    if provider == _SQL:
        beside = "the graph lies in the database of the memories; leave it out"
        check_keys(options, (), where, dict.fromkeys(options, beside))
        return None
    if provider not in _SERVERS:
        raise InvalidInputError(
            f"config.graph_store.provider {quoted(provider)} is not here: the graph lies in the database of the memories; say "
            f"{{'provider': {_SQL!r}}}, without a config, or 'neo4j' or 'memgraph' to see it there as well"
        )
    check_keys(options, _SERVERS[provider], where)
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


def _text(value: object, name: str) -> str | None:
    if not isinstance(value, str | None):
        raise InvalidInputError(f"{name} must be a text, not {type(value).__name__}")
    return value or None


_LANGCHAIN: Final = "langchain"
_VISION: Final = "enable_vision"
_IDLE: Final = (_VISION, "vision_details", "embedding_dims")  # beside a LangChain object
_FORM: Final = "see LangChain's documentation of that provider for its parameters"
_REASONING: Final = "is_reasoning_model"  # Mem0 then leaves out the parameters that such models refuse
_SAMPLING: Final = ("temperature", "top_p", "max_tokens")


def chat_model(section: Section, where: str = "config.llm") -> BaseChatModel:
    """The chat model of `config.llm`."""
    provider, options = section
    if provider == _LANGCHAIN:
        own: BaseChatModel = langchain_object(options, where, BaseChatModel, "a LangChain chat model")
        return own
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 - slow to import, and offline needs none

    row = provider_row(provider, "llm")
    parameters = _parameters(row, options, f"{where}.config")
    if options.get(_REASONING):
        parameters = {name: value for name, value in parameters.items() if name not in _SAMPLING}
    model = parameters.pop("model")
    with Construction(f"{where} {provider}:{model}"):
        made: BaseChatModel = init_chat_model(model, model_provider=row.target, **parameters)
    return made


def embeddings(section: Section, where: str = "config.embedder") -> Embeddings:
    """The embeddings of `config.embedder`; the rest is as with `chat_model`."""
    provider, options = section
    if provider == _LANGCHAIN:
        own: Embeddings = langchain_object(options, where, Embeddings, "LangChain embeddings")
        return own
    from langchain.embeddings import init_embeddings  # noqa: PLC0415 - slow to import, and offline needs none

    row = provider_row("huggingface_base_url" if options.get("huggingface_base_url") else provider, "embedder")
    if options.get("embedding_dims") is not None:
        bounded(options["embedding_dims"], f"{where}.config.embedding_dims")
    parameters = _parameters(row, options, f"{where}.config")
    if row.target == "openai" and "base_url" in parameters:
        # The length check would download OpenAI's token tables; another server's model has other tokens anyway.
        parameters["check_embedding_ctx_length"] = False
    if ":" in row.target:
        make = import_class(row.target, row.package)
        with Construction(f"{where} {provider}", row.package):
            made: Embeddings = make(**parameters)
        return made
    model = parameters.pop("model")
    with Construction(f"{where} {provider}:{model}"):
        return init_embeddings(model, provider=row.target, **parameters)


def vision(section: Section | None) -> bool:
    """Whether images shall be looked at: `config.llm.config.enable_vision`."""
    return flag(section.config.get(_VISION, False) if section else False, f"config.llm.config.{_VISION}")


def langchain_object(options: Mapping[str, Any], where: str, kind: type, wanted: str, key: str = "model") -> Any:
    """The object that a section of the provider `"langchain"` holds."""
    rest = {name: value for name, value in options.items() if name not in _IDLE}
    check_keys(rest, (key,), f"{where}.config", dict.fromkeys(rest, f"set it on the object that you give as {key}"))
    own = rest.get(key)
    if not isinstance(own, kind):
        raise InvalidInputError(
            f"{where}.config.{key} must be {wanted} for the provider 'langchain', not {type(own).__name__}"
        )
    return own


def _parameters(row: Provider, options: Mapping[str, Any], where: str) -> dict[str, Any]:
    model = options.get("model")
    parameters = row.arguments(options, where)
    if not isinstance(parameters.get("model", parameters.get("model_name")), str):
        raise InvalidInputError(f"{where}.model must be the name of a model, not {quoted(model)}")
    if "base_url" in parameters:
        check_server_url(parameters["base_url"], f"{where}: ")
    if row.target == "openai" and "base_url" in parameters:
        # A key of the environment is never sent to a server of the configuration.
        parameters.setdefault("api_key", NO_KEY)
    return {name: _proxy(value, where) if name.endswith("_proxy") else value for name, value in parameters.items()}


def _proxy(proxies: Any, where: str) -> str:
    """One proxy for every call; Mem0 takes one for each scheme as well."""
    addresses = set(proxies.values()) if isinstance(proxies, dict) else {proxies}
    if len(addresses) != 1 or not isinstance(address := addresses.pop(), str):
        raise InvalidInputError(f"{where}.http_client_proxies must be one address, or the same for every scheme")
    return address


class Construction:
    """Turns an error of a provider's class while it is made into one that names the fix."""

    def __init__(self, what: str, package: str = "") -> None:
        self._what, self._package = what, package

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, Exception):
            return
        if isinstance(error, ImportError) and self._package:
            raise MissingDependencyError(self._package) from error
        is_provider_error = type(error).__module__.partition(".")[0] == "openai"
        with provider_errors(self._what, key="set OPENAI_API_KEY, or api_key beside the model", form=_FORM):
            if is_provider_error or isinstance(error, ImportError | OSError | ValueError | TypeError):
                raise error
            raise ValueError(str(error)) from error


_log = logging.getLogger("langmem_adapter")

_WHERE: Final = "config.reranker"
_LLM: Final = "llm_reranker"
_INSTRUCTIONS: Final = (
    "Score how relevant each document is to the query: 1.0 answers it directly, 0.5 is somewhat relevant, 0.0 is not."
)
_RERANKER_FORM: Final = (
    'Reply with JSON alone, one score from 0.0 to 1.0 for each document in its order: {"scores": [0.0, …]}'
)


def _cross_encoder(package: str) -> Callable[..., BaseDocumentCompressor]:
    encoder = import_class("langchain_community.cross_encoders:HuggingFaceCrossEncoder", package)
    compressor = import_class("langchain_classic.retrievers.document_compressors:CrossEncoderReranker", package)
    return lambda *, top_n, **model: compressor(model=encoder(**model), top_n=top_n)


def reranker(section: Section | None, model: BaseChatModel | None) -> BaseDocumentCompressor | None:
    """What orders the best hits once more, of `config.reranker`; *model* is the chat model of the configuration."""
    if section is None:
        return None
    provider, options = section
    if provider == _LANGCHAIN:
        wanted = "a LangChain BaseDocumentCompressor"
        own: BaseDocumentCompressor = langchain_object(options, _WHERE, BaseDocumentCompressor, wanted)
        return own
    row = provider_row(provider, "reranker")
    arguments = row.arguments(options, f"{_WHERE}.config")
    if provider == _LLM:
        return _chat_reranker(arguments, model)
    make = import_class(row.target, row.package) if row.target else _cross_encoder(row.package)
    with Construction(f"{_WHERE} {provider}", row.package):
        made: BaseDocumentCompressor = make(**arguments)
    return made


def _chat_reranker(arguments: dict[str, Any], model: BaseChatModel | None) -> ChatReranker:
    options = dict(arguments)
    how = {"top_n": options.pop("top_k", None), "instructions": options.pop("scoring_prompt", _INSTRUCTIONS)}
    nested = options.pop("llm", None)
    if nested is not None:
        provider, inner = section(nested, "reranker.config.llm")
        model = chat_model(Section(provider, {**options, **inner}), f"{_WHERE}.config.llm")
    elif "model" in options or "provider" in options:
        model = chat_model(Section(options.pop("provider", "openai"), {"max_tokens": None, **options}), _WHERE)
    if model is None:
        raise InvalidInputError(f"{_WHERE} {_LLM!r} asks a chat model: name one in llm, or in the reranker's config")
    return ChatReranker(model=model, **how)


class ChatReranker(BaseDocumentCompressor):
    """Orders documents by the scores that a chat model gives them, in one call; without a usable reply it adds a note."""

    model: BaseChatModel
    instructions: str = _INSTRUCTIONS
    top_n: int | None = None
    notes: list[str] = Field(default_factory=list)  # of one search, which works with a copy

    def without_notes(self) -> ChatReranker:
        """A copy without notes."""
        return self.model_copy(update={"notes": []})

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The documents, most relevant first."""
        texts = json.dumps([document.page_content for document in documents], ensure_ascii=False)
        request = f"Query: {query}\n\nDocuments: {texts}\n\n{_RERANKER_FORM}"
        prompt = [("system", self.instructions), ("human", request)]
        call = partial(self.model.invoke, prompt, RunnableConfig(callbacks=callbacks))
        try:
            reply = str(limits_of(self.model, self.model, Settings()).plan(call).run().text)
        except ModelError as error:
            reply = str(error)
        scores = _scores(reply, len(documents))
        if scores is None:
            note = "the reranker's reply has no score for each memory; the rows are in the order of the search"
            self.notes.append(note)
            _log.warning("%s: %.200s", note, reply)
            return list(documents)[: self.top_n]
        scored = [
            document.model_copy(update={"metadata": {**document.metadata, "relevance_score": score}})
            for document, score in zip(documents, scores, strict=True)
        ]
        return sorted(scored, key=lambda document: -document.metadata["relevance_score"])[: self.top_n]


def _scores(reply: str, count: int) -> list[float] | None:
    """The scores of a reply, from 0 to 1; `None` where it has not one for each document."""
    try:
        (scores,) = (value["scores"] for value in json_values(reply) if isinstance(value, dict) and "scores" in value)
        numbers = [min(max(float(score), 0.0), 1.0) for score in scores]
    except (UnusableReplyError, ValueError, TypeError):
        return None
    return numbers if len(numbers) == count else None
