"""New facts beside memories and beside each other, one after the other, by the table of attributes.

Memories and the facts of this round lie side by side as slots. A fact confirms a slot, changes its text, empties it, or
opens a new one; the verdicts are read off at the end, so that two facts that concern one memory end in one change of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from langmem_adapter.caches import remembered
from langmem_adapter.names import entity_key
from langmem_adapter.reasoning.base import Verdict
from langmem_adapter.reasoning.rules.messages import SENTENCES
from langmem_adapter.reasoning.rules.values import attribute_named
from langmem_adapter.records.work import FORGET, UNCLEAR
from langmem_adapter.statements.parser import Company, named_memory, read
from langmem_adapter.statements.tables import lists, patterns
from langmem_adapter.text import cased, is_cjk, meaningful, refers_back, signed_words, text_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langmem_adapter.reasoning.base import Comparison
    from langmem_adapter.records.work import Fact
    from langmem_adapter.statements.statement import Statement

__all__ = ["compare"]

_ERASE: Final = (
    "offline, a message erases nothing as a whole: call `Memory.purge` or `Memory.delete_all` (CLI: `purge`)"
)
_SHOWN: Final = 80  # characters of a memory quoted in a reason
_SAYS_SO: Final = patterns("english", {})["SAYS_SO"]
_KINDS: Final = lists("attributes")
"""`ENDS_ALONE`: their end needs no value ("Quit my job"). `ENDABLE`: "Gave up sugar" may end them. `BY_WORD`: they may have
hundreds of values. `PEOPLE`: a value that says more begins alike."""
Bearing = Literal["same", "replaces", "ends", ""]


def compare(comparison: Comparison) -> tuple[Verdict, ...]:
    """What becomes of each fact: at least one verdict each, in order, and no memory changed twice.

    Each speaker's facts are compared with what that speaker said, and with nothing else.
    """
    desks: dict[str, _Desk] = {}
    for index, fact in sorted(enumerate(comparison.facts), key=lambda pair: pair[1].turn):
        speaker = entity_key(fact.speaker)
        if speaker not in desks:
            known = tuple(memory for memory in comparison.known if entity_key(memory.speaker) == speaker)
            desks[speaker] = _Desk(replace(comparison, known=known))
        desks[speaker].take(index, fact)
    verdicts = (note.verdict() for desk in desks.values() for note in desk.notes)
    return tuple(sorted(verdicts, key=lambda verdict: verdict.fact))


@remembered(8_192)
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
    if (equal and cased(new.value) == cased(old.value)) or _covers(old, new):
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

    def verdict(self) -> Verdict:
        slot, number = self.slot, self.slot.number if self.slot else None
        told = partial(Verdict, fact=self.fact)
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
        stated = [read(memory.text) for memory in comparison.known]
        self._company = Company(person for said in stated if said.positive and not said.ended for person in said.people)
        for memory, said in zip(comparison.known, stated, strict=True):
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
