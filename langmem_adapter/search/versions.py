"""Two versions of one statement: the newer one goes first.

What was said verbatim stays, also when it was said anew: "I live in Paris", and a year later "I moved to Berlin". Both
answer the question, and the older one often with more of its words. Similarity alone prefers the stale one more often
than not (BEAM, Tavakoli et al. 2025, arXiv:2510.27246); nor can it tell a newer version from another matter in like words.
What can is structure: who says it, of which thing, and what kind of value is given anew.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from langmem_adapter.forks import cached_property
from langmem_adapter.languages import ENGLISH
from langmem_adapter.statements.parser import single_valued
from langmem_adapter.statements.statement import LONGEST
from langmem_adapter.statements.updates import (
    MEASURES,
    Asked,
    Clause,
    asked,
    beside,
    changed,
    clauses,
    contrasts,
    elsewhere,
    leads,
    numbers,
    over,
    owners,
    passage,
    phrases,
    things,
    values,
)
from langmem_adapter.text import asks, is_cjk, kin, refers_back, subjects, text_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.statements.updates import Value

__all__ = ["newest_first"]

_LONG: Final = 1_000  # letters of a message; a longer one speaks of many things
_HALF: Final = 0.5  # of the things that are asked, which both versions name
_SHORT: Final = 120  # letters of a statement, not of a turn
_SAME_ATTRIBUTE: Final = 3
_GIVEN_ANEW: Final = 2
_SAID_AGAIN: Final = 1
_BESIDE: Final = 2  # things that both name beside what is asked


def newest_first(items: Sequence[MemoryItem], question: str, language: str = ENGLISH) -> list[int]:
    """The order in which hits are shown: each newer version of a statement right before the older one.

    Only where the question asks how something is now. Of a long message the clauses that are about what is asked count. A
    statement is a newer version of another where the same speaker made it later, in the same way (fact, message …), of nobody
    else and of no other sort of the thing ("Dutch words", not "French words"), and

    - it gives the same attribute, which has one value at a time, of the same subject ("moved to Oslo", "lives in Rome");
    - or it says that the older one's value is over ("I sold the Volvo");
    - or it names something of each phrase of the question that the older one names, and gives another amount or time, or, where
      none is asked, says that something changed ("I switched to Lidl"), or tells as much of what is "mine";
    - or it gives such a value, or says that something changed, and goes on about things that the older one named;
    - or both are short and name all that is asked.
    """
    order = list(range(len(items)))
    wanted = asked(question, language)
    if wanted is None or not wanted.things:
        return order
    told = [_Statement(item, wanted, language) for item in items]
    for older, before in enumerate(told):
        if not before.answers:
            continue
        newer = [
            (strength, len(before.held & after.held), after.time, place)
            for place, after in enumerate(told[older + 1 :], older + 1)
            if after.time > before.time and after.whose == before.whose and (strength := before.outdated(after))
        ]
        if newer and items[older].hash != text_hash(question):  # who asks for these very words gets them first
            _put_before(order, max(newer)[-1], older)
    return order


class _Statement:
    """What one hit says of what is asked; read as far as needed, once."""

    def __init__(self, item: MemoryItem, wanted: Asked, language: str) -> None:
        self.time: Final = item.updated_at
        self.whose: Final = (item.scope.user_id, item.scope.agent_id, item.actor_id, item.memory_type)
        self._is_long: Final = len(item.text) > _LONG
        self._item, self._wanted, self._language = item, wanted, language

    @cached_property
    def _clauses(self) -> tuple[Clause, ...]:
        return clauses(self._item.text, self._language)

    @cached_property
    def _passage(self) -> tuple[Clause, ...]:
        return passage(self._clauses, self._wanted.things)

    @cached_property
    def _whole(self) -> Clause:
        told = self._passage
        named = frozenset().union(*(clause.subjects for clause in told))
        return Clause(" ".join(clause.text for clause in told), named)

    @cached_property
    def _subjects(self) -> frozenset[str]:
        return subjects(self._item.text, self._language)

    @cached_property
    def held(self) -> frozenset[str]:
        """The things asked for that it names."""
        return self._whole.subjects & self._wanted.things

    @cached_property
    def answers(self) -> bool:
        """Whether its passage names half of what is asked; most hits name less anywhere, and need not be parted."""
        return self._half_in(self._subjects) and self._half_in(self.held)

    def _half_in(self, named: frozenset[str]) -> bool:
        wanted = self._wanted
        if len(named & wanted.things) >= _HALF * len(wanted.things):
            return True
        if is_cjk(wanted.text):
            told, signs = phrases(wanted.text, self._language), set(self._whole.text)
            found = [one for one in told if len(one & signs) > _HALF * len(one)] if self.held else []
        else:
            told = phrases(wanted.text, self._language) if wanted.measured and named else ()
            found = [one for one in told if _named(one & named)]
        return len(found) >= max(1, _HALF * len(told))

    @cached_property
    def _single(self) -> frozenset[tuple[str, str]]:
        """Subjects and attributes of which it gives the one value."""
        short = len(self._item.text) <= LONGEST
        read = [clause.text for clause in (self._clauses if short else self._passage)]
        whole = [self._item.text] if short and not asks(self._item.text) else []
        return frozenset(filter(None, map(single_valued, read + whole)))

    def outdated(self, newer: _Statement) -> int:
        """How surely a later statement of the same speaker is a newer version of this one; 0 where it is none."""
        strength = self._strength(newer)
        return strength if strength and not self._of_somebody_else(newer) else 0

    def _strength(self, newer: _Statement) -> int:
        if not self._single.isdisjoint(newer._single):
            return _SAME_ATTRIBUTE
        if self._ended_by(newer):
            return _GIVEN_ANEW
        if not self._of_the_same(newer) and not self._goes_on_in(newer):
            return 0
        if self._amount_is_anew(newer) or self._state_is_anew(newer):
            return _GIVEN_ANEW
        short = max(len(self._item.text), len(newer._item.text)) <= _SHORT and not self._wanted.kinds
        return _SAID_AGAIN if short and self._wanted.things == self.held <= newer.held else 0

    def _goes_on_in(self, newer: _Statement) -> bool:
        """Whether a statement names two things beside what is asked that this one names, and one more, or tells a change."""
        if not self._wanted.own or len(self._subjects & newer._subjects) < _BESIDE:
            return False
        beside = len(self._beside & newer._beside)
        if beside < _BESIDE or self._of_another_sort(newer):
            return False
        return beside > _BESIDE or bool(_named(self._wanted.things & newer._subjects)) or changed(newer._item.text)

    @cached_property
    def _beside(self) -> frozenset[str]:
        """What it names beside the things asked for."""
        return beside(self._item.text, self._language) - self._wanted.things

    def _state_is_anew(self, newer: _Statement) -> bool:
        """Whether a statement says that something changed, or tells as much of what the speaker asks of their own."""
        if self._wanted.kinds:
            return False
        if changed(newer._whole.text) and newer.answers:
            return True
        both = self.held & newer.held
        told = len(both) > 1 or _named(both) - self._wanted.names or self._beside & newer._beside
        return self._wanted.own and (self._goes_on_in(newer) or (newer.answers and bool(told)))

    def _of_the_same(self, newer: _Statement) -> bool:
        """Whether a statement names some of each that is asked for and that this one names, and none of another sort."""
        if len(self._wanted.things) == 1 and self._measures & newer._measures:
            return True
        shared = self.held & newer._subjects
        if not shared or not (_named(shared) or self.held <= newer.held):
            return False
        return self._is_named_enough(newer) and not self._of_another_sort(newer)

    def _of_another_sort(self, newer: _Statement) -> bool:
        if not self._wanted.numbers <= numbers(newer._item.text):
            return True
        missing = (self._subjects & self._wanted.things) - newer._subjects
        anew = newer._whole.text or newer._item.text
        return not contrasts(anew, self._whole.text, missing, self._language) <= self._known

    def _is_named_enough(self, newer: _Statement) -> bool:
        told = phrases(self._wanted.text, self._language)
        lost = [one for one in told if self._names(one) and not newer._names(one)]
        if not lost or (len(lost) == 1 < len(told) and not self._wanted.kinds):
            return True
        held = frozenset().union(*told) & self._subjects
        return told[0] not in lost and len(held & newer._subjects) >= max(2, _HALF * len(held))

    def _names(self, phrase: frozenset[str]) -> bool:
        """Whether it names any word of an English phrase, or most signs of a Chinese one."""
        told, least = (set(self._item.text), _HALF) if is_cjk(self._wanted.text) else (self._subjects, 0)
        return len(phrase & told) > least * len(phrase)

    @cached_property
    def _measures(self) -> frozenset[str]:
        return frozenset().union(*(one.unit for one in values(self._item.text))) & MEASURES

    def _ended_by(self, newer: _Statement) -> bool:
        """Whether a statement says that what this one answers, an amount aside, is over."""
        if self._wanted.kinds or not self._wanted.things <= self.held:
            return False
        value = _named(things(self._whole.text, self._language)) - self._wanted.things
        told = " ".join(clause.text for clause in newer._clauses)[:LONGEST]
        return over(told) and not value.isdisjoint(things(told, self._language))

    def _of_somebody_else(self, newer: _Statement) -> bool:
        """Whether a statement is about other people, or a thing of theirs or somewhere else."""
        known, text = leads(self._whole.text, self._language) | kin(self._wanted.text, self._language), self._item.text
        named = _named(self._wanted.things)
        if any(one not in known and not (is_cjk(one) and one in text) for one in newer._leads):
            return True
        theirs = owners(newer._whole.text, named, self._language)
        return not theirs <= self._known or elsewhere(newer._item.text, text + self._wanted.text, named, self._language)

    @cached_property
    def _leads(self) -> frozenset[str]:
        """Whom it is about: who opens its passage, or the whole, where that opens with a pronoun or nothing asked is named."""
        told = " ".join(clause.text for clause in self._passage or self._clauses)
        return leads(self._item.text if refers_back(told) else told, self._language)

    @cached_property
    def _known(self) -> frozenset[str]:
        return self._whole.subjects | self._wanted.things

    @cached_property
    def _amounts(self) -> frozenset[Value]:
        return self._of_kind(self._whole.text)

    def _of_kind(self, text: str) -> frozenset[Value]:
        return frozenset(one for one in values(text) if self._wanted.answered_by(one, text))

    def _amount_is_anew(self, newer: _Statement) -> bool:
        """Whether a statement gives another amount: of the same kind, or the first one where it says that something changed."""
        if not self._wanted.measured or not (self._amounts or self._wanted.kinds):
            return False
        told = [newer._of_kind(clause.text) for clause in newer._clauses if newer._is_told_in(clause, self)]
        if not any(told) and not newer._is_long:
            told = [newer._of_kind(b.text) for a, b in pairwise(newer._clauses) if newer._is_told_in(a, self)]
        if "DATE" in self._wanted.kinds and any(near and near <= self._amounts for near in told):
            return False  # says that date again
        known = {one.text for one in self._amounts}
        anew = [one for near in told for one in near if one.text not in known]
        if not self._amounts:
            return bool(anew) and changed(newer._whole.text)
        return any(self._wanted.counted or one.compares(other) for one in anew for other in self._amounts)

    def _is_told_in(self, clause: Clause, older: _Statement) -> bool:
        if self._is_long:
            return older.held <= clause.subjects and changed(clause.text)
        return not self._passage or not self._wanted.things.isdisjoint(clause.subjects)


def _named(told: frozenset[str]) -> frozenset[str]:
    """Things by their own names, not by the group of words that they belong to; a Chinese sign may be all that is shared."""
    return frozenset(one for one in told if is_cjk(one) or not one.startswith("="))


def _put_before(order: list[int], newer: int, older: int) -> None:
    if order.index(newer) > order.index(older):
        order.remove(newer)
        order.insert(order.index(older), newer)
