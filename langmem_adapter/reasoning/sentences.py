"""Sentences of a message: which say nothing worth keeping, and which are short facts that the table of attributes reads.

Closed lists decide what is small talk, a question, a request or a command, in English and Chinese; in doubt a sentence is a
statement. "i go by River now, legally" is a name by its place, "new sim, 555-0192" a phone number by its shape and a word
beside it. What else a clause says follows the fact in brackets: "Works at Target (the one by the highway)". All
patterns look at a bounded stretch of text, so that time is proportional to a message's length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from langmem_adapter.statements.dates import MONTH_NAMES, TIME_WORDS
from langmem_adapter.statements.reader import (
    KIND_WORDS,
    PARTS,
    expanded,
    in_chinese,
    read,
    third_person,
    without_speaker,
)
from langmem_adapter.statements.tables import FORMS, KINDS, LONGEST, SINGLE, WORDS, patterns, rows
from langmem_adapter.text import STOPWORDS, TALK, is_cjk, talk_cjk

if TYPE_CHECKING:
    from collections.abc import Iterator

SENTENCES: Final = patterns("sentences", {**PARTS, "KIND": KIND_WORDS["KIND"], "MONTH_NAMES": MONTH_NAMES})
"""Patterns of sentences and their openings."""
_GRAMMAR: Final = frozenset(SENTENCES.texts["GRAMMAR"].split()) | STOPWORDS | TALK
_WORDS: Final = frozenset(SENTENCES.texts["WORDS"].split())
_LONGEST: Final = {"question": 25, "plain question": 15, "request": 20, "talk": 6, "thanks": 8}
_LONGEST_CJK: Final = {"question": 15, "request": 40, "talk": 10}
"""Words, in Chinese letters, of what says nothing; a longer one may state something."""
SentenceKind = Literal["talk", "question", "request", "command", "statement"]


_SHORT_FORMS: Final = dict(pair.split("=") for pair in SENTENCES.texts["SHORT"].split("|"))


def written_out(clause: str) -> str:
    """A clause with its short forms written out, those of chats as well."""
    return expanded(re.sub(r"[\w']+", lambda match: _SHORT_FORMS.get(match[0].lower(), match[0]), expanded(clause)))


class Sentence(NamedTuple):
    """One sentence, never blank, without its closing mark, and its place in the message.

    Of a *quoted* one, in a code block or a quotation, nothing is read.
    """

    text: str
    start: int
    end: int
    asks: bool = False
    quoted: bool = False


def sentences(text: str) -> list[Sentence]:
    """Split a message at closing marks and line ends; abbreviations, decimals and wrapped lines hold together.

    Example:
        >>> [s.text for s in sentences("I met Dr. Wu at 3 p.m. on Monday. 我很开心！OK?")]
        ['I met Dr. Wu at 3 p.m. on Monday', '我很开心', 'OK']
    """
    parts: list[Sentence] = []
    start, fences = 0, 0
    for end in SENTENCES["END"].finditer(text):
        before, after = text[max(0, end.start() - 10) : end.start()], text[end.end() : end.end() + 2].lstrip()[:1]
        short = SENTENCES["ABBREVIATION"].search(before) or (SENTENCES["HALF_DAY"].search(before) and after.islower())
        wrapped = end[0].count("\n") == 1 and after.islower()
        if not wrapped and (end[0] != "." or not short):
            parts += _sentence(text, start, end.end(), quoted=fences % 2 == 1)
            fences += text.count("```", start, end.end())
            start = end.end()
    return [*parts, *_sentence(text, start, len(text), quoted=fences % 2 == 1)]


def _sentence(text: str, start: int, end: int, *, quoted: bool) -> Iterator[Sentence]:
    whole = text[start:end]
    words = SENTENCES["BULLET"].sub("", whole[:12]) + whole[12:]
    plain = " ".join(words.strip().strip("*").split()).rstrip('.!?…。！？；"”』」）')
    if any(map(str.isalnum, plain)):
        asks = re.search("[?？]", whole.rstrip()[-4:]) is not None
        start = end - len(whole.lstrip())
        yield Sentence(plain, start, end, asks, quoted or "```" in whole or plain[:1] in ">＞")


def kind_of(sentence: Sentence) -> SentenceKind:
    """What a sentence is; in doubt a statement.

    Example:
        >>> [kind_of(each) for each in sentences("Thanks! How are you? Write a poem. I'm vegan, what can I eat?")]
        ['talk', 'question', 'request', 'statement']
    """
    text = sentence.text
    if SENTENCES["COMMAND"].search(text):
        return "command"
    if SENTENCES["QUOTING"].fullmatch(text):
        return "request"
    plain = written_out(re.sub(r"(\w)\1{2,}", r"\1", text)).lower()
    names = SENTENCES["NAMES"].search(text)  # what has a name, a number or a quotation says something
    if is_cjk(text):
        return "statement" if names else _kind_in_chinese(sentence)
    words = re.findall(r"[^\W_]++(?:'[^\W_]++)*", plain)
    mine = SENTENCES["OF_SPEAKER"].search(bare := SENTENCES["AFTER_AUX"].sub("", plain)) is not None
    open_ended = sentence.asks or SENTENCES["UNMARKED"].match(plain)  # also without a question mark
    short = len(plain.split()) <= _LONGEST["plain question"] and not re.search(r"\bthat (?:i|we)\b", plain)
    if open_ended and short and not mine and SENTENCES["PLAIN_QUESTION"].fullmatch(plain):
        return "question"
    wants = SENTENCES["REQUEST"].match(plain) or (SENTENCES["SECOND"].match(plain) and not mine)
    whole = names is None or names[0].isdigit()
    if wants and whole and len(words) <= _LONGEST["request"] and not re.search(r"\bi\b", bare):
        return "request"
    return "statement" if names else _kind_in_english(sentence, plain, words, mine=mine)


def _kind_in_english(sentence: Sentence, plain: str, words: list[str], *, mine: bool) -> SentenceKind:
    rest, short = _WORDS.issuperset(set(words) - _GRAMMAR), len(words) <= _LONGEST["talk"]
    if _GRAMMAR.issuperset(words) or (rest and short and {"my", "we"}.isdisjoint(words)):
        return "talk"
    if SENTENCES["THANKS"].match(plain) and len(words) <= _LONGEST["thanks"] and not mine:
        return "talk"
    shortly = short and SENTENCES["ASKING"].match(plain) is not None and "," not in plain  # "What's my email?"
    return "question" if sentence.asks and len(words) <= _LONGEST["question"] and (not mine or shortly) else "statement"


def _kind_in_chinese(sentence: Sentence) -> SentenceKind:
    plain = sentence.text
    thanks = len(plain) <= _LONGEST_CJK["talk"] and SENTENCES["THANKS"].match(plain) and "我" not in plain
    if thanks or is_talk_in_chinese(plain):
        return "talk"
    if (
        len(plain) <= _LONGEST_CJK["request"]
        and SENTENCES["REQUEST"].match(plain)
        and not SENTENCES["OF_ME_CJK"].search(plain)
    ):
        return "request"
    is_question = sentence.asks or plain.endswith("吗")
    plain = plain if sentence.asks else plain.removesuffix("呢")
    states = any("我" in piece and not SENTENCES["ASKED"].search(piece) for piece in re.split("[，,；;、 ]", plain))
    short = len(plain) <= _LONGEST_CJK["question"] and SENTENCES["ASKED"].search(plain) is not None
    return "question" if is_question and not states and ("我" not in plain or short) else "statement"


def is_talk_in_chinese(text: str) -> bool:
    """Whether a text has no words but those of grammar and small talk."""
    words = re.findall("[a-z]+", re.sub(r"(\w)\1{2,}", r"\1", text.lower()))
    is_plain = _GRAMMAR.union(_WORDS).issuperset(words) and not re.search(r"\d", text)
    return is_plain and not is_cjk(talk_cjk().sub("", text))


def paragraphs(text: str, most: int) -> list[str]:
    """A text in parts of at most so many letters, cut at paragraphs, else at sentences or words, else where it must be."""
    parts: list[str] = []
    while len(text) > most:
        ends = (
            text.rfind(mark, 1, most) + len(mark.rstrip())
            for mark in ("\n\n", "\n", ". ", "。", " ")
            if mark in text[1:most]
        )
        end = next(ends, most)
        parts.append(text[:end].strip())
        text = text[end:].lstrip()
    return [part for part in (*parts, text.strip()) if part]


# ── facts of a sentence ─────────────────────────────────────────────────────────────────────────────────────────────────────

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
"""The wording of a fact for a bare value."""
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
    match = SENTENCES["TOPIC"].search(sentence) if SENTENCES["CHANGED"].search(sentence) else None
    return next((name for name, words in match.groupdict().items() if words), "") if match else before


def attribute_named(text: str) -> str:
    """The attribute that a few words name: "my phone number", 我的邮箱."""
    plain = SENTENCES["POSSESSIVE"].sub("", text)
    return next((name for name, word in _NOUNS.items() if re.fullmatch(word, plain, re.IGNORECASE)), "")


def value_in(clause: str, topic: str, sentence: str, *, chinese: bool, mine: bool = False) -> Value | None:
    """The value that a clause gives of an attribute of its speaker; of what is doubtful, lies ahead or is another's none.

    Args:
        clause: The text between two marks.
        topic: The attribute that was spoken of just before.
        sentence: The whole sentence, which may name the owner of a number.
        chinese: Whether it is read as Chinese.
        mine: Whether the clause before is about the speaker.
    """
    plain = clause if chinese else written_out(clause)
    plain = SENTENCES["LEAD"].sub("", plain)
    value = _by_shape(plain, topic, sentence, chinese=chinese)
    if value or SENTENCES["DOUBT"].search(plain) or SENTENCES["AHEAD"].search(plain):
        return value
    return _by_place(plain, topic, chinese=chinese, mine=mine) or _of_topic(plain, topic, chinese=chinese)


def _by_shape(plain: str, topic: str, sentence: str, *, chinese: bool) -> Value | None:
    if SENTENCES["THEIRS"].search(sentence):
        return None
    text = SENTENCES["INSTEAD"].sub(" ", plain)
    for attribute in _SHAPES:
        match = SENTENCES[attribute].search(text)
        cued = topic == attribute or SENTENCES[f"{attribute}_cue"].search(sentence)
        denied = match and re.search(r"\b(?:not|no longer)\W*$|不是\s*$", text[: match.start()], re.IGNORECASE)
        if match and cued and not denied and (attribute != "phone" or sum(map(str.isdigit, match[0])) > _DIGITS):
            rest = f"{text[: match.start()]} {text[match.end() :]}"
            return Value(_FACTS[attribute][chinese].format(match[0]), _rest(rest) if says_more(rest) else "")
    return None


def says_more(rest: str) -> bool:
    """Whether the rest of a clause has a word that no value needs."""
    return re.search(r"[a-z]\w|[\u4e00-\u9fff]|\d\d", SENTENCES["CUES"].sub("", rest), re.IGNORECASE) is not None


def _by_place(plain: str, topic: str, *, chinese: bool, mine: bool) -> Value | None:
    """What a row for clauses reads, or the longest beginning of a clause that the table of attributes reads whole."""
    for row in _CLAUSES:
        if (match := row.pattern.match(plain)) and _is_value(row.attribute, match["v"]):
            return Value(row.put.format(v=match["v"]), _rest(plain[match.end() :]))
    for end in _ends(plain):
        fact = without_speaker(plain[:end], goes_on=True) if chinese else _value_in_english(plain[:end])
        statement = read(fact)
        attribute = statement.attribute
        bare = plain[end : end + 1].isspace() and (SENTENCES["BARE"].match(plain) or fact.startswith("Job is"))
        named = attribute == "name" or (attribute == "job" and not mine)
        alone = bare or (chinese and named and "我" not in plain and attribute != topic)  # a cat's name
        if is_single(fact) and not alone and _is_value(attribute, statement.value):
            return Value(fact, _rest(plain[end:]))
    return None


def _ends(plain: str) -> Iterator[int]:
    yield len(plain)
    yield from sorted({match.start() for match in SENTENCES["BOUNDARY"].finditer(plain) if match.start()}, reverse=True)


def _value_in_english(plain: str) -> str:
    plain = plain.strip(" ,.!")
    plain = SENTENCES["INVERSE"].sub(r"my \g<n> is \g<v>", plain)
    plain = SENTENCES["BARE_NOUN"].sub(r"my \g<n> is ", plain)
    bare = SENTENCES["BARE"].match(plain)
    return third_person(f"I {'am ' if bare['am'] else ''}{plain}" if bare else plain)


def _of_topic(plain: str, topic: str, *, chinese: bool) -> Value | None:
    """A value alone, of the attribute that was spoken of before: "My name changed, it's Robin now"."""
    one = SENTENCES["ONE_CJK" if chinese else "ONE"].match(plain)
    if chinese and one and topic in {"home", "job"}:  # 现在在X is a workplace, 现在是X a job, neither a home
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
    statement = read(fact)
    return statement.positive and not statement.subject and statement.attribute in SINGLE


def is_name(v: str) -> bool:
    """Whether a word may be a person's name."""
    odd = (WORDS["NO_NAME"] | WORDS["NO_JOB"] | TIME_WORDS) & {*v.lower().split()}
    return not odd and (v[0].isupper() or v.lower() not in FORMS) and not SENTENCES["NATION"].fullmatch(v)


