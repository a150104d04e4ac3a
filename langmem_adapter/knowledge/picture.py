"""The knowledge graph as a picture that moves through time, drawn by `server/static/page/graph.js`.

Here are the data of it, and a file of its own that holds all that it needs and reaches for nothing.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.knowledge.draw import MOST_NODES
from langmem_adapter.knowledge.views import Tie

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import date, datetime

    from langmem_adapter.knowledge.views import Edge
    from langmem_adapter.records.graph import Relation
    from langmem_adapter.records.scope import Scope

__all__ = ["D3", "Dot", "data_of", "page", "shape_of", "stops_of"]

D3: Final = "dispatch quadtree timer color interpolate ease selection transition drag zoom force".split()
"""The parts of d3 that the drawing needs, in the order in which they are loaded."""

_MOST_TIES: Final = 2_000
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


@dataclass(frozen=True, slots=True)
class Dot:
    """An entity of the picture."""

    name: str
    type: str
    shape: str  # that stands for the type
    hops: int  # from the first
    mentions: int  # or the relations that it has


@dataclass(frozen=True, slots=True)
class _Stop:
    """A moment of the slider: the last at which something changed on some day, or now."""

    at: datetime
    title: str


def shape_of(kind: str, name: str, scope: Scope) -> str:
    """The shape that stands for an entity's type; a user is a person."""
    if not kind and name == scope.user_id:
        return "person"
    return _KINDS.get(kind.strip().casefold(), "thing")


def stops_of(relations: Iterable[Relation], now: datetime) -> list[_Stop]:
    """The days on which something changed, and now, in order; what changed today until now counts as now."""
    changes = sorted(at for each in relations for at in (each.valid_from, each.valid_to) if at is not None)
    days: dict[date, datetime] = {at.date(): at for at in changes if at > now or at.date() != now.date()}
    stops = [_Stop(at, day.isoformat()) for day, at in days.items()]
    return sorted([*stops, _Stop(now, "now")], key=lambda stop: stop.at)


def data_of(dots: Iterable[Dot], ties: Iterable[Tie], stops: Iterable[_Stop], at: datetime) -> dict[str, Any]:
    """What the script draws, as it stands at a moment."""
    return {
        "at": _milliseconds(at),
        "stops": [{"at": _milliseconds(stop.at), "iso": stop.at.isoformat(), "title": stop.title} for stop in stops],
        "nodes": [asdict(dot) for dot in dots],
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


# ── a file of its own ───────────────────────────────────────────────────────────────────────────────────────────────────


def page(edges: Iterable[Edge], now: datetime) -> Iterator[str]:
    """An HTML page with the newest of some relations, at most 2,000 between 400 entities; it says where that is a part."""
    found = 0
    last: deque[Edge] = deque(maxlen=_MOST_TIES)
    for found, edge in enumerate(edges, 1):  # noqa: B007 - how many there were
        last.append(edge)
    dots, ties = _drawn(list(last))
    many = f"{len(ties):,}" if len(ties) == found else f"the newest {len(ties):,} of {found:,}"
    relations, entities = "relation" if found == 1 else "relations", "entity" if len(dots) == 1 else "entities"
    yield _page(dots, ties, now, f"{many} {relations}, {len(dots):,} {entities}")


def _drawn(edges: Sequence[Edge]) -> tuple[list[Dot], list[Tie]]:
    kept: list[Edge] = []
    told: dict[str, tuple[str, str, Scope]] = {}
    for edge in reversed(edges):
        relation = edge.relation
        if len({*told, edge.source, edge.target}) <= MOST_NODES:
            kept.append(edge)
            told.setdefault(edge.source, (relation.source, relation.source_type, relation.scope))
            told.setdefault(edge.target, (relation.target, relation.target_type, relation.scope))
    ties = Counter(end for edge in kept for end in (edge.source, edge.target))
    places = {id_: place for place, (id_, _) in enumerate(ties.most_common())}
    dots = [
        Dot(name, kind, shape_of(kind, name, scope), int(place > 0), ties[id_])
        for id_, place in places.items()
        for name, kind, scope in [told[id_]]
    ]
    return dots, [Tie(edge.relation, places[edge.source], places[edge.target]) for edge in kept]


def _page(dots: Sequence[Dot], ties: Sequence[Tie], now: datetime, told: str) -> str:
    server = files("langmem_adapter") / "server"
    static = server / "static"
    stops = stops_of((tie.relation for tie in ties), now)
    d3 = static / "vendor" / "d3"
    return Template((files("langmem_adapter.knowledge") / "picture.html").read_text("utf-8")).substitute(
        whose=_whose(ties),
        told=escape(told),
        legend=_legend(dots),
        shapes=(server / "templates" / "page" / "shapes.html").read_text("utf-8"),
        empty="" if dots else "hidden",
        licenses="\n".join((d3 / name).read_text("utf-8") for name in ("LICENSE", "LICENSE-ease")).replace("--", "—"),
        style="\n".join((static / "page" / name).read_text("utf-8") for name in ("page.css", "graph.css")),
        parts="\n".join((d3 / f"d3-{name}.min.js").read_text("utf-8") for name in D3) if dots else "",
        script=(static / "page" / "graph.js").read_text("utf-8") if dots else "",
        data=json.dumps(data_of(dots, ties, stops, now), ensure_ascii=False).replace("<", "\\u003c"),
        last=len(stops) - 1,
        rows="\n".join(_row(tie) for tie in ties),
    )


def _whose(ties: Sequence[Tie]) -> str:
    scopes = {tie.relation.scope for tie in ties}
    if len(scopes) != 1:
        return ""
    named = (f"{name.removesuffix('_id')} <bdi>{escape(value)}</bdi>" for name, value in scopes.pop().named.items())
    return f" of {', '.join(named)}"


def _legend(dots: Sequence[Dot]) -> str:
    used = {dot.shape for dot in dots}
    kinds = [*dict.fromkeys(_KINDS.values()), "thing"]
    return "\n    ".join(
        f'<span><svg class="shape {kind}" viewBox="-12 -12 24 24" aria-hidden="true">'
        f'<use href="#shape-{kind}"/></svg> {"other" if kind == "thing" else kind}</span>'
        for kind in kinds
        if kind in used
    )


def _row(tie: Tie) -> str:
    told = tie.relation
    since, until = ("" if at is None else at.date() for at in (told.valid_from, told.valid_to))
    texts = told.source, told.relation.replace("_", " "), told.target
    source, relation, target = (f"<bdi>{escape(text)}</bdi>" for text in texts)
    return f"<tr><th scope=row>{source}</th><td>{relation}</td><td>{target}</td><td>{since}</td><td>{until}</td></tr>"
