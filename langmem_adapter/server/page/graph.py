"""Page of the knowledge graph around one entity: a table of relations and a picture, also at another time."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Query, Response
from pydantic import Field
from sqlalchemy import Connection

from langmem_adapter.arguments import filled, parse_time
from langmem_adapter.knowledge import walk
from langmem_adapter.knowledge.draw import D3, Dot, picture_data, shape_of
from langmem_adapter.knowledge.walk import COUNTED, Ego, Tie
from langmem_adapter.records.graph import Entity
from langmem_adapter.records.results import MemoryItem
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.page.layout import PREFIX, Filled, Reading, ScopeForm
from langmem_adapter.storage import memories
from langmem_adapter.storage.graph import reads
from langmem_adapter.storage.graph.reads import NOW
from langmem_adapter.twins import run_in_executor

_FIRST: Final = 150
_MOST: Final = 400
_STEP: Final = 50
_NAMES: Final = 200
"""Entities whose names are proposed."""
_FACTS: Final = 12
"""Memories about the entity in the middle, at most."""

RelationState: TypeAlias = Literal["later", "holds", "ended"]


class _GraphQuery(ScopeForm):
    entity: Filled[str] = None
    hops: int = Field(2, ge=1, le=3)
    most: int = Field(_FIRST, ge=1, le=_MOST)
    as_of: Filled[str] = None


router = APIRouter(prefix=PREFIX)


@router.get("/graph")
async def graph(view: Reading, query: Annotated[_GraphQuery, Query()]) -> Response:
    now = datetime.now(UTC)
    at = now if query.as_of is None else parse_time(query.as_of, "as_of")
    scope = await view.scope_to_show(query)
    values: dict[str, Any] = {"ego": None, "names": [], "query": query, "grows": view.memory.parts.uses_graph}
    if scope is not None:
        values |= await run_in_executor(view.memory.parts.reading, _read, Scope(**scope), query)
    if values["ego"] is not None:
        values |= _table_and_picture(values["ego"], query, at, now)
    return view.show("graph", scope, **values)


def _read(connection: Connection, scope: Scope, query: _GraphQuery) -> dict[str, Any]:
    """The entity in the middle with its surroundings and memories, and the names of the others."""
    name = None if query.entity is None else filled(query.entity, "entity")
    ego = walk.ego(connection, scope, name, hops=query.hops, most=query.most)
    entities = reads.entity_page(connection, scope, NOW, k=_NAMES)
    facts = _facts(connection, ego.ties if ego else ())
    return {"ego": ego, "facts": facts, "names": [each.name for each in entities]}


def _facts(connection: Connection, ties: Sequence[Tie]) -> list[MemoryItem]:
    """The memories that state relations of the entity in the middle, without expired ones."""
    ids = dict.fromkeys(one for tie in ties if 0 in {tie.source, tie.target} for one in tie.relation.memory_ids)
    facts = (memories.get(connection, one) for one in islice(ids, _FACTS))
    return [fact for fact in facts if fact.expires_at is None or fact.expires_at > datetime.now(UTC)]


def _table_and_picture(ego: Ego, query: _GraphQuery, at: datetime, now: datetime) -> dict[str, Any]:
    """The values of the template: the nearest relations first, and the same as data for the picture."""
    ties = sorted(ego.ties, key=lambda tie: min(ego.entities[end].hops for end in (tie.source, tie.target)))
    rows = [(tie, _state(tie, at)) for tie in ties]
    more = min(query.most + _STEP, _MOST) if len(ego.entities) < min(ego.total, _MOST) else None
    return {
        "rows": rows,
        "current": sum(state == "holds" for _, state in rows),
        "ended": sum(state == "ended" for _, state in rows),
        "kinds": sorted({_shape(near.entity) for near in ego.entities[1:]}),
        "more": more,
        "counted": COUNTED,
        "d3": D3,
        "at_time": at,
        "middle": ego.entities[0].entity,
        "picture": _picture(ego, ties, now, at),
    }


def _state(tie: Tie, at: datetime) -> RelationState:
    """The state of a relation at a moment."""
    relation = tie.relation
    if relation.valid_from is not None and relation.valid_from > at:
        return "later"
    return "holds" if relation.valid_to is None or at < relation.valid_to else "ended"


def _shape(entity: Entity) -> str:
    return shape_of(entity.type, entity.name, entity.scope)


def _picture(ego: Ego, ties: list[Tie], now: datetime, at: datetime) -> dict[str, Any]:
    dots = [
        Dot(near.entity.name, near.entity.type, _shape(near.entity), near.hops, near.entity.mentions)
        for near in ego.entities
    ]
    return picture_data(dots, ties, now, at)
