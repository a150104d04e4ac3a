"""Evidence from the knowledge graph: what the relations of the things that a question names lead to.

"Where does my sister's husband work?" shares a word with everybody's employer. The memories about the sister lead to her
husband, and he to where he works: a personalised PageRank over the entities and memories around the question, as in HippoRAG
(Gutiérrez et al. 2024, arXiv:2405.14831), without its calls of a model. Only what lies within three steps is read, so a search
costs six statements, over several scopes some more, however large the graph is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from sqlalchemy import or_, select

from langmem_adapter.knowledge.walk import pagerank
from langmem_adapter.names import keys_in, owner_key
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.storage.graph.people import People, with_keys
from langmem_adapter.storage.graph.tables import BELIEVED, ENDS, SAYS, relation_memories, relations
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.tables import memories, scopes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

__all__ = ["GraphEvidence"]

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
        found = with_keys(self._connection, self._scope_ids, keys_in(text) | owners)
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
