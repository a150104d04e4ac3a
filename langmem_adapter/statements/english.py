"""Short English statements, read by one table: what they say of their speaker, or of a person, an animal or a thing of theirs.

A statement is brought into one form first ("No longer lives in Rome", "I've been living in Rome since 2015": `live in Rome`),
so that a row says a wording once for all tenses. What no row reads whole, or what is no plain value, has no attribute.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.dates import NUMBERS, TIME_WORDS, StatedSpan, is_date, timed
from langmem_adapter.statements.statement import LONGEST, Person, Predicate, Statement, Subject, edges
from langmem_adapter.statements.tables import FORMS, KINDS, WORDS, TableRow, patterns, rows, third

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KIND_WORDS: Final = {
    name: "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    for name, words in {**WORDS, "KIND": KINDS}.items()
}
"""Words that stand in patterns for their names in angle brackets."""
_P: Final = patterns("english", KIND_WORDS)
_BY_HEAD: Final[dict[str, list[TableRow]]] = defaultdict(list)
for _row in rows("english", KIND_WORDS | dict(_P.texts)):
    for _head in _row.heads or ("",):
        _BY_HEAD[_head].append(_row)

_SAME: Final = {word: line.split()[0] for line in _P.texts["SAME"].split(",") for word in line.split()[1:]}
_RELATIONS: Final = dict(pair.split("=") for pair in WORDS["RELATIONS"])
_STATES: Final = {"married_to": "married", "engaged_to": "engaged", "partner_of": "dating"}
_EXTRA: Final = {"job": ("works_as", "occupation"), "org": ("works_at", "organization")}
"""Groups of a row that state a relation of their own."""
_KIN: Final = WORDS["FEMALE"] | WORDS["MALE"]
_BE: Final = frozenset("is are am was were be been".split())
_LONGEST_VALUE: Final = 8  # words; what takes more is no plain value
_LONGEST_NAME: Final = 5
_SHORT: Final = {"m": " am", "re": " are", "ve": " have", "ll": " will", "d": " would"}


def expanded(text: str) -> str:
    """A text with its short forms written out: "I'm", "don't", "we've".

    Example:
        >>> expanded("I’m sure we don't")
        'I am sure we do not'
    """
    plain = re.sub(r"^i(m|ve)\b", r"i'\1", " ".join(text.replace("’", "'").split()), flags=re.IGNORECASE)
    for short, long in (("can't", "cannot"), ("won't", "will not"), ("n't", " not")) if "'" in plain else ():
        plain = re.sub(rf"{short}\b", long, plain, flags=re.IGNORECASE)
    return re.sub(r"(?<=\w)'(m|re|ve|ll|d)\b", lambda found: _SHORT[found[1].lower()], plain, flags=re.IGNORECASE)


def english_statement(text: str) -> Statement:
    """Take an English statement apart, with or without "User" or "I" in front.

    Example:
        >>> said = english_statement("Sister no longer lives in Rome")
        >>> said.subject, said.attribute, said.value, said.ended
        ('sister', 'home', 'Rome', True)
        >>> [(one.source, one.relation, one.target) for one in english_statement("Works at Acme as a nurse").relations]
        [('user', 'works_at', 'Acme'), ('user', 'works_as', 'nurse')]
    """
    noun, rest = _parted(_P["SHORT_IS"].sub(r"\1 is ", expanded(text).rstrip(" .!…")))
    said = (_of_noun(noun, rest) if noun else None) or (_said(_who(noun), rest) if rest else None)
    return replace(said, text=text) if said else Statement(text)


# ── who: the speaker, a person by kin or name, or a thing ───────────────────────────────────────────────────────────────────


def _type(kind: str) -> str:
    return "" if kind in WORDS["PLURAL"] or not kind else "animal" if kind in WORDS["PETS"] else "person"


def _has(kind: str) -> str:
    plain = _SAME.get(kind, kind)
    return _RELATIONS.get(plain, f"has_{plain.replace('-', '_')}")


def _tense(word: str) -> str:
    return FORMS.get(word.lower(), ("", ""))[1]


def _parted(plain: str) -> tuple[str, str]:
    """The noun that a statement is about, empty for the speaker, and its predicate; that is empty where no verb follows."""
    if found := _P["SUBJECT"].match(plain):
        return "", plain[found.end() :]
    owned = _P["OWNER"].match(plain)
    words = plain[owned.end() if owned else 0 :].split(" ")
    be = words[1:2] in (["is"], ["are"], ["was"], ["were"])
    if not owned and not be:
        joined = words[1:2] and words[1].lower() in {"in", "at", "as", "for", "to", "a", "an", "the"}
        if _P["OPENS"].match(plain) or (_tense(words[0]) and (_tense(words[0]) != "base" or joined)):
            return "", plain
    for place, word in enumerate(words[1:7], 1):
        if _P["FINITE"].fullmatch(word) or _tense(word) in {"now", "past"}:
            return " ".join(words[:place]).strip(" ,'"), " ".join(words[place:])
    return "", ""


def _who(noun: str) -> Subject:
    """Whom a noun means: "sister", "sister Mia", "Mia's dog", "phone number"."""
    if not noun:
        return Subject()
    owner, _, owned = noun.rpartition("'s ")
    low, kind = noun.lower(), owned.lower() if owned.lower() in KINDS else ""
    if owner:
        who = _who(owner)
        name = f"{who.name}'s {kind}" if kind and who.name and who.people else ""
        return Subject(f"{who.key} {owned.lower()}", name, (Person(kind, ""),) if kind else (), (), _type(kind))
    if found := _P["KIN"].fullmatch(noun):
        kind, name = found["kind"].lower(), found["name"] or ""
        link = (Triple(SELF, _has(kind), name, target_type=_type(kind)),) if name else ()
        return Subject((name or noun).lower(), name or low, (Person(kind, name),), link, _type(kind))
    plain = low not in FORMS.keys() | TIME_WORDS | WORDS["NO_NAME"] and not low.endswith("ly") and " " not in noun
    return Subject(low, noun, (Person("", noun),)) if plain and _P["NAME"].fullmatch(noun) else Subject(low, "")


# ── something of the speaker's is something: "Phone number is 555", "Sister's name is Ann" ─────────────────────────────────


def _of_noun(noun: str, rest: str) -> Statement | None:
    value = _P["VALUE"].fullmatch(_P["NOW"].sub("", rest))
    found = _P["OWNED"].fullmatch(noun)
    if value is None or found is None or noun.lower() in {"he", "she", "it", "they"}:
        return None
    v, owner, thing = value["v"].strip(" ,"), found["owner"] or found["whose"] or "", found["noun"]
    naming = _P["NAME_NOUN"].fullmatch(thing) is not None
    who = _who(owner if naming else noun)
    kind, name = (who.people[0].kind, who.people[0].name) if who.people else ("", "")
    if kind and not name:
        called = naming or re.search("called|named", value["how"]) is not None
        return _naming(owner.rpartition("'s ")[0] if naming else owner, kind, v, called=called)
    return None if (kind and not naming) or not _is_simple(v) else _thing(owner, thing.lower(), v)


def _naming(owner: str, kind: str, v: str, *, called: bool) -> Statement | None:
    """The name of somebody: "Wife's name is Ann", "Dog is called Rex", "Best friend is Tom"."""
    names = re.split(",? and |, | & ", v)
    doubtful = names[0].split()[0].lower() in FORMS.keys() | TIME_WORDS or _P["NATION"].fullmatch(names[0])
    if not _P["LISTED"].fullmatch(v) or (names[1:] and kind not in WORDS["PLURAL"]) or (doubtful and not called):
        return None
    attribute, value = _role(kind, v)
    plain, who = _SAME.get(kind, kind), _who(owner)
    slot = f"{attribute} {plain}" if plain in WORDS["ONE_OF"] and not owner and attribute != "partner" else ""
    link = Triple(who.name, _has(kind), "", target_type=_type(kind), single=False if names[1:] else None)
    people = tuple(Person(kind, name) for name in names)
    relations = tuple(replace(link, target=name) for name in names)
    return Statement(
        "", who.name.lower() if owner else "", attribute, value, slot=slot, people=people, relations=relations
    )


def _role(kind: str, name: str = "") -> tuple[str, str]:
    plain = _SAME.get(kind, kind)
    if state := _STATES.get(_RELATIONS.get(kind, "")):
        return "partner", f"{state} {name}".strip()
    attribute = "pet" if kind in WORDS["PETS"] else plain if plain == "friend" else "family"
    return attribute, f"{plain} named {name}" if name else plain


def _thing(owner: str, noun: str, v: str) -> Statement | None:
    """Any other thing: an attribute, a favourite, or a detail, which has one value if it is of a closed list, or new."""
    who, plain = _who(owner), re.sub("^(?:new|current|main) ", "", noun)
    if found := _P["FAVOURITE"].fullmatch(plain):
        word = found["noun"].strip().replace("colour", "color")
        listed, about = _things(v) if who.name else (), f"{who.key} {word.removesuffix('s')}".strip()
        slot = f"favorite {about}" if word in {"color", "number", "season"} and not who.key else ""
        relation = f"has_favorite_{re.sub(r'[^a-z0-9]+', '_', word)}"
        told = tuple(Triple(who.name, relation, one, single=len(listed) == 1) for one in listed)
        return Statement("", about, "favorite", v, slot=slot, relations=told, people=who.people)
    row = next((row for row in _BY_HEAD[""] if row.pattern.fullmatch(plain)), None)
    if row is None or (row.attribute == "phone" and not _is_value("phone", v)):
        last = plain.rsplit(maxsplit=1)[-1]
        single = (last in WORDS["RENEWED"] or plain.endswith(" code")) and _is_value(last, v)
        odd = owner.lower() in KINDS or not _P["THING"].fullmatch(plain)
        loose = not single and not re.search(r"^(?:an?|the) |[\dA-Z]", v)
        if odd or loose or _P["NO_DETAIL"].search(f"{plain} {v}") or _tense(v.split(maxsplit=1)[0]) == "ing":
            return None
        about = f"{owner.lower()} {plain}".strip()
        slot = f"detail {about}" if noun.startswith("new ") or (single and not owner) else ""
        return Statement("", about, "detail", v, slot=slot)
    v = v.removeprefix("in ") if row.attribute == "home" else v
    if not _is_value(row.attribute, v) or (row.attribute in {"employer", "home"} and not re.search("[A-Z]", v)):
        return None
    told = tuple(edges(Predicate(who, v), row.relation, _targets(row, v), row.target)) if who.name else ()
    return Statement("", who.key, row.attribute, v, people=who.people, relations=told)


# ── somebody does something: "Lives in Rome", "Stopped drinking coffee" ─────────────────────────────────────────────────────


def _said(who: Subject, rest: str) -> Statement | None:
    form = _form(who, rest)
    cut = (form.text, StatedSpan()) if form.text.startswith("be born") else timed(form.text)
    if cut is None:  # it lies ahead
        return None
    form = form._replace(text=cut[0], span=cut[1])
    head, _, tail = form.text.partition(" ")
    pairs = ((row, row.pattern.fullmatch(tail)) for row in _BY_HEAD.get(head, ()) if head)
    return next(filter(None, (_of_row(form, row, found, head) for row, found in pairs if found)), None)


def _form(who: Subject, rest: str) -> Predicate:
    """A predicate in its one form."""
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
    text, tense = _lemma(text.strip())
    return Predicate(who, text, positive, ended, bool(over), tense=tense)


def _bare(text: str) -> str:
    while (found := _P["ADVERB"].match(text)) is not None:
        text = text[found.end() :]
    return text


def _lemma(text: str) -> tuple[str, str]:
    """The predicate with its verb in the base form, and its tense: "now", "ing" (is living), "past" or "done" (has lived)."""
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
        past = tense == "past" and after != "got" and after not in KINDS
        return (f"{base} {more}", "done") if past else (f"have {rest.removeprefix('got ')}", "now")
    base, tense = FORMS.get(low, (low, "now"))
    return f"{base} {rest}".strip(), tense if tense in {"past", "ing"} else "now"


def _of_row(form: Predicate, row: TableRow, found: re.Match[str], head: str) -> Statement | None:
    """What a row says; that something was so in the past is no statement of today."""
    groups = {name: text for name, text in found.groupdict().items() if text}
    v, ends, kind = groups.get("v", "").strip(" ,"), row.kind == "ends", groups.get("kind", "").lower()
    state = head not in WORDS["EVENTS"] and not ends and (head, row.kind) != ("be", "begins")
    past = (form.tense == "past" and not form.ended) or (form.tense == "done" and not form.span.lasting)
    plain = all(_is_simple(groups[name]) for name in ("v", "job", "org", "old", "name") if name in groups)
    odd = ends and form.ended and head != "quit"
    habit = row.attribute == "habit" and (form.tense == "ing" or not _is_simple(form.text))
    if (state and past) or odd or habit or not plain or (v and not _is_value(row.attribute, v)):
        return None
    ended, none = form.ended or ends, groups.get("count") == "no"
    form = form._replace(ended=ended, positive=form.positive and not ended and not none)
    attribute, value = row.attribute, row.put.format(v=v, text=form.text).strip() if row.put else v
    if attribute == "age":
        value = v if v.isdecimal() else str(sum(NUMBERS[word] for word in re.split("[ -]", v.lower())))
    people: tuple[Person, ...] = ()
    if kind:
        attribute, value = _role(kind, v)
        if attribute != "partner":
            value = " ".join(filter(None, (groups.get("count"), groups.get("quality", "").strip(), value)))
        people = tuple(Person(kind, one) for one in re.split(",? and |, | & ", v))
    told = tuple(dict.fromkeys((*form.who.implied, *_edges(form, row, groups)))) if form.who.name else ()
    touches = row.kind == "touches"
    return form.says(attribute, value, people=(*people, *form.who.people), relations=told, touches=touches)


def _edges(form: Predicate, row: TableRow, groups: Mapping[str, str]) -> Iterator[Triple]:  # noqa: C901 - a kind each
    v, relation, kind = groups.get("v", ""), row.relation.removeprefix("!"), groups.get("kind", "").lower()
    over = form.ended and (row.kind != "ends" or row.relation.startswith("!"))
    if not form.positive and not form.ended:
        if row.attribute != "like" or form.span.partly:
            return
        relation = "dislikes"
    held = form._replace(ended=over)
    if kind:
        for one in re.split(",? and |, | & ", v):
            name = _has(kind) if one else "has"
            yield Triple(form.who.name, name, one or kind, form.who.type, _type(kind), ended=form.ended)
    elif row.attribute == "habit":
        verb, _, tail = form.text.partition(" ")
        bare = re.split(" (?:with|for|on|at|in|before|after|by|from) ", f"{tail} ")[0].strip()
        if form.positive or bare == tail:
            relation = "listens_to" if verb == "listen" else third(verb)
            yield from edges(held, relation, _targets(row, bare.removeprefix("to ")), "")
    elif relation and row.attribute == "partner" and not v:
        yield Triple(form.who.name, "has_status", row.put.split()[0], ended=over)
    elif relation:
        if old := groups.get("old"):
            yield Triple(form.who.name, relation, old, target_type=row.target, ended=True)
        begins = row.kind == "begins" or row.attribute == "partner"
        yield from edges(held, relation, _targets(row, v), row.target, begins=begins)
        for name in groups.keys() & _EXTRA.keys():
            extra = replace(row, relation=_EXTRA[name][0], target=_EXTRA[name][1])
            yield from edges(held, extra.relation, _targets(extra, groups[name]), extra.target)


def _targets(row: TableRow, value: str) -> tuple[str, ...]:
    value = value.strip(" ,'")
    if row.relation == "born_on":
        return (value,) if is_date(value) else ()
    if row.target not in {"place", "organization", "person"}:
        return _things(re.sub(r"\b(?:fluent|some|basic|good|a little) ", "", value.split(" over ", maxsplit=1)[0]))
    name = _bare_noun(value)
    name = re.sub(r"^[a-z].* (?:of|in) (?=[A-Z])", "", name) if row.target == "place" else name
    odd = not name or len(name.split()) > _LONGEST_NAME or re.search(r",(?! [A-Z])|[;:]", name)
    return () if odd else (name,)


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
    excluded = WORDS.get(f"NO_{attribute.upper()}", frozenset()) | (_KIN if attribute == "job" else frozenset())
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
        owned_text = _P["SHORT_IS"].sub(r"\1 is ", plain[owned.end() :])
        return _capital(_P["NOW"].sub("", re.sub(r"\bmy\s+", "", owned_text)))
    found = _P["ME"].match(plain)
    if not found:
        return ""
    rest, over = _P["OVER"].subn("", plain[found.end() :])
    rest = re.sub(r"\b(?:my|our)\s+", "", _P["NOW"].sub("", rest))
    verb, _, after = rest.partition(" ")
    told = _conjugated(verb.lower(), after, over=over > 0)
    kept = " ".join(re.findall(_P.texts["KEPT"], found["lead"] or "", re.IGNORECASE)).lower()
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
        told = f"Is {'no longer' if gone else 'not'} {rest}" if denied else f"Is {rest}"
        told = rest if not denied and _tense(rest.partition(" ")[0]) == "ing" else told
        told = f"{told} years old" if re.fullmatch(rf"Is (?:\d{{1,3}}|{_P.texts['TENS']})", told) else told
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
