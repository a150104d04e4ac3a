"""What looks after a server asks: is it alive, ready, well, who has memories, what did an add do, erase somebody."""

import logging
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Query

from langmem_adapter._version import __version__
from langmem_adapter.errors import LangmemAdapterError
from langmem_adapter.maintenance.checks import SEVERITY
from langmem_adapter.maintenance.checkup import checkup
from langmem_adapter.memory import Memory
from langmem_adapter.records.plain import as_data
from langmem_adapter.server.auth import ForbiddenError, Principal
from langmem_adapter.server.problems import OURS, logged
from langmem_adapter.server.v1 import answers, requests, telling
from langmem_adapter.server.v1.requests import named
from langmem_adapter.storage.scopes import counts
from langmem_adapter.twins import apart, beside

__all__ = ["router"]

_log: Final = logging.getLogger("langmem_adapter.server")


def router(memory: Memory, caller: Any) -> APIRouter:
    """The routes; `/health` and `/ready` need no key, and tell nothing of what is kept.

    Args:
        memory: What is served.
        caller: The default of a parameter that gets the `Principal`.
    """
    routes = APIRouter(prefix=OURS, tags=["upkeep"])

    @routes.get("/health", summary="Is the server alive?", response_model=answers.Health)
    async def health() -> Any:
        """Whether the server is alive."""
        return {"status": "alive", "version": __version__}

    @routes.get("/ready", summary="Is the server ready?", response_model=answers.Health)
    async def ready() -> Any:
        """Whether the database answers, and the index is in step with it."""
        try:
            await beside(memory.engine.indexer.pull)
        except LangmemAdapterError as error:
            _log.warning("not ready: %s", logged(error))
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "the database or the index does not answer") from None
        return {"status": "ready", "version": __version__}

    @routes.get("/health/checks", summary="Is everything in place?", response_model=answers.CheckList)
    async def checks(principal: Principal = caller) -> Any:
        """Python, packages, telemetry, disk, database, dates, and the index row by row; no model is asked."""
        principal.need("admin")
        if principal.scope is not None:
            raise ForbiddenError("this needs a key that reaches everything")
        found = await apart(lambda: list(checkup(memory)))
        worst = max((check.status for check in found), key=SEVERITY.index)
        return {"status": worst, "items": [as_data(check) for check in found]}

    @routes.get("/scopes", summary="List scopes", response_model=answers.ScopeList)
    async def scopes(principal: Principal = caller) -> Any:
        """Every scope that has memories, as far as the key reaches, the largest first."""
        principal.need("admin")
        found = await beside(memory.engine.reading, counts, principal.scope)
        return {"items": [as_data(each) for each in found]}

    @routes.post("/purge", summary="Erase a scope", response_model=answers.Erased)
    async def purge(body: requests.Whose, principal: Principal = caller) -> Any:
        """Erase a scope: its memories, their history, all that adds saw and answered, its keys; nothing can be restored."""
        principal.need("admin")
        return as_data(await memory.apurge(**principal.narrowed(named(body))))

    @routes.get("/traces", summary="List what adds did", response_model=answers.TracePage)
    async def traces(asked: Annotated[requests.Paged, Query()], principal: Principal = caller) -> Any:
        """What the adds of a scope did, in short, the newest first, page by page."""
        principal.need("read")
        page = await memory.atraces(k=asked.k, after=asked.after, **principal.narrowed(named(asked)))
        return {"items": [as_data(summary) for summary in page], "next": page.next}

    @routes.get("/traces/{trace_id}", summary="Get the trace of an add", response_model=answers.TraceShown)
    async def trace(trace_id: str, asked: Annotated[requests.Whose, Query()], principal: Principal = caller) -> Any:
        """What one add saw and did: turns, facts, the memories compared with, decisions, prompts and replies."""
        principal.need("read")
        found = await memory.atrace(trace_id, **principal.narrowed(named(asked)))
        told = {name: value for name, value in as_data(found).items() if name != "state"}
        return {**told, "result": telling.added(found.result)}

    return routes
