"""`Memory`: the engine that users hold."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakSet

from langmem_adapter.embedding.embedder import Embedder
from langmem_adapter.embedding.resolve import fingerprint, resolve_embeddings
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.index.build import Kind, open_feed
from langmem_adapter.index.snapshot import erase
from langmem_adapter.pipeline.background import BackgroundWriter
from langmem_adapter.pipeline.build import Parts, build_pipeline
from langmem_adapter.pipeline.parse import parse_time
from langmem_adapter.pipeline.replay import said_again, would_be
from langmem_adapter.pipeline.run import Run, grouped, run_of
from langmem_adapter.reasoning.models import resolve_model
from langmem_adapter.records import AddResult, Change, Decision, Page, Scope, check_metadata, check_text
from langmem_adapter.search.searcher import Query, Searcher
from langmem_adapter.settings import Settings, default_database
from langmem_adapter.storage import erasure, memories, meta, traces
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.erasure import Sweeper
from langmem_adapter.storage.ledger import Ledger, Write
from langmem_adapter.storage.scopes import counts
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig
    from langchain_core.vectorstores import VectorStore
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Checkpointer
    from sqlalchemy import URL, Engine

    from langmem_adapter.index.base import Verification
    from langmem_adapter.pipeline.background import FailedWrite
    from langmem_adapter.reasoning.base import Describer
    from langmem_adapter.records import Hit, MemoryItem, Revision
    from langmem_adapter.storage.erasure import Erasure
    from langmem_adapter.storage.meta import Stats
    from langmem_adapter.storage.scopes import ScopeCount
    from langmem_adapter.storage.traces import Trace

__all__ = ["Memory"]

_MOST_HITS: Final = 10_000


class Memory:
    """Long-term memory: conversations go in, short facts come out, kept up to date, searchable, with their history.

    Every memory belongs to a scope: a user, an agent, a run, or any combination. A read names fields of it; the named ones
    must be equal, the unnamed ones are free. Every method has an async twin with an `a` in front of its name. One object
    may be used from many threads and tasks, and many processes may open one database.

    Args:
        database: A path (SQLite), `":memory:"`, an SQLAlchemy URL or a Postgres `Engine`; `None` takes the setting, and
            failing that a file in the user's data directory.
        model: A LangChain chat model, a name for `init_chat_model` like `"openai:gpt-5-mini"`, or `"offline"` (rules in
            place of a model, English and Chinese); `None` takes the setting.
        embeddings: LangChain `Embeddings`, a name for `init_embeddings`, or `"hash:512"` (offline); `None`: the setting.
        index: `"faiss"` (in this process), `"exact"` (the same in plain numpy), `"pgvector"` (inside Postgres), or any
            LangChain `VectorStore`, which is fed from the database; `None` takes the setting.
        fact_extraction_prompt: Replaces our instructions for finding facts.
        update_memory_prompt: Replaces our instructions for comparing facts with what is known.
        vision: Let the chat model describe images in messages, one call each; otherwise the result's notes name them.
        settings: Everything else; `None` reads environment and configuration files.

    Raises:
        InvalidInputError: A name or setting is not understood.
        EmbeddingMismatchError: The vectors kept in the database come from another embedding model.
        MissingDependencyError: A driver or provider package is not installed.
        StorageError: The database cannot be opened.

    Example:
        >>> memory = Memory(":memory:")
        >>> memory.add("I am vegetarian and I live in Lyon.", user_id="alice").results[0].event
        'ADD'
        >>> memory.search("Where does she live?", user_id="alice")[0].text
        'Lives in Lyon'
        >>> memory.close()
    """

    def __init__(
        self,
        database: str | Path | URL | Engine | None = None,
        *,
        model: str | BaseChatModel | None = None,
        embeddings: str | Embeddings | None = None,
        index: Kind | VectorStore | None = None,
        fact_extraction_prompt: str | None = None,
        update_memory_prompt: str | None = None,
        vision: bool = False,
        settings: Settings | None = None,
    ) -> None:
        self._settings = settings or Settings()
        self._writers: WeakSet[BackgroundWriter] = WeakSet()
        self._reasoner = resolve_model(
            model or self._settings.model,
            self._settings,
            fact_extraction_prompt=fact_extraction_prompt,
            update_memory_prompt=update_memory_prompt,
        )
        self._describer = _describer(self._reasoner) if vision else None
        vectors = resolve_embeddings(embeddings or self._settings.embeddings, self._settings)
        self._database = Database(
            database or self._settings.database or default_database(), busy_timeout=self._settings.busy_timeout
        )
        with ExitStack() as undo:
            undo.callback(self._database.close)
            self._open(fingerprint(vectors), vectors, self._settings.index if index is None else index)
            undo.pop_all()  # it is open: from here on `close` is the caller's

    def _open(self, mark: str, vectors: Embeddings, index: Kind | VectorStore) -> None:
        meta.prepare(self._database)
        with self._database.read() as connection:
            meta.check_embeddings(connection, mark)
            dimensions = meta.dimensions(connection)
        self._embedder = Embedder(vectors, dimensions=dimensions)
        self._ledger = Ledger(self._database, fingerprint=mark)
        self._sweeper = Sweeper(self._database, self._ledger, minutes=self._settings.sweep_minutes)
        self._sweeper.sweep_if_due()
        self._indexer = open_feed(
            self._database,
            index,
            fingerprint=mark,
            dimensions=dimensions,
            snapshot_every=self._settings.snapshot_every,
        )
        weights = {"word_weight": self._settings.word_weight, "near": self._settings.near}
        self._searcher = Searcher(self._database, self._indexer, self._embedder, **weights)

    # ── what it is ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def mode(self) -> str:
        """Who thinks: `"offline"` (rules), or the chat model's name."""
        return self._reasoner.mode

    @property
    def location(self) -> str:
        """Where the data lies; a password in it is masked."""
        return self._database.location

    @property
    def settings(self) -> Settings:
        """The settings in use."""
        return self._settings

    @cached_property
    def pipeline(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The compiled graph that `add` runs: parse, extract, retrieve, decide, apply."""
        return self.build_pipeline(checkpointer=False)  # inside another graph it must not write into that one's thread

    def build_pipeline(
        self, *, review: bool = False, checkpointer: Checkpointer = None
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compile the pipeline anew, to stream it, to keep its state, to review it, or as a subgraph of your own graph.

        Args:
            review: Stop before apply, with the decisions as the interrupt's value, and resume with the accepted, edited or
                rejected ones (see `langmem_adapter.pipeline.review`); needs a checkpointer, here or in the parent graph.
            checkpointer: Keeps the state between the stages; `None` takes that of the parent graph.

        Returns:
            A graph from `{"messages": …, "scope": {"user_id": …}}` to turns, facts, candidates, decisions and result.

        Example:
            >>> memory = Memory(":memory:")
            >>> graph = memory.build_pipeline()
            >>> [list(step)[0] for step in graph.stream({"messages": "I like tea.", "scope": {"user_id": "a"}})]
            ['parse', 'extract', 'retrieve', 'decide', 'apply']
            >>> memory.close()
        """
        return build_pipeline(self._parts, review=review, checkpointer=checkpointer)

    @cached_property
    def _parts(self) -> Parts:
        return Parts(
            reasoner=self._reasoner,
            describer=self._describer,
            searcher=self._searcher,
            embedder=self._embedder,
            ledger=self._ledger,
            neighbours=self._settings.neighbours,
            near=self._settings.near,
            attempts=self._settings.attempts,
            trace_days=self._settings.trace_days,
        )

    @cached_property
    def _dry_pipeline(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        return build_pipeline(self._parts, dry=True, checkpointer=False)

    # ── remembering ─────────────────────────────────────────────────────────────────────────────────────────────────

    @planned
    def add(
        self,
        messages: Any,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
        expires_at: datetime | str | None = None,
        timestamp: datetime | str | float | None = None,
        idempotency_key: str | None = None,
    ) -> Plan[AddResult]:
        """Remember what a conversation says.

        Facts are extracted, compared with what is known within the fields given, and each ends as ADD, UPDATE, DELETE or
        NONE, with a reason; all of them in one transaction. Extract, compare, decide follows Mem0 (arXiv:2504.19413).

        Args:
            messages: A `str` (the user speaks), a dict with `role` and `content`, a LangChain message, or a list of these.
                A dict may carry `name` and `timestamp`.
            user_id: Whose memory it is; at least one of the three is needed.
            agent_id: The agent. Where the assistant speaks in *messages*, the facts are about the assistant.
            run_id: The run or session.
            metadata: A JSON object, kept with every memory that comes of it; merged where one is updated.
            infer: `False` stores each non-system turn verbatim, always as a new memory.
            memory_type: `"procedural_memory"` makes one step-by-step record of what the agent did; it needs *agent_id*.
            prompt: Replaces the instructions for finding facts (or for the record), this time.
            expires_at: When the memories stop being shown; datetime or ISO 8601.
            timestamp: When the conversation took place; datetime, ISO 8601 or Unix seconds; default now.
            idempotency_key: Names this add: repeated with the same key and scope, it changes nothing and gives the same
                result.

        Returns:
            One `Change` per fact, who decided, what it cost, and notes on what was not used.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            InvalidInputError: An argument or message cannot be used.
            ModelReplyError: The chat model's reply stayed unreadable; nothing was written.
            ConflictError: Others kept changing the same memories; nothing was written.
            StorageError: The database refused or failed; nothing was written.

        Example:
            >>> memory = Memory(":memory:")
            >>> [change.text for change in memory.add("My name is Desmond. I like chess.", user_id="d").results]
            ['Name is Desmond', 'Likes chess']
            >>> memory.close()
        """
        given = {"messages": messages, "metadata": metadata, "expires_at": expires_at, "timestamp": timestamp}
        how = {"infer": infer, "memory_type": memory_type, "prompt": prompt, "idempotency_key": idempotency_key}
        run = run_of({**given, **how, "user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        return Plan(partial(self._run, run), partial(self._arun, run))

    aadd = awaited(add)

    @planned
    def add_many(self, items: Sequence[Mapping[str, Any]]) -> Plan[list[AddResult | Exception]]:
        """Remember many conversations: those of one scope in one run and one transaction, different scopes side by side.

        Args:
            items: Each a mapping of `add`'s arguments.

        Returns:
            For each item, in order, its result or its error. An error in the run of a scope concerns all its items, and
            nothing of them is written; `usage` is that of the whole run.

        Example:
            >>> memory = Memory(":memory:")
            >>> bob, nobody = memory.add_many(
            ...     [{"messages": "I like tea.", "user_id": "bob"}, {"messages": "I like tea."}]
            ... )
            >>> bob.results[0].text, type(nobody).__name__
            ('Likes tea', 'ScopeError')
            >>> memory.close()
        """
        checked = [_run_or_error(item) for item in items]
        errors = {place: error for place, error in enumerate(checked) if isinstance(error, LangmemAdapterError)}
        groups = grouped((place, run) for place, run in enumerate(checked) if isinstance(run, Run))
        inputs = [run.state() for _, run in groups]
        configs = [run.config("memory.add_many", self.mode) for _, run in groups]
        collect = partial(_collect, len(checked), groups, errors)

        async def arun() -> list[AddResult | Exception]:
            return collect(await self.pipeline.abatch(inputs, configs, return_exceptions=True) if inputs else [])

        return Plan(
            lambda: collect(self.pipeline.batch(inputs, configs, return_exceptions=True) if inputs else []), arun
        )

    aadd_many = awaited(add_many)

    def background(
        self,
        *,
        after: float = 2.0,
        at_most: float | None = None,
        on_error: Callable[[FailedWrite], None] | None = None,
    ) -> BackgroundWriter:
        """A writer for chats that must not wait: it gathers the messages of a thread and adds them once it falls quiet.

        Args:
            after: Seconds of quiet.
            at_most: Seconds after which a thread that does not fall quiet is written all the same; default ten times *after*.
            on_error: Called with each write that failed; without it the writer's `close` raises them.

        Returns:
            A context manager with `add` (as here, but it gives a `Future`), `drain` and `close`. Closing this memory closes
            it, too.

        Example:
            >>> memory = Memory(":memory:")
            >>> with memory.background(after=0.01) as writer:
            ...     _ = writer.add("I have a sister.", user_id="d")
            ...     later = writer.add("Her name is Jesica.", user_id="d")
            >>> [change.text for change in later.result().by_event("ADD")]
            ['Has a sister named Jesica']
            >>> memory.close()
        """
        writer = BackgroundWriter(self.add, after=after, at_most=at_most, on_error=on_error)
        self._writers.add(writer)
        return writer

    # ── looking back ────────────────────────────────────────────────────────────────────────────────────────────────

    @planned
    def trace(
        self, trace_id: str, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> Plan[Trace]:
        """What one add saw and did: turns, facts, neighbours, decisions, prompts and raw replies, times.

        Args:
            trace_id: The `trace_id` of its result; traces are kept for `Settings.trace_days`.
            user_id: Where given, a trace outside this scope is not found.
            agent_id: The same.
            run_id: The same.

        Raises:
            MemoryNotFoundError: There is none.
        """
        scope = _scope_if_given(user_id, agent_id, run_id)
        return Plan(partial(self._reading, traces.read, _id(trace_id), scope))

    atrace = awaited(trace)

    @planned
    def replay(self, trace_id: str) -> Plan[AddResult]:
        """Think once more about the turns of an add, with today's reasoner and today's memories; nothing is written.

        Args:
            trace_id: The `trace_id` of its result.

        Returns:
            What an add of the same turns would do now.

        Raises:
            MemoryNotFoundError: There is no such trace.
            ModelReplyError: The chat model's reply stayed unreadable.
        """
        read = partial(self._reading, traces.read, _id(trace_id), None)
        config: RunnableConfig = {"run_name": "memory.replay", "tags": ["langmem_adapter"]}

        async def arun() -> AddResult:
            trace = await asyncio.to_thread(read)
            return would_be(await self._dry_pipeline.ainvoke(said_again(trace), config), self.mode)

        return Plan(lambda: would_be(self._dry_pipeline.invoke(said_again(read()), config), self.mode), arun)

    areplay = awaited(replay)

    # ── finding ─────────────────────────────────────────────────────────────────────────────────────────────────────

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
            text=_filled(query, "query"),
            scope=Scope(user_id, agent_id, run_id),
            k=_bounded(k),
            filters=check_metadata(filters or {}),
            threshold=_cosine(threshold),
            memory_type=memory_type,
            explain=explain,
        )
        return Plan(partial(self._searcher.search, wanted), partial(self._searcher.asearch, wanted))

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
        scope = _scope_if_given(user_id, agent_id, run_id)
        return Plan(partial(self._reading, memories.get, _id(memory_id), scope))

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
        how = {"filters": check_metadata(filters or {}), "k": _bounded(k), "after": after}

        def read() -> Page:
            items, following = self._reading(memories.page, scope, include_expired=include_expired, **how)
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
        scope = _scope_if_given(user_id, agent_id, run_id)
        return Plan(partial(self._reading, memories.revisions, _id(memory_id), scope))

    ahistory = awaited(history)

    # ── editing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @planned
    def update(
        self,
        memory_id: str,
        text: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | str | EllipsisType | None = ...,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> Plan[Change]:
        """Change a memory by hand.

        Args:
            memory_id: Its id.
            text: The new text; `None` keeps it.
            metadata: Keys to merge into its metadata; a value of `None` removes a key.
            expires_at: When it stops being shown; `None` means never, left out it stays as it is.
            user_id: Where given, a memory outside this scope is not found.
            agent_id: The same.
            run_id: The same.

        Raises:
            MemoryNotFoundError: There is none.
            InvalidInputError: There is nothing to change, or an argument cannot be used.
        """
        if text is None and metadata is None and isinstance(expires_at, EllipsisType):
            raise InvalidInputError("nothing to change: give a text, metadata or expires_at")
        expiry = (
            None if isinstance(expires_at, EllipsisType) or expires_at is None else parse_time(expires_at, "expires_at")
        )
        decision = Decision(
            event="UPDATE",
            memory_id=_id(memory_id),
            text=None if text is None else _filled(text, "text"),
            reason="edited by hand",
            metadata=None if metadata is None else check_metadata(metadata),
            expires_at=expiry,
            keep_expiry=isinstance(expires_at, EllipsisType),
        )
        return self._edit(decision, _scope_if_given(user_id, agent_id, run_id))

    aupdate = awaited(update)

    @planned
    def delete(
        self, memory_id: str, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> Plan[Change]:
        """Delete a memory; its history stays, and `restore` brings it back.

        Args:
            memory_id: Its id.
            user_id: Where given, a memory outside this scope is not found.
            agent_id: The same.
            run_id: The same.

        Raises:
            MemoryNotFoundError: There is none.
        """
        decision = Decision("DELETE", _id(memory_id), None, "deleted by hand")
        return self._edit(decision, _scope_if_given(user_id, agent_id, run_id))

    adelete = awaited(delete)

    @planned
    def delete_all(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> Plan[int]:
        """Delete every memory of a scope, in one transaction; their history stays.

        Args:
            user_id: Whose memories; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.

        Returns:
            How many there were.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
        """
        scope = Scope(user_id, agent_id, run_id)
        return Plan(partial(self._ledger.delete_all, scope, reason="all of its scope was deleted by hand"))

    adelete_all = awaited(delete_all)

    @planned
    def restore(
        self,
        memory_id: str,
        revision: int,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> Plan[Change]:
        """Bring a memory back to what it was, also after its deletion; that is a new revision, nothing is rewritten.

        Args:
            memory_id: Its id.
            revision: Which of its revisions, from 1.
            user_id: Where given, a memory outside this scope is not found.
            agent_id: The same.
            run_id: The same.

        Raises:
            MemoryNotFoundError: There never was such a memory.
            InvalidInputError: It has no such revision, or that revision is its deletion.
        """
        read = partial(self._past, _id(memory_id), revision, _scope_if_given(user_id, agent_id, run_id))

        async def arun() -> Change:
            write = await asyncio.to_thread(read)
            vectors = await self._embedder.avectors(_texts(write))
            return (await self._ledger.aapply(_with_vectors(write, vectors)))[0]

        def run() -> Change:
            write = read()
            return self._ledger.apply(_with_vectors(write, self._embedder.vectors(_texts(write))))[0]

        return Plan(run, arun)

    arestore = awaited(restore)

    @planned
    def purge(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> Plan[Erasure]:
        """Erase a scope: its memories, their vectors and history, what adds saw and answered, and its names.

        Nothing of it can be restored, and no file of the database holds a byte of it afterwards: the write-ahead log is
        emptied, an SQLite file is rewritten (which takes as long as copying it, and the room for a copy; writers wait
        meanwhile), snapshots of the index are replaced. What a background writer still holds, or another
        process is adding at this moment, comes after the purge and stays.

        Args:
            user_id: Whose memories; at least one of the three is needed, the others are then free.
            agent_id: The agent.
            run_id: The run or session.

        Returns:
            What was removed, and what remains because another process still reads it.

        Raises:
            ScopeError: No field of the scope is given, or one is blank.
            StorageError: The database refused or failed.

        Example:
            >>> memory = Memory(":memory:")
            >>> change = memory.add("I live in Lyon.", user_id="alice").results[0]
            >>> memory.purge(user_id="alice").revisions, memory.purge(user_id="alice").revisions
            (1, 0)
            >>> memory.close()
        """
        return Plan(partial(self._erase, Scope(user_id, agent_id, run_id)))

    apurge = awaited(purge)

    @planned
    def reset(self) -> Plan[Erasure]:
        """Erase everything of everybody, as `purge` does for one scope.

        Returns:
            What was removed.
        """
        return Plan(partial(self._erase, None))

    areset = awaited(reset)

    @planned
    def sweep(self) -> Plan[int]:
        """Delete every memory that is past its `expires_at`; their history stays.

        It happens by itself, when a memory is opened and beside its writes: see `Settings.sweep_minutes`.

        Returns:
            How many there were.
        """
        return Plan(self._sweeper.sweep)

    asweep = awaited(sweep)

    # ── looking after it ────────────────────────────────────────────────────────────────────────────────────────────

    @planned
    def scopes(self) -> Plan[list[ScopeCount]]:
        """Every scope that has memories, with how many and the time of the latest, the largest first."""
        return Plan(partial(self._reading, counts))

    ascopes = awaited(scopes)

    @planned
    def stats(self) -> Plan[Stats]:
        """How much there is: memories, scopes, revisions, changes, bytes."""
        return Plan(partial(meta.stats, self._database))

    astats = awaited(stats)

    @planned
    def verify(self) -> Plan[Verification]:
        """Compare the vector index with the database, row by row.

        Returns:
            What differs; `ok` where nothing does.
        """
        return Plan(self._verify)

    averify = awaited(verify)

    @planned
    def close(self) -> Plan[None]:
        """Write the index's snapshot and close every connection; the object is of no use afterwards."""
        return Plan(self._close)

    aclose = awaited(close)

    def __enter__(self) -> Self:
        """Use it in a `with` statement: it closes at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self._close()

    async def __aenter__(self) -> Self:
        """Use it in an `async with` statement: it closes at the end."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await asyncio.to_thread(self._close)

    def __repr__(self) -> str:
        """Where it lies and who thinks."""
        return f"Memory({self.location!r}, mode={self.mode!r})"

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, run: Run) -> AddResult:
        self._sweeper.sweep_if_due()
        if (done := self._repeated(run)) is not None:
            return done
        return run.results(self.pipeline.invoke(run.state(), run.config("memory.add", self.mode)))[0]

    async def _arun(self, run: Run) -> AddResult:
        if self._sweeper.due:
            await asyncio.to_thread(self._sweeper.sweep_if_due)
        if run.repeatable and (done := await asyncio.to_thread(self._repeated, run)) is not None:
            return done
        return run.results(await self.pipeline.ainvoke(run.state(), run.config("memory.add", self.mode)))[0]

    def _repeated(self, run: Run) -> AddResult | None:
        changes = self._ledger.finished(run.key) if run.repeatable else None
        if changes is None:
            return None
        return AddResult(changes, self.mode, notes=("this idempotency_key was used before; nothing was done again",))

    def _reading(self, read: Any, *arguments: Any, **options: Any) -> Any:
        with self._database.read() as connection:
            return read(connection, *arguments, **options)

    def _edit(self, decision: Decision, within: Scope | None) -> Plan[Change]:
        write = Write((decision,), within=within)

        async def arun() -> Change:
            vectors = await self._embedder.avectors(_texts(write))
            return (await self._ledger.aapply(_with_vectors(write, vectors)))[0]

        return Plan(lambda: self._ledger.apply(_with_vectors(write, self._embedder.vectors(_texts(write))))[0], arun)

    def _past(self, memory_id: str, revision: int, within: Scope | None) -> Write:
        with self._database.read() as connection:
            row, scope = memories.past(connection, memory_id, revision, within)
            lives = memories.sequence_numbers(connection, [memory_id])
        if row.new_memory is None:
            raise InvalidInputError(f"revision {revision} of memory {memory_id} is its deletion; use delete()")
        decision = Decision(
            event="UPDATE" if lives else "ADD",
            memory_id=memory_id,
            text=row.new_memory,
            reason=f"restored from revision {revision}",
            context=row.context,
            metadata=row.metadata,
            memory_type=row.memory_type,
            actor_id=row.actor_id,
            role=row.role,
            time=None if lives else row.created_at,
            expires_at=row.expires_at,
            keep_expiry=False,
            replace_metadata=True,
            seen=lives.get(memory_id),
        )
        return Write((decision,), scope=scope, within=within)

    def _erase(self, scope: Scope | None) -> Erasure:
        removed = erasure.remove(self._database, scope)
        self._embedder.forget()
        self._indexer.pull()
        files, unfinished = erase(self._database.path) if self._database.path else (0, 0)
        self._indexer.snapshot()
        remains = (f"{unfinished} snapshots of the vector index are being written; purge again",) * bool(unfinished)
        return erasure.clean(self._database, replace(removed, snapshots=files, remains=remains))

    def _verify(self) -> Verification:
        self._indexer.pull()
        return self._indexer.verify()

    def _close(self) -> None:
        for writer in list(self._writers):
            writer.close()
        self._indexer.close()
        self._database.close()


def _describer(reasoner: Any) -> Describer:
    if not reasoner.calls_model:
        raise InvalidInputError("vision needs a chat model to look at images; give model='openai:…' or the like")
    describer: Describer = reasoner
    return describer


def _run_or_error(item: object) -> Run | LangmemAdapterError:
    try:
        if not isinstance(item, Mapping):
            raise InvalidInputError(f"an item of add_many is a mapping of add's arguments, not a {type(item).__name__}")
        return run_of(item)
    except LangmemAdapterError as error:
        return error


def _collect(
    count: int,
    groups: Sequence[tuple[list[int], Run]],
    errors: Mapping[int, Exception],
    outputs: Sequence[Any],
) -> list[AddResult | Exception]:
    found: dict[int, AddResult | Exception] = dict(errors)
    for (places, run), output in zip(groups, outputs, strict=True):
        results = [output] * len(places) if isinstance(output, Exception) else run.results(output)
        found.update(zip(places, results, strict=True))
    return [found[place] for place in range(count)]


def _texts(write: Write) -> list[str]:
    return [decision.text for decision in write.decisions if decision.text is not None]


def _with_vectors(write: Write, vectors: Any) -> Write:
    return Write(write.decisions, write.scope, write.within, dict(zip(_texts(write), vectors, strict=True)))


def _scope_if_given(user_id: str | None, agent_id: str | None, run_id: str | None) -> Scope | None:
    given = user_id is not None or agent_id is not None or run_id is not None
    return Scope(user_id, agent_id, run_id) if given else None


def _id(memory_id: object) -> str:
    if not isinstance(memory_id, str) or not memory_id.strip():
        raise InvalidInputError(f"a memory's id is a text, not {memory_id!r}")
    return check_text(memory_id, "the id")


def _filled(text: object, name: str) -> str:
    if not check_text(text, name).strip():
        raise InvalidInputError(f"{name} is empty")
    return str(text)


def _bounded(k: object) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= _MOST_HITS:
        raise InvalidInputError(f"k must be a whole number from 1 to {_MOST_HITS:,}, not {k!r}")
    return k


def _cosine(threshold: object) -> float | None:
    if threshold is None:
        return None
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not -1 <= threshold <= 1:
        raise InvalidInputError(f"threshold is a cosine from -1 to 1, not {threshold!r}")
    return float(threshold)
