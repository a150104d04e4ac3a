"""The commands `update`, `delete`, `purge`, `refine` and `reindex`."""

import shlex
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from langmem_adapter.cli import pictures
from langmem_adapter.cli.add import json_object
from langmem_adapter.cli.look import IdArgument
from langmem_adapter.cli.options import Invocation, named, option
from langmem_adapter.cli.output import CommandError, ExitCode, Steps, visible
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.results import Change
from langmem_adapter.records.scope import as_data

if TYPE_CHECKING:
    from langmem_adapter.storage.erasure import Erasure

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_REFINED: Final = ("memories", "facts", "ended", "kept", "skipped", "left", "calls")
_ERASED: Final = tuple("memories revisions words traces runs scopes files freed relations entities".split())


def update(
    call: Invocation,
    id: IdArgument,  # noqa: A002 - the name of the argument in the usage line
    text: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="The new text.", show_default=False)] = None,
    metadata: Annotated[str | None, option(metavar="JSON", help="Keys to set; null removes one.")] = None,
) -> None:
    """Change a memory's text or metadata; its history keeps the old one.

    [bold]Examples[/bold]
    $ langmem-adapter update ID Lives in Lyon
    $ langmem-adapter update ID --metadata '{"checked": true}'
    """
    if not text and metadata is None:
        raise CommandError("nothing to change", "give the new TEXT, or --metadata")
    from langmem_adapter.storage.tables import memories

    with call.memory() as memory:
        memory_id, new = memory.parts.reading(call.full_id, memories.c.id, id), " ".join(text) if text else None
        _show(call, memory.update(memory_id, new, metadata=json_object(metadata), **call.scope))


def restore(
    call: Invocation,
    id: IdArgument,  # noqa: A002 - the same
    revision: Annotated[int, typer.Argument(metavar="REVISION", help="Its number, as history shows it.", min=1)],
) -> None:
    """Bring a memory back to an earlier revision, also after its deletion.

    [bold]Examples[/bold]
    $ langmem-adapter restore ID 1
    """
    from langmem_adapter.storage.tables import history

    with call.memory() as memory:
        _show(call, memory.restore(memory.parts.reading(call.full_id, history.c.memory_id, id), revision, **call.scope))


def delete(
    call: Invocation,
    id: Annotated[  # noqa: A002 - the same
        str | None, typer.Argument(metavar="ID", help="The memory's id, or its beginning.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete all memories of -u, --agent, --run.")] = False,
    yes: YesOption = False,
) -> None:
    """Delete one memory, or with --all every memory of a user, agent or run; the history stays.

    In a pipe it prints event, id and text; with --all how many were deleted.

    [bold]Examples[/bold]
    $ langmem-adapter delete ID
    $ langmem-adapter delete --all -u alice
    $ langmem-adapter delete --all -u alice --run 17 --yes
    """
    if (id is None) == (not everything):
        raise CommandError("one memory or all of them?", "give an ID, or --all -u NAME")
    from langmem_adapter.storage.tables import memories

    with call.memory() as memory:
        if id is not None:
            _show(call, memory.delete(memory.parts.reading(call.full_id, memories.c.id, id), **call.scope))
            return
        scope = call.effective_scope(memory.scopes)
        if not yes:
            call.confirm("delete", f"every memory of {named(scope)}")
        count = memory.delete_all(**scope)
    picture = f"deleted {count} memories of {named(scope)}; langmem-adapter history ID still shows their history"
    call.output.show([{"deleted": count, **scope}], columns=("deleted",), picture=picture)


def _show(call: Invocation, change: Change) -> None:
    picture = partial(pictures.changes_table, marks=call.output.marks)
    call.output.show([change], columns=("event", "id", "text"), picture=picture)


