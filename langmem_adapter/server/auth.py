"""Authentication: the one place where a request gets a caller, a scope and rights."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langmem_adapter.arguments import optional_scope
from langmem_adapter.errors import LangmemAdapterError
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import keys
from langmem_adapter.twins import run_in_executor

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from starlette.requests import HTTPConnection

    from langmem_adapter.memory.memory import Memory

_FORWARDED: Final = ("forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-forwarded-")
"""How the names of headers begin that a proxy adds."""


class NobodyError(LangmemAdapterError):
    """A request has no valid credentials."""


class ForbiddenError(LangmemAdapterError):
    """The caller has not this right, or not in this scope."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller."""

    name: str  # the caller in logs: the id of a key, or `"local"`; no secret
    scope: Scope | None  # the scope that is reached; `None` for everything
    rights: frozenset[str]  # `"read"`, `"write"`, `"admin"`

    def need(self, right: str) -> None:
        """Raise `ForbiddenError` without this right."""
        if right not in self.rights:
            raise ForbiddenError(f"this needs a key with the right to {right}")

    @property
    def reaches_everything(self) -> bool:
        """Whether operations on all scopes are allowed."""
        return "admin" in self.rights and self.scope is None

    def need_everything(self) -> None:
        """Raise `ForbiddenError` for all but an admin of all scopes."""
        self.need("admin")
        if not self.reaches_everything:
            raise ForbiddenError("this concerns all scopes: it needs an admin key that reaches everything")

    def narrowed(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The caller's own fields of a scope and those that a request names, for any method of `Memory`."""
        scope = optional_scope(fields)
        requested = {} if scope is None else scope.named
        own = {} if self.scope is None else self.scope.named
        if any(requested.get(name, value) != value for name, value in own.items()):
            raise ForbiddenError("this key reaches another scope")
        return {**requested, **own}


EVERYTHING: Final = Principal("local", None, frozenset(keys.RIGHTS))
"""A caller with all rights."""

Auth: TypeAlias = Callable[["HTTPConnection"], Awaitable[Principal]]
"""Finds the caller of a request, or raises `NobodyError`; a program may bring its own."""


def by_keys(memory: Memory) -> Auth:
    """Authenticate by a key, as `X-API-Key` or `Authorization: Bearer` (see `langmem_adapter.storage.keys`)."""

    def read_key(connection: HTTPConnection) -> str:
        kind, _, value = connection.headers.get("authorization", "").partition(" ")
        return connection.headers.get("x-api-key") or (value.strip() if kind.casefold() == "bearer" else "")

    return by_secret(memory, read_key, keys.find, "give a valid key, as X-API-Key or as Authorization: Bearer")


def by_secret(
    memory: Memory,
    read: Callable[[HTTPConnection], str],
    find: Callable[[Connection, str], keys.Key | None],
    advice: str,
) -> Auth:
    """Authenticate by a secret of the request, which leads to a key; an admin may read and write as well."""

    async def authenticate(connection: HTTPConnection) -> Principal:
        secret = read(connection)
        key = await run_in_executor(memory.parts.reading, find, secret) if secret else None
        if key is None:
            raise NobodyError(advice)
        return Principal(key.id, key.scope, key.rights | ({"read", "write"} if "admin" in key.rights else set()))

    return authenticate


def by_server(memory: Memory) -> Auth:
    """The user whom the server around the app has signed in (Starlette's `request.user`), with that user's memories.

    Without a signed-in user a key is needed; with one, no key is read.
    """
    with_key = by_keys(memory)

    async def authenticate(connection: HTTPConnection) -> Principal:
        user = connection.scope.get("user")
        if user is None or not user.is_authenticated:
            return await with_key(connection)
        return Principal("signed in", Scope(user_id=user.identity), frozenset({"read", "write"}))

    return authenticate


async def principal_of(connection: HTTPConnection, authenticate: Auth) -> Principal:
    """The caller, looked up once for each request."""
    if not hasattr(connection.state, "principal"):
        connection.state.principal = await authenticate(connection)
        connection.state.caller = connection.state.principal.name
    principal: Principal = connection.state.principal
    return principal


async def locally(connection: HTTPConnection) -> Principal:
    """All rights for local connections; none through a proxy."""
    address = connection.client.host if connection.client else ""
    # A bare `proxy_pass` of nginx adds no header and names us as `Host`, but speaks HTTP/1.0, as no browser does.
    # https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_http_version
    is_old = connection.scope["http_version"] == "1.0"
    if not is_loopback(address) or is_old or any(name.startswith(_FORWARDED) for name in connection.headers):
        raise NobodyError("without keys only this machine itself is served; make one with: langmem-adapter keys create")
    return EVERYTHING


def is_loopback(host: str) -> bool:
    """Whether an address or name means this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
