"""From the lines of a model's decision to one outcome for every fact.

Mem0's reply format lists memories, not facts, so a line must be attributed to the fact that it answers; models that
give the fact's number spare us the guess. Nothing here trusts the model: a line about a memory that was never shown,
two lines that change the same memory, or a fact without an outcome are errors for the repair round. After that round a
fact still without outcome is added rather than lost, and everything else stays an error.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from langmem_adapter.reasoning.base import Verdict
from langmem_adapter.reasoning.salvage import UnusableReplyError
from langmem_adapter.text import cased, content_words, is_cjk, meaningful, signed_words, text_hash

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from langmem_adapter.reasoning.base import Comparison
    from langmem_adapter.reasoning.replies import DecisionReply, Entry
    from langmem_adapter.records.work import Event

__all__ = ["verdicts_of"]

_ORDER: Final = {"DELETE": 0, "UPDATE": 1, "ADD": 2, "NONE": 3}
_LONGEST_REASON: Final = 300
_MOST_PROBLEMS: Final = 10
_NO_OUTCOME: Final = "the model gave no outcome for it twice; added so that it is not lost"


def verdicts_of(comparison: Comparison, reply: DecisionReply, *, last: bool) -> tuple[Verdict, ...]:
    """What a reply means for the facts.

    Args:
        comparison: What the model was asked.
        reply: What it answered.
        last: There is no further repair: facts without an outcome are added.

    Raises:
        UnusableReplyError: The reply makes no sense; the text lists what is wrong, for the model.
    """
    return _Reading(comparison, last=last).run(reply.memory)


class _Reading:
    """One decision while it is attributed."""

    def __init__(self, comparison: Comparison, *, last: bool) -> None:
        self._facts = comparison.facts
        self._known = {known.number: known.text for known in comparison.known}
        self._near = comparison.near
        self._last = last
        self._hashes = [text_hash(fact.text) for fact in self._facts]
        self._words = [content_words(fact.text) for fact in self._facts]
        self._known_hashes = {text_hash(text): number for number, text in reversed(self._known.items())}
        self._problems: list[str] = []
        self._kept: set[int] = set()  # memories listed as they are
        self._verdicts: dict[int, list[Verdict]] = defaultdict(list)

    def run(self, entries: Sequence[Entry]) -> tuple[Verdict, ...]:
        changes = self._distinct([entry for entry in entries if entry.event != "NONE"])
        self._check(changes)
        self._give_up_if_wrong()
        # Lines that name their fact go first: what is left over is easier to attribute.
        for entry in sorted(changes, key=lambda entry: self._named(entry) is None):
            self._take(entry)
        self._give_up_if_wrong()
        for entry in entries:
            if entry.event == "NONE":
                self._confirm(entry)
        for fact in range(len(self._facts)):
            self._settle(fact)
        self._give_up_if_wrong()
        return tuple(verdict for fact in range(len(self._facts)) for verdict in self._ordered(fact))

    def _give_up_if_wrong(self) -> None:
        if self._problems:
            more = len(self._problems) - _MOST_PROBLEMS
            raise UnusableReplyError(
                "; ".join(self._problems[:_MOST_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
            )

    # ── is it possible at all ────────────────────────────────────────────────────────────────────────────────────────

    def _distinct(self, changes: list[Entry]) -> list[Entry]:
        """The same change of the same memory said twice is said once; an addition said twice likewise."""
        seen: dict[tuple[str, str, str], Entry] = {}
        for entry in changes:
            key = (entry.event, "" if entry.event == "ADD" else entry.id, text_hash(entry.text) if entry.text else "")
            seen.setdefault(key if entry.text or entry.event != "ADD" else (*key[:2], f"fact {entry.fact}"), entry)
        return list(seen.values())

    def _check(self, changes: list[Entry]) -> None:
        changed: dict[int, Entry] = {}
        for entry in changes:
            number = self._number(entry)
            if entry.event == "ADD":
                if not entry.text and self._named(entry) is None:
                    self._problems.append("an ADD has no text")
            elif number is None:
                self._problems.append(f"{entry.event} names the id {entry.id!r}, which is not among the memories")
            elif number in changed:
                self._problems.append(f"the memory {number} is changed twice; write one entry for it")
            else:
                changed[number] = entry
                self._check_change(entry, number)
        self._check_swaps(changes, {number for number, entry in changed.items() if entry.event == "DELETE"})

    def _check_change(self, entry: Entry, number: int) -> None:
        if entry.event == "UPDATE" and not entry.text:
            self._problems.append(f"the UPDATE of memory {number} has no text")
        quoted = entry.old_memory or (entry.text if entry.event == "DELETE" else "")
        other = self._known_hashes.get(text_hash(quoted)) if quoted else None
        if other is not None and text_hash(self._known[number]) != text_hash(quoted):
            self._problems.append(
                f"the {entry.event} of memory {number} quotes the text of memory {other}; which one is meant?"
            )

    def _check_swaps(self, changes: list[Entry], deleted: Collection[int]) -> None:
        for entry in changes:
            number = self._known_hashes.get(text_hash(entry.text)) if entry.event == "ADD" and entry.text else None
            if number is not None and number in deleted:
                self._problems.append(f"the memory {number} is deleted and added again")

    def _number(self, entry: Entry) -> int | None:
        number = int(entry.id) if entry.id.isdecimal() else None
        return number if number in self._known else None

    def _named(self, entry: Entry) -> int | None:
        return entry.fact if entry.fact is not None and 0 <= entry.fact < len(self._facts) else None

    # ── which fact does it answer ────────────────────────────────────────────────────────────────────────────────────

    def _take(self, entry: Entry) -> None:
        if entry.event == "ADD":
            self._take_addition(entry)
            return
        number = self._number(entry)
        if number is None:
            return
        known = self._known[number]
        fact = self._named(entry)
        if fact is None:
            fact = self._fact_of_change(number, entry.text if entry.event == "UPDATE" else known)
        if entry.event == "UPDATE" and text_hash(entry.text) == text_hash(known):
            self._kept.add(number)
            self._add(fact, "NONE", self._facts[fact].text, entry.reason or _kept(known), number)
        elif entry.event == "UPDATE":
            self._add(
                fact, "UPDATE", entry.text, entry.reason or f"the model completed {_short(known)} with it", number
            )
        else:
            reason = entry.reason or f"the model found that it contradicts {_short(known)}"
            self._add(fact, "DELETE", self._facts[fact].text, reason, number)

    def _take_addition(self, entry: Entry) -> None:
        fact = self._fact_of_addition(entry)
        if fact is None:
            self._problems.append(f"the ADD {_short(entry.text)} answers none of the facts")
            return
        text = entry.text or self._facts[fact].text
        number = self._known_hashes.get(text_hash(text))
        if number is not None and not self._is_changed(number):
            self._kept.add(number)
            self._add(fact, "NONE", self._facts[fact].text, f"known already: {_short(self._known[number])}", number)
        else:
            self._add(fact, "ADD", text, entry.reason or "the model found nothing like it among the memories", None)

    def _is_changed(self, number: int) -> bool:
        return any(v.number == number and v.event != "NONE" for told in self._verdicts.values() for v in told)

    def _fact_of_addition(self, entry: Entry) -> int | None:
        same = [fact for fact, hashed in enumerate(self._hashes) if entry.text and hashed == text_hash(entry.text)]
        if same:
            return next((fact for fact in same if fact not in self._verdicts), same[0])
        named = self._named(entry)
        if named is not None:
            return named
        fact, overlap = self._nearest(range(len(self._facts)), entry.text)
        return fact if overlap or fact not in self._verdicts else None

    def _fact_of_change(self, number: int, text: str) -> int:
        near = [fact for fact, numbers in enumerate(self._near) if number in numbers]
        return self._nearest(near or range(len(self._facts)), text)[0]

    def _nearest(self, facts: Iterable[int], text: str) -> tuple[int, int]:
        """The fact that shares most words with a text, open ones first among equals; and how many words."""
        told = content_words(text)
        best = max(facts, key=lambda fact: (len(self._words[fact] & told), fact not in self._verdicts, -fact))
        return best, len(self._words[best] & told)

    def _add(self, fact: int, event: Event, text: str, reason: str, number: int | None) -> None:
        self._verdicts[fact].append(Verdict(event, text, _one_line(reason), fact, number))

    # ── facts that no line changes anything for ──────────────────────────────────────────────────────────────────────

    def _confirm(self, entry: Entry) -> None:
        number, fact = self._number(entry), self._named(entry)
        if number is not None:
            self._kept.add(number)
        if fact is not None and fact not in self._verdicts:
            known = None if number is None else self._known[number]
            reason = entry.reason or ("the model found nothing to change" if known is None else _kept(known))
            self._add(fact, "NONE", self._facts[fact].text, reason, number)

    def _settle(self, fact: int) -> None:
        if fact in self._verdicts or self._settle_as_told(fact):
            return
        text = self._facts[fact].text
        if self._last:
            number = self._known_hashes.get(self._hashes[fact])
            if number is None or self._is_changed(number):
                self._add(fact, "ADD", text, _NO_OUTCOME, None)
            else:
                self._add(fact, "NONE", text, f"known already: {_short(self._known[number])}", number)
        else:
            self._problems.append(f"fact {fact} ({_short(text)}) has no outcome")

    def _settle_as_told(self, fact: int) -> bool:
        text = self._facts[fact].text
        covering = next((verdict for verdict in self._rewritten() if _covers(verdict.text, text)), None)
        if covering is not None:
            self._add(fact, "NONE", text, f"said already in {_short(covering.text)}", covering.number)
            return True
        twin = self._hashes.index(self._hashes[fact])
        if twin < fact:
            self._add(
                fact, "NONE", text, "said twice", self._verdicts[twin][0].number if twin in self._verdicts else None
            )
            return True
        kept = [number for number in (self._near[fact] if fact < len(self._near) else ()) if number in self._kept]
        if kept:
            self._add(fact, "NONE", text, _kept(self._known[kept[0]]), kept[0])
        return bool(kept)

    def _rewritten(self) -> list[Verdict]:
        return [verdict for told in self._verdicts.values() for verdict in told if verdict.event in {"UPDATE", "ADD"}]

    def _ordered(self, fact: int) -> list[Verdict]:
        told = self._verdicts[fact]
        changing = [verdict for verdict in told if verdict.event != "NONE"]
        return sorted(changing, key=lambda verdict: _ORDER[verdict.event]) or told[:1]


def _covers(text: str, fact: str) -> bool:
    """Whether a text holds every meaningful word of a fact; of scripts without spaces, every meaningful letter."""
    wanted = {term for term in meaningful(signed_words(fact)) if not (is_cjk(term) and len(term) > 1)}
    return bool(wanted) and wanted <= set(signed_words(text)) and cased(fact) <= cased(text)


def _kept(text: str) -> str:
    return f"the model kept {_short(text)} as it is"


def _short(text: str, most: int = 80) -> str:
    return f'"{text}"' if len(text) <= most else f'"{text[:most]}…"'


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_REASON]
