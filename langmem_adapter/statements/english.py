"""Short English statements, read by one table: what they say of their speaker, or of a person, an animal or a thing of theirs.

A statement is brought into one form first ("No longer lives in Rome", "I've been living in Rome since 2015": `live in Rome`), so
that a row says a wording once for all tenses. What no row reads whole, or what is no plain value, has no attribute.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.dates import TIME_WORDS, StatedSpan, is_date, timed
from langmem_adapter.statements.statement import LONGEST, Person, Statement, TableRow
from langmem_adapter.statements.tables import patterns, rows
from langmem_adapter.statements.words import FORMS, KINDS, WORDS, third

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KIND_WORDS", "english_statement", "expanded", "third_person"]


def _any_of(words: frozenset[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


KIND_WORDS: Final = {"KIND": _any_of(KINDS), "PETS": _any_of(WORDS["PETS"]), "DEMONYMS": _any_of(WORDS["DEMONYMS"])}
"""Words that stand in patterns for their names in angle brackets."""
_P: Final = patterns("english", KIND_WORDS)
_ROWS: Final = rows("english", KIND_WORDS | dict(_P.texts))
_NOUNS: Final = tuple(row for row in _ROWS if not row.heads)
_BY_HEAD: Final[dict[str, list[TableRow]]] = defaultdict(list)
for _row in _ROWS:
    for _head in _row.heads:
        _BY_HEAD[_head].append(_row)

_SHORT: Final = {"can't": "cannot", "won't": "will not"} | {
    f"{verb}n't": f"{verb} not" for verb in "do does did is are was were have has had would could should".split()
}
_CLITICS: Final = {"'m": " am", "'re": " are", "'ve": " have", "'ll": " will", "'d": " would"}
_SAME: Final = {word: line.split()[0] for line in _P.texts["SAME"].split(",") for word in line.split()[1:]}
_RELATIONS: Final = dict(pair.split("=") for pair in WORDS["RELATIONS"])
_STATES: Final = {"married_to": "married", "engaged_to": "engaged", "partner_of": "dating"}
_BE: Final = frozenset("is are am was were be been".split())
_LONGEST_VALUE: Final = 8  # words; what takes more is no plain value


def expanded(text: str) -> str:
    """A text with its short forms written out: "I'm", "don't", "we've".

    Example:
        >>> expanded("I’m sure we don't")
        'I am sure we do not'
    """
    plain = " ".join(text.replace("’", "'").split())
    if "'" not in plain:
        return plain
    told = (_SHORT.get(word.lower(), word) for word in plain.split(" "))
    return re.sub(
        r"(?<=\w)'(?:m|re|ve|ll|d)\b", lambda found: _CLITICS[found[0].lower()], " ".join(told), flags=re.IGNORECASE
    )


def english_statement(text: str) -> Statement:
    """Take an English statement apart, with or without "User" or "I" in front.

    Example:
        >>> said = english_statement("Sister no longer lives in Rome")
        >>> said.subject, said.attribute, said.value, said.ended
        ('sister', 'home', 'Rome', True)
        >>> [(one.source, one.relation, one.target) for one in english_statement("Works at Acme as a nurse").relations]
        [('user', 'works_at', 'Acme'), ('user', 'works_as', 'nurse')]
    """
    plain = _written(expanded(text).rstrip(" .!…"))
    who, rest = _parted(plain)
    if not rest:
        return Statement(text)
    said = _of_noun(who, rest) or _said(who, rest)
    return replace(said, text=text) if said.attribute else Statement(text)


@dataclass(frozen=True, slots=True)
class _Who:
    """Whom a statement is about."""

    key: str = ""  # as `Statement.subject`
    name: str = SELF  # in relations; empty where none may be stated
    type: str = ""  # "person", "animal" or empty
    kind: str = ""  # the word of kin, where one was used
    named: bool = False  # the name is a proper one
    owner: str = SELF  # whose sister it is

    @property
    def people(self) -> tuple[Person, ...]:
        return (Person(self.kind, self.name if self.named else ""),) if self.kind or self.named else ()

    def introduced(self) -> Iterator[Triple]:
        """That the speaker has somebody who is named beside the kind: "Sister Mia works at Bosch"."""
        if self.kind and self.named:
            yield Triple(self.owner, _kin_relation(self.kind), self.name, target_type=self.type)


def _parted(plain: str) -> tuple[_Who, str]:
    """Whom a statement is about, and its predicate; that is empty where no verb follows a subject."""
    if found := re.match(_P.texts["SUBJECT"], plain, re.IGNORECASE):
        return _Who(), plain[found.end() :]
    owned = re.match(_P.texts["OWNER"], plain, re.IGNORECASE)
    words = plain[owned.end() :].split(" ") if owned else plain.split(" ")
    if not owned and _opens(words):
        return _Who(), plain
    for place, word in enumerate(words[1:7], 1):
        low = word.lower()
        if (
            low in _BE
            or low in {"has", "have", "no", "does", "do", "goes"}
            or FORMS.get(low, ("", ""))[1] in {"now", "past"}
        ):
            return _who(words[:place]), " ".join(words[place:])
    return _Who(), ""


def _written(text: str) -> str:
    """A text with its verb written out: "sister's a nurse" has no other one, "sister's name is Ann" has."""
    words = text.split(" ")
    for place, word in enumerate(words[:5]):
        after = [each.lower() for each in words[place + 1 : place + 6]]
        verb = any(
            each in _BE | {"has"} or each.endswith("'s") or FORMS.get(each, ("", ""))[1] == "now" for each in after[1:]
        )
        if word.lower().endswith("'s") and after and not verb:
            return " ".join([*words[:place], word[:-2], "is", *words[place + 1 :]])
    return text


def _opens(words: list[str]) -> bool:
    """Whether a statement opens with its predicate: "Lives in Rome", "No longer has a dog", "Is 30"."""
    low = words[0].lower()
    tense = FORMS.get(low, ("", ""))[1]
    opens = low in _BE | {"no", "doesn't", "can", "cannot", "never", "used", "gave", "given", "do", "does"} or tense
    noun = len(words) > 1 and words[1].lower() in _BE - {"been"} and low not in _BE
    joined = " ".join(words[1:2]).lower() in {"in", "at", "as", "for", "to", "a", "an", "the"}
    return bool(opens or re.fullmatch(_P.texts["ADVERBS"], low)) and not noun and (tense != "base" or joined)


def _who(words: list[str]) -> _Who:
    """Whom a noun means: "sister", "sister Mia", "Mia's dog", "phone number"."""
    noun = " ".join(words).strip(" ,")
    owner, owns, rest = noun.partition("'s ")
    if not noun.strip("' "):
        return _Who(noun, "")
    if owns and owner:
        who = _who(owner.split())
        if not (who.kind or who.named) or not who.name:
            return _Who(noun.lower(), "")
        kind = rest.lower() if rest.lower() in KINDS else ""
        name = f"{who.name}'s {rest.lower()}" if kind else ""
        return _Who(f"{who.key} {rest.lower()}", name, _type(kind), kind, owner=who.name)
    low = [word.lower() for word in words]
    if low[0] in {"he", "she", "it", "they", "his", "her", "its", "their"}:
        return _Who(" ".join(low), "")
    place = next((place for place, word in enumerate(low) if word in KINDS), None)
    if place is not None and all(word in WORDS["QUALITY"] for word in low[:place]):
        name = " ".join(words[place + 1 :])
        if not name:
            return _Who(" ".join(low), " ".join(low), _type(low[place]), low[place])
        if _P["NAME"].fullmatch(name):
            return _Who(name.lower(), name, _type(low[place]), low[place], named=True)
    named = (
        _P["NAME"].fullmatch(noun)
        and not noun.endswith("ly")
        and low[0] not in FORMS.keys() | TIME_WORDS | WORDS["NO_NAME"]
        and len(low) == 1
    )
    return _Who(noun.lower(), noun if named else "", named=bool(named))


def _type(kind: str) -> str:
    return "" if kind in WORDS["PLURAL"] or not kind else "animal" if kind in WORDS["PETS"] else "person"


def _kin_relation(kind: str) -> str:
    plain = _SAME.get(kind, kind)
    return _RELATIONS.get(plain, f"has_{plain.replace('-', '_')}")


# ── something of the speaker's is something: "Phone number is 555", "Sister's name is Ann" ─────────────────────────────────


def _of_noun(who: _Who, rest: str) -> Statement | None:
    value = _P["VALUE"].fullmatch(_P["NOW"].sub("", rest))
    if value is None or not who.key or who.name == SELF or who.key in {"he", "she", "it", "they"}:
        return None
    owner, noun = _owned(who)
    v, source = value["v"].strip(" ,"), _Who() if not owner else _who(owner.split())
    if kin := _naming(who, noun, v, named="called" in value["how"] or "named" in value["how"]):
        return kin
    if who.kind or not noun or not _is_simple(v):
        return None
    fresh = noun.startswith("new ")
    noun = re.sub("^(?:new|current|main) ", "", noun)
    if favourite := _P["FAVOURITE"].fullmatch(noun):
        return _favourite(source, favourite["noun"].strip(), v, owner)
    row = next((row for row in _NOUNS if row.pattern.fullmatch(noun)), None)
    if row is None:
        return _detail(owner, noun, v, fresh=fresh)
    if not _is_value(row.attribute, v) or (row.attribute == "employer" and not re.search("[A-Z]", v)):
        return None
    triples = tuple(_triples(source, row, v, StatedSpan())) if row.relation and source.name else ()
    return Statement("", owner, row.attribute, v, people=source.people, relations=triples)


def _owned(who: _Who) -> tuple[str, str]:
    """The owner, and what is owned: "sister's email", "her name"; the owner is blank where it is the speaker."""
    pronoun = re.match("(her|his|its|their) ", who.key)
    if pronoun:
        return pronoun[1], who.key[pronoun.end() :]
    if who.kind:
        return ("" if who.owner == SELF else who.owner.lower()), who.kind
    owner = who.owner.lower() if who.owner != SELF else ""
    return (owner, who.key.removeprefix(owner).strip()) if owner else ("", who.key)


def _naming(who: _Who, noun: str, v: str, *, named: bool) -> Statement | None:
    """The name of somebody: "Wife's name is Ann", "Dog is called Rex", "Best friend is Tom"."""
    kin = who
    if re.fullmatch("(?:full |first |real )?names?", noun) and not who.kind:
        kin = (
            _who(re.sub("'s (?:full |first |real )?names?$", "", _spoken(who)).split()) if who.owner != SELF else _Who()
        )
        named = True
    if not kin.kind or kin.named or not _P["LISTED"].fullmatch(v) or not _is_name(v.split(maxsplit=1)[0], named=named):
        return None
    names = tuple(re.split(",? and |, | & ", v))
    if len(names) > 1 and kin.kind not in WORDS["PLURAL"]:
        return None
    link = Triple(
        kin.owner, _kin_relation(kin.kind), "", target_type=_type(kin.kind), single=False if names[1:] else None
    )
    owner = "" if kin.owner == SELF else kin.owner.lower()
    attribute, value = _role(kin.kind, v)
    plain = _SAME.get(kin.kind, kin.kind)
    slot = f"{attribute} {plain}" if plain in WORDS["ONE_OF"] and not owner and attribute != "partner" else ""
    people = tuple(Person(kin.kind, name) for name in names)
    triples = tuple(replace(link, target=name) for name in names)
    return Statement("", owner, attribute, value, slot=slot, people=people, relations=triples)


def _spoken(who: _Who) -> str:
    """The noun of somebody's something, as it was written: "sister's name"."""
    return f"{who.owner}'s {who.key.removeprefix(who.owner.lower()).strip()}"