def purge(call: Invocation, yes: YesOption = False) -> None:
    """Erase a user, agent or run for good: memories, vectors, relations, history.

    It also erases the traces, conversations, jobs and API keys of the scope.
    LangGraph threads and store items have no scope, so they stay: delete them
    first, with delete_thread of the saver and delete of the store.
    Nothing can be restored. No file of the database holds a byte of what was
    erased; an SQLite file is rewritten for that. Exit code 6 if something
    remains because another program still reads it; then purge again.
    In a pipe the numbers are: memories, revisions, words, traces, runs, scopes,
    files (of the index), freed (bytes), relations, entities.

    [bold]Examples[/bold]
    $ langmem-adapter purge -u alice
    $ langmem-adapter purge -u alice --run 17 --yes
    """
    with call.scoped_memory() as (memory, scope):
        if not yes:
            call.confirm("erase", f"everything of {named(scope)}, for good")
        erased = memory.purge(**scope)
    row = {**as_data(erased), **scope}
    call.output.show([row], columns=_ERASED, picture=lambda _: _erasure_table(erased, named(scope)))
    if not erased.complete:
        raise typer.Exit(ExitCode.PARTIAL)


def refine(
    call: Invocation,
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=200, help="Texts per call of the model.")] = 20,
    limit: Annotated[int | None, option(metavar="N", min=1, help="Read at most so many; else all.")] = None,
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the texts beside their facts.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many calls it takes, and do nothing.")] = False,
) -> None:
    """Let the chat model state as facts what offline mode kept in your own words.

    A text in which it finds facts ends, and its history says so; one in which it
    finds none stays and is not read again. Interrupted, it goes on where it
    stopped. In a pipe the numbers are: texts read, facts, texts that ended, texts
    that stay, skipped, left, calls of the model.

    [bold]Examples[/bold]
    $ langmem-adapter refine -u alice --model openai:gpt-5-mini --dry-run
    $ langmem-adapter refine -u alice --model openai:gpt-5-mini
    """
    from langmem_adapter.maintenance.refine import refine as state

    with call.memory() as memory, Steps(call.output, what="texts") as bar:
        if memory.mode == "offline":
            raise InvalidInputError("refine needs a chat model: pass --model, as in --model openai:gpt-5-mini")
        how: dict[str, Any] = {"batch": batch, "limit": limit, "keep": keep, "dry_run": dry_run}
        report = state(memory, progress=bar.show, **how, **call.effective_scope(memory.scopes))
    if report.is_dry_run:
        picture = f"{report.memories} texts to read, at most {report.calls} calls of {report.mode}; nothing was done"
    else:
        picture = f"{report.memories} texts read by {report.mode}: {report.facts} facts, {report.ended} texts ended, "
        picture += f"{report.kept} stay" + (f"; {report.left} left" if report.left else "")
    call.output.show([report], columns=_REFINED, picture=picture)


def reindex(
    call: Invocation,
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Texts per call of the model.")] = 256,
) -> None:
    """Change the embedding model: embed every memory anew with --embeddings.

    Others may read and write meanwhile with the old model. Interrupted, it goes
    on where it stopped; with the model in use, it drops what was prepared.

    [bold]Examples[/bold]
    $ langmem-adapter reindex --embeddings openai:text-embedding-3-small
    $ langmem-adapter reindex -d memory.db --embeddings hash:512
    """
    from langmem_adapter.maintenance.reindex import reindex as change

    call.refuse_absent()
    settings = call.settings
    embeddings = call.options["embeddings"] or settings.embeddings
    with Steps(call.output, what="memories") as bar:
        report = change(call.options["database"], embeddings, batch=batch, progress=bar.show, settings=settings)
    made = f"{report.embedded} embedded now" + (f", {report.resumed} before" if report.resumed else "")
    picture = f"{report.memories} memories have vectors of {report.after} now, instead of {report.before} ({made})"
    if report.before == report.after:
        picture = f"{report.memories} memories have vectors of {report.after} already"
    call.output.show([report], columns=("memories", "before", "after"), picture=picture)
    if embeddings != settings.embeddings:
        call.output.note(f"from now on: export LANGMEM_ADAPTER_EMBEDDINGS={shlex.quote(embeddings)}", whole=True)


def _erasure_table(erased: "Erasure", who: str) -> Table:
    table = Table(title=Text(visible(f"erased: {who}")), title_justify="left", show_header=False, box=None)
    for name in _ERASED:
        table.add_row(Text(name), Text(f"{getattr(erased, name):,}{' bytes' if name == 'freed' else ''}"))
    for remains in erased.remains:
        table.add_row(Text("remains", style="bold yellow"), Text(visible(remains)))
    return table
