"""The whole graph of a scope, however large: every relation, and each entity before the first that it has a part in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from langmem_adapter.records.graph import Entity, Relation
from langmem_adapter.storage.graph import entities as graph_entities
from langmem_adapter.storage.graph import reads as graph_reads
from langmem_adapter.storage.graph.people import People
from langmem_adapter.storage.scopes import expand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.reads import When

__all__ = ["Edge", "Part", "parts"]


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation between two entities.

    Attributes:
        row: Its number; of one relation there may be several rows, where the history is read.
        source: The id of the entity that it is from.
        target: The id of the one that it is to.
        relation: The relation.
    """

    row: int
    source: str
    target: str
    relation: Relation


Part: TypeAlias = Entity | Edge


def parts(connection: Connection, scope: Scope, when: When) -> Iterator[Part]:
    """Entities and relations, the first recorded first; held are some, and the ids of all entities.

    Args:
        connection: A read transaction, for as long as it is read.
        scope: Whose graph.
        when: Which beliefs.
    """
    people, ids = People(connection, expand(connection, scope)), dict[int, str]()
    for rows in graph_reads.every(connection, scope, when):
        people.meet(pk for _, *ends in rows for pk in ends)
        fresh = {people.who(pk) for _, *ends in rows for pk in ends} - ids.keys()
        for number, entity in sorted(graph_entities.by_pks(connection, people, fresh).items()):
            ids[number] = entity.id
            yield entity
        relations = graph_reads.by_pks(connection, [pk for pk, *_ in rows], when)
        for pk, source, target in rows:
            yield Edge(pk, ids[people.who(source)], ids[people.who(target)], relations[pk])
