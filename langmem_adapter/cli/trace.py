"""The command `trace`: what adds saw and did; a list of them, or all of one."""

from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Group
from rich.text import Text

from langmem_adapter.cli import pictures
from langmem_adapter.cli.options import After, Invocation, Limit, named
from langmem_adapter.cli.output import visible
from langmem_adapter.records.plain import as_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from langmem_adapter.records.cost import ModelCall
    from langmem_adapter.storage.traces import Trace, TraceSummary

__all__ = ["trace"]

_SAID: Final = 60
_LISTED: Final = ("id", "created_at", "said", "facts", "events", "mode", "model_calls", "milliseconds")
_SHOWN: Final = ("id", "created_at", "turns", "facts", "candidates", "decisions", "calls", "result")


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
    if id is None:
        _list(call, limit, after)
    else:
        _show(call, id)


def _list(call: Invocation, limit: int, after: str | None) -> None:
    from langmem_adapter.storage import traces

    with call.reading() as connection:
        page, following = traces.page(connection, call.scope_in(connection), k=limit, after=after)
        call.output.show(page, columns=_LISTED, picture=_table, next=following)
        if not page:
            call.tell_empty("traces", connection)


def _show(call: Invocation, given: str) -> None:
    from langmem_adapter.storage import tables, traces

    with call.reading() as connection:
        found = traces.read(connection, call.whole_id(connection, tables.traces.c.id, given), call.within)
        row = {name: value for name, value in as_data(found).items() if name != "state"}
        call.output.show([row], columns=_SHOWN, picture=lambda _: _picture(found, marks=call.output.marks))


def _table(page: "Sequence[TraceSummary]") -> "Table":
    return pictures.plain_table(("said", "did", "cost", "when (UTC)"), map(_summary, page))


def _summary(did: "TraceSummary") -> tuple[Text, ...]:
    said = did.said if len(did.said) <= _SAID else f"{did.said[: _SAID - 1]}…"
    counted = (pictures.event_text(event, count) for event, count in sorted(did.events.items()) if count)
    when = Text(pictures.moment(did.created_at), style="dim", no_wrap=True)
    return pictures.with_id(said, did), Text(" ").join(counted), _cost(did.model_calls, did.milliseconds), when


def _cost(calls: int, milliseconds: float) -> Text:
    asked = f"{calls} call{'s' if calls > 1 else ''}, " if calls else ""
    return Text(f"{asked}{milliseconds:.0f} ms", style="dim", no_wrap=True)


def _picture(found: "Trace", *, marks: bool) -> "RenderableType":
    usage = found.result.usage
    spent = _cost(usage.model_calls, sum(usage.milliseconds.values()))
    return Group(
        Text.assemble((found.id, "bold"), (f"  {visible(named(found.scope.named))}", "dim")),
        Text.assemble((f"{pictures.moment(found.created_at)}  {visible(found.result.mode)}  ", "dim"), spent),
        _part("said", [f"{turn.actor}: {turn.text}" for turn in found.turns]),
        _part("facts", [fact.text for fact in found.facts]),
        _part("compared with", [known["text"] for known in found.candidates.get("known", ())]),
        pictures.changes_table(found.result.results, marks=marks),
        *map(_asked, found.calls),
    )


def _part(name: str, lines: list[str]) -> Text:
    told = Text("\n").join(Text(f"  {visible(line)}") for line in lines or ["-"])
    return Text.assemble("\n", (name, "bold"), "\n", told)


def _asked(call: "ModelCall") -> Text:
    said = [f"{role}: {text}" for role, text in (*call.messages, ("reply", call.reply))]
    return _part(f"model: {call.task}", said)
