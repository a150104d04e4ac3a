"""What every view of the web page shares: session, scope, frame, and index rebuild."""

from __future__ import annotations

import hmac
import logging
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from fastapi import Request  # noqa: TC002 - FastAPI reads the annotations of `check_form`
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from langmem_adapter._version import __version__
from langmem_adapter.errors import LangmemAdapterError
from langmem_adapter.records.scope import SCOPE_FIELDS
from langmem_adapter.server.auth import ForbiddenError, NobodyError, by_secret
from langmem_adapter.storage import keys
from langmem_adapter.storage import keys as sessions
from langmem_adapter.twins import beside, in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future

    from fastapi import Response
    from starlette.requests import HTTPConnection

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.server.auth import Auth, Principal

_log: Final = logging.getLogger("langmem_adapter.server")


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """How far it is: memories read, of how many (0 while that is unknown), and why it failed."""

    running: bool
    done: int = 0
    total: int = 0
    error: str = ""


class Rebuilding:
    """Rebuilds the index of a memory, one time after the other."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = Lock()
        self.standing: RebuildProgress | None = None

    def begin(self) -> None:
        """Begin, unless it is under way."""
        with self._lock:
            if self.standing is None or not self.standing.running:
                self._tell(0, 0)
                in_thread(self._rebuild).add_done_callback(self._end)

    def _rebuild(self) -> int:
        indexer = self._memory.parts.indexer
        number = indexer.rebuild(self._tell)
        indexer.write_segment()  # the file beside the database may be what was wrong
        return number

    def _tell(self, done: int, total: int) -> None:
        self.standing = RebuildProgress(running=True, done=done, total=total)

    def _end(self, work: Future[int]) -> None:
        error = work.exception()
        if error is None:
            self.standing = RebuildProgress(running=False, done=work.result())
            return
        _log.error("the index was not rebuilt: %s", type(error).__name__, exc_info=error)
        told = str(error) if isinstance(error, LangmemAdapterError) else "something went wrong here; the log has it"
        self.standing = RebuildProgress(running=False, error=told)


COOKIE: Final = "langmem_adapter"
FIELD: Final = "csrf"
_HEADER: Final = "x-csrf-token"
_PURPOSE: Final = b"form"


def by_sessions(memory: Memory) -> Auth:
    """Callers are known by a session that they began with a key."""
    return by_secret(memory, _shown, sessions.find_session, "log in with a key")


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
        if COOKIE not in request.cookies:
            put_cookie(request, answer, COOKIE, visitor(request), seconds=365 * _DAY)
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
            "csrf": form_token(request),
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
