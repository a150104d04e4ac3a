"""Short English statements, read by one table: what they say of their speaker, or of a person, an animal or a thing of theirs.

A statement is brought into one form first ("No longer lives in Rome", "I've been living in Rome since 2015": `live in Rome`),
so that a row says a wording once for all tenses. What no row reads whole, or what is no plain value, has no attribute.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.dates import TIME_WORDS, StatedSpan, is_date, timed
from langmem_adapter.statements.statement import LONGEST, Person, Statement, TableRow
from langmem_adapter.statements.tables import patterns, rows
from langmem_adapter.statements.words import FORMS, KINDS, WORDS, third

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["KIND_WORDS", "english_statement", "expanded", "third_person"]

KIND_WORDS: Final = {
    name: "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    for name, words in {**WORDS, "KIND": KINDS}.items()
}
"""Words that stand in patterns for their names in angle brackets."""
_P: Final = patterns("english", KIND_WORDS)
_ROWS: Final = rows("english", KIND_WORDS | dict(_P.texts))
_NOUNS: Final = tuple(row for row in _ROWS if not row.heads)
_BY_HEAD: Final[dict[str, list[TableRow]]] = defaultdict(list)
for _row in _ROWS:
    for _head in _row.heads:
        _BY_HEAD[_head].append(_row)

_SAME: Final = {word: line.split()[0] for line in _P.texts["SAME"].split(",") for word in line.split()[1:]}
_RELATIONS: Final = dict(pair.split("=") for pair in WORDS["RELATIONS"])
_STATES: Final = {"married_to": "married", "engaged_to": "engaged", "partner_of": "dating"}
_EXTRA: Final = {"job": ("works_as", "occupation"), "org": ("works_at", "organization")}
"""Groups of a row that state a relation of their own."""
_BE: Final = frozenset("is are am was were be been".split())
_LONGEST_VALUE: Final = 8  # words; what takes more is no plain value
_LONGEST_NAME: Final = 5


def expanded(text: str) -> str:
    """A text with its short forms written out: "I'm", "don't", "we've".

    Example:
        >>> expanded("I’m sure we don't")
        'I am sure we do not'
    """
    plain = re.sub(r"^i(m|ve)\b", r"i'\1", " ".join(text.replace("’", "'").split()), flags=re.IGNORECASE)
    for short, long in (("can't", "cannot"), ("won't", "will not"), ("n't", " not")) if "'" in plain else ():
        plain = re.sub(rf"{short}\b", long, plain, flags=re.IGNORECASE)
    short_of = {"m": " am", "re": " are", "ve": " have", "ll": " will", "d": " would"}
    return re.sub(r"(?<=\w)'(m|re|ve|ll|d)\b", lambda found: short_of[found[1].lower()], plain, flags=re.IGNORECASE)


def english_statement(text: str) -> Statement:
    """Take an English statement apart, with or without "User" or "I" in front.

    Example:
        >>> said = english_statement("Sister no longer lives in Rome")
        >>> said.subject, said.attribute, said.value, said.ended
        ('sister', 'home', 'Rome', True)
        >>> [(one.source, one.relation, one.target) for one in english_statement("Works at Acme as a nurse").relations]
        [('user', 'works_at', 'Acme'), ('user', 'works_as', 'nurse')]
    """
    who, rest = _parted(_written(expanded(text).rstrip(" .!…")))
    said = (_of_noun(who, rest) or _said(who, rest)) if rest else Statement("")
    return replace(said, text=text) if said.attribute else Statement(text)


# ── who: the speaker, a person by kin or name, or a thing ───────────────────────────────────────────────────────────────────


class _Who(NamedTuple):
    """Whom a statement is about."""

    key: str = ""  # as `Statement.subject`
    name: str = SELF  # in relations; empty where none may be stated
    kind: str = ""  # the word of kin, where one was used
    named: bool = False  # the name is a proper one
    owner: str = SELF  # whose sister it is

    @property
    def type(self) -> str:
        return _type(self.kind)

    @property
    def people(self) -> tuple[Person, ...]:
        return (Person(self.kind, self.name if self.named else ""),) if self.kind or self.named else ()

    @property
    def introduced(self) -> tuple[Triple, ...]:
        """That the speaker has somebody who is named beside the kind: "Sister Mia works at Bosch"."""
        known = self.kind and self.named
        return (Triple(self.owner, _has(self.kind), self.name, target_type=self.type),) if known else ()


def _type(kind: str) -> str:
    return "" if kind in WORDS["PLURAL"] or not kind else "animal" if kind in WORDS["PETS"] else "person"


def _has(kind: str) -> str:
    plain = _SAME.get(kind, kind)
    return _RELATIONS.get(plain, f"has_{plain.replace('-', '_')}")


def _tense(word: str) -> str:
    return FORMS.get(word.lower(), ("", ""))[1]


def _written(text: str) -> str:
    """A text with its verb written out: "sister's a nurse" has no other one, "sister's name is Ann" has."""
    words = text.split(" ")
    for place, word in enumerate(words[:5]):
        after = [each.lower() for each in words[place + 1 : place + 6]]
        verb = any(each in _BE | {"has"} or each.endswith("'s") or _tense(each) == "now" for each in after[1:])
        if word.lower().endswith("'s") and after and not verb:
            return " ".join([*words[:place], word[:-2], "is", *words[place + 1 :]])
    return text


def _parted(plain: str) -> tuple[_Who, str]:
    """Whom a statement is about, and its predicate; that is empty where no verb follows a subject."""
    if found := _P["SUBJECT"].match(plain):
        return _Who(), plain[found.end() :]
    owned = _P["OWNER"].match(plain)
    words = plain[owned.end() if owned else 0 :].split(" ")
    if not owned and _P["OPENS"].match(plain) and not re.match(r"\S+ (?:is|are|was|were)\b", plain):
        return _Who(), plain
    if not owned and _tense(words[0]) and words[1:2] not in (["is"], ["are"], ["was"]):
        joined = words[1:2] and words[1].lower() in {"in", "at", "as", "for", "to", "a", "an", "the"}
        if _tense(words[0]) != "base" or joined:
            return _Who(), plain
    for place, word in enumerate(words[1:7], 1):
        if _P["FINITE"].fullmatch(word) or _tense(word) in {"now", "past"}:
            return _who(" ".join(words[:place])), " ".join(words[place:])
    return _Who(), ""


def _who(noun: str) -> _Who:
    """Whom a noun means: "sister", "sister Mia", "Mia's dog", "phone number"."""
    noun = noun.strip(" ,'")
    owner, _, owned = noun.rpartition("'s ")
    if owner:
        who, kind = _who(owner), owned.lower() if owned.lower() in KINDS else ""
        known = kind and who.name and (who.kind or who.named)
        return _Who(f"{who.key} {owned.lower()}", f"{who.name}'s {kind}" if known else "", kind, owner=who.name)
    low, words = noun.lower(), noun.split(" ")
    if found := _P["KIN"].fullmatch(noun):
        kind, name = found["kind"].lower(), found["name"] or ""
        return _Who(name.lower(), name, kind, named=True) if name else _Who(low, low, kind)
    plain = low not in FORMS.keys() | TIME_WORDS | WORDS["NO_NAME"] and not low.endswith("ly") and len(words) == 1
    return _Who(low, noun, named=True) if plain and _P["NAME"].fullmatch(noun) else _Who(low, "")


# ── something of the speaker's is something: "Phone number is 555", "Sister's name is Ann" ─────────────────────────────────


def _of_noun(who: _Who, rest: str) -> Statement | None:
    value = _P["VALUE"].fullmatch(_P["NOW"].sub("", rest))
    if value is None or who.name == SELF or who.key in {"", "he", "she", "it", "they"}:
        return None
    v = value["v"].strip(" ,")
    found = re.fullmatch(r"(?:(?P<owner>.+)'s |(?P<whose>her|his|its|their) )?(?P<noun>.+)", _spoken(who))
    owner, noun = (
        ("", who.kind or who.key) if found is None else (found["owner"] or found["whose"] or "", found["noun"])
    )
    naming = _P["NAME_NOUN"].fullmatch(noun) is not None
    kin = _who(owner) if naming else who
    if kin.kind and not kin.named:
        called = naming or bool(re.search("called|named", value["how"]))
        return _naming(kin, v, called=called) if _P["LISTED"].fullmatch(v) else None
    return None if who.kind or not _is_simple(v) else _thing(owner, noun.lower(), v)


def _thing(owner: str, noun: str, v: str) -> Statement | None:
    source, plain = _who(owner) if owner else _Who(), re.sub("^(?:new|current|main) ", "", noun)
    if favourite := _P["FAVOURITE"].fullmatch(plain):
        return _favourite(source, favourite["noun"].strip(), v)
    row = next((row for row in _NOUNS if row.pattern.fullmatch(plain)), None)
    if row is None or (row.attribute == "phone" and not _is_value("phone", v)):
        return _detail(owner.lower(), plain, v, fresh=noun.startswith("new "))
    if not _is_value(row.attribute, v) or (row.attribute == "employer" and not re.search("[A-Z]", v)):
        return None
    edges = tuple(_triples(source, row, v, StatedSpan())) if row.relation and source.name else ()
    return Statement("", source.key, row.attribute, v, people=source.people, relations=edges)


def _spoken(who: _Who) -> str:
    return (
        f"{who.owner}'s {who.key.removeprefix(who.owner.lower()).strip()}" if who.owner not in {SELF, ""} else who.key
    )


def _naming(kin: _Who, v: str, *, called: bool) -> Statement | None:
    """The name of somebody: "Wife's name is Ann", "Dog is called Rex", "Best friend is Tom"."""
    names = re.split(",? and |, | & ", v)
    first = names[0].split()[0].lower()
    doubtful = first in FORMS.keys() | TIME_WORDS | WORDS["DEMONYMS"]
    if (len(names) > 1 and kin.kind not in WORDS["PLURAL"]) or (doubtful and not called):
        return None
    attribute, value = _role(kin.kind, v)
    plain, mine = _SAME.get(kin.kind, kin.kind), kin.owner == SELF
    slot = f"{attribute} {plain}" if plain in WORDS["ONE_OF"] and mine and attribute != "partner" else ""
    link = Triple(kin.owner, _has(kin.kind), "", target_type=kin.type, single=False if names[1:] else None)
    people, edges = (
        tuple(Person(kin.kind, name) for name in names),
        tuple(replace(link, target=name) for name in names),
    )
    return Statement("", "" if mine else kin.owner.lower(), attribute, value, slot=slot, people=people, relations=edges)


def _role(kind: str, name: str = "") -> tuple[str, str]:
    plain = _SAME.get(kind, kind)
    if state := _STATES.get(_RELATIONS.get(kind, "")):
        return "partner", f"{state} {name}".strip()
    attribute = "pet" if kind in WORDS["PETS"] else plain if plain == "friend" else "family"
    return attribute, f"{plain} named {name}" if name else plain


def _favourite(source: _Who, noun: str, v: str) -> Statement:
    word = noun.replace("colour", "color")
    listed = _things(v) if source.name else ()
    relation = f"has_favorite_{re.sub(r'[^a-z0-9]+', '_', word)}"
    edges = tuple(Triple(source.name, relation, one, single=len(listed) == 1) for one in listed)
    about = f"{source.key} {word.removesuffix('s')}".strip()
    slot = f"favorite {about}" if word in {"color", "number", "season"} and not source.key else ""
    return Statement("", about, "favorite", v, slot=slot, relations=edges, people=source.people)


def _detail(owner: str, noun: str, v: str, *, fresh: bool) -> Statement | None:
    """What is said of any other thing of the speaker's; of a closed list, or where it is new, the value is the only one."""
    single = noun.rsplit(maxsplit=1)[-1] in WORDS["RENEWED"] or noun.endswith(" code")
    plain = single or re.match("(?:an?|the) ", v) or any(letter.isdigit() or letter.isupper() for letter in v)
    if (
        not plain
        or owner in KINDS
        or _P["NO_NOUN"].fullmatch(noun)
        or not _P["THING"].fullmatch(noun)
        or _P["NO_DETAIL"].search(f"{noun} {v}")
        or _tense(v.split(maxsplit=1)[0]) == "ing"
    ):
        return None
    about = f"{owner} {noun}".strip()
    return Statement("", about, "detail", v, slot=f"detail {about}" if fresh or (single and not owner) else "")


