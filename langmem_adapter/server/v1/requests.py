"""Request models of REST: an unknown field is refused by name."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    Json,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from langmem_adapter.filters import is_day
from langmem_adapter.storage.jobs import JobState

MAX_MESSAGES: Final = 10_000
"""Messages that one request may add."""
_MAX_ERRORS: Final = 100
_MOST_ITEMS: Final = 1_000
_MOST_OF_PAGE: Final = 10_000
_DATE: Final = re.compile(r"\s*\d{4}-")


def _check_written(value: Any) -> Any:
    if isinstance(value, int | float) or (isinstance(value, str) and not _DATE.match(value)):
        raise ValueError("a moment is written as 2026-05-01T09:30:00Z")
    return value


Moment: TypeAlias = Annotated[datetime, BeforeValidator(_check_written)]
"""A date and time; of a number Pydantic would make seconds since 1970, also of a year."""

Bound: TypeAlias = Annotated[
    datetime | date,
    BeforeValidator(lambda value: date.fromisoformat(value) if is_day(value) else _check_written(value)),
]
"""The same, or a day in the speaker's time zone."""


def check_count(messages: Any) -> Any:
    """The messages of a request; `ValueError` where they are too many."""
    if isinstance(messages, list) and len(messages) > MAX_MESSAGES:
        raise ValueError(f"at most {MAX_MESSAGES:,} messages; send the others in a further request")
    return messages


_Messages: TypeAlias = Annotated[str | dict[str, Any] | list[Any], BeforeValidator(check_count)]
_TIMEZONE: Final = Field(
    None, description='IANA name of the zone of times without an offset, and of "today", like `Asia/Shanghai`.'
)


def _example(**body: Any) -> dict[str, Any]:
    return {"examples": [body]}


class Body(BaseModel, extra="forbid"):
    """A body; an unknown field is refused by name, and many errors are one: a list of all of them may take a minute."""

    @model_validator(mode="wrap")
    @classmethod
    def _bounded(cls, value: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return validate(value)
        except ValidationError as error:
            if error.error_count() > _MAX_ERRORS:
                raise ValueError(f"more than {_MAX_ERRORS} values are wrong") from None
            raise


class ScopeFields(Body):
    """The scope; a key that is bound to a scope adds its fields."""

    user_id: str | None = Field(None, description="The user.")
    agent_id: str | None = Field(None, description="The agent.")
    run_id: str | None = Field(None, description="The run or session.")


class PageQuery(ScopeFields):
    """A page of a list."""

    k: int = Field(100, ge=1, le=_MOST_OF_PAGE, description="At most so many.")
    after: str | None = Field(None, description="The `next` of the page before.")


class _PointInTime(BaseModel):
    as_of: Moment | None = Field(None, description="What was true at that moment, by the dates of what was said.")
    known_at: Moment | None = Field(None, description="What was known at that moment.")


class AddOne(
    ScopeFields,
    json_schema_extra=_example(messages="I live in Lyon.", user_id="alice", metadata={"from": "chat"}),
):
    """A conversation, or a statement, to be remembered."""

    messages: _Messages = Field(
        description="A text that the user says, a message with `role` and `content`, or a list of messages; at most "
        f"{MAX_MESSAGES:,} in one request."
    )
    context: _Messages | None = Field(None, description="Earlier turns, which are no source.")
    metadata: dict[str, Any] | None = Field(None, description="Kept with every memory that comes of it.")
    infer: bool = Field(default=True, description="`false` stores each message as it is.")
    memory_type: str | None = Field(None, description='`"procedural_memory"`, for an agent.')
    prompt: str | None = Field(None, description="Replaces the instructions for finding facts.")
    expires_at: Moment | None = Field(None, description="When the memories stop being shown.")
    timestamp: Moment | None = Field(None, description="When the conversation took place; by default now.")
    timezone: str | None = _TIMEZONE
    thread_id: str | None = Field(
        None,
        description="The conversation: its messages that have an `id` are remembered once, and another text is an edit.",
    )
    idempotency_key: str | None = Field(
        None, description="Names this add: repeated, it changes nothing. The header `Idempotency-Key` says the same."
    )


def _check_all(items: list[AddOne]) -> list[AddOne]:
    check_count([1 for item in items for _ in (item.messages if isinstance(item.messages, list) else [1])])
    return items


class AddMany(Body):
    """Many conversations."""

    items: Annotated[list[AddOne], AfterValidator(_check_all)] = Field(min_length=1, max_length=_MOST_ITEMS)


class MemoryList(PageQuery, _PointInTime):
    """Which memories are listed, the newest statement first."""

    filters: Json[dict[str, Any]] | None = Field(None, description="Conditions, as JSON.")
    include_expired: bool = Field(default=False, description="Show expired ones as well.")


class _Exchange(ScopeFields):
    format: Literal["lines", "full"] = Field("lines", description="`full`: without loss, as `Memory.export` writes it.")
    everything: bool = Field(default=False, description="With `full`: all scopes. It needs an admin key.")


class Export(_Exchange):
    """Which memories are exported."""

    include_expired: bool = Field(default=True, description="With `lines`: expired ones as well.")
    vectors: bool = Field(default=False, description="With `full`: vectors as well.")


class Import(_Exchange):
    """How lines are imported; with `full` only those within the scope, where one is named."""

    first_line: int = Field(1, ge=1, lt=2**63, description="With `lines`: the number of the first line of this body.")

    dry_run: bool = Field(default=False, description="With `full`: count, and write nothing.")


class Search(
    ScopeFields,
    _PointInTime,
    json_schema_extra=_example(query="Where does she live?", user_id="alice", k=3, explain=True),
):
    """A question."""

    query: str = Field(description="A question or statement.")
    k: int = Field(10, ge=1, le=_MOST_OF_PAGE, description="At most so many hits.")
    filters: dict[str, Any] | None = Field(None, description="Conditions on metadata and on fields of the memory.")
    threshold: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] | None = Field(
        None, description='Least relevance of a hit; `"auto"`: the one for prompts, and few memories are given whole.'
    )
    memory_type: str | None = Field(None, description="Only memories of this type.")
    after: Bound | None = Field(None, description="Only what was first said at that moment, or on that day, or later.")
    before: Bound | None = Field(None, description="Only what was first said before that moment or day.")
    reference_date: Moment | None = Field(
        None, description='When it is asked, which "last week" is counted from; by default now.'
    )
    timezone: str | None = _TIMEZONE
    max_tokens: int | None = Field(None, ge=1, description="About how many tokens all hits may have together.")
    explain: bool = Field(default=False, description="Give each hit the parts of its score.")


