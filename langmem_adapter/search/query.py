"""What to look for, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from langmem_adapter.filters import EVERYTHING

if TYPE_CHECKING:
    from langmem_adapter.filters import Filter
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.search.rerank import Rerank
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
