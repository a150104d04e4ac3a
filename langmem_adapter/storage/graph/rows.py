"""Rows of the knowledge graph that a write reads and changes in memory, and the prepared statements for them.

A write reads what it may concern with a fixed number of statements, however many relations it states, changes it here, and
posts the difference, table by table. It holds the write lock, so nothing that it read can change meanwhile.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Text, bindparam, func, insert, select, update
from sqlalchemy.ext.compiler import compiles

from langmem_adapter.names import is_symmetric, relation_end
from langmem_adapter.records.graph import Relation
from langmem_adapter.records.scope import shallow
from langmem_adapter.storage.feed import INSERT_CHANGE, new_change
from langmem_adapter.storage.queries import Prepared, any_of
from langmem_adapter.storage.scopes import of_row
from langmem_adapter.storage.tables import (
    BY_HAND,
    CURRENT,
    ENDS,
    ENTITIES,
    ENTITIES_OF,
    MOST_MENTIONS,
    RELATIONS,
    entities,
    entity_names,
    history,
    relation_memories,
    relations,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from sqlalchemy import Connection
    from sqlalchemy.sql.compiler import SQLCompiler

    from langmem_adapter.names import EntityReference
    from langmem_adapter.records.scope import Scope

# ── statements ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Between(ColumnElement[bool]):
    """The condition that source and target are one of the pairs of a list: `pairs_of` makes the parameters.

    Two conditions, each with its own list, would look into the index for every source with every target.
    """

    inherit_cache = False

    def __init__(self) -> None:
        self.pairs: Final = bindparam("pairs", type_=Text())
        self.sources, self.targets = (bindparam(name, type_=ARRAY(BigInteger)) for name in ("sources", "targets"))


@compiles(_Between)
def _between(element: _Between, compiler: SQLCompiler, **options: Any) -> str:
    if compiler.dialect.name == "sqlite":
        return _IN_JSON.format(compiler.process(element.pairs, **options))
    # Of arrays, unlike JSON, Postgres knows how long they are.
    return _IN_ARRAYS.format(*(compiler.process(each, **options) for each in (element.sources, element.targets)))


_IN_JSON: Final = (
    "(relations.source_pk, relations.target_pk) IN "
    "(SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each({}))"
)
_IN_ARRAYS: Final = "(relations.source_pk, relations.target_pk) IN (SELECT * FROM unnest({}, {}))"


def pairs_of(pairs: Collection[tuple[int, int]]) -> dict[str, Any]:
    """The parameters of `BETWEEN`, of either kind of database."""
    return {
        "pairs": json.dumps(list(pairs)),
        "sources": [source for source, _ in pairs],
        "targets": [target for _, target in pairs],
    }


def _relations(*conditions: ColumnElement[bool]) -> Prepared:
    return Prepared(select(relations).where(*conditions))


def _changes(table: Any, keys: dict[str, ColumnElement[Any]], *columns: str, **values: Any) -> Prepared:
    """An UPDATE of rows that have these keys; a row of values for it may hold more."""
    conditions = [column == bindparam(name) for name, column in keys.items()]
    return Prepared(update(table).where(*conditions).values({name: bindparam(name) for name in columns} | values))


_key, _support = entity_names.c, relation_memories.c
NAMES: Final = Prepared(
    select(_key.scope_id, _key.key, _key.entity_pk).where(any_of(_key.scope_id, "scopes"), any_of(_key.key, "keys"))
)
NAMES_OF: Final = Prepared(
    select(_key.entity_pk, _key.key, _key.name).where(any_of(_key.entity_pk, "pks")).order_by(_key.entity_pk, _key.key)
)
NODES: Final = Prepared(ENTITIES_OF.where(any_of(entities.c.pk, "pks")).order_by(entities.c.pk))
BETWEEN: Final = _relations(_Between(), CURRENT)
FROM, TO = (_relations(any_of(end, "pks"), any_of(relations.c.relation, "names"), CURRENT) for end in ENDS)
ALL_OF: Final = tuple(_relations(any_of(end, "pks"), CURRENT) for end in ENDS)
BY_ID: Final = _relations(any_of(relations.c.id, "ids"), CURRENT)
BY_PK: Final = _relations(any_of(relations.c.pk, "pks"))
_last: Final = (
    select(relations.c.id, func.max(relations.c.retired_at).label("at"))
    .where(any_of(relations.c.id, "ids"))
    .group_by(relations.c.id)
    .subquery()
)
LAST_RETIRED: Final = Prepared(
    select(relations).join(_last, (relations.c.id == _last.c.id) & (relations.c.retired_at == _last.c.at))
)
LINKS: Final = Prepared(select(relation_memories).where(any_of(_support.memory_id, "ids")))
SUPPORT: Final = Prepared(
    select(relation_memories)
    .where(any_of(_support.relation_id, "ids"))
    .order_by(_support.created_at, _support.memory_id)
)
OLD_TEXTS: Final = Prepared(
    select(history.c.recorded_at, history.c.old_memory).where(
        history.c.memory_id == bindparam("memory"), history.c.past_of.is_(None)
    )
)
INSERT_NODE, INSERT_NAME, INSERT_RELATION, INSERT_LINK = (
    Prepared(insert(table)) for table in (entities, entity_names, relations, relation_memories)
)
UPDATE_NODE: Final = _changes(entities, {"_pk": entities.c.pk}, "type", "mentions", "updated_at", "merged_into")
RETIRE: Final = _changes(relations, {"_pk": relations.c.pk}, retired_at=bindparam("_at"))
COUNT: Final = _changes(relations, {"_pk": relations.c.pk}, "mentions", "confidence")
UPDATE_LINK: Final = _changes(
    relation_memories, {"_relation": _support.relation_id, "_memory": _support.memory_id}, "dropped_at"
)

# ── valid times ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_EVER: Final = datetime.min.replace(tzinfo=UTC)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time, from its first moment to the first after it; `None` is without a bound."""

    start: datetime | None
    end: datetime | None

    @property
    def begins(self) -> datetime:
        """Its start, as a moment that compares."""
        return self.start or _EVER

    @property
    def ends(self) -> datetime:
        return self.end or _NEVER

    def overlaps(self, other: Span) -> bool:
        return max(self.begins, other.begins) < min(self.ends, other.ends)

    def meets(self, other: Span) -> bool:
        """Whether no moment lies between the two."""
        return self.begins <= other.ends and other.begins <= self.ends

    def joined(self, other: Span) -> Span:
        first, last = min(self, other, key=lambda span: span.begins), max(self, other, key=lambda span: span.ends)
        return Span(first.start, last.end)

    def until(self, moment: datetime) -> Span:
        return Span(self.start, moment) if moment < self.ends else self

    def since(self, moment: datetime) -> Span:
        return Span(moment, self.end) if moment > self.begins else self

    def without(self, other: Span) -> tuple[Span, ...]:
        """Its parts outside another: none, one or two, in order."""
        if not self.overlaps(other):
            return (self,)
        before = () if other.start is None else (Span(self.start, other.start),)
        after = () if other.end is None else (Span(other.end, self.end),)
        return tuple(part for part in (*before, *after) if part.begins < part.ends)

    def giving_way(self, others: Iterable[Span], *, at_start: bool, at_end: bool) -> Span | None:
        """What is left of it where it gives way to others, at those of its two ends that are not stated.

        Where it may give way *at_start*, it begins where the last of those ends that end before it does; *at_end*, it ends
        where the first of those begins that begin after it does. The others do not overlap each other. `None` where it may give
        way at both ends, and they fill all of it.
        """
        near = [other for other in others if other.overlaps(self)]
        if at_start and at_end:
            parts: tuple[Span, ...] = (self,)
            for other in near:
                parts = tuple(part for whole in parts for part in whole.without(other))
            return parts[-1] if parts else None
        starts = [other.begins for other in near if at_end and other.begins > self.begins]
        ends = [other.ends for other in near if at_start and other.ends < self.ends]
        return self.until(min(starts)) if starts else self.since(max(ends)) if ends else self


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """The exact scope that a relation is written to: its number and its fields."""

    id: int
    scope: Scope


