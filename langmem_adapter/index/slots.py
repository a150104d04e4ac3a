"""Which slot holds which memory, and which slots hold a scope: sorted arrays and a small overlay of what is newer.

A dict per memory would cost more than a short vector. Both classes hold hints: the caller's own array by slot (`now`) has
the last word, so an entry needs no removal when its slot gets another tenant, and moving a row costs one new entry.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    from langmem_adapter.index.base import Pks

__all__ = ["PkSlots", "ScopeSlots"]

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
        missing = np.flatnonzero(~found)
        slots[missing] = [self._newer.get(pk, -1) for pk in pks[missing].tolist()]
        newer = missing[slots[missing] >= 0]
        slots[newer[now[slots[newer]] != pks[newer]]] = -1
        return slots

    def note(self, slots: Pks, now: Pks, count: int) -> None:
        """Take notice of new tenants in *slots*; the first *count* slots are taken."""
        if _is_large(len(self._newer) + len(slots), count):
            order = np.argsort(now[:count], kind="stable")
            self._pks, self._slots, self._newer = now[order], order, {}
        else:
            self._newer.update(zip(now[slots].tolist(), slots.tolist(), strict=True))

    def _find_sorted(self, pks: Pks) -> Pks:
        if not len(self._pks):
            return np.full(len(pks), -1, np.int64)
        places = np.minimum(np.searchsorted(self._pks, pks), len(self._pks) - 1)
        return np.where(self._pks[places] == pks, self._slots[places], -1)


class ScopeSlots:
    """From a scope to the slots of its memories."""

    def __init__(self) -> None:
        self._scopes = self._slots = self._known = np.empty(0, np.int64)
        self._starts = np.zeros(1, np.int64)
        self._newer: defaultdict[int, list[int]] = defaultdict(list)
        self._newer_count = 0

    def find(self, scopes: Collection[int], now: Pks) -> Pks:
        """Every slot of the given scopes, each once; ascending within a scope but for the newest.

        Args:
            scopes: Their ids, each at least 0; one named twice counts once.
            now: The scope in each slot, below 0 where the slot is free.
        """
        wanted = np.unique(np.fromiter(scopes, np.int64, len(scopes)))
        older, newer = self._find_sorted(wanted, now), self._find_newer(wanted, now)
        return np.concatenate([older, newer]) if len(newer) else older

    def note(self, slots: Pks, now: Pks, count: int) -> None:
        """Take notice of new tenants in *slots*; the first *count* slots are taken."""
        if _is_large(self._newer_count + len(slots), count):
            self._sort(now[:count])
            return
        listed = slots < len(self._known)
        listed[listed] = self._known[slots[listed]] == now[slots[listed]]
        fresh = slots[~listed]
        for scope, slot in zip(now[fresh].tolist(), fresh.tolist(), strict=True):
            self._newer[scope].append(slot)
        self._newer_count += len(fresh)

    def _sort(self, now: Pks) -> None:
        self._slots, self._known = np.argsort(now, kind="stable"), now.copy()
        self._scopes, counts = np.unique(now, return_counts=True)
        self._starts = np.concatenate([[0], np.cumsum(counts)])
        self._newer.clear()
        self._newer_count = 0

    def _find_sorted(self, wanted: Pks, now: Pks) -> Pks:
        known = np.flatnonzero(np.isin(self._scopes, wanted, assume_unique=True))
        if len(known) == 1:  # the common case needs no index arithmetic: one scope is one slice
            slots = self._slots[self._starts[known[0]] : self._starts[known[0] + 1]]
        else:
            slots = self._slots[_ranges(self._starts[known], self._starts[known + 1])]
        kept: Pks = slots[now[slots] == self._known[slots]]
        return kept

    def _find_newer(self, wanted: Pks, now: Pks) -> Pks:
        if not self._newer_count:
            return np.empty(0, np.int64)
        listed = [(scope, slot) for scope in wanted.tolist() for slot in self._newer.get(scope, ())]
        pairs: Pks = np.array(listed, np.int64).reshape(-1, 2)
        return np.unique(pairs[now[pairs[:, 1]] == pairs[:, 0], 1])


def _ranges(starts: Pks, ends: Pks) -> Pks:
    """The numbers of several ranges, one after the other."""
    lengths = ends - starts
    before = np.cumsum(lengths) - lengths
    numbers: Pks = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
    return numbers
