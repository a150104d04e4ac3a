"""From what a user says about the model to a reasoner: `"offline"`, `"openai:gpt-5-mini"`, or a chat model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.addresses import shown
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.limits import limits_of
from langmem_adapter.providers import patiently_made, provider_errors, server_options
from langmem_adapter.reasoning.llm import LLMReasoner

if TYPE_CHECKING:
    from langchain_core.language_models.chat_models import BaseChatModel

    from langmem_adapter.reasoning.base import Reasoner
    from langmem_adapter.settings import Settings

__all__ = ["named_model", "resolve_model"]

_OFFLINE: Final = "offline"
_FORMS: Final = "write 'offline', or 'provider:name' as in 'openai:gpt-5-mini'"


def resolve_model(
    model: str | BaseChatModel,
    settings: Settings,
    *,
    fact_extraction_prompt: str | None = None,
    update_memory_prompt: str | None = None,
    graph_prompt: str | None = None,
) -> Reasoner:
    """The reasoner for a model.

    A key of the environment (`OPENAI_API_KEY`) is never sent to a `base_url` of the settings: that server gets the key
    of the settings, or a placeholder.

    Args:
        model: `"offline"`, a name for LangChain's `init_chat_model`, or a chat model, which is used as it is.
        settings: `base_url` and `api_key` for a name; `model_timeout` and `model_retries` for any model.
        fact_extraction_prompt: See `LLMReasoner`.
        update_memory_prompt: See `LLMReasoner`.
        graph_prompt: See `LLMReasoner`.

    Raises:
        InvalidInputError: The name is not understood, the key is missing, or prompts have no model to follow them.
        MissingDependencyError: The provider's package is not installed.

    Example:
        >>> from langmem_adapter.settings import Settings
        >>> resolve_model("offline", Settings()).mode
        'offline'
    """
    if model == _OFFLINE:
        if fact_extraction_prompt or update_memory_prompt or graph_prompt:
            raise InvalidInputError("prompts are instructions for a chat model; also give model='openai:…' or the like")
        from langmem_adapter.reasoning.rules.reasoner import RuleReasoner  # noqa: PLC0415 - only one of the two is needed

        return RuleReasoner()
    made = patiently_made(partial(named_model, model, settings), settings) if isinstance(model, str) else model
    return LLMReasoner(
        made,
        fact_extraction_prompt=fact_extraction_prompt,
        update_memory_prompt=update_memory_prompt,
        graph_prompt=graph_prompt,
        limits=limits_of(model, made, settings),
    )


def named_model(name: str, settings: Settings, **parameters: Any) -> BaseChatModel:
    """The chat model of a name, at the server and with the key of the settings.

    Raises:
        InvalidInputError: The name is not understood, or the key is missing.
        MissingDependencyError: The provider's package is not installed.
    """
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 - langchain is slow to import, and offline needs none

    with provider_errors(f"model {shown(name)!r}", form=_FORMS):
        chat_model: BaseChatModel = init_chat_model(name, **server_options(name, settings), **parameters)
    return chat_model
