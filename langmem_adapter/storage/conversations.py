"""Conversations (chat history): their messages as LangChain's JSON, notes such as summaries, and copies in Redis.

A conversation is named by its session and, where it has one, its exact scope: the session "s1" of Alice is not that of Bob. Its
turns are numbered from 1; a number is drawn under the write lock and never used twice, also after `clear`, so readers can stop
and go on at one. The JSON is that of `messages_to_dict`: a type and the message's fields, without names of Python classes, so
that reading it imports and runs nothing. A message that would come back as something else is refused.

A note is never changed. The latest of its kind counts; older ones stay until their conversation is cleared or erased.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from sqlalchemy import Column, ForeignKey, Index, String, Table, Text, delete, func, insert, select, text, update

from langmem_adapter.errors import InvalidInputError, MissingDependencyError, StorageError
from langmem_adapter.records.checks import check_text, json_object, plain_content, redact_url
from langmem_adapter.records.envelope import fingerprint, label_of, origin_of
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.queries import read_page
from langmem_adapter.storage.scopes import key_of, owner_of, reach
from langmem_adapter.storage.tables import Number, metadata
from langmem_adapter.storage.timestamps import UTCDateTime

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from langchain_core.messages import BaseMessage
    from sqlalchemy import ColumnElement, Connection, FromClause, Select

# Ids are never used again (AUTOINCREMENT): a program may remember that of an erased conversation.
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

# The columns beside `message` repeat parts of it, to find turns by.
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
    Column("memory_id", String(64)),  # of the long-term memory with the same statement
    Index("ix_turns_fingerprint", "conversation_id", "fingerprint", "message_id"),
    Index("ix_turns_cause", "conversation_id", "cause"),
)

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


NUMBERED: Final = (conversations, notes)
"""The tables with ids that the database draws."""
_LAST_NUMBER: Final = {
    "sqlite": text("SELECT seq FROM sqlite_sequence WHERE name = :name"),
    "postgresql": text("SELECT pg_sequence_last_value(pg_get_serial_sequence(:name, 'id')::regclass)"),
}


def last_number(connection: Connection, table: FromClause) -> int:
    """The last id that the database drew for a table of `NUMBERED`; 0 before the first."""
    return connection.execute(_LAST_NUMBER[connection.dialect.name], {"name": str(table)}).scalar() or 0


def set_number(connection: Connection, table: FromClause, last: int) -> None:
    """Let the database draw ids that come after *last*."""
    # Contract: a sequence of Postgres does not take part in its transaction, so it is only set forward: after a rollback the
    # rows that are there again have their ids alone. `test_copy_that_is_interrupted_leaves_the_target_as_it_was`
    values = {"name": str(table), "last": last}
    if last <= last_number(connection, table):
        return
    if connection.dialect.name == "sqlite":
        connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), values)
        connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"), values)
    else:
        connection.execute(text("SELECT setval(pg_get_serial_sequence(:name, 'id'), :last)"), values)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The name of a conversation."""

    session: str
    scope: Scope | None = None

    def __post_init__(self) -> None:
        if not check_text(self.session, "session_id").strip():
            raise InvalidInputError("session_id is blank: give each conversation its own name")

    @property
    def key(self) -> str:
        owner = "" if self.scope is None else key_of(self.scope)
        return blake2b(f"{owner}:{self.session}".encode(), digest_size=32).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to be stored."""

    role: str
    text: str  # the text of its content
    message: str  # the whole message as JSON
    message_id: str | None = None
    fingerprint: str | None = None  # of its content, whatever its id
    label: str | None = None  # the program's name for the speaker, or `"user"`, `"assistant"`, `"system"`, `"tool"`
    cause: str | None = None  # MetaGPT's `cause_by`
    sender: str | None = None  # MetaGPT's `sent_from`
    memory_id: str | None = None  # of the long-term memory with the same statement, where there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTurn(Draft):
    """A message at a position in the conversation."""

    position: int
    created_at: datetime


LOOKED_UP: Final = ("cause", "fingerprint", "message_id", "memory_id")
"""The columns that `TurnFilter` compares with several values."""


@dataclass(frozen=True, slots=True)
class TurnFilter:
    """Some turns of a conversation; every condition must hold."""

    last: int | None = None  # at most so many, the latest ones of those that match; `None` for all
    after: int = 0  # positions after this one
    before: int | None = None  # positions before this one
    label: str | None = None
    causes: Collection[str] | None = None
    holding: str = ""  # a part of the text, case-sensitive
    fingerprints: Collection[str] | None = None
    message_ids: Collection[str | None] | None = None
    memory_ids: Collection[str] | None = None

    def matches(self, turn: StoredTurn) -> bool:
        """Whether a turn matches, except for *last*."""
        return (
            self.after < turn.position
            and (self.before is None or turn.position < self.before)
            and self.label in {None, turn.label}
            and self.holding in turn.text
            and all(getattr(turn, name) in values for name, values in self.values)
        )

    def conditions(self) -> list[ColumnElement[bool]]:
        """The same in SQL."""
        conditions = [turns.c.position > self.after]
        conditions += [] if self.before is None else [turns.c.position < self.before]
        conditions += [] if self.label is None else [turns.c.label == self.label]
        conditions += [func.replace(turns.c.text, self.holding, "") != turns.c.text] if self.holding else []
        return [*conditions, *(turns.c[name].in_(values) for name, values in self.values)]

    @property
    def values(self) -> list[tuple[str, Collection[str | None]]]:
        """The columns of `LOOKED_UP` with a condition, and their values."""
        pairs = ((name, getattr(self, f"{name}s")) for name in LOOKED_UP)
        return [(name, values) for name, values in pairs if values is not None]


EVERY: Final = TurnFilter()


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """A conversation as a list shows it: its number of messages, and when the first and the last were stored."""

    conversation: Conversation
    turns: int
    created_at: datetime
    updated_at: datetime


def append(
    connection: Connection,
    conversation: Conversation,
    drafts: Sequence[Draft],
    times: Sequence[datetime] | None = None,
) -> int:
    """Append messages within a write transaction, and return the position of the last one, or 0 without any.

    The first messages create the conversation. *times* are their dates; `None` is now.
    """
    dates = times or [datetime.now(UTC)] * len(drafts)
    row = connection.execute(_by_name(conversation)).first()
    if not drafts:
        return 0 if row is None else int(row.last)
    id_, last = (_create(connection, conversation, dates[0]), 0) if row is None else (row.id, row.last)
    rows = [
        {
            "conversation_id": id_,
            "position": place,
            **{name: getattr(draft, name) for name in _COLUMNS},
            "created_at": date,
        }
        for place, (draft, date) in enumerate(zip(drafts, dates, strict=True), last + 1)
    ]
    connection.execute(insert(turns), rows)
    end = last + len(drafts)
    latest = dates[-1] if row is None else max(row.updated_at, dates[-1])
    connection.execute(update(conversations).where(conversations.c.id == id_).values(last=end, updated_at=latest))
    return int(end)


def read(connection: Connection, conversation: Conversation, which: TurnFilter = EVERY) -> list[StoredTurn]:
    """Messages of a conversation, oldest first."""
    query = _turns(conversation).where(*which.conditions()).order_by(turns.c.position.desc()).limit(which.last)
    return [_stored(row) for row in reversed(connection.execute(query).all())]


def nth(connection: Connection, conversation: Conversation, place: int) -> StoredTurn | None:
    """The message at an index of the conversation, from 0; a negative index counts from the end."""
    order = turns.c.position.desc() if place < 0 else turns.c.position
    query = _turns(conversation).order_by(order).offset(-place - 1 if place < 0 else place).limit(1)
    row = connection.execute(query).first()
    return None if row is None else _stored(row)


def count(connection: Connection, conversation: Conversation) -> int:
    own = turns.c.conversation_id.in_(_ids(conversation))
    return int(connection.execute(select(func.count()).select_from(turns).where(own)).scalar_one())


def version(connection: Connection, conversation: Conversation, after: int) -> str:
    """A version of the messages after a position: it changes whenever one is added or removed."""
    behind = select(func.count()).where(turns.c.conversation_id == conversations.c.id, turns.c.position > after)
    columns = conversations.c.id, conversations.c.created_at, conversations.c.updated_at, conversations.c.last
    query = select(*columns, behind.scalar_subquery()).where(conversations.c.key == conversation.key)
    row = connection.execute(query).first()
    return "" if row is None else " ".join(map(str, (after, *row)))


def remove(connection: Connection, conversation: Conversation, positions: Collection[int]) -> int:
    own = turns.c.conversation_id.in_(_ids(conversation))
    return connection.execute(delete(turns).where(own, turns.c.position.in_(positions))).rowcount


def clear(connection: Connection, conversation: Conversation) -> int:
    """Remove the messages and notes of a conversation, and count the messages; positions are not used again."""
    connection.execute(delete(notes).where(notes.c.conversation_id.in_(_ids(conversation))))
    return connection.execute(delete(turns).where(turns.c.conversation_id.in_(_ids(conversation)))).rowcount


def listed(
    connection: Connection, scope: Scope | None, *, k: int, after: str | None = None
) -> tuple[list[ConversationInfo], str | None]:
    """The conversations within a scope (`None`: all), the latest first, and the cursor of the next page."""
    order = conversations.c.updated_at, conversations.c.id
    number = select(func.count()).where(turns.c.conversation_id == conversations.c.id).scalar_subquery()
    query = select(conversations, number.label("turns")).where(reach(scope, conversations))
    rows, following = read_page(connection, query, *order, k=k, after=after)
    infos = [
        ConversationInfo(Conversation(row.session, owner_of(row)), row.turns, row.created_at, row.updated_at)
        for row in rows
    ]
    return infos, following


def _by_name(conversation: Conversation) -> Select[Any]:
    columns = conversations.c.id, conversations.c.last, conversations.c.updated_at
    return select(*columns).where(conversations.c.key == conversation.key)


def _create(connection: Connection, conversation: Conversation, now: datetime) -> int:
    scope = {} if conversation.scope is None else conversation.scope.named
    row = {"key": conversation.key, "session": conversation.session, **scope, "last": 0}
    new = insert(conversations).values(**row, created_at=now, updated_at=now).returning(conversations.c.id)
    return int(connection.execute(new).scalar_one())


def _ids(conversation: Conversation) -> Select[tuple[int]]:
    return _by_name(conversation).with_only_columns(conversations.c.id)


def _turns(conversation: Conversation) -> Select[Any]:
    return select(turns).where(turns.c.conversation_id == _ids(conversation).scalar_subquery())


_COLUMNS: Final = [field.name for field in fields(Draft)]


def _stored(row: Any) -> StoredTurn:
    return StoredTurn(**{name: getattr(row, name) for name in (*_COLUMNS, "position", "created_at")})


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_MAX_CAUSE: Final = 512  # in UTF-8, it fits into an index row of Postgres


def drafts_of(messages: Sequence[BaseMessage]) -> list[Draft]:
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise InvalidInputError(f"messages must be a list of LangChain messages, not {type(messages).__name__}")
    return [_draft(message, f"message {number}") for number, message in enumerate(messages, start=1)]


def messages_of(stored: Iterable[StoredTurn]) -> list[BaseMessage]:
    from langchain_core.messages import messages_from_dict  # noqa: PLC0415 - commands that list memories start without it

    return messages_from_dict([json.loads(turn.message) for turn in stored])


def _draft(message: BaseMessage, name: str) -> Draft:
    from langchain_core.messages import BaseMessage, ChatMessage, messages_from_dict  # noqa: PLC0415 - commands that list memories start without it

    if not isinstance(message, BaseMessage):
        raise InvalidInputError(f"{name} is a {type(message).__name__}: pass a LangChain message")
    # The fields as they are: model_dump would turn objects among them (a Document as artifact) into dicts without a word.
    values = {"type": message.type, "data": dict(message)}
    text = json_object(values, name)
    try:
        restored = type(messages_from_dict([values])[0])
    except ValueError as error:
        raise InvalidInputError(f"{name} could not be read again: {error}") from None
    if restored is not type(message):
        raise InvalidInputError(f"{name} is a {type(message).__name__}, which would come back as {restored.__name__}")
    cause, sender = origin_of(message)
    if len(cause) > _MAX_CAUSE:
        raise InvalidInputError(
            f"{name} names a cause of {len(cause):,} letters; {_MAX_CAUSE} are allowed: use a hash of it"
        )
    return Draft(
        role=message.role if isinstance(message, ChatMessage) else message.type,
        text=message.model_copy(update={"content": plain_content(message.content)}).text,
        message=text,
        message_id=message.id,
        fingerprint=fingerprint(message),
        label=label_of(message),
        cause=cause or None,
        sender=sender or None,
    )


# ── notes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A summary, a title, or another text that belongs to a conversation."""

    kind: str  # `"window"` (a summary of some turns), `"summary"` (of all so far), `"title"`, `"knowledge"`, `"talk"`
    text: str
    covers_from: int = 0  # position of the first turn that it was made of; 0 where it was made of none
    covers_to: int = 0  # position of the last one
    source: str = ""  # hash of all that it was made of; empty where it was made of nothing
    made_by: str = ""  # the model, or `"offline"`; empty where the program set it
    id: int = 0  # its number, which grows; 0 until it is stored
    created_at: datetime | None = None

    @property
    def trace_id(self) -> str:
        """The id under which `Memory.trace` shows how a model or the rules made it."""
        return f"note-{self.id}"


