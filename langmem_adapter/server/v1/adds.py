"""Adding memories: while the caller waits, or as a job; one, or many."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response, status

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.server.calls import RequestCall, Writes
from langmem_adapter.server.jobs import Workers
from langmem_adapter.server.problems import OURS, told_of
from langmem_adapter.server.v1 import answers, requests
from langmem_adapter.storage.jobs import Job

__all__ = ["router"]

Key = Annotated[str | None, Header(description="Names this add: repeated, it changes nothing.")]
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
    call: Writes, body: requests.AddOne, request: Request, idempotency_key: Key = None, wait: Wait = True
) -> Any:
    """Remember what a conversation says."""
    given = _given(call, body, idempotency_key)
    if wait:
        return await call.memory.aadd(**given)
    (job,) = await _workers(request).submit([given])
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
        return _accepted(answers.JobList(jobs=[_shown(job) for job in await _workers(request).submit(given)]))
    number = request.state.request_id
    return {"items": [_item(end, number) for end in await call.memory.aadd_many(given)]}


def _workers(request: Request) -> Workers:
    workers: Workers = request.app.state.workers
    return workers


def _given(call: RequestCall, asked: requests.AddOne, key: str | None = None) -> dict[str, Any]:
    """The arguments of an add, of plain JSON types; other than Pydantic's own JSON it leaves NaN to be refused."""
    call.check_images([asked.messages, asked.context])
    if key is not None and asked.idempotency_key not in {None, key}:
        raise InvalidInputError("the header Idempotency-Key and idempotency_key say two things; give one of them")
    said = asked.model_dump(exclude_unset=True).items()
    plain = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in said}
    own = key if asked.idempotency_key is None else asked.idempotency_key
    return {**plain, **call.whose(asked), "idempotency_key": own}


def _item(end: Any, number: str) -> Mapping[str, Any]:
    return {"error": told_of(end, number)} if isinstance(end, Exception) else {"added": end}


def _shown(job: Job) -> answers.JobShown:
    return answers.JobShown.model_validate(replace(job, result=None))


def _accepted(told: answers.JobShown | answers.JobList, where: str | None = None) -> Response:
    headers = {} if where is None else {"location": where}
    body = told.model_dump_json()
    return Response(body, status.HTTP_202_ACCEPTED, headers, media_type="application/json")
