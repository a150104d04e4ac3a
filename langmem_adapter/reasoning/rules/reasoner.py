"""The reasoner without a model: it keeps what a user states, tidies the simple statements, and never guesses."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from langmem_adapter.names import LONGEST_NAME, LONGEST_RELATION, entity_key, relation_name
from langmem_adapter.reasoning.base import Comparison, DecideOutput, ExtractInput, Extraction
from langmem_adapter.reasoning.extracts import RuleSummarizer, record_of_steps
from langmem_adapter.reasoning.rules.compare import compare
from langmem_adapter.reasoning.rules.messages import SENTENCES, kind_of, paragraphs, sentences
from langmem_adapter.reasoning.rules.tidy import tidied
from langmem_adapter.reasoning.runs import comparing, finding
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.records.work import FORGET, Fact
from langmem_adapter.statements.chinese_dates import dated_chinese
from langmem_adapter.statements.dates import dated
from langmem_adapter.statements.parser import Company, read
from langmem_adapter.text import refers_back, text_hash
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langmem_adapter.reasoning.rules.messages import Sentence
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.work import Turn

__all__ = ["RuleReasoner"]

_LONGEST_TEXT: Final = 2_000
"""Letters of a text that is kept as one memory; a longer message becomes several."""


class RuleReasoner:
    """Keeps what a user states, for work without a model, a key or a network.

    A short statement that one of about twenty attributes reads whole becomes a tidy fact: "I live in Lyon" is "Lives in
    Lyon". It replaces the earlier value of an attribute that has one value at a time (name, home, employer, job, age,
    birthday, partner, phone, e-mail, diet) of the same speaker. "No longer", "stopped", "quit", 不再 end what an attribute
    reads. Everything else is kept in the user's words, one memory a message, and marked (`MemoryItem.is_verbatim`); only
    an equal text, an edit or `maintenance.refine` changes that. Small talk, pure questions and requests are not kept.

    It does not understand: it keeps. English and Chinese; other languages are kept as they are. Of an assistant only tidy facts
    are kept. "Forget that I live in Lyon" deletes the fact that says so, or an equal text.

    Example:
        >>> from datetime import UTC, date, datetime
        >>> from langmem_adapter.records.work import Turn
        >>> hello = Turn("user", "Hi, my name is John. We climbed all day!", "user", datetime(2025, 1, 1, tzinfo=UTC))
        >>> extraction = RuleReasoner().extract.invoke(ExtractInput((hello,), "user", date(2025, 1, 1)))
        >>> [(fact.text, fact.is_quotation) for fact in extraction.facts]
        [('Name is John', False), ('We climbed all day!', True)]
    """

    mode: Final = "offline"
    calls_model: Final = False

    def __init__(self) -> None:
        self.summarizer: Final = RuleSummarizer()
        self.record: Final = finding(lambda question: Plan(partial(record_of_steps, question)), "rules_record")
        self.extract: Final = finding(lambda question: Plan(partial(_extract, question)), "rules_extract")
        self.decide: Final = comparing(lambda comparison: Plan(partial(_decide, comparison)), "rules_decide")


def _extract(question: ExtractInput) -> Extraction:
    """The facts; in tidy ones "tomorrow" and "last week" become dates, counted from the day of the turn."""
    facts: list[Fact] = []
    for index, turn in enumerate(question.turns):
        if question.is_source(turn):
            facts += [Fact(turn.text, index)] if question.kept else _of_turn(index, turn)
    return Extraction(tuple(facts if question.graph is None else _related(facts, question)))


def _of_turn(index: int, turn: Turn) -> list[Fact]:
    facts: dict[str, Fact] = {}  # what is said twice in one message is one fact
    rest: list[Sentence] = []
    said = sentences(turn.text)
    keeps, greeted, whole, topic = False, len(said) == 1, True, ""
    for sentence in said:
        wish, order = (SENTENCES[name].match(sentence.text) for name in ("FORGET", "REMEMBER"))
        body = sentence.text[order.end() :] if order and not sentence.asks else sentence.text
        whole = whole and not (wish or order)
        everything = SENTENCES["EVERYTHING"].fullmatch(sentence.text)
        if wish or everything:
            fact = _wish(sentence.text if everything or not wish else sentence.text[wish.end() :], index)
            facts[text_hash(fact.text)] = fact
            continue
        if kind_of(sentence) == "command" and not order:
            whole = False
            continue
        spoken, cut = turn.text[sentence.start : sentence.end], len(sentence.text) - len(body)
        if sentence.asks or sentence.quoted:
            tidy, left = [], [body]
        else:
            parts = tidied(body, greeted=greeted, topic=topic)
            tidy, left, topic = parts.facts, parts.rest, parts.topic
        if not all(clause in spoken for clause in left):  # a line ends within
            tidy, left = [], [body]
        for text, words in tidy:
            plain = dated(dated_chinese(text, turn.time.date()), turn.time.date())
            facts.setdefault(text_hash(plain), Fact(plain, index, words))
            whole = False
        greeted = greeted or SENTENCES["GREETING"].match(sentence.text) is not None
        for clause in filter(None, left):
            keeps = keeps or cut > 0 or sentence.quoted or kind_of(sentence._replace(text=clause)) == "statement"
            start = sentence.start + (spoken.index(clause) if tidy else cut)
            rest.append(sentence._replace(start=start, end=start + len(clause) if tidy else sentence.end))
    kept = _kept(turn.text, rest, whole=whole) if keeps and turn.role == "user" else []
    return [*facts.values(), *(Fact(text, index, is_quotation=True) for text in kept)]


def _wish(text: str, index: int) -> Fact:
    """A request to forget, in the words of the fact that it names where that is a tidy one."""
    tidy = tidied(text)
    alone = len(tidy.facts) == 1 and not tidy.rest and not tidy.facts[0][0].endswith(")")
    return Fact(f"{FORGET}{tidy.facts[0][0] if alone else text}", index)


def _kept(text: str, rest: list[Sentence], *, whole: bool) -> list[str]:
    """What is left of a message, in the user's words and their order; all of it where nothing was taken out."""
    if whole:
        return paragraphs(text.strip(), _LONGEST_TEXT)
    pieces: list[list[int]] = []
    for sentence in rest:
        if pieces and not text[pieces[-1][1] : sentence.start].strip():
            pieces[-1][1] = sentence.end
        else:
            pieces.append([sentence.start, sentence.end])
    return paragraphs(" ".join(text[start:end].strip() for start, end in pieces), _LONGEST_TEXT)


