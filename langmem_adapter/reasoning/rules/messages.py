"""Sentences of a message, and which of them say nothing that is worth keeping: small talk, questions, requests, commands.

Closed lists decide, in English and Chinese; in doubt a sentence says something. All patterns look at a bounded stretch of text,
so that a message of any length costs time in proportion to it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from langmem_adapter.statements.chinese import PARTS
from langmem_adapter.statements.dates import MONTH_NAMES
from langmem_adapter.statements.english import KIND_WORDS, expanded
from langmem_adapter.statements.tables import patterns
from langmem_adapter.text import STOPWORDS, STOPWORDS_CJK, TALK, TALK_CJK, is_cjk

if TYPE_CHECKING:
    from collections.abc import Iterator

SENTENCES: Final = patterns("sentences", {**PARTS, "KIND": KIND_WORDS["KIND"], "MONTH_NAMES": MONTH_NAMES})
"""Patterns of sentences and their openings."""
_GRAMMAR: Final = frozenset(SENTENCES.texts["GRAMMAR"].split()) | STOPWORDS | TALK
_WORDS: Final = frozenset(SENTENCES.texts["WORDS"].split())
_LONGEST: Final = {"question": 25, "plain question": 10, "request": 20, "talk": 6, "thanks": 8}
_LONGEST_CJK: Final = {"question": 15, "request": 40, "talk": 10}
"""Words, in Chinese letters, of what says nothing; a longer one may state something."""
SentenceKind = Literal["talk", "question", "request", "command", "statement"]


_SHORT: Final = dict(pair.split("=") for pair in SENTENCES.texts["SHORT"].split("|"))


def written_out(clause: str) -> str:
    """A clause with its short forms written out, those of chats as well.

    Example:
        >>> written_out("im w ur bf"), written_out("that’s it")
        ('i am with your boyfriend', 'that is it')
    """
    return expanded(re.sub(r"[\w']+", lambda found: _SHORT.get(found[0].lower(), found[0]), expanded(clause)))


class Sentence(NamedTuple):
    """One sentence, never blank, without its closing mark, and where it stands in the message.

    Of a *quoted* one, which stands in a code block or a quotation, nothing is read.
    """

    text: str
    start: int
    end: int
    asks: bool = False
    quoted: bool = False


def sentences(text: str) -> list[Sentence]:
    """Split a message at closing marks and line ends; abbreviations, decimals and wrapped lines hold together.

    Example:
        >>> [s.text for s in sentences("I met Dr. Wu at 3 p.m. on Monday. 我很开心！OK?")]
        ['I met Dr. Wu at 3 p.m. on Monday', '我很开心', 'OK']
    """
    found: list[Sentence] = []
    start, fences = 0, 0
    for end in SENTENCES["END"].finditer(text):
        before, after = text[max(0, end.start() - 10) : end.start()], text[end.end() : end.end() + 2].lstrip()[:1]
        short = SENTENCES["ABBREVIATION"].search(before) or (SENTENCES["HALF_DAY"].search(before) and after.islower())
        wrapped = end[0].count("\n") == 1 and after.islower()
        if not wrapped and (end[0] != "." or not short):
            found += _sentence(text, start, end.end(), quoted=fences % 2 == 1)
            fences += text.count("```", start, end.end())
            start = end.end()
    return [*found, *_sentence(text, start, len(text), quoted=fences % 2 == 1)]


def _sentence(text: str, start: int, end: int, *, quoted: bool) -> Iterator[Sentence]:
    whole = text[start:end]
    words = SENTENCES["BULLET"].sub("", whole[:12]) + whole[12:]
    plain = " ".join(words.strip().strip("*").split()).rstrip('.!?…。！？；"”』」）')
    if any(map(str.isalnum, plain)):
        asks = re.search("[?？]", whole.rstrip()[-4:]) is not None
        start = end - len(whole.lstrip())
        yield Sentence(plain, start, end, asks, quoted or "```" in whole or plain[:1] in ">＞")


def kind_of(sentence: Sentence) -> SentenceKind:
    """What a sentence is; in doubt a statement.

    Example:
        >>> [kind_of(each) for each in sentences("Thanks! How are you? Write a poem. I'm vegan, what can I eat?")]
        ['talk', 'question', 'request', 'statement']
    """
    text = sentence.text
    if SENTENCES["COMMAND"].search(text):
        return "command"
    if SENTENCES["QUOTING"].fullmatch(text):
        return "request"
    plain = written_out(re.sub(r"(\w)\1{2,}", r"\1", text)).lower()
    names = SENTENCES["NAMES"].search(text)  # what has a name, a number or a quotation says something
    if is_cjk(text):
        return "statement" if names else _kind_in_chinese(sentence)
    words = re.findall(r"[^\W_]++(?:'[^\W_]++)*", plain)
    mine = SENTENCES["OF_SPEAKER"].search(bare := SENTENCES["AFTER_AUX"].sub("", plain)) is not None
    if _is_plain_question(sentence, plain, mine=mine):
        return "question"
    asked = SENTENCES["REQUEST"].match(plain) or (SENTENCES["SECOND"].match(plain) and not mine)
    if (
        asked
        and len(words) <= _LONGEST["request"]
        and not re.search(r"\bi\b", bare)
        and (names is None or names[0].isdigit())
    ):
        return "request"
    return "statement" if names else _kind_in_english(sentence, plain, words, mine=mine)


def _is_plain_question(sentence: Sentence, plain: str, *, mine: bool) -> bool:
    """Whether it is one short question that says nothing of its speaker, also without a question mark."""
    asked = sentence.asks or SENTENCES["UNMARKED"].match(plain)
    short = len(plain.split()) <= _LONGEST["plain question"] + 5 * (not mine) and not re.search(
        r"\bthat (?:i|we)\b", plain
    )
    return bool(short and asked and not mine and SENTENCES["PLAIN_QUESTION"].fullmatch(plain))


def _kind_in_english(sentence: Sentence, plain: str, words: list[str], *, mine: bool) -> SentenceKind:
    rest, short = _WORDS.issuperset(set(words) - _GRAMMAR), len(words) <= _LONGEST["talk"]
    if _GRAMMAR.issuperset(words) or (rest and short and {"my", "we"}.isdisjoint(words)):
        return "talk"
    if SENTENCES["THANKS"].match(plain) and len(words) <= _LONGEST["thanks"] and not mine:
        return "talk"
    shortly = short and SENTENCES["ASKING"].match(plain) is not None and "," not in plain  # "What's my email?"
    return "question" if sentence.asks and len(words) <= _LONGEST["question"] and (not mine or shortly) else "statement"


def _kind_in_chinese(sentence: Sentence) -> SentenceKind:
    plain = sentence.text
    thanks = len(plain) <= _LONGEST_CJK["talk"] and SENTENCES["THANKS"].match(plain) and "我" not in plain
    if thanks or is_talk_in_chinese(plain):
        return "talk"
    if (
        len(plain) <= _LONGEST_CJK["request"]
        and SENTENCES["REQUEST"].match(plain)
        and not SENTENCES["OF_ME_CJK"].search(plain)
    ):
        return "request"
    asked = sentence.asks or plain.endswith("吗")
    plain = plain if sentence.asks else plain.removesuffix("呢")
    states = any("我" in piece and not SENTENCES["ASKED"].search(piece) for piece in re.split("[，,；;、 ]", plain))
    short = len(plain) <= _LONGEST_CJK["question"] and SENTENCES["ASKED"].search(plain) is not None
    return "question" if asked and not states and ("我" not in plain or short) else "statement"


def is_talk_in_chinese(text: str) -> bool:
    """Whether a text has no words but those of grammar and small talk."""
    words = re.findall("[a-z]+", re.sub(r"(\w)\1{2,}", r"\1", text.lower()))
    return (
        not is_cjk(_talk_cjk().sub("", text))
        and _GRAMMAR.union(_WORDS).issuperset(words)
        and not re.search(r"\d", text)
    )


@cache
def _talk_cjk() -> re.Pattern[str]:
    return re.compile("|".join(sorted(TALK_CJK | STOPWORDS_CJK, key=len, reverse=True)))


def paragraphs(text: str, most: int) -> list[str]:
    r"""A text in parts of at most so many letters, cut at paragraphs, else at sentences or words, else where it must be.

    Example:
        >>> paragraphs("One.\n\nTwo. Three.", 8)
        ['One.', 'Two.', 'Three.']
    """
    parts: list[str] = []
    while len(text) > most:
        ends = (
            text.rfind(mark, 1, most) + len(mark.rstrip())
            for mark in ("\n\n", "\n", ". ", "。", " ")
            if mark in text[1:most]
        )
        end = next(ends, most)
        parts.append(text[:end].strip())
        text = text[end:].lstrip()
    return [part for part in (*parts, text.strip()) if part]
