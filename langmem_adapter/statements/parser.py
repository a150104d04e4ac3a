"""The statement that a memory or a fact makes, whoever worded it, in English or Chinese; and the attributes it speaks of."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from langmem_adapter.caches import remembered
from langmem_adapter.statements.chinese import chinese_statement
from langmem_adapter.statements.english import english_statement
from langmem_adapter.statements.statement import LONGEST, Statement
from langmem_adapter.text import is_cjk, refers_back

__all__ = ["attributes", "in_chinese", "read", "single_valued"]

_FOREIGN: Final = re.compile("[A-Za-z]+")
_BRACKETS: Final = re.compile(r" \((?!\d+\)).*\)$", re.DOTALL)
"""What stands behind a fact, and is not read."""
_VERBS: Final = frozenset("Is Has Can Likes Loves Lives Works Name".split())


@remembered(4_096)
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
