"""Commands of the knowledge graph: show, search, edit, export, import, and mirror to Neo4j or Memgraph."""

import difflib
import os
import re
import shlex
import signal
import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import typer
from typer.core import TyperGroup

from langmem_adapter.arguments import filled
from langmem_adapter.cli import pictures
from langmem_adapter.cli.inputs import STDIN, of_file
from langmem_adapter.cli.options import After, AsOfDate, Invocation, KnownAt, Limit, flags, named, option
from langmem_adapter.cli.output import CommandError, ExitCode, Steps, counted, stop_signal
from langmem_adapter.records.checks import check_text, redact_url
from langmem_adapter.records.graph import ExportFormat, LineFormat
from langmem_adapter.records.scope import Scope, as_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from langmem_adapter.knowledge.imports import RefusedRow
    from langmem_adapter.mirror.mirror import MirrorReport
    from langmem_adapter.records.graph import Relation, RelationChange

_DEFAULT: Final = "show"
_FARTHEST: Final = 5
_NAMES: Final = 200  # candidates for a mistyped name
_RELATION: Final = ("id", "source", "relation", "target", "valid_from", "valid_to")

Format: TypeAlias = Literal["table", "mermaid", "dot", "graphml"]


class GraphGroup(TyperGroup):
    """A group with the default command `show`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command's name in front where there is none."""
        is_command = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if is_command else [_DEFAULT, *args])


def show(
    call: Invocation,
    entity: Annotated[
        str | None,
        typer.Argument(metavar="ENTITY", help="The entity to show; else all.", show_default=False),
    ] = None,
    *,
    hops: Annotated[int | None, option(min=1, max=_FARTHEST, help="How far around it: 1, in drawings 2.")] = None,
    as_of: AsOfDate = None,
    known_at: KnownAt = None,
    history: Annotated[bool, typer.Option("--history", help="Also ended and deleted relations.")] = False,
    format: Annotated[Format, typer.Option(help="A table, or a drawing as text.")] = "table",  # noqa: A002 - the option's name
    limit: Limit = 100,
    after: After = None,
) -> None:
    """Show who and what is related, since when and until when, the newest first.

    The word "show" may be left out.

    [bold]Examples[/bold]
    $ langmem-adapter graph -u alice
    $ langmem-adapter graph Jesica -u alice --hops 2
    $ langmem-adapter graph alice -u alice --as-of 2025-01-01
    $ langmem-adapter graph -u alice --format dot | dot -Tsvg > graph.svg
    """
    far = entity if hops is not None and hops > 1 else None
    if history and (far is not None or format != "table"):
        raise CommandError("--history shows a table of relations", "leave out --hops and --format")
    if entity is None and hops is not None:
        raise CommandError("--hops goes around an entity", "name one: langmem-adapter graph ENTITY --hops 2")
    if format == "table" and far is None:
        _table(call, entity, history=history, as_of=as_of, known_at=known_at, k=limit, after=after)
        return
    from langmem_adapter.knowledge.draw import CUT

    with call.memory() as memory:
        when: dict[str, Any] = {"as_of": as_of, "known_at": known_at, **call.effective_scope(memory.scopes)}
        if format != "table":
            drawing = memory.graph.draw(format=format, entity=entity, hops=hops or 2, **when)
            call.output.write(drawing, format=format)
            if CUT in drawing:
                call.output.note(f"{CUT}: langmem-adapter graph export -o graph.graphml", whole=True)
        elif far is not None:
            neighbours = memory.graph.neighbours(far, hops=hops or 1, k=limit, **when)
            rows = [
                {**as_data(each.entity), "hops": each.hops, "relations": as_data(each)["relations"]}
                for each in neighbours
            ]
            columns = ("hops", "id", "name", "type")
            call.output.show(rows, columns=columns, picture=lambda _: pictures.neighbours_table(neighbours))
            if not rows:
                memory.parts.reading(partial(_nothing, call, far))


def _table(
    call: Invocation, entity: str | None, *, history: bool, as_of: str | None, known_at: str | None, **how: Any
) -> None:
    from langmem_adapter.storage.graph import reads

    when = reads.GraphTime.parse(as_of, known_at, history=history)
    name = None if entity is None else filled(entity, "entity")
    with call.reading() as connection:
        page = reads.page(connection, call.scope_in(connection), when, entity=name, **how)
        _relations(call, page, history=history, next=page.next)
        if not page:
            _nothing(call, entity, connection)


