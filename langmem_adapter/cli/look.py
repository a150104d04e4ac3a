"""The commands `search`, `list`, `show`, `history`, `trace` and `prompts`."""

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.text import Text

from langmem_adapter.cli import pictures
from langmem_adapter.cli.add import json_object
from langmem_adapter.cli.options import (
    After,
    AsOfDate,
    FilterOption,
    GraphOption,
    Invocation,
    KnownAt,
    Limit,
    Timezone,
    named,
    option,
    scopes_in_words,
)
from langmem_adapter.cli.output import ExitCode
from langmem_adapter.records.checks import parse_timezone
from langmem_adapter.records.scope import SCOPE_FIELDS, as_data, as_iso, shallow

if TYPE_CHECKING:
    from langmem_adapter.records.results import Hit

_COLUMNS: Final = (
    *("id", "updated_at", "text", *SCOPE_FIELDS),
    *"metadata memory_type actor_id role created_at expires_at revision is_verbatim".split(),
)
_TRACES: Final = ("id", "created_at", "said", "facts", "events", "mode", "model_calls", "milliseconds")
_TRACE: Final = ("id", "created_at", "turns", "facts", "candidates", "decisions", "calls", "result")
IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The memory's id, as list and search show it, or its beginning.")
]


def search(
    call: Invocation,
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for; quotes are not needed.")],
    k: Limit = 10,
    *,
    threshold: Annotated[str | None, option(metavar="NUMBER|auto", help="Least relevance of a hit, 0 to 1.")] = None,
    memory_type: Annotated[str | None, option("--type", help="Only memories of this type.")] = None,
    after: Annotated[str | None, option(metavar="TIME", help="Only what was first said then or later.")] = None,
    before: Annotated[str | None, option(metavar="TIME", help="Only what was first said before.")] = None,
    reference_date: Annotated[
        str | None, option(metavar="TIME", help='When it is asked, which "last week" is counted from.')
    ] = None,
    timezone: Timezone = None,
    max_tokens: Annotated[
        int | None, option(min=1, help="About how many tokens all of them may have; long ones are cut.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how each score came about; in a pipe as a column of JSON.")
    ] = False,
    filter: FilterOption = None,  # noqa: A002 - the option's name
    as_of: AsOfDate = None,
    known_at: KnownAt = None,
    graph: GraphOption = None,
) -> None:
    r"""Find memories by meaning and words, the most relevant first.

    Nothing found ends with exit code 3.

    [bold]Examples[/bold]
    $ langmem-adapter search where does she live -u alice
    $ langmem-adapter search "favourite food" -u alice -k 3 --explain
    $ langmem-adapter search home -u alice --as-of 2020-05-01
    $ langmem-adapter search what did we do last week -u alice --max-tokens 300
    $ langmem-adapter search food -u alice --filter '{"topic": "travel"}'
    $ langmem-adapter search lyon -u alice --json | jq '.data\[].text'
    """
    least: Any = threshold
    with suppress(ValueError, TypeError):  # "auto", or what `Memory.search` refuses
        least = float(least)
    how: dict[str, Any] = {"threshold": least, "memory_type": memory_type, "max_tokens": max_tokens, "explain": explain}
    how |= {"as_of": as_of, "known_at": known_at, "after": after, "before": before}
    how |= {"reference_date": reference_date, "timezone": timezone, "filters": json_object(filter, "--filter")}
    with call.scoped_memory(graph=graph) as (memory, scope):
        hits = memory.search(" ".join(query), k=k, **scope, **how)
        text = "passage" if max_tokens else "text"
        columns = ["relevance", "score", "id", text, *(["explanation"] if explain else [])]
        why: dict[str, Any] = {} if hits.abstained is None else {"abstained": as_data(hits.abstained)}
        ordered = sorted(hits, key=lambda hit: (hit.relevance, hit.score), reverse=True)
        call.output.show(ordered, columns=columns, picture=pictures.hits_table, row=_row, **why)
        if hits.abstained is not None:
            reason = scopes_in_words(memory.scopes()) if hits.abstained.reason == "empty" else str(hits.abstained)
            call.output.note(f"nothing found for {named(scope)}; {reason}")
        if not hits:
            raise typer.Exit(ExitCode.NOTHING_FOUND)


def _row(hit: "Hit") -> dict[str, Any]:
    why = {} if hit.explanation is None else {"explanation": as_data(hit.explanation)}
    return {**as_data(hit.item), "score": hit.score, "relevance": hit.relevance, "passage": hit.passage, **why}


def list_(
    call: Invocation,
    limit: Annotated[int, typer.Option("-k", "--limit", min=1, max=10_000, help="At most so many a page.")] = 50,
    after: After = None,
    expired: Annotated[bool, typer.Option("--expired", help="Show what has expired, too.")] = False,
    filter: FilterOption = None,  # noqa: A002 - the option's name
    as_of: AsOfDate = None,
    known_at: KnownAt = None,
) -> None:
    """List memories, a page at a time.

    [bold]Examples[/bold]
    $ langmem-adapter list -u alice
    $ langmem-adapter list -u alice --limit 100 --after CURSOR
    $ langmem-adapter list -u alice --as-of 2026-05-01
    $ langmem-adapter list -u alice --filter '{"topic": {"in": ["travel", "food"]}}'
    $ langmem-adapter list -u alice | cut -f 1        the ids, in a pipe
    """
    from langmem_adapter.filters import parse_filter
    from langmem_adapter.storage import memories

    filters = parse_filter(json_object(filter, "--filter"))
    now = as_of is None and known_at is None
    read: Any = memories.page
    if not now:
        when = memories.parse_as_of(as_of, known_at, parse_timezone(call.settings.timezone)) or memories.AsOf()
        read = partial(memories.page_as_of, when=when)
    with call.reading() as connection:
        scope = call.scope_in(connection)
        page, following = read(connection, scope, k=limit, after=after, include_expired=expired, filters=filters)
        columns = ("id", "updated_at", "text")
        call.output.show(page, columns=columns, picture=pictures.items_table, next=following)
        if not page and filter:
            call.output.note(f"no memories of {named(call.scope)} fit the filter")
        elif not page and now:
            call.tell_empty("memories", connection)
        elif not page:
            call.output.note(f"no memories of {named(call.scope)} at that time")


