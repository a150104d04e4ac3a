"""The words that everyone in this house speaks: small frozen records, no I/O.

Times are timezone-aware UTC datetimes. Records that travel through the pipeline's state (`Turn`, `Fact`, `Decision`,
`Change`) have `to_json` / `from_json`: the state of a LangGraph graph holds plain JSON types only, so that any
checkpointer and any strict serializer can keep it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, Self, overload

from langmem_adapter.errors import InvalidInputError, ScopeError

__all__ = [
    "EVENTS",
    "PROCEDURAL",
    "SCOPE_FIELDS",
    "AddResult",
    "Call",
    "Change",
    "Decision",
    "Event",
    "Explanation",
    "Fact",
    "Hit",
    "MemoryItem",
    "Page",
    "Revision",
    "Scope",
    "Turn",
    "Usage",
    "check_metadata",
    "check_text",
    "json_object",
]

Event = Literal["ADD", "UPDATE", "DELETE", "NONE"]
EVENTS: Final[tuple[Event, ...]] = ("ADD", "UPDATE", "DELETE", "NONE")
SCOPE_FIELDS: Final = ("user_id", "agent_id", "run_id")
PROCEDURAL: Final = "procedural_memory"
"""The one special `memory_type`: a step-by-step record of what an agent did (seed 004 §1.3)."""
_JSON: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, default=dict
)  # mappings that are no dicts become such
_LONGEST_ID: Final = 512  # three of them, in UTF-8, fit into an index row of Postgres


def check_text(value: object, name: str) -> str:
    """Return *value* if it is a text that both databases can keep.

    Args:
        value: What should be a `str`.
        name: What to call it in the error.

    Raises:
        InvalidInputError: It is no `str`, holds a NUL character (Postgres refuses it) or a lone surrogate (UTF-8 does).
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a str, not {type(value).__name__}")
    if "\x00" in value:
        raise InvalidInputError(f"{name} holds a NUL character, which databases cannot keep; remove it")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{name} holds a lone surrogate at position {error.start}, which is not text; decode the source properly"
        ) from None
    return value


def check_metadata(value: object) -> dict[str, Any]:
    """Return *value* as a JSON object of its own, if both databases can keep it.

    Args:
        value: A mapping of text keys to JSON values: text, numbers, booleans, `None`, lists and objects of these.

    Raises:
        InvalidInputError: It is something else, holds NaN or infinity, or is nested too deeply; the message says where.
    """
    copy: dict[str, Any] = json.loads(json_object(value, "metadata"))
    return copy


def json_object(value: object, name: str) -> str:
    """The same object as JSON text.

    Args:
        value: See `check_metadata`.
        name: What to call it in the error.

    Raises:
        InvalidInputError: See `check_metadata`.
    """
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a mapping, not {type(value).__name__}")
    try:
        return check_text(_JSON.encode(_strict(value, name)), name)
    except RecursionError:
        raise InvalidInputError(f"{name} is nested too deeply; flatten it") from None
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(f"{name} cannot be kept as JSON: {error}") from None


def _strict(value: object, name: str) -> object:
    # json.dumps turns keys into text and tuples into lists without a word; only the second is harmless.
    if isinstance(value, Mapping):
        for key, part in value.items():
            check_text(key, f"a key of {name}")
            _strict(part, name)
    elif isinstance(value, list | tuple):
        for part in value:
            _strict(part, name)
    elif isinstance(value, str):
        check_text(value, name)
    elif value is not None and not isinstance(value, bool | int | float):
        raise InvalidInputError(
            f"{name} holds a {type(value).__name__}, which is no JSON; convert it, to text for example"
        )
    return value


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory it is: a user, an agent, a run, or any combination; at least one.

    Values are compared for equality, never as patterns: `"*"` is a user called `*`.

    Args:
        user_id: The user, up to 512 characters, not blank; `None` where it does not apply.
        agent_id: The agent, likewise.
        run_id: The run or session, likewise.

    Raises:
        ScopeError: None is given, or one is blank, not a `str` or too long.

    Example:
        >>> Scope(user_id="alice")
        Scope(user_id='alice')
        >>> Scope()
        Traceback (most recent call last):
        langmem_adapter.errors.ScopeError: whose memory? give at least one of user_id, agent_id, run_id
    """

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse a scope that nobody could name again."""
        named = [name for name in SCOPE_FIELDS if getattr(self, name) is not None]
        if not named:
            raise ScopeError("whose memory? give at least one of user_id, agent_id, run_id")
        for name in named:
            _check_id(getattr(self, name), name)

    def __repr__(self) -> str:
        """Show only the fields that are set."""
        return f"Scope({', '.join(f'{name}={value!r}' for name, value in self.named.items())})"

    @property
    def named(self) -> dict[str, str]:
        """The fields that are set, in the fixed order user, agent, run."""
        return {name: value for name in SCOPE_FIELDS if (value := getattr(self, name)) is not None}

    def covers(self, other: Scope) -> bool:
        """Whether a read within this scope sees *other*: the fields named here are equal there, the rest is free."""
        return all(getattr(other, name) == value for name, value in self.named.items())


