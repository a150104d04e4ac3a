"""The index of a process and a dictionary, kept side by side by Hypothesis: they never differ."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from langmem_adapter.index.base import Batch, Nearest, cosines
from langmem_adapter.index.faiss import FaissIndex
from langmem_adapter.index.generations import Generations
from langmem_adapter.index.segment import Contents
from langmem_adapter.storage.feed import Cursor

D = 4
CURSOR = Cursor(1, b"12345678", "hash:4")
_pk = st.integers(0, 60)
_scope = st.integers(0, 5)
_pks = st.sets(_pk, max_size=20)
# Few different numbers, so that ties abound; products of them are exact in float32.
_vector = st.lists(st.sampled_from([-0.5, 0.0, 0.25, 1.0]), min_size=D, max_size=D)


def _numbers(values: Any) -> Any:
    return np.array(sorted(values), np.int64)


class Plain:
    """A dictionary of rows: what an index must say."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, Any]] = {}

    def update(self, batch: Batch) -> None:
        for pk in batch.gone.tolist():
            self.rows.pop(pk, None)
        rows = zip(batch.pks.tolist(), batch.scopes.tolist(), batch.vectors, strict=True)
        self.rows |= {pk: (scope, vector.copy()) for pk, scope, vector in rows}

    def adopt(self, batch: Batch) -> None:
        self.rows.clear()
        self.update(batch)

    def pks(self) -> Any:
        return _numbers(self.rows)

    def scopes_of(self, pks: Any) -> Any:
        return np.array([self.rows[pk][0] if pk in self.rows else -1 for pk in pks.tolist()], np.int64)

    def vectors(self, pks: Any) -> Any:
        rows = [self.rows[pk][1] if pk in self.rows else [np.nan] * D for pk in pks.tolist()]
        return np.array(rows, np.float32).reshape(-1, D)

    def scores(self, query: Any, pks: Any) -> Any:
        return cosines(self.vectors(pks), query)

    def search(self, query: Any, k: int, *, scopes: set[int], pks: Any) -> Nearest:
        chosen = _numbers(pk for pk, row in self.rows.items() if row[0] in scopes and (pks is None or pk in pks))
        scores = self.scores(query, chosen)
        order = np.lexsort((chosen, -scores))[:k]
        return Nearest(chosen[order], scores[order])


