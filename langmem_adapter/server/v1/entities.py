"""The knowledge graph's entities: read page by page, walked, told to be one."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from langmem_adapter.records.plain import as_data
from langmem_adapter.server.calls import Reads, Writes
from langmem_adapter.server.problems import OURS
from langmem_adapter.server.v1 import answers, requests, serialize

__all__ = ["router"]

router = APIRouter(prefix=OURS, tags=["knowledge graph"])


@router.get("/entities", summary="List entities", response_model=answers.EntityPageResponse)
async def entities(call: Reads, asked: Annotated[requests.EntityList, Query()]) -> Any:
    """The entities of a scope, the one that is mentioned most often first, page by page."""
    page = await call.memory.graph.aentities(**{**asked.model_dump(), **call.whose(asked)})
    return {"items": [as_data(entity) for entity in page], "next": page.next}


@router.get("/entities/neighbours", summary="Neighbours of an entity", response_model=answers.NeighbourList)
async def neighbours(call: Reads, asked: Annotated[requests.Neighbours, Query()]) -> Any:
    """Who and what is related to an entity, and to these in turn, in both directions."""
    found = await call.memory.graph.aneighbours(**{**asked.model_dump(), **call.whose(asked)})
    return {"items": [serialize.neighbour(near) for near in found]}


@router.get("/entities/path", summary="Path between two entities", response_model=answers.RelationList)
async def path(call: Reads, asked: Annotated[requests.Path, Query()]) -> Any:
    """The relations on a shortest way from one entity to another; none where there is no such way."""
    found = await call.memory.graph.apath(**{**asked.model_dump(), **call.whose(asked)})
    return {"items": [serialize.relation(relation) for relation in found]}


@router.post("/entities/merge", summary="Merge two entities", response_model=answers.Moved)
async def merge(call: Writes, body: requests.Merge) -> Any:
    """Say that two names mean the same: what is said of the first is from now on said of the second."""
    return {"relations": await call.memory.graph.amerge(body.name, body.into, **call.whose(body))}


@router.post("/entities/split", summary="Split two entities", response_model=answers.Moved)
async def split(call: Writes, body: requests.Split) -> Any:
    """Undo the last merge of a name; what was said since then stays with the one it was merged into."""
    return {"relations": await call.memory.graph.asplit(body.name, **call.whose(body))}
