"""Searching and reading memories: `search`, `get`, `get_all`, `history`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from langmem_adapter.arguments import bounded, filled, flag, memory_id_of, optional_scope, relevance, tokens
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.filters import parse_filter
from langmem_adapter.memory.parts import MemoryMixin
from langmem_adapter.records.checks import parse_timezone
from langmem_adapter.records.results import History, Page, Threshold
from langmem_adapter.records.scope import Scope
from langmem_adapter.search.query import Bounds, Query, check_rerank, parse_reference_date
from langmem_adapter.storage import memories
from langmem_adapter.storage.memories import page_as_of, parse_as_of
from langmem_adapter.tracing import SEARCHED, Operation, describe_hits, run_config, traced
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from langmem_adapter.records.results import MemoryItem, SearchResults
    from langmem_adapter.records.scope import ScopeArguments
    from langmem_adapter.search.query import Rerank


class SearchMethods(MemoryMixin):
    """The methods of `Memory` that search and read."""

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
        """Search by meaning, words, speaker and time, in everything that was committed before the call.

        Args:
            query: A question or statement; there is no query syntax. The first 10,000 letters are used.
            k: Most hits, 1 to 10,000.
            filters: Conditions on metadata and fields: see `langmem_adapter.filters`.
            threshold: Least relevance of a hit, 0 to 1; `None` returns all *k*. `"auto"` is for prompts. It returns what
                lies in the time of a query for a time alone ("what did we talk about last week?"); all memories of a
                *user_id*, oldest first and whatever *k* is, if they fit a quarter of *max_tokens*; and otherwise hits from
                0.25.
            memory_type: Only memories of this type.
            as_of: Search what was true at that time; datetime or ISO 8601.
            known_at: Search what was recorded by that time; with *as_of*, what was then recorded as true. Both read the
                history.
            after: Only memories created at that time or later; datetime, date or ISO 8601. A date is a day of the speaker.
            before: Only memories created before that time. A time in the query itself ("last week", "in May 2023", 上周) raises
                what was said then or speaks of it, and excludes nothing.
            reference_date: The date that "last week" is relative to; default now, or the time of *as_of*.
            timezone: IANA name of the zone of "today" and of times without an offset, as `"Asia/Shanghai"`; default: the
                setting `timezone`, then the system's.
            max_tokens: About how many tokens all hits may have, best first. A long hit is cut to the passage that answers
                (`Hit.passage`, `Hit.cut`).
            rerank: A LangChain `BaseDocumentCompressor` that reorders the best hits, or `"mmr"` for diverse hits.
            explain: Return the parts of each score.
            include_expired: Include expired memories until they are swept; not with *as_of* or *known_at*.

        Returns:
            The hits, best first, and in `abstained` the reason if there are none. `score` orders the hits of one query;
            `relevance` compares between queries.

        Raises:
            FilterError: *filters* cannot be understood.
        """
        expired = flag(include_expired, "include_expired")
        if expired and not as_of is known_at is None:
            raise InvalidInputError("include_expired searches the present: leave out as_of and known_at")
        zone = parse_timezone(timezone, self.parts.settings.timezone)
        reference = parse_reference_date(reference_date, zone)
        wanted = Query(
            text=filled(query, "query"),
            scope=Scope(**fields),
            k=bounded(k),
            filters=parse_filter(filters),
            threshold=relevance(threshold),
            memory_type=memory_type,
            expired=expired,
            past=parse_as_of(as_of, known_at, zone),
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
        """A memory by its id, also an expired one."""
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
            as_of: What was true at that time; datetime or ISO 8601.
            known_at: What was recorded by that time; with *as_of*, what was then recorded as true.
            include_expired: Include expired memories.

        Returns:
            A sequence of memories, with `next` where there are more.

        Raises:
            FilterError: *filters* cannot be understood.

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
        when = parse_as_of(as_of, known_at, parse_timezone(None, self.parts.settings.timezone))
        read = partial(memories.page, **how) if when is None else partial(page_as_of, when=when, **how)
        return Plan(partial(self.parts.reading, read, scope)).then(lambda page: Page(tuple(page[0]), page[1]))

    aget_all = awaited(get_all)

    @planned
    def history(self, memory_id: str, **fields: Unpack[ScopeArguments]) -> Plan[History]:
        """All revisions of a memory, in the order of writing, also of a deleted one."""
        scope = optional_scope(fields)
        return Plan(partial(self.parts.reading, memories.revisions, memory_id_of(memory_id), scope)).then(History)

    ahistory = awaited(history)