def _check_id(value: object, name: str) -> None:
    if not isinstance(value, str):
        raise ScopeError(f"{name} must be a str, not {type(value).__name__}; write {name}=str(...)")
    if not value.strip():
        raise ScopeError(f"{name} is blank; leave it out or give the id")
    if len(value) > _LONGEST_ID:
        raise ScopeError(f"{name} has {len(value)} characters; {_LONGEST_ID} are allowed, use a hash of it")
    try:
        check_text(value, name)
    except InvalidInputError as error:
        raise ScopeError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation, reduced to what a memory can come from.

    Attributes:
        role: `"user"`, `"assistant"`, `"system"` or `"tool"`.
        text: What was said, images already replaced by words.
        actor: The speaker's name, or the role where no name is known.
        time: When it was said.
        item: Which item of an `add_many` it belongs to; 0 for a single `add`.
        notes: What could not be used of the message, in words (an image without `vision=True`).
    """

    role: str
    text: str
    actor: str
    time: datetime
    item: int = 0
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {**_shallow(self), "time": self.time.isoformat(), "notes": list(self.notes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(**{**data, "time": datetime.fromisoformat(data["time"]), "notes": tuple(data.get("notes", ()))})


@dataclass(frozen=True, slots=True)
class Fact:
    """One short statement worth remembering, before it is compared with what is known.

    Attributes:
        text: The statement, in the language of the conversation.
        turn: Index of the turn that it came from.
        context: The words of that turn, kept beside the memory: evidence, and more words to find it by.
        verbatim: Stored as it is, without comparison (`infer=False` and procedural records).
    """

    text: str
    turn: int
    context: str = ""
    verbatim: bool = False

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return _shallow(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Decision:
    """What shall become of one fact, or of one memory: the only thing that `ledger.apply` takes.

    Attributes:
        event: `"ADD"`, `"UPDATE"`, `"DELETE"` or `"NONE"`.
        memory_id: The memory that is added, changed, removed or confirmed; `None` for a NONE that concerns no memory.
        text: The new text (ADD, UPDATE; `None` keeps the present one), or the fact (DELETE, NONE).
        reason: Why, in words a user can read.
        fact: Index of the fact that it answers; `None` for direct edits.
        context: Texts around it, nearest first (`storage.lexical.joined`); `None` keeps the present ones.
        metadata: Keys to merge into the memory's metadata (a value of `None` removes a key); `None` keeps them.
        memory_type: Type of a new memory.
        actor_id: Who said it.
        role: In which role.
        time: The date of the statement: `created_at` of a new memory.
        expires_at: When the memory stops being shown; `keep_expiry` says whether it is to be set at all.
        keep_expiry: Leave the present `expires_at` as it is.
        replace_metadata: Put *metadata* in the place of the present one instead of merging it.
        seen: Number of the memory's last change as it was when decided; a later change is a conflict. `None`: not checked.
    """

    event: Event
    memory_id: str | None
    text: str | None
    reason: str = ""
    fact: int | None = None
    context: str | None = None
    metadata: Mapping[str, Any] | None = None
    memory_type: str | None = None
    actor_id: str | None = None
    role: str | None = None
    time: datetime | None = None
    expires_at: datetime | None = None
    keep_expiry: bool = True
    replace_metadata: bool = False
    seen: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            **_shallow(self),
            "metadata": None if self.metadata is None else dict(self.metadata),
            "time": _iso(self.time),
            "expires_at": _iso(self.expires_at),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(**{**data, "time": _time(data["time"]), "expires_at": _time(data["expires_at"])})


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one fact.

    Attributes:
        id: The memory concerned; `None` only for a NONE that concerns no memory.
        text: Its text now (ADD, UPDATE), its last text (DELETE), or the fact that changed nothing (NONE).
        event: `"ADD"`, `"UPDATE"`, `"DELETE"` or `"NONE"`.
        previous_text: The text before an UPDATE.
        reason: Why.
    """

    id: str | None
    text: str
    event: Event
    previous_text: str | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return _shallow(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the chat model: what was asked, and what came back.

    Attributes:
        task: What it was for: `"extract facts"`, `"compare facts"`, …
        messages: Role and text of each message sent.
        reply: The raw reply as text.
    """

    task: str
    messages: tuple[tuple[str, str], ...]
    reply: str

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"task": self.task, "messages": [list(message) for message in self.messages], "reply": self.reply}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(data["task"], tuple((role, text) for role, text in data["messages"]), data["reply"])


@dataclass(frozen=True, slots=True)
class Usage:
    """What one add cost.

    Attributes:
        model_calls: Answered calls of the chat model, repairs included.
        input_tokens: Tokens sent, as far as the model reports them.
        output_tokens: Tokens received, likewise.
        milliseconds: Time spent in each stage, by its name.
        calls: The calls themselves; only within the pipeline and in traces, results leave them out.
    """

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    calls: tuple[Call, ...] = field(default=(), compare=False)

    def __add__(self, other: Usage) -> Usage:
        """Both together."""
        stages = {**self.milliseconds, **other.milliseconds}
        return Usage(
            self.model_calls + other.model_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            {name: self.milliseconds.get(name, 0) + other.milliseconds.get(name, 0) for name in stages},
            self.calls + other.calls,
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        calls = [call.to_json() for call in self.calls]
        return {**_shallow(self), "milliseconds": dict(self.milliseconds), "calls": calls}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(**{**data, "calls": tuple(Call.from_json(call) for call in data.get("calls", ()))})


@dataclass(frozen=True, slots=True)
class AddResult:
    """What one `add` did. Every fact that was found has its `Change`, a fact that changed nothing as well.

    Attributes:
        results: One `Change` per fact, in order.
        mode: `"offline"` or the chat model's name: who decided.
        usage: Model calls, tokens and time.
        notes: What was seen and not used, in words.
        trace_id: Give it to `Memory.trace`; `None` where traces are switched off.
    """

    results: tuple[Change, ...]
    mode: str
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()
    trace_id: str | None = None

    def __len__(self) -> int:
        """The number of changes, so that an empty result is falsy."""
        return len(self.results)

    def by_event(self, event: Event) -> tuple[Change, ...]:
        """The changes of one kind, in order."""
        return tuple(change for change in self.results if change.event == event)


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """One memory as it stands.

    Attributes:
        id: A UUID in text form; it never changes.
        text: The short fact.
        scope: Whose memory it is.
        metadata: The user's own JSON object.
        memory_type: `None` for facts, `"procedural_memory"` for step-by-step records.
        actor_id: Who said it.
        role: In which role.
        created_at: The date of the statement that it began with.
        updated_at: When it last changed; equal to `created_at` before the first change.
        expires_at: From when on it is no longer shown.
        revision: Counts its own changes, from 1.
        hash: Normalised hash of the text; equal hashes mean the same words.
    """

    id: str
    text: str
    scope: Scope
    metadata: Mapping[str, Any]
    memory_type: str | None
    actor_id: str | None
    role: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    revision: int
    hash: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a hit stands where it stands.

    Attributes:
        meaning: Cosine of query and memory, -1 to 1.
        words: BM25 score of the words they share, 0 or more, not bounded.
        strategy: How the lists were searched and joined.
        parts: What each kind of evidence added to the score: meaning, words, speaker, question, time, conversation, recency,
            newer (than the version of it that follows). They sum up to the score.
        ranks: Its rank among those that were compared, from 1, by "meaning" and by "words" alone; the latter only where it
            shares a word.
    """

    meaning: float
    words: float
    strategy: str
    parts: Mapping[str, float] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search.

    Attributes:
        item: The memory.
        score: Orders the hits of one query, higher first; it compares with no other query's.
        explanation: The parts of the score, where `explain=True`.
    """

    item: MemoryItem
    score: float
    explanation: Explanation | None = None

    @property
    def id(self) -> str:
        """The memory's id."""
        return self.item.id

    @property
    def text(self) -> str:
        """The memory's text."""
        return self.item.text


@dataclass(frozen=True, slots=True)
class Revision:
    """One step in the life of a memory.

    Attributes:
        seq: Number of the change in the whole database; it orders all revisions.
        memory_id: Which memory.
        event: `"ADD"`, `"UPDATE"` or `"DELETE"`.
        old_text: The text before, `None` for an ADD.
        new_text: The text after, `None` for a DELETE.
        created_at: When the change was made.
        actor_id: Who said it.
        role: In which role.
        is_deleted: Whether the memory was gone after it.
        reason: Why.
        revision: Counts this memory's changes, from 1.
        id: Id of this row of the history.
        stated_at: The date of the statement that the memory began with.
    """

    seq: int
    memory_id: str
    event: Event
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


@dataclass(frozen=True, slots=True)
class Page(Sequence[MemoryItem]):
    """Some memories, and where the next page begins.

    Attributes:
        items: The memories of this page.
        next: Give it as `after` to read on; `None` on the last page.
    """

    items: tuple[MemoryItem, ...] = field(default=())
    next: str | None = None

    @overload
    def __getitem__(self, index: int) -> MemoryItem: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[MemoryItem, ...]: ...
    def __getitem__(self, index: int | slice) -> MemoryItem | tuple[MemoryItem, ...]:
        """A memory of this page."""
        return self.items[index]

    def __len__(self) -> int:
        """How many memories this page has."""
        return len(self.items)


def _shallow(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}  # a slotted dataclass: its fields, in order


def _iso(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(UTC).isoformat()


def _time(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)
