"""Memories: searched, listed, changed, deleted, brought back."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response, status

from langmem_adapter.memory import Memory
from langmem_adapter.records.plain import as_data
from langmem_adapter.server.auth import Principal
from langmem_adapter.server.problems import OURS
from langmem_adapter.server.v1 import answers, requests, telling
from langmem_adapter.server.v1.requests import named

__all__ = ["router"]


def router(memory: Memory, caller: Any) -> APIRouter:
    """The routes.

    Args:
        memory: What is served.
        caller: The default of a parameter that gets the `Principal`.
    """
    routes = APIRouter(prefix=OURS, tags=["memories"])

    @routes.get("/memories", summary="List memories", response_model=answers.MemoryPage)
    async def listed(asked: Annotated[requests.MemoryList, Query()], principal: Principal = caller) -> Any:
        """All memories of a scope, the newest statement first, page by page."""
        principal.need("read")
        page = await memory.aget_all(**{**asked.model_dump(), **principal.narrowed(named(asked))})
        return {"items": [as_data(item) for item in page], "next": page.next}

    @routes.delete("/memories", summary="Delete the memories of a scope", response_model=answers.Deleted)
    async def delete_all(asked: Annotated[requests.Whose, Query()], principal: Principal = caller) -> Any:
        """Delete every memory of a scope; their history stays."""
        principal.need("write")
        return {"deleted": await memory.adelete_all(**principal.narrowed(named(asked)))}

    @routes.get("/memories/{memory_id}", summary="Get a memory", response_model=answers.MemoryShown)
    async def get(memory_id: str, asked: Annotated[requests.Whose, Query()], principal: Principal = caller) -> Any:
        """One memory."""
        principal.need("read")
        return as_data(await memory.aget(memory_id, **principal.narrowed(named(asked))))

    @routes.patch("/memories/{memory_id}", summary="Change a memory", response_model=answers.Changed)
    async def update(memory_id: str, body: requests.Update, principal: Principal = caller) -> Any:
        """Change a memory by hand."""
        principal.need("write")
        given = {**body.model_dump(exclude_unset=True), **principal.narrowed(named(body))}
        return telling.changed(await memory.aupdate(memory_id, **given))

    @routes.delete(
        "/memories/{memory_id}",
        summary="Delete a memory",
        status_code=status.HTTP_204_NO_CONTENT,
        response_class=Response,
    )
    async def delete(memory_id: str, asked: Annotated[requests.Whose, Query()], principal: Principal = caller) -> None:
        """Delete a memory; its history stays, and it can be restored."""
        principal.need("write")
        await memory.adelete(memory_id, **principal.narrowed(named(asked)))

    @routes.get("/memories/{memory_id}/history", summary="History of a memory", response_model=answers.RevisionList)
    async def history(memory_id: str, asked: Annotated[requests.Whose, Query()], principal: Principal = caller) -> Any:
        """Every change of a memory."""
        principal.need("read")
        found = await memory.ahistory(memory_id, **principal.narrowed(named(asked)))
        return {"items": [as_data(revision) for revision in found]}

    @routes.post("/memories/{memory_id}/restore", summary="Restore a memory", response_model=answers.Changed)
    async def restore(memory_id: str, body: requests.Restore, principal: Principal = caller) -> Any:
        """Bring a memory back to what it was, also after its deletion."""
        principal.need("write")
        return telling.changed(await memory.arestore(memory_id, body.revision, **principal.narrowed(named(body))))

    @routes.post("/search", summary="Search memories", response_model=answers.SearchResults)
    async def search(body: requests.Search, principal: Principal = caller) -> Any:
        """Find memories by meaning, words, speakers and time."""
        principal.need("read")
        found = await memory.asearch(**{**body.model_dump(), **principal.narrowed(named(body))})
        return {"results": [telling.hit(hit) for hit in found]}

    return routes
