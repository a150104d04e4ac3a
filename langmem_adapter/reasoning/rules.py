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
from langmem_adapter.statements.reader import ENGLISH, KIN, in_chinese, read
from langmem_adapter.statements.tables import WORDS, lists
from langmem_adapter.text import cased_words, is_cjk, meaningful, refers_back, signed_words, text_hash
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langmem_adapter.reasoning.sentences import Sentence
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.results import Turn
    from langmem_adapter.statements.tables import Person, Statement

_ERASE: Final = "offline, a message cannot erase everything: call `Memory.purge` or `Memory.delete_all` (CLI: `purge`)"
_QUOTED: Final = 80  # characters of a memory in a reason
_KINDS: Final = lists("attributes")
"""`ENDS_ALONE`: their end needs no value ("Quit my job"). `ENDABLE`: "Gave up sugar" may end them. `BY_WORD`: they may have
hundreds of values. `PEOPLE`: a value that says more begins alike."""
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
    parts = sentences(turn.text)
    keeps, greeted, whole, topic = False, len(parts) == 1, True, ""
    for sentence in parts:
        wish, order = (SENTENCES[name].match(sentence.text) for name in ("FORGET", "REMEMBER"))
        body = sentence.text[order.end() :] if order and not sentence.asks else sentence.text
        everything = SENTENCES["EVERYTHING"].fullmatch(sentence.text)
        if wish or everything:
            text = sentence.text if everything or not wish else sentence.text[wish.end() :]
            fact = Fact(f"{FORGET}{_wish(text)}", index)
            facts[text_hash(fact.text)] = fact
        if wish or order or everything or kind_of(sentence) == "command":
            whole = False
            if wish or everything or not order:
                continue
        spoken, cut = turn.text[sentence.start : sentence.end], len(sentence.text) - len(body)
        tidy: list[tuple[str, str]] = []
        left = [body]
        if not sentence.asks and not sentence.quoted:
            tidy, left, topic = tidied(body, greeted=greeted, topic=topic)
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


def _wish(text: str) -> str:
    """What to forget, in the words of the fact that it names where that is a tidy one."""
    facts, rest, _ = tidied(text)
    return facts[0][0] if len(facts) == 1 and not rest and not facts[0][0].endswith(")") else text


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
    """Whether a statement of an end ends an old statement: "Stopped drinking coffee", "Drinks coffee every morning"."""
    alike = over.attribute == old.attribute or (over.attribute == "any" and old.attribute in _KINDS["ENDABLE"])
    if not alike or over.subject != old.subject:
        return False
    gone, words = set(_terms(over.value)), set(_terms(old.value))
    if over.attribute == "partner" and gone:
        return over.value.split()[-1] in old.value or gone <= set(
            _terms("husband wife boyfriend girlfriend fiancé fiancee")
        )
    return gone <= words if gone and over.value else over.attribute in _KINDS["ENDS_ALONE"]


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
    words = dict.fromkeys(_terms(statement.value)) if statement.attribute in _KINDS["BY_WORD"] else ()
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
            renewed = ENGLISH["SAYS_SO"].search(f"{fact.text} {fact.context}") is not None
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
            self._end(index, text, statement, links["ends"])
        elif links["replaces"]:
            self._change(index, text, links["replaces"][0], text)
        else:
            self._add(index, text, f"not known yet{'; whom it speaks of is unclear' if refers_back(text) else ''}")

    def _about(self, statement: Statement) -> Iterator[_Slot]:
        """Living slots about the same thing, the latest first; of many values those that share a word alone."""
        kinds = _KINDS["ENDABLE"] if statement.attribute == "any" else {statement.attribute} - {""}
        word = _terms(statement.value)[:1]
        places = [(statement.subject, kind, *(word if kind in _KINDS["BY_WORD"] else ())) for kind in sorted(kinds)]
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
        kinds = [person.kind for person in statement.people if person.kind and person.name]
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

    def _end(self, index: int, text: str, statement: Statement, slots: Sequence[_Slot]) -> None:
        for slot in slots:
            slot.gone = True
            if slot.number is not None:
                self.notes.append(_Note(index, text, slot, f"contradicts {_short(slot.text)}", deletes=True))
        if not statement.empty:
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
        for person in slot.statement.people:
            if not person.name and slot.statement.positive and not slot.statement.ended:
                self._unnamed[person.kind].append(slot)


