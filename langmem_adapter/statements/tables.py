"""Tables of wordings and lists of English words.

An entry is `NAME: text`, continued by indented lines; `<NAME>` in a pattern or row stands for an earlier entry of its file, or
for what the module gives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from langmem_adapter.forks import cached_property
from langmem_adapter.text import IRREGULAR, read_entries

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["is", "begins", "ends", "touches"]
"""What a wording says of the attribute: its value, since now another value, that it is over, or something about it."""


_HERE: Final = Path(__file__).parent / "tables"
_KINDS: Final[Mapping[str, Kind]] = {"": "is", "+": "begins", "-": "ends", "~": "touches"}


@dataclass(frozen=True)
class TableRow:
    """A row of the table: one wording of a statement without its subject, and what it says of an attribute.

    Attributes:
        text: The pattern, which matches what follows one of the *heads*, whole; its group `v` is the value.
        put: The value that is compared, where that is not `v`: "married {v}".
    """

    attribute: str
    kind: Kind
    text: str
    flags: int
    relation: str = ""
    target: str = ""
    heads: tuple[str, ...] = ()
    put: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when it is first used: most programs use few of them."""
        return re.compile(self.text, self.flags)


def lists(name: str) -> dict[str, frozenset[str]]:
    """The lists of words in a file, by their names.

    Example:
        >>> "aunt" in lists("english-words")["FEMALE"]
        True
    """
    return {key: frozenset(value.split()) for key, value in read_entries(_file(name)).items()}


class Patterns(dict[str, re.Pattern[str]]):
    """Patterns by their names, each compiled when it is first asked for: most texts need few of them.

    Args:
        texts: The patterns.
        flags: Of all of them.
    """

    def __init__(self, texts: Mapping[str, str], flags: int) -> None:
        super().__init__()
        self.texts: Final = texts
        self._flags = flags

    def __missing__(self, name: str) -> re.Pattern[str]:
        """Compile one."""
        self[name] = re.compile(self.texts[name], self._flags)
        return self[name]


def patterns(name: str, given: Mapping[str, str], *, flags: int = re.IGNORECASE) -> Patterns:
    """The patterns in a file, by their names; with case ignored it still counts within `(?-i:…)`.

    Args:
        name: Of the file, without its ending.
        given: What stands for further names in angle brackets.
        flags: Of the patterns.
    """
    return Patterns(_texts(name, given), flags)


def rows(name: str, given: Mapping[str, str], *, flags: int = re.IGNORECASE) -> tuple[TableRow, ...]:
    """The rows of a table: a line each, `attribute mark | relation:target | [heads] pattern | put`.

    The mark is `+` for what begins with the statement, `-` for what ends, `~` for what only touches the attribute; after the
    heads, one of which a statement begins with, the pattern matches the rest of it, whole.
    """
    texts = _texts(name, given)
    lines = _file(name).read_text(encoding="utf-8").splitlines()
    return tuple(_row(line, texts, flags) for line in lines if re.match(r"[a-z]+ .*\|", line))


def _texts(name: str, given: Mapping[str, str]) -> dict[str, str]:
    texts = dict(given)
    for key, value in read_entries(_file(name)).items():
        texts[key] = _filled(value.replace("\n", ""), texts)
    return texts


def _file(name: str) -> Path:
    return _HERE / f"{name}.txt"


def _filled(text: str, given: Mapping[str, str]) -> str:
    return re.sub(r"<([A-Z_0-9]+)>", lambda found: given.get(found[1], found[0]), text)


def _row(line: str, given: Mapping[str, str], flags: int) -> TableRow:
    parts = [part.strip() for part in re.split(r"(?<!\S)\|(?!\S)", line)]
    head, edge, pattern, put, *_ = [*parts, "", "", ""]
    attribute, _, mark = head.partition(" ")
    relation, _, target = edge.partition(":")
    heads = re.match(r"\[([\w <>]+)\] ?", pattern)
    plain = _filled(pattern[heads.end() :] if heads else pattern, given)
    listed = tuple(re.split(r"[ |]", _filled(heads[1], given))) if heads else ()
    return TableRow(attribute, _KINDS[mark.strip()], plain, flags, relation, target, listed, put)


WORDS: Final = lists("english-words")
WORDS["VERBS"] |= WORDS["DEEDS"] | WORDS["ALONE"]
KINDS: Final = frozenset().union(*(WORDS[name] for name in ("FEMALE", "MALE", "PLURAL", "PETS", "OTHERS")))
"""Words for those who belong to somebody."""


def third(verb: str) -> str:
    """The form of an English verb after he, she or it.

    Example:
        >>> third("live"), third("study"), third("teach"), third("have")
        ('lives', 'studies', 'teaches', 'has')
    """
    if verb in {"have", "be"}:
        return "has" if verb == "have" else "is"
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search("[^aeiou]y$", verb) else f"{verb}s"


def _gerund(verb: str) -> str:
    return f"{verb[:-1]}ing" if verb.endswith("e") and not verb.endswith(("ee", "be")) else f"{_doubled(verb)}ing"


def _doubled(verb: str) -> str:
    return verb + verb[-1] if re.fullmatch("[^aeiou]*[aeiou][bdgmnprt]", verb) else verb


def _past(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    return f"{verb[:-1]}ied" if re.search("[^aeiou]y$", verb) else f"{_doubled(verb)}ed"


FORMS: Final[dict[str, tuple[str, str]]] = {
    **{_gerund(verb): (verb, "ing") for verb in WORDS["VERBS"]},
    **{_past(verb): (verb, "past") for verb in WORDS["VERBS"] - IRREGULAR.keys()},
    **{form: (verb, "past") for form, verb in IRREGULAR.items()},
    **{third(verb): (verb, "now") for verb in WORDS["VERBS"]},
    **{verb: (verb, "base") for verb in WORDS["VERBS"]},
    **{form: (verb, tense) for form, verb, tense in (entry.split(":") for entry in WORDS["ODD"])},
}
"""Forms of verbs, each with its base and its tense: `base`, `now`, `past`, `ing`."""