def _is_name(word: str, *, named: bool) -> bool:
    low = word.lower()
    return word[:1].isupper() and (named or not (low in FORMS or low in TIME_WORDS or low in WORDS["DEMONYMS"]))


def _role(kind: str, name: str = "") -> tuple[str, str]:
    plain = _SAME.get(kind, kind)
    if state := _STATES.get(_RELATIONS.get(kind, "")):
        return "partner", f"{state} {name}".strip()
    attribute = "pet" if kind in WORDS["PETS"] else plain if plain == "friend" else "family"
    return attribute, f"{plain} named {name}" if name else plain


def _favourite(source: _Who, noun: str, v: str, owner: str) -> Statement:
    word = noun.lower().replace("colour", "color")
    relation = f"has_favorite_{re.sub(r'[^a-z0-9]+', '_', word)}"
    about = f"{owner} {word.removesuffix('s')}".strip()
    listed = _things(v) if source.name else ()
    triples = tuple(Triple(source.name, relation, one, single=len(listed) == 1) for one in listed)
    slot = f"favorite {about}" if word in {"color", "number", "season"} and not owner else ""
    return Statement("", about, "favorite", v, slot=slot, relations=triples, people=source.people)


def _detail(owner: str, noun: str, v: str, *, fresh: bool) -> Statement | None:
    """What is said of any other thing of the speaker's; of a closed list, or where it is new, the value is the only one."""
    if owner in KINDS or re.fullmatch(_P.texts["NO_NOUN"], noun) or len(noun.split()) > 4:  # noqa: PLR2004 - no plain noun
        return None
    if (
        re.search(r"(?:^|\s)(?:to|that|how|why|what|not|very|too|so)\b", f"{noun} {v}")
        or FORMS.get(v.split(maxsplit=1)[0], ("", ""))[1] == "ing"
    ):
        return None
    about, last = f"{owner} {noun}".strip(), noun.rsplit(maxsplit=1)[-1]
    single = last in WORDS["RENEWED"] or noun.endswith(" code")
    if not (single or re.match("(?:an?|the) ", v) or any(letter.isdigit() or letter.isupper() for letter in v)):
        return None
    single = single and not owner
    return Statement("", about, "detail", v, slot=f"detail {about}" if fresh or single else "")


