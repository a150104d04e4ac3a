"""What every vector index can do.

It holds unit vectors by memory `pk` and scope id. It never decides who may see what: it is told which scopes, or which rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Collection

    from langmem_adapter.storage.moments import Unreadable

__all__ = ["Batch", "Found", "Pks", "Scores", "VectorIndex", "VectorView", "Vectors", "Verification"]

Pks: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.float32]
Vectors: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Net changes to bring an index up to date: each pk occurs once, in `pks` or in `gone`."""

    pks: Pks  # memories to insert or overwrite, shape (n,)
    scopes: Pks  # the scope id of each, shape (n,), int64
    vectors: Vectors  # their unit vectors, shape (n, dimensions), float32, C-contiguous
    gone: Pks  # memories to forget, shape (m,); unknown ones are ignored

    @classmethod
    def empty(cls, dimensions: int) -> Batch:
        """One without memories."""
        none = np.empty(0, np.int64)
        return cls(none, none, np.empty((0, dimensions), np.float32), none)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Pks and cosines, best first where that was asked for; ties by lower pk, so that every index gives the same order.

    *strategy* says how it was searched, for whoever asks for an explanation.
    """

    pks: Pks
    scores: Scores
    strategy: str = "exact"


@dataclass(frozen=True, slots=True)
class Verification:
    """How an index compares with its database.

    Attributes:
        checked: How many memories the database has.
        only_in_index: Rows that the database does not have.
        only_in_database: Rows that the index does not have.
        differing: Rows with another vector or another scope here than there.
        unchecked: What could not be compared, in words; empty for every index of our own.
        unreadable: What stands in the database and cannot be read: dates that Python cannot hold, whose rows are read with a
            stand-in (to update the memory makes that its date), and messages of conversations that are none.
        turns: How many messages of conversations were read.
        notes: How many summaries and titles there are.
    """

    checked: int
    only_in_index: tuple[int, ...]
    only_in_database: tuple[int, ...]
    differing: tuple[int, ...]
    unchecked: tuple[str, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    turns: int = 0
    notes: int = 0

    @property
    def ok(self) -> bool:
        """Whether they agree in everything that could be compared, and all of it can be read."""
        return not (self.only_in_index or self.only_in_database or self.differing or self.unreadable)


@runtime_checkable
class VectorView(Protocol):
    """Unit vectors by memory pk, searchable within scopes: all that a search needs. Safe to use from many threads."""

    @property
    def dimensions(self) -> int:
        """Length of its vectors."""

    def __len__(self) -> int:
        """How many vectors it holds."""

    def search(
        self, query: Vectors, k: int, *, scopes: Collection[int], pks: Pks | None = None, ordered: bool = True
    ) -> Found:
        """The *k* nearest memories.

        Args:
            query: One unit vector, shape (dimensions,).
            k: At least 1.
            scopes: Ids of the scopes to search; complete within them, however small.
            pks: Search only these rows of those scopes (a filter's outcome); `None` means all.
            ordered: Whether they have to come best first; sorting takes longer than comparing, and who ranks by more than
                meaning sorts again.

        Raises:
            EmbeddingMismatchError: The query has another length.
            InvalidInputError: The query holds NaN or infinity.
            StorageError: A database or a store was asked, and failed.
        """

    def scores(self, query: Vectors, pks: Pks) -> Scores:
        """Cosines of the query with the given memories, in their order; NaN where the index has none."""

    def vectors(self, pks: Pks) -> Vectors:
        """The stored vectors of the given memories, in their order; rows of NaN where the index has none."""

    def pks(self) -> Pks:
        """Every pk it holds, ascending."""

    def scopes_of(self, pks: Pks) -> Pks:
        """The scope id of each of the given memories, in their order; -1 where the index has none."""


@runtime_checkable
class VectorIndex(VectorView, Protocol):
    """An index of this process, fed with batches by one thread at a time. It searches exactly, whatever the scope."""

    def update(self, batch: Batch) -> None:
        """Apply net changes; a search running meanwhile sees all of them or none.

        Raises:
            EmbeddingMismatchError: The vectors have another length.
            InvalidInputError: A vector holds NaN or infinity, or a memory stands twice; nothing was changed.
        """

    def adopt(self, batch: Batch) -> None:
        """Hold what *batch* holds and nothing else, its rows as they lie there; nobody may write to its arrays from then on."""
