"""Commands for the knowledge graph as a whole: `graph export` and `graph import`, and `graph mirror` for graph servers."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from langmem_adapter.cli.inputs import STDIN, of_file
from langmem_adapter.cli.options import AsOfDate, Invocation, KnownAt, named, option
from langmem_adapter.cli.output import CommandError, ExitCode, Steps, counted
from langmem_adapter.records.checks import redact_url
from langmem_adapter.records.graph import ExportFormat, LineFormat
from langmem_adapter.records.scope import as_data

if TYPE_CHECKING:
    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.knowledge.imports import GraphImportReport, RefusedRow
    from langmem_adapter.mirror.mirror import MirrorReport

ServerDatabase = Annotated[str | None, option(metavar="NAME", help="The server's database; else its default.")]
Username = Annotated[str | None, option(metavar="NAME", help="The server's user; else NEO4J_USERNAME, else neo4j.")]
PasswordVariable = Annotated[str, typer.Option(metavar="VARIABLE", help="The variable that holds the password.")]

_PASSWORD: Final = "NEO4J_PASSWORD"  # noqa: S105 - the name of a variable
_IMPORTED: Final = ("read", "added", "widened", "known", "past", "refused")
_MIRRORED: Final = ("entities", "relations", "removed", "applied")
_EVERY: Final = 10_000


def export(
    call: Invocation,
    file: Annotated[str, option("--output", "-o", metavar="FILE", help="Where to; - is stdout.")],
    format: Annotated[  # noqa: A002 - the option's name
        ExportFormat | None, option(help="What to write; else what the file's ending says.")
    ] = None,
    *,
    as_of: AsOfDate = None,
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
    with call.memory() as memory, of_file(file, "write"):
        whose = call.whose(memory.scopes)
        done = memory.graph.export(target, format=format, as_of=as_of, known_at=known_at, history=history, **whose)
    told = f"{counted(done.entities, 'entity')}, {counted(done.relations, 'relation')}"
    if not done.relations:
        call.output.note(f"there are no relations of {named(whose)}", "yellow")
    if file == STDIN:
        call.output.note(told)
    else:
        row = {**as_data(done), "file": file}
        call.output.show([row], columns=("entities", "relations", "file"), picture=f"{told}: {file}")


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
    password_env: PasswordVariable = _PASSWORD,
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
    how: dict[str, Any] = {"refused": partial(_tell, call), "progress": partial(_count, call), **call.scope}
    with call.memory(create=True) as memory, of_file(source, "read"):
        if _is_server(source):
            from langmem_adapter.adapters.mem0.graph_import import import_graph

            how.update(_login(call, username, password_env))
            done = import_graph(memory, source, database=server_database, **how)
        else:
            stream: Any = sys.stdin.buffer if source == STDIN else source
            done = memory.graph.load(stream, format=format, **how)
    if not done.read:
        call.output.note(f"nothing to take in from {'stdin' if source == STDIN else redact_url(source)}", "yellow")
    _report(call, done)


def _is_server(source: str) -> bool:
    """Whether it is an address; what is wrong with one is told as such, not as a file's name."""
    return re.match(r"(?i:bolt|neo4j)(?:\+\w+)?:|\w[\w+.-]+://", source) is not None


def _report(call: Invocation, done: "GraphImportReport") -> None:
    extra: dict[str, Any] = {}
    if done.refused:
        error = CommandError(
            f"{counted(done.refused, 'relation')} refused", "mend those and import them", code="partial"
        )
        extra = {"failed": [as_data(each) for each in done.refusals], "error": error.to_json()}
    row = {name: getattr(done, name) for name in _IMPORTED}
    call.output.show([row], columns=_IMPORTED, picture=_told(done), **extra)
    if done.refused:
        raise typer.Exit(ExitCode.PARTIAL)


def _told(done: "GraphImportReport") -> str:
    told = f"{done.read:,} read: {done.added:,} added, {done.widened:,} widened, {done.known:,} known"
    past = f", {done.past:,} not believed any more" if done.past else ""
    return told + past + (f", {done.refused:,} refused" if done.refused else "")


def _tell(call: Invocation, each: "RefusedRow") -> None:
    begins = f" ({each.begins})" if each.begins else ""
    call.output.aside(f"{each.where}: {each.reason}{begins}", "red", whole=True)


