"""Values of the attributes that a speaker has one of, read from a clause: by their place, or by their own shape.

"i go by River now, legally" is a name by its place, "new sim, 555-0192" a phone number by its shape and a word beside it. What
the clause says besides stands in brackets behind the fact: "Works at Target (the one by the highway)".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from langmem_adapter.reasoning.rules.messages import SENTENCES, written_out
from langmem_adapter.statements.chinese import PARTS, without_speaker
from langmem_adapter.statements.dates import TIME_WORDS
from langmem_adapter.statements.english import third_person
from langmem_adapter.statements.parser import read
from langmem_adapter.statements.statement import SINGLE
from langmem_adapter.statements.tables import rows
from langmem_adapter.statements.words import FORMS, WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Value", "attribute_named", "is_name", "is_single", "says_more", "topic_of", "value_in"]

_FACTS: Final = {
    "name": ("Name is {}", "名字是{}"),
    "home": ("Lives in {}", "住在{}"),
    "employer": ("Works at {}", "在{}工作"),
    "job": ("Is {}", "职业是{}"),
    "age": ("Is {} years old", "{}岁"),
    "partner": ("Partner is {}", "对象叫{}"),
    "birthday": ("Birthday is {}", "生日是{}"),
    "phone": ("Phone number is {}", "电话是{}"),
    "email": ("Email is {}", "邮箱是{}"),
}
"""How a fact is worded whose value stands alone."""
_NOUNS: Final = {
    "name": "name|名字",
    "home": "home|home address|where i live|住址|住处",
    "employer": "employer|company|workplace|公司|单位",
    "job": "job|job title|profession|occupation|工作|职业",
    "age": "age|年龄",
    "birthday": "birthday|date of birth|生日",
    "partner": "partner|wife|husband|girlfriend|boyfriend|对象|老公|老婆|女朋友|男朋友",
    "phone": "(?:(?:phone|cell|mobile)(?: phone)? ?)?(?:number)?|(?:手机|电话)?号?码?|手机|电话",
    "email": "e-?mail(?: address)?|(?:电子)?邮[箱件](?:地址)?",
}
"""What each attribute is called."""
_CLAUSES: Final = rows("clauses", PARTS)
_SHAPES: Final = ("email", "phone", "birthday")
_DIGITS: Final = 6  # a phone number has more


class Value(NamedTuple):
    """What a clause gives: the fact, and what it says besides."""

    fact: str
    rest: str


def topic_of(sentence: str, before: str = "") -> str:
    """The attribute that a sentence is about, where it says that its value is another now; else that of *before*."""
    found = SENTENCES["TOPIC"].search(sentence) if SENTENCES["CHANGED"].search(sentence) else None
    return next((name for name, words in found.groupdict().items() if words), "") if found else before


def attribute_named(text: str) -> str:
    """The attribute that a few words name: "my phone number", 我的邮箱.

    Example:
        >>> attribute_named("my email"), attribute_named("我的电话号码"), attribute_named("my email is a@b.org")
        ('email', 'phone', '')
    """
    plain = SENTENCES["POSSESSIVE"].sub("", text)
    return next((name for name, word in _NOUNS.items() if re.fullmatch(word, plain, re.IGNORECASE)), "")


def value_in(clause: str, topic: str, sentence: str, *, chinese: bool, mine: bool = False) -> Value | None:
    """The value that a clause gives of an attribute of its speaker; of what is doubtful, lies ahead or is another's none.

    Args:
        clause: What stands between two marks.
        topic: The attribute that was spoken of just before.
        sentence: All that is said in one go, which may say whose number it is.
        chinese: Whether it is read as Chinese.
        mine: Whether the clause before is about the speaker.

    Example:
        >>> value_in("my cell's dead, it's 555-0192 now", "", "my cell's dead, it's 555-0192 now", chinese=False)[0]
        'Phone number is 555-0192'
    """
    plain = clause if chinese else written_out(clause)
    plain = SENTENCES["LEAD"].sub("", plain)
    found = _by_shape(plain, topic, sentence, chinese=chinese)
    if found or SENTENCES["DOUBT"].search(plain) or SENTENCES["AHEAD"].search(plain):
        return found
    return _by_place(plain, topic, chinese=chinese, mine=mine) or _of_topic(plain, topic, chinese=chinese)


def _by_shape(plain: str, topic: str, sentence: str, *, chinese: bool) -> Value | None:
    if SENTENCES["THEIRS"].search(sentence):
        return None
    text = SENTENCES["INSTEAD"].sub(" ", plain)
    for attribute in _SHAPES:
        found = SENTENCES[attribute].search(text)
        cued = topic == attribute or SENTENCES[f"{attribute}_cue"].search(sentence)
        denied = found and re.search(r"\b(?:not|no longer)\W*$|不是\s*$", text[: found.start()], re.IGNORECASE)
        if found and cued and not denied and (attribute != "phone" or sum(map(str.isdigit, found[0])) > _DIGITS):
            rest = f"{text[: found.start()]} {text[found.end() :]}"
            return Value(_FACTS[attribute][chinese].format(found[0]), _rest(rest) if says_more(rest) else "")
    return None


def says_more(rest: str) -> bool:
    """Whether what stands beside a value holds a word that no value needs."""
    return re.search(r"[a-z]\w|[\u4e00-\u9fff]|\d\d", SENTENCES["CUES"].sub("", rest), re.IGNORECASE) is not None


def _by_place(plain: str, topic: str, *, chinese: bool, mine: bool) -> Value | None:
    """What a row for clauses reads, or the longest beginning of a clause that the table of attributes reads whole."""
    for row in _CLAUSES:
        if (found := row.pattern.match(plain)) and _is_value(row.attribute, found["v"]):
            return Value(row.put.format(v=found["v"]), _rest(plain[found.end() :]))
    for end in _ends(plain):
        fact = without_speaker(plain[:end], goes_on=True) if chinese else _in_english(plain[:end])
        said = read(fact)
        bare = (
            end < len(plain)
            and (SENTENCES["BARE"].match(plain) or said.text.startswith("Job is"))
            and plain[end : end + 1].isspace()
        )
        named = said.attribute == "name" or (said.attribute == "job" and not mine)
        alone = bare or (chinese and named and "我" not in plain and said.attribute != topic)  # a cat's name
        if is_single(fact) and not alone and _is_value(said.attribute, said.value):
            return Value(fact, _rest(plain[end:]))
    return None


def _ends(plain: str) -> Iterator[int]:
    yield len(plain)
    yield from sorted({found.start() for found in SENTENCES["BOUNDARY"].finditer(plain) if found.start()}, reverse=True)


def _in_english(plain: str) -> str:
    plain = plain.strip(" ,.!")
    plain = SENTENCES["INVERSE"].sub(r"my \g<n> is \g<v>", plain)
    plain = SENTENCES["BARE_NOUN"].sub(r"my \g<n> is ", plain)
    bare = SENTENCES["BARE"].match(plain)
    return third_person(f"I {'am ' if bare['am'] else ''}{plain}" if bare else plain)


def _of_topic(plain: str, topic: str, *, chinese: bool) -> Value | None:
    """A value alone, of the attribute that was spoken of before: "My name changed, it's Robin now"."""
    one = SENTENCES["ONE_CJK" if chinese else "ONE"].match(plain)
    if chinese and one and topic in {"home", "job"}:  # 现在在X is where somebody works, 现在是X what he is, and no home
        is_kind = one[0].strip().endswith(("是", "为"))
        topic = ("job" if is_kind else "employer") if topic == "job" else "" if is_kind else topic
    if not one or topic not in _FACTS:
        return None
    for end in _ends(plain[one.end() :]):
        v = plain[one.end() :][:end].strip(" ,.!")
        v = SENTENCES["END_CJK"].sub("", v) if chinese else v
        fact = _FACTS[topic][chinese].format(v)
        if v and (chinese or re.search(r"[A-Z\d]", v)) and read(fact).attribute == topic and _is_value(topic, v):
            return Value(fact, _rest(plain[one.end() + end :]))
    return None


def is_single(fact: str) -> bool:
    """Whether a fact gives the one value of an attribute of its speaker."""
    said = read(fact)
    return said.positive and not said.subject and said.attribute in SINGLE


def is_name(v: str) -> bool:
    """Whether a word may be somebody's name."""
    odd = (WORDS["NO_NAME"] | WORDS["NO_JOB"] | TIME_WORDS) & {*v.lower().split()}
    return not odd and (v[0].isupper() or v.lower() not in FORMS) and not SENTENCES["NATION"].fullmatch(v)


def _is_value(attribute: str, v: str) -> bool:
    return bool(v.strip()) and (is_name(v) if attribute == "name" else SENTENCES["NO_VALUE"].search(v) is None)


def _rest(text: str) -> str:
    text = SENTENCES["TAIL"].sub("", text.strip(" ,.!;:，。；：！~～-–—()")).strip(" ,.!;:，。；：！~～")
    return text if re.search(r"\w\w", text) else ""
