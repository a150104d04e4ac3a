"""Commands that show and edit the knowledge graph."""

import difflib
import shlex
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import typer
from typer.core import TyperGroup

from langmem_adapter.arguments import filled
from langmem_adapter.cli import pictures
from langmem_adapter.cli.options import After, AsOfDate, Invocation, KnownAt, Limit, flags, named, option
from langmem_adapter.cli.output import CommandError, ExitCode, Steps, counted
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.scope import Scope, as_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from langmem_adapter.knowledge.backfill import BackfillReport
    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.records.graph import MergeSuggestion, Neighbour, Relation, RelationChange

_DEFAULT: Final = "show"
_FARTHEST: Final = 5
_NAMES: Final = 200  # among which one is looked for that was meant
_RELATION: Final = ("id", "source", "relation", "target", "valid_from", "valid_to")

Format: TypeAlias = Literal["table", "mermaid", "dot", "graphml"]


class GraphGroup(TyperGroup):
    """A group that takes anything but one of its commands for what `show` shall show."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command's name in front where there is none."""
        known = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if known else [_DEFAULT, *args])


def show(
    call: Invocation,
    entity: Annotated[
        str | None,
        typer.Argument(metavar="ENTITY", help="Whom or what to look at; all if not given.", show_default=False),
    ] = None,
    *,
    hops: Annotated[int | None, option(min=1, max=_FARTHEST, help="How far around it: 1, in drawings 2.")] = None,
    as_of: AsOfDate = None,
    known_at: KnownAt = None,
    history: Annotated[bool, typer.Option("--history", help="Everything that was ever believed.")] = False,
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
        when: dict[str, Any] = {"as_of": as_of, "known_at": known_at, **call.whose(memory.scopes)}
        if format != "table":
            drawing = memory.graph.draw(format=format, entity=entity, hops=hops or 2, **when)
            call.output.write(drawing, format=format)
            if CUT in drawing:
                call.output.note(f"{CUT}: langmem-adapter graph export -o graph.graphml", whole=True)
        elif far is not None:
            _neighbours(call, memory, far, memory.graph.neighbours(far, hops=hops or 1, k=limit, **when))


def _table(
    call: Invocation, entity: str | None, *, history: bool, as_of: str | None, known_at: str | None, **how: Any
) -> None:
    from langmem_adapter.knowledge.arguments import when_of
    from langmem_adapter.storage.graph import reads

    when, name = when_of(as_of, known_at, history=history), None if entity is None else filled(entity, "entity")
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
    """List whom and what the graph knows, those that are mentioned most first.

    [bold]Examples[/bold]
    $ langmem-adapter graph entities -u alice
    $ langmem-adapter graph entities -u alice --type person
    """
    from langmem_adapter.knowledge.arguments import when_of
    from langmem_adapter.storage.graph import reads as known

    when, kind = when_of(as_of, known_at), None if type is None else check_text(type, "type")
    with call.reading() as connection:
        page = known.entity_page(connection, call.scope_in(connection), when, kind=kind, k=limit, after=after)
        columns = ("id", "name", "type", "mentions")
        call.output.show(page, columns=columns, picture=pictures.entities_table, next=page.next)
        if not page:
            _nothing(call, None, connection)


def path(
    call: Invocation,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="From whom or what.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="To whom or what.")],
    hops: Annotated[int, typer.Option(min=1, max=10, help="At most so many relations.")] = 4,
    as_of: AsOfDate = None,
    known_at: KnownAt = None,
) -> None:
    """Show how two are connected: the relations on a shortest way.

    No way ends with exit code 3.

    [bold]Examples[/bold]
    $ langmem-adapter graph path alice Tom -u alice
    """
    with call.memory() as memory:
        whose = call.whose(memory.scopes)
        way = memory.graph.path(source, target, max_hops=hops, as_of=as_of, known_at=known_at, **whose)
        _relations(call, way)
        if not way:
            call.output.note(f"no way of {hops} relations or fewer from {source} to {target} for {named(whose)}")
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
    with call.memory() as memory:
        found = memory.graph.search(" ".join(query), k=limit, **call.whose(memory.scopes))
        _relations(call, found)
        if not found:
            memory.parts.reading(partial(_nothing, call, None))
            raise typer.Exit(ExitCode.NOTHING_FOUND)


def _relations(call: Invocation, found: "Sequence[Relation]", *, history: bool = False, **extra: Any) -> None:
    picture = partial(pictures.relations_table, history=history)
    call.output.show(found, columns=_RELATION, picture=picture, **extra)


def _neighbours(call: Invocation, memory: "Memory", entity: str, found: "Sequence[Neighbour]") -> None:
    rows = [{**as_data(each.entity), "hops": each.hops, "relations": as_data(each)["relations"]} for each in found]
    columns = ("hops", "id", "name", "type")
    call.output.show(rows, columns=columns, picture=lambda _: pictures.neighbours_table(found))
    if not found:
        memory.parts.reading(partial(_nothing, call, entity))


def _nothing(call: Invocation, entity: str | None, connection: "Connection") -> None:
    """Say why there is nothing, and what to do; a name that is not known ends the command."""
    from langmem_adapter.storage.graph import reads as kept
    from langmem_adapter.storage.graph.reads import NOW

    whose = named(call.scope)
    known = [each.name for each in kept.entity_page(connection, Scope(**call.scope), NOW, k=_NAMES, unrelated=True)]
    if entity is None or not known:
        how = 'add something with --graph, or: langmem-adapter graph add Anna "lives in" Lyon'
        call.output.note(f"no relations of {whose}{'' if known else f'; {how}'}")
        return
    near = difflib.get_close_matches(entity, known, n=3, cutoff=0.5) or known[:3]
    call.output.note(f"no relations of {entity} for {whose}; it knows {', '.join(near)}")
    raise typer.Exit(ExitCode.NOTHING_FOUND)


_CHANGE: Final = ("event", "id", "source", "relation", "target")
_BACKFILL: Final = ("read", "relations", "added", "ended", "skipped", "left")
_PAIR: Final = ("source", "into", "score", "why")

RelationId = Annotated[
    str, typer.Argument(metavar="ID", help="The relation's id, as langmem-adapter graph shows it, or its beginning.")
]


def add(
    call: Invocation,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Who or what.")],
    relation: Annotated[str, typer.Argument(metavar="RELATION", help="Is what to it, a verb.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Whom or what.")],
    *,
    since: Annotated[str | None, option("--from", metavar="TIME", help="Since when, ISO 8601; else now.")] = None,
    until: Annotated[str | None, option("--to", metavar="TIME", help="Until when it held.")] = None,
    source_type: Annotated[str | None, option(metavar="TYPE", help="What SOURCE is: person, city …")] = None,
    target_type: Annotated[str | None, option(metavar="TYPE", help="What TARGET is.")] = None,
) -> None:
    """Write down a relation; where somebody has one such at a time, it ends the one before.

    "me" means the user. What add finds in messages needs no hand: see add --graph.

    [bold]Examples[/bold]
    $ langmem-adapter graph add Anna "lives in" Lyon -u alice
    $ langmem-adapter graph add me "works at" Acme -u alice --from 2024-03-01
    """
    given: dict[str, Any] = {"valid_from": since, "valid_to": until, "source_type": source_type}
    with call.memory(create=True) as memory:
        whose = call.whose(memory.scopes)
        _show(call, memory.graph.add(source, relation, target, target_type=target_type, **given, **whose))


def end(
    call: Invocation,
    id: RelationId,  # noqa: A002 - the name of the argument in the usage line
    at: Annotated[str | None, option(metavar="TIME", help="Since when, ISO 8601; else now.")] = None,
) -> None:
    """Say that a relation holds no longer; that it held until then stays known.

    [bold]Examples[/bold]
    $ langmem-adapter graph end ID
    $ langmem-adapter graph end ID --at 2026-02-01
    """
    from langmem_adapter.storage.tables import relations

    with call.memory() as memory:
        _show(call, memory.graph.end(call.whole(memory, relations.c.id, id), at=at, **call.scope))


def delete(call: Invocation, id: RelationId) -> None:  # noqa: A002 - the same
    """Withdraw a relation that was never so; that it was believed stays known.

    [bold]Examples[/bold]
    $ langmem-adapter graph delete ID
    """
    from langmem_adapter.storage.tables import relations

    with call.memory() as memory:
        _show(call, memory.graph.delete(call.whole(memory, relations.c.id, id), **call.scope))


def merge(
    call: Invocation,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The one that goes.")],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The one that it is; it stays.")],
) -> None:
    """Say that two names mean the same; graph split undoes it.

    [bold]Examples[/bold]
    $ langmem-adapter graph merge Bob Robert -u alice
    """
    with call.memory() as memory:
        moved = memory.graph.merge(name, into, **call.whose(memory.scopes))
    undo = f"langmem-adapter graph split {shlex.quote(name)}"
    told = f"{name} is {into} now: {counted(moved, 'relation')} moved; {undo} undoes it"
    call.output.show([{"moved": moved, "name": name, "into": into}], columns=("moved",), picture=told)


