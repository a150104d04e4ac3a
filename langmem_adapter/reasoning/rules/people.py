"""Whom a pronoun means, and how a name that is learnt later joins the memory it belongs to.

"Her name is Jesica" can only be compared once it is known who she is. A pronoun is resolved when exactly one known person
or animal fits it, or when one was named just before in the same conversation; else the statement is kept as it was said.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final

from langmem_adapter.statements.english import GIVEN
from langmem_adapter.statements.parser import in_chinese, read
from langmem_adapter.statements.tables import lists, patterns
from langmem_adapter.statements.words import WORDS
from langmem_adapter.text import refers_back

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langmem_adapter.statements.statement import Person

__all__ = ["Company", "call"]

_RECENT: Final = 50  # people that a pronoun may mean, the last ones named
_KINDS: Final = lists("people-words")
_MEANT: Final = {
    "FEMALE": "she her 她",
    "MALE": "he his 他",
    "PETS": "it its 它",
    "PLURAL": "they their 她们 他们 它们",
}
_CLASS: Final = {word: WORDS[key] | _KINDS[key] for key, words in _MEANT.items() for word in words.split()}
_GENDERED: Final = frozenset().union(*_CLASS.values())
_P: Final = patterns("people", GIVEN)


class Company:
    """Those whom a speaker has named, also in memories, one of whom a pronoun may mean.

    Example:
        >>> company = Company()
        >>> [company.told(text) for text in ("Has a sister named Jesica", "She has a dog", "It barks")]
        ['Has a sister named Jesica', 'Jesica has a dog', 'Dog barks']
    """

    def __init__(self, known: Iterable[Person] = ()) -> None:
        self._known = _joined(known)
        self._recent: deque[Person] = deque(maxlen=_RECENT)

    def told(self, text: str) -> str:
        """The statement with its pronoun resolved, where it has one and it is clear; whom it tells of is then named last."""
        found = _P["PRONOUN"].match(text) if refers_back(text) else None
        person = self._meant(text, found) if found else None
        plain = _resolved(found, person) if found and person else text
        self._recent.extendleft(reversed(read(plain).people))
        if person and not _named(text):
            self._recent.appendleft(person)
        return plain

    def _meant(self, text: str, found: re.Match[str]) -> Person | None:
        """The last fitting one of this conversation, else the only fitting one of those known."""
        word, naming = (found["word"] or found["cjk"]).lower(), _named(text)
        for person in self._recent:
            if _fits(person, word) and not (naming and person.name):
                return person
        fitting = {person for person in self._known if _fits(person, word) and not (naming and person.name)}
        sure = {person for person in fitting if person.kind in _CLASS[word]} or fitting
        return sure.pop() if len(sure) == 1 else None


def _named(text: str) -> bool:
    return _P["NAMING"].match(text.strip()) is not None


def _resolved(found: re.Match[str], person: Person) -> str:
    who = person.name or person.kind[0].upper() + person.kind[1:]
    if found["cjk"]:
        return f"{who}{found['own'] or ''}{found['said']}"
    owns = found["word"].lower() in {"her", "his", "its", "their"}
    verb = {"'s": " is", "'re": " are", "'ve": " have", None: ""}[found["short"] and found["short"].lower()]
    genitive = "'" if who.endswith("s") and who.lower() in WORDS["PLURAL"] else "'s"
    return f"{who}{genitive if owns else verb} {found['rest']}"


def call(memory: str, fact: str) -> str:
    """The memory with the name that a fact gives to the one it tells of; empty where they do not belong together.

    Example:
        >>> call("Has a sister", "Sister's name is Jesica"), call("有一个姐姐", "姐姐叫Jesica")
        ('Has a sister named Jesica', '有一个叫Jesica的姐姐')
    """
    naming, plain = _P["NAMED_KIND"].match(fact.strip()), memory.strip().rstrip(".。")
    if naming is None:
        return ""
    kind, name = naming["kind"] or naming["kind2"], naming["name"] or naming["name2"]
    if in_chinese(plain):
        told = re.search(rf"^(?!.*叫).*?(?:有|养)[了着]?.*?(?={re.escape(kind)}$)", plain)
        return f"{told.group()}叫{name}的{kind}" if told else ""
    found = _P["UNNAMED"].match(plain)
    if found is None or found["kind"].lower() != kind.lower():
        return ""
    return f"{plain[: found.end('kind')]} named {name}{plain[found.end('kind') :]}"


def _fits(person: Person, word: str) -> bool:
    kind = person.kind
    if not kind or kind not in _GENDERED:
        return word not in {"it", "its", "它", "它们"}
    if kind in _CLASS["it"] and word in {"she", "her", "he", "his", "她", "他"}:
        return bool(person.name)
    return kind in _CLASS[word]


def _joined(known: Iterable[Person]) -> list[Person]:
    """Everybody once: "Jesica has a dog" and "Has a sister named Jesica" tell of one Jesica."""
    persons = dict.fromkeys(known)
    kinds = {person.name: person for person in persons if person.kind and person.name}
    return [kinds.get(person.name, person) if person.name else person for person in persons]
