"""The commands `backup`, `copy`, `export` and `import`."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from langmem_adapter.cli.inputs import STDIN, of_file
from langmem_adapter.cli.options import Invocation, option
from langmem_adapter.cli.output import CommandError, Steps, counted
from langmem_adapter.records.escapes import MEMORY_COLUMNS, memory_line
from langmem_adapter.records.scope import SCOPE_FIELDS, as_data

if TYPE_CHECKING:
    from langmem_adapter.storage.backup import CopyReport
    from langmem_adapter.storage.lossless.imports import ImportReport


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
    from langmem_adapter.storage.backup import copy as write

    with Steps(call.output, what="%") as bar:
        report = write(source, target, replace=replace, progress=bar.show, settings=call.settings)
    _show(call, report)


def _show(call: Invocation, report: "CopyReport") -> None:
    memories = counted(report.memories, "memory")
    picture = f"{report.location}: {memories}, up to change {report.changes:,}"
    call.output.show([report], columns=("location", "memories", "changes"), picture=picture)


Everything = Annotated[bool, typer.Option("--everything", help="All scopes, and the items of the LangGraph store.")]

_IMPORTED: Final = ("lines", "added", "known", "rejected")
_PAGE: Final = 500


def export(
    call: Invocation,
    file: Annotated[str, option("--output", "-o", metavar="FILE", help="Where to; - is stdout.")],
    format: Annotated[  # noqa: A002 - the option's name
        Literal["full", "lines", "csv"], typer.Option(help="Without loss, or memories alone as JSON lines or a table.")
    ] = "full",
    *,
    everything: Everything = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="With vectors: import needs not embed again.")] = False,
) -> None:
    """Write all that a user, agent or run has, with history, graph and conversations, as JSON lines.

    import makes the same again. lines and csv have the memories of today alone,
    to be read elsewhere. For whole databases with checkpoints and keys use copy.

    [bold]Examples[/bold]
    $ langmem-adapter export -o alice.jsonl -u alice
    $ langmem-adapter export -o - --everything --vectors | gzip > all.jsonl.gz
    $ langmem-adapter export -o alice.csv --format csv -u alice
    """
    from langmem_adapter.knowledge.exchange import writing

    target: Any = sys.stdout.buffer if file == STDIN else file
    with of_file(file, "write"):
        if format == "full":
            with writing(target) as write:
                number = _write_full(call, write, everything=everything, vectors=vectors)
        elif everything or vectors:
            raise CommandError(f"--format {format} has the memories of a scope, without vectors", "leave it out")
        else:
            with call.scoped_memory() as (memory, scope), writing(target) as write:
                number = _write_memories(memory, scope, write, table=format == "csv")
    summary = counted(number, "line" if format == "full" else "memory")
    if file == STDIN:
        call.output.note(summary)
    else:
        call.output.show([{"lines": number, "file": file}], columns=("lines", "file"), picture=f"{summary}: {file}")


def _write_full(call: Invocation, write: Callable[[str], object], *, everything: bool, vectors: bool) -> int:
    from langmem_adapter.storage.lossless.export import export_lines

    with call.database() as database, Steps(call.output, what="lines") as bar:
        with database.read() as connection:
            scope = None if everything else call.scope_in(connection)
        total = number = 0
        for number, line in enumerate(export_lines(database, scope, vectors=vectors)):
            if number == 0:
                total = sum(json.loads(line)["counts"].values())
            write(line.decode())
            bar.show(number, total)
    return number - 1


def _write_memories(memory: Any, scope: dict[str, Any], write: Callable[[str], object], *, table: bool) -> int:
    how: dict[str, Any] = {**scope, "include_expired": True, "k": _PAGE}
    page, number = memory.get_all(**how), 0
    if table:
        write(f"\ufeff{MEMORY_COLUMNS}")
    while page:
        for each in page:
            write(memory_line(each) if table else f"{json.dumps(as_data(each), ensure_ascii=False)}\n")
        number += len(page)
        page = memory.get_all(**how, after=page.next) if page.next is not None else ()
    return number


def import_(
    call: Invocation,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What export wrote; - for stdin.")],
    as_: Annotated[
        list[str] | None,
        option("--as", metavar="FIELD=NAME", help="Another name for the one scope in it, as user_id=bob."),
    ] = None,
    *,
    everything: Everything = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and write nothing.")] = False,
) -> None:
    """Import what export wrote: the same ids, histories, relations and conversations.

    Imported again, everything is known. Interrupted, it goes on where it stopped.
    Lines that are rejected are named in FILE.rejected.jsonl, each with its number
    and the reason; then, and where the file has no end, the exit code is 6.
    In a pipe the numbers are: lines, added, known, rejected.

    [bold]Examples[/bold]
    $ langmem-adapter import alice.jsonl
    $ langmem-adapter import alice.jsonl --as user_id=bob --dry-run
    $ gunzip -c all.jsonl.gz | langmem-adapter import - --everything
    """
    from langmem_adapter.storage import meta
    from langmem_adapter.storage.lossless.imports import read_header

    fields = dict(each.partition("=")[::2] for each in as_ or ())
    if not all(fields.values()) or not fields.keys() <= set(SCOPE_FIELDS):
        raise CommandError("--as is FIELD=NAME", "write --as user_id=bob")
    rejected = RejectedLines(call, STDIN if dry_run else file)
    call.options["model"] = "offline"  # none is called
    with ExitStack() as opened:
        opened.enter_context(of_file(file, "read"))
        stream: Any = sys.stdin.buffer if file == STDIN else opened.enter_context(Path(file).open("rb"))
        first = stream.readline()
        if read_header(first).get("scopes") is None and not everything and not call.scope:
            raise CommandError("this file holds all scopes", "give --everything, or -u NAME for one user's")
        memory = opened.enter_context(call.memory(create=True, quiet=True))
        call.output.aside(memory.location)
        model = meta.spelled(memory.parts.fingerprint)[0]
        bar = opened.enter_context(Steps(call.output, what="lines"))

        def show(done: int, total: int) -> None:
            if not done:  # it begins anew
                rejected.remove()
            bar.show(done, total)

        report = memory.import_(
            chain([first], stream),
            as_scope=fields or None,
            dry_run=dry_run,
            name=file,
            announce=lambda count: call.output.note(f"embedding up to {count:,} memories with {model}"),
            rejected=rejected.write,
            progress=show,
            **({} if everything else call.scope),
        )
    _report(call, report, rejected)


class RejectedLines:
    """The rejected lines: a file beside the imported one, which only its owner may read; of stdin and of a dry run notes."""

    def __init__(self, call: Invocation, file: str) -> None:
        self._call = call
        self.path = None if file == STDIN else Path(f"{file}.rejected.jsonl")

    def remove(self) -> None:
        """Remove the file of an earlier run."""
        if self.path is not None:
            with of_file(self.path, "write"):
                self.path.unlink(missing_ok=True)

    def write(self, each: Any) -> None:
        """Keep a line."""
        if self.path is None:
            place = f"line {each.line}" if hasattr(each, "line") else each.place
            self._call.output.aside(f"{place}: {each.reason}", "red", whole=True)
            return
        with of_file(self.path, "write"):
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(handle, "w", encoding="utf-8", errors="backslashreplace") as lines:  # noqa: PTH123 - open already
                lines.write(json.dumps(as_data(each), ensure_ascii=False) + "\n")

    def failure(self, message: str, number: int) -> CommandError:
        """What ends a command that rejected so many lines."""
        hint = f"see {self.path}" if self.path is not None and number else ""
        return CommandError(message, hint, code="partial")


def _report(call: Invocation, report: "ImportReport", rejected: RejectedLines) -> None:
    picture = f"went on at line {report.resumed_at:,}; " if report.resumed_at else ""
    picture += f"{report.lines:,} lines: {report.added:,} added, {report.known:,} known, {report.rejected:,} rejected"
    picture += " (nothing was written)" if report.is_dry_run else ""
    failure = rejected.failure(report.problem or f"{counted(report.rejected, 'line')} rejected", report.rejected)
    call.output.show([report], columns=_IMPORTED, picture=picture, failure=None if report.complete else failure)
