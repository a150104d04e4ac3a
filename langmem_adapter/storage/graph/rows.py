"""Rows of the knowledge graph that a write reads and changes, in memory until they are posted.

A write reads what it may concern with a fixed number of statements, however many relations it states, changes it here, and
posts the difference, table by table. It holds the write lock all the while, so nothing it read can change beneath it.
"""

from __future__ import annotations

import secrets
import uuid
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langmem_adapter.names import is_symmetric, relation_end
from langmem_adapter.records.graph import Relation
from langmem_adapter.records.scope import shallow
from langmem_adapter.storage.feed import INSERT_CHANGE
from langmem_adapter.storage.graph import statements as sql
from langmem_adapter.storage.scopes import of_row
from langmem_adapter.storage.tables import BY_HAND, ENTITIES, MOST_MENTIONS, RELATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.names import EntityReference
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.scope import Scope

_EVER: Final = datetime.min.replace(tzinfo=UTC)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time, from its first moment to the first after it; `None` is ever, and for ever."""

    start: datetime | None
    end: datetime | None

    @property
    def begins(self) -> datetime:
        """Its start, as a moment that compares."""
        return self.start or _EVER

    @property
    def ends(self) -> datetime:
        """Its end, likewise."""
        return self.end or _NEVER

    @property
    def empty(self) -> bool:
        """Whether no moment lies within it."""
        return self.begins >= self.ends

    def overlaps(self, other: Span) -> bool:
        """Whether some moment lies in both."""
        return max(self.begins, other.begins) < min(self.ends, other.ends)

    def meets(self, other: Span) -> bool:
        """Whether no moment lies between the two."""
        return self.begins <= other.ends and other.begins <= self.ends

    def joined(self, other: Span) -> Span:
        """The span that covers both."""
        first, last = min(self, other, key=lambda span: span.begins), max(self, other, key=lambda span: span.ends)
        return Span(first.start, last.end)

    def until(self, moment: datetime) -> Span:
        """Its part before a moment."""
        return Span(self.start, moment) if moment < self.ends else self

    def since(self, moment: datetime) -> Span:
        """Its part from a moment on."""
        return Span(moment, self.end) if moment > self.begins else self

    def without(self, other: Span) -> tuple[Span, ...]:
        """Its parts outside another: none, one or two, in order."""
        if not self.overlaps(other):
            return (self,)
        parts = Span(self.start, other.start), Span(other.end, self.end)
        kept = (other.start is not None, other.end is not None)
        return tuple(part for part, may in zip(parts, kept, strict=True) if may and not part.empty)

    def giving_way(self, others: Iterable[Span], *, at_start: bool, at_end: bool) -> Span | None:
        """What is left of it where it gives way to others, at those of its two ends that nobody stated.

        Where it may give way *at_start*, it begins where the last of those ends that end before it does; *at_end*, it ends
        where the first of those begins that begin after it does. The others do not overlap each other. `None` where it may give
        way at both ends, and they fill all of it.
        """
        near = [other for other in others if other.overlaps(self)]
        if at_start and at_end:
            return self._last_without(near)
        begin = [other.begins for other in near if at_end and other.begins > self.begins]
        end = [other.ends for other in near if at_start and other.ends < self.ends]
        return self.until(min(begin)) if begin else self.since(max(end)) if end else self

    def _last_without(self, others: Iterable[Span]) -> Span | None:
        parts: tuple[Span, ...] = (self,)
        for other in others:
            parts = tuple(part for whole in parts for part in whole.without(other))
        return parts[-1] if parts else None


@dataclass(frozen=True, slots=True)
class Home:
    """The exact scope that a relation is written to: its number and its fields."""

    id: int
    scope: Scope


@dataclass(slots=True, eq=False)
class EntityNode:
    """An entity."""

    pk: int
    id: str
    home: Home
    name: str
    type: str
    mentions: int
    created_at: datetime
    updated_at: datetime
    merged_into: int | None = None
    owner: str | None = None
    keys: set[str] = field(default_factory=set)  # names by which it was looked up; the other fields are its row's
    new: bool = False
    changed: bool = False

    @property
    def key(self) -> str:
        """The key of what it was first called."""
        return relation_end(self.owner or self.name, self.home.scope).key


@dataclass(slots=True, eq=False)
class Belief:
    """One row of `relations`: what is believed of one relation."""

    pk: int
    id: str
    home_id: int
    source: EntityNode
    relation: str
    target: EntityNode
    span: Span
    recorded_at: datetime
    mentions: int
    confidence: float
    retired_at: datetime | None = None
    new: bool = False
    changed: bool = False


def believed(home: Home, source: EntityNode, triple: Triple, target: EntityNode, span: Span, now: datetime) -> Belief:
    """What a triple states of two entities; it has no row yet."""
    return Belief(0, "", home.id, source, triple.relation, target, span, now, triple.mentions, triple.confidence)


@dataclass(slots=True, eq=False)
class Link:
    """That a memory says a relation, or did until it was dropped."""

    relation_id: str
    memory_id: str
    home_id: int
    created_at: datetime
    dropped_at: datetime | None
    new: bool = False
    changed: bool = False


_Beliefs: TypeAlias = "defaultdict[tuple[int | str, ...], dict[int, Belief]]"


class Beliefs:
    """Beliefs, to be found by what they are about; what is found is still believed, the oldest row first."""

    def __init__(self) -> None:
        self._all: dict[int, Belief] = {}
        self._held: _Beliefs = defaultdict(dict)

    def __contains__(self, pk: int) -> bool:
        """Whether a row is among them, believed or not."""
        return pk in self._all

    def __iter__(self) -> Iterator[Belief]:
        """All of them, believed or not."""
        return iter(self._all.values())

    def put(self, belief: Belief) -> None:
        """Take one in."""
        self._all[belief.pk] = belief
        for place in _places(belief):
            self._held[place][belief.pk] = belief

    def remove(self, belief: Belief) -> None:
        """Forget one."""
        del self._all[belief.pk]
        for place in _places(belief):
            del self._held[place][belief.pk]

    def of_id(self, relation_id: str) -> Belief | None:
        """What is believed of a relation."""
        return next(iter(self._found((relation_id,))), None)

    def between(self, sources: Iterable[EntityNode], relation: str, targets: Collection[EntityNode]) -> list[Belief]:
        """Those of a relation from some entities to some others; of a symmetric one also the other way round."""
        pairs = [(source.pk, target.pk) for source in sources for target in targets]
        if is_symmetric(relation):
            pairs += [(target, source) for source, target in pairs]
        return self._found(*((source, relation, target) for source, target in pairs))

    def held_by(self, ends: Collection[EntityNode], relation: str, *, mutual: bool) -> list[Belief]:
        """Those of a relation from some entities, and to them where it is *mutual*."""
        places = [("from", end.pk, relation) for end in ends]
        return self._found(*places, *(("to", end.pk, relation) for end in ends if mutual))

    def believed(self) -> list[Belief]:
        """All that are believed."""
        return _standing(self._all)

    def _found(self, *places: tuple[int | str, ...]) -> list[Belief]:
        found: dict[int, Belief] = {}
        for place in places:
            found |= self._held.get(place, {})
        return _standing(found)


def _places(belief: Belief) -> tuple[tuple[int | str, ...], ...]:
    source, target = belief.source.pk, belief.target.pk
    return (
        (belief.id,),
        (source, belief.relation, target),
        ("from", source, belief.relation),
        ("to", target, belief.relation),
    )


def _standing(found: dict[int, Belief]) -> list[Belief]:
    return [found[pk] for pk in sorted(found) if found[pk].retired_at is None]


@dataclass(slots=True, eq=False)
class GraphRows:
    """What one write looks at: in its transaction, at its time; *draw* gives the next number of the change feed."""

    connection: Connection
    now: datetime
    draw: Callable[[], int]
    nodes: dict[int, EntityNode] = field(default_factory=dict)
    names: dict[tuple[int, str], EntityNode] = field(default_factory=dict)
    beliefs: Beliefs = field(default_factory=Beliefs)
    links: defaultdict[str, dict[str, Link]] = field(default_factory=lambda: defaultdict(dict))
    called: defaultdict[str, list[EntityNode]] = field(default_factory=lambda: defaultdict(list))
    _sayings: defaultdict[str, dict[str, Link]] = field(default_factory=lambda: defaultdict(dict))
    _new_names: list[dict[str, Any]] = field(default_factory=list)
    _changes: list[dict[str, Any]] = field(default_factory=list)
    _told: set[tuple[str, int]] = field(default_factory=set)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def read_names(self, scope_ids: Collection[int], keys: Collection[str]) -> None:
        """The entities of these names."""
        found = sql.NAMES.rows(self.connection, {"scopes": scope_ids, "keys": keys})
        self._read_nodes(row.entity_pk for row in found)
        for row in found:
            if (row.scope_id, row.key) not in self.names:
                self._name(self.nodes[row.entity_pk], row.key)

    def read_between(self, pairs: Collection[tuple[int, int]]) -> None:
        """Every relation that is believed from the first to the second of some pairs of entities."""
        if pairs:
            self._take(sql.BETWEEN.rows(self.connection, sql.pairs_of(pairs)))

    def read_held(self, sources: Collection[int], targets: Collection[int], names: Collection[str]) -> None:
        """Those of these names that are believed from some entities, or to some."""
        for statement, pks in ((sql.FROM, sources), (sql.TO, targets)):
            if pks:
                self._take(statement.rows(self.connection, {"pks": pks, "names": names}))

    def read_all(self, pks: Collection[int]) -> None:
        """Every relation that is believed from or to some entities."""
        self._read_nodes(pks)
        for statement in sql.ALL_OF:
            self._take(statement.rows(self.connection, {"pks": pks}))

    def read_ids(self, ids: Collection[str]) -> None:
        """What is believed of these relations."""
        self._take(sql.BY_ID.rows(self.connection, {"ids": ids}))

    def read_rows(self, pks: Collection[int]) -> dict[int, Belief]:
        """These rows by pk, whether they are believed or not; they are given, and not kept here."""
        return {belief.pk: belief for belief in self._beliefs(sql.BY_PK.rows(self.connection, {"pks": pks}))}

    def last_retired(self, ids: Collection[str]) -> dict[str, Belief]:
        """What was believed last of these relations and is so no longer; it is given, and not kept here."""
        found = self._beliefs(sql.LAST_RETIRED.rows(self.connection, {"ids": ids}))
        return {belief.id: belief for belief in found}

    def read_sayings(self, memory_ids: Collection[str]) -> None:
        """What these memories say or said."""
        ids = {row.relation_id for row in sql.LINKS.rows(self.connection, {"ids": memory_ids})}
        if ids:
            self.read_ids(ids)
            self.read_support(ids)

    def read_support(self, ids: Collection[str]) -> None:
        """Which memories say these relations."""
        wanted = [relation_id for relation_id in ids if relation_id not in self.links]
        for row in sql.SUPPORT.rows(self.connection, {"ids": wanted}) if wanted else ():
            self._keep(Link(row.relation_id, row.memory_id, row.scope_id, row.created_at, row.dropped_at))

    def texts(self, memory_id: str) -> dict[datetime, str | None]:
        """The texts that a memory had, by when each was given up."""
        return dict(sql.SAID.rows(self.connection, {"memory": memory_id}))

    def _read_nodes(self, pks: Iterable[int]) -> None:
        wanted = {pk for pk in pks if pk not in self.nodes}
        for row in sql.NODES.rows(self.connection, {"pks": wanted}) if wanted else ():
            home, told = Home(row.scope_id, of_row(row)), (row.mentions, row.created_at, row.updated_at)
            self.nodes[row.pk] = EntityNode(row.pk, row.id, home, row.name, row.type, *told, row.merged_into, row.owner)

    def _take(self, found: Iterable[Any]) -> None:
        for belief in self._beliefs([row for row in found if row.pk not in self.beliefs]):
            self.beliefs.put(belief)

    def _beliefs(self, found: Collection[Any]) -> list[Belief]:
        self._read_nodes(pk for row in found for pk in (row.source_pk, row.target_pk))
        return [self._belief(row) for row in found]

    def _belief(self, row: Any) -> Belief:
        stated = self.nodes[row.source_pk], row.relation, self.nodes[row.target_pk], Span(row.valid_from, row.valid_to)
        counted = row.mentions, row.confidence
        return Belief(row.pk, row.id, row.scope_id, *stated, row.recorded_at, *counted, row.retired_at)

    def _keep(self, link: Link) -> None:
        self.links[link.relation_id][link.memory_id] = self._sayings[link.memory_id][link.relation_id] = link

    def _name(self, node: EntityNode, key: str) -> None:
        self.names[node.home.id, key] = node
        self.called[key].append(node)
        node.keys.add(key)

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def known(self, pk: int) -> EntityNode:
        """An entity by its row."""
        self._read_nodes([pk])
        return self.nodes[pk]

    def current(self, node: EntityNode) -> EntityNode:
        """The entity that has an entity's name now: another one, if that was merged into it."""
        return self.names.get((node.home.id, node.key), node)

    def equals(self, node: EntityNode) -> list[EntityNode]:
        """An entity and those in other scopes that have a name in common with it."""
        return list(dict.fromkeys([node, *(each for key in node.keys for each in self.called[key])]))

    def speakers(self, relation_id: str) -> tuple[str, ...]:
        """The memories that say a relation, and `BY_HAND`."""
        return tuple(link.memory_id for link in self.links[relation_id].values() if link.dropped_at is None)

    def sayings(self, memory_id: str) -> list[Link]:
        """What a memory says or said."""
        return list(self._sayings[memory_id].values())

    def record(self, belief: Belief) -> Relation:
        """A belief as callers get it."""
        return Relation(
            id=belief.id,
            source=belief.source.name,
            relation=belief.relation,
            target=belief.target.name,
            source_type=belief.source.type,
            target_type=belief.target.type,
            scope=belief.source.home.scope,
            valid_from=belief.span.start,
            valid_to=belief.span.end,
            recorded_at=belief.recorded_at,
            retired_at=belief.retired_at,
            mentions=belief.mentions,
            confidence=belief.confidence,
            memory_ids=tuple(memory_id for memory_id in self.speakers(belief.id) if memory_id != BY_HAND),
        )

    # ── changing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def node(self, home: Home, end: EntityReference, kind: str, time: datetime) -> EntityNode:
        """The entity at an end of a triple, a new one where there is none; this is one more mention of it."""
        found = self.names.get((home.id, end.key)) or self._new_node(home, end, kind, time)
        found.mentions, found.changed = found.mentions + 1, True
        found.updated_at = max(found.updated_at, time)
        found.type = found.type or kind
        return found

    def _new_node(self, home: Home, end: EntityReference, kind: str, time: datetime) -> EntityNode:
        who, times = (self.drawn(ENTITIES), str(uuid.uuid4()), home, end.name.strip(), kind), (0, time, time)
        node = EntityNode(*who, *times, owner=end.owner, new=True)
        self.nodes[node.pk] = node
        self._name(node, end.key)
        self._new_names.append({"scope_id": home.id, "key": end.key, "name": node.name, "entity_pk": node.pk})
        return node

    def believe(self, like: Belief, span: Span, *, relation_id: str | None = None) -> Belief:
        """Write down what is believed from now on, as of another; without an id it is a new relation."""
        pk, id_ = self.drawn(RELATIONS), relation_id or str(uuid.uuid4())
        belief = replace(like, pk=pk, id=id_, span=span, recorded_at=self.now, retired_at=None, new=True, changed=False)
        self.beliefs.put(belief)
        return belief

    def retire(self, belief: Belief) -> None:
        """Believe it no longer. What this very write had begun to believe was never believed by anybody."""
        if belief.new:
            self.beliefs.remove(belief)
            return
        belief.retired_at, belief.changed = self.now, True
        self._change(RELATIONS, belief.pk, "delete", self.draw())

    def link(self, belief: Belief, memory_id: str, time: datetime) -> bool:
        """Note that a memory says a relation, and whether it did not say so before."""
        known = self.links[belief.id].get(memory_id)
        if known is None:
            self._keep(Link(belief.id, memory_id, belief.home_id, time, None, new=True))
        elif known.dropped_at is not None:
            known.dropped_at, known.changed = None, True
        else:
            return False
        self._tell_of(RELATIONS, belief)
        return True

    def join(self, alike: Sequence[Belief], span: Span) -> Belief:
        """Believe the first of some that say the same for a span, as often as it now counts; it takes the others in."""
        first, *more = alike
        for belief in alike:
            self.retire(belief)
        joined = self.believe(first, span, relation_id=first.id)
        for belief in more:
            self.hand_on(belief.id, joined)
            for memory_id in self.speakers(belief.id):
                self.drop(self.links[belief.id][memory_id])
        return joined

    def hand_on(self, relation_id: str, to: Belief) -> None:
        """Whoever says one relation says another, and whoever said it once says the other when he comes back."""
        for link in list(self.links[relation_id].values()):
            if link.dropped_at is None:
                self.link(to, link.memory_id, link.created_at)
            elif link.memory_id not in self.links[to.id]:
                self._keep(replace(link, relation_id=to.id, home_id=to.home_id, new=True, changed=False))

    def drop(self, link: Link) -> None:
        """Note that a memory says a relation no longer."""
        link.dropped_at, link.changed = self.now, True
        belief = self.beliefs.of_id(link.relation_id)
        if belief is not None:
            self._tell_of(RELATIONS, belief)

    def drawn(self, space: str) -> int:
        """The number of a new row of a space."""
        seq = self.draw()
        self._change(space, seq, "put", seq)
        return seq

    def _tell_of(self, space: str, row: Belief | EntityNode) -> None:
        """Let the change feed name a row; a new one is named as it is drawn."""
        if not row.new and (space, row.pk) not in self._told:
            self._change(space, row.pk, "put", self.draw())

    def _change(self, space: str, pk: int, op: str, seq: int) -> None:
        self._told.add((space, pk))
        self._changes.append({"seq": seq, "nonce": secrets.token_bytes(8), "space": space, "row": pk, "op": op})

    # ── posting ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def post(self) -> None:
        """Write the difference, and tell the change feed of it."""
        # Contract: no row of the graph changes unless the feed names it, with the same transaction.
        # tests/mirror/test_campaign.py::test_a_history_of_kills_leaves_the_mirror_as_the_database.
        nodes, beliefs = self.nodes.values(), list(self.beliefs)
        for space, changed in ((ENTITIES, nodes), (RELATIONS, beliefs)):
            for row in changed:
                if row.changed:
                    self._tell_of(space, row)
        known = {belief.id for belief in beliefs}
        # Without those of relations that came and went within this write.
        links = [
            link for of in self.links.values() for link in of.values() if link.relation_id in known or not link.new
        ]
        changed_beliefs = [belief for belief in beliefs if belief.changed and not belief.new]
        for statement, rows in (
            (INSERT_CHANGE, self._changes),
            (sql.INSERT_NODE, [_node_row(node) for node in nodes if node.new]),
            (sql.UPDATE_NODE, [_node_row(node) for node in nodes if node.changed and not node.new]),
            (sql.INSERT_NAME, self._new_names),
            (sql.RETIRE, [_belief_row(belief) for belief in changed_beliefs if belief.retired_at]),
            (sql.COUNT, [_belief_row(belief) for belief in changed_beliefs if not belief.retired_at]),
            (sql.INSERT_BELIEF, [_belief_row(belief) for belief in beliefs if belief.new]),
            (sql.INSERT_LINK, [_link_row(link) for link in links if link.new]),
            (sql.UPDATE_LINK, [_link_row(link) for link in links if link.changed and not link.new]),
        ):
            statement.run(self.connection, *rows)


def _counted(row: EntityNode | Belief) -> int:
    return min(row.mentions, MOST_MENTIONS)


# What a statement is given beyond its columns, it leaves alone.


def _link_row(link: Link) -> dict[str, Any]:
    changed = {"_relation": link.relation_id, "_memory": link.memory_id}
    return {**shallow(link), **changed, "scope_id": link.home_id}


def _node_row(node: EntityNode) -> dict[str, Any]:
    return {**shallow(node), "_pk": node.pk, "mentions": _counted(node), "scope_id": node.home.id}


def _belief_row(belief: Belief) -> dict[str, Any]:
    ends = {"source_pk": belief.source.pk, "target_pk": belief.target.pk}
    times = {"valid_from": belief.span.start, "valid_to": belief.span.end, "_at": belief.retired_at}
    counted = {"_pk": belief.pk, "scope_id": belief.home_id, "mentions": _counted(belief)}
    return {**shallow(belief), **ends, **times, **counted}
