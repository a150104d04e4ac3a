"""The English table: what a statement without its subject says of somebody, and the reading of a statement by it.

A statement is brought into one form first ("No longer lives in Rome", "has been living in Rome since 2015": `live in Rome`), so
that a row says a wording once for all its tenses. Nothing is understood: what no row knows has no attribute.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.dates import TIME_WORDS, Span, is_date, timed
from langmem_adapter.statements.statement import Person, Row, Statement
from langmem_adapter.statements.tables import patterns, rows
from langmem_adapter.statements.things import bare, proper, thing, things
from langmem_adapter.statements.words import ADJECTIVES, DEMONYMS, DONE, FORMS, KINDS, PETS, PLURAL, gerund, third

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

__all__ = ["GIVEN", "english_statement"]

GIVEN: Final = {
    name: "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    for name, words in {
        "KIND": KINDS,
        "PETS": PETS,
        "ADJECTIVES": ADJECTIVES,
        "DEMONYMS": DEMONYMS,
        "TIME_WORDS": TIME_WORDS,
    }.items()
}
"""Words that stand in patterns for their names in angle brackets."""
_P: Final = patterns("english", GIVEN)
GIVEN["NAME"] = _P["NAME"].pattern
_ROWS: Final = rows("english", GIVEN)
_BY_HEAD: Final[dict[str, list[Row]]] = defaultdict(list)
for _row in _ROWS:
    for _head in _row.heads:
        _BY_HEAD[_head].append(_row)
_EXTRA: Final = {
    "job": ("job", "works_as", "occupation"),
    "org": ("employer", "works_at", "organization"),
    "place": ("birthplace", "born_in", "place"),
    "what": ("study", "studies", ""),
}
"""Groups of a row that make a statement of their own."""

# ── one form for all tenses ─────────────────────────────────────────────────────────────────────────────────────────────

_SHORT: Final = (("can't", "cannot"), ("won't", "will not"), ("n't", " not"))
_HEADS: Final = {"'m": "am", "'re": "are", "'ve": "have", "'ll": "will", "'d": "would", "'s": "is"}
_DENIALS: Final = (
    (re.compile(r"(?:cannot (?:stand|bear|tolerate)|dislikes?|hates?|hated|detests?|despises?|loathes?)\s+(?:to )?"), "like "),
    (re.compile(r"(?:has|have|had) (?:no|zero) (?=\w)"), "have "),
    (re.compile(r"(?:does|do|did|never) (?:not )?(?=\w)"), ""),
    (re.compile(r"(?:is|are|was|were|am) (?:not|never) (?:really |very |too |so )?(?:an? (?:big |huge )?(?:fan|lover) of|into|fond of|keen on)\s+"), "like "),
    (re.compile(r"(?P<be>is|are|was|were|am|has|have|had|will|would|cannot) (?:not|never)\s+"), "{be} "),
    (re.compile(r"(?:cannot|not|never)\s+"), "can "),
)  # fmt: skip
_DEEDS: Final = frozenset("habit hobby like prefer study skill goal plan speak".split())
"""What one did, liked or wanted: that it is over is worth a memory of its own."""
_FINITE: Final = frozenset(
    "is are am was were has have had can cannot will would does do did never not no used isn't aren't doesn't don't".split()
)
_OPENERS: Final = (
    ADJECTIVES | DEMONYMS | frozenset("from based called named born divorced engaged between unemployed".split())
)
_OPENING_VERBS: Final = frozenset("quit stopped gave given rarely seldom hardly".split())


@dataclass(slots=True)
class _Form:
    """A predicate in its one form.

    Attributes:
        text: "live in Rome".
        tense: `now`, `past`, `done` (has lived), `plan`.
        positive: Whether it is affirmed.
        ended: Whether it says that it is over.
        empty: Whether nothing else is said.
    """

    text: str
    tense: str = "now"
    positive: bool = True
    ended: bool = False
    empty: bool = False


def english_statement(text: str) -> Statement:
    """Take an English statement apart, with or without "User" or "I" in front.

    Example:
        >>> told = english_statement("Sister no longer lives in Rome")
        >>> told.subject, told.attribute, told.value, told.ended
        ('sister', 'home', 'Rome', True)
        >>> [(one.source, one.relation, one.target) for one in english_statement("Works at Acme as a nurse").relations]
        [('user', 'works_at', 'Acme'), ('user', 'works_as', 'nurse')]
    """
    plain = " ".join(text.replace("’", "'").split()).rstrip(" .!…")
    if opened := _P["USER"].match(plain):
        plain = plain[opened.end() :]
    told = _P["PRONOUN_IS"].sub(r"\1 is", plain).split(" ")
    place = _verb(told)
    if place is None:
        return Statement(text)
    who = _Who.of(" ".join(told[:place])) if place else _Who()
    rest = " ".join(told[place:])
    said = _of_noun(who, rest) or _said(who, rest)
    return replace(said, text=text, empty=said.empty and said.attribute not in _DEEDS)


def _verb(told: list[str]) -> int | None:
    """Index of the word that the predicate begins with."""
    for place, word in enumerate(told[:7]):
        plain = word.lower().strip(",;:")
        if plain in _FINITE or plain in _HEADS or (plain.endswith("n't") and place < 5):  # noqa: PLR2004
            return place
        known = FORMS.get(plain)
        if known and (place == 0 or known[1] in {"now", "past"}):
            return place
        if place == 0 and (plain in _OPENERS or plain in _OPENING_VERBS or _P["ADVERBS"].fullmatch(f"{plain} ")):
            return 0
    return None


def _form(rest: str) -> _Form:
    """The predicate in its one form, its times included."""
    told = _P["OVER"].sub("", rest)
    form = _Form("", empty=told != rest, ended=told != rest, positive=told == rest)
    head, _, tail = told.partition(" ")
    told = f"{_HEADS[head.lower()]} {tail}" if head.lower() in _HEADS else told[:1].lower() + told[1:]
    for short, long in _SHORT:
        told = told.replace(short, long)
    told = _bare(told)
    told = re.sub(r"^(is|are|am|was|were|has|have|had|does|do) no longer ", r"no longer \1 ", told)
    if told.startswith("no longer "):
        told, form.ended, form.empty, form.positive = _bare(told[10:]), True, True, False
    if found := _P["USED_TO"].match(told) or _P["GAVE_UP"].match(told):
        form.ended, form.positive = True, False
        told = found["what"] if found.re is _P["USED_TO"] else _stopped(found["what"])
    for pattern, put in _DENIALS:
        if found := pattern.match(told):
            told, form.positive = f"{put.format(**found.groupdict())}{told[found.end() :]}", False
            form.ended, form.empty = form.ended and put != "like ", form.empty and put != "like "
            break
    form.text, form.tense = _lemma(_bare(told))
    return form


def _stopped(what: str) -> str:
    """What one has stopped, as one did it; what one has quit that is no deed stays so."""
    what = re.sub(r",? (?:because|since|after|due to|when|so|as|for (?:good|health|my|the))\b.*", "", what)
    verb, _, rest = what.partition(" ")
    return f"{FORMS[verb.lower()][0]} {rest}".strip() if _ing(what) else f"quit {what}"


def _ing(told: str) -> bool:
    return FORMS.get(told.partition(" ")[0].lower(), ("", ""))[1] == "ing"


def _bare(told: str) -> str:
    while found := _P["ADVERBS"].match(told):
        told = told[found.end() :]
    return told


def _lemma(told: str) -> tuple[str, str]:
    """The text with its verb in the base form, and the tense that it had."""
    if found := _P["INTENDS"].match(told):
        return told[found.end() :], "plan"
    head, _, rest = told.partition(" ")
    low, rest = head.lower().strip(","), _bare(rest)
    if low in {"is", "are", "am", "was", "were", "be", "been", "being"}:
        if rest.startswith(("going to ", "planning ", "thinking of ", "about to ")) or _P["INTENDS"].match(rest):
            return rest[rest.find(" ", 8) + 1 :], "plan"
        past = "past" if low[0] == "w" else "now"
        return (_lemma(rest)[0], past) if _ing(rest) else (f"be {rest}", past)
    if low == "had" and rest.startswith("to "):
        return rest[3:], "past"
    if low in {"has", "have", "had", "got"}:
        rest = rest.removeprefix("got ")
        verb, _, after = rest.partition(" ")
        if verb == "been":
            return (f"visit {after[3:]}", "done") if after.startswith("to ") else (_lemma(f"is {after}")[0], "done")
        done = FORMS.get(verb.lower())
        if done and done[1] == "past" and low in {"has", "have"}:
            return f"{done[0]} {after}".strip(), "done"
        return (f"have {rest}", "past" if low == "had" else "now") if low != "got" else (f"get {rest}", "past")
    if low == "can":
        return f"can {rest}", "now"
    if low in _OPENERS and not re.match(r"(?:married|divorced) [A-Z]", told):
        return f"be {told}", "now"
    base, tense = FORMS.get(low, (low, "now"))
    return f"{base} {rest}".strip(), "past" if tense == "past" else "now"


# ── whom it is about ────────────────────────────────────────────────────────────────────────────────────────────────────

_QUALITY: Final = frozenset(
    "my our the older younger elder little big best good old close dear twin oldest youngest eldest first second third half step new former "
    "pet male female middle only late great other ex".split()
)
_SAME: Final = {
    "mom": "mother", "mum": "mother", "mama": "mother", "dad": "father", "grandma": "grandmother", "grandpa": "grandfather", "kid": "child",
    "kids": "child", "children": "child", "cats": "cat", "dogs": "dog", "sons": "son", "daughters": "daughter", "sisters": "sister",
    "brothers": "brother", "siblings": "sibling", "twins": "twin", "friends": "friend", "neighbour": "neighbor", "bunny": "rabbit",
}  # fmt: skip
_RELATION: Final = {
    "friend": "friend_of", "colleague": "colleague_of", "coworker": "colleague_of", "partner": "partner_of", "fiance": "engaged_to",
    "fiancé": "engaged_to", "fiancee": "engaged_to", "fiancée": "engaged_to", "wife": "married_to", "husband": "married_to",
    "girlfriend": "partner_of", "boyfriend": "partner_of", "sibling": "sibling_of",
}  # fmt: skip
_STATES: Final = {"married_to": "married", "engaged_to": "engaged", "partner_of": "dating"}
_NO_NAME: Final = frozenset(FORMS) | ADJECTIVES | DEMONYMS | TIME_WORDS | _QUALITY | frozenset(
    "name user favorite favourite nickname birthday email phone she he it they her his its their this that these those there the no job "
    "company work mother father a an in on at and but everything nothing something everyone nobody what who one life things school "
    "god god's congrats thanks sounds seems".split()
)  # fmt: skip
_PRONOUNS: Final = frozenset("he she it they this that these those there his her its their him them one".split())


@dataclass(frozen=True, slots=True)
class _Who:
    """Whom a statement is about.

    Attributes:
        key: As `Statement.subject`.
        name: In relations; empty where none may be stated.
        type: "person", "animal" or empty.
        kind: The word of kin, where one was used.
        named: Whether the name is a proper one.
        owner: Whose sister it is.
    """

    key: str = ""
    name: str = SELF
    type: str = ""
    kind: str = ""
    named: bool = False
    owner: str = SELF

    @classmethod
    def of(cls, noun: str) -> _Who:
        owner, *owned = re.split(r"(?:'s|(?<=s)')(?:\s+|$)", noun.strip(" ,"))
        who = cls._first(owner)
        for part in filter(None, owned):
            low = part.lower()
            who = (
                replace(cls._first(part), key=f"{who.key} {low}".strip(), owner=who.name)
                if who.name
                else cls(f"{who.key} {low}", "")
            )
            who = replace(who, name=f"{who.owner}'s {low}") if who.kind and not who.named else who
        return who

    @classmethod
    def _first(cls, noun: str) -> _Who:
        told = noun.split()
        low = [word.lower().strip(",") for word in told]
        key = " ".join(word for word in low if word not in {"my", "our", "the"})
        if not told or low[0] in _PRONOUNS:
            return cls(key, "")
        place = next((place for place, word in enumerate(low) if word in KINDS), None)
        if place is not None and all(word in _QUALITY for word in low[:place]):
            kind, name = low[place], " ".join(told[place + 1 :])
            type_ = "" if kind in PLURAL else "animal" if kind in PETS else "person"
            if not name:
                return cls(key, key, type_, kind)
            return cls(name.lower(), name, type_, kind, named=True) if _P["NAME"].fullmatch(name) else cls(key, "")
        named = _P["NAME"].fullmatch(noun) and low[0] not in _NO_NAME
        return cls(key, noun if named else "", "", "", bool(named))

    @property
    def people(self) -> tuple[Person, ...]:
        return (Person(self.kind, self.name if self.named else ""),) if self.kind or self.named else ()

    def introduced(self) -> Iterator[Triple]:
        if self.kind and self.named:
            yield Triple(self.owner, _kin_relation(self.kind), self.name, target_type=self.type)


def _kin_relation(kind: str) -> str:
    plain = _SAME.get(kind, kind)
    return _RELATION.get(plain, f"has_{plain.replace('-', '_')}")


# ── "name is John", "favourite colour is blue", "sister's name is Ann" ─────────────────────────────────────────────────

_NOUNS: Final = {
    noun: tuple(entry.split(":"))
    for entry, nouns in (
        ("name:named", "name|full name|first name|real name|last name|surname|username"), ("nickname:", "nickname"),
        ("age:has_age", "age"), ("birthday:born_on", "birthday|birth date|date of birth"), ("origin:comes_from", "hometown|home town"),
        ("home:lives_in", "home|home town now|address|home address|city"), ("job:works_as", "job|occupation|profession|job title"),
        ("employer:works_at", "employer|company|workplace"), ("email:", "email|e-mail|email address|e-mail address|mail"),
        ("phone:", "phone number|number|mobile number|cell number|telephone number|mobile"), ("diet:", "diet"), ("religion:", "religion"),
        ("nationality:", "nationality"), ("language:native_language", "native language|first language|mother tongue|mother language"),
        ("height:", "height"), ("weight:", "weight"), ("salary:", "salary"), ("study:studies", "major"), ("school:studies_at", "school|university|college"),
        ("goal:", "goal|dream|dream job"), ("gender:", "gender|pronouns"), ("partner:has_status", "marital status|relationship status"),
    )
    for noun in nouns.split("|")
}  # fmt: skip


def _of_noun(who: _Who, rest: str) -> Statement | None:
    """What is said of something of the speaker's, or of somebody's: its value, or a name."""
    value = _P["VALUE"].fullmatch(rest)
    if value is None or not who.key or who.key.split()[0] in {"it", "this", "that", "there", "they"}:
        return None
    v = value["v"]
    *owner, last = re.split(r"'s |\b(?:his|her|their|its) ", f"{who.key}") if "'s" in who.key else ["", who.key]
    pronoun = re.match(r"(?:his|her|their|its) ", who.key)
    if pronoun:
        owner, last = [pronoun.group().strip()], who.key[pronoun.end() :]
    elif who.key.partition(" ")[0] in KINDS and who.key.partition(" ")[2]:
        owner, last = [who.key.partition(" ")[0]], who.key.partition(" ")[2]
    elif who.owner != SELF and who.key.startswith(who.owner.lower()):
        owner, last = [who.owner.lower()], who.key[len(who.owner) :].strip()
    subject, last = " ".join(filter(None, owner)), last.removeprefix("new ").removeprefix("current ")
    source = _Who.of(subject) if subject else _Who()
    if found := _P["FAVOURITE"].fullmatch(last):
        return _favourite(source, (found["noun"] or found["noun2"]).strip(), v, subject)
    named = _P["LISTED"].fullmatch(v.split(",")[0]) if re.match(r"(?:is|are|was|'s)", rest) else None
    if (kin := _kin(who, v, last, subject)) is not None:
        return kin
    entry = _NOUNS.get(last)
    if entry:
        return _detail(source, entry, v, subject, bool(named))
    if _P["DETAILS"].fullmatch(last) and not who.kind:
        stem = " ".join(filter(None, [subject, last]))
        return Statement("", stem, "detail", v, touches=last.endswith("type"), people=source.people if subject else ())
    return None


def _favourite(source: _Who, noun: str, v: str, subject: str) -> Statement:
    listed = things(v)
    word = noun.lower().replace("colour", "color")
    relation = f"has_favorite_{re.sub(r'[^a-z0-9]+', '_', word)}"
    bad = re.match(r"thing|part|time|way|moment|place to", word) or re.search(r"\b(?:closed|great|gone|open|good)\b", v)
    triples = (
        ()
        if bad or not source.name
        else tuple(Triple(source.name, relation, bare(one), single=len(listed) == 1) for one in listed)
    )
    stem = re.sub(r"s$", "", word)
    return Statement(
        "", f"{subject} {stem}".strip(), "favorite", v, relations=triples, people=source.people if subject else ()
    )


def _kin(who: _Who, v: str, last: str, subject: str) -> Statement | None:
    """ "Wife's name is Ann", "dog is called Rex", "best friend is Tom": whom somebody has, by name."""
    naming = last in {"name", "names"} and bool(subject)
    kin = _Who.of(subject) if naming else who
    listed = tuple(re.split(r",? and |, | & ", v)) if _P["LISTED"].fullmatch(v) else ()
    if not kin.kind or kin.named or not listed or listed[0].split()[0].lower() in _NO_NAME - {"may", "april", "june"}:
        return None
    owner = "" if kin.owner == SELF else f"{kin.owner.lower()} "
    relation = _kin_relation(kin.kind)
    plural = kin.kind in PLURAL or kin.kind in {"cats", "dogs"}
    names = listed if plural else listed[:1] * (len(listed) == 1)
    triples = tuple(
        Triple(kin.owner, relation, name, target_type=kin.type, single=False if len(names) > 1 else None)
        for name in names
    )
    people = tuple(Person(kin.kind, name) for name in names)
    attribute, value = _role(kin.kind, v)
    return Statement(
        "", owner.strip() if owner else "", attribute, value, people=people, relations=triples if kin.owner else ()
    )


def _role(kind: str, name: str) -> tuple[str, str]:
    if state := _STATES.get(_RELATION.get(kind, "")):
        return "partner", f"{state} {name}".strip()
    attribute = "pet" if kind in PETS else "friend" if kind in {"friend", "friends"} else "family"
    return attribute, f"{_SAME.get(kind, kind)} named {name}" if name else _SAME.get(kind, kind)


def _detail(source: _Who, entry: tuple[str, ...], v: str, subject: str, named: bool) -> Statement | None:
    attribute, relation = entry[0], entry[1] if len(entry) > 1 else ""
    if attribute == "name" and (len(v.split()) > 3 or re.search(r"\b(?:to|hard|common|unusual)\b", v)):  # noqa: PLR2004
        return None
    type_ = {"lives_in": "place", "works_at": "organization", "works_as": "occupation", "comes_from": "place"}.get(
        relation, ""
    )
    triples = tuple(_triples(source, relation, type_, v, Span())) if relation and source.name else ()
    return Statement("", subject, attribute, v, people=source.people if subject else (), relations=triples)


# ── what is said ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _said(who: _Who, rest: str) -> Statement:
    form = _form(rest)
    cut = (form.text, Span()) if form.text.startswith("be born") else timed(form.text)
    if cut is None and form.tense in {"past", "done"}:
        cut = timed(_P["THIS"].sub("", form.text))
    if cut is None or form.tense == "plan":
        return Statement(
            "",
            who.key,
            "plan",
            form.text,
            positive=form.positive,
            ended=form.ended,
            empty=form.empty,
            people=who.people,
        )
    body, span = cut
    head, _, tail = body.partition(" ")
    if head in {"die", "pass"} and who.key:
        return _died(who, head, tail)
    if who.key and not who.people and _P["GONE"].fullmatch(body):
        return Statement("", "", "any", who.key, positive=False, ended=True)
    for row in _BY_HEAD.get(head, ()):
        if found := row.pattern.fullmatch(tail):
            if form.tense == "past" and row.kind == "is" and head in {"have", "see", "look", "find", "do"}:
                break
            if (row.attribute == "visit" and form.tense == "now") or (head == "know" and not form.positive):
                continue
            return _read(who, form, row, found, span, form.text[len(body) :])
    if head == "have" and (told := _have(who, form, tail, span)):
        return told
    return _verbal(who, form, head, tail, span)


def _died(who: _Who, head: str, tail: str) -> Statement:
    if who.owner == SELF and (who.kind in PETS or (who.named and not who.kind)):
        value = who.name if who.named else f"{_SAME.get(who.kind, who.kind)}"
        return Statement("", "", "pet", value, positive=False, ended=True, people=who.people)
    return Statement("", who.key, "event", f"{head} {tail}", people=who.people)


def _read(who: _Who, form: _Form, row: Row, found: re.Match[str], span: Span, tail: str) -> Statement:
    groups = {name: value for name, value in found.groupdict().items() if value}
    v = groups.get("v", "").strip(" ,")
    value = " ".join(row.put.format(v=v).split()) if row.put else f"{v}{tail}".strip()
    value = v if not row.put and row.kind == "ends" else value or form.text
    begins = (
        row.kind == "begins" or row.attribute in {"partner", "employer"} and found.string.startswith(("to ", "married"))
    )
    was = (
        form.tense == "past"
        and row.kind == "is"
        and row.heads[0] not in {"get", "marry", "rent", "divorce", "adopt"}
        and "become" not in form.text
        and not groups.get("place")
        and row.attribute not in {"birthday", "birthplace", "partner"}
        and "turn" not in row.heads[-1:]
    )
    was = was or (
        form.tense == "done"
        and row.kind == "is"
        and not span.lasting
        and row.attribute in {"home", "employer"}
        and row.heads[0] in {"live", "work"}
    )
    ended = form.ended or row.kind == "ends" or (was and row.attribute in {"home", "employer", "job", "school"})
    statement = Statement(
        "", who.key, row.attribute, value, positive=form.positive and not ended, ended=ended, empty=form.empty,
        touches=row.kind == "touches" or (was and not ended), people=who.people,
    )  # fmt: skip
    if form.empty or (form.ended and row.kind == "ends"):
        statement = replace(statement, ended=True)
    also = tuple(
        Statement("", who.key, _EXTRA[name][0], groups[name], positive=statement.positive, ended=ended)
        for name in _EXTRA
        if name in groups
    )
    if "new" in groups:
        also = (Statement("", who.key, "habit", groups["new"]),)
    triples = _of_row(who, form, row, found, groups, span, begins=begins)
    return replace(
        statement, relations=tuple(dict.fromkeys(triples)), also=also, people=(*_introduced(groups, row), *who.people)
    )


def _introduced(groups: dict[str, str], row: Row) -> tuple[Person, ...]:
    kind = "car" if row.attribute == "vehicle" else groups.get("kind", "")
    return (Person(kind.lower(), groups.get("v", "") if "kind" in groups else ""),) if kind else ()


def _of_row(
    who: _Who, form: _Form, row: Row, found: re.Match[str], groups: dict[str, str], span: Span, *, begins: bool
) -> Iterator[Triple]:
    if not who.name or _P["UNSURE"].search(form.text) or form.tense == "plan":
        return
    yield from who.introduced()
    plain = form.positive or form.ended
    relation = row.relation
    if not form.positive and row.attribute == "like" and not form.ended and not span.partly:
        relation = "dislikes"
    elif not plain or (form.ended and (span.partly or re.search(r"\bwith\b", found.string))):
        return
    over = (
        form.ended
        or relation.startswith("!")
        or (form.tense == "past" and row.kind == "is" and row.attribute in {"home", "employer", "job", "school"})
    )
    relation = relation.removeprefix("!")
    if (old := groups.get("old")) and proper(old):
        yield Triple(who.name, relation, proper(old), target_type=row.target, ended=True)
    v = groups.get("v", "")
    retired = re.match(r"retired ", v)
    if kind := groups.get("kind"):
        yield from _having(who, kind, v, span, over)
        return
    if "student" in groups:
        yield Triple(who.name, "is", "student", ended=over)
    if not relation:
        return
    if row.put and not v and row.attribute == "partner":
        yield Triple(who.name, "has_status", row.put.split()[0], ended=over)
    yield from _triples(
        who, relation, row.target, v[8:] if retired else v, span, over=over or bool(retired), begins=begins
    )
    for name, (_, extra, type_) in _EXTRA.items():
        if name in groups:
            yield from _triples(who, extra, type_, groups[name], span, over=over or bool(retired))


_NO_PLACE: Final = frozenset(
    "abroad apartment bed dorms fear flat here hiding hope house luxury nature peace poverty rent silence sin squalor style suburbia suburbs "
    "there town love work isolation solitude".split()
)
_AFTER: Final = {
    "place": re.compile(r",? (?:with|where|as|for|but|near|because|while|by|to|and (?=[a-z]))\b.*"),
    "organization": re.compile(
        r",? (?:as|in|on|with|for|from|where|doing|by|to|near|but|because|part|remotely|which|who|and (?=[a-z]))\b.*"
    ),
    "": re.compile(r",? (?:because|since|unfortunately|especially|so|for|as)\b.*"),
}


def _targets(relation: str, type_: str, value: str) -> tuple[str, ...]:
    if relation in {"named", "has_age", "has_status"}:
        return (value.split(",")[0],) if len(value.split()) < 4 else ()  # noqa: PLR2004
    if relation == "born_on":
        return (bare(value),) if is_date(bare(value)) else ()
    if type_ in {"place", "organization"}:
        value = _AFTER[type_].sub("", value)
        name = proper(value)
        if name and any(map(str.isupper, name)):
            return things(value) if " and " in name else (name,)
        if type_ == "organization":
            plain = thing(value, simple=True)
            return (plain,) if len(plain.split()) < 4 and _P["WORKPLACES"].fullmatch(plain) else ()
        lower = re.fullmatch(r"[a-z]{3,}|(?:new|san|los|las|hong|sao|saint|cape|tel|south|north) [a-z]{3,}", value)
        return (value,) if lower and value not in _NO_PLACE and relation == "lives_in" else ()
    if type_ == "person":
        return (proper(value),) if proper(value) else ()
    if relation in {"prefers"}:
        value = re.split(r" (?:over|to|than|instead)\b", value)[0]
        return () if re.match(r"\w+ing\b|.* when\b", value) else things(value)
    if relation == "is" and "'s " in value:
        return ()
    if relation == "speaks":
        value = re.sub(r"\b(?:fluent|good|some|basic|a little|perfect|a bit of|conversational)(?:ly)? ", "", value)
    if relation == "likes" or relation == "dislikes":
        verb, _, rest = value.partition(" ")
        value = (
            f"{gerund(verb)} {rest}".strip()
            if FORMS.get(verb, ("", ""))[1] == "base"
            and verb
            not in {
                "fish",
                "garden",
                "bike",
                "race",
                "train",
                "dance",
                "dream",
                "surf",
                "cook",
                "hunt",
                "travel",
                "play",
            }
            or (verb in {"play", "cook", "travel"} and rest)
            else value
        )
        return (
            ()
            if re.search(r"\bwhen |(?<=\w) in the (?:morning|evening)", value)
            else things(re.sub(r",? (?:with|because) .*", "", value) if verb.endswith("ing") else value)
        )
    return things(
        _AFTER[""].sub("", value), simple=relation in {"is", "follows_diet", "works_as"} and " of " not in value
    )


def _triples(
    who: _Who, relation: str, type_: str, value: str, span: Span, *, over: bool = False, begins: bool = False
) -> Iterator[Triple]:
    targets = _targets(relation, type_, value.strip(" ,'"))
    since, until = _held(span, over=over, begins=begins)
    single = relation in {
        "lives_in",
        "works_at",
        "works_as",
        "born_in",
        "born_on",
        "comes_from",
        "has_age",
        "named",
        "married_to",
        "engaged_to",
        "partner_of",
        "follows_diet",
    }
    for target in targets:
        yield Triple(
            who.name, relation, target, source_type=who.type, target_type=type_, valid_from=since, valid_to=until, ended=over,
            single=False if len(targets) > 1 and single else None,
        )  # fmt: skip


def _held(span: Span, *, over: bool, begins: bool) -> tuple[datetime | None, datetime | None]:
    if over and span.since and not span.until:
        return None, span.since
    since, until = span.since or (span.at if begins else None), span.until or (span.at if over else None)
    return (None, None) if since and until and until <= since else (since, until)


# ── "has a sister named Ann", "has a car", and every other verb ────────────────────────────────────────────────────────


def _have(who: _Who, form: _Form, tail: str, span: Span) -> Statement | None:
    """Family, friends and pets that somebody has, and what else."""
    if found := _P["HAS_KIN"].fullmatch(tail):
        kind, name = found["kind"].lower(), found["name"] or ""
        attribute, value = _role(kind, name)
        counted = re.match(r"(?:[-\d]\S*|two|three|four|five|six|seven|no) ", tail)
        if attribute != "partner":
            value = " ".join(
                filter(
                    None,
                    [counted and counted.group().strip(), found["quality"].strip(), value, found["rest"].strip(" ,")],
                )
            )
        ended = form.ended or form.tense == "past"
        triples = (
            ()
            if not who.name or _P["UNSURE"].search(form.text) or not (form.positive or form.ended)
            else tuple(_having(who, kind, name, span, over=ended, more=found["rest"]))
        )
        people = tuple(Person(kind, one) for one in re.split(r",? and |, ", name))
        return Statement(
            "", who.key, attribute, value, positive=form.positive and not ended, ended=ended, empty=form.empty,
            people=(*people, *who.people), relations=(*who.introduced(), *triples),
        )  # fmt: skip
    past = form.tense == "past"
    triples = ()
    if (
        who.name
        and form.positive
        and not past
        and not _P["UNSURE"].search(form.text)
        and not _P["PASSING"].match(bare(tail, counted=True))
    ):
        triples = tuple(
            Triple(who.name, "has", bare(one, counted=True))
            for one in things(tail, simple=True)
            if re.match(r"an? |\d|the ", tail)
        )
    return Statement(
        "",
        who.key,
        "event" if past else "own",
        form.text[5:],
        positive=form.positive,
        ended=form.ended,
        empty=form.empty,
        people=who.people,
        relations=triples,
    )


def _having(who: _Who, kind: str, name: str, span: Span, over: bool, more: str = "") -> Iterator[Triple]:
    listed = [(kind, one) for one in re.split(r",? and |, ", name)] + [
        (more_["kind"].lower(), more_["name"] or "") for more_ in _P["MORE_KIN"].finditer(more)
    ]
    for word, one in listed:
        type_ = "animal" if word in PETS else "person"
        relation = _kin_relation(word)
        if one:
            yield Triple(
                who.name,
                relation,
                one,
                source_type=who.type,
                target_type=type_,
                ended=over,
                single=False if len(listed) > 1 and relation == "married_to" else None,
            )
        else:
            yield Triple(
                who.name, "has", word, source_type=who.type, target_type=type_ if word not in PLURAL else "", ended=over
            )


_STATED: Final = frozenset(
    "play speak study learn drive drink eat take use watch read own practice practise teach write collect play listen wear".split()
)


def _verbal(who: _Who, form: _Form, head: str, tail: str, span: Span) -> Statement:
    """What no row knows: a habit where the verb is in the present, else an event."""
    known = head in DONE
    habit = form.tense == "now" or form.ended
    attribute = "" if not known or head == "be" else "habit" if habit else "event"
    if head == "quit":
        attribute, form.text = "any", tail
    triples: tuple[Triple, ...] = ()
    said = form.positive or (form.ended and not span.partly and " with " not in tail)
    if habit and said and head in _STATED and who.name and not _P["UNSURE"].search(form.text):
        object_ = re.sub(r"^(?:to )", "", re.split(r" (?:with|for|on|at|in) ", tail)[0])
        relation = "listens_to" if head == "listen" else third(head)
        triples = tuple(_triples(who, relation, "", object_, span, over=form.ended))
    if who.named and who.kind:
        triples = (*who.introduced(), *triples)
    return Statement(
        "",
        who.key,
        attribute,
        form.text,
        positive=form.positive,
        ended=form.ended,
        empty=form.empty,
        people=who.people,
        relations=triples,
    )
