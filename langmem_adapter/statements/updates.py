"""What a question about the present asks, and what a text tells anew: its clauses, the things and values in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from langmem_adapter.caches import remembered
from langmem_adapter.languages import ENGLISH
from langmem_adapter.statements.chinese_dates import chinese_number
from langmem_adapter.statements.dates import MONTH_NAMES, MONTHS, WEEKDAYS, month_of
from langmem_adapter.statements.tables import lists, patterns
from langmem_adapter.text import asks, is_cjk, kin, subjects

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Asked",
    "Clause",
    "Value",
    "asked",
    "beside",
    "changed",
    "clauses",
    "contrasts",
    "elsewhere",
    "leads",
    "numbers",
    "over",
    "owners",
    "passage",
    "phrases",
    "things",
    "values",
]

_P: Final = patterns("updates", {"MONTHS": MONTH_NAMES, "WEEKDAYS": "|".join(WEEKDAYS)})

_LONGEST: Final = 500  # letters of a question that are read
_WHEN: Final = frozenset({"DATE", "CLOCK"})
_ANSWERS: Final = {
    "WHEN": _WHEN,
    "OFTEN": _WHEN | {"COUNT"},
    "HOW_MANY": frozenset({"COUNT"}),
    "HOW_MUCH": frozenset({"PERCENT", "MONEY", "COUNT", "CLOCK"}),
}
"""The kinds of value that answer a question, by how it asks."""
_SPANS: Final = frozenset(_P.texts["DURATION"].split()) | {"per", "each", "everi"}
_NO_THING: Final = frozenset(_P.texts["NO_THING"].split())


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question names, as `things` reads it, and the kinds of the `values` that answer it.

    It has no kinds where it asks for no amount and no time; any may answer then, where it is *measured* (what, which). Where it
    asks for more than yes or no of whoever asks ("my", "I"; any Chinese one), it is *own*. *names* are the people and proper
    names in it, *numbers* its `numbers`.
    """

    text: str
    things: frozenset[str]
    kinds: frozenset[str]
    counted: bool
    measured: bool
    own: bool
    names: frozenset[str]
    numbers: frozenset[str]

    def answered_by(self, value: Value, told: str) -> bool:
        """Whether a value in a text may answer it: where something is *counted*, no number of other things."""
        if self.counted and value.kind == "COUNT":
            return not value.unit.isdisjoint(self.things) or (not value.unit and changed(told))
        return value.kind in self.kinds if self.kinds else bool(value.unit) or value.kind in ("PERCENT", "MONEY")


@remembered(512)
def asked(question: str, language: str = ENGLISH) -> Asked | None:
    """What a question asks of how things are now; `None` where it asks of something else.

    What somebody did, said or was once ("did", "were", "last week", 上次), advice, and what has several answers: no
    later statement takes the place of an earlier one there.

    Example:
        >>> sorted(asked("What's my budget for the kitchen?").things)
        ['budget', 'kitchen']
        >>> asked("Where did I live?"), asked("What hobbies do I like?"), asked("What would you suggest?")
        (None, None, None)
    """
    plain = _P["LEAD"].sub("", question[:_LONGEST])
    if not (is_cjk(plain) or _of_now(plain)) or any(_P[name].search(plain) for name in ("THEN", "SEVERAL", "DONE")):
        return None
    plain = _P["NOW"].sub(" ", plain)
    kinds = frozenset().union(*(kinds for name, kinds in _ANSWERS.items() if _P[name].search(plain)))
    return Asked(
        plain,
        things(plain, language) - _NO_THING,
        kinds,
        counted=_P["HOW_MANY"].search(plain) is not None,
        measured=bool(kinds) or _P["WHAT"].search(plain) is not None,
        own=_P["OWN"].search(plain) is not None,
        names=kin(plain, language) | subjects(" ".join(_CAPITAL.findall(plain)), language),
        numbers=numbers(plain),
    )


def numbers(text: str) -> frozenset[str]:
    """The numbers and places in a row that a text tells which thing it is by.

    Example:
        >>> sorted(numbers("When does the second part of Year 5 end?"))
        ['5', 'second']
    """
    return frozenset(map(str.lower, _P["NUMBER"].findall(text)))


