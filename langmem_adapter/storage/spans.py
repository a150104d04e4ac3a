"""Spans of time, half-open: from a moment on, and no longer at another; either may be open."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

__all__ = ["Span"]

_EVER: Final = datetime.min.replace(tzinfo=UTC)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time.

    Attributes:
        start: Its first moment; `None`: since ever.
        end: The first moment after it; `None`: for ever.
    """

    start: datetime | None
    end: datetime | None

    @property
    def begins(self) -> datetime:
        """Its start, as a moment that compares."""
        return self.start or _EVER

    @property
    def ends(self) -> datetime:
        """Its end, likewise."""
        return self.end or _NEVER

    @property
    def empty(self) -> bool:
        """Whether no moment lies within it."""
        return self.begins >= self.ends

    def overlaps(self, other: Span) -> bool:
        """Whether some moment lies in both."""
        return self.begins < other.ends and other.begins < self.ends

    def meets(self, other: Span) -> bool:
        """Whether no moment lies between the two."""
        return self.begins <= other.ends and other.begins <= self.ends

    def joined(self, other: Span) -> Span:
        """The span that covers both."""
        first, last = min(self, other, key=lambda span: span.begins), max(self, other, key=lambda span: span.ends)
        return Span(first.start, last.end)

    def until(self, moment: datetime) -> Span:
        """Its part before a moment."""
        return Span(self.start, min(self.ends, moment)) if moment < self.ends else self

    def without(self, other: Span) -> tuple[Span, ...]:
        """Its parts outside another: none, one or two, in order.

        Example:
            >>> year = lambda number: datetime(number, 1, 1, tzinfo=UTC)
            >>> parts = Span(year(2019), None).without(Span(year(2021), year(2022)))
            >>> [(part.start.year, part.end and part.end.year) for part in parts]
            [(2019, 2021), (2022, None)]
        """
        if not self.overlaps(other):
            return (self,)
        parts = Span(self.start, other.start), Span(other.end, self.end)
        kept = (other.start is not None, other.end is not None)
        return tuple(part for part, may in zip(parts, kept, strict=True) if may and not part.empty)
