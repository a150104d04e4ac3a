"""LangChain messages as turns of a conversation, and back: the same message, field by field.

The JSON is LangChain's own (`messages_to_dict`): a type and the message's fields, without names of Python classes, so that
reading it imports and runs nothing. What would come back as something else is refused when it is written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import BaseMessage, ChatMessage, messages_from_dict
from sqlalchemy import select

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import json_object
from langmem_adapter.records.content import plain_content
from langmem_adapter.records.envelope import fingerprint, label_of, origin_of
from langmem_adapter.storage.conversations import Draft, turns
from langmem_adapter.storage.moments import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection

    from langmem_adapter.storage.conversations import StoredTurn

__all__ = ["drafts_of", "messages_of", "unreadable_turns"]


_LONGEST: Final = 512  # in UTF-8, it fits into an index row of Postgres


def drafts_of(messages: Sequence[BaseMessage]) -> list[Draft]:
    """Messages, ready to be kept."""
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise InvalidInputError(f"messages must be a list of LangChain messages, not {type(messages).__name__}")
    return [_draft(message, f"message {number}") for number, message in enumerate(messages, start=1)]


def messages_of(stored: Iterable[StoredTurn]) -> list[BaseMessage]:
    """The messages of some turns."""
    return messages_from_dict([json.loads(turn.message) for turn in stored])


def unreadable_turns(connection: Connection) -> Iterator[Unreadable]:
    """Every message in the database that is none any more."""
    query = select(turns.c.conversation_id, turns.c.position, turns.c.message)
    with connection.execute(query, execution_options={"yield_per": 1000}) as rows:
        for row in rows:
            try:
                messages_from_dict([json.loads(row.message)])
            except (ValueError, TypeError, KeyError):
                named = {"conversation_id": row.conversation_id, "position": row.position}
                yield Unreadable("turns", "message", named, row.message)


def _draft(message: BaseMessage, name: str) -> Draft:
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
    try:
        restored = type(messages_from_dict([fields])[0])
    except ValueError as error:
        raise InvalidInputError(f"{name} could not be read again: {error}") from None
    if restored is not type(message):
        raise InvalidInputError(f"{name} is a {type(message).__name__}, which would come back as {restored.__name__}")
