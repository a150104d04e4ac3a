"""Chinese statements, taken apart by one table: 姐姐不再住在罗马 is about the sister, her home, Rome, and over.

Whose it is, when, and whether it is denied or over is read off its front; the rest is one row of `tables/chinese.txt`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.chinese_dates import WHEN, chinese_number, chinese_span
from langmem_adapter.statements.dates import StatedSpan
from langmem_adapter.statements.statement import LONGEST, SINGLE, Person, Statement, TableRow
from langmem_adapter.statements.tables import lists, patterns, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["KIN", "NAME", "bare", "chinese_statement"]

_KINDS: Final = {word: kind.lower() for kind, words in lists("chinese-words").items() for word in words}
KIN: Final = "|".join(sorted(_KINDS, key=len, reverse=True))
"""Words for people and animals whom one has, longest first, for use in a pattern."""

_GIVEN: Final = {
    "KIN": KIN,
    "WHEN": WHEN,
    "PET": "|".join(sorted(word for word, kind in _KINDS.items() if kind == "pet")),
}
_P: Final = patterns("chinese", _GIVEN, flags=0)
_TABLE: Final = rows("chinese", _GIVEN, flags=0)
NAME: Final = _P.texts["NAME"]
"""What is a person's name on its face: Anna, 王伟, 小红, 朵朵. Its group is `twice`."""

_WORDS: Final = lists("chinese-forms")
_SAME_KIN: Final = dict(pair.split("=") for pair in _WORDS["SAME"])


@dataclass(frozen=True, slots=True)
class _Who:
    """Whom a statement is about: as compared, as the graph names it (nobody for a pronoun), and what its front says."""

    key: str = ""
    name: str = SELF
    people: tuple[Person, ...] = ()
    implied: tuple[Triple, ...] = ()
    type: str = ""


def chinese_statement(text: str, known: frozenset[str] = frozenset()) -> Statement:
    """Take a Chinese statement apart, with or without 用户 or 我 in front.

    Args:
        text: Any text; what no row understands has no attribute.
        known: Names in small letters with which a statement may open.

    Example:
        >>> told = chinese_statement("姐姐不再住在罗马")
        >>> told.subject, told.attribute, told.value, told.ended
        ('姐姐', 'home', '罗马', True)
        >>> [(t.source, t.relation, t.target) for t in chinese_statement("妹妹小红住在罗马").relations]
        [('user', '有妹妹', '小红'), ('小红', '住在', '罗马')]
    """
    plain = _P["PLAIN_END"].sub("", text.strip())
    if len(plain) > LONGEST:
        return Statement(text)
    body, span = (plain, StatedSpan()) if _P["BIRTH"].search(plain) else chinese_span(plain)
    said = _about(bare(_P["MINE"].sub("", body, count=1)), _Who(), span, known)
    empty = said.ended and said.attribute in _WORDS["STATES"] and re.match(r".{0,8}?不再(?!养|租)", body) is not None
    met = tuple(Person("", found["name"]) for found in _P["MET"].finditer(body))
    relations = () if _P["UNSURE"].search(plain) else said.relations
    if said.subject.rpartition(" ")[2] in _WORDS["DAILY"] and _P["ON_A_DAY"].match(plain):
        said = replace(said, touches=True)  # 昨天打车上班: that day only
    return replace(said, text=text, empty=empty, people=said.people + met, relations=relations)


def bare(told: str) -> str:
    """A predicate without what says how or when.

    Example:
        >>> bare("现在一直住在罗马")
        '住在罗马'
    """
    while (found := _P["ADVERB"].match(told)) and found.end() < len(told):
        told = told[found.end() :].lstrip("，, ")
    return told


