"""The offline reasoner: it keeps statements, tidies the simple ones, and compares them by attribute.

Memories and the facts of this round lie side by side as slots. A fact confirms a slot, changes its text, empties it, or
opens a new one; the decisions are read off at the end, so that two facts that concern one memory end in one change of it.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
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
from langmem_adapter.reasoning.sentences import (
    SENTENCES,
    attribute_named,
    kind_of,
    paragraphs,
    sentences,
    tidied,
)
from langmem_adapter.records.graph import ASSISTANT, SELF
from langmem_adapter.records.results import FORGET, UNCLEAR, Fact
from langmem_adapter.statements.dates import dated, dated_chinese
from langmem_adapter.statements.reader import Person, read
from langmem_adapter.statements.tables import ATTRIBUTES, WORDS
from langmem_adapter.text import cased_words, is_cjk, meaningful, refers_back, signed_words, text_hash
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.results import Turn
    from langmem_adapter.statements.reader import Statement

_ERASE: Final = "offline, a message cannot erase everything: call `Memory.purge` or `Memory.delete_all` (CLI: `purge`)"
_QUOTED: Final = 80  # characters of a memory in a reason
_ONLY_OVER: Final = re.compile(r"\b(?:no longer|any ?more)\b|(?:^|[\u4e00-\u9fff])不再", re.IGNORECASE)
"""What says nothing else than that something is over: "No longer has a dog"."""
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
    rest: list[str] = []
    parts, day = sentences(turn.text), turn.time.date()
    keeps, whole, greeted = False, True, len(parts) == 1
    topics: tuple[str, ...] = ()
    for sentence in parts:
        text, written = sentence.text, sentence.written.lstrip()
        wish, order, everything = (SENTENCES[name].match(text) for name in ("FORGET", "REMEMBER", "EVERYTHING"))
        if wish or everything:
            fact = Fact(f"{FORGET}{text if everything or not wish else _wish(text[wish.end() :])}", index)
            facts[text_hash(fact.text)] = fact
        if wish or everything or (not order and kind_of(sentence) == "command"):
            whole = False
            continue
        cut = order.end() if order and not sentence.asks else 0
        body, reads = text[cut:], not sentence.asks and not sentence.quoted
        tidy, left, topics = tidied(body, greeted=greeted, topics=topics) if reads else ([], [body], topics)
        if not all(clause in written for clause in left):  # a line ends within
            tidy, left = [], [body]
        for stated, words in tidy:
            plain = dated(dated_chinese(stated, day), day)
            facts.setdefault(text_hash(plain), Fact(plain, index, words))
        whole = whole and not tidy and not order
        greeted = greeted or SENTENCES["GREETING"].match(text) is not None
        states = any(kind_of(sentence._replace(text=clause)) == "statement" for clause in left)
        keeps = keeps or states or (bool(left) and (cut > 0 or sentence.quoted))
        rest += [f" {clause}" for clause in left] if tidy else [f" {written[cut:]}" if cut else sentence.written]
    kept = turn.text if whole else "".join(rest)
    quoted = paragraphs(kept.strip(), _LONGEST_TEXT) if keeps and turn.role == "user" else []
    return [*facts.values(), *(Fact(each, index, is_quotation=True) for each in quoted)]


def _wish(text: str) -> str:
    """What to forget, in the words of the fact that it names where that is a tidy one."""
    facts, rest, _ = tidied(text)
    return facts[0][0] if len(facts) == 1 and not rest and not facts[0][0].endswith(")") else text


def _related(facts: Iterable[Fact], question: ExtractInput) -> Iterator[Fact]:
    """The facts with the relations that they state; a pronoun means the last fitting person that the speaker named."""
    people: dict[str, Company] = {}
    for fact in facts:
        apart = f"\n{fact.turn}" if question.kept else ""
        company = people.setdefault(question.turns[fact.turn].actor + apart, Company())
        if fact.is_quotation:
            yield fact
        else:
            yield replace(fact, relations=_relations(company.resolved(fact.text), question.about))


def _relations(text: str, about: str = "user") -> tuple[Triple, ...]:
    speaker = ASSISTANT if about == "assistant" else SELF
    relations: dict[Triple, None] = {}
    for triple in () if refers_back(text) else read(text).relations:
        source = speaker if triple.source == SELF else triple.source
        named = replace(triple, source=source, relation=relation_name(triple.relation))
        short = all(entity_key(name) and len(name) <= LONGEST_NAME for name in (named.source, named.target))
        if short and 0 < len(named.relation) <= LONGEST_RELATION:
            relations[named] = None
    return tuple(relations)


def _decide(comparison: Comparison) -> DecideOutput:
    """What becomes of each fact: at least one decision each, in order, and no memory changed twice.

    Each speaker's facts are compared with what that speaker said, and with nothing else.
    """
    speakers: dict[str, _SpeakerSlots] = {}
    for index, fact in sorted(enumerate(comparison.facts), key=lambda pair: pair[1].turn):
        speaker = entity_key(fact.speaker)
        if speaker not in speakers:
            memories = tuple(memory for memory in comparison.memories if entity_key(memory.speaker) == speaker)
            speakers[speaker] = _SpeakerSlots(replace(comparison, memories=memories))
        speakers[speaker].take(index, fact)
    decisions = [note.decision() for slots in speakers.values() for note in slots.notes]
    decisions.sort(key=lambda decision: decision.fact)
    if comparison.graph:
        texts = [fact.text for fact in comparison.facts]
        decisions = [
            each if each.text == texts[each.fact] else replace(each, relations=_relations(each.text))
            for each in decisions
        ]
    return DecideOutput(tuple(decisions))


# ── comparing ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

Bearing = Literal["same", "replaces", "ends", ""]


@bounded_cache(8_192)
def _terms(value: str) -> tuple[str, ...]:
    """The meaningful words of a value, stemmed, in order; all of them where none is."""
    words = signed_words(value)
    kept = meaningful(words)
    return tuple(word for word in words if word in kept) or tuple(words)


def _bearing(new: Statement, old: Statement, *, renewed: bool) -> Bearing:
    """What a new statement does to an old one; *renewed*: the speaker says that it is so now."""
    if new.ended and old.positive:
        return "ends" if _ends(new, old) else ""
    if not new.attribute or (new.subject, new.attribute) != (old.subject, old.attribute) or old.ended:
        return ""
    equal = _terms(new.value) == _terms(old.value)
    if new.positive != old.positive:  # "No dog", "A dog named Rex"
        denied, other = (old, new) if new.positive else (new, old)
        within = new.attribute in ATTRIBUTES["PEOPLE"] and {*_terms(denied.value)} <= {*_terms(other.value)}
        return "ends" if equal or within else ""
    if (equal and cased_words(new.value) == cased_words(old.value)) or _covers(old, new):
        return "same"
    mine = new.attribute == "detail" or (new.attribute == "job" and not new.subject)
    about = f"{new.attribute} {new.subject}".strip() if mine and renewed else ""
    place = new.place or about
    return "replaces" if new.positive and place and place in {old.place, about} else ""


def _covers(more: Statement, less: Statement) -> bool:
    """Whether an old value says all of a new one: John Smith is John, the old town of Lyon is Lyon; New York is not York."""
    if more.attribute in ATTRIBUTES["PEOPLE"]:
        return more.value.startswith(f"{less.value} ") or (is_cjk(less.value) and more.value.endswith(less.value))
    pieces = [piece.strip() for piece in re.split(r",| of | in | near ", more.value)]
    return more.attribute in {"home", "employer"} and less.value in {pieces[0], pieces[-1]}


def _ends(over: Statement, old: Statement) -> bool:
    """Whether a statement of an end ends an old statement: "Stopped drinking coffee", "Drinks coffee every morning"."""
    alike = over.attribute == old.attribute or (over.attribute == "any" and old.attribute in ATTRIBUTES["ENDABLE"])
    if not alike or over.subject != old.subject:
        return False
    gone, words = set(_terms(over.value)), set(_terms(old.value))
    if over.attribute == "partner" and gone:
        return over.value.split()[-1] in old.value or gone <= set(
            _terms("husband wife boyfriend girlfriend fiancé fiancee")
        )
    return gone <= words if gone and over.value else over.attribute in ATTRIBUTES["ENDS_ALONE"]


@dataclass(slots=True, eq=False)
class _Slot:
    """A memory as it will be, or one that a fact of this round opens."""

    text: str
    number: int | None
    statement: Statement
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
        decide = partial(FactDecision, fact=self.fact)
        if self.deletes:
            return decide("DELETE", self.text, self.reason, number=number)
        if slot is None or slot.owner != self.fact:
            return decide("NONE", self.text, self.reason, number=number)
        if slot.gone:
            return decide("NONE", self.text, "taken back later in the same conversation", number=None)
        if number is None:
            return decide("ADD", slot.text, slot.reason or self.reason, number=None)
        if slot.text == slot.original:
            return decide("NONE", self.text, "already known", number=number)
        return decide("UPDATE", slot.text, slot.reason, number=number)


def _places(statement: Statement) -> list[tuple[str, ...]]:
    """The keys of a statement: its subject and attribute, and for many values each word as well."""
    words = dict.fromkeys(_terms(statement.value)) if statement.attribute in ATTRIBUTES["BY_WORD"] else ()
    about = statement.subject, statement.attribute
    return [about, *((*about, word) for word in words)]


class _SpeakerSlots:
    """What one speaker said, and what becomes of the facts of this round."""

    def __init__(self, comparison: Comparison) -> None:
        self.notes: list[_Note] = []
        self._turns = [fact.turn for fact in comparison.facts]
        self._by_hash: dict[str, list[_Slot]] = defaultdict(list)
        self._by_about: dict[tuple[str, ...], dict[int, _Slot]] = defaultdict(dict)
        self._unnamed: dict[str, list[_Slot]] = defaultdict(list)  # by kind: those without a name yet
        statements = [read(memory.text) for memory in comparison.memories]
        current = (each for each in statements if each.positive and not each.ended)
        self._company = Company(person for each in current for person in each.people)
        for memory, statement in zip(comparison.memories, statements, strict=True):
            self._file(_Slot(memory.text, memory.number, statement, original=memory.text))

    def take(self, index: int, fact: Fact) -> None:
        """Weigh one fact."""
        if fact.verbatim or fact.is_quotation:
            self._add(index, fact.text, "kept in the user's words")
        elif fact.text.startswith(FORGET):
            self._forget(index, fact.text)
        else:
            renewed = SENTENCES["CHANGED"].search(f"{fact.text} {fact.context}") is not None
            self._weigh(index, self._company.resolved(fact.text), renewed=renewed)

    def _weigh(self, index: int, text: str, *, renewed: bool) -> None:
        statement, same = read(text), self._same_words(text)
        if same is None and self._names(index, text, statement):
            return
        links: dict[Bearing, list[_Slot]] = defaultdict(list)
        replaced = statement.ended and not statement.value  # "I left my job and joined Bosch" ends no job of this round
        for slot in () if same else self._about(statement):
            if replaced and slot.owner is not None:
                continue
            bearing = _bearing(statement, slot.statement, renewed=renewed)
            beside = slot.owner is not None and self._turns[slot.owner] == self._turns[index] and not renewed
            links["" if bearing == "replaces" and beside else bearing].append(slot)
        if same or (links["same"] and not statement.ended):
            self._none(index, text, same or links["same"][0])
        elif links["ends"]:
            self._end(index, text, links["ends"])
        elif links["replaces"]:
            self._change(index, text, links["replaces"][0], text)
        else:
            self._add(index, text, f"not known yet{'; whom it speaks of is unclear' if refers_back(text) else ''}")

    def _about(self, statement: Statement) -> Iterator[_Slot]:
        """Living slots about the same thing, the latest first; of many values those that share a word alone."""
        kinds = ATTRIBUTES["ENDABLE"] if statement.attribute == "any" else {statement.attribute} - {""}
        word = _terms(statement.value)[:1]
        places = [(statement.subject, kind, *(word if kind in ATTRIBUTES["BY_WORD"] else ())) for kind in sorted(kinds)]
        slots = [slot for place in places for slot in self._by_about.get(place, {}).values()]
        return (slot for slot in reversed(slots) if not slot.gone)

    def _same_words(self, text: str) -> _Slot | None:
        return next((slot for slot in self._by_hash[text_hash(text)] if not slot.gone), None)

    def _forget(self, index: int, wish: str) -> None:
        """Delete the memory that says what is to be forgotten, or the value of the attribute that is named; no other."""
        text = wish.removeprefix(FORGET)
        statement, attribute = read(text), attribute_named(text)
        about = self._about(replace(statement, attribute=attribute) if attribute else statement)
        slots = [slot for slot in about if slot.statement.positive]
        equal = (slot for slot in slots if attribute or _terms(slot.statement.value) == _terms(statement.value))
        slot = self._same_words(text) or next(equal, None)
        if slot is None or slot.owner is not None:
            self.notes.append(_Note(index, wish, None, _ERASE if SENTENCES["EVERYTHING"].search(text) else UNCLEAR))
            return
        slot.owner, slot.gone = index, True
        self.notes.append(_Note(index, wish, slot, f"asked to forget {_short(slot.text)}", deletes=True))

    def _names(self, index: int, text: str, statement: Statement) -> bool:
        """Join "Sister's name is Jesica" to "Has a sister"; several sisters without a name leave it open."""
        people = [person for person in statement.people if person.kind and person.name]
        slots = [(slot, person) for person in people for slot in self._unnamed[person.kind]]
        slots = [(slot, person) for slot, person in slots if not slot.gone and person.kind in slot.text]
        if len(slots) == 1:
            self._change(index, with_name(slots[0][0].text, slots[0][1]), slots[0][0], text)
        return len(slots) == 1

    def _none(self, index: int, text: str, slot: _Slot) -> None:
        where = "already known" if slot.owner is None else "already said in this conversation"
        pointed = slot if slot.number is not None and slot.owner != index else None  # one of this round has no number
        self.notes.append(_Note(index, text, pointed, f"{where}: {_short(slot.text)}"))

    def _change(self, index: int, text: str, slot: _Slot, fact: str) -> None:
        why = f"{_short(slot.text)} is now {_short(text)}"
        note = why if slot.owner is None else f"merged into {_short(text)}"
        slot.reason = f"{slot.reason}; {why}" if slot.reason else why
        slot.owner = index if slot.owner is None else slot.owner
        self.notes.append(_Note(index, fact, slot, note))
        self._by_hash[text_hash(slot.text)].remove(slot)
        for place in _places(slot.statement):
            self._by_about[place].pop(id(slot), None)
        slot.text, slot.statement = text, read(text)
        self._file(slot)

    def _end(self, index: int, text: str, slots: Sequence[_Slot]) -> None:
        for slot in slots:
            slot.gone = True
            if slot.number is not None:
                self.notes.append(_Note(index, text, slot, f"contradicts {_short(slot.text)}", deletes=True))
        if not _ONLY_OVER.search(text):
            self._add(index, text, f"instead of {_short(slots[0].text)}")
        elif all(slot.number is None for slot in slots):
            self.notes.append(_Note(index, text, None, f"takes back {_short(slots[0].text)}"))

    def _add(self, index: int, text: str, reason: str) -> None:
        slot = _Slot(text, None, read(text), index)
        self._file(slot)
        self.notes.append(_Note(index, text, slot, reason))

    def _file(self, slot: _Slot) -> None:
        self._by_hash[text_hash(slot.text)].append(slot)
        for place in _places(slot.statement):
            self._by_about[place][id(slot)] = slot
        for person in slot.statement.people[:1]:
            if not person.name and slot.statement.positive and slot.statement.attribute in ATTRIBUTES["PEOPLE"]:
                self._unnamed[person.kind].append(slot)


def _short(text: str) -> str:
    return f"“{text}”" if len(text) <= _QUOTED else f"“{text[: _QUOTED - 1]}…”"


# ── pronouns ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

_RECENT: Final = 50  # people that a pronoun may mean, the last ones named
_CLASS: Final = {
    word: WORDS[key]
    for key, words in {"FEMALE": "she her 她", "MALE": "he his 他", "PETS": "it its 它", "PLURAL": "they their"}.items()
    for word in words.split()
}
_GENDERED: Final = frozenset().union(*_CLASS.values())
_OWN: Final = frozenset("her his its their".split())


class Company:
    """People that a speaker has named, also in memories: a pronoun may mean one of them.

    Example:
        >>> company = Company()
        >>> [company.resolved(text) for text in ("Has a sister named Jesica", "She has a dog", "She lives in Rome")]
        ['Has a sister named Jesica', 'Jesica has a dog', 'Jesica lives in Rome']
    """

    def __init__(self, people: Iterable[Person] = ()) -> None:
        persons = dict.fromkeys(people)
        kinds = {person.name: person for person in persons if person.kind and person.name}
        self._remembered = {kinds.get(person.name, person) if person.name else person for person in persons}
        self._recent: deque[Person] = deque(maxlen=_RECENT)

    def resolved(self, text: str) -> str:
        """The statement with its pronoun resolved, where it has one and it is clear; that person is then the last named."""
        word, naming = read(text).subject, read(text).attribute == "name"
        person = self._person(word, naming=naming) if word in _CLASS and refers_back(text) else None
        if person:
            who = person.name or person.kind[0].upper() + person.kind[1:]
            text = f"{who}{chr(39) + 's' if word in _OWN else ''}{text[len(word) :]}"
        self._recent.extendleft(reversed(read(text).people))
        if person and not naming:
            self._recent.appendleft(person)
        return text

    def _person(self, word: str, *, naming: bool) -> Person | None:
        """The last fitting one of this conversation, else the only fitting one of those in memories."""
        recent, remembered_ones = (
            [person for person in people if _fits(person, word) and not (naming and person.name)]
            for people in (self._recent, self._remembered)
        )
        sure = [person for person in remembered_ones if person.kind in _CLASS[word]] or remembered_ones
        return recent[0] if recent else sure[0] if len(sure) == 1 else None


def _fits(person: Person, word: str) -> bool:
    if person.kind not in _GENDERED:
        return word not in {"it", "its", "它"}
    pet = person.kind in _CLASS["it"] and word not in {"it", "its", "它", "they", "their"}
    return bool(person.name) if pet else person.kind in _CLASS[word]


def with_name(memory: str, person: Person) -> str:
    """A memory of a person without a name, with that name.

    Example:
        >>> with_name("Has a sister", Person("sister", "Jesica")), with_name("有一个姐姐", Person("姐姐", "Jesica"))
        ('Has a sister named Jesica', '有一个叫Jesica的姐姐')
    """
    before, kind, after = memory.strip().rstrip(".。").rpartition(person.kind)
    return f"{before}叫{person.name}的{kind}{after}" if is_cjk(kind) else f"{before}{kind} named {person.name}{after}"
