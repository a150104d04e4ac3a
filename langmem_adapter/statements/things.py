"""Which part of an English value may be the name of a thing: only where nothing but a noun phrase is left of it."""

from __future__ import annotations

import re
from typing import Final

from langmem_adapter.statements.tables import patterns
from langmem_adapter.statements.words import WORDS

__all__ = ["bare", "proper", "thing", "things"]

_P: Final = patterns("things", {})
_LONGEST: Final = 6  # words; what takes more is no name
_MANNER: Final = frozenset("black cold hot raw".split())  # "coffee black" says how


def bare(value: str, *, counted: bool = False) -> str:
    """A value without articles and quotation marks around it, with *counted* also without a number.

    Example:
        >>> bare("the Beatles"), bare("two old cats", counted=True)
        ('Beatles', 'old cats')
    """
    stripped = value.strip(" ,;'\"“”")
    plain = _P["ARTICLE"].sub("", stripped if stripped.count(".") > 1 else stripped.rstrip("."), count=1)
    return _P["ARTICLE"].sub("", _P["NUMBER"].sub("", plain)) if counted else plain


def thing(value: str, *, simple: bool = False) -> str:
    """The name of the thing that a value is, empty where it is more or less than one; *simple*: without prepositions.

    Example:
        >>> thing("a cheese pizza"), thing("walks on the beach"), thing("it when it rains")
        ('cheese pizza', 'walks on the beach', '')
    """
    name = bare(value)
    told = [word.lower().strip(",'") for word in name.split()]
    if not 0 < len(told) <= _LONGEST or _P["ODD"].search(name) or "," in name or not any(map(str.isalpha, name)):
        return ""
    joints = WORDS["PREPOSITIONS"] & {told[0], told[-1]} or (
        simple and (WORDS["PREPOSITIONS"] | {"a", "an"}) & set(told)
    )
    unclear = not WORDS["NO_THING"].isdisjoint(told) or any("n't" in word for word in told)
    return "" if joints or unclear or (len(told) > 1 and told[-1] in _MANNER) else name


def things(value: str, *, simple: bool = False) -> tuple[str, ...]:
    """The things that a value lists; one where it is one, none where the list is not clearly of nouns.

    "Red and green apples" are one thing, "apples and pears" two, "pizza and ice cream" could be either and are none.

    Example:
        >>> things("pizza, pasta and ice cream"), things("mac and cheese"), things("pizza and ice cream")
        (('pizza', 'pasta', 'ice cream'), ('mac and cheese',), ())
    """
    plain = value.replace(" & ", " and ")
    if _P["COMPOUND"].search(plain):
        told = _P["COMPOUND"].fullmatch(bare(plain))
        return (told.group(),) if told else ()
    pieces = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+(?:also\s+)?", plain)
    if len(pieces) == 1:
        return tuple(filter(None, [thing(plain, simple=simple)]))
    names = tuple(thing(piece, simple=True) for piece in pieces)
    return names if all(names) and _lists(pieces, names) else ()


def _lists(pieces: list[str], names: tuple[str, ...]) -> bool:
    if any(len(name.split()) > 3 for name in names):  # noqa: PLR2004 - what is listed is named shortly
        return False
    if all(_P["DETERMINED"].match(piece) for piece in pieces) or all(name[0].isupper() for name in names):
        return not (names[0].lower() in WORDS["DEMONYMS"] and len(names[-1].split()) > 1)
    adjective = names[0].lower() in WORDS["DEMONYMS"] or len(names[0].split()) < len(names[-1].split())
    return len(pieces) > 2 or not adjective  # noqa: PLR2004


def proper(value: str) -> str:
    """A value that is a proper name, without its article; else empty.

    Example:
        >>> proper("the Netherlands"), proper("Bank of America"), proper("a small flat")
        ('Netherlands', 'Bank of America', '')
    """
    name = bare(value)
    return name if _P["PROPER"].fullmatch(name) else ""
