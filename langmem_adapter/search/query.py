"""What to look for, where and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING

import numpy as np

from langmem_adapter.arguments import parse_time
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
    def of(cls, after: object, before: object, reference: datetime | None = None) -> Bounds | None:
        """What a caller gave; `None` for no bounds. A day begins in the zone of the *reference*, without one in UTC.

        Raises:
            InvalidInputError: One is no time, or nothing lies between them.
        """
        begins, ends = _moment(after, "after", reference), _moment(before, "before", reference)
        if begins is not None and ends is not None and ends <= begins:
            raise InvalidInputError(f"nothing lies between after={begins.isoformat()} and before={ends.isoformat()}")
        return None if begins is ends is None else cls(begins, ends)

    def hold(self, created: Floats) -> NDArray[np.bool_]:
        """Which of some moments (Unix seconds) lie within."""
        begins = -np.inf if self.after is None else self.after.timestamp()
        ends = np.inf if self.before is None else self.before.timestamp()
        held: NDArray[np.bool_] = (created >= begins) & (created < ends)
        return held


def _moment(given: object, name: str, reference: datetime | None) -> datetime | None:
    if isinstance(given, int | float):  # a year or a count of days, hardly seconds since 1970
        raise InvalidInputError(
            f"{name} must be a datetime, a date or ISO 8601 text like 2026-05-01, not {quoted(given)}"
        )
    return None if given is None else parse_time(_begun(given, reference), name)


def reference_of(given: object) -> datetime | None:
    """The moment that "last week" is told from, in the zone that the caller's days begin in; without one it is UTC.

    Raises:
        InvalidInputError: It is no time.
    """
    if given is None:
        return None
    given = _begun(given)
    moment = parse_time(given, "reference_date")
    said = datetime.fromisoformat(given) if isinstance(given, str) else given
    return said if isinstance(said, datetime) and said.tzinfo is not None else moment


def _begun(given: object, reference: datetime | None = None) -> object:
    """When a day begins; whatever else was given, as it is."""
    if not isinstance(given, date) or isinstance(given, datetime):
        return given
    return datetime.combine(given, time(), (reference and reference.tzinfo) or UTC)


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
        reference: When it is asked, which "last week" is told from; `None`: now, or the moment of the past that is searched.
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
        return self.reference or then or datetime.now(UTC)
