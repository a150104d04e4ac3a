"""Chinese statements taken apart: "姐姐不再住在罗马" is about the sister, her home, Rome, and over."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from langmem_adapter.statements.chinese import KIN
from langmem_adapter.reasoning.rules.meaning import Statement, terms
from langmem_adapter.text import signed_words

__all__ = ["chinese_statement"]

_USER: Final = re.compile(r"^(?:用户|我们|我|本人)的?")
_ADVERBS: Final = re.compile(
    r"^(?:真的很|真的|真|也|还|都|一直|其实|就|只|刚刚|刚|已经|很|非常|特别|十分|超级|比较|挺|现在|目前|通常|总是"
    r"|经常|常常|平时|从小|最近)"
)
_CLOSING: Final = re.compile(r"[\s。！!.~～]+$")
_MEASURE: Final = re.compile(r"^(?:了|着|过)?(?:[一1]?[个名位只条支辆台套本间家]|一些|一)(?=.)")
_COUNTED: Final = re.compile(
    r"^(?P<number>[-+−]?[两二三四五六七八九十\d][两二三四五六七八九十\d.,]*)[个名位只条支辆台套本间家]"
)
_JOB: Final = (
    r"(?:.*(?:工程师|程序员|老师|教师|教授|医生|护士|律师|会计师?|设计师|作家|记者|厨师|经理|分析师|顾问|科学家"
    r"|研究员|学生|高中生|大学生|研究生|博士生|司机|飞行员|药剂师|牙医|电工|农民|服务员|演员"
    r"|音乐家|歌手|画家|摄影师|编辑|翻译|心理咨询师|警察|消防员|军人|士兵|售货员|销售|秘书|助理|实习生|主管|总监"
    r"|总裁|创始人|企业家|自由职业者|技术员|木匠|理发师|教练|法官|公务员|建筑师|架构师))"
)
_SUBJECT: Final = re.compile(
    rf"^(?P<who>(?:{KIN})|[A-Z][A-Za-z.'-]*(?: [A-Z][A-Za-z.'-]*)*|朋友|同事|老板)(?P<own>的(?!是|$))?(?P<rest>.+)"
)
_OWN_NAME: Final = re.compile(r"^(?:全名|名字|姓名)?(?:名叫|叫做|叫|是|为)(?P<v>.+)")
_OF: Final = re.compile(r"^(?P<noun>最喜欢的.{1,12}?|最爱的.{1,12}?|[^，,。是的]{1,8}?)(?:是|为)(?P<v>.+)")
_SINGLE: Final = re.compile(
    r"最喜欢的|最爱的|名字|姓名|昵称|生日|年龄|电话|手机|邮箱|地址|职业|工作$|国籍|身高|体重|老板|公司|学校|专业"
    r"|母语|家乡|民族|星座|血型|宗教|住址|微信|学历"
)
_RULES: Final = tuple(
    (re.compile(pattern), attribute, single)
    for pattern, attribute, single in (
        (r"^(?:名字|姓名)(?:叫做|叫|是|为)(?P<v>.+)$|^(?:名叫|叫做|叫)(?P<w>.+)$", "name", True),
        (r"^(?:居住在|住在|住|家在|搬到了?|搬去了?)(?P<v>.+)$", "home", True),
        (r"^在(?P<v>.+?)(?:工作|上班|任职)了?$|^(?:就职于|任职于|加入了?)(?P<w>.+)$", "employer", True),
        (
            rf"^(?:是|当|做|成为)(?:了)?(?:[一1]?[名个位])?(?P<v>{_JOB})$|^职业是(?:[一1]?[名个位])?(?P<w>.+)$",
            "job",
            True,
        ),
        (r"^(?:今年)?(?:是)?(?P<v>\d{1,3})岁.*$", "age", True),
        (r"^来自(?P<v>.+)$", "origin", True),
        (r"^(?:出生于|出生在|生于)(?P<v>.*\d.*)$", "birthday", True),
        (r"^(?:出生于|出生在|生于)(?P<v>.+)$", "birthplace", True),
        (r"^(?:是)?(?P<v>已婚|未婚|单身|离婚|离异|结婚|丧偶|订婚)(?:了|的)?$", "status", True),
        (
            r"^是?(?:一?[名个位])?(?P<v>(?:严格)?(?:素食主义者|素食者|素食|纯素|吃素|全素|清真|杂食))(?:了|的)?$",
            "diet",
            True,
        ),
        (r"^(?:最)?(?:喜欢|喜爱|热爱|享受|爱好|爱)(?:是)?(?:吃|喝)?(?P<v>.+)$", "like", False),
        (r"^(?:偏爱|偏好|更喜欢)(?P<v>.+)$", "偏好", False),
        (r"^对(?P<v>.+?)过敏$", "allergy", False),
        (r"^(?:会说|会讲|说)(?P<v>.+)$", "speak", False),
        (r"^会(?P<v>.+)$", "can", False),
        (r"^(?:有|养了|养着|养|拥有)(?P<v>.+)$", "has", False),
        (r"^是(?P<v>.+)$", "is", False),
        (r"^(?P<verb>吃|喝|抽|玩|看|学|读|听|开|用|练)(?:习)?(?!了|过)(?P<v>.+)$", "verb", False),
    )
)
_NEGATIVE: Final = (
    (re.compile(r"^(?:已经)?不再(?P<v>.+)"), True),
    (re.compile(r"^戒掉?了?(?P<v>烟|酒|糖|咖啡|.{1,6}?)了?$"), True),
    (re.compile(r"^(?:讨厌|痛恨|受不了|反感)(?P<v>.+)"), False),
    (re.compile(r"^(?:从来不|从不|并不|不太|不怎么|不是很|不)(?P<v>(?!同|过|仅|但).+)"), False),
    (re.compile(r"^(?:没有|没)(?P<v>.+)"), False),
)
_LEFT: Final = re.compile(r"^(?:从(?P<v>.+?)(?:辞职|离职)了?|离开了?(?P<w>[A-Z].*|.+公司))$")
_SYNONYMS: Final = {"结婚": "已婚", "离异": "离婚", "素食者": "吃素", "素食主义者": "吃素", "素食": "吃素"}
_QUIT: Final = {"烟": "抽烟", "酒": "喝酒", "糖": "吃糖", "咖啡": "喝咖啡"}


def chinese_statement(text: str) -> Statement:
    """Take a Chinese statement apart, with or without 用户 or 我 in front.

    Example:
        >>> chinese_statement("用户真的很喜欢奶酪披萨").value, chinese_statement("不喜欢奶酪披萨").positive
        ('奶酪披萨', False)
        >>> chinese_statement("姐姐住在罗马").key
        ('姐姐', 'home')
    """
    told = _bare(_USER.sub("", _CLOSING.sub("", text.strip()), count=1)).removesuffix("了")
    found = _SUBJECT.match(told)
    if found is None:
        return _said(told, "")
    who = found["who"].casefold()
    if found["own"] and _SUBJECT.match(found["rest"]):
        inner = chinese_statement(found["rest"])
        return replace(inner, subject=f"{who} {inner.subject}".strip())
    name = _OWN_NAME.match(found["rest"]) if found["own"] or not found["rest"].startswith("是") else None
    if name and (not found["own"] or found["rest"].startswith(("名", "姓", "全名"))):
        return _statement(who, "name", name["v"], single=True)
    return _said(_bare(found["rest"]), who, owned=bool(found["own"]))


def _bare(told: str) -> str:
    while found := _ADVERBS.match(told):
        told = told[found.end() :]
    return told


def _said(told: str, subject: str, *, owned: bool = False) -> Statement:
    of = _OF.match(told)
    if of and (_SINGLE.search(of["noun"]) or owned) and of["noun"] not in {"名字", "姓名", "职业", "不"}:
        return _statement(
            subject, of["noun"].replace("最爱的", "最喜欢的"), of["v"], single=bool(_SINGLE.search(of["noun"]))
        )
    if left := _LEFT.match(told):
        return _statement(subject, "employer", left["v"] or left["w"], positive=False, ended=True, single=True)
    plain, positive, ended, empty = _sign(told)
    attribute, value, single = _attribute(_bare(plain))
    return _statement(subject, attribute, value, positive=positive, single=single, ended=ended, empty=empty)


def _sign(told: str) -> tuple[str, bool, bool, bool]:
    """What is affirmed or denied, whether it is affirmed, whether it is over, whether it says nothing else."""
    for pattern, ended in _NEGATIVE:
        if found := pattern.match(told):
            return _positive(pattern, found["v"]), False, ended, told.removeprefix("已经").startswith("不再")
    return told, True, False, False


def _positive(pattern: re.Pattern[str], value: str) -> str:
    if pattern is _NEGATIVE[1][0]:
        return _QUIT.get(value, value)
    if pattern is _NEGATIVE[2][0]:
        return f"喜欢{value}"
    return f"有{value.removeprefix('有')}" if pattern is _NEGATIVE[4][0] else value


def _attribute(plain: str) -> tuple[str, str, bool]:
    for pattern, attribute, single in _RULES:
        if found := pattern.match(plain):
            groups = found.groupdict()
            value = groups.get("v") or groups.get("w") or ""
            return (f"verb:{groups['verb']}" if "verb" in groups else attribute), value, single
    return "other", plain, False


def _statement(
    subject: str,
    attribute: str,
    value: str,
    *,
    positive: bool = True,
    single: bool = False,
    ended: bool = False,
    empty: bool = False,
) -> Statement:
    plain = _MEASURE.sub("", value, count=1)
    counted = _COUNTED.match(plain)
    if counted:
        plain = f"{counted['number']} {plain[counted.end() :]}"
    plain = _SYNONYMS.get(plain, plain)
    told = terms(plain) or tuple(signed_words(plain))
    return Statement(subject, attribute, plain, told, positive=positive, single=single, ended=ended, empty=empty)
