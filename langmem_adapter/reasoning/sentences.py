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

from langmem_adapter.statements.dates import TIME_WORDS
from langmem_adapter.statements.reader import (
    CHINESE,
    ENGLISH,
    KIN,
    KIND,
    LONGEST,
    expanded,
    in_chinese,
    read,
    third_person,
    without_speaker,
)
from langmem_adapter.statements.tables import ATTRIBUTES, KINDS, patterns, rows, verb_form
from langmem_adapter.text import STOPWORDS, TALK, is_cjk, talk_cjk

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARTS: Final = {
    "KIN": KIN,
    "KIND": KIND,
    "END_ZH": CHINESE.texts["END"],
    "LATELY": ENGLISH.texts["LATELY"],
    **{name: CHINESE.texts[name] for name in ("SURNAME",)},
}
SENTENCES: Final = patterns("sentences", _PARTS)
"""Patterns of sentences and their openings."""
_NOUNS: Final = rows("attributes", _PARTS)
"""What attributes are called, and how a fact words a bare value of them."""
_CLAUSES: Final = rows("clauses", patterns("clauses", _PARTS).texts)
_GRAMMAR: Final = frozenset(SENTENCES.texts["GRAMMAR"].split()) | STOPWORDS | TALK
_WORDS: Final = frozenset(SENTENCES.texts["WORDS"].split()) | _GRAMMAR
_LONGEST: Final = {"question": 25, "plain question": 15, "request": 20, "talk": 6, "thanks": 8}
_SHORTEST_CJK: Final = 4  # letters of a clause that may state something
_LONGEST_CJK: Final = {"question": 15, "request": 40, "talk": 10}
"""Words, in Chinese letters, of what says nothing; a longer one may state something."""
_SHORT_FORMS: Final = dict(pair.split("=") for pair in SENTENCES.texts["SHORT"].split("|"))


class Sentence(NamedTuple):
    """One sentence, never blank, without its closing mark, and as it is written in the message.

    Of a *quoted* one, in a code block or a quotation, nothing is read.
    """

    text: str
    written: str = ""
    asks: bool = False
    quoted: bool = False


def sentences(text: str) -> list[Sentence]:
    """Split a message at closing marks and line ends; abbreviations, decimals and wrapped lines hold together.

    Example:
        >>> [s.text for s in sentences("I met Dr. Wu at 3 p.m. on Monday. 我很开心！OK?")]
        ['I met Dr. Wu at 3 p.m. on Monday', '我很开心', 'OK']
    """
    parts: list[Sentence] = []
    start, in_code = 0, False
    for end in SENTENCES["END"].finditer(text):
        before, after = text[max(0, end.start() - 10) : end.start()], text[end.end() : end.end() + 2].lstrip()[:1]
        short = SENTENCES["ABBREVIATION"].search(before) or (SENTENCES["HALF_DAY"].search(before) and after.islower())
        wrapped = end[0].count("\n") == 1 and after.islower()
        if not wrapped and (end[0] != "." or not short) and text[start : end.end()].strip():
            parts += _sentence(text[start : end.end()], in_code=in_code)
            in_code ^= text.count("```", start, end.end()) % 2 == 1
            start = end.end()
    return [*parts, *_sentence(text[start:], in_code=in_code)]


def _sentence(written: str, *, in_code: bool) -> Iterator[Sentence]:
    words = SENTENCES["BULLET"].sub("", written[:12]) + written[12:]
    plain = " ".join(words.strip().strip("*").split()).rstrip('.!?…。！？；"”』」）')
    if any(map(str.isalnum, plain)):
        asks = re.search("[?？]", written.rstrip()[-4:]) is not None
        yield Sentence(plain, written, asks, in_code or "```" in written or plain[:1] in ">＞")


def paragraphs(text: str, most: int) -> list[str]:
    """A text in parts of at most so many letters, cut at paragraphs, else at sentences or words, else where it must be."""
    parts: list[str] = []
    while len(text) > most:
        places = (text.rfind(mark, 1, most) + len(mark.rstrip()) for mark in ("\n\n", "\n", ". ", "。", " "))
        end = next((place for place in places if place > 1), most)
        parts.append(text[:end].strip())
        text = text[end:].lstrip()
    return [part for part in (*parts, text.strip()) if part]


# ── small talk, questions, requests, commands ───────────────────────────────────────────────────────────────────────────────


