"""What was left to the defaults, and surprises where only half of it was chosen: said aloud."""

from __future__ import annotations

import logging
import os
import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel

    from langmem_adapter.settings import Settings

__all__ = ["left_to_defaults", "warn_of_defaults"]

_log = logging.getLogger(__name__)
_KEYS: Final = {
    "OPENAI_API_KEY": "openai:gpt-5-mini",
    "ANTHROPIC_API_KEY": "anthropic:claude-haiku-4-5",
    "GOOGLE_API_KEY": "google_genai:gemini-2.5-flash",
}

_HASHED: Final = (
    "a chat model decides, but memories are found by hash embeddings: these see common words, no meaning; choose "
    'others with Memory(embeddings="openai:text-embedding-3-small"), "static" (offline) or LANGMEM_ADAPTER_EMBEDDINGS, or '
    'say "hash:512" to keep them'
)


def left_to_defaults(
    model: str | BaseChatModel | None, embeddings: str | Embeddings | None, settings: Settings
) -> list[str]:
    """What nobody chose and hardly anybody wants beside what was chosen, each with the line that changes it.

    That is a chat model beside hash embeddings, which find only what shares words, and the offline rules beside a model's key
    in the environment. Whoever names `"offline"` or `"hash:512"` anywhere has chosen it.
    """
    offline = (model or settings.model) == "offline"
    if offline and model is None and "model" not in settings.model_fields_set:
        return [_keyed(key, name) for key, name in _KEYS.items() if os.environ.get(key)][:1]
    if not offline and embeddings is None and "embeddings" not in settings.model_fields_set:
        return [_HASHED]
    return []


def _keyed(key: str, name: str) -> str:
    return (
        f"{key} is set, but facts are found by the offline rules, no model is asked; choose one with "
        f'Memory(model="{name}") or LANGMEM_ADAPTER_MODEL={name}, or say "offline" to keep the rules'
    )


def warn_of_defaults(
    model: str | BaseChatModel | None, embeddings: str | Embeddings | None, settings: Settings
) -> None:
    """Say `left_to_defaults` as warnings, and in the log of a program that has one."""
    for told in left_to_defaults(model, embeddings, settings):
        warnings.warn(told, UserWarning, stacklevel=4)  # where Memory is called
        if _log.hasHandlers():  # else Python would print it a second time
            _log.warning(told)
