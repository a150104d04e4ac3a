"""What callers give, checked: each function returns it ready for use, or raises an error that names the fix."""

from __future__ import annotations

from typing import Final

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import check_text
from langmem_adapter.records.scope import Scope

__all__ = ["bounded", "cosine", "filled", "memory_id_of", "scope_if_given"]

_MOST_HITS: Final = 10_000


def scope_if_given(user_id: str | None, agent_id: str | None, run_id: str | None) -> Scope | None:
    """The scope that an id must lie in, where any field of it is named."""
    given = user_id is not None or agent_id is not None or run_id is not None
    return Scope(user_id, agent_id, run_id) if given else None


def memory_id_of(memory_id: object) -> str:
    """An id, which is a text with something in it."""
    if not isinstance(memory_id, str) or not memory_id.strip():
        raise InvalidInputError(f"a memory's id is a text, not {memory_id!r}")
    return check_text(memory_id, "the id")


def filled(text: object, name: str) -> str:
    """A text with something in it; *name* is what it is called in the error."""
    if not check_text(text, name).strip():
        raise InvalidInputError(f"{name} is empty")
    return str(text)


def bounded(k: object, name: str = "k") -> int:
    """How many results at most: 1 to 10,000; *name* is what it is called in the error."""
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= _MOST_HITS:
        raise InvalidInputError(f"{name} must be a whole number from 1 to {_MOST_HITS:,}, not {k!r}")
    return k


def cosine(threshold: object) -> float | None:
    """A cosine from -1 to 1, or `None`."""
    if threshold is None:
        return None
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not -1 <= threshold <= 1:
        raise InvalidInputError(f"threshold is a cosine from -1 to 1, not {threshold!r}")
    return float(threshold)
