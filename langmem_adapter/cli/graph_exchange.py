"""Commands for the knowledge graph as a whole: `graph export` and `graph import`."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import typer
from rich.text import Text

from langmem_adapter.addresses import shown
from langmem_adapter.cli.failures import ExitCode
from langmem_adapter.cli.graph_mirror import PASSWORD, PasswordVariable, ServerDatabase, Username, login
from langmem_adapter.cli.inputs import STDIN
from langmem_adapter.cli.options import AsOf, Invocation, KnownAt, named, option
from langmem_adapter.cli.output import counted, visible
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.plain import as_data

if TYPE_CHECKING:
    from langmem_adapter.knowledge.imports import ImportReport, RefusedRow

__all__ = ["export", "import_"]

ExportFormat: TypeAlias = Literal["jsonl", "csv", "csv-nodes", "graphml", "cypher", "html"]
LineFormat: TypeAlias = Literal["jsonl", "csv"]

_COUNTED: Final = ("read", "added", "widened", "known", "past", "refused")
_EVERY: Final = 10_000


def export(
    call: Invocation,
    file: Annotated[str, option("--output", "-o", metavar="FILE", help="Where to; - is stdout.")],
    format: Annotated[  # noqa: A002 - the option's name
        ExportFormat | None, option(help="What to write; else what the file's ending says.")
    ] = None,
    *,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    history: Annotated[bool, typer.Option("--history", help="What is believed no longer, too.")] = False,
) -> None:
    """Write the whole graph to a file: all of it, also what is over.

    .jsonl and .csv come in again with graph import, .graphml is for Gephi, yEd
    and networkx, .cypher for Neo4j 5, and .html is a picture for any browser,
    which needs no network. csv-nodes is a table of the entities.

    [bold]Examples[/bold]
    $ langmem-adapter graph export -o graph.graphml -u alice
    $ langmem-adapter graph export -o graph.html -u alice
    $ langmem-adapter graph export -o - --format jsonl -u alice | gzip > graph.jsonl.gz
    """
    target: Any = sys.stdout.buffer if file == STDIN else file
    with call.memory() as memory, _of_file(file, "write"):
        when: dict[str, Any] = {"as_of": as_of, "known_at": known_at, "history": history}
        whose = call.whose(memory.scopes)
        done = memory.graph.export(target, format=format, **when, **whose)
    told = f"{counted(done.entities, 'entity')}, {counted(done.relations, 'relation')}"
    if not done.relations:
        call.output.note(f"there are no relations of {named(whose)}", "yellow")
    if file == STDIN:
        call.output.note(told)
    else:
        row = {**as_data(done), "file": file}
        call.output.show([row], columns=("entities", "relations", "file"), picture=lambda: Text(f"{told}: {file}"))


def import_(
    call: Invocation,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A file of JSON lines or CSV, - for stdin, or bolt://HOST:PORT.")
    ],
    format: Annotated[  # noqa: A002 - the option's name
        LineFormat | None, option(help="What it holds; else what its ending says.")
    ] = None,
    *,
    server_database: ServerDatabase = None,
    username: Username = None,
    password_env: PasswordVariable = PASSWORD,
) -> None:
    """Take relations in: what graph export wrote, triples of your own, or Mem0's.

    A line names source, relation and target; it may have source_type,
    target_type, valid_from, valid_to, mentions, confidence, and user_id,
    agent_id, run_id, which must not contradict -u, --agent, --run. The first
    line of CSV names the columns. Imported again, nothing changes. Lines that
    are refused are named, with exit code 6; the others are taken.
    In a pipe the numbers are: read, added, widened, known, past, refused.

    An address (bolt://, neo4j://) takes what Mem0 kept in Neo4j or Memgraph, of
    everybody or of -u, --agent, --run. The password is read from the environment,
    or asked for where --username names somebody. The server is only read.

    [bold]Examples[/bold]
    $ langmem-adapter graph import graph.jsonl -u alice
    $ langmem-adapter graph import triples.csv -u alice 2> refused.txt
    $ NEO4J_PASSWORD=... langmem-adapter graph import bolt://localhost:7687
    """
    how: dict[str, Any] = {
        "refused": lambda each: _tell(call, each),
        "progress": lambda read: _count(call, read),
        **call.scope,
    }
    with call.memory(create=True) as memory, _of_file(source, "read"):
        if _is_server(source):
            from langmem_adapter.adapters.mem0.graph_import import import_graph

            how.update(login(call, username, password_env))
            done = import_graph(memory, source, database=server_database, **how)
        else:
            stream: Any = sys.stdin.buffer if source == STDIN else source
            done = memory.graph.load(stream, format=format, **how)
    if not done.read:
        call.output.note(f"nothing to take in from {'stdin' if source == STDIN else shown(source)}", "yellow")
    _report(call, done)


def _is_server(source: str) -> bool:
    """Whether it is an address; what is wrong with one is told as such, not as a file's name."""
    return re.match(r"(?i:bolt|neo4j)(?:\+\w+)?:|\w[\w+.-]+://", source) is not None


def _report(call: Invocation, done: "ImportReport") -> None:
    row = {name: getattr(done, name) for name in _COUNTED}
    failed = [as_data(each) for each in done.refusals]
    error = {
        "code": "partial",
        "message": f"{counted(done.refused, 'relation')} refused",
        "hint": "mend those and import them",
    }
    extra = {"failed": failed, "error": error} if done.refused else {}
    call.output.show([row], columns=_COUNTED, picture=lambda: Text(_told(done)), **extra)
    if done.refused:
        raise typer.Exit(ExitCode.PARTIAL)


def _told(done: "ImportReport") -> str:
    told = f"{done.read:,} read: {done.added:,} added, {done.widened:,} widened, {done.known:,} known"
    past = f", {done.past:,} not believed any more" if done.past else ""
    return told + past + (f", {done.refused:,} refused" if done.refused else "")


def _tell(call: Invocation, each: "RefusedRow") -> None:
    if not call.output.as_json:
        begins = f" ({each.begins})" if each.begins else ""
        call.output.note(visible(f"{each.where}: {each.reason}{begins}"), "red", whole=True)


def _count(call: Invocation, read: int) -> None:
    if read % _EVERY == 0 and not call.output.as_json:
        call.output.note(f"{read:,} read")


@contextmanager
def _of_file(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # whoever reads has seen enough
        raise
    except OSError as error:
        raise InvalidInputError(f"cannot {what} {name}: {error.strerror}") from None
