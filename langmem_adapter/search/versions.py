"""Two versions of one statement: the newer one goes first.

What was said verbatim stays, also when it was said anew: "I live in Paris", and a year later "I moved to Berlin". Both
answer the question, and the older one often with more of its words. Similarity alone prefers the stale one more often
than not (BEAM, Tavakoli et al. 2025, arXiv:2510.27246); nor can it tell a newer version from another matter in like words.
What can is structure: who says it, of which thing, and what kind of value is given anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from langmem_adapter.forks import cached_property
from langmem_adapter.languages import ENGLISH
from langmem_adapter.statements.attributes import single_valued
from langmem_adapter.statements.clauses import Clause, changed, clauses, over, passage
from langmem_adapter.statements.modifiers import leads, owners, sorts
from langmem_adapter.statements.questions import Asked, asked, things
from langmem_adapter.statements.statement import LONGEST
from langmem_adapter.statements.values import values
from langmem_adapter.text import asks, is_cjk, kin, subjects, text_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langmem_adapter.records.results import MemoryItem

__all__ = ["newest_first"]

_HALF: Final = 0.5  # of the things that are asked, which both versions name
_SHORT: Final = 120  # letters of a statement, not of a turn
_SAME_ATTRIBUTE: Final = 3
_GIVEN_ANEW: Final = 2
_SAID_AGAIN: Final = 1


def newest_first(items: Sequence[MemoryItem], question: str, language: str = ENGLISH) -> list[int]:
    """The order in which hits are shown: each newer version of a statement right before the older one.

    Only where the question asks how something is now. Of a long message the clauses that are about what is asked count. A
    statement is a newer version of another where the same speaker made it later, in the same way (fact, message …), and

    - it gives the same attribute, which has one value at a time, of the same subject ("moved to Oslo", "lives in Rome");
    - or it names half of what is asked, as the older one does, and gives another amount or time of the kind that is asked
      ("the budget is now $500"), or, where no amount is asked, says that something changed ("I switched to Lidl");
    - or it says that the older one's value is over ("I sold the Volvo");
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
        self.whose: Final = (item.actor_id, item.scope.agent_id, item.memory_type)
        self._item, self._wanted, self._language = item, wanted, language

    @cached_property
    def _clauses(self) -> tuple[Clause, ...]:
        return clauses(self._item.text, self._language)

    @cached_property
    def _passage(self) -> tuple[Clause, ...]:
        return passage(self._clauses, self._wanted.things)

    @cached_property
    def _text(self) -> str:
        return " ".join(clause.text for clause in self._passage)

    @cached_property
    def held(self) -> frozenset[str]:
        """The things asked for that it names."""
        return self._subjects & self._wanted.things

    @cached_property
    def _subjects(self) -> frozenset[str]:
        return frozenset().union(*(clause.subjects for clause in self._passage))

    @cached_property
    def answers(self) -> bool:
        """Whether it names half of what is asked; most hits name less anywhere, and need not be parted."""
        least, things = _HALF * len(self._wanted.things), self._wanted.things
        return len(subjects(self._item.text, self._language) & things) >= least and len(self.held) >= least

    @cached_property
    def _single(self) -> frozenset[tuple[str, str]]:
        """Subjects and attributes of which it gives the one value."""
        short = len(self._item.text) <= LONGEST
        read = [clause.text for clause in (self._clauses if short else self._passage)]
        whole = [self._item.text] if short and not asks(self._item.text) else []
        return frozenset(filter(None, map(single_valued, read + whole)))

    @cached_property
    def _kin(self) -> frozenset[str]:
        return kin(self._text, self._language)

    @cached_property
    def _changed(self) -> bool:
        return changed(self._text)

    def outdated(self, newer: _Statement) -> int:
        """How surely a later statement of the same speaker is a newer version of this one; 0 where it is none."""
        if self._single and not self._single.isdisjoint(newer._single):
            return _SAME_ATTRIBUTE
        if self._of_somebody_else(newer):
            return 0
        if self._ended_by(newer):
            return _GIVEN_ANEW
        return self._renewed_by(newer) if newer.answers and self._of_the_same(newer) else 0

    def _renewed_by(self, newer: _Statement) -> int:
        if self._wanted.kinds:
            return _GIVEN_ANEW if self._amount_is_anew(newer) else 0
        if newer._changed:
            return _GIVEN_ANEW
        short = max(len(self._item.text), len(newer._item.text)) <= _SHORT
        return _SAID_AGAIN if short and self._wanted.things == self.held <= newer.held else 0

    def _ended_by(self, newer: _Statement) -> bool:
        """Whether a statement says that what this one answers, an amount aside, is over."""
        if self._wanted.kinds or not self._wanted.things <= self.held:
            return False
        value = _named(things(self._text, self._language)) - self._wanted.things
        told = " ".join(clause.text for clause in newer._clauses)[:LONGEST]
        return bool(value) and over(told) and not value.isdisjoint(things(told, self._language))

    def _of_the_same(self, newer: _Statement) -> bool:
        """Whether a statement names the same things: all of them, or some where it says that something changed."""
        if self.held <= newer.held:
            return True
        shared = _named(self.held) & newer.held
        others = sorts(newer._text, shared, self._language) - self._known
        return newer._changed and bool(shared) and not others

    def _of_somebody_else(self, newer: _Statement) -> bool:
        """Whether a statement is about other people, or about a thing of theirs."""
        if not newer._leads <= self._kin or not self._kin & self._wanted.things <= newer._kin:
            return True
        return not owners(newer._text, self._wanted.things, self._language) <= self._known

    @cached_property
    def _known(self) -> frozenset[str]:
        return self._subjects | self._wanted.things

    @cached_property
    def _leads(self) -> frozenset[str]:
        return leads(self._text, self._language)

    @cached_property
    def _amounts(self) -> frozenset[tuple[str, str]]:
        return frozenset(one for one in values(self._text) if one[0] in self._wanted.kinds)

    def _amount_is_anew(self, newer: _Statement) -> bool:
        """Whether a statement gives another amount: of the same kind, or the first one where it says that something changed."""
        if not newer._amounts - self._amounts:
            return False
        kinds, others = ({kind for kind, _ in it} for it in (self._amounts, newer._amounts))
        return not kinds.isdisjoint(others) if kinds else newer._changed


def _named(told: frozenset[str]) -> frozenset[str]:
    """Things by their own names, not by the group of words that they belong to; a Chinese sign may be all that is shared."""
    return frozenset(one for one in told if is_cjk(one) or not one.startswith("="))


def _put_before(order: list[int], newer: int, older: int) -> None:
    if order.index(newer) > order.index(older):
        order.remove(newer)
        order.insert(order.index(older), newer)
