"""The knowledge graph as Mermaid, Graphviz DOT and GraphML.

Names come from conversations, so from anybody. Each format has one way by which a name gets into it, and none out of it.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args
from xml.sax.saxutils import escape, quoteattr

from langmem_adapter.arguments import one_of
from langmem_adapter.names import owner_name, relation_end
from langmem_adapter.records.scope import as_iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from langmem_adapter.records.graph import Relation

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
    told = ((name, values[name]) for name in _KEYS[part] if values.get(name) not in {None, ""})
    return "".join(f'<data key="{part}_{name}">{_text(value)}</data>' for name, value in told)


def _text(value: GraphmlValue) -> str:
    """A value as XML text; a control character that XML cannot hold becomes U+FFFD."""
    plain = str(value).lower() if isinstance(value, bool) else str(value)
    return escape(_IMPOSSIBLE.sub("\ufffd", plain), {"\r": "&#13;"})


DrawForm: TypeAlias = Literal["mermaid", "dot", "graphml"]
MOST_NODES: Final = 400
"""Entities of a drawing; more can nobody look at, and viewers give up."""

CUT: Final = f"cut to {MOST_NODES} entities, those of the newest relations; graph.export writes all"
"""What a drawing says that shows a part."""
_JOINERS: Final = "\u200c\u200d"  # parts of Persian words and of emojis


@dataclass(frozen=True, slots=True)
class _Arrow:
    source: int
    target: int
    relation: Relation
    holds: bool


@dataclass(frozen=True, slots=True)
class _Picture:
    """What is drawn: names and types by number, the arrows between them, and whether some were left out."""

    nodes: Sequence[tuple[str, str]]
    arrows: Sequence[_Arrow]
    cut: bool


def drawing(relations: Sequence[Relation], form: DrawForm, moment: datetime, *, cut: bool = False) -> str:
    """Relations, newest first, as a drawing; those that do not hold at a moment are dashed, with their dates.

    Of relations between more than `MOST_NODES` entities the older ones are left out, and the drawing says so; also where some
    were *cut* before.
    """
    return "".join(_FORMS[form](_picture(relations, moment, cut=cut)))


def checked(form: object) -> DrawForm:
    """The name of a form; of none, an `InvalidInputError`."""
    return one_of(form, get_args(DrawForm), "format")


def _picture(relations: Sequence[Relation], moment: datetime, *, cut: bool) -> _Picture:
    kept: list[tuple[str, str, Relation]] = []
    keys: set[str] = set()
    for relation in relations:
        ends = _ends(relation)
        if len(keys.union(ends)) <= MOST_NODES:
            keys.update(ends)
            kept.append((*ends, relation))
    nodes: dict[str, tuple[str, str]] = {}
    numbers: dict[str, int] = {}
    arrows: list[_Arrow] = []
    for source, target, each in reversed(kept):  # the oldest first, so that numbers stay as the graph grows
        for key, name, kind in ((source, each.source, each.source_type), (target, each.target, each.target_type)):
            nodes.setdefault(key, (_line(name), _line(kind) if kind else ""))
            numbers.setdefault(key, len(numbers))
        arrows.append(_Arrow(numbers[source], numbers[target], each, each.holds_at(moment)))
    return _Picture(list(nodes.values()), arrows, cut or len(kept) < len(relations))


def _ends(relation: Relation) -> tuple[str, str]:
    """The keys of its two ends; who is called exactly as the scope's own is drawn as one with him."""
    scope = relation.scope
    source, target = (relation_end(owner_name(name, scope), scope) for name in (relation.source, relation.target))
    return source.key, target.key


def _line(text: str) -> str:
    """A text on one line, without control characters, which XML refuses, and without those that turn writing around."""
    shown = (letter if letter in _JOINERS or unicodedata.category(letter)[0] != "C" else " " for letter in text)
    return " ".join("".join(shown).split()) or "?"


def _label(arrow: _Arrow) -> str:
    told = _line(arrow.relation.relation.replace("_", " "))
    if arrow.holds:
        return told
    since, until = (at.date() if at else "" for at in (arrow.relation.valid_from, arrow.relation.valid_to))
    return f"{told}, {since} – {until}"


# ── Mermaid ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _mermaid(picture: _Picture) -> Iterator[str]:
    yield "flowchart LR\n"
    if picture.cut:
        yield f"  %% {CUT}\n"
        yield f'  cut["{_in_mermaid(CUT)}"]\n'
    for number, (name, _) in enumerate(picture.nodes):
        yield f'  n{number}["{_in_mermaid(name)}"]\n'
    for arrow in picture.arrows:
        line = "-->" if arrow.holds else "-.->"
        yield f'  n{arrow.source} {line}|"{_in_mermaid(_label(arrow))}"| n{arrow.target}\n'


def _in_mermaid(text: str) -> str:
    """All but letters, digits and harmless marks as Mermaid's entity codes; "1." and "-" would begin a list."""
    return "".join(
        letter if letter.isalnum() or (place and letter in " ,'/-–_") else f"#{ord(letter)};"
        for place, letter in enumerate(text)
    )


# ── Graphviz ────────────────────────────────────────────────────────────────────────────────────────────────────────────


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
        yield f"  n{arrow.source} -> n{arrow.target} [label={_in_dot(_label(arrow))}{style}];\n"
    yield "}\n"


def _in_dot(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


# ── GraphML ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _graphml(picture: _Picture) -> Iterator[str]:
    yield from begin(CUT if picture.cut else None)
    for number, (name, kind) in enumerate(picture.nodes):
        yield node(f"n{number}", {"name": name, "type": kind})
    for number, arrow in enumerate(picture.arrows):
        yield edge(f"r{number}", f"n{arrow.source}", f"n{arrow.target}", _told(arrow))
    yield END


def _told(arrow: _Arrow) -> dict[str, Any]:
    relation = arrow.relation
    return {
        "id": relation.id,
        "relation": _line(relation.relation),
        "valid_from": as_iso(relation.valid_from),
        "valid_to": as_iso(relation.valid_to),
        "holds": arrow.holds,
        "mentions": relation.mentions,
        "confidence": relation.confidence,
    }


_FORMS: Final[dict[str, Callable[[_Picture], Iterator[str]]]] = {"mermaid": _mermaid, "dot": _dot, "graphml": _graphml}
