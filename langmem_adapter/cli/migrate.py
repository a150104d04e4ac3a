"""The commands `migrate mem0`, `migrate langgraph`, `migrate threads` and `migrate chat`."""

from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from langmem_adapter.cli.exchange import RejectedLines
from langmem_adapter.cli.inputs import STDIN
from langmem_adapter.cli.options import Invocation, option
from langmem_adapter.cli.output import Steps, one_line
from langmem_adapter.records.scope import as_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langmem_adapter.memory.memory import Memory
    from langmem_adapter.migration.writer import ChatRow, Migration, MigrationReport

__all__ = ["chat", "langgraph", "mem0", "threads"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Count and check, and write nothing.")]
Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="An SQLite file, or the URL of a Postgres database.")]

_COLUMNS: Final = ("read", "added", "unchanged", "left_out")
_MOST: Final = 20  # users that are listed


def mem0(
    call: Invocation,
    where: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="A folder with FAISS or Qdrant files, or JSON of get_all.")
    ] = None,
    history: Annotated[Path | None, option(metavar="PATH", help="history.db; else it is looked for.")] = None,
    collection: Annotated[str | None, option(metavar="NAME", help="The collection, where there are several.")] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Migrate the memories of Mem0 0.1 to 2.x, with their histories.

    Without DIR Mem0's default folders are searched. Each memory keeps its id, dates, user, agent, run,
    metadata, actor and expiry. Memories that name no user become those of -u, deleted ones too.

    [bold]Examples[/bold]
    $ langmem-adapter migrate mem0 --dry-run
    $ langmem-adapter migrate mem0 ./mem0_data -u alice
    """
    from langmem_adapter.migration.mem0 import find_store, memory_rows

    store = find_store(where, history, collection)
    call.output.aside(f"store: {store.memories} · history: {store.history or 'none'}")
    with _migration(call, "mem0", dry_run=dry_run) as (migration, _):
        migration.take(memory_rows(store, call.within, migration.report.lost))


def langgraph(
    call: Invocation,
    address: Address,
    namespace: Annotated[
        str | None, option(metavar="LABELS", help="Where memories are, as memories/{user}; else all stay items.")
    ] = None,
    text: Annotated[
        str | None, option(metavar="FIELD", help="The field with the text; else LangMem's formats.")
    ] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Migrate the items of a LangGraph store; LangMem's memories become memories.

    In --namespace, {user}, {agent} and {run} stand for labels that name the scope;
    without one of them the memories become those of -u. Items elsewhere, or of
    another form, become items of the store. Keys, dates and TTL are kept.

    [bold]Examples[/bold]
    $ langmem-adapter migrate langgraph store.db --dry-run
    $ langmem-adapter migrate langgraph store.db --namespace 'memories/{user}'
    $ langmem-adapter migrate langgraph store.db --namespace 'notes/{user}' --text body
    """
    from langmem_adapter.migration.langgraph import store_rows

    with _migration(call, "langgraph", dry_run=dry_run) as (migration, _):
        migration.take(store_rows(address, namespace, text, call.within))


