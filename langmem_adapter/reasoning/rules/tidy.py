"""Sentences that the table of attributes reads whole, as the short facts that they become."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules.messages import SENTENCES, is_talk_in_chinese
from langmem_adapter.statements.chinese import KIN, without_speaker
from langmem_adapter.statements.dates import TIME_WORDS
from langmem_adapter.statements.english import expanded, third_person
from langmem_adapter.statements.parser import read
from langmem_adapter.statements.statement import LONGEST, SINGLE
from langmem_adapter.statements.words import KINDS, WORDS
from langmem_adapter.text import is_cjk

if TYPE_CHECKING:
    from langmem_adapter.statements.statement import Statement

__all__ = ["tidied"]

_LONGEST_CLAUSE, _MOST_CLAUSES = 60, 3
_SUBJECT: Final = re.compile(r"(?!(?:i|we)\b)[\w'’.-]++(?: [\w'’.-]++){0,2} and ", re.IGNORECASE)
"""One who does the same as the speaker: "Tom and", "my brother and"."""
_PRONOUN: Final = re.compile(r"(?:she|he|it|they|her|his|its|their)\b", re.IGNORECASE)


def tidied(text: str, *, greeted: bool = False) -> tuple[list[tuple[str, str]], list[str]]:
    """The facts of a sentence, each with the words it is made of, and the clauses that are no facts.

    A sentence becomes facts where all of its clauses are read whole. Of a short sentence a clause alone does, where it gives
    the one value of an attribute of the speaker: "I got promoted, I'm a manager now".

    Args:
        text: One sentence that asks nothing.
        greeted: Whether a greeting comes before it: "Hi, I'm John" is a name, "I'm Happy" may be none.

    Example:
        >>> [fact for fact, _ in tidied("I live in Paris and work at Google")[0]], tidied("I live in Paris, it is loud")
        (['Lives in Paris', 'Works at Google'], ([], ['I live in Paris, it is loud']))
        >>> tidied("I've retrained and I'm a midwife now")
        ([('Is a midwife', "I've retrained and I'm a midwife now")], ["I've retrained"])
    """
    if len(text) > LONGEST or re.search(r"[\"“”\[\]{}<>|=]|\((?!\d+\))|(?<!\d)\)", text):
        return [], [text]
    if is_cjk(text) and re.match("[^A-Za-z]|(?:Hi|Hello)[，,]", text):
        return _in_chinese(text)
    opening = SENTENCES["OPENING"].match(text)
    plain = text[opening.end() :] if opening else text
    greeted = greeted or (opening is not None and SENTENCES["GREETING"].match(opening[0]) is not None)
    whole = _fact(plain, greeted=greeted)
    if whole:
        return [(whole, text)], []
    clauses = _clauses(plain)
    facts = [_fact(clause, greeted=greeted and place == 0) for place, clause in enumerate(clauses)]
    return _facts_and_rest(text, [*zip(facts, clauses, strict=True)])


def _facts_and_rest(text: str, clauses: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[str]]:
    """All facts where each clause is one; else those of single-valued attributes, beside short clauses that leave no doubt."""
    if clauses and all(fact for fact, _ in clauses):
        return clauses, []
    single = {words: fact for fact, words in clauses if fact and _is_single(fact)}
    rest = [words for _, words in clauses if words not in single]
    sure = len(clauses) <= _MOST_CLAUSES and all(
        len(clause) <= _LONGEST_CLAUSE and clause in text and not SENTENCES["DOUBT"].search(clause) for clause in rest
    )
    return ([(fact, text) for fact in single.values()], rest) if single and sure else ([], [text])


def _is_single(fact: str) -> bool:
    said = read(fact)
    return said.positive and not said.subject and said.attribute in SINGLE


def _clauses(body: str) -> list[str]:
    """The parts of a sentence that have a subject of their own, or borrow that of the part before."""
    clauses: list[str] = []
    start = 0
    shared = False
    for cut in [*SENTENCES["CUT"].finditer(body), None]:
        piece = body[start : cut.start() if cut else len(body)]
        if cut and not start and _SUBJECT.fullmatch(body[: cut.end()]):
            continue
        clauses.append(f"I {piece}" if shared else piece)
        if cut:
            start, shared = cut.end(), cut["shared"] is not None
    return clauses


def _fact(clause: str, *, greeted: bool) -> str:
    plain = expanded(clause).strip(" ,.!…")
    if (found := SENTENCES["CALL"].fullmatch(plain)) and _may_be_name(found["name"]):
        return f"Name is {found['name']}"
    if found := SENTENCES["REACH"].fullmatch(plain):
        value = found["v"] or found["w"]
        return f"{'Email' if '@' in value else 'Phone number'} is {value}"
    if greeted and (found := SENTENCES["I_AM"].fullmatch(plain)) and _may_be_name(found["name"]):
        return f"Name is {found['name']}"
    plain = f"I {plain}" if SENTENCES["BARE"].match(plain) else plain
    if _PRONOUN.match(plain):
        text = plain[0].upper() + plain[1:]
        return text if _is_of_somebody(read(text)) else ""
    text = third_person(plain)
    said = read(text) if text else None
    return text if said and said.attribute and _is_plain(said) else ""


def _may_be_name(name: str) -> bool:
    low = name.lower().split()
    return (WORDS["DEMONYMS"] | WORDS["NO_NAME"] | WORDS["NO_JOB"] | TIME_WORDS).isdisjoint(low)


def _is_of_somebody(said: Statement) -> bool:
    """Whether a statement that opens with a pronoun is about a person or an animal, and no thing."""
    return (
        said.attribute != ""
        and said.subject.split()[0] in {"she", "he", "her", "his", "it", "its"}
        and (said.attribute == "name" or said.subject in {"she", "he"})
    )


def _is_plain(said: Statement) -> bool:
    """Whether the subject of a statement is the speaker, or one who is known by a word of kin."""
    if said.attribute in {"detail", "favorite"} or not said.subject:
        return True
    first = said.subject.split()[0]
    return first in KINDS | WORDS["QUALITY"] or any(person.kind for person in said.people)


def _in_chinese(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    clauses: list[tuple[str, str]] = []
    kin, mine, change = "", False, ""
    for piece in filter(None, (part.strip() for part in re.split("[，,；;]|(?<=[正下新])[：:]", text))):
        if SENTENCES["FILLER_CJK"].search(piece) or is_talk_in_chinese(piece):
            change = piece if re.search("换|改|变", piece) else change
            continue
        before = (clauses[-1][0] if clauses else "") or without_speaker(change, goes_on=True)
        if (
            before
            and re.match(r"现在|以后|新的|[\w.+-]+@|\d|[她他它]?(?:的?名字?)?叫", piece)
            and read(f"{before}，{piece}").attribute
        ):
            words = clauses.pop()[1] if clauses else change
            clauses.append((f"{before}，{piece}", f"{words}，{piece}"))
            continue
        if SENTENCES["CHANGE_CJK"].fullmatch(piece):
            change, mine = piece, True
            clauses.append(("", piece))
            continue
        plain = without_speaker(piece, goes_on=mine or change != "" or SENTENCES["BARE_CJK"].match(piece) is not None)
        owned = re.match(f"我们?(?:的|家的?)?(?P<kin>{KIN})", piece)
        if kin and not plain:
            plain = f"{kin}{piece}"
        said: Statement = replace(read(plain), text=plain)
        odd = piece[0] in "他她它" and said.attribute not in {"name", "pet", "family", "home", "employer", "job", "age"}
        loose = said.attribute == "detail" and said.subject != "工作地点" and not re.match("我们?(?:的|家)|新", piece)
        if odd or loose or not plain or not said.attribute:
            kin, mine, change = "", False, ""
            clauses.append(("", piece))
            continue
        kin = owned["kin"] if owned else kin if plain.startswith(kin) else ""
        mine = not owned and (mine or piece.startswith("我"))
        clauses.append((plain, piece))
    facts, rest = _facts_and_rest(text, clauses)
    return ([(fact, text) for fact, _ in facts] if change else facts), rest
