"""What tells a thing from another of its kind: whose it is ("Ben's rent", 公司的房租), and its sort ("the report page")."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from langmem_adapter.languages import ENGLISH
from langmem_adapter.statements.clauses import changed
from langmem_adapter.statements.values import values
from langmem_adapter.text import is_cjk, kin, subjects

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["leads", "owners", "sorts"]

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_OWNED: Final = re.compile(r"([\u4e00-\u9fff]{1,4})的([\u4e00-\u9fff]{1,4})")
_MINE: Final = re.compile(r".*(?:我们?|自己|现在)")
_OPENING: Final = 4  # words, or Chinese signs, in which somebody stands whom a statement is about
_JOINTS: Final = frozenset({"for", "of", "with", "in", "at"})
_ARTICLES: Final = frozenset({"the", "a", "an", "my", "our"})


def leads(text: str, language: str = ENGLISH) -> frozenset[str]:
    """The people and animals that a statement opens with: it is about them.

    Example:
        >>> leads("My sister moved to Lyon"), leads("We went to Lyon to see my sister"), leads("我妹妹搬到上海了")
        (frozenset({'sister'}), frozenset(), frozenset({'妹妹'}))
    """
    return kin(text[:_OPENING] if is_cjk(text) else " ".join(text.split(None, _OPENING)[:_OPENING]), language)


def owners(text: str, things: frozenset[str], language: str = ENGLISH) -> frozenset[str]:
    """Who owns any of some things, as a text says, but for whoever speaks.

    Example:
        >>> owners("Ben's rent was raised", frozenset({"rent"})), owners("我的房租涨了", frozenset({"房租"}))
        (frozenset({'ben'}), frozenset())
    """
    chinese = (found[1] for found in _OWNED.finditer(text) if _is(found[2], things, language))
    named = [one for one in chinese if not _MINE.fullmatch(one)]
    if "'s" in (plain := text.replace("’", "'")):
        told = pairwise(_WORD.findall(plain))
        named += [one[:-2] for one, of in told if one.endswith("'s") and _is(of, things, language)]
    return frozenset().union(*(subjects(one, language) for one in named))


def sorts(text: str, things: frozenset[str], language: str = ENGLISH) -> frozenset[str]:
    """The words that say which of its kind any of some things is: right before it, or behind "of", "for", "with".

    Example:
        >>> sorted(
        ...     sorts(
        ...         "The report page now loads slowly, until the deadline for the poster",
        ...         frozenset({"page", "deadlin"}),
        ...     )
        ... )
        ['poster', 'report']
    """
    told = _WORD.findall(text)
    places = [place for place, word in enumerate(told) if _is(word, things, language)]
    near = [word for place in places for word in _near(told, place) if not values(word) and not changed(word)]
    return frozenset().union(*(subjects(word, language) for word in near))


def _near(told: list[str], place: int) -> Iterator[str]:
    if place:
        yield told[place - 1]
    after = told[place + 1 : place + 5]
    if after and after[0].lower() in _JOINTS:
        yield from [word for word in after[1:] if word.lower() not in _ARTICLES][:1]


def _is(word: str, things: frozenset[str], language: str) -> bool:
    return not things.isdisjoint(subjects(word, language))
