"""Which slot holds which memory, and which slots hold a scope: sorted arrays and a small overlay of what is newer.

A dict per memory would cost more than a short vector. Both classes hold hints: the caller's own array by slot (`now`) has
the last word, so an entry needs no removal when its slot gets another tenant, and moving a row costs one new entry.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from langmem_adapter.index.base import Pks

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["PkSlots", "ScopeSlots", "Where"]

Where: TypeAlias = Pks | slice
"""Some slots: their numbers, or a slice where they lie together."""

_LEAST: Final = 1024
_SHARE: Final = 8  # the overlay is sorted in when it holds an eighth of the rows: amortised, an update costs no more


def _is_large(overlay: int, count: int) -> bool:
    return overlay > max(_LEAST, count // _SHARE)


class PkSlots:
    """From a memory's pk to its slot."""

    def __init__(self) -> None:
        self._pks = self._slots = np.empty(0, np.int64)
        self._newer: dict[int, int] = {}

    def find(self, pks: Pks, now: Pks) -> Pks:
        """The slot of each pk, -1 where there is none.

        Args:
            pks: Shape (n,), each at least 0.
            now: The pk in each slot, below 0 where the slot is free.
        """
        slots = self._find_sorted(pks)
        found = (slots >= 0) & (now[slots] == pks) if len(now) else np.zeros(len(pks), np.bool_)
        if found.all():
            return slots
        missing = np.flatnonzero(~found)
        slots[missing] = [self._newer.get(pk, -1) for pk in pks[missing].tolist()]
        newer = missing[slots[missing] >= 0]
        slots[newer[now[slots[newer]] != pks[newer]]] = -1
        return slots

    def note(self, slots: Pks, now: Pks, count: int) -> None:
        """Take notice of new tenants in *slots*; the first *count* slots are taken."""
        if _is_large(len(self._newer) + len(slots), count):
            self.sort(now[:count])
        else:
            self._newer.update(zip(now[slots].tolist(), slots.tolist(), strict=True))

    def sort(self, now: Pks) -> None:
        """Take notice of everything: *now* has the pk of each taken slot."""
        order = np.argsort(now, kind="stable")
        self._pks, self._slots, self._newer = now[order], order, {}

    def _find_sorted(self, pks: Pks) -> Pks:
        if not len(self._pks):
            return np.full(len(pks), -1, np.int64)
        places = self._pks.searchsorted(pks)
        places[places == len(self._pks)] = 0
        slots: Pks = self._slots[places]
        slots[self._pks[places] != pks] = -1
        return slots


class ScopeSlots:
    """From a scope to the slots of its memories. Where rows are sorted by scope, a scope is a slice."""

    def __init__(self) -> None:
        self._scopes = self._known = np.empty(0, np.int64)
        self._slots: Pks | None = None  # ordered by scope; none where the slots themselves are
        self._starts = np.zeros(1, np.int64)
        self._newer: defaultdict[int, array[int]] = defaultdict(_no_slots)
        self._unordered: set[int] = set()  # scopes whose newer slots do not ascend, hence may stand there twice
        self._newer_count = 0

    def find(self, scopes: Collection[int], now: Pks) -> Where:
        """Every slot of the given scopes, each once; ascending within a scope but for the newest.

        Args:
            scopes: Their ids, each at least 0; one named twice counts once.
            now: The scope in each slot, below 0 where the slot is free.
        """
        if len(scopes) == 1:  # the common case
            (scope,) = scopes
            older = self._find_one(scope, now)
            if scope not in self._newer:
                return older
            numbers = np.arange(older.start, older.stop) if isinstance(older, slice) else older
            return np.concatenate([numbers, self._find_newer(scope, now)])
        wanted = np.unique(np.fromiter(scopes, np.int64, len(scopes)))
        newer = [self._find_newer(scope, now) for scope in wanted.tolist() if scope in self._newer]
        return np.concatenate([self._find_sorted(wanted, now), *newer])

    def note(self, slots: Pks, now: Pks, count: int) -> None:
        """Take notice of new tenants in *slots*; the first *count* slots are taken."""
        if _is_large(self._newer_count + len(slots), count):
            self.sort(now[:count])
            return
        listed = slots < len(self._known)
        listed[listed] = self._known[slots[listed]] == now[slots[listed]]
        fresh = slots[~listed]
        for scope, slot in zip(now[fresh].tolist(), fresh.tolist(), strict=True):
            slots_of = self._newer[scope]
            if slots_of and slots_of[-1] >= slot:
                self._unordered.add(scope)
            slots_of.append(slot)
        self._newer_count += len(fresh)

    def sort(self, now: Pks) -> None:
        """Take notice of everything: *now* has the scope of each taken slot."""
        sorted_already = bool((now[1:] >= now[:-1]).all())
        self._slots = None if sorted_already else np.argsort(now, kind="stable")
        self._known = now.copy()
        self._scopes, counts = np.unique(now, return_counts=True)
        self._starts = np.concatenate([[0], np.cumsum(counts)])
        self._newer.clear()
        self._unordered.clear()
        self._newer_count = 0

    def _find_one(self, scope: int, now: Pks) -> Where:
        place = int(self._scopes.searchsorted(scope))
        if place == len(self._scopes) or self._scopes[place] != scope:
            return slice(0, 0)
        start, end = self._starts[place : place + 2].tolist()
        if self._slots is not None:
            slots = self._slots[start:end]
            kept: Pks = slots[now[slots] == scope]
            return kept
        still = now[start:end] == scope
        # Counting is the quickest way to ask whether all are true.
        return slice(start, end) if np.count_nonzero(still) == end - start else start + np.flatnonzero(still)

    def _find_sorted(self, wanted: Pks, now: Pks) -> Pks:
        if not len(self._scopes):
            return np.empty(0, np.int64)
        places = np.minimum(np.searchsorted(self._scopes, wanted), len(self._scopes) - 1)
        known = places[self._scopes[places] == wanted]
        slots = _ranges(self._starts[known], self._starts[known + 1])
        if self._slots is not None:
            slots = self._slots[slots]
        kept: Pks = slots[now[slots] == self._known[slots]]
        return kept

    def _find_newer(self, scope: int, now: Pks) -> Pks:
        slots = np.frombuffer(self._newer[scope], np.int64)  # no view of it is left when the lock is given back
        kept: Pks = slots[now[slots] == scope]
        return np.unique(kept) if scope in self._unordered else kept


def _no_slots() -> array[int]:
    return array("q")


def _ranges(starts: Pks, ends: Pks) -> Pks:
    """The numbers of several ranges, one after the other."""
    lengths = ends - starts
    before = np.cumsum(lengths) - lengths
    numbers: Pks = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
    return numbers
