"""The app: an ASGI program that serves one memory; run it by `langmem-adapter serve`, or mount it into your own."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter._version import __version__
from langmem_adapter.arguments import flag
from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import quoted

try:
    from fastapi import FastAPI
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route
except ModuleNotFoundError as error:
    raise MissingDependencyError("fastapi", extra="server") from error

from langmem_adapter.server import docs, mem0
from langmem_adapter.server.auth import NobodyError, by_keys, locally, principal_of
from langmem_adapter.server.calls import Anyone, Service
from langmem_adapter.server.guard import BodyError, Guard, Rate
from langmem_adapter.server.jobs import Workers
from langmem_adapter.server.log import Logged
from langmem_adapter.server.page.layout import OPEN_FORMS, Shell, by_sessions
from langmem_adapter.server.page.router import router as page
from langmem_adapter.server.problems import answer_errors
from langmem_adapter.server.v1.router import router as ours
from langmem_adapter.twins import beside

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from starlette.requests import HTTPConnection

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.server.auth import Auth
    from langmem_adapter.server.mcp import Mounted
    from langmem_adapter.server.metrics import Metrics

__all__ = ["create_app"]

_MEGABYTE: Final = 1_000_000
_SHORT: Final = 10_000
_ABOUT: Final = (
    "Every call shows a key, unless the server serves its own machine alone: "
    "`langmem-adapter keys create` makes one, *Authorize* takes it, in either of two ways."
)


def create_app(
    memory: Memory,
    *,
    auth: Auth | str,
    hosts: Collection[str] = ("localhost", "127.0.0.1", "[::1]", "testserver"),
    max_body: int = 10 * _MEGABYTE,
    request_timeout: float = 20.0,
    per_minute: int = 0,
    fetch_images: bool = False,
    mcp: bool = False,
    metrics: bool = False,
) -> FastAPI:
    """An ASGI app that serves a memory.

    Args:
        memory: The memory; whoever made it closes it.
        auth: Who is let in: `"keys"` (those of `langmem-adapter keys`), `"local"` (this machine alone, which may do
            everything), or a function of your own from a request to a `Principal`. It must be chosen: an app that is mounted
            into another one knows nothing of that one's auth.
        hosts: Names by which it may be called (`Host`), without port; `"*"` for any, where keys are needed.
        max_body: Bytes of a request's body.
        request_timeout: Seconds in which more of a request's body must arrive, at 20 bytes a second in the long run.
        per_minute: Requests a minute from one address; 0 for any number.
        fetch_images: Whether images may be named by addresses, which the chat model, or its client on this machine, then
            fetches: whoever may write chooses what it asks for. `data:` URLs always pass.
        mcp: Whether MCP clients are served as well, at `/mcp` (streamable HTTP; extra `mcp`); not where the app is mounted into
            another one, which runs no lifespan of it.
        metrics: Whether Prometheus is told at `/metrics` what is done, and how long it takes (extra `metrics`); it shows an
            `admin` key that reaches everything.

    Raises:
        InvalidInputError: *memory* is no `Memory`, *auth* is none of these, or no key is needed under any name.
        MissingDependencyError: FastAPI is not installed (`pip install "langchain-langmem-adapter[server]"`).

    Example:
        >>> from fastapi.testclient import TestClient
        >>> from langmem_adapter import Memory
        >>> memory = Memory(":memory:")
        >>> client = TestClient(create_app(memory, auth="keys"))
        >>> client.get("/memories").status_code
        401
        >>> memory.close()
    """
    parts_of(memory, "create_app")
    if auth == "local" and "*" in hosts:
        raise InvalidInputError(
            "without keys name the hosts: a page of any site could call what is served under any name"
        )
    authenticate = _auth(auth, memory)
    visit = by_sessions(memory) if auth == "keys" else authenticate
    workers = Workers(memory)
    tools = _mcp(memory, authenticate) if flag(mcp, "mcp") else None
    app = _app(workers, tools)
    counted = _metrics(app, memory) if flag(metrics, "metrics") else None
    shell = Shell(memory, visit, needs_login=auth == "keys")

    async def admit(connection: HTTPConnection) -> int:
        path = connection.url.path.removeprefix(connection.scope.get("root_path", ""))
        if path in OPEN_FORMS:
            return _SHORT
        try:
            await principal_of(connection, visit if shell.holds(path) else authenticate)
        except NobodyError as error:
            raise BodyError(401, str(error)) from None
        return max_body

    app.add_middleware(Guard, hosts=hosts, admit=admit, timeout=request_timeout, rate=Rate(per_minute))
    app.add_middleware(Logged, count=None if counted is None else counted.request)
    app.state.service = Service(memory, authenticate, fetch_images, workers)
    app.state.shell, app.state.ending = shell, False
    answer_errors(app)
    docs.put(app)
    app.include_router(mem0.router)
    app.include_router(ours)
    app.include_router(page, include_in_schema=False)
    if tools is not None:
        app.router.routes.append(Route("/mcp", tools, methods=["POST"]))  # no session: no stream of it, nothing to end
    return app


def _app(workers: Workers, tools: Mounted | None) -> FastAPI:
    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        async with workers.running(), nullcontext() if tools is None else tools.running():
            yield

    return FastAPI(
        title="langmem_adapter",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # `docs` makes the page
        redoc_url=None,
        redirect_slashes=False,
        lifespan=running,
        telemetry={"logs": False, "operation_spans": False},  # errors may quote a memory; its inner steps tell nothing
    )


def _metrics(app: FastAPI, memory: Memory) -> Metrics:
    from langmem_adapter.server.metrics import Metrics  # noqa: PLC0415 - another extra

    counted = Metrics(memory)

    async def metrics(call: Anyone) -> PlainTextResponse:
        call.principal.need_everything()
        return PlainTextResponse(await beside(counted.text), media_type="text/plain; version=1.0.0")

    app.add_api_route("/metrics", metrics, include_in_schema=False)
    return counted


def _mcp(memory: Memory, authenticate: Auth) -> Mounted:
    from langmem_adapter.server.mcp import Mounted  # noqa: PLC0415 - another extra

    return Mounted(memory, authenticate)


def _auth(auth: Any, memory: Memory) -> Auth:
    if callable(auth):
        given: Auth = auth
        return given
    if auth not in {"keys", "local"}:
        raise InvalidInputError(f'auth is "keys", "local" or a function of your own, not {quoted(auth)}')
    return by_keys(memory) if auth == "keys" else locally