def kind_of(sentence: Sentence) -> Literal["nothing", "command", "statement"]:
    """What a sentence is: small talk, pure questions and requests say nothing; in doubt it is a statement.

    Example:
        >>> [kind_of(each) for each in sentences("Thanks! How are you? Write a poem. I'm vegan, what can I eat?")]
        ['nothing', 'nothing', 'nothing', 'statement']
    """
    if SENTENCES["COMMAND"].search(sentence.text):
        return "command"
    says_nothing = _says_nothing_in_chinese if is_cjk(sentence.text) else _says_nothing_in_english
    return "nothing" if SENTENCES["QUOTING"].fullmatch(sentence.text) or says_nothing(sentence) else "statement"


def _says_nothing_in_english(sentence: Sentence) -> bool:
    plain = _written_out(re.sub(r"(\w)\1{2,}", r"\1", sentence.text)).lower()
    words = re.findall(r"[^\W_]++(?:'[^\W_]++)*", plain)
    count, bare = len(words), SENTENCES["AFTER_AUX"].sub("", plain)
    mine = SENTENCES["OF_SPEAKER"].search(bare) is not None
    asks = (sentence.asks or SENTENCES["UNMARKED"].match(plain)) and count <= _LONGEST["plain question"]
    if asks and not mine and SENTENCES["PLAIN_QUESTION"].fullmatch(plain):
        return True
    names = SENTENCES["NAMES"].search(sentence.text)  # what has a name, a number or a quotation says something
    wants = SENTENCES["REQUEST"].match(plain) or (SENTENCES["SECOND"].match(plain) and not mine)
    if wants and count <= _LONGEST["request"] and not re.search(r"\bi\b", bare):
        return names is None or names[0].isdigit()
    if names:
        return False
    if sentence.asks and count <= _LONGEST["question"] and not mine:
        return True
    shortly = count <= _LONGEST["talk"] and sentence.asks and "," not in plain  # "What's my email?"
    idle = count <= _LONGEST["talk"] and _WORDS.issuperset(words) and {"my", "we"}.isdisjoint(words)
    thanks = count <= _LONGEST["thanks"] and SENTENCES["THANKS"].match(plain) and not mine
    return bool(shortly or idle or thanks or _GRAMMAR.issuperset(words))


def _says_nothing_in_chinese(sentence: Sentence) -> bool:
    text, count = sentence.text, len(sentence.text)
    if SENTENCES["NAMES"].search(text):
        return False
    thanks = count <= _LONGEST_CJK["talk"] and SENTENCES["THANKS"].match(text) and "我" not in text
    wants = count <= _LONGEST_CJK["request"] and SENTENCES["REQUEST"].match(text)
    if thanks or is_talk_in_chinese(text) or (wants and not SENTENCES["OF_ME_CJK"].search(text)):
        return True
    plain = text if sentence.asks else text.removesuffix("呢")
    states = any(map(_states_in_chinese, re.split("[，,；;]", plain)[:-1])) or any(
        "我" in piece and not SENTENCES["ASKED"].search(piece) for piece in re.split("[，,；;、 ]", plain)
    )
    short = count <= _LONGEST_CJK["question"] and SENTENCES["ASKED"].search(plain)
    return bool((sentence.asks or text.endswith("吗")) and not states and ("我" not in plain or short))


def _states_in_chinese(clause: str) -> bool:
    """Whether a clause before a question states something: 最近睡得很差，有什么办法吗."""
    asks_or_assumes = SENTENCES["ASKED"].search(clause) or SENTENCES["ASSUMES_CJK"].match(clause)
    return len(clause) > _SHORTEST_CJK and not asks_or_assumes and not is_talk_in_chinese(clause)


def is_talk_in_chinese(text: str) -> bool:
    """Whether a text has no words but those of grammar and small talk."""
    words = re.findall("[a-z]+", re.sub(r"(\w)\1{2,}", r"\1", text.lower()))
    return _WORDS.issuperset(words) and not re.search(r"\d", text) and not is_cjk(talk_cjk().sub("", text))


def _written_out(clause: str) -> str:
    """A clause with its short forms written out, those of chats as well."""
    return expanded(re.sub(r"[\w']+", lambda match: _SHORT_FORMS.get(match[0].lower(), match[0]), expanded(clause)))


# ── the value of an attribute in a clause ───────────────────────────────────────────────────────────────────────────────────

_DIGITS: Final = 6  # a phone number has more


