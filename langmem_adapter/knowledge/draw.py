"""Drawings of the knowledge graph: Mermaid, Graphviz DOT, GraphML, and an HTML page with a picture over time.

Names come from conversations and are not trusted. Each format has one function that escapes a name. The page loads nothing
from elsewhere; its style and script are those of the web page's graph.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter, deque
from dataclasses import asdict, dataclass
from html import escape as html
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args
from xml.sax.saxutils import escape, quoteattr

from langmem_adapter.arguments import one_of
from langmem_adapter.knowledge.walk import MOST_NODES, Tie
from langmem_adapter.names import owner_name, relation_end
from langmem_adapter.records.scope import as_iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import date, datetime

    from langmem_adapter.knowledge.walk import Edge
    from langmem_adapter.records.graph import Relation
    from langmem_adapter.records.scope import Scope

# ── GraphML ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

GraphmlValue: TypeAlias = str | int | float | bool | None
_Part: TypeAlias = Literal["node", "edge"]

_KEYS: Final[Mapping[_Part, Mapping[str, str]]] = {
    "node": {
        **dict.fromkeys(("name", "type", "aliases", "user_id", "agent_id", "run_id"), "string"),
        "mentions": "long",
        **dict.fromkeys(("created_at", "updated_at"), "string"),
    },
    "edge": {
        **dict.fromkeys(("id", "relation", "valid_from", "valid_to"), "string"),
        "holds": "boolean",
        "mentions": "long",
        "confidence": "double",
        **dict.fromkeys(("recorded_at", "retired_at", "memory_ids", "user_id", "agent_id", "run_id"), "string"),
    },
}
_IMPOSSIBLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
END: Final = "  </graph>\n</graphml>\n"
"""The lines after the last node and edge."""


def begin(comment: str | None = None) -> Iterator[str]:
    """The lines before the first node and edge, with a comment at the top."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    if comment is not None:
        yield f"<!-- {comment} -->\n"
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    for part, names in _KEYS.items():
        for name, kind in names.items():
            yield f'  <key id="{part}_{name}" for="{part}" attr.name="{name}" attr.type="{kind}"/>\n'
    yield '  <graph id="memory" edgedefault="directed">\n'


def node(id_: str, values: Mapping[str, GraphmlValue]) -> str:
    """A node, with those of its values that are there."""
    return f"    <node id={quoteattr(id_)}>{_data('node', values)}</node>\n"


def edge(id_: str, source: str, target: str, values: Mapping[str, GraphmlValue]) -> str:
    """An edge from one node to another."""
    ends = f"id={quoteattr(id_)} source={quoteattr(source)} target={quoteattr(target)}"
    return f"    <edge {ends}>{_data('edge', values)}</edge>\n"


def _data(part: _Part, values: Mapping[str, GraphmlValue]) -> str:
    present = ((name, values[name]) for name in _KEYS[part] if values.get(name) not in {None, ""})
    return "".join(f'<data key="{part}_{name}">{_xml(value)}</data>' for name, value in present)


