"""The whole graph as a file in another program's language, written as it is read, so that a graph of any size gets out."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.knowledge import graphml
from langmem_adapter.knowledge.picture import page
from langmem_adapter.knowledge.triples import COLUMNS
from langmem_adapter.knowledge.views import Edge
from langmem_adapter.mirror.dialects import identifier
from langmem_adapter.records.cells import csv_line
from langmem_adapter.records.graph import Entity, ExportFormat
from langmem_adapter.records.plain import as_data, as_iso, shallow
from langmem_adapter.records.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from langmem_adapter.knowledge.views import Part

__all__ = ["ENDINGS", "ExportReport", "written"]


ENDINGS: Final[dict[str, ExportFormat]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".graphml": "graphml",
    ".cypher": "cypher",
    ".cyp": "cypher",
    ".html": "html",
}
"""The formats that the ending of a file's name tells."""
_BOM: Final = "\ufeff"  # without it spreadsheets take UTF-8 for something else
_CONSTRAINT: Final = "CREATE CONSTRAINT memory_entity_id IF NOT EXISTS FOR (n:Entity) REQUIRE n.id IS UNIQUE;\n"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_ENDS: Final = ("source", "target")
_NODES: Final = ("id", "name", "type", "aliases", *SCOPE_FIELDS, "mentions", "created_at", "updated_at")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote.

    Attributes:
        format: The format.
        entities: How many entities there are at the ends of relations.
        relations: How many relations; with the history, one for each belief.
    """

    format: ExportFormat
    entities: int
    relations: int


def written(
    form: ExportFormat, parts: Iterable[Part], moment: datetime, write: Callable[[str], object]
) -> ExportReport:
    """Write a graph piece by piece, as of a moment that "now" means, and say how much there was."""
    counts: Counter[type] = Counter()

    def counted() -> Iterator[Part]:
        for part in parts:
            counts[type(part)] += 1
            yield part

    for text in _FORMS[form](counted(), moment):
        write(text)
    return ExportReport(form, counts[Entity], counts[Edge])


def _edges(parts: Iterable[Part]) -> Iterator[Edge]:
    return (part for part in parts if isinstance(part, Edge))


# ── lines that an import takes back ─────────────────────────────────────────────────────────────────────────────────────


def _jsonl(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    for edge in _edges(parts):
        yield json.dumps(edge.relation.to_json(), ensure_ascii=False) + "\n"


def _csv(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    yield _BOM + csv_line(COLUMNS)
    for edge in _edges(parts):
        told = as_data(edge.relation)
        told["memory_ids"] = " ".join(told["memory_ids"])
        yield csv_line(told[name] for name in COLUMNS)


def _csv_nodes(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    yield _BOM + csv_line(_NODES)
    for part in parts:
        if isinstance(part, Entity):
            told = {**as_data(part), "aliases": _listed(part.aliases)}
            yield csv_line(told[name] for name in _NODES)


# ── other programs ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _graphml(parts: Iterable[Part], moment: datetime) -> Iterator[str]:
    yield from graphml.begin()
    for part in parts:
        if isinstance(part, Entity):
            yield graphml.node(part.id, {**as_data(part), "aliases": _listed(part.aliases)})
        else:
            relation = part.relation
            told = {**as_data(relation), "memory_ids": _listed(relation.memory_ids)}
            told["holds"] = relation.retired_at is None and relation.holds_at(moment)
            yield graphml.edge(f"r{part.row}", part.source, part.target, told)
    yield graphml.END


def _cypher(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    yield _CONSTRAINT
    for part in parts:
        told = shallow(part if isinstance(part, Entity) else part.relation)
        told |= told.pop("scope").named
        if isinstance(part, Entity):
            told |= {"created": told.pop("created_at"), "updated": told.pop("updated_at")}
            yield f"MERGE (n:Entity {{id: {_text(told.pop('id'))}}}) SET {_set('n', told)};\n"
        else:
            shown = {name: value for name, value in told.items() if not name.startswith(_ENDS)}
            name = identifier(shown.pop("relation"))
            ends = f"MATCH (a:Entity {{id: {_text(part.source)}}}), (b:Entity {{id: {_text(part.target)}}})"
            yield f"{ends} MERGE (a)-[r:{name} {{pk: {part.row}}}]->(b) SET {_set('r', shown)};\n"


def _set(variable: str, values: dict[str, Any]) -> str:
    return ", ".join(f"{variable}.{name} = {_literal(value)}" for name, value in values.items())


def _literal(value: str | float | datetime | Sequence[str] | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, datetime):
        return f"datetime('{as_iso(value)}')"
    return f"[{', '.join(map(_text, value))}]"


def _text(text: str) -> str:
    r"""A text as a literal of Cypher; names come from conversations, so from anybody.

    Neo4j reads `\uXXXX` anywhere in a statement, before it looks for the ends of literals, and versions differ in whether a
    backslash before it counts. So no such sequence is ever written: a text that holds one is put together of two.

    Example:
        >>> print(_text("O'Neil"), _text(r"\u0027"))
        'O\'Neil' ('\\' + 'u0027')
    """
    literals = [f"'{part.translate(_ESCAPES)}'" for part in re.split(r"(?<=\\)(?=[uU])", text)]
    return literals[0] if len(literals) == 1 else f"({' + '.join(literals)})"


def _listed(texts: Iterable[str]) -> str:
    """A list in one text, where there is any."""
    many = list(texts)
    return json.dumps(many, ensure_ascii=False) if many else ""


def _html(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    return page((edge for edge in _edges(parts) if edge.relation.retired_at is None), datetime.now(UTC))


_FORMS: Final[dict[ExportFormat, Callable[[Iterable[Part], datetime], Iterator[str]]]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "csv-nodes": _csv_nodes,
    "graphml": _graphml,
    "cypher": _cypher,
    "html": _html,
}
