"""Facts in Chinese talk: what a speaker says of himself (我), of what is his, and of whom he has just named (他, 她, 它).

Chinese leaves subjects out and strings clauses with commas, so a sentence is cut at commas; a piece without a subject goes on
speaking of the one before it as long as nobody else was named. What the table of statements understands is kept; of the rest
only what plainly tells something done, planned or lasting, and stands on its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from langmem_adapter.caches import remembered
from langmem_adapter.reasoning.rules.sentences import LONGEST, Sentence, commands, put_plainly
from langmem_adapter.statements.chinese import KIN, NAME, chinese_statement
from langmem_adapter.statements.chinese_dates import WHEN
from langmem_adapter.statements.tables import patterns, retold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langmem_adapter.statements.statement import Statement

__all__ = ["chinese_facts", "is_chinese"]

_read: Final = remembered(256)(chinese_statement)  # a piece is read by each who asks what it says
_GIVEN: Final = {"KIN": KIN, "NAME": NAME, "WHEN": WHEN}
_P: Final = patterns("chinese-talk", _GIVEN, flags=0)
_RETOLD: Final = retold("chinese-talk", _GIVEN, flags=0)
"""How dialect ("spelt"), what one hears first ("told") and what is kept ("worded") is put plainly."""
_NAMED: Final = {"NOT_CALLED": "昵称不再是", "CALL_NOW": "昵称是", "NICK": "昵称是", "CALL_ME": "名字是"}
_LOOSE: Final = frozenset({"", "event", "plan", "habit"})
_SHORTEST, _LONGEST_HABIT = 4, 25
"""Letters: 吃了 and 到了 say nothing; a long habit is a story."""


def is_chinese(text: str) -> bool:
    """Whether a sentence is to be read by the Chinese rules: it names a person in Chinese, or opens in Chinese.

    Example:
        >>> is_chinese("Hi，我叫John"), is_chinese("I like 饺子")
        (True, False)
    """
    head = next((letter for letter in text if letter.isalnum()), "")
    return "\u4e00" <= head <= "\u9fff" or any(word in text for word in ("我", "他", "她", "它的"))


def chinese_facts(sentence: Sentence, before: str = "") -> Iterator[str]:
    """The facts of one Chinese sentence, without subject where the speaker is meant: "名字是John", "她有一条狗".

    Where the sentence *before* it speaks of somebody else, one without a subject may go on doing so.
    """
    run, pieces = _Run(asks=sentence.asks, others=_P["OTHERS"].search(before) is not None), list(_pieces(sentence.text))
    for place, piece in enumerate(pieces, start=1):
        if _P["HYPOTHETICAL"].match(piece):
            break
        asked = sentence.asks and place == len(pieces)
        told = "" if asked or len(piece) > LONGEST or commands(piece) else run.told(piece)
        run.facts += [told] if 0 < len(told) <= LONGEST else []
        run.kept, run.before = bool(told), piece
    yield from run.facts


def _pieces(text: str) -> Iterator[str]:
    when = ""
    for part in _P["SPLIT"].split(put_plainly(text, _RETOLD["spelt"])):
        piece = _P["OPENING"].sub("", _P["SOFT"].sub("", part.strip()), count=1).strip()
        if _P["TIME"].fullmatch(piece):
            when = "" if _P["PASSED"].fullmatch(piece) else piece
        elif piece:
            yield f"{when}{piece}"
            when = ""


@dataclass(slots=True)
class _Run:
    """The pieces of a sentence, one after the other: whom they go on speaking of, and what was kept of them."""

    asks: bool
    others: bool = False
    facts: list[str] = field(default_factory=list)
    mine: bool = False
    kept: bool = False
    kin: str = ""
    before: str = ""
    noun: str = ""
    noted: str = ""
    owner: str = ""

    def told(self, piece: str) -> str:
        """What one piece states, if anything."""
        for pattern, opening in _NAMED.items():
            if found := _P[pattern].fullmatch(piece):
                return f"{opening}{found['name']}"
        piece = self._plain(piece)
        mine = _P["SELF"].fullmatch(piece) is not None
        if mine or self.before or not self.others:
            self._note_change(piece)
        if not mine and (_P["DIED"].fullmatch(piece) or _P["CANCELLED"].fullmatch(piece)):
            return piece
        if not (mine or self.before or self.others):
            piece = self._whose(piece)
        if found := _P["SELF"].fullmatch(piece):
            self.mine, self.kin = True, ""
            return self._of_me(_P["AT_HOME"].sub("", found["said"].strip("，, ")), found["when"] or "")
        if found := _P["OTHER"].fullmatch(piece):
            return self._of_other(piece, found["rest"])
        return self._going_on(piece) if self.mine and self.before else ""

    def _plain(self, piece: str) -> str:
        """A piece in common words, with its subject first: 吉他我不学了 as 我吉他不学了."""
        topic = _P["TOPIC"].fullmatch(piece)
        if topic and (topic["did"] or not self.before):
            piece = f"我把{topic['thing']}{topic['did']}" if topic["did"] else f"我{topic['thing']}{topic['now']}"
        return put_plainly(piece, _RETOLD["told"])

    def _whose(self, piece: str) -> str:
        """The first piece of a sentence, with the subject that it leaves out where it plainly speaks of the speaker."""
        if found := _P["UNSAID"].fullmatch(piece):
            return f"{found['when'] or ''}我{found['did']}"
        if _unclear(piece):
            return piece
        told, kin = _read(piece), _P["OF_KIN"].match(piece)
        known = told.ended or told.attribute not in {*_LOOSE, "any", "skill", "like", "trait", "allergy"}
        plain = _P["PLAIN_TALK"].fullmatch(piece) and _P["NEWS"].fullmatch(piece)
        if (known and (plain or kin)) or _P["SEEN"].fullmatch(piece):
            return f"我{piece}"
        self.mine = self.mine or plain is not None
        return piece

    def _note_change(self, piece: str) -> None:
        """Note what the speaker has a new one of: the next piece may say which."""
        found = None if self._names_new_one(piece) else _P["CHANGED"].fullmatch(piece)
        if found is None or _read(piece).attribute in {"vehicle", "home", "detail"}:
            return
        noun = found["noun"] or found["was"] or found["bought"] or found["net"] or f"{found['named']}名"
        self.noun = {"号": "手机号", "网": "运营商"}.get(noun, noun)
        self.owner, self.mine, self.noted = found["whose"] or "", True, piece

    def _names_new_one(self, piece: str) -> re.Match[str] | None:
        return _P["NEW_ONE"].fullmatch(f"{self.noun}|{piece}") if self.noun and piece != self.noted else None

    def _new_one(self, value: str, piece: str) -> str:
        """The new one, in the words in which the old one was told: 电脑是苹果的, 老板姓郭, 室友换成阿涛."""
        if self.facts and self.kept and _P["CHANGED"].fullmatch(self.before):
            self.facts.pop()
        whose, self.mine = f"{self.owner}的" if self.owner else "", True
        if self.noun == "车":
            return f"换成了{value}"
        joint = "姓" if re.search("姓(?=.{1,2}$)", piece) else "换成" if re.fullmatch(KIN, self.noun) else "是"
        return f"{whose}{self.noun}{joint}{value}"

    def _of_me(self, said: str, when: str) -> str:
        if found := _P["RENEWED"].fullmatch(said):
            self.noun = {"名": "名字", "号": "手机号"}.get(found["noun"], found["noun"]) or found["was"]
            return ""
        if found := _P["GONE"].fullmatch(said):
            self.noun = found["noun"]
        if name := _P["MY_NAME"].fullmatch(said):
            return f"名字是{name['name'] or name['is']}"
        if said.startswith("的") or _P["OF_KIN"].match(said):
            return self._of_mine(_new(said.removeprefix("的")), when)
        self.mine = not (re.search("(?<![吉其])[他她]|[你您]", said) or re.search("知道|觉得|认为|说", said[:4]))
        text = f"{'' if _P['PASSED'].fullmatch(when) and when[:1] not in '今昨' else when}{_worded(said)}"
        told = _read(text)
        wish = self.asks and (told.attribute in {"plan", ""} or told.touches)
        plain = told.touches and _P["PLAINLY"].fullmatch(text) and not _unclear(text)
        return text if not wish and (plain or _is_fact(text, told)) else ""

    def _of_mine(self, said: str, when: str = "") -> str:
        """What is said of the speaker's family or things: 妈妈住在北京, 血型是A-."""
        kin = _P["OF_KIN"].match(said)
        self.kin = kin["kin"] if kin else ""
        if kin and kin["rest"].startswith("的") and not (kin := _P["OF_KIN"].match(kin["rest"], 1)):
            self.mine = False
        age = _P["AGED"].fullmatch(kin["rest"]) if kin else None
        text = f"{self.kin}今年{age['age']}" if age else f"{when}{said}"
        told = _read(text)
        known = told.attribute not in _LOOSE or (kin is not None and _is_lasting(kin["rest"], told))
        if kin:
            known = known or (_P["DONE"].fullmatch(kin["rest"]) is not None and not _P["IDLE"].search(said))
        else:
            known = known or (_P["OF_MINE"].fullmatch(said) is not None and not _P["NOT_MINE"].search(said[:8]))
        return text if known and not _unclear(said) else ""

    def _of_other(self, piece: str, rest: str) -> str:
        """What is said of him, her or it; of whom the piece before it names, where it names one."""
        kin = re.findall(KIN, self.before) if self.kept else []
        text = f"{kin[-1]}{rest}" if len(kin) == 1 else piece
        told = _read(text)
        self.mine = False
        known = told.attribute not in {*_LOOSE, "skill", "any"} and not _P["INNER"].search(told.value)
        return text if known and not _unclear(rest) and not _P["IDLE"].search(text) else ""

    def _going_on(self, piece: str) -> str:
        """A piece without a subject: a statement of its own, or the rest of the one before it."""
        if found := self._names_new_one(piece):
            return self._new_one(found["value"], piece)
        if (found := _P["AT"].fullmatch(piece)) and _P["MOVED"].search(self.before):
            return f"在{found['where']}工作" if _P["WORK"].search(self.before) else f"住在{found['where']}"
        last = _read(self.facts[-1]) if self.kept and self.facts else None
        if last and _joins(piece, last):
            return f"{self.facts.pop()}，{piece}"
        if _P["OF_KIN"].match(piece):
            return self._of_mine(piece)
        count = _P["NOW_COUNT"].fullmatch(piece)
        text = f"有{count['count']}" if count else f"{self.kin}{_worded(piece)}"
        told = _read(text)
        seen = last and (last.touches or last.attribute in {"event", ""}) and text.startswith("有") and not count
        known = told.attribute not in {*_LOOSE, "any", "skill", "like", "trait", "own"} and not told.subject
        goes_on = self.kept or self.kin or told.ended or known
        if goes_on and not seen and _is_fact(text, told) and not _P["TOLD_OF"].match(piece):
            return text
        self.mine = _P["STARTS"].match(piece) is not None
        return ""


