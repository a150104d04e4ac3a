"""Reads short English and Chinese statements by a table for each: attribute, value, person, relations and their times.

A statement is brought into one form first ("No longer lives in Rome", "I've been living in Rome since 2015": `live in Rome`),
so that a row says a wording once for all tenses. What no row reads whole, or what is no plain value, has no attribute.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from langmem_adapter.forks import bounded_cache
from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.dates import (
    NUMBERS,
    TIME_WORDS,
    WHEN,
    StatedSpan,
    chinese_number,
    chinese_span,
    is_date,
    timed,
)
from langmem_adapter.statements.tables import (
    ATTRIBUTES,
    KINDS,
    WORDS,
    alternatives,
    patterns,
    rows,
    third,
    verb_form,
)
from langmem_adapter.text import is_cjk, refers_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langmem_adapter.statements.tables import Patterns, TableRow

LONGEST: Final = 200
"""Characters of the longest text that is read: what is longer is no short statement."""
KIND: Final = alternatives(frozenset(kind for kind in KINDS if not is_cjk(kind)))
"""English words for relatives, partners, friends and pets, as alternatives of a pattern."""
KIN: Final = alternatives(frozenset(kind for kind in KINDS if is_cjk(kind)))
"""The same in Chinese."""
_WORDS: Final = {"KIND": KIND, "KIN": KIN, "WHEN": WHEN, **{key: alternatives(listed) for key, listed in WORDS.items()}}
ENGLISH: Final = patterns("english", _WORDS)
"""Patterns of English statements."""
CHINESE: Final = patterns("chinese", _WORDS, flags=0)
"""Patterns of Chinese statements."""
_P, _C = ENGLISH, CHINESE
_BY_HEAD: Final[dict[str, list[TableRow]]] = defaultdict(list)
for _row in rows("english", _P.texts):
    for _head in _row.heads or ("",):
        _BY_HEAD[_head].append(_row)
_CHINESE_ROWS: Final = rows("chinese", _C.texts, flags=0)

_SAME: Final = dict(pair.split("=") for pair in WORDS["SAME"])
_KIN_RELATIONS: Final = dict(pair.split("=") for pair in WORDS["RELATIONS"])
_RELATIONS, _RELATIONS_CJK = (
    dict(pair.split("=") for pair in ATTRIBUTES[name]) for name in ("RELATIONS", "RELATIONS_CJK")
)
_STATES: Final = {"MARRIED": ("married", "已婚"), "ENGAGED": ("engaged", "订婚"), "DATING": ("dating", "恋爱")}
_AND: Final = ",? and |, | & "
_BE: Final = frozenset("is are am was were be been".split())
_LONGEST_NAME, _LONGEST_NAME_CJK, _LONGEST_OF_LIST = 6, 16, 6  # words, letters, letters
_SHORT: Final = {"m": " am", "re": " are", "ve": " have", "ll": " will", "d": " would"}
_BRACKETS: Final = re.compile(r" \((?!\d+\)).*\)$", re.DOTALL)
"""The end of a fact that is not read."""
_VERBS: Final = frozenset("Is Has Can Likes Loves Lives Works Name".split())


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
    """Whom a statement is about: as compared, as the graph names it (empty for a pronoun), and the person, if another."""

    key: str = ""
    name: str = SELF
    person: Person | None = None


class Predicate(NamedTuple):
    """A predicate in its one form, "live in Rome": whether it is affirmed, whether it is over, and when."""

    who: Subject
    text: str
    positive: bool = True
    ended: bool = False
    span: StatedSpan = StatedSpan()
    tense: str = "now"
    chinese: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """The parts of a statement.

    Attributes:
        subject: The person or thing, in small letters; empty for the speaker. Of a favourite or detail the noun.
        attribute: Of the row that reads it; empty where none does.
        value: What is said, as it is compared.
        positive: Whether it is affirmed; an end is not.
        ended: Whether it says that something is over.
        place: What it gives the one value of: an attribute of the speaker, "detail address", "family mother"; else empty.
        people: The people in it: the one it introduces, then its subject.
        relations: The relations that it plainly states.
    """

    subject: str = ""
    attribute: str = ""
    value: str = ""
    positive: bool = True
    ended: bool = False
    place: str = ""
    people: tuple[Person, ...] = ()
    relations: tuple[Triple, ...] = ()


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
        return Statement()
    forms = _chinese(bare) if in_chinese(bare) else _english(bare)
    readings = (
        _of_row(form, row, match)
        for form, table in forms
        for row in table
        if (match := row.pattern.fullmatch(form.text))
    )
    return next(filter(None, readings), Statement())


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


# ── rows: attribute, value, people, relations ───────────────────────────────────────────────────────────────────────────────


def _of_row(form: Predicate, row: TableRow, match: re.Match[str]) -> Statement | None:
    """What a row says, where its value is a plain one."""
    groups = {name: text.strip(" ,：:") for name, text in match.groupdict().items() if text}
    fits = _fits_chinese(form, row, groups) if form.chinese else _fits_english(form, row)
    if not fits or not _is_value(_C if form.chinese else _P, row.attribute, groups):
        return None
    ends, (key, name, person) = row.kind == "ends", form.who
    positive = form.positive and not ends and groups.get("count") != "no"
    form = form._replace(ended=form.ended or ends, positive=positive)
    statement = _of_kin(form, groups) if "kind" in groups else _of_attribute(form, row, groups)
    links = statement.relations
    if person and person.kind and person.name:
        links = (Triple(SELF, _has(person.kind), name, target_type=_type(person)), *links)
    return replace(
        statement,
        subject=f"{key} {statement.subject}".strip(),
        positive=form.positive,
        ended=form.ended,
        place="" if key else statement.place,
        people=(*statement.people, *filter(None, [person])),
        relations=tuple(dict.fromkeys(links)) if name else (),
    )


def _of_attribute(form: Predicate, row: TableRow, groups: Mapping[str, str]) -> Statement:
    attribute, v, noun = row.attribute, groups.get("v", ""), groups.get("n", "").lower().replace("colour", "color")
    if attribute == "age":
        digits = form.chinese or v.isdecimal()
        v = str(chinese_number(v) if digits else sum(NUMBERS[word] for word in re.split("[ -]", v.lower())))
    value = row.put.format_map({**groups, "v": v, "text": form.text}).strip() if row.put else v
    noun = noun.removesuffix("s") if attribute == "favorite" else noun
    single = attribute if attribute in ATTRIBUTES["SINGLE"] and row.kind != "touches" else ""
    place = f"{attribute} {noun}" if row.kind == "renews" else single
    return Statement(noun, attribute, value, place=place, relations=tuple(_edges(form, row, groups, value)))


def _of_kin(form: Predicate, groups: Mapping[str, str]) -> Statement:
    """A person or an animal: "Has a sister named Jesica", "Wife's name is Ann", 有两只猫."""
    kind, v = groups["kind"].lower(), groups.get("v", "")
    plain, names = _SAME.get(kind, kind), re.split(_AND, v)
    state = next((words[form.chinese] for key, words in _STATES.items() if kind in WORDS[key]), "")
    kinds = {"partner": bool(state), "pet": kind in WORDS["PETS"], "friend": kind in WORDS["FRIEND"], "family": True}
    attribute = next(name for name, fits in kinds.items() if fits)
    parts = (state, v) if state else (groups.get("count"), groups.get("quality"), plain, v)
    place = attribute if state else f"{attribute} {plain}" if v and plain in WORDS["ONE_OF"] else ""
    has, single = "有" if form.chinese else "has", False if names[1:] else None
    people = tuple(Person(kind, name) for name in names)
    link = Triple(form.who.name, has, kind, _type(form.who.person), _type(people[0]), ended=form.ended, single=single)
    links = tuple(replace(link, relation=_has(kind), target=name) if name else link for name in names)
    relations = links if form.positive or form.ended else ()
    return Statement("", attribute, " ".join(filter(None, parts)), place=place, people=people, relations=relations)


def _fits_english(form: Predicate, row: TableRow) -> bool:
    """Whether a wording is a statement of today: that something was so in the past is none."""
    head = form.text.partition(" ")[0]
    state = row.kind not in {"begins", "ends"} and head not in WORDS["EVENTS"]
    past = (form.tense == "past" and not form.ended) or (form.tense == "done" and not form.span.lasting)
    over = row.kind == "ends" and form.ended and head != "quit"
    habit = row.attribute == "habit" and (form.tense == "ing" or _P["NOT_SIMPLE"].search(form.text) is not None)
    return not (state and past) and not over and not habit


def _fits_chinese(form: Predicate, row: TableRow, groups: Mapping[str, str]) -> bool:
    once = form.text.endswith(("过", "了")) or ("when" not in groups and form.positive)
    return not (row.attribute == "habit" and not form.ended and once) and (row.attribute != "detail" or form.positive)


def _is_value(table: Patterns, attribute: str, groups: Mapping[str, str]) -> bool:
    """Whether the values are plain phrases, and of the attribute's form: a home is a place, an e-mail has an @."""
    v, form, odd = groups.get("v", ""), f"IS_{attribute.upper()}", f"NO_{attribute.upper()}"
    if any(table["NOT_SIMPLE"].search(groups[name]) for name in ("v", "job", "org") if name in groups):
        return False
    shaped = not v or form not in table.texts or table[form].fullmatch(v) is not None
    return shaped and (odd not in table.texts or table[odd].search(f"{groups.get('n', '')}|{v}") is None)


