"""Sentences that the table of attributes reads whole, as the short facts that they become."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.rules.messages import SENTENCES, is_talk_in_chinese
from langmem_adapter.statements.chinese import KIN, without_speaker
from langmem_adapter.statements.english import expanded, third_person
from langmem_adapter.statements.parser import read
from langmem_adapter.statements.statement import LONGEST
from langmem_adapter.statements.words import KINDS, WORDS
from langmem_adapter.text import is_cjk

if TYPE_CHECKING:
    from langmem_adapter.statements.statement import Statement

__all__ = ["tidied"]

_PRONOUN: Final = re.compile(r"(?:she|he|it|they|her|his|its|their)\b", re.IGNORECASE)


def tidied(text: str, *, greeted: bool = False) -> list[tuple[str, str]]:
    """The facts of a sentence, each with the words it is made of; empty where any part of it is not read whole.

    Args:
        text: One sentence that asks nothing.
        greeted: Whether a greeting comes before it: "Hi, I'm John" is a name, "I'm Happy" may be none.

    Example:
        >>> [fact for fact, _ in tidied("I live in Paris and work at Google")], tidied("I live in Paris, it is loud")
        (['Lives in Paris', 'Works at Google'], [])
    """
    if len(text) > LONGEST or re.search(r"[\"“”()\[\]{}<>|=]", text):
        return []
    if is_cjk(text) and re.match("[^A-Za-z]|(?:Hi|Hello)[，,]", text):
        return _in_chinese(text)
    opening = SENTENCES["OPENING"].match(text)
    plain = text[opening.end() :] if opening else text
    greeted = greeted or (opening is not None and SENTENCES["GREETING"].match(opening[0]) is not None)
    whole = _fact(plain, greeted=greeted)
    if whole:
        return [(whole, text)]
    clauses = _clauses(plain)
    facts = [_fact(clause, greeted=greeted and place == 0) for place, clause in enumerate(clauses)]
    return [*zip(facts, clauses, strict=True)] if len(clauses) > 1 and all(facts) else []


def _clauses(body: str) -> list[str]:
    """The parts of a sentence that have a subject of their own, or borrow that of the part before."""
    clauses: list[str] = []
    start = 0
    shared = False
    for cut in [*SENTENCES["CUT"].finditer(body), None]:
        piece = body[start : cut.start() if cut else len(body)]
        clauses.append(f"I {piece}" if shared else piece)
        if cut:
            start, shared = cut.end(), cut["shared"] is not None
    return clauses


def _fact(clause: str, *, greeted: bool) -> str:
    plain = expanded(clause).strip(" ,.!…")
    if found := SENTENCES["CALL"].fullmatch(plain):
        return f"Name is {found['name']}"
    if greeted and (found := SENTENCES["I_AM"].fullmatch(plain)) and _may_be_name(found["name"]):
        return f"Name is {found['name']}"
    if _PRONOUN.match(plain):
        text = plain[0].upper() + plain[1:]
        return text if _is_of_somebody(read(text)) else ""
    text = third_person(clause)
    said = read(text) if text else None
    return text if said and said.attribute and _is_plain(said) else ""


def _may_be_name(name: str) -> bool:
    low = name.lower().split()
    return (WORDS["DEMONYMS"] | WORDS["NO_NAME"] | WORDS["NO_JOB"]).isdisjoint(low)


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


def _in_chinese(text: str) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = []
    kin, mine, fresh = "", False, False
    for piece in filter(None, (part.strip() for part in re.split("[，,；;]", text))):
        if SENTENCES["FILLER_CJK"].search(piece) or is_talk_in_chinese(piece):
            fresh = fresh or bool(re.search("换|改|变", piece))
            continue
        if facts and re.match("名?叫", piece) and read(f"{facts[-1][0]}，{piece}").attribute:
            facts[-1] = f"{facts[-1][0]}，{piece}", f"{facts[-1][1]}，{piece}"
            continue
        plain = without_speaker(piece, goes_on=mine or fresh)
        owned = re.match(f"我们?(?:的|家的?)?(?P<kin>{KIN})", piece)
        if kin and not plain:
            plain = f"{kin}{piece}"
        said: Statement = replace(read(plain), text=plain)
        if piece[0] in "他她它" and said.attribute not in {"name", "pet", "family", "home", "employer", "job", "age"}:
            return []
        loose = said.attribute == "detail" and said.subject != "工作地点" and not re.match("我们?(?:的|家)|新", piece)
        if not plain or not said.attribute or loose:
            return []
        kin = owned["kin"] if owned else kin if plain.startswith(kin) else ""
        mine = not owned and (mine or piece.startswith("我"))
        facts.append((plain, f"换{piece}" if fresh else piece))
    return facts