def entities(
    call: Invocation,
    type: Annotated[str | None, option(metavar="TYPE", help="Only of this type.")] = None,  # noqa: A002 - the option's name
    as_of: AsOfDate = None,
    known_at: KnownAt = None,
    limit: Limit = 50,
    after: After = None,
) -> None:
    """List the entities of the graph, the most mentioned first.

    [bold]Examples[/bold]
    $ langmem-adapter graph entities -u alice
    $ langmem-adapter graph entities -u alice --type person
    """
    from langmem_adapter.storage.graph import reads

    when, kind = reads.GraphTime.parse(as_of, known_at), None if type is None else check_text(type, "type")
    with call.reading() as connection:
        page = reads.entity_page(connection, call.scope_in(connection), when, kind=kind, k=limit, after=after)
        columns = ("id", "name", "type", "mentions")
        call.output.show(page, columns=columns, picture=pictures.entities_table, next=page.next)
        if not page:
            _nothing(call, None, connection)


def path(
    call: Invocation,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The first entity.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The second entity.")],
    hops: Annotated[int, typer.Option(min=1, max=10, help="At most so many relations.")] = 4,
    as_of: AsOfDate = None,
    known_at: KnownAt = None,
) -> None:
    """Show how two are connected: the relations on a shortest way.

    No way ends with exit code 3.

    [bold]Examples[/bold]
    $ langmem-adapter graph path alice Tom -u alice
    """
    with call.scoped_memory() as (memory, scope):
        relations = memory.graph.path(source, target, max_hops=hops, as_of=as_of, known_at=known_at, **scope)
        _relations(call, relations)
        if not relations:
            call.output.note(f"no path of {hops} relations or fewer from {source} to {target} for {named(scope)}")
            raise typer.Exit(ExitCode.NOTHING_FOUND)


def search(
    call: Invocation,
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for; quotes are not needed.")],
    limit: Limit = 10,
) -> None:
    """Find relations by a question, best first.

    Nothing found ends with exit code 3.

    [bold]Examples[/bold]
    $ langmem-adapter graph search where does my sister live -u alice
    """
    with call.scoped_memory() as (memory, scope):
        relations = memory.graph.search(" ".join(query), k=limit, **scope)
        _relations(call, relations)
        if not relations:
            memory.parts.reading(partial(_nothing, call, None))
            raise typer.Exit(ExitCode.NOTHING_FOUND)


def _relations(call: Invocation, relations: "Sequence[Relation]", *, history: bool = False, **extra: Any) -> None:
    picture = partial(pictures.relations_table, history=history)
    call.output.show(relations, columns=_RELATION, picture=picture, **extra)


def _nothing(call: Invocation, entity: str | None, connection: "Connection") -> None:
    """Print why there is nothing, and what to do; an unknown name ends the command."""
    from langmem_adapter.storage.graph import reads
    from langmem_adapter.storage.graph.reads import NOW

    scope = named(call.scope)
    names = [each.name for each in reads.entity_page(connection, Scope(**call.scope), NOW, k=_NAMES, unrelated=True)]
    if entity is None or not names:
        how = 'add something with --graph, or: langmem-adapter graph add Anna "lives in" Lyon'
        call.output.note(f"no relations of {scope}{'' if names else f'; {how}'}")
        return
    near = difflib.get_close_matches(entity, names, n=3, cutoff=0.5) or names[:3]
    call.output.note(f"no relations of {entity} for {scope}; it knows {', '.join(near)}")
    raise typer.Exit(ExitCode.NOTHING_FOUND)


_CHANGE: Final = ("event", "id", "source", "relation", "target")
_BACKFILL: Final = ("read", "relations", "added", "ended", "skipped", "left")
_PAIR: Final = ("source", "into", "score", "why")

RelationId = Annotated[
    str, typer.Argument(metavar="ID", help="The relation's id, as langmem-adapter graph shows it, or its beginning.")
]