@dataclass(slots=True)
class Clause:
    """A clause: its words, the fact that it makes, and what goes with that."""

    words: str
    fact: str = ""
    rest: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The fact as it is remembered."""
        return f"{self.fact} ({', '.join(self.rest)})" if self.rest else self.fact


def topics_of(sentence: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The attributes that a sentence is about, where it says that something is another now; else those of *before*."""
    changed = SENTENCES["CHANGED"].search(sentence)
    return tuple(row.attribute for row in _NOUNS if row.pattern.search(sentence)) if changed else before


def attribute_named(text: str) -> str:
    """The attribute that a few words name: "my phone number", 我的邮箱."""
    plain = SENTENCES["POSSESSIVE"].sub("", text)
    return next((row.attribute for row in _NOUNS for name in (text, plain) if row.pattern.fullmatch(name)), "")


def value_in(
    clause: str, topics: tuple[str, ...], sentence: str, *, chinese: bool, mine: bool = False
) -> Clause | None:
    """The value that a clause gives of an attribute of its speaker; of what is doubtful, lies ahead or is another's none.

    Args:
        clause: The text between two marks.
        topics: The attributes that were spoken of just before.
        sentence: The whole sentence, which may name the owner of a number.
        chinese: Whether it is read as Chinese.
        mine: Whether the clause before is about the speaker.
    """
    plain = SENTENCES["LEAD"].sub("", clause if chinese else _written_out(clause))
    value = _by_shape(plain, topics, sentence, chinese=chinese)
    if value or SENTENCES["DOUBT"].search(plain) or SENTENCES["AHEAD"].search(plain):
        return value
    return _by_place(plain, topics, chinese=chinese, mine=mine) or _of_topic(plain, topics, chinese=chinese)


def _by_shape(plain: str, topics: tuple[str, ...], sentence: str, *, chinese: bool) -> Clause | None:
    """An e-mail address, or a phone number beside a word that names it, where a word says that it is the speaker's."""
    if SENTENCES["THEIRS"].search(sentence):
        return None
    text = SENTENCES["INSTEAD"].sub(" ", plain)
    for attribute in ("email", "phone"):
        match = SENTENCES[attribute].search(text)
        named = attribute == "email" or any(
            row.pattern.search(sentence) for row in _NOUNS if row.attribute == attribute
        )
        cued = attribute in topics or (named and SENTENCES["OWN"].search(sentence))
        denied = match and re.search(r"\b(?:not|no longer)\W*$|不是\s*$", text[: match.start()], re.IGNORECASE)
        if match and cued and not denied and (attribute != "phone" or sum(map(str.isdigit, match[0])) > _DIGITS):
            rest = f"{text[: match.start()]} {text[match.end() :]}"
            return Clause(plain, _worded(attribute, match[0], chinese=chinese), _rest(rest) if says_more(rest) else [])
    return None


def _worded(attribute: str, v: str, *, chinese: bool) -> str:
    put = next(row.put for row in _NOUNS if row.attribute == attribute and is_cjk(row.put) == chinese)
    return put.format(v=v)


def says_more(rest: str) -> bool:
    """Whether the rest of a clause has a word that no value needs."""
    return re.search(r"[a-z]\w|[\u4e00-\u9fff]|\d\d", SENTENCES["CUES"].sub("", rest), re.IGNORECASE) is not None


def _by_place(plain: str, topics: tuple[str, ...], *, chinese: bool, mine: bool) -> Clause | None:
    """What a row for clauses reads, or the longest beginning of a clause that the table of attributes reads whole."""
    for row in _CLAUSES:
        if (match := row.pattern.match(plain)) and _is_value(row.attribute, match["v"]):
            return Clause(plain, row.put.format(v=match["v"]), _rest(plain[match.end() :]))
    for end in _ends(plain):
        fact = without_speaker(plain[:end], goes_on=True) if chinese else _value_in_english(plain[:end])
        statement = read(fact)
        attribute = statement.attribute
        bare = plain[end : end + 1].isspace() and (SENTENCES["BARE"].match(plain) or fact.startswith("Job is"))
        named = attribute == "name" or (attribute == "job" and not mine)
        alone = bare or (chinese and named and "我" not in plain and attribute not in topics)  # a cat's name
        if is_single(fact) and not alone and _is_value(attribute, statement.value):
            return Clause(plain, fact, _rest(plain[end:]))
    return None


def _ends(plain: str) -> Iterator[int]:
    yield len(plain)
    yield from sorted({match.start() for match in SENTENCES["BOUNDARY"].finditer(plain) if match.start()}, reverse=True)


