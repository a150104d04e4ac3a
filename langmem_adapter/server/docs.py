"""`/docs`: the OpenAPI document in Swagger UI, which lies in this package: no inline script, and nobody else is asked."""

from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from langmem_adapter.server.guard import POLICY

_HERE: Final = Path(__file__).parent
_POLICY: Final = f"{POLICY}; img-src 'self' data:"  # the icons of Swagger UI's style sheet


class _Files(StaticFiles):
    """Files that a browser keeps; it asks each time whether they have changed."""

    def file_response(self, *arguments: Any, **named: Any) -> Response:
        answer = super().file_response(*arguments, **named)
        answer.headers["cache-control"] = "no-cache"
        return answer


def put(app: FastAPI) -> None:
    """Give an app the page, what it is made of, and a way there from `/`; it shows the routes of later routers as well.

    Its addresses are relative, so that it works below any other path.
    """
    pages = Environment(loader=FileSystemLoader(_HERE / "templates"), autoescape=True, undefined=StrictUndefined)
    app.mount("/static", _Files(directory=_HERE / "static"), name="static")

    @app.get("/", include_in_schema=False)
    async def home() -> RedirectResponse:
        return RedirectResponse("docs")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        page = pages.get_template("docs.html").render(document=app.openapi())
        return HTMLResponse(page, headers={"content-security-policy": _POLICY})
