"""Edits of the knowledge graph by hand: end or withdraw a relation, make two entities one, undo that.

Each is one transaction, run by `Ledger.writing`. A relation that is not believed, or lies outside the scope that is named, is a
`RelationNotFoundError`; a name that nobody has, an `EntityNotFoundError`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self

from sqlalchemy import insert, select, update

from langmem_adapter.errors import EntityNotFoundError, InvalidInputError, RelationNotFoundError
from langmem_adapter.names import owner_name, relation_end
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.graph import writes as graph_writes
from langmem_adapter.storage.graph.reads import keys_of
from langmem_adapter.storage.graph.rows import GraphRows
from langmem_adapter.storage.scopes import expand, ids_within
from langmem_adapter.storage.tables import BELIEVED, entity_names, merges, relations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.graph import RelationChange
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.rows import Belief, EntityNode

_MERGES: Final = "merges"  # their space in the change feed, which numbers them


def end(
    connection: Connection, relation_id: str, *, at: datetime | None = None, within: Scope | None = None
) -> RelationChange:
    """End a relation at a moment, default now; that it held until then stays known."""
    rows = _rows(connection)
    done = graph_writes.end(rows, _find(rows, relation_id, within), rows.now if at is None else at)
    if not done:
        raise InvalidInputError("the relation had ended by then")
    rows.post()
    return done[0]


def withdraw(connection: Connection, relation_id: str, *, within: Scope | None = None) -> RelationChange:
    """Believe a relation no longer; that it was believed stays known."""
    rows = _rows(connection)
    done = graph_writes.withdraw(rows, [_find(rows, relation_id, within)])
    rows.post()
    return done[0]


def withdraw_all(connection: Connection, scope: Scope) -> int:
    """Believe no relation within a scope any longer, and say how many there were."""
    rows = _rows(connection)
    of_scope = select(relations.c.id).where(relations.c.scope_id.in_(ids_within(scope)), BELIEVED)
    rows.read_ids(connection.execute(of_scope).scalars().all())
    done = graph_writes.withdraw(rows, rows.beliefs.believed())
    rows.post()
    return len(done)


def merge(connection: Connection, name: str, into: str, *, within: Scope) -> int:
    """Make two entities one, in every exact scope that has the first, and say how many relations were moved."""
    winner_name, rows = owner_name(into, within), _rows(connection)
    keys, others = keys_of(connection, within, owner_name(name, within)), keys_of(connection, within, winner_name)
    rows.read_names(expand(connection, within), keys | others)
    losers = [loser for key in sorted(keys) for loser in rows.called[key]]
    if not losers:
        raise EntityNotFoundError(name)
    winners = {winner.home.id: winner for other in others for winner in rows.called[other]}
    pairs = [(loser, winners.get(loser.home.id)) for loser in losers]
    if any(loser is winner for loser, winner in pairs):
        raise InvalidInputError(f"{name!r} and {into!r} are the same already")
    joined = [
        (loser, winner or rows.node(loser.home, relation_end(winner_name, loser.home.scope), loser.type, rows.now))
        for loser, winner in pairs
    ]
    rows.read_all([node.pk for pair in joined for node in pair if not node.new])
    rows.read_support({belief.id for belief in rows.beliefs})
    merged = [_Merge(rows, loser, winner).carry_out() for loser, winner in joined]
    rows.post()
    for each in merged:
        each.post()
    return sum(each.moved for each in merged)


def split(connection: Connection, name: str, *, within: Scope) -> int:
    """Undo the last merge of an entity, and say how many relations came back; what was said since stays with the other."""
    rows, keys = _rows(connection), keys_of(connection, within, owner_name(name, within))
    query = select(merges).where(merges.c.scope_id.in_(ids_within(within)), merges.c.undone_at.is_(None))
    found = connection.execute(query.order_by(merges.c.pk))
    latest = {row.scope_id: row for row in found if not keys.isdisjoint(row.moved["keys"])}
    if not latest:
        raise EntityNotFoundError(name)
    moved = sum(_Split(rows, row).carry_out() for row in latest.values())
    rows.post()
    for row in latest.values():
        _rename(connection, row.scope_id, row.moved["keys"], row.loser_pk)
        connection.execute(update(merges).where(merges.c.pk == row.pk).values(undone_at=rows.now))
    return moved


# ── what they share ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _rows(connection: Connection) -> GraphRows:
    return GraphRows(connection, datetime.now(UTC), count(last_seq(connection) + 1).__next__)


def _find(rows: GraphRows, relation_id: str, within: Scope | None) -> Belief:
    rows.read_ids([relation_id])
    rows.read_support([relation_id])
    found = rows.beliefs.of_id(relation_id)
    if found is None or (within is not None and not within.covers(found.source.home.scope)):
        raise RelationNotFoundError(relation_id)
    return found


def _rename(connection: Connection, scope_id: int, keys: Sequence[str], entity_pk: int) -> None:
    named = entity_names.c.scope_id == scope_id, entity_names.c.key.in_(keys)
    connection.execute(update(entity_names).where(*named).values(entity_pk=entity_pk))


class _Joiner:
    """Makes one of several relations that say the same."""

    def __init__(self, rows: GraphRows) -> None:
        self._rows = rows
        self._written: dict[int, int | None] = {}  # for each row that was retired, the one written in its place
        self._links: list[tuple[str, str]] = []  # memories that came to say the relation of the other

    def _put(self, claim: Belief) -> Belief | None:
        """Believe a claim: by a row of its own, or by widening what is believed of the same triple with no moment between."""
        near = self._rows.beliefs.between([claim.source], claim.relation, [claim.target])
        alike = [belief for belief in near if belief.span.meets(claim.span)]
        if not alike:
            return self._rows.believe(claim, claim.span, relation_id=claim.id)
        self._join(alike, claim)
        return None

    def _join(self, alike: Sequence[Belief], claim: Belief) -> None:
        """Widen what is believed of the same triple: the oldest of its relations takes the others in."""
        first, *more = alike
        joined = first if first.new else self._anew(first)
        for other in (*more, claim):
            joined.span = joined.span.joined(other.span)
            joined.mentions += other.mentions
            joined.confidence = max(joined.confidence, other.confidence)
            for memory_id in self._rows.speakers(other.id):
                if self._rows.link(joined, memory_id, self._rows.links[other.id][memory_id].created_at):
                    self._links.append((joined.id, memory_id))
        for other in more:
            self._take_in(other)

    def _anew(self, belief: Belief) -> Belief:
        self._rows.retire(belief)
        joined = self._rows.believe(belief, belief.span, relation_id=belief.id)
        self._written[belief.pk] = joined.pk
        return joined

    def _take_in(self, belief: Belief) -> None:
        self._rows.retire(belief)
        if belief.new:  # an earlier step of this merge wrote it
            self._written = {old: None if new == belief.pk else new for old, new in self._written.items()}
        else:
            self._written[belief.pk] = None


# ── making two entities one ─────────────────────────────────────────────────────────────────────────────────────────────


class _Merge(_Joiner):
    """One entity on its way into another."""

    def __init__(self, rows: GraphRows, loser: EntityNode, winner: EntityNode) -> None:
        super().__init__(rows)
        self.moved = 0
        self._loser = loser
        self._winner = winner
        self._pk = rows.drawn(_MERGES)

    def carry_out(self) -> Self:
        """Move its relations."""
        held = [belief for belief in self._rows.beliefs.believed() if self._loser in {belief.source, belief.target}]
        for belief in held:
            self._move(belief)
        self._loser.merged_into, self._loser.changed = self._winner.pk, True
        self._winner.mentions, self._winner.changed = self._winner.mentions + self._loser.mentions, True
        self.moved = len(held)
        return self

    def post(self) -> None:
        """Write down how it can be undone, and give the other its names."""
        connection, home = self._rows.connection, self._winner.home.id
        query = select(entity_names.c.key).where(entity_names.c.entity_pk == self._loser.pk)
        keys = list(connection.execute(query).scalars())
        _rename(connection, home, keys, self._winner.pk)
        moved = {"rows": list(self._written.items()), "links": self._links, "keys": keys}
        two = {"winner_pk": self._winner.pk, "loser_pk": self._loser.pk}
        connection.execute(
            insert(merges).values(pk=self._pk, scope_id=home, created_at=self._rows.now, moved=moved, **two)
        )

    def _move(self, old: Belief) -> None:
        source, target = (self._winner if node is self._loser else node for node in (old.source, old.target))
        self._rows.retire(old)
        self._written[old.pk] = None
        if source is not target:
            moved = self._put(replace(old, source=source, target=target))
            self._written[old.pk] = None if moved is None else moved.pk


# ── undoing that ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
        rows.read_ids({belief.id for belief in self._once.values()})
        rows.read_support({belief.id for belief in [*self._once.values(), *rows.beliefs]})

    def carry_out(self) -> int:
        """Bring them back, and say how many."""
        self._loser.merged_into, self._loser.changed = None, True
        self._winner.mentions, self._winner.changed = max(0, self._winner.mentions - self._loser.mentions), True
        for relation_id, memory_id in self._merged.moved["links"]:
            link = self._rows.links[relation_id].get(memory_id)
            if link is not None and link.dropped_at is None:
                self._rows.drop(link)
        # What may have to be joined with others comes last.
        pairs = sorted(self._pairs, key=lambda pair: pair[1] is None)
        known = [
            (self._once[old], None if new is None else self._after.get(new)) for old, new in pairs if old in self._once
        ]
        return sum(self._bring_back(once, after) for once, after in known)

    def _bring_back(self, once: Belief, written: Belief | None) -> bool:
        now = self._rows.beliefs.of_id(once.id)
        if written is None:
            return now is None and self._believe_again(once)
        unchanged = now is not None and now.pk == written.pk
        moved = (once.source, once.target) != (written.source, written.target)
        if now is None or not (moved or unchanged):
            return False
        self._rows.retire(now)
        back = replace(
            once if unchanged else now,
            source=self._end(once.source, now.source),
            target=self._end(once.target, now.target),
        )
        self._rows.believe(back, back.span, relation_id=once.id)
        return moved

    def _end(self, once: EntityNode, now: EntityNode) -> EntityNode:
        """An end of a relation that moves: only this merge is undone, whatever became of the other end since."""
        return self._loser if once is self._loser else now

    def _believe_again(self, once: Belief) -> bool:
        """A relation that another one took in; unless the last memory that said it is gone meanwhile."""
        if self._rows.links[once.id] and not self._rows.speakers(once.id):
            return False
        back = replace(once, source=self._now(once.source), target=self._now(once.target))
        if back.source is back.target:
            return False
        self._put(back)
        return True

    def _now(self, node: EntityNode) -> EntityNode:
        while node.merged_into is not None:
            node = self._rows.known(node.merged_into)
        return node
