"""Tables and other pictures for a terminal (Rich): memories, hits, changes, history with word diffs, traces, relations.

Colour is never the only sign: events have a sign and a name, and without colour a diff has marks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from langmem_adapter.cli.options import named
from langmem_adapter.cli.output import counted, visible
from langmem_adapter.records.escapes import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from langmem_adapter.records.graph import Entity, MergeSuggestion, Neighbour, Relation, RelationChange
    from langmem_adapter.records.results import Change, Explanation, Hit, MemoryItem, Revision
    from langmem_adapter.storage.traces import Trace, TraceSummary

_LETTERS: Final = 60  # of a message in a list of traces
_LEAST_PART: Final = 0.005  # of a score that two digits show
_EVENTS: Final = {
    "ADD": ("+", "bold green"),
    "UPDATE": ("~", "bold yellow"),
    "DELETE": ("-", "bold red"),
    "NONE": ("=", "bold blue"),
}
_RELATIONS: Final = {
    "ADD": ("+", "bold green", ""),
    "UPDATE": ("~", "bold yellow", "other dates"),
    "END": ("-", "bold red", "ended"),
    "DELETE": ("-", "bold red", "withdrawn"),
    "NONE": ("=", "bold blue", "known already"),
}
_MARKED: Final = {"same": ("", "", ""), "gone": ("[-", "-]", "red strike"), "came": ("{+", "+}", "green underline")}
_WIDE: Final = ("memory", "said", "relation", "relations", "also called", "why")  # columns that share what is left
_ROOM: Final = 72  # where an id, and a user's that is as long, fit in a line beside the other columns


def plain_table(columns: Iterable[str], rows: Iterable[Iterable[RenderableType]]) -> Table:
    """A table in the style of this command."""
    table = _Stacking(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, expand=True)
    for column in columns:
        table.add_column(column, overflow="fold", ratio=1 if column in _WIDE else None)
    for row in rows:
        table.add_row(*row)
    return table


class _Stacking(Table):
    """A table that stacks the cells of a row where an id does not fit in its column."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, or a block of lines for each row."""
        if options.max_width >= _ROOM or not any(column.header in _WIDE for column in self.columns):
            yield from super().__rich_console__(console, options)
            return
        for row in zip(*(column.cells for column in self.columns), strict=True):
            for column, cell in zip(self.columns, row, strict=True):
                label = "" if column.header in _WIDE else f"{column.header} "
                if cell:
                    yield Text.assemble((label, "dim"), cell)
            yield ""


def event_text(event: str, count: int | None = None) -> Text:
    """An event as sign and name, with how often it happened."""
    sign, style = _EVENTS[event]
    return Text(f"{sign} {event}" if count is None else f"{sign} {count} {event}", style=style, no_wrap=True)


def moment(when: datetime | None) -> str:
    """A time to the minute, at its own UTC offset."""
    return "" if when is None else f"{when:%Y-%m-%d %H:%M}"


def items_table(items: Iterable[MemoryItem]) -> Table:
    """Memories, each with its id below, ready to be copied."""
    rows = ((_with_id(item.text, item), _dim(moment(item.updated_at))) for item in items)
    return plain_table(("memory", "updated"), rows)


def hits_table(hits: Iterable[Hit]) -> Table:
    """Search results, best first; with the score, which compares with no other search's, where its parts were asked for."""
    return plain_table(("relevance", "memory", "updated"), map(_hit, hits))


def _hit(hit: Hit) -> tuple[Text, ...]:
    text = _with_id(hit.item.text if hit.passage is None else hit.passage, hit.item)
    if hit.explanation is not None:
        text.append(f"\n{_reasons(hit.score, hit.explanation)}", style="dim italic")
    return Text(f"{hit.relevance:.2f}", style="cyan"), text, _dim(moment(hit.item.updated_at))


def _reasons(score: float, why: Explanation) -> str:
    ranks = {name: f" (#{rank})" for name, rank in why.ranks.items()}
    lists = f"meaning {why.meaning:z.2f}{ranks.get('meaning', '')} · words {why.words:z.2f}{ranks.get('words', '')}"
    parts = " ".join(f"{part:+.2f} {name}" for name, part in why.parts.items() if abs(part) >= _LEAST_PART)
    return f"{lists} · {why.strategy}\nscore {score:.2f}: {parts}"