def threads(
    call: Invocation,
    address: Address,
    allow: Annotated[
        list[str] | None, option(metavar="MODULE:NAME", help="A type of the state that LangGraph does not know.")
    ] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Migrate the threads of a LangGraph checkpointer: history, pending writes and interrupts.

    A graph with SQLAlchemySaver goes on where it stopped. The package of the
    old saver must be installed: langgraph-checkpoint-sqlite or -postgres.

    [bold]Examples[/bold]
    $ langmem-adapter migrate threads checkpoints.db --dry-run
    $ langmem-adapter migrate threads checkpoints.db --allow app.models:Trip
    """
    from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
    from langmem_adapter.migration.langgraph import copy_threads

    types = [tuple(each.split(":")) for each in allow or ()]
    with _migration(call, "threads", dry_run=dry_run) as (migration, memory):
        copy_threads(address, SQLAlchemySaver(memory), migration, allow=types)


def chat(
    call: Invocation,
    source: Annotated[str, typer.Argument(metavar="FILE", help="A file or zip, or the URL of a Postgres database.")],
    remember: Annotated[bool, typer.Option("--remember", help="Find facts in the messages, too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --remember.")] = False,
    *,
    dry_run: DryRun = False,
) -> None:
    """Migrate conversations: exports of ChatGPT or Claude, LangChain's messages, JSON lines.

    Messages are kept word for word, in a conversation for each chat. Those that name no
    user become those of -u. --remember adds them to the memories as well, after it says
    how many model calls that takes.

    [bold]Examples[/bold]
    $ langmem-adapter migrate chat export.zip -u alice --dry-run
    $ langmem-adapter migrate chat conversations.json -u alice --remember
    """
    from langmem_adapter.migration.chats import chat_rows, cost_of, remembered, windows

    def groups() -> "Iterator[Sequence[ChatRow]]":
        return windows(chat_rows(source, call.within, Counter()))

    with _migration(call, "chat", dry_run=dry_run, has_model=remember) as (migration, memory):
        if remember:
            adds, calls, tokens = cost_of(groups(), memory.mode)
            cost = f"{adds:,} adds, at most {calls:,} model calls and about {tokens:,} tokens"
            call.output.note(f"--remember takes {cost}")
            if not (yes or dry_run):
                call.confirm("remember", f"the messages with {cost}")
        migration.take(chat_rows(source, call.within, migration.report.lost))
        if remember and not dry_run:
            with Steps(call.output, adds, what="adds") as bar:
                for group in groups():
                    memory.add(**remembered(group))
                    bar.advance(1)


@contextmanager
def _migration(
    call: Invocation, name: str, *, dry_run: bool, has_model: bool = False
) -> "Iterator[tuple[Migration, Memory]]":
    """A migration under way; afterwards its report is shown."""
    from langmem_adapter.migration.writer import Migration
    from langmem_adapter.storage.sqlite import identity

    if dry_run and call.path is not None and identity(call.path) is None:
        call.options["database"] = ":memory:"  # a dry run makes no file
    rejected = RejectedLines(call, STDIN if dry_run else f"migrate-{name}")
    rejected.remove()
    if not has_model:
        call.options["model"] = "offline"  # none is called, so none need be there
    with ExitStack() as opened:
        memory = opened.enter_context(call.memory(create=True, quiet=not has_model))
        bar = opened.enter_context(Steps(call.output, what="rows"))
        migration = Migration(memory, dry_run=dry_run, rejected=rejected.write, progress=lambda done: bar.show(done, 0))
        yield migration, memory
    report = migration.report
    failure = rejected.failure(f"{report.rejected:,} rows were rejected", report.rejected)
    totals = {name: getattr(report, name).total() for name in _COLUMNS} | {"rejected": report.rejected}
    call.output.show(
        [as_data(report) if call.output.as_json else totals],
        columns=[*totals],
        picture=lambda _: Text("\n".join(map(one_line, _lines(report)))),
        failure=failure if report.rejected else None,
    )


def _lines(report: "MigrationReport") -> "Iterator[str]":
    for kind in sorted(report.read):
        counts = report.read[kind], report.added[kind], report.unchanged[kind]
        if counts[0]:
            yield "{}: {:,} read, {:,} added, {:,} here already".format(kind, *counts)
    for name, counter in (("left out", report.left_out), ("lost", report.lost)):
        yield from (f"{name}: {count:,} {reason}" for reason, count in counter.most_common() if count)
    if report.users:
        users = [f"{name} ({count:,})" for name, count in report.users.most_common(_MOST)]
        more = f" and {len(report.users) - _MOST:,} more" if len(report.users) > _MOST else ""
        yield f"users: {', '.join(users)}{more}"
    if report.is_dry_run or not report.read:
        yield "nothing was written" if report.read else "there is nothing in it"
