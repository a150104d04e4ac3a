"""What every index refuses, before it changes anything."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from langmem_adapter.errors import EmbeddingMismatchError, InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langmem_adapter.index.base import Batch, Vectors

__all__ = ["check_batch", "check_dimensions", "check_k", "check_query"]

_CHUNK = 8192  # rows looked at in one go: no second copy of a large batch


def check_dimensions(dimensions: object) -> int:
    """Return *dimensions* if vectors can have that length.

    Raises:
        InvalidInputError: It is no positive `int`.
    """
    if isinstance(dimensions, bool) or not isinstance(dimensions, int) or dimensions < 1:
        raise InvalidInputError(f"an index needs the length of its vectors, at least 1, not {dimensions!r}")
    return dimensions


def check_k(k: object) -> int:
    """Return *k* if so many results can be asked for.

    Raises:
        InvalidInputError: It is no positive `int`.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InvalidInputError(f"k must be an int of at least 1, not {k!r}")
    return int(k)


def check_query(query: Vectors, dimensions: int) -> Vectors:
    """Return *query*, contiguous, if an index of *dimensions* can be searched with it.

    Raises:
        EmbeddingMismatchError: It has another length.
        InvalidInputError: It is no float32 array of one dimension, or holds NaN or infinity.
    """
    _check_array("the query", query, np.float32, 1)
    if len(query) != dimensions:
        raise EmbeddingMismatchError(_mismatch("the query", len(query), dimensions))
    if not math.isfinite(np.vdot(query, query)) and not np.isfinite(query).all():
        raise InvalidInputError("the query vector holds NaN or infinity; the embedding model failed, embed it again")
    return np.ascontiguousarray(query)


def check_batch(batch: Batch, dimensions: int) -> None:
    """Refuse a batch that an index of *dimensions* cannot take.

    Raises:
        EmbeddingMismatchError: Its vectors have another length.
        InvalidInputError: A shape or dtype is not that of `Batch`, a number is negative, a pk stands twice, or a vector
            holds NaN or infinity.
    """
    for name, rank in (("pks", 1), ("scopes", 1), ("gone", 1)):
        _check_array(f"Batch.{name}", getattr(batch, name), np.int64, rank)
    _check_array("Batch.vectors", batch.vectors, np.float32, 2)
    if not len(batch.pks) == len(batch.scopes) == len(batch.vectors):
        raise InvalidInputError(
            f"Batch has {len(batch.pks)} pks, {len(batch.scopes)} scopes and {len(batch.vectors)} vectors; "
            "give one of each per memory"
        )
    if len(batch.vectors) and batch.vectors.shape[1] != dimensions:
        raise EmbeddingMismatchError(_mismatch("a new vector", batch.vectors.shape[1], dimensions))
    _check_numbers(batch)
    _check_finite(batch)


def _check_array(name: str, array: NDArray[Any], dtype: type[np.generic], rank: int) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != rank:
        got = f"{array.dtype} of {array.ndim}" if isinstance(array, np.ndarray) else type(array).__name__
        raise InvalidInputError(f"{name} must be an array of {dtype.__name__} with {rank} dimension(s), not {got}")


def _check_numbers(batch: Batch) -> None:
    named = np.concatenate([batch.pks, batch.gone])
    if len(np.unique(named)) != len(named):
        raise InvalidInputError("a pk stands twice in one Batch; give net changes")
    if min(batch.pks.min(initial=0), batch.scopes.min(initial=0)) < 0:
        raise InvalidInputError("pks and scopes of a Batch must not be negative")


def _check_finite(batch: Batch) -> None:
    for start in range(0, len(batch.vectors), _CHUNK):
        rows = batch.vectors[start : start + _CHUNK]
        if math.isfinite(np.vdot(rows, rows)):  # four times as fast as each number; unit vectors never overflow
            continue
        fine = np.isfinite(rows).all(axis=1)
        if not fine.all():
            pk = batch.pks[start + int(np.argmin(fine))]
            raise InvalidInputError(f"the vector of memory row {pk} holds NaN or infinity; embed its text again")


def _mismatch(what: str, length: int, dimensions: int) -> str:
    return (
        f"{what} has {length} dimensions, this index holds vectors of {dimensions}; open the database with the embedding "
        "model that it was filled with, or re-embed it with: langmem-adapter reindex"
    )
