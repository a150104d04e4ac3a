"""The knowledge graph: relations and entities, read page by page; relations written by hand."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, status

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

    @routes.get("/relations", summary="List relations", response_model=answers.RelationPage)
    async def relations(asked: Annotated[requests.RelationList, Query()], principal: Principal = caller) -> Any:
        """The relations of a scope, the one that was recorded last first, page by page."""
        principal.need("read")
        page = await memory.graph.arelations(**{**asked.model_dump(), **principal.narrowed(named(asked))})
        return {"items": [telling.relation(relation) for relation in page], "next": page.next}

    @routes.post(
        "/relations",
        summary="Add a relation",
        response_model=answers.RelationChanged,
        status_code=status.HTTP_201_CREATED,
    )
    async def add(body: requests.Statement, principal: Principal = caller) -> Any:
        """Write down a relation by hand."""
        principal.need("write")
        change = await memory.graph.aadd(**{**body.model_dump(), **principal.narrowed(named(body))})
        return telling.relation_changed(change)

    @routes.get("/entities", summary="List entities", response_model=answers.EntityPage)
    async def entities(asked: Annotated[requests.EntityList, Query()], principal: Principal = caller) -> Any:
        """The entities of a scope, the one that is mentioned most often first, page by page."""
        principal.need("read")
        page = await memory.graph.aentities(**{**asked.model_dump(), **principal.narrowed(named(asked))})
        return {"items": [as_data(entity) for entity in page], "next": page.next}

    return routes
