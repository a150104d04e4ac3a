"""Walks through the knowledge graph: neighbours, paths, what lies around an entity, and evidence for searches.

A relation is followed in both directions, and the newest recorded first, so every walk gives the same each time. Neighbours and
paths ask the database hop by hop, in graphs of any size: one hop reads a few rows, where loading a scope of 100,000 relations
takes a quarter of a second.

The graph has no vectors. What is near in meaning is found through the memories that answer a question, and the relations that
they state. "Where does my sister's husband work?" shares a word with everybody's employer: the memories about the sister lead
to her husband, and he to his employer, by a personalised PageRank over the entities and memories around the question, as in
HippoRAG (Gutiérrez et al. 2024, arXiv:2405.14831), without its calls of a model. Only what lies within three steps is read,
so a search costs six statements, over several scopes some more, however large the graph is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import log, sqrt
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from sqlalchemy import or_, select

from langmem_adapter.names import candidate_keys, owner_key
from langmem_adapter.records.graph import ASSISTANT, SELF, Entity, Neighbour, Relation
from langmem_adapter.search.query import LONGEST
from langmem_adapter.storage.graph import reads
from langmem_adapter.storage.graph.reads import EntityGroups, find_entities, with_keys
from langmem_adapter.storage.meta import language_of
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.scopes import expand
from langmem_adapter.storage.tables import CURRENT, ENDS, SAYS, memories, relation_memories, relations, scopes
from langmem_adapter.text import content_words, subjects

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.reads import GraphTime

MOST_NODES: Final = 400
"""Entities of a drawing; viewers give up beyond."""
COUNTED: Final = 1_000
"""Entities around one are counted up to so many: each costs a look at its relations."""
_FOLLOWED: Final = (
    100  # relations of an entity that are followed in each direction, in addition to the number of neighbours
)
_MOST_ARROWS: Final = 2_000  # relations of a drawing
_MOST_TIES: Final = 1_000  # relations around one entity
_NEWEST: Final = 500  # relations of the scope, and of each named entity, that are compared with the words of a question
_TOGETHER: Final = 256  # most entities of one read of relations; a walk that ends early begins with few

Hop: TypeAlias = tuple[int, int, int]
"""A relation: its number, and those of the entities that it is from and to."""
Around: TypeAlias = Callable[[Sequence[int]], Sequence[Hop]]
"""Gives the relations of some entities, the newest first."""


class GraphSnapshot:
    """The graph of a scope, as of some time. Entities that are one have one number."""

    def __init__(self, connection: Connection, scope: Scope, when: GraphTime) -> None:
        self._connection = connection
        self._scope = scope
        self._scope_ids = expand(connection, scope)
        self._when = when
        self.groups: Final = EntityGroups(connection, self._scope_ids)

    def find(self, name: str) -> list[int]:
        """Numbers of those that have a name, ascending; mostly one, or none."""
        pks = find_entities(self._connection, self._scope, self._scope_ids, name)
        self.groups.load(pks)
        return sorted(set(map(self.groups.first, pks)))

    def around(self, numbers: Sequence[int], *, most: int = reads.ALL) -> list[Hop]:
        """The relations of some entities, the newest first; of those with more than so many the newest, in each direction."""
        pks = [pk for number in numbers for pk in self.groups.members(number)]
        rows = reads.around(self._connection, pks, self._when, most=most)
        self.groups.load(pk for _, *ends in rows for pk in ends)
        return [(pk, self.groups.first(source), self.groups.first(target)) for pk, source, target in rows]


# ── walks ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Reached:
    """After how many hops a walk came to an entity, and which relations led to it from one hop nearer, newest first."""

    hops: int
    relations: list[int]


def reach(around: Around, starts: Sequence[int], *, hops: int, most: int) -> dict[int, Reached]:
    """Entities up to some hops away, breadth first, at most so many; in the order in which they are reached."""
    reached: dict[int, Reached] = {}
    last: Sequence[int] = starts
    for hop in range(1, hops + 1):
        near, fresh = set(last), list[int]()
        for some in _parts(last):
            for pk, *ends in around(some):
                # A relation that leads away has one end near, and the other far.
                here = [end in near for end in ends]
                if all(here) or not any(here):
                    continue
                far = ends[here.index(False)]
                if far in reached:
                    reached[far].relations.extend([pk] * (reached[far].hops == hop))
                elif far not in starts and len(reached) < most:
                    reached[far] = Reached(hop, [pk])
                    fresh.append(far)
            if len(reached) == most:
                return reached
        last = fresh
    return reached


def _parts(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    start, size = 0, 4
    while start < len(numbers):
        yield numbers[start : start + size]
        start, size = start + size, min(2 * size, _TOGETHER)


def shortest(around: Around, starts: Sequence[int], goals: Sequence[int], *, most: int) -> list[int]:
    """The relations, at most so many, on a shortest path from some entities to others, walked from both sides; else empty."""
    if not starts or not goals or not set(starts).isdisjoint(goals):
        return []
    came: tuple[_Came, _Came] = (dict.fromkeys(starts), dict.fromkeys(goals))
    last = [list(starts), list(goals)]
    for _ in range(most):
        side = int(len(last[1]) < len(last[0]))
        last[side], middle = _advance(around, last[side], came[side], came[1 - side])
        if middle is not None:
            return [*reversed(_back(came[0], middle)), *_back(came[1], middle)]
        if not last[side]:
            break
    return []


_Came: TypeAlias = dict[int, tuple[int, int] | None]
"""For each entity that was reached, the relation that led to it and from where; `None` where the walk began."""


def _advance(around: Around, last: Sequence[int], came: _Came, other: _Came) -> tuple[list[int], int | None]:
    """One hop on one side: the entities that it reaches, and the one where it meets the other side."""
    reached: list[int] = []
    for some in _parts(last):
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
    path: list[int] = []
    while (step := came[number]) is not None:
        path.append(step[0])
        number = step[1]
    return path


# ── views ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def neighbours(
    connection: Connection, scope: Scope, when: GraphTime, entity: str, *, hops: int, k: int
) -> list[Neighbour]:
    """The neighbours of an entity, nearest first."""
    graph = GraphSnapshot(connection, scope, when)
    reached = reach(partial(graph.around, most=_FOLLOWED + k), graph.find(entity), hops=hops, most=k)
    nodes = reads.entities_by_pks(connection, graph.groups, list(reached))
    rows = reads.by_pks(connection, list({pk for each in reached.values() for pk in each.relations}), when)
    return [
        Neighbour(nodes[number], each.hops, tuple(rows[pk] for pk in each.relations))
        for number, each in reached.items()
    ]


def path(
    connection: Connection, scope: Scope, when: GraphTime, source: str, target: str, *, most: int
) -> list[Relation]:
    """The relations on a shortest path from one entity to another."""
    graph = GraphSnapshot(connection, scope, when)
    pks = shortest(graph.around, graph.find(source), graph.find(target), most=most)
    rows = reads.by_pks(connection, pks, when)
    return [rows[pk] for pk in pks]


def drawn(
    connection: Connection, scope: Scope, when: GraphTime, entity: str | None, *, hops: int
) -> tuple[list[Relation], bool]:
    """The relations that are drawn, newest first, and whether some were left out: those around an entity, or the newest."""
    if entity is None:
        pks = reads.newest(connection, scope, when, k=_MOST_ARROWS + 1)
        is_cut = len(pks) > _MOST_ARROWS
    else:
        pks, is_cut = _surroundings(GraphSnapshot(connection, scope, when), entity, hops)
    return list(reads.by_pks(connection, pks[:_MOST_ARROWS], when).values()), is_cut


def _surroundings(graph: GraphSnapshot, entity: str, hops: int) -> tuple[list[int], bool]:
    """The relations between an entity and those around it, newest first, and whether there is more around it."""
    starts = graph.find(entity)
    reached = reach(partial(graph.around, most=_FOLLOWED + MOST_NODES), starts, hops=hops, most=MOST_NODES)
    kept = dict([*reached.items()][: MOST_NODES - len(starts)])
    pks, inside = {pk for each in kept.values() for pk in each.relations}, {*starts, *kept}
    pks.update(pk for pk, *ends in graph.around(sorted(inside), most=_FOLLOWED) if inside.issuperset(ends))
    return sorted(pks, reverse=True), len(kept) < len(reached) or len(pks) > _MOST_ARROWS


@dataclass(frozen=True, slots=True)
class Near:
    """An entity, and how many relations lie between it and the one in the middle at least."""

    entity: Entity
    hops: int


@dataclass(frozen=True, slots=True)
class Tie:
    """A relation, with the places that its ends have among the entities."""

    relation: Relation
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Ego:
    """The graph around one entity, at whatever time."""

    entities: Sequence[Near]  # it first, then those around it, nearest first
    ties: Sequence[Tie]  # the relations between them, newest recorded first
    total: int  # how many entities there are, up to `COUNTED`


def ego(connection: Connection, scope: Scope, entity: str | None, *, hops: int, most: int) -> Ego | None:
    """The graph around an entity (by default the user, the agent or the most mentioned one), of at most so many entities."""
    graph = GraphSnapshot(connection, scope, reads.NOW)
    starts = _main_entity(graph, connection, scope) if entity is None else graph.find(entity)
    if not starts:
        return None
    follow = partial(graph.around, most=COUNTED)
    reached = reach(follow, starts, hops=hops, most=COUNTED - len(starts))
    distances = dict.fromkeys(starts, 0) | {number: each.hops for number, each in reached.items()}
    numbers = list(distances)[:most]
    nodes = reads.entities_by_pks(connection, graph.groups, numbers)
    places = {number: place for place, number in enumerate(numbers)}
    inside = [edge for edge in follow(numbers) if places.keys() >= {*edge[1:]}][:_MOST_TIES]
    rows = reads.by_pks(connection, [pk for pk, *_ in inside])
    ties = [Tie(rows[pk], places[source], places[target]) for pk, source, target in inside]
    return Ego([Near(nodes[number], distances[number]) for number in numbers], ties, len(distances))


def _main_entity(graph: GraphSnapshot, connection: Connection, scope: Scope) -> list[int]:
    for name in (scope.user_id, scope.agent_id):
        if name is not None and graph.around(own := graph.find(name), most=1):
            return own
    page = reads.entity_page(connection, scope, reads.NOW, k=1)
    return graph.find(page[0].name) if page else []


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation between two entities by their ids; of one relation there may be several rows, where the history is read."""

    row: int
    source: str
    target: str
    relation: Relation