@dataclass(slots=True, eq=False)
class EntityNode:
    pk: int
    id: str
    scope_row: ScopeRow
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
        return relation_end(self.owner or self.name, self.scope_row.scope).key


@dataclass(slots=True, eq=False)
class RelationRow:
    """One row of `relations`: what is known of one relation from `recorded_at` to `retired_at`."""

    pk: int
    id: str
    scope_id: int
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


@dataclass(slots=True, eq=False)
class Link:
    """That a memory states a relation, or did until it was dropped."""

    relation_id: str
    memory_id: str
    scope_id: int
    created_at: datetime
    dropped_at: datetime | None
    new: bool = False
    changed: bool = False


class _RelationIndex:
    """Rows of relations by what they are about; a look-up gives those that are current, the oldest row first."""

    def __init__(self) -> None:
        self._all: dict[int, RelationRow] = {}
        self._by_key: defaultdict[tuple[int | str, ...], dict[int, RelationRow]] = defaultdict(dict)

    def __contains__(self, pk: int) -> bool:
        return pk in self._all

    def __iter__(self) -> Iterator[RelationRow]:
        return iter(self._all.values())

    def put(self, row: RelationRow) -> None:
        self._all[row.pk] = row
        for key in _index_keys(row):
            self._by_key[key][row.pk] = row

    def remove(self, row: RelationRow) -> None:
        del self._all[row.pk]
        for key in _index_keys(row):
            del self._by_key[key][row.pk]

    def of_id(self, relation_id: str) -> RelationRow | None:
        return next(iter(self._of_keys([(relation_id,)])), None)

    def between(
        self, sources: Iterable[EntityNode], relation: str, targets: Collection[EntityNode]
    ) -> list[RelationRow]:
        """Those of a relation from some entities to some others; of a symmetric one also the other way round."""
        pairs = [(source.pk, target.pk) for source in sources for target in targets]
        if is_symmetric(relation):
            pairs += [(target, source) for source, target in pairs]
        return self._of_keys((source, relation, target) for source, target in pairs)

    def of_ends(self, ends: Collection[EntityNode], relation: str, *, mutual: bool) -> list[RelationRow]:
        """Those of a relation from some entities, and to them where it is *mutual*."""
        return self._of_keys((side, end.pk, relation) for side in ("from", "to")[: 1 + mutual] for end in ends)

    def current(self) -> list[RelationRow]:
        return _current_rows(self._all)

    def _of_keys(self, keys: Iterable[tuple[int | str, ...]]) -> list[RelationRow]:
        rows: dict[int, RelationRow] = {}
        for key in keys:
            rows |= self._by_key.get(key, {})
        return _current_rows(rows)


