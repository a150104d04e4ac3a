"""Times and things in short English statements: what is cut off a value, and what of it may be the name of a thing.

A value becomes a name only where nothing but a noun phrase is left of it; a clause, a pronoun, a denial or too many words
make it none.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from langmem_adapter.reasoning.rules.relations_triples import Span
from langmem_adapter.reasoning.rules.words import BASE, DEMONYMS, MONTHS

__all__ = ["bare", "day", "gerund", "is_date", "proper", "thing", "things", "timed"]

_LONGEST: Final = 6  # words; what takes more is no name

# ── times ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

_NAMED_MONTHS: Final = tuple(
    "january february march april may june july august september october november december".split()
)
_MONTH: Final = rf"(?:{'|'.join(_NAMED_MONTHS)}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?"
_YEAR: Final = r"(?:19|20)\d{2}"
_DATE: Final = (
    rf"(?:{_YEAR}-\d\d-\d\d|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? {_YEAR}|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH},? "
    rf"{_YEAR}|{_MONTH},? {_YEAR}|{_YEAR})"
)
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_UNIT: Final = r"(?:day|night|morning|afternoon|evening|week|weekend|month|year|spring|summer|autumn|fall|winter)s?"
_COUNT: Final = (
    r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|many|several|some|a few"
    r"|a couple of|a long)"
)
_SINCE: Final = re.compile(rf"(?:ever )?since (?P<since>{_DATE})", re.IGNORECASE)
_FROM_TO: Final = re.compile(
    rf"(?:from|between) (?P<since>{_DATE})(?:-| (?:to|until|till|and) )(?P<until>{_DATE})", re.IGNORECASE
)
_UNTIL: Final = re.compile(rf"(?:until|till) (?P<until>{_DATE})", re.IGNORECASE)
_AT: Final = re.compile(rf"(?:in|on) (?:the \w+ of )?(?P<at>{_DATE})", re.IGNORECASE)
_AHEAD: Final = re.compile(
    rf"(?:next|this|coming|the coming) (?:{_UNIT}|{_WEEKDAY})(?: \w+ing)?|tomorrow.*|tonight|soon|later", re.IGNORECASE
)
_LOOSE: Final = re.compile(
    rf"(?:ever )?since (?:{_MONTH}|last {_UNIT}|childhood|birth|college|school|university|then|i was .+|forever)"
    rf"|(?:for|over|in) (?:about |almost |nearly |over |more than )?(?:the (?:last|past) )?(?:{_COUNT} )?"
    r"(?:years?|months?|weeks?|days?|hours?|decades?|ages|time)(?: now)?"
    rf"|(?:every|each) (?:other |single |second )?(?:{_UNIT}|{_WEEKDAY})(?: (?:morning|afternoon|evening|night))?"
    rf"|(?:on|at) (?:the )?(?:{_WEEKDAY}|weekends?|nights?)(?: (?:morning|afternoon|evening|night)s?)?"
    rf"|in (?:{_MONTH}|(?:the )?(?:mornings?|afternoons?|evenings?|spring|summer|autumn|fall|winter)s?)"
    rf"|on {_MONTH} \d{{1,2}}(?:st|nd|rd|th)?|(?:once|twice|{_COUNT} times|{_COUNT} (?:hours?|minutes?)) (?:an?|per|every) \w+"
    rf"|last (?:{_UNIT}|{_WEEKDAY})|{_COUNT} (?:days?|weeks?|months?|years?) ago|\d{{4}}-\d\d-\d\d"
    r"|daily|weekly|monthly|yearly|yesterday|today|always|sometimes|often|regularly|all the time|for fun|full[- ]time"
    r"|part[- ]time",
    re.IGNORECASE,
)
_DEGREE: Final = re.compile(
    r"a lot|(?:very |so |too |that |all that )?much|too|as well|the most|most|most of all|best|now|right now|nowadays"
    r"|these days|at the moment|at present|currently|recently|for a living|already|again|though|by the way|of course"
    r"|(?:un)?fortunately|sadly|luckily|honestly|actually|obviously|apparently",
    re.IGNORECASE,
)


def timed(text: str) -> tuple[str, Span] | None:
    """A statement without the times at its end, and those times; `None` where they lie ahead.

    Example:
        >>> timed("Plays chess every Sunday since 2019")
        ('Plays chess', Span(since=datetime.datetime(2019, 1, 1, 0, 0, ...), ..., lasting=True, partly=True))
        >>> timed("Moves to Rome next week") is None
        True
    """
    times: dict[str, datetime | None] = {}
    lasting = partly = False
    while found := _closing(text):
        if found.re is _AHEAD:
            return None
        times |= {name: day(value) for name, value in found.groupdict().items() if value}
        goes_on = re.match(r"(?:ever )?since|for (?!fun)", found.group(), re.IGNORECASE) is not None
        lasting, partly = lasting or goes_on, partly or (found.re is _LOOSE and not goes_on)
        text = text[: found.start()].rstrip(" ,")
    return text, Span(times.get("since"), times.get("until"), times.get("at"), lasting, partly)


def _closing(text: str) -> re.Match[str] | None:
    """The longest ending that is a time, or a mere degree; never the whole text."""
    starts = (found.end() for found in re.finditer(r"(?<=\S)\s+", text))
    matches = (pattern.fullmatch(text, start) for start in starts for pattern in _TIMES)
    return next(filter(None, matches), None)


_TIMES: Final = (_SINCE, _FROM_TO, _UNTIL, _AT, _AHEAD, _LOOSE, _DEGREE)


def day(text: str) -> datetime | None:
    """The first moment of a year, month or day, in UTC.

    Example:
        >>> day("March 2020").isoformat(), day("2019-02-30")
        ('2020-03-01T00:00:00+00:00', None)
    """
    if iso := re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text):
        return _moment(int(iso[1]), int(iso[2]), int(iso[3]))
    year = re.search(_YEAR, text)
    if year is None:
        return None
    rest = (text[: year.start()] + text[year.end() :]).lower()
    month = next((number for number, name in enumerate(_NAMED_MONTHS, 1) if name[:3] in rest), 1)
    number = re.search(r"\d{1,2}", rest)
    return _moment(int(year[0]), month, int(number[0]) if number else 1)


def _moment(year: int, month: int, number: int) -> datetime | None:
    try:
        return datetime(year, month, number, tzinfo=UTC)
    except ValueError:  # 30 February: said, but no date
        return None


_DAY_OF_YEAR: Final = re.compile(
    rf"(?:the )?(?:\d{{1,2}}(?:st|nd|rd|th)? (?:of )?)?{_MONTH}(?: \d{{1,2}}(?:st|nd|rd|th)?)?(?:,? {_YEAR})?|{_DATE}",
    re.IGNORECASE,
)


def is_date(text: str) -> bool:
    """Whether a text is a day, with or without its year, or a year.

    Example:
        >>> is_date("May 5"), is_date("3rd of March 1990"), is_date("London")
        (True, True, False)
    """
    return _DAY_OF_YEAR.fullmatch(text) is not None and any(map(str.isdigit, text))


# ── things ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

_ARTICLE: Final = re.compile(
    r"^(?:(?:a few|a lot of|lots of|a couple of|a pair of|(?:all|different|many|some) (?:kinds|types|sorts) of|a bit of"
    r"|a little|plenty of|an?|the|my|our|some|any|all|both|many|several|various|very|really|own)\s+)+(?=\S)",
    re.IGNORECASE,
)
_NO_THING: Final = frozenset(
    "it that this them these those him her us me you he she they we i one ones so too very who whom which what when "
    "where why how if because but than while until unless although though as not never no is are was were be been has "
    "have had do does did can could will would should must may might or nor without except only even just anything "
    "everything something nothing anyone everyone someone nobody things thing stuff way ways lot lots much more most "
    "less least here there again well better instead rather about being getting myself yourself himself herself their "
    "his your its whose whatever whenever fact idea people every each such same other others etc both all really "
    "mostly especially usually extremely particularly probably maybe perhaps currently recently".split()
)
_PREPOSITIONS: Final = frozenset(
    "at by for from in into near of off on onto out over since through to towards under up upon with within around "
    "between during after before and".split()
)
_MANNER: Final = frozenset("black cold hot raw".split())  # "coffee black" says how
_ODD: Final = re.compile(r"[;:?!()\[\]{}<>|=*\"“”]|\s[-–—]\s|--|https?|\n")
_COMPOUND: Final = re.compile(
    r"\b(?:mac(?:aroni)? and cheese|rock and roll|fish and chips|drum and bass|peanut butter and jelly|ham and eggs?"
    r"|r and b|arts? and crafts?|dungeons and dragons|salt and pepper|bed and breakfast|science and technology"
    r"|johnson and johnson|trinidad and tobago|bosnia and herzegovina|bread and butter|country and western"
    r"|black and white|true crime and \w+|food and drink|research and development|romeo and juliet)\b",
    re.IGNORECASE,
)
_DETERMINED: Final = re.compile(r"(?:an?|the|my|our|some|\d+|one|two|three|four|five)\s", re.IGNORECASE)
_NUMBER: Final = re.compile(
    r"^(?:\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|twelve)\s+(?=[^\W\d])", re.IGNORECASE
)
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
    """The name of the thing that a value is, empty where it is more or less than one.

    Args:
        value: As it stands in the statement.
        simple: Whether it must be without "of", "with", "in" and their like.

    Example:
        >>> thing("a cheese pizza"), thing("walks on the beach"), thing("it when it rains")
        ('cheese pizza', 'walks on the beach', '')
    """
    name = bare(value)
    told = [word.lower().strip(",'") for word in name.split()]
    if not 0 < len(told) <= _LONGEST or _ODD.search(name) or "," in name or not any(map(str.isalpha, name)):
        return ""
    if not _NO_THING.isdisjoint(told) or any("n't" in word for word in told):
        return ""
    ends = _PREPOSITIONS & {told[0], told[-1]}
    joined = simple and not (_PREPOSITIONS | {"a", "an"}).isdisjoint(told)
    manner = len(told) > 1 and told[-1] in _MANNER
    return "" if ends or joined or manner else name


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
    return name if _PROPER.fullmatch(name) and name.split()[0].lower().strip(",") not in MONTHS else ""


def gerund(verb: str) -> str:
    """The form in "-ing" of an everyday verb, empty for others.

    Example:
        >>> gerund("hike"), gerund("swim"), gerund("play"), gerund("believe in")
        ('hiking', 'swimming', 'playing', '')
    """
    if verb not in BASE:
        return ""
    if verb.endswith("e"):
        return f"{verb[:-1]}ing"
    doubles = re.fullmatch(r"[^aeiou]*[aeiou][bdgmnprt]|program", verb)
    return f"{verb}{verb[-1] if doubles else ''}ing"
