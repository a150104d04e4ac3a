"""Tables of wordings and word lists, and the forms of English verbs.

An entry is `NAME: text`, continued by indented lines; `<NAME>` in a pattern or row means an earlier entry of its file, or
for a name that the module passes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from langmem_adapter.forks import bounded_cache, cached_property
from langmem_adapter.text import IRREGULAR, read_entries, words

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["is", "begins", "ends", "touches", "renews"]
_KINDS: Final[Mapping[str, Kind]] = {"": "is", "+": "begins", "-": "ends", "~": "touches", "!": "renews"}


@dataclass(frozen=True)
class TableRow:
    """A row of a table: one wording of a statement, and what it says of an attribute.

    Attributes:
        kind: What the wording says: the attribute's value, a value since now, that it is over, one of several values, or
            the one value of the thing that group `n` names.
        text: The pattern of the whole statement; its group `v` is the value.
        heads: The first words of the statements that it matches. Empty: in English those with a form of `be`, in Chinese any.
        put: The value that is compared, where that is not `v`: "married {v}".
    """

    attribute: str
    kind: Kind
    text: str
    flags: int
    heads: tuple[str, ...] = ()
    put: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when it is first used: most programs use few of them."""
        return re.compile(self.text, self.flags)


class Patterns(dict[str, re.Pattern[str]]):
    """Patterns by their names, each compiled when it is first used: most texts need few of them."""

    def __init__(self, texts: Mapping[str, str], flags: int) -> None:
        super().__init__()
        self.texts: Final = texts
        self._flags = flags

    def __missing__(self, name: str) -> re.Pattern[str]:
        """Compile one."""
        self[name] = re.compile(self.texts[name], self._flags)
        return self[name]


def lists(name: str) -> dict[str, frozenset[str]]:
    """The lists of words in a file, by their names."""
    return {key: frozenset(value.split()) for key, value in read_entries(_file(name)).items()}


def patterns(name: str, names: Mapping[str, str], *, flags: int = re.IGNORECASE) -> Patterns:
    """The patterns of a file; *names* are further ones in angle brackets. With case ignored it still counts in `(?-i:…)`."""
    texts = dict(names)
    for key, value in read_entries(_file(name)).items():
        texts[key] = _filled(value.replace("\n", ""), texts)
    return Patterns(texts, flags)


def rows(name: str, names: Mapping[str, str], *, flags: int = re.IGNORECASE) -> tuple[TableRow, ...]:
    """The rows of a table, a line each: `attribute mark | [heads] pattern | put`.

    The mark is `+` for what begins with the statement, `-` for what ends, `~` for one of several values, `!` for what the
    thing named `n` has one of. A statement begins with one of the heads.
    """
    table = list[TableRow]()
    for line in _file(name).read_text(encoding="utf-8").splitlines():
        if re.match(r"[a-z]+(?: .)? \|", line):
            head, pattern, put, *_ = [part.strip() for part in [*re.split(r"(?<!\S)\|(?!\S)", line), ""]]
            attribute, _, mark = head.partition(" ")
            heads = re.match(r"\[([\w <>]+)\]", pattern)
            listed = tuple(_filled(heads[1], names).replace("|", " ").split()) if heads else ()
            text = f"(?:{'|'.join(listed)}){pattern[heads.end() :]}" if heads else pattern
            table.append(TableRow(attribute, _KINDS[mark], _filled(text, names), flags, listed, put))
    return tuple(table)


def _file(name: str) -> Path:
    return Path(__file__).parent / "tables" / f"{name}.txt"


def _filled(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"<([A-Z_0-9]+)>", lambda match: names.get(match[1], match[0]), text)


def alternatives(listed: frozenset[str]) -> str:
    """Words as alternatives of a pattern, longest first."""
    return "|".join(sorted(map(re.escape, listed), key=lambda word: (-len(word), word)))


WORDS: Final = lists("words")
KINDS: Final = frozenset().union(*(WORDS[name] for name in ("FEMALE", "MALE", "PLURAL", "PETS", "OTHERS")))
"""Words for relatives, friends and animals of a person, in English and Chinese."""
ATTRIBUTES: Final = lists("attributes")
"""`SINGLE`: attributes that have one value at a time. `MANY`: those of which no statement ends another's for its date.
`BY_WORD`: they may have hundreds of values. `PEOPLE`: a value that says more begins alike. `ENDS_ALONE`: their end needs no
value ("Quit my job"). `ENDABLE`: "Gave up sugar" may end them. `RELATIONS`: what the graph calls them."""

# ── verbs ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────

_BASES: Final = {words(verb)[0]: verb for key in ("STATES", "EVENTS", "DEEDS", "ALONE") for verb in WORDS[key]}


_ODD: Final = {form: (base, tense) for form, base, tense in (entry.split(":") for entry in WORDS["ODD"])}


@bounded_cache(4_096)
def verb_form(word: str) -> tuple[str, str]:
    """The base of a form of a listed or irregular verb, and its tense: `base`, `now`, `past` or `ing`; both empty for others.

    Example:
        >>> verb_form("lives"), verb_form("stopped"), verb_form("dying"), verb_form("Rome")
        (('live', 'now'), ('stop', 'past'), ('die', 'ing'), ('', ''))
    """
    low = word.lower()
    if low in _ODD or low in IRREGULAR:
        return _ODD.get(low) or (IRREGULAR[low], "past")
    ending = re.search("(?:s|ed|ing)$", low)
    base = _BASES.get(words(low)[0], "") if ending and low.isalpha() else low if low in _BASES.values() else ""
    forms = {base: "base", third(base): "now"} if base else {}
    tense = forms.get(low) or {"ed": "past", "ing": "ing"}.get(ending[0] if ending else "", "")
    return (base, tense) if base and tense else ("", "")


def third(verb: str) -> str:
    """The form of an English verb after he, she or it."""
    if verb in {"have", "be"}:
        return "has" if verb == "have" else "is"
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search("[^aeiou]y$", verb) else f"{verb}s"
