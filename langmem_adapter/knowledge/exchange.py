"""Export and import of the whole knowledge graph: files, networkx, Cypher."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import ENOENT
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from tempfile import mkstemp
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, Unpack, get_args

from langmem_adapter.arguments import one_of, optional_scope
from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.knowledge import draw
from langmem_adapter.knowledge.imports import COLUMNS, import_relations, read_rows
from langmem_adapter.knowledge.walk import Edge, parts
from langmem_adapter.mirror.target import identifier
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.escapes import csv_line
from langmem_adapter.records.graph import Entity, ExportFormat, LineFormat
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope, as_data, as_iso, shallow
from langmem_adapter.storage.graph.reads import GraphTime
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import networkx as nx

    from langmem_adapter.knowledge.imports import GraphImportReport, RefusedRow
    from langmem_adapter.knowledge.walk import Part
    from langmem_adapter.records.scope import ScopeArguments
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.ledger import Ledger

# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

File: TypeAlias = "str | PathLike[str] | IO[bytes] | IO[str]"
F = TypeVar("F", bound=str)

_LINE_ENDINGS: Final[dict[str, LineFormat]] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv"}
_ENDINGS: Final[dict[str, ExportFormat]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".graphml": "graphml",
    ".cypher": "cypher",
    ".cyp": "cypher",
    ".html": "html",
}
"""The formats that the ending of a file's name tells."""


def parse_format(value: object, file: object, endings: Mapping[str, F], formats: tuple[F, ...]) -> F:
    """The format of this name, or of the ending of a file's name."""
    if value is not None:
        return one_of(value, formats, "format")
    is_stream = hasattr(file, "read") or hasattr(file, "write")
    form = None if is_stream else endings.get(_path(file).suffix.lower())
    if form is None:
        names, what = ", ".join(map(repr, formats)), "a stream" if is_stream else quoted(str(file))
        raise InvalidInputError(f"{what} has no known ending: give format, one of {names}")
    return form


def _path(file: object) -> Path:
    if not isinstance(file, str | PathLike):
        raise InvalidInputError(f"give the path of a file, or a stream, not {quoted(file)}")
    return Path(check_text(fspath(file), "the path"))


@contextmanager
def writing(target: File) -> Iterator[Callable[[str], object]]:
    """A function that writes text to a file or a stream; a file appears whole under its name, or not at all."""
    if isinstance(target, io.TextIOBase):
        yield target.write
        return
    if hasattr(target, "write"):
        yield lambda text: target.write(text.encode())  # type: ignore[arg-type]  # a stream of bytes
        return
    path = _path(target)
    if path.exists() and not path.is_file():  # a terminal, a pipe
        with path.open("w", encoding="utf-8", newline="") as stream:
            yield stream.write
        return
    if not path.parent.is_dir():
        raise FileNotFoundError(ENOENT, "there is no such folder", str(path.parent))
    handle, temporary = mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="") as stream:  # noqa: PTH123 - it is open already
            yield stream.write
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


