"""Routes of Mem0's self-hosted server, so that its clients work unchanged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import BaseModel, BeforeValidator, Field

from langmem_adapter.adapters.mem0.memory import Mem0Methods
from langmem_adapter.adapters.mem0.shapes import (
    format_item,
    format_items,
    format_revision,
    merge_scope,
    normalize_filters,
    parse_expiry,
)
from langmem_adapter.errors import InvalidInputError, MemoryNotFoundError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.server.auth import ForbiddenError, Principal
from langmem_adapter.server.calls import Admin, Anyone, Reads, Writes, once
from langmem_adapter.server.v1.requests import Body, ScopeFields, check_count
from langmem_adapter.storage import memories, scopes
from langmem_adapter.twins import run_in_executor

_MOST: Final = 1_000
_KINDS: Final = {name.removesuffix("_id"): name for name in SCOPE_FIELDS}
_ACCOUNTS: Final = "there are no accounts here: make a key where the server runs, with langmem-adapter keys create"
_CONFIGURED: Final = (
    "it is configured where it is started: by LANGMEM_ADAPTER_* in its environment, or in langmem_adapter.toml; "
    "langmem-adapter doctor shows what it has"
)
ELSEWHERE: Final[Mapping[str, str]] = {
    "/configure": _CONFIGURED,
    "/configure/providers": "any chat model and any embeddings of LangChain will do: langmem-adapter serve --model NAME",
    "/generate-instructions": "langmem-adapter prompts shows the instructions; send your own as prompt of POST /memories",
    "/auth/{rest:path}": _ACCOUNTS,
    "/api-keys": "keys are made, listed and revoked where the server runs: langmem-adapter keys create|list|revoke",
    "/api-keys/{rest:path}": "keys are revoked where the server runs: langmem-adapter keys revoke ID",
    "/requests": "the server writes a line for each request to its standard error, and keeps none",
}
"""Routes of Mem0's server that are none here, and what to do instead."""


class Mem0Error(BaseModel):
    detail: str


class Mem0Done(BaseModel):
    message: str


_ROW: Final = {
    "id": "0b8e4b9a-5c0e-4c8e-9a57-3a1c2f0d7d11",
    "memory": "Is vegetarian",
    "hash": "c9f0f895fb98ab9159f51fd0297e236d",
    "metadata": {"source": "chat"},
    "created_at": "2026-05-01T09:30:00+00:00",
    "updated_at": "2026-05-01T09:30:00+00:00",
    "user_id": "alice",
}
_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": Mem0Error, "description": "What was sent cannot be used; the text says what to do."},
    401: {"model": Mem0Error, "description": "No valid key."},
    403: {"model": Mem0Error, "description": "The key has not this right, or reaches another scope."},
}
_ABSENT: Final[dict[int | str, dict[str, Any]]] = {404: {"model": Mem0Error, "description": "There is no such memory."}}


def _answer(example: Any) -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {"application/json": {"example": example}}}}


# Fields that Mem0 would ignore are refused: they may be meant as a scope.
class Mem0Ids(ScopeFields):
    @property
    def named(self) -> dict[str, str]:
        """The fields that are not empty; Mem0 ignores empty ones."""
        return {name: value.strip() for name in SCOPE_FIELDS if (value := getattr(self, name))}


class _List(Mem0Ids):
    top_k: int = Field(100, ge=0, le=_MOST, description="At most so many.")
    show_expired: bool = Field(default=False, description="Whether expired memories are listed, too.")


class Mem0Message(BaseModel, extra="allow"):
    role: str
    content: str | dict[str, Any] | list[Any] | None


class Mem0Add(
    Mem0Ids,
    json_schema_extra={
        "examples": [{"messages": [{"role": "user", "content": "I am vegetarian."}], "user_id": "alice"}]
    },
):
    messages: Annotated[list[Mem0Message] | str, BeforeValidator(check_count)]
    metadata: dict[str, Any] | None = None
    expiration_date: str | None = Field(None, description="The last day on which the memories are shown.")
    infer: bool | None = Field(None, description="False stores every message as it is.")
    memory_type: str | None = Field(
        None, description='"procedural_memory", with agent_id: a record of what an agent did.'
    )
    prompt: str | None = Field(None, description="Replaces the instructions, this time; needs a chat model.")

    @property
    def plain_messages(self) -> Any:
        """The messages as `Memory.add` takes them."""
        return self.messages if isinstance(self.messages, str) else [m.model_dump() for m in self.messages]


