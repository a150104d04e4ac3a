"""Page of the knowledge graph around one entity: a table of relations and a picture, also at another time."""

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Query, Response
from pydantic import Field
from sqlalchemy import Connection

from langmem_adapter.arguments import filled, parse_time
from langmem_adapter.knowledge import walk
from langmem_adapter.knowledge.draw import D3, Dot, picture_data, shape_of
from langmem_adapter.knowledge.walk import COUNTED, Ego
from langmem_adapter.records.graph import Relation
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.page.layout import Filled, Reading, ScopeForm
from langmem_adapter.server.problems import PAGE
from langmem_adapter.storage import memories
from langmem_adapter.storage.graph import reads
from langmem_adapter.storage.graph.reads import NOW
from langmem_adapter.twins import run_in_executor

_FIRST: Final = 150
_MOST: Final = 400
_STEP: Final = 50
_NAMES: Final = 200
"""Entities of which names are proposed."""
_FACTS: Final = 12
"""Memories about the entity in the middle, at most."""

RelationState: TypeAlias = Literal["later", "holds", "ended"]


class _GraphQuery(ScopeForm):
    entity: Filled[str] = None
    hops: int = Field(2, ge=1, le=3)
    most: int = Field(_FIRST, ge=1, le=_MOST)
    as_of: Filled[str] = None


router = APIRouter(prefix=PAGE)


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
    own = [tie.relation for tie in (ego.ties if ego else ()) if 0 in {tie.source, tie.target}]
    ids = islice(dict.fromkeys(memory_id for relation in own for memory_id in relation.memory_ids), _FACTS)
    facts = [memories.get(connection, memory_id) for memory_id in ids]
    now = datetime.now(UTC)
    current = [fact for fact in facts if fact.expires_at is None or fact.expires_at > now]
    return {"ego": ego, "facts": current, "names": [each.name for each in entities]}


def _table_and_picture(ego: Ego, query: _GraphQuery, at: datetime, now: datetime) -> dict[str, Any]:
    """The values of the template: the nearest relations first, and the same as data for the picture."""
    ties = sorted(ego.ties, key=lambda tie: min(ego.entities[end].hops for end in (tie.source, tie.target)))
    rows = [(tie, _state(tie.relation, at)) for tie in ties]
    shapes = [shape_of(near.entity.type, near.entity.name, near.entity.scope) for near in ego.entities]
    dots = [
        Dot(near.entity.name, near.entity.type, shape, near.hops, near.entity.mentions)
        for near, shape in zip(ego.entities, shapes, strict=True)
    ]
    more = min(query.most + _STEP, _MOST) if len(ego.entities) < min(ego.total, _MOST) else None
    return {
        "rows": rows,
        "current": sum(state == "holds" for _, state in rows),
        "ended": sum(state == "ended" for _, state in rows),
        "kinds": sorted({*shapes[1:]}),
        "more": more,
        "counted": COUNTED,
        "d3": D3,
        "at_time": at,
        "middle": ego.entities[0].entity,
        "picture": picture_data(dots, ties, now, at),
    }


def _state(relation: Relation, at: datetime) -> RelationState:
    if relation.valid_from is not None and relation.valid_from > at:
        return "later"
    return "holds" if relation.valid_to is None or at < relation.valid_to else "ended"
