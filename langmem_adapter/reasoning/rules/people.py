"""Whom a pronoun means, and how a name that is learnt later joins the memory it belongs to.

"Her name is Jesica" can only be compared once it is known who she is. A pronoun is resolved when exactly one known person
or animal fits it, or when one was named just before in the same conversation; else the statement is kept as it was said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.statements.chinese import KIN
from langmem_adapter.reasoning.rules.meaning import in_chinese
from langmem_adapter.reasoning.rules.words import FEMALE, MALE, MONTHS, PETS, PLURAL

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Person", "call", "mentioned", "named", "referent", "resolved"]

_OTHERS: Final = frozenset(
    "baby boss child colleague cousin friend kid neighbor neighbour partner roommate sibling twin".split()
)
_GENDERED: Final = FEMALE | MALE | PETS | PLURAL
_ENGLISH_KIN: Final = "|".join(
    sorted((re.escape(word) for word in _GENDERED | _OTHERS if word.isascii()), key=len, reverse=True)
)
_NAME: Final = r"[A-Z][\w'-]*(?: [A-Z][\w-]*)?(?<!'s)"
_NAME_CJK: Final = r"[A-Z][A-Za-z-]*|[\u4e00-\u9fff·]{1,5}"
_HAS: Final = re.compile(
    rf"^(?:the user |user |i |(?-i:[A-Z])[\w'-]* )?(?:also |now |just )?(?:has|have|got|adopted|bought"
    rf"|owns?) (?:an? |\w+ )(?:[\w-]+ ){{0,3}}?(?P<kind>{_ENGLISH_KIN})\b"
    rf"(?! (?:in common|allergy|walker|sitter|food))(?:(?:,? (?:is )?(?:named|called)|,) (?-i:(?P<name>{_NAME})))?",
    re.IGNORECASE,
)
_KIND_NAME: Final = re.compile(
    rf"^(?:my )?(?P<kind>{_ENGLISH_KIN})(?:'s name is| is called| is named| is| called| named"
    rf"|,)? (?-i:(?P<name>{_NAME}))\b",
    re.IGNORECASE,
)
_KIND: Final = re.compile(rf"^(?:my )?(?:[\w-]+ )?(?P<kind>{_ENGLISH_KIN})(?:'s)? \w", re.IGNORECASE)
_MET: Final = re.compile(
    rf"\b(?i:met|meeting with|dating|married to|talked to|lunch with|dinner with|friend|colleague|cousin|boss"
    rf"|visited) (?P<name>{_NAME})"
)
_SUBJECT: Final = re.compile(
    rf"^(?P<name>{_NAME})(?:'s \w+)? (?:has|is|lives|works|likes|loves|was|plays|studies|moved|can|will|wants"
    rf"|speaks|owns|enjoys|got)\b"
)
_HAS_CJK: Final = re.compile(
    rf"^(?:用户|我|[A-Z][A-Za-z-]*|{KIN})?(?:有|养了?"
    rf"|养着)(?:了)?(?:[一两\d]?[个位只条名])?(?:叫(?P<name>{_NAME_CJK})的)?(?:[^，,。叫]{{0,4}}?)(?P<kind>{KIN})(?:[，,]?(?:名字?叫|叫)(?P<after>{_NAME_CJK}))?$"
)
_KIND_CJK: Final = re.compile(rf"^(?:我的?)?(?P<kind>{KIN})(?:(?:的名字)?(?:叫做?|是)(?P<name>{_NAME_CJK})$|.)")
_SUBJECT_CJK: Final = re.compile(r"^(?P<name>[A-Z][A-Za-z-]*)(?:的.{1,4})?(?:有|是|住|在|喜欢|会|爱|养)")
_MET_CJK: Final = re.compile(r"(?:和|跟|见了|见到|认识了)(?P<name>[A-Z][A-Za-z-]*)")

_PRONOUN: Final = re.compile(
    r"^(?P<word>she|he|it|they|her|his|its|their)\b(?P<short>'s|'re|'ve)?\s*(?P<rest>.*)$", re.IGNORECASE | re.DOTALL
)
_PRONOUN_CJK: Final = re.compile(r"^(?P<word>她们|他们|它们|她|他|它)(?P<own>的)?(?P<rest>.*)$", re.DOTALL)
_NAMING: Final = re.compile(
    rf"^(?:(?i:her|his|its|their) (?i:full |first |real )?(?i:names? (?:is|are))|(?i:(?:she|he|it|they)(?:'s| is"
    rf"| are) (?:called|named))) (?P<name>{_NAME})$"
)
_NAMING_CJK: Final = re.compile(rf"^(?:她|他|它)(?:的(?:名字|姓名)(?:叫做?|是)|名叫|叫做?|是叫)(?P<name>{_NAME_CJK})$")
_NAMED_KIND: Final = re.compile(
    rf"^(?:my )?(?P<kind>{_ENGLISH_KIN})(?:'s name is| is called| is named) (?-i:(?P<name>{_NAME}))$", re.IGNORECASE
)
_NAMED_KIND_CJK: Final = re.compile(rf"^(?P<kind>{KIN})(?:的名字)?(?:叫做?|是)(?P<name>{_NAME_CJK})$")
_CLASS: Final = {
    "she": FEMALE, "her": FEMALE, "她": FEMALE, "he": MALE, "his": MALE, "他": MALE, "it": PETS, "its": PETS, "它": PETS,
    "they": PLURAL, "their": PLURAL, "她们": PLURAL, "他们": PLURAL, "它们": PLURAL,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody, or some animal, that a memory tells of.

    Attributes:
        kind: "sister", "dog", 姐姐; empty where only the name is known.
        name: "Jesica"; empty where only the kind is known.
    """

    kind: str
    name: str


