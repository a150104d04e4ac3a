"""REST routes: memories, knowledge graph, conversations, jobs, health, scopes, traces; import and export are in `exchange`."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import count
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response, status
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from langmem_adapter._version import __version__
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError, MemoryNotFoundError
from langmem_adapter.maintenance.checkup import SEVERITY, checkup
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.calls import Admin, Anyone, Reads, RequestCall, Writes, once, service_of
from langmem_adapter.server.jobs import result_of
from langmem_adapter.server.log import logged
from langmem_adapter.server.problems import OURS, Streamed, answer_of
from langmem_adapter.server.v1 import answers, exchange, requests
from langmem_adapter.storage import conversations, jobs, scopes
from langmem_adapter.storage.conversations import Conversation, TurnFilter
from langmem_adapter.storage.jobs import Job
from langmem_adapter.twins import run_in_executor, run_in_new_thread

_log: Final = logging.getLogger("langmem_adapter.server")
_PAUSE: Final = 0.2  # seconds between two looks at a job, which another process may carry out
_AUTHENTICATE: Final = 5  # looks after which the key of the caller is checked again
_ALIVE: Final = 75  # looks without news after which a comment keeps the connection alive
_EVENTS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-sent events, named by the job's state, with the job as data; the last is `done` or `failed`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}

IdempotencyKey = Annotated[str | None, Header(description="Names this add: repeated, it changes nothing.")]
Wait = Annotated[bool, Query(description="`false`: answer at once, with a job that does it.")]
ScopeQuery = Annotated[requests.ScopeFields, Query()]


# Each has the prefix itself: the log names a route as its own router does.
_memories, _graph, _conversations, _jobs, _upkeep = (
    APIRouter(prefix=OURS, tags=[tag]) for tag in ("memories", "knowledge graph", "conversations", "jobs", "upkeep")
)


@_memories.post(
    "/memories",
    summary="Add a memory",
    status_code=status.HTTP_201_CREATED,
    response_model=answers.AddResponse,
    responses={202: {"model": answers.JobResponse, "description": "A job does it."}},
)
async def add(
    call: Writes, body: requests.AddOne, request: Request, idempotency_key: IdempotencyKey = None, wait: Wait = True
) -> Any:
    """Remember what a conversation says."""
    arguments = _add_arguments(call, body, idempotency_key)
    if wait:
        return await call.memory.aadd(**arguments)
    (job,) = await call.service.workers.submit([arguments])
    return _accepted(_job_response(job), location=f"{request.scope.get('root_path', '')}{OURS}/jobs/{job.id}")


@_memories.post(
    "/memories/batch",
    summary="Add many memories",
    response_model=answers.AddManyResponse,
    responses={202: {"model": answers.JobList, "description": "Jobs do it, one for each item."}},
)
async def add_many(call: Writes, body: requests.AddMany, request: Request, wait: Wait = True) -> Any:
    """Remember many conversations; each succeeds or fails separately."""
    arguments = [_add_arguments(call, item) for item in body.items]
    if not wait:
        return _accepted(answers.JobList(jobs=list(map(_job_response, await call.service.workers.submit(arguments)))))
    number, ends = request.state.request_id, await call.memory.aadd_many(arguments)
    return {"items": [{"error": answer_of(e, number)} if isinstance(e, Exception) else {"added": e} for e in ends]}


@_memories.get("/memories", summary="List memories", response_model=answers.MemoryPage, name="listed")
async def list_memories(call: Reads, query: Annotated[requests.MemoryList, Query()]) -> Any:
    """All memories of a scope, the newest statement first, page by page."""
    return await call.memory.aget_all(**call.arguments(query))


@_memories.delete("/memories", summary="Delete the memories of a scope", response_model=answers.DeleteResponse)
async def delete_all(call: Writes, query: ScopeQuery) -> Any:
    """Delete every memory of a scope; their history stays."""
    return {"deleted": await call.memory.adelete_all(**call.effective_scope(query))}


@_memories.get("/memories/{memory_id}", summary="Get a memory", response_model=answers.MemoryResponse)
async def get(call: Reads, memory_id: str, query: ScopeQuery) -> Any:
    """One memory."""
    return await call.memory.aget(memory_id, **call.effective_scope(query))


@_memories.patch("/memories/{memory_id}", summary="Change a memory", response_model=answers.ChangeResponse)
async def update(call: Writes, memory_id: str, body: requests.Update) -> Any:
    """Change a memory by hand."""
    return await call.memory.aupdate(memory_id, **call.arguments(body, exclude_unset=True))


@_memories.delete(
    "/memories/{memory_id}",
    summary="Delete a memory",
    status_code=status.HTTP_204_NO_CONTENT,
    response_class=Response,
)
async def delete(call: Writes, memory_id: str, query: ScopeQuery) -> None:
    """Delete a memory; its history stays, and it can be restored."""
    await call.memory.adelete(memory_id, **call.effective_scope(query))


@_memories.get("/memories/{memory_id}/history", summary="History of a memory", response_model=answers.RevisionList)
async def history(call: Reads, memory_id: str, query: ScopeQuery) -> Any:
    """Every change of a memory, in the order in which it was written."""
    return {"items": await call.memory.ahistory(memory_id, **call.effective_scope(query))}


@_memories.post("/memories/{memory_id}/restore", summary="Restore a memory", response_model=answers.ChangeResponse)
async def restore(call: Writes, memory_id: str, body: requests.Restore) -> Any:
    """Bring a memory back to what it was, also after its deletion."""
    return await call.memory.arestore(memory_id, **call.arguments(body))


@_memories.post("/search", summary="Search memories", response_model=answers.SearchResponse)
async def search(call: Reads, body: requests.Search) -> Any:
    """Find memories by meaning, words, speakers and time."""
    hits = await call.memory.asearch(**call.arguments(body))
    return {"results": hits, "abstained": hits.abstained}


def _add_arguments(call: RequestCall, item: requests.AddOne, key: str | None = None) -> dict[str, Any]:
    """The arguments of an add, of plain JSON types; other than Pydantic's own JSON it leaves NaN to be refused."""
    call.check_images([item.messages, item.context])
    if key is not None and item.idempotency_key not in {None, key}:
        raise InvalidInputError("the header Idempotency-Key and idempotency_key differ; give one of them")
    fields = call.arguments(item, exclude_unset=True)
    plain = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in fields.items()}
    return {**plain, "idempotency_key": key if item.idempotency_key is None else item.idempotency_key}


