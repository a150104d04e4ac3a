"""Short Chinese statements, read by one table: 姐姐不再住在罗马 is about the sister, her home, Rome, and over.

Whose it is, and whether it is denied or over, is read off its front; the rest is one row of `tables/chinese.txt`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.dates import WHEN, StatedSpan, chinese_number, chinese_span
from langmem_adapter.statements.statement import LONGEST, Person, Predicate, Statement, Subject, edges
from langmem_adapter.statements.tables import TableRow, lists, patterns, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORDS: Final = lists("chinese-words")
_KINDS: Final = {
    word: kind.lower().removesuffix("s") for kind in ("PARTNER", "PETS", "FRIEND", "FAMILY") for word in _WORDS[kind]
}
KIN: Final = "|".join(sorted(_KINDS, key=len, reverse=True))
"""Words for people and animals whom one has, longest first, for use in a pattern."""
_GIVEN: Final = {"KIN": KIN, "WHEN": WHEN}
_P: Final = patterns("chinese", _GIVEN, flags=0)
_TABLE: Final = rows("chinese", _GIVEN, flags=0)
PARTS: Final = {**_GIVEN, "SURNAME": _P.texts["SURNAME"], "END_ZH": _P.texts["END"], "DATE": _P.texts["DATE"]}
"""Parts of patterns that other tables use."""
_NAMED: Final = re.compile(f"{_P.texts['LATIN']}|[小阿][\u4e00-\u9fff](?=住|在|喜|有|是|会|今|工|来|不|每|对)")
_RENEWED: Final = tuple(_WORDS["RENEWED"])
_SAME: Final = dict(pair.split("=") for pair in _WORDS["SAME"])
_LONGEST_OF_LIST, _LONGEST_NAME = 6, 16


def chinese_statement(text: str) -> Statement:
    """Take a Chinese statement apart, with or without 用户 or 我 in front.

    Example:
        >>> said = chinese_statement("姐姐不再住在罗马")
        >>> said.subject, said.attribute, said.value, said.ended
        ('姐姐', 'home', '罗马', True)
        >>> [(t.source, t.relation, t.target) for t in chinese_statement("妹妹小红住在罗马").relations]
        [('user', '有妹妹', '小红'), ('小红', '住在', '罗马')]
    """
    plain = text.strip().rstrip("。！!.~～；;，, ")
    if len(plain) > LONGEST or re.search("[？?]", plain):
        return Statement(text)
    body, span = (plain, StatedSpan()) if re.search("出生|生于|生日", plain) else chinese_span(plain)
    body = _bare(re.sub(f"^{_P.texts['FRONT']}", "", body))
    said = _naming(body, Subject()) or next((said for said in _each(body, span) if said.attribute), None)
    return replace(said, text=text) if said else Statement(text)


def _each(body: str, span: StatedSpan) -> Iterator[Statement]:
    for who, rest in _fronts(body):
        if rest.startswith("名字") and who.people and not who.people[0].name:
            continue
        if said := _naming(rest, who):
            yield said
        yield _said(_bare(rest), who, span)
    yield _said(body, Subject(), span)


def _bare(told: str) -> str:
    """A predicate without what says how or when."""
    while (found := re.match(f"{_P.texts['ADVERB']}|{WHEN}", told)) and found.end() < len(told):
        told = told[found.end() :].lstrip("，, ")
    return told


def _fronts(body: str) -> Iterator[tuple[Subject, str]]:
    """Whom the statement may open with, and what follows."""
    if found := _P["PRONOUN"].fullmatch(body):
        yield Subject(found["who"], ""), found["rest"]
        return
    kin = re.match(KIN, body)
    if kin is None:
        if (named := _NAMED.match(body)) and named.end() < len(body):
            yield Subject(named[0].casefold(), named[0], (Person("", named[0]),)), body[named.end() :].lstrip()
        return
    word, rest = kin[0], body[kin.end() :]
    named = _NAMED.match(rest)
    if named and named.end() < len(rest):
        name = named[0]
        link = Triple(SELF, _relation(word), name, target_type=_type(word))
        yield Subject(name.casefold(), name, (Person(word, name),), (link,), _type(word)), rest[named.end() :].lstrip()
    yield Subject(_SAME.get(word, word), word, (Person(word, ""),), (), _type(word)), re.sub("^的", "", rest)


def _type(kin: str) -> str:
    return "animal" if _KINDS[kin] == "pet" else "person"


def _relation(kin: str) -> str:
    plain = _SAME.get(kin, kin)
    return "结婚对象" if kin in _WORDS["MARRIED"] else plain if plain == "朋友" else f"有{plain}"


def _naming(body: str, owner: Subject) -> Statement | None:
    found = _P["NAMING"].fullmatch(body)
    return None if found is None else _called(owner, found["kin"], found["name"] or found["is"])


def _called(owner: Subject, kin: str, name: str, count: str = "") -> Statement:
    """Somebody whom the owner has: 姐姐叫Ann, 有一个叫Ann的姐姐, 有两只猫."""
    kind, plain = _KINDS[kin], _SAME.get(kin, kin)
    state = "已婚" if kin in _WORDS["MARRIED"] else "订婚" if kin.startswith("未婚") else "恋爱"
    value = " ".join(filter(None, (state, name) if kind == "partner" else (count, plain, name)))
    link = Triple(owner.name, _relation(kin) if name else "有", name or kin, owner.type, _type(kin))
    slot = f"{kind} {plain}" if name and plain in _WORDS["ONE_OF"] and not owner.key else ""
    people = (Person(kin, name or ""), *owner.people)
    relations = (*owner.implied, link) if owner.name else ()
    return Statement("", owner.key, kind, value, slot=slot, people=people, relations=relations)


def _said(body: str, who: Subject, span: StatedSpan) -> Statement:
    """What is said of somebody, by the first row that fits."""
    told, positive, ended = _sign(body)
    told = _bare(told)
    form = Predicate(who, told, positive, ended, ended and body.startswith(("不再", "已经不再")), span)
    if found := _P["HAS"].fullmatch(told.removesuffix("了")):
        count = re.sub(f"{_P.texts['MEASURES']}$", "", found["count"] or "")
        number = "" if count in {"", "一", "1"} else str(chinese_number(count))
        said = _called(who, found["kin"], found["before"] or found["after"] or "", number)
        links = tuple(replace(one, ended=ended) for one in said.relations if positive or ended)
        return replace(said, positive=positive, ended=ended, empty=form.empty, relations=links)
    short = _P["END"].sub("", told) or told
    pairs = ((row, row.pattern.fullmatch(short) or row.pattern.fullmatch(told)) for row in _TABLE)
    return next(filter(None, (_of_row(row, found, form) for row, found in pairs if found)), Statement(""))


def _sign(body: str) -> tuple[str, bool, bool]:
    """What is affirmed, denied or over; whether it is affirmed; whether it is over."""
    for name, ended in (("OVER", True), ("DENIED", False)):
        if found := _P[name].fullmatch(body):
            (group, text), *_ = ((name, text) for name, text in found.groupdict().items() if text)
            verb = {"烟": "抽", "酒": "喝"}.get(text, "") if group == "x" else "" if ended or group != "w" else "喜欢"
            return f"有{text.removeprefix('有')}" if group == "h" else f"{verb}{text}", False, ended
    return body, True, False


def _of_row(row: TableRow, found: re.Match[str], form: Predicate) -> Statement | None:
    """What a row says, where its value is a plain one."""
    groups = {name: text for name, text in found.groupdict().items() if text}
    value, who, ends, detail = (
        groups.get("v", "").strip(" ：:"),
        form.who,
        row.kind == "ends",
        row.attribute == "detail",
    )
    name, noun = f"NO_{row.attribute.upper()}", groups.get("n", "")
    odd = _P["NOT_SIMPLE"].search(value) or (name in _P.texts and _P[name].search(f"{noun}|{value}"))
    passing = (
        row.attribute == "habit"
        and not form.ended
        and (form.text.endswith(("过", "了")) or not ("when" in groups or not form.positive))
    )
    if odd or passing or (detail and not form.positive):
        return None
    form = form._replace(ended=form.ended or ends, positive=form.positive and not ends)
    new = (
        detail
        and not who.key
        and (noun.endswith(_RENEWED) or "fresh" in groups or re.search("变成|换成|改", groups["is"]))
    )
    if row.attribute == "age":
        value = str(chinese_number(value))
    return form.says(
        row.attribute,
        row.put.format_map({**groups, "v": value}) if row.put else value,
        noun,
        touches=row.kind == "touches",
        slot=f"detail {noun}" if new else "",
        people=who.people,
        relations=(*who.implied, *_edges(row, groups, form)) if who.name else (),
    )


def _edges(row: TableRow, groups: dict[str, str], form: Predicate) -> Iterator[Triple]:
    denied, like = not form.positive and not form.ended, row.attribute == "like"
    relation = f"{row.relation}{groups.get('n', '')}" if row.relation else groups.get("verb", "")
    if not relation or (denied and not like):
        return
    if old := groups.get("old"):
        since = form.span.held(over=form.ended, begins=row.kind == "begins")[0]
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
    return tuple(name for name in names if 0 < len(name) <= _LONGEST_NAME)


# ── first person to a memory ───────────────────────────────────────────────────────────────────────────────────────────────


def without_speaker(piece: str, *, goes_on: bool = False) -> str:
    """A piece of a sentence as it is remembered: 我住在北京 is 住在北京; empty where it is not about the speaker.

    Args:
        piece: What stands between two commas.
        goes_on: Whether the piece before it is about the speaker.

    Example:
        >>> without_speaker("我叫John"), without_speaker("我妈妈住在北京"), without_speaker("天气很好")
        ('名字是John', '妈妈住在北京', '')
    """
    plain = piece.strip().rstrip("啦哦呢呀吧。！!~～ ")
    if found := _P["CALLED"].fullmatch(plain):
        return f"名字是{found['v']}"
    if re.match("[他她它](?!们)", plain):
        return plain
    opening = re.match(f"(?:{WHEN}|现在|目前|如今)?(?:{_P.texts['FRONT']})", plain)
    if opening is None and not goes_on:
        return ""
    when = re.match(WHEN, plain) if opening else None
    rest = plain[opening.end() if opening else 0 :].lstrip("，, ")
    return (
        f"{when[0] if when else ''}{re.sub('^(?:(?:现在|目前|如今)的?|已经|其实|真的|刚刚?|终于)+', '', rest) or rest}"
    )