# ── somebody does something: "Lives in Rome", "Stopped drinking coffee" ─────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Form:
    """A predicate in its one form: "live in Rome"."""

    who: _Who
    text: str
    tense: str  # "now", "ing" (is living), "past" or "done" (has lived)
    positive: bool
    ended: bool  # it says that it is over
    empty: bool  # and nothing else
    span: StatedSpan = field(default_factory=StatedSpan)

    def says(
        self, attribute: str, value: str, people: tuple[Person, ...] = (), relations: tuple[Triple, ...] = ()
    ) -> Statement:
        """A statement, with what holds of every one that these words make."""
        about, everybody = self.who.key, (*people, *self.who.people)
        return Statement(
            "", about, attribute, value, self.positive, self.ended, self.empty, people=everybody, relations=relations
        )


def _form(who: _Who, rest: str) -> _Form:
    text, over = _P["OVER"].subn("", rest)
    text = _bare(_P["NOW"].sub("", text))
    if found := _P["NO_LONGER"].match(text):
        text, over = f"{found['be'] or ''}{_bare(text[found.end() :])}", 1
    ended, positive = bool(over), not over
    if found := _P["STOPPED"].match(text):
        verb, _, after = text[found.end() :].partition(" ")
        text = f"{FORMS[verb.lower()][0]} {after}" if _tense(verb) == "ing" else f"quit {verb} {after}"
        ended, positive = True, False
    elif found := _P["USED_TO"].match(text):
        text, ended, positive = text[found.end() :], True, False
    if found := _P["DENIED"].match(text):
        text, positive = f"{found['be'] or (found['hates'] and 'like ') or ''}{_bare(text[found.end() :])}", False
    return _Form(who, *_lemma(text.strip()), positive, ended, bool(over))


