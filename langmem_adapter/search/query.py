"""A query with its scope, filters, time and reranker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, tzinfo
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document

from langmem_adapter.arguments import local_time, parse_time
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.filters import EVERYTHING, is_day
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.results import Abstained, SearchResults
from langmem_adapter.storage.memories import Then
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from langmem_adapter.filters import Filter
    from langmem_adapter.records.results import Hit, Threshold
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.search.relevance import Scale
    from langmem_adapter.search.scope_cache import ScopeColumns

Rerank: TypeAlias = BaseDocumentCompressor | Literal["mmr"]
"""A LangChain compressor, or `"mmr"`: maximal marginal relevance (Carbonell and Goldstein 1998)."""

_POOL: Final = 4  # hits looked at for each one wanted
_LEAST: Final = 40
_DIVERSITY: Final = 0.5
_ID: Final = "memory_id"


def checked(rerank: object) -> Rerank | None:
    """What a caller gave.

    Raises:
        InvalidInputError: It is neither a compressor nor `"mmr"`.
    """
    if rerank is None or isinstance(rerank, BaseDocumentCompressor):
        return rerank
    if isinstance(rerank, str) and rerank == "mmr":
        return "mmr"
    raise InvalidInputError(f"rerank is a LangChain BaseDocumentCompressor or 'mmr', not {quoted(rerank)}")


def pool(k: int) -> int:
    """How many hits are looked at where *k* are wanted."""
    return max(_POOL * k, _LEAST)


def reranking(rerank: Rerank, query: str, k: int, hits: SearchResults) -> Plan[SearchResults]:
    """The best *k* of some hits; what a compressor drops is dropped."""
    if rerank == "mmr" or not hits:
        return Plan.known(SearchResults(hits[:k], abstained=hits.abstained))
    chosen = Plan.calling(rerank.compress_documents, rerank.acompress_documents, _documents(hits), query)
    return chosen.then(lambda documents: _reordered(hits, documents, k))


def _reordered(hits: Sequence[Hit], documents: Sequence[Document], k: int) -> SearchResults:
    best = _chosen(hits, documents)[:k]
    return SearchResults(best, abstained=None if best else Abstained("reranked away", hits[0]))


def diverse(scores: Sequence[float], vectors: NDArray[np.float32], k: int, scale: Scale) -> list[int]:
    """Indexes of the best *k* hits that are good and unlike each other; scores and unit vectors stand best first."""
    if not scores:
        return []
    matrix, worth = np.asarray(vectors), np.asarray(scores)
    worth = (worth - worth.min()) / max(float(np.ptp(worth)), 1e-9)
    chosen, likeness = [0], scale.likeness(matrix @ matrix[0])
    while len(chosen) < min(k, len(scores)):
        gain = (1 - _DIVERSITY) * worth - _DIVERSITY * likeness
        gain[chosen] = -np.inf
        chosen.append(int(np.argmax(gain)))
        likeness = np.maximum(likeness, scale.likeness(matrix @ matrix[chosen[-1]]))
    return chosen


def _documents(hits: Sequence[Hit]) -> list[Document]:
    return [Document(hit.text, id=hit.id, metadata={**hit.item.metadata, _ID: hit.id}) for hit in hits]


def _chosen(hits: Sequence[Hit], documents: Sequence[Document]) -> list[Hit]:
    by_id = {hit.id: hit for hit in hits}
    found: dict[str, Hit] = {}
    for rank, document in enumerate(documents, 1):
        hit = by_id.get(str(document.metadata.get(_ID)))
        if hit is not None and hit.id not in found:
            found[hit.id] = replace(hit, score=_score(document, 1 / rank))
    return list(found.values())


def _score(document: Document, otherwise: float) -> float:
    told: Any = document.metadata.get("relevance_score")
    return float(told) if isinstance(told, int | float) else otherwise


@dataclass(frozen=True, slots=True)
class Bounds:
    """When memories were first said, from *after* on and until *before*, half-open; `None` for any time.

    A moment without a zone is the start of a day, which begins for each memory when it began for who said it.
    """

    after: datetime | None = None
    before: datetime | None = None

    @classmethod
    def of(cls, after: object, before: object, zone: tzinfo | None = UTC) -> Bounds | None:
        """What a caller gave; `None` for no bounds. A time without an offset is of *zone*, `None` is the system's.

        Raises:
            InvalidInputError: One is no time, or nothing lies between them.
        """
        begins, ends = _moment(after, "after", zone), _moment(before, "before", zone)
        if begins and ends and (begins.tzinfo is None) is (ends.tzinfo is None) and ends <= begins:
            raise InvalidInputError(f"nothing lies between after={begins.isoformat()} and before={ends.isoformat()}")
        return None if begins is ends is None else cls(begins, ends)

    def hold(self, columns: ScopeColumns, asked: datetime) -> NDArray[np.bool_]:
        """Which memories lie within, when it is *asked*."""
        held = np.ones(len(columns.pks), np.bool_)
        for bound, lies in ((self.after, np.greater_equal), (self.before, np.less)):
            if bound is not None and bound.tzinfo is None:
                held &= lies(columns.local(asked)[0], bound.replace(tzinfo=UTC).timestamp())
            elif bound is not None:
                held &= lies(columns.created, bound.timestamp())
        return held


def _moment(given: object, name: str, zone: tzinfo | None) -> datetime | None:
    if isinstance(given, int | float):  # a year or a count of days, hardly seconds since 1970
        raise InvalidInputError(
            f"{name} must be a datetime, a date or ISO 8601 text like 2026-05-01, not {quoted(given)}"
        )
    return _begun(given) if is_day(given) else None if given is None else parse_time(given, name, zone)


def reference_of(given: object, zone: tzinfo | None = UTC) -> datetime | None:
    """The moment that "last week" is counted from, with its own UTC offset or else that of *zone*; `None` for now.

    Raises:
        InvalidInputError: It is no time.
    """
    return None if given is None else local_time(_begun(given), "reference_date", zone)


def _begun(given: Any) -> Any:
    """When a day begins; whatever else was given, as it is."""
    if not is_day(given):
        return given
    return datetime.fromisoformat(given) if isinstance(given, str) else datetime.combine(given, time())


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
        expired: Expired memories as well.
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
    expired: bool = False
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
        told = [f"{name}={moment.isoformat()}".removesuffix("T00:00:00") for name, moment in moments.items() if moment]
        told += [] if self.memory_type is None else [f"memory_type={quoted(self.memory_type)}"]
        return ", ".join([*told, "filters"] if self.filters else told)

    @property
    def asked_at(self) -> datetime:
        """When it is asked."""
        then = None if self.then is None else self.then.as_of or self.then.known_at
        return self.reference or (then or datetime.now(UTC)).astimezone(self.zone)
