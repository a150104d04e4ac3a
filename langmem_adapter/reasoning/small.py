"""What is asked of a small chat model, and what is made of its reply.

Such a model copies, repeats and invents. So rules take what is certain from it: requests to forget, statements that the
table of attributes reads whole, small talk, questions and requests. The model reads the rest, in one call. A fact of it counts
where three quarters of its words are the speaker's. Where its facts say less than half of a message, its words are kept.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from langmem_adapter.names import entity_key
from langmem_adapter.reasoning.base import ExtractInput, Extraction, KnownNames, Verdict
from langmem_adapter.reasoning.reader import question_words
from langmem_adapter.reasoning.rules.reasoner import RuleReasoner
from langmem_adapter.records.work import FORGET, Fact
from langmem_adapter.statements.chinese import without_speaker
from langmem_adapter.statements.chinese_dates import dated_chinese
from langmem_adapter.statements.dates import dated
from langmem_adapter.statements.english import expanded, third_person
from langmem_adapter.text import content_words, is_cjk, text_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langmem_adapter.reasoning.base import Comparison, DecideOutput
    from langmem_adapter.records.work import Turn

__all__ = ["RULES", "SmallQuestion", "decide", "merge", "split"]

RULES: Final = RuleReasoner()
_LAST: Final = 4  # earlier messages that are shown
_POINTS_BACK: Final = re.compile(
    r"\b(?:he|she|it|they|him|her|them|his|hers|its|their|there|that one|this|these|those)\b|[他她它那这]",
    re.IGNORECASE,
)
_CONTEXT: Final = 500  # letters
_OWN: Final = re.compile(r"^(?:my|our|the|about|that)\s+|^我们?的?", re.IGNORECASE)
_MOST_NAMED: Final = 3
_ASKED: Final = "asked to forget it"


class SmallQuestion(NamedTuple):
    """What rules read of a conversation, and what is left for the model: a turn for each of *places*, if there is any."""

    certain: tuple[Fact, ...]
    words: tuple[Fact, ...]
    rest: ExtractInput
    places: tuple[int, ...]


def split(question: ExtractInput) -> SmallQuestion:
    """Let rules read what is certain; the model gets what they would keep in the speaker's words, and short answers."""
    kept = RULES.extract.invoke(question)
    words = tuple(fact for fact in kept.facts if fact.is_quotation)
    certain = tuple(fact for fact in kept.facts if not fact.is_quotation)
    read = {fact.turn for fact in kept.facts}
    turns: dict[int, Turn] = {}
    before: list[Turn] = []
    earlier = [*question.before]
    for place, turn in enumerate(question.turns):
        own = [fact.text for fact in words if fact.turn == place]
        answers = question.is_source(turn) and place not in read and bool(question_words(earlier[-1:]))
        if own or answers:
            turns[place] = replace(turn, text=" ".join(own) or turn.text)
            if answers or not _is_plain(turns[place].text):
                before = earlier[-_LAST:]
        if turn.role != "system":
            earlier.append(turn)
    rest = replace(question, turns=tuple(turns.values()), before=tuple(before), graph=None)
    return SmallQuestion(certain, words, rest, tuple(turns))


def _is_plain(text: str) -> bool:
    """Whether a message can be understood alone."""
    return _POINTS_BACK.search(text) is None and len(content_words(text)) > 1


