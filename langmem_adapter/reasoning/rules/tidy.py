"""Sentences as the short facts that they become: what the table of attributes reads, clause by clause."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from langmem_adapter.reasoning.rules.messages import SENTENCES, Sentence, is_talk_in_chinese, kind_of
from langmem_adapter.reasoning.rules.values import is_name, is_single, says_more, topic_of, value_in
from langmem_adapter.statements.chinese import without_speaker
from langmem_adapter.statements.english import expanded, third_person
from langmem_adapter.statements.parser import in_chinese, read
from langmem_adapter.statements.statement import LONGEST
from langmem_adapter.statements.words import KINDS, WORDS
from langmem_adapter.text import is_cjk

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SentenceFacts", "tidied"]

_SHORT, _SHORT_CJK = 5, 8  # words, letters of what goes with a value even where it has a subject of its own
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
    attribute of the speaker: "I got promoted, I'm a manager now"; what goes with it stands in brackets.

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
    sure = not any(SENTENCES["DOUBT"].search(clause.words) for clause in clauses if not clause.fact)
    values = [read(clause.fact).attribute for clause in clauses if is_single(clause.fact)]
    if len(values) > len(set(values)) and not (sure and SENTENCES["CHANGED"].search(text)):
        return SentenceFacts([], [text], topic_of(text, topic))  # two values of one attribute
    clauses = _joined(clauses) if sure else clauses
    topic = topic_of(text, topic)
    if clauses and all(clause.fact for clause in clauses):
        return SentenceFacts([(each.text, text if is_single(each.fact) else each.words) for each in clauses], [], topic)
    single = [clause for clause in clauses if is_single(clause.fact)]
    rest = [clause.words for clause in clauses if clause not in single]
    whole_rest = not single or not sure or not all(words in text for words in rest)
    return (
        SentenceFacts([], [text], topic)
        if whole_rest
        else SentenceFacts([(each.text, text) for each in single], rest, topic)
    )


def _joined(clauses: list[_Clause]) -> list[_Clause]:
    """What stands beside a value, and has no subject of its own or is short, goes with it; small talk goes away."""
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
    said = read(older.fact)
    about_me = said.attribute == read(newer.fact).attribute and not said.subject
    return newer is not older and about_me and (said.positive or said.ended)


def _in_english(plain: str, topic: str, sentence: str, *, greeted: bool) -> Iterator[_Clause]:
    """The parts of a sentence that have a subject of their own, or borrow that of the part before, as they are read."""
    start, shared = 0, ""
    for cut in [*SENTENCES["CUT"].finditer(plain), None]:
        piece = plain[start : cut.start() if cut else len(plain)]
        if cut and _SUBJECT.fullmatch(plain[start : cut.end()]):
            continue
        if piece.strip(" ,.!…"):
            fact = _fact(f"{shared}{piece}", greeted=greeted and not start)
            value = None if is_single(fact) else value_in(f"{shared}{piece}", topic, sentence, chinese=False)
            yield (
                _Clause(f"{shared}{piece}", value.fact, [*filter(None, [value.rest])])
                if value
                else _Clause(f"{shared}{piece}", fact)
            )
            topic = topic_of(piece, topic)
        if cut:
            start, shared = cut.end(), "I " if cut["shared"] is not None else ""


def _fact(clause: str, *, greeted: bool) -> str:
    plain = expanded(clause).strip(" ,.!…")
    if greeted and (found := SENTENCES["I_AM"].fullmatch(plain)) and is_name(found["name"]):
        return f"Name is {found['name']}"
    pronoun = _PRONOUN.match(plain) is not None
    text = plain[0].upper() + plain[1:] if pronoun else third_person(plain)
    said = read(text)
    first = said.subject.split()[0] if said.subject else ""
    if pronoun:  # about a person or an animal, and no thing
        fits = first in {"she", "he"} or (first in {"her", "his", "it", "its"} and said.attribute == "name")
    else:  # about the speaker, or one who is known by a word of kin
        known = first in KINDS | WORDS["QUALITY"] or any(person.kind for person in said.people)
        fits = said.attribute in {"detail", "favorite"} or not first or known
    return text if said.attribute and fits else ""


def _in_chinese(text: str, topic: str) -> Iterator[_Clause]:
    other, mine, surname = "", False, False  # whom, if not the speaker, the clause before is about
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
        said = read(plain)
        odd = piece[0] in "他她它" and said.attribute not in {"name", "pet", "family", "home", "employer", "job", "age"}
        loose = said.attribute == "detail" and not re.match("我们?(?:的|家)|新", piece)
        loose = loose or (said.attribute == "name" and not said.subject and "我" not in piece and before != "name")
        ahead = is_single(plain) and SENTENCES["AHEAD"].search(piece) is not None
        fact = "" if odd or loose or ahead else plain if said.attribute else ""
        yield _Clause(piece, fact)
        other = (owned["kin"] or owned["name"]) if owned else other if other and plain.startswith(other) else ""
        mine = bool(fact) and not owned and (mine or piece.startswith("我"))
