"""What a question about the present asks: the things it names, and the kind of value that answers it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from langmem_adapter.languages import ENGLISH
from langmem_adapter.statements.tables import patterns
from langmem_adapter.statements.values import KINDS
from langmem_adapter.text import is_cjk, subjects

__all__ = ["Asked", "asked", "things"]

_P: Final = patterns("updates", {})
_LONGEST: Final = 500  # letters of a question that are read
_NO_THING: Final = frozenset(_P.texts["NO_THING"].split())


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question asks.

    Attributes:
        things: What it names, as `things` reads them.
        kinds: The kinds of value that answer it (`values.KINDS`); none where it asks for no amount and no time.
    """

    things: frozenset[str]
    kinds: frozenset[str]


def asked(question: str, language: str = ENGLISH) -> Asked | None:
    """What a question asks of how things are now; `None` where it asks of something else.

    What somebody did, said or was once ("did", "were", "last week", 上次), advice, and what has several answers: no
    later statement takes the place of an earlier one there.

    Example:
        >>> asked("What's my budget for the kitchen?") == Asked(frozenset({"budget", "kitchen"}), KINDS["how much"])
        True
        >>> asked("Where did I live?"), asked("What hobbies do I like?"), asked("What would you suggest?")
        (None, None, None)
    """
    plain = _P["LEAD"].sub("", question[:_LONGEST])
    if not (is_cjk(plain) or _of_now(plain)) or any(_P[name].search(plain) for name in ("THEN", "SEVERAL", "DONE")):
        return None
    return Asked(things(plain, language) - _NO_THING, _kinds(plain))


def _of_now(question: str) -> bool:
    """Whether the verb of an English question is in the present, and neither "you" its subject nor a reason what it wants."""
    verb = _P["AUXILIARY"].search(question)
    if verb is None:
        return _P["NOT_MINE"].match(question) is None
    you = _P["YOU"].match(question, verb.end())
    return _P["PRESENT"].fullmatch(verb[0]) is not None and you is None and _P["WHY"].match(question) is None


def _kinds(question: str) -> frozenset[str]:
    return frozenset().union(*(kinds for name, kinds in _BY_WORDS if _P[name].search(question)))


_BY_WORDS: Final = (("WHEN", KINDS["when"]), ("HOW_MUCH", KINDS["how much"]), ("OFTEN", KINDS["when"]))


@lru_cache(maxsize=16_384)
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