def changes_table(changes: Iterable[Change], *, marks: bool) -> Table:
    """What an add did, with the reasons."""
    rows = (
        (event_text(change.event), _became(change, marks=marks), Text(visible(change.reason), style="dim"))
        for change in changes
    )
    return plain_table(("event", "memory", "why"), rows)


def _became(change: Change, *, marks: bool) -> Text:
    """A change, with those of relations except NONE."""
    related = (_relation_line(each) for each in change.relations if each.event != "NONE")
    return Text("\n").join([changed(change, marks=marks), *related])


def changed(change: Change, *, marks: bool) -> Text:
    """The text of a change; an update as a word diff."""
    if change.event == "UPDATE" and change.previous_text is not None:
        return word_diff(change.previous_text, change.text, marks=marks)
    style = {"DELETE": "red", "NONE": "dim"}.get(change.event, "")
    until = "" if change.valid_to is None else f" (held until {moment(change.valid_to)})"
    return Text(visible(change.text), style=style).append(until, style="dim")


def _relation_line(change: RelationChange) -> Text:
    sign, style, note = _RELATIONS[change.event]
    line = Text.assemble((f"  {sign} ", style), edge(change.relation))
    return line.append(f" ({note})", style="dim") if note else line


def edge(relation: Relation) -> Text:
    """A relation in words, the middle one in colour."""
    words = visible(relation.relation.replace("_", " "))
    return Text.assemble(visible(relation.source), " ", (words, "cyan"), " ", visible(relation.target))


def card(item: MemoryItem) -> RenderableType:
    """Everything about one memory."""
    values = {
        "scope": named(item.scope.named),
        "metadata": ", ".join(f"{key}: {value}" for key, value in item.metadata.items()),
        "memory type": item.memory_type or "",
        "said by": " as ".join(dict.fromkeys(filter(None, (item.actor_id, item.role)))),
        "created": moment(item.created_at),
        "updated": moment(item.updated_at),
        "expires": moment(item.expires_at and item.expires_at.astimezone(item.updated_at.tzinfo)),
        "revision": str(item.revision),
    }
    grid = Table.grid(padding=(0, 2))
    for name, value in values.items():
        if value:
            grid.add_row(Text(name, style="dim"), Text(visible(value)))
    return Group(Text(visible(item.text), style="bold"), Text(item.id, style="dim"), grid)


def timeline(revisions: Sequence[Revision], *, marks: bool) -> RenderableType:
    """The revisions of a memory, oldest first, each with its changes."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    for number, revision in enumerate(revisions):
        last = number == len(revisions) - 1
        sign = Text("●" if last else "○", style=_EVENTS[revision.event][1])
        written, true = moment(revision.created_at), moment(revision.valid_from)
        times = written if written == true else f"{written}, true from {true}"
        head = Text.assemble(event_text(revision.event), Text(f"  {times}", style="dim"))
        grid.add_row(sign, Text(f"v{revision.revision}", style="bold"), head)
        grid.add_row(_stem(last), "", word_diff(revision.old_text or "", revision.new_text or "", marks=marks))
        if revision.reason:
            grid.add_row(_stem(last), "", Text(visible(revision.reason), style="dim italic"))
    return grid


def word_diff(old: str, new: str, *, marks: bool) -> Text:
    """The difference of two texts: struck through and underlined, or with *marks* `[-gone-]` and `{+new+}`."""
    if not old:
        return Text(visible(new))
    text, before = Text(), "same"
    for kind, part in differences(visible(old), visible(new)):
        begins, ends, style = _MARKED[kind] if marks else ("", "", _MARKED[kind][2])
        text.append(" " if (before, kind) == ("gone", "came") and not marks else "")
        text.append(f"{begins}{part}{ends}", style=style)
        before = kind
    return text


def _stem(last: bool) -> Text:
    return _dim(" " if last else "│")


def _dim(text: str) -> Text:
    return Text(text, style="dim", no_wrap=True)


def _with_id(text: str, record: MemoryItem | TraceSummary) -> Text:
    """A text, with its record's id and scope below."""
    return Text.assemble(visible(text), "\n", (f"{record.id}  {named(record.scope.named)}", "dim"))


def traces_table(page: Iterable[TraceSummary]) -> Table:
    """Traces of adds, a row each."""
    return plain_table(("said", "did", "cost", "when (UTC)"), map(_summary, page))


