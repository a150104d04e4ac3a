"""Edits of the knowledge graph by hand: end or withdraw a relation, merge two entities, split them again.

Each is one transaction, run by `Ledger.writing`. A relation that is retired, or lies outside the scope that is named, is a
`RelationNotFoundError`; a name that no entity has, an `EntityNotFoundError`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import insert, select, update

from langmem_adapter.errors import EntityNotFoundError, InvalidInputError, RelationNotFoundError
from langmem_adapter.names import owner_name, relation_end
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.graph.reads import keys_of
from langmem_adapter.storage.graph.rows import GraphRows
from langmem_adapter.storage.graph.writes import RelationWriter
from langmem_adapter.storage.scopes import expand, ids_within
from langmem_adapter.storage.tables import CURRENT, entity_names, merges, relations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.graph import RelationChange
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.rows import EntityNode, RelationRow

_MERGES: Final = "merges"  # their space in the change feed, which numbers them


def end(
    connection: Connection, relation_id: str, *, at: datetime | None = None, within: Scope | None = None
) -> RelationChange:
    """End a relation at a moment, default now; its history stays."""
    rows = _rows(connection)
    writer = RelationWriter(rows)
    writer.end(_find(rows, relation_id, within), rows.now if at is None else at)
    if not (changes := writer.changes()):
        raise InvalidInputError("the relation had ended by then")
    rows.post()
    return changes[0]


def withdraw(connection: Connection, relation_id: str, *, within: Scope | None = None) -> RelationChange:
    rows = _rows(connection)
    return _retire(rows, [_find(rows, relation_id, within)])[0]


def withdraw_all(connection: Connection, scope: Scope) -> int:
    rows = _rows(connection)
    of_scope = select(relations.c.id).where(relations.c.scope_id.in_(ids_within(scope)), CURRENT)
    rows.read_ids(connection.execute(of_scope).scalars().all())
    return len(_retire(rows, rows.relations.current()))


def _retire(rows: GraphRows, current: Sequence[RelationRow]) -> tuple[RelationChange, ...]:
    writer = RelationWriter(rows)
    for row in current:
        writer.become(row)
    changes = writer.changes()
    rows.post()
    return changes


def merge(connection: Connection, name: str, into: str, *, within: Scope) -> int:
    """Make two entities one, in every exact scope that has the first, and say how many relations were moved."""
    winner_name, rows = owner_name(into, within), _rows(connection)
    keys, others = keys_of(connection, within, owner_name(name, within)), keys_of(connection, within, winner_name)
    rows.read_names(expand(connection, within), keys | others)
    losers = [loser for key in sorted(keys) for loser in rows.by_key[key]]
    if not losers:
        raise EntityNotFoundError(name)
    winners = {winner.scope_row.id: winner for other in others for winner in rows.by_key[other]}
    pairs = [(loser, winners.get(loser.scope_row.id)) for loser in losers]
    if any(loser is winner for loser, winner in pairs):
        raise InvalidInputError(f"{name!r} and {into!r} are the same already")
    merging = [
        (
            loser,
            winner
            or rows.node(loser.scope_row, relation_end(winner_name, loser.scope_row.scope), loser.type, rows.now),
        )
        for loser, winner in pairs
    ]
    rows.read_all([node.pk for pair in merging for node in pair if not node.new])
    rows.read_support({row.id for row in rows.relations})
    merged = [_Merge(rows, loser, winner) for loser, winner in merging]
    rows.post()
    for each in merged:
        each.post()
    return sum(each.moved for each in merged)


def split(connection: Connection, name: str, *, within: Scope) -> int:
    """Undo the last merge of an entity, and say how many relations came back; what was said since stays with the other."""
    rows, keys = _rows(connection), keys_of(connection, within, owner_name(name, within))
    query = select(merges).where(merges.c.scope_id.in_(ids_within(within)), merges.c.undone_at.is_(None))
    merged = connection.execute(query.order_by(merges.c.pk))
    latest = {row.scope_id: row for row in merged if not keys.isdisjoint(row.moved["keys"])}
    if not latest:
        raise EntityNotFoundError(name)
    moved = sum(_Split(rows, row).carry_out() for row in latest.values())
    rows.post()
    for row in latest.values():
        _rename(connection, row.scope_id, row.moved["keys"], row.loser_pk)
        connection.execute(update(merges).where(merges.c.pk == row.pk).values(undone_at=rows.now))
    return moved


def _rows(connection: Connection) -> GraphRows:
    return GraphRows(connection, datetime.now(UTC), count(last_seq(connection) + 1).__next__)


def _find(rows: GraphRows, relation_id: str, within: Scope | None) -> RelationRow:
    rows.read_ids([relation_id])
    rows.read_support([relation_id])
    row = rows.relations.of_id(relation_id)
    if row is None or (within is not None and not within.covers(row.source.scope_row.scope)):
        raise RelationNotFoundError(relation_id)
    return row


def _rename(connection: Connection, scope_id: int, keys: Sequence[str], entity_pk: int) -> None:
    names = entity_names.c.scope_id == scope_id, entity_names.c.key.in_(keys)
    connection.execute(update(entity_names).where(*names).values(entity_pk=entity_pk))


class _Joiner:
    """Makes one of several relations that say the same."""

    def __init__(self, rows: GraphRows) -> None:
        self._rows = rows
        self._written: dict[int, int | None] = {}  # for each row that was retired, the one written in its place
        self._links: list[tuple[str, str]] = []  # memories that came to state the relation of the other

    def _put(self, claim: RelationRow) -> RelationRow | None:
        """Add a new row, or widen the oldest with the same triple and no moment between, which takes the others in."""
        near = self._rows.relations.between([claim.source], claim.relation, [claim.target])
        alike = [row for row in near if row.span.meets(claim.span)]
        if not alike:
            return self._rows.add(claim, claim.span, relation_id=claim.id)
        first, *more = alike
        joined = first if first.new else self._renew(first)
        for other in (*more, claim):
            joined.span = joined.span.joined(other.span)
            joined.mentions += other.mentions
            joined.confidence = max(joined.confidence, other.confidence)
            for memory_id in self._rows.supporting_memory_ids(other.id):
                if self._rows.link(joined, memory_id, self._rows.links[other.id][memory_id].created_at):
                    self._links.append((joined.id, memory_id))
        for other in more:
            self._rows.retire(other)
            if other.new:  # an earlier step of this merge wrote it
                self._written = {old: None if new == other.pk else new for old, new in self._written.items()}
            else:
                self._written[other.pk] = None
        return None

    def _renew(self, row: RelationRow) -> RelationRow:
        self._rows.retire(row)
        renewed = self._rows.add(row, row.span, relation_id=row.id)
        self._written[row.pk] = renewed.pk
        return renewed


class _Merge(_Joiner):
    """One entity on its way into another: its relations are moved."""

    def __init__(self, rows: GraphRows, loser: EntityNode, winner: EntityNode) -> None:
        super().__init__(rows)
        self._loser = loser
        self._winner = winner
        self._pk = rows.draw_pk(_MERGES)
        current = [row for row in rows.relations.current() if loser in {row.source, row.target}]
        for row in current:
            self._move(row)
        loser.merged_into, loser.changed = winner.pk, True
        winner.mentions, winner.changed = winner.mentions + loser.mentions, True
        self.moved = len(current)

    def post(self) -> None:
        """Write down how it can be undone, and give the other its names."""
        connection, scope_id = self._rows.connection, self._winner.scope_row.id
        query = select(entity_names.c.key).where(entity_names.c.entity_pk == self._loser.pk)
        keys = list(connection.execute(query).scalars())
        _rename(connection, scope_id, keys, self._winner.pk)
        moved = {"rows": list(self._written.items()), "links": self._links, "keys": keys}
        pks = {"pk": self._pk, "winner_pk": self._winner.pk, "loser_pk": self._loser.pk}
        connection.execute(insert(merges).values(**pks, scope_id=scope_id, created_at=self._rows.now, moved=moved))

    def _move(self, old: RelationRow) -> None:
        source, target = (self._winner if node is self._loser else node for node in (old.source, old.target))
        self._rows.retire(old)
        self._written[old.pk] = None
        if source is not target:
            moved = self._put(replace(old, source=source, target=target))
            self._written[old.pk] = None if moved is None else moved.pk


class _Split(_Joiner):
    """One entity on its way out of another: its relations come back as they have gone on since."""

    def __init__(self, rows: GraphRows, merged: Any) -> None:
        super().__init__(rows)
        self._merged = merged
        self._pairs: list[tuple[int, int | None]] = merged.moved["rows"]
        rows.read_all([merged.loser_pk, merged.winner_pk])
        self._loser, self._winner = rows.nodes[merged.loser_pk], rows.nodes[merged.winner_pk]
        self._once = rows.read_rows([old for old, _ in self._pairs])
        self._after = rows.read_rows([new for _, new in self._pairs if new is not None])
        rows.read_ids({row.id for row in self._once.values()})
        rows.read_support({row.id for row in [*self._once.values(), *rows.relations]})

    def carry_out(self) -> int:
        self._loser.merged_into, self._loser.changed = None, True
        self._winner.mentions, self._winner.changed = max(0, self._winner.mentions - self._loser.mentions), True
        for relation_id, memory_id in self._merged.moved["links"]:
            link = self._rows.links[relation_id].get(memory_id)
            if link is not None and link.dropped_at is None:
                self._rows.drop(link)
        # What may have to be joined with others comes last.
        pairs = [pair for pair in sorted(self._pairs, key=lambda pair: pair[1] is None) if pair[0] in self._once]
        return sum(
            self._bring_back(self._once[old], None if new is None else self._after.get(new)) for old, new in pairs
        )

    def _bring_back(self, once: RelationRow, written: RelationRow | None) -> bool:
        now = self._rows.relations.of_id(once.id)
        if written is None:
            return now is None and self._add_again(once)
        is_unchanged = now is not None and now.pk == written.pk
        was_moved = (once.source, once.target) != (written.source, written.target)
        if now is None or not (was_moved or is_unchanged):
            return False
        self._rows.retire(now)
        # Only this merge is undone, whatever became of the other end since.
        ends = {end: self._loser if getattr(once, end) is self._loser else getattr(now, end) for end in _ENDS}
        back = replace(once if is_unchanged else now, **ends)
        self._rows.add(back, back.span, relation_id=once.id)
        return was_moved

    def _add_again(self, once: RelationRow) -> bool:
        """A relation that another one took in; unless the last memory that stated it is gone meanwhile."""
        if self._rows.links[once.id] and not self._rows.supporting_memory_ids(once.id):
            return False
        back = replace(once, source=self._follow(once.source), target=self._follow(once.target))
        if back.source is back.target:
            return False
        self._put(back)
        return True

    def _follow(self, node: EntityNode) -> EntityNode:
        while node.merged_into is not None:
            node = self._rows.node_of(node.merged_into)
        return node


_ENDS: Final = ("source", "target")
