"""Spans of time, half-open: from a moment on, and no longer at another; either may be open."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Span"]

_EVER: Final = datetime.min.replace(tzinfo=UTC)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time, from its first moment to the first after it; `None` is ever, and for ever."""

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
        return max(self.begins, other.begins) < min(self.ends, other.ends)

    def meets(self, other: Span) -> bool:
        """Whether no moment lies between the two."""
        return self.begins <= other.ends and other.begins <= self.ends

    def joined(self, other: Span) -> Span:
        """The span that covers both."""
        first, last = min(self, other, key=lambda span: span.begins), max(self, other, key=lambda span: span.ends)
        return Span(first.start, last.end)

    def until(self, moment: datetime) -> Span:
        """Its part before a moment."""
        return Span(self.start, moment) if moment < self.ends else self

    def since(self, moment: datetime) -> Span:
        """Its part from a moment on."""
        return Span(moment, self.end) if moment > self.begins else self

    def without(self, other: Span) -> tuple[Span, ...]:
        """Its parts outside another: none, one or two, in order."""
        if not self.overlaps(other):
            return (self,)
        parts = Span(self.start, other.start), Span(other.end, self.end)
        kept = (other.start is not None, other.end is not None)
        return tuple(part for part, may in zip(parts, kept, strict=True) if may and not part.empty)

    def giving_way(self, others: Iterable[Span], *, at_start: bool, at_end: bool) -> Span | None:
        """What is left of it where it gives way to others, at those of its two ends that nobody stated.

        Where it may give way *at_start*, it begins where the last of those ends that end before it does; *at_end*, it ends
        where the first of those begins that begin after it does. The others do not overlap each other. `None` where it may give
        way at both ends, and they fill all of it.
        """
        near = [other for other in others if other.overlaps(self)]
        if at_start and at_end:
            return self._last_without(near)
        begin = [other.begins for other in near if at_end and other.begins > self.begins]
        end = [other.ends for other in near if at_start and other.ends < self.ends]
        return self.until(min(begin)) if begin else self.since(max(end)) if end else self

    def _last_without(self, others: Iterable[Span]) -> Span | None:
        parts: tuple[Span, ...] = (self,)
        for other in others:
            parts = tuple(part for whole in parts for part in whole.without(other))
        return parts[-1] if parts else None
