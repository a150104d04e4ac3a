"""How a new statement stands to an old one, from what the two say: says the same, less or more, another value, or denies it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from langmem_adapter.caches import remembered
from langmem_adapter.statements.dates import NUMBERS, TIME_WORDS
from langmem_adapter.statements.tables import lists, patterns
from langmem_adapter.statements.words import kind_of
from langmem_adapter.text import cased, meaningful, signed_words

if TYPE_CHECKING:
    from langmem_adapter.statements.statement import Statement

__all__ = ["Bearing", "counted", "link", "named_terms", "renews", "terms"]

Bearing = Literal["same", "covered", "refines", "replaces", "contradicts", "unrelated"]

_WORDS: Final = lists("verdict-words")
_P: Final = patterns("verdicts", {})
_DIGITS: Final = {word: str(number) for word, number in NUMBERS.items() if number != 1 or word == "one"} | {
    word: str(number) for number, word in enumerate("一 两 三 四 五 六 七 八 九 十".split(), 1)
}
_JOINTS: Final = TIME_WORDS | _WORDS["JOINTS"]
_AFTER_HEAD_CJK: Final = tuple("和、，,跟与及或叫，（(；;在 ")


@remembered(8_192)
def terms(value: str) -> tuple[str, ...]:
    """The meaningful words of a value, stemmed, in order, numbers as digits; those with signs as they are written.

    Example:
        >>> terms("two really old cats"), terms("C++")
        (('2', 'old', 'cat'), ('c++',))
    """
    told = signed_words(value)
    content = meaningful(told) - _WORDS["LIGHT"] | {*signed_words(" ".join(re.findall(r"\b[A-Z][a-z]+\b", value)))}
    return tuple(_DIGITS.get(term, term) for term in told if term in content) or tuple(told)


def named_terms(said: Statement) -> tuple[str, ...]:
    """The terms by which others are found: of an end only what it names, so that "gym membership" ends "goes to the gym"."""
    told = terms(said.value)
    return (said.ended and tuple(term for term in told if term not in _WORDS["ROLES"])) or told


def counted(said: Statement) -> tuple[str, ...]:
    """What is counted in "has 2 cats" or "runs 5 km": two such statements differ in the number only. Else empty."""
    if said.attribute not in {"own", "pet", "family", "habit", "hobby", "detail"}:
        return ()
    plain = tuple(term for term in terms(said.value) if not _is_number(term))
    return plain if len(plain) < len(terms(said.value)) else ()


def renews(text: str, context: str) -> str:
    """The word by which the speaker says that a fact takes the place of another ("now", "instead"); empty where none does.

    Example:
        >>> (
        ...     renews("Goes swimming on Thursdays", "I go swimming on Thursdays now. I like it."),
        ...     renews("Likes tea", "I like tea."),
        ... )
        ('now', '')
    """
    last = text.rpartition(" ")[2]
    said = re.split(r"[.!?\n]+", context)
    place = next((place for place, sentence in enumerate(said) if last in sentence), 0)
    told = ".".join(said[max(0, place - 1) : place + 1])
    found = None if _P["BESIDE"].search(told) else _P["RENEWS"].search(told)
    return found.group().lower() if found else ""


def _renewed(new: Statement, old: Statement, renews: str) -> bool:
    """Whether what is done now is what was done before, done otherwise: the same verb, and more than the verb or "instead".

    Of a kind of which one has one at a time, as a language that one learns, the other needs no word in common.
    """
    if new.attribute == "detail":
        return bool(renews) or not new.touches
    if renews and new.attribute == "goal":
        return True
    told, was = terms(new.value), terms(old.value)
    kind, study = kind_of(new.value), new.attribute == "study"
    if not (renews and told and was and (study or new.attribute in {"habit", "hobby", "plan"})):
        return False
    if kind and kind == kind_of(old.value) and (study or renews not in _WORDS["STILL"]):
        return True
    first = study or told[0] == was[0]
    return first and (_P["STRONG"].fullmatch(renews) is not None or len({*told} & {*was}) > 1)


def link(new: Statement, old: Statement, renews: str = "") -> Bearing:
    """How *new* stands to *old*, which was said before; *renews* is as of `renews`.

    Example:
        >>> from langmem_adapter.statements.parser import read
        >>> link(read("Likes tea with milk"), read("Likes tea")), link(read("Quit smoking"), read("Smokes cigars"))
        ('refines', 'contradicts')
    """
    ends = new.ended and old.positive and not old.ended
    if new.subject != old.subject or (not ends and (not new.attribute or new.attribute != old.attribute)):
        return "unrelated"
    if ends:
        return "contradicts" if _ends(new, old) else "unrelated"
    if new.touches != old.touches and not (new.attribute == "detail" and (renews or not new.touches)):
        return "unrelated"
    if new.positive != old.positive:
        no, yes = (new, old) if old.positive else (old, new)
        return "contradicts" if set(terms(no.value)) == set(terms(yes.value)) or _refines(yes, no) else "unrelated"
    kind = _valued(new, old)
    return "replaces" if kind == "unrelated" and new.positive and _renewed(new, old, renews) else kind


def _valued(new: Statement, old: Statement) -> Bearing:
    """Two values of one attribute, both affirmed or both denied."""
    if set(terms(new.value)) == set(terms(old.value)) and cased(new.value) == cased(old.value):
        return _equal(new, old)
    if not new.positive or not terms(new.value) or not terms(old.value):
        return "unrelated"
    if _refines(new, old):
        return "refines"
    if _refines(old, new):
        return "covered"
    return "replaces" if (new.single and old.single) or (counted(new) and counted(new) == counted(old)) else "unrelated"


def _ends(over: Statement, old: Statement) -> bool:
    """Whether what *over* says is over is what *old* says: "sold the car" ends "has a red car", not "likes cars"."""
    kinds = over.attribute, old.attribute
    named_pet = kinds == ("vehicle", "car") or (kinds == ("pet", "own") and over.value[:1].isupper())
    anything = over.attribute == "any" and old.attribute in _WORDS["ENDABLE"]
    trip = kinds == ("plan", "habit") and terms(old.value)[0] in _WORDS["TRIPS"]
    if over.attribute != old.attribute and not (named_pet or anything or trip):
        return False
    gone, told = set(terms(over.value)), set(terms(old.value))
    if over.attribute not in {"habit", "hobby"}:
        gone = gone - _WORDS["ROLES"] or (gone if over.attribute in {"any", "plan"} else set())
    if over.attribute == "partner":
        told -= _WORDS["ROLES"]
    if over.value in _WORDS["ENGAGED"] and not _WORDS["MARRIED"].isdisjoint(terms(old.value)):
        return False
    if not over.value or not gone:
        return old.value not in _WORDS["OVER"] and (not over.value or over.attribute in _WORDS["ENDED_ALONE"])
    whole = old.single and told <= gone and old.value not in _WORDS["OVER"]
    return gone <= told or (whole and (over.attribute != "any" or over.value.isascii()))


def _equal(new: Statement, old: Statement) -> Bearing:
    if not terms(new.value) and new.value.casefold() != old.value.casefold():
        return "unrelated"
    if terms(new.value) == terms(old.value) or not all(map(_P["ORDERED"].search, (new.value, old.value))):
        return "same"
    return "replaces" if new.attribute == "prefer" else "unrelated"


def _refines(more: Statement, less: Statement) -> bool:
    """Whether *more* says all of *less*: its words, its last noun still being a noun and no part of "dog allergy"."""
    whole, part = terms(more.value), terms(less.value)
    if not set(part) < set(whole) or not cased(less.value) <= cased(more.value) or not part:
        return False
    if less.attribute in _WORDS["WHOLE_VALUE"]:  # John is John Smith, but York is not New York
        return whole[: len(part)] == part or _P["LIST"].search(more.value) is not None
    if less.single:
        return True
    if any("\u4e00" <= letter <= "\u9fff" for letter in less.value):
        after = more.value.partition(less.value)[2]
        return not after or after.startswith(_AFTER_HEAD_CJK)
    return _keeps_head(more.value, part[-1])


def _keeps_head(text: str, head: str) -> bool:
    stems = [_DIGITS.get(term, term) for term in signed_words(text)]
    told = meaningful(stems)
    places = [place for place, term in enumerate(stems) if term == head]
    followers = [stems[place + 1] if place + 1 < len(stems) else "" for place in places]
    return any(follower not in told or follower in _JOINTS or not follower[:1].isalpha() for follower in followers)


def _is_number(term: str) -> bool:
    if len(term) > 1 and not term.isascii():  # 六号
        return not _DIGITS.keys().isdisjoint(term)
    return re.fullmatch(r"[^\W\d]?\W?\d[\d.,:/-]*(?:k|km|mg|g|kg|ml|am|pm|m|cm|mi|h|%)?", term) is not None
