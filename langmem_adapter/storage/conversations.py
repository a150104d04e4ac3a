"""Conversations: their messages word for word, and the summaries kept beside them.

A conversation is named by its session and, where it has one, its exact scope: the session "s1" of Alice is not that of Bob. Its
turns are numbered from 1; a number is drawn under the write lock and never used twice, also after `clear`, so it tells readers
where they stopped. A message is kept as JSON text on both databases: what comes back is what was said, key by key. Its other
columns repeat parts of it, to find turns by; what is made of turns (summaries, a title) lies beside them, in `notes`.

The JSON is LangChain's own (`messages_to_dict`): a type and the message's fields, without names of Python classes, so that
reading it imports and runs nothing. What would come back as something else is refused when it is written.

A note is never changed. The latest of its kind counts, older ones stay (what a summary was made of can be looked up) until
their conversation is cleared or erased.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Column, ForeignKey, Index, String, Table, Text, delete, func, insert, select, update

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_text, json_object, plain_content
from langmem_adapter.records.envelope import fingerprint, label_of, origin_of
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage import pages
from langmem_adapter.storage.moments import Unreadable, UTCDateTime
from langmem_adapter.storage.scopes import key_of, owner_of, reach
from langmem_adapter.storage.tables import Number, metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from langchain_core.messages import BaseMessage
    from sqlalchemy import ColumnElement, Connection, Select

# Ids are never used again (AUTOINCREMENT): whoever remembers that of an erased conversation must not meet another one.
conversations: Final = Table(
    "conversations",
    metadata,
    Column("id", Number, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("session", Text, nullable=False),
    *(Column(name, Text, index=True) for name in SCOPE_FIELDS),
    Column("last", Number, nullable=False),
    Column("created_at", UTCDateTime, nullable=False),
    Column("updated_at", UTCDateTime, nullable=False),
    sqlite_autoincrement=True,
)

# What stands beside `message` repeats parts of it, for readers of the table and to find turns by.
turns: Final = Table(
    "turns",
    metadata,
    Column("conversation_id", Number, ForeignKey("conversations.id"), primary_key=True),
    Column("position", Number, primary_key=True, autoincrement=False),
    Column("role", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("created_at", UTCDateTime, nullable=False),
    Column("message_id", Text),
    Column("fingerprint", String(32)),
    Column("label", Text),
    Column("cause", Text),
    Column("sender", Text),
    Column("memory_id", String(64)),  # of the memory that holds the same for good
    Index("ix_turns_fingerprint", "conversation_id", "fingerprint", "message_id"),
    Index("ix_turns_cause", "conversation_id", "cause"),
)

# What was made of a range of turns, or is kept beside them; written by `storage.conversations`.
notes: Final = Table(
    "notes",
    metadata,
    Column("id", Number, primary_key=True),
    Column("conversation_id", Number, ForeignKey("conversations.id"), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("covers_from", Number, nullable=False),
    Column("covers_to", Number, nullable=False),
    Column("text", Text, nullable=False),
    Column("source", String(64), nullable=False),
    Column("made_by", Text, nullable=False),
    Column("created_at", UTCDateTime, nullable=False),
    Index("ix_notes_kind", "conversation_id", "kind", "id"),
    sqlite_autoincrement=True,
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The name of a conversation.

    Args:
        session: What the program calls it, not blank.
        scope: Whose it is; `None` for nobody's, which goes only where everything is erased.

    Raises:
        InvalidInputError: *session* cannot be a name.
    """

    session: str
    scope: Scope | None = None

    def __post_init__(self) -> None:
        """Refuse a name that nobody could give again."""
        if not check_text(self.session, "session_id").strip():
            raise InvalidInputError("session_id is blank; give each conversation a name of its own")

    @property
    def key(self) -> str:
        """Hash of the whole name."""
        owner = "" if self.scope is None else key_of(self.scope)
        return blake2b(f"{owner}:{self.session}".encode(), digest_size=32).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to be kept."""

    role: str
    text: str  # what is said, as far as it is text
    message: str  # the whole message as JSON
    message_id: str | None = None
    fingerprint: str | None = None  # of all that it says, whatever its id
    label: str | None = None  # the program's name for the speaker, or `"user"`, `"assistant"`, `"system"`, `"tool"`
    cause: str | None = None  # what brought it about, where a program says so
    sender: str | None = None  # who sent it, likewise
    memory_id: str | None = None  # of the memory that holds the same for good, where there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTurn(Draft):
    """A message that is kept, at a position in the conversation."""

    position: int
    created_at: datetime


LOOKED_UP: Final = ("cause", "fingerprint", "message_id", "memory_id")
"""What turns are looked up by: each is asked for by some values of it."""


@dataclass(frozen=True, slots=True)
class Which:
    """Which turns of a conversation; every condition that is given must hold."""

    last: int | None = None  # only so many, the latest ones of those that fit; `None` for all
    after: int = 0  # only those behind this position
    before: int | None = None  # only those in front of this one
    label: str | None = None  # only those of this speaker
    causes: Collection[str] | None = None  # only those that one of these brought about
    holding: str = ""  # only those whose text holds this, letter by letter
    fingerprints: Collection[str] | None = None  # only those that say one of these
    message_ids: Collection[str | None] | None = None  # only those with one of these ids
    memory_ids: Collection[str] | None = None  # only those that one of these memories holds

    def holds(self, turn: StoredTurn) -> bool:
        """Whether a turn fits, *last* aside."""
        return (
            self.after < turn.position
            and (self.before is None or turn.position < self.before)
            and self.label in {None, turn.label}
            and self.holding in turn.text
            and all(getattr(turn, name) in values for name, values in self.among)
        )

    def conditions(self) -> list[ColumnElement[bool]]:
        """The same in SQL."""
        found = [turns.c.position > self.after]
        found += [] if self.before is None else [turns.c.position < self.before]
        found += [] if self.label is None else [turns.c.label == self.label]
        found += [func.replace(turns.c.text, self.holding, "") != turns.c.text] if self.holding else []
        return [*found, *(turns.c[name].in_(values) for name, values in self.among)]

    @property
    def among(self) -> list[tuple[str, Collection[str | None]]]:
        """What has to be one of some values, with these."""
        names = {name: getattr(self, f"{name}s") for name in LOOKED_UP}
        return [(name, values) for name, values in names.items() if values is not None]


EVERY: Final = Which()


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """A conversation as a list shows it: how many messages it has, and when the first and the last were kept."""

    conversation: Conversation
    turns: int
    created_at: datetime
    updated_at: datetime


def append(connection: Connection, conversation: Conversation, drafts: Sequence[Draft]) -> int:
    """Keep messages at the end of a conversation, which the first ones begin; the position of the last one, or 0."""
    now = datetime.now(UTC)
    row = connection.execute(_named(conversation)).first()
    if not drafts:
        return 0 if row is None else int(row.last)
    number, last = (_begin(connection, conversation, now), 0) if row is None else (row.id, row.last)
    end = last + len(drafts)
    connection.execute(
        insert(turns),
        [
            {"conversation_id": number, "position": place, **_columns(draft), "created_at": now}
            for place, draft in enumerate(drafts, last + 1)
        ],
    )
    grown = update(conversations).where(conversations.c.id == number).values(last=end, updated_at=now)
    connection.execute(grown)
    return int(end)


def named(connection: Connection, conversation: Conversation) -> int:
    """The number of a conversation, which begins with this question where there is none, within a write transaction."""
    row = connection.execute(_named(conversation)).first()
    return _begin(connection, conversation, datetime.now(UTC)) if row is None else int(row.id)


def read(connection: Connection, conversation: Conversation, which: Which = EVERY) -> list[StoredTurn]:
    """Messages of a conversation, oldest first."""
    query = _turns(conversation).where(*which.conditions()).order_by(turns.c.position.desc()).limit(which.last)
    return [_stored(row) for row in reversed(connection.execute(query).all())]


def nth(connection: Connection, conversation: Conversation, place: int) -> StoredTurn | None:
    """The message at a place of the conversation as it stands, counted from 0, or from the end where it is negative."""
    order = turns.c.position.desc() if place < 0 else turns.c.position
    query = _turns(conversation).order_by(order).offset(-place - 1 if place < 0 else place).limit(1)
    row = connection.execute(query).first()
    return None if row is None else _stored(row)


def count(connection: Connection, conversation: Conversation) -> int:
    """How many messages a conversation has."""
    mine = turns.c.conversation_id.in_(_ids(conversation))
    return int(connection.execute(select(func.count()).select_from(turns).where(mine)).scalar_one())


def version(connection: Connection, conversation: Conversation, after: int) -> str:
    """What tells how the messages behind a position stand: it changes whenever one is added or removed."""
    behind = select(func.count()).where(turns.c.conversation_id == conversations.c.id, turns.c.position > after)
    columns = conversations.c.id, conversations.c.created_at, conversations.c.updated_at, conversations.c.last
    query = select(*columns, behind.scalar_subquery()).where(conversations.c.key == conversation.key)
    row = connection.execute(query).first()
    return "" if row is None else " ".join(map(str, (after, *row)))


def remove(connection: Connection, conversation: Conversation, positions: Collection[int]) -> int:
    """Remove some messages of a conversation, within a write transaction; how many there were."""
    mine = turns.c.conversation_id.in_(_ids(conversation))
    return connection.execute(delete(turns).where(mine, turns.c.position.in_(positions))).rowcount


def clear(connection: Connection, conversation: Conversation) -> int:
    """Remove the messages of a conversation and its notes, and count the messages; the count of positions goes on."""
    connection.execute(delete(notes).where(notes.c.conversation_id.in_(_ids(conversation))))
    return connection.execute(delete(turns).where(turns.c.conversation_id.in_(_ids(conversation)))).rowcount


def listed(
    connection: Connection, scope: Scope | None, *, k: int, after: str | None = None
) -> tuple[list[ConversationInfo], str | None]:
    """The conversations within a scope, the latest first, and the cursor of the next page; `None` lists everybody's.

    Raises:
        InvalidInputError: The cursor is none of ours.
    """
    key = conversations.c.updated_at, conversations.c.id
    number = select(func.count()).where(turns.c.conversation_id == conversations.c.id).scalar_subquery()
    query = select(conversations, number.label("turns"))
    query = query.where(reach(scope, conversations))
    rows, following = pages.listed(connection, query, *key, k=k, after=after)
    found = [
        ConversationInfo(Conversation(row.session, owner_of(row)), row.turns, row.created_at, row.updated_at)
        for row in rows
    ]
    return found, following


def _named(conversation: Conversation) -> Select[Any]:
    return select(conversations.c.id, conversations.c.last).where(conversations.c.key == conversation.key)


def _begin(connection: Connection, conversation: Conversation, now: datetime) -> int:
    named = {} if conversation.scope is None else conversation.scope.named
    row = {"key": conversation.key, "session": conversation.session, **named, "last": 0}
    made = insert(conversations).values(**row, created_at=now, updated_at=now).returning(conversations.c.id)
    return int(connection.execute(made).scalar_one())


def _ids(conversation: Conversation) -> Select[tuple[int]]:
    return _named(conversation).with_only_columns(conversations.c.id)


def _turns(conversation: Conversation) -> Select[Any]:
    return select(turns).where(turns.c.conversation_id == _ids(conversation).scalar_subquery())


def _columns(draft: Draft) -> dict[str, Any]:
    return {field.name: getattr(draft, field.name) for field in fields(Draft)}


def _stored(row: Any) -> StoredTurn:
    return StoredTurn(**{field.name: getattr(row, field.name) for field in fields(StoredTurn)})


_LONGEST: Final = 512  # in UTF-8, it fits into an index row of Postgres


def drafts_of(messages: Sequence[BaseMessage]) -> list[Draft]:
    """Messages, ready to be kept."""
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise InvalidInputError(f"messages must be a list of LangChain messages, not {type(messages).__name__}")
    return [_draft(message, f"message {number}") for number, message in enumerate(messages, start=1)]


def messages_of(stored: Iterable[StoredTurn]) -> list[BaseMessage]:
    """The messages of some turns."""
    from langchain_core.messages import messages_from_dict  # noqa: PLC0415 - commands that list memories start without it

    return messages_from_dict([json.loads(turn.message) for turn in stored])


def unreadable_turns(connection: Connection) -> Iterator[Unreadable]:
    """Every message in the database that is none any more."""
    from langchain_core.messages import messages_from_dict  # noqa: PLC0415 - commands that list memories start without it

    query = select(turns.c.conversation_id, turns.c.position, turns.c.message)
    with connection.execute(query, execution_options={"yield_per": 1000}) as rows:
        for row in rows:
            try:
                messages_from_dict([json.loads(row.message)])
            except (ValueError, TypeError, KeyError):
                named = {"conversation_id": row.conversation_id, "position": row.position}
                yield Unreadable("turns", "message", named, row.message)


def _draft(message: BaseMessage, name: str) -> Draft:
    from langchain_core.messages import BaseMessage, ChatMessage  # noqa: PLC0415 - commands that list memories start without it

    if not isinstance(message, BaseMessage):
        raise InvalidInputError(f"{name} is a {type(message).__name__}; give a LangChain message")
    # The fields as they are: model_dump would turn objects among them (a Document as artifact) into dicts without a word.
    fields = {"type": message.type, "data": dict(message)}
    kept = json_object(fields, name)
    _check_class(message, fields, name)
    cause, sender = origin_of(message)
    if len(cause) > _LONGEST:
        raise InvalidInputError(
            f"{name} names a cause of {len(cause):,} letters; {_LONGEST} are allowed, use a hash of it"
        )
    return Draft(
        role=message.role if isinstance(message, ChatMessage) else message.type,
        text=message.model_copy(update={"content": plain_content(message.content)}).text,
        message=kept,
        message_id=message.id,
        fingerprint=fingerprint(message),
        label=label_of(message),
        cause=cause or None,
        sender=sender or None,
    )


def _check_class(message: BaseMessage, fields: dict[str, Any], name: str) -> None:
    from langchain_core.messages import messages_from_dict  # noqa: PLC0415 - commands that list memories start without it

    try:
        restored = type(messages_from_dict([fields])[0])
    except ValueError as error:
        raise InvalidInputError(f"{name} could not be read again: {error}") from None
    if restored is not type(message):
        raise InvalidInputError(f"{name} is a {type(message).__name__}, which would come back as {restored.__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that is kept beside the turns of a conversation."""

    kind: str  # `"window"` (a summary of some turns), `"summary"` (of all so far), `"title"`, `"knowledge"`, `"talk"`
    text: str
    covers_from: int = 0  # position of the first turn that it was made of; 0 where it was made of none
    covers_to: int = 0  # position of the last one
    source: str = ""  # hash of all that it was made of; empty where it was made of nothing
    made_by: str = ""  # the model, or `"offline"`; empty where it was given
    id: int = 0  # its number, which grows; 0 until it is kept
    created_at: datetime | None = None

    @property
    def trace_id(self) -> str:
        """The id under which `Memory.trace` shows how it was made, where a model or the rules made it."""
        return f"note-{self.id}"


