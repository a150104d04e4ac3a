"""Whose memories there are: users, agents and runs, each with what can be done with all of it at once."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from langmem_adapter.records.scope import SCOPE_FIELDS
from langmem_adapter.server.auth import Principal
from langmem_adapter.server.page.addresses import AddressScope, Filled
from langmem_adapter.server.page.layout import PREFIX
from langmem_adapter.server.page.view import Reading
from langmem_adapter.storage import holdings
from langmem_adapter.storage.holdings import ORDERS, Holder
from langmem_adapter.twins import beside

__all__ = ["router"]

_PAGE: Final = 50
_MOST_PAGES: Final = 1_000_000
_SORT: Final = "-memories"


class _Asked(AddressScope):
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


router = APIRouter(prefix=PREFIX)


@router.get("/scopes")
async def scopes(view: Reading, asked: Annotated[_Asked, Query()]) -> Response:
    whose = view.whose(asked)
    find = _listed if "admin" in view.who.rights else _own
    found = await beside(view.memory.engine.reading, find, asked, view.who)
    return view.show("scopes", whose, asked=asked, found=found, size=_PAGE, names=SCOPE_FIELDS)


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
