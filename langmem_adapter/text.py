"""Text as search reads it: words, stems, word lists, and when two texts are equal.

Words are case-folded, stripped of accents and stemmed (Snowball, Porter 2001, https://snowballstem.org). The script decides the
language where it can (Cyrillic: Russian, Greek: Greek); words in Latin letters follow the language of the database. Nothing is
guessed from a text, so a question and a memory are read alike. Scripts without spaces are split: Chinese, Japanese and Korean
into letters and pairs, Thai, Lao, Burmese and Khmer into pairs and triples of syllable parts.

The word lists are kept as text: a name and its words, continued by indented lines. A change of `STOPWORDS`, `STOPWORDS_CJK`,
`CLITICS`, `ELIDED`, `IRREGULAR`, `TIMES`, or a new word in `TOPICS`, changes the words that are stored: raise `TOKENIZER`.
It is stored with the lexical rows, and those of another version or language are made anew.

Without a language everything is read as in an English database; hash embeddings and the offline rules give none.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import snowballstemmer

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.forks import Lock, bounded_cache
from langmem_adapter.records.checks import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def read_entries(file: Path) -> dict[str, str]:
    """The entries of a file, `name: text` each, continued by indented lines, which keep their ends."""
    matches = re.findall(r"^(\w+): ?(.*(?:\n +.*)*)", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: re.sub(r"\n +", "\n", text).strip("\n") for name, text in matches}


_LISTS: Final = read_entries(Path(__file__).with_name("words.txt"))

STOPWORDS: Final = frozenset(_LISTS["STOPWORDS"].split())
"""Stems that mark grammar, hardly meaning."""
STOPWORDS_CJK: Final = frozenset(_LISTS["STOPWORDS_CJK"].split())
"""Chinese particles and pronouns; as parts of pairs of letters they still count."""
CLITICS: Final = frozenset(_LISTS["CLITICS"].split())
"""Endings after an apostrophe that are no words: Anna's, don't, we'll."""
ELIDED: Final = frozenset(_LISTS["ELIDED"].split())
"""What French, Italian and Catalan leave of a word before an apostrophe: l'avion, dell'anno, d'aigua."""
IRREGULAR: Final = {form: verb for verb, *forms in map(str.split, _LISTS["IRREGULAR"].split(";")) for form in forms}
"""English forms that no stemmer brings together, by the form."""
TIMES: Final = frozenset(_LISTS["TIMES"].split())
"""Words that tell a time."""
WHEN: Final = tuple(words.replace("_", " ") for words in _LISTS["WHEN"].split())
"""How a question for a time begins, in English; Chinese ones hold 什么时候, 几点, 哪天, 哪年, 多久."""
RELATED: Final = tuple(_LISTS["RELATED"].split("\n"))
"""Words that a search takes for each other, to some degree; the first one names the group."""
TOPICS: Final = {
    topic: tuple(words.split()) for topic, words in read_entries(Path(__file__).with_name("topics.txt")).items()
}
"""Words of a topic, by its name: a new fact finds the memories that it may concern ("called off the wedding", "engaged to
Marek"). Of a longer Chinese word its last two letters count."""
KIN: Final = frozenset(_LISTS["KIN"].split())
"""Whom a statement may speak of besides the one who makes it."""
LIGHT: Final = frozenset(_LISTS["LIGHT"].split())
"""Verbs that say little of what a statement is about."""
ASKING_CJK: Final = frozenset(_LISTS["ASKING_CJK"].split())
"""Signs of Chinese question words, and 里, which ends one of them."""
TALK: Final = frozenset(_LISTS["TALK"].split())
"""English words of small talk that ask for nothing, also alone."""
PHRASE: Final = frozenset(_LISTS["PHRASE"].split())
"""Words that ask for nothing in a phrase ("have a nice day"), and for something alone ("day")."""
TALK_CJK: Final = frozenset(_LISTS["TALK_CJK"].split())
"""Chinese words of talk that ask for nothing."""
HAPPENING: Final = frozenset(_LISTS["HAPPENING"].split())
"""English words that ask what happened or was said in a time, and nothing else."""
HAPPENING_CJK: Final = frozenset(_LISTS["HAPPENING_CJK"].split())
"""The same in Chinese."""


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
    name: [row.split() for row in lines.split("\n")]
    for name, lines in read_entries(Path(__file__).with_name("languages.txt")).items()
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
_WORD_LETTERS: Final = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"}
    | {"ی": "ي", "ى": "ي", "ک": "ك", "ँ": "ं"}
    | dict.fromkeys("\u034f\u180b\u180c\u180d\u180f")
)
_STEMMING: Final = Lock()


