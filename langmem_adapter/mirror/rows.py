"""What of the knowledge graph is mirrored: its rows as properties of nodes and relations."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import func, select, true

from langmem_adapter.records.plain import shallow
from langmem_adapter.records.scope import SCOPE_FIELDS
from langmem_adapter.storage.graph import reads
from langmem_adapter.storage.graph.statements import NAMES_OF
from langmem_adapter.storage.graph.tables import EDGE, ENTITIES, ENTITIES_OF, RELATIONS, entities, relations
from langmem_adapter.storage.scopes import within
from langmem_adapter.storage.tables import scopes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Table

    from langmem_adapter.records.graph import Relation
    from langmem_adapter.records.scope import Scope

__all__ = ["MirrorBatch", "after", "batch_of", "progress"]

Properties: TypeAlias = dict[str, Any]
_EVER: Final = reads.When(history=True)
_KEPT: Final = {ENTITIES: entities, RELATIONS: relations}
_TOLD: Final = tuple("id valid_from valid_to recorded_at retired_at mentions confidence".split())


@dataclass(frozen=True, slots=True)
class MirrorBatch:
    """What one transaction of the target writes; relations go only together with their ends."""

    nodes: Sequence[Properties] = ()  # entities: `pk` and `properties`
    relations: dict[str, list[Properties]] = field(default_factory=dict)  # by name; `source` and `target` beside these
    gone: Sequence[int] = ()  # pks of entities that are no more

    @property
    def any(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.nodes or self.relations or self.gone)

    @property
    def ties(self) -> int:
        """How many relations."""
        return sum(map(len, self.relations.values()))


def batch_of(connection: Connection, scope: Scope | None, named: Mapping[str, Sequence[int]]) -> MirrorBatch:
    """The rows within a scope, or everybody's, whose pks some changes name, as they now stand.

    Every row of a relation is given anew with the one that is named: which memories say it is told of all of them.
    """
    pks, tied = named.get(ENTITIES, ()), named.get(RELATIONS, ())
    there = set(connection.execute(select(entities.c.pk).where(entities.c.pk.in_(pks))).scalars())
    of_ids = relations.c.id.in_(select(relations.c.id).where(relations.c.pk.in_(tied)))
    nodes = _nodes(connection, entities.c.pk.in_(pks), within(scope))
    return MirrorBatch(nodes, _ties(connection, of_ids, within(scope)), [pk for pk in pks if pk not in there])


def after(
    connection: Connection, scope: Scope | None, space: str, pk: int, most: int
) -> tuple[MirrorBatch, int | None]:
    """The next rows of a space, by pk, and the last of these pks; `None` where there are no more."""
    kept = _KEPT[space]
    query = select(kept.c.pk).join(scopes, kept.c.scope_id == scopes.c.id).where(kept.c.pk > pk, within(scope))
    pks = connection.execute(query.order_by(kept.c.pk).limit(most)).scalars().all()
    of_them, last = kept.c.pk.in_(pks), pks[-1] if pks else None
    if space == ENTITIES:
        return MirrorBatch(nodes=_nodes(connection, of_them, true())), last
    return MirrorBatch(relations=_ties(connection, of_them, true())), last


def progress(connection: Connection, scope: Scope | None, space: str, pk: int) -> tuple[int, int]:
    """How many rows come up to one of a space, those of the space before it among them, and how many there are in all."""
    sizes = [_size(connection, kept, scope) for kept in _KEPT.values()]
    done = _size(connection, _KEPT[space], scope, pk) + (sizes[0] if space == RELATIONS else 0)
    return done, sum(sizes)


def _size(connection: Connection, kept: Table, scope: Scope | None, until: int | None = None) -> int:
    query = select(func.count()).select_from(kept).join(scopes, kept.c.scope_id == scopes.c.id)
    first = true() if until is None else kept.c.pk <= until
    return int(connection.execute(query.where(within(scope), first)).scalar_one())


# ── entities ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _nodes(connection: Connection, chosen: ColumnElement[bool], inside: ColumnElement[bool]) -> list[Properties]:
    rows = connection.execute(ENTITIES_OF.where(chosen, inside).order_by(entities.c.pk)).all()
    names: defaultdict[int, list[str]] = defaultdict(list)
    for named in NAMES_OF.rows(connection, {"pks": [row.pk for row in rows]}):
        names[named.entity_pk].append(named.name)
    return [{"pk": row.pk, "properties": _of_entity(row, names[row.pk])} for row in rows]


def _of_entity(row: Any, names: Sequence[str]) -> Properties:
    told = {name: getattr(row, name) for name in ("id", "name", "type", "mentions", "merged_into", *SCOPE_FIELDS)}
    aliases = [name for name in names if name != row.name]
    return {**told, "aliases": aliases, "created": row.created_at, "updated": row.updated_at}


# ── relations ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _ties(
    connection: Connection, chosen: ColumnElement[bool], inside: ColumnElement[bool]
) -> dict[str, list[Properties]]:
    query = select(*EDGE).join(scopes, relations.c.scope_id == scopes.c.id).where(chosen, inside)
    rows = connection.execute(query.order_by(relations.c.pk)).all()
    told = reads.by_pks(connection, [row.pk for row in rows], _EVER)
    found: defaultdict[str, list[Properties]] = defaultdict(list)
    for row in rows:
        each = {"pk": row.pk, "source": row.source_pk, "target": row.target_pk}
        found[told[row.pk].relation].append({**each, "properties": _of_relation(told[row.pk])})
    return dict(found)


def _of_relation(relation: Relation) -> Properties:
    told = {name: getattr(relation, name) for name in _TOLD}
    return {**told, **shallow(relation.scope), "memory_ids": list(relation.memory_ids)}