def _type(person: Person | None) -> str:
    kind = person.kind if person else ""
    return "" if not kind or kind in WORDS["PLURAL"] else "animal" if kind in WORDS["PETS"] else "person"


def _has(kind: str) -> str:
    plain = _SAME.get(kind, kind)
    return _KIN_RELATIONS.get(plain) or (f"有{plain}" if is_cjk(plain) else f"has_{plain.replace('-', '_')}")


def _edges(form: Predicate, row: TableRow, groups: Mapping[str, str], value: str) -> Iterator[Triple]:
    """The relations of the subject; what is denied has none, but dislikes."""
    denied, name, type_ = not form.positive and not form.ended, form.who.name, _type(form.who.person)
    begins = (row.kind == "begins" or row.attribute == "partner") and not form.ended
    since, until = form.span.bounds(over=form.ended, begins=begins)
    for edge, stated in _stated(form, row, groups, value):
        relation, _, kind = ("不喜欢" if form.chinese else "dislikes").partition(":") if denied else edge.partition(":")
        targets = _listed_in_chinese(stated) if form.chinese else _targets(stated, kind)
        single = False if targets[1:] else True if row.attribute == "favorite" else None
        for target in targets if not denied or (row.attribute == "like" and not form.span.partly) else ():
            if relation and (row.attribute == "favorite" or any(map(str.isalnum, target))):
                yield Triple(name, relation, target, type_, kind, since, until, ended=form.ended, single=single)


