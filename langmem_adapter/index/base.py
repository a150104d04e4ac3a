"""What every vector index can do.

An index is a derived view: it holds unit vectors by memory `pk` and scope id, is fed by the indexer from the change feed,
and may be thrown away at any time. It never decides who may see what: it is told which scopes, or which rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Batch", "Found", "Pks", "Scores", "VectorIndex", "Vectors"]

Pks: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.float32]
Vectors: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Net changes to bring an index up to date: each pk stands once, in `pks` or in `gone`.

    Attributes:
        pks: Memories to insert or overwrite, shape (n,).
        scopes: The scope id of each, shape (n,), int64.
        vectors: Their unit vectors, shape (n, dimensions), float32, C-contiguous.
        gone: Memories to forget, shape (m,); unknown ones are ignored.
    """

    pks: Pks
    scopes: Pks
    vectors: Vectors
    gone: Pks


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Result of a search, best first; ties by lower pk, so that every index gives the same order.

    Attributes:
        pks: Shape (n,), n at most k.
        scores: Cosines, shape (n,), float32, descending.
    """

    pks: Pks
    scores: Scores


@runtime_checkable
class VectorIndex(Protocol):
    """An index of unit vectors by memory pk, searchable exactly within scopes. Safe to use from many threads."""

    @property
    def dimensions(self) -> int:
        """Length of its vectors."""

    def __len__(self) -> int:
        """How many vectors it holds."""

    def update(self, batch: Batch) -> None:
        """Apply net changes; a search running meanwhile sees all of them or none."""

    def search(self, query: Vectors, k: int, *, scopes: Collection[int], pks: Pks | None = None) -> Found:
        """The *k* nearest memories.

        Args:
            query: One unit vector, shape (dimensions,).
            k: At least 1.
            scopes: Ids of the scopes to search; complete and exact within them, however small.
            pks: Search only these rows of those scopes (a filter's outcome); `None` means all.
        """

    def scores(self, query: Vectors, pks: Pks) -> Scores:
        """Cosines of the query with the given memories, in their order; NaN where the index has none."""

    def vectors(self, pks: Pks) -> Vectors:
        """The stored vectors of the given memories, in their order; rows of NaN where the index has none."""

    def pks(self) -> Pks:
        """Every pk it holds, ascending."""

    def scopes_of(self, pks: Pks) -> Pks:
        """The scope id of each of the given memories, in their order; -1 where the index has none."""

    def clear(self) -> None:
        """Forget everything."""
