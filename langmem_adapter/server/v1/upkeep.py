"""What looks after a server asks: is it alive, ready, well, who has memories, what did an add do, erase somebody."""

import logging
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Query, Request

from langmem_adapter._version import __version__
from langmem_adapter.errors import LangmemAdapterError
from langmem_adapter.maintenance.checks import SEVERITY
from langmem_adapter.maintenance.checkup import checkup
from langmem_adapter.server.calls import Admin, Anyone, Reads, service_of
from langmem_adapter.server.log import logged
from langmem_adapter.server.problems import OURS
from langmem_adapter.server.v1 import answers, requests
from langmem_adapter.storage.scopes import counts
from langmem_adapter.twins import apart, beside

_log: Final = logging.getLogger("langmem_adapter.server")

router = APIRouter(prefix=OURS, tags=["upkeep"])


@router.get("/health", summary="Is the server alive?", response_model=answers.Health)
async def health() -> Any:
    """Whether the server is alive."""
    return {"status": "alive", "version": __version__}


@router.get("/ready", summary="Is the server ready?", response_model=answers.Health)
async def ready(request: Request) -> Any:
    """Whether the database answers, and the index is in step with it."""
    try:
        await beside(service_of(request).memory.parts.indexer.pull)
    except LangmemAdapterError as error:
        _log.warning("not ready: %s", logged(error))
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "the database or the index does not answer") from None
    return {"status": "ready", "version": __version__}


@router.get("/health/checks", summary="Is everything in place?", response_model=answers.CheckList)
async def checks(call: Anyone) -> Any:
    """Python, packages, telemetry, disk, database, dates, and the index row by row; no model is asked."""
    call.principal.need_everything()
    found = await apart(lambda: list(checkup(call.memory)))
    worst = max((check.status for check in found), key=SEVERITY.index)
    return {"status": worst, "items": found}


@router.get("/scopes", summary="List scopes", response_model=answers.ScopeList)
async def scopes(call: Admin) -> Any:
    """Every scope that has memories, as far as the key reaches, the largest first."""
    return {"items": await beside(call.memory.parts.reading, counts, call.principal.scope)}


@router.post("/purge", summary="Erase a scope", response_model=answers.Erased)
async def purge(call: Admin, body: requests.ScopeFields) -> Any:
    """Erase a scope: its memories, their history, all that adds saw and answered, its keys; nothing can be restored."""
    return await call.memory.apurge(**call.whose(body))


@router.get("/traces", summary="List what adds did", response_model=answers.TracePageShown)
async def traces(call: Reads, asked: Annotated[requests.PageQuery, Query()]) -> Any:
    """What the adds of a scope did, in short, the newest first, page by page."""
    return await call.memory.atraces(**call.arguments(asked))


@router.get("/traces/{trace_id}", summary="Get the trace of an add", response_model=answers.TraceShown)
async def trace(call: Reads, trace_id: str, asked: Annotated[requests.ScopeFields, Query()]) -> Any:
    """What one add saw and did: turns, facts, the memories compared with, decisions, prompts and replies."""
    return await call.memory.atrace(trace_id, **call.whose(asked))
