"""`GraphMemory`: the knowledge graph as users hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langmem_adapter.knowledge.backfill import Backfilling
from langmem_adapter.knowledge.reading import Reading
from langmem_adapter.knowledge.suggesting import Suggesting
from langmem_adapter.knowledge.writing import Writing

if TYPE_CHECKING:
    from langmem_adapter.embedding.embedder import Embedder
    from langmem_adapter.reasoning.base import Reasoner
    from langmem_adapter.search.searcher import Searcher
    from langmem_adapter.storage.database import Database
    from langmem_adapter.storage.ledger import Ledger

__all__ = ["GraphMemory"]


class GraphMemory(Writing, Reading, Backfilling, Suggesting):
    """The knowledge graph beside the memories: who and what there is, and how one is related to the other, since when.

    Users get it as `Memory.graph`. With `Memory(graph=True)` every `add` writes into it what its facts say; everything can be
    written by hand as well. A relation holds from one time to another, and was believed from one time to another: `as_of`
    asks about the first, `known_at` about the second, and both mean now where nothing is said. Nothing is ever overwritten.

    Names are compared without case, width, articles and Dr. The user of a scope is somebody of his own, shown by his `user_id`:
    "I", "me", "user" and the `user_id` itself, letter by letter, mean him; any other spelling means a namesake, whom
    conversations may tell of. The same holds for the agent. A read names fields of a scope, the others are free; who has the
    same name in two scopes is one to the reader, and so is one user. Every method has an async twin with an `a` in front of
    its name.

    Args:
        database: The truth.
        ledger: Writes it.
        searcher: Finds the memories that answer a question.
        reasoner: Reads memories for relations; without one that cannot be done.
        embedder: Makes vectors of names; without one nothing is asked of meanings.

    Example:
        >>> from langmem_adapter import Memory
        >>> memory = Memory(":memory:")
        >>> lyon = memory.graph.add("Anna", "lives in", "Lyon", user_id="alice", valid_from="2019-05-01")
        >>> oslo = memory.graph.add("Anna", "lives in", "Oslo", user_id="alice", valid_from="2024-03-01")
        >>> [relation.text for relation in memory.graph.relations(user_id="alice", entity="anna")]
        ['Anna lives in Oslo']
        >>> [relation.text for relation in memory.graph.relations(user_id="alice", as_of="2020-01-01")]
        ['Anna lives in Lyon']
        >>> memory.close()
    """

    def __init__(
        self,
        database: Database,
        ledger: Ledger,
        searcher: Searcher,
        *,
        reasoner: Reasoner | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self._database = database
        self._ledger = ledger
        self._searcher = searcher
        self._reasoner = reasoner
        self._embedder = embedder
        self._mode = "offline" if reasoner is None else reasoner.mode