# ── somebody does something: "Lives in Rome", "Stopped drinking coffee" ─────────────────────────────────────────────────────


@dataclass(slots=True)
class _Form:
    """A predicate in its one form: "live in Rome"."""

    text: str
    tense: str = "now"  # or "past", "done" (has lived)
    positive: bool = True
    ended: bool = False  # it says that it is over
    empty: bool = False  # and nothing else


def _form(rest: str) -> _Form:
    text = _P["OVER"].sub("", rest)
    form = _Form("", ended=text != rest, empty=text != rest, positive=text == rest)
    words = _bare(_P["NOW"].sub("", text).split(" "))
    if len(words) > 3 and words[0].lower() in _BE | {"has", "have", "do", "does"} and words[1:3] == ["no", "longer"]:  # noqa: PLR2004
        words = ["no", "longer", words[0], *words[3:]]
    if [word.lower() for word in words[:2]] == ["no", "longer"]:
        form.ended, form.empty, form.positive, words = True, True, False, _bare(words[2:])
    if found := re.match(
        r"(?:(?:has|have) )?(?:stopped|stop|quits?|gave up|given up|give up) (.+)", " ".join(words), re.IGNORECASE
    ):
        form.ended, form.positive = True, False
        words = _stopped(found[1])
    elif found := re.match("used to (.+)", " ".join(words), re.IGNORECASE):
        form.ended, form.positive, words = True, False, found[1].split(" ")
    low = [word.lower() for word in words[:3]]
    if low[:1] and (low[0] == "never" or low[0] == "cannot" or low[1:2] in (["not"], ["never"])):
        bare = 1 if low[0] in {"never", "cannot"} else 2
        form.positive = False
        words = (words[:1] if low[0] in _BE | {"has", "have"} else []) + _bare(words[bare:])
        words = ["like", *words[1:]] if low[:2] == ["cannot", "stand"] else words
    elif low[:1] == ["doesn't"]:
        form.positive, words = False, _bare(words[1:])
    if words and words[0].lower() in {"hates", "hate", "dislikes", "dislike", "detests", "detest"}:
        form.positive, words = False, ["like", *words[1:]]
    form.text, form.tense = _lemma(words)
    return form