class Update(ScopeFields, json_schema_extra=_example(text="Lives in Oslo")):
    """A change by hand; what is left out stays as it is."""

    text: str | None = Field(None, description="The new text.")
    metadata: dict[str, Any] | None = Field(None, description="Merged; a value of `null` removes a key.")
    expires_at: Moment | None = Field(None, description="When it stops being shown; `null` means never.")


class Restore(ScopeFields, json_schema_extra=_example(revision=1)):
    """What a memory is brought back to."""

    revision: int = Field(ge=1, description="Which of its revisions.")


class RelationQuery(PageQuery, _PointInTime):
    """Which relations are listed, the one that was recorded last first."""

    entity: str | None = Field(None, description="Only those of the thing of this name, at either end.")
    relation: str | None = Field(None, description="Only those of this name.")
    history: bool = Field(default=False, description="Also ended and deleted relations.")


class EntityList(PageQuery, _PointInTime):
    """Which entities are listed, the one that is mentioned most often first."""

    type: str | None = Field(None, description="Only those of this type.")
    unrelated: bool = Field(default=False, description="Those without a relation as well.")


class NewRelation(
    ScopeFields, json_schema_extra=_example(source="Anna", relation="lives in", target="Lyon", user_id="alice")
):
    """A relation that is written down by hand."""

    source: str = Field(description="Name of the first thing.")
    relation: str = Field(description="What it is to the second, a verb.")
    target: str = Field(description="Name of the second thing.")
    source_type: str | None = Field(None, description="What kind of thing the first is.")
    target_type: str | None = Field(None, description="The same of the second.")
    valid_from: Moment | None = Field(None, description="Since when it holds.")
    valid_to: Moment | None = Field(None, description="Until when it held.")
    confidence: float = Field(1.0, gt=0, le=1, description="How sure it is.")
    single: bool | None = Field(None, description="Whether the first has one such at a time.")


class RelationEnd(ScopeFields, json_schema_extra=_example(at="2024-05-01T00:00:00Z")):
    """Since when a relation holds no longer."""

    at: Moment | None = Field(None, description="From when on it holds no longer; by default now.")


class RelationSearch(ScopeFields, json_schema_extra=_example(query="Where does Anna live?", user_id="alice")):
    """A question to the graph."""

    query: str = Field(description="A question or statement.")
    k: int = Field(10, ge=1, le=_MOST_OF_PAGE, description="At most so many relations.")


class Neighbours(ScopeFields, _PointInTime):
    """An entity and how far around it."""

    entity: str = Field(description="Name of the thing.")
    hops: int = Field(1, ge=1, le=5, description="How many relations away.")
    k: int = Field(100, ge=1, le=_MOST_OF_PAGE, description="At most so many.")


class Path(ScopeFields, _PointInTime):
    """The two ends of a path."""

    source: str = Field(description="Name of the one.")
    target: str = Field(description="Name of the other.")
    max_hops: int = Field(4, ge=1, le=10, description="At most so many relations.")


class Merge(ScopeFields, json_schema_extra=_example(name="Annie", into="Anna", user_id="alice")):
    """Two names that mean the same."""

    name: str = Field(description="Of the one that goes; it becomes another name of the second.")
    into: str = Field(description="Of the one that stays.")


class Split(ScopeFields, json_schema_extra=_example(name="Annie", user_id="alice")):
    """A name that was merged by mistake."""

    name: str = Field(description="Of the one that had gone.")


class JobQuery(PageQuery):
    """Which jobs are listed, the newest first."""

    state: JobState | None = Field(None, description="Only those that are so far.")


class ConversationQuery(ScopeFields):
    """Which turns are shown: the latest that fit, oldest first."""

    k: int = Field(100, ge=1, le=_MOST_OF_PAGE, description="At most so many.")
    before: int | None = Field(
        None, ge=1, lt=2**63, description="Only those in front of this position: the `next` of a page."
    )


class NoteQuery(ScopeFields):
    """Which notes are shown."""

    kind: str = Field("summary", description="`window`, `summary`, `title`, `knowledge`, `talk` …")
