"""Commands that change by hand: `update` and `delete`."""

from typing import TYPE_CHECKING, Annotated

import typer

from langmem_adapter.cli import pictures
from langmem_adapter.cli.add import json_object
from langmem_adapter.cli.failures import CommandError, ExitCode
from langmem_adapter.cli.look import IdArgument
from langmem_adapter.cli.options import Invocation, named, option
from langmem_adapter.records.plain import as_data
from langmem_adapter.records.work import Change

if TYPE_CHECKING:
    from langmem_adapter.memory.memory import Memory

__all__ = ["delete", "update"]


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
        raise CommandError(
            "nothing to change", code="usage", exit_code=ExitCode.USAGE, hint="give the new TEXT, or --metadata"
        )
    from langmem_adapter.storage.tables import memories

    with call.memory() as memory:
        memory_id, new = call.whole(memory, memories.c.id, id), " ".join(text) if text else None
        _show(call, memory.update(memory_id, new, metadata=json_object(metadata), **call.scope))


def delete(
    call: Invocation,
    id: Annotated[  # noqa: A002 - the same
        str | None, typer.Argument(metavar="ID", help="The memory's id, or its beginning.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete all memories of -u, --agent, --run.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete one memory, or with --all every memory of a user, agent or run; the history stays.

    In a pipe it prints event, id and text; with --all how many were deleted.

    [bold]Examples[/bold]
    $ langmem-adapter delete ID
    $ langmem-adapter delete --all -u alice
    $ langmem-adapter delete --all -u alice --run 17 --yes
    """
    if (id is None) == (not everything):
        raise CommandError(
            "one memory or all of them?", code="usage", exit_code=ExitCode.USAGE, hint="give an ID, or --all -u NAME"
        )
    from langmem_adapter.storage.tables import memories

    with call.memory() as memory:
        if id is not None:
            _show(call, memory.delete(call.whole(memory, memories.c.id, id), **call.scope))
        else:
            _delete_all(call, memory, yes=yes)


def _delete_all(call: Invocation, memory: "Memory", *, yes: bool) -> None:
    whose = call.whose(memory.scopes)
    if not yes:
        call.confirm("delete", f"every memory of {named(whose)}")
    count = memory.delete_all(**whose)
    call.output.show(
        [{"deleted": count, **whose}],
        columns=("deleted",),
        picture=lambda: (
            f"deleted {count} memories of {named(whose)}; langmem-adapter history ID still tells their story"
        ),
    )


def _show(call: Invocation, change: Change) -> None:
    marks = call.output.out.no_color
    call.output.show(
        [as_data(change)],
        columns=("event", "id", "text"),
        picture=lambda: pictures.changes_table([change], marks=marks),
    )