def _stopped(what: str) -> list[str]:
    """What was stopped, as it was done: "drinking coffee" is "drink coffee"; what is no deed stays with "quit"."""
    verb, _, rest = what.partition(" ")
    base, tense = FORMS.get(verb.lower(), ("", ""))
    return f"{base} {rest}".split() if tense == "ing" else f"quit {what}".split(" ")


def _bare(words: list[str]) -> list[str]:
    start = 0
    while start < len(words) - 1 and re.fullmatch(_P.texts["ADVERBS"], words[start], re.IGNORECASE):
        start += 1
    return words[start:]


def _lemma(words: list[str]) -> tuple[str, str]:
    """The predicate with its verb in the base form, and its tense."""
    if not words:
        return "", "now"
    head, rest = words[0].lower(), _bare(words[1:])
    if head in _BE:
        base, tense = FORMS.get(rest[0].lower() if rest else "", ("", ""))
        if tense == "ing" and head not in {"was", "were"}:
            return " ".join([base, *_bare(rest[1:])]), "ing"
        return " ".join(["be", *rest]), "past" if head in {"was", "were"} and rest[:1] != ["born"] else "now"
    if head in {"has", "have"}:
        base, tense = FORMS.get(rest[0].lower() if rest else "", ("", ""))
        if rest[:1] == ["been"]:
            base, tense = FORMS.get(rest[1].lower() if rest[1:] else "", ("", ""))
            return (" ".join([base, *rest[2:]]), "done") if tense == "ing" else (" ".join(["be", *rest[1:]]), "done")
        if rest[:1] == ["got"]:
            return " ".join(["have", *rest[1:]]), "now"
        if tense == "past":
            return " ".join([base, *rest[1:]]), "done"
        return " ".join(["have", *rest]), "now"
    base, tense = FORMS.get(head, (head, "now"))
    return " ".join([base, *rest]), tense if tense in {"past", "ing"} else "now"


