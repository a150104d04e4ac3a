"""A question, read once: its words, what they are related to, whom it names, and whether it asks for a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from langmem_adapter.languages import ENGLISH
from langmem_adapter.text import asks_when, groups_of, meaningful, words

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Question", "read"]

_MOST_NAMES: Final = 1_000
LONGEST: Final = 10_000
"""Letters of a question that are read."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a search asks.

    Attributes:
        text: The question without the names of known speakers: what is turned into a vector. A name pulls everything that
            mentions it, above all what is said *to* that person.
        terms: The terms to look for.
        groups: Groups of related words that they belong to.
        names: Speakers that it names, in small letters.
        when: Whether it asks for a time.
        language: By whose rules its terms were stemmed.
    """

    text: str
    terms: frozenset[str]
    groups: frozenset[str]
    names: frozenset[str]
    when: bool
    language: str = ENGLISH


def read(text: str, speakers: Iterable[str], language: str = ENGLISH) -> Question:
    """Read a question; of a long one the first 10,000 letters. The names of known speakers are in small letters.

    Example:
        >>> read("When did Anna move to Lyon?", ["anna", "ben"]).text
        'When did   move to Lyon?'
    """
    text = text[:LONGEST]
    folded = text.casefold()
    named = [name for name in speakers if name in folded]
    rest, found = text, set()
    for name in sorted(named, key=len, reverse=True)[:_MOST_NAMES]:
        rest, times = re.subn(rf"(?<!\w){re.escape(name)}(?:['’]s)?(?!\w)", " ", rest, flags=re.IGNORECASE)
        if times:
            found.add(name)
    told = words(rest, language)
    if not told:  # nothing but names
        rest, told = text, words(text, language)
    terms = frozenset(meaningful(told, language) or told)
    groups = frozenset(groups_of(terms, language))
    return Question(rest, terms, groups, frozenset(found), asks_when(text), language)
