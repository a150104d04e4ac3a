"""Memories to take away: JSON lines, which an import takes back, or a table for a spreadsheet."""

from functools import partial
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query

from langmem_adapter.records.escapes import MEMORY_COLUMNS, memory_line
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.page.layout import PREFIX
from langmem_adapter.server.page.view import AddressScope, Reading
from langmem_adapter.server.problems import Streamed
from langmem_adapter.server.v1.exchange import LINES, PAGE, exported

_LONGEST: Final = 80
_BOM: Final = "\ufeff".encode()  # without it spreadsheets take UTF-8 for something else


class _Asked(AddressScope):
    format: Literal["jsonl", "csv"] = "jsonl"


router = APIRouter(prefix=PREFIX)


@router.get("/export")
async def export(view: Reading, asked: Annotated[_Asked, Query()]) -> Streamed:
    fields = view.whose(asked)
    how: dict[str, Any] = {**fields, "include_expired": True, "k": PAGE}
    check = partial(view.shell.visit, view.request)
    first = await view.memory.aget_all(**how)
    name = file_name(Scope(**fields), asked.format)
    told = {"content-disposition": f"attachment; {name}"}
    if asked.format == "jsonl":
        return Streamed(exported(view.memory, first, how, check), media_type=LINES, headers=told)
    rows = exported(view.memory, first, how, check, lambda item: memory_line(item).encode())
    return Streamed(_headed(rows), media_type="text/csv; charset=utf-8; header=present", headers=told)


def file_name(scope: Scope, ending: str) -> str:
    r"""The parameters of `Content-Disposition` (RFC 6266) that name an export after whose it is.

    Example:
        >>> file_name(Scope(user_id="小明"), "csv")
        'filename="memories.csv"; filename*=UTF-8\'\'memories-%E5%B0%8F%E6%98%8E.csv'
    """
    named = "-".join(scope.named.values())
    plain = "".join(each if each.isalnum() or each in "._-@" else "_" for each in named)[:_LONGEST]
    whole = f"memories-{plain}.{ending}"
    short = whole if whole.isascii() else f"memories.{ending}"
    return f"filename=\"{short}\"; filename*=UTF-8''{quote(whole)}"


async def _headed(rows: Any) -> Any:
    yield _BOM + MEMORY_COLUMNS.encode()
    async for some in rows:
        yield some
