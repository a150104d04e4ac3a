"""The parts of a statement, the attributes that a person has, and the rows of the table that reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from langmem_adapter.forks import cached_property

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langmem_adapter.records.graph import Triple

__all__ = ["LONGEST", "MANY", "SINGLE", "Kind", "Person", "Statement", "TableRow"]

LONGEST: Final = 300
"""Characters of the longest text that is read: what is longer is no short statement."""

SINGLE: Final = frozenset(
    "name nickname age birthday birthplace origin nationality gender home employer job school partner diet religion "
    "phone email language height weight salary commute device car hours major wake team politics favorite detail".split()
)
"""Attributes that have one value at a time; a newer statement ends the older one."""

MANY: Final = frozenset(
    "family pet friend like prefer allergy health habit hobby group visit skill speak study vehicle own trait plan event goal "
    "any".split()
)
"""Attributes of which one has several values; no statement ends another's for its date. `any` is said of what ends only: it
ends whatever it names."""

Kind = Literal["is", "begins", "ends", "touches"]
"""What a wording says of the attribute: its value, since now another value, that it is over, or something about it."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody, or some animal, that a statement tells of.

    Attributes:
        kind: "sister", "dog", 姐姐; empty where only the name is known.
        name: "Jesica"; empty where only the kind is known.
    """

    kind: str
    name: str


@dataclass(frozen=True)
class TableRow:
    """A row of the table: one wording, and what it says.

    Attributes:
        attribute: Of `SINGLE` or `MANY`.
        kind: What it says of the attribute.
        text: The pattern: it matches a statement without its subject, whole ("live in Porto"); its group `v` is the value.
        flags: Of the pattern.
        relation: Its name in the graph; empty where the row states none.
        target: What kind of thing the value is ("place"), where known.
        heads: The words one of which comes before what the pattern matches; none where it matches all.
        put: The value that is compared, where that is not `v`: "married {v}".
        also: What else it says, `attribute:value` each, `-` before what is over; a noun stands behind `/`.
    """

    attribute: str
    kind: Kind
    text: str
    flags: int
    relation: str = ""
    target: str = ""
    heads: tuple[str, ...] = ()
    put: str = ""
    also: tuple[str, ...] = ()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when it is first asked for: most programs meet few of them."""
        return re.compile(self.text, self.flags)

    def others(self, subject: str, groups: Mapping[str, str]) -> Iterator[Statement]:
        """What else is said of somebody: who has retired works nowhere, who has bought a car has one."""
        for part in self.also:
            place, _, value = part.removeprefix("-").partition(":")
            attribute, _, noun = place.partition("/")
            named, over = noun.format_map(groups).lower(), part.startswith("-")
            about = named[1:] if named.startswith("=") else f"{subject} {named}".strip()
            yield Statement("", about, attribute, value.replace("_", " ").format_map(groups), not over, over)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement taken apart.

    Attributes:
        text: As it is remembered: "Lives in Porto", "Sister lives in Rome", "住在波尔图".
        subject: Whom or what it is about, in small letters; empty for whoever speaks. Of a favourite, the noun ("color").
        attribute: Of the row that understood it; empty where none did.
        value: What is said, as it is compared.
        positive: Whether it is affirmed; what is over is not.
        ended: Whether it says that something is over.
        empty: Whether it says nothing else than that ("No longer has a dog").
        touches: Whether it speaks of the attribute without being its value: it neither ends another nor is ended for its date.
        people: Whom it tells of: the one it introduces, then the one it is about.
        relations: The relations that it plainly states.
        also: Further statements that the same words make, each of another attribute.
    """

    text: str
    subject: str = ""
    attribute: str = ""
    value: str = ""
    positive: bool = True
    ended: bool = False
    empty: bool = False
    touches: bool = False
    people: tuple[Person, ...] = ()
    relations: tuple[Triple, ...] = ()
    also: tuple[Statement, ...] = ()

    @property
    def single(self) -> bool:
        """Whether it is the one value of its attribute."""
        return self.attribute in SINGLE and not self.touches
