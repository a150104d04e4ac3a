"""New facts weighed against memories and against each other, one after the other, by rules.

Memories and the facts of this round lie side by side as slots. A fact confirms a slot, changes its text, empties it, or
opens a new one; the verdicts are read off at the end, so that two facts that concern one memory end in one change of it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from langmem_adapter.names import entity_key
from langmem_adapter.reasoning.base import Verdict
from langmem_adapter.reasoning.rules.people import Company, call
from langmem_adapter.reasoning.rules.verdicts import Bearing, counted, link, named_terms, renews, terms
from langmem_adapter.records.work import FORGET, UNCLEAR
from langmem_adapter.statements.parser import read
from langmem_adapter.text import refers_back, text_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.reasoning.base import Comparison
    from langmem_adapter.records.work import Fact
    from langmem_adapter.statements.statement import Statement

__all__ = ["compare"]

_SHOWN: Final = 80  # characters of a memory quoted in a reason


def compare(comparison: Comparison) -> tuple[Verdict, ...]:
    """What becomes of each fact: at least one verdict each, in order, and no memory changed twice.

    Each speaker's facts are compared with what that speaker said, and with nothing else.
    """
    desks: dict[str, _Desk] = {}
    for index, fact in enumerate(comparison.facts):
        whose = entity_key(fact.speaker)
        if whose not in desks:
            known = tuple(memory for memory in comparison.known if entity_key(memory.speaker) == whose)
            desks[whose] = _Desk(replace(comparison, known=known))
        desks[whose].take(index, fact)
    verdicts = (verdict for desk in desks.values() for verdict in desk.verdicts())
    return tuple(sorted(verdicts, key=lambda verdict: verdict.fact))


@dataclass(slots=True, eq=False)
class _Slot:
    """A memory as it will be, or one that a fact of this round opens."""

    text: str
    number: int | None
    said: Statement
    owner: int | None = None  # the fact that opened or changed it
    gone: bool = False
    reason: str = ""


@dataclass(slots=True)
class _Note:
    """What one fact did: the slot it changed, or why it changed nothing."""

    fact: int
    text: str
    slot: _Slot | None
    reason: str
    deletes: bool = False


_Place = tuple[str, ...]
_Entry = tuple[_Slot, "Statement"]


@dataclass(slots=True)
class _Index:
    """What slots say, by what it is about, so that a long conversation is not compared pair by pair."""

    by_hash: dict[str, list[_Slot]] = field(default_factory=lambda: defaultdict(list))
    by_term: dict[_Place, dict[int, _Entry]] = field(default_factory=lambda: defaultdict(dict))
    by_rarest: dict[_Place, dict[int, _Entry]] = field(default_factory=lambda: defaultdict(dict))

    def put(self, slot: _Slot) -> None:
        self.by_hash[text_hash(slot.text)].append(slot)
        for number, said in enumerate((slot.said, *slot.said.also)):
            places, key = _places(said), id(slot) + number
            for place in (*places, *_meeting(said), (said.subject, "all")):
                self.by_term[place][key] = slot, said
            if places:
                self.by_rarest[self._rarest(places)][key] = slot, said

    def drop(self, slot: _Slot) -> None:
        self.by_hash[text_hash(slot.text)].remove(slot)
        for number, said in enumerate((slot.said, *slot.said.also)):
            for place in (*_places(said), *_meeting(said), (said.subject, "all")):
                self.by_term[place].pop(id(slot) + number, None)
                self.by_rarest[place].pop(id(slot) + number, None)

    def near(self, said: Statement) -> list[_Entry]:
        """What living slots say that is the same, more, less or something else of the same thing.

        Who says all that *said* says is found under the rarest of its words; who says less, by the rarest of its own.
        """
        places = _places(said)
        found = dict(self.by_term.get(self._rarest(places), {})) if places else {}
        for place in places:
            found |= self.by_rarest.get(place, {})
        for place in _meeting(said):
            found |= self.by_term.get(place, {})
        return [entry for entry in found.values() if not entry[0].gone]

    def _rarest(self, places: Sequence[_Place]) -> _Place:
        return min(places, key=lambda place: len(self.by_term.get(place, ())))


def _places(said: Statement) -> list[_Place]:
    return [(said.subject, "word", term) for term in dict.fromkeys(named_terms(said))]


def _meeting(said: Statement) -> list[_Place]:
    """Where statements meet that need not share a word: values of a single attribute, and counts of the same."""
    if said.attribute == "any" and not said.value:
        return [(said.subject, "all")]
    alone = said.single or said.attribute in {"detail", "goal"} or not said.value
    places = [(said.subject, "any", said.attribute)] if alone else []
    return places + ([(said.subject, "count", *told)] if (told := counted(said)) else [])


class _Desk:
    def __init__(self, comparison: Comparison) -> None:
        self._original = {memory.number: memory.text for memory in comparison.known}
        self._index = _Index()
        self._notes: list[_Note] = []
        self._company = Company(person for memory in comparison.known for person in read(memory.text).people)
        self._callable: dict[str, list[_Slot]] = defaultdict(list)  # by kind: those whose name is not known yet
        for memory in comparison.known:
            self._open(memory.text, memory.number, None)

    def take(self, index: int, fact: Fact) -> None:
        if fact.verbatim:
            self._add(index, fact.text, "kept as it was said")
        elif fact.text.startswith(FORGET):
            self._forget(index, fact.text)
        else:
            self._weigh(index, self._company.told(fact.text), renews(fact.text, fact.context))

    def verdicts(self) -> list[Verdict]:
        return [self._verdict(note, note.slot) for note in self._notes]

    def _verdict(self, note: _Note, slot: _Slot | None) -> Verdict:
        number = slot.number if slot else None
        if note.deletes:
            return Verdict("DELETE", note.text, note.reason, note.fact, number)
        if slot is None or slot.owner != note.fact:
            return Verdict("NONE", note.text, note.reason, note.fact, number)
        if slot.gone:
            return Verdict("NONE", note.text, "taken back later in the same conversation", note.fact)
        if slot.number is None:
            return Verdict("ADD", slot.text, note.reason, note.fact)
        if slot.text == self._original[slot.number]:
            return Verdict("NONE", note.text, "already known", note.fact, slot.number)
        return Verdict("UPDATE", slot.text, slot.reason, note.fact, slot.number)

    def _weigh(self, index: int, text: str, renews: str) -> None:
        if slot := self._same_words(text):
            self._none(index, text, slot)
            return
        if self._names(index, text):
            return
        said = read(text)
        links = self._links(said, renews)
        if slot := next(iter([*links["same"], *links["covered"]]), None):
            self._none(index, text, slot)
            return
        parts = [self._links(part) for part in said.also]
        beside = [slot for part in parts for slot in (*part["replaces"], *part["contradicts"])]
        if "contradicts" in links:
            self._deny(index, text, said, links["contradicts"])
        elif slot := next(iter([*links["replaces"], *links["refines"], *beside]), None):
            self._change(index, text, slot, replaces=slot not in links["refines"], said=text)
            beside = [other for other in beside if other is not slot]
        else:
            unclear = "; whom it speaks of is unclear" if refers_back(text) else ""
            self._add(index, text, f"not known yet{unclear}")
        self._drop(index, text, beside)

    def _forget(self, index: int, wish: str) -> None:
        """Delete the memory that says what is to be forgotten, and no other."""
        text = wish.removeprefix(FORGET)
        slot = self._same_words(text) or next(iter(self._links(read(text))["same"]), None)
        if slot is None or slot.owner is not None:
            self._notes.append(_Note(index, wish, None, UNCLEAR))
            return
        slot.owner, slot.gone = index, True
        self._notes.append(_Note(index, wish, slot, f"asked to forget {_short(slot.text)}", deletes=True))

    def _links(self, said: Statement, renews: str = "") -> defaultdict[Bearing, list[_Slot]]:
        links: defaultdict[Bearing, list[_Slot]] = defaultdict(list)
        for slot, part in sorted(self._index.near(said), key=lambda entry: _rank(said, entry[0])):
            kind = link(said, part, renews)
            if slot not in links[kind] and not (kind == "refines" and part is not slot.said):
                links[kind].append(slot)
        return links

    def _same_words(self, text: str) -> _Slot | None:
        return next((slot for slot in self._index.by_hash[text_hash(text)] if not slot.gone), None)

    def _names(self, index: int, text: str) -> bool:
        """Join "Sister's name is Jesica" to "Has a sister"; several sisters without a name leave it open."""
        kinds = [person.kind for person in read(text).people if person.kind and person.name]
        open_ = [slot for kind in kinds for slot in self._callable[kind] if not slot.gone and call(slot.text, text)]
        if len(open_) != 1:
            return False
        merged = call(open_[0].text, text)
        self._change(index, merged, open_[0], replaces=False, said=text)
        return True

    def _none(self, index: int, text: str, slot: _Slot) -> None:
        where = "already known" if slot.owner is None else "already said in this conversation"
        pointed = slot if slot.number is not None and slot.owner != index else None  # one of this round has no number
        self._notes.append(_Note(index, text, pointed, f"{where}: {_short(slot.text)}"))

    def _change(self, index: int, text: str, slot: _Slot, *, replaces: bool, said: str) -> None:
        old = slot.text
        why = f"{_short(old)} is now {_short(text)}" if replaces else f"{_short(text)} says more than {_short(old)}"
        if slot.owner is None:
            slot.owner, slot.reason = index, why
            self._notes.append(_Note(index, said, slot, why))
        else:
            slot.reason = f"{slot.reason}; {why}" if slot.reason else why
            self._notes.append(_Note(index, said, slot, f"merged into {_short(text)}"))
        self._index.drop(slot)
        slot.text, slot.said = text, read(text)
        self._file(slot)

    def _deny(self, index: int, text: str, said: Statement, slots: Sequence[_Slot]) -> None:
        self._drop(index, text, slots)
        if not said.empty:
            self._add(index, text, f"instead of {_short(slots[0].text)}")
        elif all(slot.number is None for slot in slots):
            self._notes.append(_Note(index, text, None, f"takes back {_short(slots[0].text)}"))

    def _drop(self, index: int, text: str, slots: Sequence[_Slot]) -> None:
        for slot in dict.fromkeys(slot for slot in slots if not slot.gone):
            slot.gone = True
            if slot.number is not None:
                self._notes.append(_Note(index, text, slot, f"contradicts {_short(slot.text)}", deletes=True))

    def _add(self, index: int, text: str, reason: str) -> None:
        self._notes.append(_Note(index, text, self._open(text, None, index), reason))

    def _open(self, text: str, number: int | None, owner: int | None) -> _Slot:
        slot = _Slot(text, number, read(text), owner)
        self._file(slot)
        return slot

    def _file(self, slot: _Slot) -> None:
        self._index.put(slot)
        for person in slot.said.people:
            if not person.name:
                self._callable[person.kind].append(slot)


def _rank(said: Statement, slot: _Slot) -> tuple[int, int]:
    """Those that share most words first, then memories, the latest statement first, then what was said in this round."""
    return -len({*terms(said.value)}.intersection(terms(slot.said.value))), 1 if slot.number is None else -slot.number


def _short(text: str) -> str:
    return f"“{text}”" if len(text) <= _SHOWN else f"“{text[: _SHOWN - 1]}…”"
