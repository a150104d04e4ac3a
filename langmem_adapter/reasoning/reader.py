"""Reads a chat model's replies: facts of a conversation, and a decision for every fact. Nothing here trusts the model.

A fact belongs to the turn that it names. One that names none of the speaker's is asked for again; after that, like a plain
string, it belongs to the conversation as a whole, with a speaker only where there is just one. A fact needs a source: what is
copied from an example, an earlier message or another speaker's is left out with a note, and so are its relations. A relation
belongs to exactly one fact: the one that contains it, or that it names by number, else one in its words.

An entry of a decision answers the fact that it names by number; one without a number that of the same text, or the only one
left. NONE counts only with a memory that says the fact, UPDATE only with a text that does. An entry about a memory that was
not shown, two entries that change one memory, and the end of more than three memories by one fact make a decision unusable.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from langmem_adapter.names import entity_key
from langmem_adapter.reasoning.base import Extraction, FactDecision
from langmem_adapter.reasoning.replies import (
    GraphReply,
    UnusableReplyError,
    first_ten,
    is_relation,
    listed_problems,
    number_of,
    period,
    relations_in,
    triple_of,
)
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.graph import SELF
from langmem_adapter.records.results import FORGET, UNCLEAR, Event, Fact
from langmem_adapter.statements.reader import read
from langmem_adapter.text import STOPWORDS, content_words, is_cjk, subjects, text_hash

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from langmem_adapter.reasoning.base import Comparison, ExtractInput
    from langmem_adapter.reasoning.replies import DecisionLine, DecisionReply, FactItem, FactsReply
    from langmem_adapter.records.graph import Triple

QUESTION: Final = re.compile(r"(?<![^.!?。！？\n])[^.!?。！？\n]*+[?？]")
_SENTENCE: Final = re.compile(r"[^.!?。！？\n]+")
_YOU, _ME = re.compile(r"\byour?\b|[你您]", re.IGNORECASE), re.compile(r"\b(?:i|me|my)\b|我", re.IGNORECASE)
_SHORT_ANSWER: Final = 3  # content words
_LONGEST_CONTEXT: Final = 500
_QUOTED: Final = 120
_REFUSED: Final = "\0"  # the key of a fact that is refused together with its relations
_ORDER: Final = {"DELETE": 0, "UPDATE": 1, "ADD": 2, "NONE": 3}
_MOST_ENDS: Final = 3
_LONGEST_REASON: Final = 300
_SHORT: Final = 80
_DOTS: Final = ".… "  # the form of our requests
_NO_OUTCOME: Final = "the model gave no outcome for it twice; added so that it is not lost"


# ── sources ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sources(question: ExtractInput) -> list[int]:
    """The places of the turns that facts may come from."""
    return [place for place, turn in enumerate(question.turns) if question.is_source(turn)]


def _source_words(question: ExtractInput) -> set[str]:
    """Content words of the messages that facts may come from, of the questions that these answer, and of what they confirm."""
    texts: list[str] = []
    last = question.before[-1].text if question.before else ""
    for turn in question.turns:
        if question.is_source(turn):
            texts += [turn.text, *QUESTION.findall(last)]
            is_short = len(content_words(turn.text)) <= _SHORT_ANSWER
            texts += [
                each for each in _SENTENCE.findall(last) if is_short and _YOU.search(each) and not _ME.search(each)
            ]
        last = turn.text
    return content_words(" ".join(texts))


def _is_copied(text: str, own: AbstractSet[str], others: Iterable[AbstractSet[str]]) -> bool:
    """Whether a text shares less than half of its content words with the *own* ones, and most of them with another text."""
    words = content_words(text.removeprefix(FORGET))
    return 2 * len(words & own) < len(words) and any(3 * len(words & other) >= 2 * len(words) for other in others)


def states(memory: str, fact: str, *, alike: bool = False) -> bool:
    """Whether a memory says a fact, by its words: it has half of the fact's or more, and says nothing else of them.

    Example:
        >>> [states("Likes tea", fact) for fact in ("Adores tea", "Is allergic to tea", "Dislikes tea")]
        [True, False, False]
    """
    mine, its = _subjects(fact), _subjects(memory)
    one, other = read(fact), read(memory)
    is_other = its <= mine and one.attribute and other.attribute and one.attribute != other.attribute
    differs = is_other or (one.positive, one.ended) != (other.positive, other.ended)
    return text_hash(fact) == text_hash(memory) or (not differs and (alike or 2 * len(mine & its) >= len(mine) > 0))


def _subjects(text: str) -> set[str]:
    """What a text is about, without words that are related to a function word ("enjoys" to "like")."""
    return {word for word in subjects(text) if word.removeprefix("=") not in STOPWORDS}


# ── facts ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_facts(
    question: ExtractInput, examples: Collection[AbstractSet[str]], reply: FactsReply, first: Extraction | None = None
) -> tuple[Extraction, Sequence[str]]:
    """What a reply says, and what is wrong with its turns and relations; of the *first* reply the facts are kept."""
    reading = _FactsReading(reply, question, examples)
    extraction = reading.run()
    return (extraction if first is None else _completed(extraction, first)), reading.problems


class _FactsReading:
    """One reply while it is read."""

    def __init__(self, reply: FactsReply, question: ExtractInput, examples: Collection[AbstractSet[str]]) -> None:
        self._reply = reply
        self._question = question
        self._sources = sources(question)
        self._own = _source_words(question)
        self._examples = examples
        turns = [turn for place, turn in enumerate(question.turns) if place not in self._sources]
        self._others = [content_words(turn.text) for turn in (*question.before, *turns) if turn.role != "system"]
        self._notes: list[str] = []
        self._facts: dict[str, Fact] = {}
        self._keys: list[str] = []  # under which each item of the reply is kept
        self._stated: defaultdict[str, dict[tuple[Any, ...], Triple]] = defaultdict(dict)
        self.problems: list[str] = []

    def run(self) -> Extraction:
        """Everything that can be read; `problems` holds what cannot."""
        for item in self._reply.facts:
            self._keys.append(self._take(item) if item.text else "")
        reply = self._reply
        if isinstance(reply, GraphReply):
            sent = [(item, key) for fact, key in zip(reply.facts, self._keys, strict=True) for item in _stated_in(fact)]
            sent += [(item, self._named(item)) for item in _stated_in(reply)]
            parts = (reply, *reply.facts)
            if self._facts and not sent and not any("relations" in part.model_fields_set for part in parts):
                self.problems.append('the reply has no "relations"; where a fact states none, it is empty')
            for item, key in sent:
                self._state(item, key)
        facts = (replace(fact, relations=(*self._stated[key].values(),)) for key, fact in self._facts.items())
        return Extraction(tuple(facts), notes=tuple(first_ten([*self._notes, *self.problems])))

    def _take(self, item: FactItem) -> str:
        """Keep a fact, each speaker's once; its key."""
        if self._is_refused(item):
            return _REFUSED
        day = None
        try:
            day = period(item.date)
        except ValueError as error:
            self._notes.append(f"the date of {_quoted(item.text)} was left out: {error}")
        fact = self._placed(item.text, self._turn(item), day and day[0].date().isoformat())
        turn = self._question.turns[fact.turn]
        actor, date = "" if fact.unattributed else turn.actor, turn.time.isoformat() if turn.dated else ""
        key = f"{text_hash(fact.text)}{actor}\n{date}"
        self._facts.setdefault(key, fact)
        return key

    def _is_refused(self, item: FactItem) -> bool:
        """Whether a fact has no source: an example or the form, another's message, the result of a tool."""
        number, turns, text = number_of(item.turn), self._question.turns, _quoted(item.text)
        named = number is not None and 0 <= number < len(turns) and number not in self._sources
        if named and turns[number or 0].role == "tool":
            self.problems.append(f"the fact {text} is what a tool returned (turn {number}), which is no source")
        elif not item.text.strip(_DOTS) or _is_copied(item.text, self._own, self._examples):
            self.problems.append(f"left out: {text} is in the instructions to the model, and no message says it")
        elif _is_copied(item.text, self._own, [content_words(item.text)] if named else self._others):
            self._notes.append(f"left out: {text} is not what the {self._question.about} says")
        else:
            return False
        return True

    def _turn(self, item: FactItem) -> int | None:
        if len(self._sources) == 1:
            return self._sources[0]
        number = number_of(item.turn)
        if number in self._sources or "turn" not in item.model_fields_set:
            return number
        role = self._question.about
        self.problems.append(
            f"the fact {_quoted(item.text)} names the turn {number}; the turns of the {role} are {self._sources}"
        )
        return None

    def _placed(self, text: str, place: int | None, date: str | None = None) -> Fact:
        """A fact of a turn, or of all turns."""
        turns = self._question.turns
        if place is not None:
            return Fact(text, place, turns[place].text[:_LONGEST_CONTEXT], date=date)
        own = [turns[each] for each in self._sources]
        context = "\n".join(turn.text for turn in own)[:_LONGEST_CONTEXT]
        several = len({turn.actor for turn in own}) > 1
        return Fact(text, self._sources[-1], context, date=date, unattributed=several)

    def _named(self, item: Any) -> str:
        number = number_of(item.get("fact")) if isinstance(item, dict) else None
        if number is None or 0 <= number < len(self._keys):
            return "" if number is None else self._keys[number]
        self.problems.append(f"the relation {_quoted(item)} names the fact {number}, which is not there")
        return ""

    def _state(self, item: Any, key: str) -> None:
        try:
            triple, problems = triple_of(item, self._question.about)
        except ValueError as error:
            self.problems.append(f"the relation {_quoted(item)}: {error}")
            return
        self.problems += [f"in the relation {_quoted(item)} {problem}" for problem in problems]
        if entity_key(triple.source) == entity_key(triple.target):
            words = _quoted(_in_words(triple))
            self._notes.append(f"left out of the knowledge graph: {words}: it is one of a thing to itself")
        elif key != _REFUSED:
            identity = *_names(triple), triple.valid_from, triple.valid_to, triple.ended
            self._stated[key or self._fact_of(triple)].setdefault(identity, triple)

    def _fact_of(self, triple: Triple) -> str:
        """The fact in the words of a relation that belongs to no other."""
        text = _in_words(triple, self._question.about)
        hashed = text_hash(text)
        key = next((key for key in self._facts if key.startswith(hashed)), hashed)
        if key not in self._facts:
            self._facts[key] = self._placed(text, self._sources[0] if len(self._sources) == 1 else None)
        return key