def _said(who: _Who, rest: str) -> Statement:
    form = _form(rest)
    cut = timed(form.text) if not form.text.startswith("be born") else (form.text, StatedSpan())
    if cut is None:  # it lies ahead
        return Statement("")
    head, _, tail = cut[0].partition(" ")
    for row in _BY_HEAD.get(head, ()):
        found = row.pattern.fullmatch(tail)
        if found and (said := _of_row(_Told(who, form, cut[1]), row, found, head)).attribute:
            return said
    told = _Told(who, form, cut[1])
    return _having(told, tail) if head == "have" else _doing(told, head, cut[0])


@dataclass(frozen=True, slots=True)
class _Told:
    """A predicate that is read: of whom, in its one form, and the times that hold for it."""

    who: _Who
    form: _Form
    span: StatedSpan

    def says(self, attribute: str, value: str, **more: object) -> Statement:
        """A statement, with what holds of every one that these words make."""
        form = self.form
        plain = {"ended": form.ended, "positive": form.positive, "empty": form.empty, "people": self.who.people}
        return Statement("", self.who.key, attribute, value, **{**plain, **more})  # type: ignore[arg-type]


_EVENTS: Final = frozenset(
    "move relocate join start become get take land find marry adopt buy turn graduate visit quit leave lose change switch break divorce".split()
)


def _of_row(told: _Told, row: TableRow, found: re.Match[str], head: str) -> Statement:
    """What a row says; that something was so in the past is no statement of today."""
    form, who, groups = told.form, told.who, {name: text for name, text in found.groupdict().items() if text}
    v = groups.get("v", "").strip(" ,")
    state = head not in _EVENTS and row.kind != "ends"
    if (form.tense == "past" and state and not form.ended) or (
        form.tense == "done" and state and not told.span.lasting
    ):
        return Statement("")
    plain = all(_is_simple(groups[name]) for name in ("v", "job", "org", "old") if name in groups)
    if not plain or (v and not _is_value(row.attribute, v, groups)):
        return Statement("")
    ended = form.ended or row.kind == "ends"
    if row.kind == "ends" and (form.ended and head != "quit"):  # "stopped breaking up"
        return Statement("")
    value = row.put.format(v=v).strip() if row.put else v
    people = (Person(groups["kind"].lower(), groups.get("v", "")), *who.people) if "kind" in groups else who.people
    return told.says(
        row.attribute,
        _role(groups["kind"].lower(), v)[1] if "kind" in groups else value,
        ended=ended,
        positive=form.positive and not ended,
        touches=row.kind == "touches",
        people=people,
        relations=tuple(dict.fromkeys(_edges(told, row, groups, over=ended))),
    )


