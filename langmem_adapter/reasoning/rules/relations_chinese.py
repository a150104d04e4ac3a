"""Relations in short Chinese statements: 妹妹小红住在罗马 is about 小红, 罗马, and whose sister she is.

The statement is taken apart by `chinese_statement`; its attribute becomes a Chinese relation (住在, 工作于, 喜欢), its
value the names of things. A value that is a clause, too long, or not of the kind that the relation needs makes it unread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from langmem_adapter.statements.chinese import KIN
from langmem_adapter.reasoning.rules.meaning_chinese import chinese_statement
from langmem_adapter.reasoning.rules.relations_triples import Link, Span, triples
from langmem_adapter.reasoning.rules.words import PETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langmem_adapter.reasoning.rules.meaning import Statement
    from langmem_adapter.records.graph import Triple

__all__ = ["chinese_relations"]

_LONGEST: Final = 12  # letters; what takes more is no name
_LONGEST_LISTED: Final = 6

_UNSURE: Final = re.compile(
    r"[？?；;“”\"]|如果|要是|也许|或许|可能|大概|好像|似乎|据说|听说|差点|想(?!象)|打算|计划|准备|希望|即将|将要|将会|(?:^|[^主重需])要"
    r"(?:去|搬|参加|结婚|考|开始|出差|飞|回|学|买|在|住|当|做|养)|明天|后天|下周|下个?月|明年|是不是|有没有|除了|偶尔|很少|几乎"
)
_DATE: Final = r"(?:19|20)\d{2}年(?:\d{1,2}月(?:份|\d{1,2}[日号])?)?"
_FROM_TO: Final = re.compile(rf"[，,]?(?:从|自)?(?P<since>{_DATE})(?:到|至)(?P<until>{_DATE})(?:期间|之间)?[，,]?")
_SINCE: Final = re.compile(
    rf"[，,]?(?:(?:自从|自|从)(?P<since>{_DATE})|(?P<then>{_DATE})(?=起|开始|以来|至今))(?:起|开始|以来|之后|后|至今)*[，,]?(?:就|一直)*"
)
_AT: Final = re.compile(rf"[，,]?(?:在|于)?(?P<at>{_DATE})[，,]?")
_HABIT: Final = re.compile(
    r"每(?:天|周|年|晚|早|个?月|个?周末)(?:早上|晚上|都)?|(?:在)?周[一二三四五六日末](?:都|会)?|早上|晚上|平时|经常|常常|有时候?"
)
_FORMER: Final = re.compile(r"以前|曾经|曾|过去(?!的)|原先|之前|小时候")
_WORKED: Final = re.compile(r"(?<=工作|上班|任职)过$")
_BIRTH: Final = re.compile(r"出生|生于|生日")

_PREDICATE: Final = (
    r"(?:住在|居住在|搬到|来自|出生|喜欢|热爱|爱吃|爱喝|讨厌|不喜欢|不再|不吃|是(?!的)|有(?!没)|养了|养着|今年|对.+过敏|会(?:说|讲|弹)|就职于|任职于"
    r"|在.+(?:工作|上班|任职)|以前|曾|已婚|单身|\d{1,3}岁)"
)
_NO_NAME: Final = (
    "也还都一其就只刚已很非特十超比挺现目通总经常平从最仍依和跟与同真正曾以原过后今明昨每周上"
    "下去不没有是在会能可应要想说爱对将再又更越大工身生个家男女名年的"
)
_LATIN: Final = r"[A-Z][A-Za-z.'-]*(?: [A-Z][A-Za-z.'-]*)*"
_FRIENDS: Final = "好朋友|朋友|同事|老板|室友|邻居|同学"
_KIN_NAMED: Final = re.compile(
    rf"(?P<kin>(?>{KIN}|{_FRIENDS}))(?P<name>{_LATIN}|(?![{_NO_NAME}])[\u4e00-\u9fff]{{2,3}}?)(?P<rest>{_PREDICATE}.*)"
)
_SPOUSES: Final = frozenset("妻子 老婆 太太 丈夫 老公 先生".split())
_SAME_KIN: Final = {
    "妈妈": "母亲", "爸爸": "父亲", "姐": "姐姐", "妹": "妹妹", "哥": "哥哥", "弟": "弟弟", "小狗": "狗", "狗狗": "狗",
    "小猫": "猫", "猫咪": "猫", "女友": "女朋友", "男友": "男朋友", "好朋友": "朋友",
}  # fmt: skip
_ANIMALS: Final = frozenset(word for word in PETS if not word.isascii() and word != "车")


@dataclass(frozen=True, slots=True)
class _Told:
    """A statement ready to be read: who is meant, whose sister that is, and what is said without times."""

    said: Statement
    text: str
    source: str
    kin: str
    owner: str
    over: bool

    @property
    def value(self) -> str:
        return self.said.value


def chinese_relations(text: str, speaker: str, known: frozenset[str] = frozenset()) -> tuple[Triple, ...]:
    """What a Chinese statement says of things.

    Args:
        text: A fact as the rules word it: "在腾讯工作".
        speaker: Who is meant where nobody is named.
        known: Names of people and animals in lower case, with which a statement may open.

    Example:
        >>> [(t.source, t.relation, t.target) for t in chinese_relations("妹妹小红住在罗马", "user")]
        [('user', '有妹妹', '小红'), ('小红', '住在', '罗马')]
    """
    plain = re.sub(r"[\s。！!.~～]+$", "", text.strip())
    if _UNSURE.search(plain):
        return ()
    body, span = _timed(plain)
    name, body, implied = _opened(body, speaker, known)
    told = _told(body, name or speaker, named=bool(name))
    if told is None:
        return ()
    source_type = "person" if implied else _kind(told.kin)
    return tuple(
        triple
        for link in (*implied, *_links(told, partly=span.partly))
        for triple in triples(told.source, source_type, link, span)
    )


def _timed(plain: str) -> tuple[str, Span]:
    """The statement without times, and those."""
    if _BIRTH.search(plain):
        return plain, Span()
    dates: dict[str, datetime | None] = {}
    for pattern in (_FROM_TO, _SINCE, _AT):
        if found := pattern.search(plain):
            dates |= {name: _day(value) for name, value in found.groupdict().items() if value}
            plain = plain[: found.start()] + plain[found.end() :]
    body = _HABIT.sub("", plain)
    since = dates.get("since") or dates.get("then")
    return body, Span(since, dates.get("until"), dates.get("at"), partly=body != plain)


def _day(text: str) -> datetime | None:
    year, month, number = (*map(int, re.findall(r"\d+", text)), 1, 1)[:3]
    try:
        return datetime(year, month, number, tzinfo=UTC)
    except ValueError:  # 2月30日: said, but no date
        return None


# ── whom it is about ────────────────────────────────────────────────────────────────────────────────────────────────────


def _opened(body: str, speaker: str, known: frozenset[str]) -> tuple[str, str, tuple[Link, ...]]:
    """The name with which a statement opens, what follows it, and what a word of kin before it says."""
    plain = re.sub(r"^(?:用户|我)的?", "", body)
    if found := _KIN_NAMED.fullmatch(plain):
        link = Link(_kin_relation(found["kin"]), (found["name"],), _kind(found["kin"]), source=speaker)
        return found["name"], found["rest"], (link,)
    name = next((name for name in sorted(known, key=len, reverse=True) if plain.casefold().startswith(name)), "")
    return plain[: len(name)], plain[len(name) :], ()


def _told(body: str, source: str, *, named: bool) -> _Told | None:
    now = _WORKED.sub("", _FORMER.sub("", body, count=1))
    said = chinese_statement(now)
    over = now != body or (said.ended and not said.positive)
    first, _, inner = said.subject.partition(" ")
    if not first:
        return _Told(said, body, source, "", "", over)
    place = body.casefold().find(first)
    who = body[place : place + len(first)]
    if inner or place < 0:
        kin = inner if re.fullmatch(KIN, inner) else ""
        return _Told(said, body, f"{who}的{inner}", kin, who, over) if kin and not named else None
    kin = who if re.fullmatch(rf"{KIN}|{_FRIENDS}", who) else ""
    if named:  # 小红的狗
        return _Told(said, body, f"{source}的{who}", kin, source, over) if body.startswith("的") and kin else None
    return _Told(said, body, who, kin, source if kin else "", over)


def _kind(kin: str) -> str:
    return "animal" if kin in _ANIMALS else "person" if kin and kin not in {"车", "宠物"} else ""


def _kin_relation(kin: str) -> str:
    plain = _SAME_KIN.get(kin, kin)
    if plain in _SPOUSES:
        return "结婚对象"
    return plain if plain in {"朋友", "同事"} else f"有{plain}"


# ── names of things ─────────────────────────────────────────────────────────────────────────────────────────────────────

_CLAUSE: Final = re.compile(
    r"[，,。！!：:（）()《》\n]|[我你您他她它]|什么|怎么|因为|但是|但|时候|一切|所有|东西|这|那|每|起来|不|没|^(?:在|和|跟|叫|名叫|把|被|给|让|用来|到|得|上了|过|了|来|去了|于"
    r"|完|见|的|一起|自己)|(?:的|了|着|过|得|们|后|前|时)$"
)
_WHOLE: Final = re.compile(r"和平|和服|温和|和尚|共和|随和|和谐|饱和|柔和|和牛|和面|大和")
_MEASURES: Final = "个名位只条支辆台套本间家匹头口把张件部门"
_NUMBERED: Final = re.compile(
    rf"^(?:[两二三四五六七八九十\d]+ |[一两二三四五六七八九十\d]+[{_MEASURES}]|一些|一点点?|流利的|几[{_MEASURES}])(?=.)"
)
_JOINTS: Final = re.compile(r"、|[，,]|以及|和")


def _name(value: str, longest: int = _LONGEST) -> str:
    plain = value.strip(" '“”《》")
    fits = 0 < len(plain) <= longest if not plain.isascii() else bool(re.fullmatch(r"[\w][\w .&'+#/@-]{0,40}", plain))
    return plain if fits and not _CLAUSE.search(plain) else ""


def _listed(value: str) -> tuple[str, ...]:
    """The things of a list; none where "and" joins what may be one (红色和蓝色的衣服)."""
    plain = _NUMBERED.sub("", value)
    pieces = [plain] if _WHOLE.search(plain) else re.split(_JOINTS if re.search("、|和", plain) else "以及", plain)
    if len(pieces) == 1:
        return tuple(filter(None, [_name(plain)]))
    longest = 4 if "，" in plain or "," in plain else _LONGEST_LISTED  # behind a comma, a clause is near
    names = tuple(_name(_NUMBERED.sub("", piece), longest) for piece in pieces)
    return names if all(names) and not any("的" in name for name in names) else ()


_PERSON_NAME: Final = re.compile(rf"{_LATIN}|[\u4e00-\u9fff·]{{1,6}}")
_NO_PLACE: Final = re.compile(
    r"^(?:家|一|这|那|学校|宿舍|公寓|酒店|公司|城里|乡下|农村|楼|别墅|父母|爸妈|医院|里|外面|附近|海边|山|隔壁|对面)|(?:里|上|附近|旁边|房子|楼|边|家)$"
)
_PLACES: Final = frozenset(
    "北京 上海 广州 深圳 杭州 南京 苏州 成都 重庆 武汉 西安 天津 长沙 郑州 青岛 大连 宁波 厦门 "
    "福州 合肥 济南 沈阳 哈尔滨 长春 昆明 贵阳 南宁 南昌 太原 石家庄 兰州 西宁 银川 乌鲁木齐 拉萨 "
    "海口 三亚 珠海 佛山 东莞 无锡 常州 温州 香港 澳门 台北 台湾 中国 美国 英国 法国 德国 日本 "
    "韩国 加拿大 澳大利亚 新加坡 意大利 西班牙 俄罗斯 印度 泰国 巴西 纽约 伦敦 巴黎 东京 柏林 罗马 "
    "悉尼 旧金山 洛杉矶 多伦多 首尔 欧洲 国外 海外 四川 广东 浙江 江苏 山东 河南 河北 湖南 湖北 "
    "福建 云南 里昂 米兰 波士顿 西雅图 硅谷 家 家里 外地 老家 本地 晚上 白天 夜里 线上 室内 户外 "
    "工地 办公室".split()
)


def _place(value: str) -> tuple[str, ...]:
    names = _listed(value)
    return names if not any(_NO_PLACE.search(name) or "的" in name for name in names) else ()


def _organization(value: str) -> str:
    name = _name(_NUMBERED.sub("", value))
    return (
        name
        if name not in _PLACES and "和" not in name and not re.search(r"(?:[省市县镇村上下]|(?<!阿)里)$|的", name)
        else ""
    )


# ── what is said ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _links(told: _Told, *, partly: bool) -> Iterator[Link]:
    said = told.said
    if not said.positive and (partly or not (told.over or said.attribute == "like")):
        return
    reader = _READERS.get(said.attribute) or (_verb if said.attribute.startswith("verb:") else _own)
    for link in reader(told):
        if all(link.targets):
            yield replace(link, ended=link.ended or told.over)


def _naming(told: _Told) -> Iterator[Link]:
    if told.kin:
        yield Link(_kin_relation(told.kin), _people(told.value), _kind(told.kin), source=told.owner)
    elif not told.said.subject and told.owner == "":
        yield Link("名字", _people(told.value))


def _people(value: str) -> tuple[str, ...]:
    names = tuple(re.split("和|、", value))
    return names if all(_PERSON_NAME.fullmatch(name) and not _CLAUSE.search(name) for name in names) else ()


def _home(told: _Told) -> Iterator[Link]:
    yield Link("住在", _place(told.value), "place", began="搬" in told.text)


def _employer(told: _Told) -> Iterator[Link]:
    value = told.value.strip()
    if value in _PLACES - {"家", "家里"} and re.search(r"工作|上班", told.text):
        yield Link("工作地点", (value,) if len(value) > 1 and told.said.positive else (), "place")
    else:
        yield Link("工作于", (_organization(value),), "organization", began="加入" in told.text)


def _job(told: _Told) -> Iterator[Link]:
    owner, _, name = told.value.rpartition("的")
    retired = name.startswith("退休")
    name = name.removeprefix("退休")
    if re.search(r"退休|前$|未来|将来|以后|曾经", owner) or not _name(name):
        return
    relation = "是" if name.endswith(("学生", "高中生", "大学生", "研究生", "博士生")) else "职业"
    yield Link(relation, (name,), "occupation" if relation == "职业" else "", ended=retired, began="成为" in told.text)


def _plain(relation: str, type_: str = "", *, single: bool | None = None) -> Callable[[_Told], Iterator[Link]]:
    def read(told: _Told) -> Iterator[Link]:
        yield Link(relation, _listed(told.value), type_, single=single)

    return read


def _whole(relation: str, type_: str = "") -> Callable[[_Told], Iterator[Link]]:
    def read(told: _Told) -> Iterator[Link]:
        yield Link(relation, (_name(told.value),), type_, single=True)

    return read


def _origin(told: _Told) -> Iterator[Link]:
    yield Link("来自", _place(told.value), "place")


def _birthplace(told: _Told) -> Iterator[Link]:
    yield Link("出生于", _place(told.value), "place")


def _like(told: _Told) -> Iterator[Link]:
    positive = told.said.positive or told.over
    yield Link("喜欢" if positive else "不喜欢", _listed(told.value))


def _prefer(told: _Told) -> Iterator[Link]:
    yield Link(
        "偏好", _listed(re.split(r"，|而不是|而非|胜过|多过|超过", told.value)[0].removeprefix("喝").removeprefix("吃"))
    )


_EVENTS: Final = re.compile(
    r"(?:问题|会议?|约会|考试|课|事情?|时间|空|面试|想法|航班|机会|感觉|兴趣|关系|办法|计划|打算|作业|任务|聚会|婚礼|活动|点|发烧|感冒|头疼)$"
)
_HAS_NAMED: Final = re.compile(
    rf"(?:叫|名叫)(?P<before>[^的]+)的.{{0,3}}?(?P<kind>{KIN})|.{{0,3}}?(?P<of>{KIN}|朋友|同事)[，,]?(?:名字叫|名叫|叫做|叫)(?P<after>.+)"
)


def _has(told: _Told) -> Iterator[Link]:
    value = _NUMBERED.sub("", told.value)
    if found := _HAS_NAMED.fullmatch(value):
        kin = found["kind"] or found["of"]
        yield Link(_kin_relation(kin), _people(found["before"] or found["after"]), _kind(kin))
        return
    for name in _listed(value):
        kin = next(iter(re.findall(rf"(?:{KIN}|{_FRIENDS})$", name)), "")
        if (kin or "的" not in name) and not _EVENTS.search(name) and not re.search(r"在|是|住|去|来|会", name):
            yield Link("有", (kin if "的" in name else name,), _kind(kin))


_KINDS: Final = re.compile(r".*(?:人|者|族|迷|控|粉丝|左撇子|党员|主义者|教徒|独生子|独生女|球迷|信徒)")


def _is(told: _Told) -> Iterator[Link]:
    value = _NUMBERED.sub("", told.value)
    if told.kin and (re.fullmatch(_LATIN, value) or re.fullmatch(r"[小阿][\u4e00-\u9fff]", value)):
        yield from _naming(told)
    elif _KINDS.fullmatch(value) and "的" not in value:
        yield Link("是", (_name(value),))


def _verb(told: _Told) -> Iterator[Link]:
    yield Link(told.said.attribute.partition(":")[2], _listed(told.value))


_PLAIN_NOUNS: Final = frozenset("国籍 母语 家乡 专业 昵称 民族 星座 血型 宗教 学历 老板 学校".split())
_OPAQUE: Final = frozenset("生日 身高 体重 电话 手机 邮箱 微信 地址 住址".split())
_MOVED: Final = re.compile(r"从(?P<old>.+?)搬(?:到|去)了?(?P<new>.+?)了?")
_WORKS_AS: Final = re.compile(r"在(?P<where>.+?)(?:做|当|担任)(?:一?[名个位])?(?P<job>.+?)")


def _own(told: _Told) -> Iterator[Link]:
    """最喜欢的颜色是蓝色, 母语是法语; and two that the statement leaves whole."""
    noun, value = told.said.attribute, told.value
    if not told.said.positive:
        return
    if noun.startswith("最喜欢的"):
        yield Link(noun, _listed(value), single=True)
    elif noun in _PLAIN_NOUNS or (noun in _OPAQUE and re.search(r"\d", value)):
        yield Link(noun, (_name(value),) if not re.match(r"很|非常|太|挺|最|一样", value) else (), single=True)
    elif noun == "公司":
        yield Link(
            "工作于", (_organization(value),) if not re.match(r"很|非常|太|挺|在", value) else (), "organization"
        )
    elif noun == "other":
        yield from _other(value)


def _other(value: str) -> Iterator[Link]:
    if found := _MOVED.fullmatch(value):
        yield Link("住在", _place(found["old"]), "place", ended=True)
        yield Link("住在", _place(found["new"]), "place", began=True)
    elif found := _WORKS_AS.fullmatch(value):
        job = chinese_statement(f"是{found['job']}")
        if job.attribute == "job" and "的" not in job.value:
            yield Link("工作于", (_organization(found["where"]),), "organization")
            yield Link("职业", (_name(job.value),), "occupation")


_READERS: Final[dict[str, Callable[[_Told], Iterator[Link]]]] = {
    "name": _naming, "home": _home, "employer": _employer, "job": _job, "age": _plain("年龄"), "origin": _origin,
    "birthday": _whole("生日", "date"), "birthplace": _birthplace, "status": _whole("婚姻状况"), "diet": _whole("饮食"),
    "like": _like, "偏好": _prefer, "allergy": _plain("过敏于"), "speak": _plain("会说", "language"), "can": _plain("会"),
    "has": _has, "is": _is,
}  # fmt: skip