Part: TypeAlias = Entity | Edge


def parts(connection: Connection, scope: Scope, when: GraphTime) -> Iterator[Part]:
    """The whole graph, however large: every relation, the first recorded first, and each entity before its first relation."""
    groups, ids = EntityGroups(connection, expand(connection, scope)), dict[int, str]()
    for rows in reads.every(connection, scope, when):
        groups.load(pk for _, *ends in rows for pk in ends)
        fresh = {groups.first(pk) for _, *ends in rows for pk in ends} - ids.keys()
        for number, entity in sorted(reads.entities_by_pks(connection, groups, fresh).items()):
            ids[number] = entity.id
            yield entity
        loaded = reads.by_pks(connection, [pk for pk, *_ in rows], when)
        for pk, source, target in rows:
            yield Edge(pk, ids[groups.first(source)], ids[groups.first(target)], loaded[pk])


# ── search ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def search(
    connection: Connection, scope: Scope, when: GraphTime, query: str, memory_ids: Sequence[str], k: int
) -> list[Relation]:
    """The relations that answer a question, of which the beginning is read, best first."""
    query = query[:LONGEST]
    scope_ids = expand(connection, scope)
    stated = reads.of_memories(connection, memory_ids, when)
    ranks = {pk: rank for rank, one in reversed([*enumerate(memory_ids, 1)]) for pk in stated.get(one, ())}
    named = _count_named_ends(connection, scope_ids, query, when)
    newest = reads.newest(connection, scope, when, k=_NEWEST)
    rows = reads.by_pks(connection, list({*ranks, *named, *newest}))
    shares = _word_shares(rows, query, language_of(connection))
    scores = {pk: shares[pk] + named[pk] / 2 + (1 / sqrt(ranks[pk]) if pk in ranks else 0) for pk in rows}
    best = sorted((pk for pk in rows if scores[pk] > 0), key=lambda pk: -scores[pk])
    return [rows[pk] for pk in best[:k]]


