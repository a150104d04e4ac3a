"""What to look for, where and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, tzinfo
from typing import TYPE_CHECKING

import numpy as np

from langmem_adapter.arguments import local_time, parse_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.filters import EVERYTHING
from langmem_adapter.records.checks import quoted
from langmem_adapter.storage.past import Then

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langmem_adapter.filters import Filter
    from langmem_adapter.records.results import Threshold
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.search.rerank import Rerank
    from langmem_adapter.search.scope_cache import Floats

__all__ = ["Bounds", "Query", "reference_of"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """When memories were first said, from *after* on and until *before*, half-open; `None` for any time."""

    after: datetime | None = None
    before: datetime | None = None

    @classmethod
    def of(cls, after: object, before: object, zone: tzinfo | None = UTC) -> Bounds | None:
        """What a caller gave; `None` for no bounds. A day begins in *zone*, `None` is the system's.

        Raises:
            InvalidInputError: One is no time, or nothing lies between them.
        """
        begins, ends = _moment(after, "after", zone), _moment(before, "before", zone)
        if begins is not None and ends is not None and ends <= begins:
            raise InvalidInputError(f"nothing lies between after={begins.isoformat()} and before={ends.isoformat()}")
        return None if begins is ends is None else cls(begins, ends)

    def hold(self, created: Floats) -> NDArray[np.bool_]:
        """Which of some moments (Unix seconds) lie within."""
        begins = -np.inf if self.after is None else self.after.timestamp()
        ends = np.inf if self.before is None else self.before.timestamp()
        held: NDArray[np.bool_] = (created >= begins) & (created < ends)
        return held


def _moment(given: object, name: str, zone: tzinfo | None) -> datetime | None:
    if isinstance(given, int | float):  # a year or a count of days, hardly seconds since 1970
        raise InvalidInputError(
            f"{name} must be a datetime, a date or ISO 8601 text like 2026-05-01, not {quoted(given)}"
        )
    return None if given is None else parse_time(_begun(given), name, zone)


def reference_of(given: object, zone: tzinfo | None = UTC) -> datetime | None:
    """The moment that "last week" is counted from, with its own UTC offset or else that of *zone*; `None` for now.

    Raises:
        InvalidInputError: It is no time.
    """
    return None if given is None else local_time(_begun(given), "reference_date", zone)


def _begun(given: object) -> object:
    """When a day begins; whatever else was given, as it is."""
    if isinstance(given, date) and not isinstance(given, datetime):
        return datetime.combine(given, time())
    return given


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for, and where.

    Attributes:
        text: The question or statement; operators and quotes are just text.
        scope: Whose memories.
        k: At most so many hits.
        filters: What the memories must be like.
        threshold: Least relevance of a hit, 0 to 1; `"auto"`: see `Memory.search`.
        memory_type: Only memories of this type.
        facts: Only facts: memories without a type.
        then: Search what was true, or known, at a moment.
        rerank: Orders the best hits once more.
        explain: Give the parts of each score.
        max_tokens: Tokens that all hits together may have.
        bounds: Only memories that were first said within them.
        reference: When it is asked, which "last week" is counted from; `None`: now, or the moment of the past that is searched.
        zone: The zone that days begin in, where *reference* does not say it; `None` is the system's.
    """

    text: str
    scope: Scope
    k: int = 10
    filters: Filter = EVERYTHING
    threshold: Threshold = None
    memory_type: str | None = None
    facts: bool = False
    then: Then | None = None
    rerank: Rerank | None = None
    explain: bool = False
    max_tokens: int | None = None
    bounds: Bounds | None = None
    reference: datetime | None = None
    zone: tzinfo | None = UTC

    @property
    def narrowed(self) -> str:
        """What it is narrowed to within its scope, in words; empty where it sees all that stands there."""
        then, bounds = self.then or Then(), self.bounds or Bounds()
        moments = {"as_of": then.as_of, "known_at": then.known_at, "after": bounds.after, "before": bounds.before}
        told = [f"{name}={moment.isoformat()}" for name, moment in moments.items() if moment is not None]
        told += [] if self.memory_type is None else [f"memory_type={quoted(self.memory_type)}"]
        return ", ".join([*told, "filters"] if self.filters else told)

    @property
    def asked_at(self) -> datetime:
        """When it is asked."""
        then = None if self.then is None else self.then.as_of or self.then.known_at
        return self.reference or (then or datetime.now(UTC)).astimezone(self.zone)
