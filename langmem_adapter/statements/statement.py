"""The parts of a statement, and the attributes that a person has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.dates import StatedSpan

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST: Final = 200
"""Characters of the longest text that is read: what is longer is no short statement."""

SINGLE: Final = frozenset("name age birthday home employer job partner phone email diet".split())
"""Attributes that have one value at a time; a newer statement ends the older one of the same speaker."""

MANY: Final = frozenset("family pet friend like allergy habit speak visit any".split())
"""Attributes of which one has several values; no statement ends another's for its date. `any` ends whatever it names."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person, or an animal, that a statement is about.

    Attributes:
        kind: "sister", "dog", 姐姐; empty where only the name is known.
        name: "Jesica"; empty where only the kind is known.
    """

    kind: str
    name: str


class Subject(NamedTuple):
    """Whom a statement is about: as compared, as the graph names it (empty for a pronoun), and what its front says."""

    key: str = ""
    name: str = SELF
    people: tuple[Person, ...] = ()
    implied: tuple[Triple, ...] = ()
    type: str = ""


class Predicate(NamedTuple):
    """A predicate in its one form: "live in Rome"; whether it is affirmed, over, and nothing else than over; and when."""

    who: Subject
    text: str
    positive: bool = True
    ended: bool = False
    empty: bool = False
    span: StatedSpan = StatedSpan()
    tense: str = "now"

    def says(self, attribute: str, value: str, about: str = "", **more: Any) -> Statement:
        """A statement, with what holds of every one that these words make."""
        subject = f"{self.who.key} {about}".strip()
        return Statement("", subject, attribute, value, self.positive, self.ended, self.empty, **more)


def edges(
    form: Predicate, relation: str, targets: tuple[str, ...], type_: str, *, begins: bool = False
) -> Iterator[Triple]:
    """The relations of somebody to each of some targets."""
    since, until = form.span.held(over=form.ended, begins=begins)
    who, single = form.who, False if targets[1:] else None
    for target in targets if relation else ():
        if any(map(str.isalnum, target)):
            yield Triple(who.name, relation, target, who.type, type_, since, until, ended=form.ended, single=single)


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