def _is_value(attribute: str, v: str) -> bool:
    return bool(v.strip()) and (is_name(v) if attribute == "name" else SENTENCES["NO_VALUE"].search(v) is None)


def _rest(text: str) -> str:
    text = SENTENCES["TAIL"].sub("", text.strip(" ,.!;:，。；：！~～-–—()")).strip(" ,.!;:，。；：！~～")
    return text if re.search(r"\w\w", text) else ""


_SHORT, _SHORT_CJK = 5, 8  # words, letters of what goes with a value even where it has its own subject
_SUBJECT: Final = re.compile(r"(?!(?:i|we)\b)[\w'’.-]++(?: [\w'’.-]++){0,2} and ", re.IGNORECASE)
"""One who does the same as the speaker: "Tom and", "my brother and"."""
_PRONOUN: Final = re.compile(r"(?:she|he|it|they|her|his|its|their)\b", re.IGNORECASE)


@dataclass
class _Clause:
    """A clause: its words, the fact that it makes, and what goes with that."""

    words: str
    fact: str = ""
    rest: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return f"{self.fact} ({', '.join(self.rest)})" if self.rest else self.fact


class SentenceFacts(NamedTuple):
    """The facts of a sentence, each with the words it is made of, the clauses that are none, and the attribute spoken of."""

    facts: list[tuple[str, str]]
    rest: list[str]
    topic: str = ""