def add(
    call: Invocation,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The first entity.")],
    relation: Annotated[str, typer.Argument(metavar="RELATION", help="The relation, a verb.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The second entity.")],
    *,
    since: Annotated[str | None, option("--from", metavar="TIME", help="Since when, ISO 8601; else now.")] = None,
    until: Annotated[str | None, option("--to", metavar="TIME", help="Until when it held.")] = None,
    source_type: Annotated[str | None, option(metavar="TYPE", help="What SOURCE is: person, city …")] = None,
    target_type: Annotated[str | None, option(metavar="TYPE", help="What TARGET is.")] = None,
) -> None:
    """Add a relation; a single-valued one ends the one before.

    "me" means the user. What add finds in messages needs no hand: see add --graph.

    [bold]Examples[/bold]
    $ langmem-adapter graph add Anna "lives in" Lyon -u alice
    $ langmem-adapter graph add me "works at" Acme -u alice --from 2024-03-01
    """
    fields: dict[str, Any] = {"valid_from": since, "valid_to": until, "source_type": source_type}
    with call.scoped_memory(create=True) as (memory, scope):
        _show(call, memory.graph.add(source, relation, target, target_type=target_type, **fields, **scope))


def end(
    call: Invocation,
    id: RelationId,  # noqa: A002 - the name of the argument in the usage line
    at: Annotated[str | None, option(metavar="TIME", help="Since when, ISO 8601; else now.")] = None,
) -> None:
    """End a relation; its history stays.

    [bold]Examples[/bold]
    $ langmem-adapter graph end ID
    $ langmem-adapter graph end ID --at 2026-02-01
    """
    from langmem_adapter.storage.tables import relations

    with call.memory() as memory:
        _show(call, memory.graph.end(memory.parts.reading(call.full_id, relations.c.id, id), at=at, **call.scope))


def delete(call: Invocation, id: RelationId) -> None:  # noqa: A002 - the same
    """Delete a relation that was wrong; its history stays.

    [bold]Examples[/bold]
    $ langmem-adapter graph delete ID
    """
    from langmem_adapter.storage.tables import relations

    with call.memory() as memory:
        _show(call, memory.graph.delete(memory.parts.reading(call.full_id, relations.c.id, id), **call.scope))


def merge(
    call: Invocation,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name that is merged.")],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The name that stays.")],
) -> None:
    """Say that two names mean the same; graph split undoes it.

    [bold]Examples[/bold]
    $ langmem-adapter graph merge Bob Robert -u alice
    """
    with call.memory() as memory:
        moved = memory.graph.merge(name, into, **call.effective_scope(memory.scopes))
    undo = f"langmem-adapter graph split {shlex.quote(name)}"
    picture = f"{name} is {into} now: {counted(moved, 'relation')} moved; {undo} undoes it"
    call.output.show([{"moved": moved, "name": name, "into": into}], columns=("moved",), picture=picture)


def split(
    call: Invocation, name: Annotated[str, typer.Argument(metavar="NAME", help="The name that was merged.")]
) -> None:
    """Undo the last merge of a name.

    [bold]Examples[/bold]
    $ langmem-adapter graph split Bob -u alice
    """
    with call.memory() as memory:
        moved = memory.graph.split(name, **call.effective_scope(memory.scopes))
    picture = f"{name} is separate again: {counted(moved, 'relation')} came back"
    call.output.show([{"moved": moved, "name": name}], columns=("moved",), picture=picture)


def backfill(
    call: Invocation,
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=200, help="Memories per call of the model.")] = 20,
    limit: Annotated[int | None, option(metavar="N", min=1, help="Read at most so many; else all.")] = None,
) -> None:
    """Find relations in memories that were not yet searched for them.

    Those are memories from before there was a graph, and those stored as said.
    None is read twice, and interrupted it goes on where it stopped. Exit code
    6 if the model's reply to a batch could not be used; the next run asks again.
    In a pipe the numbers are: memories read, how many of them state a relation,
    relations added, ended, memories skipped, memories left.

    [bold]Examples[/bold]
    $ langmem-adapter graph backfill -u alice
    $ langmem-adapter graph backfill -u alice --model openai:gpt-5-mini --limit 200
    """
    with call.scoped_memory() as (memory, scope), Steps(call.output, what="memories") as bar:
        report = memory.graph.backfill(batch=batch, limit=limit, progress=bar.show, **scope)
    calls = f"; {counted(report.usage.model_calls, 'model call')}" if report.usage.model_calls else ""
    picture = f"{counted(report.read, 'memory')} read, {report.relations} with relations: "
    picture += f"{report.added} added, {report.ended} ended{calls}" + (f"; {report.left} left" if report.left else "")
    if not (report.read or report.skipped or report.left):
        picture = "nothing to read: every memory has been read for relations"
    call.output.show([report], columns=_BACKFILL, picture=picture)
    for failed in report.failed:
        call.output.note(f"{counted(len(failed.memory_ids), 'memory')} not read: {failed.error}", "yellow")
    if report.failed:
        raise typer.Exit(ExitCode.PARTIAL)


