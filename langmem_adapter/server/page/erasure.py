"""Forgetting somebody: told beforehand what would go, asked for by name, told afterwards what went."""

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Form, Query, Response

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.page.addresses import AddressScope
from langmem_adapter.server.page.layout import PREFIX
from langmem_adapter.server.page.view import Looking, Sending, View
from langmem_adapter.storage.erasure import Erasure
from langmem_adapter.storage.holdings import held
from langmem_adapter.twins import beside

__all__ = ["router"]

_ANYBODY: Final = "forget"
_LONGEST: Final = 64
_NEEDED: Final = {"delete": "write", "erase": "admin"}


class _Sure(AddressScope):
    how: Literal["delete", "erase"]
    name: str = ""


router = APIRouter(prefix=PREFIX)


async def _ask(view: View, fields: dict[str, Any], wrong: str = "") -> Response:
    scope = Scope(**fields)
    there = await beside(view.memory.engine.reading, held, scope)
    status = HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK
    told = {"there": there, "word": _word(scope), "wrong": wrong}
    return view.show("forget", fields, status=status, **told)


@router.get("/scopes/forget")
async def asked(view: Looking, asked: Annotated[AddressScope, Query()]) -> Response:
    view.who.need("write")
    return await _ask(view, view.whose(asked))


@router.post("/scopes/forget")
async def forget(view: Sending, sure: Annotated[_Sure, Form()]) -> Response:
    view.who.need(_NEEDED[sure.how])
    fields = view.whose(sure)
    if sure.name.strip() != _word(Scope(**fields)):
        return await _ask(view, fields, wrong=sure.how)
    # Shown at once and not after a redirect: the key of who erases may be gone with the rest.
    # tests/server/page/test_scopes.py::test_who_erases_their_own_key_still_learns_what_went
    gone, left = await _gone(view.memory, sure.how, fields), {} if sure.how == "erase" else fields
    return view.show("forgotten", left, gone=gone, how=sure.how, named=fields)


async def _gone(memory: Memory, how: str, fields: dict[str, Any]) -> Erasure:
    if how == "erase":
        return await memory.apurge(**fields)
    return Erasure(memories=await memory.adelete_all(**fields))


def _word(scope: Scope) -> str:
    """What has to be typed: the name, unless no keyboard has it."""
    name = " / ".join(value.strip() for value in scope.named.values())
    return name if name.isprintable() and len(name) <= _LONGEST else _ANYBODY
