"""Whom a pronoun means, and how a name that is learnt later joins the memory it belongs to.

"Her name is Jesica" can only be compared once it is known who she is. A pronoun is resolved when exactly one known person
or animal fits it, or when one was named just before in the same conversation; else the statement is kept as it was said.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final

from langmem_adapter.statements.chinese import KIN
from langmem_adapter.statements.english import KIND_WORDS
from langmem_adapter.statements.parser import in_chinese, read
from langmem_adapter.statements.tables import lists, patterns
from langmem_adapter.statements.words import WORDS
from langmem_adapter.text import refers_back

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langmem_adapter.statements.statement import Person

__all__ = ["Company", "named_memory"]

_RECENT: Final = 50  # people that a pronoun may mean, the last ones named
_CJK: Final = lists("chinese-words")
_CLASS: Final = {
    word: WORDS[key] | _CJK.get(key, frozenset())
    for key, words in {"FEMALE": "she her 她", "MALE": "he his 他", "PETS": "it its 它", "PLURAL": "they their"}.items()
    for word in words.split()
}
_GENDERED: Final = frozenset().union(*_CLASS.values())
_P: Final = patterns("english", KIND_WORDS)
_PRONOUN: Final = re.compile(
    r"(?:(?P<word>she|he|it|they)(?P<is>'s|'re)?|(?P<own>her|his|its|their))\b\s*(?P<rest>.*)|(?P<cjk>[他她它])(?P<of>的)?(?P<said>.*)",
    re.IGNORECASE | re.DOTALL,
)
_NAMES: Final = re.compile(f"{_P.texts['NAMING']}|[他她它](?:的(?:名字|姓名)(?:叫做?|是)|名?叫)", re.IGNORECASE)


class Company:
    """Those whom a speaker has named, also in memories, one of whom a pronoun may mean.

    Example:
        >>> company = Company()
        >>> [company.resolved(text) for text in ("Has a sister named Jesica", "She has a dog", "She lives in Rome")]
        ['Has a sister named Jesica', 'Jesica has a dog', 'Jesica lives in Rome']
    """

    def __init__(self, known: Iterable[Person] = ()) -> None:
        persons = dict.fromkeys(known)
        kinds = {person.name: person for person in persons if person.kind and person.name}
        self._known = {kinds.get(person.name, person) if person.name else person for person in persons}
        self._recent: deque[Person] = deque(maxlen=_RECENT)

    def resolved(self, text: str) -> str:
        """The statement with its pronoun resolved, where it has one and it is clear; whom it is about is then named last."""
        found, naming = _PRONOUN.match(text) if refers_back(text) else None, _NAMES.match(text) is not None
        person = self._meant((found["word"] or found["own"] or found["cjk"]).lower(), naming=naming) if found else None
        plain = _put(found, person) if found and person else text
        self._recent.extendleft(reversed(read(plain).people))
        if person and not naming:
            self._recent.appendleft(person)
        return plain

    def _meant(self, word: str, *, naming: bool) -> Person | None:
        """The last fitting one of this conversation, else the only fitting one of those known."""
        recent, known = (
            [person for person in people if _fits(person, word) and not (naming and person.name)]
            for people in (self._recent, self._known)
        )
        sure = [person for person in known if person.kind in _CLASS[word]] or known
        return recent[0] if recent else sure[0] if len(sure) == 1 else None


def _put(found: re.Match[str], person: Person) -> str:
    who = person.name or person.kind[0].upper() + person.kind[1:]
    if found["cjk"]:
        return f"{who}{found['of'] or ''}{found['said']}"
    return f"{who}{chr(39) + 's' if found['own'] else ' is' if found['is'] else ''} {found['rest']}"


def _fits(person: Person, word: str) -> bool:
    if person.kind not in _GENDERED:
        return word not in {"it", "its", "它"}
    pet = person.kind in _CLASS["it"] and word not in {"it", "its", "它", "they", "their"}
    return bool(person.name) if pet else person.kind in _CLASS[word]


def named_memory(memory: str, fact: str) -> str:
    """The memory with the name that a fact gives to the one it is about; empty where they do not belong together.

    Example:
        >>> named_memory("Has a sister", "Sister's name is Jesica"), named_memory("有一个姐姐", "姐姐叫Jesica")
        ('Has a sister named Jesica', '有一个叫Jesica的姐姐')
    """
    person = next((person for person in read(fact).people if person.kind and person.name), None)
    plain = memory.strip().rstrip(".。")
    chinese = re.fullmatch(f"(?P<has>(?:有|养)[了着]?.{{0,6}}?)(?P<kind>{KIN})", plain) if in_chinese(plain) else None
    found = chinese or _P["UNNAMED"].match(plain)
    if person is None or found is None or found["kind"].lower() != person.kind.lower():
        return ""
    if chinese:
        return f"{found['has']}叫{person.name}的{person.kind}"
    return f"{plain[: found.end('kind')]} named {person.name}{plain[found.end('kind') :]}"
