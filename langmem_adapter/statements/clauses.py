"""The clauses in which a message states something, and those of them that are about what is asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from langmem_adapter.languages import ENGLISH
from langmem_adapter.statements.updates import UPDATES
from langmem_adapter.text import asks, subjects

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Clause", "changed", "clauses", "over", "passage"]

_READ: Final = 4_000  # letters of a text
_SHORT: Final = 120  # letters of a text whose clauses belong together


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause that states something, and its `text.subjects`."""

    text: str
    subjects: frozenset[str]


def clauses(text: str, language: str = ENGLISH) -> tuple[Clause, ...]:
    """The clauses of a text that state something: those of its questions and of its code are left out.

    Args:
        text: Any text; of a long one the first 4,000 letters are read.
        language: As for `text.words`.

    Example:
        >>> [clause.text for clause in clauses("I'm at 61% now, which modules should I cover first? I use pytest.")]
        ["I'm at 61% now", 'I use pytest.']
    """
    return _clauses(text[:_READ], language)


@lru_cache(maxsize=2_048)
def _clauses(text: str, language: str) -> tuple[Clause, ...]:
    plain = text if "```" not in text else UPDATES["FENCED"].sub(" ", text)
    told = (clause for sentence in UPDATES["SENTENCE"].split(plain) for clause in _stating(sentence.strip()))
    return tuple(Clause(clause, subjects(clause, language)) for clause in told)


def _stating(sentence: str) -> Iterator[str]:
    parts = [part for part in UPDATES["CLAUSE"].split(sentence) if part.strip()]
    if parts and asks(sentence):
        first = next((place for place, part in enumerate(parts) if UPDATES["ASKING"].match(part)), len(parts) - 1)
        parts = parts[:first]
    yield from (part.strip(" ,;，") for part in parts)


def passage(told: tuple[Clause, ...], things: frozenset[str]) -> tuple[Clause, ...]:
    """The clauses that are about what is asked: the one that names most of it, and its neighbours.

    Those only where they name more of it, or the text is short.

    Args:
        told: The clauses of a text.
        things: What is asked.

    Example:
        >>> told = clauses("It rains, but the budget grew, " + "and I am free, " * 9)
        >>> [clause.text for clause in passage(told, frozenset({"budget"}))]
        ['but the budget grew']
    """
    held = [clause.subjects & things for clause in told]
    best = max(range(len(held)), key=lambda place: len(held[place]), default=0)
    if not held or not held[best]:
        return ()
    found, first, last = held[best], best, best
    short = sum(len(clause.text) for clause in told) <= _SHORT
    for place in (best - 1, best + 1):
        if 0 <= place < len(told) and (short or not held[place] <= found):
            found, first, last = found | held[place], min(first, place), max(last, place)
    return told[first : last + 1]


def changed(text: str) -> bool:
    """Whether a statement says that something is no longer as it was.

    Example:
        >>> changed("I moved to Berlin."), changed("我不吃肉了"), changed("I live in Paris.")
        (True, True, False)
    """
    return UPDATES["CHANGED"].search(text) is not None


def over(text: str) -> bool:
    """Whether a statement says that something is over, or has been replaced.

    Example:
        >>> over("I traded in the Toyota"), over("我把大众卖了"), over("I bought a Toyota now")
        (True, True, False)
    """
    return UPDATES["OVER"].search(text) is not None
