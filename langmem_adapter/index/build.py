"""Indexes by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.index.exact import ExactIndex

if TYPE_CHECKING:
    from langmem_adapter.index.base import VectorIndex

__all__ = ["open_index"]


def open_index(kind: Literal["faiss", "exact"], dimensions: int) -> VectorIndex:
    """An empty index.

    Args:
        kind: `"faiss"`, or `"exact"` for plain numpy.
        dimensions: Length of its vectors.

    Raises:
        InvalidInputError: There is no such index.

    Example:
        >>> open_index("exact", 3).dimensions
        3
    """
    if kind == "exact":
        return ExactIndex(dimensions)
    if kind == "faiss":
        from langmem_adapter.index.faiss import FaissIndex  # noqa: PLC0415 - loading FAISS takes longer than a whole start

        return FaissIndex(dimensions)
    raise InvalidInputError(f"there is no index {kind!r}; choose 'faiss' or 'exact'")
