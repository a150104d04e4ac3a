"""Export and import of the whole knowledge graph: files, networkx, Cypher."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import ENOENT
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from tempfile import mkstemp
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, get_args

from langmem_adapter.arguments import one_of, scope_if_given
from langmem_adapter.errors import InvalidInputError, MissingDependencyError
from langmem_adapter.knowledge import draw
from langmem_adapter.knowledge.arguments import when_of
from langmem_adapter.knowledge.imports import COLUMNS, LINE_ENDINGS, take_in, told_in
from langmem_adapter.knowledge.views import Edge, page, parts
from langmem_adapter.mirror.target import identifier
from langmem_adapter.records.checks import check_text, quoted
from langmem_adapter.records.escapes import csv_line
from langmem_adapter.records.graph import Entity, ExportFormat, LineFormat
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope, as_data, as_iso, shallow
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import networkx as nx

    from langmem_adapter.knowledge.imports import GraphImportReport, RefusedRow
    from langmem_adapter.knowledge.views import Part
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.graph.reads import When
    from langmem_adapter.storage.ledger import Ledger

File: TypeAlias = "str | PathLike[str] | IO[bytes] | IO[str]"
F = TypeVar("F", bound=str)


def format_of(given: object, file: object, endings: Mapping[str, F], known: tuple[F, ...]) -> F:
    """The format that is asked for by name, or by the ending of a file's name.

    Raises:
        InvalidInputError: There is no such format, or nothing tells it.
    """
    if given is not None:
        return one_of(given, known, "format")
    is_stream = hasattr(file, "read") or hasattr(file, "write")
    told = None if is_stream else endings.get(_path(file).suffix.lower())
    if told is None:
        names, what = ", ".join(map(repr, known)), "a stream" if is_stream else quoted(file)
        raise InvalidInputError(f"format is one of {names}, and {what} tells none by its ending")
    return told


def _path(given: object) -> Path:
    if not isinstance(given, str | PathLike):
        raise InvalidInputError(f"give the path of a file, or a stream, not {quoted(given)}")
    return Path(check_text(fspath(given), "the path"))


@contextmanager
def reading(source: File) -> Iterator[IO[bytes] | IO[str]]:
    """A stream that reads a file."""
    if hasattr(source, "read"):
        yield source  # type: ignore[misc]  # whatever reads is a stream
    else:
        with _path(source).open("rb") as stream:
            yield stream


@contextmanager
def writing(target: File) -> Iterator[Callable[[str], object]]:
    """A way to write text to a file or a stream; a file appears whole under its name, or not at all."""
    if isinstance(target, io.TextIOBase):
        yield target.write
    elif hasattr(target, "write"):
        yield lambda text: target.write(text.encode())  # type: ignore[arg-type]  # a stream of bytes
    else:
        with _file(_path(target)) as write:
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
    yield from draw.begin()
    for part in parts:
        if isinstance(part, Entity):
            yield draw.node(part.id, {**as_data(part), "aliases": _listed(part.aliases)})
        else:
            relation = part.relation
            told = {**as_data(relation), "memory_ids": _listed(relation.memory_ids)}
            told["holds"] = relation.retired_at is None and relation.holds_at(moment)
            yield draw.edge(f"r{part.row}", part.source, part.target, told)
    yield draw.END


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


class Exchange:
    """The part of `GraphMemory` that takes whole graphs out and in."""

    _database: Database
    _ledger: Ledger

    @planned
    def export(
        self,
        target: File,
        *,
        format: ExportFormat | None = None,  # noqa: A002 - the plain word
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        history: bool = False,
    ) -> Plan[ExportReport]:
        """Write the whole graph of a scope to a file, however large it is; all of it is as it was at one moment.

        Args:
            target: The path of a file, which appears when all of it is written, and which nobody else may read; or a stream, of
                bytes or text.
            format: `"jsonl"` or `"csv"`, which `load` takes back, `"csv-nodes"` (a table of the entities), `"graphml"` (Gephi,
                yEd, networkx), `"cypher"` (statements for Neo4j 5) or `"html"` (a picture that moves through time and needs no
                network; of a large graph the newest part). By default what the ending of the path says.
            user_id: Whose graph; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.
            as_of: Only what held at that moment, datetime or ISO 8601; by default everything, whenever it holds or held.
            known_at: What was believed at that moment; default now.
            history: What was believed once and is no longer, too.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument cannot be used.
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
        form = format_of(format, target, ENDINGS, get_args(ExportFormat))
        scope, when = Scope(user_id, agent_id, run_id), when_of(as_of, known_at, history=history, ever=True)

        def run() -> ExportReport:
            with self._database.read() as connection, writing(target) as write:
                return written(form, parts(connection, scope, when), when.held or datetime.now(UTC), write)

        return Plan.apart(run)

    aexport = awaited(export)

    @planned
    def load(
        self,
        source: File,
        *,
        format: LineFormat | None = None,  # noqa: A002 - the plain word
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        refused: Callable[[RefusedRow], object] | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> Plan[GraphImportReport]:
        """Take relations in from a file: what `export` wrote, or triples of your own; they stand as those written by hand do.

        A line has `source`, `relation` and `target`, and may have `source_type`, `target_type`, `valid_from`, `valid_to`,
        `mentions`, `confidence`, `user_id`, `agent_id`, `run_id`. It tells what is known elsewhere, with its dates, and is no
        statement of today: it ends nothing, also where somebody has one such target at a time, and without `valid_from` nobody
        knows since when it holds. Loaded again, nothing changes. Which memories said a relation, its id, and when it was
        believed stay behind: those belong to the database that it comes from.

        Args:
            source: The path of a file, or a stream, of bytes or text; it is read line by line, however large it is.
            format: `"jsonl"`, or `"csv"` with the names of the columns in its first line; by default what the ending says.
            user_id: Whose graph. Where any of the three is given, no line may contradict; else each line says whose it is.
            agent_id: The agent.
            run_id: The run or session.
            refused: Gets each line that is refused, as it comes, with the reason.
            progress: Gets the number of lines that are done, after each 500.

        Returns:
            What became of the lines. Those before a failure stand; load the file again.

        Raises:
            InvalidInputError: An argument cannot be used, or the first line of a table lacks a column or has one too many.
            OSError: The file cannot be read.
        """
        lines = format_of(format, source, LINE_ENDINGS, get_args(LineFormat))
        within = scope_if_given(user_id, agent_id, run_id)

        def run() -> GraphImportReport:
            with reading(source) as stream:
                return take_in(self._ledger, told_in(stream, lines, within), refused=refused, progress=progress)

        return Plan.apart(run)

    aload = awaited(load)

    @planned
    def to_networkx(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        history: bool = False,
    ) -> Plan[nx.MultiDiGraph[str]]:
        """The whole graph of a scope as a `networkx.MultiDiGraph`; its nodes are ids of entities, the edges numbered rows.

        The name is an attribute of a node: `networkx.relabel_nodes(graph, dict(graph.nodes(data="name")))` puts names in the
        place of the ids, where no two are the same.

        Args:
            user_id: Whose graph; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.
            as_of: Only what held at that moment, datetime or ISO 8601; by default everything, whenever it holds or held.
            known_at: What was believed at that moment; default now.
            history: What was believed once and is no longer, too.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            MissingDependencyError: networkx is not installed.
        """
        when = when_of(as_of, known_at, history=history, ever=True)
        return Plan.apart(partial(self._to_networkx, Scope(user_id, agent_id, run_id), when))

    ato_networkx = awaited(to_networkx)

    def _to_networkx(self, scope: Scope, when: When) -> nx.MultiDiGraph[str]:
        try:
            from networkx import MultiDiGraph  # noqa: PLC0415 - it is nobody's but its user's
        except ModuleNotFoundError:
            raise MissingDependencyError("networkx") from None
        graph: nx.MultiDiGraph[str] = MultiDiGraph()
        with self._database.read() as connection:
            for part in parts(connection, scope, when):
                if isinstance(part, Edge):
                    graph.add_edge(part.source, part.target, part.row, **as_data(part.relation))
                else:
                    told = as_data(part)
                    graph.add_node(told.pop("id"), **told)
        return graph
