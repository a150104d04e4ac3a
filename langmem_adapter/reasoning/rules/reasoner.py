"""The reasoner without a model: rules for English and Chinese, the same answer every time, nothing sent anywhere."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from langmem_adapter.names import LONGEST_NAME, LONGEST_RELATION, entity_key, relation_name
from langmem_adapter.reasoning.base import Comparison, DecideOutput, ExtractInput, Extraction
from langmem_adapter.reasoning.extracts import RuleSummarizer
from langmem_adapter.reasoning.rules.chinese import chinese_facts, is_chinese
from langmem_adapter.reasoning.rules.compare import compare
from langmem_adapter.reasoning.rules.english import english_facts
from langmem_adapter.reasoning.rules.people import Company
from langmem_adapter.reasoning.rules.sentences import Sentence, sentences
from langmem_adapter.reasoning.runs import comparing, finding
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.records.work import FORGET, Fact
from langmem_adapter.statements.chinese_dates import dated_chinese
from langmem_adapter.statements.dates import dated
from langmem_adapter.statements.parser import read
from langmem_adapter.statements.tables import patterns
from langmem_adapter.text import refers_back, text_hash
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.work import Turn

__all__ = ["RuleReasoner"]

_CONTEXT: Final = 500
_OWN_NAMES: Final = 2_000  # characters of earlier facts in which a name is looked for
_P: Final = patterns("sentences", {})
"""`PASSING`: what an assistant says of its next steps, no traits of its own. `WISH`: what begins a request to forget."""


class RuleReasoner:
    """Finds and compares facts by rules, for work without a model, a key or a network.

    It knows the sentences in which people speak of themselves, in English and Chinese: names, family and pets, likes
    and dislikes, home, work and origin, plans, activities, health, abilities, favourites, "my … is …", their denials
    and their ends (quit, sold, broke up, no longer); and what is said of a person named just before. What no row of its
    table understands it keeps only where that stands on its own. It would rather overlook a fact than invent one.

    What it does not do: it does not understand. A fact in an unusual wording, between the lines, in another language,
    in quoted or reported speech, or spread over several sentences is overlooked; irony is taken at its word; two
    wordings count as equal only where they share their words (or are one of a few known synonyms, as "love" and
    "enjoy"), with the same signs, symbols and capitals; "Likes dogs" and "Likes hot dogs" look related; whom a pronoun
    means is settled only where one known person fits. Use a chat model where that matters.

    Requests, questions, and orders to the memory ("forget everything") are never facts. "Forget that I live in Lyon" deletes
    the memory that says just that; else only what the speaker says of himself takes back a memory ("I no longer have a dog").

    Example:
        >>> from datetime import UTC, date, datetime
        >>> from langmem_adapter.records.work import Turn
        >>> hello = Turn(
        ...     "user", "Hi, my name is John. I am a software engineer.", "user", datetime(2025, 1, 1, tzinfo=UTC)
        ... )
        >>> found = RuleReasoner().extract.invoke(ExtractInput((hello,), "user", date(2025, 1, 1)))
        >>> [fact.text for fact in found.facts]
        ['Name is John', 'Is a software engineer']
    """

    mode: Final = "offline"
    calls_model: Final = False

    def __init__(self) -> None:
        self.summarizer: Final = RuleSummarizer()
        self.record: Final = finding(lambda question: Plan(partial(_record, question)), "rules_record")
        self.extract: Final = finding(lambda question: Plan(partial(_extract, question)), "rules_extract")
        self.decide: Final = comparing(lambda comparison: Plan(partial(_decide, comparison)), "rules_decide")


def _extract(question: ExtractInput) -> Extraction:
    """The facts; "tomorrow" and "last week" become dates, counted from the day of the turn."""
    facts: list[Fact] = []
    names: defaultdict[str, str] = defaultdict(str)  # by speaker
    for index, turn in enumerate(question.turns):
        if question.is_source(turn):
            told = names[turn.actor]
            found = list(_of_memory(index, turn) if question.kept else _of_turn(index, turn, told))
            names[turn.actor] = f"{told}; {'; '.join(fact.text for fact in found)}"[-_OWN_NAMES:]
            facts += found
    return Extraction(tuple(facts if question.graph is None else _related(facts, question)))


def _related(facts: Iterable[Fact], question: ExtractInput) -> Iterator[Fact]:
    """The facts with the relations that they state; a pronoun means whom the same speaker named before, where one fits."""
    named: defaultdict[str, Company] = defaultdict(Company)
    for fact in facts:
        apart = f"\n{fact.turn}" if question.kept else ""
        text = named[question.turns[fact.turn].actor + apart].told(fact.text)
        yield replace(fact, relations=_relations(text, question.about))


def _relations(text: str, about: str = "user") -> tuple[Triple, ...]:
    stated = () if refers_back(text) else read(text).relations
    himself = ASSISTANT if about == "assistant" else SELF
    named_so = (
        replace(each, source=himself if each.source == SELF else each.source, relation=relation_name(each.relation))
        for each in stated
    )
    return tuple(dict.fromkeys(each for each in named_so if _namable(each)))


def _namable(triple: Triple) -> bool:
    short = all(entity_key(name) and len(name) <= LONGEST_NAME for name in (triple.source, triple.target))
    return short and 0 < len(triple.relation) <= LONGEST_RELATION


_STEPS: Final = {"user": "Request", "assistant": "Agent Action", "tool": "Action Result"}


def _record(question: ExtractInput) -> Extraction:
    """A numbered list of what was said, called and returned, word for word; rules do not summarise."""
    told = [turn for turn in question.turns if turn.role in _STEPS]
    steps = [f"{number}. {step}" for number, step in enumerate(_steps(told), start=1)]
    if not steps:
        return Extraction(())
    said = [turn.text for turn in sorted(told, key=lambda turn: turn.role != "user") if turn.text]
    head = [f"**Task Objective**: {text}" for text in said[:1]]
    head += [f"**Instructions**: {turn.text}" for turn in question.turns if turn.role == "system" and turn.text]
    text = "\n".join((*head, "", *steps)).strip()
    return Extraction((Fact(text, len(question.turns) - 1, verbatim=True),))


def _steps(turns: Iterable[Turn]) -> list[str]:
    steps: list[str] = []
    called: dict[str, int] = {}
    for turn in turns:
        if turn.text or turn.answers:
            steps.append(f"**{_step(turn, called)}**: {turn.text}")
        for call in turn.calls:
            steps.append(f"**Agent Action**: {call.name}({call.arguments})")
            called |= {call.id: len(steps)} if call.id else {}
    return steps


def _step(turn: Turn, called: Mapping[str, int]) -> str:
    name = "Errors" if turn.failed else _STEPS[turn.role]
    if turn.role != "tool":
        return name
    if turn.answers in called:
        return f"{name} of step {called[turn.answers]}"
    return name if turn.actor == turn.role else f"{name} of {turn.actor}"


def _of_turn(index: int, turn: Turn, names: str) -> Iterator[Fact]:
    told: set[str] = set()  # what is said twice in one message is one fact
    before, today = "", turn.time.date()
    for place, sentence in enumerate(sentences(turn.text)):
        wish = _P["WISH"].match(sentence.text)
        said = Sentence(sentence.text[wish.end() :], asks=False) if wish else sentence
        chinese = is_chinese(said.text)
        for fact in chinese_facts(said, before) if chinese else english_facts(said, first=place == 0, seen=names):
            text = f"{FORGET}{fact}" if wish else dated(dated_chinese(fact, today), today)
            names = f"{names}; {text}"[-_OWN_NAMES:]
            if text_hash(text) not in told and not (turn.role == "assistant" and _P["PASSING"].match(text)):
                told.add(text_hash(text))
                yield Fact(text, index, turn.text[:_CONTEXT])
        before = sentence.text


def _of_memory(index: int, turn: Turn) -> Iterator[Fact]:
    """A memory that says relations in the words of facts, else what facts it holds."""
    return iter([Fact(turn.text, index)]) if read(turn.text).relations else _of_turn(index, turn, "")


def _decide(comparison: Comparison) -> DecideOutput:
    verdicts = compare(comparison)
    if not comparison.graph:
        return DecideOutput(verdicts)
    told = [fact.text for fact in comparison.facts]
    return DecideOutput(
        tuple(v if v.text == told[v.fact] else replace(v, relations=_relations(v.text)) for v in verdicts)
    )
