"""Chat models and embeddings of a Mem0 configuration, made by LangChain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from langchain_core.embeddings import Embeddings
from langchain_core.language_models.chat_models import BaseChatModel

from langmem_adapter.adapters.calls import only
from langmem_adapter.adapters.mem0.tables import chosen, imported
from langmem_adapter.addresses import check_server
from langmem_adapter.arguments import bounded, flag
from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.providers import NO_KEY, provider_errors
from langmem_adapter.records.checks import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langmem_adapter.adapters.mem0.sections import Section
    from langmem_adapter.adapters.mem0.tables import Provider

__all__ = ["Construction", "chat_model", "embeddings", "langchain_object", "vision"]

_LANGCHAIN: Final = "langchain"
_VISION: Final = "enable_vision"
_IDLE: Final = (_VISION, "vision_details", "embedding_dims")  # beside a LangChain object
_FORM: Final = "see LangChain's documentation of that provider for its parameters"
_REASONING: Final = "is_reasoning_model"  # Mem0 then leaves out the parameters that such models refuse
_SAMPLING: Final = ("temperature", "top_p", "max_tokens")


def chat_model(section: Section, where: str = "config.llm") -> BaseChatModel:
    """The chat model of `config.llm`.

    A key of the environment (`OPENAI_API_KEY`) is never sent to a base URL of the configuration: that server gets the key of
    the configuration, or a placeholder.

    Raises:
        InvalidInputError: The provider is unknown, an option cannot be honoured, or the key is missing.
        MissingDependencyError: The provider's package is not installed.
    """
    provider, options = section
    if provider == _LANGCHAIN:
        given: BaseChatModel = langchain_object(options, where, BaseChatModel, "a LangChain chat model")
        return given
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 - slow to import, and offline needs none

    row = chosen(provider, "llm")
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
        given: Embeddings = langchain_object(options, where, Embeddings, "LangChain embeddings")
        return given
    from langchain.embeddings import init_embeddings  # noqa: PLC0415 - slow to import, and offline needs none

    row = chosen("huggingface_base_url" if options.get("huggingface_base_url") else provider, "embedder")
    if options.get("embedding_dims") is not None:
        bounded(options["embedding_dims"], f"{where}.config.embedding_dims")
    parameters = _parameters(row, options, f"{where}.config")
    if row.target == "openai" and "base_url" in parameters:
        # The length check would download OpenAI's token tables; another server's model has other tokens anyway.
        parameters["check_embedding_ctx_length"] = False
    if ":" in row.target:
        make = imported(row.target, row.package)
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
    only(rest, (key,), f"{where}.config", dict.fromkeys(rest, f"set it on the object that you give as {key}"))
    given = rest.get(key)
    if not isinstance(given, kind):
        raise InvalidInputError(
            f"{where}.config.{key} must be {wanted} for the provider 'langchain', not {type(given).__name__}"
        )
    return given


def _parameters(row: Provider, options: Mapping[str, Any], where: str) -> dict[str, Any]:
    model = options.get("model")
    parameters = row.arguments(options, where)
    if not isinstance(parameters.get("model", parameters.get("model_name")), str):
        raise InvalidInputError(f"{where}.model must be the name of a model, not {quoted(model)}")
    if "base_url" in parameters:
        check_server(parameters["base_url"], f"{where}: ")
    if row.target == "openai" and "base_url" in parameters:
        parameters.setdefault("api_key", NO_KEY)
    return {name: _proxy(value, where) if name.endswith("_proxy") else value for name, value in parameters.items()}


def _proxy(proxies: Any, where: str) -> str:
    """One proxy for every call; Mem0 takes one for each scheme as well."""
    addresses = set(proxies.values()) if isinstance(proxies, dict) else {proxies}
    if len(addresses) != 1 or not isinstance(address := addresses.pop(), str):
        raise InvalidInputError(f"{where}.http_client_proxies must be one address, or the same for every scheme")
    return address


class Construction:
    """Whatever a provider's class raises while it is made becomes an error that names the fix."""

    def __init__(self, what: str, package: str = "") -> None:
        self._what, self._package = what, package

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, Exception):
            return
        if isinstance(error, ImportError) and self._package:
            raise MissingDependencyError(self._package) from error
        known = isinstance(error, ImportError | OSError | ValueError | TypeError)
        known = known or type(error).__module__.partition(".")[0] == "openai"
        with provider_errors(self._what, key="set OPENAI_API_KEY, or api_key beside the model", form=_FORM):
            if known:
                raise error
            raise ValueError(str(error)) from error
