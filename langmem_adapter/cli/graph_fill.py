"""Commands that fill the knowledge graph from memories and tell what in it may be one: `graph backfill`, `graph suggest`."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from langmem_adapter.cli import graph_pictures
from langmem_adapter.cli.failures import ExitCode
from langmem_adapter.cli.options import Invocation, Limit, named, option
from langmem_adapter.cli.output import counted, visible
from langmem_adapter.cli.progress import Steps
from langmem_adapter.records.plain import as_data

if TYPE_CHECKING:
    from langmem_adapter.knowledge.backfill import BackfillReport
    from langmem_adapter.records.graph import MergeSuggestion

__all__ = ["backfill", "suggest"]

_COLUMNS = ("read", "relations", "added", "ended", "skipped", "left")
_PAIR = ("source", "into", "score", "why")


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
    call.output.show([as_data(done)], columns=_COLUMNS, picture=lambda: Text(_told(done)))
    for failed in done.failed:
        call.output.note(visible(f"{counted(len(failed.memory_ids), 'memory')} not read: {failed.error}"), "yellow")
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
    if rows or call.output.as_json:
        call.output.show(rows, columns=_PAIR, picture=lambda: graph_pictures.suggestions_table(found))
    if not call.output.as_json:
        for row in rows:
            call.output.note(row["command"], whole=True)
    if not rows:
        call.output.note(f"no two entities of {named(whose)} look like one")
        raise typer.Exit(ExitCode.NOTHING_FOUND)


def _command(each: "MergeSuggestion", call: Invocation) -> str:
    flags = {"user_id": "-u", "agent_id": "--agent", "run_id": "--run"}
    whose = [word for field, value in call.scope.items() if value is not None for word in (flags[field], value)]
    given = call.options["database"]
    where = [] if given is None else ["-d", str(given)]
    # "--": a name may begin with a dash
    return shlex.join(["langmem-adapter", "graph", "merge", *where, *whose, "--", each.source, each.into])


def _told(done: "BackfillReport") -> str:
    if not (done.read or done.skipped or done.left):
        return "nothing to read: every memory has been read for relations"
    told = (
        f"{counted(done.read, 'memory')} read, {done.relations} with relations: {done.added} added, {done.ended} ended"
    )
    asked = f"; {counted(done.usage.model_calls, 'model call')}" if done.usage.model_calls else ""
    return f"{told}{asked}" + (f"; {done.left} left" if done.left else "")
