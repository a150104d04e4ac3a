"""`Memory`: long-term memory for LangChain and LangGraph."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from langgraph.checkpoint.base import BaseCheckpointSaver

from langmem_adapter.arguments import flag
from langmem_adapter.errors import InvalidInputError, noted_on
from langmem_adapter.forks import cached_property
from langmem_adapter.memory.add import AddMethods
from langmem_adapter.memory.edit import EditMethods
from langmem_adapter.memory.exchange import ExchangeMethods
from langmem_adapter.memory.find import SearchMethods
from langmem_adapter.memory.parts import Parts, chosen_settings
from langmem_adapter.pipeline.run import build_pipeline
from langmem_adapter.records.checks import quoted
from langmem_adapter.scoping import SearchOptions
from langmem_adapter.storage import meta
from langmem_adapter.storage.backup import backup
from langmem_adapter.storage.scopes import counts
from langmem_adapter.twins import Plan, awaited, declare_options, planned, run_in_executor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date
    from pathlib import Path
    from types import TracebackType

    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool
    from langchain_core.vectorstores import VectorStore
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Checkpointer
    from sqlalchemy import URL, Engine

    from langmem_adapter.adapters.retriever import MemoryRetriever
    from langmem_adapter.adapters.tools import MemoryTool
    from langmem_adapter.index.base import Verification
    from langmem_adapter.index.indexer import IndexKind
    from langmem_adapter.knowledge.memory import GraphMemory
    from langmem_adapter.settings import BadReply, ModelProfile, Settings
    from langmem_adapter.storage.backup import CopyReport
    from langmem_adapter.storage.meta import Stats
    from langmem_adapter.storage.scopes import ScopeCount

__all__ = ["Memory"]


class Memory(AddMethods, SearchMethods, EditMethods, ExchangeMethods):
    """Long-term memory: conversations go in, short facts come out, kept up to date, searchable, with their history.

    Every memory has a scope: a user, an agent, a run, or a combination. An add names the exact scope. A read, and what changes
    a whole scope, names fields of it: those that are set must be equal, the others are free; without any it is a `ScopeError`.
    Where an id is given the fields are optional, and what lies outside of them is not found: a `MemoryNotFoundError`. Every
    method raises `InvalidInputError` for an argument that cannot be used and `StorageError` where the database fails, and has
    an async twin with the prefix `a`. Many threads and tasks may share one object, and many processes one database.

    Args:
        database: A path (SQLite), `":memory:"`, an SQLAlchemy URL or a Postgres `Engine`; `None`: the setting, then a
            file in the user's data directory.
        model: A LangChain chat model, a name for `init_chat_model` like `"openai:gpt-5-mini"`, or `"offline"` (rules,
            English and Chinese); `None`: the setting.
        embeddings: LangChain `Embeddings`, a name for `init_embeddings`, or, offline, `"static"` (extra `static`) or
            `"hash:512"`; `None`: the setting.
        index: `"faiss"` (in this process), `"exact"` (the same in plain numpy), `"pgvector"` (inside Postgres), or any
            LangChain `VectorStore`, fed from the database; `None`: the setting.
        graph: Whether to keep a knowledge graph: entities and relations, extracted in the same call as the facts (see
            `Memory.graph`); `None`: the setting.
        fact_extraction_prompt: Replaces the instructions for extraction (`langmem-adapter prompts` prints them). The data and
            the form of the reply follow in a separate message.
        update_memory_prompt: Replaces the instructions for decisions (`langmem-adapter prompts decide` prints them).
        graph_prompt: Added to the instructions for relations (`langmem-adapter prompts graph`), to say which relations matter
            and their names; needs a chat model and *graph*.
        model_profile: `"full"`, `"small"` (short instructions, one call an add, rules decide) or `"auto"`: full, and small
            once 3 of the model's last 10 replies were unusable; `None`: the setting.
        model_max_tokens: Most tokens of a reply, for a model made from a name; `None`: the setting.
        on_bad_reply: If a reply of the chat model stays unusable, `"keep"` stores the user's words with a note;
            `"raise"` raises `ModelReplyError`, and nothing is written; `None`: the setting.
        vision: Whether the chat model describes images in messages, one call each; otherwise a note of the result names them.
        settings: Everything else; `None` reads environment and configuration files.

    If the database has vectors of another embedding model, everything without vectors works (lists, histories, deletions,
    purges); searches and new texts raise `EmbeddingMismatchError`, which names both models.

    Raises:
        InvalidInputError: A name or setting is not understood.
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

    @declare_options()
    def __init__(
        self,
        database: str | Path | URL | Engine | None = None,
        *,
        model: str | BaseChatModel | None = None,
        embeddings: str | Embeddings | None = None,
        index: IndexKind | VectorStore | None = None,
        graph: bool | None = None,
        fact_extraction_prompt: str | None = None,
        update_memory_prompt: str | None = None,
        graph_prompt: str | None = None,
        vision: bool = False,
        model_profile: ModelProfile | None = None,
        model_max_tokens: int | None = None,
        on_bad_reply: BadReply | None = None,
        settings: Settings | None = None,
    ) -> None:
        prompts = {"fact_extraction_prompt": fact_extraction_prompt, "update_memory_prompt": update_memory_prompt}
        options = {"model_profile": model_profile, "model_max_tokens": model_max_tokens, "on_bad_reply": on_bad_reply}
        self._parts = Parts(
            database,
            model=model,
            embeddings=embeddings,
            index=index,
            prompts={**prompts, "graph_prompt": graph_prompt},
            vision=vision,
            graph=graph,
            settings=chosen_settings(settings, **options),
        )

    # ── properties ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def mode(self) -> str:
        """`"offline"` (rules), or the chat model's name."""
        return self._parts.reasoner.mode

    @property
    def location(self) -> str:
        """The database, with passwords redacted."""
        return self._parts.database.location

    @property
    def settings(self) -> Settings:
        """The settings in use."""
        return self._parts.settings

    @property
    def graph(self) -> GraphMemory:
        """The knowledge graph: entities and relations at any time; search, walk, draw and edit it.

        It can always be read and edited. `Memory(graph=True)` fills it from conversations and uses it as evidence in
        searches.

        Example:
            >>> memory = Memory(":memory:", graph=True)
            >>> added = memory.add("I live in Lyon. I have a sister named Jesica.", user_id="alice")
            >>> [relation.text for relation in memory.graph.relations(user_id="alice")]
            ['alice has sister Jesica', 'alice lives in Lyon']
            >>> memory.close()
        """
        return self.parts.graph

    @cached_property
    def pipeline(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The graph of `add` for your own calls, compiled: each stage checks the scope of the caller; see `build_pipeline`."""
        return build_pipeline(self.parts, served=True, checkpointer=False)

    def build_pipeline(
        self, *, review: bool = False, checkpointer: Checkpointer = None
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compile the pipeline: to stream it, to keep its state, to review decisions, or as a subgraph of your graph.

        Args:
            review: Stop before apply, with the decisions as the interrupt's value, and resume with the accepted, edited or
                rejected ones (see `langmem_adapter.pipeline.run`); needs a checkpointer, here or in the parent graph.
            checkpointer: Keeps the state between the stages; `None` takes that of the parent graph.

        Returns:
            A graph from `{"messages": …, "scope": {"user_id": …}}` to turns, facts, candidates, decisions and result. Without
            `scope` in the input, the scope comes from the run's context or configuration. A call cannot name another user
            than the authenticated one, nor resume a run of another scope than it names: each stage checks again. A call
            without a scope resumes any run; the server decides who may write to a thread (LangGraph's `@auth.on.threads`).

        Raises:
            InvalidInputError: *checkpointer* is not a LangGraph checkpointer.

        Example:
            >>> memory = Memory(":memory:")
            >>> graph = memory.build_pipeline()
            >>> [list(step)[0] for step in graph.stream({"messages": "I like tea.", "scope": {"user_id": "a"}})]
            ['parse', 'extract', 'retrieve', 'decide', 'apply']
            >>> memory.close()
        """
        if not isinstance(checkpointer, BaseCheckpointSaver | bool | None):
            raise InvalidInputError(
                f"checkpointer must be a LangGraph checkpointer, like SQLAlchemySaver, not {quoted(checkpointer)}"
            )
        return build_pipeline(self.parts, review=flag(review, "review"), served=True, checkpointer=checkpointer)

    # ── integrations ──────────────────────────────────────────────────────────────────────────────────────

    @declare_options(SearchOptions, k=10, threshold="auto", max_tokens=1_000)
    def recall(
        self,
        key: str = "input",
        *,
        output_key: str = "memories",
        reference_date: date | str | None = None,
        **options: Unpack[SearchOptions],
    ) -> Runnable[Any, dict[str, Any]]:
        """The first step of a chain: adds relevant memories to its input, as text for a prompt.

        Args:
            key: Where a dict has the question: a text, or messages, of which the latest turn counts. Other input is put
                there.
            output_key: Where to put the memories: a line `- …` for each below the line that they are data; empty without any.
            reference_date: When it is asked, which "last week" is counted from; by default now.
            **options: The scope where the call names none (`resolve_scope`), *timezone*, and how to search: *k*, *threshold*
                and *max_tokens*, which includes that line.
        """
        from langmem_adapter.adapters.retriever import recall  # noqa: PLC0415 - integrations are in a higher layer

        return recall(self, key=key, output_key=output_key, reference_date=reference_date, **options)

    @declare_options(SearchOptions, k=10)
    def as_retriever(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        memory_type: str | None = None,
        after: date | str | None = None,
        before: date | str | None = None,
        reference_date: date | str | None = None,
        **options: Unpack[SearchOptions],
    ) -> MemoryRetriever:
        """These memories as a LangChain retriever; `search` explains the arguments, `MemoryRetriever` the default scope.

        Example:
            >>> memory = Memory(":memory:")
            >>> added = memory.add("I am vegetarian.", user_id="alice")
            >>> [found.page_content for found in memory.as_retriever(user_id="alice").invoke("What shall I cook?")]
            ['Is vegetarian']
            >>> memory.close()
        """
        from langmem_adapter.adapters.retriever import MemoryRetriever  # noqa: PLC0415 - integrations are in a higher layer

        bounds: dict[str, Any] = {"after": after, "before": before, "reference_date": reference_date}
        return MemoryRetriever(memory=self, filters=filters, memory_type=memory_type, **bounds, **options)

    @declare_options(SearchOptions, k=5, threshold="auto", max_tokens=1_000)
    def tools(
        self,
        *,
        tools: Sequence[MemoryTool] | None = None,
        names: Mapping[MemoryTool, str] | None = None,
        infer: bool = False,
        **options: Unpack[SearchOptions],
    ) -> list[BaseTool]:
        """Tools for a model to search, save, update and forget memories; see `adapters.tools.create_memory_tools`.

        Args:
            tools: Which of `"search"`, `"save"`, `"update"`, `"forget"`, `"relations"`; `None` for all that make sense.
            names: Other names for them, as `{"search": "look_up"}`.
            infer: `False` saves the model's statement unchanged, once; `True` sends it through the pipeline.
            **options: The scope and *timezone* where the call names none, and *k*, *threshold* and *max_tokens* of a search.

        Raises:
            InvalidInputError: There is no tool of such a name, or *k* is not from 1 to 10,000.

        Example:
            >>> memory = Memory(":memory:")
            >>> [tool.name for tool in memory.tools(tools=["search", "save"], names={"search": "look_up"})]
            ['look_up', 'save_memory']
            >>> memory.close()
        """
        from langmem_adapter.adapters.tools import create_memory_tools  # noqa: PLC0415 - integrations are in a higher layer

        return create_memory_tools(self, tools=tools, names=names, infer=infer, **options)

    # ── maintenance ────────────────────────────────────────────────────────────────────────────────────────────

    @planned
    def scopes(self) -> Plan[list[ScopeCount]]:
        """Every scope with memories, their number and latest time, largest first."""
        return Plan(partial(self.parts.reading, counts))

    ascopes = awaited(scopes)

    @planned
    def stats(self) -> Plan[Stats]:
        """Numbers of memories, scopes, revisions, changes and bytes."""
        return Plan(partial(meta.stats, self.parts.database))

    astats = awaited(stats)

    @planned
    def backup(
        self, path: str | Path, *, force: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> Plan[CopyReport]:
        """Write a backup into an SQLite file, an ordinary database: `Memory(path)` opens it.

        Others may read and write meanwhile. The backup contains everything acknowledged before the call, with API keys,
        without sessions, running jobs and cursors. `storage.backup.copy` restores it into a database in use.

        Args:
            path: The file; only its owner can read it.
            force: Replace a file that exists.
            progress: Called with the percentage done, and 100.

        Raises:
            InvalidInputError: The file exists, or *path* names a server.
            StorageError: The database failed, or the file cannot be written or is in use.
        """
        force = flag(force, "force")
        return Plan.in_new_thread(partial(backup, self.parts.database, path, force=force, progress=progress))

    abackup = awaited(backup)

    @planned
    def verify(self) -> Plan[Verification]:
        """Compare the vector index with the database, row by row, and find unreadable dates and messages."""
        return Plan.in_new_thread(self.parts.verify)

    averify = awaited(verify)

    @planned
    def close(self) -> Plan[None]:
        """Finish background writes, write the index files and close every connection; in a forked child, nothing.

        Raises:
            ExceptionGroup: What failed, mostly background writes; everything is closed nevertheless.
        """
        return Plan(self._parts.close)

    aclose = awaited(close)

    def __enter__(self) -> Self:
        """Return this memory; the `with` statement closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; an error of the `with` statement is raised, with a note about errors of closing."""
        with noted_on(error):
            self._parts.close()

    async def __aenter__(self) -> Self:
        """Return this memory; the `async with` statement closes it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; an error of the `async with` statement is raised, with a note about errors of closing."""
        with noted_on(error):
            await run_in_executor(self._parts.close)

    def __repr__(self) -> str:
        """The database and the mode."""
        return f"Memory({self.location!r}, mode={self.mode!r})"