def _index_keys(row: RelationRow) -> tuple[tuple[int | str, ...], ...]:
    source, target = row.source.pk, row.target.pk
    return (row.id,), (source, row.relation, target), ("from", source, row.relation), ("to", target, row.relation)


def _current_rows(rows: dict[int, RelationRow]) -> list[RelationRow]:
    return [rows[pk] for pk in sorted(rows) if rows[pk].retired_at is None]


@dataclass(slots=True, eq=False)
class GraphRows:
    """The rows that one write looks at, in its transaction, at its time; *draw* gives the next number of the change feed."""

    connection: Connection
    now: datetime
    draw: Callable[[], int]
    nodes: dict[int, EntityNode] = field(default_factory=dict)
    names: dict[tuple[int, str], EntityNode] = field(default_factory=dict)
    relations: _RelationIndex = field(default_factory=_RelationIndex)
    links: defaultdict[str, dict[str, Link]] = field(default_factory=lambda: defaultdict(dict))
    by_key: defaultdict[str, list[EntityNode]] = field(default_factory=lambda: defaultdict(list))
    _mentions: defaultdict[str, dict[str, Link]] = field(default_factory=lambda: defaultdict(dict))
    _new_names: list[dict[str, Any]] = field(default_factory=list)
    _changes: list[dict[str, Any]] = field(default_factory=list)
    _in_feed: set[tuple[str, int]] = field(default_factory=set)

    def read_names(self, scope_ids: Collection[int], keys: Collection[str]) -> None:
        rows = NAMES.rows(self.connection, {"scopes": scope_ids, "keys": keys})
        self._read_nodes(row.entity_pk for row in rows)
        for row in rows:
            if (row.scope_id, row.key) not in self.names:
                self._name(self.nodes[row.entity_pk], row.key)

    def read_between(self, pairs: Collection[tuple[int, int]]) -> None:
        if pairs:
            self._read(BETWEEN, pairs_of(pairs))

    def read_of_ends(self, sources: Collection[int], targets: Collection[int], names: Collection[str]) -> None:
        for statement, pks in ((FROM, sources), (TO, targets)):
            if pks:
                self._read(statement, {"pks": pks, "names": names})

    def read_all(self, pks: Collection[int]) -> None:
        self._read_nodes(pks)
        for statement in ALL_OF:
            self._read(statement, {"pks": pks})

    def read_ids(self, ids: Collection[str]) -> None:
        self._read(BY_ID, {"ids": ids})

    def read_rows(self, pks: Collection[int]) -> dict[int, RelationRow]:
        """These rows by pk, current or not; they are not kept here."""
        return {row.pk: row for row in self._relations(BY_PK.rows(self.connection, {"pks": pks}))}

    def last_retired(self, ids: Collection[str]) -> dict[str, RelationRow]:
        """The last retired row of each of these relations; they are not kept here."""
        return {row.id: row for row in self._relations(LAST_RETIRED.rows(self.connection, {"ids": ids}))}

    def read_mentions(self, memory_ids: Collection[str]) -> None:
        """Read the relations that these memories state or stated."""
        ids = {row.relation_id for row in LINKS.rows(self.connection, {"ids": memory_ids})}
        if ids:
            self.read_ids(ids)
            self.read_support(ids)

    def read_support(self, ids: Collection[str]) -> None:
        wanted = [relation_id for relation_id in ids if relation_id not in self.links]
        for row in SUPPORT.rows(self.connection, {"ids": wanted}) if wanted else ():
            self._keep(Link(row.relation_id, row.memory_id, row.scope_id, row.created_at, row.dropped_at))

    def old_texts(self, memory_id: str) -> dict[datetime, str | None]:
        """The texts that a memory had, by when each was replaced."""
        return dict(OLD_TEXTS.rows(self.connection, {"memory": memory_id}))

    def _read_nodes(self, pks: Iterable[int]) -> None:
        wanted = {pk for pk in pks if pk not in self.nodes}
        for row in NODES.rows(self.connection, {"pks": wanted}) if wanted else ():
            values = {name: getattr(row, name) for name in _NODE_COLUMNS}
            self.nodes[row.pk] = EntityNode(**values, scope_row=ScopeRow(row.scope_id, of_row(row)))

    def _read(self, statement: Prepared, values: dict[str, Any]) -> None:
        rows = [row for row in statement.rows(self.connection, values) if row.pk not in self.relations]
        for row in self._relations(rows):
            self.relations.put(row)

    def _relations(self, rows: Collection[Any]) -> list[RelationRow]:
        self._read_nodes(pk for row in rows for pk in (row.source_pk, row.target_pk))
        return [
            RelationRow(
                **{name: getattr(row, name) for name in _RELATION_COLUMNS},
                source=self.nodes[row.source_pk],
                target=self.nodes[row.target_pk],
                span=Span(row.valid_from, row.valid_to),
            )
            for row in rows
        ]

    def _keep(self, link: Link) -> None:
        self.links[link.relation_id][link.memory_id] = self._mentions[link.memory_id][link.relation_id] = link

    def _name(self, node: EntityNode, key: str) -> None:
        self.names[node.scope_row.id, key] = node
        self.by_key[key].append(node)
        node.keys.add(key)

    def node_of(self, pk: int) -> EntityNode:
        self._read_nodes([pk])
        return self.nodes[pk]

    def current(self, node: EntityNode) -> EntityNode:
        """The entity that has an entity's name now: another one, if that was merged into it."""
        return self.names.get((node.scope_row.id, node.key), node)

    def namesakes(self, node: EntityNode) -> list[EntityNode]:
        """An entity and those in other scopes that have a name in common with it."""
        return list(dict.fromkeys([node, *(each for key in node.keys for each in self.by_key[key])]))

    def supporting_memory_ids(self, relation_id: str) -> tuple[str, ...]:
        """The memories that state a relation, and `BY_HAND`."""
        return tuple(link.memory_id for link in self.links[relation_id].values() if link.dropped_at is None)

    def mentions(self, memory_id: str) -> list[Link]:
        return list(self._mentions[memory_id].values())

    def record(self, row: RelationRow) -> Relation:
        return Relation(
            id=row.id,
            source=row.source.name,
            relation=row.relation,
            target=row.target.name,
            source_type=row.source.type,
            target_type=row.target.type,
            scope=row.source.scope_row.scope,
            valid_from=row.span.start,
            valid_to=row.span.end,
            recorded_at=row.recorded_at,
            retired_at=row.retired_at,
            mentions=row.mentions,
            confidence=row.confidence,
            memory_ids=tuple(id_ for id_ in self.supporting_memory_ids(row.id) if id_ != BY_HAND),
        )

    def node(self, scope_row: ScopeRow, end: EntityReference, kind: str, time: datetime) -> EntityNode:
        """The entity at an end of a triple, a new one where there is none; this is one more mention of it."""
        node = self.names.get((scope_row.id, end.key)) or self._new_node(scope_row, end, kind, time)
        node.mentions, node.changed = node.mentions + 1, True
        node.updated_at = max(node.updated_at, time)
        node.type = node.type or kind
        return node

    def _new_node(self, scope_row: ScopeRow, end: EntityReference, kind: str, time: datetime) -> EntityNode:
        pk, name = self.draw_pk(ENTITIES), end.name.strip()
        node = EntityNode(pk, str(uuid.uuid4()), scope_row, name, kind, 0, time, time, owner=end.owner, new=True)
        self.nodes[pk] = node
        self._name(node, end.key)
        self._new_names.append({"scope_id": scope_row.id, "key": end.key, "name": name, "entity_pk": pk})
        return node

    def add(self, like: RelationRow, span: Span, *, relation_id: str | None = None) -> RelationRow:
        """Add a current row like another; without an id it is a new relation."""
        pk, id_ = self.draw_pk(RELATIONS), relation_id or str(uuid.uuid4())
        row = replace(like, pk=pk, id=id_, span=span, recorded_at=self.now, retired_at=None, new=True, changed=False)
        self.relations.put(row)
        return row

    def retire(self, row: RelationRow) -> None:
        """Retire a row; one that this very write has added was never there."""
        if row.new:
            self.relations.remove(row)
            return
        row.retired_at, row.changed = self.now, True
        self._change(RELATIONS, row.pk, "delete", self.draw())

    def link(self, row: RelationRow, memory_id: str, time: datetime) -> bool:
        """Note that a memory states a relation, and whether it did not do so before."""
        link = self.links[row.id].get(memory_id)
        if link is None:
            self._keep(Link(row.id, memory_id, row.scope_id, time, None, new=True))
        elif link.dropped_at is not None:
            link.dropped_at, link.changed = None, True
        else:
            return False
        self._put_in_feed(RELATIONS, row)
        return True

    def join(self, alike: Sequence[RelationRow], span: Span) -> RelationRow:
        """Make the first of some rows with the same triple hold for a span, as often as it now counts; others go into it."""
        first, *more = alike
        for row in alike:
            self.retire(row)
        joined = self.add(first, span, relation_id=first.id)
        for row in more:
            self.hand_on(row.id, joined)
            for memory_id in self.supporting_memory_ids(row.id):
                self.drop(self.links[row.id][memory_id])
        return joined

    def hand_on(self, relation_id: str, to: RelationRow) -> None:
        """Memories that state one relation state another, and those that once stated it do so when they come back."""
        for link in list(self.links[relation_id].values()):
            if link.dropped_at is None:
                self.link(to, link.memory_id, link.created_at)
            elif link.memory_id not in self.links[to.id]:
                self._keep(replace(link, relation_id=to.id, scope_id=to.scope_id, new=True, changed=False))

    def drop(self, link: Link) -> None:
        link.dropped_at, link.changed = self.now, True
        row = self.relations.of_id(link.relation_id)
        if row is not None:
            self._put_in_feed(RELATIONS, row)

    def draw_pk(self, space: str) -> int:
        seq = self.draw()
        self._change(space, seq, "put", seq)
        return seq

    def _put_in_feed(self, space: str, row: RelationRow | EntityNode) -> None:
        """Let the change feed name a row; a new one is named as it is drawn."""
        if not row.new and (space, row.pk) not in self._in_feed:
            self._change(space, row.pk, "put", self.draw())

    def _change(self, space: str, pk: int, op: str, seq: int) -> None:
        self._in_feed.add((space, pk))
        self._changes.append(new_change(seq, space, pk, op))

    def post(self) -> None:
        """Write the difference, and name it in the change feed."""
        # Contract: no row of the graph changes unless the feed names it, with the same transaction.
        # tests/mirror/test_campaign.py::test_mirror_equals_the_database_after_many_kills.
        nodes, rows = list(self.nodes.values()), list(self.relations)
        for space, changed in ((ENTITIES, nodes), (RELATIONS, rows)):
            for row in changed:
                if row.changed:
                    self._put_in_feed(space, row)
        ids = {row.id for row in rows}
        # Without those of relations that came and went within this write.
        links = [link for of in self.links.values() for link in of.values() if link.relation_id in ids or not link.new]
        changed_rows = [row for row in rows if row.changed and not row.new]
        for statement, values in (
            (INSERT_CHANGE, self._changes),
            (INSERT_NODE, [_node_values(node) for node in nodes if node.new]),
            (UPDATE_NODE, [_node_values(node) for node in nodes if node.changed and not node.new]),
            (INSERT_NAME, self._new_names),
            (RETIRE, [_relation_values(row) for row in changed_rows if row.retired_at]),
            (COUNT, [_relation_values(row) for row in changed_rows if not row.retired_at]),
            (INSERT_RELATION, [_relation_values(row) for row in rows if row.new]),
            (INSERT_LINK, [_link_values(link) for link in links if link.new]),
            (UPDATE_LINK, [_link_values(link) for link in links if link.changed and not link.new]),
        ):
            statement.run(self.connection, *values)


_NODE_COLUMNS: Final = "pk id name type mentions created_at updated_at merged_into owner".split()
_RELATION_COLUMNS: Final = "pk id scope_id relation recorded_at mentions confidence retired_at".split()

# What a statement is given beyond its columns, it leaves alone.


def _link_values(link: Link) -> dict[str, Any]:
    return {**shallow(link), "_relation": link.relation_id, "_memory": link.memory_id}


def _node_values(node: EntityNode) -> dict[str, Any]:
    return {
        **shallow(node), "_pk": node.pk, "mentions": min(node.mentions, MOST_MENTIONS), "scope_id": node.scope_row.id,
    }  # fmt: skip


def _relation_values(row: RelationRow) -> dict[str, Any]:
    ends = {"source_pk": row.source.pk, "target_pk": row.target.pk, "valid_from": row.span.start}
    times = {"valid_to": row.span.end, "_at": row.retired_at, "_pk": row.pk}
    return {**shallow(row), **ends, **times, "mentions": min(row.mentions, MOST_MENTIONS)}
