"""What answers say: the fields of the records that they show, read from these, a scope as its three fields.

A field that is named differently, or shown in another form than the record's, is written out.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar, get_type_hints

from pydantic import AliasPath, BaseModel, BeforeValidator, Field, Json, create_model

from langmem_adapter.maintenance.checks import Check, Status
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
from langmem_adapter.storage.conversations import ConversationInfo, Note, StoredTurn
from langmem_adapter.storage.erasure import Erasure
from langmem_adapter.storage.jobs import Job, JobState
from langmem_adapter.storage.lossless.imports import ImportReport
from langmem_adapter.storage.scopes import ScopeCount
from langmem_adapter.storage.traces import Trace, TraceSummary

M = TypeVar("M", bound=BaseModel)

AsData = Annotated[dict[str, Any], BeforeValidator(as_data)]

# What the modules of the records import for type checkers alone.
_NAMES: Final[dict[str, Any]] = {
    "Change": Change,
    "Event": Event,
    "Mapping": Mapping,
    "Scope": Scope,
    "datetime": datetime,
}

_FIRST: Final = ("id", "session_id", "position", "text")


class _Answer(BaseModel, extra="forbid", from_attributes=True):
    pass


def _shows(record: type, *without: str, at: tuple[str, ...] = ()) -> Callable[[type[M]], type[M]]:
    """Give a model the fields of a record that it does not write out itself.

    Args:
        record: The record.
        without: Which of its fields are not shown.
        at: The attributes that lead from what is shown to the record.
    """
    kinds = get_type_hints(record, localns=_NAMES)
    shown: dict[str, tuple[Any, Any]] = {}
    for name in (each.name for each in fields(record) if each.name not in without):
        if kinds[name] is Scope:
            shown |= {each: (str | None, _from(*at, name, each)) for each in SCOPE_FIELDS}
        else:
            shown[name] = (kinds[name], _from(*at, name))

    def filled(model: type[M]) -> type[M]:
        own = {name: (field.annotation, field) for name, field in model.model_fields.items()}
        every: Any = {**shown, **own}
        first: Any = {name: every[name] for name in _FIRST if name in every}
        return create_model(
            model.__name__, __base__=model.__bases__, __doc__=model.__doc__, __module__=__name__, **first | every
        )

    return filled


def _from(*path: str) -> Any:
    return Field(validation_alias=AliasPath(*path))


def _list(name: str, told: str, shown: type[BaseModel], **more: Any) -> type[BaseModel]:
    return create_model(name, __base__=_Answer, __doc__=told, __module__=__name__, items=(list[shown], ...), **more)  # type: ignore[valid-type]


def _page(name: str, what: str, shown: type[BaseModel]) -> type[BaseModel]:
    return _list(name, f"Some {what}, and where the next page begins.", shown, next=(str | None, ...))


class Problem(_Answer):
    """What went wrong, and what to do about it (RFC 9457); the last three of an import that failed after it began."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[dict[str, Any]] = []
    imported: int | None = None
    refused: int | None = None
    resume_line: int | None = None


PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "What went wrong, and what to do about it.",
        "content": {"application/problem+json": {"schema": Problem.model_json_schema()}},
    }
}
"""The `responses` of every route."""


@_shows(MemoryItem)
class MemoryShown(_Answer):
    """A memory as it stands."""


@_shows(Explanation)
class ExplanationShown(_Answer):
    """Why a hit was found."""


@_shows(MemoryItem, at=("item",))
class HitShown(_Answer):
    """A memory that answers a question."""

    score: float
    relevance: float
    passage: str
    explanation: ExplanationShown | None


@_shows(Abstained, "narrowed")
class AbstainedShown(_Answer):
    """Why nothing was given, also in words, with the best hit that was not."""

    brief: str
    nearest: HitShown | None


class FoundShown(_Answer):
    """What was found, best first, or why nothing was."""

    results: list[HitShown]
    abstained: AbstainedShown | None


@_shows(Relation)
class RelationShown(_Answer):
    """A relation, and the sentence that says it."""

    text: str


@_shows(RelationChange)
class RelationChanged(_Answer):
    """What became of a relation."""

    relation: RelationShown


