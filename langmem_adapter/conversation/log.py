"""Where the turns of a log are kept: in an object, or in the database within a transaction."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from langmem_adapter.forks import Lock
from langmem_adapter.storage import conversations
from langmem_adapter.storage.conversations import EVERY, LOOKED_UP, Draft, StoredTurn, Which

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
    """Turns in this object, in order, and by what they are looked up by.

    Contract: where a child is forked in the middle of a change, it may keep a turn twice, and it misses none: what `_by` knows
    stands in `_turns`. tests/test_forks.py::test_a_log_that_another_thread_holds_is_free_in_a_child
    """

    def __init__(self) -> None:
        self.lock: Final = Lock()
        self._last = 0
        self.clear()

    def append(self, drafts: Sequence[Draft]) -> None:
        """Keep some at the end."""
        for draft in drafts:
            self._last += 1
            values = {field.name: getattr(draft, field.name) for field in fields(Draft)}
            turn = StoredTurn(**values, position=self._last, created_at=datetime.now(UTC))
            self._turns.append(turn)
            for name, alike in self._by.items():
                alike[getattr(turn, name)][turn.position] = turn

    def read(self, which: Which = EVERY) -> list[StoredTurn]:
        """Those that fit, oldest first."""
        among = [(self._by[name], values) for name, values in which.among]
        found = [[alike[value].values() for value in alike.keys() & values] for alike, values in among]
        fewest = min(found, key=lambda parts: sum(map(len, parts)), default=[self._turns])
        latest = merge(*map(reversed, fewest), key=_position, reverse=True)
        return [*islice(filter(which.holds, latest), which.last)][::-1]

    def nth(self, place: int) -> StoredTurn | None:
        """The one at a place, counted from 0, or from the end where it is negative."""
        return self._turns[place] if -len(self._turns) <= place < len(self._turns) else None

    def count(self) -> int:
        """How many there are."""
        return len(self._turns)

    def remove(self, positions: Sequence[int]) -> None:
        """Take some out."""
        for position in positions:
            place = bisect_left(self._turns, position, key=_position)
            for name, alike in self._by.items():
                value = getattr(self._turns[place], name)
                alike[value].pop(position, None)
                if not alike[value]:
                    del alike[value]
            del self._turns[place]

    def clear(self) -> None:
        """Take all out."""
        self._by = {name: defaultdict[str | None, dict[int, StoredTurn]](dict) for name in LOOKED_UP}
        self._turns: list[StoredTurn] = []


Log: TypeAlias = Stored | Kept


_position: Final = attrgetter("position")
