"""Where the turns of a log are kept: in an object, or in the database within a transaction."""

from __future__ import annotations

from collections import defaultdict
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
    """Turns in this object, by position, and by what they say and what caused them.

    Contract: where a child is forked in the middle of a change, it may keep a turn twice, and it misses none: what `_by` knows
    stands in `_turns`. tests/test_forks.py::test_a_log_that_another_thread_holds_is_free_in_a_child
    """

    def __init__(self) -> None:
        self.lock: Final = Lock()
        self.clear()
        self._last = 0

    def append(self, drafts: Sequence[Draft]) -> None:
        """Keep some at the end."""
        for draft in drafts:
            self._last += 1
            values = {field.name: getattr(draft, field.name) for field in fields(Draft)}
            turn = StoredTurn(**values, position=self._last, created_at=datetime.now(UTC))
            self._turns[turn.position] = turn
            for key in (turn.fingerprint, turn.message_id, turn.cause):
                self._by[key][turn.position] = turn

    def read(self, which: Which = EVERY) -> list[StoredTurn]:
        """Those that fit, oldest first."""
        keys = next((keys for keys in (which.message_ids, which.fingerprints, which.causes) if keys is not None), None)
        places = [self._turns] if keys is None else [self._by[key] for key in keys if key in self._by]
        found = sorted((turn for place in places for turn in place.values() if which.holds(turn)), key=_position)
        return found if which.last is None else found[-which.last :]

    def nth(self, place: int) -> StoredTurn | None:
        """The one at a place, counted from 0, or from the end where it is negative."""
        turns = list(self._turns.values())
        return turns[place] if -len(turns) <= place < len(turns) else None

    def count(self) -> int:
        """How many there are."""
        return len(self._turns)

    def remove(self, positions: Sequence[int]) -> None:
        """Take some out."""
        for position in positions:
            turn = self._turns[position]
            for key in (turn.fingerprint, turn.message_id, turn.cause):
                self._by[key].pop(position, None)
            del self._turns[position]

    def clear(self) -> None:
        """Take all out."""
        self._turns: dict[int, StoredTurn] = {}
        self._by: defaultdict[str | None, dict[int, StoredTurn]] = defaultdict(dict)


Log: TypeAlias = Stored | Kept


def _position(turn: StoredTurn) -> int:
    return turn.position
