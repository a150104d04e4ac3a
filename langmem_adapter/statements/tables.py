"""Tables of wordings and word lists, and the parts of a statement that they read.

An entry is `NAME: text`, continued by indented lines; `<NAME>` in a pattern or row means an earlier entry of its file, or
for a name that the module passes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from langmem_adapter.forks import cached_property
from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.text import IRREGULAR, read_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

Kind = Literal["is", "begins", "ends", "touches"]
"""What a wording says of the attribute: its value, since now another value, that it is over, or something about it."""


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
    """The lists of words in a file, by their names."""
    return {key: frozenset(value.split()) for key, value in read_entries(_file(name)).items()}


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


def patterns(name: str, names: Mapping[str, str], *, flags: int = re.IGNORECASE) -> Patterns:
    """The patterns of a file; *names* are further ones in angle brackets. With case ignored it still counts in `(?-i:…)`."""
    return Patterns(_texts(name, names), flags)


def rows(name: str, names: Mapping[str, str], *, flags: int = re.IGNORECASE) -> tuple[TableRow, ...]:
    """The rows of a table: a line each, `attribute mark | relation:target | [heads] pattern | put`.

    The mark is `+` for what begins with the statement, `-` for what ends, `~` for what only touches the attribute; after the
    heads, one of which a statement begins with, the pattern matches the rest of it, whole.
    """
    texts = _texts(name, names)
    table = list[TableRow]()
    for line in _file(name).read_text(encoding="utf-8").splitlines():
        if not re.match(r"[a-z]+ .*\|", line):
            continue
        parts = [part.strip() for part in re.split(r"(?<!\S)\|(?!\S)", line)]
        head, edge, pattern, put, *_ = [*parts, "", "", ""]
        attribute, _, mark = head.partition(" ")
        relation, _, target = edge.partition(":")
        heads = re.match(r"\[([\w <>]+)\] ?", pattern)
        plain = _filled(pattern[heads.end() :] if heads else pattern, texts)
        listed = tuple(re.split(r"[ |]", _filled(heads[1], texts))) if heads else ()
        table.append(TableRow(attribute, _KINDS[mark.strip()], plain, flags, relation, target, listed, put))
    return tuple(table)


def _texts(name: str, names: Mapping[str, str]) -> dict[str, str]:
    texts = dict(names)
    for key, value in read_entries(_file(name)).items():
        texts[key] = _filled(value.replace("\n", ""), texts)
    return texts


def _file(name: str) -> Path:
    return Path(__file__).parent / "tables" / f"{name}.txt"


def _filled(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"<([A-Z_0-9]+)>", lambda match: names.get(match[1], match[0]), text)


WORDS: Final = lists("english-words")
WORDS["VERBS"] |= WORDS["DEEDS"] | WORDS["ALONE"]
KINDS: Final = frozenset().union(*(WORDS[name] for name in ("FEMALE", "MALE", "PLURAL", "PETS", "OTHERS")))
"""Words for relatives, friends and animals of a person."""


def third(verb: str) -> str:
    """The form of an English verb after he, she or it."""
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


# ── the parts of a statement ────────────────────────────────────────────────────────────────────────────────────────────────

LONGEST: Final = 200
"""Characters of the longest text that is read: what is longer is no short statement."""

SINGLE: Final = frozenset("name age birthday home employer job partner phone email diet".split())
"""Attributes that have one value at a time; a newer statement ends the older one of the same speaker."""

MANY: Final = frozenset("family pet friend like allergy habit speak visit any".split())
"""Attributes of which one has several values; no statement ends another's for its date. `any` ends whatever it names."""


@dataclass(frozen=True, slots=True)
class StatedSpan:
    """When something holds, as far as a statement says so.

    Attributes:
        since: From when on.
        until: Until when.
        at: The date of a single event, "in 2019".
        lasting: Whether it says that it lasts: "since 2019", "for five years".
        partly: Whether it is said of some times only: "every Sunday", "at night".
    """

    since: datetime | None = None
    until: datetime | None = None
    at: datetime | None = None
    lasting: bool = False
    partly: bool = False

    def bounds(self, *, over: bool, begins: bool) -> tuple[datetime | None, datetime | None]:
        """From when until when something holds that is *over*, or that *begins* at the date."""
        if over and self.since and not self.until:
            return None, self.since
        since, until = self.since or (self.at if begins else None), self.until or (self.at if over else None)
        return (None, None) if since and until and until <= since else (since, until)


@dataclass(frozen=True, slots=True)
class Person:
    """A person, or an animal, that a statement is about.

    Attributes:
        kind: "sister", "dog", 姐姐; empty where only the name is known.
        name: "Jesica"; empty where only the kind is known.
    """

    kind: str
    name: str


class Subject(NamedTuple):
    """The person of a statement: as compared, as the graph names it (empty for a pronoun), and what its front says."""

    key: str = ""
    name: str = SELF
    people: tuple[Person, ...] = ()
    implied: tuple[Triple, ...] = ()
    type: str = ""


class Predicate(NamedTuple):
    """A predicate in its one form, "live in Rome": whether it is affirmed, over, nothing else than over (*empty*), and when."""

    who: Subject
    text: str
    positive: bool = True
    ended: bool = False
    empty: bool = False
    span: StatedSpan = StatedSpan()
    tense: str = "now"

    def says(self, attribute: str, value: str, about: str = "", **more: Any) -> Statement:
        """The statement of an attribute and its value."""
        subject = f"{self.who.key} {about}".strip()
        return Statement("", subject, attribute, value, self.positive, self.ended, self.empty, **more)


def edges(
    form: Predicate, relation: str, targets: tuple[str, ...], type_: str, *, begins: bool = False
) -> Iterator[Triple]:
    """The relations of one subject to each of some targets."""
    since, until = form.span.bounds(over=form.ended, begins=begins)
    who, single = form.who, False if targets[1:] else None
    for target in targets if relation else ():
        if any(map(str.isalnum, target)):
            yield Triple(who.name, relation, target, who.type, type_, since, until, ended=form.ended, single=single)


@dataclass(frozen=True, slots=True)
class Statement:
    """The parts of a statement.

    Attributes:
        text: As it is remembered: "Lives in Porto", "Sister lives in Rome", "住在波尔图".
        subject: The person or thing, in small letters; empty for the speaker. Of a favourite or detail the noun.
        attribute: Of the row that reads it; empty where none does.
        value: What is said, as it is compared.
        positive: Whether it is affirmed; an end is not.
        ended: Whether it says that something is over.
        empty: Whether it says nothing else than that ("No longer has a dog").
        touches: Whether it is one of several values: it neither ends another nor is ended for its date.
        slot: What has one value at a time where the attribute alone does not say so: "detail address", "family mother".
        people: The people in it: the one it introduces, then its subject.
        relations: The relations that it plainly states.
    """

    text: str
    subject: str = ""
    attribute: str = ""
    value: str = ""
    positive: bool = True
    ended: bool = False
    empty: bool = False
    touches: bool = False
    slot: str = ""
    people: tuple[Person, ...] = ()
    relations: tuple[Triple, ...] = ()

    @property
    def place(self) -> str:
        """What it gives the one value of: an attribute of the speaker, or a `slot`; empty where there may be several.

        Of another person only the name has one value: "My sister is 30" does not end "My sister is a nurse".
        """
        if self.slot or self.touches or self.subject:
            return "" if self.touches else self.slot
        return self.attribute if self.attribute in SINGLE else ""