def users(call: Invocation) -> None:
    """List the scopes: users, agents and runs, with the number of memories.

    [bold]Examples[/bold]
    $ langmem-adapter users
    """
    from langmem_adapter.storage import scopes

    with call.reading() as connection:
        counts = scopes.counts(connection)
    rows = [
        {**shallow(each.scope), "memories": each.memories, "updated_at": as_iso(each.updated_at)} for each in counts
    ]
    cells = (
        (Text(named(each.scope.named)), Text(f"{each.memories:,}"), Text(pictures.moment(each.updated_at)))
        for each in counts
    )
    columns, head = (*SCOPE_FIELDS, "memories", "updated_at"), ("scope", "memories", "updated")
    call.output.show(rows, columns=columns, picture=lambda _: pictures.plain_table(head, cells))
    if not counts:
        call.output.note("the database is empty")


def show(call: Invocation, id: IdArgument) -> None:  # noqa: A002 - the name of the argument in the usage line
    """Show one memory with everything about it.

    In a pipe these are columns: id, updated_at, text, user_id, agent_id, run_id,
    metadata, memory_type, actor_id, role, created_at, expires_at, revision, is_verbatim.

    [bold]Examples[/bold]
    $ langmem-adapter show 0f8fad5b-d9cb-469f-a165-70867728950e
    $ langmem-adapter show 0f8f -u alice        as much of it as tells it from others
    """
    from langmem_adapter.storage import memories, tables

    with call.reading() as connection:
        item = memories.get(connection, call.full_id(connection, tables.memories.c.id, id), call.within)
        call.output.show([item], columns=_COLUMNS, picture=lambda _: pictures.card(item))


def history(call: Invocation, id: IdArgument) -> None:  # noqa: A002 - the same
    """Show how a memory came to be what it is: every revision, what it changed and why.

    Deleted memories keep their history.

    [bold]Examples[/bold]
    $ langmem-adapter history 0f8fad5b-d9cb-469f-a165-70867728950e
    """
    from langmem_adapter.storage import memories, tables

    with call.reading() as connection:
        memory_id = call.full_id(connection, tables.history.c.memory_id, id)
        revisions = memories.revisions(connection, memory_id, call.within)
        columns = ("revision", "event", "created_at", "old_text", "new_text", "reason", "valid_from", "valid_to")
        call.output.show(revisions, columns=columns, picture=partial(pictures.timeline, marks=call.output.marks))


def trace(
    call: Invocation,
    id: Annotated[  # noqa: A002 - the name of the argument in the usage line
        str | None, typer.Argument(metavar="[ID]", help="The id of one, or its beginning; without it they are listed.")
    ] = None,
    limit: Limit = 20,
    after: After = None,
) -> None:
    r"""Show what adds saw and did: all of one, or a list, the newest first.

    Of one: what was said, the facts in it, what was decided and why, every
    prompt and reply of the model. Traces are kept for 30 days, or for
    LANGMEM_ADAPTER_TRACE_DAYS.

    [bold]Examples[/bold]
    $ langmem-adapter trace -u alice
    $ langmem-adapter trace 0f8fad5b
    $ langmem-adapter trace 0f8fad5b --json | jq -r '.data\[].calls\[].reply'
    """
    from langmem_adapter.storage import tables, traces

    with call.reading() as connection:
        if id is not None:
            one = traces.read(connection, call.full_id(connection, tables.traces.c.id, id), call.within)
            row = {name: value for name, value in as_data(one).items() if name != "state"}
            marks = call.output.marks
            call.output.show([row], columns=_TRACE, picture=lambda _: pictures.whole_trace(one, marks=marks))
            return
        page, following = traces.page(connection, call.scope_in(connection), k=limit, after=after)
        call.output.show(page, columns=_TRACES, picture=pictures.traces_table, next=following)
        if not page:
            call.tell_empty("traces", connection)


def prompts(
    call: Invocation,
    task: Annotated[
        Literal[
            "user", "assistant", "small", "graph", "kept", "decide", "record", "summary", "title", "related", "rewrite"
        ],
        typer.Argument(help="What the model is asked for."),
    ] = "user",
) -> None:
    """Show the instructions that a chat model gets, as a beginning for your own.

    user and assistant: to find facts about one of them. small: the same for a
    small model. graph: added to that where relations are wanted, too. kept: instead of these, to find relations in
    memories. decide: to compare facts with memories. record: to write down the
    steps of an agent. summary, title: to sum up a conversation. related: whether
    two texts belong together. rewrite: to complete a sentence from its context.
    The data follows in a separate message, which says where it ends and what
    form the reply has.

    [bold]Examples[/bold]
    $ langmem-adapter prompts
    $ langmem-adapter prompts decide > decide.md
    """
    from langmem_adapter.reasoning.prompts import instructions

    call.output.write(instructions(task), task=task)
