"""What is made of a conversation's turns, or kept beside them: summaries with the range that they cover, a title, knowledge.

A note is never changed. The latest of its kind counts, older ones stay (what a summary was made of can be looked up) until
their conversation is cleared or erased.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select

from langmem_adapter.storage.conversations import conversations, named, notes

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select

    from langmem_adapter.storage.conversations import Conversation

__all__ = ["Note", "drop", "keep", "latest", "read"]


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


def read(connection: Connection, conversation: Conversation, kind: str) -> list[Note]:
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
