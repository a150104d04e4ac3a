"""Web page: session, scope and frame of every view, and the rebuild of the index."""

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar
from urllib.parse import urlencode

from fastapi import Depends, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel, BeforeValidator
from starlette.requests import HTTPConnection

from langmem_adapter._version import __version__
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import SCOPE_FIELDS
from langmem_adapter.server.auth import ForbiddenError, Principal, by_secret, principal_of
from langmem_adapter.server.calls import RequestCall, service_of
from langmem_adapter.server.problems import PAGE
from langmem_adapter.storage import keys
from langmem_adapter.storage.scopes import counts
from langmem_adapter.twins import run_in_executor

if TYPE_CHECKING:
    from langmem_adapter.server.auth import Auth

T = TypeVar("T")

OPEN_FORMS: Final = (f"{PAGE}/login", f"{PAGE}/logout", f"{PAGE}/theme")
"""Forms that need no login."""
COOKIE: Final = "langmem_adapter"
THEME: Final = "langmem_adapter_theme"
THEMES: Final = ("auto", "light", "dark")
YEAR: Final = 365 * 86_400
NOBODY: Final = Principal("", None, frozenset())
"""A visitor who is not logged in."""
_TEMPLATES: Final = Path(__file__).parents[1] / "templates" / "page"
_STEPS: Final = ((YEAR, "year"), (30 * 86_400, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute"))

Filled: TypeAlias = Annotated[
    T | None, BeforeValidator(lambda value: None if isinstance(value, str) and not value.strip() else value)
]
"""A field of a form, which a browser also sends when it is empty."""


class ScopeForm(BaseModel):
    """The scope of an address or a form."""

    user_id: Filled[str] = None
    agent_id: Filled[str] = None
    run_id: Filled[str] = None


def by_sessions(memory: Memory) -> "Auth":
    """Authenticate by a session, which begins with a key."""
    return by_secret(memory, session_of, keys.find_session, "log in with a key")


def session_of(connection: HTTPConnection) -> str:
    """The secret of the session, which the cookie holds."""
    return connection.cookies.get(COOKIE, "")


def put_cookie(request: Request, answer: Response, name: str, value: str, *, seconds: int) -> None:
    """Set a cookie that no script and no other site can read or send."""
    path = f"{base_of(request)}{PAGE}"
    secure = request.url.scheme == "https"
    answer.set_cookie(name, value, max_age=seconds, path=path, secure=secure, httponly=True, samesite="strict")


def _visitor(request: Request) -> str:
    """The session's cookie, or a new one where no login is needed."""
    if not hasattr(request.state, "visitor"):
        request.state.visitor = session_of(request) or secrets.token_urlsafe(32)
    return str(request.state.visitor)


def _form_token(request: Request) -> str:
    """The token of a form: only who knows the cookie can make it, and no other site knows that."""
    return hmac.new(_visitor(request).encode(), b"form", "sha256").hexdigest()


async def check_form(request: Request) -> None:
    """Raise `ForbiddenError` for a form without its token."""
    token = request.headers.get("x-csrf-token") or str((await request.form()).get("csrf", ""))
    if not hmac.compare_digest(token.encode(), _form_token(request).encode()):
        raise ForbiddenError("this form has expired: load the page again and send it again")


@dataclass(frozen=True, slots=True)
class View(RequestCall):
    """A request for a view, and its answers."""

    request: Request

    async def scope_to_show(self, form: ScopeForm) -> dict[str, Any] | None:
        """The scope that is named, else the caller's own, else the largest; `None` in an empty database."""
        if fields := self.effective_scope(form):
            return fields
        if not self.principal.reaches_everything:  # who may not list scopes has to name one first
            raise HTTPException(HTTPStatus.SEE_OTHER, headers={"location": _address(self.request, "/scopes")})
        scopes = await run_in_executor(self.memory.parts.reading, counts)
        return scopes[0].scope.named if scopes else None

    def show(self, name: str, scope: Mapping[str, Any] | None = None, *, status: int = 200, **values: Any) -> Response:
        """The template *name* with these values, of a scope."""
        request = self.request
        fields = {name: value for name, value in (scope or {}).items() if value is not None}
        theme = request.cookies.get(THEME, "auto")
        frame = {
            "at": lambda path, **parameters: _address(request, path, **{**fields, **parameters}),
            "base": base_of(request),
            "csrf": _form_token(request),
            "here": name,
            "mode": self.memory.mode,
            "needs_login": self.service.needs_login,
            "place": _place_of(request),
            "theme": theme if theme in THEMES else "auto",
            "version": __version__,
            "who": None if self.principal is NOBODY else self.principal,
            "scope": fields,
        }
        answer = HTMLResponse(_templates().get_template(f"{name}.html").render(**frame, **values), status)
        # A form sends its origin only where the page may be named to its own site; the guard compares it.
        answer.headers["referrer-policy"] = "same-origin"
        if COOKIE not in request.cookies:
            put_cookie(request, answer, COOKIE, _visitor(request), seconds=YEAR)
        return answer

    def go(self, path: str, scope: Mapping[str, Any] | None = None, **parameters: Any) -> Response:
        """Redirect to another view, as the answer to a form."""
        return RedirectResponse(_address(self.request, path, **{**(scope or {}), **parameters}), HTTPStatus.SEE_OTHER)


def refuse(request: Request, status: int, detail: Any, headers: Mapping[str, str]) -> Response:
    """An error as a view (see `problems.problem`); without a session it leads to the login."""
    view = visitor_view(request)
    if status == HTTPStatus.UNAUTHORIZED and view.service.needs_login:
        login = view.go("/login", to=_place_of(request) if request.method == "GET" else "")
        if "hx-request" not in request.headers:
            return login
        # The script replaces a part of the view, and a whole one must not become a part.
        return HTMLResponse("", HTTPStatus.UNAUTHORIZED, {"hx-redirect": login.headers["location"]})
    title = HTTPStatus(status).phrase
    text = detail if isinstance(detail, str) else "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in detail)
    scope = {name: request.query_params.get(name) for name in SCOPE_FIELDS if status != HTTPStatus.FORBIDDEN}
    answer = view.show("error", scope, status=status, title=title, detail="" if text == title else text)
    answer.headers.update(headers)
    return answer


def base_of(request: Request) -> str:
    """The path of the app, also below another one; a path, so that it holds behind a proxy as well."""
    return str(request.scope.get("root_path", ""))


def _place_of(request: Request) -> str:
    return f"{request.url.path}{'?' if request.url.query else ''}{request.url.query}"


def _address(request: Request, path: str, **parameters: Any) -> str:
    """The address of a view, without parameters that are `None` or blank."""
    query = urlencode({name: value for name, value in parameters.items() if value not in {None, ""}})
    return f"{base_of(request)}{PAGE}{path}{'?' if query else ''}{query}"


@cache
def _templates() -> Environment:
    """Compiled once a process."""
    loader = FileSystemLoader(_TEMPLATES)
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.filters |= {"ago": ago, "moment": "{:%Y-%m-%d %H:%M}".format, "count": count}
    return pages


def ago(when: datetime, now: datetime | None = None) -> str:
    """How long ago a time was, in words: "2 days ago", "in 3 hours"."""
    seconds = ((now or datetime.now(UTC)) - when).total_seconds()
    for length, name in _STEPS:
        if (number := int(abs(seconds) // length)) > 0:
            words = count(number, name)
            return f"{words} ago" if seconds > 0 else f"in {words}"
    return "just now"


def count(number: int, name: str, many: str = "") -> str:
    """A number with its noun: "1 fact", "2 facts"."""
    return f"{number:,} {name if number == 1 else many or f'{name}s'}"


def pieces(values: Mapping[str, float], whole: float) -> list[dict[str, Any]]:
    """A bar: for each value a piece that begins where the one before it ends, in percent of *whole*."""
    bar: list[dict[str, Any]] = []
    begins = 0.0
    for name, value in values.items():
        length = 100 * value / whole if whole > 0 else 0.0
        bar.append({"name": name, "value": value, "begins": begins, "length": length})
        begins += length
    return bar


def visitor_view(request: Request) -> View:
    """A view without a login; one that has the right to nothing."""
    return View(service_of(request), NOBODY, request)


def _view(right: str | None, *, form: bool = False) -> Callable[..., Any]:
    async def view(request: Request) -> View:
        service = service_of(request)
        principal = await principal_of(request, service.visit)
        if form:
            await check_form(request)
        if right is not None:
            principal.need(right)
        return View(service, principal, request)

    return view


Visiting: TypeAlias = Annotated[View, Depends(visitor_view)]
"""A view for everybody."""
# Contract: whatever changes something takes `Sending` or `Writing`, which want a form of ours.
# tests/server/page/test_tenants.py::test_every_form_needs_its_token
Looking: TypeAlias = Annotated[View, Depends(_view(None))]
"""A view without a certain right, for every session."""
Reading: TypeAlias = Annotated[View, Depends(_view("read"))]
Sending: TypeAlias = Annotated[View, Depends(_view(None, form=True))]
"""A form without a certain right."""
Writing: TypeAlias = Annotated[View, Depends(_view("write", form=True))]
