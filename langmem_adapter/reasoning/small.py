"""The profile of small chat models: what they are asked, and what their reply is worth.

Such a model copies, repeats and invents. So rules take what is certain from it: requests to forget, statements that the
table of attributes reads whole, small talk, questions and requests. The model reads the rest, in one call. It may shorten and
split what is said, and no more: where its facts say less than three quarters of a message, the speaker's words are kept.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from langmem_adapter.names import entity_key
from langmem_adapter.reasoning.base import ExtractInput, Extraction, FactDecision, KnownNames
from langmem_adapter.reasoning.reader import QUESTION
from langmem_adapter.reasoning.rules import RuleReasoner
from langmem_adapter.records.results import FORGET, Fact
from langmem_adapter.statements.dates import dated, dated_chinese
from langmem_adapter.statements.reader import expanded, third_person, without_speaker
from langmem_adapter.text import content_words, is_cjk, text_hash, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.reasoning.base import Comparison, DecideOutput
    from langmem_adapter.records.results import Turn

RULES: Final = RuleReasoner()
_LAST: Final = 4  # earlier messages that are shown
_POINTS_BACK: Final = re.compile(
    r"\b(?:he|she|it|they|him|her|them|his|hers|its|their|there|that one|this|these|those)\b|[他她它那这]",
    re.IGNORECASE,
)
_OWN: Final = re.compile(r"^(?:my|our|the|about|that)\s+|^我们?的?", re.IGNORECASE)
_MOST_NAMED: Final = 3
_SHORT: Final = 3  # content words of an answer that its question completes
_SAYS: Final = re.compile(r"\b(?i:i|i'm|im|me|my|mine|we|us|our)\b|[我俺咱]|\d|(?<!^)[A-Z]")
"""A message without the speaker, a number and a name, of which the model says nothing, either, is small talk."""


WordsLeft: TypeAlias = dict[int, list[Fact]]
"""What is left of each turn, in the speaker's words."""


def split(question: ExtractInput) -> tuple[list[Fact], WordsLeft, ExtractInput]:
    """What rules are certain of; what they would keep in the speaker's words, and short answers; the question about these."""
    facts = RULES.extract.invoke(question).facts
    kept: WordsLeft = {}
    turns: list[Turn] = []
    before: list[Turn] = []
    earlier = [*question.before]
    for place, turn in enumerate(question.turns):
        own = [fact for fact in facts if fact.turn == place]
        quoted = [fact for fact in own if fact.is_quotation]
        is_short = question.is_source(turn) and own == quoted and len(content_words(turn.text)) <= _SHORT
        asks = QUESTION.findall(earlier[-1].text)[-1:] if earlier and is_short else []
        if quoted or asks:
            kept[place] = [Fact(f"{asks[0].strip()} {turn.text}", place, is_quotation=True)] if asks else quoted
            turns.append(turn if asks else replace(turn, text=" ".join(fact.text for fact in quoted)))
            before = earlier[-_LAST:] if asks or _POINTS_BACK.search(turn.text) else before
        earlier += [turn] if turn.role != "system" else []
    rest = replace(question, turns=tuple(turns), before=tuple(before), graph=None)
    return [fact for fact in facts if not fact.is_quotation], kept, rest


def _shortens(text: str, message: str) -> bool:
    """Whether all words of a text stand in a message, in this order."""
    left = iter(_words(message))
    return all(word in left for word in _words(text))


def _words(text: str) -> list[str]:
    return [letter for letter in text if letter.isalnum()] if is_cjk(text) else words(text)


