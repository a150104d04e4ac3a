"""English statements taken apart: "Sister no longer lives in Rome" is about the sister, her home, Rome, and over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from langmem_adapter.reasoning.rules.meaning import Statement, terms
from langmem_adapter.reasoning.rules.words import BASE, JOBS, MONTHS, PARTICIPLES, PAST, SINGLE_NOUNS, THIRD
from langmem_adapter.text import signed_words, words

__all__ = ["english_statement"]

_USER: Final = re.compile(r"^(?:(?:the )?user(?:'s)?|i(?='|\s)|my)\s*(?=\S)", re.IGNORECASE)
_SHORT: Final = (
    (r"^(?:i|user)'m\b|^am\b|^'m\b", "is"),
    (r"^'ve\b", "have"),
    (r"\bcan't\b|\bcan not\b", "cannot"),
    (r"n't\b", " not"),
)
_ADVERBS: Final = re.compile(
    r"^(?:really|also|just|actually|currently|truly|absolutely|definitely|still|now|already|usually|often|always"
    r"|sometimes"
    r"|mostly|generally|normally|recently|especially|very much|very)\s+",
    re.IGNORECASE,
)
_OVER: Final = re.compile(r"[\s,]+(?:any ?more|any longer)$", re.IGNORECASE)
_NEVER: Final = re.compile(r"^(?P<be>is|are|was|were|has|have|had)? ?(?P<no>no longer|never|not)\s+", re.IGNORECASE)
_DO_NOT: Final = re.compile(r"^(?:does|do|did) (?P<no>not)\s+", re.IGNORECASE)
_CANNOT_BEAR: Final = re.compile(
    r"^(?:cannot (?:stand|bear|tolerate)|dislikes?|hates?|hated|detests?|despises?|loathes?)\s+(?:to )?", re.IGNORECASE
)
_CANNOT: Final = re.compile(r"^(?:cannot|can not|will not|would not)\s+", re.IGNORECASE)
_QUIT: Final = re.compile(
    r"^(?:(?:has|have) )?(?P<verb>quit|stopped|given up|gave up|used to)\s+(?P<what>.+)", re.IGNORECASE
)
_LEFT: Final = re.compile(
    r"^(?i:left|quit|resigned from|was (?:fired|laid off) (?:from|by))\s+(?i:(?:the |a )?job at )?(?P<what>[A-Z].*)"
)
_HAS_NO: Final = re.compile(r"^(?:has|have)\s+(?:no|zero)\s+(?=\w)", re.IGNORECASE)
_STARTS: Final = (
    frozenset(PAST)
    | THIRD
    | frozenset(
        "is are am was were has have had can cannot could will would did does do never no not been used".split()
    )
)
_JOB: Final = "|".join(JOBS)
_DIET: Final = r"vegetarian|vegan|pescatarian|omnivore|carnivore|flexitarian|keto|halal|kosher"
_STATUS: Final = (
    r"(?:married|single|divorced|engaged|widowed|separated)\b.*|in a (?:new |serious |long-distance )?relationship\b.*"
)
_LIGHT_LIKE: Final = frozenset({"eat", "drink"})


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    attribute: str
    single: bool = False


def _rule(pattern: str, attribute: str, *, single: bool = False) -> _Rule:
    return _Rule(re.compile(rf"(?:{pattern})$", re.IGNORECASE), attribute, single)


_RULES: Final = (
    _rule(r"(?:is |was )?(?:called|named) (?P<v>.+)|goes by (?P<w>.+)", "name", single=True),
    _rule(r"(?:lives?|living|resides?|(?:is )?based|is living) (?:in|at|near) (?P<v>.+)", "home", single=True),
    _rule(r"(?:has )?moved (?:from .+? )?to (?-i:(?P<v>[A-Z].*))", "home", single=True),
    _rule(
        r"(?:is )?(?:works?|working|employed)(?: .{1,40}?)? (?:(?:at|by) (?!home\b|night|week)(?P<v>.+)"
        r"|for (?-i:(?P<w>(?:[A-Z]|an? |the ).*)))",
        "employer",
        single=True,
    ),
    _rule(
        r"(?:started|joined|has joined)(?: working| a(?: new)? job| work)?(?: at)? (?-i:(?P<v>[A-Z].*))",
        "employer",
        single=True,
    ),
    _rule(r"(?:works?|working|is working|worked) as (?:an? |the )?(?P<v>.+)", "job", single=True),
    _rule(
        rf"(?:is|became|has become) (?:an? |the )(?P<v>(?:(?!of\b|with\b|to\b|and\b|for\b"
        rf"|in\b)[\w-]+ ){{0,4}}?(?:{_JOB})\b(?! (?:of (?:an?|the|my))).*)",
        "job",
        single=True,
    ),
    _rule(r"(?:is|turned) (?:now )?(?P<v>\d{1,3})(?:[ -]years?[ -]olds?)?", "age", single=True),
    _rule(r"(?:is |comes? )?(?:originally )?from (?P<v>.+)", "origin", single=True),
    _rule(rf"(?:is |was |were )?born (?:in|on|at) (?P<v>.*(?:\d|{'|'.join(MONTHS)}).*)", "birthday", single=True),
    _rule(r"(?:is |was |were )?born (?:in|at) (?P<v>.+)", "birthplace", single=True),
    _rule(rf"(?:is|got|gets|became) (?:now |recently |happily )?(?P<v>{_STATUS})", "status", single=True),
    _rule(
        rf"(?:is|became|went|turned) (?:an? )?(?:now |strictly )?(?P<v>(?:strict )?(?:{_DIET})\b.*)",
        "diet",
        single=True,
    ),
    _rule(
        r"(?:likes?|loves?|enjoys?|adores?|liked|loved|enjoyed|is (?:fond of|into|keen on|passionate about)"
        r"|is an? (?:big |huge |great )?(?:fan|lover) of)"
        r" (?:to )?(?P<v>.+)",
        "like",
    ),
    _rule(r"prefers? (?:to )?(?P<v>.+)", "prefer"),
    _rule(r"is (?:\w+ly )?allergic to (?P<v>.+)", "allergy"),
    _rule(r"can (?P<v>.+)", "can"),
)


def english_statement(text: str) -> Statement:
    """Take an English statement apart, with or without "User" or "I" in front.

    Example:
        >>> english_statement("User really loves cheese pizza").key, english_statement("Sister lives in Rome").key
        (('', 'like'), ('sister', 'home'))
        >>> english_statement("No longer works at Acme").positive
        False
    """
    told = text.strip().rstrip(".!… ").replace("’", "'")
    told = _USER.sub("", told, count=1)
    for pattern, word in _SHORT:
        told = re.sub(pattern, word, told, flags=re.IGNORECASE)
    told = _bare(told)
    place = _verb(told)
    if place is None:
        return Statement("", "other", told, terms(told))
    return _said(told, "") if place == 0 else _of_noun(told, place)


def _bare(told: str) -> str:
    while found := _ADVERBS.match(told):
        told = told[found.end() :]
    return told


def _verb(told: str) -> int | None:
    """Index of the word that the predicate begins with."""
    early = told.split()[:7]
    for place, word in enumerate(early):
        plain = word.lower().strip(",;:")
        if plain in _STARTS or (place == 0 and (plain in BASE or plain.endswith(("ing", "ed")))):
            return place
        if place == 0 and plain in _OPENERS:
            return 0
    return None


_OPENERS: Final = frozenset(
    "quit stopped gave allergic born based from called named single married vegan vegetarian".split()
)


def _of_noun(told: str, place: int) -> Statement:
    early = told.split()
    noun, rest = " ".join(early[:place]), " ".join(early[place:])
    owner, _, owned = noun.rpartition("'s ")
    owned = owned.strip()
    value = re.match(r"(?:is|are|was|were) (?!not |no longer |called |named )(?P<v>.+)", rest, re.IGNORECASE)
    if value and (set(owned.lower().split()) & SINGLE_NOUNS):
        attribute = " ".join(sorted(terms(owned.lower().replace("favour", "favor").replace("e-mail", "email"))))
        return Statement(
            " ".join(terms(owner)),
            attribute,
            value["v"],
            terms(value["v"]) or tuple(signed_words(value["v"])),
            single=True,
        )
    return _said(rest, " ".join(terms(noun)))


def _said(told: str, subject: str) -> Statement:
    over = _OVER.search(told) is not None
    told = _bare(_OVER.sub("", told))
    if found := _LEFT.match(told):
        return Statement(
            subject, "employer", found["what"], terms(found["what"]), positive=False, single=True, ended=True
        )
    plain, positive, ended = _sign(told)
    plain = re.sub(r"^(is|are|was) (?:really|very|also|still|currently|now|so) ", r"\1 ", plain, flags=re.IGNORECASE)
    rule, value = _attribute(_bare(plain))
    without = _LIGHT_LIKE if rule.attribute == "like" else frozenset()
    empty = over or told.lower().startswith("no longer") or " no longer " in f" {told.lower()} "
    return Statement(
        subject,
        rule.attribute,
        value,
        terms(value, without) or (tuple(signed_words(value)) if rule.single else ()),
        positive=positive and not over,
        single=rule.single,
        ended=ended or over,
        empty=empty,
    )


def _sign(told: str) -> tuple[str, bool, bool]:
    """What is affirmed or denied, whether it is affirmed, whether it is over."""
    if found := _QUIT.match(told):
        what = found["what"]
        if what.split()[0].lower().endswith("ing"):
            what = f"{_lemma(what.split()[0])} {what.partition(' ')[2]}".strip()
        elif found["verb"].lower() != "used to":
            what = f"quit {what}"
        return what, False, True
    for pattern, put in _DENIALS:
        if found := pattern.match(told):
            be = found.groupdict().get("be") or ""
            return " ".join(f"{be} {put} {told[found.end() :]}".split()), False, "no longer" in found.group().lower()
    return told, True, False


_DENIALS: Final = ((_CANNOT_BEAR, "likes"), (_HAS_NO, "has"), (_DO_NOT, ""), (_NEVER, ""), (_CANNOT, "can"))


def _attribute(plain: str) -> tuple[_Rule, str]:
    for rule in _RULES:
        if found := rule.pattern.match(plain):
            return rule, next(group for group in found.groups() if group is not None)
    verb, _, rest = plain.partition(" ")
    low = verb.lower()
    if low in {"has", "have", "owns", "own", "got"}:
        done = low in {"has", "have"} and _participle(rest)
        return _attribute_of_verb(rest, "done") if done else (_rule(".", "has"), re.sub(r"^got ", "", rest))
    if low in {"is", "are", "was", "were"}:
        going = rest.partition(" ")[0].endswith("ing")
        return _attribute_of_verb(rest, "ing") if going else (_rule(".", "is" if low[0] in "ia" else "was"), rest)
    return _attribute_of_verb(plain, _tense(low))


def _participle(rest: str) -> bool:
    first = rest.partition(" ")[0].lower()
    return first in PARTICIPLES or (first.endswith("ed") and len(first) > 4 and first in PAST)  # noqa: PLR2004 - "red"


def _attribute_of_verb(plain: str, tense: str) -> tuple[_Rule, str]:
    verb, _, rest = plain.partition(" ")
    return _rule(".", f"verb:{_lemma(verb)}" + ("" if tense == "now" else f":{tense}")), rest


def _tense(verb: str) -> str:
    if verb == "quit" or verb in BASE:
        return "now"
    if verb.endswith("ing"):
        return "ing"
    return "done" if verb in PAST or verb.endswith("ed") else "now"


def _lemma(verb: str) -> str:
    stems = words(PAST.get(verb.lower(), verb))
    return stems[0] if stems else verb.lower()
