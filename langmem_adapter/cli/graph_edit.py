"""Commands that write the knowledge graph: by hand, or from memories that nobody has read for relations yet."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from langmem_adapter.cli import pictures
from langmem_adapter.cli.failures import ExitCode
from langmem_adapter.cli.options import Invocation, Limit, flags, named, option
from langmem_adapter.cli.output import counted
from langmem_adapter.cli.progress import Steps
from langmem_adapter.records.plain import as_data

if TYPE_CHECKING:
    from langmem_adapter.knowledge.backfill import BackfillReport
    from langmem_adapter.records.graph import MergeSuggestion, RelationChange

__all__ = ["add", "backfill", "delete", "end", "merge", "split", "suggest"]

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
    from langmem_adapter.storage.graph.tables import relations

    with call.memory() as memory:
        _show(call, memory.graph.end(call.whole(memory, relations.c.id, id), at=at, **call.scope))


def delete(call: Invocation, id: RelationId) -> None:  # noqa: A002 - the same
    """Withdraw a relation that was never so; that it was believed stays known.

    [bold]Examples[/bold]
    $ langmem-adapter graph delete ID
    """
    from langmem_adapter.storage.graph.tables import relations

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
