"""Memories: added while the caller waits or as a job, searched, listed, changed, deleted, brought back."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response, status

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.server.calls import Reads, RequestCall, Writes
from langmem_adapter.server.problems import OURS, told_of
from langmem_adapter.server.v1 import answers, requests
from langmem_adapter.storage.jobs import Job

IdempotencyKey = Annotated[str | None, Header(description="Names this add: repeated, it changes nothing.")]
Wait = Annotated[bool, Query(description="`false`: answer at once, with a job that does it.")]

router = APIRouter(prefix=OURS, tags=["memories"])


@router.post(
    "/memories",
    summary="Add a memory",
    status_code=status.HTTP_201_CREATED,
    response_model=answers.Added,
    responses={202: {"model": answers.JobShown, "description": "A job does it."}},
)
async def add(
    call: Writes, body: requests.AddOne, request: Request, idempotency_key: IdempotencyKey = None, wait: Wait = True
) -> Any:
    """Remember what a conversation says."""
    given = _given(call, body, idempotency_key)
    if wait:
        return await call.memory.aadd(**given)
    (job,) = await call.service.workers.submit([given])
    return _accepted(_shown(job), f"{request.scope.get('root_path', '')}{OURS}/jobs/{job.id}")


@router.post(
    "/memories/batch",
    summary="Add many memories",
    response_model=answers.AddedMany,
    responses={202: {"model": answers.JobList, "description": "Jobs do it, one for each item."}},
)
async def add_many(call: Writes, body: requests.AddMany, request: Request, wait: Wait = True) -> Any:
    """Remember many conversations; each ends on its own."""
    given = [_given(call, item) for item in body.items]
    if not wait:
        return _accepted(answers.JobList(jobs=[_shown(job) for job in await call.service.workers.submit(given)]))
    number, ends = request.state.request_id, await call.memory.aadd_many(given)
    return {"items": [{"error": told_of(e, number)} if isinstance(e, Exception) else {"added": e} for e in ends]}


@router.get("/memories", summary="List memories", response_model=answers.MemoryPage)
async def listed(call: Reads, asked: Annotated[requests.MemoryList, Query()]) -> Any:
    """All memories of a scope, the newest statement first, page by page."""
    return await call.memory.aget_all(**call.arguments(asked))


@router.delete("/memories", summary="Delete the memories of a scope", response_model=answers.Deleted)
async def delete_all(call: Writes, asked: Annotated[requests.ScopeFields, Query()]) -> Any:
    """Delete every memory of a scope; their history stays."""
    return {"deleted": await call.memory.adelete_all(**call.whose(asked))}


@router.get("/memories/{memory_id}", summary="Get a memory", response_model=answers.MemoryShown)
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


@router.get("/memories/{memory_id}/history", summary="History of a memory", response_model=answers.RevisionList)
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


def _given(call: RequestCall, asked: requests.AddOne, key: str | None = None) -> dict[str, Any]:
    """The arguments of an add, of plain JSON types; other than Pydantic's own JSON it leaves NaN to be refused."""
    call.check_images([asked.messages, asked.context])
    if key is not None and asked.idempotency_key not in {None, key}:
        raise InvalidInputError("the header Idempotency-Key and idempotency_key say two things; give one of them")
    said = asked.model_dump(exclude_unset=True).items()
    plain = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in said}
    own = key if asked.idempotency_key is None else asked.idempotency_key
    return {**plain, **call.whose(asked), "idempotency_key": own}


def _shown(job: Job) -> answers.JobShown:
    return answers.JobShown.model_validate(replace(job, result=None))


def _accepted(told: answers.JobShown | answers.JobList, where: str | None = None) -> Response:
    headers = {} if where is None else {"location": where}
    body = told.model_dump_json()
    return Response(body, status.HTTP_202_ACCEPTED, headers, media_type="application/json")
