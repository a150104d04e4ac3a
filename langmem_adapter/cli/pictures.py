"""Pictures for a terminal: tables of memories, hits and changes, a memory's card, its life with word diffs.

Colour never carries a meaning alone: events have a sign and a name, and where there is no colour a diff has marks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from langmem_adapter.cli.output import visible
from langmem_adapter.diffs import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from langmem_adapter.records.graph import Relation, RelationChange
    from langmem_adapter.records.results import Explanation, Hit, MemoryItem, Revision
    from langmem_adapter.records.work import Change

__all__ = [
    "card",
    "changed",
    "changes_table",
    "edge",
    "event_text",
    "hits_table",
    "items_table",
    "life",
    "moment",
    "plain_table",
    "relation_lines",
    "word_diff",
]

_SHOWN: Final = 0.005  # parts of a score that two digits show
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
}
_MARKED: Final = {"same": ("", "", ""), "gone": ("[-", "-]", "red strike"), "came": ("{+", "+}", "green underline")}
_WIDE: Final = frozenset(
    {"memory", "said", "relation", "relations", "also called", "why"}
)  # columns that share what is left
_ROOM: Final = 72  # where an id, and a user's that is as long, fit in a line beside the other columns
_CARD: Final = ("scope", "metadata", "memory_type", "said by", "created", "updated", "expires", "revision")


def plain_table(*columns: str) -> Table:
    """An empty table in the style of this command."""
    table = _Stacking(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, expand=True)
    for column in columns:
        table.add_column(column, overflow="fold", ratio=1 if column in _WIDE else None)
    return table


class _Stacking(Table):
    """A table whose cells stand one below the other where an id would not fit in a line of its column."""

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
    """A time to the minute, UTC."""
    return "" if when is None else f"{when:%Y-%m-%d %H:%M}"


def items_table(items: Iterable[MemoryItem]) -> Table:
    """Memories, each with its id below, ready to be copied."""
    table = plain_table("memory", "updated (UTC)")
    for item in items:
        table.add_row(_with_id(item), Text(moment(item.updated_at), style="dim", no_wrap=True))
    return table


def hits_table(hits: Iterable[Hit]) -> Table:
    """Search results, best first, with the parts of the score where they were asked for."""
    table = plain_table("score", "memory", "updated (UTC)")
    for hit in hits:
        told = _with_id(hit.item, hit.passage)
        if hit.explanation is not None:
            told.append(f"\n{_reasons(hit.explanation)}", style="dim italic")
        updated = Text(moment(hit.item.updated_at), style="dim", no_wrap=True)
        table.add_row(Text(f"{hit.score:.2f}", style="cyan"), told, updated)
    return table


def _reasons(why: Explanation) -> str:
    ranks = {name: f" (#{rank})" for name, rank in why.ranks.items()}
    lists = f"meaning {why.meaning:.2f}{ranks.get('meaning', '')} · words {why.words:.2f}{ranks.get('words', '')}"
    parts = " ".join(f"{part:+.2f} {name}" for name, part in why.parts.items() if abs(part) >= _SHOWN)
    return f"{lists} · {why.strategy}\n{parts}"


def changes_table(changes: Iterable[Change], *, marks: bool) -> Table:
    """What an add did, with the reasons."""
    table = plain_table("event", "memory", "why")
    for change in changes:
        told = Text("\n").join([changed(change, marks=marks), *relation_lines(change.relations)])
        table.add_row(event_text(change.event), told, Text(visible(change.reason), style="dim"))
    return table


def changed(change: Change, *, marks: bool) -> Text:
    """The text of a change; an update as a word diff."""
    if change.event == "UPDATE" and change.previous_text is not None:
        return word_diff(change.previous_text, change.text, marks=marks)
    style = {"DELETE": "red", "NONE": "dim"}.get(change.event, "")
    until = "" if change.valid_to is None else f" (held until {moment(change.valid_to)})"
    return Text(visible(change.text), style=style).append(until, style="dim")


def relation_lines(changes: Iterable[RelationChange]) -> list[Text]:
    """What became of relations, a line each; those that were only said again are left out."""
    return [_relation_line(change) for change in changes if change.event != "NONE"]


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
    said = " as ".join(dict.fromkeys(filter(None, (item.actor_id, item.role))))
    values = {
        "scope": _scope(item),
        "metadata": ", ".join(f"{key}: {value}" for key, value in item.metadata.items()),
        "memory_type": item.memory_type or "",
        "said by": said,
        "created": moment(item.created_at),
        "updated": moment(item.updated_at),
        "expires": moment(item.expires_at),
        "revision": str(item.revision),
    }
    grid = Table.grid(padding=(0, 2))
    for name in _CARD:
        if values[name]:
            grid.add_row(Text(name.replace("_", " "), style="dim"), Text(visible(values[name])))
    return Group(Text(visible(item.text), style="bold"), Text(item.id, style="dim"), grid)


def life(revisions: Sequence[Revision], *, marks: bool) -> RenderableType:
    """A memory's revisions as a timeline, oldest first, each with what it changed."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    for number, revision in enumerate(revisions):
        last = number == len(revisions) - 1
        sign = Text("●" if last else "○", style=_EVENTS[revision.event][1])
        head = Text.assemble(event_text(revision.event), Text(f"  {_times(revision)}", style="dim"))
        grid.add_row(sign, Text(f"v{revision.revision}", style="bold"), head)
        grid.add_row(_stem(last), "", word_diff(revision.old_text or "", revision.new_text or "", marks=marks))
        if revision.reason:
            grid.add_row(_stem(last), "", Text(visible(revision.reason), style="dim italic"))
    return grid


def _times(revision: Revision) -> str:
    """When it was written; and since when it was true, where that is another time."""
    written, true = moment(revision.created_at), moment(revision.valid_from)
    return written if written == true else f"{written}, true from {true}"


def word_diff(old: str, new: str, *, marks: bool) -> Text:
    """Two texts as one: what went is struck through, what came underlined.

    Args:
        old: The text before; empty for a first one, which then is shown without any emphasis.
        new: The text after; empty for a removal.
        marks: Write `[-gone-]` and `{+new+}` instead, for where there is no colour.

    Example:
        >>> print(word_diff("Lives in Kyoto", "Lives in Lyon", marks=True))
        Lives in [-Kyoto-]{+Lyon+}
        >>> print(word_diff("住在京都很久了", "住在里昂很久了", marks=True))
        住在[-京都-]{+里昂+}很久了
    """
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
    return Text(" " if last else "│", style="dim")


def _with_id(item: MemoryItem, shown: str | None = None) -> Text:
    return Text.assemble(
        visible(item.text if shown is None else shown), "\n", (f"{item.id}  {visible(_scope(item))}", "dim")
    )


def _scope(item: MemoryItem) -> str:
    return " ".join(f"{name.removesuffix('_id')}={value}" for name, value in item.scope.named.items())
