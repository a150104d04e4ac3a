"""Room: how much text goes into a request beside what it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["fitting", "tokens_in"]

_BYTES: Final = 4  # of UTF-8 in a token: about right for English, Chinese and Russian alike


def tokens_in(text: str) -> int:
    """About how many tokens a text has.

    Example:
        >>> tokens_in("Lives in Lyon"), tokens_in("住在里昂，喜欢绿茶")
        (4, 7)
    """
    return len(text.encode()) // _BYTES + 1


def fitting(texts: Iterable[str], *, each: int, most: int) -> list[str]:
    """The first of some texts, as many as fit; long ones are cut.

    Args:
        texts: The most important first.
        each: Tokens that one of them may have.
        most: Tokens that all together may have.

    Example:
        >>> fitting(["Lives in Lyon", "Likes tea and everything that goes with it", "Has a dog"], each=6, most=10)
        ['Lives in Lyon', 'Likes tea and everyt…']
    """
    kept: list[str] = []
    for text in texts:
        cut = text if tokens_in(text) <= each else f"{text.encode()[: _BYTES * (each - 1)].decode(errors='ignore')}…"
        most -= tokens_in(cut)
        if most < 0:
            break
        kept.append(cut)
    return kept