def tidied(text: str, *, greeted: bool = False, topic: str = "") -> SentenceFacts:
    """Read a sentence.

    A sentence becomes facts where all of its clauses are read whole. Else a clause does where it gives the one value of an
    attribute of the speaker: "I got promoted, I'm a manager now"; what goes with it follows in brackets.

    Args:
        text: One sentence that asks nothing.
        greeted: Whether a greeting comes before it: "Hi, I'm John" is a name, "I'm Happy" may be none.
        topic: The attribute that the sentence before is about.

    Example:
        >>> tidied("I live in Paris and work at Google").facts
        [('Lives in Paris', 'I live in Paris and work at Google'), ('Works at Google', 'I live in Paris and work at Google')]
        >>> tidied("I work at Target, the one by the highway").facts[0][0]
        'Works at Target (the one by the highway)'
    """
    if len(text) > LONGEST or re.search(r"[\"“”\[\]{}<>|]", text):
        return SentenceFacts([], [text])
    signs, words = len(re.findall("[\u4e00-\u9fff]", text)), len(re.findall("[A-Za-z]+", text))
    chinese = is_cjk(text) and (in_chinese(text) or signs > 2 * words)
    opening = None if chinese else SENTENCES["OPENING"].match(text)
    greeted = greeted or (opening is not None and SENTENCES["GREETING"].match(opening[0]) is not None)
    plain = text[opening.end() :] if opening else text
    whole = "" if chinese else _fact(plain, greeted=greeted)
    if whole and (is_single(whole) or not value_in(plain, topic, text, chinese=False)):
        return SentenceFacts([(whole, text)], [], topic)
    clauses = [*(_in_chinese(text, topic) if chinese else _in_english(plain, topic, text, greeted=greeted))]
    topic = topic_of(text, topic)
    sure = not any(SENTENCES["DOUBT"].search(clause.words) for clause in clauses if not clause.fact)
    values = [read(clause.fact).attribute for clause in clauses if is_single(clause.fact)]
    if len(values) > len(set(values)) and not (sure and SENTENCES["CHANGED"].search(text)):
        return SentenceFacts([], [text], topic)  # two values of one attribute
    clauses = _joined(clauses) if sure else clauses
    single = [clause for clause in clauses if is_single(clause.fact)]
    if clauses and all(clause.fact for clause in clauses):
        facts = [(clause.text, text if clause in single else clause.words) for clause in clauses]
        return SentenceFacts(facts, [], topic)
    rest = [clause.words for clause in clauses if clause not in single]
    if not single or not sure or not all(words in text for words in rest):
        return SentenceFacts([], [text], topic)
    return SentenceFacts([(clause.text, text) for clause in single], rest, topic)


