"""Facts in Chinese clauses: what a speaker says of himself (我), of what is his, and of whom he has just named (他, 她, 它).

Chinese leaves subjects out and strings clauses with commas, so a sentence is cut at commas and a piece without a subject
either is a statement of its own, where it opens like one, or belongs to the piece before it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules.sentences import LONGEST, Sentence, commands
from langmem_adapter.reasoning.rules.words import FEMALE, MALE, PETS, PLURAL

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KIN", "chinese_facts", "is_chinese"]

KIN: Final = "|".join(
    sorted(
        (w for w in FEMALE | MALE | PLURAL | PETS if not w.isascii() and w not in {"车", "马"}), key=len, reverse=True
    )
)
"""Words for family, friends and pets, longest first, for use in a pattern."""

_OPENING: Final = re.compile(
    r"(?:你好|您好|大家好|嗨|哈喽|早上好|下午好|晚上好|谢谢|好的|嗯|哦|对了|其实|另外|而且|并且|但是|可是|不过"
    r"|然后|所以|因为|还有|顺便说一下|顺便说一句"
    r"|说实话|老实说|那个|对|是的|没错|此外|同时|目前|现在|最近|请记住|记住|请注意|别忘了|告诉你|我想告诉你|跟你说"
    r"|总之|虽然|但)"
    r"(?=[\s，,、！!：:～~。]|我|他|她|它|$)[\s，,、！!：:～~。]*"
)
_RECENT: Final = re.compile(r"(?:昨天|今天|昨晚|今早|刚才)[\s，,]*(?=我|他|她|它)")
_DATED: Final = re.compile(
    r"(?P<when>明天|后天|大后天|前天|上周\w?|下周\w?|这周\w?|上个?月|下个?月|去年|明年|今年|周[一二三四五六日末]"
    r"|每天|每周|每年|\d{4}年|\d{1,2}月(?:\d{1,2}[日号])?"
    r"|\d{1,2}[日号]|平时|周末|以前|小时候)[\s，,]*(?=我)"
)
_SELF: Final = re.compile(r"(?:我们|咱们|我|本人|俺)(?!的天|靠|们俩想问)")
_OTHER: Final = re.compile(r"(?:他们|她们|它们|他|她|它)(?P<own>的)?(?P<rest>.+)")
_SPLIT: Final = re.compile(r"[，,；;]|(?:但是|而且|并且|可是|不过|然后|所以|因为)(?=我|他|她|它)")
_SOFT: Final = re.compile(r"[\s啊呀呢吧哦啦嘛哈噢~～！!。.，,、…]+$")
_ASKS: Final = re.compile(
    r"(?:请|帮|麻烦|能不能|能否|可以|可否|是否|是不是|有没有|怎么|如何|什么|为什么|哪|谁|多少|几|你|您|给我|告诉我"
    r"|如果|假如|要是|假设|假装|想象)"
)
_YOU: Final = re.compile(r"[你您]|吗$|什么|怎么样?$|哪[里儿个家些]|是不是|有没有|能不能")
_ADVERBS: Final = re.compile(
    r"(?:真的|真|也|还|都|一直|其实|就|只|刚刚|刚|已经|很|非常|特别|十分|超级|超|比较|挺|最近|现在|目前|通常|总是"
    r"|经常|常常|有时候?|平时|从小|从来|本来|自己|最|更"
    r"|从不|昨天|今天|明天|后天|前天|昨晚|今晚|今早|上周.?|下周.?|这周.?|周[一二三四五六日末]|上个?月|下个?月|去年"
    r"|明年|今年(?!\d)|曾经|以前|即将|马上|快)+"
)
_ENTITY: Final = re.compile(
    r"^的?(?P<noun>[^，,。是叫]{1,14}?)(?P<verb>是|叫做|叫|为(?!了)|有|住在|在|来自|喜欢|爱|不喜欢|今年|去世|生于"
    r"|对|去世|死|[一二三四五六七八九十\d]{1,3}(?=岁))(?P<what>.*)$"
)
_KIN: Final = re.compile(rf"(?:{KIN}|朋友|同事|老板|家人)")
# What follows without a subject is said of whoever was named: "我妈妈住在上海，喜欢跳舞", "有一个女儿，叫朵朵".
_OF_KIN: Final = re.compile(rf"的?(?P<kin>{KIN}|朋友|同事|老板|家人)")
_HAS_KIN: Final = re.compile(rf"(?:还|也|就|只)*(?:养(?:了|着)?.|有[^，]*?(?:{KIN}|朋友|同事))")
_NOT_MINE: Final = re.compile(r"(?:问题|意思|想法是|疑问|指令|命令|要求|代码|程序|错|天|看法|建议)")
_LATIN: Final = r"[A-Z][A-Za-z.'-]*(?: [A-Z][A-Za-z.'-]*){0,2}"
_SURNAME: Final = (
    r"(?:欧阳|司马|诸葛|上官"
    r"|[王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗郑梁谢宋唐许韩冯邓曹彭曾萧田董袁潘蒋蔡余杜叶魏苏吕丁任沈姚卢姜崔钟谭陆汪范廖石韦贾夏付方邹熊孟秦邱侯江尹薛"
    r"闫段雷龙陶贺顾毛郝龚邵万钱严武戴莫孔])"
)
_KIND: Final = "人师员生者家手匠工长士民徒兵客主商友妈爸姐哥弟妹子党派族迷控粉男女身理监医官警"
_NAME: Final = re.compile(rf"(?:{_LATIN}|{_SURNAME}[\u4e00-\u9fff]{{0,1}}[\u4e00-\u9fff](?<![{_KIND}]))$")
_CALLED: Final = re.compile(rf"(?:名叫|名字叫做?|叫做|叫)(?P<name>{_LATIN}|[\u4e00-\u9fff·]{{1,8}})$")
_CALL_ME: Final = re.compile(
    rf"(?:你|您|请)?(?:可以|就)?(?:请)?叫我(?P<name>{_LATIN}|[\u4e00-\u9fff·]{{1,6}}?)(?:就行|就好|就可以|即可)?了?$"
)
_NICK: Final = re.compile(rf"(?:大家|朋友们?|同事们?|别人|他们)都?叫我(?P<name>{_LATIN}|[\u4e00-\u9fff·]{{1,6}})$")
_PREDICATE: Final = re.compile(
    r"(?:不再|不太|不怎么|不是很|并不|不|没)?(?:喜欢|喜爱|爱吃|爱喝|爱看|爱听|爱玩|爱(?=.)|热爱|讨厌|偏爱|偏好"
    r"|享受|迷上|沉迷|受不了|痛恨|怕|害怕)(?!你|您)."
    r"|(?:不再|不)?(?:住在?|居住在|来自|出生(?:于|在)|生于|毕业于|就读于|就职于|任职于|从事).|搬(?:到|去|家).?"
    r"|不?是(?!否|不是|说|谁|什么|吗|想|因为|的$).|(?:不再|没)?有(?!点|些|疑问|问题|事|时候|时|没有|空|关|人"
    r"|一?个?(?:问题|疑问|想法|请求|建议|事情))."
    r"|没有(?!问题|事|办法|时间|想|关系|人).|养(?:了|着)?.|不?对.{1,15}(?:过敏|感兴趣|不感兴趣)"
    r"|不?再?在(?:.{1,20})(?:工作|上班|上学|读书|学习|实习|教书|长大|生活|居住|任职|开会|做|当)"
    r"|在(?:找|学|读|写|准备|寻找|考虑|计划|练|备考|减肥|装修|戒)|正在(?!想|说|问|等).|需要(?!你|您|帮|一?点|知道|问|一些).|想要?(?:学|去|买|找|成为|当"
    r"|换|养|减肥|做一|考|搬|开一?家)|打算.|计划.|准备.|希望(?!你|您)(?:能|成|学|去|在|找)."
    r"|要(?:去|参加|搬|结婚|考|开始|出差|飞|回).?|将(?:要|会)?.|不?会(?:说|讲|弹|拉|唱|跳|游泳|做饭|开车|写|画"
    r"|编程|下棋|滑|骑|用)"
    r"|不再?(?:吃|喝|抽|看|玩|用|能吃|能喝|养|开|学|做).?|吃素|吃(?!了吗|什么).|喝(?!什么).|抽烟|学(?:习|过|了)?."
    r"|每(?:天|周|个?月|年|晚|早).|戒了?.|辞职|离职|退休|结婚|离婚|单身"
    r"|已婚|未婚|怀孕|患有|得了.|今年\d|\d{1,3}岁|身高|体重|叫|姓.|名叫|当(?!然|时).|做(?!什么)."
)
_DONE: Final = re.compile(r"[^了过]{0,40}[\u4e00-\u9fff](?:了|过)(?=[^吗]|$)")
_IDLE: Final = re.compile(
    r"知道|明白|懂了|忘了|觉得|以为|认为|听说|好了|错了|完了|累了|饿了|困了|想了|问了|说了|说过|试了|试过|不过"
    r"|除了|为了|太.{1,4}了|谢|想问|想知道|想请|想让|想了解|需要你|不明白|不懂|发现"
    r"|告诉|收到|遇到|报错|看不|没事|行了|算了|来了|不客气|看了一下|问过"
)
_EMPTY: Final = re.compile(r"(?:它|这个?|那个?|这些|那些|他|她|一下|的|了|很|这样|那样|好|有)*$")


def is_chinese(text: str) -> bool:
    """Whether a sentence is to be read by the Chinese rules: it names a person in Chinese, or opens in Chinese.

    Example:
        >>> is_chinese("Hi，我叫John"), is_chinese("I like 饺子")
        (True, False)
    """
    head = next((letter for letter in text if letter.isalnum()), "")
    return "\u4e00" <= head <= "\u9fff" or any(word in text for word in ("我", "他", "她", "它的"))


def chinese_facts(sentence: Sentence) -> Iterator[str]:
    """The facts of one Chinese sentence, without subject where the speaker is meant.

    Args:
        sentence: One sentence.

    Yields:
        Short statements: "名字是John", "她有一条狗".
    """
    clauses = _clauses(sentence)
    for place, (who, clause) in enumerate(clauses):
        asked = sentence.asks and place == len(clauses) - 1
        if asked or len(clause) > LONGEST or commands(clause):
            continue
        told = _told(who, clause)
        if told and len(told) <= LONGEST:
            yield told


def _clauses(sentence: Sentence) -> list[tuple[str, str]]:
    """Pairs of a subject ("me", "other", "called") and what is said, in order; other pieces are left out."""
    clauses: list[tuple[str, list[str]]] = []
    open_ = False
    pieces = list(_pieces(sentence.text))
    for place, piece in enumerate(pieces, start=1):
        who, said = _who(piece)
        asked = sentence.asks and place == len(pieces)
        if not who and (asked or _ASKS.match(said) or _YOU.search(said)):
            clauses.append(("", [said]))
            open_ = False
        elif who:
            clauses.append((who, [said]))
            open_ = True
        elif open_ and clauses[-1][0] == "me" and (spoken := _goes_on(clauses[-1][1][0], said)):
            clauses.append(("me", [spoken]))
        elif open_:
            clauses[-1][1].append(said)
    return [(who, _SOFT.sub("", "，".join(said))) for who, said in clauses]


def _goes_on(before: str, said: str) -> str:
    """A piece without a subject as a clause of its own; empty where it belongs to the one before it."""
    if _of_kin(said):
        return said
    if not _states(said) or _HAS_KIN.match(before):
        return ""
    kin = _OF_KIN.match(before)
    if kin is None:
        return said
    told = f"{kin['kin']}{said}"
    return told if _of_kin(told) else ""


def _pieces(text: str) -> Iterator[str]:
    when = ""
    for part in _SPLIT.split(text):
        piece = _SOFT.sub("", _JOINING.sub("", _unopened(part.strip())))
        if when:
            piece, when = f"{when}，{piece}", ""
        if _ALONE.fullmatch(piece):
            when = piece
        elif piece:
            yield piece


_JOINING: Final = re.compile(r"^(?:但是|但(?!愿)|而且|并且|可是|不过|然后|所以|同时|另外|以及|也)(?=.)")
_ALONE: Final = re.compile(
    r"昨天|今天|昨晚|明天|后天|前天|上周.?|下周.?|上个?月|下个?月|去年|明年|以前|周末|平时"
    r"|每天"
)


def _unopened(text: str) -> str:
    start = 0
    while start < len(text) and (found := _OPENING.match(text, start)):
        start = found.end()
    return text[start:].strip()


def _who(piece: str) -> tuple[str, str]:
    if found := _CALL_ME.match(piece) or _NICK.match(piece):
        kind = "名字" if found.re is _CALL_ME else "昵称"
        return "called", f"{kind}是{found['name']}"
    piece = _RECENT.sub("", piece, count=1)
    when = _DATED.match(piece)
    if when:
        piece = piece[when.end() :]
    if found := _SELF.match(piece):
        said = piece[found.end() :].strip("，, ")
        return "me", f"{when['when']}{said}" if when else said
    return ("other", piece) if _OTHER.match(piece) else ("", piece)


def _told(who: str, clause: str) -> str:
    if who == "called":
        return clause
    if who == "me":
        return _of_me(clause)
    found = _OTHER.match(clause) if who == "other" else None
    if found is None or _YOU.search(clause):
        return ""
    own = found["own"] and _ENTITY.match(found["rest"])
    kin = _KIN.match(found["rest"]) and _ENTITY.match(found["rest"])
    return clause if own or kin or _states(found["rest"]) else ""


def _of_me(clause: str) -> str:
    plain = _ADVERBS.sub("", clause, count=1) if _ADVERBS.match(clause) else clause
    if _YOU.search(clause):
        return ""
    if name := _name(plain):
        return f"名字是{name}"
    if plain.startswith("的") or _KIN.match(plain):
        return _of_mine(plain)
    if not _states(clause):
        return ""
    return _ended(re.sub(r"(?<=.)我的(?=.)", "", clause))


def _name(plain: str) -> str:
    said = plain.removeprefix("的")
    if found := _CALLED.match(said):
        return found["name"] if said == plain or said.startswith("名") else ""
    if said.startswith(("名字是", "姓名是", "名字为")):
        return said[3:]
    if said.startswith("是") and _NAME.match(said[1:]) and said == plain:
        return said[1:]
    return ""


def _of_kin(said: str) -> bool:
    return _KIN.match(said) is not None and _ENTITY.match(said) is not None


def _of_mine(plain: str) -> str:
    said = plain.removeprefix("的")
    found = _ENTITY.match(said)
    if found is None or _NOT_MINE.match(found["noun"]):
        return ""
    return said


def _states(said: str) -> bool:
    found = _ADVERBS.match(said)
    plain = said[found.end() :] if found else said
    if _IDLE.search(said[:30]):
        return False
    if opened := _PREDICATE.match(plain) or _PREDICATE.match(said):
        whole = len(opened[0]) > 1 and opened[0] == opened.string
        return whole or not _EMPTY.match(opened.string[opened.end() - 1 :])
    return _DONE.match(said) is not None and len(said) > 3  # noqa: PLR2004 - 吃了, 到了: nothing is said


def _ended(clause: str) -> str:
    """That something is over, said openly: 不吃素了 becomes 不再吃素."""
    found = re.match(rf"(?P<adverbs>(?:{_ADVERBS.pattern})?)不(?!再)(?P<what>.+)了$", clause)
    if gone := re.match(r"(?:现在|已经)?没(?:有)?(?P<what>(?!有).+)(?<!过)了$", clause):
        return f"不再有{gone['what']}"
    if found is None:
        return re.sub(r"^(?:已经)(?=不再)", "", clause)
    return f"不再{found['what'].removeprefix('再')}"