def _about(body: str, owner: _Who, span: StatedSpan, known: frozenset[str]) -> Statement:
    """A statement about *owner*, or about somebody of his whom it names first."""
    if naming := _P["NAMING"].fullmatch(body):
        kin, over = naming["kin"], Statement("", owner.key, positive=False, ended=True)
        said = _called(owner, kin, naming["name"] or naming["is"] or naming["to"])
        job = replace(over, subject=f"{owner.key} {_SAME_KIN.get(kin, kin)}".strip(), attribute="job")
        past = (replace(over, attribute=said.attribute, value=kin), job)  # whoever it was before
        return replace(said, also=said.also + past) if naming["to"] else said
    for who, rest, own in _fronts(body, owner, known):
        inner = own and rest.startswith(tuple(_KINDS))
        said = _about(rest, who, span, known) if inner else _said(bare(rest), who, span)
        if said.attribute or said.subject != who.key:
            return said
    return _said(body, owner, span)


def _fronts(body: str, owner: _Who, known: frozenset[str]) -> Iterator[tuple[_Who, str, bool]]:
    """Whom the statement may open with, what follows, and whether that is his."""
    if (found := _P["PRONOUN"].fullmatch(body)) and not owner.key:
        yield _Who(found["who"], ""), found["rest"], bool(found["own"])
        return
    if found := _P["KIN_FRONT"].fullmatch(body):
        kin, type_ = found["kin"], _type(found["kin"])
        if name := found["name"]:
            link = Triple(owner.name, _kin_relation(kin), name, target_type=type_)
            yield _Who(name.casefold(), name, (Person(kin, name),), (link,), type_), found["rest"], bool(found["own"])
        key = f"{owner.key} {_SAME_KIN.get(kin, kin)}".strip()
        whose = f"{owner.name}的{kin}" if owner.key and owner.name else kin if not owner.key else ""
        yield _Who(key, whose, (Person(kin, ""),), (), type_), *_owned(body[len(kin) :])
    name = next((body[: len(name)] for name in known if body.casefold().startswith(name)), "")
    found = None if name else _P["NAME_FRONT"].fullmatch(body)
    name = found["name"] if found else name
    if name and not owner.key and len(name) < len(body):
        yield _Who(name.casefold(), name, (Person("", name),)), *_owned(body[len(name) :])


def _owned(rest: str) -> tuple[str, bool]:
    return re.sub("^家?的(?!是|$)", "", rest), rest.startswith(("的", "家的"))


def _called(owner: _Who, kin: str, name: str, count: str = "") -> Statement:
    """Somebody whom the owner has: 姐姐叫Ann, 有一个叫Ann的姐姐, 有两只猫."""
    kind = _KINDS[kin]
    state = "已婚" if kin in _WORDS["MARRIED"] else "订婚" if kin.startswith("未婚") else "恋爱"
    value = f"{state} {name}" if kind == "partner" else f"{count} {_SAME_KIN.get(kin, kin)} {name}"
    targets = tuple(filter(_name, re.split("和|、", name))) if name else (kin,)
    link = Triple(owner.name, _kin_relation(kin) if name else "有", "", owner.type, _type(kin))
    single = False if len(targets) > 1 else None
    triples = tuple(replace(link, target=target, single=single) for target in targets if owner.name)
    people = (Person(kin, targets[0] if name and targets else ""), *owner.people)
    also: tuple[Statement, ...] = ()
    if kin in _WORDS["CHILDREN"]:
        pregnant = Statement("", owner.key, "health", "怀孕", positive=False, ended=True)
        also = (Statement("", owner.key, "family", "孩子"), pregnant)
    elif kind == "pet":
        also = (Statement("", owner.key, "pet", "宠物"),)
    said = Statement("", owner.key, kind, " ".join(value.split()), people=people, also=also)
    return replace(said, relations=owner.implied + triples)