def _stated_in(part: FactItem | GraphReply) -> list[Any]:
    """The relations in a part of a reply, as sent: those that it calls so, and what else is one (Mem0's "entities")."""
    others = part.model_extra or {}
    items = [item for member in (others, *others.values()) for item in relations_in(member)]
    return [*relations_in(part.relations), *filter(is_relation, items)]


def _completed(repaired: Extraction, first: Extraction) -> Extraction:
    """A repaired reply with what it forgot of the first: facts where there are fewer of them, and relations."""
    facts = list(repaired.facts)
    places = {text_hash(fact.text): place for place, fact in reversed([*enumerate(facts)])}
    stated = {_names(triple) for fact in repaired.facts for triple in fact.relations}
    fewer = len(repaired.facts) < len(first.facts)
    for before in first.facts:
        place = places.get(text_hash(before.text))
        more = tuple(triple for triple in before.relations if _names(triple) not in stated)
        if place is not None:
            facts[place] = replace(facts[place], relations=(*facts[place].relations, *more))
        elif fewer:
            facts.append(replace(before, relations=more))
    if tuple(facts) == repaired.facts:
        return repaired
    note = "the repaired reply left something out; it was kept from the first"
    return Extraction(tuple(facts), notes=(*repaired.notes, note))


def _names(triple: Triple) -> tuple[str, str, str]:
    return entity_key(triple.source), triple.relation, entity_key(triple.target)


