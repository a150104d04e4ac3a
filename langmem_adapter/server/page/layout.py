"""Web page: session, scope and frame of every view, and the rebuild of the index."""

import hmac
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlencode

from fastapi import Depends, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel, BeforeValidator
from starlette.requests import HTTPConnection

from langmem_adapter._version import __version__
from langmem_adapter.errors import LangmemAdapterError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import SCOPE_FIELDS
from langmem_adapter.server.auth import ForbiddenError, NobodyError, Principal, by_secret, principal_of
from langmem_adapter.storage import keys
from langmem_adapter.storage.scopes import counts
from langmem_adapter.twins import in_thread, run_in_executor

if TYPE_CHECKING:
    from concurrent.futures import Future

    from langmem_adapter.server.auth import Auth

T = TypeVar("T")

_log: Final = logging.getLogger("langmem_adapter.server")

PREFIX: Final = "/ui"
"""Where the page is."""
OPEN_FORMS: Final = (f"{PREFIX}/login", f"{PREFIX}/logout", f"{PREFIX}/theme")
"""Forms that need no login."""
COOKIE: Final = "langmem_adapter"
THEME: Final = "langmem_adapter_theme"
THEMES: Final = ("auto", "light", "dark")
YEAR: Final = 365 * 86_400
_FIELD: Final = "csrf"
_HEADER: Final = "x-csrf-token"
_PURPOSE: Final = b"form"
_TEMPLATES: Final = Path(__file__).parents[1] / "templates" / "page"
_STEPS: Final = ((YEAR, "year"), (30 * 86_400, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute"))


# ── sessions and forms ────────────────────────────────────────────────────────────────────────────────────────────────


def by_sessions(memory: Memory) -> "Auth":
    """Authenticate by a session, which begins with a key."""
    return by_secret(memory, _session_of, keys.find_session, "log in with a key")


async def log_in(memory: Memory, secret: str) -> str:
    """Begin a session with a key; `NobodyError` for one that is unknown or revoked."""
    key = await run_in_executor(memory.parts.reading, keys.find, secret)
    if key is None:
        raise NobodyError("this key is unknown or revoked: use another one")
    return await memory.parts.database.awrite(lambda connection: keys.begin(connection, key))


async def log_out(memory: Memory, request: Request) -> None:
    """End the session of a request, if it has one."""
    await memory.parts.database.awrite(lambda connection: keys.end(connection, _session_of(request)))


def _session_of(connection: HTTPConnection) -> str:
    return connection.cookies.get(COOKIE, "")


def _visitor(request: Request) -> str:
    """The session's cookie, or a new one where no login is needed."""
    if not hasattr(request.state, "visitor"):
        request.state.visitor = request.cookies.get(COOKIE) or secrets.token_urlsafe(32)
    return str(request.state.visitor)


def put_cookie(request: Request, answer: Response, name: str, value: str, *, seconds: int) -> None:
    """Set a cookie that no script and no other site can read or send."""
    path = f"{base_of(request)}{PREFIX}"
    secure = request.url.scheme == "https"
    answer.set_cookie(name, value, max_age=seconds, path=path, secure=secure, httponly=True, samesite="strict")


def _form_token(request: Request) -> str:
    """The token of a form: only who knows the cookie can make it, and no other site knows that."""
    return hmac.new(_visitor(request).encode(), _PURPOSE, "sha256").hexdigest()


async def check_form(request: Request) -> None:
    """Raise `ForbiddenError` for a form without its token."""
    token = request.headers.get(_HEADER) or str((await request.form()).get(_FIELD, ""))
    if not hmac.compare_digest(token.encode(), _form_token(request).encode()):
        raise ForbiddenError("this form has expired: load the page again and send it again")


# ── the frame ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Shell:
    """Renders templates for one memory."""

    def __init__(self, memory: Memory, visit: "Auth", *, needs_login: bool) -> None:
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
        scope: Mapping[str, Any] | None = None,
        *,
        status: int = HTTPStatus.OK,
        **values: Any,
    ) -> Response:
        """A view: the template *name* with these values, for *who* (`None`: not logged in), of a scope."""
        fields = {name: value for name, value in (scope or {}).items() if value is not None}

        def at(path: str, **parameters: Any) -> str:
            return _address(request, path, {**fields, **parameters})

        theme = request.cookies.get(THEME, "auto")
        frame = {
            "at": at,
            "base": base_of(request),
            "csrf": _form_token(request),
            "here": name,
            "mode": self.memory.mode,
            "needs_login": self.needs_login,
            "place": _place_of(request),
            "theme": theme if theme in THEMES else "auto",
            "version": __version__,
            "who": who,
            "scope": fields,
        }
        answer = HTMLResponse(_templates().get_template(f"{name}.html").render(**frame, **values), status)
        # A form sends its origin only where the page may be named to its own site; the guard compares it.
        answer.headers["referrer-policy"] = "same-origin"
        if COOKIE not in request.cookies:
            put_cookie(request, answer, COOKIE, _visitor(request), seconds=YEAR)
        return answer

    def refuse(self, request: Request, status: int, detail: Any, headers: Mapping[str, str] | None = None) -> Response:
        """An error as a view (see `problems.problem`); without a session it leads to the login."""
        if status == HTTPStatus.UNAUTHORIZED and self.needs_login:
            login = self.go(request, "/login", to=_place_of(request) if request.method == "GET" else "")
            if "hx-request" not in request.headers:
                return login
            # The script replaces a part of the view, and a whole one must not become a part.
            return HTMLResponse("", HTTPStatus.UNAUTHORIZED, {"hx-redirect": login.headers["location"]})
        title = HTTPStatus(status).phrase
        text = detail if isinstance(detail, str) else "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in detail)
        scope = {name: request.query_params.get(name) for name in SCOPE_FIELDS if status != HTTPStatus.FORBIDDEN}
        text = "" if text == title else text
        answer = self.show(request, "error", scope=scope, status=status, title=title, detail=text)
        answer.headers.update(headers or {})
        return answer

    def go(self, request: Request, path: str, scope: Mapping[str, Any] | None = None, **parameters: Any) -> Response:
        """Redirect to another view, as the answer to a form."""
        return RedirectResponse(_address(request, path, {**(scope or {}), **parameters}), HTTPStatus.SEE_OTHER)


def shell_of(request: Request) -> Shell:
    """The shell of the app that answers a request."""
    shell: Shell = request.app.state.shell
    return shell


@cache
def _templates() -> Environment:
    """Compiled once a process."""
    pages = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"ago": ago, "moment": moment, "count": count}
    return pages


