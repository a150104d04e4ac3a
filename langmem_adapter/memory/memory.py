"""`Memory`: the memory that users hold."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

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
from langmem_adapter.storage import meta
from langmem_adapter.storage.backup import backup
from langmem_adapter.storage.scopes import counts
from langmem_adapter.twins import Plan, awaited, planned, run_in_executor

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
    from langmem_adapter.records.results import Threshold
    from langmem_adapter.settings import BadReply, ModelProfile, Settings
    from langmem_adapter.storage.backup import CopyReport
    from langmem_adapter.storage.meta import Stats
    from langmem_adapter.storage.scopes import ScopeCount

__all__ = ["Memory"]


class Memory(AddMethods, SearchMethods, EditMethods, ExchangeMethods):
    """Long-term memory: conversations go in, short facts come out, kept up to date, searchable, with their history.

    Every memory belongs to a scope: a user, an agent, a run, or any combination. A read names fields of it; the named ones
    must be equal, the unnamed ones are free. Every method has an async twin with an `a` in front of its name. One object
    may be used from many threads and tasks, and many processes may open one database.

    Args:
        database: A path (SQLite), `":memory:"`, an SQLAlchemy URL or a Postgres `Engine`; `None` takes the setting, and
            failing that a file in the user's data directory.
        model: A LangChain chat model, a name for `init_chat_model` like `"openai:gpt-5-mini"`, or `"offline"` (rules in
            place of a model, English and Chinese); `None` takes the setting.
        embeddings: LangChain `Embeddings`, a name for `init_embeddings`, or, offline, `"static"` (extra `static`) or
            `"hash:512"`; `None`: the setting.
        index: `"faiss"` (in this process), `"exact"` (the same in plain numpy), `"pgvector"` (inside Postgres), or any
            LangChain `VectorStore`, which is fed from the database; `None` takes the setting.
        graph: Keep a knowledge graph as well: entities and relations, found in the same call as the facts (see `Memory.graph`);
            `None` takes the setting.
        fact_extraction_prompt: Replaces our instructions for finding facts, which `langmem-adapter prompts` shows. The
            data, and the form of the reply, follow in a message of their own.
        update_memory_prompt: Replaces our instructions for comparing facts with what is known, which
            `langmem-adapter prompts decide` shows.
        graph_prompt: Stands beside our instructions for the relations of the graph (`langmem-adapter prompts graph`), to say
            which of them matter, or how they are called; needs a chat model and *graph*.
        model_profile: `"full"`, `"small"` (short instructions, one call an add, rules decide) or `"auto"`: full, and small
            once 3 of the model's last 10 replies could not be used; `None` takes the setting.
        model_max_tokens: Tokens that a reply may have, of a model that is made from a name; `None` takes the setting.
        on_bad_reply: Where a reply of the chat model stays unusable, `"keep"` keeps what was said, with a note; `"raise"` is a
            `ModelReplyError`, and nothing is written; `None` takes the setting.
        vision: Let the chat model describe images in messages, one call each; otherwise the result's notes name them.
        settings: Everything else; `None` reads environment and configuration files.

    Where the vectors kept in the database come from another embedding model, whatever needs no vectors works all the same
    (lists, histories, deletions, purges); searches and new texts raise `EmbeddingMismatchError`, which names both models.

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
        prompts = {
            "fact_extraction_prompt": fact_extraction_prompt,
            "update_memory_prompt": update_memory_prompt,
            "graph_prompt": graph_prompt,
        }
        self._parts = Parts(
            database,
            model=model,
            embeddings=embeddings,
            index=index,
            prompts=prompts,
            vision=vision,
            graph=graph,
            settings=chosen_settings(
                settings, model_profile=model_profile, model_max_tokens=model_max_tokens, on_bad_reply=on_bad_reply
            ),
        )

    # ── what it is ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def mode(self) -> str:
        """Who thinks: `"offline"` (rules), or the chat model's name."""
        return self._parts.reasoner.mode

    @property
    def location(self) -> str:
        """Where the data lies; a password in it is masked."""
        return self._parts.database.location

    @property
    def settings(self) -> Settings:
        """The settings in use."""
        return self._parts.settings

    @property
    def graph(self) -> GraphMemory:
        """The knowledge graph: entities and relations, as of any moment; searched, walked, drawn, and edited by hand.

        It can always be read and edited. `Memory(graph=True)` fills it from conversations, and lets it lead searches to
        memories that are related to what the question names.

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
        """The compiled graph that `add` runs: parse, extract, retrieve, decide, apply; see `build_pipeline`."""
        return build_pipeline(self.parts, served=True, checkpointer=False)

    def build_pipeline(
        self, *, review: bool = False, checkpointer: Checkpointer = None
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Compile the pipeline anew, to stream it, to keep its state, to review it, or as a subgraph of your own graph.

        Args:
            review: Stop before apply, with the decisions as the interrupt's value, and resume with the accepted, edited or
                rejected ones (see `langmem_adapter.pipeline.run`); needs a checkpointer, here or in the parent graph.
            checkpointer: Keeps the state between the stages; `None` takes that of the parent graph.

        Returns:
            A graph from `{"messages": …, "scope": {"user_id": …}}` to turns, facts, candidates, decisions and result. Without
            `scope` in the input, the run's context or configuration says whose memory it is. Nobody can name another user
            than the one who is signed in, nor go on with a run of another scope than the call names: each stage asks again,
            whatever the state says. A call that names nobody goes on with any; who may write to whose thread is for the
            server to say (LangGraph's `@auth.on.threads`).

        Raises:
            InvalidInputError: *checkpointer* is none of LangGraph's.

        Example:
            >>> memory = Memory(":memory:")
            >>> graph = memory.build_pipeline()
            >>> [list(step)[0] for step in graph.stream({"messages": "I like tea.", "scope": {"user_id": "a"}})]
            ['parse', 'extract', 'retrieve', 'decide', 'apply']
            >>> memory.close()
        """
        if not isinstance(checkpointer, BaseCheckpointSaver | bool | None):
            raise InvalidInputError(
                f"checkpointer must be one of LangGraph's, like SQLAlchemySaver, not {quoted(checkpointer)}"
            )
        return build_pipeline(self.parts, review=flag(review, "review"), served=True, checkpointer=checkpointer)

    # ── in the hands of others ──────────────────────────────────────────────────────────────────────────────────────

    def recall(
        self,
        key: str = "input",
        *,
        output_key: str = "memories",
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        k: int = 10,
        threshold: Threshold = "auto",
        max_tokens: int | None = 1_000,
        reference_date: date | str | None = None,
        timezone: str | None = None,
    ) -> Runnable[Any, dict[str, Any]]:
        """The first step of a chain: its input, and beside it the memories that bear on it, as text for a prompt.

        Args:
            key: Where a dict has the question: a text, or messages, of which the latest turn counts. Other input is put there.
            output_key: Where to put the memories: a line `- …` for each below the line that they are data; empty without any.
            user_id: The user where the call names none; see `resolve_scope`.
            agent_id: The agent, in the same way.
            run_id: The run or session, in the same way.
            k: At most so many memories.
            threshold: Least relevance of a memory; see `Memory.search`.
            max_tokens: At most so many tokens of them, that line included; `None` for any number.
            reference_date: When it is asked, which "last week" is counted from; by default now.
            timezone: IANA name of the zone of "today", where the call does not say; see `search`.
        """
        from langmem_adapter.adapters.retriever import recall  # noqa: PLC0415 - a guest, above this floor

        return recall(
            self,
            key=key,
            output_key=output_key,
            user_id=user_id,
            agent_id=agent_id,
            run_id=run_id,
            k=k,
            threshold=threshold,
            max_tokens=max_tokens,
            reference_date=reference_date,
            timezone=timezone,
        )

    def as_retriever(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        k: int = 10,
        filters: Mapping[str, Any] | None = None,
        threshold: Threshold = None,
        memory_type: str | None = None,
        after: date | str | None = None,
        before: date | str | None = None,
        reference_date: date | str | None = None,
        timezone: str | None = None,
        max_tokens: int | None = None,
    ) -> MemoryRetriever:
        """These memories as a LangChain retriever.

        Args:
            user_id: Whose memories, where the call does not say; so the next two. See `adapters.retriever.MemoryRetriever`.
            agent_id: The agent.
            run_id: The run or session.
            k: At most so many.
            filters: Conditions on metadata and on fields of the memory; see `search`.
            threshold: Least relevance of a memory, 0 to 1; `None` keeps the *k* best whatever they are.
            memory_type: Only memories of this type.
            after: Only what was first said at that moment or later; see `search`.
            before: Only what was first said before that moment.
            reference_date: When it is asked, which "last week" is counted from; by default now.
            timezone: IANA name of the zone of "today"; see `search`.
            max_tokens: About how many tokens all texts may have together; see `search`.

        Example:
            >>> memory = Memory(":memory:")
            >>> added = memory.add("I am vegetarian.", user_id="alice")
            >>> [found.page_content for found in memory.as_retriever(user_id="alice").invoke("What shall I cook?")]
            ['Is vegetarian']
            >>> memory.close()
        """
        from langmem_adapter.adapters.retriever import MemoryRetriever  # noqa: PLC0415 - a guest, above this floor

        return MemoryRetriever(
            memory=self,
            user_id=user_id,
            agent_id=agent_id,
            run_id=run_id,
            k=k,
            filters=filters,
            threshold=threshold,
            memory_type=memory_type,
            after=after,
            before=before,
            reference_date=reference_date,
            timezone=timezone,
            max_tokens=max_tokens,
        )

    def tools(
        self,
        *,
        tools: Sequence[MemoryTool] | None = None,
        names: Mapping[MemoryTool, str] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        timezone: str | None = None,
        k: int = 5,
        threshold: Threshold = "auto",
        max_tokens: int | None = 1_000,
        infer: bool = False,
    ) -> list[BaseTool]:
        """Tools with which a model searches, saves, updates and forgets memories by itself.

        Args:
            tools: Which of `"search"`, `"save"`, `"update"`, `"forget"`, `"relations"`; `None` for all that make sense.
            names: Other names for them, as `{"search": "look_up"}`.
            user_id: Whose memory, where the call does not say; so the next two. See `adapters.tools.create_memory_tools`.
            agent_id: The agent.
            run_id: The run or session.
            timezone: IANA name of the user's time zone, in the same way.
            k: At most so many memories a search.
            threshold: Least relevance of a memory; see `Memory.search`.
            max_tokens: About how many tokens they may have together.
            infer: `False` saves the model's statement as it stands, once; `True` sends it through the pipeline.

        Raises:
            InvalidInputError: There is no tool of such a name, or *k* is not from 1 to 10,000.

        Example:
            >>> memory = Memory(":memory:")
            >>> [tool.name for tool in memory.tools(tools=["search", "save"], names={"search": "look_up"})]
            ['look_up', 'save_memory']
            >>> memory.close()
        """
        from langmem_adapter.adapters.tools import create_memory_tools  # noqa: PLC0415 - a guest, above this floor

        whose: dict[str, Any] = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "timezone": timezone}
        return create_memory_tools(
            self, tools=tools, names=names, **whose, k=k, threshold=threshold, max_tokens=max_tokens, infer=infer
        )

    # ── looking after it ────────────────────────────────────────────────────────────────────────────────────────────

    @planned
    def scopes(self) -> Plan[list[ScopeCount]]:
        """Every scope that has memories, with how many and the time of the latest, the largest first."""
        return Plan(partial(self.parts.reading, counts))

    ascopes = awaited(scopes)

    @planned
    def stats(self) -> Plan[Stats]:
        """How much there is: memories, scopes, revisions, changes, bytes."""
        return Plan(partial(meta.stats, self.parts.database))

    astats = awaited(stats)

    @planned
    def backup(
        self, path: str | Path, *, force: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> Plan[CopyReport]:
        """Write a backup into an SQLite file, which is a database like any other: `Memory(path)` opens it.

        Others read and write meanwhile. The backup holds everything that was acknowledged before the call, API keys among
        it, but no sessions, running jobs and cursors. `storage.backup.copy` restores it into a database in use.

        Args:
            path: Of the file, which is readable for its owner alone.
            force: Replace a file that exists.
            progress: Called with the percentage that is done, and 100.

        Raises:
            InvalidInputError: The file exists, or *path* names a server.
            StorageError: The database failed, or the file cannot be written or is in use.
        """
        force = flag(force, "force")
        return Plan.in_new_thread(partial(backup, self.parts.database, path, force=force, progress=progress))

    abackup = awaited(backup)

    @planned
    def verify(self) -> Plan[Verification]:
        """Compare the vector index with the database, row by row, and look for dates and messages there that cannot be read.

        Returns:
            What differs; `ok` where nothing does.
        """
        return Plan.in_new_thread(self.parts.verify)

    averify = awaited(verify)

    @planned
    def close(self) -> Plan[None]:
        """Write what waits and the index's files, and close every connection; the object is of no use afterwards.

        In a process that was forked from the one which opened it, nothing is done: all of it belongs to the parent.

        Raises:
            ExceptionGroup: What failed, background writes above all; everything is closed all the same.
        """
        return Plan(self._parts.close)

    aclose = awaited(close)

    def __enter__(self) -> Self:
        """Use it in a `with` statement: it closes at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; an error of the `with` statement goes on, with a note of what closing met."""
        with noted_on(error):
            self._parts.close()

    async def __aenter__(self) -> Self:
        """Use it in an `async with` statement: it closes at the end."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; an error of the `with` statement goes on, with a note of what closing met."""
        with noted_on(error):
            await run_in_executor(self._parts.close)

    def __repr__(self) -> str:
        """Where it lies and who thinks."""
        return f"Memory({self.location!r}, mode={self.mode!r})"
