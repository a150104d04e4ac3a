"""The rows of the knowledge graph that one write looks at and changes, in memory until they are posted.

A write reads what it may concern with a fixed number of statements, however many relations it states, changes it here, and
posts the difference, table by table. It holds the write lock all the while, so nothing it read can change beneath it.
"""

from __future__ import annotations

import secrets
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, insert, select, update

from langmem_adapter.names import entity_key
from langmem_adapter.records.graph import Relation
from langmem_adapter.storage.graph_tables import (
    ENTITIES,
    RELATIONS,
    entities,
    entity_names,
    relation_memories,
    relations,
)
from langmem_adapter.storage.prepared import Prepared, any_of
from langmem_adapter.storage.scopes import of_row
from langmem_adapter.storage.spans import Span
from langmem_adapter.storage.tables import scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from datetime import datetime

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope

__all__ = ["Belief", "Home", "Link", "Node", "Rows"]

_believed: Final = relations.c.retired_at.is_(None)
_NAMES: Final = Prepared(
    select(entity_names.c.scope_id, entity_names.c.key, entity_names.c.entity_pk).where(
        any_of(entity_names.c.scope_id, "scopes"), any_of(entity_names.c.key, "keys")
    )
)
_NODES: Final = Prepared(
    select(entities, scopes.c.user_id, scopes.c.agent_id, scopes.c.run_id)
    .join_from(entities, scopes, entities.c.scope_id == scopes.c.id)
    .where(any_of(entities.c.pk, "pks"))
)
_PAIRS: Final = Prepared(
    select(relations).where(any_of(relations.c.source_pk, "pks"), any_of(relations.c.target_pk, "pks2"), _believed)
)
_FROM: Final = Prepared(
    select(relations).where(any_of(relations.c.source_pk, "pks"), any_of(relations.c.relation, "names"), _believed)
)
_TO: Final = Prepared(
    select(relations).where(any_of(relations.c.target_pk, "pks"), any_of(relations.c.relation, "names"), _believed)
)
_BY_ID: Final = Prepared(select(relations).where(any_of(relations.c.id, "ids"), _believed))
_RETIRED: Final = Prepared(select(relations).where(any_of(relations.c.id, "ids"), relations.c.retired_at.is_not(None)))
_LINKS: Final = Prepared(select(relation_memories).where(any_of(relation_memories.c.memory_id, "ids")))
_SUPPORT: Final = Prepared(
    select(relation_memories)
    .where(any_of(relation_memories.c.relation_id, "ids"))
    .order_by(relation_memories.c.created_at, relation_memories.c.memory_id)
)
_INSERT_NODE: Final = Prepared(insert(entities))
_INSERT_NAME: Final = Prepared(insert(entity_names))
_INSERT_BELIEF: Final = Prepared(insert(relations))
_INSERT_LINK: Final = Prepared(insert(relation_memories))
_UPDATE_NODE: Final = Prepared(
    update(entities)
    .where(entities.c.pk == bindparam("_pk"))
    .values({name: bindparam(name) for name in ("type", "mentions", "updated_at", "merged_into")})
)
_RETIRE: Final = Prepared(
    update(relations).where(relations.c.pk == bindparam("_pk")).values(retired_at=bindparam("_at"))
)
_COUNT: Final = Prepared(
    update(relations)
    .where(relations.c.pk == bindparam("_pk"))
    .values(mentions=bindparam("mentions"), confidence=bindparam("confidence"))
)
_UPDATE_LINK: Final = Prepared(
    update(relation_memories)
    .where(
        relation_memories.c.relation_id == bindparam("_relation"), relation_memories.c.memory_id == bindparam("_memory")
    )
    .values(dropped_at=bindparam("dropped_at"))
)


@dataclass(frozen=True, slots=True)
class Home:
    """The exact scope that a relation is written to: its number and its fields."""

    id: int
    scope: Scope