def _bare(text: str) -> str:
    while (found := _P["ADVERB"].match(text)) is not None:
        text = text[found.end() :]
    return text


def _lemma(text: str) -> tuple[str, str]:
    """The predicate with its verb in the base form, and its tense."""
    head, _, rest = text.partition(" ")
    low, rest = head.lower(), _bare(rest)
    after, _, more = rest.partition(" ")
    base, tense = FORMS.get(after.lower(), ("", ""))
    if low in _BE:
        if tense == "ing" and low[0] != "w":
            return f"{base} {_bare(more)}".strip(), "ing"
        return f"be {rest}", "past" if low[0] == "w" and after != "born" else "now"
    if low in {"has", "have"}:
        if after == "been":
            return _lemma(f"is {more}")[0], "done"
        return (
            (f"{base} {more}", "done")
            if tense == "past" and after != "got"
            else (f"have {rest.removeprefix('got ')}", "now")
        )
    base, tense = FORMS.get(low, (low, "now"))
    return f"{base} {rest}".strip(), tense if tense in {"past", "ing"} else "now"


def _said(who: _Who, rest: str) -> Statement:
    form = _form(who, rest)
    cut = (form.text, StatedSpan()) if form.text.startswith("be born") else timed(form.text)
    if cut is None:  # it lies ahead
        return Statement("")
    form = replace(form, text=cut[0], span=cut[1])
    head, _, tail = form.text.partition(" ")
    for row in _BY_HEAD.get(head, ()):
        found = row.pattern.fullmatch(tail)
        if found and (said := _of_row(form, row, found, head)).attribute:
            return said
    return _having(form, tail) if head == "have" else _doing(form, head, tail)


