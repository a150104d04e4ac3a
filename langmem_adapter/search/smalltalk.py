"""What a query asks for: nothing (small talk), whatever is known of the one who asks, or something.

Told by its words alone, in English and Chinese: small talk has none but those of grammar and of talk. A question about oneself
has none but these and those of telling and knowing, or says so outright ("about me"). In other languages every word asks for
something.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from langmem_adapter.languages import ENGLISH, folded, reads_english
from langmem_adapter.search.ranking import Ranked
from langmem_adapter.text import is_cjk, meaningful, words
from langmem_adapter.vocabulary import ABOUT, ABOUT_CJK, PHRASE, STOPWORDS_CJK, TALK, TALK_CJK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langmem_adapter.search.shelf import Shelf

__all__ = ["asks_for", "newest"]

Asks: TypeAlias = Literal["nothing", "oneself", "something"]
"""What a query asks for."""

_YOU: Final = r"\byou(?:r|'ve|'d)?\b"
_ME: Final = (
    r"(?:about|knows?|known|got to know|remember|recall|describe|summari[sz]e|introduce|forg[oe]t(?:ten)?|of|on)"
    r" (?:me|myself)"
)
_LATELY: Final = (
    r"(?:so far|yet|already|by now|right now|today|before|until now|up to now|lately|exactly|then|at all|please)"
)
_END: Final = rf"(?=\W*(?:{_LATELY}\W*)*$|[.?!,;:])"
_TOLD: Final = r"(?:tell|told|sa(?:y|id)|shared?|mention(?:ed)?|talk(?:ed)?|discuss(?:ed)?)"
_RECORD: Final = (
    r"(?:profile|background|personality|memor(?:y|ies)|facts|details|info(?:rmation)?|life|files?|records?)"
)

_OUTRIGHT: Final = re.compile(
    rf"{_YOU}.*\b(?:{_ME}|(?:who|what) i(?: am|'m)|what i am like)\b{_END}|\b{_ME}\b{_END}.*{_YOU}"
    rf"|\babout (?:me|myself)\b{_END}"
)
_NAMED: Final = re.compile(r"(?<=[^.?!\s] )[A-Z][a-z]")
_ONESELF: Final = re.compile(
    rf"\bam i\b|\bwho i am\b|\bwhat do you (?:know|remember|recall)\b|\b{_ME}\b|\babout my\b"
    rf"|\b(?:i|we)(?:'ve| have| had| did)? (?:\w+ )?{_TOLD}\b|\bmy (?:\w+ )?{_RECORD}\b"
)
_ASKED: Final = re.compile(
    r"\?|\b(?:what|who|which|how|do you|did i|have i|am i|anything|everything)\b"
    r"|\b(?:tell|describe|summari[sz]e|list|show|give|recall|sum|share)\b"
)
_QUESTION: Final = re.compile(r"\?|^\W*(?:what|who|which|where|when|why|how)\b")
_OWN: Final = re.compile(r"\b(?:i|my)\b")
_TO_YOU: Final = re.compile(r"\b(?:you|your|it|that|up|everything)\b")
_SPOKEN: Final = re.compile(r"\b(?:i|me|you|your|it|that|this|let|us)\b")

_OUTRIGHT_CJK: Final = re.compile(
    "我(?:到底|究竟)?是(?:谁|一?个?(?:什么|怎么?样)样?的?人)"
    r"|(?:关于|记住|认得|熟悉|了解|认识|记得|描述|形容|介绍|概括|总结|评价|忘记?了?)(?:一下|一?遍)?[过了]?我(?:自己|本人|这个人)?"
    r"(?=[吗么呢吧没有？?，,。！!]|$|多少|什么|哪些)"
    r"|对我(?:这个人)?[的有]?\w{0,4}(?:印象|了解|认识|看法|评价)|(?:眼里|眼中|心里|心中|印象里|记忆里)的?我(?!的)"
    r"|我(?:之前|以前|都|曾经|曾)*(?:[跟对和给向]你)?(?:都|之前|以前)?(?:[说讲提聊]过|(?:告诉|分享|透露)过)你?[些了]?(?:什么|哪些|啥)"
    r"|我的?(?:哪些|什么|所有|全部|个人|基本)?(?:信息|资料|档案|事情?|情况)(?=[吗么呢吧？?，,。！!]|$)"
)
_ONESELF_CJK: Final = re.compile("(?<![帮给陪让教])我")
_ASKED_CJK: Final = re.compile(
    "谁|(?<!没)什么|啥|哪|多少|几|怎样|怎么看|如何|介绍|总结|概括|描述|形容|评价|列|记录|(?:知道|记得|了解|认识|忘|印象).*[吗么?？]"
    "|[说讲聊](?:[说讲聊]|一下|一[说讲])"
)
_VERBS: Final = frozenset({"like"})  # a function word everywhere else
_LONGEST: Final = 300  # letters of what may ask for nothing
_DRAWN_OUT: Final = re.compile(r"([^\W\d])\1{2,}|\b([^\W\d]{1,2}?)\2{2,}\b")


def asks_for(text: str, language: str = ENGLISH) -> Asks:
    """What a query asks for.

    Args:
        text: The query.
        language: Of the database (`meta.language_of`).

    Example:
        >>> asks_for("ok 👍 thanks!"), asks_for("What do you know about me?"), asks_for("Where do I live?")
        ('nothing', 'oneself', 'something')
        >>> asks_for("好的，谢谢"), asks_for("你知道我什么？"), asks_for("我住在哪里？")
        ('nothing', 'oneself', 'something')
    """
    if len(text) > _LONGEST:
        return "something"
    plain = _DRAWN_OUT.sub(r"\1\2", folded(text).replace("’", "'"))
    chinese, latin = is_cjk(plain), [term for term in words(plain, language) if not is_cjk(term)]
    if (
        _OUTRIGHT_CJK.search(plain)
        if chinese
        else _OUTRIGHT.search(plain) and _ASKED.search(plain) and not _NAMED.search(text)
    ):
        return "oneself"
    if (chinese and _left(plain, more=True)) or (latin and _content(latin, plain, language, about=True)):
        return "something"
    if (chinese and _ONESELF_CJK.search(plain) and _ASKED_CJK.search(plain)) or (latin and _of_oneself(plain)):
        return "oneself"
    told = (chinese and _left(plain, more=False)) or (latin and _content(latin, plain, language, about=False))
    return "something" if told else "nothing"


def newest(shelf: Shelf, allowed: NDArray[np.bool_] | None) -> Ranked:
    """The memories of a shelf by their latest statement, the newest first: for who asks for all that is known."""
    places = np.arange(len(shelf)) if allowed is None else np.flatnonzero(allowed)
    places = places[np.argsort(-shelf.recency[places], kind="stable")]
    score, nothing = shelf.recency[places], np.zeros(len(places))
    return Ranked(shelf.roll.pks[places], score, nothing, nothing, {"recency": score}, "newest")


def _of_oneself(plain: str) -> bool:
    if _ONESELF.search(plain):
        return _ASKED.search(plain) is not None
    return _QUESTION.search(plain) is not None and _OWN.search(plain) is not None


def _content(told: list[str], plain: str, language: str, *, about: bool) -> bool:
    """Whether any of the words asks for something."""
    rest = meaningful(told, language) | _VERBS.intersection(told)
    if not reads_english(language):
        return bool(rest)
    rest -= _stems("TALK")
    if about:
        return bool(rest - _stems("ABOUT") - _phrase(told, plain))
    return bool(rest - _phrase(told, plain))


def _phrase(told: list[str], plain: str) -> frozenset[str]:
    """The words that ask for nothing where somebody speaks to somebody, but not in a question about something else."""
    asking = _QUESTION.search(plain) and (_OWN.search(plain) or not _TO_YOU.search(plain))
    talking = _SPOKEN.search(plain) or not _stems("TALK").isdisjoint(told)
    return _stems("PHRASE") if talking and not asking and " my " not in f" {plain} " else frozenset()


@cache
def _stems(name: str) -> frozenset[str]:
    listed = {"TALK": TALK, "PHRASE": PHRASE, "ABOUT": ABOUT}[name]
    return frozenset(term for word in listed for term in words(word))


def _left(plain: str, *, more: bool) -> bool:
    """Whether a Chinese text has anything besides words of grammar and talk, and with *more* of knowing and telling."""
    return is_cjk(_listed(more=more).sub("", plain))


@cache
def _listed(*, more: bool) -> re.Pattern[str]:
    listed = TALK_CJK | STOPWORDS_CJK | (ABOUT_CJK if more else frozenset())
    return re.compile("|".join(sorted(listed, key=len, reverse=True)))
