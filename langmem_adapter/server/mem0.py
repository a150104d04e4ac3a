"""Mem0's routes as its self-hosted server has them, so that programs written for it go on working."""

from typing import Any

from fastapi import APIRouter

from langmem_adapter.adapters.mem0.shapes import one
from langmem_adapter.errors import MemoryNotFoundError
from langmem_adapter.memory import Memory
from langmem_adapter.server.auth import Principal

__all__ = ["router"]


def router(memory: Memory, caller: Any) -> APIRouter:
    """The routes.

    Args:
        memory: What is served.
        caller: The default of a parameter that gets the `Principal`.
    """
    routes = APIRouter(tags=["Mem0"])

    @routes.get("/memories/{memory_id}")
    async def get(memory_id: str, principal: Principal = caller) -> Any:
        principal.need("read")
        try:
            return one(await memory.aget(memory_id, **principal.narrowed({})))
        except MemoryNotFoundError:
            return None

    return routes
