"""The knowledge graph as a whole, out and in: to files, to networkx, from files."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, get_args

from langmem_adapter.arguments import scope_if_given
from langmem_adapter.errors import MissingDependencyError
from langmem_adapter.knowledge.arguments import when_of
from langmem_adapter.knowledge.export import ENDINGS, written
from langmem_adapter.knowledge.files import format_of, reading, writing
from langmem_adapter.knowledge.imports import take_in
from langmem_adapter.knowledge.triples import LINE_ENDINGS, told_in
from langmem_adapter.knowledge.views import Edge, parts
from langmem_adapter.records.graph import ExportFormat, LineFormat
from langmem_adapter.records.plain import as_data
from langmem_adapter.records.scope import Scope
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable

    import networkx as nx

    from langmem_adapter.knowledge.export import ExportReport
    from langmem_adapter.knowledge.files import File
    from langmem_adapter.knowledge.imports import GraphImportReport, RefusedRow
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.graph.reads import When
    from langmem_adapter.storage.ledger import Ledger

__all__ = ["Exchange"]


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
