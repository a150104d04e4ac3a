"""Response models of REST: the fields of the records that they show, with a scope as its three fields.

A field that is named differently, or shown in another form than the record's, is named in the call.
"""

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, Final, get_type_hints

from pydantic import AliasPath, BaseModel, BeforeValidator, Field, Json, create_model

from langmem_adapter.maintenance.checkup import Check, Status
from langmem_adapter.records.graph import Entity, Neighbour, Relation, RelationChange
from langmem_adapter.records.results import (
    Abstained,
    AddResult,
    Change,
    Event,
    Explanation,
    MemoryItem,
    Revision,
    Usage,
)
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope, as_data
from langmem_adapter.storage import traces
from langmem_adapter.storage.conversations import ConversationInfo, Note, StoredTurn
from langmem_adapter.storage.erasure import Erasure
from langmem_adapter.storage.jobs import Job, JobState
from langmem_adapter.storage.lossless.imports import ImportReport
from langmem_adapter.storage.scopes import ScopeCount

_AsData = Annotated[dict[str, Any], BeforeValidator(as_data)]
# What the modules of the records import for type checkers alone.
_TYPES: Final[dict[str, Any]] = {
    "Change": Change,
    "Event": Event,
    "Mapping": Mapping,
    "Scope": Scope,
    "datetime": datetime,
}
_FIRST: Final = ("id", "session_id", "position", "text")


class _Response(BaseModel, extra="forbid", from_attributes=True):
    pass


def _from(*path: str) -> Any:
    return Field(validation_alias=AliasPath(*path))


