"""The memory's REST routes as part of a LangGraph server (`http.app` in its `langgraph.json`), below `/memory`.

Whoever that server has signed in reaches their own memories alone. Others need a key (`langmem-adapter keys create`), so where
it signs in nobody, and no key was made, nobody is let in.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import Mount

from langmem_adapter.adapters.serving import shared_memory
from langmem_adapter.server.app import create_app
from langmem_adapter.server.auth import by_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langmem_adapter.memory.memory import Memory

__all__ = ["app", "make_app"]


def make_app(memory: Memory) -> Starlette:
    """The routes below their own path, since LangGraph's server has `/docs` and others itself."""
    served = create_app(memory, auth=by_server(memory), hosts=["*"])  # the server around it checks hosts

    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        async with served.router.lifespan_context(served):
            yield

    return Starlette(routes=[Mount("/memory", served)], lifespan=running)


app = make_app(shared_memory())
