"""New facts beside memories and beside each other, one after the other, by the table of attributes.

Memories and the facts of this round lie side by side as slots. A fact confirms a slot, changes its text, empties it, or
opens a new one; the verdicts are read off at the end, so that two facts that concern one memory end in one change of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from langmem_adapter.caches import remembered
from langmem_adapter.names import entity_key
from langmem_adapter.reasoning.base import Verdict
from langmem_adapter.reasoning.rules.people import Company, named_memory
from langmem_adapter.records.work import FORGET, UNCLEAR
from langmem_adapter.statements.parser import read
from langmem_adapter.statements.tables import patterns
from langmem_adapter.text import cased, meaningful, refers_back, signed_words, text_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langmem_adapter.reasoning.base import Comparison
    from langmem_adapter.records.work import Fact
    from langmem_adapter.statements.statement import Statement

__all__ = ["compare"]

_SHOWN: Final = 80  # characters of a memory quoted in a reason
_SAYS_SO: Final = patterns("english", {})["SAYS_SO"]
_ENDS_ALONE: Final = frozenset({"employer", "partner", "home", "school"})
"""Attributes whose end needs no value: "Quit my job"."""
_ENDABLE: Final = frozenset("habit like own pet study speak diet school employer home job".split())
"""Attributes that "Gave up sugar" may end."""
_BY_WORD: Final = frozenset("like prefer habit visit study speak allergy own".split())
"""Attributes that may have hundreds of values."""
Bearing = Literal["same", "replaces", "ends", ""]


def compare(comparison: Comparison) -> tuple[Verdict, ...]:
    """What becomes of each fact: at least one verdict each, in order, and no memory changed twice.

    Each speaker's facts are compared with what that speaker said, and with nothing else.
    """
    desks: dict[str, _Desk] = {}
    for index, fact in enumerate(comparison.facts):
        speaker = entity_key(fact.speaker)
        if speaker not in desks:
            known = tuple(memory for memory in comparison.known if entity_key(memory.speaker) == speaker)
            desks[speaker] = _Desk(replace(comparison, known=known))
        desks[speaker].take(index, fact)
    verdicts = (verdict for desk in desks.values() for verdict in desk.verdicts())
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
    if new.positive != old.positive:
        return "ends" if _terms(new.value) == _terms(old.value) else ""
    if _terms(new.value) == _terms(old.value) and cased(new.value) == cased(old.value):
        return "same"
    if _covers(old, new):
        return "same"
    place = new.slot or new.place or ("job" if new.attribute == "job" and renewed and not new.subject else "")
    if new.attribute == "detail" and renewed:
        place = f"detail {new.subject}"
    other = old.place or (place if old.attribute in {"job", "detail"} and not _person(old) else "")
    return "replaces" if new.positive and place and place == other else ""


def _person(said: Statement) -> bool:
    return said.attribute == "job" and said.subject != ""


def _covers(more: Statement, less: Statement) -> bool:
    """Whether an old value says all of a new one: John Smith is John, the old town of Lyon is Lyon; New York is not York."""
    pieces = [piece.strip() for piece in re.split(r",| of | in | near ", more.value)]
    if more.attribute in {"family", "pet", "friend", "partner"}:
        return more.value.startswith(f"{less.value} ")
    if more.attribute == "name":
        return more.value.split(" ")[0] == less.value
    return more.attribute in {"home", "employer"} and less.value in pieces[0:1] + pieces[-1:]


def _ends(over: Statement, old: Statement) -> bool:
    """Whether what is over is what an old statement says: "Stopped drinking coffee", "Drinks coffee every morning"."""
    if over.subject != old.subject or (
        over.attribute != old.attribute and not (over.attribute == "any" and old.attribute in _ENDABLE)
    ):
        return False
    gone, said = set(_terms(over.value)), set(_terms(old.value))
    if not gone or not over.value:
        return over.attribute in _ENDS_ALONE
    if over.attribute == "partner":
        return over.value.split()[-1] in old.value or gone <= {
            "husband",
            "wife",
            "boyfriend",
            "girlfriend",
            "fiancé",
            "fiancee",
            "fianc",
        }
    return gone <= said


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


@dataclass(slots=True)
class _Index:
    """Slots by their text, and by whom and what they are about, so that a long conversation is not compared pair by pair."""

    by_hash: dict[str, list[_Slot]] = field(default_factory=lambda: defaultdict(list))
    by_about: dict[tuple[str, ...], dict[int, _Slot]] = field(default_factory=lambda: defaultdict(dict))

    def put(self, slot: _Slot) -> None:
        self.by_hash[text_hash(slot.text)].append(slot)
        for place in _places(slot.said):
            self.by_about[place][id(slot)] = slot

    def drop(self, slot: _Slot) -> None:
        self.by_hash[text_hash(slot.text)].remove(slot)
        for place in _places(slot.said):
            self.by_about[place].pop(id(slot), None)

    def about(self, said: Statement) -> Iterator[_Slot]:
        """Living slots about the same thing, the latest first; of many values those that share a word alone."""
        kinds = _ENDABLE if said.attribute == "any" else (said.attribute,) if said.attribute else ()
        first = _terms(said.value)[:1] if said.attribute in _BY_WORD else ()
        places = [(said.subject, kind, *(first if kind in _BY_WORD else ())) for kind in kinds]
        slots = [slot for place in places for slot in self.by_about.get(place, {}).values()]
        return (slot for slot in reversed(slots) if not slot.gone)


def _places(said: Statement) -> list[tuple[str, ...]]:
    """Where a statement is found: by whom and what it is about, and for many values by each word as well."""
    words = dict.fromkeys(_terms(said.value)) if said.attribute in _BY_WORD else ()
    return [(said.subject, said.attribute), *((said.subject, said.attribute, word) for word in words)]


class _Desk:
    def __init__(self, comparison: Comparison) -> None:
        self._original = {memory.number: memory.text for memory in comparison.known}
        self._index = _Index()
        self._notes: list[_Note] = []
        self._company = Company(person for memory in comparison.known for person in read(memory.text).people)
        self._unnamed: dict[str, list[_Slot]] = defaultdict(list)  # by kind: those whose name is not known yet
        for memory in comparison.known:
            self._open(memory.text, memory.number, None)

    def take(self, index: int, fact: Fact) -> None:
        if fact.verbatim or fact.is_quotation:
            self._add(index, fact.text, "kept in the user's words")
        elif fact.text.startswith(FORGET):
            self._forget(index, fact.text)
        else:
            renewed = _SAYS_SO.search(f"{fact.text} {fact.context}") is not None
            self._weigh(index, self._company.resolved(fact.text), renewed=renewed)

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

    def _weigh(self, index: int, text: str, *, renewed: bool) -> None:
        if slot := self._same_words(text):
            self._none(index, text, slot)
            return
        if self._names(index, text):
            return
        said = read(text)
        links: dict[Bearing, list[_Slot]] = {"same": [], "replaces": [], "ends": []}
        for slot in self._index.about(said):
            links.setdefault(_bearing(said, slot.said, renewed=renewed), []).append(slot)
        if links["same"] and not said.ended:
            self._none(index, text, links["same"][0])
        elif links["ends"]:
            self._end(index, text, said, links["ends"])
        elif links["replaces"]:
            self._change(index, text, links["replaces"][0])
        else:
            unclear = "; whom it speaks of is unclear" if refers_back(text) else ""
            self._add(index, text, f"not known yet{unclear}")

    def _forget(self, index: int, wish: str) -> None:
        """Delete the memory that says what is to be forgotten, and no other."""
        text = wish.removeprefix(FORGET)
        said = read(text)
        same = (slot for slot in self._index.about(said) if _bearing(said, slot.said, renewed=False) == "same")
        slot = self._same_words(text) or next(
            (slot for slot in same if _terms(slot.said.value) == _terms(said.value)), None
        )
        if slot is None or slot.owner is not None:
            self._notes.append(_Note(index, wish, None, UNCLEAR))
            return
        slot.owner, slot.gone = index, True
        self._notes.append(_Note(index, wish, slot, f"asked to forget {_short(slot.text)}", deletes=True))

    def _same_words(self, text: str) -> _Slot | None:
        return next((slot for slot in self._index.by_hash[text_hash(text)] if not slot.gone), None)

    def _names(self, index: int, text: str) -> bool:
        """Join "Sister's name is Jesica" to "Has a sister"; several sisters without a name leave it open."""
        kinds = [person.kind for person in read(text).people if person.kind and person.name]
        found = [
            slot for kind in kinds for slot in self._unnamed[kind] if not slot.gone and named_memory(slot.text, text)
        ]
        if len(found) != 1:
            return False
        self._change(index, named_memory(found[0].text, text), found[0], said=text)
        return True

    def _none(self, index: int, text: str, slot: _Slot) -> None:
        where = "already known" if slot.owner is None else "already said in this conversation"
        pointed = slot if slot.number is not None and slot.owner != index else None  # one of this round has no number
        self._notes.append(_Note(index, text, pointed, f"{where}: {_short(slot.text)}"))

    def _change(self, index: int, text: str, slot: _Slot, *, said: str = "") -> None:
        why = f"{_short(slot.text)} is now {_short(text)}"
        if slot.owner is None:
            slot.owner, slot.reason = index, why
            self._notes.append(_Note(index, said or text, slot, why))
        else:
            slot.reason = f"{slot.reason}; {why}" if slot.reason else why
            self._notes.append(_Note(index, said or text, slot, f"merged into {_short(text)}"))
        self._index.drop(slot)
        slot.text, slot.said = text, read(text)
        self._file(slot)

    def _end(self, index: int, text: str, said: Statement, slots: Sequence[_Slot]) -> None:
        for slot in slots:
            slot.gone = True
            if slot.number is not None:
                self._notes.append(_Note(index, text, slot, f"contradicts {_short(slot.text)}", deletes=True))
        if not said.empty:
            self._add(index, text, f"instead of {_short(slots[0].text)}")
        elif all(slot.number is None for slot in slots):
            self._notes.append(_Note(index, text, None, f"takes back {_short(slots[0].text)}"))

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
                self._unnamed[person.kind].append(slot)


def _short(text: str) -> str:
    return f"“{text}”" if len(text) <= _SHOWN else f"“{text[: _SHOWN - 1]}…”"