class SideBySide(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._own = TemporaryDirectory()
        self.folder = Path(self._own.name)

    def teardown(self) -> None:
        self._own.cleanup()

    @initialize(many=st.sampled_from([0, 3000]))
    def fill(self, many: int) -> None:
        """Sometimes so many rows that the overlay was sorted in and the tail is long."""
        self.fast, self.plain = FaissIndex(D), Plain()
        if many:
            rng = np.random.default_rng(many)
            vectors = rng.integers(-2, 3, (many, D)).astype(np.float32) / 4
            self._update(np.arange(many) // 2 * 3 + np.arange(many) % 2, rng.integers(0, 6, many), vectors, [])

    @rule(rows=st.dictionaries(_pk, st.tuples(_scope, _vector), max_size=30), gone=_pks)
    def update(self, rows: dict[int, tuple[int, list[float]]], gone: set[int]) -> None:
        vectors = np.array([row[1] for row in rows.values()], np.float32).reshape(-1, D)
        self._update(list(rows), [row[0] for row in rows.values()], vectors, gone - set(rows))

    @rule(first=st.integers(0, 4000), count=st.integers(500, 2500))
    def delete_many(self, first: int, count: int) -> None:
        self._update([], [], np.empty((0, D), np.float32), range(first, first + count))

    @rule(query=_vector, k=st.integers(1, 40) | st.just(5000), scopes=st.sets(_scope), pks=st.none() | _pks)
    def search(self, query: list[float], k: int, scopes: set[int], pks: set[int] | None) -> None:
        asked = np.array(query, np.float32)
        chosen = None if pks is None else _numbers(pks)
        fast = self.fast.search(asked, k, scopes=scopes, pks=chosen)
        plain = self.plain.search(asked, k, scopes=scopes, pks=chosen)
        assert fast.pks.tolist() == plain.pks.tolist()
        assert fast.scores.tolist() == plain.scores.tolist()

    @rule(query=_vector, pks=_pks)
    def look_up(self, query: list[float], pks: set[int]) -> None:
        asked, chosen = np.array(query, np.float32), _numbers(pks)
        np.testing.assert_array_equal(self.fast.scores(asked, chosen), self.plain.scores(asked, chosen))
        np.testing.assert_array_equal(self.fast.vectors(chosen), self.plain.vectors(chosen))

    @rule(mapped=st.booleans())
    def merge(self, mapped: bool) -> None:  # noqa: FBT001 - Hypothesis gives it by name
        """Into the next generation of its files."""
        files = Generations(self.folder / "x.index", mapped=mapped)
        files.publish(self.fast.contents, CURSOR)
        self._hold(files)

    @rule()
    def merge_in_memory(self) -> None:
        self.fast.hold(Contents.of(self.fast.contents.in_memory()))

    @rule(mapped=st.booleans())
    def go_back_to_the_files(self, mapped: bool) -> None:  # noqa: FBT001 - Hypothesis gives it by name
        """As a process does that reads a generation and then the changes since."""
        if self._hold(Generations(self.folder / "x.index", mapped=mapped)):
            gone = np.setdiff1d(self.fast.pks(), pks := self.plain.pks())
            self.fast.update(Batch(pks, self.plain.scopes_of(pks), self.plain.vectors(pks), gone))

    def _hold(self, files: Generations) -> bool:
        generation = files.latest(CURSOR.fingerprint)
        if generation is not None:
            self.fast.hold(Contents.of(generation.segment))
        return generation is not None

    @rule()
    def begin_to_search(self) -> None:
        """What it held stays as it is, whatever comes."""
        held = self.fast.contents
        self.begun = held, held.pks(), next(held.merged(10_000)[1], None)

    @rule()
    def go_on_searching(self) -> None:
        held, pks, vectors = getattr(self, "begun", (self.fast.contents, self.fast.pks(), None))
        np.testing.assert_array_equal(held.pks(), pks)
        if vectors is not None:
            np.testing.assert_array_equal(next(held.merged(10_000)[1]), vectors)

    @rule(by_scope=st.booleans())
    def load(self, by_scope: bool) -> None:  # noqa: FBT001 - Hypothesis gives it by name
        pks = self.plain.pks()
        scopes = self.plain.scopes_of(pks)
        pks = pks[np.argsort(scopes, kind="stable")] if by_scope else pks[::-1].copy()
        batch = Batch(pks, self.plain.scopes_of(pks), self.plain.vectors(pks), _numbers([]))
        self.fast = FaissIndex(D)
        self.fast.adopt(batch)
        self.plain.adopt(batch)

    @rule()
    def clear(self) -> None:
        self.fast.adopt(Batch.empty(D))
        self.plain.adopt(Batch.empty(D))

    @invariant()
    def hold_the_same(self) -> None:
        if hasattr(self, "fast"):
            pks = self.plain.pks()
            assert len(self.fast) == len(pks)
            np.testing.assert_array_equal(self.fast.pks(), pks)
            np.testing.assert_array_equal(self.fast.scopes_of(pks), self.plain.scopes_of(pks))
            np.testing.assert_array_equal(self.fast.vectors(pks), self.plain.vectors(pks))

    def _update(self, pks: Any, scopes: Any, vectors: Any, gone: Any) -> None:
        batch = Batch(np.array(pks, np.int64), np.array(scopes, np.int64), vectors, _numbers(gone))
        self.fast.update(batch)
        self.plain.update(batch)


SideBySide.TestCase.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
TestSideBySide = SideBySide.TestCase
