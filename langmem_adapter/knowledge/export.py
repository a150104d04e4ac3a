"""The whole graph as a file in another program's language, written as it is read, so that a graph of any size gets out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from langmem_adapter.knowledge import cypher, graphml
from langmem_adapter.knowledge.edges import Edge
from langmem_adapter.knowledge.picture import page
from langmem_adapter.knowledge.triples import COLUMNS
from langmem_adapter.records.cells import csv_line
from langmem_adapter.records.graph import Entity
from langmem_adapter.records.plain import as_data, shallow
from langmem_adapter.records.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from langmem_adapter.knowledge.edges import Part
    from langmem_adapter.records.graph import Relation

__all__ = ["ENDINGS", "ExportFormat", "ExportReport", "written"]

ExportFormat: TypeAlias = Literal["jsonl", "csv", "csv-nodes", "graphml", "cypher", "html"]

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
    """Write a graph, and say how much there was.

    Args:
        form: The format.
        parts: The graph.
        moment: What "now" means.
        write: Takes the text, piece by piece.
    """
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
            told = as_data(part.relation)
            told |= {"holds": _holds(part.relation, moment), "memory_ids": _listed(part.relation.memory_ids)}
            yield graphml.edge(f"r{part.row}", part.source, part.target, told)
    yield graphml.END


def _cypher(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    yield cypher.BEGIN
    for part in parts:
        told = shallow(part if isinstance(part, Entity) else part.relation)
        told |= told.pop("scope").named
        if isinstance(part, Entity):
            told |= {"created": told.pop("created_at"), "updated": told.pop("updated_at")}
            yield cypher.node(told.pop("id"), told)
        else:
            shown = {name: value for name, value in told.items() if not name.startswith(("source", "target"))}
            yield cypher.edge(part.row, part.source, part.target, shown.pop("relation"), shown)


def _listed(texts: Iterable[str]) -> str:
    """A list in one text, where there is any."""
    many = list(texts)
    return json.dumps(many, ensure_ascii=False) if many else ""


def _holds(relation: Relation, moment: datetime) -> bool:
    return relation.retired_at is None and relation.holds_at(moment)


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
