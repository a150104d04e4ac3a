"""The way in and out, and how it looks in there."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response
from starlette import status

from langmem_adapter.server.auth import NobodyError
from langmem_adapter.server.page import session
from langmem_adapter.server.page.layout import PREFIX, THEME, THEMES, shell_of
from langmem_adapter.storage.sessions import LASTS

__all__ = ["router"]

_YEAR = 365 * 86_400


router = APIRouter(prefix=PREFIX)


@router.get("/login")
async def login(request: Request, to: str = "") -> Response:
    shell = shell_of(request)
    if not shell.needs_login:
        return shell.go(request, "/memories")
    return shell.show(request, "login", to=to, wrong=False)


@router.post("/login", dependencies=[Depends(session.check_form)])
async def enter(request: Request, key: Annotated[str, Form()], to: Annotated[str, Form()] = "") -> Response:
    shell = shell_of(request)
    try:
        secret = await session.log_in(shell.memory, key.strip())
    except NobodyError:
        return shell.show(request, "login", to=to, wrong=True, status=status.HTTP_401_UNAUTHORIZED)
    answer = shell.go(request, _ours(to))
    session.put_cookie(request, answer, session.COOKIE, secret, seconds=int(LASTS.total_seconds()))
    return answer


@router.post("/logout", dependencies=[Depends(session.check_form)])
async def leave(request: Request) -> Response:
    shell = shell_of(request)
    await session.log_out(shell.memory, request)
    answer = shell.go(request, "/login")
    session.put_cookie(request, answer, session.COOKIE, "", seconds=0)
    return answer


@router.post("/theme", dependencies=[Depends(session.check_form)])
async def theme(request: Request, theme: Annotated[str, Form()], to: Annotated[str, Form()] = "") -> Response:
    answer = shell_of(request).go(request, _ours(to))
    session.put_cookie(request, answer, THEME, theme if theme in THEMES else THEMES[0], seconds=_YEAR)
    return answer


def _ours(to: str) -> str:
    """Where a form leads back to: a view of ours, nobody else's page."""
    _, _, path = to.partition(PREFIX)
    return path if path.startswith("/") and not path.startswith("//") and "\\" not in path else "/memories"
