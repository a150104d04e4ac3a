"""The names of Mem0's exceptions, for `except` clauses: each is the error of this package that is raised in its place."""

from langmem_adapter import errors
from langmem_adapter.errors import MemoryNotFoundError

__all__ = [
    "DatabaseError",
    "EmbeddingError",
    "LLMError",
    "MemoryError",
    "MemoryNotFoundError",
    "ValidationError",
    "VectorStoreError",
]

MemoryError = errors.LangmemAdapterError  # noqa: A001 - Mem0's name
ValidationError = errors.InvalidInputError
LLMError = EmbeddingError = errors.ModelError
DatabaseError = VectorStoreError = errors.StorageError
