"""What an index of this process holds at one moment: a segment, which of its rows have gone, and a tail of what came since."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np

from langmem_adapter.index.base import Pks, VectorIndex
from langmem_adapter.index.segment import Catalogue, ClosedRows, LoadedRows, Segment
from langmem_adapter.index.tail import Deaths, Tail, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from langmem_adapter.index.base import Batch, Vectors

__all__ = ["Contents", "Mergeable", "Where"]

Where: TypeAlias = Pks | slice
"""Some rows: their numbers, or a slice where they lie together."""
_TOGETHER: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """What an index holds at one moment; it never changes."""

    segment: Segment  # most of it
    deaths: Deaths  # which of the segment's rows have gone, and when
    tail: Tail  # what came since
    update: int  # number of the last update
    count: int  # how many memories
    lost: int  # how many of the segment's rows have gone

    @classmethod
    def of(cls, segment: Segment) -> Contents:
        """A segment, and nothing since."""
        tail = Tail.empty(segment.rows.vectors.shape[1])
        return cls(segment, np.zeros(len(segment), np.uint32), tail, 0, len(segment), 0)

    def after(self, batch: Batch) -> Contents:
        """What it holds after net changes. Only for the one writer: what was before can be read on, but not go on from."""
        update = self.update + 1
        went = np.concatenate([batch.pks, batch.gone])
        buried, lost = self.tail.bury(went, update), self._bury(went, update)
        tail = self.tail.with_rows(batch) if len(batch.pks) else self.tail
        count = self.count + len(batch.pks) - buried - lost
        return Contents(self.segment, self.deaths, tail, update, count, self.lost + lost)

    def _bury(self, pks: Pks, update: int) -> int:
        rows = self.segment.catalogue.find(pks)
        rows = rows[rows >= 0]
        rows = rows[self.deaths[rows] == 0]
        self.deaths[rows] = update
        return len(rows)

    def rows(self, scopes: Collection[int], pks: Pks | None) -> Where:
        """The segment's rows of some scopes, or of the given memories within them, that have not gone."""
        catalogue = self.segment.catalogue
        if pks is not None:
            found = catalogue.find(np.unique(pks))
            found = found[found >= 0]
            return self.standing(found[np.isin(catalogue.scopes_of(found), list(scopes))])
        if len(scopes) != 1:
            return self.standing(catalogue.rows_of(scopes))
        (scope,) = scopes
        together = catalogue.range_of(scope)
        if not self.lost or (stands := standing(self.deaths[together], self.update)).all():
            return together
        rows: Pks = together.start + np.flatnonzero(stands)
        return rows

    def standing(self, rows: Pks) -> Pks:
        """Those of the segment's rows that have not gone."""
        return rows[standing(self.deaths[rows], self.update)] if self.lost else rows

    def tail_rows(self, scopes: Collection[int], pks: Pks | None) -> Pks | None:
        """The tail's rows in the same way; `None` for none."""
        rows = self.tail.rows_of(scopes)
        if rows is None:
            return None
        rows = rows[standing(self.tail.deaths[rows], self.update)]
        return rows if pks is None else rows[np.isin(self.tail.pks[rows], pks)]

    def find(self, pks: Pks) -> tuple[Pks, Pks]:
        """The row of each memory in the segment, and in the tail; -1 where it has none there, or it has gone."""
        rows = self.segment.catalogue.find(pks)
        if self.lost:
            known = np.flatnonzero(rows >= 0)
            rows[known[~standing(self.deaths[rows[known]], self.update)]] = -1
        newer = np.full(len(pks), -1, np.int64)
        if self.tail.count:
            missing = np.flatnonzero(rows < 0)
            newer[missing] = [self.tail.find(pk) for pk in pks[missing].tolist()]
            there = missing[newer[missing] >= 0]
            newer[there[~standing(self.tail.deaths[newer[there]], self.update)]] = -1
        return rows, newer

    def pks(self) -> Pks:
        """Every memory, ascending."""
        kept = self.segment.catalogue.pks[standing(self.deaths, self.update)]
        return np.sort(np.concatenate([kept, self.tail.pks[self._tail_rows()]]))

    def merged(self, most: int) -> tuple[Catalogue, Iterator[Vectors]]:
        """All of it in the order of a segment: which memory will lie in which row, and the vectors, so many rows at a time."""
        kept = np.flatnonzero(standing(self.deaths, self.update))
        catalogue, newer = self.segment.catalogue, self._tail_rows()
        pks = np.concatenate([catalogue.pks[kept], self.tail.pks[newer]])
        scopes = np.concatenate([catalogue.scopes_of(kept), self.tail.scopes[newer]])
        order = np.lexsort((pks, scopes))
        sources = np.concatenate([kept, -1 - newer])[order]  # below 0: in the tail
        blocks = (self._taken(sources[start : start + most]) for start in range(0, len(sources), most))
        return Catalogue.of(pks[order], scopes[order]), blocks

    def in_memory(self) -> Segment:
        """All of it as one segment in this process."""
        catalogue, blocks = self.merged(_TOGETHER)
        vectors = np.empty((self.count, self.tail.vectors.shape[1]), np.float32)
        for number, block in enumerate(blocks):
            vectors[number * _TOGETHER : (number + 1) * _TOGETHER] = block
        return Segment(LoadedRows(vectors), catalogue)

    def closed(self) -> Contents:
        """The same without the segment's vectors, hence without the file that they may lie in."""
        return replace(self, segment=Segment(ClosedRows(self.segment.rows.vectors[:0].copy()), self.segment.catalogue))

    def _taken(self, sources: Pks) -> Vectors:
        taken = np.empty((len(sources), self.tail.vectors.shape[1]), np.float32)
        old = sources >= 0
        self.segment.rows.check(sources[old])
        taken[old], taken[~old] = self.segment.rows.vectors[sources[old]], self.tail.vectors[-1 - sources[~old]]
        return taken

    def _tail_rows(self) -> Pks:
        return np.flatnonzero(standing(self.tail.deaths[: self.tail.count], self.update))


@runtime_checkable
class Mergeable(VectorIndex, Protocol):
    """An index that holds a segment and what came since, and can hold another segment of the same memories."""

    @property
    def contents(self) -> Contents:
        """What it holds now."""

    def hold(self, contents: Contents, mend: Callable[[], object] | None = None) -> None:
        """Hold this and nothing else; from now on only this index may go on from it.

        Whoever finds that the segment is damaged calls *mend*, which makes this index hold another one, or raises.
        """