def _in_words(triple: Triple, about: str = "") -> str:
    """`"Anna manages Ben"`; about the user, as facts are written: `"Lives in Lyon"`."""
    verb = triple.relation.replace("_", " ")
    chinese = is_cjk(verb)
    if triple.ended:
        verb = f"不再{verb}" if chinese else f"no longer {verb}"
    parts = [*([triple.source] if triple.source != about else []), verb, triple.target]
    text = ("" if chinese else " ").join(parts)
    return text[0].upper() + text[1:]


def _quoted(item: Any) -> str:
    return quoted(item)[:_QUOTED]


# ── decisions ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def additions(comparison: Comparison, reason: str) -> tuple[FactDecision, ...]:
    """Decisions for facts that are compared with nothing but equal words: a request to forget then changes nothing."""
    return _DecisionReading(comparison, (), reason).settled(())


def read_decision(
    comparison: Comparison,
    examples: Collection[AbstractSet[str]],
    reply: DecisionReply,
    first: tuple[FactDecision, ...] | None = None,
) -> tuple[tuple[FactDecision, ...], Sequence[str]]:
    """What a reply means for the facts, and which it leaves out: those are added, or as the *first* reply had them."""
    reading = _DecisionReading(comparison, examples)
    reading.take(reply.memory)
    why = {fact: reading.unfounded.get(fact, "has no entry") for fact in reading.missing()}
    problems = [f"fact {fact} ({_short(comparison.facts[fact].text)}) {each}" for fact, each in why.items()]
    return reading.settled(first or ()), problems