def _stated(form: Predicate, row: TableRow, groups: Mapping[str, str], value: str) -> Iterator[tuple[str, str]]:
    """The names of the relations, with the type of their targets, and what lists these."""
    names, v = _RELATIONS_CJK if form.chinese else _RELATIONS, groups.get("v", "")
    if row.attribute == "partner" and row.kind == "ends":
        return
    if row.attribute == "partner":
        state, _, name = value.partition(" ")
        yield (names[state], name) if name and state in names else (names["partner"], state)
    elif row.attribute == "favorite":
        noun = re.sub(r"\W+", "_", groups["n"].lower().replace("colour", "color"))
        yield f"{names['favorite']}{noun}", v
    elif row.attribute == "habit" and form.chinese:
        yield groups["verb"], v
    elif row.attribute == "habit":
        verb, _, tail = form.text.partition(" ")
        bare = re.split(" (?:with|for|on|at|in|before|after|by|from) ", f"{tail} ")[0].strip()
        yield third(verb) + ("_to" if bare.startswith("to ") else ""), bare.removeprefix("to ")
    else:
        yield names.get(row.attribute, ""), v
    for group, attribute in (("job", "job"), ("org", "employer")):
        if group in groups:
            yield names[attribute], groups[group]


def _targets(value: str, kind: str) -> tuple[str, ...]:
    """The things that an English value lists: one place, organization or person; none where it is not clear."""
    if kind == "date":
        return (value,) if is_date(value) else ()
    if kind in {"place", "organization", "person"}:
        name = _bare_noun(value)
        name = re.sub(r"^[a-z].* (?:of|in) (?=[A-Z])", "", name) if kind == "place" else name
        return () if len(name.split()) >= _LONGEST_NAME or re.search(r",(?! [A-Z])|[;:]", name) else (name,)
    plain = re.sub(r"\b(?:fluent|some|basic|good|a little) ", "", value.split(" over ", maxsplit=1)[0]).strip(" ,'")
    pieces = [_bare_noun(piece) for piece in re.split(r"\s*,\s*(?:and\s+)?|\s+(?:and|&)\s+", plain)]
    pair = len(pieces) == 2 and any(" " in piece for piece in pieces)  # noqa: PLR2004
    return () if pair else tuple(piece for piece in pieces if 0 < len(piece.split()) <= _LONGEST_NAME)


