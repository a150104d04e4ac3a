"""Calls of model providers: models by name, timeouts, retries, and the typed error of each failure.

Every call of a chat model and of embeddings passes here, sync and async alike. A read timeout of a client is not enough: a
server that sends a byte now and then defeats it, and the caller's own model may have none. So the whole call, with its
retries, has one deadline; a call that is still running then is left behind, and its answer is dropped.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import time
from collections.abc import Collection, Mapping
from concurrent.futures import wait
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError
from tenacity import AsyncRetrying, Retrying, retry_if_exception, stop_after_attempt, stop_before_delay
from tenacity.wait import wait_random_exponential

from langmem_adapter.errors import (
    InvalidInputError,
    LangmemAdapterError,
    MissingDependencyError,
    ModelError,
    ModelTimeoutError,
    ModelUnreachableError,
)
from langmem_adapter.records.checks import HIDDEN, redact_urls
from langmem_adapter.twins import Plan, in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from concurrent.futures import Future

    from tenacity import RetryCallState

    from langmem_adapter.settings import Settings

R = TypeVar("R")

_FAILED: Final = range(400, 600)
_SERVER: Final = 500
_PASSING: Final = frozenset({408, 409, 429})
_LASTING: Final = frozenset({501, 505})
_BACKOFF: Final = wait_random_exponential(multiplier=0.2, max=5.0)
_STATUS: Final = ("status_code", "code", "http_status", "status", "HTTPStatusCode")  # what clients call the HTTP status
_SIZE_STATUS: Final = frozenset({400, 413, 422})
_SIZE: Final = re.compile(r"\b(?:tokens?|context|length|batch|inputs?|sequence|texts?|size)\b")
_CONTEXT: Final = re.compile(
    r"context[ _]?(?:length|size|window)|prompt is too long|input token count|n_ctx|prompt is longer than"
)
_CONTEXT_SIZE: Final = re.compile(r"n_ctx\D{0,9}(\d+)|(?:maximum|context|>)\D{0,40}?(\d[\d,]*)(?!.*n_ctx)")
_IMAGES: Final = re.compile(
    r"(?:image|vision|multimodal).{0,60}(?:not support|unsupported|not allowed|not enabled)|"
    r"(?:not support|unsupported|no support).{0,60}(?:image|vision|multimodal)|mmproj"
)
_REFUSAL: Final = re.compile(r"exceed|max|limit|than|too |must |\btakes?\b|allow|only|increase")

BATCH: Final = 256
"""Texts of one call of embeddings, so that the time it may take does not depend on how many there are."""

_KEY: Final = (
    "check the key: LANGMEM_ADAPTER_API_KEY, the only one that a LANGMEM_ADAPTER_BASE_URL gets, or the model's own"
)
_HINTS: Final = {401: _KEY, 403: _KEY, 404: "check the name of the model, and LANGMEM_ADAPTER_BASE_URL"}
_BILLING: Final = "the account is used up; see the provider's billing"
_BUSY: Final = "it answered, but cannot do this now: its log may say why; try again later"
_AWAY: Final = "is the server running? check its address, or try again later"
_UNREADABLE: Final = (
    "is it HTML, or another API? see whether LANGMEM_ADAPTER_BASE_URL, or the base URL that you gave, is right; it often ends "
    "in /v1"
)
_ADDRESSES: Final = ("openai_api_base", "anthropic_api_url", "base_url")  # what clients call their base URL


class Limits:
    """The limits within which a model (*who* at *address*) is called.

    A call may take *timeout* seconds with its retries. It is repeated after a failure that may pass: too many requests (but no
    quota that is used up), a server's own error, a lost connection. A call of embeddings has at most *batch* texts; *secrets*
    are keys that a provider may repeat in an error.
    """

    def __init__(
        self,
        who: str = "the model",
        *,
        address: str | None = None,
        timeout: float = 60.0,
        retries: int = 2,
        batch: int = BATCH,
        secrets: Collection[str] = (),
    ) -> None:
        self.batch: Final = batch
        self._secrets: Final = secrets
        self._who = who
        self._address = address
        self._timeout = timeout
        self._rules: dict[str, Any] = {
            # Contract: a call that was left behind is not repeated; its time is over when it comes back.
            # tests/test_limits.py::test_what_was_left_behind_asks_nobody_again
            "stop": stop_after_attempt(1 + retries) | stop_before_delay(timeout),
            "wait": _pause,
            "retry": retry_if_exception(is_passing),
            "reraise": True,
        }

    def plan(self, run: Callable[[], R], arun: Callable[[], Awaitable[R]] | None = None) -> Plan[R]:
        """A call within these limits; its error is a `ModelError`. Without *arun* it blocks a new thread."""

        def work() -> R:
            return Retrying(**self._rules)(run)

        def sync() -> R:
            answer = in_thread(work)
            wait([answer], self._timeout)
            return self._result(answer if answer.done() else None)

        async def asynchronous() -> R:
            again = AsyncRetrying(**self._rules)
            answer = asyncio.wrap_future(in_thread(work)) if arun is None else asyncio.ensure_future(again(arun))
            answer.add_done_callback(_retrieve_error)
            try:
                done, _ = await asyncio.wait([answer], timeout=self._timeout)
            finally:
                answer.cancel()  # a model may not listen, and its answer is dropped
            return self._result(answer if done else None)

        return Plan(sync, asynchronous)

    def _result(self, answer: Future[R] | asyncio.Future[R] | None) -> R:
        if answer is None:
            raise ModelTimeoutError(
                f"{_named(self._who, self._address)} did not answer within {self._timeout:g} seconds; nothing was changed. "
                "A slow model is given longer by the setting model_timeout; a reply without an end is cut by model_max_tokens"
            )
        # Contract: what a provider's client raises on another thread, of whatever class, reaches the caller as an error of ours
        # with the client's as its cause; an interrupt stays one.
        # tests/test_limits.py::test_each_failure_of_a_provider_is_a_model_error
        error = answer.exception()
        if isinstance(error, Exception) and not isinstance(error, LangmemAdapterError):
            raise self._model_error(error) from error
        return answer.result()

    def _model_error(self, error: Exception) -> ModelError:
        name = _named(self._who, self._address or _url_of(error))
        status, transient = status_of(error), is_passing(error)
        source = error if status else [*_causes(error)][-1]
        words = redact_urls((str(source).strip() or type(source).__name__).splitlines()[0])
        for secret in self._secrets:
            words = words.replace(secret, HIDDEN)
        kind: type[ModelError] = ModelError
        if status:
            what = f"answered {status}"
            hint = _BILLING if is_quota(error) else _BUSY if transient else _HINTS.get(status, "try another model")
        elif _is_any(error, TimeoutError, *_http_errors("TimeoutException"), handled=True):
            kind, what, hint = ModelTimeoutError, "did not answer in time", _AWAY
        elif transient or _is_any(error, OSError):
            kind, what, hint = ModelUnreachableError, "cannot be reached", _AWAY
        else:
            unreadable = self._address is not None
            what, hint = ("gave no answer that can be read", _UNREADABLE) if unreadable else ("failed", "")
            words = words if unreadable else f"{type(source).__name__}: {words}"
        summary = f"{name} {what}"
        return kind(f"{summary}: {words}", hint=hint, status=status, transient=transient, brief=redact_urls(summary))


def limits_of(spec: object, model: object, settings: Settings) -> Limits:
    """The limits for the *model* made from *spec*: its name or the model itself. A client that retries is not retried here."""
    who = spec if isinstance(spec, str) else " ".join(dict.fromkeys((type(model).__name__, model_name(model))))
    retries = settings.model_retries if getattr(model, "max_retries", 0) == 0 else 0
    fields = getattr(model, "__dict__", {})
    own = next((url for name in _ADDRESSES if isinstance(url := fields.get(name), str) and url), None)
    address = settings.base_url if isinstance(spec, str) else own
    secrets = {value.get_secret_value() for value in fields.values() if isinstance(value, SecretStr)} - {""}
    numbers: Any = {"timeout": settings.model_timeout, "retries": retries, "batch": settings.embedding_batch}
    return Limits(who, address=address, secrets=secrets, **numbers)


def model_name(model: object) -> str:
    """What to call a model in results: its own name, or its class."""
    for attribute in ("model_name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__


def _retrieve_error(answer: asyncio.Future[Any]) -> None:
    """Retrieve the error of a call that was left behind, which asyncio would complain about."""
    if not answer.cancelled():
        answer.exception()


# ── what a failure says ──────────────────────────────────────────────────────────────────────────────────────────────


def is_passing(error: BaseException) -> bool:
    """Whether the same call may well succeed in a moment."""
    status = status_of(error)
    if status is not None:
        lasts = status in _LASTING or (status == _SERVER and (_names_a_size(error) or refuses_images(error)))
        passes = status in _PASSING and not is_quota(error) and not _is_large_request(error)
        return passes or (status >= _SERVER and not lasts)
    lost = "TimeoutException", "NetworkError", "RemoteProtocolError", "ClientConnectionError"
    return _is_any(error, ConnectionError, TimeoutError, socket.gaierror, *_http_errors(*lost), handled=True)


def is_too_large(error: BaseException) -> bool:
    """Whether a call of embeddings may have failed since it had too many texts, or one that is too long."""
    status = status_of(error)  # llama.cpp answers 500; a model in this process has none
    named = status in {None, _SERVER} and _names_a_size(error)
    return named or status in _SIZE_STATUS or _is_large_request(error)


def _is_large_request(error: BaseException) -> bool:
    """Whether one request has more tokens than a minute may have, which OpenAI answers with 429."""
    return any("request too large" in str(each).casefold() for each in _causes(error))


def _client_text(error: BaseException) -> str:
    """What the client and its causes say, in lower case."""
    return " ".join(str(each) for each in _causes(error) if not isinstance(each, ModelError)).casefold()


def _names_a_size(error: BaseException) -> bool:
    text = _client_text(error)
    return bool(_SIZE.search(text) and _REFUSAL.search(text))


def refuses_images(error: BaseException) -> bool:
    """Whether a chat model takes no images."""
    return status_of(error) is not None and any(_IMAGES.search(str(each).casefold()) for each in _causes(error))


def context_excess(error: BaseException) -> tuple[int, int] | None:
    """The tokens of a prompt and of the context that is too small for it; 0 where the server does not say."""
    text = _client_text(error)
    if status_of(error) not in {*_SIZE_STATUS, _SERVER} or not _CONTEXT.search(text):
        return None
    size = _CONTEXT_SIZE.search(text)
    context = _number(size[1] or size[2]) if size else 0
    return max(
        [n for n in map(_number, re.findall(r"(?<!code: )\b\d[\d,]*\b", text)) if n > context > 0], default=0
    ), context


def _number(digits: str) -> int:
    return int(digits.replace(",", "")[:12])


def is_quota(error: BaseException) -> bool:
    """Whether an account is used up, which OpenAI's protocol tells with the status of too many requests."""
    return any("insufficient_quota" in str(each) for each in _causes(error))


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error of a model's client has, itself or through its cause."""
    values = (
        holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
        for holder in _holders(error)
        for name in _STATUS
    )
    return next((int(status) for status in values if isinstance(status, int) and status in _FAILED), None)


