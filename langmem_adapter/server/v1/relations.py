"""The knowledge graph's relations: read page by page, searched, written by hand."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, status

from langmem_adapter.memory import Memory
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

    @routes.post("/relations/search", summary="Search relations", response_model=answers.RelationList)
    async def search(body: requests.RelationSearch, principal: Principal = caller) -> Any:
        """Find the relations that hold now by names, by words, and by the memories that answer a question."""
        principal.need("read")
        found = await memory.graph.asearch(**{**body.model_dump(), **principal.narrowed(named(body))})
        return {"items": [telling.relation(relation) for relation in found]}

    @routes.post("/relations/{relation_id}/end", summary="End a relation", response_model=answers.RelationChanged)
    async def end(relation_id: str, body: requests.RelationEnd, principal: Principal = caller) -> Any:
        """Say that a relation holds no longer; that it held until then stays known."""
        principal.need("write")
        change = await memory.graph.aend(relation_id, at=body.at, **principal.narrowed(named(body)))
        return telling.relation_changed(change)

    @routes.delete("/relations/{relation_id}", summary="Withdraw a relation", response_model=answers.RelationChanged)
    async def delete(relation_id: str, asked: Annotated[requests.Whose, Query()], principal: Principal = caller) -> Any:
        """Withdraw a relation, because it was never so; that it was believed stays known."""
        principal.need("write")
        return telling.relation_changed(await memory.graph.adelete(relation_id, **principal.narrowed(named(asked))))

    return routes