def _edges(told: _Told, row: TableRow, groups: dict[str, str], *, over: bool) -> Iterator[Triple]:
    who, form, v, relation = told.who, told.form, groups.get("v", ""), row.relation.removeprefix("!")
    if not who.name:
        return
    yield from who.introduced()
    if not form.positive and not form.ended:
        if row.attribute != "like" or told.span.partly:
            return
        relation = "dislikes"
    if "kind" in groups:
        yield from _kin_edges(told, groups["kind"].lower(), v)
        return
    if old := groups.get("old"):
        yield Triple(who.name, relation, old, target_type=row.target, ended=True)
    named, over = replace(row, relation=relation), form.ended or row.relation.startswith("!")
    begins = row.kind == "begins" or row.attribute == "partner"
    if relation and row.attribute == "partner" and not v:
        yield Triple(who.name, "has_status", row.put.split()[0], ended=over)
    elif relation and v:
        yield from _triples(who, named, v, told.span, over=over, begins=begins)
    extra = {"job": ("works_as", "occupation"), "org": ("works_at", "organization")}
    for name in groups.keys() & extra.keys():
        edge = replace(row, relation=extra[name][0], target=extra[name][1])
        yield from _triples(who, edge, groups[name], told.span, over=over)


def _triples(
    who: _Who, row: TableRow, value: str, span: StatedSpan, *, over: bool = False, begins: bool = False
) -> Iterator[Triple]:
    listed = _targets(row, value.strip(" ,'"))
    since, until = span.held(over=over, begins=begins)
    single = False if len(listed) > 1 else None
    for target in listed:
        yield Triple(who.name, row.relation, target, who.type, row.target, since, until, ended=over, single=single)


def _targets(row: TableRow, value: str) -> tuple[str, ...]:
    if row.relation == "born_on":
        return (value,) if is_date(value) else ()
    if row.target in {"place", "organization", "person"}:
        name = (
            re.sub(r"^[a-z].* (?:of|in) (?=[A-Z])", "", _article_off(value))
            if row.target == "place"
            else _article_off(value)
        )
        return (name,) if name and len(name.split()) <= 5 and not re.search(r",(?! [A-Z])|[;:]", name) else ()  # noqa: PLR2004 - a name
    return _things(re.sub(r"\b(?:fluent|some|basic|good|a little) ", "", value.split(" over ", maxsplit=1)[0]))


def _having(told: _Told, tail: str) -> Statement:
    """Family, friends and pets that somebody has; that something else is no longer there."""
    found = _P["HAS_KIN"].fullmatch(tail)
    if (
        found is None
        or told.form.tense == "past"
        or not all(word.lower() in WORDS["QUALITY"] or re.search("-|old$", word) for word in found["quality"].split())
    ):
        if told.form.ended and _is_simple(tail):
            return told.says("own", f"have {tail}", positive=False)
        return Statement("")
    kind, name = found["kind"].lower(), found["name"] or ""
    attribute, value = _role(kind, name)
    if attribute != "partner":
        value = " ".join(filter(None, [found["count"], found["quality"].strip(), value]))
    people = (*(Person(kind, one) for one in re.split(",? and |, | & ", name)), *told.who.people)
    positive = told.form.positive and found["count"] != "no"
    edges = told.who.name and (positive or told.form.ended)
    triples = (*told.who.introduced(), *_kin_edges(told, kind, name)) if edges else ()
    return told.says(attribute, value, positive=positive, people=people, relations=triples)


def _kin_edges(told: _Told, kind: str, name: str) -> Iterator[Triple]:
    for one in re.split(",? and |, | & ", name):
        relation = _kin_relation(kind) if one else "has"
        yield Triple(told.who.name, relation, one or kind, told.who.type, _type(kind), ended=told.form.ended)


