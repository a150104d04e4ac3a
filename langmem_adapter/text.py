"""The words of a text: what lexical search, duplicate detection and hash embeddings agree on.

Latin, Greek, Cyrillic … words are case-folded, stripped of accents and stemmed (Snowball, English rules); runs of
Chinese, Japanese and Korean letters become single letters and pairs, since these scripts do not separate words. The rules
are versioned: `TOKENIZER` is stored with the lexical rows, and a database with another version is re-tokenised.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import snowballstemmer

from langmem_adapter.vocabulary import (
    CHANGES,
    CHANGES_CJK,
    IRREGULAR,
    KIN,
    LIGHT,
    RELATED,
    STOPWORDS,
    STOPWORDS_CJK,
    TIMES,
    WHEN,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ASKS",
    "TELLS_TIME",
    "TOKENIZER",
    "asks",
    "asks_when",
    "content_words",
    "groups_of",
    "is_cjk",
    "kin",
    "marks",
    "meaningful",
    "members",
    "refers_back",
    "subjects",
    "tells_change",
    "text_hash",
    "words",
]

TOKENIZER: Final = "2"
"""Version of the rules of `words` and `marks`; raise it with every change that gives others for the same text."""

_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_PIECE: Final = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:['’][^\W\d_{_CJK}]+)?")
_HAS_CJK: Final = re.compile(f"[{_CJK}]")
_LONGEST: Final = 64  # a term must fit into an index row; base64 blobs are no words
_EDGE: Final = " \t\r\n.,;:!?\"'()[]{}<>。，、；：！？“”‘’（）【】《》…~-"
_STEMMER: Final = snowballstemmer.stemmer("english")
_STEMMING: Final = threading.Lock()

# A statement that opens with one of these speaks of somebody named earlier; its words alone say too little.
_BACK: Final = re.compile(
    r"^\W*(?:and |also |but |oh,? |well,? )*(?:he|she|it|they|his|her|its|their|him|them|this|that|these|those)\b"
    r"|^\W*(?:而且|另外|还有|但是|不过)?[，,]?(?:他|她|它|他们|她们|它们|这个|那个)",
    re.IGNORECASE,
)


def words(text: str) -> list[str]:
    """Split a text into the terms that lexical search compares, with repetitions, in order.

    Args:
        text: Any text, in any mix of scripts; quotes and operators are just text.

    Returns:
        Terms of at most 64 characters; empty for a text without letters or digits.

    Example:
        >>> words("Running shoes, café!")
        ['run', 'shoe', 'cafe']
        >>> words("旧金山")
        ['旧', '金', '山', '旧金', '金山']
    """
    terms: list[str] = []
    for piece in _PIECE.findall(_fold(text)):
        if _HAS_CJK.match(piece):
            terms += piece
            terms += (piece[i : i + 2] for i in range(len(piece) - 1))
        else:
            word = piece.partition("'")[0].partition("’")[0]
            terms.append((word if word.isdecimal() else _stem(word))[:_LONGEST])  # numbers have no stem, and are many
    return terms


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    word = IRREGULAR.get(word, word)
    with _STEMMING:  # the stemmer keeps the word in itself: two threads would get parts of each other's words
        return str(_STEMMER.stemWord(word))


def content_words(text: str) -> set[str]:
    """The terms of a text that carry meaning: `words` without function words and single Chinese particles.

    Example:
        >>> sorted(content_words("She has a dog"))
        ['dog']
    """
    return meaningful(words(text))


def meaningful(terms: Iterable[str]) -> set[str]:
    """Those terms that carry meaning; for who has the `words` of a text already."""
    return {term for term in terms if term not in STOPWORDS and not (len(term) == 1 and term in STOPWORDS_CJK)}


# ── what a text is about ────────────────────────────────────────────────────────────────────────────────────────────────

ASKS: Final = "?"
"""The mark of a text that ends with a question; no word looks like this."""
TELLS_TIME: Final = "?when"
"""The mark of a text that holds a word of time or a year."""

_ASKS_WHEN_CJK: Final = re.compile("什么时候|几点|哪天|哪年|多久|何时")
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")
_CLOSING: Final = "\"'”’)]）」 \t\r\n"


def marks(text: str) -> set[str]:
    """What kind of statement a text is: whether it asks, and whether it tells a time.

    Example:
        >>> sorted(marks("Did you go there last week?")), marks("I like tea.")
        (['?', '?when'], set())
    """
    tells = not _TIME_STEMS.isdisjoint(words(text)) or _YEAR.search(text) is not None
    return {mark for mark, holds in ((ASKS, asks(text)), (TELLS_TIME, tells)) if holds}


def asks(text: str) -> bool:
    """Whether a text ends with a question.

    Example:
        >>> asks("How are you?"), asks("(你好吗？)"), asks("Fine.")
        (True, True, False)
    """
    return text.rstrip(_CLOSING).endswith(("?", "？"))


def asks_when(question: str) -> bool:
    """Whether a question asks for a time.

    Example:
        >>> asks_when("When did she move?"), asks_when("她什么时候搬家的？"), asks_when("Where does she live?")
        (True, True, False)
    """
    return question.strip().casefold().startswith(WHEN) or _ASKS_WHEN_CJK.search(question) is not None


def groups_of(terms: Iterable[str]) -> set[str]:
    """Names of the groups of related words that any of the terms belongs to; `members` gives their words.

    Example:
        >>> groups_of(words("I moved")) == groups_of(words("she lives"))
        True
    """
    return {_GROUP[term] for term in terms if term in _GROUP}


def members(group: str) -> tuple[str, ...]:
    """The terms of a group of related words."""
    return _MEMBERS[group]


@lru_cache(maxsize=16_384)
def subjects(text: str) -> frozenset[str]:
    """What a text is about: its content words but for light verbs, those of a group replaced by the group's name.

    Words for people and animals stand for themselves: a sister is no brother.

    Example:
        >>> sorted(subjects("My sister moved to Lyon")), sorted(subjects("My brother lives in Lyon"))
        (['=live', 'lyon', 'sister'], ['=live', 'brother', 'lyon'])
    """
    return frozenset(term if term in _KIN_STEMS else _GROUP.get(term, term) for term in content_words(text) - LIGHT)


def kin(text: str) -> frozenset[str]:
    """The words for people and animals in a text."""
    return subjects(text) & _KIN_STEMS


@lru_cache(maxsize=16_384)
def tells_change(text: str) -> bool:
    """Whether a statement says that something is no longer as it was.

    Example:
        >>> tells_change("I moved to Berlin."), tells_change("我不吃肉了"), tells_change("I live in Paris.")
        (True, True, False)
    """
    plain = text.casefold()
    return not CHANGES.isdisjoint(_PIECE.findall(plain)) or any(word in plain for word in CHANGES_CJK)


def text_hash(text: str) -> str:
    """Hash of a text that ignores case, width, spacing and closing punctuation: equal hashes mean the same words.

    Returns:
        32 hexadecimal digits (BLAKE2b).

    Example:
        >>> text_hash("Likes  Pizza.") == text_hash("likes pizza")
        True
    """
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_EDGE)
    return blake2b((plain or text).encode(), digest_size=16).hexdigest()


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


def _fold(text: str) -> str:
    if text.isascii():  # nothing to part or compose
        return text.lower()
    # NFKD parts accents from their letters; what is left of Hangul is composed again.
    parted = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFC", "".join(c for c in parted if not unicodedata.combining(c)))


def _last_term(word: str) -> str:
    return words(word)[-1]  # of a Chinese word the pair, where it has one


_TIME_STEMS: Final = frozenset(map(_last_term, TIMES))
_KIN_STEMS: Final = frozenset(map(_last_term, KIN))
_MEMBERS: Final = {
    f"={line.split()[0]}": tuple(
        dict.fromkeys(term for word in line.split() if (term := _last_term(word)) not in STOPWORDS)
    )
    for line in RELATED
}
_GROUP: Final = {term: group for group, terms in reversed(_MEMBERS.items()) for term in terms}
