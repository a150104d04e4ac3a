"""Whose memories there are: users, agents and runs, each with what can be done with all of it at once.

Who forgets somebody is told beforehand what would go, asked for the name, and told afterwards what went.
"""

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Form, Query, Response
from pydantic import Field

from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.server.auth import Principal
from langmem_adapter.server.page.layout import PREFIX
from langmem_adapter.server.page.view import AddressScope, Filled, Looking, Reading, Sending, View
from langmem_adapter.storage import erasure
from langmem_adapter.storage.erasure import SORT_KEYS, Erasure
from langmem_adapter.twins import beside

_PAGE: Final = 50
_MOST_PAGES: Final = 1_000_000
_SORT: Final = "-memories"
_ANYBODY: Final = "forget"
_LONGEST: Final = 64
_NEEDED: Final = {"delete": "write", "erase": "admin"}


class _Asked(AddressScope):
    by: Literal["user", "agent", "run"] = "user"
    begins: Filled[str] = None
    sort: str = Field(_SORT, pattern=f"^-?({'|'.join(SORT_KEYS)})$")
    page: int = Field(1, ge=1, le=_MOST_PAGES)


class _Sure(AddressScope):
    how: Literal["delete", "erase"]
    name: str = ""


router = APIRouter(prefix=f"{PREFIX}/scopes")


@router.get("")
async def scopes(view: Reading, asked: Annotated[_Asked, Query()]) -> Response:
    whose = view.whose(asked)
    find = _listed if "admin" in view.who.rights else _own
    found = await beside(view.memory.parts.reading, find, asked, view.who)
    return view.show("scopes", whose, asked=asked, found=found, size=_PAGE, names=SCOPE_FIELDS)


def _listed(connection: Any, asked: _Asked, who: Principal) -> dict[str, Any]:
    """A page of the list, and how many there are of each kind."""
    number, field, begins = erasure.count_names, f"{asked.by}_id", asked.begins or ""
    how: dict[str, Any] = {"sort": asked.sort, "most": _PAGE, "skipped": (asked.page - 1) * _PAGE}
    rows = erasure.list_usage(connection, field, who.scope, begins=begins, **how)
    numbers = {name.removesuffix("_id"): number(connection, name, who.scope) for name in SCOPE_FIELDS}
    total = number(connection, field, who.scope, begins=begins) if begins else numbers[asked.by]
    return {"rows": rows, "numbers": numbers, "total": total}


def _own(connection: Any, _asked: _Asked, who: Principal) -> dict[str, Any]:
    """What a key without the right to look at all names is bound to."""
    rows = [] if who.scope is None else [erasure.scope_usage(connection, who.scope)]
    return {"rows": rows, "numbers": {}, "total": len(rows)}


@router.get("/forget")
async def asked(view: Looking, asked: Annotated[AddressScope, Query()]) -> Response:
    view.who.need("write")
    return await _ask(view, view.whose(asked))


@router.post("/forget")
async def forget(view: Sending, sure: Annotated[_Sure, Form()]) -> Response:
    view.who.need(_NEEDED[sure.how])
    fields = view.whose(sure)
    if sure.name.strip() != _word(Scope(**fields)):
        return await _ask(view, fields, wrong=sure.how)
    # Shown at once and not after a redirect: the key of who erases may be gone with the rest.
    # tests/server/page/test_scopes.py::test_who_erases_their_own_key_still_learns_what_went
    if sure.how == "erase":
        gone, left = await view.memory.apurge(**fields), {}
    else:
        gone, left = Erasure(memories=await view.memory.adelete_all(**fields)), fields
    return view.show("forgotten", left, gone=gone, how=sure.how, named=fields)


async def _ask(view: View, fields: dict[str, Any], wrong: str = "") -> Response:
    scope = Scope(**fields)
    there = await beside(view.memory.parts.reading, erasure.erasure_preview, scope)
    status = HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK
    return view.show("forget", fields, status=status, there=there, word=_word(scope), wrong=wrong)


def _word(scope: Scope) -> str:
    """What has to be typed: the name, unless no keyboard has it."""
    name = " / ".join(value.strip() for value in scope.named.values())
    return name if name.isprintable() and len(name) <= _LONGEST else _ANYBODY
