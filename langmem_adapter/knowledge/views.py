"""What is read of the graph by walking through it: neighbours, paths, and the part of it that is drawn."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from langmem_adapter.knowledge.draw import MOST_NODES
from langmem_adapter.knowledge.walk import Ground, reach, shortest
from langmem_adapter.records.graph import Neighbour
from langmem_adapter.storage.graph import entities as graph_entities
from langmem_adapter.storage.graph import reads as graph_reads

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from langmem_adapter.records.graph import Relation
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.reads import When

__all__ = ["drawn", "neighbours", "path"]

_FOLLOWED: Final = 100
"""Relations of an entity that are followed in each direction, beside as many as neighbours are wanted."""
_MOST_ARROWS: Final = 2_000
"""Relations of a drawing."""


def neighbours(connection: Connection, scope: Scope, when: When, entity: str, *, hops: int, k: int) -> list[Neighbour]:
    """The neighbours of an entity, nearest first."""
    ground = Ground(connection, scope, when)
    reached = reach(partial(ground.around, most=_FOLLOWED + k), ground.called(entity), hops=hops, most=k)
    entities = graph_entities.by_pks(connection, ground.people, list(reached))
    pks = {pk for each in reached.values() for pk in each.relations}
    relations = graph_reads.by_pks(connection, list(pks), when)
    return [
        Neighbour(entities[number], each.hops, tuple(relations[pk] for pk in each.relations))
        for number, each in reached.items()
    ]


def path(connection: Connection, scope: Scope, when: When, source: str, target: str, *, most: int) -> list[Relation]:
    """The relations on a shortest way from one entity to another."""
    ground = Ground(connection, scope, when)
    pks = shortest(ground.around, ground.called(source), ground.called(target), most=most)
    relations = graph_reads.by_pks(connection, pks, when)
    return [relations[pk] for pk in pks]


def drawn(
    connection: Connection, scope: Scope, when: When, entity: str | None, *, hops: int
) -> tuple[list[Relation], bool]:
    """The relations that are drawn, newest first, and whether some were left out.

    Args:
        connection: A read transaction.
        scope: Whose graph.
        when: Which beliefs.
        entity: What to draw the surroundings of; `None` for the newest relations.
        hops: How far around it.
    """
    if entity is None:
        pks = graph_reads.newest(connection, scope, when, k=_MOST_ARROWS + 1)
        cut = len(pks) > _MOST_ARROWS
    else:
        pks, cut = _surroundings(Ground(connection, scope, when), entity, hops)
    return list(graph_reads.by_pks(connection, pks[:_MOST_ARROWS], when).values()), cut


def _surroundings(ground: Ground, entity: str, hops: int) -> tuple[list[int], bool]:
    """The relations between an entity and those around it, newest first, and whether there is more around it."""
    starts = ground.called(entity)
    found = reach(partial(ground.around, most=_FOLLOWED + MOST_NODES), starts, hops=hops, most=MOST_NODES)
    kept = dict([*found.items()][: MOST_NODES - len(starts)])
    pks = {pk for each in kept.values() for pk in each.relations}
    seen = {*starts, *kept}
    pks.update(pk for pk, *ends in ground.around(sorted(seen), most=_FOLLOWED) if seen.issuperset(ends))
    return sorted(pks, reverse=True), len(kept) < len(found) or len(pks) > _MOST_ARROWS