class Mem0Search(
    Mem0Ids,
    json_schema_extra={
        "examples": [{"query": "What can I cook for her?", "filters": {"user_id": "alice"}, "top_k": 5}]
    },
):
    query: str
    filters: dict[str, Any] | None = Field(None, description="On ids, metadata and fields; AND, OR and NOT join them.")
    top_k: int | None = Field(None, ge=0, le=_MOST, description="At most so many; 100 by default.")
    threshold: float | None = Field(None, ge=0, le=1, description="Least relevance, which is the score of a row.")
    explain: bool | None = Field(None, description="Give each row the parts of its score.")
    show_expired: bool | None = None


class Mem0Update(Body, json_schema_extra={"examples": [{"text": "Is vegan"}]}):
    text: str | None = None
    data: str | None = Field(None, description="The text, in the words of older clients.")
    metadata: dict[str, Any] | None = Field(None, description="Keys to set; null removes one.")
    expiration_date: str | None = Field(None, description="The last day on which it is shown; null: it stays.")


class Mem0Entity(BaseModel):
    id: str
    type: Literal["user", "agent", "run"]
    total_memories: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class _Served:
    """The memory as the plans of the Mem0 adapter take it."""

    engine: Memory
    bare: bool = False
    reranker: None = None

    @property
    def shows_graph(self) -> bool:
        return self.engine.parts.uses_graph


router = APIRouter(tags=["Mem0"], responses=_ERRORS, dependencies=[Depends(once)])


@router.get("/memories", summary="Get memories", responses=_answer({"results": [_ROW]}))
async def list_(call: Reads, query: Annotated[_List, Query()]) -> dict[str, Any]:
    """List memories, the newest first; without an id those of all users, for admins."""
    scope = _exact_scope(call.principal, query.named)
    if not scope:
        call.principal.need("admin")
    if not query.top_k:
        return {"results": []}
    if not scope:
        read = partial(memories.page, k=query.top_k, include_expired=query.show_expired)
        items, _ = await run_in_executor(call.memory.parts.reading, read, None)
        return {"results": format_items(items)}
    plan = Mem0Methods.get_all(_Served(call.memory), top_k=query.top_k, show_expired=query.show_expired, **scope)
    return dict(await plan.arun())


@router.post("/search", summary="Search memories", responses=_answer({"results": [{**_ROW, "score": 0.82}]}))
async def search(call: Reads, body: Mem0Search) -> dict[str, Any]:
    """Find memories by meaning and words, best first."""
    # Mem0 overlooks ids at the top that say nothing.
    empty = [name for name, value in (body.filters or {}).items() if name in SCOPE_FIELDS and value == ""]
    filters = body.filters and {name: value for name, value in body.filters.items() if name not in empty}
    scope = _needed_scope(
        call.principal, merge_scope(normalize_filters(filters), **{name: body.named.get(name) for name in SCOPE_FIELDS})
    )
    if body.top_k == 0:
        return {"results": []}
    how: dict[str, Any] = {"threshold": body.threshold, "explain": bool(body.explain), "top_k": body.top_k}
    how["show_expired"] = bool(body.show_expired)
    return dict(await Mem0Methods.search(_Served(call.memory), body.query, filters=filters, **scope, **how).arun())


@router.post(
    "/memories",
    summary="Create memories",
    responses=_answer({"results": [{"id": _ROW["id"], "memory": "Is vegetarian", "event": "ADD"}]}),
)
async def create(call: Writes, body: Mem0Add) -> dict[str, Any]:
    """Remember what messages say: facts are found, compared with what is known, and kept up to date."""
    call.check_images(body.plain_messages)
    how: dict[str, Any] = body.model_dump(include={"metadata", "memory_type", "prompt", "expiration_date"})
    scope = _needed_scope(call.principal, body.named)
    plan = Mem0Methods.add(_Served(call.memory), body.plain_messages, infer=body.infer is not False, **scope, **how)
    return dict(await plan.arun())


@router.delete("/memories", summary="Delete all memories")
async def delete_all(call: Writes, query: Annotated[Mem0Ids, Query()]) -> Mem0Done:
    """Delete every memory of a user, agent or run; the history stays."""
    if not query.named:
        raise HTTPException(400, "At least one identifier is required.")
    await _delete_all(call.memory, call.effective_scope(query.named))
    return Mem0Done(message="All relevant memories deleted")


@router.post("/reset", summary="Reset all memories")
async def reset(call: Admin, body: Mem0Ids | None = None) -> Mem0Done:
    """Erase everything for good, or what belongs to one user, agent or run; for admins."""
    fields = {} if body is None else {name: getattr(body, name) for name in body.model_fields_set}
    if fields:
        Scope(**fields)  # an empty id must not mean all scopes
    scope = call.effective_scope(fields)
    await (call.memory.apurge(**scope) if scope else call.memory.areset())
    return Mem0Done(message="All memories reset")


