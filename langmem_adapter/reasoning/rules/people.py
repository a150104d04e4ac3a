"""Whom a pronoun means, and how a name that is learnt later joins the memory it belongs to.

"Her name is Jesica" can only be compared once it is known who she is. A pronoun is resolved when exactly one known person
or animal fits it, or when one was named just before in the same conversation; else the statement is kept as it was said.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from langmem_adapter.statements.english import GIVEN
from langmem_adapter.statements.reading import in_chinese
from langmem_adapter.statements.statement import Person
from langmem_adapter.statements.words import FEMALE, MALE, PETS, PLURAL

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["call", "named", "referent", "resolved"]

_SHE: Final = FEMALE | frozenset(
    "姐姐 妹妹 妈妈 母亲 妻子 老婆 太太 女儿 女朋友 女友 奶奶 外婆 姥姥 阿姨 姑姑 侄女 孙女 姐 妹 闺蜜 表姐 表妹".split()
)
_HE: Final = MALE | frozenset(
    "哥哥 弟弟 爸爸 父亲 丈夫 老公 先生 儿子 男朋友 男友 爷爷 外公 姥爷 叔叔 舅舅 侄子 孙子 哥 弟 表哥 表弟".split()
)
_IT: Final = PETS | frozenset("car bike 狗 猫 小狗 小猫 狗狗 猫咪 鹦鹉 仓鼠 兔子 乌龟 宠物 马 鸟 金毛 车".split())
_THEY: Final = PLURAL | frozenset("父母 孩子们 爸妈 双胞胎".split())
_CLASS: Final = {
    **dict.fromkeys("she her 她".split(), _SHE), **dict.fromkeys("he his 他".split(), _HE), **dict.fromkeys("it its 它".split(), _IT),
    **dict.fromkeys("they their 她们 他们 它们".split(), _THEY),
}  # fmt: skip
_GENDERED: Final = _SHE | _HE | _IT | _THEY
_PRONOUN: Final = re.compile(
    r"^(?P<word>she|he|it|they|her|his|its|their)\b(?P<short>'s|'re|'ve)?\s*(?P<rest>.*)$"
    r"|^(?P<cjk>她们|他们|它们|她|他|它)(?P<own>的)?(?P<said>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_NAME_CJK: Final = r"[A-Z][A-Za-z-]*|[\u4e00-\u9fff·]{1,5}"
_NAMING: Final = re.compile(
    rf"^(?:(?i:(?:her|his|its|their) (?:full |first |real )?names? (?:is|are)|(?:she|he|it|they)(?:'s| is| are) (?:called|named)) (?P<name>{GIVEN['NAME']})"
    rf"|(?:她|他|它)(?:的(?:名字|姓名)(?:叫做?|是)|名叫|叫做?|是叫)(?P<cjk>{_NAME_CJK}))$"
)
_KIND: Final = GIVEN["KIND"]
_NAMED_KIND: Final = re.compile(
    rf"^(?i:(?:my )?(?P<kind>{_KIND})(?:'s name is| is called| is named)) (?P<name>{GIVEN['NAME']})$"
    rf"|^(?P<kind2>[\u4e00-\u9fff]{{1,4}}?)(?:的名字)?(?:叫做?|是)(?P<name2>{_NAME_CJK})$"
)
_UNNAMED: Final = re.compile(
    rf"^(?:(?:the )?user |i |(?-i:[A-Z])[\w'-]* )?(?:also |now |just )?(?:has|have|got|adopted|bought|owns?) (?:an? |\w+ )(?:[\w-]+ ){{0,3}}?(?P<kind>{_KIND})\b"
    r"(?!,? (?:is |are )?(?:named|called)|, [A-Z])",
    re.IGNORECASE,
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
    found = _PRONOUN.match(text)
    if found is None:
        return None
    word, naming = (found["word"] or found["cjk"]).lower(), bool(named(text))
    for person in recent:
        if _fits(person, word) and not (naming and person.name):
            return person
    fitting = {person for person in _joined(known) if _fits(person, word) and not (naming and person.name)}
    sure = {person for person in fitting if person.kind in _CLASS[word]} or fitting
    return sure.pop() if len(sure) == 1 else None


def named(text: str) -> str:
    """The name that "Her name is Jesica" gives; empty for other statements."""
    found = _NAMING.match(text.strip())
    return (found["name"] or found["cjk"]) if found else ""


def resolved(text: str, person: Person) -> str:
    """The statement with the person in place of the pronoun.

    Example:
        >>> resolved("She has a dog", Person("sister", "Jesica")), resolved("她的狗叫Rex", Person("姐姐", ""))
        ('Jesica has a dog', '姐姐的狗叫Rex')
    """
    who = person.name or person.kind[0].upper() + person.kind[1:]
    found = _PRONOUN.match(text)
    if found is None:
        return text
    if found["cjk"]:
        return f"{who}{found['own'] or ''}{found['said']}"
    owns = found["word"].lower() in {"her", "his", "its", "their"}
    verb = {"'s": " is", "'re": " are", "'ve": " have", None: ""}[found["short"] and found["short"].lower()]
    return f"{who}{_genitive(who) if owns else verb} {found['rest']}"


def call(memory: str, fact: str) -> str:
    """The memory with the name that a fact gives to the one it tells of; empty where they do not belong together.

    Example:
        >>> call("Has a sister", "Sister's name is Jesica"), call("有一个姐姐", "姐姐叫Jesica")
        ('Has a sister named Jesica', '有一个叫Jesica的姐姐')
    """
    naming, plain = _NAMED_KIND.match(fact.strip()), memory.strip().rstrip(".。")
    if naming is None:
        return ""
    kind, name = naming["kind"] or naming["kind2"], naming["name"] or naming["name2"]
    if in_chinese(plain):
        told = re.search(rf"^(?!.*叫).*?(?:有|养)[了着]?.*?(?={re.escape(kind)}$)", plain)
        return f"{told.group()}叫{name}的{kind}" if told else ""
    found = _UNNAMED.match(plain)
    if found is None or found["kind"].lower() != kind.lower():
        return ""
    return f"{plain[: found.end('kind')]} named {name}{plain[found.end('kind') :]}"


def _fits(person: Person, word: str) -> bool:
    kind = person.kind
    if not kind or kind not in _GENDERED:
        return word not in {"it", "its", "它", "它们"}
    if kind in _IT and word in {"she", "her", "he", "his", "她", "他"}:
        return bool(person.name)
    return kind in _CLASS[word]


def _joined(known: Iterable[Person]) -> list[Person]:
    """Everybody once: "Jesica has a dog" and "Has a sister named Jesica" tell of one Jesica."""
    persons = dict.fromkeys(known)
    kinds = {person.name: person for person in persons if person.kind and person.name}
    return [kinds.get(person.name, person) if person.name else person for person in persons]


def _genitive(who: str) -> str:
    return "'" if who.endswith("s") and who.lower() in PLURAL else "'s"