def keep(connection: Connection, conversation: Conversation, note: Note) -> int:
    """Keep a note, within a write transaction, and return its number; a conversation that is not there begins with it."""
    row = {name: getattr(note, name) for name in ("kind", "text", "covers_from", "covers_to", "source", "made_by")}
    row |= {"conversation_id": named(connection, conversation), "created_at": datetime.now(UTC)}
    return int(connection.execute(insert(notes).values(**row).returning(notes.c.id)).scalar_one())


def latest(connection: Connection, conversation: Conversation, kind: str) -> Note | None:
    """The note of a kind that counts."""
    row = connection.execute(_notes(conversation, kind).order_by(notes.c.id.desc()).limit(1)).first()
    return None if row is None else _note(row)


def read_notes(connection: Connection, conversation: Conversation, kind: str) -> list[Note]:
    """All notes of a kind, oldest first."""
    return [_note(row) for row in connection.execute(_notes(conversation, kind).order_by(notes.c.id))]


def drop(connection: Connection, conversation: Conversation, kind: str) -> int:
    """Remove all notes of a kind, within a write transaction; how many there were."""
    ids = _notes(conversation, kind).with_only_columns(notes.c.id)
    return connection.execute(delete(notes).where(notes.c.id.in_(ids))).rowcount


def _notes(conversation: Conversation, kind: str) -> Select[Any]:
    mine = select(conversations.c.id).where(conversations.c.key == conversation.key).scalar_subquery()
    return select(notes).where(notes.c.conversation_id == mine, notes.c.kind == kind)


def _note(row: Any) -> Note:
    return Note(**{name: value for name, value in row._mapping.items() if name != "conversation_id"})
