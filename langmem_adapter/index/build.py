"""Indexes by name, and what keeps them in step with the database."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from langmem_adapter.addresses import shown
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.index.exact import ExactIndex
from langmem_adapter.index.indexer import Indexer
from langmem_adapter.index.shared_index import SharedIndexer

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.vectorstores import VectorStore

    from langmem_adapter.index.base import VectorIndex
    from langmem_adapter.index.shared_index import SharedIndex
    from langmem_adapter.storage.database import Database

VectorFeed: TypeAlias = Indexer | SharedIndexer
"""Keeps one index in step with the database by pulling its change feed, and hands it to whoever searches."""
IndexKind: TypeAlias = Literal["faiss", "exact", "pgvector"]


def open_index(kind: Literal["faiss", "exact"], dimensions: int) -> VectorIndex:
    """An empty index.

    Example:
        >>> open_index("exact", 3).dimensions
        3
    """
    if kind == "exact":
        return ExactIndex(dimensions)
    from langmem_adapter.index.faiss import FaissIndex  # noqa: PLC0415 - loading FAISS takes longer than a whole start

    return FaissIndex(dimensions)


def open_feed(
    database: Database,
    index: IndexKind | VectorStore,
    *,
    fingerprint: str,
    dimensions: int | None,
    merge_after: int,
    mapped: bool = True,
) -> VectorFeed:
    """An index and what keeps it in step with the database.

    Args:
        database: The truth, its tables made.
        index: `"faiss"` or `"exact"` in this process, `"pgvector"` inside Postgres, or any LangChain vector store.
        fingerprint: Of the embedding model in use.
        dimensions: Length of the vectors; `None` takes it from the first memory.
        merge_after: Changes after which an index of this process writes its files anew.
        mapped: Whether its file is mapped; else it is read into memory.
    """
    if index in ("faiss", "exact"):
        make = partial(open_index, index)
        return Indexer(
            database, make, fingerprint=fingerprint, dimensions=dimensions, mapped=mapped, merge_after=merge_after
        )
    return SharedIndexer(database, _shared(database, index), fingerprint=fingerprint, dimensions=dimensions)


def _shared(database: Database, index: str | VectorStore) -> Callable[[int], SharedIndex]:
    # What cannot work is refused here: the index itself is opened when there is a first memory.
    if index == "pgvector":
        from langmem_adapter.index.pgvector import PgVectorIndex, require  # noqa: PLC0415 - only for who has Postgres

        require(database)
        return partial(PgVectorIndex, database)
    if isinstance(index, str):
        raise InvalidInputError(
            f"there is no index {shown(index)!r}; choose 'faiss', 'exact', 'pgvector' or a VectorStore"
        )
    from langmem_adapter.index.stores import opened  # noqa: PLC0415 - LangChain's stores take a while to import
    from langmem_adapter.index.vectorstore import VectorStoreIndex  # noqa: PLC0415 - the same

    return partial(VectorStoreIndex, opened(index), database)
