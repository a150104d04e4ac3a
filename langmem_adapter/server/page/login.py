"""The way in and out, and how it looks in there."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response
from starlette import status

from langmem_adapter.server.auth import NobodyError
from langmem_adapter.server.page import layout
from langmem_adapter.server.page.layout import PREFIX, THEME, THEMES, shell_of
from langmem_adapter.storage.keys import LASTS

_YEAR = 365 * 86_400


router = APIRouter(prefix=PREFIX)


@router.get("/login")
async def login(request: Request, to: str = "") -> Response:
    shell = shell_of(request)
    if not shell.needs_login:
        return shell.go(request, "/memories")
    return shell.show(request, "login", to=to, wrong=False)


@router.post("/login", dependencies=[Depends(layout.check_form)])
async def enter(request: Request, key: Annotated[str, Form()], to: Annotated[str, Form()] = "") -> Response:
    shell = shell_of(request)
    try:
        secret = await layout.log_in(shell.memory, key.strip())
    except NobodyError:
        return shell.show(request, "login", to=to, wrong=True, status=status.HTTP_401_UNAUTHORIZED)
    answer = shell.go(request, _ours(to))
    layout.put_cookie(request, answer, layout.COOKIE, secret, seconds=int(LASTS.total_seconds()))
    return answer


@router.post("/logout", dependencies=[Depends(layout.check_form)])
async def leave(request: Request) -> Response:
    shell = shell_of(request)
    await layout.log_out(shell.memory, request)
    answer = shell.go(request, "/login")
    layout.put_cookie(request, answer, layout.COOKIE, "", seconds=0)
    return answer


@router.post("/theme", dependencies=[Depends(layout.check_form)])
async def theme(request: Request, theme: Annotated[str, Form()], to: Annotated[str, Form()] = "") -> Response:
    answer = shell_of(request).go(request, _ours(to))
    layout.put_cookie(request, answer, THEME, theme if theme in THEMES else THEMES[0], seconds=_YEAR)
    return answer


def _ours(to: str) -> str:
    """Where a form leads back to: a view of ours, nobody else's page."""
    _, _, path = to.partition(PREFIX)
    return path if path.startswith("/") and not path.startswith("//") and "\\" not in path else "/memories"
