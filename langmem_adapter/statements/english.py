"""The English table: what a statement without its subject says of somebody, and the reading of a statement by it.

A statement is brought into one form first ("No longer lives in Rome", "has been living in Rome since 2015": `live in Rome`), so
that a row says a wording once for all its tenses. Nothing is understood: what no row knows has no attribute.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.dates import TIME_WORDS, StatedSpan, is_date, timed
from langmem_adapter.statements.statement import Person, Statement, TableRow
from langmem_adapter.statements.tables import patterns, rows
from langmem_adapter.statements.things import bare, proper, thing, things
from langmem_adapter.statements.words import FORMS, KINDS, MARK, THINGS, WORDS, gerund, kind_of, marked, third

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["GIVEN", "english_statement"]

GIVEN: Final = {
    name: "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    for name, words in (WORDS | {"KIND": KINDS, "TIME_WORDS": TIME_WORDS}).items()
} | {
    "MED": "|".join(told for kind, told in THINGS.items() if kind in WORDS["MEDICINES"]),
    "MARK": MARK,
    **{f"SOME_{kind.upper()}": f"(?:{told})" for kind, told in THINGS.items()},
}
"""Words that stand in patterns for their names in angle brackets."""
_P: Final = patterns("english", GIVEN)
GIVEN.update({name: _P.texts[name] for name in ("NAME", "JOBS")})
_ROWS: Final = rows("english", GIVEN)
_NOUNS: Final = tuple(row for row in _ROWS if not row.heads)
_BY_HEAD: Final[dict[str, list[TableRow]]] = defaultdict(list)
for _row in _ROWS:
    for _head in _row.heads:
        _BY_HEAD[_head].append(_row)
_EXTRA: Final = {
    "job": ("job", "works_as", "occupation"),
    "org": ("employer", "works_at", "organization"),
    "place": ("birthplace", "born_in", "place"),
    "what": ("major", "studies", ""),
}
"""Groups of a row that make a statement of their own."""

_SHORT: Final = (("can't", "cannot"), ("won't", "will not"), ("n't", " not"))
_HEADS: Final = {"'m": "am", "'re": "are", "'ve": "have", "'ll": "will", "'d": "would", "'s": "is"}
_DENIED: Final = {"DISLIKES": "like ", "HAS_NO": "have ", "DOES_NOT": "", "IS_NOT": "{be} ", "CANNOT": "can "}
_OPENERS: Final = WORDS["ADJECTIVES"] | WORDS["DEMONYMS"] | WORDS["OPENERS"]


@dataclass(slots=True)
class _Form:
    """A predicate in its one form: "live in Rome"."""

    text: str
    tense: str = "now"  # or "past", "done" (has lived), "plan"
    positive: bool = True
    ended: bool = False  # it says that it is over
    empty: bool = False  # and nothing else


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
    told = _P["PRONOUN_IS"].sub(r"\1 is", _P["USER"].sub("", plain)).split(" ")
    place = _verb(told)
    if place is None:
        return Statement(text)
    who = _Who.of(" ".join(told[:place])) if place else _Who()
    rest = " ".join(told[place:])
    said = _of_noun(who, rest) or _said(who, rest)
    return replace(said, text=text, empty=said.empty and said.attribute not in WORDS["DEEDS"])


def _verb(told: list[str]) -> int | None:
    """Index of the word that the predicate begins with."""
    for place, word in enumerate(told[:7]):
        plain = word.lower().strip(",;:")
        if plain in WORDS["FINITE"] or plain in _HEADS or (plain.endswith("n't") and place < 5):  # noqa: PLR2004
            return place
        tense, after = _tense(plain), " ".join(told[1:2])
        noun = tense in {"base", "ing"} and after.lower() in {"is", "are", "was"}  # "rent is 900 dollars"
        if tense and not noun and (place == 0 or tense in {"now", "past"}):
            return place
        opens = plain in _OPENERS | WORDS["OPENING_VERBS"] or _P["ADVERBS"].fullmatch(f"{plain} ")
        if opens and place == 0 and after not in {"is", "was"}:  # "Spanish is B1"
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
    told = re.sub(r"^(is|are|am|was|were|has|have|had|does|do) no longer ", r"no longer \1 ", _bare(told))
    told = _P["AGAIN"].sub(r"is \1\2 again", told)
    if abstained := _P["ABSTAINED"].match(told):
        told, form.ended, form.positive = abstained[1], True, False
    if told.startswith("no longer "):
        told, form.ended, form.empty, form.positive = _bare(told[10:]), True, True, False
    if found := _P["USED_TO"].match(told) or _P["GAVE_UP"].match(told):
        form.ended, form.positive = True, False
        told = found["what"] if found.re is _P["USED_TO"] else _stopped(found["what"])
    for key, put in _DENIED.items():
        if found := _P[key].match(told):
            told, form.positive = f"{put.format(**found.groupdict())}{told[found.end() :]}", False
            form.ended, form.empty = form.ended and put != "like ", form.empty and put != "like "
            break
    form.text, form.tense = _lemma(_bare(told))
    return form


def _stopped(what: str) -> str:
    """What one has stopped, as one did it; what one has quit that is no deed stays so."""
    what = _P["REASON"].sub("", what)
    verb, _, rest = what.partition(" ")
    return f"{FORMS[verb.lower()][0]} {rest}".strip() if _tense(verb) == "ing" else f"quit {what}"


def _tense(verb: str) -> str:
    return FORMS.get(verb.lower(), ("", ""))[1]


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
        return _was(rest, "past" if low[0] == "w" else "now")
    if low in {"has", "have", "had", "got"}:
        return _had(low, rest.removeprefix("got "))
    if low in _OPENERS and not re.match("(?:married|divorced) [A-Z]|called off", told):
        return f"be {told}", "now"
    base, tense = FORMS.get(low, (low, "now"))
    return f"{base} {rest}".strip(), "past" if tense == "past" else "now"


def _was(rest: str, time: str) -> tuple[str, str]:
    if rest.startswith(("going to ", "planning ", "thinking of ", "about to ")) or _P["INTENDS"].match(rest):
        return rest[rest.find(" ", 8) + 1 :], "plan"
    return (_lemma(rest)[0], time) if _tense(rest.partition(" ")[0]) == "ing" else (f"be {rest}", time)


def _had(low: str, rest: str) -> tuple[str, str]:
    verb, _, after = rest.partition(" ")
    if low == "had" and verb == "to":
        return after, "past"
    if verb == "been":
        return (f"visit {after[3:]}", "done") if after.startswith("to ") else (_lemma(f"is {after}")[0], "done")
    base, tense = FORMS.get(verb.lower(), ("", ""))
    if tense == "past" and low in {"has", "have"}:
        return f"{base} {after}".strip(), "done"
    return (f"get {rest}", "past") if low == "got" else (f"have {rest}", "past" if low == "had" else "now")


_SAME: Final = {word: line.split()[0] for line in _P.texts["SAME"].split("|") for word in line.split()[1:]}
_RELATION: Final = {word: line.split()[0] for line in _P.texts["RELATION"].split("|") for word in line.split()[1:]}
_NOUN: Final = {word: line.split()[0] for line in _P.texts["NOUN"].split("|") for word in line.split()[1:]}
_ABOVE: Final = dict.fromkeys(WORDS["PETS"], "pet") | {
    word: over for over in ("child", "sibling") for word in WORDS[over.upper()]
}
_STATES: Final = {"married_to": "married", "engaged_to": "engaged", "partner_of": "dating"}
_NO_NAME: Final = FORMS.keys() | _OPENERS | TIME_WORDS | WORDS["QUALITY"] | WORDS["NO_NAME"]


@dataclass(frozen=True, slots=True)
class _Who:
    """Whom a statement is about."""

    key: str = ""  # as `Statement.subject`
    name: str = SELF  # in relations; empty where none may be stated
    type: str = ""  # "person", "animal" or empty
    kind: str = ""  # the word of kin, where one was used
    named: bool = False  # the name is a proper one
    owner: str = SELF  # whose sister it is

    @classmethod
    def of(cls, noun: str) -> _Who:
        owner, *owned = re.split(r"(?:'s|(?<=s)')(?:\s+|$)", noun.strip(" ,"))
        who = cls._first(owner)
        for part in filter(None, owned):
            low = part.lower()
            key = f"{who.key} {low}".strip()
            who = replace(cls._first(part), key=key, owner=who.name) if who.name else cls(key, "")
            who = replace(who, name=f"{who.owner}'s {low}") if who.kind and not who.named else who
        return who

    @classmethod
    def _first(cls, noun: str) -> _Who:
        told = noun.split()
        low = [word.lower().strip(",") for word in told]
        key = " ".join(word for word in low if word not in {"my", "our", "the"})
        if not told or low[0] in WORDS["PRONOUNS"]:
            return cls(key, "")
        place = next((place for place, word in enumerate(low) if word in KINDS), None)
        if place is not None and all(word in WORDS["QUALITY"] for word in low[:place]):
            kind, name = low[place], " ".join(told[place + 1 :])
            type_ = "" if kind in WORDS["PLURAL"] else "animal" if kind in WORDS["PETS"] else "person"
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


def _of_noun(who: _Who, rest: str) -> Statement | None:
    """What is said of something of the speaker's, or of somebody's: its value, or a name."""
    value = _P["VALUE"].fullmatch(rest)
    past = rest.startswith("was ") and _P["FORMER"].match(who.key)
    if value is None or past or not who.key or who.key.split()[0] in {"it", "this", "that", "there", "they"}:
        return None
    subject, noun = _owned(who)
    source, v = _Who.of(subject) if subject else _Who(), value["v"]
    if found := _P["FAVOURITE"].fullmatch(noun):
        return _favourite(source, (found["noun"] or found["noun2"]).strip(), v, subject)
    if (kin := _kin(who, v, noun, subject)) is not None:
        return kin
    forms = () if who.kind else (noun, f"{noun}: {v}")
    row = next((row for row in _NOUNS if any(map(row.pattern.fullmatch, forms))), None)
    if row is None or (row.attribute == "name" and not re.fullmatch(r"(?!hard |common|unusual)\S+(?: \S+){0,2}", v)):
        return None
    about = f"{subject} {_noun(noun)}".strip() if row.attribute == "detail" else subject
    triples = tuple(_triples(source, row.relation, row.target, v, StatedSpan())) if row.relation and source.name else ()
    touches = row.kind == "touches"
    return Statement("", about, row.attribute, v, touches=touches, people=source.people, relations=triples)


def _owned(who: _Who) -> tuple[str, str]:
    """Whose it is, and what: "sister's favourite colour", "her name", "wife name"."""
    pronoun = re.match("(?:his|her|their|its) ", who.key)
    first, _, rest = who.key.partition(" ")
    if pronoun or (rest and first in KINDS):
        owner, noun = first, rest
    elif who.owner != SELF and who.key.startswith(who.owner.lower()):
        owner, noun = who.owner.lower(), who.key[len(who.owner) :].strip()
    else:
        owner, _, noun = who.key.rpartition("'s ")
    return owner, noun.removeprefix("new ").removeprefix("current ")


def _noun(told: str) -> str:
    """A noun as details are compared by it: "main mobile network" is "carrier"."""
    plain = _P["OF_NOUN"].sub(r"\2 \1", _P["MAIN"].sub("", told.lower()))
    return _NOUN.get(plain.replace(" ", "-"), plain)


def _favourite(source: _Who, noun: str, v: str, subject: str) -> Statement:
    word = noun.lower().replace("colour", "color")
    relation = f"has_favorite_{re.sub(r'[^a-z0-9]+', '_', word)}"
    bad = re.match(r"thing|part|time|way|moment|place to", word) or re.search(r"\b(?:closed|great|gone|open|good)\b", v)
    listed = () if bad or not source.name else things(v)
    triples = tuple(Triple(source.name, relation, bare(one), single=len(listed) == 1) for one in listed)
    about = f"{subject} {word.removesuffix('s')}".strip()
    return Statement("", about, "favorite", v, relations=triples, people=source.people)


def _kin(who: _Who, v: str, last: str, subject: str) -> Statement | None:
    """Whom somebody has, by name: "Wife's name is Ann", "dog is called Rex", "best friend is Tom"."""
    naming = last in {"name", "names"} and bool(subject)
    kin = _Who.of(subject) if naming else who
    listed = _names(v) if _P["LISTED"].fullmatch(v) else []
    if not kin.kind or kin.named or not listed or listed[0].split()[0].lower() in _NO_NAME - {"may", "april", "june"}:
        return None
    names = listed if len(listed) == 1 or kin.kind in WORDS["PLURAL"] | {"cats", "dogs"} else []
    link = Triple(kin.owner, _kin_relation(kin.kind), "", target_type=kin.type, single=False if names[1:] else None)
    triples = tuple(replace(link, target=name) for name in names if kin.owner)
    people = tuple(Person(kin.kind, name) for name in names)
    owner, (attribute, value) = "" if kin.owner == SELF else kin.owner.lower(), _role(kin.kind, v)
    if kin.kind in WORDS["ONE_OF"]:
        attribute, value, owner = "detail", v, f"{owner} {kin.kind}".strip()
    return Statement("", owner, attribute, value, people=people, relations=triples)


def _role(kind: str, name: str) -> tuple[str, str]:
    plain = _SAME.get(kind, kind)
    if state := _STATES.get(_RELATION.get(kind, "")):
        return "partner", f"{state} {name}".strip()
    attribute = "pet" if kind in WORDS["PETS"] else plain if plain == "friend" else "family"
    return attribute, f"{plain} named {name}" if name else plain


@dataclass(frozen=True, slots=True)
class _Told:
    """A predicate to be read: of whom, in its one form, without the times that hold for it."""

    who: _Who
    form: _Form
    span: StatedSpan

    @property
    def relates(self) -> bool:
        """Whether relations may be read off it."""
        return bool(self.who.name) and self.form.tense != "plan" and not _P["UNSURE"].search(self.form.text)

    def says(self, attribute: str, value: str, **more: Any) -> Statement:
        """A statement, with what holds of every one that these words make."""
        who, form = self.who, self.form
        said = Statement("", who.key, attribute, value, form.positive, form.ended, form.empty, people=who.people)
        return replace(said, **more)

    def above(self, attribute: str, kind: str) -> tuple[Statement, ...]:
        """Who has a cat has a pet."""
        over = _ABOVE.get(kind.lower(), "")
        return (self.says(attribute, over),) if over and self.form.positive and attribute in {"pet", "family"} else ()


def _said(who: _Who, rest: str) -> Statement:
    form = _form(rest)
    cut = (form.text, StatedSpan()) if _P["UNTIMED"].match(form.text) else timed(form.text)
    if cut is None and form.tense in {"past", "done"}:
        cut = timed(_P["THIS"].sub("", form.text))
    told = _Told(who, form, cut[1] if cut else StatedSpan())
    if cut is None or form.tense == "plan":
        goal = _P["GOAL"].fullmatch(form.text)
        return told.says("goal", goal["v"]) if goal else told.says("plan", form.text)
    head, _, tail = cut[0].partition(" ")
    if (head in {"die", "pass"} or cut[0] == "run away") and who.key:
        return _died(told, f"{head} {tail}")
    if who.key and not who.kind and who.owner == SELF and _P["GONE"].fullmatch(cut[0]):
        return Statement("", "", "any", who.key, positive=False, ended=True)
    for row in _BY_HEAD.get(head, ()):
        forms = marked(tail) if MARK in row.text else (tail,)
        found = next(filter(None, map(row.pattern.fullmatch, forms)), None)
        moving = head == "move" and " moving " in f" {rest} "
        ongoing = form.tense == "now" and (
            row.attribute == "visit" or moving or (row.attribute, head) == ("skill", "learn")
        )
        if found and not ongoing and not (head == "know" and not form.positive):
            return _read(told, row, found, head, form.text[len(cut[0]) :])
    return _have(told, tail) if head == "have" else _verbal(told, head, tail)


def _died(told: _Told, how: str) -> Statement:
    who = told.who
    if who.owner == SELF and (who.kind in WORDS["PETS"] or (who.named and not who.kind)):
        name = who.name if who.named else _SAME.get(who.kind, who.kind)
        gone = Statement("", who.key, "any", "", positive=False, ended=True)
        return Statement("", "", "pet", name, positive=False, ended=True, people=who.people, also=(gone,))
    return told.says("event", how)


def _read(told: _Told, row: TableRow, found: re.Match[str], head: str, tail: str) -> Statement:
    """What a row says; in the past, that a home or a job is over, and of other things only that it was so."""
    form, groups = told.form, {name: value for name, value in found.groupdict().items() if value}
    v = groups.get("v", "").strip(" ,")
    keeps = row.attribute == "hobby" if row.put else row.kind != "ends"
    value = " ".join(f"{row.put.format(v=v) or v}{tail * keeps}".split()) or form.text * (row.kind != "ends")
    before = form.tense == "past" or (form.tense == "done" and not told.span.lasting)
    was = row.kind == "is" and before and head not in WORDS["ACTS"]
    over = was and row.attribute in WORDS["STATES"] and (head != "be" or form.tense == "past")
    ended = form.ended or row.kind == "ends" or over
    passed = WORDS["PASSED"] if was else {"wake", "commute"}
    touches = (
        row.kind == "touches"
        or (row.attribute in {"wake", "hours"} and _P["SOME_DAYS"].search(value) is not None)
        or (form.tense == "past" and row.attribute in passed)
    )
    also = tuple(told.says(_EXTRA[name][0], groups[name], ended=ended) for name in _EXTRA if name in groups)
    also += tuple(row.others(told.who.key, groups)) if form.positive else ()
    if row.attribute == "detail":
        also += (told.says("habit", form.text),)
    also += told.above(row.attribute, groups.get("kind", ""))
    kind = "car" if row.attribute in {"vehicle", "car"} else groups.get("kind", "").lower()
    people = (Person(kind, groups.get("v", "") if "kind" in groups else ""),) if kind else ()
    past = (ended and row.kind == "is") or row.relation.startswith("!")
    triples = tuple(dict.fromkeys(_of_row(told, row, found, groups, over=past)))
    noun = _noun(groups.get("noun", row.target) or kind_of(value)) if row.attribute == "detail" else ""
    return told.says(
        row.attribute,
        value,
        subject=f"{told.who.key} {noun}".strip(),
        positive=form.positive and not ended,
        ended=ended,
        touches=touches and not ended,
        also=also,
        people=(*people, *told.who.people),
        relations=triples,
    )


def _of_row(
    told: _Told, row: TableRow, found: re.Match[str], groups: dict[str, str], *, over: bool
) -> Iterator[Triple]:
    if not told.relates:
        return
    who, form, v, relation = told.who, told.form, groups.get("v", ""), row.relation.removeprefix("!")
    yield from who.introduced()
    if not form.positive and row.attribute == "like" and not form.ended and not told.span.partly:
        relation = "dislikes"
    elif not (form.positive or form.ended) or (form.ended and (told.span.partly or " with " in f" {found.string}")):
        return
    if "kind" in groups:
        yield from _having(told, groups["kind"], v, over=over)
        return
    over = over or v.startswith("retired ")
    begins = row.kind == "begins" or found.string.startswith(("to ", "married")) or row.attribute == "partner"
    if (old := groups.get("old")) and proper(old):
        yield Triple(who.name, relation, proper(old), target_type=row.target, ended=True)
    if "student" in groups:
        yield Triple(who.name, "is", "student", ended=over)
    if relation and row.put and not v and row.attribute == "partner":
        yield Triple(who.name, "has_status", row.put.split()[0], ended=over)
    elif relation:
        v = v.removeprefix("retired ")
        yield from _triples(who, relation, row.target, v, told.span, over=over, begins=begins)
    for name in groups.keys() & _EXTRA.keys() if relation else ():
        yield from _triples(who, *_EXTRA[name][1:], groups[name], told.span, over=over)


def _targets(relation: str, type_: str, value: str) -> tuple[str, ...]:
    """The names of what a value says, none where it says anything else besides."""
    if relation == "is" and "'s " in value:
        return ()
    if type_ in {"place", "organization"}:
        return _places(relation, type_, _P[f"AFTER_{type_.upper()}"].sub("", value))
    if type_ == "person" or relation == "born_on":
        name = proper(value) if type_ else bare(value)
        return (name,) if name and (type_ or is_date(name)) else ()
    if relation in {"named", "has_age", "has_status"}:
        return (value.split(",", 1)[0],) if len(value.split()) <= 3 else ()  # noqa: PLR2004 - a name
    if relation in {"likes", "dislikes"}:
        return _liked(value)
    if relation == "prefers":
        value = re.split(r" (?:over|to|than|instead)\b|^\w+ing\b|.* when\b", value)[0]
    if relation == "speaks":
        value = re.sub(r"\b(?:fluent|good|some|basic|a little|a bit of) ", "", value)
    value = _P["AFTER"].sub("", value)
    return things(value, simple=relation in {"is", "follows_diet", "works_as"} and " of " not in value)


def _places(relation: str, type_: str, value: str) -> tuple[str, ...]:
    name = proper(value)
    if name and any(map(str.isupper, name)):
        return things(value) if " and " in name else (name,)
    if type_ == "organization":
        plain = thing(value, simple=True)
        return (plain,) if len(plain.split()) <= 3 and _P["WORKPLACES"].fullmatch(plain) else ()  # noqa: PLR2004 - no clause
    return (value,) if relation == "lives_in" and _P["LOWER_PLACE"].fullmatch(value) else ()


def _liked(value: str) -> tuple[str, ...]:
    """What one likes; of "to hike" the hiking."""
    verb, _, rest = value.partition(" ")
    nouns = WORDS["NOUN_VERBS"] - {"play", "cook", "travel"} if rest else WORDS["NOUN_VERBS"]
    if _tense(verb) == "base" and verb not in nouns:
        value = f"{gerund(verb)} {rest}".strip()
    if re.search(r"\bwhen |(?<=\w) in the (?:morning|evening)", value):
        return ()
    return things(re.sub(r",? (?:with|because) .*", "", value) if verb.endswith("ing") else value)


def _triples(
    who: _Who, relation: str, type_: str, value: str, span: StatedSpan, *, over: bool = False, begins: bool = False
) -> Iterator[Triple]:
    targets = _targets(relation, type_, value.strip(" ,'"))
    since, until = span.held(over=over, begins=begins)
    single = False if len(targets) > 1 and relation in WORDS["ONE"] else None
    for target in targets:
        yield Triple(who.name, relation, target, who.type, type_, since, until, ended=over, single=single)


def _have(told: _Told, tail: str) -> Statement:
    """Family, friends and pets that somebody has, and what else."""
    form, past = told.form, told.form.tense == "past"
    if found := _P["HAS_KIN"].fullmatch(tail):
        kind, name = found["kind"].lower(), found["name"] or ""
        attribute, value = _role(kind, name)
        if attribute != "partner":
            value = " ".join(filter(None, [found["count"], found["quality"].strip(), value, found["rest"].strip(" ,")]))
        ended, related = form.ended or past, told.relates and (form.positive or form.ended)
        triples = tuple(_having(told, kind, name, over=ended, more=found["rest"])) if related else ()
        people = (*(Person(kind, one) for one in _names(name)), *told.who.people)
        return told.says(
            attribute,
            value,
            positive=form.positive and not ended,
            ended=ended,
            people=people,
            relations=(*told.who.introduced(), *triples),
            also=told.above(attribute, kind),
        )
    plain = told.relates and form.positive and not past and not _P["PASSING"].match(bare(tail, counted=True))
    owned = things(tail, simple=True) if plain and re.match(r"an? |\d|the ", tail) else ()
    triples = tuple(Triple(told.who.name, "has", bare(one, counted=True)) for one in owned)
    return told.says("event" if past else "own", form.text[5:], relations=triples)


def _names(listed: str) -> list[str]:
    return re.split(",? and |, | & ", listed)


def _having(told: _Told, kind: str, name: str, *, over: bool, more: str = "") -> Iterator[Triple]:
    listed = [(kind.lower(), one) for one in _names(name)]
    listed += [(again["kind"].lower(), again["name"] or "") for again in _P["MORE_KIN"].finditer(more)]
    for word, one in listed:
        type_ = "animal" if word in WORDS["PETS"] else "" if word in WORDS["PLURAL"] and not one else "person"
        relation = _kin_relation(word) if one else "has"
        yield Triple(told.who.name, relation, one or word, told.who.type, type_, ended=over)


def _verbal(told: _Told, head: str, tail: str) -> Statement:
    """What no row knows: a habit where the verb is in the present, else an event."""
    form, who = told.form, told.who
    if head == "quit":
        return told.says("any", tail)
    habit = form.tense == "now" or form.ended
    attribute = "" if head not in WORDS["LASTING"] | WORDS["DONE"] else "habit" if habit else "event"
    triples = [*who.introduced()]
    plainly = form.positive or (form.ended and not told.span.partly and " with " not in tail)
    if habit and plainly and head in WORDS["STATED"] and told.relates:
        relation = "listens_to" if head == "listen" else third(head)
        value = re.split(" (?:with|for|on|at|in) ", tail.removeprefix("to "))[0]
        triples += _triples(who, relation, "", value, told.span, over=form.ended)
    return told.says(attribute, f"{head} {tail}".strip() if form.ended else form.text, relations=tuple(triples))
