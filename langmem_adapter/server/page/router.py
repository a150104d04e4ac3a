"""The views, put together."""

from fastapi import APIRouter, Depends

from langmem_adapter.server.calls import once
from langmem_adapter.server.page import export, graph, health, login, memories, memory, scopes, traces

# Each view has the prefix itself: the log names a route as its own router does.
router = APIRouter(dependencies=[Depends(once)])
for view in (login, memories, memory, graph, traces, scopes, export, health):
    router.include_router(view.router)