def _xml(value: GraphmlValue) -> str:
    """A value as XML text; a control character that XML cannot hold becomes U+FFFD."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return escape(_IMPOSSIBLE.sub("\ufffd", text), {"\r": "&#13;"})


# ── drawings ────────────────────────────────────────────────────────────────────────────────────────────────────────────

DrawForm: TypeAlias = Literal["mermaid", "dot", "graphml"]
CUT: Final = f"cut to {MOST_NODES} entities, those of the newest relations; graph.export writes all"
"""What a drawing says that shows a part."""
_JOINERS: Final = "\u200c\u200d"  # parts of Persian words and of emojis


@dataclass(frozen=True, slots=True)
class _Arrow:
    source: int
    target: int
    relation: Relation
    holds: bool

    @property
    def label(self) -> str:
        name = _line(self.relation.relation.replace("_", " "))
        since, until = (at.date() if at else "" for at in (self.relation.valid_from, self.relation.valid_to))
        return name if self.holds else f"{name}, {since} – {until}"


@dataclass(frozen=True, slots=True)
class _Picture:
    """What is drawn: names and types by number, the arrows between them, and whether some were left out."""

    nodes: Sequence[tuple[str, str]]
    arrows: Sequence[_Arrow]
    cut: bool


def drawing(relations: Sequence[Relation], form: DrawForm, moment: datetime, *, cut: bool = False) -> str:
    """Relations, newest first, as a drawing; dashed where they do not hold at a moment. It says where some are left out."""
    return "".join(_FORMS[form](_picture(relations, moment, cut=cut)))


def check_form(form: object) -> DrawForm:
    """The name of a form; of none, an `InvalidInputError`."""
    return one_of(form, get_args(DrawForm), "format")


def _picture(relations: Sequence[Relation], moment: datetime, *, cut: bool) -> _Picture:
    kept: list[tuple[str, str, Relation]] = []
    keys: set[str] = set()
    for relation in relations:
        # An entity with exactly the name of the scope's own is drawn as one with it.
        scope = relation.scope
        source, target = (
            relation_end(owner_name(name, scope), scope).key for name in (relation.source, relation.target)
        )
        if len(keys | {source, target}) <= MOST_NODES:
            keys |= {source, target}
            kept.append((source, target, relation))
    nodes: dict[str, tuple[str, str]] = {}
    numbers: dict[str, int] = {}
    arrows: list[_Arrow] = []
    for source, target, each in reversed(kept):  # the oldest first, so that numbers stay as the graph grows
        for key, name, kind in ((source, each.source, each.source_type), (target, each.target, each.target_type)):
            nodes.setdefault(key, (_line(name), _line(kind) if kind else ""))
            numbers.setdefault(key, len(numbers))
        arrows.append(_Arrow(numbers[source], numbers[target], each, each.holds_at(moment)))
    return _Picture(list(nodes.values()), arrows, cut or len(kept) < len(relations))


def _line(text: str) -> str:
    """A text on one line, without control characters, which XML refuses, and without those that turn writing around."""
    letters = (letter if letter in _JOINERS or unicodedata.category(letter)[0] != "C" else " " for letter in text)
    return " ".join("".join(letters).split()) or "?"


def _mermaid(picture: _Picture) -> Iterator[str]:
    yield "flowchart LR\n"
    if picture.cut:
        yield f"  %% {CUT}\n"
        yield f'  cut["{_in_mermaid(CUT)}"]\n'
    for number, (name, _) in enumerate(picture.nodes):
        yield f'  n{number}["{_in_mermaid(name)}"]\n'
    for arrow in picture.arrows:
        line = "-->" if arrow.holds else "-.->"
        yield f'  n{arrow.source} {line}|"{_in_mermaid(arrow.label)}"| n{arrow.target}\n'


def _in_mermaid(text: str) -> str:
    """All but letters, digits and harmless marks as Mermaid's entity codes; "1." and "-" would begin a list."""
    return "".join(
        letter if letter.isalnum() or (place and letter in " ,'/-–_") else f"#{ord(letter)};"
        for place, letter in enumerate(text)
    )


def _dot(picture: _Picture) -> Iterator[str]:
    yield "digraph memory {\n"
    if picture.cut:
        yield f"  // {CUT}\n"
        yield f"  label={_in_dot(CUT)};\n"
    yield "  rankdir=LR;\n"
    for number, (name, _) in enumerate(picture.nodes):
        yield f"  n{number} [label={_in_dot(name)}];\n"
    for arrow in picture.arrows:
        style = "" if arrow.holds else ", style=dashed"
        yield f"  n{arrow.source} -> n{arrow.target} [label={_in_dot(arrow.label)}{style}];\n"
    yield "}\n"


