"""`/docs`: the OpenAPI document as a page to read, without a script and without asking anybody else for anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request  # noqa: TC002 - FastAPI reads the annotations of a route
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, FileSystemLoader, StrictUndefined

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fastapi import FastAPI

__all__ = ["put"]

_HERE: Final = Path(__file__).parent
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_OTHERS: Final = "Others"
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class _Operation:
    """One way to call the server, as the page shows it."""

    method: str
    path: str
    summary: str
    description: str
    parameters: list[dict[str, Any]]
    body: str | None
    answers: list[tuple[str, str]]
    answer: str | None

    @property
    def anchor(self) -> str:
        return f"{self.method}-{self.path.strip('/').replace('/', '-').replace('{', '').replace('}', '')}"


def put(app: FastAPI) -> None:
    """Give an app the page, its style, and a way there from `/`.

    Args:
        app: Whose routes it shows, those of later routers as well.
    """
    pages = Environment(loader=FileSystemLoader(_HERE / "templates"), autoescape=True, undefined=StrictUndefined)
    app.mount("/static", StaticFiles(directory=_HERE / "static"), name="static")

    @app.get("/", include_in_schema=False)
    async def home(request: Request) -> RedirectResponse:
        return RedirectResponse(f"{_base(request)}/docs")

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        document = app.openapi()
        page = pages.get_template("docs.html")
        return HTMLResponse(page.render(about=document["info"], groups=_groups(document), base=_base(request)))


def _base(request: Request) -> str:
    """Where the app is, also below another one."""
    return f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"


def _groups(document: Mapping[str, Any]) -> dict[str, list[_Operation]]:
    groups: dict[str, list[_Operation]] = {}
    for path, methods in document["paths"].items():
        for method in filter(methods.__contains__, _METHODS):
            operation = methods[method]
            name = operation.get("tags", [_OTHERS])[0]
            groups.setdefault(name, []).append(_operation(document, method, path, operation))
    return groups


def _operation(document: Mapping[str, Any], method: str, path: str, given: Mapping[str, Any]) -> _Operation:
    sent = given.get("requestBody", {}).get("content", {}).get(_JSON)
    answers = given["responses"]
    good: dict[str, Any] = next((each for code, each in answers.items() if code.startswith("2")), {})
    answered = good.get("content", {})
    return _Operation(
        method.upper(),
        path,
        given.get("summary", ""),
        given.get("description", ""),
        given.get("parameters", []),
        None if sent is None else _pretty(_example(document, sent)),
        [(code, each["description"]) for code, each in answers.items()],
        _pretty(answered[_JSON]["example"]) if "example" in answered.get(_JSON, {}) else None,
    )


def _example(document: Mapping[str, Any], sent: Mapping[str, Any]) -> Any:
    if "example" in sent:
        return sent["example"]
    return next((schema["examples"][0] for schema in _schemas(document, sent["schema"]) if "examples" in schema), {})


def _schemas(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A schema, and those that it stands for: by reference, or as one of several."""
    yield schema
    if "$ref" in schema:
        yield from _schemas(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    for each in schema.get("anyOf", ()):
        yield from _schemas(document, each)


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
