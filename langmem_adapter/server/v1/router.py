"""Our own routes, put together."""

from fastapi import APIRouter, Depends

from langmem_adapter.server.calls import once
from langmem_adapter.server.v1 import conversations, exchange, graph, jobs, memories, upkeep
from langmem_adapter.server.v1.answers import PROBLEMS

# Each room has the prefix itself: the log names a route as its own router does.
router = APIRouter(responses=PROBLEMS, dependencies=[Depends(once)])
for room in (memories, graph, conversations, exchange, jobs, upkeep):
    router.include_router(room.router)