def _said(body: str, who: _Who, span: StatedSpan) -> Statement:
    """What is said of somebody, by the first row that fits."""
    told, positive, ended = _sign(body)
    told = bare(told)
    if (found := _P["HAS"].fullmatch(told.removesuffix("了"))) and (found["after"] or not found["more"]):
        count = _value(f"{found['count']}个")[:-1].strip() if re.match(r"[^个名位只条]", found["count"]) else ""
        has = _called(who, found["kin"], found["before"] or found["after"] or "", count)
        triples = tuple(replace(one, ended=ended) for one in has.relations if positive or ended)
        return replace(has, positive=positive, ended=ended, relations=triples, also=has.also if positive else ())
    for row in _TABLE:
        if match := row.pattern.fullmatch(told.removesuffix("了")) or row.pattern.fullmatch(told):
            said = _of_row(row, match.groupdict(), who, span, positive=positive, ended=ended)
            plan = Statement("", who.key, "plan", told, positive=False, ended=True)  # 不去桂林了 ends 要去桂林
            return replace(said, also=(*said.also, plan)) if ended else said
    plain = positive and _P["STATE"].fullmatch(told) is not None
    kind, value = ("any", told) if ended else ("habit", told) if plain else ("", "")
    said = Statement("", who.key, kind, value, positive, ended, people=who.people, relations=who.implied)
    return replace(said, also=(replace(said, attribute="like"),)) if ended else replace(said, touches=plain)


def _sign(body: str) -> tuple[str, bool, bool]:
    """What is affirmed, denied or over; whether it is affirmed; whether it is over."""
    if found := _P["DENIED_WITHIN"].fullmatch(body):
        return found["v"] + re.sub("^[再了惯得]", "", found["w"]), False, found["w"].startswith("再")
    for name, ended in (("OVER", True), ("FORMER", True), ("DENIED", False)):
        if found := _P[name].fullmatch(body):
            told = found.groupdict()
            has = f"有{told['x'].removeprefix('有')}" if told.get("x") else ""
            hated = f"喜欢{told['w']}" if told.get("hates") else told.get("w") or ""
            return told.get("v") or told.get("u") or has or hated, False, ended
    return body, True, False


def _of_row(
    row: TableRow, groups: Mapping[str, str | None], who: _Who, span: StatedSpan, *, positive: bool, ended: bool
) -> Statement:
    attribute, value = row.attribute, _value(groups.get("v") or groups.get("w") or "")
    noun = groups.get("n") or (row.target if attribute in _WORDS["NAMED"] else "")
    if attribute == "employer" and _P["PLACES"].fullmatch(value):
        attribute, noun = "detail", "工作地点"
    elif attribute == "age":
        value = _digits(value)
    elif attribute == "pet":
        value = _SAME_KIN.get(value) or " ".join(re.split(rf"({KIN})", value, maxsplit=1)).strip()
    elif groups.get("verb"):
        sort = " " if not positive and _P["SORT"].fullmatch(groups["obj"] or "") else ""  # 不喝酒了 ends 喝啤酒
        value = f"{groups['verb']}{sort}{_counted(groups['obj'] or '')}"
    told = {name: group or "" for name, group in groups.items()} | {"v": value}
    also = tuple(replace(one, value=_value(one.value)) for one in row.others(who.key, told) if positive)
    if positive and attribute == "detail":  # 不用飞书了 and 电脑卖了 end what was said of them, whatever the noun
        also += (Statement("", who.key, "plan", f"{noun} {value}", touches=True),)
    ended = ended or row.kind == "ends" or bool(groups.get("was"))
    positive = positive and row.kind != "ends"
    triples = tuple(_triples(row, groups, who, span, value, positive=positive, ended=ended)) if who.name else ()
    about, value = f"{who.key} {noun}".strip(), row.put.format_map(told) if row.put else value
    said = Statement("", about, attribute, value, positive, ended and not positive, touches=row.kind == "touches")
    return replace(said, people=who.people, relations=who.implied + triples, also=also)


def _value(said: str) -> str:
    """A value as it is compared: no measure word before one thing, digits before several."""
    plain = _P["MEASURE"].sub("", said.strip(" ：:"), count=1)
    found = _P["COUNTED"].fullmatch(plain)
    if found and _P["MEASURES"].fullmatch(found["measure"]):
        return f"{_digits(found['number'])} {found['rest']}"
    return plain


def _counted(obj: str) -> str:
    """What a habit is about, with its count behind it: 一包烟 is 烟 1 包."""
    found = _P["COUNTED"].fullmatch(re.sub("^半(?=.)", "0.5", re.sub("^一(?=[^一样些点起直般定])", "1", obj)))
    return f"{found['rest'].removeprefix('的')} {_digits(found['number'])} {found['measure']}" if found else obj


