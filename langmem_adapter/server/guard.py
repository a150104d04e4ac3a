"""Limits of every request before its body is read: host, origin (CSRF), size, timeout, rate limit.

Pure ASGI, so that streams pass through unbuffered.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

from langmem_adapter.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    Admit = Callable[[HTTPConnection], Awaitable[int]]

POLICY: Final = "default-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'"
"""What a page may load and do, unless it sends its own `Content-Security-Policy`."""

_NAMED: Final = re.compile(r"[\w.-]{1,64}")
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_CALLERS: Final = 10_000
_MIN_RATE: Final = 20  # bytes of a body in a second
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Rate:
    """At most so many requests a minute (0: any number) from one caller; unused ones are saved up for one minute."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Count a request; seconds that its caller must wait first, 0 for none."""
        if not self._per_minute:
            return 0.0
        now = time.monotonic()
        left, then = self._left.pop(caller, (float(self._per_minute), now))
        left = min(float(self._per_minute), left + (now - then) * self._per_minute / 60)
        self._left[caller] = (max(left - 1, 0.0), now)
        if len(self._left) > _MOST_CALLERS:
            self._left.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) * 60 / self._per_minute


class Guard:
    """Refuses hosts and origins that are not ours, bodies that are too long, callers that come too often.

    A page of another site that had its name resolve to this machine (DNS rebinding) sends its own name as `Host`. *admit* says
    how many bytes of a body a request may send, or raises `BodyError`; it is called before any of it is read.
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], admit: Admit, timeout: float, rate: Rate) -> None:
        if not hosts or isinstance(hosts, str):
            raise InvalidInputError(
                "hosts is no list of names: pass the names of the server, as ['memory.example.com']"
            )
        self._app = app
        self._hosts = frozenset(host.casefold() for host in hosts)
        self._admit = admit
        self._timeout = timeout
        self._rate = rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        number = headers.get("x-request-id", "")
        number = number if _NAMED.fullmatch(number) else uuid4().hex
        scope.setdefault("state", {})["request_id"] = number
        body = _Body(receive, partial(self._admit, HTTPConnection(scope)), headers, self._timeout, scope["state"])
        answer = _answering(send, number, body)
        refusal = self._refusal(scope, headers)
        if refusal is None:
            await self._app(scope, body.receive, answer)
        else:
            await refusal(scope, receive, answer)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        here, origin = headers.get("host", ""), headers.get("origin")
        if "*" not in self._hosts and re.sub(r":\d*$", "", here).casefold() not in self._hosts:
            return _refusal(421, "this server is not called by that name; see the option --host-name")
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            # It could not read the answer, but tell from the time that it takes what is kept.
            return _refusal(403, "another site may not read here")
        is_foreign = origin is not None and origin.partition("://")[2].casefold() != here.casefold()
        if is_foreign and scope["method"] not in _SAFE:
            return _refusal(403, "another site may not write here")
        wait = self._rate.wait(_network(scope["client"][0]) if scope.get("client") else "")
        return _refusal(429, "too many requests", {"retry-after": str(int(wait) + 1)}) if wait else None


def _refusal(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"detail": detail}, status, headers)


class _Body:
    """A body within its limits; the time counts in which the app waits for it, until an answer begins."""

    def __init__(
        self,
        receive: Receive,
        admit: Callable[[], Awaitable[int]],
        headers: Headers,
        timeout: float,
        state: Mapping[str, Any],
    ) -> None:
        length = headers.get("content-length", "")
        self._receive = receive
        self._state = state
        self._admit = admit
        self._size = int(length) if length.isdecimal() else 0
        self._timeout = timeout
        self._is_announced = length not in {"", "0"} or "transfer-encoding" in headers
        self._most: int | None = None
        self._refused: int | None = None
        self.left: float | None = timeout

    async def receive(self) -> Message:
        """The next part; a `BodyError` where the caller is unknown, or the body too long or too slow."""
        if self._most is not None:
            return await self._limited(self._most, None)
        message: Message | None = None
        if self.left is None or not self._is_announced:  # an answer may wait here until the client is gone
            message = await self._receive()
            if not message.get("body"):
                return message
        self._most = await self._admit()
        self._size = 0 if self._size <= self._most else self._most + 1
        return await self._limited(self._most, message)

    async def _limited(self, most: int, message: Message | None) -> Message:
        """The next part, which may have been received before; at most so many bytes with those before it."""
        is_over = self._size > most or self._refused is not None
        message = {} if is_over else message or await self._in_time()
        self._refused = self._state.get("refused")
        if self._refused is not None and not message.get("body"):  # by `LimitedProtocol`; what came before it is read
            raise BodyError(self._refused, HTTPStatus(self._refused).description, {"connection": "close"})
        self._size += len(message.get("body", b""))
        if self._size > most:
            raise BodyError(413, f"a body may have {most:,} bytes")
        if not message.get("more_body", False):
            self.left = None
        return message

    async def _in_time(self) -> Message:
        began = time.monotonic()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.left):
                    message = await self._receive()
                if self.left is not None:
                    left = self.left + began - time.monotonic() + len(message.get("body", b"")) / _MIN_RATE
                    self.left = min(left, self._timeout)
                return message
            if self.left is not None:
                raise BodyError(408, "the body did not arrive in time", {"connection": "close"})


class BodyError(HTTPException):
    """A body that is not read; an `HTTPException`, since FastAPI makes every other error a 400."""


def _network(address: str) -> str:
    """Who comes from an address: with IPv6 one customer has 2**64 of them and could take another for each request."""
    try:
        full = IPv6Address(address)
    except ValueError:
        return address
    return str(full.ipv4_mapped or IPv6Address(full.packed[:8] + bytes(8)))


def _answering(send: Send, number: str, body: _Body) -> Send:
    async def answering(message: Message) -> None:
        body.left = None
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = number
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return answering
