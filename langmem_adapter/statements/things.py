"""Which part of an English value may be the name of a thing: only where nothing but a noun phrase is left of it."""

from __future__ import annotations

import re
from typing import Final

from langmem_adapter.statements.words import DEMONYMS

__all__ = ["bare", "proper", "thing", "things"]

_LONGEST: Final = 6  # words; what takes more is no name
_ARTICLE: Final = re.compile(
    r"^(?:(?:a few|a lot of|lots of|a couple of|a pair of|(?:all|different|many|some) (?:kinds|types|sorts) of|a bit of|a little|"
    r"plenty of|an?|the|my|our|some|any|all|both|many|several|various|very|really|own)\s+)+(?=\S)",
    re.IGNORECASE,
)
_NO_THING: Final = frozenset(
    "it that this them these those him her us me you he she we they i one ones so too very who whom which what when where why how "
    "if because but than while until unless although though as not never no is are was were be been has have had do does did can "
    "could will would should must may might or nor without except only even just anything everything something nothing anyone "
    "everyone someone nobody things thing stuff way ways lot lots much more most less least here there again well better instead "
    "rather about being getting myself yourself himself herself their his your its whose fact idea people every each such same "
    "other others etc both all really mostly especially usually particularly probably maybe perhaps currently recently".split()
)
_PREPOSITIONS: Final = frozenset(
    "at by for from in into near of off on onto out over since through to towards under up upon with within around between during "
    "after before and".split()
)
_MANNER: Final = frozenset("black cold hot raw".split())  # "coffee black" says how
_ODD: Final = re.compile(r"[;:?!()\[\]{}<>|=*\"“”]|\s[-–—]\s|--|https?|\n")
_COMPOUND: Final = re.compile(
    r"\b(?:mac(?:aroni)? and cheese|rock and roll|fish and chips|drum and bass|peanut butter and jelly|ham and eggs?|r and b|"
    r"arts? and crafts?|salt and pepper|bed and breakfast|black and white|food and drink|research and development)\b",
    re.IGNORECASE,
)
_DETERMINED: Final = re.compile(r"(?:an?|the|my|our|some|\d+|one|two|three|four|five)\s", re.IGNORECASE)
_NUMBER: Final = re.compile(r"^(?:\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|twelve)\s+(?=[^\W\d])", re.I)
_PROPER: Final = re.compile(
    r"(?:[A-Z0-9][\w&'.+-]*)(?:,? (?:[A-Z0-9&][\w&'.+-]*|of|the|de|la|le|du|der|van|von|and|al|el|on|upon)){0,5}(?<! of| on)"
)


def bare(value: str, *, counted: bool = False) -> str:
    """A value without articles and quotation marks around it, with *counted* also without a number.

    Example:
        >>> bare("the Beatles"), bare("two old cats", counted=True)
        ('Beatles', 'old cats')
    """
    stripped = value.strip(" ,;'\"“”")
    plain = _ARTICLE.sub("", stripped if stripped.count(".") > 1 else stripped.rstrip("."), count=1)
    return _ARTICLE.sub("", _NUMBER.sub("", plain)) if counted else plain


def thing(value: str, *, simple: bool = False) -> str:
    """The name of the thing that a value is, empty where it is more or less than one; *simple*: without prepositions.

    Example:
        >>> thing("a cheese pizza"), thing("walks on the beach"), thing("it when it rains")
        ('cheese pizza', 'walks on the beach', '')
    """
    name = bare(value)
    told = [word.lower().strip(",'") for word in name.split()]
    if not 0 < len(told) <= _LONGEST or _ODD.search(name) or "," in name or not any(map(str.isalpha, name)):
        return ""
    joints = _PREPOSITIONS & {told[0], told[-1]} or (simple and (_PREPOSITIONS | {"a", "an"}) & set(told))
    unclear = not _NO_THING.isdisjoint(told) or any("n't" in word for word in told)
    return "" if joints or unclear or (len(told) > 1 and told[-1] in _MANNER) else name


def things(value: str, *, simple: bool = False) -> tuple[str, ...]:
    """The things that a value lists; one where it is one, none where the list is not clearly of nouns.

    "Red and green apples" are one thing, "apples and pears" two, "pizza and ice cream" could be either and are none.

    Example:
        >>> things("pizza, pasta and ice cream"), things("mac and cheese"), things("pizza and ice cream")
        (('pizza', 'pasta', 'ice cream'), ('mac and cheese',), ())
    """
    plain = value.replace(" & ", " and ")
    if _COMPOUND.search(plain):
        told = _COMPOUND.fullmatch(bare(plain))
        return (told.group(),) if told else ()
    pieces = re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+(?:also\s+)?", plain)
    if len(pieces) == 1:
        return tuple(filter(None, [thing(plain, simple=simple)]))
    names = tuple(thing(piece, simple=True) for piece in pieces)
    return names if all(names) and _lists(pieces, names) else ()


def _lists(pieces: list[str], names: tuple[str, ...]) -> bool:
    if any(len(name.split()) > 3 for name in names):  # noqa: PLR2004 - what is listed is named shortly
        return False
    if all(_DETERMINED.match(piece) for piece in pieces) or all(name[0].isupper() for name in names):
        return not (names[0].lower() in DEMONYMS and len(names[-1].split()) > 1)
    adjective = names[0].lower() in DEMONYMS or len(names[0].split()) < len(names[-1].split())
    return len(pieces) > 2 or not adjective  # noqa: PLR2004


def proper(value: str) -> str:
    """A value that is a proper name, without its article; else empty.

    Example:
        >>> proper("the Netherlands"), proper("Bank of America"), proper("a small flat")
        ('Netherlands', 'Bank of America', '')
    """
    name = bare(value)
    return name if _PROPER.fullmatch(name) else ""