@router.get("/memories/{memory_id}", summary="Get a memory", responses=_answer({**_ROW, "score": None}))
async def get(call: Reads, memory_id: str) -> dict[str, Any] | None:
    """One memory, an expired one too; null where there is none."""
    try:
        return format_item(await call.memory.aget(memory_id, **call.effective_scope()))
    except MemoryNotFoundError:
        return None


@router.get("/memories/{memory_id}/history", summary="Get memory history")
async def history(call: Reads, memory_id: str) -> list[dict[str, Any]]:
    """Every change of a memory, the oldest first, a deleted one's too; an unknown id has none."""
    try:
        return [format_revision(step) for step in await call.memory.ahistory(memory_id, **call.effective_scope())]
    except MemoryNotFoundError:
        return []


@router.put("/memories/{memory_id}", summary="Update a memory", responses=_ABSENT)
async def update(call: Writes, memory_id: str, body: Mem0Update) -> Mem0Done:
    """Change a memory by hand; its history keeps the old text."""
    if body.text is not None and body.data is not None and body.text != body.data:
        raise InvalidInputError("text and data mean the same thing and differ; give one of them")
    new: dict[str, Any] = {"text": body.data if body.text is None else body.text, "metadata": body.metadata}
    if "expiration_date" in body.model_fields_set:
        new["expires_at"] = parse_expiry(body.expiration_date)
    await call.memory.aupdate(memory_id, **new, **call.effective_scope())
    return Mem0Done(message="Memory updated successfully!")


@router.delete("/memories/{memory_id}", summary="Delete a memory", responses=_ABSENT)
async def delete(call: Writes, memory_id: str) -> Mem0Done:
    """Delete a memory; its history stays."""
    await call.memory.adelete(memory_id, **call.effective_scope())
    return Mem0Done(message="Memory deleted successfully")


@router.get("/entities", summary="List who has memories")
async def entities(call: Anyone) -> list[Mem0Entity]:
    """Users, agents and runs that have memories; for admins those of all users."""
    call.principal.need("read" if call.principal.scope else "admin")
    return _entities(await run_in_executor(call.memory.parts.reading, scopes.counts, call.principal.scope))


@router.delete("/entities/{entity_type}/{entity_id}", summary="Delete the memories of one of them")
async def delete_entity(call: Writes, entity_type: Literal["user", "agent", "run"], entity_id: str) -> Mem0Done:
    """Delete every memory of a user, agent or run; the history stays."""
    await _delete_all(call.memory, call.effective_scope({_KINDS[entity_type]: entity_id}))
    return Mem0Done(message="Entity deleted")


async def _elsewhere(request: Request) -> None:
    raise HTTPException(404, ELSEWHERE[request.scope["route"].path])


for _path in ELSEWHERE:
    router.add_api_route(_path, _elsewhere, methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False)


def _exact_scope(principal: Principal, named: Mapping[str, Any]) -> dict[str, Any]:
    """The effective scope; refused with blanks around an id, which the Mem0 adapter strips: it would be another id."""
    scope = principal.narrowed(named)
    if any(value != value.strip() for value in scope.values()):
        raise ForbiddenError("this key's scope has blanks around an id, which Mem0's routes strip: use those of /v1")
    return scope


def _needed_scope(principal: Principal, named: Mapping[str, Any]) -> dict[str, Any]:
    scope = _exact_scope(principal, named)
    if not scope:
        raise HTTPException(400, "At least one identifier (user_id, agent_id, run_id) is required.")
    return scope


async def _delete_all(memory: Memory, scope: Mapping[str, Any]) -> None:
    await memory.adelete_all(**scope)
    await memory.graph.adelete_all(**scope)


def _entities(counts: Iterable[scopes.ScopeCount]) -> list[Mem0Entity]:
    entities: dict[tuple[Any, str], list[scopes.ScopeCount]] = {}
    for count in counts:
        for name, value in count.scope.named.items():
            entities.setdefault((name.removesuffix("_id"), value), []).append(count)
    return [
        Mem0Entity(
            id=value,
            type=kind,
            total_memories=sum(count.memories for count in of_it),
            created_at=min(count.created_at for count in of_it),
            updated_at=max(count.updated_at for count in of_it),
        )
        for (kind, value), of_it in sorted(entities.items())
    ]
