"""From what a user says about the model to a reasoner: `"offline"`, `"openai:gpt-5-mini"`, or a chat model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.reasoning.llm import LLMReasoner

if TYPE_CHECKING:
    from langchain_core.language_models.chat_models import BaseChatModel

    from langmem_adapter.reasoning.base import Reasoner
    from langmem_adapter.settings import Settings

__all__ = ["resolve_model"]

_OFFLINE: Final = "offline"
_FORMS: Final = "write 'offline', or 'provider:name' as in 'openai:gpt-5-mini'"
_NO_KEY: Final = "no-key"  # the OpenAI client insists on a key; servers of one's own mostly do not


def resolve_model(
    model: str | BaseChatModel,
    settings: Settings,
    *,
    fact_extraction_prompt: str | None = None,
    update_memory_prompt: str | None = None,
) -> Reasoner:
    """The reasoner for a model.

    A key of the environment (`OPENAI_API_KEY`) is never sent to a `base_url` of the settings: that server gets the key
    of the settings, or a placeholder.

    Args:
        model: `"offline"`, a name for LangChain's `init_chat_model`, or a chat model, which is used as it is.
        settings: `base_url` and `api_key` for a name.
        fact_extraction_prompt: See `LLMReasoner`.
        update_memory_prompt: See `LLMReasoner`.

    Raises:
        InvalidInputError: The name is not understood, the key is missing, or prompts have no model to follow them.
        MissingDependencyError: The provider's package is not installed.

    Example:
        >>> from langmem_adapter.settings import Settings
        >>> resolve_model("offline", Settings()).mode
        'offline'
    """
    if model == _OFFLINE:
        if fact_extraction_prompt or update_memory_prompt:
            raise InvalidInputError("prompts are instructions for a chat model; also give model='openai:…' or the like")
        from langmem_adapter.reasoning.rules import RuleReasoner  # noqa: PLC0415 - only one of the two is needed

        return RuleReasoner()
    chat_model = _from_name(model, settings) if isinstance(model, str) else model
    return LLMReasoner(
        chat_model, fact_extraction_prompt=fact_extraction_prompt, update_memory_prompt=update_memory_prompt
    )


def _from_name(name: str, settings: Settings) -> BaseChatModel:
    if not name.rpartition(":")[2].strip():
        raise InvalidInputError(f"no model is named in {name!r}; {_FORMS}")
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 - langchain is slow to import, and offline needs none
    from openai import OpenAIError  # noqa: PLC0415 - the same

    try:
        chat_model: BaseChatModel = init_chat_model(name, **_options(name, settings))
    except ImportError as error:
        raise _missing(error) from error
    except OpenAIError as error:
        raise InvalidInputError(
            f"model {name!r} has no key: set OPENAI_API_KEY, or LANGMEM_ADAPTER_API_KEY (api_key in the settings), "
            "or LANGMEM_ADAPTER_BASE_URL for a server without one"
        ) from error
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"cannot use the model {name!r}: {error}; {_FORMS}") from error
    return chat_model


def _options(name: str, settings: Settings) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if settings.base_url is not None:
        options["base_url"] = settings.base_url
    if settings.api_key is not None:
        options["api_key"] = settings.api_key.get_secret_value()
    elif settings.base_url is not None and name.startswith("openai:"):
        options["api_key"] = _NO_KEY
    return options


def _missing(error: ImportError) -> MissingDependencyError:
    module = getattr(error.__cause__, "name", None) or error.name or str(error)
    return MissingDependencyError(module.partition(".")[0].replace("_", "-"))