def split(
    call: Invocation, name: Annotated[str, typer.Argument(metavar="NAME", help="The one that had gone.")]
) -> None:
    """Undo the last merge of a name.

    [bold]Examples[/bold]
    $ langmem-adapter graph split Bob -u alice
    """
    with call.memory() as memory:
        moved = memory.graph.split(name, **call.whose(memory.scopes))
    told = f"{name} stands alone again: {counted(moved, 'relation')} came back"
    call.output.show([{"moved": moved, "name": name}], columns=("moved",), picture=told)


def backfill(
    call: Invocation,
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=200, help="Memories per call of the model.")] = 20,
    limit: Annotated[int | None, option(metavar="N", min=1, help="Read at most so many; else all.")] = None,
) -> None:
    """Read memories for relations that nobody has read for them yet.

    Those are memories from before there was a graph, and those stored as said.
    None is read twice, and interrupted it goes on where it stopped. Exit code
    6 if the model's reply to a batch could not be used; the next run asks again.
    In a pipe the numbers are: memories read, how many of them state a relation,
    relations added, ended, memories skipped, memories left.

    [bold]Examples[/bold]
    $ langmem-adapter graph backfill -u alice
    $ langmem-adapter graph backfill -u alice --model openai:gpt-5-mini --limit 200
    """
    with call.memory() as memory, Steps(call.output, what="memories") as bar:
        whose = call.whose(memory.scopes)
        done = memory.graph.backfill(batch=batch, limit=limit, progress=bar.show, **whose)
    call.output.show([done], columns=_BACKFILL, picture=_told(done))
    for failed in done.failed:
        call.output.note(f"{counted(len(failed.memory_ids), 'memory')} not read: {failed.error}", "yellow")
    if done.failed:
        raise typer.Exit(ExitCode.PARTIAL)


