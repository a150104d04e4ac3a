"""Chat models and embeddings of a Mem0 configuration, made by LangChain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from langchain_core.documents import BaseDocumentCompressor
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.chat_models import BaseChatModel

from langmem_adapter.adapters.calls import only
from langmem_adapter.addresses import check_server
from langmem_adapter.arguments import bounded, flag
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.providers import provider_errors
from langmem_adapter.records.checks import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["chat_model", "embeddings", "reranker", "vision"]

T = TypeVar("T")

_LANGCHAIN: Final = "langchain"
_NO_KEY: Final = "no-key"  # the OpenAI client insists on a key; servers of one's own mostly do not
_VISION: Final = "enable_vision"
_OBJECT: Final = "the LangChain object and give that as {'provider': 'langchain', 'config': {'model': …}}"


@dataclass(frozen=True, slots=True)
class _Provider:
    """How Mem0's words for one provider are said to LangChain: its name, and a parameter for each of Mem0's keys."""

    name: str
    keys: Mapping[str, str] = field(default_factory=dict)
    needs_url: bool = False  # a server of one's own has no address by default


def _same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


def _openai(names: str, *urls: str, needs_url: bool = False, **keys: str) -> _Provider:
    told = {**_same(names), **keys, **dict.fromkeys(("base_url", "openai_base_url", *urls), "base_url")}
    return _Provider("openai", told, needs_url)


_SAMPLING: Final = "temperature top_p max_tokens api_key"
_CHAT: Final = {
    "openai": _openai(f"{_SAMPLING} reasoning_effort"),
    "openai_structured": _openai(f"{_SAMPLING} reasoning_effort"),
    "lmstudio": _openai(_SAMPLING, "lmstudio_base_url", needs_url=True),
    "vllm": _openai(_SAMPLING, "vllm_base_url", needs_url=True),
    "anthropic": _Provider("anthropic", {**_same(f"{_SAMPLING} top_k base_url"), "anthropic_base_url": "base_url"}),
    "gemini": _Provider("google_genai", _same(f"{_SAMPLING} top_k")),
    "groq": _Provider("groq", _same("temperature max_tokens api_key")),
    "deepseek": _Provider("deepseek", _same(_SAMPLING)),
    "together": _Provider("together", _same(_SAMPLING)),
    "xai": _Provider("xai", _same(_SAMPLING)),
    "ollama": _Provider(
        "ollama",
        {**_same("temperature top_p top_k base_url"), "ollama_base_url": "base_url", "max_tokens": "num_predict"},
    ),
}
_VECTORS: Final = {
    "openai": _openai("api_key", embedding_dims="dimensions"),
    "lmstudio": _openai("api_key", "lmstudio_base_url", needs_url=True, embedding_dims="dimensions"),
    "ollama": _Provider("ollama", {"ollama_base_url": "base_url", "base_url": "base_url"}),
    "gemini": _Provider("google_genai", {"api_key": "google_api_key"}),
    "huggingface": _Provider("huggingface"),
}


def chat_model(section: tuple[str, Mapping[str, Any]]) -> BaseChatModel:
    """The chat model of `config.llm`.

    A key of the environment (`OPENAI_API_KEY`) is never sent to a base URL of the configuration: that server gets the key of
    the configuration, or a placeholder.

    Raises:
        InvalidInputError: The provider is unknown, an option cannot be honoured, or the key is missing.
        MissingDependencyError: The provider's package is not installed.
    """
    provider, options = section
    rest = {
        key: value for key, value in options.items() if key != _VISION and (key, value) != ("vision_details", "auto")
    }
    if provider == _LANGCHAIN:
        given: BaseChatModel = _instance(rest, "llm", BaseChatModel, "a LangChain chat model")
        return given
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 - slow to import, and offline needs none

    chosen, model, parameters = _read(provider, rest, _CHAT, "llm")
    made: BaseChatModel = _made(
        lambda: init_chat_model(model, model_provider=chosen.name, **parameters),
        f"config.llm {provider}:{model}",
    )
    return made


def embeddings(section: tuple[str, Mapping[str, Any]]) -> Embeddings:
    """The embeddings of `config.embedder`; the rest is as with `chat_model`."""
    provider, options = section
    if provider == _LANGCHAIN:
        given: Embeddings = _instance(options, "embedder", Embeddings, "LangChain embeddings")
        return given
    from langchain.embeddings import init_embeddings  # noqa: PLC0415 - slow to import, and offline needs none

    chosen, model, parameters = _read(provider, options, _VECTORS, "embedder")
    if "dimensions" in parameters:
        bounded(parameters["dimensions"], "config.embedder.config.embedding_dims")
    if chosen.name == "openai" and "base_url" in parameters:
        # The length check would download OpenAI's token tables; another server's model has other tokens anyway.
        parameters["check_embedding_ctx_length"] = False
    return _made(
        lambda: init_embeddings(model, provider=chosen.name, **parameters),
        f"config.embedder {provider}:{model}",
    )


def reranker(section: tuple[str, Mapping[str, Any]] | None) -> BaseDocumentCompressor | None:
    """What orders the best hits once more, of `config.reranker`."""
    if section is None:
        return None
    provider, options = section
    if provider != _LANGCHAIN:
        raise InvalidInputError(
            f"config.reranker.provider {quoted(provider)} is not here; make {_OBJECT}, like CohereRerank of langchain-cohere, "
            f"or leave reranker out: meaning and words are joined into one order anyway"
        )
    given: BaseDocumentCompressor = _instance(
        options, "reranker", BaseDocumentCompressor, "a LangChain BaseDocumentCompressor"
    )
    return given


def vision(section: tuple[str, Mapping[str, Any]] | None) -> bool:
    """Whether images shall be looked at: `config.llm.config.enable_vision`."""
    return flag(section[1].get(_VISION, False) if section else False, f"config.llm.config.{_VISION}")


def _instance(options: Mapping[str, Any], name: str, kind: type, wanted: str) -> Any:
    where, instead = f"config.{name}.config", "set it on the object that you give as model"
    only(options, ("model",), where, dict.fromkeys(options, instead))
    given = options.get("model")
    if not isinstance(given, kind):
        told = type(given).__name__
        raise InvalidInputError(f"{where}.model must be {wanted} for the provider 'langchain', not {told}")
    return given


def _read(
    provider: str, options: Mapping[str, Any], providers: Mapping[str, _Provider], name: str
) -> tuple[_Provider, str, dict[str, Any]]:
    chosen = providers.get(provider)
    if chosen is None:
        raise InvalidInputError(
            f"config.{name}.provider {quoted(provider)} is not here; make {_OBJECT}, or use one of "
            f"{', '.join(sorted(providers))}"
        )
    model, where = options.get("model"), f"config.{name}.config"
    if not isinstance(model, str) or not model.strip():
        raise InvalidInputError(f"{where}.model must be the name of a model, not {quoted(model)}")
    only(options, ("model", *chosen.keys), where, _instead(provider), f"give it to {_OBJECT}")
    parameters = _parameters(options, chosen, where)
    if chosen.needs_url and "base_url" not in parameters:
        raise InvalidInputError(
            f"{where}.{provider}_base_url is missing: the address of the server, like http://localhost:1234/v1"
        )
    if "base_url" in parameters:
        check_server(parameters["base_url"], f"{where}: ")
    if chosen.name == "openai" and "base_url" in parameters:
        parameters.setdefault("api_key", _NO_KEY)
    return chosen, model, parameters


def _instead(provider: str) -> Mapping[str, str]:
    return {
        **dict.fromkeys(("models", "model_kwargs", "site_url"), f"give it to {_OBJECT}"),
        "vision_details": "say it with each image: {'image_url': {'url': …, 'detail': 'low'}}",
        "top_k": f"{provider} has no such parameter; leave it out",
        "embedding_dims": f"the length of {provider}'s vectors is found by itself; leave it out",
    }


def _parameters(options: Mapping[str, Any], chosen: _Provider, where: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for key, value in options.items():
        if key == "model" or value is None:
            continue
        name = chosen.keys[key]
        if parameters.setdefault(name, value) != value:
            raise InvalidInputError(f"{where}.{key} says {name} twice, and differently; give one of them")
    return parameters


def _made(make: Callable[[], T], what: str) -> T:
    form = "see LangChain's documentation of that provider for its parameters"
    with provider_errors(what, key="set OPENAI_API_KEY, or api_key beside the model", form=form):
        return make()
