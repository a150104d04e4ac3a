"""Web page at `/ui`: memories with their sources and history, the graph, traces, scopes and health."""

from fastapi import APIRouter, Depends

from langmem_adapter.server.calls import once
from langmem_adapter.server.page import graph, memories, operation

# Each view has the prefix itself: the log names a route as its own router does.
router = APIRouter(dependencies=[Depends(once)])
for view in (operation, memories, graph):
    router.include_router(view.router)
