"""Searching and reading memories: `search`, `get`, `get_all`, `history`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from langmem_adapter.arguments import bounded, filled, flag, memory_id_of, optional_scope, relevance, tokens
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.filters import parse_filter
from langmem_adapter.memory.parts import MemoryMixin
from langmem_adapter.records.checks import zone_of
from langmem_adapter.records.results import Page, Threshold
from langmem_adapter.records.scope import Scope
from langmem_adapter.search.query import Bounds, Query, check_rerank, reference_of
from langmem_adapter.storage import memories
from langmem_adapter.storage.memories import page_as_of, parse_as_of
from langmem_adapter.tracing import SEARCHED, Operation, describe_hits, run_config, traced
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from langmem_adapter.records.results import MemoryItem, Revision, SearchResults
    from langmem_adapter.records.scope import ScopeArguments
    from langmem_adapter.search.query import Rerank


class SearchMethods(MemoryMixin):
    """The part of `Memory` that looks up."""

    @planned
    def search(
        self,
        query: str,
        *,
        k: int = 10,
        filters: Mapping[str, Any] | None = None,
        threshold: Threshold = None,
        memory_type: str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        after: date | str | None = None,
        before: date | str | None = None,
        reference_date: date | str | None = None,
        timezone: str | None = None,
        max_tokens: int | None = None,
        rerank: Rerank | None = None,
        explain: bool = False,
        include_expired: bool = False,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[SearchResults]:
        """Find memories by meaning, words, speakers and time; all that anybody committed before the call is searched.

        Args:
            query: A question or statement; quotes and operators are just text. Its first 10,000 letters are searched for.
            k: At most so many hits, 1 to 10,000.
            filters: Conditions on metadata and on fields of the memory: see `langmem_adapter.filters`.
            threshold: Least relevance of a hit, 0 to 1: of the *k* best, those that reach it are given, and of these what fits
                into *max_tokens*. `None` keeps them all. `"auto"` is for prompts: a query for a time alone ("what did we talk
                about last week?") gets what lies in it; where all memories of a *user_id* fit a quarter of *max_tokens*, all
                are given, oldest first, whatever *k* is; otherwise it is .25.
            memory_type: Only memories of this type.
            as_of: Search what was true at that moment, by the dates of what was said; datetime or ISO 8601.
            known_at: Search what was known at that moment; with *as_of*, what was then known to have been true. Both read the
                history, and nobody's edits change what it says of the past.
            after: Only what was first said (`created_at`) at that moment or later; datetime, date or ISO 8601. A date
                is a day of who said it.
            before: Only what was first said before that moment. A time that the query itself names ("last week", "in May 2023",
                上周) cuts nothing off: it lifts what was said then, or tells of it.
            reference_date: When it is asked, which "last week" is counted from: by default now, or the moment of the past.
            timezone: IANA name of the zone of "today" and of times without an offset, as `"Asia/Shanghai"`; by
                default the setting `timezone`, then the system's.
            max_tokens: About how many tokens the hits may have together, the best first. A long one is cut to the passage that
                answers (`Hit.passage`; `Hit.cut` tells whether), so that it leaves room for others.
            rerank: A LangChain `BaseDocumentCompressor` that orders the best hits once more, or `"mmr"` for hits that are
                unlike each other.
            explain: Give each hit the parts of its score.
            include_expired: Find expired memories as well, until they are swept; not with *as_of* or *known_at*.
            **fields: `user_id`, `agent_id`, `run_id`: at least one. Those that are set must be equal, the others are free.

        Returns:
            The hits, best first: a list that also says, in `abstained`, why it is empty. `score` orders the hits of this query
            and compares with no other query's; `relevance` compares.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            FilterError: *filters* cannot be understood.
            InvalidInputError: An argument cannot be used.
            StorageError: The database failed.
        """
        expired = flag(include_expired, "include_expired")
        if expired and not as_of is known_at is None:
            raise InvalidInputError("include_expired searches the present: leave out as_of and known_at")
        zone = zone_of(timezone, self.parts.settings.timezone)
        reference = reference_of(reference_date, zone)
        wanted = Query(
            text=filled(query, "query"),
            scope=Scope(**fields),
            k=bounded(k),
            filters=parse_filter(filters),
            threshold=relevance(threshold),
            memory_type=memory_type,
            expired=expired,
            then=parse_as_of(as_of, known_at, zone),
            rerank=check_rerank(rerank),
            explain=flag(explain, "explain"),
            max_tokens=tokens(max_tokens),
            bounds=Bounds.of(after, before, zone if reference is None else reference.tzinfo),
            reference=reference,
            zone=zone,
        )
        plan = Plan.calling(self.parts.searcher.search, self.parts.searcher.asearch, wanted)
        config = run_config("memory.search", wanted.scope, self.parts.reasoner.mode)
        run = traced(plan, config, inputs={"query": wanted.text, "k": wanted.k}, summarize=describe_hits)
        operation = Operation("search_memory", wanted.scope, query=wanted.text)
        return self.parts.telemetry.observed(run, operation, SEARCHED)

    asearch = awaited(search)

    @planned
    def get(self, memory_id: str, **fields: Unpack[ScopeArguments]) -> Plan[MemoryItem]:
        """One memory by its id, an expired one too.

        Args:
            memory_id: Its id.
            **fields: `user_id`, `agent_id`, `run_id`: where set, what lies outside this scope is not found.

        Raises:
            MemoryNotFoundError: There is none.
        """
        scope = optional_scope(fields)
        return Plan(partial(self.parts.reading, memories.get, memory_id_of(memory_id), scope))

    aget = awaited(get)

    @planned
    def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        k: int = 100,
        after: str | None = None,
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        include_expired: bool = False,
        **fields: Unpack[ScopeArguments],
    ) -> Plan[Page]:
        """All memories of a scope, the newest statement first, page by page.

        Args:
            filters: Conditions on metadata and on fields of the memory: see `langmem_adapter.filters`.
            k: Memories of a page, 1 to 10,000.
            after: The `next` of the page before.
            as_of: Show what was true at that moment, by the dates of what was said; datetime or ISO 8601.
            known_at: Show what was known at that moment; with *as_of*, what was then known to have been true.
            include_expired: Show expired ones as well.
            **fields: `user_id`, `agent_id`, `run_id`: at least one. Those that are set must be equal, the others are free.

        Returns:
            A sequence of memories, with `next` where there are more.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            FilterError: *filters* cannot be understood.
            InvalidInputError: An argument cannot be used.

        Example:
            >>> from langmem_adapter import Memory
            >>> memory = Memory(":memory:")
            >>> for year, home in (("2024", "Lyon"), ("2026", "Oslo")):
            ...     added = memory.add(f"I live in {home}.", user_id="ann", timestamp=f"{year}-05-01")
            >>> [item.text for item in memory.get_all(user_id="ann", as_of="2025-01-01")]
            ['Lives in Lyon']
            >>> memory.get_all(user_id="ann", known_at="2025-01-01").items
            ()
            >>> memory.close()
        """
        scope = Scope(**fields)
        expired = flag(include_expired, "include_expired")
        how: dict[str, Any] = {
            "filters": parse_filter(filters),
            "k": bounded(k),
            "after": after,
            "include_expired": expired,
        }
        when = parse_as_of(as_of, known_at, zone_of(None, self.parts.settings.timezone))
        read = partial(memories.page, **how) if when is None else partial(page_as_of, when=when, **how)
        return Plan(partial(self.parts.reading, read, scope)).then(lambda page: Page(tuple(page[0]), page[1]))

    aget_all = awaited(get_all)

    @planned
    def history(self, memory_id: str, **fields: Unpack[ScopeArguments]) -> Plan[list[Revision]]:
        """Every change of a memory, in the order in which it was written; a deleted memory's too.

        Args:
            memory_id: Its id.
            **fields: `user_id`, `agent_id`, `run_id`: where set, what lies outside this scope is not found.

        Raises:
            MemoryNotFoundError: There never was such a memory.
        """
        scope = optional_scope(fields)
        return Plan(partial(self.parts.reading, memories.revisions, memory_id_of(memory_id), scope))

    ahistory = awaited(history)