def _job_response(job: Job) -> Any:
    return answers.JobResponse.model_validate(replace(job, result=None))


def _accepted(body: Any, **headers: str) -> Response:
    return Response(body.model_dump_json(), status.HTTP_202_ACCEPTED, headers, media_type="application/json")


# ── the knowledge graph ───────────────────────────────────────────────────────────────────────────────────────────────


@_graph.get("/relations", summary="List relations", response_model=answers.RelationPageResponse)
async def relations(call: Reads, query: Annotated[requests.RelationQuery, Query()]) -> Any:
    """The relations of a scope, the one that was recorded last first, page by page."""
    return await call.memory.graph.arelations(**call.arguments(query))


@_graph.post(
    "/relations",
    summary="Add a relation",
    response_model=answers.RelationChangeResponse,
    status_code=status.HTTP_201_CREATED,
    name="add",
)
async def add_relation(call: Writes, body: requests.NewRelation) -> Any:
    """Write down a relation by hand."""
    return await call.memory.graph.aadd(**call.arguments(body))


@_graph.post("/relations/search", summary="Search relations", response_model=answers.RelationList, name="search")
async def search_relations(call: Reads, body: requests.RelationSearch) -> Any:
    """Find the relations that hold now by names, by words, and by the memories that answer a question."""
    return {"items": await call.memory.graph.asearch(**call.arguments(body))}


@_graph.post("/relations/{relation_id}/end", summary="End a relation", response_model=answers.RelationChangeResponse)
async def end(call: Writes, relation_id: str, body: requests.RelationEnd) -> Any:
    """End a relation; its history stays."""
    return await call.memory.graph.aend(relation_id, **call.arguments(body))


@_graph.delete(
    "/relations/{relation_id}",
    summary="Withdraw a relation",
    response_model=answers.RelationChangeResponse,
    name="delete",
)
async def delete_relation(call: Writes, relation_id: str, query: ScopeQuery) -> Any:
    """Delete a relation that was wrong; its history stays."""
    return await call.memory.graph.adelete(relation_id, **call.effective_scope(query))


@_graph.get("/entities", summary="List entities", response_model=answers.EntityPageResponse)
async def entities(call: Reads, query: Annotated[requests.EntityList, Query()]) -> Any:
    """The entities of a scope, the one that is mentioned most often first, page by page."""
    return await call.memory.graph.aentities(**call.arguments(query))