def _is_lasting(rest: str, told: Statement) -> bool:
    """Whether what is said of somebody else is a plan or a habit of his."""
    if told.attribute == "habit":
        return bool(_P["OFTEN"].search(rest) or (not told.touches and _P["PLAINLY"].fullmatch(rest)))
    return told.attribute == "plan" and _P["PLAN"].match(rest) is not None


def _new(said: str) -> str:
    return re.sub("^新的?(?=[^，,]{1,6}是)", "", said)


def _unclear(said: str) -> bool:
    """Whether it asks, or points at what only the talk shows."""
    return bool(_P["YOU"].search(said) or _P["POINTS"].search(said))


def _worded(said: str) -> str:
    """A statement as it is remembered: without what joins it to other sentences, and 不吃素了 as 不再吃素."""
    plain = (said if said.startswith(("今", "昨")) else _P["PASSED"].sub("", said, count=1)).removeprefix("的")
    plain = put_plainly(plain, _RETOLD["worded"])
    if age := _P["AGED"].fullmatch(plain):
        return f"今年{age['age']}"
    over = _P["OVER"].fullmatch(plain)
    if over and over["not"] and re.match("不(?!用)", plain):
        return f"{plain.removesuffix('了')}了"
    return f"不再{over['again'] or over['not'] or '有' + over['none']}" if over else re.sub("^已经(?=不再)", "", plain)


