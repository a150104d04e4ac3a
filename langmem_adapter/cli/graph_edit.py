"""Commands that write the knowledge graph by hand: `graph add`, `graph end`, `graph delete`, `graph merge`, `graph split`."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from langmem_adapter.cli import graph_pictures
from langmem_adapter.cli.options import Invocation, option
from langmem_adapter.cli.output import counted, visible
from langmem_adapter.records.plain import as_data

if TYPE_CHECKING:
    from langmem_adapter.records.graph import RelationChange

__all__ = ["add", "delete", "end", "merge", "split"]

RelationId = Annotated[
    str, typer.Argument(metavar="ID", help="The relation's id, as langmem-adapter graph shows it, or its beginning.")
]


def add(
    call: Invocation,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Who or what.")],
    relation: Annotated[str, typer.Argument(metavar="RELATION", help="Is what to it, a verb.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Whom or what.")],
    *,
    since: Annotated[str | None, option("--from", metavar="TIME", help="Since when, ISO 8601; else now.")] = None,
    until: Annotated[str | None, option("--to", metavar="TIME", help="Until when it held.")] = None,
    source_type: Annotated[str | None, option(metavar="TYPE", help="What SOURCE is: person, city …")] = None,
    target_type: Annotated[str | None, option(metavar="TYPE", help="What TARGET is.")] = None,
) -> None:
    """Write down a relation; where somebody has one such at a time, it ends the one before.

    "me" means the user. What add finds in messages needs no hand: see add --graph.

    [bold]Examples[/bold]
    $ langmem-adapter graph add Anna "lives in" Lyon -u alice
    $ langmem-adapter graph add me "works at" Acme -u alice --from 2024-03-01
    """
    given: dict[str, Any] = {"valid_from": since, "valid_to": until, "source_type": source_type}
    with call.memory(create=True) as memory:
        whose = call.whose(memory.scopes)
        _show(call, memory.graph.add(source, relation, target, target_type=target_type, **given, **whose))


def end(
    call: Invocation,
    id: RelationId,  # noqa: A002 - the name of the argument in the usage line
    at: Annotated[str | None, option(metavar="TIME", help="Since when, ISO 8601; else now.")] = None,
) -> None:
    """Say that a relation holds no longer; that it held until then stays known.

    [bold]Examples[/bold]
    $ langmem-adapter graph end ID
    $ langmem-adapter graph end ID --at 2026-02-01
    """
    from langmem_adapter.storage.graph.tables import relations

    with call.memory() as memory:
        _show(call, memory.graph.end(call.whole(memory, relations.c.id, id), at=at, **call.scope))


def delete(call: Invocation, id: RelationId) -> None:  # noqa: A002 - the same
    """Withdraw a relation that was never so; that it was believed stays known.

    [bold]Examples[/bold]
    $ langmem-adapter graph delete ID
    """
    from langmem_adapter.storage.graph.tables import relations

    with call.memory() as memory:
        _show(call, memory.graph.delete(call.whole(memory, relations.c.id, id), **call.scope))


def merge(
    call: Invocation,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The one that goes.")],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The one that it is; it stays.")],
) -> None:
    """Say that two names mean the same; graph split undoes it.

    [bold]Examples[/bold]
    $ langmem-adapter graph merge Bob Robert -u alice
    """
    with call.memory() as memory:
        moved = memory.graph.merge(name, into, **call.whose(memory.scopes))
    undo = f"langmem-adapter graph split {shlex.quote(name)}"
    told = f"{name} is {into} now: {counted(moved, 'relation')} moved; {undo} undoes it"
    call.output.show([{"moved": moved, "name": name, "into": into}], columns=("moved",), picture=lambda: _text(told))


def split(
    call: Invocation, name: Annotated[str, typer.Argument(metavar="NAME", help="The one that had gone.")]
) -> None:
    """Undo the last merge of a name.

    [bold]Examples[/bold]
    $ langmem-adapter graph split Bob -u alice
    """
    with call.memory() as memory:
        moved = memory.graph.split(name, **call.whose(memory.scopes))
    told = f"{name} stands alone again: {counted(moved, 'relation')} came back"
    call.output.show([{"moved": moved, "name": name}], columns=("moved",), picture=lambda: _text(told))


def _show(call: Invocation, change: "RelationChange") -> None:
    row = {"event": change.event, **as_data(change.relation)}
    columns = ("event", "id", "source", "relation", "target")
    call.output.show([row], columns=columns, picture=lambda: graph_pictures.change_table(change))


def _text(told: str) -> Text:
    return Text(visible(told))
