"""The graph around one entity: a table of its relations, the picture of them, and how both were at another time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Query, Response
from pydantic import Field
from sqlalchemy import Connection

from langmem_adapter.arguments import filled, parse_time
from langmem_adapter.knowledge import views
from langmem_adapter.knowledge.views import COUNTED, Ego, Tie
from langmem_adapter.records.graph import Entity
from langmem_adapter.records.results import MemoryItem
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.page.asking import Filled, Whose
from langmem_adapter.server.page.shell import PREFIX
from langmem_adapter.server.page.view import Reading
from langmem_adapter.storage import memories
from langmem_adapter.storage.graph import entities
from langmem_adapter.storage.graph.reads import NOW
from langmem_adapter.twins import beside

__all__ = ["router"]

_FIRST: Final = 150
_MOST: Final = 400
_STEP: Final = 50
_NAMES: Final = 200
"""Entities whose names are proposed."""
_FACTS: Final = 12
"""Memories about the entity in the middle, at most."""
_KINDS: Final = {
    kind: shape
    for shape, kinds in {
        "person": "person people user human man woman 人 人物 用户",
        "place": "place location city town country region address 地点 城市 国家 地区 地址",
        "organization": "organization organisation company employer school university 组织 公司 学校 大学 机构",
        "animal": "animal pet dog cat 动物 宠物",
    }.items()
    for kind in kinds.split()
}

State: TypeAlias = Literal["later", "holds", "ended"]


class _Asked(Whose):
    entity: Filled[str] = None
    hops: int = Field(2, ge=1, le=3)
    most: int = Field(_FIRST, ge=1, le=_MOST)
    as_of: Filled[str] = None


@dataclass(frozen=True, slots=True)
class _Stop:
    """A moment of the slider: the last at which something changed on some day, or now."""

    at: datetime
    title: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is read for one look: what lies around, what memories say of the one in the middle, and who else there is."""

    ego: Ego | None
    facts: list[MemoryItem]
    names: list[str]


router = APIRouter(prefix=PREFIX)


@router.get("/graph")
async def graph(view: Reading, asked: Annotated[_Asked, Query()]) -> Response:
    now = datetime.now(UTC)
    at = now if asked.as_of is None else parse_time(asked.as_of, "as_of")
    fields = await view.shown(asked)
    seen = _Seen(None, [], [])
    if fields is not None:
        seen = await beside(view.memory.engine.reading, _look, Scope(**fields), asked)
    told: dict[str, Any] = {"asked": asked, "seen": seen, "grows": view.memory.engine.uses_graph}
    if seen.ego is None:
        return view.show("graph", fields, **told)
    return view.show("graph", fields, **told, **_shown(seen.ego, asked, at, now))


def _look(connection: Connection, scope: Scope, asked: _Asked) -> _Seen:
    name = None if asked.entity is None else filled(asked.entity, "entity")
    ego = views.ego(connection, scope, name, hops=asked.hops, most=asked.most)
    known, _ = entities.page(connection, scope, NOW, k=_NAMES)
    return _Seen(ego, _facts(connection, ego.ties if ego else ()), [each.name for each in known])


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
        "at_time": at,
        "middle": ego.entities[0].entity,
        "picture": _picture(ego, ties, _stops(ties, now), at),
    }


def _state(tie: Tie, at: datetime) -> State:
    """What a relation is at a moment."""
    relation = tie.relation
    if relation.valid_from is not None and relation.valid_from > at:
        return "later"
    return "holds" if relation.valid_to is None or at < relation.valid_to else "ended"


def _shape(entity: Entity) -> str:
    """The shape that stands for an entity's type; a user is a person."""
    if not entity.type and entity.name == entity.scope.user_id:
        return "person"
    return _KINDS.get(entity.type.strip().casefold(), "thing")


def _stops(ties: list[Tie], now: datetime) -> list[_Stop]:
    """The days on which something changed, and now, in order; what changed today until now counts as now."""
    changes = sorted(at for tie in ties for at in (tie.relation.valid_from, tie.relation.valid_to) if at is not None)
    days: dict[date, datetime] = {at.date(): at for at in changes if at > now or at.date() != now.date()}
    stops = [_Stop(at, day.isoformat()) for day, at in days.items()]
    return sorted([*stops, _Stop(now, "now")], key=lambda stop: stop.at)


def _picture(ego: Ego, ties: list[Tie], stops: list[_Stop], at: datetime) -> dict[str, Any]:
    return {
        "at": _milliseconds(at),
        "stops": [{"at": _milliseconds(stop.at), "iso": stop.at.isoformat(), "title": stop.title} for stop in stops],
        "nodes": [
            {
                "name": near.entity.name,
                "type": near.entity.type,
                "shape": _shape(near.entity),
                "hops": near.hops,
                "mentions": near.entity.mentions,
            }
            for near in ego.entities
        ],
        "ties": [
            {
                "source": tie.source,
                "target": tie.target,
                "name": tie.relation.relation.replace("_", " "),
                "from": _milliseconds(tie.relation.valid_from),
                "to": _milliseconds(tie.relation.valid_to),
            }
            for tie in ties
        ],
    }


def _milliseconds(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp() * 1000)
