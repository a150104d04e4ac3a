"""The views, put together."""

from fastapi import APIRouter, Depends

from langmem_adapter.server.page import (
    detail,
    entrance,
    export,
    forgetting,
    graph,
    health,
    memories,
    scopes,
    traces,
)
from langmem_adapter.server.queries import once

__all__ = ["router"]

# Each view has the prefix itself: the log names a route as its own router does.
router = APIRouter(dependencies=[Depends(once)])
for view in (entrance, memories, detail, graph, traces, scopes, forgetting, export, health):
    router.include_router(view.router)