class _DecisionReading:
    """One decision while it is attributed."""

    def __init__(
        self, comparison: Comparison, examples: Collection[AbstractSet[str]], reason: str = _NO_OUTCOME
    ) -> None:
        self._facts = comparison.facts
        self._alike = comparison.alike
        self._examples = examples
        self._texts = {memory.number: memory.text for memory in comparison.memories}
        self._reason = reason
        self._hashes = [text_hash(fact.text) for fact in self._facts]
        self._numbers = {text_hash(text): number for number, text in reversed(self._texts.items())}
        self._own = content_words(" ".join((*self._texts.values(), *(fact.text for fact in self._facts))))
        self._after = dict(self._texts)  # what the memories say once the entries are carried out
        self._deleted: set[int | None] = set()  # memories
        self._ending: set[int | None] = set()  # facts that delete one
        self.unfounded: dict[int, str] = {}  # facts of which a NONE or UPDATE says nothing
        self._decisions: dict[int, list[FactDecision]] = defaultdict(list)

    def take(self, entries: Sequence[DecisionLine]) -> None:
        """Attribute every entry, those with a number first."""
        entries = self._distinct(entries)
        problems = [*self._problems(entries)]
        self._after |= {self._number(entry) or 0: entry.text for entry in entries if entry.event == "UPDATE"}
        self._deleted = {self._number(entry) for entry in entries if entry.event == "DELETE"}
        self._ending = {self._place(entry) for entry in entries if entry.event == "DELETE"}
        unnamed: list[DecisionLine] = []
        for entry in entries:
            if (fact := self._place(entry)) is not None:
                self._take(entry, fact)
            elif entry.event != "NONE":  # Mem0's shape lists the memories that stay as NONE
                unnamed.append(entry)
        missing = self.missing()
        if len(unnamed) == len(missing) == 1:
            self._take(unnamed[0], missing[0])
        elif unnamed and not problems:
            named = _short(unnamed[0].text or unnamed[0].id)
            problems = [f'the {unnamed[0].event} {named} names no fact; write its number as "fact"']
        if problems:
            raise UnusableReplyError(listed_problems(problems))

    def missing(self) -> list[int]:
        """The facts that no entry answers."""
        return [fact for fact in range(len(self._facts)) if not self._decisions[fact] and not self._is_twin(fact)]

    def settled(self, first: Sequence[FactDecision]) -> tuple[FactDecision, ...]:
        """A decision for every fact; *first* are those of an earlier reply, for facts that this one leaves out."""
        missing = self.missing()
        for decision in first:
            if decision.fact in missing and (decision.number is None or not self._is_changed(decision.number)):
                self._decisions[decision.fact].append(decision)
        ended = {each.number for own in self._decisions.values() for each in own if each.event == "DELETE"}
        settled: list[FactDecision] = []
        for fact in range(len(self._facts)):
            self._settle(fact, ended)
            own = self._decisions[fact]
            changing = [decision for decision in own if decision.event != "NONE"]
            settled += sorted(changing, key=lambda decision: _ORDER[decision.event]) or own[:1]
        return tuple(settled)

    def _distinct(self, entries: Sequence[DecisionLine]) -> list[DecisionLine]:
        """The same change of the same memory for several facts is made once; for the others it is made already."""
        seen: dict[tuple[object, ...], DecisionLine] = {}
        repeated: list[DecisionLine] = []
        for entry in sorted(entries, key=self._rank):
            first = seen.setdefault(self._identity(entry), entry)
            if entry.event in {"UPDATE", "DELETE"} and entry.fact not in {None, first.fact}:
                repeated.append(entry.model_copy(update={"event": "NONE", "text": ""}))
        return [*seen.values(), *repeated]

    def _rank(self, entry: DecisionLine) -> int:
        place = self._place(entry)
        return 2 if entry.fact is None else int(place is None or not self._is_wish(place))

    def _identity(self, entry: DecisionLine) -> tuple[object, ...]:
        place = self._place(entry)
        apart: int | str | None = None
        if entry.event == "NONE" or (entry.event == "ADD" and not entry.text):
            apart = entry.fact
        elif entry.event == "ADD" and place is not None:
            apart = entity_key(self._facts[place].speaker)
        return entry.event, "" if entry.event == "ADD" else entry.id, text_hash(entry.text), apart

    def _problems(self, entries: Sequence[DecisionLine]) -> Iterator[str]:
        """What is impossible, in words for the model."""
        changed: dict[int | None, str] = {}
        ends = Counter(place for e in entries if e.event == "DELETE" and (place := self._place(e)) is not None)
        for fact, count in ends.items():
            if count > _MOST_ENDS and not self._is_wish(fact):
                yield f"fact {fact} ends {count} memories; one fact ends at most {_MOST_ENDS}"
        for entry in entries:
            if entry.fact is not None and not 0 <= entry.fact < len(self._facts):
                yield f"there is no fact {entry.fact}; they are numbered 0 to {len(self._facts) - 1}"
            if entry.text and (not entry.text.strip(_DOTS) or _is_copied(entry.text, self._own, self._examples)):
                yield f"{_short(entry.text)} is in the instructions, not in the data"
            if entry.event == "ADD" and not entry.text and entry.fact is None:
                yield "an ADD has no text"
            if entry.event in {"UPDATE", "DELETE"}:
                yield from self._change_problems(entry, changed)
        for entry in entries:
            number = self._numbers.get(text_hash(entry.text)) if entry.event == "ADD" and entry.text else None
            if changed.get(number) == "DELETE":
                yield f"the memory {number} is deleted and added again"

    def _change_problems(self, entry: DecisionLine, changed: dict[int | None, str]) -> Iterator[str]:
        number = self._number(entry)
        if number is None:
            yield f"{entry.event} names the id {entry.id!r}, which is not among the memories"
            return
        if number in changed:
            yield f"the memory {number} is changed twice; write one entry for it"
            return
        changed[number] = entry.event
        if entry.event == "UPDATE" and not entry.text:
            yield f"the UPDATE of memory {number} has no text"
        quotation = entry.old_memory or (entry.text if entry.event == "DELETE" else "")
        other = self._numbers.get(text_hash(quotation)) if quotation else None
        if other is not None and text_hash(self._texts[number]) != text_hash(quotation):
            yield f"the {entry.event} of memory {number} quotes the text of memory {other}; which one is meant?"

    def _number(self, entry: DecisionLine) -> int | None:
        number = int(entry.id) if entry.id.isdecimal() else None
        return number if number in self._texts else None

    def _place(self, entry: DecisionLine) -> int | None:
        """The fact of its number, or else of its text."""
        same = self._hashes.index(hashed) if (hashed := text_hash(entry.text)) in self._hashes else None
        fact = same if entry.fact is None else entry.fact
        return fact if fact is not None and 0 <= fact < len(self._facts) else None

    def _take(self, entry: DecisionLine, fact: int) -> None:
        number, text = self._number(entry), entry.text or self._facts[fact].text
        memory = None if number is None else self._texts[number]
        if entry.event == "ADD":
            self._add_new(fact, entry.reason or "the model found nothing like it among the memories", entry)
        elif memory is None:  # a NONE that names no memory that says it
            if self._is_wish(fact):
                self._add(fact, "NONE", entry.reason, None)
        elif entry.event != "DELETE" and not self._is_founded(entry, fact, number):
            self.unfounded[fact] = f"is not what memory {number} says; where none says it, ADD it"
        elif entry.event == "NONE" or (entry.event == "UPDATE" and text_hash(text) == text_hash(memory)):
            self._add(fact, "NONE", entry.reason or f"the model kept {_short(memory)} as it is", number)
        elif entry.event == "UPDATE":
            self._add(fact, "UPDATE", entry.reason or f"the model completed {_short(memory)} with it", number, entry)
        else:
            self._add(fact, "DELETE", entry.reason or f"the model found that it contradicts {_short(memory)}", number)

    def _is_founded(self, entry: DecisionLine, fact: int, number: int | None) -> bool:
        """Whether a memory says the fact once the entry is carried out, or is deleted by another one."""
        text, after = self._facts[fact].text, self._after[number or 0]
        is_update = entry.event == "UPDATE" and text_hash(entry.text) != text_hash(self._texts[number or 0])
        if is_update or fact in self._ending:
            after = entry.text if is_update else after
            return text_hash(after) == self._hashes[fact] or not _subjects(text).isdisjoint(_subjects(after))
        alike = (fact, number) in self._alike
        return self._is_wish(fact) or number in self._deleted or states(after, text, alike=alike)

    def _add(self, fact: int, event: Event, reason: str, number: int | None, entry: DecisionLine | None = None) -> None:
        text = self._text(fact, entry)
        relations = None if entry is None or text_hash(text) == self._hashes[fact] else _relations(entry)
        reason = " ".join(reason.split())[:_LONGEST_REASON]
        self._decisions[fact].append(FactDecision(event, text, reason, fact, number, relations))

    def _text(self, fact: int, entry: DecisionLine | None) -> str:
        """The text that an entry keeps: of an ADD the fact's own, unless the entry's has its content words."""
        own = self._facts[fact].text
        if entry is None or not entry.text or (entry.event == "ADD" and not states(entry.text, own)):
            return own
        return entry.text

    def _add_new(self, fact: int, reason: str, entry: DecisionLine | None = None) -> None:
        """Add what is new, unless a memory that stays says it in the same words."""
        number = self._numbers.get(text_hash(self._text(fact, entry)))
        if number is not None and not self._is_changed(number):
            self._add(fact, "NONE", f"known already: {_short(self._texts[number])}", number)
        else:
            self._add(fact, "ADD", reason, None, entry)

    def _is_changed(self, number: int) -> bool:
        return any(each.number == number and each.event != "NONE" for own in self._decisions.values() for each in own)

    def _is_twin(self, fact: int) -> bool:
        same = self._hashes[fact], self._facts[fact].speaker
        return same in zip(self._hashes[:fact], (each.speaker for each in self._facts[:fact]), strict=True)

    def _is_wish(self, fact: int) -> bool:
        return self._facts[fact].text.startswith(FORGET)

    def _settle(self, fact: int, ended: set[int | None]) -> None:
        own = self._decisions[fact]
        self._decisions[fact] = [each for each in own if each.event != "NONE" or each.number not in ended - {None}]
        if self._is_wish(fact):  # it deletes memories, and never becomes one
            self._decisions[fact] = [each for each in own if each.event == "DELETE"]
            if not self._decisions[fact]:
                self._add(fact, "NONE", UNCLEAR, None)
        elif all(each.event == "DELETE" for each in self._decisions[fact]):
            if self._is_twin(fact) and not own:
                self._add(fact, "NONE", "said twice", None)
            else:
                self._add_new(fact, "what holds instead" if own else self._reason)


def _relations(entry: DecisionLine) -> tuple[Triple, ...] | None:
    """What the text of an entry says of relations; `None` where the model does not say or it cannot be read."""
    try:
        relations = tuple(triple_of(item, SELF)[0] for item in relations_in(entry.relations))
    except ValueError:
        return None  # then those of the fact remain
    return None if entry.relations is None else relations


def _short(text: str) -> str:
    return f'"{text}"' if len(text) <= _SHORT else f'"{text[:_SHORT]}…"'
