"""Short Chinese statements, read by one table: 姐姐不再住在罗马 is about the sister, her home, Rome, and over.

Whose it is, and whether it is denied or over, is read off its front; the rest is one row of `tables/chinese.txt`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.chinese_dates import WHEN, chinese_number, chinese_span
from langmem_adapter.statements.dates import StatedSpan
from langmem_adapter.statements.statement import LONGEST, Person, Statement, TableRow
from langmem_adapter.statements.tables import lists, patterns, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KIN", "chinese_statement", "without_speaker"]

_WORDS: Final = lists("chinese-words")
_KINDS: Final = {
    word: kind.lower().removesuffix("s") for kind in ("PARTNER", "PETS", "FRIEND", "FAMILY") for word in _WORDS[kind]
}
KIN: Final = "|".join(sorted(_KINDS, key=len, reverse=True))
"""Words for people and animals whom one has, longest first, for use in a pattern."""
_GIVEN: Final = {"KIN": KIN, "WHEN": WHEN}
_P: Final = patterns("chinese", _GIVEN, flags=0)
_TABLE: Final = rows("chinese", _GIVEN, flags=0)
_NAMED: Final = re.compile(f"{_P.texts['LATIN']}|[小阿][\u4e00-\u9fff](?=住|在|喜|有|是|会|今|工|来|不|每|对)")
_SAME: Final = dict(pair.split("=") for pair in _WORDS["SAME"])
_LONGEST_OF_LIST, _LONGEST_NAME = 6, 16


class _Who(NamedTuple):
    """Whom a statement is about: as compared, as the graph names it (empty for a pronoun), and what its front says."""

    key: str = ""
    name: str = SELF
    people: tuple[Person, ...] = ()
    implied: tuple[Triple, ...] = ()
    type: str = ""


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
    said = _naming(body, _Who()) or next((said for said in _each(body, span) if said.attribute), None)
    return replace(said, text=text) if said else Statement(text)


def _each(body: str, span: StatedSpan) -> Iterator[Statement]:
    for who, rest in _fronts(body):
        if rest.startswith("名字") and who.people and not who.people[0].name:
            continue
        if said := _naming(rest, who):
            yield said
        yield _said(_bare(rest), who, span)
    yield _said(body, _Who(), span)


def _bare(told: str) -> str:
    """A predicate without what says how or when."""
    while (found := re.match(f"{_P.texts['ADVERB']}|{WHEN}", told)) and found.end() < len(told):
        told = told[found.end() :].lstrip("，, ")
    return told


def _fronts(body: str) -> Iterator[tuple[_Who, str]]:
    """Whom the statement may open with, and what follows."""
    if found := _P["PRONOUN"].fullmatch(body):
        yield _Who(found["who"], ""), found["rest"]
        return
    kin = re.match(KIN, body)
    if kin is None:
        if (named := _NAMED.match(body)) and named.end() < len(body):
            yield _Who(named[0].casefold(), named[0], (Person("", named[0]),)), body[named.end() :].lstrip()
        return
    word, rest = kin[0], body[kin.end() :]
    named = _NAMED.match(rest)
    if named and named.end() < len(rest):
        name = named[0]
        link = Triple(SELF, _relation(word), name, target_type=_type(word))
        yield _Who(name.casefold(), name, (Person(word, name),), (link,), _type(word)), rest[named.end() :].lstrip()
    yield _Who(_SAME.get(word, word), word, (Person(word, ""),), (), _type(word)), re.sub("^的", "", rest)


def _type(kin: str) -> str:
    return "animal" if _KINDS[kin] == "pet" else "person"


def _relation(kin: str) -> str:
    plain = _SAME.get(kin, kin)
    return "结婚对象" if kin in _WORDS["MARRIED"] else plain if plain == "朋友" else f"有{plain}"


def _naming(body: str, owner: _Who) -> Statement | None:
    found = _P["NAMING"].fullmatch(body)
    return None if found is None else _called(owner, found["kin"], found["name"] or found["is"])


def _called(owner: _Who, kin: str, name: str, count: str = "") -> Statement:
    """Somebody whom the owner has: 姐姐叫Ann, 有一个叫Ann的姐姐, 有两只猫."""
    kind, plain = _KINDS[kin], _SAME.get(kin, kin)
    state = "已婚" if kin in _WORDS["MARRIED"] else "订婚" if kin.startswith("未婚") else "恋爱"
    value = " ".join(filter(None, (state, name) if kind == "partner" else (count, plain, name)))
    link = Triple(owner.name, _relation(kin) if name else "有", name or kin, owner.type, _type(kin))
    slot = f"{kind} {plain}" if name and plain in _WORDS["ONE_OF"] and not owner.key else ""
    people = (Person(kin, name or ""), *owner.people)
    relations = (*owner.implied, link) if owner.name else ()
    return Statement("", owner.key, kind, value, slot=slot, people=people, relations=relations)


def _said(body: str, who: _Who, span: StatedSpan) -> Statement:
    """What is said of somebody, by the first row that fits."""
    told, positive, ended = _sign(body)
    told = _bare(told)
    held = _Held(who, span, positive, ended)
    if found := _P["HAS"].fullmatch(told.removesuffix("了")):
        count = re.sub(f"{_P.texts['MEASURES']}$", "", found["count"] or "")
        number = "" if count in {"", "一", "1"} else str(chinese_number(count))
        said = _called(who, found["kin"], found["before"] or found["after"] or "", number)
        edges = tuple(replace(one, ended=ended) for one in said.relations if positive or ended)
        said = replace(said, positive=positive, ended=ended, relations=edges)
    else:
        pairs = ((row, row.pattern.fullmatch(told.removesuffix("了")) or row.pattern.fullmatch(told)) for row in _TABLE)
        read = (_of_row(row, found, held, told) for row, found in pairs if found)
        said = next((said for said in read if said.attribute), Statement(""))
    return replace(said, empty=said.ended and body.startswith(("不再", "已经不再")))


def _sign(body: str) -> tuple[str, bool, bool]:
    """What is affirmed, denied or over; whether it is affirmed; whether it is over."""
    for name, ended in (("OVER", True), ("DENIED", False)):
        if found := _P[name].fullmatch(body):
            parts = {name: text for name, text in found.groupdict().items() if text}
            put = {
                "w": "{}" if ended else "喜欢{}",
                "h": "有{}",
                "x": {"烟": "抽{}", "酒": "喝{}"}.get(parts.get("x", ""), "{}"),
            }
            (group, text), *_ = parts.items()
            return put.get(group, "{}").format(text.removeprefix("有") if group == "h" else text), False, ended
    return body, True, False


class _Held(NamedTuple):
    """What holds of every statement that some words make."""

    who: _Who
    span: StatedSpan
    positive: bool
    ended: bool


def _of_row(row: TableRow, found: re.Match[str], held: _Held, told: str) -> Statement:
    """What a row says, where its value is a plain one."""
    groups = {name: text for name, text in found.groupdict().items() if text}
    value, who, ends = groups.get("v", "").strip(" ：:"), held.who, row.kind == "ends"
    name = f"NO_{row.attribute.upper()}"
    odd = _P["NOT_SIMPLE"].search(value) or (name in _P.texts and _P[name].search(f"{groups.get('n', '')}|{value}"))
    passing = (
        row.attribute == "habit"
        and not held.ended
        and (told.endswith(("过", "了")) or not ("when" in groups or not held.positive))
    )
    if odd or passing or (row.attribute == "detail" and not held.positive):
        return Statement("")
    held = held._replace(ended=held.ended or ends, positive=held.positive and not ends)
    noun = groups.get("n", row.target if row.attribute == "detail" else "")
    about = f"{who.key} {noun}".strip()
    new = not who.key and (
        noun in _WORDS["RENEWED"] or "fresh" in groups or re.search("变成|换成|改", groups.get("is", ""))
    )
    return Statement(
        "",
        about,
        row.attribute,
        str(chinese_number(value))
        if row.attribute == "age"
        else row.put.format_map({**groups, "v": value})
        if row.put
        else value,
        held.positive,
        held.ended,
        touches=row.kind == "touches",
        slot=f"detail {about}" if row.attribute == "detail" and new else "",
        people=who.people,
        relations=(*who.implied, *_edges(row, groups, held)) if who.name else (),
    )


def _edges(row: TableRow, groups: dict[str, str], held: _Held) -> Iterator[Triple]:
    denied, like = not held.positive and not held.ended, row.attribute == "like"
    relation = (
        "不喜欢"
        if denied and like
        else f"{row.relation}{groups.get('n', '')}"
        if row.relation
        else groups.get("verb", "")
    )
    if not relation or (denied and not like):
        return
    since, until = held.span.held(over=held.ended, begins=row.kind == "begins" and not held.ended)
    who = held.who
    link = Triple(who.name, relation, "", who.type, row.target, valid_from=since, valid_to=until, ended=held.ended)
    if old := groups.get("old"):
        yield replace(link, target=old, valid_from=None, valid_to=since, ended=True)
    value = groups.get("v", "")
    yield from (replace(link, target=name) for name in _listed(re.sub("^[吃喝](?=..)", "", value) if like else value))


def _listed(value: str) -> tuple[str, ...]:
    """The things of a list: 苹果、香蕉和梨; none where it is not clearly one of nouns."""
    pieces = re.split("、|[，,]|和", value) if "、" in value else re.split("(?<=.)和(?=.)", value)
    if len(pieces) > 1 and any(len(piece) > _LONGEST_OF_LIST or "的" in piece for piece in pieces):
        return ()
    names = (re.sub("^[一1][个名位家间只条](?=..)", "", piece.strip(" 《》“”")) for piece in pieces)
    return tuple(name for name in names if 0 < len(name) <= _LONGEST_NAME)


# ── first person to a memory ───────────────────────────────────────────────────────────────────────────────────────────────

_CALLED: Final = re.compile(
    "(?:现在|以后|你|您|大家|可以|请|就|都){0,4}(?:我(?:现在)?(?:改名)?叫|我的名字(?:叫做?|是)|叫我(?![起一早去来吃过帮做看别快明今给出回怎什]))(?![车外他她你人不醒了])"
    f"(?P<v>{_P.texts['LATIN']}|[^，,。的]{{1,6}}?)(?:就行|就好|吧|了)?"
)


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
    if found := _CALLED.fullmatch(plain):
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