def _of_row(form: _Form, row: TableRow, found: re.Match[str], head: str) -> Statement:
    """What a row says; that something was so in the past is no statement of today."""
    groups = {name: text for name, text in found.groupdict().items() if text}
    v, ends = groups.get("v", "").strip(" ,"), row.kind == "ends"
    state = head not in WORDS["EVENTS"] and not ends and (head, row.kind) != ("be", "begins")
    past = (form.tense == "past" and not form.ended) or (form.tense == "done" and not form.span.lasting)
    plain = all(_is_simple(groups[name]) for name in ("v", "job", "org", "old") if name in groups)
    twice = ends and form.ended and head != "quit"  # "stopped breaking up"
    if (state and past) or twice or not plain or (v and not _is_value(row.attribute, v)):
        return Statement("")
    kind = groups.get("kind", "").lower()
    value = _role(kind, v)[1] if kind else row.put.format(v=v).strip() if row.put else v
    form = replace(form, ended=form.ended or ends, positive=form.positive and not (form.ended or ends))
    people = (Person(kind, v),) if kind else ()
    edges = tuple(dict.fromkeys(_edges(form, row, groups))) if form.who.name else ()
    return replace(form.says(row.attribute, value, people, edges), touches=row.kind == "touches")


def _edges(form: _Form, row: TableRow, groups: Mapping[str, str]) -> Iterator[Triple]:
    who, v, relation = form.who, groups.get("v", ""), row.relation.removeprefix("!")
    over = form.ended and (row.kind != "ends" or row.relation.startswith("!"))
    yield from who.introduced
    if not form.positive and not form.ended:
        if row.attribute != "like" or form.span.partly:
            return
        relation = "dislikes"
    if "kind" in groups:
        yield from _kin_edges(form, groups["kind"].lower(), v)
    elif relation and row.attribute == "partner" and not v:
        yield Triple(who.name, "has_status", row.put.split()[0], ended=over)
    else:
        if old := groups.get("old"):
            yield Triple(who.name, relation, old, target_type=row.target, ended=True)
        begins = row.kind == "begins" or row.attribute == "partner"
        yield from _triples(who, replace(row, relation=relation), v, form.span, over=over, begins=begins)
        for name in groups.keys() & _EXTRA.keys():
            edge = replace(row, relation=_EXTRA[name][0], target=_EXTRA[name][1])
            yield from _triples(who, edge, groups[name], form.span, over=over)


