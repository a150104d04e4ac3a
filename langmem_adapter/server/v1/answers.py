"""What answers say: the records of `langmem_adapter.records` as JSON, a scope as its three fields.

An answer that has other fields than its model is an error, so the document `/openapi.json` tells all of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from langmem_adapter.maintenance.checks import Status
from langmem_adapter.records.results import NoHit
from langmem_adapter.storage.jobs import State

__all__ = [
    "PROBLEMS",
    "Added",
    "AddedMany",
    "Changed",
    "CheckList",
    "ConversationPage",
    "Deleted",
    "EntityPageResponse",
    "Erased",
    "FoundShown",
    "Health",
    "ImportResponse",
    "JobInShort",
    "JobList",
    "JobPage",
    "JobShown",
    "MemoryPage",
    "MemoryShown",
    "Moved",
    "NeighbourList",
    "NoteList",
    "RelationChanged",
    "RelationList",
    "RelationPageResponse",
    "RevisionList",
    "ScopeList",
    "TracePageResponse",
    "TraceShown",
    "TurnPage",
]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _OfScope(_Answer):
    user_id: str | None
    agent_id: str | None
    run_id: str | None


class Problem(_Answer):
    """What went wrong, and what to do about it (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[dict[str, Any]] = []


PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "What went wrong, and what to do about it.",
        "content": {"application/problem+json": {"schema": Problem.model_json_schema()}},
    }
}
"""The `responses` of every route."""


# ── memories ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class MemoryShown(_OfScope):
    """A memory as it stands."""

    id: str
    text: str
    metadata: dict[str, Any]
    memory_type: str | None
    actor_id: str | None
    role: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    revision: int
    hash: str


class MemoryPage(_Answer):
    """Some memories, and where the next page begins."""

    items: list[MemoryShown]
    next: str | None


class _Explanation(_Answer):
    meaning: float
    words: float
    strategy: str
    parts: dict[str, float]
    ranks: dict[str, int]


class HitShown(MemoryShown):
    """A memory that answers a question."""

    score: float
    relevance: float
    passage: str
    explanation: _Explanation | None


class AbstainedShown(_Answer):
    """Why nothing was given, with the best hit that was not."""

    reason: NoHit
    threshold: float | None
    nearest: HitShown | None


class FoundShown(_Answer):
    """What was found, best first, or why nothing was."""

    results: list[HitShown]
    abstained: AbstainedShown | None


class _RelationShown(_OfScope):
    id: str
    text: str
    source: str
    relation: str
    target: str
    source_type: str
    target_type: str
    valid_from: datetime | None
    valid_to: datetime | None
    recorded_at: datetime
    retired_at: datetime | None
    mentions: int
    confidence: float
    memory_ids: list[str]


class RelationChanged(_Answer):
    """What became of a relation."""

    event: Literal["ADD", "UPDATE", "END", "DELETE", "NONE"]
    relation: _RelationShown


class Changed(_Answer):
    """What became of a fact."""

    id: str | None
    text: str
    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    previous_text: str | None
    reason: str
    relations: list[RelationChanged]
    valid_to: datetime | None


class _Usage(_Answer):
    model_calls: int
    input_tokens: int
    output_tokens: int
    milliseconds: dict[str, float]


class Added(_Answer):
    """What an add did: one change for each fact."""

    results: list[Changed]
    mode: str
    usage: _Usage
    notes: list[str]
    trace_id: str | None


class _Refused(_Answer):
    status: int
    detail: str


class _Item(_Answer):
    added: Added | None = None
    error: _Refused | None = None


class AddedMany(_Answer):
    """What became of each item, in order."""

    items: list[_Item]


class Deleted(_Answer):
    """How many memories were deleted."""

    deleted: int


class Erased(_Answer):
    """What a purge removed, and what remains."""

    memories: int
    revisions: int
    words: int
    relations: int
    entities: int
    traces: int
    turns: int
    notes: int
    keys: int
    jobs: int
    items: int
    checkpoints: int
    runs: int
    scopes: int
    snapshots: int
    freed: int
    remains: list[str]