def keep(connection: Connection, conversation: Conversation, note: Note) -> int:
    """Store a note, within a write transaction, and return its number; a missing conversation is created."""
    now, row = datetime.now(UTC), connection.execute(_by_name(conversation)).first()
    values = {name: getattr(note, name) for name in ("kind", "text", "covers_from", "covers_to", "source", "made_by")}
    values["conversation_id"] = _create(connection, conversation, now) if row is None else int(row.id)
    return int(connection.execute(insert(notes).values(**values, created_at=now).returning(notes.c.id)).scalar_one())


def latest(connection: Connection, conversation: Conversation, kind: str) -> Note | None:
    row = connection.execute(_notes(conversation, kind).order_by(notes.c.id.desc()).limit(1)).first()
    return None if row is None else _note(row)


def read_notes(connection: Connection, conversation: Conversation, kind: str) -> list[Note]:
    """All notes of a kind, oldest first."""
    return [_note(row) for row in connection.execute(_notes(conversation, kind).order_by(notes.c.id))]


def drop(connection: Connection, conversation: Conversation, kind: str) -> int:
    ids = _notes(conversation, kind).with_only_columns(notes.c.id)
    return connection.execute(delete(notes).where(notes.c.id.in_(ids))).rowcount


def _notes(conversation: Conversation, kind: str) -> Select[Any]:
    return select(notes).where(notes.c.conversation_id == _ids(conversation).scalar_subquery(), notes.c.kind == kind)