_CAPITAL: Final = re.compile(r"(?<=\s)[A-Z]\w+")


def beside(text: str, language: str = ENGLISH) -> frozenset[str]:
    """The `things` that a text names by their own names, but for numbers and spans of time.

    Example:
        >>> sorted(beside("I've run with Nina for 3 weeks"))
        ['nina', 'run']
    """
    return frozenset(one for one in things(text, language) - _SPANS if not one.startswith("=") and not one.isdigit())


def _of_now(question: str) -> bool:
    """Whether the verb of an English question is in the present, and neither "you" its subject nor a reason what it wants."""
    verb = _P["AUXILIARY"].search(question)
    if verb is None:
        return _P["NOT_MINE"].match(question) is None
    you = _P["YOU"].match(question, verb.end())
    return _P["PRESENT"].fullmatch(verb[0]) is not None and you is None and _P["WHY"].match(question) is None


@remembered(16_384)
def things(text: str, language: str = ENGLISH) -> frozenset[str]:
    """What a text names: its `subjects`, and in Chinese the words between its function words.

    Example:
        >>> sorted(things("我的会议在周三")), sorted(things("My budget"))
        (['会议', '周三'], ['budget'])
    """
    if not is_cjk(text):
        return subjects(text, language)
    told = [(run, subjects(run, language)) for run in _P["NO_THING_CJK"].split(text) if run]
    named = frozenset(one for _, found in told for one in found if len(one) > 1 or not is_cjk(one))
    return named or frozenset().union(*(found for _, found in told))


@remembered(512)
def phrases(question: str, language: str) -> tuple[frozenset[str], ...]:
    """What a question names between its function words, verbs and spans of time aside; in Chinese the signs of each."""
    if is_cjk(question):
        runs = (frozenset(run) for run in _P["NO_THING_CJK"].split(question) if not _P["SPAN_CJK"].fullmatch(run))
        return tuple(run for run in runs if len(run) > 1)
    verbs = {found.end() for found in _P["VERB"].finditer(question)}
    told = [() if word.end() in verbs else subjects(word[0], language) - _NO_THING for word in _WORD.finditer(question)]
    return tuple(named for holds, run in groupby(told, bool) if holds and (named := frozenset().union(*run) - _SPANS))


