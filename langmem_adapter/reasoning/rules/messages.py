"""Sentences of a message, and which of them say nothing that is worth keeping: small talk, questions, requests, commands.

Closed lists decide, in English and Chinese; in doubt a sentence says something. All patterns look at a bounded stretch of text,
so that a message of any length costs time in proportion to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from langmem_adapter.statements.tables import patterns
from langmem_adapter.text import is_cjk
from langmem_adapter.vocabulary import STOPWORDS_CJK, TALK, TALK_CJK

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SENTENCES", "Sentence", "is_talk_in_chinese", "kind_of", "paragraphs", "sentences"]

SENTENCES: Final = patterns("sentences", {})
"""Patterns of sentences and their openings."""
_END: Final = re.compile(r"(?<![.!?…])[.!?…]++[\"')\]”]*+(?=\s|$)|[。！？；]++[”』」）]*+|\n\s*+\n\s*+|\n(?!\s*[a-z])")
_WORD: Final = re.compile(r"[^\W_]++(?:'[^\W_]++)*")
_GRAMMAR: Final = frozenset(
    "a about all am an and any are as at be been but by can could did do does for from had has have he her him his i i'm i'll i'd it"
    " it's is if in into just like lot lets let's me more much my of off on or our out so some such than that that's the them then there"
    " these they this those to too up us very was we were what when where which who will with would you your you're yours not don't"
    " didn't no one i've".split()
)
_NAMING: Final = re.compile('["“”《》「」0-9@]|(?<=[a-z,] )(?!I\\b)[A-Z]')
"""Marks of a name, a number or a quotation: what has one says something."""
_WORDS: Final = frozenset(SENTENCES.texts["WORDS"].split())
_LONGEST_QUESTION: Final = 25  # words; a longer one states something
_LONGEST_REQUEST: Final = 15
_SHORT: Final = 6


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, never blank, without its closing mark.

    Attributes:
        text: Its words.
        start: Where it begins in the message.
        end: Where it ends there, closing mark included.
        asks: Whether that is a question mark.
        quoted: Whether it stands in a code block or a quotation: nothing is read from it.
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
    for end in _END.finditer(text):
        before = text[max(0, end.start() - 10) : end.start()]
        abbreviated = end[0] == "." and SENTENCES["ABBREVIATION"].search(before)
        goes_on = (
            re.search(r"[A-Za-z]\.[A-Za-z]$|etc$", before) and text[end.end() : end.end() + 2].lstrip()[:1].islower()
        )
        if not abbreviated and not (end[0] == "." and goes_on):
            found += _sentence(text, start, end.end(), quoted=fences % 2 == 1)
            fences += text.count("```", start, end.end())
            start = end.end()
    return [*found, *_sentence(text, start, len(text), quoted=fences % 2 == 1)]


def _sentence(text: str, start: int, end: int, *, quoted: bool) -> Iterator[Sentence]:
    whole = text[start:end]
    words = re.sub(r"^\s*(?:[-*•]|\d{1,3}[.)、])\s+", "", whole[:12]) + whole[12:]
    plain = " ".join(words.strip().strip("*").split()).rstrip('.!?…。！？；"”』」）')
    if any(map(str.isalnum, plain)):
        closing = whole.rstrip()[-4:]
        yield Sentence(
            plain, start, end, "?" in closing or "？" in closing, quoted or "```" in whole or plain[:1] in ">＞"
        )


Kind = Literal["talk", "question", "request", "command", "statement"]


def kind_of(sentence: Sentence) -> Kind:
    """What a sentence is; in doubt a statement.

    Example:
        >>> [kind_of(each) for each in sentences("Thanks! How are you? Write a poem. I'm vegan, what can I eat?")]
        ['talk', 'question', 'request', 'statement']
    """
    if SENTENCES["COMMAND"].search(sentence.text):
        return "command"
    if _NAMING.search(sentence.text):
        return "statement"
    if is_cjk(sentence.text):
        return _kind_in_chinese(sentence)
    plain = sentence.text.replace("’", "'").lower()
    words = _WORD.findall(plain)
    if _is_talk(words):
        return "talk"
    mine = SENTENCES["OF_SPEAKER"].search(SENTENCES["AFTER_AUX"].sub("", plain)) is not None
    if len(words) <= _LONGEST_REQUEST and SENTENCES["REQUEST"].match(plain) and not re.search(r"\bi\b|\bi'", plain):
        return "request"
    if sentence.asks and len(words) <= _LONGEST_QUESTION and (not mine or _asks_shortly(plain, words)):
        return "question"
    return "statement"


def _asks_shortly(plain: str, words: list[str]) -> bool:
    """Whether a question names something of the speaker's and says nothing of it: "What's my email?"."""
    return len(words) <= _SHORT and SENTENCES["ASKING"].match(plain) is not None and "," not in plain


def _is_talk(words: list[str]) -> bool:
    if not words:
        return True
    rest = [word for word in words if word not in TALK and word not in _GRAMMAR]
    short = len(words) <= _SHORT and "my" not in words and "we" not in words
    return not rest or (short and _WORDS.issuperset(rest))


def _kind_in_chinese(sentence: Sentence) -> Kind:
    plain = sentence.text
    if is_talk_in_chinese(plain):
        return "talk"
    pieces = re.split("[，,；;、 ]", plain)
    asked = sentence.asks or re.search("[吗呢]$", plain) is not None
    mine = "我" in plain
    if (
        len(plain) <= 40
        and SENTENCES["REQUEST"].match(plain)
        and not re.search("我(?![写讲翻总推列画查找解做想唱读])", plain)
    ):  # noqa: PLR2004 - a longer one states something
        return "request"
    states = any("我" in piece and not SENTENCES["ASKED"].search(piece) for piece in pieces)
    short = len(plain) <= 15 and SENTENCES["ASKED"].search(plain) is not None  # noqa: PLR2004 - a longer one states something
    if asked and not states and (not mine or short):
        return "question"
    return "statement"


def is_talk_in_chinese(text: str) -> bool:
    """Whether a text has no words but those of grammar and small talk."""
    return not is_cjk(_talk_cjk().sub("", text)) and re.search("[A-Za-z0-9]", text) is None


@cache
def _talk_cjk() -> re.Pattern[str]:
    return re.compile("|".join(sorted(TALK_CJK | STOPWORDS_CJK, key=len, reverse=True)))


def paragraphs(text: str, most: int) -> list[str]:
    """A text in parts of at most so many letters, cut at paragraphs, else at sentences, else where it must be.

    Example:
        >>> paragraphs("One.\\n\\nTwo. Three.", 8)
        ['One.', 'Two.', 'Three.']
    """
    parts: list[str] = []
    for pattern in (r"\n\s*\n", r"\n", r"(?<=[.!?。！？])\s*", r"(?<=\s)"):
        if len(text) <= most:
            break
        pieces = [piece for piece in re.split(pattern, text) if piece.strip()]
        if len(pieces) > 1:
            return _joined(
                [part for piece in pieces for part in paragraphs(piece, most)], most, "\n\n" if "\n" in pattern else " "
            )
    else:
        return [text[start : start + most] for start in range(0, len(text), most)]
    return [*parts, text.strip()]


def _joined(pieces: list[str], most: int, mark: str) -> list[str]:
    parts: list[str] = []
    for piece in pieces:
        if parts and len(parts[-1]) + len(mark) + len(piece) <= most:
            parts[-1] += mark + piece.strip()
        else:
            parts.append(piece.strip())
    return parts