def _doing(told: _Told, head: str, text: str) -> Statement:
    """What somebody does again and again: "Drinks coffee every morning"; in the past it is an event, and none of ours."""
    form, tail = told.form, text.partition(" ")[2]
    known = head in WORDS["DEEDS"] and (form.tense == "now" or (form.tense == "done" and told.span.lasting))
    if not known or not (tail or head in WORDS["ALONE"]) or not _is_simple(text):
        return Statement("")
    plain = re.split(" (?:with|for|on|at|in|before|after|by|from) ", f"{tail} ")[0].strip()
    triples: list[Triple] = [*told.who.introduced()] if told.who.name else []
    whole = not form.ended or plain == tail
    if plain and told.who.name and whole and (form.positive or form.ended):
        row = TableRow("habit", "is", "", 0, "listens_to" if head == "listen" else third(head))
        triples += _triples(told.who, row, plain.removeprefix("to "), told.span, over=form.ended)
    return told.says("habit", text, relations=tuple(triples))


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_simple(value: str) -> bool:
    """Whether a value is a plain phrase: no clause, no pronoun, nothing that only the conversation shows."""
    words = [
        word if word.isupper() and len(word) > 1 else word.lower() for word in re.split(r"[\s,'\"]+", value.strip())
    ]
    return (
        0 < len(words) <= _LONGEST_VALUE
        and WORDS["NOT_SIMPLE"].isdisjoint(words)
        and re.search(r"[;:?!()\[\]{}<>|=*\"“”…]|\s[-–—]|--|(?<!\bSt)(?<!\bDr)(?<!\bMr)\.\s|https?", value) is None
    )


def _is_value(attribute: str, value: str, groups: dict[str, str] | None = None) -> bool:
    """Whether a value may be that of an attribute: a home is a place, an employer has a name or an article."""
    words = value.split()
    low = words[0].lower()
    match attribute:
        case "name" | "nickname":
            cased = all(word[0].isupper() for word in words)
            return len(words) <= 3 and low not in WORDS["NO_NAME"] and (cased or len(words) == 1)  # noqa: PLR2004 - a name
        case "home" | "birthplace" | "origin" | "visit" | "school":
            if re.search("(?:,| and) (?![A-Z])", value):
                return False
            return any(map(str.isupper, value)) or (
                low not in WORDS["NO_PLACE"] | {"a", "an", "the", "my", "our"}
                and re.fullmatch("[a-z]{3,}|(?:new|san|los|las|hong|sao|saint|cape|tel|south|north) [a-z]{3,}", value)
                is not None
            )
        case "employer":
            if " and " in value:
                return False
            named = any(map(str.isupper, value)) or low in {"a", "an", "the", "my"}
            return len(words) <= 5 and (named or (len(words) == 1 and low not in WORDS["NO_EMPLOYER"]))  # noqa: PLR2004 - a name
        case "job":
            return len(words) <= 4 and WORDS["NO_TRADE"].isdisjoint(word.lower() for word in words)  # noqa: PLR2004 - a trade
        case "email":
            return "@" in value
        case "phone":
            return sum(map(str.isdigit, value)) >= 4  # noqa: PLR2004 - an extension
        case "birthday":
            return any(map(str.isdigit, value))
        case "age":
            return value[:1].isdigit()
        case "partner":
            return value.lower() in {"single", "divorced", "widowed", "separated"} or (
                groups is not None and value[0].isupper()
            )
        case "language" | "speak" | "allergy" | "major" | "study":
            return len(words) <= 5 and low not in {"a", "the", "my"}  # noqa: PLR2004 - no clause
    return True


def _article_off(value: str) -> str:
    return re.sub(r"^(?:an?|the|my|our|some)\s+(?=\S)", "", value.strip(" ,;'\"“”").rstrip("."), flags=re.IGNORECASE)


