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
from typing import Final

import snowballstemmer

__all__ = ["TOKENIZER", "content_words", "is_cjk", "refers_back", "text_hash", "words"]

TOKENIZER: Final = "1"
"""Version of the rules of `words`; raise it with every change that gives other words for the same text."""

_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_PIECE: Final = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:['’][^\W\d_{_CJK}]+)?")
_HAS_CJK: Final = re.compile(f"[{_CJK}]")
_LONGEST: Final = 64  # a term must fit into an index row; base64 blobs are no words
_EDGE: Final = " \t\r\n.,;:!?\"'()[]{}<>。，、；：！？“”‘’（）【】《》…~-"
_STEMMER: Final = snowballstemmer.stemmer("english")
_STEMMING: Final = threading.Lock()

_STOPWORDS: Final = frozenset(
    "a about after all also am an and any are as at be been before being but by can could did do does doing done "
    "for from get had has have having he her hers him his how i if in into is it its just let like me more most "
    "much my no nor not of on or our out over own really s same she should so some such t than that the their "
    "them then there these they this those to too under up us very was we were what when where which while who "
    "whom why will with would you your".split()
)
_STOPWORDS_CJK: Final = frozenset("的了是在有和我你他她它们这那也就都很吗呢吧啊着过一个不人说要会对")

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
            terms.append(_stem(piece.partition("'")[0].partition("’")[0])[:_LONGEST])
    return terms


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    with _STEMMING:  # the stemmer keeps the word in itself: two threads would get parts of each other's words
        return str(_STEMMER.stemWord(word))


def content_words(text: str) -> set[str]:
    """The terms of a text that carry meaning: `words` without function words and single Chinese particles.

    Example:
        >>> sorted(content_words("She has a dog"))
        ['dog']
    """
    return {term for term in words(text) if term not in _STOPWORDS and not (len(term) == 1 and term in _STOPWORDS_CJK)}


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
    # NFKD parts accents from their letters; what is left of Hangul is composed again.
    parted = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFC", "".join(c for c in parted if not unicodedata.combining(c)))
