"""What was worked out of texts, kept until they are many letters, or until something is erased."""

from __future__ import annotations

from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["forget", "remembered"]

F = TypeVar("F", bound="Callable[..., Any]")

_LETTERS: Final = 2_000_000  # of each function; what is kept of a text takes some twenty times as many bytes
_FORGETTING: Final[list[Callable[[], None]]] = []


def remembered(most: int) -> Callable[[F], F]:
    """Keep what a function made of the last *most* texts, and of fewer where they are long."""

    def keeping(function: F) -> F:
        letters = 0

        @wraps(function)
        def compute(*args: Any) -> Any:
            nonlocal letters
            size = len(repr(args))
            letters += size
            if letters > _LETTERS:  # counted here alone: what is kept answers at the speed of C
                letters = size
                kept.cache_clear()
            return function(*args)

        kept: Any = lru_cache(most)(compute)
        _FORGETTING.append(kept.cache_clear)
        return kept  # type: ignore[no-any-return]

    return keeping


def forget() -> None:
    """Let go of all of it, in this process: what was erased may be among the texts."""
    for each in _FORGETTING:
        each()
