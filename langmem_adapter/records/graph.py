"""What the knowledge graph holds: entities, and relations between them that hold from one time to another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - `pipeline.state` checks by its type
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from langmem_adapter.records.display import OneLine
from langmem_adapter.records.scope import LIST, TIME, Form, Portable, Scope, forms

if TYPE_CHECKING:
    from collections.abc import Mapping

RelationEvent = Literal["ADD", "UPDATE", "END", "DELETE", "NONE"]
"""What becomes of a relation: it is new, other dates are known for it, it is over, it was withdrawn, it was said again."""
ExportFormat: TypeAlias = Literal["jsonl", "csv", "csv-nodes", "graphml", "cypher", "html"]
LineFormat: TypeAlias = Literal["jsonl", "csv"]
SELF: Final = "user"
"""The name of the scope's user in a triple: a separate entity, shown by the `user_id`, if there is one."""
ASSISTANT: Final = "assistant"
"""The same of the assistant, with `agent_id`."""


@dataclass(frozen=True, slots=True)
class Triple(Portable):
    """What a text says of two things, before it is compared with what is known: source, relation, target."""

    source: str  # as said; `SELF` or `ASSISTANT` for those two
    relation: str  # a verb in the present: `"lives_in"`
    target: str
    source_type: str = ""  # what kind of thing it is (`"person"`), where known
    target_type: str = ""
    valid_from: datetime | None = None  # where the text says so; else since it was said
    valid_to: datetime | None = None
    ended: bool = False  # the text says that it holds no longer
    single: bool | None = None  # whether the source has one such target at a time; `None` leaves it to the name
    confidence: float = 1.0  # above 0 and at most 1
    mentions: int = 1  # once, but where it comes from another graph that has counted

    _forms = forms(valid_from=TIME, valid_to=TIME)


@dataclass(frozen=True, slots=True, repr=False)
class Entity(OneLine):
    """A person or thing in the knowledge graph.

    Attributes:
        id: A UUID in text form; it never changes.
        name: As it was first called.
        type: What kind of thing it is (`"person"`), empty where unknown.
        scope: Its scope.
        aliases: What else it is called.
        mentions: How often a relation with it was stated.
        created_at: The date of the statement that first named it.
        updated_at: That of the last.
    """

    id: str
    name: str
    type: str
    scope: Scope
    aliases: tuple[str, ...]
    mentions: int
    created_at: datetime
    updated_at: datetime

    def cells(self) -> Mapping[str, Any]:
        """The fields to display."""
        return {"name": self.name, "type": self.type or None, "mentions": self.mentions, "id": self.id}


@dataclass(frozen=True, slots=True)
class MergeSuggestion:
    """Two entities that may be one; confirm it with `merge`.

    Attributes:
        source: Name of the one that would go.
        into: Name of the one that would stay.
        score: How sure it is, above 0 and at most 1; it orders suggestions.
        why: What the two have in common.
    """

    source: str
    into: str
    score: float
    why: str


@dataclass(frozen=True, slots=True, repr=False)
class Relation(OneLine, Portable):
    """One thing's relation to another, with the time for which it holds and the time for which it was believed.

    Both times are half-open: it holds from `valid_from` on and no longer at `valid_to`; it was believed from `recorded_at` on
    and no longer at `retired_at`. A relation that ends, or of which other dates become known, keeps its id: what was believed
    before is retired, what is believed now recorded (bi-temporal, Snodgrass 1999).

    Attributes:
        id: A UUID in text form; a triple that holds again later is another relation.
        source: Name of the first thing.
        relation: What it is to the second: `"lives_in"`.
        target: Name of the second.
        source_type: What kind of thing the first is, empty where unknown.
        target_type: The same of the second.
        scope: Its scope.
        valid_from: Since when it holds; `None` for ever.
        valid_to: Until when it held; `None` while it holds.
        recorded_at: When this was written down.
        retired_at: When it was no longer believed; `None` while it is.
        mentions: How often it was stated.
        confidence: How sure it is, above 0 and at most 1.
        memory_ids: The memories that say so, oldest first; none for a relation that was written by hand.
    """

    id: str
    source: str
    relation: str
    target: str
    source_type: str
    target_type: str
    scope: Scope
    valid_from: datetime | None
    valid_to: datetime | None
    recorded_at: datetime
    retired_at: datetime | None
    mentions: int
    confidence: float
    memory_ids: tuple[str, ...]

    _forms = forms(
        valid_from=TIME,
        valid_to=TIME,
        recorded_at=TIME,
        retired_at=TIME,
        scope=Form(lambda scope: scope.named, lambda named: Scope(**named)),
        memory_ids=LIST,
    )

    def cells(self) -> Mapping[str, Any]:
        """The fields to display."""
        return {"text": self.text, "valid_from": self.valid_from, "valid_to": self.valid_to, "id": self.id}

    @property
    def text(self) -> str:
        """In words: `"alice lives in Lyon"`."""
        return f"{self.source} {self.relation.replace('_', ' ')} {self.target}"

    def holds_at(self, moment: datetime) -> bool:
        """Whether it holds at a moment, by its dates."""
        begun = self.valid_from is None or self.valid_from <= moment
        return begun and (self.valid_to is None or moment < self.valid_to)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An entity near another one.

    Attributes:
        entity: The entity.
        hops: How many relations lie between the two at least, from 1.
        relations: Those that lead to it from entities one hop nearer, newest first.
    """

    entity: Entity
    hops: int
    relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class RelationChange(Portable):
    """What became of a relation.

    Attributes:
        event: `"ADD"`, `"UPDATE"` (other dates), `"END"`, `"DELETE"` (withdrawn) or `"NONE"` (said again).
        relation: Its values after the change; for a DELETE those before.
    """

    event: RelationEvent
    relation: Relation

    _forms = forms(relation=Form(Relation.to_json, Relation.from_json))


@dataclass(frozen=True, slots=True)
class GraphChanges:
    """What an add did to the graph.

    Attributes:
        added: Relations that are new.
        ended: Relations that hold no longer, or were withdrawn.
    """

    added: tuple[Relation, ...] = ()
    ended: tuple[Relation, ...] = ()
