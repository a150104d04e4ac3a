"""The views, put together."""

from fastapi import APIRouter, Depends, Request

from langmem_adapter.memory import Memory
from langmem_adapter.server.auth import Auth, Principal
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
from langmem_adapter.server.page.shell import Shell

__all__ = ["router"]


def router(memory: Memory, authenticate: Auth, shell: Shell) -> APIRouter:
    """The routes of the page.

    Args:
        memory: What is shown.
        authenticate: Says who looks.
        shell: Makes the answers.
    """

    async def visiting(request: Request) -> Principal:
        found = await authenticate(request)
        request.state.caller = found.name
        return found

    # Each view has the prefix itself: the log names a route as its own router does.
    routes = APIRouter()
    routes.include_router(entrance.router(memory, shell))
    for view in (memories, detail, graph, traces, scopes, forgetting, export, health):
        routes.include_router(view.router(memory, Depends(visiting), shell))
    return routes
