"""The knowledge graph: relations read, searched and written by hand; entities read, walked, told to be one."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, status

from langmem_adapter.server.calls import Reads, Writes
from langmem_adapter.server.problems import OURS
from langmem_adapter.server.v1 import answers, requests

router = APIRouter(prefix=OURS, tags=["knowledge graph"])


@router.get("/relations", summary="List relations", response_model=answers.RelationPageShown)
async def relations(call: Reads, asked: Annotated[requests.RelationQuery, Query()]) -> Any:
    """The relations of a scope, the one that was recorded last first, page by page."""
    return await call.memory.graph.arelations(**call.arguments(asked))


@router.post(
    "/relations",
    summary="Add a relation",
    response_model=answers.RelationChanged,
    status_code=status.HTTP_201_CREATED,
)
async def add(call: Writes, body: requests.NewRelation) -> Any:
    """Write down a relation by hand."""
    return await call.memory.graph.aadd(**call.arguments(body))


@router.post("/relations/search", summary="Search relations", response_model=answers.RelationList)
async def search(call: Reads, body: requests.RelationSearch) -> Any:
    """Find the relations that hold now by names, by words, and by the memories that answer a question."""
    return {"items": await call.memory.graph.asearch(**call.arguments(body))}


@router.post("/relations/{relation_id}/end", summary="End a relation", response_model=answers.RelationChanged)
async def end(call: Writes, relation_id: str, body: requests.RelationEnd) -> Any:
    """Say that a relation holds no longer; that it held until then stays known."""
    return await call.memory.graph.aend(relation_id, **call.arguments(body))


@router.delete("/relations/{relation_id}", summary="Withdraw a relation", response_model=answers.RelationChanged)
async def delete(call: Writes, relation_id: str, asked: Annotated[requests.ScopeFields, Query()]) -> Any:
    """Withdraw a relation, because it was never so; that it was believed stays known."""
    return await call.memory.graph.adelete(relation_id, **call.whose(asked))


@router.get("/entities", summary="List entities", response_model=answers.EntityPageShown)
async def entities(call: Reads, asked: Annotated[requests.EntityList, Query()]) -> Any:
    """The entities of a scope, the one that is mentioned most often first, page by page."""
    return await call.memory.graph.aentities(**call.arguments(asked))


@router.get("/entities/neighbours", summary="Neighbours of an entity", response_model=answers.NeighbourList)
async def neighbours(call: Reads, asked: Annotated[requests.Neighbours, Query()]) -> Any:
    """Who and what is related to an entity, and to these in turn, in both directions."""
    return {"items": await call.memory.graph.aneighbours(**call.arguments(asked))}


@router.get("/entities/path", summary="Path between two entities", response_model=answers.RelationList)
async def path(call: Reads, asked: Annotated[requests.Path, Query()]) -> Any:
    """The relations on a shortest way from one entity to another; none where there is no such way."""
    return {"items": await call.memory.graph.apath(**call.arguments(asked))}


@router.post("/entities/merge", summary="Merge two entities", response_model=answers.Moved)
async def merge(call: Writes, body: requests.Merge) -> Any:
    """Say that two names mean the same: what is said of the first is from now on said of the second."""
    return {"relations": await call.memory.graph.amerge(**call.arguments(body))}


@router.post("/entities/split", summary="Split two entities", response_model=answers.Moved)
async def split(call: Writes, body: requests.Split) -> Any:
    """Undo the last merge of a name; what was said since then stays with the one it was merged into."""
    return {"relations": await call.memory.graph.asplit(**call.arguments(body))}
