"""The parts of a statement, the attributes that a person has, and the rows of the table that reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langmem_adapter.records.graph import Triple

__all__ = ["LONGEST", "MANY", "SINGLE", "Kind", "Person", "Row", "Statement", "rows"]

LONGEST: Final = 300
"""Characters of the longest text that is read: what is longer is no short statement."""

SINGLE: Final = frozenset(
    "name nickname age birthday birthplace origin nationality gender home employer job school partner diet religion "
    "phone email language height weight salary commute device goal favorite detail".split()
)
"""Attributes that have one value at a time; a newer statement ends the older one."""

MANY: Final = frozenset(
    "family pet friend like prefer allergy health habit hobby group visit skill speak study vehicle own trait plan event any".split()
)
"""Attributes of which one has several values; no statement ends another's for its date. `any` is said of what ends only: it
ends whatever it names."""

Kind = Literal["is", "begins", "ends", "touches"]
"""What a wording says of the attribute: its value, since now another value, that it is over, or something about it."""

_KINDS: Final[Mapping[str, Kind]] = {"": "is", "+": "begins", "-": "ends", "~": "touches"}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody, or some animal, that a statement tells of.

    Attributes:
        kind: "sister", "dog", 姐姐; empty where only the name is known.
        name: "Jesica"; empty where only the kind is known.
    """

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: one wording, and what it says.

    Attributes:
        attribute: Of `SINGLE` or `MANY`.
        kind: What it says of the attribute.
        pattern: Matches a statement without its subject, whole ("live in Porto"); its group `v` is the value.
        relation: Its name in the graph; empty where the row states none.
        target: What kind of thing the value is ("place"), where known.
        heads: The words one of which comes before what the pattern matches; none where it matches all.
        put: The value that is compared, where that is not `v`: "married {v}".
    """

    attribute: str
    kind: Kind
    pattern: re.Pattern[str]
    relation: str = ""
    target: str = ""
    heads: tuple[str, ...] = ()
    put: str = ""


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


def rows(table: str, macros: Mapping[str, str], *, flags: int = 0) -> tuple[Row, ...]:
    """The rows of a table: a line each, `attribute mark | relation:target | [heads] pattern | put`.

    The mark is `+` for what begins with the statement, `-` for what ends, `~` for what only touches the attribute.

    Args:
        table: Lines.
        macros: What stands for a word in angle brackets in the patterns: `<V>`.
        flags: Of the patterns.

    Example:
        >>> (row,) = rows("home + | lives_in:place | [move relocate] to <V>", {"V": "(?P<v>.+)"})
        >>> row.kind, row.heads, row.pattern.fullmatch("to Braga")["v"]
        ('begins', ('move', 'relocate'), 'Braga')
    """
    return tuple(_row(line, macros, flags) for line in table.strip().splitlines() if line.strip())


def _row(line: str, macros: Mapping[str, str], flags: int) -> Row:
    head, edge, pattern, put, *_ = [*(part.strip() for part in re.split(r"(?<!\S)\|(?!\S)", line)), "", "", ""]
    attribute, _, mark = head.partition(" ")
    relation, _, target = edge.partition(":")
    heads = re.match(r"\[([\w ]+)\] ?", pattern)
    pattern = pattern[heads.end() :] if heads else pattern
    for name, meant in macros.items():
        pattern = pattern.replace(f"<{name}>", meant)
    listed = tuple(heads[1].split()) if heads else ()
    return Row(attribute, _KINDS[mark.strip()], re.compile(pattern, flags), relation, target, listed, put)
