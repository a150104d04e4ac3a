"""Facts in Chinese talk: what a speaker says of himself (我), of what is his, and of whom he has just named (他, 她, 它).

Chinese leaves subjects out and strings clauses with commas, so a sentence is cut at commas; a piece without a subject goes on
speaking of the one before it as long as nobody else was named. What the table of statements understands is kept; of the rest
only what plainly tells something done, planned or lasting, and stands on its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules.sentences import LONGEST, Sentence, commands
from langmem_adapter.statements.chinese import KIN, KINDS, NAME, chinese_statement
from langmem_adapter.statements.chinese_dates import WHEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langmem_adapter.statements.statement import Statement

__all__ = ["chinese_facts", "is_chinese"]

_OPENING: Final = re.compile(
    r"(?:(?:你好|您好|大家好|嗨|哈喽|早上好|下午好|晚上好|谢谢|好的|嗯|恩|哦|呃|哈哈|对了|是的|没错|对呀?|对啊|当然|说实话|老实说|说起来|话说回来|请记住|记住|请注意|别忘了"
    r"|告诉你|我想告诉你|跟你说|顺便说一[下句]|总之|那个)(?=[\s，,、！!：:～~。]|我|他|她|它|$)|其实|另外|而且|并且|但是|但(?!愿)|可是|不过(?!敏)|然后|所以|还有(?=我)|此外|同时|虽然|目前|现在|如今|因为(?=我)"
    r"|以及|除此之外|也(?=[^许])|却)[\s，,、！!：:～~。]*"
)
_SOFT: Final = re.compile(r"[\s啊呀呢吧哦啦嘛哈噢~～！!。.，,、…]+$(?<!\.\.)")
_SPLIT: Final = re.compile(r"[，,；;]|(?:但是|而且|并且|可是|不过|然后|所以|因为)(?=我|他|她|它)")
_TIME: Final = rf"(?:{WHEN}|\d{{1,2}}月(?:\d{{1,2}}[日号])?|周[一二三四五六日末]|每[天周年月]|平时|以前|小时候|[\d一二两三四五六七八九十半]{{1,3}}个?(?:天|周|月|年)前)"
_ALONE: Final = re.compile(rf"{_TIME}")
_PASSED: Final = re.compile(
    r"^(?:今天|昨天|昨晚|今早|刚才|刚刚|最近|近来|近期|目前|现在|如今|前几天|这几天|这段时间|前段时间|这两天|前不久)[，,]?"
)
_SELF: Final = re.compile(rf"(?P<when>{_TIME})?(?:我们|咱们|我|本人|俺)(?!的天|靠|俩想问)(?P<said>.+)")
_OTHER: Final = re.compile(r"(?P<who>他们|她们|它们|他|她|它)(?P<rest>.+)")
_KIN: Final = re.compile(rf"(?P<kin>{KIN})(?<![马鸟])(?P<rest>.+)")
_WITH_ME: Final = re.compile(rf"(?P<kin>{KIN})(?:和|跟|与|同)我(?P<rest>[^，,]+)")
_HYPOTHETICAL: Final = re.compile(r"(?:如果|假如|要是|假设|假装|想象|万一|只要|除非|除了|每当|当|等我|听说|据说|若)")
_NAMES: Final = rf"(?:[A-Z][\w.'-]*(?: [A-Z][\w.'-]*){{0,2}}|[\u4e00-\u9fff·]{{1,6}}?)"
_CALL_ME: Final = re.compile(
    rf"(?:你|您|请|大家)?(?:也|都|就|可以|还是)*(?:请)?叫我(?P<name>{_NAMES})(?:就行|就好|就可以|即可)?了?"
)
_NICK: Final = re.compile(rf"(?:大家|朋友们?|同事们?|同学们?|别人|他们|家人)(?:现在|都|也)*叫我(?P<name>{_NAMES})")
_NOT_CALLED: Final = re.compile(rf"(?:别|不要)再?叫我(?P<name>{_NAMES})了?")
_MY_NAME: Final = re.compile(
    rf"(?:的?(?:名字|姓名|全名)(?:叫做?|是|为)|叫做?|名叫)(?P<name>{_NAMES})|是(?P<is>{NAME})(?<![的过了])"
)
_RENEWED: Final = re.compile(r"(?:换|改)了?(?:一?个)?新?的?(?P<noun>[^名叫成为到了\W]{2,5}?)了?")
_NEW_ONE: Final = re.compile(r"(?:现在|新)的?\w{0,4}?(?:是|：)\s?(?P<value>.+)")
_WORK: Final = re.compile(r"工作|辞|离职|跳槽|入职|失业")
_AT: Final = re.compile(r"(?:现在|目前)?在(?P<where>(?:(?!做|当|工作|上班)[^，,的]){2,12})")
_DIED: Final = re.compile(
    rf"(?!{KIN}|大家|客人|我们|他|她|它|雨|电|病|车|天|时间)(?P<name>[\u4e00-\u9fffA-Za-z]{{2,4}}?){WHEN}?(?:去世|离世|病逝|走丢|死|走)了"
)
_CANCELLED: Final = re.compile(
    r"(?!你|他|她|如果)[^，,我你他她]{1,12}的?(?:行程|旅行|旅游|机票|航班|计划|会议|聚会|约会|活动|比赛|演唱会|婚礼)(?:都|已经|被)?取消了"
)
_EXAMPLES: Final = re.compile(r"(?:像|比如|例如|如|特别是|尤其是|包括).{2,30}")
_LISTED: Final = re.compile(r"(?!.{0,2}(?:也|都|很|是|有|没|不|让|每|觉得|感觉|但|就|因为|可以))[^的了过]{1,8}")

_LEADS: Final = re.compile(
    r"^(?:也|还是|还(?!贷|没|清|钱)|又|都|就(?!读|职|业)|其实|当然|已经|确实|只是|于是|终于|刚刚|刚(?!满)|改(?=喝|吃|学|用|玩|做|打|住|读|练|骑|坐)|最近|近来|近期|现在|目前|如今|主要|基本上|一般|再|本来|真的(?=不))+"
)
_YOU: Final = re.compile(r"[你您]|吗$|什么|怎么|如何|为何|哪[里儿个家些种]|是不是|是否|有没有|能不能|要不要|谁|多少")
_POINTS: Final = re.compile(
    r"[我她它您]|(?<![吉其])他|这|那(?!么$)|该(?:怎|从|去)|此|上述|其中|里面|当地|上面|当前|哈哈|再见|下次再"
)
_IDLE: Final = re.compile(
    r"知道|明白|懂了|忘了|觉得|以为|认为|听说|感觉|感到|感受|担心|害怕|怕|困惑|好了|错了|完了|累了|饿了|困了|想了|问|说(?!中|英|日|法|德|.{1,2}语)|试了|试过|除了|为了|太.{1,4}了|谢|请"
    r"|了解|聊|分享|建议|推荐|发现|告诉|收到|报错|没事|行了|算了|来了|客气|同意|相信|确定|意识到|体会|反思|收获|启发|遇到|理解|注意|考虑|思考|尝试|努力|尽力|好奇|期待|理想|取消不"
    r"|第一次|迷茫|无助|难过|焦虑|压力|情绪|心情|状态|有(?:点|些)(?![^，]{1,6}(?:病|症|炎))|一下|试试|看看"
)
_PASSING: Final = re.compile(
    r"(?:得|必须|需要|应该|可以|能|可能|或许|也许|似乎|好像|大概|差点|有(?:点|些)|不想|没想|想想|总(?:是|觉)|真是|真的是|更是|才|因为|毕竟|由于|让|使|并|而|却|但|所以|以|先|从而"
    r"|像|特别是|尤其是|比如|还有|关于|对于|根据|通过|随着|不仅|无论|即使|虽然|不敢|不会|不知|不确|没法|无法|只能|希望|愿意|很(?!少|早|喜|爱|擅)|非常(?!喜|爱|擅)|挺|特别(?!喜|爱))"
)
_LEAVING: Final = re.compile(
    r"(?:要|准备|打算|得).{0,14}了$|.*(?:晚饭|晚餐|午饭|睡觉|休息)|今天.*想|.*的话$|.*的时候$|.*[之以]后$"
)
_PLAN: Final = re.compile(
    r"(?:.{0,8}?)(?:打算|计划(?!是)|准备(?!好)|想要?(?:去|学|成为|当|买|换|考|搬|找|养|开|做|住|结婚)|要(?:去|参加|搬|结婚|考|开始|出差|飞|回|换|生)|将(?:要|会|去|在)?)"
)
_HABIT: Final = re.compile(
    r"(?:不再?)?(?:喝|抽|弹|拉|打|踢|练|骑|玩|跳|唱|画|养|钓|吃)(?!了|过|饭|什|一)[^了过的得，,\d]{1,8}"
)
_GOING_ON: Final = re.compile(
    r"(?:一直|仍然|正|还)?(?:正?在|正在).{3,}|从事.{2,}|每[天周年月个].{2,}|是.{2,}|(?:经常|常常|常|有时|平时|通常).{3,}"
)
_BROKEN: Final = re.compile(
    r"^还没|^最喜欢的是|^(?!最|真|我)\S{1,3}的(?!确)|(?<!小)[的时]$|[看听]起来|[看听]到|[看过做吃挣跑]得|新的?(?:技能|东西|知识|语言)$|(?:知识|经验)$"
)
_DONE: Final = re.compile(r"[^了过]{0,24}[\u4e00-\u9fff](?:了|过).*")
_TOLD_OF: Final = re.compile(r"讲述|描述|描写|介绍|收藏了|提到|提出|包含|是.{0,3}(?:家|部|本|种|个)")
_INNER: Final = re.compile(
    r"疑问|疑惑|问题|烦恼|事|时间|预算|精神|动力|办法|想法|机会|兴趣|信心|感觉|困难|经验|空|意思|目标|出路|进步|效果|项目|道理|压力|意见|看法|灵感|能力|理由|必要|关系|感情|好处"
    r"|风景|景色|景点|建筑|朋友$|人$"
)
_NOT_MINE: Final = re.compile(
    r"(?:问题|意思|想法|疑问|指令|命令|要求|代码|程序|错|天|看法|建议|老天|灵感|任务|计划|感觉|心情|目的|意见|选择)"
)
_OF_MINE: Final = re.compile(r"(?P<noun>[^，,。是的]{1,8})(?:是(?!.*的$)|性格|比较|偏).{1,40}|性格.{2,20}")
_ABLE: Final = re.compile(
    r"(?:不?会|学会了?|擅长)(?:说|讲|弹|拉|吹|唱|跳|游泳|做饭|做菜|烹饪|烘焙|开车|开飞机|写(?!出)|画|编程|下棋|下围棋|滑|骑|打(?!算|扰|电话)|修|织|缝|瑜伽|书法|武术|摄影|手语|魔术|做.{1,6})"
)


@dataclass(slots=True)
class _Run:
    """Whom the pieces of a sentence go on speaking of."""

    mine: bool = False
    kept: bool = False
    kin: str = ""
    before: str = ""
    noun: str = ""


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
    facts: list[str] = []
    run = _Run()
    pieces = list(_pieces(sentence.text))
    for place, piece in enumerate(pieces, start=1):
        if _HYPOTHETICAL.match(piece):
            break
        asked = sentence.asks and place == len(pieces)
        told = "" if asked or len(piece) > LONGEST or commands(piece) else _told(piece, run, facts, sentence.asks)
        run.kept, run.before = bool(told), piece
        if told and len(told) <= LONGEST:
            facts.append(told)
    yield from facts


def _pieces(text: str) -> Iterator[str]:
    when = ""
    for part in _SPLIT.split(text):
        piece = _unopened(_SOFT.sub("", part.strip()))
        if _ALONE.fullmatch(piece):
            when = "" if _PASSED.fullmatch(piece) else piece
        elif piece:
            yield f"{when}{piece}"
            when = ""


def _unopened(text: str) -> str:
    start = 0
    while start < len(text) and (found := _OPENING.match(text, start)):
        start = found.end()
    return text[start:].strip()


def _told(piece: str, run: _Run, facts: list[str], asks: bool) -> str:
    """What one piece states; empty where it states nothing, or adds to the fact before it."""
    if named := _name_of(piece):
        return named
    if found := _SELF.fullmatch(piece):
        run.mine, run.kin = True, ""
        return _of_me(found["said"], found["when"] or "", run, asks)
    if found := _OTHER.fullmatch(piece):
        return _of_other(found, run)
    if _DIED.fullmatch(piece) or _CANCELLED.fullmatch(piece):
        return piece
    return _going_on(piece, run, facts) if run.mine else ""


def _name_of(piece: str) -> str:
    if found := _NOT_CALLED.fullmatch(piece):
        return f"昵称不再是{found['name']}"
    if found := _NICK.fullmatch(piece):
        return f"昵称是{found['name']}"
    found = _CALL_ME.fullmatch(piece)
    return f"名字是{found['name']}" if found else ""


def _of_me(said: str, when: str, run: _Run, asks: bool) -> str:
    said = re.sub("^家里?的?(?=有|养|搬|住|KIN)".replace("KIN", KIN), "", said.strip("，, "))
    if found := _RENEWED.fullmatch(said):
        run.noun = found["noun"]
        return ""
    if name := _MY_NAME.fullmatch(said):
        return f"名字是{name['name'] or name['is']}"
    if said.startswith("的") or _KIN.match(said):
        return _of_mine(said.removeprefix("的"), when, run)
    if _POINTS.search(_own(said)) or re.search("知道|觉得|认为|听说|说", said[:4]):
        run.mine = False
    text = _worded(said, when)
    said_of = chinese_statement(text)
    wish = asks and said_of.attribute in {"plan", ""}
    return text if not wish and _is_fact(text, said_of) else ""


def _own(said: str) -> str:
    return re.sub(r"(?<=.)我的(?=.)", "", said)


def _worded(said: str, when: str = "") -> str:
    """A statement as it is remembered: without what joins it to other sentences, and 不吃素了 as 不再吃素."""
    if not said.startswith(("今", "昨")):
        said = _PASSED.sub("", said, count=1)
    plain = _own(_LEADS.sub("", _LEADS.sub("", said)))
    if re.fullmatch(r"[\d一二三四五六七八九十百两点半.]+(?:公斤|斤|kg)", plain):
        plain = f"体重{plain}"
    return f"{'' if when and re.match('最近|近|刚|这|前[几段不]', when) else when}{_ended(plain)}"


def _ended(clause: str) -> str:
    """That something is over, said openly: 不吃素了 becomes 不再吃素."""
    if gone := re.match(r"(?:现在|已经)?没有?再(?P<what>.+?)了?$", clause):
        return f"不再{gone['what']}"
    if gone := re.match(r"(?:现在|已经)?没(?:有)?(?P<what>(?!有).+)(?<!过)了$", clause):
        return f"不再有{gone['what']}"
    found = re.match(r"(?:现在|已经|早就|真的)*不(?!再|过|得|久|知)(?P<what>.+)了$", clause)
    return f"不再{found['what']}" if found else re.sub(r"^(?:已经)(?=不再)", "", clause)


def _of_mine(said: str, when: str, run: _Run) -> str:
    """What is said of the speaker's family or things: 妈妈住在北京, 血型是A-."""
    said = re.sub("^新的?(?=.{1,6}是)", "", said)
    if both := _WITH_ME.fullmatch(said):
        said = f"和{both['kin']}{both['rest']}"
    kin = _KIN.match(said)
    run.kin = kin["kin"] if kin else ""
    if kin and kin["rest"].startswith("的") and not (kin := _KIN.match(kin["rest"], 1)):
        run.mine = False
    text = f"{when}{said}"
    told = chinese_statement(text)
    known = bool(told.attribute) and told.attribute not in {"event", "plan", "habit"}
    owned = kin or (_OF_MINE.fullmatch(said) and not _NOT_MINE.search(said[:8])) or known
    if not owned or _YOU.search(said) or (not kin and not known and _POINTS.search(said)):
        return ""
    if kin and not known:
        return text if _DONE.fullmatch(kin["rest"]) and not _IDLE.search(said) and not _POINTS.search(said) else ""
    return "" if _POINTS.search(said) else text