def _bare_noun(value: str) -> str:
    return re.sub(r"^(?:an?|the|my|our|some)\s+(?=\S)", "", value.strip(" ,;'\"“”").rstrip("."), flags=re.IGNORECASE)


def _listed_in_chinese(value: str) -> tuple[str, ...]:
    """The things of a list: 苹果、香蕉和梨; none where it is not clearly one of nouns."""
    value = re.sub("^[吃喝](?=..)", "", value)
    pieces = re.split("、|[，,]|和", value) if "、" in value else re.split("(?<=.)和(?=.)", value)
    if len(pieces) > 1 and any(len(piece) > _LONGEST_OF_LIST or "的" in piece for piece in pieces):
        return ()
    names = (re.sub("^[一1][个名位家间只条](?=..)", "", piece.strip(" 《》“”")) for piece in pieces)
    return tuple(name for name in names if 0 < len(name) <= _LONGEST_NAME_CJK)


# ── English: "Sister no longer lives in Rome" is about the sister, "live in Rome", and over ─────────────────────────────────


def _english(text: str) -> Iterator[tuple[Predicate, Sequence[TableRow]]]:
    """The forms in which a statement may be read, each with its rows: "Phone number is 555", then "Lives in Rome"."""
    plain = _P["SHORT_IS"].sub(r"\1 is ", expanded(text).rstrip(" .!…"))
    speaker = _P["SPEAKER"].match(plain)
    subjects = [(Subject(), plain[speaker.end() :])] if speaker else _subjects(_P["OWNER"].sub("", plain, count=1))
    for who, body in subjects:
        if _P["IS"].search(body):
            yield Predicate(who, _P["NOW"].sub("", body)), _BY_HEAD[""]
        verb, _, after = body.partition(" ")
        if who.name == SELF and not speaker and verb_form(verb)[1] == "base" and not _P["JOINED"].match(after):
            continue  # "Use this"
        form = _predicate(who, body)
        cut = (form.text, StatedSpan()) if form.text.startswith("be born") else timed(form.text)
        if cut:  # else it lies ahead
            yield form._replace(text=cut[0], span=cut[1]), _BY_HEAD.get(cut[0].partition(" ")[0], ())


def _subjects(plain: str) -> Iterator[tuple[Subject, str]]:
    """The subjects that a statement without "I" may have, each with its rest: the speaker, or who it opens with."""
    yield Subject(), plain
    match = _P["KIN"].match(plain) or _P["PRONOUN"].match(plain) or _P["NAMED"].match(plain)
    if match is None:
        return
    who, rest = match[0].strip().lower(), plain[match.end() :]
    if match.re is _P["KIN"]:
        kind, name = match["kind"].lower(), match["name"] or ""
        yield Subject((name or who).lower(), name or who, Person(kind, name)), rest
    elif match.re is _P["PRONOUN"]:
        yield Subject(who, ""), rest
    elif not verb_form(who)[0] and who not in TIME_WORDS and not _P["NO_NAME"].search(f"|{who}"):
        verb = rest.partition(" ")[0]
        if _P["FINITE"].fullmatch(verb) or verb_form(verb)[1] in {"now", "past"}:
            yield Subject(who, match["name"], Person("", match["name"])), rest


def _predicate(who: Subject, rest: str) -> Predicate:
    """A predicate in its one form."""
    text, over = _P["OVER"].subn("", rest)
    text = _bare(_P["NOW"].sub("", text))
    if match := _P["NO_LONGER"].match(text):
        text, over = f"{match['be'] or ''}{_bare(text[match.end() :])}", 1
    ended, positive = bool(over), not over
    if match := _P["STOPPED"].match(text):
        verb, _, after = text[match.end() :].partition(" ")
        base, tense = verb_form(verb)
        text = f"{base} {after}" if tense == "ing" else f"quit {verb} {after}"
        ended, positive = True, False
    elif match := _P["USED_TO"].match(text):
        text, ended, positive = text[match.end() :], True, False
    if match := _P["DENIED"].match(text):
        text, positive = f"{match['be'] or (match['hates'] and 'like ') or ''}{_bare(text[match.end() :])}", False
    text, tense = _lemma(text.strip())
    return Predicate(who, text, positive, ended, tense=tense)


def _bare(text: str) -> str:
    while (match := _P["ADVERB"].match(text)) is not None:
        text = text[match.end() :]
    return text