class _Revision(_Answer):
    seq: int
    memory_id: str
    event: Literal["ADD", "UPDATE", "DELETE", "NONE"]
    old_text: str | None
    new_text: str | None
    created_at: datetime
    actor_id: str | None
    role: str | None
    is_deleted: bool
    reason: str
    revision: int
    id: str
    stated_at: datetime
    valid_from: datetime
    valid_to: datetime | None


class RevisionList(_Answer):
    """Every change of a memory, in the order in which it was written."""

    items: list[_Revision]


class _RefusedLine(_Refused):
    line: int


class ImportResponse(_Answer):
    """What became of the lines: `refused` tells of the first thousand that were not taken."""

    imported: int
    refused: int
    errors: list[_RefusedLine]


class JobInShort(_OfScope):
    """An add that is carried out later, without what came of it."""

    id: str
    kind: str
    state: State
    progress: str | None
    error: _Refused | None
    attempts: int
    created_at: datetime
    updated_at: datetime


class JobShown(JobInShort):
    """An add that is carried out later."""

    result: Added | None


class JobPage(_Answer):
    """Some jobs, and where the next page begins."""

    items: list[JobInShort]
    next: str | None


class JobList(_Answer):
    """The jobs of some adds, in order."""

    jobs: list[JobShown]


# ── the rest ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class RelationPageResponse(_Answer):
    """Some relations, and where the next page begins."""

    items: list[_RelationShown]
    next: str | None


class _EntityShown(_OfScope):
    id: str
    name: str
    type: str
    aliases: list[str]
    mentions: int
    created_at: datetime
    updated_at: datetime


class EntityPageResponse(_Answer):
    """Some entities, and where the next page begins."""

    items: list[_EntityShown]
    next: str | None


class _NeighbourShown(_Answer):
    entity: _EntityShown
    hops: int
    relations: list[_RelationShown]


class NeighbourList(_Answer):
    """What is near, nearest first, each with the relations that lead to it."""

    items: list[_NeighbourShown]


class RelationList(_Answer):
    """Some relations, in order."""

    items: list[_RelationShown]


class Moved(_Answer):
    """How many relations have another end now."""

    relations: int


class _Conversation(_OfScope):
    session_id: str
    turns: int
    created_at: datetime
    updated_at: datetime


class ConversationPage(_Answer):
    """Some conversations, the latest first, and where the next page begins."""

    items: list[_Conversation]
    next: str | None


class _Turn(_Answer):
    position: int
    role: str
    text: str
    message: Any
    message_id: str | None
    label: str | None
    cause: str | None
    sender: str | None
    memory_id: str | None
    created_at: datetime


class TurnPage(_Answer):
    """Some turns of a conversation, oldest first; `next` is the `before` of the page of earlier ones."""

    items: list[_Turn]
    next: int | None


class _Note(_Answer):
    id: int
    kind: str
    text: str
    covers_from: int
    covers_to: int
    source: str
    made_by: str
    created_at: datetime


class NoteList(_Answer):
    """All notes of a kind, oldest first."""

    items: list[_Note]


class _ScopeCount(_OfScope):
    memories: int
    updated_at: datetime
    created_at: datetime


class ScopeList(_Answer):
    """The scopes that have memories, the largest first."""

    items: list[_ScopeCount]


class _TraceInShort(_OfScope):
    id: str
    created_at: datetime
    mode: str
    said: str
    facts: int
    events: dict[str, int]
    model_calls: int
    input_tokens: int
    output_tokens: int
    milliseconds: float


class TracePageResponse(_Answer):
    """What some adds did, in short, the newest first, and where the next page begins."""

    items: list[_TraceInShort]
    next: str | None


class TraceShown(_OfScope):
    """What an add saw and did, stage by stage."""

    id: str
    created_at: datetime
    turns: list[dict[str, Any]]
    facts: list[dict[str, Any]]
    candidates: dict[str, Any]
    decisions: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    result: Added


class _CheckShown(_Answer):
    name: str
    status: Status
    detail: str
    fix: str
    cause: str


class CheckList(_Answer):
    """What a checkup found, and the worst of it."""

    status: Status
    items: list[_CheckShown]


class Health(_Answer):
    """How the server is."""

    status: str
    version: str