def _joined(clauses: list[_Clause]) -> list[_Clause]:
    """A clause without its own subject, or a short one, joins the value beside it; small talk is dropped."""
    values = [*{read(clause.fact).attribute: clause for clause in clauses if is_single(clause.fact)}.values()]
    joined: list[_Clause] = []
    for clause in clauses if values else ():
        words = clause.words.strip(" ,.!:;")
        short = len(words) <= _SHORT_CJK if is_cjk(words) else len(words.split()) <= _SHORT
        older = next((each for each in values if _replaces(each, clause)), None)
        if older:
            older.rest.insert(0, ", ".join([words, *clause.rest]))
        elif clause.fact or (SENTENCES["OWN_SUBJECT"].match(words) and not short):
            joined.append(clause)
        elif kind_of(Sentence(words, 0, 0)) != "talk" and says_more(words):
            next((before for before in reversed(joined) if before in values), values[0]).rest.append(words)
    return joined or clauses


def _replaces(newer: _Clause, older: _Clause) -> bool:
    """Whether a clause says what was before the value that another one gives: "I left Acme, I'm at Bosch"."""
    before = read(older.fact)
    about_me = before.attribute == read(newer.fact).attribute and not before.subject
    return newer is not older and about_me and (before.positive or before.ended)


def _in_english(plain: str, topic: str, sentence: str, *, greeted: bool) -> Iterator[_Clause]:
    """The parts of a sentence that have their own subject, or borrow that of the part before, as they are read."""
    start, shared = 0, ""
    for cut in [*SENTENCES["CUT"].finditer(plain), None]:
        piece = plain[start : cut.start() if cut else len(plain)]
        if cut and _SUBJECT.fullmatch(plain[start : cut.end()]):
            continue
        if piece.strip(" ,.!…"):
            fact = _fact(f"{shared}{piece}", greeted=greeted and not start)
            value = None if is_single(fact) else value_in(f"{shared}{piece}", topic, sentence, chinese=False)
            fact, rest = (value.fact, [*filter(None, [value.rest])]) if value else (fact, [])
            yield _Clause(f"{shared}{piece}", fact, rest)
            topic = topic_of(piece, topic)
        if cut:
            start, shared = cut.end(), "I " if cut["shared"] is not None else ""


