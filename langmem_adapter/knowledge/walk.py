"""Walks through the knowledge graph: who is near, how two are connected, and how near everybody is to some (PageRank).

A relation is walked in both directions: whoever lives in Lyon is as near to Lyon as Lyon is to them. Neighbours and paths ask
the database hop by hop, in graphs of any size: one hop reads a few rows, where loading a scope of 100,000 relations takes a
quarter of a second. Every walk is deterministic: what was recorded last is followed first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from langmem_adapter.storage.graph import reads as graph_reads
from langmem_adapter.storage.graph.people import People, called
from langmem_adapter.storage.scopes import expand

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.reads import When

__all__ = ["Around", "Ground", "Hop", "Reached", "pagerank", "reach", "shortest"]

Hop: TypeAlias = tuple[int, int, int]
"""A relation: its number, and those of the entities that it is from and to."""
Around: TypeAlias = Callable[[Sequence[int]], Sequence[Hop]]
"""Gives the relations of some entities, the newest first."""

_TOGETHER: Final = 256
"""Entities whose relations are asked for at once, at most; a walk that ends early begins with few."""


class Ground:
    """A graph to walk on: that of a scope, as it was at some time. Entities that are one have one number."""

    def __init__(self, connection: Connection, scope: Scope, when: When) -> None:
        self._connection = connection
        self._scope = scope
        self._scope_ids = expand(connection, scope)
        self._when = when
        self.people: Final = People(connection, self._scope_ids)

    def called(self, name: str) -> list[int]:
        """Numbers of those that go by a name, ascending; mostly one, or none."""
        pks = called(self._connection, self._scope, self._scope_ids, name)
        self.people.meet(pks)
        return sorted(set(map(self.people.who, pks)))

    def around(self, numbers: Sequence[int], *, most: int = graph_reads.ALL) -> list[Hop]:
        """The relations of some entities, the newest first; of those with more than so many the newest, in each direction."""
        pks = [pk for number in numbers for pk in self.people.members(number)]
        rows = graph_reads.around(self._connection, pks, self._when, most=most)
        self.people.meet(pk for _, *ends in rows for pk in ends)
        who = self.people.who
        return [(pk, who(source), who(target)) for pk, source, target in rows]


@dataclass(frozen=True, slots=True)
class Reached:
    """After how many hops a walk came to an entity, and which relations led to it from one hop nearer, newest first."""

    hops: int
    relations: list[int]


def reach(around: Around, starts: Sequence[int], *, hops: int, most: int) -> dict[int, Reached]:
    """Everybody up to some hops away, breadth first, at most so many; in the order in which they are found."""
    found: dict[int, Reached] = {}
    last: Sequence[int] = starts
    for hop in range(1, hops + 1):
        near, reached = set(last), list[int]()
        for some in _together(last):
            for pk, far in _leaving(around(some), near):
                if far in found:
                    found[far].relations.extend([pk] * (found[far].hops == hop))
                elif far not in starts and len(found) < most:
                    found[far] = Reached(hop, [pk])
                    reached.append(far)
            if len(found) == most:
                return found
        last = reached
    return found


def _together(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    start, size = 0, 4
    while start < len(numbers):
        yield numbers[start : start + size]
        start, size = start + size, min(2 * size, _TOGETHER)


def _leaving(edges: Sequence[Hop], near: set[int]) -> Iterator[tuple[int, int]]:
    """Relations that lead away from some entities, and where to."""
    for pk, source, target in edges:
        if source in near and target not in near:
            yield pk, target
        elif target in near and source not in near:
            yield pk, source


def shortest(around: Around, starts: Sequence[int], goals: Sequence[int], *, most: int) -> list[int]:
    """The relations, at most so many, on a shortest way from one of some entities to one of others, found from both sides.

    Empty where there is no such way, or nothing to walk.
    """
    if not starts or not goals or not set(starts).isdisjoint(goals):
        return []
    came: tuple[_Came, _Came] = (dict.fromkeys(starts), dict.fromkeys(goals))
    last = [list(starts), list(goals)]
    for _ in range(most):
        side = int(len(last[1]) < len(last[0]))
        last[side], met = _advance(around, last[side], came[side], came[1 - side])
        if met is not None:
            return [*reversed(_back(came[0], met)), *_back(came[1], met)]
        if not last[side]:
            break
    return []


_Came: TypeAlias = dict[int, tuple[int, int] | None]
"""For each entity that was reached, the relation that led to it and from where; `None` where the walk began."""


def _advance(around: Around, last: Sequence[int], came: _Came, other: _Came) -> tuple[list[int], int | None]:
    """One hop on one side: whom it reaches, and where it meets the other side."""
    reached: list[int] = []
    for some in _together(last):
        near = set(some)
        for pk, one, two in around(some):
            for here, far in ((one, two), (two, one)):
                if here not in near or far in came:
                    continue
                came[far] = pk, here
                if far in other:
                    return reached, far
                reached.append(far)
    return reached, None


def _back(came: _Came, number: int) -> list[int]:
    relations: list[int] = []
    while (step := came[number]) is not None:
        relations.append(step[0])
        number = step[1]
    return relations


def pagerank(
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    seeds: NDArray[np.float64],
    *,
    damping: float = 0.5,
    rounds: int = 20,
) -> NDArray[np.float64]:
    """How near everybody is to some: personalised PageRank (Haveliwala 2002), as HippoRAG finds passages with it.

    Somebody who walks from the seeds along random relations, in both directions, and goes back to a seed every other step is
    to be met that often.

    Args:
        sources: Number of the entity that each relation is from, 0 to n - 1, shape (m,).
        targets: That of the entity that it is to, shape (m,).
        seeds: How much of the walk begins at each entity, and goes back to it, 0 or more, shape (n,).
        damping: Chance of going on instead of back.
        rounds: Steps that are computed; each leaves *damping* times the error of the one before.

    Returns:
        Chances, shape (n,), that sum up to 1; all 0 where the walk begins nowhere.

    Example:
        >>> pagerank(np.array([0, 1]), np.array([1, 2]), np.array([1.0, 0, 0, 0])).round(2).tolist()
        [0.58, 0.33, 0.08, 0.0]
    """
    if not seeds.any():
        return np.zeros(len(seeds))
    back: NDArray[np.float64] = seeds / seeds.sum()
    leave, arrive = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    degrees = np.bincount(leave, minlength=len(seeds))
    shares, stuck = 1 / np.maximum(degrees, 1), degrees == 0
    ranks: NDArray[np.float64] = back
    for _ in range(rounds):
        moved = np.bincount(arrive, weights=(ranks * shares)[leave], minlength=len(seeds))
        ranks = damping * (moved + ranks[stuck].sum() * back) + (1 - damping) * back
    return ranks
