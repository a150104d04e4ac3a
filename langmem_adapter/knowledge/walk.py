"""Walks through the knowledge graph, and the evidence that they give a search.

A relation is walked in both directions: whoever lives in Lyon is as near to Lyon as Lyon is to them. Neighbours and paths ask
the database hop by hop, in graphs of any size: one hop reads a few rows, where loading a scope of 100,000 relations takes a
quarter of a second. Every walk is deterministic: what was recorded last is followed first.

"Where does my sister's husband work?" shares a word with everybody's employer. The memories about the sister lead to her
husband, and he to where he works: a personalised PageRank over the entities and memories around the question, as in HippoRAG
(Gutiérrez et al. 2024, arXiv:2405.14831), without its calls of a model. Only what lies within three steps is read, so a search
costs six statements, over several scopes some more, however large the graph is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from sqlalchemy import or_, select

from langmem_adapter.names import candidate_keys, owner_key
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.storage.graph import reads as graph_reads
from langmem_adapter.storage.graph.reads import People, called, with_keys
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.scopes import expand
from langmem_adapter.storage.tables import BELIEVED, ENDS, SAYS, memories, relation_memories, relations, scopes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.reads import When

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


_HOPS: Final = 2
_MOST: Final = 1_000  # relations read at each step
_BESIDE: Final = 0.3  # what the memories that answer a question best count beside a name in it
_SHARPNESS: Final = 6  # how much more one of them that stands out counts than the others
_LEAST: Final = 0.02
_DAMPING: Final = 0.8
_POWER: Final = 0.5  # three steps away little of a walk is left

_ends: Final = (relations.c.id, *ENDS)
_OWNERS: Final = Prepared(select(scopes.c.user_id, scopes.c.agent_id).where(any_of(scopes.c.id, "scopes")).distinct())
_SAID: Final = Prepared(
    select(*_ends)
    .join_from(memories, relation_memories, relation_memories.c.memory_id == memories.c.id)
    .join(relations, relations.c.id == relation_memories.c.relation_id)
    .where(any_of(memories.c.pk, "pks"), SAYS, BELIEVED)
)
_AROUND: Final = Prepared(select(*_ends).where(or_(*(any_of(end, "pks") for end in ENDS)), BELIEVED).limit(_MOST))
_SPEAKERS: Final = Prepared(
    select(relation_memories.c.relation_id, memories.c.pk)
    .join_from(relation_memories, memories, memories.c.id == relation_memories.c.memory_id)
    .where(
        any_of(relation_memories.c.relation_id, "ids"),
        SAYS,
        any_of(memories.c.scope_id, "scopes"),
    )
)


class GraphEvidence:
    """Leads to memories whose relations are near to those of the question."""

    def leads(
        self, connection: Connection, scope_ids: Sequence[int], text: str, best: Mapping[int, float]
    ) -> Mapping[int, float]:
        """What the relations of the question lead to: see `EvidenceSource.leads`."""
        around = _Around(connection, scope_ids)
        named, begins = around.named(text), _strengths(best)
        around.take(_SAID, begins)
        for _ in range(_HOPS):
            around.widen()
        return _ranked(around, named, begins) if around.relations else {}


class _Ends(NamedTuple):
    """The two ends of a relation, without those whom the memories are about."""

    source: int
    target: int
    led: tuple[int, ...]


class _Around:
    """The part of the graph around a question. Entities are told apart as the reader of several scopes does."""

    def __init__(self, connection: Connection, scope_ids: Sequence[int]) -> None:
        self.relations: dict[str, _Ends] = {}
        self._connection = connection
        self._scope_ids = scope_ids
        self._people = People(connection, scope_ids) if len(scope_ids) > 1 else None
        self._fresh: set[int] = set()
        self._seen: set[int] = set()
        self._owners: set[int] = set()

    def named(self, text: str) -> set[int]:
        """The entities whose names stand in a text; the walk begins with them."""
        whose = _OWNERS.rows(self._connection, {"scopes": self._scope_ids})
        owners = {owner_key(who, id_) for row in whose for who, id_ in zip((SELF, ASSISTANT), row, strict=True) if id_}
        found = with_keys(self._connection, self._scope_ids, candidate_keys(text) | owners)
        # Nearly everything is said of the owners: nothing is near because it is near to them.
        self._owners = {self._who(pk) for key, pk in found if key in owners}
        named = {self._who(pk) for key, pk in found} - self._owners
        self._fresh |= named
        return named

    def take(self, statement: Prepared, pks: Iterable[int]) -> None:
        """Read relations."""
        found = [row for row in statement.rows(self._connection, {"pks": list(pks)}) if row[0] not in self.relations]
        if self._people is not None:
            self._people.meet(pk for _, *ends in found for pk in ends)
        for relation_id, *ends in found:
            source, target = map(self._who, ends)
            led = tuple({source, target} - self._owners)
            self.relations[relation_id] = _Ends(source, target, led)
            self._fresh.update(led)

    def widen(self) -> None:
        """Read the relations of every entity that was met last."""
        fresh = self._fresh - self._seen
        self._seen |= fresh
        if fresh:
            self.take(_AROUND, fresh if self._people is None else self._people.everyone(fresh))

    def speakers(self) -> list[tuple[str, int]]:
        """Which memories say the relations."""
        return _SPEAKERS.rows(self._connection, {"ids": list(self.relations), "scopes": self._scope_ids})

    def _who(self, pk: int) -> int:
        return pk if self._people is None else self._people.who(pk)


def _ranked(around: _Around, named: Collection[int], begins: Mapping[int, float]) -> dict[int, float]:
    """Memories by how much of the walk from the question comes by them."""
    said = around.speakers()
    memory = {pk: number for number, pk in enumerate(dict.fromkeys((*begins, *(pk for _, pk in said))))}
    entity: dict[int, int] = {}
    for pk in (*named, *(end for ends in around.relations.values() for end in ends.led)):
        entity.setdefault(pk, len(memory) + len(entity))
    edges = {(memory[pk], entity[end]) for relation_id, pk in said for end in around.relations[relation_id].led}
    edges |= {(entity[r.source], entity[r.target]) for r in around.relations.values() if len(r.led) > 1}
    if not edges:
        return {}
    seeds = np.zeros(len(memory) + len(entity))
    for pk, strength in begins.items():
        seeds[memory[pk]] = strength * (_BESIDE if named else 1)
    seeds[[entity[pk] for pk in named]] = 1
    met = _met(np.array(sorted(edges), np.int64), seeds, len(memory))
    most = met.max(initial=0.0)
    return {pk: float(met[number] / most) ** _POWER for pk, number in memory.items() if met[number] > 0}


def _met(edges: NDArray[np.int64], seeds: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """How often a walk from the seeds comes by each of the memories, which are the first *count* numbers."""
    one, other = _leading_on(edges, count)
    ranks = pagerank(one, other, seeds, damping=_DAMPING)
    ranks -= seeds / max(seeds.sum(), 1e-9) * (1 - _DAMPING)  # what came by, without what began there
    led = np.zeros(len(seeds), np.bool_)
    led[one] = True
    met: NDArray[np.float64] = np.where(led, ranks, 0.0)[:count]
    return met


def _leading_on(edges: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The edges without those to entities that only one memory speaks of: they lead nowhere else."""
    one, other = edges.T
    degrees = np.bincount(edges.ravel())
    kept = (degrees[other] > 1) & ((one < count) | (degrees[one] > 1))
    return one[kept], other[kept]


def _strengths(best: Mapping[int, float]) -> dict[int, float]:
    """How much the walk begins at the best memories: much more at one that stands out, not at all at the many."""
    least, most = min(best.values(), default=0.0), max(best.values(), default=0.0)
    told = {pk: ((score - least) / (most - least)) ** _SHARPNESS for pk, score in best.items()} if most > least else {}
    return {pk: strength for pk, strength in told.items() if strength >= _LEAST}
