"""What a short statement says, in a form that can be compared: of whom, which attribute, which value, yes or no."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from langmem_adapter.reasoning.rules.words import PAST, THIRD
from langmem_adapter.text import cased, is_cjk, meaningful, signed_words

__all__ = ["WHOLE_HABITS", "Link", "Statement", "in_chinese", "link", "terms"]

WHOLE_HABITS: Final = frozenset({"verb:smoke", "verb:vape", "verb:抽"})
"""Habits that one has or has not, whatever else is said of them: "quit smoking" ends "smokes cigars"."""

Link = Literal["same", "covered", "refines", "replaces", "contradicts", "unrelated"]
"""How a new statement stands to an old one: says the same, says less, says more, has another value, denies it."""

_LIGHT: Final = frozenset(
    "realli veri much lot too well alway usual often sometim current now recent still just actual absolut 现在 "
    "目前 真的 非常 很 最近 一直".split()
)
_NUMBERS: Final = {
    word: str(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
} | {"两": "2", "二": "2", "三": "3", "四": "4", "五": "5", "六": "6", "七": "7", "八": "8", "九": "9", "十": "10"}
_ORDERED: Final = re.compile(
    r"\b(?:from|to|over|than|before|after|instead|rather)\b|比|从|到|胜过|而不是", re.IGNORECASE
)
_JOINTS: Final = frozenset(
    "name call monday tuesday wednesday thursday friday saturday sunday today tomorrow everi each daili week "
    "weekend month "
    "year morn even afternoon night sinc ago twice onc becaus while dure especi aged".split()
)
_PROPER: Final = frozenset({"birthplace", "employer", "home", "name", "origin"})
_LIST: Final = re.compile(r"\band\b|、|和")
_AFTER_HEAD_CJK: Final = tuple("和、，,跟与及或叫，（(；;在 ")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, taken apart.

    Attributes:
        subject: Stems of whom it is about, joined; empty for the speaker himself.
        attribute: `"name"`, `"home"`, `"like"`, …; `"verb:…"` for a verb of no special kind, `"other"` for the rest.
        value: What is said, as it stands.
        terms: Its meaningful words, stemmed, in order.
        positive: Whether it is affirmed.
        single: Whether the attribute has one value at a time.
        ended: It says that something is over ("no longer", "quit", 不再).
        empty: It says nothing else than that it is over, so that nothing is left to remember once the old memory is gone.
    """

    subject: str
    attribute: str
    value: str
    terms: tuple[str, ...]
    positive: bool = True
    single: bool = False
    ended: bool = False
    empty: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Statements with different keys have nothing to do with each other."""
        return self.subject, self.attribute

    @property
    def counted(self) -> tuple[str, ...]:
        """What is counted in "has 2 cats" or "runs 5 km": two such statements differ in the number only. Else empty."""
        present = self.attribute.startswith("verb:") and self.attribute.count(":") == 1
        if self.attribute != "has" and not present:
            return ()
        plain = tuple(term for term in self.terms if not _is_number(term))
        return plain if len(plain) < len(self.terms) else ()


def terms(text: str, without: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The meaningful words of a text, stemmed, in order, numbers as digits; those with signs as they are written."""
    told = signed_words(text)
    content = meaningful(told) - _LIGHT - without
    return tuple(_NUMBERS.get(term, term) for term in told if term in content)


def in_chinese(text: str) -> bool:
    """Whether a statement is worded in Chinese, whatever names stand in it.

    Example:
        >>> in_chinese("Jesica有一条狗"), in_chinese("Likes 饺子")
        (True, False)
    """
    if not is_cjk(text):
        return False
    foreign = re.findall("[A-Za-z]+", text)
    return not text[:1].isascii() or not any(
        word.islower() or word.lower() in THIRD or word.lower() in PAST or word in {"Is", "Has", "Can"}
        for word in foreign
    )


def link(new: Statement, old: Statement) -> Link:
    """How *new* stands to *old*.

    Example:
        >>> tea, milk = (Statement("", "like", text, terms(text)) for text in ("tea", "tea with milk"))
        >>> link(milk, tea), link(tea, milk), link(tea, tea)
        ('refines', 'covered', 'same')
    """
    if new.key != old.key:
        return "unrelated"
    if new.positive != old.positive:
        return "contradicts" if _denies(*((new, old) if old.positive else (old, new))) else "unrelated"
    same_words = set(new.terms) == set(old.terms) and cased(new.value) == cased(old.value)
    return _equal(new, old) if same_words else _unequal(new, old)


def _unequal(new: Statement, old: Statement) -> Link:
    if not new.positive or not new.terms or not old.terms:
        return "unrelated"
    if _refines(new, old):
        return "refines"
    if _refines(old, new):
        return "covered"
    return "replaces" if new.single or _counted(new, old) else "unrelated"


def _equal(new: Statement, old: Statement) -> Link:
    if not new.terms and not new.attribute.startswith("verb:") and new.value.casefold() != old.value.casefold():
        return "unrelated"
    if new.terms == old.terms or not (_ORDERED.search(new.value) and _ORDERED.search(old.value)):
        return "same"
    return "replaces" if new.attribute in {"prefer", "偏好"} else "unrelated"


def _denies(no: Statement, yes: Statement) -> bool:
    if not no.terms:  # "quit smoking" ends smoking; "no longer has" names nothing that could end
        return no.attribute.startswith("verb:") and (not yes.terms or no.attribute in WHOLE_HABITS)
    return set(no.terms) == set(yes.terms) or _refines(yes, no)


def _refines(more: Statement, less: Statement) -> bool:
    """Whether *more* says all of *less*: its words, its last noun still being a noun and no part of "dog allergy"."""
    if not set(less.terms) < set(more.terms) or not cased(less.value) <= cased(more.value):
        return False
    if less.attribute in _PROPER:  # John is John Smith, but York is not New York
        return more.terms[: len(less.terms)] == less.terms or _LIST.search(more.value) is not None
    if less.single:
        return True
    if not less.value.isascii() and any("\u4e00" <= letter <= "\u9fff" for letter in less.value):
        place = more.value.find(less.value)
        after = more.value[place + len(less.value) :] if place >= 0 else ""
        return place < 0 or not after or after.startswith(_AFTER_HEAD_CJK)
    return _keeps_head(more.value, less.terms[-1])


def _keeps_head(text: str, head: str) -> bool:
    stems = [_NUMBERS.get(term, term) for term in signed_words(text)]
    told = meaningful(stems)
    places = [place for place, term in enumerate(stems) if term == head]
    followers = [stems[place + 1] if place + 1 < len(stems) else "" for place in places]
    return any(follower not in told or follower in _JOINTS or not follower[:1].isalpha() for follower in followers)


def _is_number(term: str) -> bool:
    return any(map(str.isdigit, term)) and not any(map(str.isalpha, term))


def _counted(new: Statement, old: Statement) -> bool:
    """Whether only a number differs: "has 2 cats", "has 3 cats"."""
    return bool(new.counted) and new.counted == old.counted
