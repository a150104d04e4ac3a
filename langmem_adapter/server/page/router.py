"""The views, put together."""

from fastapi import APIRouter

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

__all__ = ["router"]

# Each view has the prefix itself: the log names a route as its own router does.
router = APIRouter()
for view in (entrance, memories, detail, graph, traces, scopes, forgetting, export, health):
    router.include_router(view.router)
