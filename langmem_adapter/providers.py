"""What naming a model by a text has in common, for chat models and embeddings: the server, the key, the errors."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationError

from langmem_adapter.addresses import cleaned
from langmem_adapter.errors import InvalidInputError, MissingDependencyError, ModelUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langmem_adapter.settings import Settings

__all__ = [
    "KEY_HINT",
    "NO_KEY",
    "TOKEN_FIELDS",
    "is_openai",
    "patiently_made",
    "provider_errors",
    "reply_bounds",
    "server_options",
]

T = TypeVar("T")

NO_KEY: Final = "no-key"
"""The OpenAI client insists on a key; servers of one's own mostly do not."""

KEY_HINT: Final = (
    "set OPENAI_API_KEY, or LANGMEM_ADAPTER_API_KEY (api_key in the settings), or LANGMEM_ADAPTER_BASE_URL for a server "
    "without one"
)
_OPENAI: Final = "openai:"
_WITH_THOUGHTS: Final = 8_192
TOKEN_FIELDS: Final = (
    "max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict", "max_new_tokens", "max_tokens_to_sample"
)  # fmt: skip
"""What chat models call the most tokens of a reply."""
_PACKAGE: Final = re.compile(r"`?\b(langchain[-_][\w-]+)`?")


def is_openai(name: str) -> bool:
    """Whether a name speaks of OpenAI's protocol."""
    return name.startswith(_OPENAI)


def server_options(name: str, settings: Settings) -> dict[str, Any]:
    """Address and key for LangChain's `init_chat_model` and `init_embeddings`, within `provider_errors`.

    A key of the environment (`OPENAI_API_KEY`) is never sent to a `base_url` of the settings: that server gets the key of the
    settings, or a placeholder.

    Raises:
        ValueError: The name names nothing; LangChain would wait for it to come later.
    """
    if not name.rpartition(":")[2].strip():
        raise ValueError("it names no model")
    options: dict[str, Any] = {}
    if settings.base_url is not None:
        options["base_url"] = settings.base_url
    if settings.api_key is not None:
        options["api_key"] = settings.api_key.get_secret_value()
    elif settings.base_url is not None and is_openai(name):
        options["api_key"] = NO_KEY
    return options


def patiently_made(make: Callable[..., T], settings: Settings) -> T:
    """A model whose client gives up in time and repeats nothing by itself: `Limits` does that.

    Only providers that know LangChain's standard parameters for it are told; some refuse, or send on, what they do not know.
    """
    made = make()
    fields = getattr(type(made), "model_fields", {})
    known = {name for field in fields for name in (field, fields[field].alias)}
    told = {"timeout": settings.model_timeout, "max_retries": 0}
    standard = {name: value for name, value in told.items() if name in known}
    return make(**standard) if standard else made


def reply_bounds(model: Any, name: str, settings: Settings, most: int = 4_096) -> dict[str, Any]:
    """What bounds the replies of a chat model made from a *name*: temperature 0 and the most tokens, by its own fields.

    Its profile decides: no temperature where it takes none, room for thoughts. A server of one's own is sent OpenAI's first
    name of the parameter, which all of them know.
    """
    profile, fields = getattr(model, "profile", None) or {}, getattr(type(model), "model_fields", {})
    most = settings.model_max_tokens or most
    if profile.get("reasoning_output"):
        most = max(most, _WITH_THOUGHTS)
    most = min(most, profile.get("max_output_tokens") or most)
    bounds: dict[str, Any] = {}
    if "temperature" in fields and profile.get("temperature") is not False:
        bounds["temperature"] = 0.0
    if settings.base_url is not None and is_openai(name):
        bounds["extra_body"] = {"max_tokens": most}
    elif field := next((field for field in TOKEN_FIELDS if field in fields), None):
        bounds[field] = most
    return bounds


@contextmanager
def provider_errors(what: str, *, key: str = KEY_HINT, form: str) -> Iterator[None]:
    """Turn what making a model raises into errors that name the fix.

    Args:
        what: What is being made, as in `"model 'openai:gpt-5-mini'"`.
        key: How to give the key.
        form: How a right name looks.

    Raises:
        MissingDependencyError: The provider's package is not installed.
        InvalidInputError: The name is not understood, or the key is missing.
        ModelUnreachableError: A model cannot be loaded: its server or its files are not there.
    """
    from openai import OpenAIError  # noqa: PLC0415 - slow to import, and offline needs none

    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(_package(error)) from error
    except OpenAIError as error:
        raise InvalidInputError(f"{what} has no key: {key}") from error
    except OSError as error:  # those of an HTTP client are, too, or become one in the provider's package
        raise ModelUnreachableError(
            f"cannot load {what}: {_told(error)}", hint="check its name and the network"
        ) from error
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"cannot use {what}: {_told(error)}; {form}") from None


def _told(error: Exception) -> str:
    # Pydantic's own text quotes what was given, keys among it.
    parts = error.errors() if isinstance(error, ValidationError) else ()
    return cleaned("; ".join(f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in parts) or str(error))


def _package(error: ImportError) -> str:
    # LangChain's own error names the package in its text; the import behind it, where there is one, names the module.
    told = _PACKAGE.search(str(error))
    module = getattr(error.__cause__, "name", None) or error.name or ""
    return told[1] if told else module.partition(".")[0].replace("_", "-") or str(error)