@_graph.get("/entities/neighbours", summary="Neighbours of an entity", response_model=answers.NeighbourList)
async def neighbours(call: Reads, query: Annotated[requests.Neighbours, Query()]) -> Any:
    """Who and what is related to an entity, and to these in turn, in both directions."""
    return {"items": await call.memory.graph.aneighbours(**call.arguments(query))}


@_graph.get("/entities/path", summary="Path between two entities", response_model=answers.RelationList)
async def path(call: Reads, query: Annotated[requests.Path, Query()]) -> Any:
    """The relations on a shortest way from one entity to another; none where there is no such way."""
    return {"items": await call.memory.graph.apath(**call.arguments(query))}


@_graph.post("/entities/merge", summary="Merge two entities", response_model=answers.MoveResponse)
async def merge(call: Writes, body: requests.Merge) -> Any:
    """Say that two names mean the same: what is said of the first is from now on said of the second."""
    return {"relations": await call.memory.graph.amerge(**call.arguments(body))}


@_graph.post("/entities/split", summary="Split two entities", response_model=answers.MoveResponse)
async def split(call: Writes, body: requests.Split) -> Any:
    """Undo the last merge of a name; what was said since then stays with the one it was merged into."""
    return {"relations": await call.memory.graph.asplit(**call.arguments(body))}


# ── conversations ─────────────────────────────────────────────────────────────────────────────────────────────────────


@_conversations.get(
    "/conversations", summary="List conversations", response_model=answers.ConversationPage, name="listed"
)
async def list_conversations(call: Reads, query: Annotated[requests.PageQuery, Query()]) -> Any:
    """The conversations within a scope, the latest first, page by page."""
    scope = Scope(**call.effective_scope(query))
    return await _page_of(call, partial(conversations.listed, scope=scope, k=query.k, after=query.after))


@_conversations.get(
    "/conversations/{session_id:path}/turns", summary="Turns of a conversation", response_model=answers.TurnPage
)
async def turns(call: Reads, session_id: str, query: Annotated[requests.ConversationQuery, Query()]) -> Any:
    """The turns of a conversation, which is named by its session and its exact scope; the latest page first."""
    conversation = Conversation(session_id, Scope(**call.effective_scope(query)))
    which = TurnFilter(last=query.k + 1, before=query.before)
    rows = await run_in_executor(call.memory.parts.reading, conversations.read, conversation, which)
    page = rows[-query.k :]
    return {"items": page, "next": page[0].position if len(rows) > query.k else None}


@_conversations.get(
    "/conversations/{session_id:path}/notes",
    summary="Notes of a conversation",
    response_model=answers.NoteList,
    name="noted",
)
async def notes(call: Reads, session_id: str, query: Annotated[requests.NoteQuery, Query()]) -> Any:
    """What was made of a conversation: its summaries, or other notes."""
    conversation = Conversation(session_id, Scope(**call.effective_scope(query)))
    rows = await run_in_executor(call.memory.parts.reading, conversations.read_notes, conversation, query.kind)
    return {"items": rows}


async def _page_of(call: RequestCall, read: Any) -> dict[str, Any]:
    items, cursor = await run_in_executor(call.memory.parts.reading, read)
    return {"items": items, "next": cursor}


# ── jobs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@_jobs.get("/jobs", summary="List jobs", response_model=answers.JobPage, name="listed")
async def list_jobs(call: Anyone, query: Annotated[requests.JobQuery, Query()]) -> Any:
    """The jobs of a scope, the newest first, page by page, without their results; for admins those of all users."""
    fields = call.effective_scope(query)
    call.principal.need("write" if fields else "admin")
    scope = Scope(**fields) if fields else None
    return await _page_of(call, partial(jobs.page, scope=scope, k=query.k, state=query.state, after=query.after))


@_jobs.delete("/jobs/{job_id}", summary="Cancel a job", status_code=status.HTTP_204_NO_CONTENT, response_class=Response)
async def cancel(call: Writes, job_id: str) -> None:
    """Cancel a job that has not begun: nothing of it is written."""
    await call.memory.parts.database.awrite(partial(jobs.cancel, job_id=job_id, scope=call.principal.scope))


@_jobs.get("/jobs/{job_id}", summary="Get a job", response_model=answers.JobResponse, name="get")
async def get_job(call: Writes, job_id: str) -> Any:
    """How far a job is, and what came of it; it can be asked for until a day after its end."""
    return await run_in_executor(_read_job, call, job_id)


