"""Commands that copy a whole database: `backup`, and `copy`, which also restores one."""

from typing import TYPE_CHECKING, Annotated

import typer

from langmem_adapter.cli.options import Invocation
from langmem_adapter.cli.output import counted
from langmem_adapter.cli.progress import Steps

if TYPE_CHECKING:
    from langmem_adapter.storage.backup import CopyReport

__all__ = ["backup", "copy"]


def backup(
    call: Invocation,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE where it exists.")] = False,
) -> None:
    """Write a backup of the database into an SQLite file, while it is in use.

    The backup is a database like any other: -d FILE opens it, and copy restores
    it. API keys are in it, sessions and running jobs are not. Only its owner can
    read it. In a pipe it prints location, memories and the last change.

    [bold]Examples[/bold]
    $ langmem-adapter backup backup.db
    $ langmem-adapter backup /mnt/backups/monday.db --force -d memory.db
    """
    from langmem_adapter.storage.backup import backup as write

    with call.database() as database, Steps(call.output, what="%") as bar:
        report = write(database, file, force=force, progress=bar.show)
    _show(call, report)


def copy(
    call: Invocation,
    source: Annotated[str, typer.Argument(metavar="FROM", help="SQLite file, or an SQLAlchemy URL.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The same; a file is made where there is none.")],
    replace: Annotated[bool, typer.Option("--replace", help="Delete what is in TO.")] = False,
) -> None:
    """Copy a whole database, from SQLite to Postgres or back, or restore a backup.

    TO must be empty. With --replace, everything in it is deleted, and programs
    that have it open go on with the copy. Interrupted, TO is as it was.
    In a pipe it prints location, memories and the last change.

    [bold]Examples[/bold]
    $ langmem-adapter copy memory.db postgresql+psycopg://ada@db/memories
    $ langmem-adapter copy backup.db memory.db --replace
    """
    from langmem_adapter.storage.database_copy import copy as write

    with Steps(call.output, what="%") as bar:
        report = write(source, target, replace=replace, progress=bar.show, settings=call.settings)
    _show(call, report)


def _show(call: Invocation, report: "CopyReport") -> None:
    memories = counted(report.memories, "memory")
    picture = f"{report.location}: {memories}, up to change {report.changes:,}"
    call.output.show([report], columns=("location", "memories", "changes"), picture=picture)
