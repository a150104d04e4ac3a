"""What to look for, and where."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from langmem_adapter.filters import EVERYTHING

if TYPE_CHECKING:
    from langmem_adapter.filters import Filter
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.search.rerank import Rerank
    from langmem_adapter.search.window import Bounds
    from langmem_adapter.storage.past import Then

__all__ = ["Query"]


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for, and where.

    Attributes:
        text: The question or statement; operators and quotes are just text.
        scope: Whose memories.
        k: At most so many hits.
        filters: What the memories must be like.
        threshold: Least relevance of a hit, 0 to 1.
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
    threshold: float | None = None
    memory_type: str | None = None
    facts: bool = False
    then: Then | None = None
    rerank: Rerank | None = None
    explain: bool = False
    max_tokens: int | None = None
    bounds: Bounds | None = None
    reference: datetime | None = None

    @property
    def asked_at(self) -> datetime:
        """When it is asked."""
        then = None if self.then is None else self.then.as_of or self.then.known_at
        return self.reference or then or datetime.now(UTC)