def _summary(did: TraceSummary) -> tuple[Text, ...]:
    text = did.said if len(did.said) <= _LETTERS else f"{did.said[: _LETTERS - 1]}…"
    events = (event_text(event, count) for event, count in sorted(did.events.items()) if count)
    cost = _dim(_cost(did.model_calls, did.milliseconds))
    return _with_id(text, did), Text(" ").join(events), cost, _dim(moment(did.created_at))


def _cost(calls: int, milliseconds: float) -> str:
    return f"{counted(calls, 'call')}, {milliseconds:.0f} ms" if calls else f"{milliseconds:.0f} ms"


def whole_trace(trace: Trace, *, marks: bool) -> RenderableType:
    """Everything about one add."""
    usage = trace.result.usage
    spent = _cost(usage.model_calls, sum(usage.milliseconds.values()))
    return Group(
        Text.assemble((trace.id, "bold"), (f"  {named(trace.scope.named)}", "dim")),
        Text(f"{moment(trace.created_at)}  {visible(trace.result.mode)}  {spent}", style="dim"),
        _part("said", [f"{turn.actor}: {turn.text}" for turn in trace.turns]),
        _part("facts", [fact.text for fact in trace.facts]),
        _part("compared with", [each["text"] for each in trace.candidates.get("known", ())]),
        changes_table(trace.result.results, marks=marks),
        *(
            _part(f"model: {call.task}", [f"{role}: {text}" for role, text in (*call.messages, ("reply", call.reply))])
            for call in trace.calls
        ),
    )


def _part(name: str, lines: list[str]) -> Text:
    body = Text("\n").join(Text(f"  {visible(line)}") for line in lines or ["-"])
    return Text.assemble("\n", (name, "bold"), "\n", body)


def relations_table(relations: Iterable[Relation], *, history: bool = False) -> Table:
    """Relations with their ids and times; with *history* also since when and until when each was believed."""
    rows = (
        (
            _relation(each, history=history),
            Text(holds(each), style="" if each.valid_to is None else "dim", no_wrap=True),
        )
        for each in relations
    )
    return plain_table(("relation", "holds (UTC)"), rows)


def _relation(relation: Relation, *, history: bool) -> Text:
    number = len(relation.memory_ids)  # none: by hand, or the memories have changed since it held
    sources = counted(number, "memory") if number else ""
    text = Text.assemble(edge(relation), "\n", (f"{relation.id}  {sources}", "dim"))
    if history:
        until = "" if relation.retired_at is None else f", until {moment(relation.retired_at)}"
        text.append(f"\nbelieved since {moment(relation.recorded_at)}{until}", style="dim italic")
    return text


def neighbours_table(neighbours: Iterable[Neighbour]) -> Table:
    """Neighbours, nearest first, each with the relations that lead to it."""
    rows = ((str(each.hops), _called(each.entity), Text("\n").join(map(edge, each.relations))) for each in neighbours)
    return plain_table(("hops", "entity", "relations"), rows)


def entities_table(entities: Iterable[Entity]) -> Table:
    """Entities, each with what else it is called and how often it is mentioned."""
    rows = (
        (_called(each), Text(visible(", ".join(each.aliases))), Text(str(each.mentions), justify="right"))
        for each in entities
    )
    return plain_table(("entity", "also called", "mentions"), rows)


def suggestions_table(suggestions: Iterable[MergeSuggestion]) -> Table:
    """Pairs of entities that may be one, with what they have in common."""
    rows = ([Text(visible(text)) for text in (each.source, each.into, each.why)] for each in suggestions)
    return plain_table(("name", "may be", "why"), rows)


def relation_changes_table(changes: Iterable[RelationChange]) -> Table:
    """What became of relations."""
    rows = (
        (Text.assemble(_relation_line(each), "\n", (each.relation.id, "dim")), Text(holds(each.relation), no_wrap=True))
        for each in changes
    )
    return plain_table(("relation", "holds (UTC)"), rows)


def holds(relation: Relation) -> str:
    """The time for which a relation holds, in words, its end in a second line; midnight is omitted."""
    ends = (("since", relation.valid_from), ("until", relation.valid_to))
    lines = (f"{word} {moment(when).removesuffix(' 00:00')}" for word, when in ends if when is not None)
    return "\n".join(lines) or "always"


def _called(entity: Entity) -> Text:
    kind = (f"  {visible(entity.type)}", "dim") if entity.type else ""
    return Text.assemble((visible(entity.name), "bold"), kind)