@_jobs.get("/jobs/{job_id}/events", summary="Follow a job", response_class=StreamingResponse, responses=_EVENTS)
async def events(call: Writes, request: Request, job_id: str) -> StreamingResponse:
    """The same as server-sent events, whenever it goes on, until its end.

    A stream ends before that where the server stops, and breaks off where the key is revoked; ask again.
    """
    read = partial(run_in_executor, _read_job, call, job_id)
    return Streamed(_events(request, await read(), read), media_type="text/event-stream")


def _read_job(call: RequestCall, job_id: str) -> Any:
    """A job of the caller's scope, with its result where it is done."""
    job: Job = call.memory.parts.reading(jobs.read, job_id, call.principal.scope)
    result: Any = result_of(call.memory, job)
    return answers.JobResponse.model_validate(replace(job, result=result))


async def _events(request: Request, job: Any, read: Any) -> AsyncIterator[bytes]:
    last, quiet = "", 0
    for look in count(1):
        text = job.model_dump_json()
        if text != last:
            last, quiet = text, 0
            yield format_sse_event(event=job.state, data_str=text)
        elif quiet % _ALIVE == 0:
            yield KEEPALIVE_COMMENT
        if job.state in jobs.FINISHED:
            return
        quiet += 1
        await asyncio.sleep(_PAUSE)
        if request.app.state.ending:
            return
        if look % _AUTHENTICATE == 0:
            await service_of(request).authenticate(request)
        try:
            job = await read()
        except MemoryNotFoundError as error:  # it was erased, or cancelled
            yield format_sse_event(event="failed", data_str=json.dumps({"detail": str(error)}))
            return


# ── operation ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@_upkeep.get("/health", summary="Is the server alive?", response_model=answers.Health)
async def health() -> Any:
    """Whether the server is alive."""
    return {"status": "alive", "version": __version__}


@_upkeep.get("/ready", summary="Is the server ready?", response_model=answers.Health)
async def ready(request: Request) -> Any:
    """Whether the database answers, and the index is in step with it."""
    try:
        await run_in_executor(service_of(request).memory.parts.indexer.pull)
    except LangmemAdapterError as error:
        _log.warning("not ready: %s", logged(error))
        raise HTTPException(503, "the database or the index does not answer") from None
    return {"status": "ready", "version": __version__}


@_upkeep.get("/health/checks", summary="Is everything in place?", response_model=answers.CheckList)
async def checks(call: Anyone) -> Any:
    """Python, packages, telemetry, disk, database, dates, and the index row by row; no model is asked."""
    call.principal.need_everything()
    items = await run_in_new_thread(lambda: list(checkup(call.memory)))
    return {"status": max((check.status for check in items), key=SEVERITY.index), "items": items}


@_upkeep.get("/scopes", summary="List scopes", response_model=answers.ScopeList, name="scopes")
async def list_scopes(call: Admin) -> Any:
    """Every scope that has memories, as far as the key reaches, the largest first."""
    return {"items": await run_in_executor(call.memory.parts.reading, scopes.counts, call.principal.scope)}


@_upkeep.post("/purge", summary="Erase a scope", response_model=answers.PurgeResponse)
async def purge(call: Admin, body: requests.ScopeFields) -> Any:
    """Erase a scope: memories, history, relations, traces, conversations, jobs and keys. Nothing can be restored.

    It needs a key with the right `admin`, also for the key's own user. LangGraph threads and store items have no scope: they
    stay.
    """
    return await call.memory.apurge(**call.effective_scope(body))


@_upkeep.get("/traces", summary="List what adds did", response_model=answers.TracePageResponse)
async def traces(call: Reads, query: Annotated[requests.PageQuery, Query()]) -> Any:
    """What the adds of a scope did, in short, the newest first, page by page."""
    return await call.memory.atraces(**call.arguments(query))


@_upkeep.get("/traces/{trace_id}", summary="Get the trace of an add", response_model=answers.TraceResponse)
async def trace(call: Reads, trace_id: str, query: ScopeQuery) -> Any:
    """What one add saw and did: turns, facts, the memories compared with, decisions, prompts and replies."""
    return await call.memory.atrace(trace_id, **call.effective_scope(query))


router = APIRouter(responses=answers.PROBLEMS, dependencies=[Depends(once)])
for each in (_memories, _graph, _conversations, exchange.router, _jobs, _upkeep):
    router.include_router(each)