def _things(value: str) -> tuple[str, ...]:
    """The things that a value lists; one where it is one, none where the list is not clearly of nouns."""
    pieces = [_article_off(piece) for piece in re.split(r"\s*,\s*(?:and\s+)?|\s+(?:and|&)\s+", value)]
    if len(pieces) > 1 and not (len(pieces) > 2 or all(len(piece.split()) == 1 for piece in pieces)):  # noqa: PLR2004 - a pair
        return ()
    return tuple(piece for piece in pieces if 0 < len(piece.split()) <= 6)  # noqa: PLR2004 - what takes more is no name


# ── first person to third ───────────────────────────────────────────────────────────────────────────────────────────────────

_DROPPED: Final = frozenset("just now currently actually also still already finally basically and so well".split())
_CAN: Final = {"can": "Can", "cannot": "Can't"}
_KEPT: Final = frozenset("really never always usually often sometimes mostly no longer only absolutely".split())


def third_person(clause: str) -> str:
    """A clause of a speaker as it is remembered: "I don't eat meat anymore" is "No longer eats meat"; empty where it is none.

    Example:
        >>> third_person("I'm 30"), third_person("my sister lives in Rome"), third_person("It rains")
        ('Is 30 years old', 'Sister lives in Rome', '')
    """
    plain = expanded(clause).strip(" ,.!…")
    if len(plain) > LONGEST:
        return ""
    if changed := _P["CHANGED"].fullmatch(plain):
        return _capital(f"{changed['n']} is now {changed['v'].strip()}")
    if _P["NAMING"].match(plain):
        return _capital(plain)
    if owned := re.match(r"(?:my|our|me)\s+(?=\w)", plain, re.IGNORECASE):
        rest = _written(plain[owned.end() :])
        return _capital(_P["NOW"].sub("", re.sub(r"\bmy\s+", "", rest)))
    if not (found := re.match(r"(?:I|we)\s+(?=\w)", plain, re.IGNORECASE)):
        return ""
    return _predicate(plain[found.end() :])


def _predicate(rest: str) -> str:
    over = _P["OVER"].search(rest) is not None
    words = _P["NOW"].sub("", _P["OVER"].sub("", rest)).split(" ")
    lead: list[str] = []
    while len(words) > 1 and words[0].lower() in _DROPPED | _KEPT:
        lead += [words[0].lower()] if words[0].lower() in _KEPT else []
        words = words[1:]
    verb, after = words[0].lower(), " ".join(words[1:])
    told = _conjugated(verb, re.sub(r"\b(?:my|our)\s+", "", after), over=over)
    if not told:
        return ""
    return _capital(f"{' '.join(lead)} {told[0].lower()}{told[1:]}") if lead else told


def _conjugated(verb: str, after: str, *, over: bool) -> str:
    low = after.lower()
    denied = re.match(r"(?:not|never|no longer) (.+)", low)
    rest = after[len(low) - len(denied[1]) :] if denied else after
    gone = over or low.startswith("no longer")
    if verb in {"am", "are"}:
        if denied:
            return f"Is {'no longer' if gone else 'not'} {rest}"
        words = _bare(after.split(" "))
        first = words[0].lower()
        if FORMS.get(first, ("", ""))[1] == "ing":
            return _capital(" ".join(words))
        return f"Is {first} years old" if re.fullmatch(r"\d{1,3}", " ".join(words)) else f"Is {' '.join(words)}"
    if verb == "do":
        return (f"No longer {_third(rest)}" if over else f"Doesn't {rest}") if denied else ""
    if verb == "have":
        plain = after.removeprefix("got ")
        return f"No longer has {plain}" if over else f"Has {plain}"
    if verb in {"cannot", "can"}:
        return f"{_CAN[verb]} {after}"
    if verb in {"was", "were"}:
        return f"Was {after}" if low.startswith("born ") else ""
    base, tense = FORMS.get(verb, ("", ""))
    if verb == "used":
        return f"Used {after}"
    if tense == "base" and verb not in {"stop", "quit"}:
        return f"{third(base).capitalize()} {after}{' anymore' if over else ''}".strip()
    return f"{verb.capitalize()} {after}".strip() if tense == "past" or verb in {"stopped", "quit", "gave"} else ""


def _third(rest: str) -> str:
    head, _, tail = rest.partition(" ")
    return f"{third(head)} {tail}".strip() if head in FORMS else rest


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
