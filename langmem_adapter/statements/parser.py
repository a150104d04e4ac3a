"""The statement that a memory or a fact makes, in English or Chinese: its attribute, and whom a pronoun in it means."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.forks import bounded_cache
from langmem_adapter.statements.chinese import KIN, chinese_statement
from langmem_adapter.statements.english import KIND_WORDS, english_statement
from langmem_adapter.statements.statement import LONGEST, Statement
from langmem_adapter.statements.tables import WORDS, lists, patterns
from langmem_adapter.text import is_cjk, refers_back

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langmem_adapter.statements.statement import Person

_FOREIGN: Final = re.compile("[A-Za-z]+")
_BRACKETS: Final = re.compile(r" \((?!\d+\)).*\)$", re.DOTALL)
"""What stands behind a fact, and is not read."""
_VERBS: Final = frozenset("Is Has Can Likes Loves Lives Works Name".split())
_RECENT: Final = 50  # people that a pronoun may mean, the last ones named
_CLASS: Final = {
    word: WORDS[key] | lists("chinese-words").get(key, frozenset())
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


@bounded_cache(4_096)
def read(text: str) -> Statement:
    """Take a statement apart.

    A text in another language, a long one, and one that no row of the tables knows have no attribute.

    Example:
        >>> read("Lives in Rome").attribute, read("I live in Rome").value, read("Vive en Roma").attribute
        ('home', 'Rome', '')
    """
    bare = _BRACKETS.sub("", text)
    if len(bare) > LONGEST:
        return Statement(text)
    return replace(chinese_statement(bare) if in_chinese(bare) else english_statement(bare), text=text)


def in_chinese(text: str) -> bool:
    """Whether a statement is worded in Chinese, whatever names stand in it.

    Example:
        >>> in_chinese("Jesica有一条狗"), in_chinese("Likes 饺子")
        (True, False)
    """
    if not is_cjk(text):
        return False
    return not text[:1].isascii() or not any(word.islower() or word in _VERBS for word in _FOREIGN.findall(text))


def attributes(text: str) -> set[str]:
    """The attribute that a statement speaks of, with whom it is about, as a mark; none where no row reads it.

    Example:
        >>> attributes("Moved to Braga"), attributes("Sister lives in Porto"), attributes("Vive en Oporto")
        ({':home'}, {':home sister'}, set())
    """
    said = read(text)
    return {f":{said.attribute} {said.subject}".rstrip()[:64]} if said.attribute else set()


def single_valued(text: str) -> tuple[str, str] | None:
    """What a statement gives the one value of; of two such statements of a speaker, one replaces the other.

    Example:
        >>> single_valued("Lives in Porto") == single_valued("I moved to Braga"), single_valued("Likes tea")
        (True, None)
    """
    said = read(text)
    return (said.subject, said.place) if said.single and said.positive and not refers_back(text) else None


# ── whom a pronoun means ────────────────────────────────────────────────────────────────────────────────────────────────────


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
