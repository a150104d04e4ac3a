"""Ordering the best hits once more: by a LangChain compressor (a cross-encoder, a hosted reranker), or for diversity."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from langchain_core.documents import BaseDocumentCompressor, Document

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.results import Abstained, SearchResults
from langmem_adapter.twins import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from langmem_adapter.records.results import Hit
    from langmem_adapter.search.calibration import Scale

__all__ = ["Rerank", "checked", "diverse", "pool", "reranking"]

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
