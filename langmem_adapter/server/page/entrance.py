"""The way in and out, and how it looks in there."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response
from starlette import status

from langmem_adapter.memory import Memory
from langmem_adapter.server.auth import NobodyError
from langmem_adapter.server.page import session
from langmem_adapter.server.page.shell import PREFIX, THEME, THEMES, Shell
from langmem_adapter.storage.sessions import LASTS

__all__ = ["router"]

_YEAR = 365 * 86_400


def router(memory: Memory, shell: Shell) -> APIRouter:
    """The routes that need nobody to have logged in.

    Args:
        memory: Whose keys open the page.
        shell: Makes the answers.
    """
    routes = APIRouter(prefix=PREFIX)

    @routes.get("/login")
    async def login(request: Request, to: str = "") -> Response:
        if not shell.needs_login:
            return shell.go(request, "/memories")
        return shell.show(request, "login", to=to, wrong=False)

    @routes.post("/login", dependencies=[Depends(session.check_form)])
    async def enter(request: Request, key: Annotated[str, Form()], to: Annotated[str, Form()] = "") -> Response:
        try:
            secret = await session.log_in(memory, key.strip())
        except NobodyError:
            return shell.show(request, "login", to=to, wrong=True, status=status.HTTP_401_UNAUTHORIZED)
        answer = shell.go(request, _ours(to))
        session.put_cookie(request, answer, session.COOKIE, secret, seconds=int(LASTS.total_seconds()))
        return answer

    @routes.post("/logout", dependencies=[Depends(session.check_form)])
    async def leave(request: Request) -> Response:
        await session.log_out(memory, request)
        answer = shell.go(request, "/login")
        session.put_cookie(request, answer, session.COOKIE, "", seconds=0)
        return answer

    @routes.post("/theme", dependencies=[Depends(session.check_form)])
    async def theme(request: Request, theme: Annotated[str, Form()], to: Annotated[str, Form()] = "") -> Response:
        answer = shell.go(request, _ours(to))
        session.put_cookie(request, answer, THEME, theme if theme in THEMES else THEMES[0], seconds=_YEAR)
        return answer

    return routes


def _ours(to: str) -> str:
    """Where a form leads back to: a view of ours, nobody else's page."""
    _, _, path = to.partition(PREFIX)
    return path if path.startswith("/") and not path.startswith("//") and "\\" not in path else "/memories"