def _fact(clause: str, *, greeted: bool) -> str:
    plain = expanded(clause).strip(" ,.!…")
    if greeted and (match := SENTENCES["I_AM"].fullmatch(plain)) and is_name(match["name"]):
        return f"Name is {match['name']}"
    pronoun = _PRONOUN.match(plain) is not None
    text = plain[0].upper() + plain[1:] if pronoun else third_person(plain)
    statement = read(text)
    first = statement.subject.split()[0] if statement.subject else ""
    if pronoun:  # about a person or an animal, and no thing
        fits = first in {"she", "he"} or (first in {"her", "his", "it", "its"} and statement.attribute == "name")
    else:  # about the speaker, or a person of a word of kin
        of_kin = first in KINDS | WORDS["QUALITY"] or any(person.kind for person in statement.people)
        fits = statement.attribute in {"detail", "favorite"} or not first or of_kin
    return text if statement.attribute and fits else ""


def _in_chinese(text: str, topic: str) -> Iterator[_Clause]:
    other, mine, surname = "", False, False  # the person of the clause before, if not the speaker
    for piece in filter(None, map(str.strip, SENTENCES["CUT_CJK"].split(text))):
        before, topic = topic, topic_of(piece, topic)
        if SENTENCES["FILLER_CJK"].search(piece) or is_talk_in_chinese(piece):
            continue
        owned = SENTENCES["OTHER_CJK"].match(piece)
        partner = owned is not None and SENTENCES["PARTNER_CJK"].search(owned["kin"] or "") is not None
        about_me = partner or (owned is None and (not other or "我" in piece))
        spoken = f"我{piece}" if surname and piece.startswith("叫") else piece
        surname = piece.startswith("我姓")
        value = value_in(spoken, before, text, chinese=True, mine=mine) if about_me else None
        if value:
            yield _Clause(piece, value.fact, [*filter(None, [value.rest])])
            other, mine = "", True
            continue
        plain = without_speaker(piece, goes_on=mine) or (f"{other}{piece}" if other else "")
        statement = read(plain)
        attribute = statement.attribute
        odd = piece[0] in "他她它" and attribute not in {"name", "pet", "family", "home", "employer", "job", "age"}
        loose = attribute == "detail" and not re.match("我们?(?:的|家)|新", piece)
        loose = loose or (attribute == "name" and not statement.subject and "我" not in piece and before != "name")
        ahead = is_single(plain) and SENTENCES["AHEAD"].search(piece) is not None
        fact = "" if odd or loose or ahead or not attribute else plain
        yield _Clause(piece, fact)
        other = (owned["kin"] or owned["name"]) if owned else other if other and plain.startswith(other) else ""
        mine = bool(fact) and not owned and (mine or piece.startswith("我"))
