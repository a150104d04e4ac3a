"""The offline reasoner: it keeps statements, tidies the simple ones, and compares them by attribute.

Memories and the facts of this round lie side by side as slots. A fact confirms a slot, changes its text, empties it, or
opens a new one; the decisions are read off at the end, so that two facts that concern one memory end in one change of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from langmem_adapter.forks import bounded_cache
from langmem_adapter.names import LONGEST_NAME, LONGEST_RELATION, entity_key, relation_name
from langmem_adapter.reasoning.base import (
    Comparison,
    DecideOutput,
    ExtractInput,
    Extraction,
    FactDecision,
    make_decide,
    make_extract,
)
from langmem_adapter.reasoning.free_text import RuleSummarizer, record_of_steps
from langmem_adapter.reasoning.rules.messages import SENTENCES, kind_of, paragraphs, sentences
from langmem_adapter.reasoning.rules.tidy import attribute_named, tidied
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.records.results import FORGET, UNCLEAR, Fact
from langmem_adapter.statements.dates import dated, dated_chinese
from langmem_adapter.statements.parser import Company, named_memory, read
from langmem_adapter.statements.tables import lists, patterns
from langmem_adapter.text import cased_words, is_cjk, meaningful, refers_back, signed_words, text_hash
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langmem_adapter.reasoning.rules.messages import Sentence
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.results import Turn
    from langmem_adapter.statements.statement import Statement

_ERASE: Final = (
    "offline, a message erases nothing as a whole: call `Memory.purge` or `Memory.delete_all` (CLI: `purge`)"
)
_SHOWN: Final = 80  # characters of a memory quoted in a reason
_SAYS_SO: Final = patterns("english", {})["SAYS_SO"]
_KINDS: Final = lists("attributes")
"""`ENDS_ALONE`: their end needs no value ("Quit my job"). `ENDABLE`: "Gave up sugar" may end them. `BY_WORD`: they may have
hundreds of values. `PEOPLE`: a value that says more begins alike."""
Bearing = Literal["same", "replaces", "ends", ""]


def compare(comparison: Comparison) -> tuple[FactDecision, ...]:
    """What becomes of each fact: at least one decision each, in order, and no memory changed twice.

    Each speaker's facts are compared with what that speaker said, and with nothing else.
    """
    desks: dict[str, _Desk] = {}
    for index, fact in sorted(enumerate(comparison.facts), key=lambda pair: pair[1].turn):
        speaker = entity_key(fact.speaker)
        if speaker not in desks:
            known = tuple(memory for memory in comparison.memories if entity_key(memory.speaker) == speaker)
            desks[speaker] = _Desk(replace(comparison, memories=known))
        desks[speaker].take(index, fact)
    decisions = (note.decision() for desk in desks.values() for note in desk.notes)
    return tuple(sorted(decisions, key=lambda decision: decision.fact))


@bounded_cache(8_192)
def _terms(value: str) -> tuple[str, ...]:
    """The meaningful words of a value, stemmed, in order; all of them where none is."""
    words = signed_words(value)
    kept = meaningful(words)
    return tuple(word for word in words if word in kept) or tuple(words)


def _bearing(new: Statement, old: Statement, *, renewed: bool) -> Bearing:
    """How a new statement stands to an old one; *renewed*: the speaker says that it is so now."""
    if new.ended and old.positive:
        return "ends" if _ends(new, old) else ""
    if not new.attribute or (new.subject, new.attribute) != (old.subject, old.attribute) or old.ended:
        return ""
    equal = _terms(new.value) == _terms(old.value)
    if new.positive != old.positive:  # "No dog", "A dog named Rex"
        denied, other = (old, new) if new.positive else (new, old)
        within = new.attribute in _KINDS["PEOPLE"] and {*_terms(denied.value)} <= {*_terms(other.value)}
        return "ends" if equal or within else ""
    if (equal and cased_words(new.value) == cased_words(old.value)) or _covers(old, new):
        return "same"
    mine = new.attribute == "detail" or (new.attribute == "job" and not new.subject)
    about = f"{new.attribute} {new.subject}".strip() if mine and renewed else ""
    place = new.place or about
    return "replaces" if new.positive and place and place in {old.place, about} else ""


def _covers(more: Statement, less: Statement) -> bool:
    """Whether an old value says all of a new one: John Smith is John, the old town of Lyon is Lyon; New York is not York."""
    if more.attribute in _KINDS["PEOPLE"]:
        return more.value.startswith(f"{less.value} ") or (is_cjk(less.value) and more.value.endswith(less.value))
    pieces = [piece.strip() for piece in re.split(r",| of | in | near ", more.value)]
    return more.attribute in {"home", "employer"} and less.value in {pieces[0], pieces[-1]}


def _ends(over: Statement, old: Statement) -> bool:
    """Whether what is over is what an old statement says: "Stopped drinking coffee", "Drinks coffee every morning"."""
    alike = over.attribute == old.attribute or (over.attribute == "any" and old.attribute in _KINDS["ENDABLE"])
    if not alike or over.subject != old.subject:
        return False
    gone, said = set(_terms(over.value)), set(_terms(old.value))
    if over.attribute == "partner" and gone:
        return over.value.split()[-1] in old.value or gone <= set(
            _terms("husband wife boyfriend girlfriend fiancé fiancee")
        )
    return gone <= said if gone and over.value else over.attribute in _KINDS["ENDS_ALONE"]


@dataclass(slots=True, eq=False)
class _Slot:
    """A memory as it will be, or one that a fact of this round opens."""

    text: str
    number: int | None
    said: Statement
    owner: int | None = None  # the fact that opened or changed it
    gone: bool = False
    original: str = ""
    reason: str = ""


@dataclass(slots=True)
class _Note:
    """What one fact did: the slot it changed, or why it changed nothing."""

    fact: int
    text: str
    slot: _Slot | None
    reason: str
    deletes: bool = False

    def decision(self) -> FactDecision:
        slot, number = self.slot, self.slot.number if self.slot else None
        told = partial(FactDecision, fact=self.fact)
        if self.deletes:
            return told("DELETE", self.text, self.reason, number=number)
        if slot is None or slot.owner != self.fact:
            return told("NONE", self.text, self.reason, number=number)
        if slot.gone:
            return told("NONE", self.text, "taken back later in the same conversation", number=None)
        if number is None:
            return told("ADD", slot.text, slot.reason or self.reason, number=None)
        same = slot.text == slot.original
        text, reason = (self.text, "already known") if same else (slot.text, slot.reason)
        return told("NONE" if same else "UPDATE", text, reason, number=number)


def _places(said: Statement) -> list[tuple[str, ...]]:
    """Where a statement is found: by whom and what it is about, and for many values by each word as well."""
    words = dict.fromkeys(_terms(said.value)) if said.attribute in _KINDS["BY_WORD"] else ()
    return [(said.subject, said.attribute), *((said.subject, said.attribute, word) for word in words)]


class _Desk:
    """What one speaker said, and what becomes of the facts of this round."""

    def __init__(self, comparison: Comparison) -> None:
        self.notes: list[_Note] = []
        self._turns = [fact.turn for fact in comparison.facts]
        self._by_hash: dict[str, list[_Slot]] = defaultdict(list)
        self._by_about: dict[tuple[str, ...], dict[int, _Slot]] = defaultdict(dict)
        self._unnamed: dict[str, list[_Slot]] = defaultdict(list)  # by kind: those whose name is not known yet
        stated = [read(memory.text) for memory in comparison.memories]
        self._company = Company(person for said in stated if said.positive and not said.ended for person in said.people)
        for memory, said in zip(comparison.memories, stated, strict=True):
            self._file(_Slot(memory.text, memory.number, said, original=memory.text))

    def take(self, index: int, fact: Fact) -> None:
        """Weigh one fact."""
        if fact.verbatim or fact.is_quotation:
            self._add(index, fact.text, "kept in the user's words")
        elif fact.text.startswith(FORGET):
            self._forget(index, fact.text)
        else:
            renewed = _SAYS_SO.search(f"{fact.text} {fact.context}") is not None
            self._weigh(index, self._company.resolved(fact.text), renewed=renewed)

    def _weigh(self, index: int, text: str, *, renewed: bool) -> None:
        said, same = read(text), self._same_words(text)
        if same is None and self._names(index, text, said):
            return
        links: dict[Bearing, list[_Slot]] = defaultdict(list)
        replaced = said.ended and not said.value  # "I left my job and joined Bosch" ends no job of this round
        for slot in () if same else (slot for slot in self._about(said) if not (replaced and slot.owner is not None)):
            bearing = _bearing(said, slot.said, renewed=renewed)
            beside = slot.owner is not None and self._turns[slot.owner] == self._turns[index] and not renewed
            links["" if bearing == "replaces" and beside else bearing].append(slot)
        if same or (links["same"] and not said.ended):
            self._none(index, text, same or links["same"][0])
        elif links["ends"]:
            self._end(index, text, said, links["ends"])
        elif links["replaces"]:
            self._change(index, text, links["replaces"][0], text)
        else:
            self._add(index, text, f"not known yet{'; whom it speaks of is unclear' if refers_back(text) else ''}")

    def _about(self, said: Statement) -> Iterator[_Slot]:
        """Living slots about the same thing, the latest first; of many values those that share a word alone."""
        kinds = _KINDS["ENDABLE"] if said.attribute == "any" else {said.attribute} - {""}
        word = _terms(said.value)[:1]
        places = [(said.subject, kind, *(word if kind in _KINDS["BY_WORD"] else ())) for kind in sorted(kinds)]
        slots = [slot for place in places for slot in self._by_about.get(place, {}).values()]
        return (slot for slot in reversed(slots) if not slot.gone)

    def _same_words(self, text: str) -> _Slot | None:
        return next((slot for slot in self._by_hash[text_hash(text)] if not slot.gone), None)

    def _forget(self, index: int, wish: str) -> None:
        """Delete the memory that says what is to be forgotten, or the value of the attribute that is named; no other."""
        text = wish.removeprefix(FORGET)
        said, attribute = read(text), attribute_named(text)
        slots = [
            slot
            for slot in self._about(replace(said, attribute=attribute) if attribute else said)
            if slot.said.positive
        ]
        equal = (slot for slot in slots if attribute or _terms(slot.said.value) == _terms(said.value))
        slot = self._same_words(text) or next(equal, None)
        if slot is None or slot.owner is not None:
            self.notes.append(_Note(index, wish, None, _ERASE if SENTENCES["EVERYTHING"].search(text) else UNCLEAR))
            return
        slot.owner, slot.gone = index, True
        self.notes.append(_Note(index, wish, slot, f"asked to forget {_short(slot.text)}", deletes=True))

    def _names(self, index: int, text: str, said: Statement) -> bool:
        """Join "Sister's name is Jesica" to "Has a sister"; several sisters without a name leave it open."""
        kinds = [person.kind for person in said.people if person.kind and person.name]
        slots = [
            slot for kind in kinds for slot in self._unnamed[kind] if not slot.gone and named_memory(slot.text, text)
        ]
        if len(slots) == 1:
            self._change(index, named_memory(slots[0].text, text), slots[0], text)
        return len(slots) == 1

    def _none(self, index: int, text: str, slot: _Slot) -> None:
        where = "already known" if slot.owner is None else "already said in this conversation"
        pointed = slot if slot.number is not None and slot.owner != index else None  # one of this round has no number
        self.notes.append(_Note(index, text, pointed, f"{where}: {_short(slot.text)}"))

    def _change(self, index: int, text: str, slot: _Slot, said: str) -> None:
        why = f"{_short(slot.text)} is now {_short(text)}"
        note = why if slot.owner is None else f"merged into {_short(text)}"
        slot.reason = f"{slot.reason}; {why}" if slot.reason else why
        slot.owner = index if slot.owner is None else slot.owner
        self.notes.append(_Note(index, said, slot, note))
        self._by_hash[text_hash(slot.text)].remove(slot)
        for place in _places(slot.said):
            self._by_about[place].pop(id(slot), None)
        slot.text, slot.said = text, read(text)
        self._file(slot)

    def _end(self, index: int, text: str, said: Statement, slots: Sequence[_Slot]) -> None:
        for slot in slots:
            slot.gone = True
            if slot.number is not None:
                self.notes.append(_Note(index, text, slot, f"contradicts {_short(slot.text)}", deletes=True))
        if not said.empty:
            self._add(index, text, f"instead of {_short(slots[0].text)}")
        elif all(slot.number is None for slot in slots):
            self.notes.append(_Note(index, text, None, f"takes back {_short(slots[0].text)}"))

    def _add(self, index: int, text: str, reason: str) -> None:
        slot = _Slot(text, None, read(text), index)
        self._file(slot)
        self.notes.append(_Note(index, text, slot, reason))

    def _file(self, slot: _Slot) -> None:
        self._by_hash[text_hash(slot.text)].append(slot)
        for place in _places(slot.said):
            self._by_about[place][id(slot)] = slot
        for person in slot.said.people:
            if not person.name and slot.said.positive and not slot.said.ended:
                self._unnamed[person.kind].append(slot)


def _short(text: str) -> str:
    return f"“{text}”" if len(text) <= _SHOWN else f"“{text[: _SHOWN - 1]}…”"


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
        >>> from langmem_adapter.records.results import Turn
        >>> hello = Turn("user", "Hi, my name is John. We climbed all day!", "user", datetime(2025, 1, 1, tzinfo=UTC))
        >>> extraction = RuleReasoner().extract.invoke(ExtractInput((hello,), "user", date(2025, 1, 1)))
        >>> [(fact.text, fact.is_quotation) for fact in extraction.facts]
        [('Name is John', False), ('We climbed all day!', True)]
    """

    mode: Final = "offline"
    calls_model: Final = False

    def __init__(self) -> None:
        self.summarizer: Final = RuleSummarizer()
        self.record: Final = make_extract(lambda question: Plan(partial(record_of_steps, question)), "rules_record")
        self.extract: Final = make_extract(lambda question: Plan(partial(_extract, question)), "rules_extract")
        self.decide: Final = make_decide(lambda comparison: Plan(partial(_decide, comparison)), "rules_decide")


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
    decisions = compare(comparison)
    if not comparison.graph:
        return DecideOutput(decisions)
    texts = [fact.text for fact in comparison.facts]
    return DecideOutput(
        tuple(v if v.text == texts[v.fact] else replace(v, relations=_relations(v.text)) for v in decisions)
    )
