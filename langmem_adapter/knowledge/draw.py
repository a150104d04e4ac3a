"""Drawings of the knowledge graph as text: Mermaid, Graphviz DOT, GraphML.

Names come from conversations, so from anybody. Each format has one way by which a name gets into it, and none out of it.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from langmem_adapter.arguments import one_of
from langmem_adapter.knowledge import graphml
from langmem_adapter.names import end_of, whom
from langmem_adapter.records.plain import as_iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from langmem_adapter.records.graph import Relation

__all__ = ["CUT", "MOST_NODES", "Form", "checked", "drawing"]

Form: TypeAlias = Literal["mermaid", "dot", "graphml"]
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


def drawing(relations: Sequence[Relation], form: Form, moment: datetime, *, cut: bool = False) -> str:
    """Relations as a drawing; those that do not hold at a moment are dashed, with their dates.

    Args:
        relations: Newest first; where they are between more than `MOST_NODES` entities, the older ones are left out.
        form: `"mermaid"`, `"dot"` or `"graphml"`.
        moment: What "now" means.
        cut: Some were left out before; the drawing says so.

    Raises:
        InvalidInputError: There is no such form.
    """
    return "".join(_FORMS[checked(form)](_picture(relations, moment, cut=cut)))


def checked(form: object) -> Form:
    """The name of a form.

    Raises:
        InvalidInputError: There is no such form.
    """
    return one_of(form, _FORMS, "format")


def _picture(relations: Sequence[Relation], moment: datetime, *, cut: bool) -> _Picture:
    kept: list[Relation] = []
    keys: set[str] = set()
    for relation in relations:
        if len(keys.union(_ends(relation))) <= MOST_NODES:
            keys.update(_ends(relation))
            kept.append(relation)
    nodes: dict[str, tuple[str, str]] = {}
    for relation in reversed(kept):  # the oldest first, so that numbers stay as the graph grows
        told = (relation.source, relation.source_type), (relation.target, relation.target_type)
        for key, (name, kind) in zip(_ends(relation), told, strict=True):
            nodes.setdefault(key, (_line(name), _line(kind) if kind else ""))
    numbers = {key: number for number, key in enumerate(nodes)}
    arrows: list[_Arrow] = []
    for each in reversed(kept):
        source, target = (numbers[key] for key in _ends(each))
        arrows.append(_Arrow(source, target, each, each.holds_at(moment)))
    return _Picture(list(nodes.values()), arrows, cut or len(kept) < len(relations))


def _ends(relation: Relation) -> tuple[str, str]:
    """The keys of its two ends; who is called exactly as the scope's own is drawn as one with him."""
    source, target = (
        end_of(whom(name, relation.scope), relation.scope).key for name in (relation.source, relation.target)
    )
    return source, target


def _line(text: str) -> str:
    """A text on one line, without control characters, which XML refuses, and without those that turn writing around."""
    shown = (letter if _is_shown(letter) else " " for letter in text)
    return " ".join("".join(shown).split()) or "?"


def _is_shown(letter: str) -> bool:
    return letter in _JOINERS or not unicodedata.category(letter).startswith("C")


def _label(arrow: _Arrow) -> str:
    told = _line(arrow.relation.relation.replace("_", " "))
    if arrow.holds:
        return told
    days = [
        moment.date().isoformat() if moment else "" for moment in (arrow.relation.valid_from, arrow.relation.valid_to)
    ]
    return f"{told}, {days[0]} – {days[1]}"


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
    yield from graphml.begin(CUT if picture.cut else None)
    for number, (name, kind) in enumerate(picture.nodes):
        yield graphml.node(f"n{number}", {"name": name, "type": kind})
    for number, arrow in enumerate(picture.arrows):
        yield graphml.edge(f"r{number}", f"n{arrow.source}", f"n{arrow.target}", _told(arrow))
    yield graphml.END


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


_FORMS: Final[dict[Form, Callable[[_Picture], Iterator[str]]]] = {"mermaid": _mermaid, "dot": _dot, "graphml": _graphml}
