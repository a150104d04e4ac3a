"""Commands for a whole database or scope: `purge` and `reindex`."""

import shlex
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from langmem_adapter.cli.failures import ExitCode
from langmem_adapter.cli.options import Invocation, named
from langmem_adapter.cli.output import visible
from langmem_adapter.cli.progress import Steps
from langmem_adapter.records.plain import as_data

if TYPE_CHECKING:
    from langmem_adapter.maintenance.reindex import Reindexed
    from langmem_adapter.storage.erasure import Erasure

__all__ = ["purge", "reindex"]

_COUNTED: Final = tuple("memories revisions words traces runs scopes snapshots freed relations entities".split())
_BATCH: Final = 256


def purge(
    call: Invocation,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Erase a user, agent or run for good: memories, vectors, relations, history.

    Nothing can be restored. No file of the database holds a byte of it
    afterwards; an SQLite file is rewritten for that. Exit code 6 if something
    remains because another program still reads it; then purge again.
    In a pipe the numbers are: memories, revisions, words, traces, runs, scopes,
    snapshots, freed (bytes), relations, entities.

    [bold]Examples[/bold]
    $ langmem-adapter purge -u alice
    $ langmem-adapter purge -u alice --run 17 --yes
    """
    with call.memory() as memory:
        whose = call.whose(memory.scopes)
        if not yes:
            call.confirm("erase", f"everything of {named(whose)}", ending=", for good")
        erased = memory.purge(**whose)
        call.output.show(
            [{**as_data(erased), **whose}],
            columns=_COUNTED,
            picture=lambda: _picture(erased, named(whose)),
        )
    if not erased.complete:
        raise typer.Exit(ExitCode.PARTIAL)


def reindex(
    call: Invocation,
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Texts per call of the model.")] = _BATCH,
) -> None:
    """Change the embedding model: embed every memory anew with --embeddings.

    Others may read and write meanwhile with the old model. Interrupted, it goes
    on where it stopped; with the model in use, it drops what was prepared.

    [bold]Examples[/bold]
    $ langmem-adapter reindex --embeddings openai:text-embedding-3-small
    $ langmem-adapter reindex -d memory.db --embeddings hash:512
    """
    from langmem_adapter.maintenance.reindex import reindex as change

    settings = call.settings
    call.refuse_absent()
    embeddings = call.options["embeddings"] or settings.embeddings
    with Steps(call.output, what="memories") as bar:
        done = change(call.options["database"], embeddings, batch=batch, progress=bar.show, settings=settings)
    call.output.show([as_data(done)], columns=("memories", "before", "after"), picture=lambda: Text(_told(done)))
    if embeddings != settings.embeddings:
        call.output.note(f"from now on: export LANGMEM_ADAPTER_EMBEDDINGS={shlex.quote(embeddings)}", whole=True)


def _told(done: "Reindexed") -> str:
    if done.before == done.after:
        return f"{done.memories} memories have vectors of {done.after} already"
    made = f"{done.embedded} embedded now" + (f", {done.resumed} before" if done.resumed else "")
    return f"{done.memories} memories have vectors of {done.after} now, instead of {done.before} ({made})"


def _picture(erased: "Erasure", who: str) -> Table:
    table = Table(title=Text(visible(f"erased: {who}")), title_justify="left", show_header=False, box=None)
    for name in _COUNTED:
        table.add_row(Text(name), Text(f"{getattr(erased, name):,}{' bytes' if name == 'freed' else ''}"))
    for remains in erased.remains:
        table.add_row(Text("remains", style="bold yellow"), Text(visible(remains)))
    return table
