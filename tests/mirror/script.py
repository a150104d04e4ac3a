"""A scripted history of a knowledge graph: adds, ends, merges, splits, restores, purges, rolled by a seeded die."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.errors import EntityNotFoundError, InvalidInputError, RelationNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from langmem_adapter import Memory

__all__ = ["USERS", "History"]

USERS: Final = ("alice", "bob", "陈伟")
_NAMES: Final = "Anna Ben Carla Dörte Eva Franz Acme Lyon Oslo 北京 O'Neill Google".split()
_VERBS: Final = ("lives in", "works at", "knows", "likes", "is married to", "喜欢")
_SAID: Final = (
    "I live in {}.",
    "I work at {}.",
    "My sister {} lives in Lyon.",
    "I like {}.",
    "My brother is called {}.",
)


class History:
    """Changes a memory step by step; the same seed rolls the same steps.

    Args:
        memory: With a graph.
        seed: Of the die.
    """

    def __init__(self, memory: Memory, seed: int) -> None:
        self._memory = memory
        self._die = random.Random(seed)
        self._kinds: list[tuple[Callable[[dict[str, Any]], object], int]] = [
            (self._add, 90),
            (self._say, 75),
            (self._rewrite, 18),
            (self._forget, 18),
            (self._restore, 18),
            (self._end, 24),
            (self._withdraw, 12),
            (self._merge, 18),
            (self._split, 15),
            (self._withdraw_all, 1),
            (self._purge, 1),
        ]

    def step(self) -> None:
        """One change; what cannot be done where it stands is another kind of nothing."""
        kinds, weights = zip(*self._kinds, strict=True)
        kind = self._die.choices(kinds, weights)[0]
        try:
            kind({"user_id": self._die.choice(USERS)})
        except (EntityNotFoundError, InvalidInputError, RelationNotFoundError):
            return

    def _name(self) -> str:
        return self._die.choice(_NAMES)

    def _add(self, whose: dict[str, Any]) -> None:
        year = self._die.randint(2000, 2025)
        until = f"{self._die.randint(year + 1, 2027)}-01-01" if self._die.random() < 0.3 else None
        verb, kind = self._die.choice(_VERBS), self._die.choice((None, "person", "city"))
        source, target = self._die.sample(["me", *_NAMES], 2)
        self._memory.graph.add(
            source, verb, target, target_type=kind, valid_from=f"{year}-01-01", valid_to=until, **whose
        )

    def _say(self, whose: dict[str, Any]) -> None:
        self._memory.add(self._die.choice(_SAID).format(self._name()), **whose)

    def _rewrite(self, whose: dict[str, Any]) -> None:
        if found := self._memory.get_all(**whose):
            self._memory.update(self._die.choice(list(found)).id, f"Lives in {self._name()}", **whose)

    def _forget(self, whose: dict[str, Any]) -> None:
        if found := self._memory.get_all(**whose):
            self._memory.delete(self._die.choice(list(found)).id, **whose)

    def _restore(self, whose: dict[str, Any]) -> None:
        if found := self._memory.get_all(**whose):
            chosen = self._die.choice(list(found))
            self._memory.restore(chosen.id, self._die.randint(1, chosen.revision), **whose)

    def _relation(self, whose: dict[str, Any]) -> str:
        found = self._memory.graph.relations(k=1_000, **whose)
        return self._die.choice(list(found)).id if found else "none"

    def _end(self, whose: dict[str, Any]) -> None:
        self._memory.graph.end(self._relation(whose), at=f"{self._die.randint(2001, 2026)}-06-01", **whose)

    def _withdraw(self, whose: dict[str, Any]) -> None:
        self._memory.graph.delete(self._relation(whose), **whose)

    def _merge(self, whose: dict[str, Any]) -> None:
        self._memory.graph.merge(self._name(), self._name(), **whose)

    def _split(self, whose: dict[str, Any]) -> None:
        self._memory.graph.split(self._name(), **whose)

    def _withdraw_all(self, whose: dict[str, Any]) -> None:
        self._memory.graph.delete_all(**whose)

    def _purge(self, whose: dict[str, Any]) -> None:
        self._memory.purge(**whose)
