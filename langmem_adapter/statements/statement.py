"""The parts of a statement, the attributes that a person has, and the rows of the table that reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from langmem_adapter.forks import cached_property

if TYPE_CHECKING:
    from langmem_adapter.records.graph import Triple

__all__ = ["LONGEST", "MANY", "SINGLE", "Kind", "Person", "Statement", "TableRow"]

LONGEST: Final = 200
"""Characters of the longest text that is read: what is longer is no short statement."""

SINGLE: Final = frozenset("name nickname age birthday home employer job partner phone email diet".split())
"""Attributes that have one value at a time; a newer statement ends the older one of the same speaker."""

MANY: Final = frozenset(
    "birthplace origin nationality language school major study family pet friend like prefer allergy habit speak visit own"
    " any".split()
)
"""Attributes of which one has several values; no statement ends another's for its date. `any` ends whatever it names."""

Kind = Literal["is", "begins", "ends", "touches"]
"""What a wording says of the attribute: its value, since now another value, that it is over, or something about it."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person, or an animal, that a statement is about.

    Attributes:
        kind: "sister", "dog", 姐姐; empty where only the name is known.
        name: "Jesica"; empty where only the kind is known.
    """

    kind: str
    name: str


@dataclass(frozen=True)
class TableRow:
    """A row of the table: one wording of a statement without its subject, and what it says of an attribute.

    Attributes:
        text: The pattern, which matches what follows one of the *heads*, whole; its group `v` is the value.
        put: The value that is compared, where that is not `v`: "married {v}".
    """

    attribute: str
    kind: Kind
    text: str
    flags: int
    relation: str = ""
    target: str = ""
    heads: tuple[str, ...] = ()
    put: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when it is first used: most programs use few of them."""
        return re.compile(self.text, self.flags)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement taken apart.

    Attributes:
        text: As it is remembered: "Lives in Porto", "Sister lives in Rome", "住在波尔图".
        subject: Whom or what it is about, in small letters; empty for the speaker. Of a favourite or detail the noun.
        attribute: Of the row that reads it; empty where none does.
        value: What is said, as it is compared.
        positive: Whether it is affirmed; what is over is not.
        ended: Whether it says that something is over.
        empty: Whether it says nothing else than that ("No longer has a dog").
        touches: Whether it is one of several values: it neither ends another nor is ended for its date.
        slot: What has one value at a time where the attribute alone does not say so: "detail address", "family mother".
        people: Whom it is about: the one it introduces, then the one whose statement it is.
        relations: The relations that it plainly states.
    """

    text: str
    subject: str = ""
    attribute: str = ""
    value: str = ""
    positive: bool = True
    ended: bool = False
    empty: bool = False
    touches: bool = False
    slot: str = ""
    people: tuple[Person, ...] = ()
    relations: tuple[Triple, ...] = ()

    @property
    def place(self) -> str:
        """What it gives the one value of: an attribute of the speaker, or a `slot`; empty where there may be several.

        Of another person only the name has one value: "My sister is 30" does not end "My sister is a nurse".
        """
        if self.slot or self.touches or self.subject:
            return "" if self.touches else self.slot
        return self.attribute if self.attribute in SINGLE else ""

    @property
    def single(self) -> bool:
        """Whether it is the one value of what it speaks of."""
        return bool(self.place)