def _lemma(text: str) -> tuple[str, str]:
    """The predicate with its verb in the base form, and its tense: "now", "ing" (is living), "past" or "done" (has lived)."""
    head, _, rest = text.partition(" ")
    low, rest = head.lower(), _bare(rest)
    after, _, more = rest.partition(" ")
    base, tense = verb_form(after)
    if low in _BE:
        if tense == "ing" and low[0] != "w":
            return f"{base} {_bare(more)}".strip(), "ing"
        return f"be {rest}", "past" if low[0] == "w" and after != "born" else "now"
    if low in {"has", "have"}:
        if after == "been":
            return _lemma(f"is {more}")[0], "done"
        past = tense == "past" and after != "got" and after not in KINDS
        return (f"{base} {more}", "done") if past else (f"have {rest.removeprefix('got ')}", "now")
    base, tense = verb_form(low)
    return f"{base or low} {rest}".strip(), tense if tense in {"past", "ing"} else "now"


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
    base, tense = verb_form(verb)
    head, _, tail = rest.partition(" ")
    if verb in {"am", "are"}:
        rest = _bare(rest)
        if not denied and verb_form(rest.partition(" ")[0])[1] == "ing":
            return rest
        text = f"Is {'no longer' if gone else 'not'} {rest}" if denied else f"Is {rest}"
        return f"{text} years old" if re.fullmatch(rf"Is (?:\d{{1,3}}|{_P.texts['TENS']})", text) else text
    if verb == "do" and denied:
        return f"No longer {third(head) if verb_form(head)[0] else head} {tail}" if over else f"Doesn't {rest}"
    if verb in {"have", "cannot", "can", "used"} or (verb in {"was", "were"} and head == "born"):
        opening = {"have": "No longer has" if over else "Has", "cannot": "Can't", "were": "Was"}.get(verb, verb)
        return f"{opening} {after.removeprefix('got ')}"
    if tense in {"base", "past"} and verb not in {"was", "were", "had"}:
        quits = tense == "past" or verb in {"stop", "quit"}
        return f"{verb if quits else third(base)} {after}{' anymore' if over else ''}"
    return ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# ── Chinese: 姐姐不再住在罗马 is about the sister, 住在罗马, and over ─────────────────────────────────────────────────────────


def _chinese(text: str) -> Iterator[tuple[Predicate, Sequence[TableRow]]]:
    """The forms in which a statement may be read, each with its rows."""
    plain = text.strip().rstrip("。！!.~～；;，, ")
    if re.search("[？?]", plain):
        return
    body, span = (plain, StatedSpan()) if re.search("出生|生于|生日", plain) else chinese_span(plain)
    for who, rest in _subjects_in_chinese(_bare_cjk(re.sub(f"^{_C.texts['FRONT']}", "", body))):
        bare = _bare_cjk(rest)
        text, positive, ended = _sign(bare)
        text = _bare_cjk(text)
        form = Predicate(who, text, positive, ended, span, chinese=True)
        for short in dict.fromkeys((_C["END"].sub("", text) or text, text)):
            yield form._replace(text=short), _CHINESE_ROWS


def _bare_cjk(text: str) -> str:
    """A predicate without what says how or when."""
    while (match := re.match(f"{_C.texts['ADVERB']}|{WHEN}", text)) and match.end() < len(text):
        text = text[match.end() :].lstrip("，, ")
    return text


def _subjects_in_chinese(body: str) -> Iterator[tuple[Subject, str]]:
    """The subjects that the statement may have, each with its rest."""
    if match := _C["PRONOUN"].match(body):
        yield Subject(match["who"], ""), body[match.end() :]
        return
    kin = re.match(f"(?>{KIN})(?!的?名字)", body)
    word, rest = (kin[0], body[kin.end() :]) if kin else ("", body)
    named = _C["NAMED_ONE"].match(rest)
    if named and named.end() < len(rest):
        yield Subject(named[0].casefold(), named[0], Person(word, named[0])), rest[named.end() :].lstrip()
    if kin:
        yield Subject(_SAME.get(word, word), word, Person(word, "")), re.sub("^的", "", rest)
    yield Subject(), body


def _sign(body: str) -> tuple[str, bool, bool]:
    """What is affirmed, denied or over; whether it is affirmed; whether it is over."""
    for name, ended in (("OVER", True), ("DENIED", False)):
        if match := _C[name].fullmatch(body):
            (group, text), *_ = ((group, text) for group, text in match.groupdict().items() if text)
            verb = {"烟": "抽", "酒": "喝"}.get(text, "") if group == "x" else "" if ended or group != "w" else "喜欢"
            return f"有{text.removeprefix('有')}" if group == "h" else f"{verb}{text}", False, ended
    return body, True, False


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
