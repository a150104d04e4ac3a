"""Whose memories there are: users, agents and runs, each with what can be done with all of it at once."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from langmem_adapter.memory import Memory
from langmem_adapter.records.scope import SCOPE_FIELDS
from langmem_adapter.server.auth import Principal
from langmem_adapter.server.page.asking import Filled, Whose
from langmem_adapter.server.page.shell import PREFIX, Shell
from langmem_adapter.storage import holdings
from langmem_adapter.storage.holdings import ORDERS, Holder
from langmem_adapter.twins import beside

__all__ = ["router"]

_PAGE: Final = 50
_MOST_PAGES: Final = 1_000_000
_SORT: Final = "-memories"


class _Asked(Whose):
    by: Literal["user", "agent", "run"] = "user"
    begins: Filled[str] = None
    sort: str = Field(_SORT, pattern=f"^-?({'|'.join(ORDERS)})$")
    page: int = Field(1, ge=1, le=_MOST_PAGES)


@dataclass(frozen=True, slots=True)
class _Found:
    """A page of the list, and how many there are of each kind."""

    rows: list[Holder]
    numbers: dict[str, int]
    total: int


def router(memory: Memory, caller: Any, shell: Shell) -> APIRouter:
    """The view.

    Args:
        memory: What is shown.
        caller: The default of a parameter that gets the `Principal`.
        shell: Makes the answers.
    """
    routes = APIRouter(prefix=PREFIX)

    @routes.get("/scopes")
    async def scopes(request: Request, asked: Annotated[_Asked, Query()], who: Principal = caller) -> Response:
        who.need("read")
        whose = who.narrowed(asked.model_dump())
        find = _listed if "admin" in who.rights else _own
        found = await beside(memory.engine.reading, find, asked, who)
        return shell.show(request, "scopes", who, whose, asked=asked, found=found, size=_PAGE, fields=SCOPE_FIELDS)

    return routes


def _listed(connection: Any, asked: _Asked, who: Principal) -> _Found:
    number, field, begins = holdings.number_of, f"{asked.by}_id", asked.begins or ""
    rows = holdings.holders(
        connection,
        field,
        who.scope,
        begins=begins,
        sort=asked.sort,
        most=_PAGE,
        skipped=(asked.page - 1) * _PAGE,
    )
    numbers = {name.removesuffix("_id"): number(connection, name, who.scope) for name in SCOPE_FIELDS}
    return _Found(rows, numbers, number(connection, field, who.scope, begins=begins) if begins else numbers[asked.by])


def _own(connection: Any, _asked: _Asked, who: Principal) -> _Found:
    """What a key without the right to look at all names is bound to."""
    rows = [] if who.scope is None else [holdings.holder(connection, who.scope)]
    return _Found(rows, {}, len(rows))
