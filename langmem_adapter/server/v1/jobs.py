"""Jobs: the adds that nobody waits for: which there are, how far one is, once or as it goes on; called off."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response, status
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from langmem_adapter.errors import MemoryNotFoundError
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.calls import Anyone, RequestCall, Writes, service_of
from langmem_adapter.server.jobs import result_of
from langmem_adapter.server.problems import OURS, Streamed
from langmem_adapter.server.v1 import answers, requests
from langmem_adapter.storage import jobs
from langmem_adapter.twins import beside

if TYPE_CHECKING:
    from langmem_adapter.storage.jobs import Job

_PAUSE: Final = 0.2  # seconds between two looks: another process may do the job
_ASK: Final = 5  # looks after which it is asked anew whether the caller is let in
_ALIVE: Final = 75  # looks without news after which the connection is shown to be alive
_EVENTS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-sent events, named by the job's state, with the job as data; the last is `done` or `failed`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}

router = APIRouter(prefix=OURS, tags=["jobs"])


@router.get("/jobs", summary="List jobs", response_model=answers.JobPage)
async def listed(call: Anyone, asked: Annotated[requests.JobQuery, Query()]) -> Any:
    """The jobs of a scope, the newest first, page by page, without what came of them; those of everybody for admins."""
    fields = call.whose(asked)
    call.principal.need("write" if fields else "admin")
    how: dict[str, Any] = {"k": asked.k, "state": asked.state, "after": asked.after}
    read = partial(jobs.page, scope=Scope(**fields) if fields else None, **how)
    found, following = await beside(call.memory.parts.reading, read)
    return {"items": found, "next": following}


@router.delete(
    "/jobs/{job_id}", summary="Cancel a job", status_code=status.HTTP_204_NO_CONTENT, response_class=Response
)
async def cancel(call: Writes, job_id: str) -> None:
    """Call off a job that nobody has begun: nothing of it is written."""
    await call.memory.parts.database.awrite(partial(jobs.cancel, job_id=job_id, scope=call.principal.scope))


@router.get("/jobs/{job_id}", summary="Get a job", response_model=answers.JobShown)
async def get(call: Writes, job_id: str) -> Any:
    """How far a job is, and what came of it; it can be asked for until a day after its end."""
    return await _found(call, job_id)


@router.get("/jobs/{job_id}/events", summary="Follow a job", response_class=StreamingResponse, responses=_EVENTS)
async def events(call: Writes, request: Request, job_id: str) -> StreamingResponse:
    """The same as server-sent events, whenever it goes on, until its end.

    A stream ends before that where the server stops, and breaks off where the key is revoked; ask again.
    """
    told = _told(request, await _found(call, job_id), partial(_found, call, job_id))
    return Streamed(told, media_type="text/event-stream")


async def _found(call: RequestCall, job_id: str) -> answers.JobShown:
    """A job, for whoever has the right that its add took, and what came of it where it is done."""

    def look() -> answers.JobShown:
        job: Job = call.memory.parts.reading(jobs.read, job_id, call.principal.scope)
        end: Any = result_of(call.memory, job)
        return answers.JobShown.model_validate(replace(job, result=end))

    return await beside(look)


async def _told(request: Request, job: answers.JobShown, again: Any) -> AsyncIterator[bytes]:
    said, quiet = "", 0
    for look in count(1):
        text = job.model_dump_json()
        if text != said:
            said, quiet = text, 0
            yield format_sse_event(event=job.state, data_str=text)
        elif quiet % _ALIVE == 0:
            yield KEEPALIVE_COMMENT
        if job.state in jobs.FINISHED:
            return
        quiet += 1
        await asyncio.sleep(_PAUSE)
        if request.app.state.ending:
            return
        if look % _ASK == 0:
            await service_of(request).authenticate(request)
        try:
            job = await again()
        except MemoryNotFoundError as error:  # it was erased, or cancelled
            yield format_sse_event(event="failed", data_str=json.dumps({"detail": str(error)}))
            return
