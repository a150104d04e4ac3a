"""What came after a segment was made: rows in the order in which they came, only ever appended to.

One writer at a time appends and publishes; readers hold what was published and need no lock. Rows are never overwritten: a
memory that changes gets another row, and of the old one it is noted with which update it went. So a reader that began before
that update goes on seeing the old row, and one that began after it the new one, whichever array it looks into.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Collection

    from langmem_adapter.index.base import Batch, Pks, Vectors

__all__ = ["Deaths", "Tail", "standing"]

Deaths: TypeAlias = NDArray[np.uint32]
"""For each row the number of the update that it went with; 0 while it stands."""

_LEAST: Final = 64


def standing(deaths: Deaths, update: int) -> NDArray[np.bool_]:
    """Which rows stood after an update, whatever went with later ones."""
    stands: NDArray[np.bool_] = (deaths == 0) | (deaths > update)
    return stands


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """The rows as they stand at one moment; arrays have room for more than *count* rows."""

    # Contract: arrays are written to behind `count` alone, but for `deaths`, where 0 turns into the number of an update that
    # no reader of an older state looks at; the dicts may be newer than `count`, and who asks them leaves out rows behind it.
    # `test_a_search_sees_an_update_whole_or_not_at_all`, `test_who_began_before_an_update_finds_what_was`
    vectors: Vectors
    pks: Pks
    scopes: Pks
    deaths: Deaths
    count: int
    latest: dict[int, int]  # the latest row of each memory, by pk
    older: dict[int, int]  # the row that the same memory had before, by row
    by_scope: dict[int, tuple[Pks, int]]  # the rows of each scope, and how many they are

    @classmethod
    def empty(cls, dimensions: int) -> Tail:
        """One without rows."""
        none = np.empty(0, np.int64)
        return cls(np.empty((0, dimensions), np.float32), none, none, np.empty(0, np.uint32), 0, {}, {}, {})

    def find(self, pk: int) -> int:
        """The row of a memory, -1 where it has none here; it may have gone."""
        row = self.latest.get(pk, -1)
        while row >= self.count:
            row = self.older.get(row, -1)
        return row

    def rows_of(self, scopes: Collection[int]) -> Pks | None:
        """The rows of some scopes, `None` for none; some of them may have gone."""
        if not self.count:
            return None
        parts = [self._rows_of_one(*held) for scope in dict.fromkeys(scopes) if (held := self.by_scope.get(int(scope)))]
        return (parts[0] if len(parts) == 1 else np.concatenate(parts)) if parts else None

    def _rows_of_one(self, rows: Pks, count: int) -> Pks:
        rows = rows[:count]
        return rows if rows[-1] < self.count else rows[: rows.searchsorted(self.count)]

    # ── for the one writer ──────────────────────────────────────────────────────────────────────────────────────────

    def bury(self, pks: Pks, update: int) -> int:
        """Note that the rows of these memories went with an update, and tell how many did."""
        rows = [row for pk in pks.tolist() if (row := self.latest.get(pk, -1)) >= 0 and not self.deaths[row]]
        self.deaths[rows] = update
        return len(rows)

    def with_rows(self, batch: Batch) -> Tail:
        """The tail with the rows of a batch behind it, those of one scope beside each other."""
        new, start = len(batch.pks), self.count
        order = np.lexsort((batch.pks, batch.scopes)) if new > 1 else slice(None)
        tail = self._roomy(start + new)
        pks, scopes, there = batch.pks[order], batch.scopes[order], slice(start, start + new)
        tail.vectors[there], tail.pks[there], tail.scopes[there] = batch.vectors[order], pks, scopes
        for row, pk in enumerate(pks.tolist(), start):
            if pk in tail.latest:
                tail.older[row] = tail.latest[pk]
            tail.latest[pk] = row
        firsts = np.flatnonzero(np.concatenate([[True], scopes[1:] != scopes[:-1]]))
        for first, last in zip(firsts.tolist(), [*firsts[1:].tolist(), new], strict=True):
            _append(tail.by_scope, int(scopes[first]), np.arange(start + first, start + last))
        return replace(tail, count=start + new)

    def _roomy(self, needed: int) -> Tail:
        if needed <= len(self.pks):
            return self
        capacity = max(needed, 2 * len(self.pks), _LEAST)
        arrays = ("vectors", "pks", "scopes", "deaths")
        grown: dict[str, Any] = {name: _grown(getattr(self, name), self.count, capacity) for name in arrays}
        return replace(self, **grown)


def _append(by_scope: dict[int, tuple[Pks, int]], scope: int, rows: Pks) -> None:
    held, count = by_scope.get(scope, (np.empty(0, np.int64), 0))
    needed = count + len(rows)
    if needed > len(held):
        held = _grown(held, count, max(needed, 2 * len(held)))
    held[count:needed] = rows
    by_scope[scope] = held, needed


def _grown(array: NDArray[Any], count: int, capacity: int) -> NDArray[Any]:
    larger = np.zeros((capacity, *array.shape[1:]), array.dtype)
    larger[:count] = array[:count]
    return larger
