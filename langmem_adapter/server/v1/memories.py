"""Memories: searched, listed, changed, deleted, brought back."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response, status

from langmem_adapter.server.calls import Reads, Writes
from langmem_adapter.server.problems import OURS
from langmem_adapter.server.v1 import answers, requests
from langmem_adapter.server.v1.answers import Items, ItemsPage, MemoryShown, RevisionShown

__all__ = ["router"]

router = APIRouter(prefix=OURS, tags=["memories"])


@router.get("/memories", summary="List memories", response_model=ItemsPage[MemoryShown])
async def listed(call: Reads, asked: Annotated[requests.MemoryList, Query()]) -> Any:
    """All memories of a scope, the newest statement first, page by page."""
    return await call.memory.aget_all(**call.arguments(asked))


@router.delete("/memories", summary="Delete the memories of a scope", response_model=answers.Deleted)
async def delete_all(call: Writes, asked: Annotated[requests.ScopeFields, Query()]) -> Any:
    """Delete every memory of a scope; their history stays."""
    return {"deleted": await call.memory.adelete_all(**call.whose(asked))}


@router.get("/memories/{memory_id}", summary="Get a memory", response_model=MemoryShown)
async def get(call: Reads, memory_id: str, asked: Annotated[requests.ScopeFields, Query()]) -> Any:
    """One memory."""
    return await call.memory.aget(memory_id, **call.whose(asked))


@router.patch("/memories/{memory_id}", summary="Change a memory", response_model=answers.Changed)
async def update(call: Writes, memory_id: str, body: requests.Update) -> Any:
    """Change a memory by hand."""
    given = {**body.model_dump(exclude_unset=True), **call.whose(body)}
    return await call.memory.aupdate(memory_id, **given)


@router.delete(
    "/memories/{memory_id}",
    summary="Delete a memory",
    status_code=status.HTTP_204_NO_CONTENT,
    response_class=Response,
)
async def delete(call: Writes, memory_id: str, asked: Annotated[requests.ScopeFields, Query()]) -> None:
    """Delete a memory; its history stays, and it can be restored."""
    await call.memory.adelete(memory_id, **call.whose(asked))


@router.get("/memories/{memory_id}/history", summary="History of a memory", response_model=Items[RevisionShown])
async def history(call: Reads, memory_id: str, asked: Annotated[requests.ScopeFields, Query()]) -> Any:
    """Every change of a memory, in the order in which it was written."""
    return {"items": await call.memory.ahistory(memory_id, **call.whose(asked))}


@router.post("/memories/{memory_id}/restore", summary="Restore a memory", response_model=answers.Changed)
async def restore(call: Writes, memory_id: str, body: requests.Restore) -> Any:
    """Bring a memory back to what it was, also after its deletion."""
    return await call.memory.arestore(memory_id, body.revision, **call.whose(body))


@router.post("/search", summary="Search memories", response_model=answers.FoundShown)
async def search(call: Reads, body: requests.Search) -> Any:
    """Find memories by meaning, words, speakers and time."""
    found = await call.memory.asearch(**call.arguments(body))
    return {"results": found, "abstained": found.abstained}