def _value_in_english(plain: str) -> str:
    plain = SENTENCES["INVERSE"].sub(r"my \g<n> is \g<v>", plain.strip(" ,.!"))
    plain = SENTENCES["BARE_NOUN"].sub(r"my \g<n> is ", plain)
    bare = SENTENCES["BARE"].match(plain)
    return third_person(f"I {'am ' if bare['am'] else ''}{plain}" if bare else plain)


def _of_topic(plain: str, topics: tuple[str, ...], *, chinese: bool) -> Clause | None:
    """A value alone, of an attribute that was spoken of before: "My name changed, it's Robin now"."""
    one = SENTENCES["ONE_CJK" if chinese else "ONE"].match(plain)
    if one is None:
        return None
    is_kind = one[0].strip().endswith(("是", "为"))  # 现在在X is a workplace, 现在是X a job, neither a home
    odd = {"home", "employer" if is_kind else "job"} if chinese else set()
    for end in _ends(plain[one.end() :]):
        v = plain[one.end() :][:end].strip(" ,.!")
        v = SENTENCES["END_CJK"].sub("", v) if chinese else v
        for topic in topics if v and (chinese or re.search(r"[A-Z\d]", v)) else ():
            fact = _worded(topic, v, chinese=chinese)
            if topic not in odd and read(fact).attribute == topic and _is_value(topic, v):
                return Clause(plain, fact, _rest(plain[one.end() + end :]))
    return None


def is_single(fact: str) -> bool:
    """Whether a fact gives the one value of an attribute of its speaker."""
    statement = read(fact)
    return statement.positive and not statement.subject and statement.attribute in ATTRIBUTES["SINGLE"]


def is_name(v: str) -> bool:
    """Whether a word may be a person's name."""
    odd = any(ENGLISH[name].search(f"|{word}") for name in ("NO_NAME", "NO_JOB") for word in v.split())
    verb = v[0].islower() and verb_form(v)[0]
    return not odd and not verb and TIME_WORDS.isdisjoint(v.lower().split()) and not ENGLISH["NATION"].fullmatch(v)


def _is_value(attribute: str, v: str) -> bool:
    return bool(v.strip()) and (is_name(v) if attribute == "name" else SENTENCES["NO_VALUE"].search(v) is None)


def _rest(text: str) -> list[str]:
    plain = (
        SENTENCES["TAIL"].sub("", " ".join(text.split()).strip(" ,.!;:，。；：！～~-–—()")).strip(" ,.!;:，。；：！～~")
    )
    return [plain] if re.search(r"\w\w", plain) else []


# ── facts of a sentence ─────────────────────────────────────────────────────────────────────────────────────────────────────

_SHORT, _SHORT_CJK = 5, 8  # words, letters of what goes with a value even where it has its own subject


class SentenceFacts(NamedTuple):
    """The facts of a sentence, each with the words it is made of, the clauses that are none, and the attributes spoken of."""

    facts: list[tuple[str, str]]
    rest: list[str]
    topics: tuple[str, ...] = ()


