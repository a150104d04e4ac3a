"""Languages: how a word is folded and brought to its stem, by the script that it is written in.

Where the script tells the language (Cyrillic: Russian, Greek: Greek), that one's rules are used; words in Latin letters, and
those of languages that share another script, follow the language of the database. A question and a memory are therefore read
alike, whoever reads them; nothing is guessed from a text, which is often too short for that. The stems are Snowball's
(Porter 2001, https://snowballstem.org).
"""

from __future__ import annotations

import difflib
import unicodedata
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import snowballstemmer

from langmem_adapter.caches import remembered
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.forks import Lock
from langmem_adapter.records.checks import quoted
from langmem_adapter.vocabulary import CLITICS, ELIDED, IRREGULAR, entries

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ENGLISH", "LANGUAGES", "LONGEST", "NO_STEMS", "checked", "folded", "reads_english", "stemmer", "unaccented"]

ENGLISH: Final = "english"
NO_STEMS: Final = "none"
"""In place of a language: words are compared as they are written."""

LANGUAGES: Final = tuple(sorted({*snowballstemmer.algorithms()} - {"porter", "dutch_porter"}))
"""The languages with stemming rules, by their English names; the two left out are older rules of two that are here."""

LONGEST: Final = 64
"""Letters of a word; it must fit into an index row, and base64 blobs are no words."""

_LATIN: Final = "Latin"
_TURKISH: Final = "turkish"  # parts the endings of names with an apostrophe

_ROWS: Final = {
    name: [row.split() for row in told.split("\n")]
    for name, told in entries(Path(__file__).with_name("languages.txt")).items()
}
_SCRIPTS: Final = [
    (*(chr(int(end, 16)) for end in span.split("-")), name) for name, *spans in _ROWS["SCRIPTS"] for span in spans
]
_USUAL: Final = dict(_ROWS["USUAL"])
# All others: in Latin letters.
_WRITTEN_IN: Final = {language: {*scripts} for language, *scripts in _ROWS["WRITTEN_IN"]}

# Format characters inside words: soft hyphens, joiners, directions.
_INVISIBLE: Final = dict.fromkeys(
    (0xAD, 0x61C, 0x180E, 0xFEFF, *range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070))
)
# What NFKC leaves different and people type for each other; Arabic's long dash; marks that only choose a letter's shape.
_ALIKE: Final = (("’", "'"), ("‘", "'"), ("ʼ", "'"), ("\u0640", ""), ("i\u0307", "i"), ("l·l", "ll"))
_LETTERS: Final = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"}
    | {"ی": "ي", "ى": "ي", "ک": "ك", "ँ": "ं"}
    | dict.fromkeys("\u034f\u180b\u180c\u180d\u180f")
)
_STEMMING: Final = Lock()


def checked(language: str) -> str:
    """The name of a language as it is stored, for one that a user wrote.

    Raises:
        InvalidInputError: No such language; the message names those there are.

    Example:
        >>> checked("German")
        'german'
    """
    name = language.strip().casefold()
    if name in LANGUAGES or name == NO_STEMS:
        return name
    near = difflib.get_close_matches(name, (*LANGUAGES, NO_STEMS), n=1)
    meant = f"did you mean {near[0]!r}? known" if near else "known"
    raise InvalidInputError(
        f"unknown language {quoted(language)}; {meant} are {', '.join(LANGUAGES)}, and {NO_STEMS!r}"
    )


def reads_english(language: str) -> bool:
    """Whether a database of that language takes words in Latin letters for English ones."""
    return _rules("a", language) == ENGLISH


def folded(text: str) -> str:
    """A text without what case, width and Unicode's several ways to write the same make different; accents stay.

    Example:
        >>> folded("ＳＴＲＡẞＥ"), folded("Me\u0301xico")
        ('strasse', 'méxico')
    """
    if text.isascii():  # nothing to part or compose
        return text.lower()
    parted = unicodedata.normalize("NFKD", text).casefold()
    if not parted.isprintable():
        parted = parted.translate(_INVISIBLE)
    whole = unicodedata.normalize("NFC", parted)
    for one, other in _ALIKE:
        whole = whole.replace(one, other)
    return whole


def unaccented(word: str) -> str:
    """A folded word as it is typed on a keyboard without its accents.

    Example:
        >>> unaccented("łódź"), unaccented("cœur")
        ('lodz', 'coeur')
    """
    if word.isascii():
        return word
    parted = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", "".join(c for c in parted if not _is_accent(c))).translate(_LETTERS)


@cache
def stemmer(language: str) -> Callable[[str], tuple[str, ...]]:
    """What turns a folded word, with the apostrophes in it, into its terms.

    English words have one term. Others have a second one where it matters whether the accents were typed: stemming rules
    need them, and people leave them out.

    Raises:
        InvalidInputError: No such language.

    Example:
        >>> stemmer("french")("l'avion"), stemmer("german")("häuser"), stemmer("english")("собакой")
        (('avion',), ('haus',), ('собак',))
        >>> stemmer("turkish")("ışıklar"), stemmer("turkish")("isiklar")
        (('isik', 'isiklar'), ('isiklar',))
    """
    return remembered(65_536)(partial(_terms, checked(language)))


def _terms(language: str, word: str) -> tuple[str, ...]:
    return tuple(term[:LONGEST] for part in _parts(word, language) for term in _stems(part[:LONGEST], language))


def _parts(word: str, language: str) -> list[str]:
    """The words in one with apostrophes: Anna('s), (l')avion, rock('n')roll; in other scripts it is a letter."""
    parts = word.split("'")
    if len(parts) == 1 or language == _TURKISH:
        return parts[:1]
    if _script(word[0]) != _LATIN:
        return ["".join(parts)]
    last = len(parts) - 1
    told = (part for i, part in enumerate(parts) if not (i and part in CLITICS) and not (i < last and part in ELIDED))
    return list(told) or parts[:1]


def _stems(word: str, language: str) -> tuple[str, ...]:
    rules, plain = _rules(word[0], language), unaccented(word)
    if rules is None:
        return (plain,)
    if rules == ENGLISH:
        return (_stem(IRREGULAR.get(plain, plain), ENGLISH),)
    return tuple(dict.fromkeys((_stem_twice(word, rules), _stem_twice(plain, rules))))


def _stem_twice(word: str, rules: str) -> str:
    # The first time the accents guide the rules; the second time both ways to write the stem have come together.
    return unaccented(_stem(unaccented(_stem(word, rules)), rules)) or word


def _stem(word: str, rules: str) -> str:
    with _STEMMING:  # a stemmer keeps the word in itself: two threads would get parts of each other's words
        return str(_snowball(rules).stemWord(word))


@cache
def _snowball(rules: str) -> Any:
    return snowballstemmer.stemmer(rules)


def _rules(letter: str, language: str) -> str | None:
    """The language whose rules stem a word that begins with this letter; `None` if it is left as it is."""
    script = _script(letter)
    if language == NO_STEMS:
        return None
    return language if script in _WRITTEN_IN.get(language, {_LATIN}) else _USUAL.get(script)


def _script(letter: str) -> str:
    return next((name for first, last, name in _SCRIPTS if first <= letter <= last), "")


def _is_accent(mark: str) -> bool:
    # By Unicode's combining classes: accents above and below, nuktas, the points of Hebrew and Arabic, and signs of voice that
    # stand beside no kana. Vowel signs and viramas of India and South-East Asia are letters of their words.
    kind = unicodedata.combining(mark)
    return kind in {1, 7, 8} or 10 <= kind <= 36 or kind >= 200  # noqa: PLR2004 - Unicode's own numbers