def merge(question: ExtractInput, certain: Sequence[Fact], kept: WordsLeft, extraction: Extraction) -> Extraction:
    """The facts of the rules and of the model, those of each turn where its words say most of them."""
    words_of = {place: " ".join(fact.text for fact in own) for place, own in kept.items()}
    accepted: WordsLeft = {place: [] for place in words_of}
    for fact in extraction.facts:
        place = next((place for place in words_of if _shortens(fact.text, words_of[place])), None)
        if place is not None and not QUESTION.fullmatch(fact.text):
            accepted[place] += _tidied(fact, question.turns[place], place)
    is_empty = len(words_of) == 1 and not extraction.facts and not extraction.notes
    facts = [*certain]
    for place, own in accepted.items():
        turn, stated = question.turns[place], content_words(" ".join(fact.text for fact in own))
        is_answer = words_of[place] != turn.text and words_of[place].endswith(turn.text)
        needed = content_words(words_of[place]) - (content_words(turn.text) if is_answer else set())
        is_talk = is_empty and not is_answer and not _SAYS.search(turn.text)
        facts += own if is_talk or (own and 4 * len(needed & stated) >= 3 * len(needed)) else kept[place]
    distinct = {(question.turns[fact.turn].actor, text_hash(fact.text)): fact for fact in reversed(facts)}.values()
    whole = [fact for fact in distinct if not any(_is_part(fact, other) for other in distinct)]
    related = (_related(fact, question) for fact in sorted(whole, key=lambda fact: fact.turn))
    return replace(extraction, facts=tuple(related))


def _is_part(fact: Fact, other: Fact) -> bool:
    return fact.turn == other.turn and content_words(fact.text) < content_words(other.text)


def decide(comparison: Comparison) -> DecideOutput:
    """What the table of attributes says; a request to forget that it does not read ends the facts with all of its words."""
    output = RULES.decide.invoke(comparison)
    changed = {decision.number for decision in output.decisions if decision.event in {"UPDATE", "DELETE"}}
    decisions: list[FactDecision] = []
    for decision in output.decisions:
        fact, named = comparison.facts[decision.fact], set[int]()
        if decision.event == "NONE" and fact.text.startswith(FORGET):
            named = _named(fact, comparison) - changed
        ends = (
            FactDecision("DELETE", fact.text, "asked to forget it", decision.fact, number) for number in sorted(named)
        )
        decisions += [*ends] or [decision]
        changed |= named
    return replace(output, decisions=tuple(decisions))


def _named(fact: Fact, comparison: Comparison) -> set[int]:
    """The memories of the same speaker that hold all words of a request to forget; none where these are many."""
    words = content_words(_OWN.sub("", fact.text.removeprefix(FORGET)))
    of_speaker = [memory for memory in comparison.memories if entity_key(memory.speaker) == entity_key(fact.speaker)]
    named = {memory.number for memory in of_speaker if words and words <= content_words(memory.text)}
    return named if len(named) <= _MOST_NAMED else set()


def _tidied(fact: Fact, turn: Turn, place: int) -> Sequence[Fact]:
    """A fact in the words of the table of attributes where that reads it, with its days as dates."""
    alone = ExtractInput((replace(turn, text=fact.text, role="user"),), "user", turn.time.date())
    tidy = () if fact.is_quotation else RULES.extract.invoke(alone).facts
    if tidy and not any(each.is_quotation or each.text.startswith(FORGET) for each in tidy):
        return [replace(each, turn=place) for each in tidy]
    if fact.is_quotation:
        return [replace(fact, turn=place)]
    plain = without_speaker(fact.text) if is_cjk(fact.text) else third_person(expanded(fact.text))
    text = dated(dated_chinese(plain or fact.text, alone.today), alone.today)
    return [
        replace(fact, text=f"{text[:1].upper()}{text[1:]}", turn=place, context=turn.text[:500], unattributed=False)
    ]


def _related(fact: Fact, question: ExtractInput) -> Fact:
    """A fact with the relations that rules read in it, where a graph is kept."""
    if question.graph is None or fact.relations or fact.is_quotation or fact.text.startswith(FORGET):
        return fact
    turns = (replace(question.turns[fact.turn], text=fact.text),)
    (read,) = RULES.extract.invoke(replace(question, turns=turns, before=(), graph=KnownNames(), kept=True)).facts
    return replace(fact, relations=read.relations)
