"""Relations in short English statements: "Sister Jesica lives in Rome" is about Jesica, Rome, and whose sister she is.

Here is whom a statement is about, and how what it says becomes triples; what it says is read in `relations_life` and
`relations_doing`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules import relations_doing as doing
from langmem_adapter.reasoning.rules import relations_life as life
from langmem_adapter.reasoning.rules.meaning import Statement, terms
from langmem_adapter.reasoning.rules.meaning_english import english_statement
from langmem_adapter.reasoning.rules.relations_told import HEADS, Subject, Told, kin_relation, kind_of
from langmem_adapter.reasoning.rules.relations_triples import Link, Span, triples
from langmem_adapter.reasoning.rules.relations_values import gerund, timed
from langmem_adapter.reasoning.rules.words import ADJECTIVES, BASE, DEMONYMS, MONTHS, PAST, PLURAL, third

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langmem_adapter.records.graph import Triple

__all__ = ["english_relations"]

_UNSURE: Final = re.compile(
    r"[?\"“”;]|\b(?:if|maybe|perhaps|probably|possibly|might|could|would|should|will|shall|supposed|almost|nearly|rarely"
    r"|seldom|hardly|barely|unless|whether|pretend\w*|dream\w*|wish\w*|hopes?|plans?|planning|intends?|going to|about to"
    r"|thinks?|thinking|considering|neither|nor|either|claims?|says?|said|heard|seems?)\b",
    re.IGNORECASE,
)


def english_relations(text: str, speaker: str, known: frozenset[str] = frozenset()) -> tuple[Triple, ...]:
    """What an English statement says of things.

    Args:
        text: A fact as the rules word it: "Works at Acme as a nurse".
        speaker: Who is meant where nobody is named.
        known: Names of people and animals in lower case, so that "Anna lives in Rome" is told from "Work starts in Rome".

    Example:
        >>> [(t.source, t.relation, t.target) for t in english_relations("Works at Acme as a nurse", "user")]
        [('user', 'works_at', 'Acme'), ('user', 'works_as', 'nurse')]
    """
    plain = " ".join(text.replace("’", "'").split()).rstrip(".! ")
    dated = None if _UNSURE.search(plain) else _cut(plain)
    if dated is None:
        return ()
    body = _lasting(dated[0], dated[1])
    said = english_statement(body)
    subject = _subject(body, said, speaker, known)
    if subject is None:
        return ()
    told = Told(said, body, subject, dated[1].partly)
    return tuple(triple for link in _links(told) for triple in triples(subject.name, subject.type, link, dated[1]))


def _cut(plain: str) -> tuple[str, Span] | None:
    """Without times; a date of birth is what is said, not when it held."""
    return (plain, Span()) if re.search(r"\bborn\b|birth|anniversary", plain, re.IGNORECASE) else timed(plain)


_HELD: Final = re.compile(
    r"\b(?:has|have) (?:been (?P<doing>\w+ing)\b|(?P<been>been)\b|(?P<done>\w+)\b)", re.IGNORECASE
)
_BASE_OF: Final = {
    **{gerund(verb): verb for verb in BASE},
    **{done: verb for done, verb in PAST.items() if verb in BASE},
    "been": "be", "known": "know", "spoken": "speak", "driven": "drive", "eaten": "eat", "written": "write", "grown": "grow",
}  # fmt: skip


def _lasting(body: str, span: Span) -> str:
    """What has gone on since 2019 goes on: "Has lived in Lyon" is worded as "lives in Lyon"."""
    found = _HELD.search(body) if span.lasting else None
    base = _BASE_OF.get(next(filter(None, found.groups())).lower()) if found else None
    return f"{body[: found.start()]}{third(base)}{body[found.end() :]}" if found and base else body


# ── whom it is about ────────────────────────────────────────────────────────────────────────────────────────────────────

_QUALITY: Final = frozenset(
    "my our the older younger elder little big best good old close dear twin oldest youngest eldest first second third half "
    "step new former pet male female middle only late great".split()
)
_NO_NAMES: Final = frozenset(word.capitalize() for word in DEMONYMS | MONTHS | ADJECTIVES) | {"I", "The", "A", "An"}
_ALONE: Final = frozenset("he she they it we you there this that these those his her their its".split())
_OF: Final = re.compile(r"(?:'s|(?<=s)')(?:\s+|$)")
_NAME: Final = re.compile(r"[A-Z][\w'-]*(?: [A-Z][\w.-]*){0,2}")
_FULL_NAME: Final = re.compile(r"(?:(?:Mr|Mrs|Ms|Dr|Prof)\.? )?[A-Z][\w-]* [A-Z][\w-]*")


def _subject(body: str, said: Statement, speaker: str, known: frozenset[str]) -> Subject | None:
    if not said.subject:
        return None if body.partition(" ")[0].lower() in _ALONE else Subject(speaker)
    owner, *owned = [part for part in _OF.split(_noun(body, said)) if part]
    subject = _first(owner, speaker, known)
    for part in owned:
        subject = _kin(part, subject.name, f"{subject.name}'s ") if subject else None
    return subject


def _noun(body: str, said: Statement) -> str:
    """The words that name the subject; of them the statement keeps the stems."""
    early = body.split()[:8]
    prefixes = (" ".join(early[:size]) for size in range(1, len(early)))
    return next((prefix for prefix in prefixes if " ".join(terms(prefix)) == said.subject), "?")


def _first(noun: str, speaker: str, known: frozenset[str]) -> Subject | None:
    name = noun.strip(" ,")
    if name.casefold() in known:
        return Subject(name, named=True)
    if subject := _kin(name, speaker, ""):
        return subject
    full = _FULL_NAME.fullmatch(name) and name.split()[0] not in _NO_NAMES
    return Subject(name, named=True) if full else None


def _kin(noun: str, owner: str, prefix: str) -> Subject | None:
    """Somebody called by a word of kin, with or without a name: "older sister", "friend Ada"."""
    told = re.sub(r"^(?:my|our|the) ", "", noun.strip(" ,"), flags=re.IGNORECASE).split()
    place = next((place for place, word in enumerate(told) if word.lower().strip(",") in HEADS), None)
    if place is None or any(word.lower() not in _QUALITY for word in told[:place]):
        return None
    word, name = told[place].lower().strip(","), " ".join(told[place + 1 :])
    type_ = "" if word in PLURAL else kind_of(word)
    if not name:
        return Subject(f"{prefix}{' '.join(told).lower()}", type_, owner, word)
    return Subject(name, type_, owner, word, named=True) if _NAME.fullmatch(name) and word not in PLURAL else None


# ── what is said ───────────────────────────────────────────────────────────────────────────────────────────────────────

_READERS: Final = life.READERS | doing.READERS


def _links(told: Told) -> Iterator[Link]:
    """The relations that a statement states, those that its wording implies ("sister Jesica") first.

    A denial states none, but for likes and for what it says is over; one that is limited to some times states none at all.
    """
    subject, said = told.subject, told.said
    if subject.named and subject.kin and not told.opens("ex|former|late"):
        yield Link(kin_relation(subject.kin), (subject.name,), subject.type, source=subject.owner)
    if not said.positive and (told.partly or not (told.over or said.attribute == "like")):
        return
    reader = _READERS.get(said.attribute) or (doing.done_or_doing if said.attribute.startswith("verb:") else life.own)
    for link in reader(told):
        if link.targets and all(link.targets):
            yield replace(link, ended=link.ended or told.over)
