"""Evidence from the knowledge graph: what the relations of the things that a question names lead to.

"Where does my sister's husband work?" shares a word with everybody's employer. The memories about the sister lead to her
husband, and he to where he works: a personalised PageRank over the entities and memories around the question, as in HippoRAG
(Gutiérrez et al. 2024, arXiv:2405.14831), without its calls of a model. Only what lies within three steps is read, so a search
costs a handful of statements, however large the graph is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import select

from langmem_adapter.knowledge.walk import pagerank
from langmem_adapter.names import entity_key, keys_in
from langmem_adapter.storage.graph_people import People, with_keys
from langmem_adapter.storage.graph_tables import relation_memories, relations
from langmem_adapter.storage.prepared import Prepared, any_of
from langmem_adapter.storage.tables import memories, scopes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

__all__ = ["GraphEvidence"]

_HOPS: Final = 2
_MOST: Final = 1_000  # relations read at each step
_BESIDE: Final = 0.3  # what the memories that answer a question best count beside a name in it

_SHARPNESS: Final = 6  # and how much more one that stands out counts than the others
_DAMPING: Final = 0.8
_POWER: Final = 0.5  # three steps away little of a walk is left

_believed: Final = relations.c.retired_at.is_(None)
_ends: Final = relations.c.pk, relations.c.id, relations.c.source_pk, relations.c.target_pk
_OWNERS: Final = Prepared(select(scopes.c.user_id, scopes.c.agent_id).where(any_of(scopes.c.id, "scopes")).distinct())
_SAID: Final = Prepared(
    select(*_ends)
    .join_from(memories, relation_memories, relation_memories.c.memory_id == memories.c.id)
    .join(relations, relations.c.id == relation_memories.c.relation_id)
    .where(any_of(memories.c.pk, "pks"), relation_memories.c.dropped_at.is_(None), _believed)
)
_FROM: Final = Prepared(select(*_ends).where(any_of(relations.c.source_pk, "pks"), _believed).limit(_MOST))
_TO: Final = Prepared(select(*_ends).where(any_of(relations.c.target_pk, "pks"), _believed).limit(_MOST))
_SPEAKERS: Final = Prepared(
    select(relation_memories.c.relation_id, memories.c.pk)
    .join_from(relation_memories, memories, memories.c.id == relation_memories.c.memory_id)
    .where(
        any_of(relation_memories.c.relation_id, "ids"),
        relation_memories.c.dropped_at.is_(None),
        any_of(memories.c.scope_id, "scopes"),
    )
)


class GraphEvidence:
    """Leads to memories whose relations are near to those of the question."""

    def leads(
        self, connection: Connection, scope_ids: Sequence[int], text: str, best: Mapping[int, float]
    ) -> Mapping[int, float]:
        """See `search.base.EvidenceSource.leads`."""
        around = _Around(connection, scope_ids)
        named = around.named(text)
        around.take(_SAID, best)
        for _ in range(_HOPS):
            around.widen()
        return around.ranked(named, best) if around.relations else {}


@dataclass(slots=True, eq=False)
class _Around:
    """The part of the graph around a question."""

    connection: Connection
    scope_ids: Sequence[int]
    people: People = field(init=False)
    owners: set[int] = field(init=False)
    relations: dict[int, Any] = field(default_factory=dict)
    ends: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.people = People(self.connection, self.scope_ids)
        # Nearly everything is said of them: nothing is near because it is near to them.
        rows = _OWNERS.tuples(self.connection, {"scopes": self.scope_ids})
        keys = {entity_key(name) for row in rows for name in row if name is not None}
        self.owners = self._entities(keys)

    def named(self, text: str) -> set[int]:
        """The entities whose names stand in a text; the step begins with them."""
        found = self._entities(keys_in(text)) - self.owners
        self.ends |= found
        return found

    def take(self, statement: Prepared, pks: Iterable[int]) -> None:
        """Read relations."""
        for row in statement.rows(self.connection, {"pks": list(pks)}):
            self.relations[row.pk] = row
            self.ends |= {row.source_pk, row.target_pk}

    def widen(self) -> None:
        """Read the relations of every entity that was met last."""
        fresh = self.ends - self.seen - self.owners
        if fresh:
            self.seen |= fresh
            everyone = self.people.everyone(fresh)
            self.take(_FROM, everyone)
            self.take(_TO, everyone)

    def ranked(self, named: set[int], best: Mapping[int, float]) -> dict[int, float]:
        """Memories by how much of the walk from the question comes by them."""
        said = self._speakers()
        memory = {pk: number for number, pk in enumerate(dict.fromkeys((*best, *(pk for _, pk in said))))}
        entity = self._numbered(len(memory))
        edges = {(memory[pk], entity[end]) for relation, pk in said for end in self._walked(relation)}
        edges |= {
            (entity[r.source_pk], entity[r.target_pk]) for r in self.relations.values() if len(self._walked(r)) > 1
        }
        seeds = np.zeros(1 + max((*memory.values(), *entity.values())))
        begins = named & entity.keys()
        for pk, strength in _strengths(best).items():
            seeds[memory[pk]] = strength * (_BESIDE if begins else 1)
        for pk in begins:
            seeds[entity[pk]] = 1
        one, other = _leading_on(np.array(sorted(edges), np.int64).reshape(-1, 2), len(memory))
        ranks = pagerank(one, other, seeds, damping=_DAMPING)
        ranks[np.setdiff1d(np.arange(len(memory)), one)] = 0  # nothing leads there
        ranks -= seeds / max(seeds.sum(), 1e-9) * (1 - _DAMPING)  # what came by, without what began there
        most = max(ranks[number] for number in memory.values())
        told = {pk: ranks[number] / most for pk, number in memory.items() if most > 0 and ranks[number] > 0}
        return {pk: float(share) ** _POWER for pk, share in told.items()}

    def _walked(self, relation: Any) -> list[int]:
        return [end for end in (relation.source_pk, relation.target_pk) if end not in self.owners]

    def _numbered(self, first: int) -> dict[int, int]:
        self.people.meet(self.ends)
        numbers: dict[int, int] = {}
        return {pk: numbers.setdefault(self.people.who(pk), first + len(numbers)) for pk in sorted(self.ends)}

    def _speakers(self) -> list[tuple[Any, int]]:
        by_id = {row.id: row for row in self.relations.values()}
        rows = _SPEAKERS.tuples(self.connection, {"ids": list(by_id), "scopes": self.scope_ids})
        return [(by_id[relation_id], pk) for relation_id, pk in rows]

    def _entities(self, keys: Collection[str]) -> set[int]:
        return set(self.people.everyone({pk for _, pk in with_keys(self.connection, self.scope_ids, keys)}))


def _strengths(best: Mapping[int, float]) -> dict[int, float]:
    """How much the walk begins at each of the best memories: much more at one that stands out."""
    least, most = min(best.values(), default=0.0), max(best.values(), default=0.0)
    return {pk: ((score - least) / (most - least)) ** _SHARPNESS for pk, score in best.items()} if most > least else {}


def _leading_on(edges: NDArray[np.int64], first: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The edges without those to entities, numbered from *first*, that only one memory speaks of: they lead nowhere else."""
    one, other = edges.T
    degrees = np.bincount(edges.ravel(), minlength=first)
    kept = (degrees[other] > 1) & ((one < first) | (degrees[one] > 1))
    return one[kept], other[kept]