def _digits(number: str) -> str:
    return str(chinese_number(number)) if re.fullmatch(r"\d+|[零一二两三四五六七八九十百]+", number) else number


def _triples(
    row: TableRow,
    groups: Mapping[str, str | None],
    who: _Who,
    span: StatedSpan,
    value: str,
    *,
    positive: bool,
    ended: bool,
) -> Iterator[Triple]:
    denied = not positive and not ended
    relation, targets = ("不喜欢", _listed(value)) if denied else _edges(row, groups, value)
    if denied and row.attribute != "like":
        return
    since, until = span.held(over=ended, begins=row.kind == "begins" and not ended)
    single = False if len(targets) > 1 and row.attribute in SINGLE else True if row.attribute in _WORDS["ONE"] else None
    kind = "" if row.attribute in _WORDS["NAMED"] else row.target
    link = Triple(who.name, relation, "", who.type, kind, valid_from=since, valid_to=until, ended=ended, single=single)
    for old in _places(groups.get("old") or groups.get("left") or ""):
        yield replace(link, target=old, valid_from=None, valid_to=since, ended=True)
    yield from (replace(link, target=name) for name in targets if relation and name)
    if job := _name(groups.get("job") or ""):
        yield replace(link, relation="职业", target=job, target_type="occupation")


def _edges(row: TableRow, groups: Mapping[str, str | None], value: str) -> tuple[str, tuple[str, ...]]:  # noqa: PLR0911 - a kind each
    """The relation that a row states, and the names of what is at its other end."""
    noun = groups.get("n") or ""
    match row.attribute:
        case "habit":
            return groups.get("verb") or "", _listed(_value(groups.get("obj") or ""))
        case "employer" if _P["PLACES"].fullmatch(value):
            return "工作地点", (value,) if len(value) > 1 and value not in {"家里", "外面"} else ()
        case "employer" | "school":
            return row.relation, () if re.search("[和上下]$|的", value) else (_name(value),)
        case "favorite":
            return f"{row.relation}{noun}", _listed(value)
        case "detail":
            return noun if noun in _WORDS["TOLD"] else "", (_name(value),)
        case "job" if value.endswith("生"):
            return "是", (_name(value),)
        case "own":
            return row.relation, tuple(name for name in _listed(value) if not _P["NO_OWN"].search(name))
    if row.target == "place":
        return row.relation, _places(value)
    return row.relation, (_name(value),) if row.target in {"person", "occupation", "date"} else _listed(value)


def _name(value: str, longest: int = 12) -> str:
    plain = value.strip(" '“”《》")
    fits = 0 < len(plain) <= longest if not plain.isascii() else re.fullmatch(r"[\w][\w .&'+#/@-]{0,40}", plain)
    return plain if fits and not _P["NO_THING"].search(plain) else ""


def _listed(value: str) -> tuple[str, ...]:
    """The things of a list; none where "and" joins what may be one (红色和蓝色的衣服)."""
    plain = _P["UNMEASURED"].sub("", value)
    joint = "、|[，,]|以及|和" if re.search("、|和", plain) else "以及"
    pieces = [plain] if _P["WHOLE"].search(plain) else re.split(joint, plain)
    if len(pieces) == 1:
        return tuple(filter(None, [_name(plain)]))
    longest = 4 if "，" in plain or "," in plain else 6  # behind a comma, a clause is near
    names = tuple(_name(_P["UNMEASURED"].sub("", piece), longest) for piece in pieces)
    return names if all(names) and not any("的" in name for name in names) else ()


def _places(value: str) -> tuple[str, ...]:
    names = _listed(value)
    return () if any(_P["NO_PLACE"].search(name) for name in names) else names


def _kin_relation(kin: str) -> str:
    plain = _SAME_KIN.get(kin, kin)
    return "结婚对象" if kin in _WORDS["MARRIED"] else plain if plain in {"朋友", "同事"} else f"有{plain}"


def _type(kin: str) -> str:
    return "animal" if _KINDS[kin] == "pet" else "person"
