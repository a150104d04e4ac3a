"""The memories that new facts have to be compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from langmem_adapter.names import named_speaker
from langmem_adapter.storage import memories
from langmem_adapter.text import content_words, text_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection

    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.search.ranking import Ranked

__all__ = ["Neighbour", "Neighbourhood", "neighbourhood"]

_RECENT: Final = 3  # memories that a pronoun may point at


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A memory that a new fact has to be compared with: its id, text, number of its last change, and `names.named_speaker`."""

    id: str
    text: str
    seq: int
    speaker: str


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The memories around some facts.

    Attributes:
        seen: Number of the last change that was taken into account.
        known: Every neighbour of any fact, once.
        near: For each fact, indexes into *known*, nearest first.
        close: For each fact, whether any of them is near enough to be about the same thing.
        equal: For each fact, the indexes of memories with the same words: of each speaker's the oldest.
    """

    seen: int
    known: tuple[Neighbour, ...]
    near: tuple[tuple[int, ...], ...]
    close: tuple[bool, ...]
    equal: tuple[tuple[int, ...], ...]


def neighbourhood(
    connection: Connection,
    scope: Scope,
    facts: Iterable[tuple[str, Ranked, bool]],
    *,
    limit: int,
    near: float,
    seen: int,
) -> Neighbourhood:
    """Put together what was found for each fact; each memory stands once.

    Args:
        connection: The read transaction that it was found in.
        scope: The fields that the add was given.
        facts: Each with what was found for it, and whether it speaks of somebody named earlier.
        limit: Neighbours for each.
        near: Cosine from which on a memory counts as near.
        seen: Number of the last change that was taken into account.
    """
    facts = list(facts)
    equal = memories.equal_texts(connection, scope, [text_hash(text) for text, _, _ in facts])
    recent = memories.latest(connection, scope, _RECENT) if any(refers for *_, refers in facts) else []
    hood = _Hood(near)
    for text, found, refers in facts:
        hood.add(text, found, limit, recent if refers else [], equal.get(text_hash(text), []))
    return hood.read(connection, scope, seen)


class _Hood:
    """Collects the neighbours of several facts."""

    def __init__(self, near: float) -> None:
        self._near_enough = near
        self._facts: list[tuple[str, list[int], bool, list[int]]] = []

    def add(self, text: str, ranked: Ranked, limit: int, recent: list[int], equal: list[int]) -> None:
        pks = ranked.pks[:limit].tolist()
        close = bool(np.any(ranked.meaning[:limit] >= self._near_enough) or recent)
        extra = [pk for pk in (*recent, *equal) if pk not in pks]
        self._facts.append((text, pks + extra, close, equal))

    def read(self, connection: Connection, scope: Scope, seen: int) -> Neighbourhood:
        pks = list(dict.fromkeys(pk for _, near, _, _ in self._facts for pk in near))
        items = memories.by_pks(connection, pks)
        seqs = memories.sequence_numbers(connection, [item.id for item in items.values()])
        place = {pk: number for number, pk in enumerate(pk for pk in pks if pk in items)}
        known = tuple(
            Neighbour(item.id, item.text, seqs[item.id], named_speaker(item.actor_id, item.role, scope))
            for item in (items[pk] for pk in place)
        )
        return Neighbourhood(
            seen=seen,
            known=known,
            near=tuple(tuple(place[pk] for pk in near if pk in place) for _, near, _, _ in self._facts),
            close=tuple(close or self._shares_a_word(text, near, items) for text, near, close, _ in self._facts),
            equal=tuple(tuple(place[pk] for pk in equal if pk in place) for *_, equal in self._facts),
        )

    def _shares_a_word(self, text: str, near: list[int], items: Mapping[int, MemoryItem]) -> bool:
        told = content_words(text)
        return any(told & content_words(items[pk].text) for pk in near if pk in items)