@_shows(Change)
class Changed(_Answer):
    """What became of a fact."""

    relations: list[RelationChanged]


@_shows(Usage, "calls")
class UsageShown(_Answer):
    """What an add cost."""


@_shows(AddResult)
class Added(_Answer):
    """What an add did: one change for each fact."""

    results: list[Changed]
    usage: UsageShown


class Refused(_Answer):
    """Why something was not done."""

    status: int
    detail: str


class EndShown(_Answer):
    """What became of an item: what was added, or why nothing was."""

    added: Added | None = None
    error: Refused | None = None


class Deleted(_Answer):
    """How many memories were deleted."""

    deleted: int


@_shows(Erasure)
class Erased(_Answer):
    """What a purge removed, and what remains."""


@_shows(Revision)
class RevisionShown(_Answer):
    """A change of a memory."""


class RefusedLine(Refused):
    """Why a line was not taken."""

    line: int


class Imported(_Answer):
    """What became of the lines: `refused` tells of the first thousand that were not taken."""

    imported: int
    refused: int
    errors: list[RefusedLine]


@_shows(ImportReport)
class ImportedFull(_Answer):
    """What became of the lines of a lossless export."""


@_shows(Job, "request", "result")
class JobInShort(_Answer):
    """An add that is carried out later, without what came of it."""

    state: JobState
    error: Refused | None


class JobShown(JobInShort):
    """An add that is carried out later."""

    result: Added | None


class JobList(_Answer):
    """The jobs of some adds, in order."""

    jobs: list[JobShown]


@_shows(Entity)
class EntityShown(_Answer):
    """An entity."""


@_shows(Neighbour)
class NeighbourShown(_Answer):
    """What is near, with the relations that lead to it."""

    entity: EntityShown
    relations: list[RelationShown]


class Moved(_Answer):
    """How many relations have another end now."""

    relations: int


@_shows(Scope, at=("conversation", "scope"))
@_shows(ConversationInfo, "conversation")
class ConversationShown(_Answer):
    """A conversation, by its name."""

    session_id: str = _from("conversation", "session")


@_shows(StoredTurn, "fingerprint")
class TurnShown(_Answer):
    """What was said, or done."""

    message: Json[Any]


class TurnPage(_Answer):
    """Some turns of a conversation, oldest first; `next` is the `before` of the page of earlier ones."""

    items: list[TurnShown]
    next: int | None


@_shows(Note)
class NoteShown(_Answer):
    """What was made of a conversation."""

    created_at: datetime


@_shows(ScopeCount)
class ScopeShown(_Answer):
    """A scope, and how many memories it has."""


@_shows(TraceSummary)
class TraceInShort(_Answer):
    """What an add did, in short."""


@_shows(Trace, "state")
class TraceShown(_Answer):
    """What an add saw and did, stage by stage."""

    turns: list[AsData]
    facts: list[AsData]
    decisions: list[AsData]
    calls: list[AsData]
    result: Added


@_shows(Check)
class CheckShown(_Answer):
    """One check."""


class CheckList(_Answer):
    """What a checkup found, and the worst of it."""

    status: Status
    items: list[CheckShown]


class Health(_Answer):
    """How the server is."""

    status: str
    version: str


AddedMany = _list("AddedMany", "What became of each item, in order.", EndShown)
ConversationPage = _page("ConversationPage", "conversations, the latest first", ConversationShown)
EntityPageShown = _page("EntityPage", "entities", EntityShown)
JobPage = _page("JobPage", "jobs", JobInShort)
MemoryPage = _page("MemoryPage", "memories", MemoryShown)
NeighbourList = _list(
    "NeighbourList", "What is near, nearest first, with the relations that lead to it.", NeighbourShown
)
NoteList = _list("NoteList", "All notes of a kind, oldest first.", NoteShown)
RelationList = _list("RelationList", "Some relations, in order.", RelationShown)
RelationPageShown = _page("RelationPage", "relations", RelationShown)
RevisionList = _list("RevisionList", "Every change of a memory, in the order in which it was written.", RevisionShown)
ScopeList = _list("ScopeList", "The scopes that have memories, the largest first.", ScopeShown)
TracePageShown = _page("TracePage", "things that adds did, in short, the newest first", TraceInShort)
