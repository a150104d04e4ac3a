"""What every request meets before anything of it is read: its name, whether it may come from there, how long it is, how often.

Pure ASGI, so that streams pass through unbuffered.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

from langmem_adapter.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["POLICY", "Guard", "Rate"]

POLICY: Final = "default-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'"
"""What a page may load and do, unless it sends a `Content-Security-Policy` of its own."""

_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
_NAMED: Final = re.compile(r"[\w.-]{1,64}")
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_CALLERS: Final = 10_000
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
    """At most so many requests a minute from one caller, counted in this process; unused ones are saved up for one minute.

    With 0 any number may come.
    """

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
    """The door: refuses hosts and origins that are not ours, bodies that are too long, callers that come too often.

    A page of another site that had its name resolve to this machine (DNS rebinding) sends its own name as `Host`.

    Args:
        app: What is behind it.
        hosts: Names that a request may give as `Host`, without port; `"*"` for any.
        max_body: Bytes of a body.
        rate: Counts requests by the address that they come from.
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str] = _LOCAL, max_body: int, rate: Rate) -> None:
        if not hosts or isinstance(hosts, str):
            raise InvalidInputError(
                "hosts lists the names by which the server may be called, as ['memory.example.com']"
            )
        self._app = app
        self._hosts = frozenset(host.casefold() for host in hosts)
        self._max_body = max_body
        self._rate = rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        number = given if _NAMED.fullmatch(given) else uuid4().hex
        scope.setdefault("state", {})["request_id"] = number
        answer = _answering(send, number)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            status, detail, more = refusal
            await JSONResponse({"detail": detail}, status, more)(scope, receive, answer)
            return
        await self._app(scope, self._bounded(receive), answer)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str, dict[str, str]] | None:
        if not self._is_ours(headers.get("host", "")):
            return 421, "this server is not called by that name; see the option --host-name", {}
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            # It could not read the answer, but tell from the time that it takes what is kept.
            return 403, "another site may not read here", {}
        here, origin = headers.get("host", ""), headers.get("origin")
        if (
            scope["method"] not in _SAFE
            and origin is not None
            and origin.partition("://")[2].casefold() != here.casefold()
        ):
            return 403, "another site may not write here", {}
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._max_body:
            return 413, f"a body may have {self._max_body:,} bytes", {}
        wait = self._rate.wait(_network(scope["client"][0]) if scope.get("client") else "")
        if wait:
            return 429, "too many requests", {"retry-after": str(int(wait) + 1)}
        return None

    def _is_ours(self, host: str) -> bool:
        return "*" in self._hosts or re.sub(r":\d*$", "", host).casefold() in self._hosts

    def _bounded(self, receive: Receive) -> Receive:
        got = 0

        async def bounded() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > self._max_body:  # sent in pieces, without saying how long it will be
                raise BodyTooLongError(413, f"a body may have {self._max_body:,} bytes")
            return message

        return bounded


class BodyTooLongError(HTTPException):
    """A body turned out to be longer than it may be; of this kind, since FastAPI makes every other a 400."""


def _network(address: str) -> str:
    """Who comes from an address: with IPv6 one customer has 2**64 of them and could take another for each request."""
    try:
        given = IPv6Address(address)
    except ValueError:
        return address
    return str(given.ipv4_mapped or IPv6Address(given.packed[:8] + bytes(8)))


def _answering(send: Send, number: str) -> Send:
    async def answering(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = number
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return answering
