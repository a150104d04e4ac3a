"""Conversations and their turns: what was said, word for word, in order.

A conversation is named by its session and, where it has one, its exact scope: the session "s1" of Alice is not that of Bob. Its
turns are numbered from 1; a number is drawn under the write lock and never used twice, also after `clear`, so it tells readers
where they stopped. A message is kept as JSON text on both databases: what comes back is what was said, key by key.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Column, ForeignKey, String, Table, Text, delete, func, insert, select, true, update

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.storage.moments import UTCDateTime
from langmem_adapter.storage.scopes import key_of, of_row, within
from langmem_adapter.storage.tables import changes, metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Select

__all__ = [
    "Conversation",
    "ConversationInfo",
    "Draft",
    "StoredTurn",
    "append",
    "clear",
    "conversations",
    "erase",
    "listed",
    "read",
    "turns",
]

_Number: Final = changes.c.seq.type

# Ids are never used again (AUTOINCREMENT): whoever remembers that of an erased conversation must not meet another one.
conversations: Final = Table(
    "conversations",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("session", Text, nullable=False),
    *(Column(name, Text, index=True) for name in SCOPE_FIELDS),
    Column("last", _Number, nullable=False),
    Column("created_at", UTCDateTime, nullable=False),
    Column("updated_at", UTCDateTime, nullable=False),
    sqlite_autoincrement=True,
)

# `role` and `text` repeat parts of the message, for readers of the table and for search.
turns: Final = Table(
    "turns",
    metadata,
    Column("conversation_id", _Number, ForeignKey("conversations.id"), primary_key=True),
    Column("position", _Number, primary_key=True, autoincrement=False),
    Column("role", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("created_at", UTCDateTime, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The name of a conversation.

    Args:
        session: What the program calls it, not blank.
        scope: Whose it is; `None` for nobody's, which only `erase(connection, None)` removes.

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


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to be kept.

    Attributes:
        role: Who speaks.
        text: What is said, as far as it is text.
        message: The whole message as JSON.
    """

    role: str
    text: str
    message: str


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A message that is kept.

    Attributes:
        position: Its number in the conversation.
        role: Who spoke.
        text: What was said, as far as it is text.
        message: The whole message as JSON.
        created_at: When it was kept.
    """

    position: int
    role: str
    text: str
    message: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """A conversation as a list shows it.

    Attributes:
        conversation: Its name.
        turns: How many messages it has.
        created_at: When the first was kept.
        updated_at: When the last was.
    """

    conversation: Conversation
    turns: int
    created_at: datetime
    updated_at: datetime


def append(connection: Connection, conversation: Conversation, drafts: Sequence[Draft]) -> int:
    """Keep messages at the end of a conversation, within a write transaction; the first ones begin it.

    Returns:
        The position of the last one; 0 where the conversation has none.
    """
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


def read(
    connection: Connection, conversation: Conversation, *, last: int | None = None, after: int = 0
) -> list[StoredTurn]:
    """Messages of a conversation, oldest first.

    Args:
        connection: A transaction.
        conversation: Which.
        last: Only so many, the latest ones; `None` for all.
        after: Only those behind this position.
    """
    query = (
        select(turns.c.position, turns.c.role, turns.c.text, turns.c.message, turns.c.created_at)
        .join_from(turns, conversations, turns.c.conversation_id == conversations.c.id)
        .where(conversations.c.key == conversation.key, turns.c.position > after)
        .order_by(turns.c.position.desc())
        .limit(last)
    )
    return [StoredTurn(*row) for row in reversed(connection.execute(query).all())]


def clear(connection: Connection, conversation: Conversation) -> int:
    """Remove the messages of a conversation, within a write transaction; the count of positions goes on.

    Returns:
        How many there were.
    """
    ids = _named(conversation).with_only_columns(conversations.c.id)
    return connection.execute(delete(turns).where(turns.c.conversation_id.in_(ids))).rowcount


def listed(connection: Connection, scope: Scope | None) -> list[ConversationInfo]:
    """The conversations within a scope, the latest first; `None` lists everybody's."""
    number = select(func.count()).where(turns.c.conversation_id == conversations.c.id).scalar_subquery()
    query = (
        select(conversations, number.label("turns"))
        .where(true() if scope is None else within(scope, conversations))
        .order_by(conversations.c.updated_at.desc(), conversations.c.id.desc())
    )
    return [
        ConversationInfo(Conversation(row.session, _scope_of(row)), row.turns, row.created_at, row.updated_at)
        for row in connection.execute(query)
    ]


def erase(connection: Connection, scope: Scope | None) -> int:
    """Remove every conversation within a scope, with its name, within a write transaction; `None` means everybody's.

    Returns:
        How many messages there were.
    """
    mine = true() if scope is None else within(scope, conversations)
    gone = delete(turns).where(turns.c.conversation_id.in_(select(conversations.c.id).where(mine)))
    count = connection.execute(gone).rowcount
    connection.execute(delete(conversations).where(mine))
    return count


def _named(conversation: Conversation) -> Select[Any]:
    return select(conversations.c.id, conversations.c.last).where(conversations.c.key == conversation.key)


def _begin(connection: Connection, conversation: Conversation, now: datetime) -> int:
    named = {} if conversation.scope is None else conversation.scope.named
    row = {"key": conversation.key, "session": conversation.session, **named, "last": 0}
    made = insert(conversations).values(**row, created_at=now, updated_at=now).returning(conversations.c.id)
    return int(connection.execute(made).scalar_one())


def _columns(draft: Draft) -> dict[str, str]:
    return {"role": draft.role, "text": draft.text, "message": draft.message}


def _scope_of(row: Any) -> Scope | None:
    return of_row(row) if any(getattr(row, name) is not None for name in SCOPE_FIELDS) else None