def _count_named_ends(connection: Connection, scope_ids: Sequence[int], query: str, when: GraphTime) -> Counter[int]:
    """How many ends of each relation the question names, and never the owner's: nearly everything is stated of the owner."""
    pks = {pk for _, pk in with_keys(connection, scope_ids, candidate_keys(query))}
    members = EntityGroups(connection, scope_ids).all_members(pks)
    edges = reads.around(connection, members, when, most=_NEWEST)
    return Counter({pk: len({*ends}.intersection(members)) for pk, *ends in edges})


def _word_shares(rows: Mapping[int, Relation], query: str, language: str) -> dict[int, float]:
    """How much of the question each relation's words repeat, from 0 to 1; rare words count more."""
    wanted = _terms(query, language)
    shared = {pk: wanted & _terms(relation.text, language) for pk, relation in rows.items()}
    counts = Counter(term for terms in shared.values() for term in terms)
    weights = {term: log(1 + len(rows) / max(counts[term], 1)) for term in wanted}
    total = sum(weights.values()) or 1
    return {pk: sum(weights[term] for term in terms) / total for pk, terms in shared.items()}


def _terms(text: str, language: str) -> set[str]:
    """The words of a text, and the groups of related words that they belong to."""
    return content_words(text, language) | subjects(text, language)


