"""The knowledge graph of one user, written through the ledger and read as plain rows."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import select

from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.records.graph import Triple
from langmem_adapter.records.results import Decision
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.tables import entities, relation_memories, relations, scopes
from langmem_adapter.storage.write import Write

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from langmem_adapter.records.graph import RelationChange
    from langmem_adapter.records.results import Change
    from langmem_adapter.storage.ledger import Ledger

__all__ = ["EMBEDDINGS", "Graph", "by_hand", "triple", "year"]

P = ParamSpec("P")
T = TypeVar("T")

EMBEDDINGS = HashEmbeddings(64)


def year(number: int) -> datetime:
    return datetime(number, 1, 1, tzinfo=UTC)


def by_hand(ledger: Ledger, edit: Callable[Concatenate[Connection, P], T], *given: P.args, **named: P.kwargs) -> T:
    """An edit of the graph by hand, carried out."""
    return ledger.writing(lambda connection: edit(connection, *given, **named)).run()


@dataclass(slots=True)
class Graph:
    """A ledger with short words; its user, whatever the `user_id`, is called alice here."""

    ledger: Ledger
    scope: Scope = field(default_factory=lambda: Scope(user_id=str(uuid.uuid4())))

    def said(self, text: str, when: int = 2020, **fields: Any) -> list[str]:
        """State "source relation target" without a memory; what became of relations, in words."""
        return self.told(self.ledger.relate(self.scope, [triple(text, **fields)], time=year(when)))

    def add(self, text: str, *said: str | Triple, when: int = 2020, memory_id: str | None = None) -> str:
        """Add a memory that says some relations; its id."""
        memory_id = memory_id or str(uuid.uuid4())
        self.decide("ADD", memory_id, text, *said, when=when)
        return memory_id

    def decide(self, event: Any, memory_id: str | None, text: str | None, *said: str | Triple, **fields: Any) -> Change:
        """Carry out one decision of the pipeline, or of a person where `when` is `None`."""
        return self.apply(self.decision(event, memory_id, text, *said, **fields))[0]

    def decision(
        self,
        event: Any,
        memory_id: str | None,
        text: str | None,
        *said: str | Triple,
        when: int | None = 2020,
        **more: Any,
    ) -> Decision:
        triples = tuple(each if isinstance(each, Triple) else triple(each) for each in said)
        time = None if when is None else year(when)
        return Decision(event, memory_id, text, "", time=time, relations=triples, **more)

    def apply(self, *decisions: Decision, **options: Any) -> tuple[Change, ...]:
        texts = [decision.text for decision in decisions if decision.text is not None]
        vectors = {text: EMBEDDINGS.vector(text) for text in texts}
        return self.ledger.apply(
            Write(decisions, vectors=vectors, **{"scope": self.scope, "within": self.scope, **options})
        )

    def told(self, changes: tuple[RelationChange, ...]) -> list[str]:
        return [f"{change.event} {self.words(change.relation)}" for change in changes]

    def rows(self) -> list[Any]:
        """Every belief there ever was, the oldest row first."""
        one, other = entities.alias("one"), entities.alias("other")
        query = (
            select(relations, one.c.name.label("source"), other.c.name.label("target"))
            .join(one, one.c.pk == relations.c.source_pk)
            .join(other, other.c.pk == relations.c.target_pk)
            .join(scopes, scopes.c.id == relations.c.scope_id)
            .where(scopes.c.user_id == self.scope.user_id)
        )
        with self.ledger.database.read() as connection:
            return list(connection.execute(query.order_by(relations.c.pk)))

    def now(self) -> list[str]:
        """What is believed, in words, sorted."""
        return sorted(self.words(row) for row in self.rows() if row.retired_at is None)

    def known(self, at: datetime) -> list[str]:
        """What was believed at a moment."""
        never = datetime.max.replace(tzinfo=UTC)
        return sorted(self.words(row) for row in self.rows() if row.recorded_at <= at < (row.retired_at or never))

    def ids(self) -> dict[str, str]:
        """The ids of what is believed, by words."""
        return {self.words(row): row.id for row in self.rows() if row.retired_at is None}

    def sayers(self, relation_id: str) -> set[str]:
        """The memories that say a relation."""
        links = relation_memories.c
        query = select(links.memory_id).where(links.relation_id == relation_id, links.dropped_at.is_(None))
        with self.ledger.database.read() as connection:
            return set(connection.execute(query).scalars())

    def words(self, row: Any) -> str:
        """`"alice lives_in Lyon 2019-2021"`; an open end is left out."""
        first, last = row.valid_from, row.valid_to
        source, target = ("alice" if name == self.scope.user_id else name for name in (row.source, row.target))
        return f"{source} {row.relation} {target} {first.year if first else ''}-{last.year if last else ''}"


def triple(text: str, **fields: Any) -> Triple:
    source, relation, target = text.split(" ")
    return Triple(source, relation, target, **fields)