def _triples(
    who: _Who, row: TableRow, value: str, span: StatedSpan, *, over: bool = False, begins: bool = False
) -> Iterator[Triple]:
    listed = _targets(row, value.strip(" ,'")) if row.relation else ()
    listed = tuple(target for target in listed if any(map(str.isalnum, target)))
    since, until = span.held(over=over, begins=begins)
    single = False if len(listed) > 1 else None
    for target in listed:
        yield Triple(who.name, row.relation, target, who.type, row.target, since, until, ended=over, single=single)


def _targets(row: TableRow, value: str) -> tuple[str, ...]:
    if row.relation == "born_on":
        return (value,) if is_date(value) else ()
    if row.target in {"place", "organization", "person"}:
        name = (
            re.sub(r"^[a-z].* (?:of|in) (?=[A-Z])", "", _bare_noun(value))
            if row.target == "place"
            else _bare_noun(value)
        )
        return (
            (name,) if name and len(name.split()) <= _LONGEST_NAME and not re.search(r",(?! [A-Z])|[;:]", name) else ()
        )
    return _things(re.sub(r"\b(?:fluent|some|basic|good|a little) ", "", value.split(" over ", maxsplit=1)[0]))


def _having(form: _Form, tail: str) -> Statement:
    """Family, friends and pets that somebody has; that something else is no longer there."""
    found = _P["HAS_KIN"].fullmatch(tail)
    if found is None or form.tense == "past":
        over = form.ended and _is_simple(tail)
        return replace(form, positive=False).says("own", f"have {tail}") if over else Statement("")
    kind, name = found["kind"].lower(), found["name"] or ""
    attribute, value = _role(kind, name)
    if attribute != "partner":
        value = " ".join(filter(None, [found["count"], found["quality"].strip(), value]))
    form = replace(form, positive=form.positive and found["count"] != "no")
    edges = (
        (*form.who.introduced, *_kin_edges(form, kind, name)) if form.who.name and (form.positive or form.ended) else ()
    )
    return form.says(attribute, value, tuple(Person(kind, one) for one in re.split(",? and |, | & ", name)), edges)


def _kin_edges(form: _Form, kind: str, name: str) -> Iterator[Triple]:
    for one in re.split(",? and |, | & ", name):
        yield Triple(
            form.who.name, _has(kind) if one else "has", one or kind, form.who.type, _type(kind), ended=form.ended
        )


def _doing(form: _Form, head: str, tail: str) -> Statement:
    """What somebody does again and again: "Drinks coffee every morning"; in the past it is an event, and none of ours."""
    known = head in WORDS["DEEDS"] and (form.tense == "now" or (form.tense == "done" and form.span.lasting))
    if not known or not (tail or head in WORDS["ALONE"]) or not _is_simple(form.text):
        return Statement("")
    plain = re.split(" (?:with|for|on|at|in|before|after|by|from) ", f"{tail} ")[0].strip()
    edges: tuple[Triple, ...] = form.who.introduced if form.who.name else ()
    if form.who.name and (form.positive or (form.ended and plain == tail)):
        row = TableRow("habit", "is", "", 0, "listens_to" if head == "listen" else third(head))
        edges = (*edges, *_triples(form.who, row, plain.removeprefix("to "), form.span, over=form.ended))
    return form.says("habit", form.text, relations=edges)


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_simple(value: str) -> bool:
    """Whether a value is a plain phrase: no clause, no pronoun, nothing that only the conversation shows."""
    words = [
        word if word.isupper() and len(word) > 1 else word.lower() for word in re.split(r"[\s,'\"]+", value.strip())
    ]
    short = 0 < len(words) <= _LONGEST_VALUE and bool(value.strip())
    return short and WORDS["NOT_SIMPLE"].isdisjoint(words) and _P["NOT_PLAIN"].search(value) is None


