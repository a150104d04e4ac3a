"""Who is whom in the knowledge graph.

A read names fields of a scope and sees several exact scopes; an entity of the same name in two of them is one entity to the
reader, and so is one that was merged into another. Who is whom is always read as it is known now; what is asked of the past
are the relations.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from langmem_adapter.names import entity_key, owner_id, owner_key, speaker, whom
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.storage.graph.statements import NAMES, NAMES_OF
from langmem_adapter.storage.graph.tables import entities, merges
from langmem_adapter.storage.prepared_statements import Prepared, any_of
from langmem_adapter.storage.scopes import within
from langmem_adapter.storage.tables import scopes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope

__all__ = ["People", "called", "keys_of", "with_keys"]

_merged: Final = any_of(entities.c.pk, "pks"), entities.c.merged_into.is_not(None)
_WINNERS: Final = Prepared(select(entities.c.pk, entities.c.merged_into).where(*_merged))
_LOSERS: Final = Prepared(
    select(merges.c.winner_pk, merges.c.loser_pk).where(any_of(merges.c.winner_pk, "pks"), merges.c.undone_at.is_(None))
)


def called(connection: Connection, scope: Scope, scope_ids: Sequence[int], name: str) -> list[int]:
    """Pks of the entities that a caller means by a name, a word for the user or the agent, or an id; ascending.

    Args:
        connection: A read transaction.
        scope: The fields that were named.
        scope_ids: What they expand to; a name is also the id of any user or agent among them.
        name: As somebody writes it.
    """
    meant = speaker(name) or whom(name, scope)
    keys = keys_of(connection, scope, meant)
    if meant == name:
        keys |= {owner_key(SELF, name), owner_key(ASSISTANT, name)}
    return sorted({pk for _, pk in with_keys(connection, scope_ids, keys)})


def with_keys(connection: Connection, scope_ids: Sequence[int], keys: Collection[str]) -> list[tuple[str, int]]:
    """Key and pk of every entity with one of some keys (`names.entity_key`, `names.owner_key`)."""
    found = NAMES.rows(connection, {"scopes": scope_ids, "keys": keys}) if keys else []
    return [(row.key, row.entity_pk) for row in found]


def keys_of(connection: Connection, scope: Scope, name: str) -> set[str]:
    """The keys that a name has in the scopes within *scope*; `SELF` and `ASSISTANT` mean the own of each."""
    if name not in {SELF, ASSISTANT}:
        return {entity_key(name)} - {""}
    if (owner := owner_id(name, scope)) is not None:
        return {owner_key(name, owner)}
    field = scopes.c.user_id if name == SELF else scopes.c.agent_id
    owners = connection.execute(select(field).where(within(scope)).distinct()).scalars()
    return {owner_key(name, owner) for owner in owners}


class People:
    """Which entities are one to the reader of some scopes: equal in a name, or merged.

    It reads from *connection*, in a read transaction, what it does not know yet.
    """

    def __init__(self, connection: Connection, scope_ids: Sequence[int]) -> None:
        self._connection = connection
        self._scope_ids = scope_ids
        self._first: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._by_key: dict[str, int] = {}

    def who(self, pk: int) -> int:
        """The least pk of those that are one with an entity."""
        if pk not in self._first:
            self.meet([pk])
        return self._first[pk]

    def members(self, pk: int) -> list[int]:
        """All that are one with an entity, itself among them."""
        return self._members[self.who(pk)]

    def everyone(self, pks: Collection[int]) -> list[int]:
        """All that are one with any of some entities, ascending."""
        self.meet(pks)
        return sorted(set(chain.from_iterable(map(self.members, pks))))

    def meet(self, pks: Iterable[int]) -> None:
        """Read about some entities at once; asking about each of them then reads nothing."""
        fresh = self._greet(pks)
        while fresh:
            pairs = self._pairs(fresh)
            fresh = self._greet(chain.from_iterable(pairs))
            for one, other in pairs:
                self._join(self._first[one], self._first[other])

    def _greet(self, pks: Iterable[int]) -> list[int]:
        fresh = [pk for pk in dict.fromkeys(pks) if pk not in self._first]
        self._first.update(zip(fresh, fresh, strict=True))
        self._members.update((pk, [pk]) for pk in fresh)
        return fresh

    def _pairs(self, pks: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs that are one: every one that has one of some entities in it, and maybe more."""
        pairs = [pair for statement in (_WINNERS, _LOSERS) for pair in statement.rows(self._connection, {"pks": pks})]
        if len(self._scope_ids) > 1:  # within a scope no name is given twice
            named = [(row.key, row.entity_pk) for row in NAMES_OF.rows(self._connection, {"pks": pks})]
            named += with_keys(self._connection, self._scope_ids, {key for key, _ in named})
            pairs += [(self._by_key.setdefault(key, pk), pk) for key, pk in named]
        return pairs

    def _join(self, one: int, other: int) -> None:
        first, later = min(one, other), max(one, other)
        if first != later:
            moved = self._members.pop(later)
            self._members[first] += moved
            self._first.update(dict.fromkeys(moved, first))
