"""What adds saw and did: a list of them, and one as the pipeline that it ran through."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from langmem_adapter.memory import Memory
from langmem_adapter.server.auth import Principal
from langmem_adapter.server.page.asking import Filled, Whose, whose
from langmem_adapter.server.page.course import course
from langmem_adapter.server.page.shell import PREFIX, Shell
from langmem_adapter.storage.traces import TracePage

__all__ = ["router"]


class _Asked(Whose):
    after: Filled[str] = None


def router(memory: Memory, caller: Any, shell: Shell) -> APIRouter:
    """The views.

    Args:
        memory: What is shown.
        caller: The default of a parameter that gets the `Principal`.
        shell: Makes the answers.
    """
    routes = APIRouter(prefix=f"{PREFIX}/traces")

    @routes.get("")
    async def listed(request: Request, asked: Annotated[_Asked, Query()], who: Principal = caller) -> Response:
        who.need("read")
        fields = await whose(memory, who, asked)
        page = TracePage() if fields is None else await memory.atraces(**fields, after=asked.after)
        days = memory.settings.trace_days
        return shell.show(request, "traces", who, fields, page=page, days=days, is_first=asked.after is None)

    @routes.get("/{trace_id}")
    async def one(
        request: Request, trace_id: str, asked: Annotated[Whose, Query()], who: Principal = caller
    ) -> Response:
        who.need("read")
        fields = who.narrowed(asked.model_dump())
        trace = await memory.atrace(trace_id, **fields)
        return shell.show(request, "trace", who, fields or trace.scope.named, trace=trace, course=course(trace))

    return routes
