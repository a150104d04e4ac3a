"""The graph around one entity: a table of its relations, the picture of them, and how both were at another time."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Query, Response
from pydantic import Field
from sqlalchemy import Connection

from langmem_adapter.arguments import filled, parse_time
from langmem_adapter.knowledge import views
from langmem_adapter.knowledge.views import COUNTED, D3, Dot, Ego, Tie, data_of, shape_of, stops_of
from langmem_adapter.records.graph import Entity
from langmem_adapter.records.results import MemoryItem
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.page.layout import PREFIX
from langmem_adapter.server.page.view import AddressScope, Filled, Reading
from langmem_adapter.storage import memories
from langmem_adapter.storage.graph import reads
from langmem_adapter.storage.graph.reads import NOW
from langmem_adapter.twins import beside

_FIRST: Final = 150
_MOST: Final = 400
_STEP: Final = 50
_NAMES: Final = 200
"""Entities whose names are proposed."""
_FACTS: Final = 12
"""Memories about the entity in the middle, at most."""

RelationState: TypeAlias = Literal["later", "holds", "ended"]


class _Asked(AddressScope):
    entity: Filled[str] = None
    hops: int = Field(2, ge=1, le=3)
    most: int = Field(_FIRST, ge=1, le=_MOST)
    as_of: Filled[str] = None


router = APIRouter(prefix=PREFIX)


@router.get("/graph")
async def graph(view: Reading, asked: Annotated[_Asked, Query()]) -> Response:
    now = datetime.now(UTC)
    at = now if asked.as_of is None else parse_time(asked.as_of, "as_of")
    fields = await view.shown(asked)
    seen: dict[str, Any] = {"ego": None, "names": []}
    if fields is not None:
        seen = await beside(view.memory.parts.reading, _look, Scope(**fields), asked)
    told: dict[str, Any] = {"asked": asked, "seen": seen, "grows": view.memory.parts.uses_graph}
    if seen["ego"] is not None:
        told |= _shown(seen["ego"], asked, at, now)
    return view.show("graph", fields, **told)


def _look(connection: Connection, scope: Scope, asked: _Asked) -> dict[str, Any]:
    """What lies around the one in the middle, what memories say of it, and who else there is."""
    name = None if asked.entity is None else filled(asked.entity, "entity")
    ego = views.ego(connection, scope, name, hops=asked.hops, most=asked.most)
    known = reads.entity_page(connection, scope, NOW, k=_NAMES)
    facts = _facts(connection, ego.ties if ego else ())
    return {"ego": ego, "facts": facts, "names": [each.name for each in known]}


def _facts(connection: Connection, ties: Sequence[Tie]) -> list[MemoryItem]:
    """The memories that say the relations of the one in the middle, but for those that have expired."""
    said = (one for tie in ties if 0 in {tie.source, tie.target} for one in tie.relation.memory_ids)
    found = (memories.get(connection, one) for one in islice(dict.fromkeys(said), _FACTS))
    return [fact for fact in found if fact.expires_at is None or fact.expires_at > datetime.now(UTC)]


def _shown(ego: Ego, asked: _Asked, at: datetime, now: datetime) -> dict[str, Any]:
    """What the template shows: the nearest relations first, and the same as data for the picture."""
    ties = sorted(ego.ties, key=lambda tie: min(ego.entities[end].hops for end in (tie.source, tie.target)))
    rows = [(tie, _state(tie, at)) for tie in ties]
    more = min(asked.most + _STEP, _MOST) if len(ego.entities) < min(ego.found, _MOST) else None
    return {
        "rows": rows,
        "held": sum(told == "holds" for _, told in rows),
        "ended": sum(told == "ended" for _, told in rows),
        "kinds": sorted({_shape(near.entity) for near in ego.entities[1:]}),
        "more": more,
        "counted": COUNTED,
        "d3": D3,
        "at_time": at,
        "middle": ego.entities[0].entity,
        "picture": _picture(ego, ties, now, at),
    }


def _state(tie: Tie, at: datetime) -> RelationState:
    """What a relation is at a moment."""
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
    return data_of(dots, ties, stops_of((tie.relation for tie in ties), now), at)