def _fields(record: type, without: tuple[str, ...] = (), at: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a record, which the attributes *at* lead to."""
    types = get_type_hints(record, localns=_TYPES)
    result: dict[str, Any] = {}
    for name in (each.name for each in fields(record) if each.name not in without):
        if types[name] is Scope:
            result |= {each: (str | None, _from(*at, name, each)) for each in SCOPE_FIELDS}
        else:
            result[name] = (types[name], _from(*at, name))
    return result


def _response(name: str, doc: str, /, derived: dict[str, Any] | None = None, base: Any = _Response, **own: Any) -> Any:
    """A model of *derived* fields and its own, which come instead or after them; `[X]` is a list of X."""
    for key, value in own.items():
        kind = list[value[0]] if isinstance(value, list) else value  # type: ignore[valid-type]
        own[key] = kind if isinstance(kind, tuple) else (kind, ...)
    every = {**(derived or {}), **own}
    first = {key: every[key] for key in _FIRST if key in every}
    return create_model(name, __base__=base, __doc__=doc, __module__=__name__, **first | every)


def _page(name: str, what: str, item: Any) -> Any:
    return _response(name, f"Some {what}, and the cursor of the next page.", items=[item], next=str | None)


Problem: Final = _response(
    "Problem",
    "What went wrong, and what to do about it (RFC 9457); the last three of an import that failed after it began.",
    type=str,
    title=str,
    status=int,
    detail=str,
    instance=str,
    errors=(list[dict[str, Any]], []),
    imported=(int | None, None),
    refused=(int | None, None),
    resume_line=(int | None, None),
)
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "What went wrong, and what to do about it.",
        "content": {"application/problem+json": {"schema": Problem.model_json_schema()}},
    }
}
"""The `responses` of every route."""

ErrorResponse = _response("ErrorResponse", "Why something was not done.", status=int, detail=str)

# Memories
MemoryResponse = _response("MemoryResponse", "The current state of a memory.", _fields(MemoryItem))
MemoryPage = _page("MemoryPage", "memories", MemoryResponse)
RevisionResponse = _response("RevisionResponse", "A change of a memory.", _fields(Revision))
RevisionList = _response(
    "RevisionList", "Every change of a memory, in the order in which it was written.", items=[RevisionResponse]
)
ExplanationResponse = _response("ExplanationResponse", "Why a hit was found.", _fields(Explanation))
HitResponse = _response(
    "HitResponse",
    "A memory that answers a query.",
    _fields(MemoryItem, at=("item",)),
    score=float,
    relevance=float,
    passage=str,
    explanation=ExplanationResponse | None,
)
AbstentionResponse = _response(
    "AbstentionResponse",
    "Why there are no results, also in words, with the best hit below the threshold.",
    _fields(Abstained, ("narrowed",)),
    brief=str,
    nearest=HitResponse | None,
)
SearchResponse = _response(
    "SearchResponse",
    "The hits, best first, or why there are none.",
    results=[HitResponse],
    abstained=AbstentionResponse | None,
)

# The knowledge graph
RelationResponse = _response(
    "RelationResponse", "A relation, and the sentence that states it.", _fields(Relation), text=str
)
RelationPageResponse = _page("RelationPage", "relations", RelationResponse)
RelationList = _response("RelationList", "Some relations, in order.", items=[RelationResponse])
RelationChangeResponse = _response(
    "RelationChangeResponse", "How a relation changed.", _fields(RelationChange), relation=RelationResponse
)
EntityResponse = _response("EntityResponse", "An entity.", _fields(Entity))
EntityPageResponse = _page("EntityPage", "entities", EntityResponse)
NeighbourResponse = _response(
    "NeighbourResponse",
    "A neighbour, with the relations that lead to it.",
    _fields(Neighbour),
    entity=EntityResponse,
    relations=[RelationResponse],
)
NeighbourList = _response(
    "NeighbourList", "The neighbours, nearest first, with the relations that lead to them.", items=[NeighbourResponse]
)
MoveResponse = _response("MoveResponse", "How many relations have another end now.", relations=int)

# Changes of memories
ChangeResponse = _response(
    "ChangeResponse", "What became of a fact.", _fields(Change), relations=[RelationChangeResponse]
)
UsageResponse = _response("UsageResponse", "Model calls and tokens of an add.", _fields(Usage, ("calls",)))
AddResponse = _response(
    "AddResponse",
    "What an add did: one change for each fact.",
    _fields(AddResult),
    results=[ChangeResponse],
    usage=UsageResponse,
)
AddItemResponse = _response(
    "AddItemResponse",
    "What became of an item: what was added, or why it failed.",
    added=(AddResponse | None, None),
    error=(ErrorResponse | None, None),
)
AddManyResponse = _response("AddManyResponse", "What became of each item, in order.", items=[AddItemResponse])
DeleteResponse = _response("DeleteResponse", "How many memories were deleted.", deleted=int)
PurgeResponse = _response("PurgeResponse", "What a purge removed, and what remains.", _fields(Erasure))
LineErrorResponse = _response("LineErrorResponse", "Why a line was refused.", base=ErrorResponse, line=int)
ImportResponse = _response(
    "ImportResponse",
    "What became of the lines: `errors` names the first thousand that were refused.",
    imported=int,
    refused=int,
    errors=[LineErrorResponse],
)
FullImportResponse = _response(
    "FullImportResponse", "What became of the lines of a lossless export.", _fields(ImportReport)
)

# Jobs
JobSummary = _response(
    "JobSummary",
    "An add that is carried out later, without its result.",
    _fields(Job, ("request", "result")),
    state=JobState,
    error=ErrorResponse | None,
)
JobResponse = _response("JobResponse", "An add that is carried out later.", base=JobSummary, result=AddResponse | None)
JobList = _response("JobList", "The jobs of some adds, in order.", jobs=[JobResponse])
JobPage = _page("JobPage", "jobs", JobSummary)

# Conversations
ConversationResponse = _response(
    "ConversationResponse",
    "A conversation, by its name.",
    _fields(Scope, at=("conversation", "scope")) | _fields(ConversationInfo, ("conversation",)),
    session_id=(str, _from("conversation", "session")),
)
ConversationPage = _page("ConversationPage", "conversations, the latest first", ConversationResponse)
TurnResponse = _response(
    "TurnResponse", "A message of a conversation.", _fields(StoredTurn, ("fingerprint",)), message=Json
)
TurnPage = _response(
    "TurnPage",
    "Some messages of a conversation, oldest first; `next` is the `before` of the page of earlier ones.",
    items=[TurnResponse],
    next=int | None,
)
NoteResponse = _response("NoteResponse", "A note about a conversation.", _fields(Note), created_at=datetime)
NoteList = _response("NoteList", "All notes of a kind, oldest first.", items=[NoteResponse])

# Operation
ScopeResponse = _response("ScopeResponse", "A scope, and how many memories it has.", _fields(ScopeCount))
ScopeList = _response("ScopeList", "The scopes that have memories, the largest first.", items=[ScopeResponse])
TraceSummaryResponse = _response("TraceSummary", "What an add did, in short.", _fields(traces.TraceSummary))
TracePageResponse = _page("TracePage", "traces of adds, in short, the newest first", TraceSummaryResponse)
TraceResponse = _response(
    "TraceResponse",
    "What an add saw and did, stage by stage.",
    _fields(traces.Trace, ("state",)),
    turns=[_AsData],
    facts=[_AsData],
    decisions=[_AsData],
    calls=[_AsData],
    result=AddResponse,
)
CheckResponse = _response("CheckResponse", "One check.", _fields(Check))
CheckList = _response(
    "CheckList", "The result of a checkup, and its worst status.", status=Status, items=[CheckResponse]
)
Health = _response("Health", "The state of the server.", status=str, version=str)
