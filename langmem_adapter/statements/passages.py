"""The clauses in which a message states something, and those of them that are about what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from langmem_adapter.statements.tables import patterns
from langmem_adapter.text import asks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["changed", "clauses", "over", "passage"]

_P: Final = patterns("updates", {})
_READ: Final = 10_000  # letters of a text
_SHORT: Final = 120  # letters of a text whose clauses belong together


def clauses(text: str) -> list[str]:
    """The clauses of a text that state something: those of its questions and of its code are left out.

    Example:
        >>> clauses("I'm at 61% now, which modules should I cover first? I use pytest.")
        ["I'm at 61% now,", 'I use pytest.']
    """
    plain = text[:_READ] if "```" not in text else _P["FENCED"].sub(" ", text[:_READ])
    return [clause for sentence in _P["SENTENCE"].split(plain) for clause in _stating(sentence.strip())]


def _stating(sentence: str) -> Iterator[str]:
    parts = [part for part in _P["CLAUSE"].split(sentence) if part.strip()]
    if parts and asks(sentence):
        first = next((place for place, part in enumerate(parts) if _P["ASKING"].match(part)), len(parts) - 1)
        parts = parts[:first]
    yield from parts


def passage(told: Sequence[str], held: Sequence[frozenset[str]]) -> slice:
    """Which clauses of a text are about what is asked: the one that holds most of it, and what its neighbours add to that.

    Args:
        told: The clauses.
        held: What each of them holds of what is asked.
    """
    best = max(range(len(held)), key=lambda place: len(held[place]), default=0)
    if not held or not held[best]:
        return slice(0, 0)
    found, first, last, short = held[best], best, best, sum(map(len, told)) <= _SHORT
    for place in (best - 1, best + 1):
        if 0 <= place < len(told) and (short or not held[place] <= found):
            found, first, last = found | held[place], min(first, place), max(last, place)
    return slice(first, last + 1)


def changed(text: str) -> bool:
    """Whether a statement says that something is no longer as it was.

    Example:
        >>> changed("I moved to Berlin."), changed("我不吃肉了"), changed("I live in Paris.")
        (True, True, False)
    """
    return _P["CHANGED"].search(text) is not None


def over(text: str) -> bool:
    """Whether a statement says that something is over, or has been replaced.

    Example:
        >>> over("I traded in the Toyota"), over("我把大众卖了"), over("I bought a Toyota now")
        (True, True, False)
    """
    return _P["OVER"].search(text) is not None
