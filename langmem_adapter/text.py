"""The words of a text, which lexical search and hash embeddings agree on, and when two texts are the same statement.

Words are case-folded, stripped of accents and stemmed by the rules of a language (`languages`). Scripts that do not separate
words fall into pieces: runs of Chinese, Japanese and Korean letters into letters and pairs, those of Thai, Lao, Burmese and
Khmer into pairs and triples of syllable parts. The rules are versioned: `TOKENIZER` is stored with the lexical rows, and those
of a database with another version, or opened for another language, are made anew.

Everything here is read as in an English database unless a language is given. Hash embeddings and reasoning by rules give none:
their vectors and verdicts must not change with the language of a database.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from operator import add
from typing import TYPE_CHECKING, Final

from langmem_adapter.caches import remembered
from langmem_adapter.languages import ENGLISH, LONGEST, folded, reads_english, stemmer
from langmem_adapter.vocabulary import (
    KIN,
    LIGHT,
    RELATED,
    STOPWORDS,
    STOPWORDS_CJK,
    TIMES,
    TOPICS,
    WHEN,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "TELLS_TIME",
    "TOKENIZER",
    "asks_when",
    "cased",
    "content_words",
    "groups_of",
    "is_cjk",
    "marks",
    "meaningful",
    "members",
    "refers_back",
    "signed_words",
    "subjects",
    "text_hash",
    "topics",
    "words",
]

TOKENIZER: Final = "5"
"""Version of the rules of `words`, `marks` and `text_hash`; raise it with every change that gives others for the same text."""

# Chinese, Japanese and Korean letters, and their signs of repetition.
_CJK: Final = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U000323af"
)
_THAI_AND_LAO: Final = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecf\u0edc-\u0edf"
_BURMESE_AND_KHMER: Final = "\u1000-\u103f\u1050-\u108f\u109a-\u109d\u1780-\u17d3\u17d7\u17dc\u17dd"
_THAI: Final = _THAI_AND_LAO + _BURMESE_AND_KHMER
# Vowel signs and accents: part of a word, but no letters to Python's patterns.
_SIGNS: Final = "".join(
    chr(code)
    for first, last in ((0x300, 0x1E00), (0x3099, 0x309B), (0xA800, 0xAC00), (0x11000, 0x11F60))
    for code in range(first, last)
    if unicodedata.category(chr(code)) in {"Mn", "Mc"}
)
_LETTER: Final = f"[^\\W_{_CJK}{_THAI}]"
_WORD: Final = f"{_LETTER}+(?:[{_SIGNS}]+{_LETTER}*)*"
_PIECE: Final = re.compile(rf"{_WORD}(?:'(?!\d){_WORD})*|[{_CJK}]+|[{_THAI}]+")
_PLAIN_PIECE: Final = re.compile(r"[a-z0-9]+(?:'[a-z][a-z0-9]*)*")  # the same, of a text in ASCII
_HAS_CJK: Final = re.compile(f"[{_CJK}]")
_FIRST_UNSPACED: Final = "\u0e01"
_HAS_THAI: Final = re.compile(f"[{_THAI}]")
# A letter with the signs around it, and with the letters written below it (Burmese, Khmer).
_SYLLABLE_PART: Final = re.compile(rf"[^{_SIGNS}][{_SIGNS}]*(?:(?<=[\u1039\u17d2])[^{_SIGNS}][{_SIGNS}]*)*|[{_SIGNS}]+")

# A statement that opens with one of these speaks of somebody named earlier; its words alone say too little.
_BACK: Final = re.compile(
    r"^\W*(?:and |also |but |oh,? |well,? )*(?:he|she|it|they|his|her|its|their|him|them|this|that|these|those)\b"
    r"|^\W*(?:而且|另外|还有|但是|不过)?[，,]?(?:他|她|它|他们|她们|它们|这个|那个)",
    re.IGNORECASE,
)


def words(text: str, language: str = ENGLISH) -> list[str]:
    """Split a text into the terms that lexical search compares, with repetitions, in order.

    Args:
        text: Any text, in any mix of scripts; quotes and operators are just text.
        language: Whose rules stem the words that the script alone does not assign (`languages.LANGUAGES`, or `"none"`).

    Returns:
        Terms of at most 64 characters; empty for a text without letters or digits.

    Example:
        >>> words("Running shoes, café!")
        ['run', 'shoe', 'cafe']
        >>> words("旧金山")
        ['旧', '金', '山', '旧金', '金山']
        >>> words("Die Häuser an der Straße", "german")
        ['die', 'haus', 'an', 'der', 'strass']
    """
    stems, plain = stemmer(language), text.isascii()
    terms: list[str] = []
    for piece in (_PLAIN_PIECE if plain else _PIECE).findall(folded(text)):
        if piece.isdecimal():  # numbers have no stem, and are many
            terms.append((piece if plain else _western(piece))[:LONGEST])
        elif plain or (first := piece[0]) < _FIRST_UNSPACED:
            terms += stems(piece)
        elif _HAS_CJK.match(first):
            terms += piece
            terms += map(add, piece, piece[1:])
        elif _HAS_THAI.match(first):
            terms += _pairs_and_triples(_SYLLABLE_PART.findall(piece))
        else:
            terms += stems(piece)
    return terms


def _western(digits: str) -> str:
    return "".join(str(unicodedata.decimal(digit)) for digit in digits[:LONGEST])


def _pairs_and_triples(parts: Sequence[str]) -> list[str]:
    found = ["".join(parts[i : i + size]) for size in (2, 3) for i in range(len(parts) - size + 1)]
    return [term[:LONGEST] for term in found or parts]


def content_words(text: str, language: str = ENGLISH) -> set[str]:
    """The terms of a text that carry meaning: `words` without function words and single Chinese particles.

    Example:
        >>> sorted(content_words("She has a dog"))
        ['dog']
    """
    return meaningful(words(text, language), language)


def meaningful(terms: Iterable[str], language: str = ENGLISH) -> set[str]:
    """Those terms that carry meaning; for who has the `words` of a text already.

    Function words are known in English and Chinese. In other languages every word counts, and search weighs them by how
    rare they are.
    """
    function_words = _lists(language).function_words
    return {term for term in terms if term not in function_words}


TELLS_TIME: Final = "?when"
"""The mark of a text that holds a word of time or a year; no word looks like this."""

_ASKS_WHEN_CJK: Final = re.compile("什么时候|几点|哪天|哪年|多久|何时")
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")


def marks(text: str, language: str = ENGLISH, told: Iterable[str] | None = None) -> set[str]:
    """What kind of statement a text is: whether it tells a time, and its `topics`.

    Words of time are known in English and Chinese, years in every language.

    Args:
        text: Any text.
        language: As for `words`.
        told: Its `words`, for who has them already.

    Example:
        >>> sorted(marks("Did you go there last week?")), marks("I like tea.")
        (['?when', '~schedule'], {'~drink'})
    """
    told = words(text, language) if told is None else told
    tells = not _lists(language).times.isdisjoint(told) or _YEAR.search(text) is not None
    return topics(told, language) | ({TELLS_TIME} if tells else set())


def asks_when(question: str) -> bool:
    """Whether a question asks for a time.

    Example:
        >>> asks_when("When did she move?"), asks_when("她什么时候搬家的？"), asks_when("Where does she live?")
        (True, True, False)
    """
    return question.strip().casefold().startswith(WHEN) or _ASKS_WHEN_CJK.search(question) is not None


def topics(told: Iterable[str], language: str = ENGLISH) -> set[str]:
    """The topics that any of some words speaks of, as marks.

    English and Chinese words; only the Chinese ones where words in Latin letters are not read as English.

    Args:
        told: The `words` of a text.
        language: As for `words`.

    Example:
        >>> topics(words("Called off the wedding")), topics(words("Ha cancelado la boda"))
        ({'~partner'}, set())
    """
    known = _lists(language).topics
    return {topic for word in told for topic in known.get(word, ())}


def groups_of(terms: Iterable[str], language: str = ENGLISH) -> set[str]:
    """Names of the groups of related words that any of the terms belongs to; `members` gives their words.

    English and Chinese words; only the Chinese ones where words in Latin letters are not read as English.

    Example:
        >>> groups_of(words("I moved")) == groups_of(words("she lives"))
        True
    """
    group = _lists(language).group
    return {group[term] for term in terms if term in group}


def members(term: str, language: str = ENGLISH) -> tuple[str, ...]:
    """The terms of a group of related words; a term that names no group stands for itself."""
    return _lists(language).members.get(term, (term,))


@remembered(16_384)
def subjects(text: str, language: str = ENGLISH) -> frozenset[str]:
    """What a text is about: its content words but for light verbs, those of a group replaced by the group's name.

    Words for people and animals stand for themselves: a sister is no brother.

    Example:
        >>> sorted(subjects("My sister moved to Lyon")), sorted(subjects("My brother lives in Lyon"))
        (['=live', 'lyon', 'sister'], ['=live', 'brother', 'lyon'])
    """
    lists = _lists(language)
    told = content_words(text, language) - lists.light
    return frozenset(term if term in lists.kin else lists.group.get(term, term) for term in told)


_WIDTHS: Final = {
    code: chr(int(written[1], 16))
    for code in range(0xFF01, 0xFFEF)
    if len(written := unicodedata.decomposition(chr(code)).split()) == 2  # noqa: PLR2004 - "<wide> 0041"
}
_OPENING: Final = "\"'`“‘«([{【《「『〈"
_CLOSES: Final = "\"'`”’»)]}】》」』〉,;:!?.…。，、；：！？"
# A word of letters alone, with an apostrophe or a hyphen in it, whatever quotation marks and commas stand around it.
_LETTERS: Final = f"[^\\W\\d_{_CJK}]+"
_PLAIN_WORD: Final = re.compile(
    rf"(?<![^\s{_CJK}{re.escape(_OPENING)}])(?![a-z]){_LETTERS}(?:['’-]{_LETTERS})*(?=[{re.escape(_CLOSES)}]*(?:[\s{_CJK}]|$))"
)
_PICTURES: Final = (  # emoji and arrows, with the marks that join and colour them
    "\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u2900-\u297f\u2b00-\u2bff\ufe0f\u200d\U0001f000-\U0001faff"
)
_RUN: Final = re.compile(f"[{_PICTURES}]+|[{_CJK}]+|[^\\s{_PICTURES}{_CJK}]+")
# -5, .NET, A-, 2.5, 3:45 and every symbol of ASCII that is no punctuation.
_SIGN: Final = re.compile(r"(?<!\w)[-–]\.?\d|(?<![\w.])\.\w|(?:^|\w)[-–](?!\w)|\d[.,:/'’–-]\d|[*#%&@\\$+<=>^|~]")


def text_hash(text: str) -> str:
    """Hash of a statement: equal hashes mean that two of them are the same, and nobody needs to judge it.

    What may differ is presentation: spacing, the width of letters and signs (Ａ and A), the composition of accents, the marks
    that end a statement (. ! … 。), and the capital that begins a word of small letters (Tea and tea).

    Everything else counts. Signs and symbols: A and A-, C and C++, -5 and +5, x² and x2, ½ and 1/2, emoji, the question mark.
    And case: a capital inside a word (iPhone), beside digits (aB3x) or signs, of a single letter, and of words all in capitals,
    for US is not us, and codes are written so.

    In doubt two texts differ: then a model is asked, or a memory more is kept, and nothing is lost.

    Returns:
        32 hexadecimal digits (BLAKE2b).

    Example:
        >>> text_hash("Likes  Pizza.") == text_hash("likes pizza"), text_hash("Likes C++.") == text_hash("Likes C.")
        (True, False)
    """
    return blake2b(_as_compared(text).encode(), digest_size=16).hexdigest()


def cased(text: str) -> set[str]:
    """The words of a text whose case counts where statements are compared (see `text_hash`).

    Example:
        >>> sorted(cased("Anna's NAS has the password aB3x"))
        ['NAS', 'aB3x']
    """
    return {token for token in re.findall(f"[^\\W{_CJK}]+", _as_compared(text)) if token != token.lower()}


def signed_words(text: str) -> list[str]:
    """The `words` of a text, but those with signs or symbols as they are written: for who must not take C++ for C.

    Example:
        >>> signed_words("Scored -5 in C++, not 2.5 👍")
        ['score', '-5', 'in', 'c++', 'not', '2.5', '👍']
    """
    if not _is_signed(text):
        return words(text)
    told: list[str] = []
    for run in _RUN.findall(_narrow(text)):
        token = run.lstrip(_OPENING).rstrip(_CLOSES)
        told += [token.casefold()] if _is_signed(token) else words(run)
    return told


def _is_signed(text: str) -> bool:
    return _SIGN.search(text) is not None or (not text.isascii() and any(map(_is_symbol, text)))


def _is_symbol(sign: str) -> bool:
    kind = unicodedata.category(sign)
    return kind[0] == "S" or kind in {"No", "Nl"}  # also x² and ½


def _as_compared(text: str) -> str:
    plain = " ".join(_narrow(text).split())
    return _PLAIN_WORD.sub(_without_capital, plain.rstrip(" .!…。") or plain)


def _narrow(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text.translate(_WIDTHS))


def _without_capital(word: re.Match[str]) -> str:
    letters = word.group()
    return letters[0].lower() + letters[1:] if letters[1:].islower() else letters


def refers_back(text: str) -> bool:
    """Whether a statement opens with a pronoun, so that its subject was named earlier.

    Example:
        >>> refers_back("Her name is Jesica."), refers_back("她有一条狗"), refers_back("Jesica has a dog")
        (True, True, False)
    """
    return _BACK.match(text) is not None


def is_cjk(text: str) -> bool:
    """Whether a text holds Chinese, Japanese or Korean letters."""
    return _HAS_CJK.search(text) is not None


@dataclass(frozen=True, slots=True)
class _Lists:
    function_words: frozenset[str]
    times: frozenset[str]
    kin: frozenset[str]
    light: frozenset[str]
    members: Mapping[str, tuple[str, ...]]
    group: Mapping[str, str]
    topics: Mapping[str, set[str]]


@cache
def _read_lists(*, english: bool) -> _Lists:  # "Art" is no painting in German
    terms = partial(_terms, english=english)
    function_words = STOPWORDS_CJK | STOPWORDS if english else STOPWORDS_CJK
    members = {f"={line.split()[0]}": tuple(dict.fromkeys(terms(line.split()))) for line in RELATED}
    members = {name: tuple(term for term in listed if term not in function_words) for name, listed in members.items()}
    topics: defaultdict[str, set[str]] = defaultdict(set)
    for topic, listed in TOPICS.items():
        for term in set(terms(listed)) - (STOPWORDS | STOPWORDS_CJK):
            topics[term].add(f"~{topic}")
    return _Lists(
        function_words=function_words,
        times=frozenset(terms(TIMES)),
        kin=frozenset(terms(KIN)),
        light=LIGHT if english else frozenset(),
        members=members,
        group={term: group for group, listed in reversed(members.items()) for term in listed},
        topics=dict(topics),
    )


def _terms(listed: Iterable[str], *, english: bool) -> list[str]:
    # Of a Chinese word the pair, where it has one.
    return [words(word)[-1] for word in listed if english or is_cjk(word)]


@cache
def _lists(language: str) -> _Lists:
    return _read_lists(english=reads_english(language))