def suggest(call: Invocation, limit: Limit = 20) -> None:
    """Suggest entities that may be one, with the command that makes them one.

    The same name in another spelling, with initials or a legal form, or near in
    meaning where the embeddings know meanings. Nothing is merged. None found
    ends with exit code 3.

    [bold]Examples[/bold]
    $ langmem-adapter graph suggest -u alice
    """
    with call.memory() as memory:
        whose = call.whose(memory.scopes)
        found = memory.graph.suggest_merges(k=limit, **whose)
    rows = [{**as_data(each), "command": _command(each, call)} for each in found]
    call.output.show(rows, columns=_PAIR, picture=lambda _: pictures.suggestions_table(found))
    for row in rows:
        call.output.aside(row["command"], whole=True)
    if not rows:
        call.output.note(f"no two entities of {named(whose)} look like one")
        raise typer.Exit(ExitCode.NOTHING_FOUND)


def _command(each: "MergeSuggestion", call: Invocation) -> str:
    given = flags({name: call.options[name] for name in ("database", "user", "agent", "run")})
    # "--": a name may begin with a dash
    return shlex.join(["langmem-adapter", "graph", "merge", *given, "--", each.source, each.into])


def _show(call: Invocation, change: "RelationChange") -> None:
    row = {"event": change.event, **as_data(change.relation)}
    call.output.show([row], columns=_CHANGE, picture=lambda _: pictures.relation_changes_table([change]))


def _told(done: "BackfillReport") -> str:
    if not (done.read or done.skipped or done.left):
        return "nothing to read: every memory has been read for relations"
    told = (
        f"{counted(done.read, 'memory')} read, {done.relations} with relations: {done.added} added, {done.ended} ended"
    )
    asked = f"; {counted(done.usage.model_calls, 'model call')}" if done.usage.model_calls else ""
    return f"{told}{asked}" + (f"; {done.left} left" if done.left else "")
