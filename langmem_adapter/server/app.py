"""REST server: an ASGI app that serves one memory; run it by `langmem-adapter serve`, or mount it into your own."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter._version import __version__
from langmem_adapter.arguments import flag
from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.memory.parts import parts_of
from langmem_adapter.records.checks import quoted

try:
    from fastapi import FastAPI
    from fastapi.staticfiles import StaticFiles
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
    from starlette.routing import Route
except ModuleNotFoundError as error:
    raise MissingDependencyError("fastapi", extra="server") from error

from langmem_adapter.server import mem0
from langmem_adapter.server.auth import NobodyError, by_keys, locally, principal_of
from langmem_adapter.server.calls import Anyone, Service
from langmem_adapter.server.guard import POLICY, BodyError, Guard, Rate
from langmem_adapter.server.jobs import Rebuilding, Workers
from langmem_adapter.server.log import Logged
from langmem_adapter.server.page import router as page
from langmem_adapter.server.page.layout import OPEN_FORMS, by_sessions, refuse
from langmem_adapter.server.problems import PAGE, answer_errors, is_page
from langmem_adapter.server.v1 import routes
from langmem_adapter.twins import run_in_executor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from starlette.requests import HTTPConnection

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.server.auth import Auth
    from langmem_adapter.server.mcp import Mounted
    from langmem_adapter.server.metrics import Metrics

_MEGABYTE: Final = 1_000_000
_SHORT: Final = 10_000
_HERE: Final = Path(__file__).parent
_DOCS_POLICY: Final = f"{POLICY}; img-src 'self' data:"  # the icons of Swagger UI's style sheet
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
        memory: The memory; the caller closes it.
        auth: `"keys"` (those of `langmem-adapter keys`), `"local"` (local connections only, with full access), or a function
            from a request to a `Principal`. There is no default: a mounted app does not see the auth of the outer app.
        hosts: Accepted `Host` names, without port; `"*"` for any, where keys are needed.
        max_body: Bytes of a request's body.
        request_timeout: Seconds in which more of a request's body must arrive, at 20 bytes a second in the long run.
        per_minute: Requests a minute from one address; 0 for any number.
        fetch_images: Whether images may be URLs, which the chat model or its client then fetches: callers choose the address.
            `data:` URLs always pass.
        mcp: Serve MCP clients at `/mcp` (streamable HTTP; extra `mcp`); not in a mounted app, which runs no lifespan.
        metrics: Serve Prometheus metrics at `/metrics` (extra `metrics`), for `admin` keys that reach everything.

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
        raise InvalidInputError("hosts cannot be '*' without keys: any web page could call the server; name the hosts")
    if auth not in ("keys", "local") and not callable(auth):
        raise InvalidInputError(f'auth is "keys", "local" or your own function, not {quoted(auth)}')
    authenticate: Auth = auth if callable(auth) else by_keys(memory) if auth == "keys" else locally
    service = Service(
        memory=memory,
        authenticate=authenticate,
        visit=by_sessions(memory) if auth == "keys" else authenticate,
        needs_login=auth == "keys",
        fetch_images=fetch_images,
        workers=Workers(memory),
        rebuilding=Rebuilding(memory),
    )
    tools = None
    if flag(mcp, "mcp"):
        from langmem_adapter.server.mcp import Mounted  # noqa: PLC0415 - another extra

        tools = Mounted(memory, authenticate)
    app = _app(service.workers, tools)
    counted = _metrics(app, memory) if flag(metrics, "metrics") else None

    async def admit(connection: HTTPConnection) -> int:
        path = connection.url.path.removeprefix(connection.scope.get("root_path", ""))
        if path in OPEN_FORMS:
            return _SHORT
        try:
            await principal_of(connection, service.visit if is_page(path) else authenticate)
        except NobodyError as error:
            raise BodyError(401, str(error)) from None
        return max_body

    app.add_middleware(Guard, hosts=hosts, admit=admit, timeout=request_timeout, rate=Rate(per_minute))
    app.add_middleware(Logged, count=None if counted is None else counted.request)
    app.state.service, app.state.refuse, app.state.ending = service, refuse, False
    answer_errors(app)
    _add_docs(app)
    app.include_router(mem0.router)
    app.include_router(routes.router)
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
        docs_url=None,  # `_add_docs` makes the page
        redoc_url=None,
        redirect_slashes=False,
        lifespan=running,
        telemetry={"logs": False, "operation_spans": False},  # errors may quote a memory; its inner steps tell nothing
    )


class _Files(StaticFiles):
    def file_response(self, *arguments: Any, **named: Any) -> Response:
        answer = super().file_response(*arguments, **named)
        answer.headers["cache-control"] = "no-cache"  # a browser keeps files, and asks whether they have changed
        return answer


def _add_docs(app: FastAPI) -> None:
    """`/docs`: the OpenAPI document in Swagger UI, without inline scripts; `/` leads to the page, by a relative address."""
    pages = Environment(loader=FileSystemLoader(_HERE / "templates"), autoescape=True, undefined=StrictUndefined)
    app.mount("/static", _Files(directory=_HERE / "static"), name="static")

    @app.get("/", include_in_schema=False)
    async def home() -> RedirectResponse:
        return RedirectResponse(PAGE.removeprefix("/"))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        page = pages.get_template("docs.html").render(document=app.openapi())
        return HTMLResponse(page, headers={"content-security-policy": _DOCS_POLICY})


def _metrics(app: FastAPI, memory: Memory) -> Metrics:
    from langmem_adapter.server.metrics import Metrics  # noqa: PLC0415 - another extra

    counted = Metrics(memory)

    async def metrics(call: Anyone) -> PlainTextResponse:
        call.principal.need_everything()
        return PlainTextResponse(await run_in_executor(counted.text), media_type="text/plain; version=1.0.0")

    app.add_api_route("/metrics", metrics, include_in_schema=False)
    return counted