def tidied(text: str, *, greeted: bool = False, topics: tuple[str, ...] = ()) -> SentenceFacts:
    """Read a sentence.

    A sentence becomes facts where all of its clauses are read whole. Else a clause does where it gives the one value of an
    attribute of the speaker: "I got promoted, I'm a manager now"; what goes with it follows in brackets.

    Args:
        text: One sentence that asks nothing.
        greeted: Whether a greeting comes before it: "Hi, I'm John" is a name, "I'm Happy" may be none.
        topics: The attributes that the sentence before is about.

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
    if whole and (is_single(whole) or not value_in(plain, topics, text, chinese=False)):
        return SentenceFacts([(whole, text)], [], topics)
    clauses = [*(_in_chinese(text, topics) if chinese else _in_english(plain, topics, text, greeted=greeted))]
    topics = topics_of(text, topics)
    sure = not any(SENTENCES["DOUBT"].search(clause.words) for clause in clauses if not clause.fact)
    values = [read(clause.fact).attribute for clause in clauses if is_single(clause.fact)]
    if len(values) > len(set(values)) and not (sure and SENTENCES["CHANGED"].search(text)):
        return SentenceFacts([], [text], topics)  # two values of one attribute
    clauses = _joined(clauses) if sure and values else clauses
    single = [clause for clause in clauses if is_single(clause.fact)]
    if clauses and all(clause.fact for clause in clauses):
        return SentenceFacts([(each.text, text if each in single else each.words) for each in clauses], [], topics)
    rest = [clause.words for clause in clauses if clause not in single]
    if not single or not sure or not all(words in text for words in rest):
        return SentenceFacts([], [text], topics)
    return SentenceFacts([(clause.text, text) for clause in single], rest, topics)


def _joined(clauses: list[Clause]) -> list[Clause]:
    """A clause without its own subject, or a short one, joins the value beside it; so does what was before that value."""
    values = {read(clause.fact).attribute: clause for clause in clauses if is_single(clause.fact)}
    last, joined = next(iter(values.values())), list[Clause]()
    for clause in clauses:
        words, statement = clause.words.strip(" ,.!:;"), read(clause.fact)
        short = len(words) <= _SHORT_CJK if is_cjk(words) else len(words.split()) <= _SHORT
        value = None if statement.subject else values.get(statement.attribute)
        last = clause if clause is value else last
        if value and clause is not value:
            value.rest[:0] = [", ".join([words, *clause.rest])]
        elif clause.fact or (SENTENCES["OWN_SUBJECT"].match(words) and not short):
            joined.append(clause)
        elif kind_of(Sentence(words)) != "nothing" and says_more(words):
            last.rest.append(words)
    return joined


def _in_english(plain: str, topics: tuple[str, ...], sentence: str, *, greeted: bool) -> Iterator[Clause]:
    """The parts of a sentence that have their own subject, or borrow that of the part before, as they are read."""
    start, shared = 0, ""
    for cut in [*SENTENCES["CUT"].finditer(plain), None]:
        piece = plain[start : cut.start() if cut else len(plain)]
        if cut and SENTENCES["TOGETHER"].fullmatch(plain[start : cut.end()]):
            continue
        if piece.strip(" ,.!…"):
            fact = _fact(f"{shared}{piece}", greeted=greeted and not start)
            value = None if is_single(fact) else value_in(f"{shared}{piece}", topics, sentence, chinese=False)
            yield Clause(f"{shared}{piece}", value.fact, value.rest) if value else Clause(f"{shared}{piece}", fact)
            topics = topics_of(piece, topics)
        if cut:
            start, shared = cut.end(), "I " if cut["shared"] is not None else ""


def _fact(clause: str, *, greeted: bool) -> str:
    plain = expanded(clause).strip(" ,.!…")
    if greeted and (match := SENTENCES["I_AM"].fullmatch(plain)) and is_name(match["name"]):
        return f"Name is {match['name']}"
    pronoun = ENGLISH["PRONOUN"].match(plain) is not None
    text = plain[0].upper() + plain[1:] if pronoun else third_person(plain)
    statement = read(text)
    first = statement.subject.partition(" ")[0]
    if pronoun:  # about a person or an animal, and no thing
        fits = first in {"she", "he"} or (first in {"her", "his", "it", "its"} and statement.attribute == "name")
    else:  # about the speaker, or a person of a word of kin
        of_kin = first in KINDS or any(person.kind for person in statement.people)
        fits = statement.attribute in {"detail", "favorite"} or not first or of_kin
    return text if statement.attribute and fits else ""


def _in_chinese(text: str, topics: tuple[str, ...]) -> Iterator[Clause]:
    other = mine = False  # whether the clause before is about another person, about the speaker
    for piece in filter(None, map(str.strip, SENTENCES["CUT_CJK"].split(text))):
        before, topics = topics, topics_of(piece, topics)
        if not SENTENCES["LEAD"].sub("", piece) or is_talk_in_chinese(piece):
            continue
        owned = SENTENCES["OTHER_CJK"].match(piece)
        partner = owned is not None and SENTENCES["PARTNER_CJK"].search(owned["kin"] or "") is not None
        about_me = partner or (owned is None and (not other or "我" in piece))
        if value := value_in(piece, before, text, chinese=True, mine=mine) if about_me else None:
            yield Clause(piece, value.fact, value.rest)
            other, mine = False, True
            continue
        plain = without_speaker(piece, goes_on=mine)
        attribute, subject = read(plain).attribute, read(plain).subject
        odd = piece[0] in "他她它" and attribute not in {"name", "pet", "family", "home", "employer", "job", "age"}
        odd = odd or (attribute == "detail" and not re.match("我们?(?:的|家)|新", piece))
        odd = odd or (attribute == "name" and not subject and "我" not in piece and "name" not in before)
        odd = odd or (is_single(plain) and SENTENCES["AHEAD"].search(piece) is not None)
        fact = "" if odd or not attribute else plain
        yield Clause(piece, fact)
        other = owned is not None or (other and "我" not in piece)
        mine = bool(fact) and not other and (mine or piece.startswith("我"))