def _of_other(found: re.Match[str], run: _Run) -> str:
    kin = re.findall(KIN, run.before) if run.kept else []
    text = f"{kin[-1]}{found['rest']}" if len(kin) == 1 else found.string
    told = chinese_statement(text)
    known = told.attribute not in {"", "event", "plan", "habit", "own", "skill", "any"} or (
        told.attribute == "own" and not _INNER.search(told.value)
    )
    run.mine = False
    points = _POINTS.search(found["rest"])
    return text if known and not points and not _YOU.search(found["rest"]) and not _IDLE.search(text) else ""


def _going_on(piece: str, run: _Run, facts: list[str]) -> str:
    """A piece without a subject: a statement of its own, or the rest of the one before it."""
    if run.noun and (found := _NEW_ONE.fullmatch(piece)):
        return f"{run.noun}是{found['value']}"
    if _WORK.search(run.before) and (found := _AT.fullmatch(piece)):
        return f"在{found['where']}工作"
    last = chinese_statement(facts[-1]) if run.kept and facts else None
    if last and _joins(piece, last):
        return f"{facts.pop()}，{piece}"
    if _KIN.match(piece):
        return _of_mine(piece, "", run)
    text = f"{run.kin}{_worded(piece)}"
    told = chinese_statement(text)
    single = told.single and not told.subject
    if last and last.attribute in {"event", ""} and text.startswith("有"):
        return ""
    if (run.kept or single or run.kin or told.ended) and _is_fact(text, told) and not _TOLD_OF.match(piece):
        return text
    if not _starts(piece):
        run.mine = False
    return ""