def base_of(request: Request) -> str:
    """The path of the app, also below another one; a path, so that it holds behind a proxy as well."""
    return str(request.scope.get("root_path", ""))


def _place_of(request: Request) -> str:
    return f"{request.url.path}{'?' if request.url.query else ''}{request.url.query}"


def _address(request: Request, path: str, parameters: Mapping[str, Any]) -> str:
    """The address of a view, without parameters that are `None` or blank."""
    query = urlencode({name: value for name, value in parameters.items() if value not in {None, ""}})
    return f"{base_of(request)}{PREFIX}{path}{'?' if query else ''}{query}"


def ago(when: datetime, now: datetime | None = None) -> str:
    """How long ago a time was, in words: "2 days ago", "in 3 hours"."""
    seconds = ((now or datetime.now(UTC)) - when).total_seconds()
    for length, name in _STEPS:
        if (number := int(abs(seconds) // length)) > 0:
            words = f"{number} {name}{'s' if number > 1 else ''}"
            return f"{words} ago" if seconds > 0 else f"in {words}"
    return "just now"


def moment(when: datetime | str) -> str:
    """A time to the minute, at its own UTC offset."""
    at = datetime.fromisoformat(when) if isinstance(when, str) else when
    return at.strftime("%Y-%m-%d %H:%M")


def count(number: int, name: str, many: str = "") -> str:
    """A number with its noun: "1 fact", "2 facts"."""
    return f"{number:,} {name if number == 1 else many or f'{name}s'}"


class BarPiece(NamedTuple):
    """A piece of a bar: its name and value, where it begins and how long it is, in percent."""

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


# ── the index ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """Progress of a rebuild: memories read, of how many (0 while that is unknown), and why it failed."""

    running: bool
    done: int = 0
    total: int = 0
    error: str = ""


class Rebuilding:
    """Rebuilds the index of a memory, one time after the other."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = Lock()
        self.progress: RebuildProgress | None = None

    def begin(self) -> None:
        """Begin, unless it is under way."""
        with self._lock:
            if self.progress is None or not self.progress.running:
                self._report(0, 0)
                in_thread(self._rebuild).add_done_callback(self._end)

    def _rebuild(self) -> int:
        indexer = self._memory.parts.indexer
        number = indexer.rebuild(self._report)
        indexer.write_segment()  # the file beside the database may be what was wrong
        return number

    def _report(self, done: int, total: int) -> None:
        self.progress = RebuildProgress(running=True, done=done, total=total)

    def _end(self, work: "Future[int]") -> None:
        error = work.exception()
        if error is None:
            self.progress = RebuildProgress(running=False, done=work.result())
            return
        _log.error("the index was not rebuilt: %s", type(error).__name__, exc_info=error)
        text = str(error) if isinstance(error, LangmemAdapterError) else "something went wrong here; the log has it"
        self.progress = RebuildProgress(running=False, error=text)


# ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────


Filled: TypeAlias = Annotated[
    T | None, BeforeValidator(lambda value: None if isinstance(value, str) and not value.strip() else value)
]
"""A field of a form, which a browser also sends when it is empty."""


class ScopeForm(BaseModel):
    """The scope of an address or a form."""

    user_id: Filled[str] = None
    agent_id: Filled[str] = None
    run_id: Filled[str] = None


@dataclass(frozen=True, slots=True)
class View:
    """A request for a view."""

    request: Request
    shell: Shell
    who: Principal

    @property
    def memory(self) -> Memory:
        """The memory that is shown."""
        return self.shell.memory

    def effective_scope(self, form: ScopeForm) -> dict[str, Any]:
        """The scope that an address or a form names, within the caller's: see `Principal.narrowed`."""
        return self.who.narrowed(dict(form))

    async def scope_to_show(self, form: ScopeForm) -> dict[str, Any] | None:
        """The scope that is named, else the caller's own, else the largest; `None` in an empty database.

        Raises:
            HTTPException: The caller may not list scopes and has to name one first.
        """
        if fields := self.effective_scope(form):
            return fields
        if not self.who.reaches_everything:
            raise HTTPException(HTTPStatus.SEE_OTHER, headers={"location": f"{base_of(self.request)}{PREFIX}/scopes"})
        scopes = await run_in_executor(self.memory.parts.reading, counts)
        return scopes[0].scope.named if scopes else None

    def show(self, name: str, scope: Mapping[str, Any] | None = None, *, status: int = 200, **values: Any) -> Response:
        """The answer: see `Shell.show`."""
        return self.shell.show(self.request, name, self.who, scope, status=status, **values)

    def go(self, path: str, scope: Mapping[str, Any] | None = None, **parameters: Any) -> Response:
        """The answer to a form: another view."""
        return self.shell.go(self.request, path, scope, **parameters)


def _view(right: str | None, *, form: bool = False) -> Callable[..., Any]:
    async def view(request: Request) -> View:
        shell = shell_of(request)
        who = await principal_of(request, shell.visit)
        if form:
            await check_form(request)
        if right is not None:
            who.need(right)
        return View(request, shell, who)

    return view


# Contract: whatever changes something takes `Sending` or `Writing`, which want a form of ours.
# tests/server/page/test_tenants.py::test_every_form_needs_its_token
Looking: TypeAlias = Annotated[View, Depends(_view(None))]
"""A view without a certain right, for every session."""
Reading: TypeAlias = Annotated[View, Depends(_view("read"))]
Sending: TypeAlias = Annotated[View, Depends(_view(None, form=True))]
"""A form without a certain right."""
Writing: TypeAlias = Annotated[View, Depends(_view("write", form=True))]
