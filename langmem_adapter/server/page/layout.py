"""What every view has in common: its frame, its scope, its theme, and addresses that keep them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from langmem_adapter._version import __version__
from langmem_adapter.records.scope import SCOPE_FIELDS
from langmem_adapter.server.page import session
from langmem_adapter.server.page.rebuild import Rebuilding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.server.auth import Auth, Principal

__all__ = ["OPEN_FORMS", "PREFIX", "THEMES", "BarPiece", "Shell", "base_of", "pieces", "shell_of"]

PREFIX: Final = "/ui"
"""Where the page is."""
OPEN_FORMS: Final = (f"{PREFIX}/login", f"{PREFIX}/logout", f"{PREFIX}/theme")
"""Forms that anyone may send."""
THEMES: Final = ("auto", "light", "dark")
THEME: Final = "langmem_adapter_theme"

_HERE: Final = Path(__file__).parents[1]
_DAY: Final = 86_400
_STEPS: Final = ((365 * _DAY, "year"), (30 * _DAY, "month"), (_DAY, "day"), (3_600, "hour"), (60, "minute"))


class Shell:
    """Makes answers out of templates, for one memory."""

    def __init__(self, memory: Memory, visit: Auth, *, needs_login: bool) -> None:
        self.memory = memory
        self.visit = visit
        self.rebuilding = Rebuilding(memory)
        self.needs_login = needs_login

    def holds(self, path: str) -> bool:
        """Whether a path of the app is one of the page's."""
        return f"{path}/".startswith(f"{PREFIX}/")

    def show(
        self,
        request: Request,
        name: str,
        who: Principal | None = None,
        whose: Mapping[str, Any] | None = None,
        *,
        status: int = HTTPStatus.OK,
        **values: Any,
    ) -> Response:
        """A view: the template *name* with these values, for *who* (`None`: not logged in), of the scope *whose*."""
        frame = self._frame(request, name, who, whose or {})
        answer = HTMLResponse(_templates().get_template(f"{name}.html").render(**frame, **values), status)
        # A form sends its origin only where the page may be named to its own site; the guard compares it.
        answer.headers["referrer-policy"] = "same-origin"
        if session.COOKIE not in request.cookies:
            session.put_cookie(request, answer, session.COOKIE, session.visitor(request), seconds=365 * _DAY)
        return answer

    def refuse(self, request: Request, status: int, detail: Any, headers: Mapping[str, str] | None = None) -> Response:
        """An error as a view (see `problems.problem`); who has to log in is led there."""
        if status == HTTPStatus.UNAUTHORIZED and self.needs_login:
            return self._to_login(request)
        title = HTTPStatus(status).phrase
        told = detail if isinstance(detail, str) else "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in detail)
        named = {name: request.query_params.get(name) for name in SCOPE_FIELDS if status != HTTPStatus.FORBIDDEN}
        detail = "" if told == title else told
        answer = self.show(request, "error", whose=named, status=status, title=title, detail=detail)
        answer.headers.update(headers or {})
        return answer

    def _to_login(self, request: Request) -> Response:
        back = place_of(request) if request.method == "GET" else ""
        answer = self.go(request, "/login", to=back)
        if "hx-request" not in request.headers:
            return answer
        # The script replaces a part of the view, and a whole one must not become a part.
        return HTMLResponse("", HTTPStatus.UNAUTHORIZED, {"hx-redirect": answer.headers["location"]})

    def go(self, request: Request, path: str, whose: Mapping[str, Any] | None = None, **parameters: Any) -> Response:
        """Lead a browser on, as the answer to a form."""
        return RedirectResponse(address(request, path, {**(whose or {}), **parameters}), HTTPStatus.SEE_OTHER)

    def _frame(self, request: Request, name: str, who: Principal | None, whose: Mapping[str, Any]) -> dict[str, Any]:
        def at(path: str, **parameters: Any) -> str:
            return address(request, path, {**whose, **parameters})

        theme = request.cookies.get(THEME, "auto")
        return {
            "at": at,
            "base": base_of(request),
            "csrf": session.form_token(request),
            "here": name,
            "mode": self.memory.mode,
            "needs_login": self.needs_login,
            "place": place_of(request),
            "theme": theme if theme in THEMES else "auto",
            "themes": THEMES,
            "version": __version__,
            "who": who,
            "whose": {name: value for name, value in whose.items() if value is not None},
        }


def shell_of(request: Request) -> Shell:
    """That of the app that answers a request."""
    shell: Shell = request.app.state.shell
    return shell


@cache
def _templates() -> Environment:
    """Compiled once a process."""
    pages = Environment(
        loader=FileSystemLoader(_HERE / "templates" / "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"ago": ago, "moment": moment, "count": count}
    return pages


def base_of(request: Request) -> str:
    """Where the app is, also below another one; a path, so that it holds behind a proxy as well."""
    return str(request.scope.get("root_path", ""))


def place_of(request: Request) -> str:
    """The view that a request asks for, with its query."""
    return f"{request.url.path}{'?' if request.url.query else ''}{request.url.query}"


def address(request: Request, path: str, parameters: Mapping[str, Any]) -> str:
    """The address of a view, what is `None` or blank left out."""
    told = {name: value for name, value in parameters.items() if value not in {None, ""}}
    return f"{base_of(request)}{PREFIX}{path}{'?' if told else ''}{urlencode(told)}"


def ago(when: datetime, now: datetime | None = None) -> str:
    """How long ago something was, in words; what lies ahead is told as such."""
    seconds = ((now or datetime.now(UTC)) - when).total_seconds()
    for length, name in _STEPS:
        if (number := int(abs(seconds) // length)) > 0:
            told = f"{number} {name}{'s' if number > 1 else ''}"
            return f"{told} ago" if seconds > 0 else f"in {told}"
    return "just now"


def moment(when: datetime | str) -> str:
    """A time to the minute, at its own UTC offset."""
    at = datetime.fromisoformat(when) if isinstance(when, str) else when
    return at.strftime("%Y-%m-%d %H:%M")


def count(number: int, name: str, many: str = "") -> str:
    """So many of something."""
    return f"{number:,} {name if number == 1 else many or f'{name}s'}"


class BarPiece(NamedTuple):
    """A piece of a bar: what it stands for, where it begins and how long it is, in percent."""

    name: str
    value: float
    begins: float
    length: float


def pieces(values: Mapping[str, float], whole: float) -> Iterator[BarPiece]:
    """A bar: a piece for each value, one after the other, within *whole*."""
    begins = 0.0
    for name, value in values.items():
        length = 100 * value / whole if whole > 0 else 0.0
        yield BarPiece(name, value, begins, length)
        begins += length
