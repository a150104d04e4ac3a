"""How long a model may take, how often it is asked again, and whom an error of it speaks of.

Every call of a chat model and of embeddings passes here, sync and async alike. A read timeout of a client is not enough: a
server that sends a byte now and then defeats it, and the caller's own model may have none. So the whole call, with all that
is asked again, has one end; what is still under way then is left behind, and its answer reaches nobody.
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from tenacity import AsyncRetrying, Retrying, retry_if_exception, stop_after_attempt, stop_before_delay
from tenacity.wait import wait_random_exponential

from langmem_adapter.errors import LangmemAdapterError, ModelTimeoutError
from langmem_adapter.twins import Plan, in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from concurrent.futures import Future

    from tenacity import RetryCallState

    from langmem_adapter.settings import Settings

__all__ = ["Limits", "asked_of", "is_passing", "is_quota", "known_errors", "limits_of", "model_name", "status_of"]

R = TypeVar("R")

_ASKED: Final = "asked of "
_FAILED: Final = range(400, 600)
_SERVER: Final = 500
_PASSING: Final = frozenset({408, 409, 429})
_LASTING: Final = frozenset({501, 505})
_BACKOFF: Final = wait_random_exponential(multiplier=0.2, max=5.0)


class Limits:
    """The limits within which a model is called.

    Args:
        who: Whom errors speak of.
        address: Its server, if that is known beforehand; else errors that know it tell.
        timeout: Seconds that a call may take, all that is asked again included.
        retries: How often it is asked again after a failure that may pass: too many requests (but no quota that is used up), a
            server's own error, a lost connection. The server's `Retry-After` is kept to.
    """

    def __init__(
        self, who: str = "the model", *, address: str | None = None, timeout: float = 60.0, retries: int = 2
    ) -> None:
        self._who = who
        self._address = address
        self._timeout = timeout
        self._rules: dict[str, Any] = {
            # Contract: a call that was left behind asks nobody again; its time is over when it comes back.
            # tests/test_limits.py::test_what_was_left_behind_asks_nobody_again
            "stop": stop_after_attempt(1 + retries) | stop_before_delay(timeout),
            "wait": _pause,
            "retry": retry_if_exception(is_passing),
            "reraise": True,
        }

    def plan(self, run: Callable[[], R], arun: Callable[[], Awaitable[R]] | None = None) -> Plan[R]:
        """A call within these limits.

        Where there is no *arun* the call would only block a thread of the loop's executor, of which there are few: it gets a
        thread of its own then.

        Raises:
            ModelTimeoutError: When the plan is carried out: there was no answer in time.
            Exception: What the call raised last, unchanged; a note on it says whom was asked.
        """

        def work() -> R:
            return Retrying(**self._rules)(run)

        def sync() -> R:
            answer = in_thread(work)
            wait([answer], self._timeout)
            return self._result(answer if answer.done() else None)

        async def asynchronous() -> R:
            again = AsyncRetrying(**self._rules)
            answer = asyncio.wrap_future(in_thread(work)) if arun is None else asyncio.ensure_future(again(arun))
            answer.add_done_callback(_looked_at)
            try:
                done, _ = await asyncio.wait([answer], timeout=self._timeout)
            finally:
                answer.cancel()  # nobody waits for what comes of it: a model may not listen
            return self._result(answer if done else None)

        return Plan(sync, asynchronous)

    def _result(self, answer: Future[R] | asyncio.Future[R] | None) -> R:
        if answer is None:
            raise ModelTimeoutError(
                f"{_named(self._who, self._address)} did not answer within {self._timeout:g} seconds; nothing was changed. "
                "A slow model is given longer by the setting model_timeout"
            )
        error = answer.exception()
        if error is not None and asked_of(error) is None:
            error.add_note(_ASKED + _named(self._who, self._address or _url_of(error)))
        return answer.result()


def limits_of(given: object, made: object, settings: Settings) -> Limits:
    """The limits for a model that was *made* of what the user said: a name, or the model itself.

    Where its client repeats by itself (LangChain's standard parameter `max_retries`), it alone does: two that count would
    multiply. Models that are made by name come without.
    """
    named = isinstance(given, str)
    who = f"{given}" if named else f"{type(made).__name__} {model_name(made)}"
    retries = settings.model_retries if getattr(made, "max_retries", 0) == 0 else 0
    return Limits(who, address=settings.base_url if named else None, timeout=settings.model_timeout, retries=retries)


def model_name(model: object) -> str:
    """What to call a model in results: its own name, or its class."""
    for attribute in ("model_name", "model"):
        name = getattr(model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__


def _looked_at(answer: asyncio.Future[Any]) -> None:
    """Nobody else looks at the error of what was left behind, and asyncio would complain."""
    if not answer.cancelled():
        answer.exception()


# ── what a failure says ──────────────────────────────────────────────────────────────────────────────────────────────


def is_passing(error: BaseException) -> bool:
    """Whether the same call may well succeed in a moment."""
    status = status_of(error)
    if status is not None:
        return (status in _PASSING and not is_quota(error)) or (status >= _SERVER and status not in _LASTING)
    return any(isinstance(each, (ConnectionError, TimeoutError, *_lost())) for each in _causes(error, handled=True))


def is_quota(error: BaseException) -> bool:
    """Whether an account is used up, which OpenAI's protocol tells with the status of too many requests."""
    return any("insufficient_quota" in str(each) for each in _causes(error))


def status_of(error: BaseException) -> int | None:
    """The HTTP status of a failure that an error of a model's client tells, itself or by what caused it."""
    told = (getattr(holder, name, None) for holder in _holders(error) for name in ("status_code", "code"))
    return next((int(status) for status in told if isinstance(status, int) and status in _FAILED), None)


def asked_of(error: BaseException) -> str | None:
    """Whom was asked when this was raised, if a model raised it."""
    notes = (note for each in _causes(error) for note in getattr(each, "__notes__", ()))
    return next((note.removeprefix(_ASKED) for note in notes if note.startswith(_ASKED)), None)


def known_errors() -> tuple[type[BaseException], ...]:
    """The errors that are told without a traceback: ours, and whatever a model raised.

    Meant for an `except` clause, which asks only once something was raised: that says whether a model was asked, of whatever
    class it is. Clients rename their classes, and a server that sends HTML makes them stumble anywhere.
    """
    raised = sys.exception()
    return LangmemAdapterError, *(() if raised is None or asked_of(raised) is None else (type(raised),))


def _named(who: str, address: str | None) -> str:
    parts = urlsplit(address or "")
    # Neither a password nor a key in the query is told.
    host = parts.netloc.rpartition("@")[2]
    return f"{who} at {parts.scheme}://{host}{parts.path}" if host else who


def _url_of(error: BaseException) -> str | None:
    """Where the request went that failed; looked up with care, for a property of httpx raises where there is none."""
    told = (getattr(holder, "__dict__", {}) for holder in _holders(error))
    urls = (getattr(parts.get(name), "url", None) for parts in told for name in ("request", "_request"))
    return next((str(url) for url in urls if url), None)


def _causes(error: BaseException, *, handled: bool = False) -> Iterator[BaseException]:
    """An error and those it was raised from; where asked, also those that were only being handled (requests, urllib)."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or (each.__context__ if handled and not each.__suppress_context__ else None)


def _holders(error: BaseException) -> Iterator[object]:
    """What may know of the request that failed: errors, and the responses that they carry."""
    for each in _causes(error):
        yield from (each, getattr(each, "response", None))


def _lost() -> Iterator[type[BaseException]]:
    """What the HTTP clients that are loaded raise for a lost connection; not all of it derives from Python's own."""
    for module in map(sys.modules.get, ("httpx", "httpx2")):
        if module is not None:
            yield from (module.TimeoutException, module.NetworkError, module.RemoteProtocolError)


def _pause(state: RetryCallState) -> float:
    """Seconds until it is asked again."""
    error = state.outcome.exception() if state.outcome else None
    told = [] if error is None else [_retry_after(each) for each in _causes(error)]
    return next((seconds for seconds in told if seconds is not None), _BACKOFF(state))


def _retry_after(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if seconds >= 0:
            return seconds
    return None
