"""Finding: how memories are looked up, and how they came to be."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from langmem_adapter.engine.arguments import bounded, cosine, filled, memory_id_of, scope_if_given
from langmem_adapter.records import Page, Scope, check_metadata
from langmem_adapter.search.searcher import Query
from langmem_adapter.storage import memories
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langmem_adapter.engine.wiring import Engine
    from langmem_adapter.records import Hit, MemoryItem, Revision

__all__ = ["Finding"]


class Finding:
    """The part of `Memory` that looks up."""

    engine: Engine

    @planned
    def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        k: int = 10,
        filters: Mapping[str, Any] | None = None,
        threshold: float | None = None,
        memory_type: str | None = None,
        explain: bool = False,
    ) -> Plan[list[Hit]]:
        """Find memories by meaning and words; everything that anybody committed before the call is searched.

        Args:
            query: A question or statement; quotes and operators are just text.
            user_id: Whose memories; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.
            k: At most so many hits, 1 to 10,000.
            filters: Metadata values that must be equal; a memory without the key does not match.
            threshold: Least cosine of query and memory, -1 to 1.
            memory_type: Only memories of this type.
            explain: Give each hit the parts of its score.

        Returns:
            The hits, best first. `score` orders the hits of this query and compares with no other query's.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument cannot be used.
            StorageError: The database failed.
        """
        wanted = Query(
            text=filled(query, "query"),
            scope=Scope(user_id, agent_id, run_id),
            k=bounded(k),
            filters=check_metadata(filters or {}),
            threshold=cosine(threshold),
            memory_type=memory_type,
            explain=explain,
        )
        return Plan(partial(self.engine.searcher.search, wanted), partial(self.engine.searcher.asearch, wanted))

    asearch = awaited(search)

    @planned
    def get(
        self, memory_id: str, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> Plan[MemoryItem]:
        """One memory by its id, an expired one too.

        Args:
            memory_id: Its id.
            user_id: Where given, a memory outside this scope is not found.
            agent_id: The same.
            run_id: The same.

        Raises:
            MemoryNotFoundError: There is none.
        """
        scope = scope_if_given(user_id, agent_id, run_id)
        return Plan(partial(self.engine.reading, memories.get, memory_id_of(memory_id), scope))

    aget = awaited(get)

    @planned
    def get_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        k: int = 100,
        after: str | None = None,
        include_expired: bool = False,
    ) -> Plan[Page]:
        """All memories of a scope, the newest statement first, page by page.

        Args:
            user_id: Whose memories; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.
            filters: Metadata values that must be equal.
            k: Memories of a page, 1 to 10,000.
            after: The `next` of the page before.
            include_expired: Show expired ones as well.

        Returns:
            A sequence of memories, with `next` where there are more.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument cannot be used.
        """
        scope = Scope(user_id, agent_id, run_id)
        how = {"filters": check_metadata(filters or {}), "k": bounded(k), "after": after}

        def read() -> Page:
            items, following = self.engine.reading(memories.page, scope, include_expired=include_expired, **how)
            return Page(tuple(items), following)

        return Plan(read)

    aget_all = awaited(get_all)

    @planned
    def history(
        self, memory_id: str, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> Plan[list[Revision]]:
        """Every change of a memory, oldest first; a deleted memory's too.

        Args:
            memory_id: Its id.
            user_id: Where given, a memory outside this scope is not found.
            agent_id: The same.
            run_id: The same.

        Raises:
            MemoryNotFoundError: There never was such a memory.
        """
        scope = scope_if_given(user_id, agent_id, run_id)
        return Plan(partial(self.engine.reading, memories.revisions, memory_id_of(memory_id), scope))

    ahistory = awaited(history)