def _count(call: Invocation, read: int) -> None:
    if read % _EVERY == 0:
        call.output.aside(f"{read:,} read")


# ── graph servers ─────────────────────────────────────────────────────────────────────────────────────────────────────


def mirror(
    call: Invocation,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="As bolt://localhost:7687 or neo4j+s://host.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Bring it up to date and end; else go on for ever.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How often to look for changes.")] = 2.0,
    server_database: ServerDatabase = None,
    username: Username = None,
    password_env: PasswordVariable = _PASSWORD,
    label: Annotated[str, typer.Option(metavar="LABEL", help="The label of the nodes.")] = "Entity",
    dialect: Annotated[
        Literal["neo4j", "memgraph"] | None, option(help="What the server is; else it is asked.")
    ] = None,
    vectors: Annotated[bool, typer.Option("--vectors", help="Give each node an embedding of its name.")] = False,
) -> None:
    """Keep a copy of the graph in step in Neo4j or Memgraph, to look at it there.

    All of it, or that of -u, --agent, --run. It only reads the memory, and goes
    on where it stopped, however it ended. The password is read from the
    environment, or asked for where --username names somebody.
    In a pipe the numbers are: entities, relations, removed, applied.

    [bold]Examples[/bold]
    $ NEO4J_PASSWORD=... langmem-adapter graph mirror bolt://localhost:7687
    $ langmem-adapter graph mirror bolt://localhost:7687 --once -u alice
    """
    from langmem_adapter.mirror.mirror import Mirror

    how: dict[str, Any] = {"name": server_database, "label": label, "dialect": dialect}
    how |= _login(call, username, password_env)
    with ExitStack() as opened:
        database = opened.enter_context(call.database())
        embedder = embedder_of(call) if vectors else None
        kept = opened.enter_context(Mirror(database, address, embedder=embedder, scope=call.within, **how))
        progress = opened.enter_context(Steps(call.output, what="rows")).show
        if once:
            report = kept.run_once(progress=progress)
            call.output.show([report], columns=_MIRRORED, picture=_written(report))
        else:
            whose = f" of {named(call.scope)}" if call.scope else ""
            call.output.note(f"mirroring the graph{whose} into {redact_url(address)}; Ctrl-C stops it")
            with _until_told() as stop:
                kept.follow(stop, every=every, progress=progress, told=lambda each: call.output.note(_written(each)))


def _login(call: Invocation, username: str | None, variable: str) -> dict[str, str | None]:
    """The login at a graph server: from the environment, or asked for where somebody is named."""
    password = os.environ.get(variable)
    if password is None and variable == _PASSWORD and username is None:
        return {"username": None, "password": None}  # a server that wants none, or says so
    if password is None and variable == _PASSWORD and call.output.on_terminal and not call.output.as_json:
        password = typer.prompt(f"Password of {username}", hide_input=True, err=True)
    if password is None:
        hint = f"export {variable}=…, the password of {username or 'the graph server'}"
        raise CommandError(f"there is no {variable} in the environment", hint)
    return {"username": username, "password": password}


def embedder_of(call: Invocation) -> "Embedder":
    """The embedding model that is meant, without a memory."""
    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.embedding.models import embedding_limits, resolve_embeddings

    spec, settings = call.options["embeddings"] or call.settings.embeddings, call.settings
    vectors = resolve_embeddings(spec, settings)
    return Embedder(vectors, dimensions=None, limits=embedding_limits(spec, vectors, settings))


@contextmanager
def _until_told() -> Iterator[Event]:
    """An event that Ctrl-C, or the end of a service, sets: the run that is under way ends by itself, or with the second one."""
    stop, numbers = Event(), (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]

    def restore(*_: object) -> None:
        stop.set()
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)

    for number in numbers:
        signal.signal(number, restore)
    try:
        yield stop
    finally:
        restore()


def _written(report: "MirrorReport") -> str:
    if not report.changed:
        return f"up to date at change {report.applied}"
    rebuilt = "filled anew: " if report.rebuilt else ""
    gone = f", {report.removed} removed" if report.removed else ""
    written = f"{counted(report.entities, 'entity')} and {counted(report.relations, 'relation')} written"
    return f"{rebuilt}{written}{gone}; at change {report.applied}"