def _joins(piece: str, last: Statement) -> bool:
    """Whether a piece only goes on with the fact before it: 有一个女儿，叫朵朵; 喜欢苹果，香蕉和梨."""
    if piece.startswith(("叫", "名叫")):
        return last.attribute in {"family", "pet", "friend", "partner", "event", "own", ""} and not _POINTS.search(
            piece
        )
    if last.attribute == "friend" and last.text[:1] in "有交":
        return bool(chinese_statement(piece).attribute)
    if last.attribute != "like" or _YOU.search(piece) or _POINTS.search(piece):
        return False
    return bool(
        _EXAMPLES.fullmatch(piece)
        or (_LISTED.fullmatch(piece) and chinese_statement(piece).attribute in {"", "habit", "study"})
    )


def _starts(piece: str) -> bool:
    """Whether a piece opens like a predicate, so that nobody else is its subject."""
    return bool(
        _PASSING.match(piece)
        or _IDLE.match(piece)
        or _DONE.match(piece[:4])
        or re.match("[去到在和跟把被想要会能]", piece)
    )


def _is_fact(text: str, told: Statement) -> bool:
    """Whether a statement is worth keeping: one that a row understands, or a plain one that stands on its own."""
    plain = text.removeprefix(told.subject) if told.subject else text
    if _YOU.search(text) or _POINTS.search(text) or (not (told.single or told.ended) and _BROKEN.search(text)):
        return False
    match told.attribute:
        case "skill":
            return _ABLE.match(plain) is not None
        case "own" | "health":
            return told.attribute == "health" or not _INNER.search(text)
        case "like" | "study":
            return not re.search("感觉$|的话|事情$|自己$", text)
        case "plan":
            return _PLAN.match(plain) is not None and not _LEAVING.match(text) and not _IDLE.search(text)
        case "event" | "habit" | "":
            return _stands(text, told)
    return not _LEAVING.match(text) and not re.match("有(?:点|些)|想|可能|也许|差点", text)


def _stands(text: str, told: Statement) -> bool:
    if _HABIT.fullmatch(text) or (told.ended and len(text) > 2 and not _IDLE.search(text)):  # noqa: PLR2004
        return True
    if len(text) < 4 or _PASSING.match(text) or _IDLE.search(text) or _LEAVING.match(text):  # noqa: PLR2004 - 吃了, 到了: nothing is said
        return False
    if told.attribute == "habit":
        return not text.startswith("会") and len(text) <= 25 and not re.search("可以|时候|会$", text)  # noqa: PLR2004
    return bool(_DONE.fullmatch(text) or _GOING_ON.fullmatch(text) or _PLAN.match(text))
