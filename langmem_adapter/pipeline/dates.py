"""What is told late: a statement from before what stands takes its place in the past, and what stands stays.

The dates of the turns decide, where they were given, and no reasoner does: of statements with the same date, and of those
without one, the one told later wins. So dated statements may be told in any order, in one add or in many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from langmem_adapter.arguments import parse_time
from langmem_adapter.names import entity_key
from langmem_adapter.records.work import FORGET, UNCLEAR, Event, Fact
from langmem_adapter.statements.parser import read, single_valued
from langmem_adapter.statements.statement import MANY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from langmem_adapter.records.graph import Triple

__all__ = ["SAID_LATER", "Placed", "in_course", "older", "time_of"]

SAID_LATER: Final = "what was said later stands"


@dataclass(frozen=True, slots=True)
class Placed:
    """A verdict whose fact and memory are places in the state, not in what the reasoner was shown."""

    fact: int  # place of the fact
    event: Event
    text: str  # the text to keep, or the fact's
    reason: str
    known: int | None = None  # place of the memory concerned
    relations: tuple[Triple, ...] | None = None  # what the text says of relations, where that is not what the fact says
    past: bool = False  # the memory stays; the statement was true before it
    after: int | None = None  # place of the later fact, of which the current memory comes


def older(facts: Sequence[Fact], turns: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """The facts that another fact of the same run has replaced, each with the place of the latest such fact.

    These are dated statements of one speaker about one attribute that has one value at a time: which of them stands needs
    no judgement.
    """
    latest: dict[tuple[str, str, str], int] = {}
    about = {place: key for place, fact in enumerate(facts) if (key := _about(fact)) is not None}
    for place, key in about.items():
        if key not in latest or time_of(facts[place], turns) >= time_of(facts[latest[key]], turns):
            latest[key] = place
    return {
        place: latest[key]
        for place, key in about.items()
        if turns[facts[place].turn].get("dated") and time_of(facts[place], turns) < time_of(facts[latest[key]], turns)
    }


def _about(fact: Fact) -> tuple[str, str, str] | None:
    told = None if fact.unattributed or fact.text.startswith(FORGET) else single_valued(fact.text)
    return told and (entity_key(fact.speaker), *told)


def in_course(
    verdicts: Sequence[Placed],
    facts: Sequence[Fact],
    turns: Sequence[Mapping[str, Any]],
    known: Sequence[Mapping[str, Any]],
) -> list[Placed]:
    """Verdicts, in the order of the facts, that change nothing which was said after their fact."""
    told: list[Placed] = []
    since = _since(verdicts, facts, turns, known)
    for place, of_fact in groupby(verdicts, key=attrgetter("fact")):
        date, own = _date_of(facts[place], turns), list(of_fact)
        named = {verdict.known for verdict in own if verdict.event in {"UPDATE", "DELETE"}}
        late = {known for known in named if known is not None and date is not None and date < since[known]}
        told += _told_late(own, facts[place], late) if late else own
    return told


def _since(
    verdicts: Sequence[Placed],
    facts: Sequence[Fact],
    turns: Sequence[Mapping[str, Any]],
    known: Sequence[Mapping[str, Any]],
) -> dict[int, datetime]:
    """The last dates of the memories that verdicts name: of what is known, or of who says the same in this run."""
    named = {verdict.known for verdict in verdicts if verdict.known is not None}
    since = {number: parse_time(known[number]["since"], "since") for number in named}
    for verdict in verdicts:
        date = _date_of(facts[verdict.fact], turns)
        if verdict.event == "NONE" and verdict.known is not None and date is not None:
            since[verdict.known] = max(since[verdict.known], date)
    return since


def _told_late(verdicts: Sequence[Placed], fact: Fact, late: set[int]) -> Iterator[Placed]:
    """What becomes of a fact beside memories that were said later."""
    stands = next(verdict for verdict in verdicts if verdict.known in late)
    states = next((verdict for verdict in verdicts if verdict.event in {"ADD", "UPDATE"}), None)
    plain = replace(stands, event="ADD", text=fact.text, reason=SAID_LATER, relations=None)
    if fact.text.startswith(FORGET):
        yield replace(stands, event="NONE", text=fact.text, reason=UNCLEAR, known=None)
    elif states is None:
        yield from (replace(verdict, reason=SAID_LATER, past=verdict.known in late) for verdict in verdicts)
    elif stands.event == "UPDATE" and read(fact.text).attribute in MANY:
        yield replace(plain, known=None, reason="both can be true")
    else:
        before = (verdict for verdict in verdicts if verdict.known is not None and verdict.known not in late)
        yield from (replace(verdict, event="DELETE", relations=None) for verdict in before if verdict.event != "NONE")
        yield replace(plain, past=True)


def time_of(fact: Fact, turns: Sequence[Mapping[str, Any]]) -> datetime:
    """When a fact was said."""
    return datetime.fromisoformat(turns[fact.turn]["time"])


def _date_of(fact: Fact, turns: Sequence[Mapping[str, Any]]) -> datetime | None:
    return time_of(fact, turns) if turns[fact.turn].get("dated") else None
