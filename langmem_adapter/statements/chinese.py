"""Short Chinese statements, read by one table: 姐姐不再住在罗马 is about the sister, her home, Rome, and over.

Whose it is, and whether it is denied or over, is read off its front; the rest is one row of `tables/chinese.txt`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.chinese_dates import WHEN, chinese_number, chinese_span
from langmem_adapter.statements.dates import StatedSpan
from langmem_adapter.statements.statement import LONGEST, Person, Statement, TableRow
from langmem_adapter.statements.tables import lists, patterns, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KIN", "chinese_statement", "without_speaker"]

_WORDS: Final = lists("chinese-words")
_KINDS: Final = {word: kind.lower() for kind in ("PARTNER", "PET", "FRIEND", "FAMILY") for word in _WORDS[kind]}
KIN: Final = "|".join(sorted(_KINDS, key=len, reverse=True))
"""Words for people and animals whom one has, longest first, for use in a pattern."""
_GIVEN: Final = {"KIN": KIN, "WHEN": WHEN}
_P: Final = patterns("chinese", _GIVEN, flags=0)
_TABLE: Final = rows("chinese", _GIVEN, flags=0)
_NAMED: Final = re.compile(f"{_P.texts['LATIN']}|[小阿][\u4e00-\u9fff](?=住|在|喜|有|是|会|今|工|来|不|每|对)")
_SAME: Final = dict(pair.split("=") for pair in _WORDS["SAME"])
_HABIT: Final = re.compile(
    "(?P<when>(?:每天|每周|每晚|每个?月|经常|常常|天天|平时)[^喝吃抽玩看听练打踢跑骑弹唱画学开戴追]{0,6})?(?P<verb>[喝吃抽玩练打踢跑骑弹唱画戴]|学|开)(?P<obj>[^，,。]{1,10})"
)


@dataclass(frozen=True, slots=True)
class _Who:
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
    empty = ended and body.startswith(("不再", "已经不再"))
    if found := _P["HAS"].fullmatch(told.removesuffix("了")):
        count = re.sub(f"{_P.texts['MEASURES']}$", "", found["count"] or "")
        said = _called(
            who,
            found["kin"],
            found["before"] or found["after"] or "",
            "" if count in {"", "一", "1"} else str(chinese_number(count)),
        )
        edges = tuple(replace(one, ended=ended) for one in said.relations if positive or ended)
        return replace(said, positive=positive, ended=ended, empty=empty, relations=edges)
    for row in _TABLE:
        if match := row.pattern.fullmatch(told.removesuffix("了")) or row.pattern.fullmatch(told):
            groups = {name: text for name, text in match.groupdict().items() if text}
            if _is_value(row, groups.get("v", "")):
                said = _of_row(row, groups, who, span, positive=positive, ended=ended)
                return replace(said, empty=empty and said.ended)
            return Statement("")
    return replace(
        _habit(told, who, positive=positive, ended=ended) or _detail(told, who, positive=positive), empty=empty
    )


def _sign(body: str) -> tuple[str, bool, bool]:
    """What is affirmed, denied or over; whether it is affirmed; whether it is over."""
    for name, ended in (("OVER", True), ("DENIED", False)):
        if found := _P[name].fullmatch(body):
            parts = found.groupdict()
            quit_ = {"烟": "抽烟", "酒": "喝酒"}.get(parts.get("x") or "", parts.get("x") or "")
            hated = f"喜欢{parts['w']}" if name == "DENIED" and parts["w"] else parts["w"]
            has = f"有{parts['h'].removeprefix('有')}" if parts["h"] else ""
            return parts["v"] or hated or quit_ or has, False, ended
    return body, True, False


def _is_value(row: TableRow, value: str) -> bool:
    if not value:
        return True
    if _P["NOT_SIMPLE"].search(value) or (
        row.attribute not in {"like", "favorite"} and "的" in value and len(value) > 10
    ):  # noqa: PLR2004 - a clause
        return False
    if row.attribute == "home":
        return _P["NO_HOME"].search(value) is None
    if row.attribute == "job" and row.kind == "touches":
        return _P["NO_TRADE"].search(value) is None and len(value) <= 10  # noqa: PLR2004 - a trade
    return not (row.attribute == "origin" and value[-1] in "男女好本别老年轻")


def _of_row(
    row: TableRow, groups: dict[str, str], who: _Who, span: StatedSpan, *, positive: bool, ended: bool
) -> Statement:
    value, noun = (
        groups.get("v", "").strip(" ：:"),
        groups.get("n", "") or (row.target if row.attribute == "detail" else ""),
    )
    ended = ended or row.kind == "ends"
    positive = positive and row.kind != "ends"
    compared = str(chinese_number(value)) if row.attribute == "age" else row.put.format(v=value) if row.put else value
    edges = tuple(_edges(row, groups, who, span, positive=positive, ended=ended)) if who.name else ()
    return Statement(
        "",
        f"{who.key} {noun}".strip(),
        row.attribute,
        compared,
        positive,
        ended,
        touches=row.kind == "touches",
        people=who.people,
        relations=(*who.implied, *edges),
    )


def _edges(
    row: TableRow, groups: dict[str, str], who: _Who, span: StatedSpan, *, positive: bool, ended: bool
) -> Iterator[Triple]:
    denied = not positive and not ended
    relation = "不喜欢" if denied and row.attribute == "like" else f"{row.relation}{groups.get('n', '')}"
    if not row.relation or (denied and row.attribute != "like"):
        return
    since, until = span.held(over=ended, begins=row.kind == "begins" and not ended)
    link = Triple(who.name, relation, "", who.type, row.target, valid_from=since, valid_to=until, ended=ended)
    if old := groups.get("old"):
        yield replace(link, target=old, valid_from=None, valid_to=since, ended=True)
    value = re.sub("^[吃喝](?=..)", "", groups.get("v", "")) if row.attribute == "like" else groups.get("v", "")
    yield from (replace(link, target=name) for name in _listed(value))


def _listed(value: str) -> tuple[str, ...]:
    """The things of a list: 苹果、香蕉和梨."""
    pieces = re.split("、|[，,]|和", value) if "、" in value else re.split("(?<=.)和(?=.)", value)
    whole = len(pieces) > 1 and any(len(piece) > 6 or "的" in piece for piece in pieces)  # noqa: PLR2004 - what is listed is named shortly
    return (
        ()
        if whole
        else tuple(
            re.sub("^[一1](?=[个名位家间只条]..)[个名位家间只条]", "", piece.strip(" 《》“”"))
            for piece in pieces
            if 0 < len(piece.strip()) <= 16
        )
    )  # noqa: PLR2004 - a name


def _habit(told: str, who: _Who, *, positive: bool, ended: bool) -> Statement | None:
    """What somebody does again and again (每天喝咖啡), or no more (不喝咖啡了)."""
    found = _HABIT.fullmatch(told.removesuffix("了"))
    plain = found and not told.endswith(("过", "了")) and not _P["NOT_SIMPLE"].search(found["obj"])
    if found is None or not (plain or ended) or not (found["when"] or not positive):
        return None
    triple = Triple(who.name, found["verb"], found["obj"], who.type, ended=ended)
    edges = (triple,) if who.name and (positive or ended) else ()
    value = f"{found['verb']} {found['obj']}"
    return Statement("", who.key, "habit", value, positive, ended, people=who.people, relations=(*who.implied, *edges))


def _detail(told: str, who: _Who, *, positive: bool) -> Statement:
    """What is said of something of the speaker's: 血型是A-; of a closed list, or where it is new, the value is the only one."""
    found = re.fullmatch(
        f"(?P<fresh>新的?)?(?P<n>[^，,的是]{{1,8}}?)(?P<is>{_P.texts['IS']})(?P<v>[^，,。；;]{{1,30}})", told
    )
    if (
        found is None
        or not positive
        or found["v"].startswith("否")
        or _P["NO_NOUN"].search(found["n"])
        or _P["NOT_SIMPLE"].search(found["v"])
    ):
        return Statement("")
    about = f"{who.key} {found['n']}".strip()
    single = not who.key and (
        found["n"] in _WORDS["RENEWED"] or found["fresh"] or re.search("变成|换成|改", found["is"])
    )
    return Statement("", about, "detail", found["v"], slot=f"detail {about}" if single else "", people=who.people)


# ── first person to a memory ───────────────────────────────────────────────────────────────────────────────────────────────

_CALLED: Final = re.compile(
    f"(?:我叫|我的名字(?:叫做?|是)|叫我)(?P<v>{_P.texts['LATIN']}|[^，,。的]{{1,6}}?)(?:就行|就好|吧)?"
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
    opening = re.match(f"(?:{WHEN})?(?:{_P.texts['FRONT']})", plain)
    if opening is None:
        return plain if goes_on else ""
    when = re.match(WHEN, plain)
    rest = plain[opening.end() :].lstrip("，, ")
    return f"{when[0] if when else ''}{_without_now(rest)}"


def _without_now(rest: str) -> str:
    return re.sub("^(?:现在|目前|如今|已经|其实|真的|刚刚?|终于)+", "", rest) or rest
