"""From the entries of a model's decision to one outcome for every fact.

Nothing here trusts the model: an entry about a memory that was never shown, two entries that change the same memory, one that
answers no fact, or a fact without an entry are errors for the repair round. An entry answers the fact whose number it names;
one without a number (Mem0's shape) that of the same text, or the only one that is left. NONE counts only with a memory that
says the fact, and one that is deleted says nothing. A DELETE closes a memory; what its fact states is then kept as a memory of
its own. After the repair round a fact still without an entry is added rather than lost, and everything else stays an error.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from langmem_adapter.names import entity_key
from langmem_adapter.reasoning.base import Verdict
from langmem_adapter.reasoning.json_text import UnusableReplyError, listed_problems
from langmem_adapter.reasoning.prompts import is_echo
from langmem_adapter.reasoning.triples import relations_in, triple_of
from langmem_adapter.records.graph import SELF
from langmem_adapter.records.work import FORGET, UNCLEAR
from langmem_adapter.text import text_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langmem_adapter.reasoning.base import Comparison
    from langmem_adapter.reasoning.replies import DecisionLine, DecisionReply
    from langmem_adapter.records.graph import Triple
    from langmem_adapter.records.work import Event

__all__ = ["additions", "verdicts_of"]

_ORDER: Final = {"DELETE": 0, "UPDATE": 1, "ADD": 2, "NONE": 3}
_LONGEST_REASON: Final = 300
_SHORT: Final = 80
_NO_OUTCOME: Final = "the model gave no outcome for it twice; added so that it is not lost"


def additions(comparison: Comparison) -> tuple[Verdict, ...]:
    """What becomes of facts that nothing is compared with."""
    return _Reading(comparison, why="nothing was known yet").settled(())


def verdicts_of(
    comparison: Comparison, reply: DecisionReply, before: tuple[Verdict, ...] | None
) -> tuple[tuple[Verdict, ...], Sequence[str]]:
    """What a reply means for the facts, and which facts it leaves out; those are added.

    The second reply may leave out what the first had right: *before* are its outcomes, where it only left out facts.

    Raises:
        UnusableReplyError: The reply makes no sense; the text lists what is wrong, for the model.
    """
    reading = _Reading(comparison)
    reading.take(reply.memory)
    missing = reading.missing()
    problems = [f"fact {fact} ({_short(comparison.facts[fact].text)}) has no entry" for fact in missing]
    return reading.settled(before or ()), problems


class _Reading:
    """One decision while it is attributed."""

    def __init__(self, comparison: Comparison, why: str = _NO_OUTCOME) -> None:
        self._facts = comparison.facts
        self._known = {known.number: known.text for known in comparison.known}
        self._why = why
        self._hashes = [text_hash(fact.text) for fact in self._facts]
        self._known_hashes = {text_hash(text): number for number, text in reversed(self._known.items())}
        self._said = [*self._known.values(), *(fact.text for fact in self._facts)]
        self._verdicts: dict[int, list[Verdict]] = defaultdict(list)

    def take(self, entries: Sequence[DecisionLine]) -> None:
        """Attribute every entry, those with a number first.

        Raises:
            UnusableReplyError: Some are impossible.
        """
        entries = self._distinct(entries)
        problems = [*self._wrong(entries)]
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
        return [fact for fact in range(len(self._facts)) if not self._verdicts[fact] and not self._is_twin(fact)]

    def settled(self, before: Sequence[Verdict]) -> tuple[Verdict, ...]:
        """An outcome for every fact; *before* are those of an earlier reply, for facts that this one leaves out."""
        missing = self.missing()
        for verdict in before:
            if verdict.fact in missing and (verdict.number is None or not self._is_changed(verdict.number)):
                self._verdicts[verdict.fact].append(verdict)
        ended = {v.number for told in self._verdicts.values() for v in told if v.event == "DELETE"}
        for fact in range(len(self._facts)):
            self._settle(fact, ended)
        return tuple(verdict for fact in range(len(self._facts)) for verdict in self._ordered(fact))

    def _distinct(self, entries: Sequence[DecisionLine]) -> list[DecisionLine]:
        """The same change of the same memory said of several facts is made once, and the others find it made."""
        seen: dict[tuple[object, ...], DecisionLine] = {}
        found: list[DecisionLine] = []
        for entry in sorted(entries, key=self._rank):
            first = seen.setdefault(self._identity(entry), entry)
            if entry.event in {"UPDATE", "DELETE"} and entry.fact not in {None, first.fact}:
                found.append(entry.model_copy(update={"event": "NONE", "text": ""}))
        return [*seen.values(), *found]

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

    def _wrong(self, entries: Sequence[DecisionLine]) -> Iterator[str]:
        """What is impossible, in words for the model."""
        changed: dict[int | None, str] = {}
        for entry in entries:
            yield from self._wrong_texts(entry)
            number = self._number(entry)
            if entry.event not in {"UPDATE", "DELETE"}:
                continue
            if number is None:
                yield f"{entry.event} names the id {entry.id!r}, which is not among the memories"
            elif number in changed:
                yield f"the memory {number} is changed twice; write one entry for it"
            else:
                changed[number] = entry.event
                yield from self._wrong_change(entry, number)
        for entry in entries:
            number = self._known_hashes.get(text_hash(entry.text)) if entry.event == "ADD" and entry.text else None
            if changed.get(number) == "DELETE":
                yield f"the memory {number} is deleted and added again"

    def _wrong_texts(self, entry: DecisionLine) -> Iterator[str]:
        if entry.fact is not None and not 0 <= entry.fact < len(self._facts):
            yield f"there is no fact {entry.fact}; they are numbered 0 to {len(self._facts) - 1}"
        if entry.text and is_echo(entry.text, self._said):
            yield f"{_short(entry.text)} stands in the instructions, not in the data"
        if entry.event == "ADD" and not entry.text and entry.fact is None:
            yield "an ADD has no text"

    def _wrong_change(self, entry: DecisionLine, number: int) -> Iterator[str]:
        if entry.event == "UPDATE" and not entry.text:
            yield f"the UPDATE of memory {number} has no text"
        quoted = entry.old_memory or (entry.text if entry.event == "DELETE" else "")
        other = self._known_hashes.get(text_hash(quoted)) if quoted else None
        if other is not None and text_hash(self._known[number]) != text_hash(quoted):
            yield f"the {entry.event} of memory {number} quotes the text of memory {other}; which one is meant?"

    def _number(self, entry: DecisionLine) -> int | None:
        number = int(entry.id) if entry.id.isdecimal() else None
        return number if number in self._known else None

    def _place(self, entry: DecisionLine) -> int | None:
        """The fact of its number, or else of its text."""
        same = self._hashes.index(hashed) if (hashed := text_hash(entry.text)) in self._hashes else None
        fact = same if entry.fact is None else entry.fact
        return fact if fact is not None and 0 <= fact < len(self._facts) else None

    def _take(self, entry: DecisionLine, fact: int) -> None:
        number, text = self._number(entry), entry.text or self._facts[fact].text
        known = None if number is None else self._known[number]
        if entry.event == "ADD":
            self._add_new(fact, entry.reason or "the model found nothing like it among the memories", entry)
        elif known is None:  # a NONE that names no memory that says it
            if self._is_wish(fact):
                self._add(fact, "NONE", entry.reason, None)
        elif entry.event == "NONE" or (entry.event == "UPDATE" and text_hash(text) == text_hash(known)):
            self._add(fact, "NONE", entry.reason or f"the model kept {_short(known)} as it is", number)
        elif entry.event == "UPDATE":
            self._add(fact, "UPDATE", entry.reason or f"the model completed {_short(known)} with it", number, entry)
        else:
            self._add(fact, "DELETE", entry.reason or f"the model found that it contradicts {_short(known)}", number)

    def _add(self, fact: int, event: Event, reason: str, number: int | None, entry: DecisionLine | None = None) -> None:
        text = entry.text if entry is not None and entry.text else self._facts[fact].text
        relations = None if entry is None or text_hash(text) == self._hashes[fact] else _relations(entry)
        self._verdicts[fact].append(
            Verdict(event, text, " ".join(reason.split())[:_LONGEST_REASON], fact, number, relations)
        )

    def _add_new(self, fact: int, reason: str, entry: DecisionLine | None = None) -> None:
        """Add what is new, unless a memory that stays says it in the same words."""
        text = entry.text if entry is not None and entry.text else self._facts[fact].text
        number = self._known_hashes.get(text_hash(text))
        if number is not None and not self._is_changed(number):
            self._add(fact, "NONE", f"known already: {_short(self._known[number])}", number)
        else:
            self._add(fact, "ADD", reason, None, entry)

    def _is_changed(self, number: int) -> bool:
        return any(v.number == number and v.event != "NONE" for told in self._verdicts.values() for v in told)

    def _is_twin(self, fact: int) -> bool:
        same = self._hashes[fact], self._facts[fact].speaker
        return same in zip(self._hashes[:fact], (each.speaker for each in self._facts[:fact]), strict=True)

    def _is_wish(self, fact: int) -> bool:
        return self._facts[fact].text.startswith(FORGET)

    def _settle(self, fact: int, ended: set[int | None]) -> None:
        told = self._verdicts[fact]
        self._verdicts[fact] = [v for v in told if v.event != "NONE" or v.number is None or v.number not in ended]
        if self._is_wish(fact):  # it deletes memories, and never becomes one
            self._verdicts[fact] = [verdict for verdict in told if verdict.event == "DELETE"]
            if not self._verdicts[fact]:
                self._add(fact, "NONE", UNCLEAR, None)
        elif all(verdict.event == "DELETE" for verdict in self._verdicts[fact]):
            if self._is_twin(fact) and not told:
                self._add(fact, "NONE", "said twice", None)
            else:
                self._add_new(fact, "what holds instead" if told else self._why)

    def _ordered(self, fact: int) -> list[Verdict]:
        told = self._verdicts[fact]
        changing = [verdict for verdict in told if verdict.event != "NONE"]
        return sorted(changing, key=lambda verdict: _ORDER[verdict.event]) or told[:1]


def _relations(entry: DecisionLine) -> tuple[Triple, ...] | None:
    """What the text of an entry says of relations, as far as it can be read; `None` where the model does not say."""
    try:
        told = [triple_of(item, SELF)[0] for item in relations_in(entry.relations)]
    except ValueError:
        return None  # then those of the fact stand
    return None if entry.relations is None else tuple(told)


def _short(text: str) -> str:
    return f'"{text}"' if len(text) <= _SHORT else f'"{text[:_SHORT]}…"'