def _in_dot(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


def _graphml(picture: _Picture) -> Iterator[str]:
    yield from begin(CUT if picture.cut else None)
    for number, (name, kind) in enumerate(picture.nodes):
        yield node(f"n{number}", {"name": name, "type": kind})
    for number, arrow in enumerate(picture.arrows):
        relation = arrow.relation
        values = {
            "id": relation.id,
            "relation": _line(relation.relation),
            "valid_from": as_iso(relation.valid_from),
            "valid_to": as_iso(relation.valid_to),
            "holds": arrow.holds,
            "mentions": relation.mentions,
            "confidence": relation.confidence,
        }
        yield edge(f"r{number}", f"n{arrow.source}", f"n{arrow.target}", values)
    yield END


_FORMS: Final[dict[str, Callable[[_Picture], Iterator[str]]]] = {"mermaid": _mermaid, "dot": _dot, "graphml": _graphml}

# ── the picture over time ───────────────────────────────────────────────────────────────────────────────────────────────

D3: Final = "dispatch quadtree timer color interpolate ease selection transition drag zoom force".split()
"""The parts of d3 that the picture needs, in the order in which they are loaded."""
_MOST_TIES: Final = 2_000
_SHAPES: Final = {
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
    return _SHAPES.get(kind.strip().casefold(), "thing")


def picture_data(dots: Iterable[Dot], ties: Sequence[Tie], now: datetime, at: datetime) -> dict[str, Any]:
    """What the script draws, as of a moment."""
    stops = _stops([tie.relation for tie in ties], now)
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


def _stops(relations: Sequence[Relation], now: datetime) -> list[_Stop]:
    """The days on which something changed, and now, in order; what changed today until now counts as now."""
    changes = sorted(at for each in relations for at in (each.valid_from, each.valid_to) if at is not None)
    days: dict[date, datetime] = {at.date(): at for at in changes if at > now or at.date() != now.date()}
    stops = [_Stop(at, day.isoformat()) for day, at in days.items()]
    return sorted([*stops, _Stop(now, "now")], key=lambda stop: stop.at)


def _milliseconds(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp() * 1000)


def page(edges: Iterable[Edge], now: datetime) -> Iterator[str]:
    """An HTML page with the newest of some relations, at most 2,000 between 400 entities; it says where that is a part."""
    count = 0
    last: deque[Edge] = deque(maxlen=_MOST_TIES)
    for edge in edges:
        count += 1
        last.append(edge)
    dots, ties = _place(reversed(last))
    number = f"{len(ties):,}" if len(ties) == count else f"the newest {len(ties):,} of {count:,}"
    relations, entities = "relation" if count == 1 else "relations", "entity" if len(dots) == 1 else "entities"
    yield _page(dots, ties, now, f"{number} {relations}, {len(dots):,} {entities}")


def _place(edges: Iterable[Edge]) -> tuple[list[Dot], list[Tie]]:
    """The dots and ties of edges, newest first; the dot with the most ties comes first."""
    kept: list[Edge] = []
    entities: dict[str, tuple[str, str, Scope]] = {}
    for edge in edges:
        relation = edge.relation
        if len({*entities, edge.source, edge.target}) <= MOST_NODES:
            kept.append(edge)
            entities.setdefault(edge.source, (relation.source, relation.source_type, relation.scope))
            entities.setdefault(edge.target, (relation.target, relation.target_type, relation.scope))
    ties = Counter(end for edge in kept for end in (edge.source, edge.target))
    places = {id_: place for place, (id_, _) in enumerate(ties.most_common())}
    dots = [
        Dot(name, kind, shape_of(kind, name, scope), int(place > 0), ties[id_])
        for id_, place in places.items()
        for name, kind, scope in [entities[id_]]
    ]
    return dots, [Tie(edge.relation, places[edge.source], places[edge.target]) for edge in kept]


def _page(dots: Sequence[Dot], ties: Sequence[Tie], now: datetime, counts: str) -> str:
    server = files("langmem_adapter") / "server"
    static, d3 = server / "static" / "page", server / "static" / "vendor" / "d3"
    data = picture_data(dots, ties, now, now)
    scopes = {tie.relation.scope for tie in ties}
    named = scopes.pop().named.items() if len(scopes) == 1 else ()
    owner = ", ".join(f"{name.removesuffix('_id')} <bdi>{html(value)}</bdi>" for name, value in named)
    return Template((files("langmem_adapter.knowledge") / "picture.html").read_text("utf-8")).substitute(
        scope=f" of {owner}" if owner else "",
        counts=html(counts),
        legend=_legend(dots),
        shapes=(server / "templates" / "page" / "shapes.html").read_text("utf-8"),
        empty="" if dots else "hidden",
        licenses="\n".join((d3 / name).read_text("utf-8") for name in ("LICENSE", "LICENSE-ease")).replace("--", "—"),
        style="\n".join((static / name).read_text("utf-8") for name in ("page.css", "graph.css")),
        parts="\n".join((d3 / f"d3-{name}.min.js").read_text("utf-8") for name in D3) if dots else "",
        script=(static / "graph.js").read_text("utf-8") if dots else "",
        data=json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"),
        last=len(data["stops"]) - 1,
        rows="\n".join(map(_row, ties)),
    )


def _legend(dots: Sequence[Dot]) -> str:
    used = {dot.shape for dot in dots}
    return "\n    ".join(
        f'<span><svg class="shape {shape}" viewBox="-12 -12 24 24" aria-hidden="true">'
        f'<use href="#shape-{shape}"/></svg> {"other" if shape == "thing" else shape}</span>'
        for shape in dict.fromkeys((*_SHAPES.values(), "thing"))
        if shape in used
    )


def _row(tie: Tie) -> str:
    relation = tie.relation
    since, until = ("" if at is None else at.date() for at in (relation.valid_from, relation.valid_to))
    texts = relation.source, relation.relation.replace("_", " "), relation.target
    source, name, target = (f"<bdi>{html(text)}</bdi>" for text in texts)
    return f"<tr><th scope=row>{source}</th><td>{name}</td><td>{target}</td><td>{since}</td><td>{until}</td></tr>"
