"""The whole graph as a file in another program's language, written as it is read, so that a graph of any size gets out."""

from __future__ import annotations

import csv
import io
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from errno import ENOENT
from os import PathLike, fspath
from pathlib import Path
from tempfile import mkstemp
from typing import IO, TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.knowledge import cypher, graphml
from langmem_adapter.knowledge.lines import COLUMNS
from langmem_adapter.knowledge.picture import page
from langmem_adapter.records.cells import harmless
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.graph import Entity
from langmem_adapter.records.plain import as_data, shallow
from langmem_adapter.records.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from langmem_adapter.knowledge.whole import Part
    from langmem_adapter.records.graph import Relation

__all__ = ["ENDINGS", "Exit", "Exported", "Target", "form_of", "opened", "path_of", "told_of", "written"]

Exit: TypeAlias = Literal["jsonl", "csv", "csv-nodes", "graphml", "cypher", "html"]
Target: TypeAlias = "str | PathLike[str] | IO[bytes] | IO[str]"

ENDINGS: Final[dict[str, Exit]] = {
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
class Exported:
    """What an export wrote.

    Attributes:
        format: The format.
        entities: How many entities there are at the ends of relations.
        relations: How many relations; with the history, one for each belief.
    """

    format: Exit
    entities: int
    relations: int


def form_of(form: object, target: object) -> Exit:
    """The format that is asked for by name, or by the ending of a file's name.

    Raises:
        InvalidInputError: There is no such format, or nothing tells it.
    """
    named = next((name for name in get_args(Exit) if name == form), None)
    if named is None and form is None and not hasattr(target, "write"):
        named = ENDINGS.get(path_of(target).suffix.lower())
    if named is None:
        told = f"not {quoted(form)}" if form is not None else f"and {told_of(target)} tells none by its ending"
        raise InvalidInputError(f"format is one of {', '.join(map(repr, get_args(Exit)))}, {told}")
    result: Exit = named
    return result


def told_of(target: object) -> str:
    """A file for people: a path as it was given; a stream has no name that helps."""
    return "a stream" if hasattr(target, "write") or hasattr(target, "read") else quoted(target)


def path_of(given: object) -> Path:
    """The path that was given where a stream may be given as well.

    Raises:
        InvalidInputError: It is neither.
    """
    if not isinstance(given, str | PathLike):
        raise InvalidInputError(f"give the path of a file, or a stream, not {quoted(given)}")
    return Path(check_text(fspath(given), "the path"))


def written(form: Exit, parts: Iterable[Part], moment: datetime, write: Callable[[str], object]) -> Exported:
    """Write a graph, and say how much there was.

    Args:
        form: The format.
        parts: The graph.
        moment: What "now" means.
        write: Takes the text, piece by piece.
    """
    count = _Count()
    for text in _FORMS[form](count.of(parts), moment):
        write(text)
    return Exported(form, count.entities, count.relations)


@contextmanager
def opened(target: Target) -> Iterator[Callable[[str], object]]:
    """A way to write text to a file or a stream; a file appears whole under its name, or not at all."""
    if isinstance(target, io.TextIOBase):
        yield target.write
    elif hasattr(target, "write"):
        yield lambda text: target.write(text.encode())  # type: ignore[arg-type]  # a stream of bytes
    else:
        with _file(path_of(target)) as write:
            yield write


@contextmanager
def _file(path: Path) -> Iterator[Callable[[str], object]]:
    if path.exists() and not path.is_file():  # a terminal, a pipe
        with path.open("w", encoding="utf-8", newline="") as there:
            yield there.write
        return
    if not path.parent.is_dir():
        raise FileNotFoundError(ENOENT, "there is no such folder", str(path.parent))
    handle, beside = mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="") as there:  # noqa: PTH123 - it is open already
            yield there.write
        Path(beside).replace(path)
    finally:
        Path(beside).unlink(missing_ok=True)


@dataclass(slots=True)
class _Count:
    entities: int = field(default=0)
    relations: int = field(default=0)

    def of(self, parts: Iterable[Part]) -> Iterator[Part]:
        for part in parts:
            if isinstance(part, Entity):
                self.entities += 1
            else:
                self.relations += 1
            yield part


# ── lines that an import takes back ─────────────────────────────────────────────────────────────────────────────────────


def _jsonl(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    for part in parts:
        if not isinstance(part, Entity):
            yield json.dumps(part.relation.to_json(), ensure_ascii=False) + "\n"


def _csv(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    yield _BOM + _row(COLUMNS)
    for part in parts:
        if not isinstance(part, Entity):
            told = as_data(part.relation)
            told["memory_ids"] = " ".join(told["memory_ids"])
            yield _row(told[name] for name in COLUMNS)


def _csv_nodes(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    yield _BOM + _row(_NODES)
    for part in parts:
        if isinstance(part, Entity):
            told = {**as_data(part), "aliases": _listed(part.aliases)}
            yield _row(told[name] for name in _NODES)


def _row(cells: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(map(harmless, cells))
    return line.getvalue()


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
    edges = (part for part in parts if not isinstance(part, Entity))
    return page((edge for edge in edges if edge.relation.retired_at is None), datetime.now(UTC))


_FORMS: Final[dict[Exit, Callable[[Iterable[Part], datetime], Iterator[str]]]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "csv-nodes": _csv_nodes,
    "graphml": _graphml,
    "cypher": _cypher,
    "html": _html,
}