def _related(facts: Iterable[Fact], question: ExtractInput) -> Iterator[Fact]:
    """The facts with the relations that they state; a pronoun means whom the same speaker named before, where one fits."""
    named: dict[str, Company] = {}
    for fact in facts:
        apart = f"\n{fact.turn}" if question.kept else ""
        company = named.setdefault(question.turns[fact.turn].actor + apart, Company())
        text = fact.text if fact.is_quotation else company.resolved(fact.text)
        yield fact if fact.is_quotation else replace(fact, relations=_relations(text, question.about))


def _relations(text: str, about: str = "user") -> tuple[Triple, ...]:
    stated = () if refers_back(text) else read(text).relations
    speaker = ASSISTANT if about == "assistant" else SELF
    named_so = (
        replace(each, source=speaker if each.source == SELF else each.source, relation=relation_name(each.relation))
        for each in stated
    )
    return tuple(dict.fromkeys(each for each in named_so if _namable(each)))


def _namable(triple: Triple) -> bool:
    short = all(entity_key(name) and len(name) <= LONGEST_NAME for name in (triple.source, triple.target))
    return short and 0 < len(triple.relation) <= LONGEST_RELATION


def _decide(comparison: Comparison) -> DecideOutput:
    verdicts = compare(comparison)
    if not comparison.graph:
        return DecideOutput(verdicts)
    texts = [fact.text for fact in comparison.facts]
    return DecideOutput(
        tuple(v if v.text == texts[v.fact] else replace(v, relations=_relations(v.text)) for v in verdicts)
    )
