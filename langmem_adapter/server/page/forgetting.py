"""Forgetting somebody: told beforehand what would go, asked for by name, told afterwards what went."""

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Form, Query, Request, Response

from langmem_adapter.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.auth import Principal
from langmem_adapter.server.page.asking import Whose
from langmem_adapter.server.page.session import check_form
from langmem_adapter.server.page.shell import PREFIX, Shell
from langmem_adapter.storage.erasure import Erasure
from langmem_adapter.storage.holdings import held
from langmem_adapter.twins import beside

__all__ = ["router"]

_ANYBODY: Final = "forget"
_LONGEST: Final = 64
_NEEDED: Final = {"delete": "write", "erase": "admin"}


class _Sure(Whose):
    how: Literal["delete", "erase"]
    name: str = ""


def router(memory: Memory, caller: Any, shell: Shell) -> APIRouter:
    """The views.

    Args:
        memory: What is forgotten.
        caller: The default of a parameter that gets the `Principal`.
        shell: Makes the answers.
    """
    routes = APIRouter(prefix=PREFIX)

    async def ask(request: Request, who: Principal, fields: dict[str, Any], wrong: str = "") -> Response:
        scope = Scope(**fields)
        there = await beside(memory.engine.reading, held, scope)
        status = HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK
        told = {"there": there, "word": _word(scope), "wrong": wrong}
        return shell.show(request, "forget", who, fields, status=status, **told)

    @routes.get("/scopes/forget")
    async def asked(request: Request, asked: Annotated[Whose, Query()], who: Principal = caller) -> Response:
        who.need("write")
        return await ask(request, who, who.narrowed(asked.model_dump()))

    @routes.post("/scopes/forget", dependencies=[Depends(check_form)])
    async def forget(request: Request, sure: Annotated[_Sure, Form()], who: Principal = caller) -> Response:
        who.need(_NEEDED[sure.how])
        fields = who.narrowed(sure.model_dump())
        if sure.name.strip() != _word(Scope(**fields)):
            return await ask(request, who, fields, wrong=sure.how)
        # Shown at once and not after a redirect: the key of who erases may be gone with the rest.
        # tests/server/page/test_scopes.py::test_who_erases_their_own_key_still_learns_what_went
        gone, left = await _gone(memory, sure.how, fields), {} if sure.how == "erase" else fields
        return shell.show(request, "forgotten", who, left, gone=gone, how=sure.how, named=fields)

    return routes


async def _gone(memory: Memory, how: str, fields: dict[str, Any]) -> Erasure:
    if how == "erase":
        return await memory.apurge(**fields)
    return Erasure(memories=await memory.adelete_all(**fields))


def _word(scope: Scope) -> str:
    """What has to be typed: the name, unless no keyboard has it."""
    name = " / ".join(value.strip() for value in scope.named.values())
    return name if name.isprintable() and len(name) <= _LONGEST else _ANYBODY
