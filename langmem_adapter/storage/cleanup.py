"""What is left of an erased scope with others: what their adds saw of it (traces), and what they answered (runs)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, delete, false, or_, select, true, update

from langmem_adapter.records.scope import SCOPE_FIELDS, Scope
from langmem_adapter.records.work import Change
from langmem_adapter.storage.graph.tables import entities, entity_names, relations
from langmem_adapter.storage.prepared_statements import any_of
from langmem_adapter.storage.scopes import ids_within, of_row, within
from langmem_adapter.storage.tables import history, runs, scopes, traces

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

__all__ = ["Leftovers", "leftovers_of", "ran_for"]

_PAGE: Final = {"yield_per": 100}
_RAN_FOR: Final = {name: runs.c.scope[name].as_string() for name in SCOPE_FIELDS}


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What is known of a scope that is to be erased, and may stand in traces and runs of others: ids and names."""

    scope: Scope | None = None
    owners: tuple[Scope, ...] = ()
    memories: frozenset[str] = frozenset()
    relations: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def traces(self, connection: Connection) -> int:
        """Remove the traces that show something of it; how many there were."""
        query = select(traces).where(self._seen_by(traces.c))
        with connection.execute(query, execution_options=_PAGE) as rows:
            gone = [row.id for row in rows if self._shows(of_row(row), row.state)]
        return connection.execute(delete(traces).where(any_of(traces.c.id, gone))).rowcount

    def runs(self, connection: Connection) -> int:
        """Take it out of the answers that hold some of it; how many there were.

        The runs stay, without the texts: a run of another scope must still know that it was done.
        """
        query = select(runs.c.key, runs.c.result).where(self._seen_by(_RAN_FOR))
        with connection.execute(query, execution_options=_PAGE) as rows:
            told = [(row.key, row.result, [self._blank(change) for change in row.result]) for row in rows]
        changed = [(key, blank) for key, result, blank in told if blank != result]
        for key, blank in changed:
            connection.execute(update(runs).where(runs.c.key == key).values(result=blank))
        return len(changed)

    def _seen_by(self, owner: Any) -> ColumnElement[bool]:
        """Condition on the three fields, by their names: an add of this owner may have looked at it."""
        if self.scope is None or not self.owners:
            return false()
        fields = ((owner[name], value) for name, value in self.scope.named.items())
        return and_(*(or_(field.is_(None), field == value) for field, value in fields))

    def _shows(self, owner: Scope, state: Mapping[str, Any]) -> bool:
        known = self.memories | self.relations
        if any(text in known for text in _texts(state)):
            return True
        if not any(owner.covers(each) for each in self.owners):
            return False
        # A prompt lists names that the graph knows, and says of none of them whose it is.
        told = "\n".join(_texts(state["work"]["usage"]["calls"]))
        return any(name in told for name in self.names)

    def _blank(self, change: dict[str, Any]) -> dict[str, Any]:
        if change["id"] in self.memories:
            gone = replace(Change.from_json(change), text="", previous_text=None, reason="purged", relations=())
            return gone.to_json()
        kept = [each for each in change.get("relations", ()) if each["relation"]["id"] not in self.relations]
        return change if kept == change.get("relations", []) else {**change, "relations": kept}


def leftovers_of(connection: Connection, scope: Scope) -> Leftovers:
    """What to look for in the traces and runs of others; to be asked before anything is removed."""
    rows = connection.execute(select(scopes).where(within(scope))).all()
    ids = ids_within(scope)
    memories, related, named, called = (
        frozenset[str](connection.execute(select(column).where(column.table.c.scope_id.in_(ids)).distinct()).scalars())
        for column in (history.c.memory_id, relations.c.id, entities.c.name, entity_names.c.name)
    )
    return Leftovers(scope, tuple(map(of_row, rows)), memories, related, named | called)


def ran_for(scope: Scope | None) -> ColumnElement[bool]:
    """Condition on runs: they were of a scope within this one, also those that added nothing."""
    return and_(true(), *(_RAN_FOR[name] == value for name, value in ({} if scope is None else scope.named).items()))


def _texts(value: object) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, Sequence):
        for part in value:
            yield from _texts(part)
