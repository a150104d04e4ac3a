"""Writing to the knowledge graph by hand."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.arguments import memory_id_of, scope_if_given
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.knowledge.arguments import moment, name_of, triple_of
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.graph import edits
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from langmem_adapter.records.graph import RelationChange
    from langmem_adapter.storage.ledger import Ledger

_RELATION: Final = "a relation's id"


class GraphWrites:
    """The part of `GraphMemory` that writes."""

    _ledger: Ledger

    @planned
    def add(
        self,
        source: str,
        relation: str,
        target: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        source_type: str | None = None,
        target_type: str | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        confidence: float = 1.0,
        single: bool | None = None,
    ) -> Plan[RelationChange]:
        """Write down a relation by hand; it stands until it is ended or deleted by hand, or another takes its place.

        Args:
            source: Name of the first thing, up to 200 characters.
            relation: What it is to the second, a verb: `"lives in"` and `"lives_in"` are the same, up to 100 characters.
            target: Name of the second, like the first.
            user_id: Whose graph; at least one of the three is needed, and together they are the scope of the relation.
            agent_id: The agent.
            run_id: The run or session.
            source_type: What kind of thing the first is (`"person"`); known types stay.
            target_type: The same of the second.
            valid_from: Since when it holds, datetime or ISO 8601; left out it is unknown where *valid_to* lies in the past,
                else now.
            valid_to: Until when it held; by default it still does.
            confidence: How sure it is, above 0 and at most 1.
            single: Whether somebody has one such target at a time, so that this one ends another; by default the name of the
                relation tells (`lives_in` and `works_at` do, `likes` does not).

        Returns:
            What became of the relation: `"ADD"`, `"UPDATE"` (other dates), or `"NONE"` (it was known; one more mention).

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument cannot be used.
        """
        told: dict[str, Any] = {"source": source, "relation": relation, "target": target}
        told |= {"source_type": source_type, "target_type": target_type, "valid_from": valid_from, "valid_to": valid_to}
        told |= {"single": single, "confidence": confidence}
        scope, triple = Scope(user_id, agent_id, run_id), triple_of(told)
        return Plan.calling(self._ledger.relate, self._ledger.arelate, scope, [triple]).then(_of_triple)

    aadd = awaited(add)

    @planned
    def end(
        self,
        relation_id: str,
        *,
        at: datetime | str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> Plan[RelationChange]:
        """Say that a relation holds no longer; that it held until then stays known.

        Args:
            relation_id: Its id.
            at: From when on it holds no longer, datetime or ISO 8601; default now.
            user_id: Where given, a relation outside this scope is not found.
            agent_id: The same.
            run_id: The same.

        Raises:
            RelationNotFoundError: There is none that is believed.
            InvalidInputError: It had ended by then.
        """
        scope, when = scope_if_given(user_id, agent_id, run_id), moment(at, "at")
        id_ = memory_id_of(relation_id, whose=_RELATION)
        return self._ledger.writing(partial(edits.end, relation_id=id_, at=when, within=scope))

    aend = awaited(end)

    @planned
    def delete(
        self, relation_id: str, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> Plan[RelationChange]:
        """Withdraw a relation, because it was never so; that it was believed stays known.

        Args:
            relation_id: Its id.
            user_id: Where given, a relation outside this scope is not found.
            agent_id: The same.
            run_id: The same.

        Raises:
            RelationNotFoundError: There is none that is believed.
        """
        scope, id_ = scope_if_given(user_id, agent_id, run_id), memory_id_of(relation_id, whose=_RELATION)
        return self._ledger.writing(partial(edits.withdraw, relation_id=id_, within=scope))

    adelete = awaited(delete)

    @planned
    def delete_all(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> Plan[int]:
        """Withdraw every relation of a scope; memories stay as they are.

        Args:
            user_id: Whose graph; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.

        Returns:
            How many there were.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
        """
        return self._ledger.writing(partial(edits.withdraw_all, scope=Scope(user_id, agent_id, run_id)))

    adelete_all = awaited(delete_all)

    @planned
    def merge(
        self,
        name: str,
        into: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> Plan[int]:
        """Say that two names mean the same: what is said of the first is from now on said of the second.

        Args:
            name: Of the one that goes; it becomes another name of the second.
            into: Of the one that stays.
            user_id: Whose graph; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.

        Returns:
            How many relations were moved.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            EntityNotFoundError: There is nobody of the first name.
            InvalidInputError: They are one already, or a name cannot be used.
        """
        scope = Scope(user_id, agent_id, run_id)
        goes, stays = name_of(name, "name"), name_of(into, "into")
        return self._ledger.writing(partial(edits.merge, name=goes, into=stays, within=scope))

    amerge = awaited(merge)

    @planned
    def split(
        self, name: str, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> Plan[int]:
        """Undo the last `merge` of this name; what was said since then stays with the one it was merged into.

        Args:
            name: Of the one that had gone.
            user_id: Whose graph; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.

        Returns:
            How many relations came back.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            EntityNotFoundError: Nobody of this name was merged.
            InvalidInputError: The name cannot be used.
        """
        scope = Scope(user_id, agent_id, run_id)
        return self._ledger.writing(partial(edits.split, name=name_of(name, "name"), within=scope))

    asplit = awaited(split)


def _of_triple(changes: Sequence[RelationChange]) -> RelationChange:
    """What became of the relation itself, which comes last, after those that gave way."""
    if not changes:
        raise InvalidInputError("source and target are one and the same; nothing was written")
    return changes[-1]
