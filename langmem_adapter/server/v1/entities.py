"""The knowledge graph's entities: read page by page, walked, told to be one."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

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
    routes = APIRouter(prefix=OURS, tags=["knowledge graph"])

    @routes.get("/entities", summary="List entities", response_model=answers.EntityPage)
    async def entities(asked: Annotated[requests.EntityList, Query()], principal: Principal = caller) -> Any:
        """The entities of a scope, the one that is mentioned most often first, page by page."""
        principal.need("read")
        page = await memory.graph.aentities(**{**asked.model_dump(), **principal.narrowed(named(asked))})
        return {"items": [as_data(entity) for entity in page], "next": page.next}

    @routes.get("/entities/neighbours", summary="Neighbours of an entity", response_model=answers.NeighbourList)
    async def neighbours(asked: Annotated[requests.Neighbours, Query()], principal: Principal = caller) -> Any:
        """Who and what is related to an entity, and to these in turn, in both directions."""
        principal.need("read")
        found = await memory.graph.aneighbours(**{**asked.model_dump(), **principal.narrowed(named(asked))})
        return {"items": [telling.neighbour(near) for near in found]}

    @routes.get("/entities/path", summary="Path between two entities", response_model=answers.RelationList)
    async def path(asked: Annotated[requests.Path, Query()], principal: Principal = caller) -> Any:
        """The relations on a shortest way from one entity to another; none where there is no such way."""
        principal.need("read")
        found = await memory.graph.apath(**{**asked.model_dump(), **principal.narrowed(named(asked))})
        return {"items": [telling.relation(relation) for relation in found]}

    @routes.post("/entities/merge", summary="Merge two entities", response_model=answers.Moved)
    async def merge(body: requests.Merge, principal: Principal = caller) -> Any:
        """Say that two names mean the same: what is said of the first is from now on said of the second."""
        principal.need("write")
        return {"relations": await memory.graph.amerge(body.name, body.into, **principal.narrowed(named(body)))}

    @routes.post("/entities/split", summary="Split two entities", response_model=answers.Moved)
    async def split(body: requests.Split, principal: Principal = caller) -> Any:
        """Undo the last merge of a name; what was said since then stays with the one it was merged into."""
        principal.need("write")
        return {"relations": await memory.graph.asplit(body.name, **principal.narrowed(named(body)))}

    return routes