# ── formats ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

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
        relations: How many relations; with the history, one for each recorded row.
    """

    format: ExportFormat
    entities: int
    relations: int


def write_graph(
    form: ExportFormat, parts: Iterable[Part], moment: datetime, write: Callable[[str], object]
) -> ExportReport:
    """Write a graph piece by piece, as of a moment that "now" means, and count its parts."""
    counts: Counter[type] = Counter()

    def count() -> Iterator[Part]:
        for part in parts:
            counts[type(part)] += 1
            yield part

    for text in _FORMS[form](count(), moment):
        write(text)
    return ExportReport(form, counts[Entity], counts[Edge])


def _edges(parts: Iterable[Part]) -> Iterator[Edge]:
    return (part for part in parts if isinstance(part, Edge))


def _jsonl(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    for edge in _edges(parts):
        yield json.dumps(edge.relation.to_json(), ensure_ascii=False) + "\n"


def _csv(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    yield _BOM + csv_line(COLUMNS)
    for edge in _edges(parts):
        cells = {**as_data(edge.relation), "memory_ids": " ".join(edge.relation.memory_ids)}
        yield csv_line(cells[name] for name in COLUMNS)


def _csv_nodes(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    yield _BOM + csv_line(_NODES)
    for part in parts:
        if isinstance(part, Entity):
            cells = {**as_data(part), "aliases": _listed(part.aliases)}
            yield csv_line(cells[name] for name in _NODES)


def _graphml(parts: Iterable[Part], moment: datetime) -> Iterator[str]:
    yield from draw.begin()
    for part in parts:
        if isinstance(part, Entity):
            yield draw.node(part.id, {**as_data(part), "aliases": _listed(part.aliases)})
        else:
            relation = part.relation
            holds = relation.retired_at is None and relation.holds_at(moment)
            values = {**as_data(relation), "memory_ids": _listed(relation.memory_ids), "holds": holds}
            yield draw.edge(f"r{part.row}", part.source, part.target, values)
    yield draw.END


def _cypher(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    yield _CONSTRAINT
    for part in parts:
        values = shallow(part if isinstance(part, Entity) else part.relation)
        values |= values.pop("scope").named
        if isinstance(part, Entity):
            values |= {"created": values.pop("created_at"), "updated": values.pop("updated_at")}
            yield f"MERGE (n:Entity {{id: {_text(values.pop('id'))}}}) SET {_assignments('n', values)};\n"
        else:
            values = {name: value for name, value in values.items() if not name.startswith(_ENDS)}
            name = identifier(values.pop("relation"))
            ends = f"MATCH (a:Entity {{id: {_text(part.source)}}}), (b:Entity {{id: {_text(part.target)}}})"
            yield f"{ends} MERGE (a)-[r:{name} {{pk: {part.row}}}]->(b) SET {_assignments('r', values)};\n"


def _assignments(variable: str, values: dict[str, Any]) -> str:
    return ", ".join(f"{variable}.{name} = {_literal(value)}" for name, value in values.items())


def _literal(value: str | float | datetime | Sequence[str] | None) -> str:
    if value is None or isinstance(value, int | float):
        return "null" if value is None else repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, datetime):
        return f"datetime('{as_iso(value)}')"
    return f"[{', '.join(map(_text, value))}]"


def _text(text: str) -> str:
    r"""A text as a literal of Cypher; names come from conversations and are not trusted.

    Neo4j reads `\uXXXX` anywhere in a statement, before it looks for the ends of literals. So no such sequence is ever written.

    Example:
        >>> print(_text("O'Neil"), _text(r"\u0027"))
        'O\'Neil' ('\\' + 'u0027')
    """
    literals = [f"'{part.translate(_ESCAPES)}'" for part in re.split(r"(?<=\\)(?=[uU])", text)]
    return literals[0] if len(literals) == 1 else f"({' + '.join(literals)})"


def _listed(texts: Sequence[str]) -> str:
    """A list in one text, where there is any."""
    return json.dumps(texts, ensure_ascii=False) if texts else ""


def _html(parts: Iterable[Part], _: datetime) -> Iterator[str]:
    return draw.page((edge for edge in _edges(parts) if edge.relation.retired_at is None), datetime.now(UTC))


_FORMS: Final[dict[ExportFormat, Callable[[Iterable[Part], datetime], Iterator[str]]]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "csv-nodes": _csv_nodes,
    "graphml": _graphml,
    "cypher": _cypher,
    "html": _html,
}


# ── methods ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class GraphExchange:
    """The methods of `GraphMemory` that export and import whole graphs."""

    _database: Database
    _ledger: Ledger

    @planned
    def export(
        self,
        target: File,
        *,
        format: ExportFormat | None = None,  # noqa: A002 - the plain word
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        history: bool = False,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[ExportReport]:
        """Export the whole graph of a scope, as it was at one moment, to a file.

        Args:
            target: The path of a file, which appears when all of it is written, and which only its owner may read; or a stream
                of bytes or text.
            format: `"jsonl"` or `"csv"`, which `load` takes back, `"csv-nodes"` (a table of the entities), `"graphml"` (Gephi,
                yEd, networkx), `"cypher"` (statements for Neo4j 5) or `"html"` (a picture that moves through time and needs no
                network; of a large graph the newest part). By default what the ending of the path says.
            as_of: Only what held at that moment, datetime or ISO 8601; by default everything, whenever it holds or held.
            known_at: What was known at that moment; default now.
            history: Retired rows, too.

        Raises:
            OSError: The file cannot be written.

        Example:
            >>> import io
            >>> from langmem_adapter import Memory
            >>> memory, other, file = Memory(":memory:"), Memory(":memory:"), io.StringIO()
            >>> added = memory.graph.add("Anna", "lives in", "Lyon", user_id="alice", valid_from="2019-05-01")
            >>> memory.graph.export(file, format="jsonl", user_id="alice")
            ExportReport(format='jsonl', entities=2, relations=1)
            >>> other.graph.load(io.StringIO(file.getvalue()), format="jsonl").added
            1
            >>> [relation.text for relation in other.graph.relations(user_id="alice")]
            ['Anna lives in Lyon']
            >>> memory.close(), other.close()
            (None, None)
        """
        form = parse_format(format, target, _ENDINGS, get_args(ExportFormat))
        scope, when = Scope(**fields), GraphTime.parse(as_of, known_at, history=history, ever=True)

        def run() -> ExportReport:
            with self._database.read() as connection, writing(target) as write:
                return write_graph(form, parts(connection, scope, when), when.as_of or datetime.now(UTC), write)

        return Plan.in_new_thread(run)

    aexport = awaited(export)

    @planned
    def load(
        self,
        source: File,
        *,
        format: LineFormat | None = None,  # noqa: A002 - the plain word
        refused: Callable[[RefusedRow], object] | None = None,
        progress: Callable[[int], object] | None = None,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[GraphImportReport]:
        """Import relations from a file: what `export` wrote, or your own triples. They stay like relations added by hand.

        A line has `source`, `relation` and `target`, and may have `source_type`, `target_type`, `valid_from`, `valid_to`,
        `mentions`, `confidence`, `user_id`, `agent_id`, `run_id`. It ends no relation that is here, and without `valid_from`
        its begin is unknown. Loaded again, nothing changes. Ids, recorded times, and the memories that stated a relation stay
        in the database that it comes from.

        Args:
            source: The path of a file, or a stream, of bytes or text; it is read line by line.
            format: `"jsonl"`, or `"csv"` with the names of the columns in its first line; by default what the ending says.
            refused: Gets each line that is refused, as it comes, with the reason.
            progress: Gets the number of lines that are done, after each 500.
            **fields: `user_id`, `agent_id`, `run_id`: where set, no line may contradict; else each line names its scope.

        Returns:
            What became of the lines. Those before a failure stay; load the file again.

        Raises:
            InvalidInputError: An argument cannot be used, or the first line of a table lacks a column or has one too many.
            OSError: The file cannot be read.
        """
        form = parse_format(format, source, _LINE_ENDINGS, get_args(LineFormat))
        within = optional_scope(fields)

        def run() -> GraphImportReport:
            is_stream = hasattr(source, "read")
            with nullcontext(source) if is_stream else _path(source).open("rb") as stream:
                rows = read_rows(stream, form, within)  # type: ignore[arg-type]  # whatever reads is a stream
                return import_relations(self._ledger, rows, refused=refused, progress=progress)

        return Plan.in_new_thread(run)

    aload = awaited(load)

    @planned
    def to_networkx(
        self,
        *,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        history: bool = False,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[nx.MultiDiGraph[str]]:
        """The whole graph of a scope as a `networkx.MultiDiGraph`; its nodes are ids of entities, the edges numbered rows.

        `networkx.relabel_nodes(graph, dict(graph.nodes(data="name")))` puts names in the place of the ids.

        Args:
            as_of: Only what held at that moment, datetime or ISO 8601; by default everything, whenever it holds or held.
            known_at: What was known at that moment; default now.
            history: Retired rows, too.

        Raises:
            MissingDependencyError: networkx is not installed.
        """
        when = GraphTime.parse(as_of, known_at, history=history, ever=True)
        return Plan.in_new_thread(partial(self._to_networkx, Scope(**fields), when))

    ato_networkx = awaited(to_networkx)

    def _to_networkx(self, scope: Scope, when: GraphTime) -> nx.MultiDiGraph[str]:
        try:
            from networkx import MultiDiGraph  # noqa: PLC0415 - only this method needs it
        except ModuleNotFoundError:
            raise MissingDependencyError("networkx") from None
        graph: nx.MultiDiGraph[str] = MultiDiGraph()
        with self._database.read() as connection:
            for part in parts(connection, scope, when):
                values = as_data(part.relation if isinstance(part, Edge) else part)
                if isinstance(part, Edge):
                    graph.add_edge(part.source, part.target, part.row, **values)
                else:
                    graph.add_node(values.pop("id"), **values)
        return graph