def mentioned(text: str) -> tuple[Person, ...]:
    """Whom a memory tells of, if anybody: the one it introduces, then the one it is about.

    Example:
        >>> mentioned("Jesica has a dog"), mentioned("Name is John")
        ((Person(kind='dog', name=''), Person(kind='', name='Jesica')), ())
    """
    plain = text.strip().rstrip(".。")
    if in_chinese(plain):
        return _mentioned(plain, _HAS_CJK, _KIND_CJK, (_SUBJECT_CJK, _MET_CJK))
    return _mentioned(plain, _HAS, _KIND_NAME, (_SUBJECT, _MET), _KIND)


def _mentioned(plain: str, *patterns: Any) -> tuple[Person, ...]:
    has, kind, names, *unnamed = patterns
    persons = []
    if found := has.match(plain):
        persons.append(Person(found["kind"].lower(), found["name"] or found.groupdict().get("after") or ""))
    elif found := kind.match(plain):
        persons.append(Person(found["kind"].lower(), found["name"] or ""))
    elif found := next((match for pattern in unnamed if (match := pattern.match(plain))), None):
        persons.append(Person(found["kind"].lower(), ""))
    found_names = [found["name"] for pattern in names if (found := pattern.search(plain))]
    persons += [Person("", name) for name in found_names if name.split()[0].lower() not in _NO_PERSON]
    return tuple(persons)


_NO_PERSON: Final = (
    frozenset(
        "name user favorite favourite nickname birthday email phone she he it they her his its their this that the "
        "no".split()
    )
    | MONTHS
)


def referent(text: str, recent: Iterable[Person], known: Iterable[Person]) -> Person | None:
    """Whom the pronoun that opens *text* means.

    Args:
        text: A statement that refers back.
        recent: Those named in the same conversation before it, the last one first.
        known: Those named in memories.

    Returns:
        The last fitting one of *recent*, else the only fitting one of *known*, else `None`.
    """
    found = _PRONOUN.match(text) or _PRONOUN_CJK.match(text)
    if found is None:
        return None
    word, naming = found["word"].lower(), named(text)
    for person in recent:
        if _fits(person, word) and not (naming and person.name):
            return person
    fitting = {person for person in _joined(known) if _fits(person, word) and not (naming and person.name)}
    sure = {person for person in fitting if person.kind in _CLASS[word]} or fitting
    return sure.pop() if len(sure) == 1 else None


def named(text: str) -> str:
    """The name that "Her name is Jesica" gives; empty for other statements."""
    found = _NAMING.match(text.strip()) or _NAMING_CJK.match(text.strip())
    return found["name"] if found else ""


def resolved(text: str, person: Person) -> str:
    """The statement with the person in place of the pronoun.

    Example:
        >>> resolved("She has a dog", Person("sister", "Jesica")), resolved("她的狗叫Rex", Person("姐姐", ""))
        ('Jesica has a dog', '姐姐的狗叫Rex')
    """
    who = person.name or person.kind[0].upper() + person.kind[1:]
    if found := _PRONOUN_CJK.match(text):
        return f"{who}{found['own'] or ''}{found['rest']}"
    found = _PRONOUN.match(text)
    if found is None:
        return text
    owns = found["word"].lower() in {"her", "his", "its", "their"}
    verb = {"'s": " is", "'re": " are", "'ve": " have", None: ""}[found["short"] and found["short"].lower()]
    return f"{who}{_genitive(who) if owns else verb} {found['rest']}"


def call(memory: str, fact: str) -> str:
    """The memory with the name that a fact gives to the one it tells of; empty where they do not belong together.

    Example:
        >>> call("Has a sister", "Sister's name is Jesica"), call("有一个姐姐", "姐姐叫Jesica")
        ('Has a sister named Jesica', '有一个叫Jesica的姐姐')
    """
    naming = _NAMED_KIND.match(fact.strip()) or _NAMED_KIND_CJK.match(fact.strip())
    plain = memory.strip().rstrip(".。")
    chinese = in_chinese(plain)
    found = (_HAS_CJK if chinese else _HAS).match(plain) if naming else None
    if naming is None or found is None or found["name"] or found.groupdict().get("after"):
        return ""
    if found["kind"].lower() != naming["kind"].lower():
        return ""
    if chinese:
        return f"{plain[: found.start('kind')]}叫{naming['name']}的{plain[found.start('kind') :]}"
    return f"{plain[: found.end('kind')]} named {naming['name']}{plain[found.end('kind') :]}"


def _fits(person: Person, word: str) -> bool:
    kind = person.kind
    if not kind or kind not in _GENDERED:
        return word not in {"it", "its", "它", "它们"}
    if kind in PETS and word in {"she", "her", "he", "his", "她", "他"}:
        return bool(person.name)
    return kind in _CLASS[word]


def _joined(known: Iterable[Person]) -> list[Person]:
    """Everybody once: "Jesica has a dog" and "Has a sister named Jesica" tell of one Jesica."""
    persons = dict.fromkeys(known)
    kinds = {person.name: person for person in persons if person.kind and person.name}
    return [kinds.get(person.name, person) if person.name else person for person in persons]


def _genitive(who: str) -> str:
    return "'" if who.endswith("s") and who.lower() in PLURAL else "'s"