# ── evidence ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def pagerank(
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    seeds: NDArray[np.float64],
    *,
    damping: float = 0.5,
    rounds: int = 20,
) -> NDArray[np.float64]:
    """Personalised PageRank (Haveliwala 2002): how often a random walk from the seeds comes by each entity; the sum is 1.

    The walk follows relations in both directions, with a chance of *damping*, or else goes back to a seed. Each round leaves
    *damping* times the error of the one before.

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
_SEED_SHARE: Final = 0.3  # weight of the best memories relative to a name in the question
_SHARPNESS: Final = 6  # how much more the best of them counts than the others
_LEAST: Final = 0.02
_DAMPING: Final = 0.8
_POWER: Final = 0.5  # three steps away little of a walk is left

_ends: Final = (relations.c.id, *ENDS)
_OWNERS: Final = Prepared(select(scopes.c.user_id, scopes.c.agent_id).where(any_of(scopes.c.id, "scopes")).distinct())
_STATED: Final = Prepared(
    select(*_ends)
    .join_from(memories, relation_memories, relation_memories.c.memory_id == memories.c.id)
    .join(relations, relations.c.id == relation_memories.c.relation_id)
    .where(any_of(memories.c.pk, "pks"), SAYS, CURRENT)
)
_AROUND: Final = Prepared(select(*_ends).where(or_(*(any_of(end, "pks") for end in ENDS)), CURRENT).limit(_MOST))
_SUPPORT: Final = Prepared(
    select(relation_memories.c.relation_id, memories.c.pk)
    .join_from(relation_memories, memories, memories.c.id == relation_memories.c.memory_id)
    .where(any_of(relation_memories.c.relation_id, "ids"), SAYS, any_of(memories.c.scope_id, "scopes"))
)


class GraphEvidence:
    """Adds memories to a search by their relations to entities of the question."""

    def leads(
        self, connection: Connection, scope_ids: Sequence[int], text: str, best: Mapping[int, float]
    ) -> Mapping[int, float]:
        """What the relations of the question lead to: see `EvidenceSource.leads`."""
        around = _Surroundings(connection, scope_ids)
        named, seeds = around.find_named(text), _seed_strengths(best)
        around.take(_STATED, seeds)
        for _ in range(_HOPS):
            around.widen()
        return _rank(around, named, seeds) if around.relations else {}


class _Ends(NamedTuple):
    """The two ends of a relation, and those of them that the memories are not about."""

    source: int
    target: int
    led: tuple[int, ...]


class _Surroundings:
    """The part of the graph around a question. Entities are one as for a reader of several scopes."""

    def __init__(self, connection: Connection, scope_ids: Sequence[int]) -> None:
        self.relations: dict[str, _Ends] = {}
        self._connection = connection
        self._scope_ids = scope_ids
        self._groups = EntityGroups(connection, scope_ids) if len(scope_ids) > 1 else None
        self._fresh: set[int] = set()
        self._seen: set[int] = set()
        self._owners: set[int] = set()

    def find_named(self, text: str) -> set[int]:
        """The entities that a text names; the walk begins with them."""
        rows = _OWNERS.rows(self._connection, {"scopes": self._scope_ids})
        owners = {owner_key(who, id_) for row in rows for who, id_ in zip((SELF, ASSISTANT), row, strict=True) if id_}
        keyed = with_keys(self._connection, self._scope_ids, candidate_keys(text) | owners)
        # Nearly everything is stated of the owners: nothing is near because it is near to them.
        self._owners = {self._first(pk) for key, pk in keyed if key in owners}
        named = {self._first(pk) for key, pk in keyed} - self._owners
        self._fresh |= named
        return named

    def take(self, statement: Prepared, pks: Iterable[int]) -> None:
        """Read relations."""
        rows = [row for row in statement.rows(self._connection, {"pks": list(pks)}) if row[0] not in self.relations]
        if self._groups is not None:
            self._groups.load(pk for _, *ends in rows for pk in ends)
        for relation_id, *ends in rows:
            source, target = map(self._first, ends)
            led = tuple({source, target} - self._owners)
            self.relations[relation_id] = _Ends(source, target, led)
            self._fresh.update(led)

    def widen(self) -> None:
        """Read the relations of every entity that was reached last."""
        fresh = self._fresh - self._seen
        self._seen |= fresh
        if fresh:
            self.take(_AROUND, fresh if self._groups is None else self._groups.all_members(fresh))

    def support(self) -> list[tuple[str, int]]:
        """Which memories state the relations."""
        return _SUPPORT.rows(self._connection, {"ids": list(self.relations), "scopes": self._scope_ids})

    def _first(self, pk: int) -> int:
        return pk if self._groups is None else self._groups.first(pk)


def _rank(around: _Surroundings, named: Collection[int], strengths: Mapping[int, float]) -> dict[int, float]:
    """Memories by how much of the walk from the question comes by them."""
    support = around.support()
    memory = {pk: number for number, pk in enumerate(dict.fromkeys((*strengths, *(pk for _, pk in support))))}
    entity: dict[int, int] = {}
    for pk in (*named, *(end for ends in around.relations.values() for end in ends.led)):
        entity.setdefault(pk, len(memory) + len(entity))
    edges = {(memory[pk], entity[end]) for relation_id, pk in support for end in around.relations[relation_id].led}
    edges |= {(entity[r.source], entity[r.target]) for r in around.relations.values() if len(r.led) > 1}
    if not edges:
        return {}
    seeds = np.zeros(len(memory) + len(entity))
    for pk, strength in strengths.items():
        seeds[memory[pk]] = strength * (_SEED_SHARE if named else 1)
    seeds[[entity[pk] for pk in named]] = 1
    visits = _visits(np.array(sorted(edges), np.int64), seeds, len(memory))
    most = visits.max(initial=0.0)
    return {pk: float(visits[number] / most) ** _POWER for pk, number in memory.items() if visits[number] > 0}


def _visits(edges: NDArray[np.int64], seeds: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """How often a walk from the seeds comes by each of the *count* memories; entities of only one memory lead nowhere else."""
    one, other = edges.T
    degrees = np.bincount(edges.ravel())
    leads_on = (degrees[other] > 1) & ((one < count) | (degrees[one] > 1))
    one, other = one[leads_on], other[leads_on]
    ranks = pagerank(one, other, seeds, damping=_DAMPING)
    ranks -= seeds / max(seeds.sum(), 1e-9) * (1 - _DAMPING)  # what came by, without what began there
    led = np.zeros(len(seeds), np.bool_)
    led[one] = True
    visits: NDArray[np.float64] = np.where(led, ranks, 0.0)[:count]
    return visits


def _seed_strengths(best: Mapping[int, float]) -> dict[int, float]:
    """How much the walk begins at the best memories: much more at the best, not at all at the many."""
    least, most = min(best.values(), default=0.0), max(best.values(), default=0.0)
    if most <= least:
        return {}
    strengths = {pk: ((score - least) / (most - least)) ** _SHARPNESS for pk, score in best.items()}
    return {pk: strength for pk, strength in strengths.items() if strength >= _LEAST}
