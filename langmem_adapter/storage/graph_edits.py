"""Edits of the knowledge graph by hand: end or withdraw a relation, make two entities one, undo that.

Each is one transaction, run by the ledger.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self

from sqlalchemy import bindparam, insert, select, update

from langmem_adapter.errors import EntityNotFoundError, InvalidInputError, RelationNotFoundError
from langmem_adapter.names import entity_key, is_symmetric
from langmem_adapter.storage import graph_writes
from langmem_adapter.storage.feed import last_seq
from langmem_adapter.storage.graph_rows import Belief, Rows
from langmem_adapter.storage.graph_tables import entities, entity_names, merges, relations
from langmem_adapter.storage.prepared import Prepared
from langmem_adapter.storage.scopes import expand
from langmem_adapter.storage.tables import changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.graph import RelationChange
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph_rows import Node

__all__ = ["end", "merge", "split", "withdraw", "withdraw_all"]

_MERGES: Final = "merges"  # their space in the change feed, which numbers them
_INSERT_CHANGE: Final = Prepared(insert(changes))
_INSERT_MERGE: Final = Prepared(insert(merges))
_RENAME: Final = Prepared(
    update(entity_names)
    .where(entity_names.c.scope_id == bindparam("_scope"), entity_names.c.key == bindparam("_key"))
    .values(entity_pk=bindparam("_entity"))
)


def end(connection: Connection, relation_id: str, at: datetime | None, within: Scope | None) -> RelationChange:
    """End a relation at a moment, default now. See `Ledger.end_relation`."""
    rows = _rows(connection)
    _find(rows, relation_id, within)
    done = graph_writes.end(rows, relation_id, rows.now if at is None else at)
    if not done:
        raise InvalidInputError("the relation had ended by then")
    _post(rows)
    return done[0]


def withdraw(connection: Connection, relation_id: str, within: Scope | None) -> RelationChange:
    """Believe a relation no longer. See `Ledger.withdraw_relation`."""
    rows = _rows(connection)
    done = graph_writes.withdraw(rows, _find(rows, relation_id, within))
    _post(rows)
    return done[0]


def withdraw_all(connection: Connection, scope: Scope) -> int:
    """Believe no relation of a scope any longer. See `Ledger.withdraw_relations`."""
    rows = _rows(connection)
    of_scope = relations.c.scope_id.in_(expand(connection, scope)), relations.c.retired_at.is_(None)
    rows.read_ids(connection.execute(select(relations.c.id).where(*of_scope)).scalars().all())
    done = graph_writes.withdraw(rows, rows.believed())
    _post(rows)
    return len(done)


def merge(connection: Connection, name: str, into: str, within: Scope) -> int:
    """Make two entities one. See `Ledger.merge_entities`."""
    rows, time = _rows(connection), datetime.now(UTC)
    scope_ids = expand(connection, within)
    rows.read_names(scope_ids, {entity_key(name), entity_key(into)})
    losers = [node for (_, key), node in list(rows.names.items()) if key == entity_key(name)]
    if not losers:
        raise EntityNotFoundError(name)
    pairs = [(loser, rows.names.get((loser.home.id, entity_key(into)))) for loser in losers]
    if any(loser is winner for loser, winner in pairs):
        raise InvalidInputError(f"{name!r} and {into!r} are the same already")
    joined = [(loser, winner or rows.node(loser.home, into, loser.type, time)) for loser, winner in pairs]
    rows.read_all([node.pk for pair in joined for node in pair if not node.new])
    rows.read_support({belief.id for belief in rows.beliefs.values()})
    merged = [_Merge(rows, loser, winner).carry_out() for loser, winner in joined]
    _post(rows)
    for each in merged:
        each.post()
    return sum(each.moved for each in merged)


def split(connection: Connection, name: str, within: Scope) -> int:
    """Undo the last merge of an entity. See `Ledger.split_entity`."""
    rows, key = _rows(connection), entity_key(name)
    query = select(merges).where(merges.c.scope_id.in_(expand(connection, within)), merges.c.undone_at.is_(None))
    found = [row for row in connection.execute(query.order_by(merges.c.pk.desc())) if key in row.moved["keys"]]
    if not found:
        raise EntityNotFoundError(name)
    latest = {row.scope_id: row for row in reversed(found)}
    moved = sum(_undo(rows, row) for row in latest.values())
    _post(rows)
    for row in latest.values():
        _name(connection, row.scope_id, row.moved["keys"], row.loser_pk)
        connection.execute(update(entities).where(entities.c.pk == row.loser_pk).values(merged_into=None))
        connection.execute(update(merges).where(merges.c.pk == row.pk).values(undone_at=rows.now))
    return moved


# ── what they share ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _rows(connection: Connection) -> Rows:
    return Rows(connection, datetime.now(UTC), count(last_seq(connection) + 1).__next__, [])


def _post(rows: Rows) -> None:
    _INSERT_CHANGE.many(rows.connection, rows.tell)
    rows.post()


def _find(rows: Rows, relation_id: str, within: Scope | None) -> list[Belief]:
    rows.read_ids([relation_id])
    rows.read_support([relation_id])
    found = [b for b in rows.believed() if within is None or within.covers(b.source.home.scope)]
    if not found:
        raise RelationNotFoundError(relation_id)
    return found


def _name(connection: Connection, scope_id: int, keys: Sequence[str], entity_pk: int) -> None:
    _RENAME.many(connection, [{"_scope": scope_id, "_key": key, "_entity": entity_pk} for key in keys])


# ── making two entities one ─────────────────────────────────────────────────────────────────────────────────────────────


class _Merge:
    """One entity on its way into another."""

    def __init__(self, rows: Rows, loser: Node, winner: Node) -> None:
        self.moved = 0
        self._rows = rows
        self._loser = loser
        self._winner = winner
        self._pairs: list[tuple[int, int | None]] = []  # each row that was retired, and the one written in its place
        self._links: list[tuple[str, str]] = []  # memories that came to say the relation of the other
        self._pk = rows.drawn(_MERGES)

    def carry_out(self) -> Self:
        """Move its relations."""
        held = [b for b in self._rows.believed() if self._loser in {b.source, b.target}]
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
        _name(connection, home, keys, self._winner.pk)
        _INSERT_MERGE.run(
            connection,
            {
                "pk": self._pk,
                "scope_id": home,
                "winner_pk": self._winner.pk,
                "loser_pk": self._loser.pk,
                "created_at": self._rows.now,
                "undone_at": None,
                "moved": {"rows": self._pairs, "links": self._links, "keys": keys},
            },
        )

    def _move(self, old: Belief) -> None:
        source, target = (self._winner if node is self._loser else node for node in (old.source, old.target))
        self._rows.retire(old)
        if source is target:
            self._pairs.append((old.pk, None))
            return
        claim = replace(old, source=source, target=target)
        same = next((b for b in self._rows.believed() if _says_the_same(b, claim)), None)
        if same is None:
            self._pairs.append((old.pk, self._rows.believe(claim, old.span, relation_id=old.id).pk))
            return
        self._pairs.append((old.pk, None))
        self._join(same, claim)

    def _join(self, same: Belief, claim: Belief) -> None:
        joined = same
        if not same.new:
            self._rows.retire(same)
            joined = self._rows.believe(same, same.span, relation_id=same.id)
            self._pairs.append((same.pk, joined.pk))
        joined.span = joined.span.joined(claim.span)
        joined.mentions += claim.mentions
        for memory_id in self._rows.speakers(claim.id):
            if memory_id not in self._rows.speakers(joined.id):
                self._rows.link(joined, memory_id, self._rows.now)
                self._links.append((joined.id, memory_id))


def _says_the_same(belief: Belief, claim: Belief) -> bool:
    if belief.relation != claim.relation or not belief.span.meets(claim.span):
        return False
    ends = (belief.source, belief.target)
    return ends == (claim.source, claim.target) or (
        is_symmetric(claim.relation) and ends == (claim.target, claim.source)
    )


def _undo(rows: Rows, merged: Any) -> int:
    pairs = merged.moved["rows"]
    once = {belief.pk: belief for belief in rows.read_rows([old for old, _ in pairs])}
    written = {belief.pk: belief for belief in rows.read_rows([new for _, new in pairs if new is not None])}
    rows.read_ids({belief.id for belief in once.values()})
    rows.read_support({belief.id for belief in once.values()})
    for old, new in pairs:
        if old in once:
            _bring_back(rows, once[old], written.get(new))
    for relation_id, memory_id in merged.moved["links"]:
        rows.drop(relation_id, memory_id)
    return len({old for old, new in pairs if new is None or _moved(once.get(old), written.get(new))})


def _bring_back(rows: Rows, once: Belief, written: Belief | None) -> None:
    """Believe again what a merge retired, as it has gone on since."""
    if written is None:
        rows.believe(once, once.span, relation_id=once.id)
        return
    for now in rows.of_relation(once.id):
        if now.pk == written.pk or _moved(once, written):
            rows.retire(now)
            rows.believe(once, once.span if now.pk == written.pk else now.span, relation_id=once.id)


def _moved(once: Belief | None, written: Belief | None) -> bool:
    """Whether a row was written for another entity, rather than for a longer span."""
    if once is None or written is None:
        return False
    return (once.source, once.target) != (written.source, written.target)