def _note(row: Any) -> Note:
    return Note(**{name: value for name, value in row._mapping.items() if name != "conversation_id"})


# ── copies in Redis ──────────────────────────────────────────────────────────────────────────────────────────────────────

# A copy beside the truth, read only where its version is that of the truth. Where Redis cannot be reached, the database
# answers, and the log says so once, until it is reached again.

_log = logging.getLogger("langmem_adapter")
_TTL: Final = 1_800  # seconds
_PATIENCE: Final = 1.0
_CHUNK: Final = 500  # keys of one command: Redis answers no other client meanwhile


def redis_key(*parts: str) -> str:
    """A key of parts, each escaped, so that no two lists of parts share one."""
    return ":".join(quote(part, safe="") for part in parts)


class Cache:
    """Copies of conversations in Redis, by user and chat, for half an hour each."""

    def __init__(self, url: str) -> None:
        try:
            import redis  # noqa: PLC0415 - an extra
            from redis.backoff import NoBackoff  # noqa: PLC0415
            from redis.retry import Retry  # noqa: PLC0415
        except ImportError:
            raise MissingDependencyError("redis", extra="redis") from None
        self._address: Final = redact_url(url)
        self._errors: Final = (redis.RedisError, ValueError)  # the second: the answer is not Redis's
        limits: dict[str, Any] = {"socket_timeout": _PATIENCE, "socket_connect_timeout": _PATIENCE}
        try:
            self._client: Final[Any] = redis.Redis.from_url(
                url, decode_responses=True, retry=Retry(NoBackoff(), 1), **limits
            )
        except ValueError:  # its text would repeat the address
            raise InvalidInputError(
                f"redis_url: no address of a Redis server: {self._address}; write it like redis://localhost:6379/0"
            ) from None
        self._is_logged = False

    def get(self, conversation: Conversation, version: str) -> str | None:
        """The copy of a version, if there is one."""
        value = self._try(partial(self._client.hget, _key(conversation), version))
        return value if isinstance(value, str) else None

    def put(self, conversation: Conversation, version: str, value: str) -> None:
        key = _key(conversation)
        pipe = self._client.pipeline()
        pipe.delete(key)
        pipe.hset(key, version, value)
        pipe.expire(key, _TTL)
        self._try(pipe.execute)

    def drop(self, conversation: Conversation) -> None:
        self._try(partial(self._client.delete, _key(conversation)))

    def erase(self, scope: Scope | None) -> None:
        """Remove every conversation within a scope; `None` means all."""
        try:
            keys = [*self._client.scan_iter(match=f"{_prefix(scope, '*')}:*", count=_CHUNK)]
            for start in range(0, len(keys), _CHUNK):
                self._client.unlink(*keys[start : start + _CHUNK])
        except self._errors as error:
            raise StorageError(f"Redis at {self._address}: {error}", transient=True) from None

    def close(self) -> None:
        self._client.close()

    def _try(self, work: Callable[[], object]) -> object:
        try:
            answer = work()
        except UnicodeDecodeError:  # a value of another program
            return None
        except self._errors as error:
            if not self._is_logged:
                message = "Redis at %s does not answer (%s); conversations are read from the database"
                _log.warning(message, self._address, error)
            self._is_logged = True
            return None
        self._is_logged = False
        return answer


def _key(conversation: Conversation) -> str:
    return f"{_prefix(conversation.scope, '')}:{quote(conversation.session, safe='')}"


def _prefix(scope: Scope | None, unnamed: str) -> str:
    names = {} if scope is None else scope.named
    parts = (quote(names[each], safe="") if each in names else unnamed for each in SCOPE_FIELDS)
    return f"langmem_adapter:{'/'.join(parts)}"
