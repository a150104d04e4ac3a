"""English statements ready to be read for relations, those they are about, and the words for family, friends and animals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules.words import ADJECTIVES, DEMONYMS, FEMALE, MALE, PETS, PLURAL

if TYPE_CHECKING:
    from langmem_adapter.reasoning.rules.meaning import Statement

__all__ = ["HEADS", "NAME", "NAMED", "Subject", "Told", "kin_relation", "kind_of", "names"]


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a statement is about, and by whom he or she is called with a word of kin.

    Attributes:
        name: "user", "Jesica", "older sister".
        type: "person", "animal", or empty.
        owner: Whose sister it is, empty where no word of kin was used.
        kin: That word.
        named: Whether the name is a proper one.
    """

    name: str
    type: str = ""
    owner: str = ""
    kin: str = ""
    named: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """A statement ready to be read.

    Attributes:
        said: The statement, without times.
        text: Its words.
        subject: Whom it is about.
        partly: Whether it was said of some times only, "on Sundays".
    """

    said: Statement
    text: str
    subject: Subject
    partly: bool

    @property
    def over(self) -> bool:
        """Whether what it says was so, and is no more."""
        return self.said.ended and not self.said.positive

    def opens(self, pattern: str) -> bool:
        """Whether its predicate is worded so."""
        return re.search(rf"\b(?:{pattern})\b", self.text, re.IGNORECASE) is not None

    def head(self, *joints: str) -> str:
        """The value up to the first of these words; nothing where that would say more than was denied."""
        first = re.split(rf",? (?:{'|'.join(joints)})\b", self.said.value, maxsplit=1)[0].strip(" ,")
        return "" if first != self.said.value.strip(" ,") and not self.said.positive else first


_SAME_KIN: Final = {
    "mom": "mother", "mum": "mother", "dad": "father", "grandma": "grandmother", "grandpa": "grandfather", "kid": "child",
    "kids": "child", "children": "child", "cats": "cat", "dogs": "dog", "sons": "son", "daughters": "daughter",
    "sisters": "sister", "brothers": "brother", "siblings": "sibling", "twins": "twin", "friends": "friend",
    "neighbour": "neighbor", "bunny": "rabbit",
}  # fmt: skip
_KIN_RELATIONS: Final = {
    "friend": "friend_of", "colleague": "colleague_of", "coworker": "colleague_of", "partner": "partner_of",
    "fiance": "engaged_to", "fiancé": "engaged_to", "fiancee": "engaged_to", "fiancée": "engaged_to",
    "wife": "married_to", "husband": "married_to", "spouse": "married_to", "girlfriend": "partner_of",
    "boyfriend": "partner_of", "sibling": "sibling_of",
}  # fmt: skip
_OTHERS: Final = frozenset(
    "baby boss child colleague coworker cousin friend kid manager mentor neighbor neighbour partner roommate flatmate "
    "sibling spouse teammate twin".split()
)
_VEHICLES: Final = frozenset({"bike", "boat", "car"})
_ANIMALS: Final = frozenset(word for word in PETS - _VEHICLES if word.isascii())
_PEOPLE: Final = frozenset(word for word in FEMALE | MALE | PLURAL | _OTHERS if word[:1].isascii())
HEADS: Final = _PEOPLE | _ANIMALS | _VEHICLES
"""Words for those who belong to somebody."""


def kind_of(word: str) -> str:
    """`"person"`, `"animal"` or neither."""
    return "person" if word in _PEOPLE else "animal" if word in _ANIMALS else ""


def kin_relation(word: str) -> str:
    """What somebody has whose sister, friend or dog has a name.

    Example:
        >>> kin_relation("mum"), kin_relation("wife"), kin_relation("sister-in-law")
        ('has_mother', 'married_to', 'has_sister_in_law')
    """
    plain = _SAME_KIN.get(word, word)
    return _KIN_RELATIONS.get(plain, f"has_{plain.replace('-', '_')}")


NAME: Final = r"[A-Z][\w'-]*(?: [A-Z][\w.-]*){0,2}"
_NAMES: Final = re.compile(rf"{NAME}(?:(?:, and |, | and | & ){NAME})*")
NAMED: Final = re.compile(
    rf"(?P<what>.+?),? (?:(?:is |are )?(?:named|called)|whose names? (?:is|are)) (?P<names>{_NAMES.pattern})"
)


def names(value: str) -> tuple[str, ...]:
    """The proper names of a list of them."""
    listed = re.split(r",? and |, | & ", value) if _NAMES.fullmatch(value) else ()
    return tuple(name for name in listed if name.split()[0].lower() not in DEMONYMS | ADJECTIVES)
