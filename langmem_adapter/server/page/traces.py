"""What adds saw and did: a list of them, and one as the pipeline that it ran through."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from langmem_adapter.server.page.addresses import AddressScope, Filled
from langmem_adapter.server.page.layout import PREFIX
from langmem_adapter.server.page.trace_view import course
from langmem_adapter.server.page.view import Reading
from langmem_adapter.storage.traces import TracePage

__all__ = ["router"]


class _Asked(AddressScope):
    after: Filled[str] = None


router = APIRouter(prefix=f"{PREFIX}/traces")


@router.get("")
async def listed(view: Reading, asked: Annotated[_Asked, Query()]) -> Response:
    fields = await view.shown(asked)
    page = TracePage() if fields is None else await view.memory.atraces(**fields, after=asked.after)
    days = view.memory.settings.trace_days
    return view.show("traces", fields, page=page, days=days, is_first=asked.after is None)


@router.get("/{trace_id}")
async def one(view: Reading, trace_id: str, asked: Annotated[AddressScope, Query()]) -> Response:
    fields = view.whose(asked)
    trace = await view.memory.atrace(trace_id, **fields)
    return view.show("trace", fields or trace.scope.named, trace=trace, course=course(trace))