def merge(question: ExtractInput, asked: SmallQuestion, extraction: Extraction) -> Extraction:
    """The facts of the rules and of the model, those of each turn where its words say most of them."""
    own: dict[int, list[Fact]] = {place: [] for place in asked.places}
    told = {
        place: content_words(turn.text) | question_words(asked.rest.before)
        for place, turn in zip(asked.places, asked.rest.turns, strict=True)
    }
    for fact in extraction.facts:
        words = content_words(fact.text)
        place = max(own, key=lambda each: len(words & told[each]))
        if 4 * len(words & told[place]) >= 3 * len(words) > 0:
            own[place] += _tidied(fact, question.turns[place], place)

    def identity(fact: Fact) -> tuple[str, str]:
        return question.turns[fact.turn].actor, text_hash(fact.text)

    is_talk = len(asked.places) == 1 and not extraction.facts and not extraction.notes  # so the model says, too
    facts, seen = [*asked.certain], set(map(identity, asked.certain))
    for place, found in own.items():
        quoted = [] if is_talk else [fact for fact in asked.words if fact.turn == place]
        said, stated = (content_words(" ".join(fact.text for fact in each)) for each in (quoted, found))
        chosen = _whole(found) if 2 * len(said & stated) >= len(said) else quoted
        new = {identity(fact): fact for fact in chosen if identity(fact) not in seen}
        facts += new.values()
        seen |= new.keys()
    if question.graph is not None:
        facts = [*_related(facts, question)]
    return replace(extraction, facts=tuple(sorted(facts, key=lambda fact: fact.turn)))


def decide(comparison: Comparison) -> DecideOutput:
    """What the table of attributes says; a request to forget that it does not read ends the facts with all of its words."""
    decided = RULES.decide.invoke(comparison)
    changed = {verdict.number for verdict in decided.verdicts if verdict.event in {"UPDATE", "DELETE"}}
    verdicts: list[Verdict] = []
    for verdict in decided.verdicts:
        fact = comparison.facts[verdict.fact]
        named = (
            _named(fact, comparison) - changed if verdict.event == "NONE" and fact.text.startswith(FORGET) else set()
        )
        verdicts += [Verdict("DELETE", fact.text, _ASKED, verdict.fact, number) for number in sorted(named)] or [
            verdict
        ]
        changed |= named
    return replace(decided, verdicts=tuple(verdicts))


def _whole(facts: Sequence[Fact]) -> list[Fact]:
    """Facts without those that another one contains."""
    words = [content_words(fact.text) for fact in facts]
    return [
        fact
        for place, fact in enumerate(facts)
        if not any(
            words[place] < other or (words[place] == other and later < place) for later, other in enumerate(words)
        )
    ]


def _named(fact: Fact, comparison: Comparison) -> set[int]:
    """The memories of the same speaker that hold all words of a request to forget; none where these are many."""
    words = content_words(_OWN.sub("", fact.text.removeprefix(FORGET)))
    of_speaker = [memory for memory in comparison.known if entity_key(memory.speaker) == entity_key(fact.speaker)]
    named = {memory.number for memory in of_speaker if words and words <= content_words(memory.text)}
    return named if len(named) <= _MOST_NAMED else set()


def _tidied(fact: Fact, turn: Turn, place: int) -> Sequence[Fact]:
    """A fact in the words of the table of attributes where that reads it, with its days as dates."""
    alone = ExtractInput((replace(turn, text=fact.text, role="user"),), "user", turn.time.date())
    tidy = RULES.extract.invoke(alone).facts
    if tidy and not any(each.is_quotation or each.text.startswith(FORGET) for each in tidy):
        return [replace(each, turn=place) for each in tidy]
    plain = without_speaker(fact.text) if is_cjk(fact.text) else third_person(expanded(fact.text))
    text = dated(dated_chinese(plain or fact.text, alone.today), alone.today)
    return [replace(fact, text=text, turn=place, context=turn.text[:_CONTEXT], unattributed=False)]


def _related(facts: Sequence[Fact], question: ExtractInput) -> Iterator[Fact]:
    """The facts with the relations that rules read in them."""
    for fact in facts:
        if fact.relations or fact.is_quotation or fact.text.startswith(FORGET):
            yield fact
            continue
        alone = replace(
            question,
            turns=(replace(question.turns[fact.turn], text=fact.text),),
            before=(),
            graph=KnownNames(),
            kept=True,
        )
        (read,) = RULES.extract.invoke(alone).facts
        yield replace(fact, relations=read.relations)
