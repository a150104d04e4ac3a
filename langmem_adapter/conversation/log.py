"""Where the turns of a log are kept: in an object, or in the database within a transaction."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from langmem_adapter.forks import Lock
from langmem_adapter.storage import conversations
from langmem_adapter.storage.conversations import EVERY, Draft, StoredTurn, Which

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from langmem_adapter.storage.conversations import Conversation

__all__ = ["Kept", "Log", "Stored"]


class Stored:
    """The turns of a conversation, within a transaction."""

    def __init__(self, connection: Connection, conversation: Conversation) -> None:
        self.connection = connection
        self.append = partial(conversations.append, connection, conversation)
        self.read = partial(conversations.read, connection, conversation)
        self.nth = partial(conversations.nth, connection, conversation)
        self.count = partial(conversations.count, connection, conversation)
        self.remove = partial(conversations.remove, connection, conversation)
        self.clear = partial(conversations.clear, connection, conversation)


class Kept:
    """Turns in this object."""

    def __init__(self) -> None:
        self.lock: Final = Lock()
        self._turns: list[StoredTurn] = []
        self._last = 0

    def append(self, drafts: Sequence[Draft]) -> None:
        """Keep some at the end."""
        for draft in drafts:
            self._last += 1
            values = {field.name: getattr(draft, field.name) for field in fields(Draft)}
            self._turns.append(StoredTurn(**values, position=self._last, created_at=datetime.now(UTC)))

    def read(self, which: Which = EVERY) -> list[StoredTurn]:
        """Those that fit, oldest first."""
        found = [turn for turn in self._turns if which.holds(turn)]
        return found if which.last is None else found[-which.last :]

    def nth(self, place: int) -> StoredTurn | None:
        """The one at a place, counted from 0, or from the end where it is negative."""
        return self._turns[place] if -len(self._turns) <= place < len(self._turns) else None

    def count(self) -> int:
        """How many there are."""
        return len(self._turns)

    def remove(self, positions: Sequence[int]) -> None:
        """Take some out."""
        self._turns = [turn for turn in self._turns if turn.position not in positions]

    def clear(self) -> None:
        """Take all out."""
        self._turns = []


Log: TypeAlias = Stored | Kept
