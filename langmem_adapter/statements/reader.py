"""Reads short English and Chinese statements by one table: attribute, value, person, relations and their times.

A statement is brought into one form first ("No longer lives in Rome", "I've been living in Rome since 2015": `live in Rome`),
so that a row says a wording once for all tenses. What no row reads whole, or what is no plain value, has no attribute.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.forks import bounded_cache
from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.dates import NUMBERS, TIME_WORDS, WHEN, chinese_number, chinese_span, is_date, timed
from langmem_adapter.statements.tables import (
    FORMS,
    KINDS,
    LONGEST,
    WORDS,
    Person,
    Predicate,
    StatedSpan,
    Statement,
    Subject,
    TableRow,
    edges,
    lists,
    patterns,
    rows,
    third,
)
from langmem_adapter.text import is_cjk, refers_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KIND_WORDS: Final = {
    name: "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    for name, words in {**WORDS, "KIND": KINDS}.items()
}
"""Words for the names in angle brackets in patterns."""
ENGLISH: Final = patterns("english", KIND_WORDS)
"""Patterns of English statements."""
_P: Final = ENGLISH
_BY_HEAD: Final[dict[str, list[TableRow]]] = defaultdict(list)
for _row in rows("english", KIND_WORDS | dict(_P.texts)):
    for _head in _row.heads or ("",):
        _BY_HEAD[_head].append(_row)

_SAME: Final = {word: line.split()[0] for line in _P.texts["SAME"].split(",") for word in line.split()[1:]}
_RELATIONS: Final = dict(pair.split("=") for pair in WORDS["RELATIONS"])
_STATES: Final = {"married_to": "married", "engaged_to": "engaged", "partner_of": "dating"}
_EXTRA: Final = {"job": ("works_as", "occupation"), "org": ("works_at", "organization")}
"""Groups of a row with another relation."""
_AND: Final = ",? and |, | & "
_BE: Final = frozenset("is are am was were be been".split())
_LONGEST_VALUE: Final = 8  # words; what takes more is no plain value
_LONGEST_NAME: Final = 5
_SHORT: Final = {"m": " am", "re": " are", "ve": " have", "ll": " will", "d": " would"}
_BRACKETS: Final = re.compile(r" \((?!\d+\)).*\)$", re.DOTALL)
"""The end of a fact that is not read."""
_VERBS: Final = frozenset("Is Has Can Likes Loves Lives Works Name".split())


@bounded_cache(4_096)
def read(text: str) -> Statement:
    """Take a statement apart, with or without "User", "I", 用户 or 我 in front.

    A text in another language, a long one, and one that no row of the tables reads have no attribute.

    Example:
        >>> read("Lives in Rome").attribute, read("I live in Rome").value, read("Vive en Roma").attribute
        ('home', 'Rome', '')
        >>> statement = read("Sister no longer lives in Rome")
        >>> statement.subject, statement.attribute, statement.value, statement.ended
        ('sister', 'home', 'Rome', True)
        >>> [(one.source, one.relation, one.target) for one in read("Works at Acme as a nurse").relations]
        [('user', 'works_at', 'Acme'), ('user', 'works_as', 'nurse')]
        >>> [(one.source, one.relation, one.target) for one in read("妹妹小红住在罗马").relations]
        [('user', '有妹妹', '小红'), ('小红', '住在', '罗马')]
    """
    bare = _BRACKETS.sub("", text)
    if len(bare) > LONGEST:
        return Statement(text)
    statement = _chinese(bare) if in_chinese(bare) else _english(bare)
    return replace(statement, text=text) if statement else Statement(text)


def in_chinese(text: str) -> bool:
    """Whether a statement is worded in Chinese, apart from names.

    Example:
        >>> in_chinese("Jesica有一条狗"), in_chinese("Likes 饺子")
        (True, False)
    """
    words = re.findall("[A-Za-z]+", text)
    return is_cjk(text) and (not text[:1].isascii() or not any(word.islower() or word in _VERBS for word in words))


def attributes(text: str) -> set[str]:
    """The attribute that a statement speaks of, with its subject, as a mark; none where no row reads it.

    Example:
        >>> attributes("Moved to Braga"), attributes("Sister lives in Porto"), attributes("Vive en Oporto")
        ({':home'}, {':home sister'}, set())
    """
    statement = read(text)
    return {f":{statement.attribute} {statement.subject}".rstrip()[:64]} if statement.attribute else set()


def single_valued(text: str) -> tuple[str, str] | None:
    """What a statement gives the one value of; of two such statements of a speaker, one replaces the other.

    Example:
        >>> single_valued("Lives in Porto") == single_valued("I moved to Braga"), single_valued("Likes tea")
        (True, None)
    """
    statement = read(text)
    is_one = statement.place and statement.positive and not refers_back(text)
    return (statement.subject, statement.place) if is_one else None


def expanded(text: str) -> str:
    """A text with its short forms written out: "I'm", "don't", "we've".

    Example:
        >>> expanded("I’m sure we don't")
        'I am sure we do not'
    """
    plain = re.sub(r"^i(m|ve)\b", r"i'\1", " ".join(text.replace("’", "'").split()), flags=re.IGNORECASE)
    for short, long in (("can't", "cannot"), ("won't", "will not"), ("n't", " not")) if "'" in plain else ():
        plain = re.sub(rf"{short}\b", long, plain, flags=re.IGNORECASE)
    return re.sub(r"(?<=\w)'(m|re|ve|ll|d)\b", lambda match: _SHORT[match[1].lower()], plain, flags=re.IGNORECASE)


# ── English: the speaker, a person by kin or name, or a thing ──────────────────────────────────────────────────────────────


def _english(text: str) -> Statement | None:
    noun, rest = _split_noun(_P["SHORT_IS"].sub(r"\1 is ", expanded(text).rstrip(" .!…")))
    return (_of_noun(noun, rest) if noun else None) or (_of_verb(_subject(noun), rest) if rest else None)


def _type(kind: str) -> str:
    return "" if kind in WORDS["PLURAL"] or not kind else "animal" if kind in WORDS["PETS"] else "person"


def _has(kind: str) -> str:
    plain = _SAME.get(kind, kind)
    return _RELATIONS.get(plain, f"has_{plain.replace('-', '_')}")


def _tense(word: str) -> str:
    return FORMS.get(word.lower(), ("", ""))[1]


def _split_noun(plain: str) -> tuple[str, str]:
    """The noun that a statement is about, empty for the speaker, and its predicate; that is empty where no verb follows."""
    if match := _P["SUBJECT"].match(plain):
        return "", plain[match.end() :]
    owned = _P["OWNER"].match(plain)
    words = plain[owned.end() if owned else 0 :].split(" ")
    if not owned and words[1:2] not in (["is"], ["are"], ["was"], ["were"]):
        joined = words[1:2] and words[1].lower() in {"in", "at", "as", "for", "to", "a", "an", "the"}
        if _P["OPENS"].match(plain) or (_tense(words[0]) and (_tense(words[0]) != "base" or joined)):
            return "", plain
    for place, word in enumerate(words[1:7], 1):
        if _P["FINITE"].fullmatch(word) or _tense(word) in {"now", "past"}:
            return " ".join(words[:place]).strip(" ,'"), " ".join(words[place:])
    return "", ""


def _subject(noun: str) -> Subject:
    """Whom a noun means: "sister", "sister Mia", "Mia's dog", "phone number"."""
    if not noun:
        return Subject()
    owner, _, owned = noun.rpartition("'s ")
    low, kind = noun.lower(), owned.lower() if owned.lower() in KINDS else ""
    if owner:
        who = _subject(owner)
        name = f"{who.name}'s {kind}" if kind and who.name and who.people else ""
        return Subject(f"{who.key} {owned.lower()}", name, (Person(kind, ""),) if kind else (), (), _type(kind))
    if match := _P["KIN"].fullmatch(noun):
        kind, name = match["kind"].lower(), match["name"] or ""
        link = (Triple(SELF, _has(kind), name, target_type=_type(kind)),) if name else ()
        return Subject((name or noun).lower(), name or low, (Person(kind, name),), link, _type(kind))
    plain = low not in FORMS.keys() | TIME_WORDS | WORDS["NO_NAME"] and not low.endswith("ly") and " " not in noun
    return Subject(low, noun, (Person("", noun),)) if plain and _P["NAME"].fullmatch(noun) else Subject(low, "")


# ── English: something of the speaker's is something: "Phone number is 555", "Sister's name is Ann" ─────────────────────────


def _of_noun(noun: str, rest: str) -> Statement | None:
    value = _P["VALUE"].fullmatch(_P["NOW"].sub("", rest))
    match = _P["OWNED"].fullmatch(noun)
    if value is None or match is None or noun.lower() in {"he", "she", "it", "they"}:
        return None
    v, owner, thing = value["v"].strip(" ,"), match["owner"] or match["pronoun"] or "", match["noun"]
    naming = _P["NAME_NOUN"].fullmatch(thing) is not None
    who = _subject(owner if naming else noun)
    kind, name = (who.people[0].kind, who.people[0].name) if who.people else ("", "")
    if kind and not name:
        called = naming or re.search("called|named", value["how"]) is not None
        return _naming(owner.rpartition("'s ")[0] if naming else owner, kind, v, called=called)
    return None if (kind and not naming) or not _is_simple(v) else _of_thing(owner, thing.lower(), v)


def _naming(owner: str, kind: str, v: str, *, called: bool) -> Statement | None:
    """The name of a person or an animal: "Wife's name is Ann", "Dog is called Rex", "Best friend is Tom"."""
    names = re.split(_AND, v)
    doubtful = names[0].split()[0].lower() in FORMS.keys() | TIME_WORDS or _P["NATION"].fullmatch(names[0])
    if not _P["LISTED"].fullmatch(v) or (names[1:] and kind not in WORDS["PLURAL"]) or (doubtful and not called):
        return None
    attribute, value = _role(kind, v)
    plain, who = _SAME.get(kind, kind), _subject(owner)
    slot = f"{attribute} {plain}" if plain in WORDS["ONE_OF"] and not owner and attribute != "partner" else ""
    link = Triple(who.name, _has(kind), "", target_type=_type(kind), single=False if names[1:] else None)
    people = tuple(Person(kind, name) for name in names)
    relations = tuple(replace(link, target=name) for name in names)
    key = who.name.lower() if owner else ""
    return Statement("", key, attribute, value, slot=slot, people=people, relations=relations)


def _role(kind: str, name: str = "") -> tuple[str, str]:
    plain = _SAME.get(kind, kind)
    if state := _STATES.get(_RELATIONS.get(kind, "")):
        return "partner", f"{state} {name}".strip()
    attribute = "pet" if kind in WORDS["PETS"] else plain if plain == "friend" else "family"
    return attribute, f"{plain} named {name}" if name else plain


def _of_thing(owner: str, noun: str, v: str) -> Statement | None:
    """Any other thing: an attribute, a favourite, or a detail, which has one value if it is of a closed list, or new."""
    who, plain = _subject(owner), re.sub("^(?:new|current|main) ", "", noun)
    if match := _P["FAVOURITE"].fullmatch(plain):
        word = match["noun"].strip().replace("colour", "color")
        listed, about = _things(v) if who.name else (), f"{who.key} {word.removesuffix('s')}".strip()
        slot = f"favorite {about}" if word in {"color", "number", "season"} and not who.key else ""
        relation = f"has_favorite_{re.sub(r'[^a-z0-9]+', '_', word)}"
        relations = tuple(Triple(who.name, relation, one, single=len(listed) == 1) for one in listed)
        return Statement("", about, "favorite", v, slot=slot, relations=relations, people=who.people)
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
    relations = tuple(edges(Predicate(who, v), row.relation, _targets(row, v), row.target)) if who.name else ()
    return Statement("", who.key, row.attribute, v, people=who.people, relations=relations)


# ── English: subject and verb: "Lives in Rome", "Stopped drinking coffee" ────────────────────────────────────────────


def _of_verb(who: Subject, rest: str) -> Statement | None:
    form = _predicate(who, rest)
    cut = (form.text, StatedSpan()) if form.text.startswith("be born") else timed(form.text)
    if cut is None:  # it lies ahead
        return None
    form = form._replace(text=cut[0], span=cut[1])
    head, _, tail = form.text.partition(" ")
    pairs = ((row, row.pattern.fullmatch(tail)) for row in _BY_HEAD.get(head, ()) if head)
    return next(filter(None, (_of_row(form, row, match, head) for row, match in pairs if match)), None)


def _predicate(who: Subject, rest: str) -> Predicate:
    """A predicate in its one form."""
    text, over = _P["OVER"].subn("", rest)
    text = _bare(_P["NOW"].sub("", text))
    if match := _P["NO_LONGER"].match(text):
        text, over = f"{match['be'] or ''}{_bare(text[match.end() :])}", 1
    ended, positive = bool(over), not over
    if match := _P["STOPPED"].match(text):
        verb, _, after = text[match.end() :].partition(" ")
        text = f"{FORMS[verb.lower()][0]} {after}" if _tense(verb) == "ing" else f"quit {verb} {after}"
        ended, positive = True, False
    elif match := _P["USED_TO"].match(text):
        text, ended, positive = text[match.end() :], True, False
    if match := _P["DENIED"].match(text):
        text, positive = f"{match['be'] or (match['hates'] and 'like ') or ''}{_bare(text[match.end() :])}", False
    text, tense = _lemma(text.strip())
    return Predicate(who, text, positive, ended, bool(over), tense=tense)


def _bare(text: str) -> str:
    while (match := _P["ADVERB"].match(text)) is not None:
        text = text[match.end() :]
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


def _of_row(form: Predicate, row: TableRow, match: re.Match[str], head: str) -> Statement | None:
    """What a row says; that something was so in the past is no statement of today."""
    groups = {name: text for name, text in match.groupdict().items() if text}
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
        people = tuple(Person(kind, one) for one in re.split(_AND, v))
    relations = tuple(dict.fromkeys((*form.who.implied, *_edges(form, row, groups)))) if form.who.name else ()
    touches = row.kind == "touches"
    return form.says(attribute, value, people=(*people, *form.who.people), relations=relations, touches=touches)


def _edges(form: Predicate, row: TableRow, groups: Mapping[str, str]) -> Iterator[Triple]:
    v, relation, kind = groups.get("v", ""), row.relation.removeprefix("!"), groups.get("kind", "").lower()
    denied = not form.positive and not form.ended
    if denied and (row.attribute != "like" or form.span.partly):
        return
    over = form.ended and (row.kind != "ends" or row.relation.startswith("!"))
    form, name = form._replace(ended=over), form.who.name
    if kind:
        for one in re.split(_AND, v):
            yield Triple(name, _has(kind) if one else "has", one or kind, form.who.type, _type(kind), ended=over)
    elif row.attribute == "habit":
        verb, _, tail = form.text.partition(" ")
        bare = re.split(" (?:with|for|on|at|in|before|after|by|from) ", f"{tail} ")[0].strip()
        if form.positive or bare == tail:
            relation = "listens_to" if verb == "listen" else third(verb)
            yield from edges(form, relation, _targets(row, bare.removeprefix("to ")), "")
    elif relation and row.attribute == "partner" and not v:
        yield Triple(name, "has_status", row.put.split()[0], ended=over)
    elif relation:
        if old := groups.get("old"):
            yield Triple(name, relation, old, target_type=row.target, ended=True)
        begins = row.kind == "begins" or row.attribute == "partner"
        yield from edges(form, "dislikes" if denied else relation, _targets(row, v), row.target, begins=begins)
        for extra in groups.keys() & _EXTRA.keys():
            other = replace(row, relation=_EXTRA[extra][0], target=_EXTRA[extra][1])
            yield from edges(form, other.relation, _targets(other, groups[extra]), other.target)


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


def _is_simple(value: str) -> bool:
    """Whether a value is a plain phrase: no clause, no pronoun, nothing that only the conversation shows."""
    words = [word if word.isupper() and word[1:] else word.lower() for word in re.split(r"[\s,'\"]+", value.strip())]
    short = len(words) <= _LONGEST_VALUE and bool(value.strip())
    return short and WORDS["NOT_SIMPLE"].isdisjoint(words) and _P["NOT_PLAIN"].search(value) is None


def _is_value(attribute: str, value: str) -> bool:
    """Whether a value may be that of an attribute, by the pattern of its name: a home is a place, an e-mail has an @."""
    name, words = f"IS_{attribute.upper()}", value.lower().split()
    excluded = WORDS.get(f"NO_{attribute.upper()}", frozenset())
    excluded |= (WORDS["FEMALE"] | WORDS["MALE"]) if attribute == "job" else frozenset()
    shaped = name not in _P.texts or _P[name].fullmatch(value) is not None
    return shaped and excluded.isdisjoint(words if attribute == "job" else words[:1])


def _bare_noun(value: str) -> str:
    return re.sub(r"^(?:an?|the|my|our|some)\s+(?=\S)", "", value.strip(" ,;'\"“”").rstrip("."), flags=re.IGNORECASE)


def _things(value: str) -> tuple[str, ...]:
    """The things that a value lists; one where it is one, none where the list is not clearly of nouns."""
    pieces = [_bare_noun(piece) for piece in re.split(r"\s*,\s*(?:and\s+)?|\s+(?:and|&)\s+", value)]
    pair = len(pieces) == 2 and any(" " in piece for piece in pieces)  # noqa: PLR2004
    return () if pair else tuple(piece for piece in pieces if 0 < len(piece.split()) <= _LONGEST_NAME + 1)


# ── English: first person to third ──────────────────────────────────────────────────────────────────────────────────────────


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
    match = _P["ME"].match(plain)
    if not match:
        return ""
    rest, over = _P["OVER"].subn("", plain[match.end() :])
    rest = re.sub(r"\b(?:my|our)\s+", "", _P["NOW"].sub("", rest))
    verb, _, after = rest.partition(" ")
    text = _conjugated(verb.lower(), after, over=over > 0).strip()
    kept = " ".join(re.findall(_P.texts["KEPT"], match["lead"] or "", re.IGNORECASE)).lower()
    return _capital(f"{kept} {text[:1].lower()}{text[1:]}" if text and kept else text)


def _conjugated(verb: str, after: str, *, over: bool) -> str:
    denied = re.match(r"(not|never|no longer) ", after, re.IGNORECASE)
    rest = after[denied.end() :] if denied else after
    gone = over or (denied is not None and denied[1].lower() == "no longer")
    base, tense = FORMS.get(verb, ("", ""))
    head, _, tail = rest.partition(" ")
    if verb in {"am", "are"}:
        rest = _bare(rest)
        if not denied and _tense(rest.partition(" ")[0]) == "ing":
            return rest
        text = f"Is {'no longer' if gone else 'not'} {rest}" if denied else f"Is {rest}"
        return f"{text} years old" if re.fullmatch(rf"Is (?:\d{{1,3}}|{_P.texts['TENS']})", text) else text
    if verb == "do" and denied:
        return f"No longer {third(head) if head in FORMS else head} {tail}" if over else f"Doesn't {rest}"
    if verb in {"have", "cannot", "can", "used"} or (verb in {"was", "were"} and head == "born"):
        opening = {"have": "No longer has" if over else "Has", "cannot": "Can't", "were": "Was"}.get(verb, verb)
        return f"{opening} {after.removeprefix('got ')}"
    if tense in {"base", "past"} and verb not in {"was", "were", "had"}:
        quits = tense == "past" or verb in {"stop", "quit"}
        return f"{verb if quits else third(base)} {after}{' anymore' if over else ''}"
    return ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# ── Chinese: 姐姐不再住在罗马 is about the sister, her home, Rome, and over ─────────────────────────────────────────────────

_CJK: Final = lists("chinese-words")
_KIN_CJK: Final = {
    word: kind.lower().removesuffix("s") for kind in ("PARTNER", "PETS", "FRIEND", "FAMILY") for word in _CJK[kind]
}
KIN: Final = "|".join(sorted(_KIN_CJK, key=len, reverse=True))
"""Chinese words for relatives, partners, friends and pets, longest first, for use in a pattern."""
_PARTS: Final = {"KIN": KIN, "WHEN": WHEN}
_C: Final = patterns("chinese", _PARTS, flags=0)
_TABLE: Final = rows("chinese", _PARTS, flags=0)
PARTS: Final = {**_PARTS, **{part: _C.texts[part] for part in ("SURNAME", "DATE")}, "END_ZH": _C.texts["END"]}
"""Parts of patterns that other tables use."""
_NAMED: Final = re.compile(f"{_C.texts['LATIN']}|[小阿][\u4e00-\u9fff](?=住|在|喜|有|是|会|今|工|来|不|每|对)")
_SAME_CJK: Final = dict(pair.split("=") for pair in _CJK["SAME"])
_LONGEST_OF_LIST, _LONGEST_NAME_CJK = 6, 16


def _chinese(text: str) -> Statement | None:
    plain = text.strip().rstrip("。！!.~～；;，, ")
    if re.search("[？?]", plain):
        return None
    body, span = (plain, StatedSpan()) if re.search("出生|生于|生日", plain) else chinese_span(plain)
    body = _bare_cjk(re.sub(f"^{_C.texts['FRONT']}", "", body))
    statement = _naming_cjk(body, Subject())
    return statement or next((each for each in _readings(body, span) if each and each.attribute), None)


def _readings(body: str, span: StatedSpan) -> Iterator[Statement | None]:
    for who, rest in _fronts(body):
        if rest.startswith("名字") and who.people and not who.people[0].name:
            continue
        yield _naming_cjk(rest, who)
        yield _of_body(_bare_cjk(rest), who, span)
    yield _of_body(body, Subject(), span)


def _bare_cjk(text: str) -> str:
    """A predicate without what says how or when."""
    while (match := re.match(f"{_C.texts['ADVERB']}|{WHEN}", text)) and match.end() < len(text):
        text = text[match.end() :].lstrip("，, ")
    return text


def _fronts(body: str) -> Iterator[tuple[Subject, str]]:
    """The subjects that the statement may open with, each with its rest."""
    if match := _C["PRONOUN"].fullmatch(body):
        yield Subject(match["who"], ""), match["rest"]
        return
    kin = re.match(KIN, body)
    word, rest = (kin[0], body[kin.end() :]) if kin else ("", body)
    named = _NAMED.match(rest)
    if named and named.end() < len(rest):
        name = named[0]
        link = (Triple(SELF, _relation_cjk(word), name, target_type=_type_cjk(word)),) if kin else ()
        type_ = _type_cjk(word) if kin else ""
        yield Subject(name.casefold(), name, (Person(word, name),), link, type_), rest[named.end() :].lstrip()
    if kin:
        person = (Person(word, ""),)
        yield Subject(_SAME_CJK.get(word, word), word, person, (), _type_cjk(word)), re.sub("^的", "", rest)


def _type_cjk(kin: str) -> str:
    return "animal" if _KIN_CJK[kin] == "pet" else "person"


def _relation_cjk(kin: str) -> str:
    plain = _SAME_CJK.get(kin, kin)
    return "结婚对象" if kin in _CJK["MARRIED"] else plain if plain == "朋友" else f"有{plain}"


def _naming_cjk(body: str, owner: Subject) -> Statement | None:
    match = _C["NAMING"].fullmatch(body)
    return None if match is None else _called(owner, match["kin"], match["name"] or match["is"])


def _called(owner: Subject, kin: str, name: str, count: str = "") -> Statement:
    """A person or pet of the owner: 姐姐叫Ann, 有一个叫Ann的姐姐, 有两只猫."""
    kind, plain = _KIN_CJK[kin], _SAME_CJK.get(kin, kin)
    state = "已婚" if kin in _CJK["MARRIED"] else "订婚" if kin.startswith("未婚") else "恋爱"
    value = " ".join(filter(None, (state, name) if kind == "partner" else (count, plain, name)))
    link = Triple(owner.name, _relation_cjk(kin) if name else "有", name or kin, owner.type, _type_cjk(kin))
    slot = f"{kind} {plain}" if name and plain in _CJK["ONE_OF"] and not owner.key else ""
    people = (Person(kin, name or ""), *owner.people)
    relations = (*owner.implied, link) if owner.name else ()
    return Statement("", owner.key, kind, value, slot=slot, people=people, relations=relations)


def _of_body(body: str, who: Subject, span: StatedSpan) -> Statement | None:
    """The statement about a subject, by the first row that fits."""
    text, positive, ended = _sign(body)
    text = _bare_cjk(text)
    form = Predicate(who, text, positive, ended, ended and body.startswith(("不再", "已经不再")), span)
    if match := _C["HAS"].fullmatch(text.removesuffix("了")):
        count = re.sub(f"{_C.texts['MEASURES']}$", "", match["count"] or "")
        number = "" if count in {"", "一", "1"} else str(chinese_number(count))
        statement = _called(who, match["kin"], match["before"] or match["after"] or "", number)
        links = tuple(replace(one, ended=ended) for one in statement.relations if positive or ended)
        return replace(statement, positive=positive, ended=ended, empty=form.empty, relations=links)
    short = _C["END"].sub("", text) or text
    pairs = ((row, row.pattern.fullmatch(short) or row.pattern.fullmatch(text)) for row in _TABLE)
    return next(filter(None, (_of_row_cjk(row, match, form) for row, match in pairs if match)), None)


def _sign(body: str) -> tuple[str, bool, bool]:
    """What is affirmed, denied or over; whether it is affirmed; whether it is over."""
    for name, ended in (("OVER", True), ("DENIED", False)):
        if match := _C[name].fullmatch(body):
            (group, text), *_ = ((group, text) for group, text in match.groupdict().items() if text)
            verb = {"烟": "抽", "酒": "喝"}.get(text, "") if group == "x" else "" if ended or group != "w" else "喜欢"
            return f"有{text.removeprefix('有')}" if group == "h" else f"{verb}{text}", False, ended
    return body, True, False


def _of_row_cjk(row: TableRow, match: re.Match[str], form: Predicate) -> Statement | None:
    """What a row says, where its value is a plain one."""
    groups = {name: text for name, text in match.groupdict().items() if text}
    value, noun, who = groups.get("v", "").strip(" ：:"), groups.get("n", ""), form.who
    name, ends, detail = f"NO_{row.attribute.upper()}", row.kind == "ends", row.attribute == "detail"
    odd = _C["NOT_SIMPLE"].search(value) or (name in _C.texts and _C[name].search(f"{noun}|{value}"))
    once = form.text.endswith(("过", "了")) or not ("when" in groups or not form.positive)
    if odd or (row.attribute == "habit" and not form.ended and once) or (detail and not form.positive):
        return None
    form = form._replace(ended=form.ended or ends, positive=form.positive and not ends)
    fresh = (
        noun.endswith(tuple(_CJK["RENEWED"])) or "fresh" in groups or re.search("变成|换成|改", groups.get("is", ""))
    )
    if row.attribute == "age":
        value = str(chinese_number(value))
    return form.says(
        row.attribute,
        row.put.format_map({**groups, "v": value}) if row.put else value,
        noun,
        touches=row.kind == "touches",
        slot=f"detail {noun}" if detail and not who.key and fresh else "",
        people=who.people,
        relations=(*who.implied, *_edges_cjk(row, groups, form)) if who.name else (),
    )


def _edges_cjk(row: TableRow, groups: dict[str, str], form: Predicate) -> Iterator[Triple]:
    denied, like = not form.positive and not form.ended, row.attribute == "like"
    relation = f"{row.relation}{groups.get('n', '')}" if row.relation else groups.get("verb", "")
    if not relation or (denied and not like):
        return
    if old := groups.get("old"):
        since = form.span.bounds(over=form.ended, begins=row.kind == "begins")[0]
        yield Triple(form.who.name, relation, old, form.who.type, row.target, valid_to=since, ended=True)
    value = groups.get("v", "")
    listed = _listed(re.sub("^[吃喝](?=..)", "", value) if like else value)
    begins = row.kind == "begins" and not form.ended
    yield from edges(form, "不喜欢" if denied else relation, listed, row.target, begins=begins)


def _listed(value: str) -> tuple[str, ...]:
    """The things of a list: 苹果、香蕉和梨; none where it is not clearly one of nouns."""
    pieces = re.split("、|[，,]|和", value) if "、" in value else re.split("(?<=.)和(?=.)", value)
    if len(pieces) > 1 and any(len(piece) > _LONGEST_OF_LIST or "的" in piece for piece in pieces):
        return ()
    names = (re.sub("^[一1][个名位家间只条](?=..)", "", piece.strip(" 《》“”")) for piece in pieces)
    return tuple(name for name in names if 0 < len(name) <= _LONGEST_NAME_CJK)


def without_speaker(piece: str, *, goes_on: bool = False) -> str:
    """A piece of a sentence as it is remembered: 我住在北京 is 住在北京; empty where it is not about the speaker.

    Args:
        piece: The text between two commas.
        goes_on: Whether the piece before it is about the speaker.

    Example:
        >>> without_speaker("我叫John"), without_speaker("我妈妈住在北京"), without_speaker("天气很好")
        ('名字是John', '妈妈住在北京', '')
    """
    plain = piece.strip().rstrip("啦哦呢呀吧。！!~～ ")
    if match := _C["CALLED"].fullmatch(plain):
        return f"名字是{match['v']}"
    if re.match("[他她它](?!们)", plain):
        return plain
    opening = re.match(f"(?:{WHEN}|现在|目前|如今)?(?:{_C.texts['FRONT']})", plain)
    if opening is None and not goes_on:
        return ""
    when = re.match(WHEN, plain) if opening else None
    rest = plain[opening.end() if opening else 0 :].lstrip("，, ")
    rest = re.sub("^(?:(?:现在|目前|如今)的?|已经|其实|真的|刚刚?|终于)+", "", rest) or rest
    return f"{when[0] if when else ''}{rest}"
