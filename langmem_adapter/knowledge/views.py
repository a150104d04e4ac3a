"""Views of the knowledge graph: neighbours, paths, subgraphs, and a picture over time.

The graph has no vectors of its own. What is near in meaning is found through the memories: those that answer a question say
relations, and these are what it asks for.

Here are the data of it, and a file of its own that holds all that it needs and reaches for nothing.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from dataclasses import asdict, dataclass
from functools import partial
from html import escape
from importlib.resources import files
from math import log, sqrt
from string import Template
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from langmem_adapter.knowledge.draw import MOST_NODES
from langmem_adapter.knowledge.walk import Ground, reach, shortest
from langmem_adapter.names import candidate_keys
from langmem_adapter.records.graph import Entity, Neighbour, Relation
from langmem_adapter.search.query import LONGEST
from langmem_adapter.storage.graph import reads as graph_entities
from langmem_adapter.storage.graph import reads as graph_reads
from langmem_adapter.storage.graph.reads import People, with_keys
from langmem_adapter.storage.meta import language_of
from langmem_adapter.storage.scopes import expand
from langmem_adapter.text import content_words, subjects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import date, datetime

    from sqlalchemy import Connection

    from langmem_adapter.knowledge.walk import Hop
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.graph.reads import When

_FOLLOWED: Final = 100
"""Relations of an entity that are followed in each direction, beside as many as neighbours are wanted."""
_MOST_ARROWS: Final = 2_000
"""Relations of a drawing."""
_MOST_TIES: Final = 1_000
"""Relations around one entity."""
_NEWEST: Final = 500
"""So many of the scope's relations, and of each entity's that is named, are compared with the words of a question."""
COUNTED: Final = 1_000
"""Entities around one are counted up to so many: each costs a look at its relations."""


@dataclass(frozen=True, slots=True)
class Near:
    """An entity, and how many relations lie between it and the one in the middle at least."""

    entity: Entity
    hops: int


@dataclass(frozen=True, slots=True)
class Tie:
    """A relation, with the places that its ends have among the entities."""

    relation: Relation
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation between two entities by their ids; of one relation there may be several rows, where the history is read."""

    row: int
    source: str
    target: str
    relation: Relation


Part: TypeAlias = Entity | Edge


@dataclass(frozen=True, slots=True)
class Ego:
    """What lies around one entity, at whatever time it did.

    Attributes:
        entities: It first, then those around it, nearest first; of one distance those of the newest relations first.
        ties: What is between them, newest recorded first.
        found: How many entities there are, up to `COUNTED`.
    """

    entities: Sequence[Near]
    ties: Sequence[Tie]
    found: int


def neighbours(connection: Connection, scope: Scope, when: When, entity: str, *, hops: int, k: int) -> list[Neighbour]:
    """The neighbours of an entity, nearest first."""
    ground = Ground(connection, scope, when)
    reached = reach(partial(ground.around, most=_FOLLOWED + k), ground.called(entity), hops=hops, most=k)
    entities = graph_entities.entities_by_pks(connection, ground.people, list(reached))
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
    """The relations that are drawn, newest first, and whether some were left out: those around an entity, or the newest."""
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


def ego(connection: Connection, scope: Scope, entity: str | None, *, hops: int, most: int) -> Ego | None:
    """What lies around an entity, by all that is believed now about whatever time, of at most so many entities.

    Without a name it is the scope's own user or agent, or else whoever is mentioned most often. `None` where nobody is called
    so, or nobody is known at all.
    """
    ground = Ground(connection, scope, graph_reads.NOW)
    starts = _heart(ground, connection, scope) if entity is None else ground.called(entity)
    if not starts:
        return None
    follow = partial(ground.around, most=COUNTED)
    reached = reach(follow, starts, hops=hops, most=COUNTED - len(starts))
    far = dict.fromkeys(starts, 0) | {number: each.hops for number, each in reached.items()}
    shown = list(far)[:most]
    known = graph_entities.entities_by_pks(connection, ground.people, shown)
    nearest = [Near(known[number], far[number]) for number in shown]
    return Ego(nearest, _ties(connection, follow(shown), shown), len(far))


