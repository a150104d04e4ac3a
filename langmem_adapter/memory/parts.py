"""The engine: every part that a memory is made of, wired once.

`Memory` is the face that users hold, adapters may reach through `Memory.engine` for the parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakSet

from langmem_adapter.arguments import Longest, flag
from langmem_adapter.embedding.embedder import Embedder
from langmem_adapter.embedding.resolve import embedding_limits, fingerprint, resolve_embeddings
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.forks import cached_property
from langmem_adapter.index.build import open_feed, open_index
from langmem_adapter.index.generations import erase
from langmem_adapter.index.indexer import Indexer
from langmem_adapter.knowledge.evidence import GraphEvidence
from langmem_adapter.knowledge.memory import GraphMemory
from langmem_adapter.memory.modes import warn_of_defaults
from langmem_adapter.pipeline.build import Dependencies, build_pipeline
from langmem_adapter.reasoning.llm import resolve_model
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.results import AddResult
from langmem_adapter.search.calibration import Calibration
from langmem_adapter.search.searcher import Searcher
from langmem_adapter.settings import Settings, chosen_database
from langmem_adapter.storage import erasure, meta
from langmem_adapter.storage.cache import Cache
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.erasure import Sweeper
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.messages import unreadable_turns
from langmem_adapter.storage.moments import unreadable
from langmem_adapter.storage.tables import metadata
from langmem_adapter.storage.writes import Write
from langmem_adapter.telemetry import Telemetry
from langmem_adapter.twins import Plan, apart, attempt, beside

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.vectorstores import VectorStore
    from langgraph.graph.state import CompiledStateGraph
    from sqlalchemy import URL, Engine

    from langmem_adapter.index.base import VectorFeed, Verification
    from langmem_adapter.index.build import Kind
    from langmem_adapter.pipeline.run import Run
    from langmem_adapter.reasoning.base import Describer
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.records.work import Change
    from langmem_adapter.storage.erasure import Erasure
    from langmem_adapter.storage.feed import Space

__all__ = ["Closing", "Parts", "Wired", "engine_of"]

_RESULT: Final = ["result"]  # the rest of the state is of no use to who calls `add`


class Closing(Protocol):
    """Something in the background that must come to an end before the database is closed."""

    def close(self) -> object:
        """End it."""


class Parts:
    """The parts of a memory, and what several of them do together.

    Attributes:
        settings: The settings in use.
        longest: How long texts and messages may be.
        uses_graph: Whether facts are to say their relations, and relations help to find memories.
        reasoner: Finds and compares facts.
        describer: Puts images into words, or `None`.
        database: The truth.
        embedder: Makes vectors.
        ledger: The one writer.
        sweeper: Deletes what has expired.
        indexer: Keeps the vector index in step with the database.
        searcher: Finds memories.
        cache: Copies of conversations in Redis, or `None`.
        writers: What works in the background and is still open.
        fingerprint: Of the embedding model.
        telemetry: What operators see of the calls.

    Args:
        database: See `Memory`.
        model: The same.
        embeddings: The same.
        index: The same.
        prompts: The caller's own `fact_extraction_prompt`, `update_memory_prompt` and `graph_prompt`.
        vision: See `Memory`.
        graph: The same.
        settings: The same.
    """

    def __init__(
        self,
        database: str | Path | URL | Engine | None,
        *,
        model: str | BaseChatModel | None,
        embeddings: str | Embeddings | None,
        index: Kind | VectorStore | None,
        prompts: dict[str, str | None],
        vision: bool,
        graph: bool | None,
        settings: Settings,
    ) -> None:
        if not isinstance(settings, Settings):
            raise InvalidInputError(f"settings must be Settings(…), not {quoted(settings)}")
        if isinstance(graph, Mapping):
            raise InvalidInputError(
                "graph must be True or False; Mem0's configurations, graph_store among them, are for "
                "langmem_adapter.adapters.mem0: Memory.from_config({…})"
            )
        self.settings = settings
        self.longest = Longest(settings.max_text, settings.max_message)
        self.uses_graph = settings.graph if graph is None else flag(graph, "graph")
        if prompts.get("graph_prompt") is not None and not self.uses_graph:
            raise InvalidInputError("graph_prompt is about the relations of a knowledge graph; also give graph=True")
        self.writers: WeakSet[Closing] = WeakSet()
        self._feeds: dict[tuple[str, str], VectorFeed] = {}
        self._opening = Lock()
        self.reasoner = resolve_model(model or settings.model, settings, **prompts)
        self.describer = _describer(self.reasoner) if flag(vision, "vision") else None
        spec = embeddings or settings.embeddings
        vectors = resolve_embeddings(spec, settings)
        self._limits = embedding_limits(spec, vectors, settings)
        self.cache = Cache(settings.redis_url) if settings.redis_url is not None else None
        self.database = Database(chosen_database(database, settings), busy_timeout=settings.busy_timeout)
        with ExitStack() as undo:
            undo.callback(self.database.close)
            self.fingerprint = fingerprint(vectors)
            self._open(self.fingerprint, vectors, settings.index if index is None else index)
            self.telemetry = Telemetry(self.database.location, scopes=settings.otel_scopes)
            undo.pop_all()  # it is open: from here on `close` is the caller's
        warn_of_defaults(model, embeddings, settings)

    def _open(self, mark: str, vectors: Embeddings, index: Kind | VectorStore) -> None:
        meta.prepare(self.database, self.settings.language)
        with self.database.read() as connection:
            dimensions = meta.dimensions(connection) if meta.get(connection, meta.EMBEDDINGS) == mark else None
        self.embedder = Embedder(vectors, dimensions=dimensions, limits=self._limits)
        self.ledger = Ledger(self.database, fingerprint=mark, longest=self.longest)
        self.sweeper = Sweeper(self.database, self.ledger, minutes=self.settings.sweep_minutes)
        self.sweeper.sweep_if_due()
        self._outside = not isinstance(index, str)
        self.indexer = open_feed(
            self.database,
            index,
            fingerprint=mark,
            dimensions=dimensions,
            merge_after=self.settings.merge_after,
            mapped=self.settings.map_index,
        )
        self.searcher = Searcher(
            self.database,
            self.indexer,
            self.embedder,
            Calibration(self.database, self.embedder, mark),
            weights=self.settings.ranking.suited(mark),
            graph=GraphEvidence() if self.uses_graph else None,
        )

    @cached_property
    def graph(self) -> GraphMemory:
        """The knowledge graph."""
        parts = self.database, self.ledger, self.searcher
        return GraphMemory(*parts, reasoner=self.reasoner, embedder=self.embedder)

    # ── the pipeline ────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def parts(self) -> Dependencies:
        """What the stages of the pipeline work with."""
        return Dependencies(
            reasoner=self.reasoner,
            describer=self.describer,
            searcher=self.searcher,
            embedder=self.embedder,
            ledger=self.ledger,
            longest=self.longest,
            candidate_tokens=self.settings.candidate_tokens,
            lease=2.5 * self.settings.model_timeout,  # decide and its repair are two calls
            attempts=self.settings.attempts,
            trace_days=self.settings.trace_days,
            graph=self.uses_graph,
            tools=self.settings.facts_from_tools,
        )

    @cached_property
    def pipeline(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The compiled graph that `add` runs; inside another graph it must not write into that one's thread."""
        return build_pipeline(self.parts, checkpointer=False)

    @cached_property
    def dry_pipeline(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The same without its end: it decides and writes nothing."""
        return build_pipeline(self.parts, dry=True, checkpointer=False)

    def add(self, run: Run) -> Plan[AddResult]:
        """One pass through the pipeline; none where the caller's key says that it has happened before."""
        config, mode = run.config("memory.add", self.reasoner.mode), self.reasoner.mode

        def sync() -> AddResult:
            self.sweeper.sweep_if_due()
            if (done := self._repeated(run, mode)) is not None:
                return done
            return run.results(self.pipeline.invoke(run.state(), config, output_keys=_RESULT))[0]

        async def arun() -> AddResult:
            if self.sweeper.due:
                await apart(self.sweeper.sweep_if_due)
            if run.repeatable and (done := await beside(self._repeated, run, mode)) is not None:
                return done
            return run.results(await self.pipeline.ainvoke(run.state(), config, output_keys=_RESULT))[0]

        return Plan(sync, arun)

    def _repeated(self, run: Run, mode: str) -> AddResult | None:
        changes = self.ledger.finished(run.scope, run.key) if run.repeatable else None
        if changes is None:
            return None
        return AddResult(changes, mode, notes=("this idempotency_key was used before; nothing was done again",))

    # ── one piece of work ───────────────────────────────────────────────────────────────────────────────────────────

    def reading(self, read: Any, *arguments: Any, **options: Any) -> Any:
        """Give a storage function a read transaction."""
        with self.database.read() as connection:
            return read(connection, *arguments, **options)

    def edit(self, prepare: Callable[[], Write]) -> Plan[Change]:
        """Carry out one decision that was not made by the pipeline.

        Args:
            prepare: Gives the write, without vectors; it may read.
        """

        def sync() -> Change:
            write = self._checked(prepare())
            return self.ledger.apply(_with_vectors(write, self.embedder.vectors(_texts(write))))[0]

        async def arun() -> Change:
            write = self._checked(await beside(prepare))
            vectors = await self.embedder.avectors(_texts(write))
            return (await self.ledger.aapply(_with_vectors(write, vectors)))[0]

        return Plan(sync, arun)

    def _checked(self, write: Write) -> Write:
        self.ledger.check(write)
        return write

    def edit_each(self, writes: Sequence[Write | LangmemAdapterError]) -> Plan[list[Change | Exception]]:
        """Carry out several such decisions, which share a commit; what was refused beforehand stays as it is.

        Args:
            writes: Each with one decision, without vectors, or why there is none.
        """
        writes = [self._or_refused(write) if isinstance(write, Write) else write for write in writes]
        wanted = [write for write in writes if isinstance(write, Write)]
        texts = [text for write in wanted for text in _texts(write)]

        def apply(vectors: Any) -> list[Change | Exception]:
            known = dict(zip(texts, vectors, strict=True))
            done = iter(self.ledger.apply_each([replace(write, vectors=known) for write in wanted]))
            ends = [next(done) if isinstance(write, Write) else write for write in writes]
            return [end if isinstance(end, LangmemAdapterError) else end[0] for end in ends]

        async def arun() -> list[Change | Exception]:
            return await apart(apply, await self.embedder.avectors(texts))

        return Plan(lambda: apply(self.embedder.vectors(texts)), arun)

    def _or_refused(self, write: Write) -> Write | LangmemAdapterError:
        try:
            return self._checked(write)
        except InvalidInputError as error:
            return error

    def erase(self, scope: Scope | None) -> Erasure:
        """Erase a scope, or everything, from the database, its files, the index and the caches."""
        removed = erasure.remove(self.database, scope)
        self.embedder.forget()
        self.searcher.forget()
        files, remains = 0, list[str]()
        if self.cache is not None:
            with erasure.noting(remains, "copies of conversations are left in Redis for half an hour; purge again"):
                self.cache.erase(scope)
        # What stands in this process and in the database is erased by then; a store elsewhere follows, or remains.
        empty = self.indexer.index is None and not self._outside
        if not empty:
            with erasure.noting(remains, "the vector index of this process was not brought up to date; purge again"):
                self.indexer.pull()
        with erasure.noting(remains, "snapshots of the vector index were not removed; purge again"):
            files, left = erase(self.database.path) if self.database.path else (0, 0)
            remains += [
                f"{left} snapshots of the vector index are being written, or cannot be removed; purge again"
            ] * (left > 0)
        if not empty:
            self.indexer.snapshot()
        return erasure.clean(self.database, replace(removed, snapshots=files, remains=tuple(remains)))

    def feed(self, space: Space, mark: str) -> VectorFeed:
        """The index of a guest's own space, in this process: opened when it is first asked for, closed with the rest.

        Args:
            space: What it is an index of.
            mark: Fingerprint of the embedding model that made the vectors.
        """
        with self._opening:
            if (space.name, mark) not in self._feeds:
                self._feeds[space.name, mark] = Indexer(
                    self.database,
                    partial(open_index, "faiss"),
                    fingerprint=mark,
                    space=space,
                    mapped=self.settings.map_index,
                    merge_after=self.settings.merge_after,
                )
            return self._feeds[space.name, mark]

    def verify(self) -> Verification:
        """Compare the index with the database, and look for what cannot be read there."""
        self.indexer.pull()
        with self.database.read() as connection:
            found = (*unreadable(connection, metadata), *unreadable_turns(connection))
        said = meta.stats(self.database)
        return replace(self.indexer.verify(), unreadable=found, turns=said.turns, notes=said.notes)

    def close(self) -> None:
        """Finish what waits, write the index's files, close every connection: all of it, whatever fails.

        In a process that was forked from the one which opened it, nothing is done: all of it belongs to the parent.

        Raises:
            ExceptionGroup: What failed.
        """
        if self.database.inherited:
            return
        errors: list[BaseException] = []
        cached = () if self.cache is None else (self.cache,)
        parts: tuple[Closing, ...] = (self.database, *cached, *self._feeds.values(), self.indexer, *self.writers)
        with ExitStack() as closing:  # from the last to the first
            for part in parts:
                closing.callback(_close, part, errors)
        if errors:
            raise BaseExceptionGroup("the memory is closed, but not all of it went well", errors)


def _close(part: Closing, errors: list[BaseException]) -> None:
    error = attempt(part.close).error
    if isinstance(error, BaseExceptionGroup):
        errors.extend(error.exceptions)
    elif error is not None:
        errors.append(error)


class Wired:
    """What holds an engine: the groups of methods of `Memory`."""

    _engine: Parts

    @property
    def engine(self) -> Parts:
        """The parts.

        Raises:
            StorageError: This process was forked from the one that opened the memory.
        """
        self._engine.database.refuse_inherited()
        return self._engine


def engine_of(memory: object, whose: str) -> Parts:
    """The parts of a memory that was given to a guest; *whose* is what the guest is called in the error."""
    if not isinstance(memory, Wired):
        raise InvalidInputError(
            f"{whose} takes a Memory as its memory, not {quoted(memory)}; write Memory('memory.db')"
        )
    return memory.engine


def _describer(reasoner: Any) -> Describer:
    if not reasoner.calls_model:
        raise InvalidInputError("vision needs a chat model to look at images; give model='openai:…' or the like")
    describer: Describer = reasoner
    return describer


def _texts(write: Write) -> list[str]:
    return [decision.text for decision in write.decisions if decision.text is not None]


def _with_vectors(write: Write, vectors: Any) -> Write:
    return replace(write, vectors=dict(zip(_texts(write), vectors, strict=True)))