_WORD: Final = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+(?:['’][^\W_]+)*")
_VALUE: Final = re.compile(
    "|".join(f"(?P<{kind}>{_P.texts[kind]})" for kind in ("PERCENT", "MONEY", "CLOCK", "DATE", "COUNT")),
    re.IGNORECASE,
)


class Value(NamedTuple):
    """An amount or a time: of which kind, how it is written, and of a number what it counts."""

    kind: str
    text: str
    unit: frozenset[str] = frozenset()

    def compares(self, other: Value) -> bool:
        """Whether it counts or measures what the other does, as far as they say."""
        if self.kind != other.kind:  # "58 %", and then "it is at 61"
            return ("COUNT", frozenset()) in ((self.kind, self.unit), (other.kind, other.unit))
        return not self.unit or not other.unit or not self.unit.isdisjoint(other.unit)


_CHINESE_DAY: Final = re.compile("(.+)月([^日号]*)")
_DIGITS: Final = re.compile(r"\d+")


@remembered(4_096)
def values(text: str) -> frozenset[Value]:
    """The amounts and times in a text; a day of the year is one value however it is written.

    Example:
        >>> sorted(value.text for value in values("The budget is now $500 for 3 days, until May 3"))
        ['$500', '3', 'may 3']
        >>> values("3rd of Dec") == values("Dec. 3") == values("12月3日") == {Value("DATE", "december 3")}
        True
    """
    return frozenset(Value(found.lastgroup or "", _told(found), _unit(found)) for found in _VALUE.finditer(text))


MEASURES: Final = frozenset({"BYTES", "MASS", "LENGTH", "DEGREES", "DURATION"})


def _unit(found: re.Match[str]) -> frozenset[str]:
    """What a number counts, in one word or two behind it or one before, and the measure that this is of."""
    if found[0].lower() in ("once", "twice") or found.lastgroup != "COUNT":
        return subjects("times") if found.lastgroup == "COUNT" else frozenset()
    behind = _P["UNIT"].match(found.string, found.end())
    if behind is None or not (first := subjects(behind[1])):
        before = _P["UNIT_BEFORE"].search(found.string, 0, found.start())
        return subjects(before[1]) if before else frozenset()
    return subjects(behind[0]).union(name for name in MEASURES if not first.isdisjoint(_P.texts[name].split()))


def _told(found: re.Match[str]) -> str:
    text = found[0].lower().strip()
    chinese = _CHINESE_DAY.match(text)
    month = chinese_number(chinese[1]) if chinese else month_of(text)
    if found.lastgroup != "DATE" or month is None or not 1 <= month <= len(MONTHS):
        return text
    day = chinese[2] if chinese else "".join(_DIGITS.findall(text))
    return f"{MONTHS[month - 1].lower()} {chinese_number(day) or ''}".strip()


_READ: Final = 4_000  # letters of a text
_SHORT: Final = 120  # letters of a text whose clauses belong together


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause that states something, and its `text.subjects`."""

    text: str
    subjects: frozenset[str]


@remembered(2_048)
def clauses(text: str, language: str = ENGLISH) -> tuple[Clause, ...]:
    """The clauses of a text that state something: those of its questions and of its code are left out.

    Of a long one the first 4,000 letters are read.

    Example:
        >>> [clause.text for clause in clauses("I'm at 61% now, which modules should I cover first? I use pytest.")]
        ["I'm at 61% now", 'I use pytest.']
    """
    plain = text[:_READ] if "```" not in text else _P["FENCED"].sub(" ", text[:_READ])
    told = (clause for sentence in _P["SENTENCE"].split(plain) for clause in _stating(sentence.strip()))
    return tuple(Clause(clause, subjects(clause, language)) for clause in told)


def _stating(sentence: str) -> Iterator[str]:
    parts = [part for part in _P["CLAUSE"].split(sentence) if part.strip()]
    if parts and asks(sentence):
        first = next((place for place, part in enumerate(parts) if _P["ASKING"].match(part)), len(parts) - 1)
        parts = parts[:first]
    yield from (plain for part in parts if not _P["VOCATIVE"].fullmatch(plain := part.strip(" ,;，")))


def passage(told: tuple[Clause, ...], things: frozenset[str]) -> tuple[Clause, ...]:
    """Those of the clauses of a text that are about *things*: the one that names most of them, and its neighbours.

    Those only where they name more of them, or the text is short.

    Example:
        >>> told = clauses("It rains, but the budget grew, " + "and I am free, " * 9)
        >>> [clause.text for clause in passage(told, frozenset({"budget"}))]
        ['but the budget grew']
    """
    held = [clause.subjects & things for clause in told]
    best = max(range(len(held)), key=lambda place: len(held[place]), default=0)
    if not held or not held[best]:
        return ()
    found, first, last = held[best], best, best
    short = sum(len(clause.text) for clause in told) <= _SHORT
    for place in (best - 1, best + 1):
        if 0 <= place < len(told) and (short or not held[place] <= found):
            found, first, last = found | held[place], min(first, place), max(last, place)
    return told[first : last + 1]


@remembered(4_096)
def changed(text: str) -> bool:
    """Whether a statement says that something is no longer as it was.

    Example:
        >>> changed("I moved to Berlin."), changed("我不吃肉了"), changed("I live in Paris.")
        (True, True, False)
    """
    return _P["CHANGED"].search(text) is not None


@remembered(4_096)
def over(text: str) -> bool:
    """Whether a statement says that something is over, or has been replaced.

    Example:
        >>> over("I traded in the Toyota"), over("我把大众卖了"), over("I bought a Toyota now")
        (True, True, False)
    """
    return _P["OVER"].search(text) is not None


_OWNED: Final = re.compile(r"([\u4e00-\u9fff]{1,4})的([\u4e00-\u9fff]{1,4})")
_PEOPLE: Final = lists("chinese-words")["FAMILY"] | frozenset(_P.texts["PEERS"].split())
_THEIRS: Final = re.compile("|".join(("[他她小老阿]|公司", *_PEOPLE)))
_PERSON: Final = re.compile("|".join((*sorted(_PEOPLE, key=len, reverse=True), _P.texts["NICKNAME"])))
_OPENING: Final = 4  # words in which somebody stands whom a statement is about
_OPENING_CJK: Final = 6  # signs
_JOINTS: Final = frozenset({"for", "of", "with", "in", "at", "on"})
_ARTICLES: Final = frozenset({"the", "a", "an", "my", "our"})


@remembered(4_096)
def leads(text: str, language: str = ENGLISH) -> frozenset[str]:
    """The people and animals that a statement opens with: it is about them.

    Example:
        >>> leads("My sister moved to Lyon"), leads("We went to Lyon to see my sister"), leads("我妹妹搬到上海了")
        (frozenset({'sister'}), frozenset(), frozenset({'妹妹'}))
    """
    if is_cjk(text):
        return frozenset(_PERSON.findall("".join(_P["SUBJECT_CJK"].findall(text))))
    return kin(" ".join(text.split(None, _OPENING)[:_OPENING]), language)


def owners(text: str, things: frozenset[str], language: str = ENGLISH) -> frozenset[str]:
    """Who owns any of some things, as a text says, but for whoever speaks.

    Example:
        >>> owners("Ben's rent was raised", frozenset({"rent"})), owners("我的房租涨了", frozenset({"房租"}))
        (frozenset({'ben'}), frozenset())
    """
    chinese = (found[1] for found in _OWNED.finditer(text) if _is(found[2], things, language)) if "的" in text else ()
    named = [one for one in chinese if kin(one, language) or _THEIRS.search(one)]
    if "'s" in (plain := text.replace("’", "'")):
        told = pairwise(_WORD.findall(plain))
        named += [one[:-2] for one, of in told if one.endswith("'s") and _is(of, things, language)]
    return frozenset().union(*(subjects(one, language) for one in named))


def elsewhere(text: str, known: str, wanted: frozenset[str], language: str = ENGLISH) -> bool:
    """Whether a text is about a *wanted* thing elsewhere, or of hers or his where what is *known* names no such place or owner.

    Example:
        >>> elsewhere("The ward upstairs grew", "My ward", frozenset({"ward"}))
        True
    """
    if (found := _P["ELSEWHERE"].search(text)) and found[0] not in known:
        return True
    if _P["HERS"].search(known):
        return False
    near = (found[found.lastindex or 0] for found in _P["HERS"].finditer(text))
    return any(not wanted.isdisjoint(things(one, language)) for one in near)


def contrasts(text: str, other: str, missing: frozenset[str], language: str = ENGLISH) -> frozenset[str]:
    """The words that stand in a text where another one has what it is *missing*: "Dutch words", not "French words"."""
    if is_cjk(text) or not missing:  # Chinese does not part its words
        return frozenset()
    told = _sorts(text, language)
    linked = (
        word for word, near in _sorts(other, language).items() if not near.isdisjoint(missing) and not word.isdigit()
    )
    found = frozenset().union(*(told.get(word, frozenset()) for word in linked))
    return found if any(map(str.isdigit, missing)) else frozenset(one for one in found if not one[0].isdigit())


@remembered(4_096)
def _sorts(text: str, language: str) -> dict[str, frozenset[str]]:
    """The words that say of which sort each thing in a text is; none, where it is once named alone."""
    told, found = _WORD.findall(text), dict[str, frozenset[str]]()
    for place, word in enumerate(told):
        near = (subjects(one, language) for one in _near(told, place) if not changed(one))
        named = frozenset().union(*near) - _NO_THING
        for thing in subjects(word, language):
            found[thing] = found.get(thing, named) | named if named and found.get(thing, named) else frozenset()
    return found


def _near(told: list[str], place: int) -> Iterator[str]:
    if place:
        yield told[place - 1]
    after = told[place + 1 : place + 5]
    if after and after[0].lower() in _JOINTS:
        yield from [word for word in after[1:] if word.lower() not in _ARTICLES][:1]


def _is(word: str, things: frozenset[str], language: str) -> bool:
    return not things.isdisjoint(subjects(word, language))