def _named(who: str, address: str | None) -> str:
    parts = urlsplit(address or "")
    host = parts.netloc.rpartition("@")[2]  # without a password; nor is the query shown, which may hold a key
    return f"{who} at {parts.scheme}://{host}{parts.path}" if host else who


def _url_of(error: BaseException) -> str | None:
    """Where the request went that failed; looked up with care, for a property of httpx raises where there is none."""
    attributes = (getattr(holder, "__dict__", {}) for holder in _holders(error))
    urls = (getattr(parts.get(name), "url", None) for parts in attributes for name in ("request", "_request"))
    return next((str(url) for url in urls if url), None)


def _causes(error: BaseException, *, handled: bool = False) -> Iterator[BaseException]:
    """An error and its causes; with *handled* also the errors that were being handled when it was raised (requests, urllib)."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or (each.__context__ if handled and not each.__suppress_context__ else None)


def _is_any(error: BaseException, *kinds: type[BaseException], handled: bool = False) -> bool:
    return any(isinstance(each, kinds) for each in _causes(error, handled=handled))


def _holders(error: BaseException) -> Iterator[object]:
    """What may have the status or the request: errors, and their responses (those of botocore are mappings)."""
    for each in _causes(error):
        response = getattr(each, "response", None)
        yield from (each, response)
        if isinstance(response, Mapping):
            yield response.get("ResponseMetadata")


def _http_errors(*names: str) -> Iterator[type[BaseException]]:
    """Error classes of the HTTP clients that are loaded; not all of them derive from Python's own."""
    for module in map(sys.modules.get, ("httpx", "httpx2", "aiohttp")):
        yield from (getattr(module, name) for name in names if hasattr(module, name))