def _heart(ground: Ground, connection: Connection, scope: Scope) -> list[int]:
    """Whom a graph is about."""
    for name in (scope.user_id, scope.agent_id):
        if name is not None and ground.around(own := ground.called(name), most=1):
            return own
    mentioned = graph_entities.entity_page(connection, scope, graph_reads.NOW, k=1)
    return ground.called(mentioned[0].name) if mentioned else []


def _ties(connection: Connection, edges: Sequence[Hop], shown: Sequence[int]) -> list[Tie]:
    places = {number: place for place, number in enumerate(shown)}
    inside = [edge for edge in edges if places.keys() >= {*edge[1:]}][:_MOST_TIES]
    relations = graph_reads.by_pks(connection, [pk for pk, *_ in inside])
    return [Tie(relations[pk], places[source], places[target]) for pk, source, target in inside]


def parts(connection: Connection, scope: Scope, when: When) -> Iterator[Part]:
    """The whole graph, however large: every relation, the first recorded first, and each entity before its first relation."""
    people, ids = People(connection, expand(connection, scope)), dict[int, str]()
    for rows in graph_reads.every(connection, scope, when):
        people.meet(pk for _, *ends in rows for pk in ends)
        fresh = {people.who(pk) for _, *ends in rows for pk in ends} - ids.keys()
        for number, entity in sorted(graph_entities.entities_by_pks(connection, people, fresh).items()):
            ids[number] = entity.id
            yield entity
        relations = graph_reads.by_pks(connection, [pk for pk, *_ in rows], when)
        for pk, source, target in rows:
            yield Edge(pk, ids[people.who(source)], ids[people.who(target)], relations[pk])


# ── by a question ───────────────────────────────────────────────────────────────────────────────────────────────────────


def found(
    connection: Connection, scope: Scope, when: When, query: str, memory_ids: Sequence[str], k: int
) -> list[Relation]:
    """The relations that answer a question, of which the beginning is read, best first."""
    query = query[:LONGEST]
    scope_ids = expand(connection, scope)
    said = graph_reads.of_memories(connection, memory_ids, when)
    ranks = {pk: rank for rank, one in reversed([*enumerate(memory_ids, 1)]) for pk in said.get(one, ())}
    named = _named(connection, scope_ids, query, when)
    newest = graph_reads.newest(connection, scope, when, k=_NEWEST)
    relations = graph_reads.by_pks(connection, list({*ranks, *named, *newest}))
    told = _told(relations, query, language_of(connection))
    scores = {pk: told[pk] + named[pk] / 2 + (1 / sqrt(ranks[pk]) if pk in ranks else 0) for pk in relations}
    best = sorted((pk for pk in relations if scores[pk] > 0), key=lambda pk: -scores[pk])
    return [relations[pk] for pk in best[:k]]


def _named(connection: Connection, scope_ids: Sequence[int], query: str, when: When) -> Counter[int]:
    """How many ends of each relation the question names, and never the owner's: nearly everything is said of him."""
    pks = {pk for _, pk in with_keys(connection, scope_ids, candidate_keys(query))}
    everyone = People(connection, scope_ids).everyone(pks)
    edges = graph_reads.around(connection, everyone, when, most=_NEWEST)
    return Counter({pk: len({*ends}.intersection(everyone)) for pk, *ends in edges})


def _told(relations: Mapping[int, Relation], query: str, language: str) -> dict[int, float]:
    """How much of the question each relation's words repeat, from 0 to 1; rare words count more."""
    asked = _terms(query, language)
    shared = {pk: asked & _terms(relation.text, language) for pk, relation in relations.items()}
    holding = Counter(term for terms in shared.values() for term in terms)
    weights = {term: log(1 + len(relations) / max(holding[term], 1)) for term in asked}
    whole = sum(weights.values()) or 1
    return {pk: sum(weights[term] for term in terms) / whole for pk, terms in shared.items()}


def _terms(text: str, language: str) -> set[str]:
    """The words of a text, and the groups of related words that they belong to."""
    return content_words(text, language) | subjects(text, language)


D3: Final = "dispatch quadtree timer color interpolate ease selection transition drag zoom force".split()
"""The parts of d3 that the drawing needs, in the order in which they are loaded."""

_MOST_PICTURE_TIES: Final = 2_000
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
    last: deque[Edge] = deque(maxlen=_MOST_PICTURE_TIES)
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