def suggest(call: Invocation, limit: Limit = 20) -> None:
    """Suggest entities that may be one, with the command that makes them one.

    The same name in another spelling, with initials or a legal form, or near in
    meaning where the embeddings know meanings. Nothing is merged. None found
    ends with exit code 3.

    [bold]Examples[/bold]
    $ langmem-adapter graph suggest -u alice
    """
    with call.scoped_memory() as (memory, scope):
        suggestions = memory.graph.suggest_merges(k=limit, **scope)
    options = flags({name: call.options[name] for name in ("database", "user", "agent", "run")})
    # "--": a name may begin with a dash
    commands = [
        shlex.join(["langmem-adapter", "graph", "merge", *options, "--", each.source, each.into])
        for each in suggestions
    ]
    rows = [{**as_data(each), "command": command} for each, command in zip(suggestions, commands, strict=True)]
    call.output.show(rows, columns=_PAIR, picture=lambda _: pictures.suggestions_table(suggestions))
    for command in commands:
        call.output.aside(command, whole=True)
    if not rows:
        call.output.note(f"no two entities of {named(scope)} look like one")
        raise typer.Exit(ExitCode.NOTHING_FOUND)


def _show(call: Invocation, change: "RelationChange") -> None:
    row = {"event": change.event, **as_data(change.relation)}
    call.output.show([row], columns=_CHANGE, picture=lambda _: pictures.relation_changes_table([change]))


ServerDatabase = Annotated[str | None, option(metavar="NAME", help="The server's database; else its default.")]
Username = Annotated[str | None, option(metavar="NAME", help="The server's user; else NEO4J_USERNAME, else neo4j.")]
PasswordVariable = Annotated[str, typer.Option(metavar="VARIABLE", help="The variable that holds the password.")]