def _short(text: str) -> str:
    return f"“{text}”" if len(text) <= _QUOTED else f"“{text[: _QUOTED - 1]}…”"


# ── pronouns ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

_RECENT: Final = 50  # people that a pronoun may mean, the last ones named
_CLASS: Final = {
    word: WORDS[key] | lists("chinese-words").get(key, frozenset())
    for key, words in {"FEMALE": "she her 她", "MALE": "he his 他", "PETS": "it its 它", "PLURAL": "they their"}.items()
    for word in words.split()
}
_GENDERED: Final = frozenset().union(*_CLASS.values())
_PRONOUN: Final = re.compile(
    r"(?:(?P<word>she|he|it|they)(?P<is>'s|'re)?|(?P<own>her|his|its|their))\b\s*(?P<rest>.*)|(?P<cjk>[他她它])(?P<of>的)?(?P<body>.*)",
    re.IGNORECASE | re.DOTALL,
)
_NAMES: Final = re.compile(f"{ENGLISH.texts['NAMING']}|[他她它](?:的(?:名字|姓名)(?:叫做?|是)|名?叫)", re.IGNORECASE)


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
        match, naming = _PRONOUN.match(text) if refers_back(text) else None, _NAMES.match(text) is not None
        person = self._person((match["word"] or match["own"] or match["cjk"]).lower(), naming=naming) if match else None
        plain = _put(match, person) if match and person else text
        self._recent.extendleft(reversed(read(plain).people))
        if person and not naming:
            self._recent.appendleft(person)
        return plain

    def _person(self, word: str, *, naming: bool) -> Person | None:
        """The last fitting one of this conversation, else the only fitting one of those in memories."""
        recent, remembered_ones = (
            [person for person in people if _fits(person, word) and not (naming and person.name)]
            for people in (self._recent, self._remembered)
        )
        sure = [person for person in remembered_ones if person.kind in _CLASS[word]] or remembered_ones
        return recent[0] if recent else sure[0] if len(sure) == 1 else None


def _put(match: re.Match[str], person: Person) -> str:
    who = person.name or person.kind[0].upper() + person.kind[1:]
    if match["cjk"]:
        return f"{who}{match['of'] or ''}{match['body']}"
    return f"{who}{chr(39) + 's' if match['own'] else ' is' if match['is'] else ''} {match['rest']}"


def _fits(person: Person, word: str) -> bool:
    if person.kind not in _GENDERED:
        return word not in {"it", "its", "它"}
    pet = person.kind in _CLASS["it"] and word not in {"it", "its", "它", "they", "their"}
    return bool(person.name) if pet else person.kind in _CLASS[word]


def named_memory(memory: str, fact: str) -> str:
    """The memory with the name that a fact gives to the one it is about; empty where they do not belong together.

    Example:
        >>> named_memory("Has a sister", "Sister's name is Jesica"), named_memory("有一个姐姐", "姐姐叫Jesica")
        ('Has a sister named Jesica', '有一个叫Jesica的姐姐')
    """
    person = next((person for person in read(fact).people if person.kind and person.name), None)
    plain = memory.strip().rstrip(".。")
    chinese = re.fullmatch(f"(?P<has>(?:有|养)[了着]?.{{0,6}}?)(?P<kind>{KIN})", plain) if in_chinese(plain) else None
    match = chinese or ENGLISH["UNNAMED"].match(plain)
    if person is None or match is None or match["kind"].lower() != person.kind.lower():
        return ""
    if chinese:
        return f"{match['has']}叫{person.name}的{person.kind}"
    return f"{plain[: match.end('kind')]} named {person.name}{plain[match.end('kind') :]}"
