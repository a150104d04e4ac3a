"""What an add works with: turns become facts, facts become decisions, decisions become changes."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - so the next: `pipeline.scope_check` checks by these types
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003
from typing import Any, Final, Literal

from langmem_adapter.records.graph import RelationChange, Triple
from langmem_adapter.records.plain import LIST, LOCAL_TIME, MAPPING, TIME, Portable, forms, several

__all__ = [
    "EVENTS",
    "EXPERIENCE",
    "FORGET",
    "MESSAGE",
    "PROCEDURAL",
    "UNCLEAR",
    "Change",
    "Decision",
    "Event",
    "Fact",
    "ToolCall",
    "Turn",
]

Event = Literal["ADD", "UPDATE", "DELETE", "NONE"]
EVENTS: Final[tuple[Event, ...]] = ("ADD", "UPDATE", "DELETE", "NONE")
PROCEDURAL: Final = "procedural_memory"
"""The `memory_type` of a step-by-step record of what an agent did (seed 004 §1.3)."""
MESSAGE: Final = "message"
"""That of a message of a conversation, kept word for word."""
EXPERIENCE: Final = "experience"
"""That of a request and what it was answered with.

A memory of any type is a record: facts, which have none, are never compared with it, and neither change nor end it.
"""

FORGET: Final = "Forget: "
"""How a fact begins that asks to forget what follows; it deletes memories and never becomes one."""
UNCLEAR: Final = "no memory clearly says what is to be forgotten"
"""Why such a fact changes nothing."""


@dataclass(frozen=True, slots=True)
class ToolCall(Portable):
    """A tool that was called."""

    name: str
    arguments: str  # JSON text, as the model wrote it; it may be broken
    id: str = ""  # of the call, which its result names; may be empty


@dataclass(frozen=True, slots=True)
class Turn(Portable):
    """One message of a conversation, reduced to what a memory can come from."""

    role: str  # `"user"`, `"assistant"`, `"system"` or `"tool"`
    text: str  # images are already replaced by words
    actor: str  # the speaker's name, or the role where no name is known
    time: datetime  # with the speaker's UTC offset
    item: int = 0  # which item of an `add_many` it belongs to; 0 for a single `add`
    notes: tuple[str, ...] = ()  # what could not be used of the message, in words (an image without `vision=True`)
    calls: tuple[ToolCall, ...] = ()  # the tools that were called in it
    answers: str = ""  # the id of the call that a tool's turn is the result of; empty where none is named
    failed: bool = False  # whether that call failed
    dated: bool = False  # whether its time was given; else that is when the add began
    id: str = ""  # of the message; empty where it has none

    _forms = forms(time=LOCAL_TIME, notes=LIST, calls=several(ToolCall))


@dataclass(frozen=True, slots=True)
class Fact(Portable):
    """One short statement worth remembering, before it is compared with what is known."""

    text: str  # the statement, in the language of the conversation
    turn: int  # index of the turn that it came from
    context: str = ""  # the words of that turn, where no other fact came from it: evidence, and words to find it by
    verbatim: bool = False  # stored as it is, without comparison (`infer=False` and procedural records)
    relations: tuple[Triple, ...] = ()  # what it says of things and their relations, for the knowledge graph
    date: str | None = None  # the day that it speaks of, in ISO 8601, where one is said
    speaker: str = ""  # the named speaker, where that is another one than the scope's own; else blank
    unattributed: bool = False  # several people speak, and it is unknown which of them says it
    is_quotation: bool = False  # the user's own words: compared with equal texts only (`MemoryItem.is_verbatim`)

    _forms = forms(relations=several(Triple))


@dataclass(frozen=True, slots=True)
class Decision(Portable):
    """What shall become of one fact, or of one memory: the only thing that `ledger.apply` takes.

    Attributes:
        event: `"ADD"`, `"UPDATE"`, `"DELETE"` or `"NONE"`.
        memory_id: The memory that is changed, removed or confirmed; `None` for a NONE that concerns no memory, and for an ADD,
            whose id the ledger makes. Only an ADD that brings a memory back names it.
        text: The new text (ADD, UPDATE; `None` keeps the present one), or the fact (DELETE, NONE).
        reason: Why, in words a user can read.
        fact: Index of the fact that it answers; `None` for direct edits.
        context: Texts around it, nearest first (`storage.lexical.joined`); `None` keeps the present ones.
        metadata: Keys to merge into the memory's metadata (a value of `None` removes a key); `None` keeps them.
        memory_type: Type of a new memory.
        actor_id: Who said it.
        role: In which role.
        time: The date of the statement, at the speaker's UTC offset: since when it is true what the new text says, or over what
            is deleted, and relations that the memory no longer says. Without it that is now, and those relations were an
            error and are withdrawn.
        expires_at: When the memory stops being shown; `keep_expiry` says whether it is to be set at all.
        keep_expiry: Leave the present `expires_at` as it is.
        replace_metadata: Put *metadata* in the place of the present one instead of merging it.
        seen: Number of the memory's last change as it was when decided; a later change is a conflict. `None`: not checked.
        relations: What the fact says of things and their relations; the memory that holds it then says so.
        heir: The memory that says from now on what a deleted one said of relations.
        past_of: The memory that stands, where the statement is older than that: an ADD becomes a closed memory with an id of
            its own, which was true from *time* until the next statement of the same course; a DELETE ends at *time* what
            was true then. What stands stays. Needs *time*.
        after: The same, where what stands is what becomes of the fact of this index in the same list; if nothing does, the
            last of those that name it stands itself. A NONE says the same once more, at its own date.
        dated: A NONE says once more, at *time*, what the memory says: that it was true then, too, is noted.
        source: The id of the message that says so, where it has one.
        is_verbatim: The new text is the user's own words, see `MemoryItem`.
        utc_offset: That of the speaker in minutes, where *time* does not say it.
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
    relations: tuple[Triple, ...] = ()
    heir: str | None = None
    past_of: str | None = None
    after: int | None = None
    dated: bool = False
    source: str | None = None
    is_verbatim: bool = False
    utc_offset: int | None = None

    _forms = forms(relations=several(Triple), metadata=MAPPING, time=LOCAL_TIME, expires_at=TIME)


@dataclass(frozen=True, slots=True)
class Change(Portable):
    """What became of one fact.

    Attributes:
        id: The memory concerned; `None` only for a NONE that concerns no memory, and for an ADD in a dry run.
        text: Its text now (ADD, UPDATE), its last text (DELETE), or the fact that changed nothing (NONE).
        event: `"ADD"`, `"UPDATE"`, `"DELETE"` or `"NONE"`.
        previous_text: The text before an UPDATE.
        reason: Why.
        relations: What became of relations of the knowledge graph with it.
        valid_to: When it was over what the fact says, where that was known already: it is in the history and stands nowhere
            else (`Memory.search(as_of=…)` finds it, `Memory.restore` makes it stand).
    """

    id: str | None
    text: str
    event: Event
    previous_text: str | None = None
    reason: str = ""
    relations: tuple[RelationChange, ...] = ()
    valid_to: datetime | None = None

    _forms = forms(relations=several(RelationChange), valid_to=TIME)