@dataclass(slots=True, eq=False)
class Node:
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
    new: bool = False
    changed: bool = False


@dataclass(slots=True, eq=False)
class Belief:
    """One row of `relations`: what is believed of one relation."""

    pk: int
    id: str
    home_id: int
    source: Node
    relation: str
    target: Node
    span: Span
    recorded_at: datetime
    mentions: int
    confidence: float
    retired_at: datetime | None = None
    new: bool = False
    changed: bool = False


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


@dataclass(slots=True, eq=False)
class Rows:
    """What one write looks at.

    Attributes:
        connection: Its transaction.
        now: Its time.
        draw: Draws the next number of the change feed.
        tell: Takes the rows for the change feed.
    """

    connection: Connection
    now: datetime
    draw: Callable[[], int]
    tell: list[dict[str, Any]]
    nodes: dict[int, Node] = field(default_factory=dict)
    names: dict[tuple[int, str], Node] = field(default_factory=dict)
    beliefs: dict[int, Belief] = field(default_factory=dict)
    links: defaultdict[str, dict[str, Link]] = field(default_factory=lambda: defaultdict(dict))
    new_names: list[dict[str, Any]] = field(default_factory=list)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def read_names(self, scope_ids: Collection[int], keys: Collection[str]) -> None:
        """The entities of these names, with all relations that are believed between them."""
        found = _NAMES.rows(self.connection, {"scopes": list(scope_ids), "keys": list(keys)})
        self._read_nodes(row.entity_pk for row in found)
        self.names |= {(row.scope_id, row.key): self.nodes[row.entity_pk] for row in found}
        pks = list({row.entity_pk for row in found})
        if len(pks) > 1:
            self._take(_PAIRS.rows(self.connection, {"pks": pks, "pks2": pks}))

    def read_relations(self, sources: Collection[int], targets: Collection[int], names: Collection[str]) -> None:
        """Those of these names that are believed from some entities, or to some."""
        for statement, pks in ((_FROM, sources), (_TO, targets)):
            if pks:
                self._take(statement.rows(self.connection, {"pks": list(pks), "names": list(names)}))

    def read_around(self, belief: Belief) -> None:
        """What a belief has to be compared with."""
        ends = [belief.source.pk, belief.target.pk]
        self.read_relations(ends, ends, [belief.relation])
        self._take(_PAIRS.rows(self.connection, {"pks": ends, "pks2": ends}))
        self.read_support({each.id for each in self.beliefs.values()})

    def read_all(self, pks: Collection[int]) -> None:
        """Every relation that is believed from or to some entities."""
        self._read_nodes(pks)
        for column in (relations.c.source_pk, relations.c.target_pk):
            self._take(self.connection.execute(select(relations).where(column.in_(pks), _believed)).all())

    def read_ids(self, ids: Collection[str]) -> None:
        """What is believed of these relations."""
        self._take(_BY_ID.rows(self.connection, {"ids": list(ids)}))

    def read_rows(self, pks: Collection[int]) -> list[Belief]:
        """These rows, whether they are believed or not; they are given, and not kept here."""
        found = self.connection.execute(select(relations).where(relations.c.pk.in_(pks))).all()
        return self._beliefs(found)

    def retired(self, ids: Collection[str]) -> list[Belief]:
        """What was once believed of these relations and is no longer; it is given, and not kept here."""
        return self._beliefs(_RETIRED.rows(self.connection, {"ids": list(ids)}))

    def read_links(self, memory_ids: Collection[str]) -> list[Link]:
        """What these memories say or said; what is believed of it is read as well."""
        found = _LINKS.rows(self.connection, {"ids": list(memory_ids)})
        if found:
            self.read_ids({row.relation_id for row in found})
            self.read_support({row.relation_id for row in found})
        return [self.links[row.relation_id][row.memory_id] for row in found]

    def read_support(self, ids: Collection[str]) -> None:
        """Which memories say these relations."""
        wanted = [relation_id for relation_id in ids if relation_id not in self.links]
        for row in _SUPPORT.rows(self.connection, {"ids": wanted}) if wanted else ():
            link = Link(row.relation_id, row.memory_id, row.scope_id, row.created_at, row.dropped_at)
            self.links[row.relation_id][row.memory_id] = link

    def _read_nodes(self, pks: Iterable[int]) -> None:
        wanted = {pk for pk in pks if pk not in self.nodes}
        for row in _NODES.rows(self.connection, {"pks": list(wanted)}) if wanted else ():
            home, told = Home(row.scope_id, of_row(row)), (row.mentions, row.created_at, row.updated_at)
            self.nodes[row.pk] = Node(row.pk, row.id, home, row.name, row.type, *told, row.merged_into)

    def _take(self, found: Iterable[Any]) -> None:
        for belief in self._beliefs([row for row in found if row.pk not in self.beliefs]):
            self.beliefs[belief.pk] = belief

    def _beliefs(self, found: Collection[Any]) -> list[Belief]:
        self._read_nodes(pk for row in found for pk in (row.source_pk, row.target_pk))
        return [
            Belief(
                pk=row.pk,
                id=row.id,
                home_id=row.scope_id,
                source=self.nodes[row.source_pk],
                relation=row.relation,
                target=self.nodes[row.target_pk],
                span=Span(row.valid_from, row.valid_to),
                recorded_at=row.recorded_at,
                mentions=row.mentions,
                confidence=row.confidence,
                retired_at=row.retired_at,
            )
            for row in found
        ]

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def believed(self) -> list[Belief]:
        """What is believed of all that was read, by age."""
        return sorted((b for b in self.beliefs.values() if b.retired_at is None), key=lambda b: b.pk)

    def of_relation(self, relation_id: str) -> list[Belief]:
        """What is believed of one relation."""
        return [belief for belief in self.believed() if belief.id == relation_id]

    def speakers(self, relation_id: str) -> tuple[str, ...]:
        """The memories that say a relation."""
        return tuple(link.memory_id for link in self.links[relation_id].values() if link.dropped_at is None)

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
            memory_ids=self.speakers(belief.id),
        )

    # ── changing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def node(self, home: Home, name: str, kind: str, time: datetime) -> Node:
        """The entity of a name, a new one where there is none; this is one more mention of it."""
        found = self.names.get((home.id, entity_key(name)))
        if found is None:
            found = self._new_node(home, name, kind, time)
        found.mentions, found.changed = found.mentions + 1, True
        found.updated_at = max(found.updated_at, time)
        found.type = found.type or kind
        return found

    def _new_node(self, home: Home, name: str, kind: str, time: datetime) -> Node:
        node = Node(self.drawn(ENTITIES), str(uuid.uuid4()), home, name.strip(), kind, 0, time, time, new=True)
        self.nodes[node.pk] = node
        self.call(node, name)
        return node

    def call(self, node: Node, name: str) -> None:
        """Give an entity a name."""
        key = entity_key(name)
        self.names[node.home.id, key] = node
        self.new_names.append({"scope_id": node.home.id, "key": key, "name": name.strip(), "entity_pk": node.pk})

    def believe(self, like: Belief, span: Span, *, relation_id: str | None = None) -> Belief:
        """Write down what is believed from now on.

        Args:
            like: Its ends, name, counts.
            span: When it holds.
            relation_id: Of which relation; `None` makes another one.
        """
        belief = Belief(
            pk=self.drawn(RELATIONS),
            id=relation_id or str(uuid.uuid4()),
            home_id=like.home_id,
            source=like.source,
            relation=like.relation,
            target=like.target,
            span=span,
            recorded_at=self.now,
            mentions=like.mentions,
            confidence=like.confidence,
            new=True,
        )
        self.beliefs[belief.pk] = belief
        return belief

    def retire(self, belief: Belief) -> None:
        """Believe it no longer. What this very write had begun to believe was never believed by anybody."""
        if belief.new:
            del self.beliefs[belief.pk]
            return
        belief.retired_at, belief.changed = self.now, True
        self._change(RELATIONS, belief.pk, "delete")

    def link(self, belief: Belief, memory_id: str, time: datetime) -> None:
        """Note that a memory says a relation."""
        known = self.links[belief.id].get(memory_id)
        if known is None:
            self.links[belief.id][memory_id] = Link(belief.id, memory_id, belief.home_id, time, None, new=True)
        elif known.dropped_at is not None:
            known.dropped_at, known.changed = None, True

    def drop(self, relation_id: str, memory_id: str) -> None:
        """Note that a memory says a relation no longer."""
        link = self.links[relation_id].get(memory_id)
        if link is not None and link.dropped_at is None:
            link.dropped_at, link.changed = self.now, True

    def drawn(self, space: str) -> int:
        """The number of a new row of a space."""
        seq = self.draw()
        self._change(space, seq, "put", seq)
        return seq

    def _change(self, space: str, pk: int, op: str, seq: int | None = None) -> None:
        number = self.draw() if seq is None else seq
        self.tell.append({"seq": number, "nonce": secrets.token_bytes(8), "space": space, "row": pk, "op": op})

    # ── posting ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def post(self) -> None:
        """Write the difference."""
        self._post_nodes()
        self._post_beliefs()
        links = [link for of_relation in self.links.values() for link in of_relation.values()]
        _INSERT_LINK.many(self.connection, [_link_row(link) for link in links if link.new])
        changed = [link for link in links if link.changed and not link.new]
        _UPDATE_LINK.many(
            self.connection,
            [{"_relation": k.relation_id, "_memory": k.memory_id, "dropped_at": k.dropped_at} for k in changed],
        )

    def _post_nodes(self) -> None:
        nodes = self.nodes.values()
        _INSERT_NODE.many(self.connection, [_node_row(node) for node in nodes if node.new])
        _UPDATE_NODE.many(self.connection, [{"_pk": n.pk, **_node_row(n)} for n in nodes if n.changed and not n.new])
        _INSERT_NAME.many(self.connection, self.new_names)

    def _post_beliefs(self) -> None:
        beliefs = self.beliefs.values()
        gone = [belief for belief in beliefs if belief.retired_at is not None and not belief.new]
        _RETIRE.many(self.connection, [{"_pk": belief.pk, "_at": belief.retired_at} for belief in gone])
        counted = [b for b in beliefs if b.changed and b.retired_at is None and not b.new]
        _COUNT.many(
            self.connection, [{"_pk": b.pk, "mentions": b.mentions, "confidence": b.confidence} for b in counted]
        )
        _INSERT_BELIEF.many(self.connection, [_belief_row(belief) for belief in beliefs if belief.new])


def _link_row(link: Link) -> dict[str, Any]:
    told = {name: getattr(link, name) for name in ("relation_id", "memory_id", "created_at", "dropped_at")}
    return {**told, "scope_id": link.home_id}


def _node_row(node: Node) -> dict[str, Any]:
    told = {name: getattr(node, name) for name in ("pk", "id", "name", "type", "mentions", "created_at", "updated_at")}
    return {**told, "scope_id": node.home.id, "merged_into": node.merged_into}


def _belief_row(belief: Belief) -> dict[str, Any]:
    return {
        "pk": belief.pk,
        "id": belief.id,
        "scope_id": belief.home_id,
        "source_pk": belief.source.pk,
        "relation": belief.relation,
        "target_pk": belief.target.pk,
        "valid_from": belief.span.start,
        "valid_to": belief.span.end,
        "recorded_at": belief.recorded_at,
        "retired_at": belief.retired_at,
        "mentions": belief.mentions,
        "confidence": belief.confidence,
    }
