"""Our own routes, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends

from langmem_adapter.server.jobs import Workers
from langmem_adapter.server.queries import once
from langmem_adapter.server.v1 import adding, conversations, entities, exchange, jobs, memories, relations, upkeep
from langmem_adapter.server.v1.answers import PROBLEMS

if TYPE_CHECKING:
    from langmem_adapter.memory import Memory

__all__ = ["router"]


def router(memory: Memory, caller: Any, *, fetch_images: bool) -> APIRouter:
    """The routes; with the app that includes them begin and end the workers of their jobs.

    Args:
        memory: What is served.
        caller: The default of a parameter that gets the `Principal`.
        fetch_images: Whether images may be named by addresses other than `data:`.
    """
    workers = Workers(memory)
    # Each room has the prefix itself: the log names a route as its own router does.
    routes = APIRouter(responses=PROBLEMS, lifespan=workers.running, dependencies=[Depends(once)])
    routes.include_router(adding.router(memory, caller, workers, fetch_images=fetch_images))
    for room in (memories, relations, entities, conversations, exchange, jobs, upkeep):
        routes.include_router(room.router(memory, caller))
    return routes