_PASSWORD: Final = "NEO4J_PASSWORD"  # noqa: S105 - the name of a variable
_GRAPH_IMPORTED: Final = ("read", "added", "widened", "known", "past", "refused")
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
    history: Annotated[bool, typer.Option("--history", help="Also ended and deleted relations.")] = False,
) -> None:
    """Write the whole graph to a file: all current and ended relations.

    .jsonl and .csv come in again with graph import, .graphml is for Gephi, yEd
    and networkx, .cypher for Neo4j 5, and .html is a picture for any browser,
    which needs no network. csv-nodes is a table of the entities.

    [bold]Examples[/bold]
    $ langmem-adapter graph export -o graph.graphml -u alice
    $ langmem-adapter graph export -o graph.html -u alice
    $ langmem-adapter graph export -o - --format jsonl -u alice | gzip > graph.jsonl.gz
    """
    target: Any = sys.stdout.buffer if file == STDIN else file
    with call.scoped_memory() as (memory, scope), of_file(file, "write"):
        report = memory.graph.export(target, format=format, as_of=as_of, known_at=known_at, history=history, **scope)
    summary = f"{counted(report.entities, 'entity')}, {counted(report.relations, 'relation')}"
    if not report.relations:
        call.output.note(f"there are no relations of {named(scope)}", "yellow")
    if file == STDIN:
        call.output.note(summary)
    else:
        row = {**as_data(report), "file": file}
        call.output.show([row], columns=("entities", "relations", "file"), picture=f"{summary}: {file}")


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
    """Import relations: what graph export wrote, your own triples, or Mem0's.

    A line names source, relation and target; it may have source_type,
    target_type, valid_from, valid_to, mentions, confidence, and user_id,
    agent_id, run_id, which must not contradict -u, --agent, --run. The first
    line of CSV names the columns. Imported again, nothing changes. Lines that
    are refused are named, with exit code 6; the others are taken.
    In a pipe the numbers are: read, added, widened, known, past, refused.

    An address (bolt://, neo4j://) takes what Mem0 kept in Neo4j or Memgraph, of
    everybody or of -u, --agent, --run. The password is read from the environment,
    or asked for with --username. The server is only read.

    [bold]Examples[/bold]
    $ langmem-adapter graph import graph.jsonl -u alice
    $ langmem-adapter graph import triples.csv -u alice 2> refused.txt
    $ NEO4J_PASSWORD=... langmem-adapter graph import bolt://localhost:7687
    """

    def print_refused(each: "RefusedRow") -> None:
        begins = f" ({each.begins})" if each.begins else ""
        call.output.aside(f"{each.where}: {each.reason}{begins}", "red", whole=True)

    def count(read: int) -> None:
        if read % _EVERY == 0:
            call.output.aside(f"{read:,} read")

    how: dict[str, Any] = {"refused": print_refused, "progress": count, **call.scope}
    with call.memory(create=True) as memory, of_file(source, "read"):
        if re.match(r"(?i:bolt|neo4j)(?:\+\w+)?:|\w[\w+.-]+://", source):  # an address, also a wrong one
            from langmem_adapter.adapters.mem0.graph_import import import_graph

            how.update(_login(call, username, password_env))
            report = import_graph(memory, source, database=server_database, **how)
        else:
            stream: Any = sys.stdin.buffer if source == STDIN else source
            report = memory.graph.load(stream, format=format, **how)
    if not report.read:
        call.output.note(f"nothing to take in from {'stdin' if source == STDIN else redact_url(source)}", "yellow")
    message = f"{counted(report.refused, 'relation')} refused"
    failure = CommandError(message, "correct those and import them", code="partial") if report.refused else None
    extra: dict[str, Any] = {"failed": [as_data(each) for each in report.refusals]} if report.refused else {}
    row = {name: getattr(report, name) for name in _GRAPH_IMPORTED}
    picture = f"{report.read:,} read: {report.added:,} added, {report.widened:,} widened, {report.known:,} known"
    picture += f", {report.past:,} not believed any more" if report.past else ""
    picture += f", {report.refused:,} refused" if report.refused else ""
    call.output.show([row], columns=_GRAPH_IMPORTED, picture=picture, failure=failure, **extra)


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
    environment, or asked for with --username.
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
        embedder = call.embedder() if vectors else None
        mirrored = opened.enter_context(Mirror(database, address, embedder=embedder, scope=call.within, **how))
        progress = opened.enter_context(Steps(call.output, what="rows")).show
        if once:
            report = mirrored.run_once(progress=progress)
            call.output.show([report], columns=_MIRRORED, picture=_mirror_summary(report))
        else:
            part = f" of {named(call.scope)}" if call.scope else ""
            call.output.note(f"mirroring the graph{part} into {redact_url(address)}; Ctrl-C stops it")
            with stop_signal(signal.SIGINT, signal.SIGTERM) as stop:
                mirrored.follow(
                    stop, every=every, progress=progress, report=lambda each: call.output.note(_mirror_summary(each))
                )


def _login(call: Invocation, username: str | None, variable: str) -> dict[str, str | None]:
    """The login at a graph server: from the environment, or typed where a user is named."""
    password = os.environ.get(variable)
    if password is None and variable == _PASSWORD and username is None:
        return {"username": None, "password": None}  # a server that wants none, or says so
    if password is None and variable == _PASSWORD and call.output.on_terminal and not call.output.as_json:
        password = typer.prompt(f"Password of {username}", hide_input=True, err=True)
    if password is None:
        hint = f"export {variable}=…, the password of {username or 'the graph server'}"
        raise CommandError(f"there is no {variable} in the environment", hint)
    return {"username": username, "password": password}


def _mirror_summary(report: "MirrorReport") -> str:
    if not report.changed:
        return f"up to date at change {report.applied}"
    rebuilt = "filled anew: " if report.rebuilt else ""
    gone = f", {report.removed} removed" if report.removed else ""
    written = f"{counted(report.entities, 'entity')} and {counted(report.relations, 'relation')} written"
    return f"{rebuilt}{written}{gone}; at change {report.applied}"
