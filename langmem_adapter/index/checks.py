"""What every index refuses, before it changes anything."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError

if TYPE_CHECKING:
    from langmem_adapter.index.base import Batch, Vectors

__all__ = ["check_batch", "check_length", "check_query"]

_CHUNK: Final = 8192  # rows looked at in one go: no second copy of a large batch


def check_query(query: Vectors, dimensions: int) -> Vectors:
    """Return *query*, contiguous, if an index of *dimensions* can be searched with it."""
    check_length("the query", len(query), dimensions)
    if not math.isfinite(np.vdot(query, query)) and not np.isfinite(query).all():
        raise InvalidInputError("the query vector holds NaN or infinity; the embedding model failed, embed it again")
    return np.ascontiguousarray(query, np.float32)


def check_batch(batch: Batch, dimensions: int) -> None:
    """Refuse a batch that an index of *dimensions* cannot take: the rows of a database may be damaged."""
    if (named := len(batch.pks) + len(batch.gone)) > 1 and len(np.unique(np.append(batch.pks, batch.gone))) < named:
        raise InvalidInputError("a memory stands twice in one Batch; give net changes")
    if len(batch.vectors):
        check_length("a new vector", batch.vectors.shape[1], dimensions)
    for start in range(0, len(batch.vectors), _CHUNK):
        rows = batch.vectors[start : start + _CHUNK]
        if math.isfinite(np.vdot(rows, rows)):  # four times as fast as each number; unit vectors never overflow
            continue
        fine = np.isfinite(rows).all(axis=1)
        if not fine.all():
            pk = batch.pks[start + int(np.argmin(fine))]
            raise InvalidInputError(f"the vector of memory row {pk} holds NaN or infinity; embed its text again")


def check_length(what: str, length: float, dimensions: int) -> None:
    """Refuse a vector that an index of *dimensions* cannot hold or be asked with."""
    if length != dimensions:
        raise EmbeddingMismatchError(
            f"{what} has {length:g} dimensions, this index holds vectors of {dimensions}; open the database with the "
            "embedding model that it was filled with, or re-embed it with: langmem-adapter reindex"
        )