def _is_value(attribute: str, value: str) -> bool:
    """Whether a value may be that of an attribute, by the pattern of its name: a home is a place, an e-mail has an @."""
    name, words = f"IS_{attribute.upper()}", value.lower().split()
    excluded = WORDS.get(f"NO_{attribute.upper()}", frozenset())
    shaped = name not in _P.texts or _P[name].fullmatch(value) is not None
    return shaped and excluded.isdisjoint(words if attribute == "job" else words[:1])


def _bare_noun(value: str) -> str:
    return re.sub(r"^(?:an?|the|my|our|some)\s+(?=\S)", "", value.strip(" ,;'\"“”").rstrip("."), flags=re.IGNORECASE)


def _things(value: str) -> tuple[str, ...]:
    """The things that a value lists; one where it is one, none where the list is not clearly of nouns."""
    pieces = [_bare_noun(piece) for piece in re.split(r"\s*,\s*(?:and\s+)?|\s+(?:and|&)\s+", value)]
    pair = len(pieces) == 2 and any(" " in piece for piece in pieces)  # noqa: PLR2004
    return () if pair else tuple(piece for piece in pieces if 0 < len(piece.split()) <= _LONGEST_NAME + 1)


# ── first person to third ───────────────────────────────────────────────────────────────────────────────────────────────────


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
        return _capital(f"{changed['n']} is now {_P['NOW'].sub('', changed['v']).strip()}")
    if owned := _P["MINE"].match(plain):
        return _capital(_P["NOW"].sub("", re.sub(r"\bmy\s+", "", _written(plain[owned.end() :]))))
    found = _P["ME"].match(plain)
    return _predicate(plain[found.end() :], found["lead"] or "") if found else ""


def _predicate(rest: str, lead: str) -> str:
    rest, over = _P["OVER"].subn("", rest)
    rest = re.sub(r"\b(?:my|our)\s+", "", _P["NOW"].sub("", rest))
    verb, _, after = rest.partition(" ")
    told = _conjugated(verb.lower(), after, over=over > 0)
    kept = " ".join(re.findall(_P.texts["KEPT"], lead, re.IGNORECASE)).lower()
    return _capital(f"{kept} {told[:1].lower()}{told[1:]}") if told and kept else told


def _conjugated(verb: str, after: str, *, over: bool) -> str:
    denied = re.match(r"(not|never|no longer) ", after, re.IGNORECASE)
    rest = after[denied.end() :] if denied else after
    gone = over or (denied is not None and denied[1].lower() == "no longer")
    base, tense = FORMS.get(verb, ("", ""))
    head, _, tail = rest.partition(" ")
    told = ""
    if verb in {"am", "are"}:
        rest = _bare(rest)
        progressive = not denied and _tense(rest.partition(" ")[0]) == "ing"
        told = f"Is {'no longer' if gone else 'not'} {rest}" if denied else rest if progressive else f"Is {rest}"
        told = f"{told} years old" if re.fullmatch(r"Is \d{1,3}", told) else told
    elif verb == "do" and denied:
        told = f"No longer {third(head) if head in FORMS else head} {tail}" if over else f"Doesn't {rest}"
    elif verb in {"have", "cannot", "can", "used"} or (verb in {"was", "were"} and head == "born"):
        opening = {"have": "No longer has" if over else "Has", "cannot": "Can't", "were": "Was"}.get(verb, verb)
        told = f"{opening} {after.removeprefix('got ')}"
    elif tense in {"base", "past"} and verb not in {"was", "were", "had"}:
        quits = tense == "past" or verb in {"stop", "quit"}
        told = f"{verb if quits else third(base)} {after}{' anymore' if over else ''}"
    return _capital(told.strip())


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
