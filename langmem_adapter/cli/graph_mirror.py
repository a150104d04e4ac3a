"""The command `graph mirror`: keeps the knowledge graph in step in Neo4j or Memgraph."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.text import Text

from langmem_adapter.addresses import shown
from langmem_adapter.cli.failures import CommandError, ExitCode
from langmem_adapter.cli.options import Invocation, named, option
from langmem_adapter.cli.output import counted, visible
from langmem_adapter.cli.progress import Steps
from langmem_adapter.records.plain import as_data

if TYPE_CHECKING:
    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.mirror.mirror import MirrorReport

__all__ = ["PASSWORD", "PasswordVariable", "ServerDatabase", "Username", "login", "mirror"]

PASSWORD: Final = "NEO4J_PASSWORD"  # noqa: S105 - the name of a variable
ServerDatabase = Annotated[str | None, option(metavar="NAME", help="The server's database; else its default.")]
Username = Annotated[str | None, option(metavar="NAME", help="The server's user; else NEO4J_USERNAME, else neo4j.")]
PasswordVariable = Annotated[str, typer.Option(metavar="VARIABLE", help="The variable that holds the password.")]
_COUNTED: Final = ("entities", "relations", "removed", "applied")


def mirror(
    call: Invocation,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="As bolt://localhost:7687 or neo4j+s://host.")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Bring it up to date and end; else go on for ever.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How often to look for changes.")] = 2.0,
    server_database: ServerDatabase = None,
    username: Username = None,
    password_env: PasswordVariable = PASSWORD,
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

    how: dict[str, Any] = {
        "name": server_database,
        "label": label,
        "dialect": dialect,
        **login(call, username, password_env),
    }
    with ExitStack() as opened:
        database = opened.enter_context(call.database())
        embedder = _embedder(call) if vectors else None
        kept = opened.enter_context(Mirror(database, address, embedder=embedder, scope=call.within, **how))
        progress = opened.enter_context(Steps(call.output, what="rows")).show
        if once:
            _show(call, kept.run_once(progress=progress))
        else:
            whose = f" of {named(call.scope)}" if call.scope else ""
            call.output.note(f"mirroring the graph{whose} into {shown(address)}; Ctrl-C stops it")
            with _until_told() as stop:
                kept.follow(stop, every=every, progress=progress, told=lambda report: _note(call, report))


def login(call: Invocation, username: str | None, variable: str) -> dict[str, str | None]:
    """The login at a graph server: from the environment, or asked for where somebody is named."""
    password = os.environ.get(variable)
    if password is None and variable == PASSWORD and username is None:
        return {"username": None, "password": None}  # a server that wants none, or says so
    if password is None and variable == PASSWORD and call.output.on_terminal and not call.output.as_json:
        password = typer.prompt(f"Password of {username}", hide_input=True, err=True)
    if password is None:
        raise CommandError(
            f"there is no {variable} in the environment",
            code="usage",
            exit_code=ExitCode.USAGE,
            hint=f"export {variable}=…, the password of {username or 'the graph server'}",
        )
    return {"username": username, "password": password}


def _embedder(call: Invocation) -> "Embedder":
    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.embedding.resolve import embedding_limits, resolve_embeddings

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


def _show(call: Invocation, report: "MirrorReport") -> None:
    call.output.show([as_data(report)], columns=_COUNTED, picture=lambda: Text(visible(_told(report))))


def _note(call: Invocation, report: "MirrorReport") -> None:
    call.output.note(_told(report))


def _told(report: "MirrorReport") -> str:
    if not report.changed:
        return f"up to date at change {report.applied}"
    rebuilt = "filled anew: " if report.rebuilt else ""
    gone = f", {report.removed} removed" if report.removed else ""
    written = f"{counted(report.entities, 'entity')} and {counted(report.relations, 'relation')} written"
    return f"{rebuilt}{written}{gone}; at change {report.applied}"
