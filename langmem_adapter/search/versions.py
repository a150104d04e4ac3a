"""Two versions of one statement: the newer one goes first.

What was said verbatim stays, also when it was said anew: "I live in Paris", and a year later "I moved to Berlin". Both
answer the question, and the older one often with more of its words. Similarity alone prefers the stale one more often
than not (BEAM, Tavakoli et al. 2025, arXiv:2510.27246).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from langmem_adapter.languages import ENGLISH
from langmem_adapter.statements.attributes import single_valued
from langmem_adapter.text import asks, is_cjk, kin, subjects, tells_change, text_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from langmem_adapter.records.results import MemoryItem

__all__ = ["newest_first"]

_SHARED: Final = 0.25  # of the subjects of the shorter statement
_ALIKE: Final = 0.65  # cosine
_SAME: Final = 2.0  # more than any likeness: the same attribute, which has one value at a time


def newest_first(
    items: Sequence[MemoryItem], vectors: NDArray[np.float32], question: str, language: str = ENGLISH
) -> list[int]:
    """The order in which hits are shown: each newer version of a statement right before the older one.

    A statement is a newer version of another of its type (facts, messages …) where the same speaker made it later, about the
    same people, and it gives another value of the same attribute, which has one value at a time ("moved to Oslo", "lives in
    Rome"), or it shares a quarter of the subjects of the shorter one or is close to it in meaning, and it answers the question
    as well: it is about all in the question that the older one is about, or, where it says that something changed ("I sold my
    car"), about one thing in it. Of several the closest one moves, and of those the latest.

    Args:
        items: The hits, best first.
        vectors: Their unit vectors, shape (n, dimensions).
        question: What was asked.
        language: Of the database (`meta.language_of`).

    Returns:
        Indexes into *items*.
    """
    order = list(range(len(items)))
    alike = (vectors @ vectors.copy().T).tolist()  # as the product of two: so few rows with themselves take BLAS longer
    wanted = subjects(question, language)
    told = [_Statement(item, language) for item in items]
    for older, before in enumerate(told):
        newer = [
            (closeness, after.time, place)
            for place in range(older + 1, len(told))
            if (after := told[place]).time > before.time
            and after.replaces(before)
            and (closeness := before.closeness(after, alike[older][place], wanted)) > 0
        ]
        if newer and items[older].hash != text_hash(question):  # who asks for these very words gets them first
            _put_before(order, max(newer)[2], older)
    return order


class _Statement:
    """What one hit says, read once."""

    __slots__ = ("about", "kin", "said", "subjects", "text", "time", "whose")

    def __init__(self, item: MemoryItem, language: str) -> None:
        self.text: Final = item.text
        self.time: Final = item.updated_at
        self.whose: Final = (item.actor_id, item.scope.agent_id, item.memory_type)
        self.said: Final = not asks(item.text)
        self.subjects: Final = subjects(item.text, language)
        self.kin: Final = kin(item.text, language)
        self.about: Final = single_valued(item.text)

    def replaces(self, older: _Statement) -> bool:
        """Whether the same speaker says it of the same people, in the same way; that it is later was seen before."""
        if not self.said or self.whose != older.whose:
            return False
        return self.kin == older.kin or (bool(older.kin) and older.kin <= self.kin and tells_change(self.text))

    def closeness(self, newer: _Statement, cosine: float, wanted: frozenset[str]) -> float:
        """How close a newer statement is to this one; 0 where it is no newer version, or does not answer as well."""
        if self.about is not None and self.about == newer.about:
            return _SAME
        answers = _answers(newer.text, newer.subjects, wanted & self.subjects)
        return _closeness(self.subjects, newer.subjects, cosine) if answers else 0.0


def _closeness(one: frozenset[str], other: frozenset[str], cosine: float) -> float:
    shared = len(one & other) / max(1, min(len(one), len(other)))
    return shared + cosine if shared >= _SHARED or cosine >= _ALIKE else 0.0


def _answers(text: str, about: frozenset[str], held: frozenset[str]) -> bool:
    if held <= about:
        return True
    things = held if is_cjk(text) else {subject for subject in held if not subject.startswith("=")}
    return tells_change(text) and (not things or not things.isdisjoint(about))


def _put_before(order: list[int], newer: int, older: int) -> None:
    if order.index(newer) > order.index(older):
        order.remove(newer)
        order.insert(order.index(older), newer)
