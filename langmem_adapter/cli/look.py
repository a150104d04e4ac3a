"""Commands that look: `search`, `list`, `show`, `history`."""

from functools import partial
from typing import Annotated, Any, Final

import typer

from langmem_adapter.cli import pictures
from langmem_adapter.cli.failures import ExitCode
from langmem_adapter.cli.options import (
    After,
    AsOf,
    GraphOption,
    Invocation,
    KnownAt,
    Limit,
    known_scopes,
    named,
    option,
)
from langmem_adapter.records.plain import as_data
from langmem_adapter.records.scope import SCOPE_FIELDS, Scope

__all__ = ["history", "list_", "search", "show"]

_SHOWN: Final = (
    *("id", "updated_at", "text", *SCOPE_FIELDS),
    *"metadata memory_type actor_id role created_at expires_at revision".split(),
)
IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The memory's id, as list and search show it, or its beginning.")
]


def search(
    call: Invocation,
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for; quotes are not needed.")],
    k: Limit = 10,
    *,
    threshold: Annotated[float | None, option(min=0, max=1, help="Least relevance of a hit.")] = None,
    memory_type: Annotated[str | None, option("--type", help="Only memories of this type.")] = None,
    after: Annotated[str | None, option(metavar="TIME", help="Only what was first said then or later.")] = None,
    before: Annotated[str | None, option(metavar="TIME", help="Only what was first said before.")] = None,
    reference_date: Annotated[
        str | None, option(metavar="TIME", help='When it is asked, which "last week" is told from.')
    ] = None,
    max_tokens: Annotated[
        int | None, option(min=1, help="About how many tokens all of them may have; long ones are cut.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how each score came about; in a pipe as a column of JSON.")
    ] = False,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    graph: GraphOption = None,
) -> None:
    r"""Find memories by meaning and words, best first.

    Nothing found ends with exit code 3.

    [bold]Examples[/bold]
    $ langmem-adapter search where does she live -u alice
    $ langmem-adapter search "favourite food" -u alice -k 3 --explain
    $ langmem-adapter search home -u alice --as-of 2020-05-01
    $ langmem-adapter search what did we do last week -u alice --max-tokens 300
    $ langmem-adapter search lyon -u alice --json | jq '.data\[].text'
    """
    with call.memory(graph=graph) as memory:
        whose = call.whose(memory.scopes)
        when = {"as_of": as_of, "known_at": known_at, "after": after, "before": before}
        when |= {"reference_date": reference_date}
        how: dict[str, Any] = {"k": k, "threshold": threshold, "memory_type": memory_type, "max_tokens": max_tokens}
        how |= {"explain": explain, **when}
        hits = memory.search(" ".join(query), **whose, **how)
        rows = [
            {
                **as_data(hit.item),
                "score": hit.score,
                "relevance": hit.relevance,
                "passage": hit.passage,
                **_explained(hit.explanation),
            }
            for hit in hits
        ]
        columns = (
            "score",
            "relevance",
            "id",
            "passage" if max_tokens else "text",
            *(["explanation"] if explain else []),
        )
        if hits or call.output.as_json or not call.output.on_terminal:
            why = {} if hits.abstained is None else {"abstained": as_data(hits.abstained)}
            call.output.show(rows, columns=columns, picture=lambda: pictures.hits_table(hits), **why)
        if hits.abstained is not None:
            empty = known_scopes(memory.scopes()) or "the database is empty"
            told = empty if hits.abstained.reason == "empty" else str(hits.abstained)
            call.output.note(f"nothing found for {named(whose)}; {told}")
        if not hits:
            raise typer.Exit(ExitCode.NOTHING_FOUND)


def list_(
    call: Invocation,
    limit: Annotated[int, typer.Option("-k", "--limit", min=1, max=10_000, help="At most so many a page.")] = 50,
    after: After = None,
    expired: Annotated[bool, typer.Option("--expired", help="Show what has expired, too.")] = False,
    as_of: AsOf = None,
    known_at: KnownAt = None,
) -> None:
    """List memories, a page at a time.

    [bold]Examples[/bold]
    $ langmem-adapter list -u alice
    $ langmem-adapter list -u alice --limit 100 --after CURSOR
    $ langmem-adapter list -u alice --known-at 2026-05-01
    $ langmem-adapter list -u alice | cut -f 1        the ids, in a pipe
    """
    from langmem_adapter.storage import memories, scopes

    read = memories.page if as_of is known_at is None else _reading_past(as_of, known_at)
    with call.reading() as connection:
        whose = call.whose(partial(scopes.counts, connection))
        page, following = read(connection, Scope(**whose), k=limit, after=after, include_expired=expired)
        rows = [as_data(item) for item in page]
        columns = ("id", "updated_at", "text")
        if page or call.output.as_json or not call.output.on_terminal:
            call.output.show(rows, columns=columns, picture=lambda: pictures.items_table(page), next=following)
        if following is not None:
            call.output.note(f"more: --after {following}", whole=True)
        if not page:
            there = known_scopes(scopes.counts(connection)) or "the database is empty"
            call.output.note(f"no memories of {named(whose)}{' at that time' if as_of or known_at else f'; {there}'}")


def show(call: Invocation, id: IdArgument) -> None:  # noqa: A002 - the name of the argument in the usage line
    """Show one memory with everything about it.

    In a pipe these are columns: id, updated_at, text, user_id, agent_id, run_id,
    metadata, memory_type, actor_id, role, created_at, expires_at, revision.

    [bold]Examples[/bold]
    $ langmem-adapter show 0f8fad5b-d9cb-469f-a165-70867728950e
    $ langmem-adapter show 0f8f -u alice        as much of it as tells it from others
    """
    from langmem_adapter.storage import memories, tables

    with call.reading() as connection:
        item = memories.get(connection, call.whole_id(connection, tables.memories.c.id, id), call.within)
        call.output.show([as_data(item)], columns=_SHOWN, picture=lambda: pictures.card(item))


def history(call: Invocation, id: IdArgument) -> None:  # noqa: A002 - the same
    """Show how a memory came to be what it is: every revision, what it changed and why.

    Deleted memories keep their history.

    [bold]Examples[/bold]
    $ langmem-adapter history 0f8fad5b-d9cb-469f-a165-70867728950e
    """
    from langmem_adapter.storage import memories, tables

    with call.reading() as connection:
        memory_id = call.whole_id(connection, tables.history.c.memory_id, id)
        revisions = memories.revisions(connection, memory_id, call.within)
        marks = call.output.out.no_color or not call.output.out.is_terminal
        columns = ("revision", "event", "created_at", "old_text", "new_text", "reason", "valid_from", "valid_to")
        call.output.show(
            [as_data(revision) for revision in revisions],
            columns=columns,
            picture=lambda: pictures.life(revisions, marks=marks),
        )


def _reading_past(as_of: str | None, known_at: str | None) -> Any:
    from langmem_adapter.storage import past

    return partial(past.page_then, when=past.then_of(as_of, known_at) or past.Then())


def _explained(explanation: Any) -> dict[str, Any]:
    return {} if explanation is None else {"explanation": as_data(explanation)}
