"""Who looks at the page: a login that stands for a key, and the proof that a form was ours."""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, Final

from fastapi import Request  # noqa: TC002 - FastAPI reads the annotations of `check_form`

from langmem_adapter.server.auth import ForbiddenError, NobodyError, by_secret
from langmem_adapter.storage import keys, sessions
from langmem_adapter.twins import beside

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.responses import Response

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.server.auth import Auth

__all__ = ["COOKIE", "by_sessions", "check_form", "form_token", "log_in", "log_out", "put_cookie", "visitor"]

COOKIE: Final = "langmem_adapter"
FIELD: Final = "csrf"
_HEADER: Final = "x-csrf-token"
_PURPOSE: Final = b"form"


def by_sessions(memory: Memory) -> Auth:
    """Callers are known by a session that they began with a key."""
    return by_secret(memory, _shown, sessions.find, "log in with a key")


async def log_in(memory: Memory, shown: str) -> str:
    """Begin a session with a key; `NobodyError` where it is none, or a revoked one."""
    key = await beside(memory.parts.reading, keys.find, shown)
    if key is None:
        raise NobodyError("that is no key that is good for anything here")
    return await memory.parts.database.awrite(lambda connection: sessions.begin(connection, key))


async def log_out(memory: Memory, request: Request) -> None:
    """End the session of a request, if it has one."""
    await memory.parts.database.awrite(lambda connection: sessions.end(connection, _shown(request)))


def _shown(connection: HTTPConnection) -> str:
    return connection.cookies.get(COOKIE, "")


def visitor(request: Request) -> str:
    """What the browser of a request keeps, or shall keep from now on where no login is needed."""
    if not hasattr(request.state, "visitor"):
        request.state.visitor = request.cookies.get(COOKIE) or secrets.token_urlsafe(32)
    return str(request.state.visitor)


def put_cookie(request: Request, answer: Response, name: str, value: str, *, seconds: int) -> None:
    """Let a browser keep something that no script and no other site can read or send."""
    path = f"{request.scope.get('root_path', '')}/ui"
    secure = request.url.scheme == "https"
    answer.set_cookie(name, value, max_age=seconds, path=path, secure=secure, httponly=True, samesite="strict")


def form_token(request: Request) -> str:
    """What a form of ours carries: only who knows the cookie can make it, and no other site knows that."""
    return hmac.new(visitor(request).encode(), _PURPOSE, "sha256").hexdigest()


async def check_form(request: Request) -> None:
    """Raise `ForbiddenError` for what has not the token of a form of ours."""
    given = request.headers.get(_HEADER) or str((await request.form()).get(FIELD, ""))
    if not hmac.compare_digest(given.encode(), form_token(request).encode()):
        raise ForbiddenError("this form has grown old; load the page anew and send it again")