def check_language(language: str) -> str:
    """The name of a language as it is stored, for one that a user wrote."""
    name = language.strip().casefold()
    if name in LANGUAGES or name == NO_STEMS:
        return name
    near = difflib.get_close_matches(name, (*LANGUAGES, NO_STEMS), n=1)
    hint = f"did you mean {near[0]!r}? known" if near else "known"
    raise InvalidInputError(f"unknown language {quoted(language)}; {hint} are {', '.join(LANGUAGES)}, and {NO_STEMS!r}")


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
    return unicodedata.normalize("NFC", "".join(c for c in parted if not _is_accent(c))).translate(_WORD_LETTERS)


@cache
def stemmer(language: str) -> Callable[[str], tuple[str, ...]]:
    """What turns a folded word, with the apostrophes in it, into its terms: without its accents a word may have a second one.

    Raises:
        InvalidInputError: No such language.

    Example:
        >>> stemmer("french")("l'avion"), stemmer("german")("häuser"), stemmer("english")("собакой")
        (('avion',), ('haus',), ('собак',))
        >>> stemmer("turkish")("ışıklar"), stemmer("turkish")("isiklar")
        (('isik', 'isiklar'), ('isiklar',))
    """
    return bounded_cache(65_536)(partial(_split_word, check_language(language)))


def _split_word(language: str, word: str) -> tuple[str, ...]:
    return tuple(term[:LONGEST] for part in _parts(word, language) for term in _stems(part[:LONGEST], language))


def _parts(word: str, language: str) -> list[str]:
    """The words in one with apostrophes: Anna('s), (l')avion, rock('n')roll; in other scripts it is a letter."""
    parts = word.split("'")
    if len(parts) == 1 or language == _TURKISH:
        return parts[:1]
    if _script(word[0]) != _LATIN:
        return ["".join(parts)]
    last = len(parts) - 1
    kept = (part for i, part in enumerate(parts) if not (i and part in CLITICS) and not (i < last and part in ELIDED))
    return list(kept) or parts[:1]


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
    """The language for stemming a word that begins with this letter; `None` if it is not stemmed."""
    script = _script(letter)
    if language == NO_STEMS:
        return None
    return language if script in _WRITTEN_IN.get(language, {_LATIN}) else _USUAL.get(script)


def _script(letter: str) -> str:
    return next((name for first, last, name in _SCRIPTS if first <= letter <= last), "")


def _is_accent(mark: str) -> bool:
    # By Unicode's combining classes: accents above and below, nuktas, the points of Hebrew and Arabic, and signs of voice that
    # follow no kana. Vowel signs and viramas of India and South-East Asia are letters of their words.
    kind = unicodedata.combining(mark)
    return kind in {1, 7, 8} or 10 <= kind <= 36 or kind >= 200  # noqa: PLR2004 - Unicode's own numbers


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

# A statement that opens with one of these refers to a person or thing named earlier.
_BACK: Final = re.compile(
    r"^\W*(?:and |also |but |oh,? |well,? )*(?:he|she|it|they|his|her|its|their|him|them|this|that|these|those)\b"
    r"|^\W*(?:而且|另外|还有|但是|不过)?[，,]?(?:他|她|它|他们|她们|它们|这个|那个)",
    re.IGNORECASE,
)


