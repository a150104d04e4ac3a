"""Pictures of the knowledge graph for a terminal: relations with their dates, neighbours, entities.

The ids stand below what they name, so that names keep room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from langmem_adapter.cli.output import visible
from langmem_adapter.cli.pictures import edge, moment, plain_table, relation_lines

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from rich.table import Table

    from langmem_adapter.records.graph import Entity, MergeSuggestion, Neighbour, Relation, RelationChange

__all__ = ["change_table", "entities_table", "held", "neighbours_table", "relations_table", "suggestions_table"]


def relations_table(relations: Iterable[Relation], *, history: bool = False) -> Table:
    """Relations, each with its id and how many memories say it below, and the time for which it holds.

    Args:
        relations: In the order in which they are shown.
        history: Say since when and until when each was believed, too.
    """
    table = plain_table("relation", "holds (UTC)")
    for relation in relations:
        told = Text.assemble(edge(relation), "\n", (f"{relation.id}  {_said(relation)}", "dim"))
        if history:
            told.append(f"\nbelieved {_believed(relation)}", style="dim italic")
        table.add_row(told, Text(held(relation), style="" if relation.valid_to is None else "dim", no_wrap=True))
    return table


def neighbours_table(neighbours: Iterable[Neighbour]) -> Table:
    """Neighbours, nearest first, each with the relations that lead to it."""
    table = plain_table("hops", "entity", "relations")
    for each in neighbours:
        table.add_row(str(each.hops), _called(each.entity), Text("\n").join(map(edge, each.relations)))
    return table


def entities_table(entities: Iterable[Entity]) -> Table:
    """Entities, each with what else it is called and how often it is mentioned."""
    table = plain_table("entity", "also called", "mentions")
    for entity in entities:
        others = Text(visible(", ".join(entity.aliases)))
        table.add_row(_called(entity), others, Text(str(entity.mentions), justify="right"))
    return table


def suggestions_table(found: Iterable[MergeSuggestion]) -> Table:
    """Pairs of entities that may be one, with what they have in common."""
    table = plain_table("name", "may be", "why")
    for each in found:
        table.add_row(*(Text(visible(text)) for text in (each.source, each.into, each.why)))
    return table


def change_table(change: RelationChange) -> Table:
    """What became of one relation."""
    table = plain_table("relation", "holds (UTC)")
    known = [Text.assemble(("  = ", "bold blue"), edge(change.relation), (" (known already)", "dim"))]
    told = Text("\n").join([*(relation_lines([change]) or known), Text(change.relation.id, style="dim")])
    table.add_row(told, Text(held(change.relation), no_wrap=True))
    return table


def held(relation: Relation) -> str:
    """The time for which a relation holds, in words; its end in a line of its own."""
    ends = (("since", relation.valid_from), ("until", relation.valid_to))
    return "\n".join(f"{word} {_day(when)}" for word, when in ends if when is not None) or "always"


def _day(when: datetime) -> str:
    """A time to the minute, or the day alone where it is the beginning of one."""
    return moment(when).removesuffix(" 00:00")


def _believed(relation: Relation) -> str:
    since = f"since {moment(relation.recorded_at)}"
    return since if relation.retired_at is None else f"{since}, until {moment(relation.retired_at)}"


def _said(relation: Relation) -> str:
    number = len(relation.memory_ids)  # none: by hand, or what they say has changed since it held
    return f"{number} memor{'y' if number == 1 else 'ies'}" if number else ""


def _called(entity: Entity) -> Text:
    kind = (f"  {visible(entity.type)}", "dim") if entity.type else ""
    return Text.assemble((visible(entity.name), "bold"), kind)
