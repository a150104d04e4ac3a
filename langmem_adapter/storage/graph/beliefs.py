"""What a write of the knowledge graph works on in memory: entities, beliefs, and which memories say them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from langmem_adapter.names import end_of, is_symmetric

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import datetime

    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.spans import Span

__all__ = ["Belief", "Beliefs", "EntityNode", "Home", "Link", "believed"]


@dataclass(frozen=True, slots=True)
class Home:
    """The exact scope that a relation is written to: its number and its fields."""

    id: int
    scope: Scope


@dataclass(slots=True, eq=False)
class EntityNode:
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
    owner: str | None = None
    keys: set[str] = field(default_factory=set)  # names by which it was looked up; the other fields are its row's
    new: bool = False
    changed: bool = False

    @property
    def key(self) -> str:
        """The key of what it was first called."""
        return end_of(self.owner or self.name, self.home.scope).key


@dataclass(slots=True, eq=False)
class Belief:
    """One row of `relations`: what is believed of one relation."""

    pk: int
    id: str
    home_id: int
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


def believed(home: Home, source: EntityNode, triple: Triple, target: EntityNode, span: Span, now: datetime) -> Belief:
    """What a triple states of two entities; it has no row yet."""
    return Belief(0, "", home.id, source, triple.relation, target, span, now, triple.mentions, triple.confidence)


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


_Beliefs: TypeAlias = "defaultdict[tuple[int | str, ...], dict[int, Belief]]"


class Beliefs:
    """Beliefs, to be found by what they are about; what is found is still believed, the oldest row first."""

    def __init__(self) -> None:
        self._all: dict[int, Belief] = {}
        self._held: _Beliefs = defaultdict(dict)

    def __contains__(self, pk: int) -> bool:
        """Whether a row is among them, believed or not."""
        return pk in self._all

    def __iter__(self) -> Iterator[Belief]:
        """All of them, believed or not."""
        return iter(self._all.values())

    def put(self, belief: Belief) -> None:
        """Take one in."""
        self._all[belief.pk] = belief
        for place in _places(belief):
            self._held[place][belief.pk] = belief

    def remove(self, belief: Belief) -> None:
        """Forget one."""
        del self._all[belief.pk]
        for place in _places(belief):
            del self._held[place][belief.pk]

    def of_id(self, relation_id: str) -> Belief | None:
        """What is believed of a relation."""
        return next(iter(self._found((relation_id,))), None)

    def between(self, sources: Iterable[EntityNode], relation: str, targets: Collection[EntityNode]) -> list[Belief]:
        """Those of a relation from some entities to some others; of a symmetric one also the other way round."""
        pairs = [(source.pk, target.pk) for source in sources for target in targets]
        if is_symmetric(relation):
            pairs += [(target, source) for source, target in pairs]
        return self._found(*((source, relation, target) for source, target in pairs))

    def held_by(self, ends: Collection[EntityNode], relation: str, *, mutual: bool) -> list[Belief]:
        """Those of a relation from some entities, and to them where it is *mutual*."""
        places = [("from", end.pk, relation) for end in ends]
        return self._found(*places, *(("to", end.pk, relation) for end in ends if mutual))

    def believed(self) -> list[Belief]:
        """All that are believed."""
        return _standing(self._all)

    def _found(self, *places: tuple[int | str, ...]) -> list[Belief]:
        found: dict[int, Belief] = {}
        for place in places:
            found |= self._held.get(place, {})
        return _standing(found)


def _places(belief: Belief) -> tuple[tuple[int | str, ...], ...]:
    source, target = belief.source.pk, belief.target.pk
    return (
        (belief.id,),
        (source, belief.relation, target),
        ("from", source, belief.relation),
        ("to", target, belief.relation),
    )


def _standing(found: dict[int, Belief]) -> list[Belief]:
    return [found[pk] for pk in sorted(found) if found[pk].retired_at is None]
