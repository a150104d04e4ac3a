"""The knowledge graph's relations: read page by page, searched, written by hand."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, status

from langmem_adapter.server.calls import Reads, Writes
from langmem_adapter.server.problems import OURS
from langmem_adapter.server.v1 import answers, requests, serialize

__all__ = ["router"]

router = APIRouter(prefix=OURS, tags=["knowledge graph"])


@router.get("/relations", summary="List relations", response_model=answers.RelationPageResponse)
async def relations(call: Reads, asked: Annotated[requests.RelationQuery, Query()]) -> Any:
    """The relations of a scope, the one that was recorded last first, page by page."""
    page = await call.memory.graph.arelations(**{**asked.model_dump(), **call.whose(asked)})
    return {"items": [serialize.relation(relation) for relation in page], "next": page.next}


@router.post(
    "/relations",
    summary="Add a relation",
    response_model=answers.RelationChanged,
    status_code=status.HTTP_201_CREATED,
)
async def add(call: Writes, body: requests.NewRelation) -> Any:
    """Write down a relation by hand."""
    change = await call.memory.graph.aadd(**{**body.model_dump(), **call.whose(body)})
    return serialize.relation_changed(change)


@router.post("/relations/search", summary="Search relations", response_model=answers.RelationList)
async def search(call: Reads, body: requests.RelationSearch) -> Any:
    """Find the relations that hold now by names, by words, and by the memories that answer a question."""
    found = await call.memory.graph.asearch(**{**body.model_dump(), **call.whose(body)})
    return {"items": [serialize.relation(relation) for relation in found]}


@router.post("/relations/{relation_id}/end", summary="End a relation", response_model=answers.RelationChanged)
async def end(call: Writes, relation_id: str, body: requests.RelationEnd) -> Any:
    """Say that a relation holds no longer; that it held until then stays known."""
    change = await call.memory.graph.aend(relation_id, at=body.at, **call.whose(body))
    return serialize.relation_changed(change)


@router.delete("/relations/{relation_id}", summary="Withdraw a relation", response_model=answers.RelationChanged)
async def delete(call: Writes, relation_id: str, asked: Annotated[requests.ScopeFields, Query()]) -> Any:
    """Withdraw a relation, because it was never so; that it was believed stays known."""
    return serialize.relation_changed(await call.memory.graph.adelete(relation_id, **call.whose(asked)))