def words(text: str, language: str = ENGLISH) -> list[str]:
    """Split a text into the terms that lexical search compares, with repetitions, in order; at most 64 characters each.

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
            terms.append(
                (piece if plain else "".join(str(unicodedata.decimal(digit)) for digit in piece[:LONGEST]))[:LONGEST]
            )
        elif plain or (first := piece[0]) < _FIRST_UNSPACED:
            terms += stems(piece)
        elif _HAS_CJK.match(first):
            terms += piece
            terms += map(add, piece, piece[1:])
        elif _HAS_THAI.match(first):
            parts = _SYLLABLE_PART.findall(piece)
            runs = ["".join(parts[i : i + size]) for size in (2, 3) for i in range(len(parts) - size + 1)]
            terms += [term[:LONGEST] for term in runs or parts]
        else:
            terms += stems(piece)
    return terms


def content_words(text: str, language: str = ENGLISH) -> set[str]:
    """The terms of a text that carry meaning: `words` without function words and single Chinese particles."""
    return meaningful(words(text, language), language)


def meaningful(terms: Iterable[str], language: str = ENGLISH) -> set[str]:
    """Those of the `words` of a text that carry meaning; function words are known in English and Chinese."""
    function_words = _lists(language).function_words
    return {term for term in terms if term not in function_words}


TELLS_TIME: Final = "?when"
"""The mark of a text that holds a word of time or a year; no word looks like this."""

_ASKS_WHEN_CJK: Final = re.compile("什么时候|几点|哪天|哪年|多久|何时")
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")


def marks(text: str, language: str = ENGLISH, terms: Iterable[str] | None = None) -> set[str]:
    """What kind of statement a text is, by its *terms*: whether it tells a time, and its `topics`.

    Example:
        >>> sorted(marks("Did you go there last week?")), marks("I like tea.")
        (['?when', '~schedule'], {'~drink'})
    """
    terms = words(text, language) if terms is None else terms
    tells = not _lists(language).times.isdisjoint(terms) or _YEAR.search(text) is not None
    return topics(terms, language) | ({TELLS_TIME} if tells else set())


def asks_when(question: str) -> bool:
    """Whether a question asks for a time.

    Example:
        >>> asks_when("When did she move?"), asks_when("她什么时候搬家的？"), asks_when("Where does she live?")
        (True, True, False)
    """
    return question.strip().casefold().startswith(WHEN) or _ASKS_WHEN_CJK.search(question) is not None


def topics(terms: Iterable[str], language: str = ENGLISH) -> set[str]:
    """The topics that any of some words speaks of, as marks; only of Chinese words where Latin letters are not read as English.

    Example:
        >>> topics(words("Called off the wedding")), topics(words("Ha cancelado la boda"))
        ({'~partner'}, set())
    """
    topics_of = _lists(language).topics
    return {topic for word in terms for topic in topics_of.get(word, ())}


def groups_of(terms: Iterable[str], language: str = ENGLISH) -> set[str]:
    """Names of the groups of related words that any of the terms belongs to; `members` gives their words.

    Example:
        >>> groups_of(words("I moved")) == groups_of(words("she lives"))
        True
    """
    group = _lists(language).group
    return {group[term] for term in terms if term in group}


def members(term: str, language: str = ENGLISH) -> tuple[str, ...]:
    """The terms of a group of related words; a term that names no group stands for itself."""
    return _lists(language).members.get(term, (term,))


@bounded_cache(16_384)
def subjects(text: str, language: str = ENGLISH) -> frozenset[str]:
    """What a text is about: its content words but for light verbs, those of a group replaced by the group's name.

    Words for people and animals stand for themselves: a sister is no brother.

    Example:
        >>> sorted(subjects("My sister moved to Lyon")), sorted(subjects("My brother lives in Lyon"))
        (['=live', 'lyon', 'sister'], ['=live', 'brother', 'lyon'])
    """
    lists = _lists(language)
    content = content_words(text, language) - lists.light
    return frozenset(term if term in lists.kin else lists.group.get(term, term) for term in content)


_WIDTHS: Final = {
    code: chr(int(written[1], 16))
    for code in range(0xFF01, 0xFFEF)
    if len(written := unicodedata.decomposition(chr(code)).split()) == 2  # noqa: PLR2004 - "<wide> 0041"
}
_OPENING: Final = "\"'`“‘«([{【《「『〈"
_CLOSES: Final = "\"'`”’»)]}】》」』〉,;:!?.…。，、；：！？"
# A word of letters alone, with an apostrophe or a hyphen in it, whatever quotation marks and commas are around it.
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
    """Hash of a statement (BLAKE2b, 32 hexadecimal digits): equal hashes mean the same statement.

    Ignored are spacing, the width of letters and signs (Ａ and A), the composition of accents, the marks that end a statement
    (. ! … 。), and the capital that begins a word of small letters (Tea and tea). Everything else counts: signs and symbols (A
    and A-, C and C++, x² and x2), emoji, the question mark, and case inside a word (iPhone), beside digits (aB3x), of a single
    letter, and of words in capitals (US is not us).

    Example:
        >>> text_hash("Likes  Pizza.") == text_hash("likes pizza"), text_hash("Likes C++.") == text_hash("Likes C.")
        (True, False)
    """
    return blake2b(_as_compared(text).encode(), digest_size=16).hexdigest()


def cased_words(text: str) -> set[str]:
    """The words of a text that are compared with their case (see `text_hash`).

    Example:
        >>> sorted(cased_words("Anna's NAS has the password aB3x"))
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
    tokens: list[str] = []
    for run in _RUN.findall(_narrow(text)):
        token = run.lstrip(_OPENING).rstrip(_CLOSES)
        tokens += [token.casefold()] if _is_signed(token) else words(run)
    return tokens


def _is_signed(text: str) -> bool:
    if _SIGN.search(text):
        return True
    kinds = () if text.isascii() else map(unicodedata.category, text)
    return any(kind[0] == "S" or kind in {"No", "Nl"} for kind in kinds)  # also x² and ½


def _as_compared(text: str) -> str:
    def lower_first(word: re.Match[str]) -> str:
        letters = word.group()
        return letters[0].lower() + letters[1:] if letters[1:].islower() else letters

    plain = " ".join(_narrow(text).split())
    return _PLAIN_WORD.sub(lower_first, plain.rstrip(" .!…。") or plain)


def _narrow(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text.translate(_WIDTHS))


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


@cache
def talk_cjk() -> re.Pattern[str]:
    """Small talk and stop words of Chinese, the longest first."""
    return re.compile("|".join(sorted(TALK_CJK | STOPWORDS_CJK, key=len, reverse=True)))