def _joins(piece: str, last: Statement) -> bool:
    """Whether a piece only goes on with the fact before it: 有一个女儿，叫朵朵; 喜欢苹果，香蕉和梨."""
    if _unclear(piece):
        return False
    if _P["JOINED"].fullmatch(f"{last.text}|{piece}"):
        return True
    if piece.startswith(("叫", "名叫")):
        return last.touches or last.attribute in {"family", "pet", "friend", "partner", "event", "own", "health", ""}
    kind = _read(piece).attribute
    if last.attribute == "friend":
        return last.text[:1] in "有交" and bool(kind)
    listed = _P["LISTED"].fullmatch(piece) and kind in {"", "habit", "study"}
    return last.attribute == "like" and bool(listed or _P["EXAMPLES"].fullmatch(piece))


def _is_fact(text: str, told: Statement) -> bool:
    """Whether a statement is worth keeping: one that a row understands, or a plain one that stands on its own."""
    if _unclear(text) or (not (told.single or told.ended) and _P["BROKEN"].search(text)):
        return False
    match told.attribute:
        case "skill":
            return _P["ABLE"].match(text.removeprefix(told.subject)) is not None
        case "own":
            return not _P["INNER"].search(text) and not _P["IDLE"].search(text)
        case "plan":
            return bool(told.ended or _P["PLAN"].match(text.removeprefix(told.subject))) and not _passing(text)
        case "event" | "habit" | "":
            return _stands(text, told)
    return not _P["LEAVING"].match(text) and not re.match("有(?:点|些)|想|可能|也许|差点", text)


def _passing(text: str) -> bool:
    return bool(_P["LEAVING"].match(text) or _P["IDLE"].search(text))


def _stands(text: str, told: Statement) -> bool:
    if _P["HABIT"].fullmatch(text) or (told.ended and len(text) >= _SHORTEST - 1 and not _P["IDLE"].search(text)):
        return True
    if len(text) < _SHORTEST or _P["PASSING"].match(text) or _passing(text):
        return False
    if told.attribute == "habit" and not told.touches:
        return not text.startswith("会") and len(text) <= _LONGEST_HABIT and not re.search("可以|时候|会$", text)
    return bool(_P["DONE"].fullmatch(text) or _P["GOING_ON"].fullmatch(text) or _P["PLAN"].match(text))