def _pause(state: RetryCallState) -> float:
    """Seconds until the next try."""
    error = state.outcome.exception() if state.outcome else None
    pauses = [] if error is None else [_retry_after(each) for each in _causes(error)]
    return next((seconds for seconds in pauses if seconds is not None), _BACKOFF(state))


def _retry_after(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = str(headers.get(name, ""))
        try:
            date = value[:1].isalpha()
            seconds = parsedate_to_datetime(value).timestamp() - time.time() if date else float(value) * unit
        except ValueError:
            continue
        if seconds >= 0:
            return seconds
    return None


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


def make_with_timeout(make: Callable[..., T], settings: Settings) -> T:
    """Make a model with a timeout and no retries of its client, where its class has LangChain's standard parameters."""
    made = make()
    fields = getattr(type(made), "model_fields", {})
    names = {name for field in fields for name in (field, fields[field].alias)}
    options = {"timeout": settings.model_timeout, "max_retries": 0}
    standard = {name: value for name, value in options.items() if name in names}
    return make(**standard) if standard else made


def reply_bounds(model: Any, name: str, settings: Settings, most: int = 4_096) -> dict[str, Any]:
    """What bounds the replies of a chat model made from a *name*: temperature 0 and the most tokens, by its own fields."""
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
    """Turn what making a model raises into errors that name the fix: *key* says how to give it, *form* how names look."""
    from openai import OpenAIError  # noqa: PLC0415 - slow to import, and offline needs none

    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(_package(error)) from error
    except OpenAIError as error:
        raise InvalidInputError(f"{what} has no key: {key}") from error
    except OSError as error:  # those of an HTTP client are, too, or become one in the provider's package
        raise ModelUnreachableError(
            f"cannot load {what}: {_reason(error)}", hint="check its name and the network"
        ) from error
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"cannot use {what}: {_reason(error)}; {form}") from None


def _reason(error: Exception) -> str:
    # Pydantic's own text quotes what was given, keys among it.
    parts = error.errors() if isinstance(error, ValidationError) else ()
    return redact_urls("; ".join(f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in parts) or str(error))


def _package(error: ImportError) -> str:
    # LangChain's own error names the package in its text; the import behind it, where there is one, names the module.
    match = _PACKAGE.search(str(error))
    module = getattr(error.__cause__, "name", None) or error.name or ""
    return match[1] if match else module.partition(".")[0].replace("_", "-") or str(error)
