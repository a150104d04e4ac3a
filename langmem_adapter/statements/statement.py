"""The parts of a statement, and the attributes that a person has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import re

    from langmem_adapter.records.graph import Triple

__all__ = ["MANY", "SINGLE", "Row", "Statement"]

SINGLE: Final = frozenset(
    "name age birthday birthplace origin nationality gender home employer job school major partner status diet religion "
    "phone email language height weight salary goal favorite".split()
)
"""Attributes that have one value at a time; a newer statement ends the older one."""

MANY: Final = frozenset(
    "family pet friend like dislike allergy health medicine habit skill speak own plan event".split()
)
"""Attributes of which one has several values; no statement ends another's for its date."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: one wording, and what it says.

    Attributes:
        attribute: Of `SINGLE` or `MANY`.
        pattern: Matches a statement without its subject, whole ("lives in Porto"); its group `v` is the value.
        relation: Its name in the graph; empty where the row states none.
        target: What kind of thing the value is ("place"), where known.
        ends: The wording says that the value is over ("left Acme", "used to live in Porto").
    """

    attribute: str
    pattern: re.Pattern[str]
    relation: str = ""
    target: str = ""
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement taken apart.

    Attributes:
        text: As it is remembered: "Lives in Porto", "Sister lives in Rome", "住在波尔图".
        subject: Whom or what it is about, in a form that can be compared; empty for whoever speaks.
        attribute: Of the row that understood it; empty where none did.
        value: What is said, as it stands.
        positive: Whether it is affirmed.
        ended: Whether it says that something is over.
        relations: The relations that it plainly states.
    """

    text: str
    subject: str = ""
    attribute: str = ""
    value: str = ""
    positive: bool = True
    ended: bool = False
    relations: tuple[Triple, ...] = ()

    @property
    def single(self) -> bool:
        """Whether its attribute has one value at a time."""
        return self.attribute in SINGLE
