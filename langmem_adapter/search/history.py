"""The past of a scope: its memories as they were, or were known, at a moment."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from langmem_adapter.records.plain import shallow
from langmem_adapter.search.scope_cache import Postings, ScopeCache, ScopeColumns
from langmem_adapter.storage import lexical
from langmem_adapter.storage.moments import minutes_of
from langmem_adapter.storage.past import PastMemory, Then, standing_vectors, then

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.records.results import MemoryItem
    from langmem_adapter.search.query import Query

__all__ = ["PastScope", "read"]


@dataclass(frozen=True, slots=True, eq=False)
class PastScope:
    """What was: the memories, as a search keeps them and by pk; their unit vectors in its order; and rows of words by term."""

    cache: ScopeCache
    items: dict[int, MemoryItem]
    vectors: NDArray[np.float32]
    words: dict[str, list[Any]]

    def load(self, terms: Sequence[str]) -> list[Any]:
        """The rows of some terms."""
        return [row for term in terms for row in self.words.get(term, ())]


def read(connection: Connection, query: Query, when: Then, embedder: Embedder, language: str) -> PastScope:
    """What was at a moment, for a query.

    Texts that have changed since are embedded again, in one batch; all are split into words anew, as the question was.
    """
    found = then(connection, query.scope, when, filters=query.filters, memory_type=query.memory_type)
    found.sort(key=lambda known: known.pk)
    words, total = _words(found, language)
    numbers = {scope: number for number, scope in enumerate(dict.fromkeys(known.item.scope for known in found))}
    rows = ScopeColumns.of(SimpleNamespace(**_row(known) | {"scope_id": numbers[known.item.scope]}) for known in found)
    cache = ScopeCache(rows, words=total, postings=Postings(), language=language)
    vectors = _vectors(connection, found, embedder)
    return PastScope(cache, {known.pk: known.item for known in found}, vectors, words)


def _row(known: PastMemory) -> dict[str, Any]:
    own = {"scope_id": 0, "pk": known.pk, "context": known.context, "utc_offset": minutes_of(known.item.updated_at)}
    return {**shallow(known.item), **own}


def _words(found: Sequence[PastMemory], language: str) -> tuple[dict[str, list[Any]], int]:
    words: defaultdict[str, list[Any]] = defaultdict(list)
    total = 0
    for known in found:
        rows = lexical.postings(_row(known), language)
        total += rows[0]["length"]
        for row in rows:
            words[row["term"]].append((row["term"], known.pk, row["count"], row["length"]))
    return words, total


def _vectors(connection: Connection, found: Sequence[PastMemory], embedder: Embedder) -> NDArray[np.float32]:
    standing = standing_vectors(connection, found)
    texts = [known.item.text for known in found if known.pk not in standing]
    fresh = dict(zip(texts, embedder.vectors(texts), strict=True))
    vectors = [standing[known.pk] if known.pk in standing else fresh[known.item.text] for known in found]
    return np.stack(vectors) if vectors else np.zeros((0, embedder.dimensions or 1), np.float32)
