"""The parts of a memory, wired once; integrations reach them through `Memory.parts`."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from langmem_adapter import forks
from langmem_adapter.arguments import Longest, flag
from langmem_adapter.embedding.embedder import Embedder
from langmem_adapter.embedding.models import embedding_limits, fingerprint, resolve_embeddings
from langmem_adapter.errors import ConflictError, InvalidInputError, LangmemAdapterError
from langmem_adapter.forks import cached_property
from langmem_adapter.index.generations import erase_index_files
from langmem_adapter.index.indexer import Indexer, open_feed, open_index
from langmem_adapter.knowledge.memory import GraphMemory
from langmem_adapter.knowledge.walk import GraphEvidence
from langmem_adapter.pipeline.run import build_pipeline, select_new
from langmem_adapter.reasoning.base import Describer
from langmem_adapter.reasoning.llm import LLMReasoner, resolve_model
from langmem_adapter.records.checks import quoted
from langmem_adapter.records.results import AddResult
from langmem_adapter.search.relevance import Calibration
from langmem_adapter.search.searcher import Searcher
from langmem_adapter.settings import Settings, chosen_database
from langmem_adapter.storage import erasure, meta, sources
from langmem_adapter.storage.conversations import Cache
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.erasure import Sweeper
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.meta import ReplyLog
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.tables import metadata
from langmem_adapter.storage.write import Write
from langmem_adapter.tracing import Telemetry, run_config
from langmem_adapter.twins import Plan, attempt, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel
    from langchain_core.vectorstores import VectorStore
    from langgraph.graph.state import CompiledStateGraph
    from numpy.typing import NDArray
    from sqlalchemy import URL, Connection, Engine

    from langmem_adapter.index.base import Verification
    from langmem_adapter.index.indexer import IndexKind, VectorFeed
    from langmem_adapter.pipeline.run import Run
    from langmem_adapter.records.results import Change
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.erasure import Erasure
    from langmem_adapter.storage.feed import Space
    from langmem_adapter.storage.sources import Edits
    from langmem_adapter.twins import PlanSteps

_log = logging.getLogger(__name__)
_KEYS: Final = {
    "OPENAI_API_KEY": "openai:gpt-5-mini",
    "ANTHROPIC_API_KEY": "anthropic:claude-haiku-4-5",
    "GOOGLE_API_KEY": "google_genai:gemini-2.5-flash",
}

_HASH_EMBEDDINGS: Final = (
    "a chat model decides, but memories are found by hash embeddings: these see common words, no meaning; choose "
    'others with Memory(embeddings="openai:text-embedding-3-small"), "static" (offline) or LANGMEM_ADAPTER_EMBEDDINGS, or '
    'say "hash:512" to keep them'
)


def left_to_defaults(
    model: str | BaseChatModel | None,
    embeddings: str | Embeddings | None,
    settings: Settings,
    *,
    choice: str = 'Memory(model="{name}")',
) -> list[str]:
    """Defaults that rarely fit the other choices, each with the line that changes it; naming the default is a choice."""
    if (model or settings.model) != "offline":
        chosen = embeddings is not None or "embeddings" in settings.model_fields_set
        return [] if chosen else [_HASH_EMBEDDINGS]
    if model is None and "model" not in settings.model_fields_set:
        for key, name in _KEYS.items():
            if os.environ.get(key):
                choice = choice.format(name=name, provider=name.partition(":")[0])
                note = f"{key} is set, but the offline rules extract facts and no model is called; choose one with {choice} or "
                return [f'{note}LANGMEM_ADAPTER_MODEL={name}, or say "offline" to keep the rules']
    return []


def warn_of_defaults(notes: Iterable[str], *, stacklevel: int) -> None:
    """Warn about each of `left_to_defaults`, in the log as well if it has a handler."""
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=stacklevel)  # where Memory is called
        if _log.hasHandlers():  # else Python prints it a second time
            _log.warning(note)


P = ParamSpec("P")
R = TypeVar("R")

_RESULT: Final = ["result"]  # the only key of the state that `add` needs


class Closeable(Protocol):
    """Something that must end before the database is closed."""

    def close(self) -> object:
        """End it."""


class Parts:
    """The parts of a memory, wired once, and what several of them do together; for the arguments see `Memory`."""

    def __init__(
        self,
        database: str | Path | URL | Engine | None,
        *,
        model: str | BaseChatModel | None,
        embeddings: str | Embeddings | None,
        index: IndexKind | VectorStore | None,
        prompts: dict[str, str | None],
        vision: bool,
        graph: bool | None,
        settings: Settings,
    ) -> None:
        if isinstance(graph, Mapping):
            raise InvalidInputError(
                "graph must be True or False; Mem0's configurations, graph_store among them, are for "
                "langmem_adapter.adapters.mem0: Memory.from_config({…})"
            )
        self.settings = settings
        self.longest = Longest(settings.max_text, settings.max_message, settings.timezone)
        self.uses_graph = settings.graph if graph is None else flag(graph, "graph")
        if prompts.get("graph_prompt") is not None and not self.uses_graph:
            raise InvalidInputError("graph_prompt is about the relations of a knowledge graph; also give graph=True")
        self.writers: WeakSet[Closeable] = WeakSet()  # what works in the background and is still open
        self._feeds: dict[tuple[str, str], VectorFeed] = {}
        self._opening = Lock()
        self.reasoner = resolve_model(model or settings.model, settings, **prompts)
        self.describer: Describer | None = (
            self.reasoner if flag(vision, "vision") and isinstance(self.reasoner, Describer) else None
        )
        if vision and self.describer is None:
            raise InvalidInputError("vision needs a chat model to look at images; give model='openai:…' or the like")
        spec = embeddings or settings.embeddings
        vectors = resolve_embeddings(spec, settings)
        self._limits = embedding_limits(spec, vectors, settings)
        self.cache = Cache(settings.redis_url) if settings.redis_url is not None else None
        self.database = Database(chosen_database(database, settings), **settings.database_options)
        with ExitStack() as undo:
            undo.callback(self.database.close)
            self.reading = self.database.fetch
            self.fingerprint = fingerprint(vectors)
            self._open(self.fingerprint, vectors, settings.index if index is None else index)
            self.telemetry = Telemetry(self.database.location, scopes=settings.otel_scopes)
            undo.pop_all()  # it is open: from here on `close` is the caller's
        warn_of_defaults(left_to_defaults(model, embeddings, settings), stacklevel=5)

    def _open(self, mark: str, vectors: Embeddings, index: IndexKind | VectorStore) -> None:
        prepare(self.database, self.settings.language)
        if isinstance(self.reasoner, LLMReasoner) and self.settings.model_profile == "auto":
            self.reasoner.keep_history(ReplyLog(self.database, self.reasoner.mode))
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
    def pipeline(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The compiled graph that `add` runs; inside another graph it must not write into that one's thread."""
        return build_pipeline(self, checkpointer=False)

    @cached_property
    def dry_pipeline(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The same without its end: it decides and writes nothing."""
        return build_pipeline(self, dry=True, checkpointer=False)

    @steps
    def add(self, run: Run) -> PlanSteps[AddResult]:
        """One pass through the pipeline; none where the caller's key says that it has happened before."""
        if self.sweeper.due:
            yield from Plan.in_new_thread(self.sweeper.sweep_if_due)
        if run.repeatable:
            changes = yield from Plan(partial(self.ledger.finished, run.scope, run.key))
            if changes is not None:
                note = "this idempotency_key was used before; nothing was done again"
                return AddResult(changes, self.reasoner.mode, notes=(note,))
        attempts = 0 if run.thread is None else self.settings.attempts
        for _ in range(1, attempts):
            with suppress(ConflictError):
                return (yield from self._add_new(run))
        return (yield from self._add_new(run))

    @steps
    def _add_new(self, run: Run) -> PlanSteps[AddResult]:
        """Add the messages of a thread that are new, and take back what came of the older text of edited ones."""
        changes: tuple[Change, ...] = ()
        if run.thread is not None:
            edits = yield from Plan(partial(self.reading, sources.edits, run.thread, run.digests))
            new = select_new(run, self.longest, edits.remembered_ids)
            if new is None:
                note = "the messages of this thread were remembered before; nothing was done again"
                return AddResult((), self.reasoner.mode, notes=(note,))
            run = new
            if edits.ids:
                changes = yield from self._retract(edits)
        config = run_config("memory.add", run.scope, self.reasoner.mode)
        graph = self.pipeline
        output = yield from Plan.calling(graph.invoke, graph.ainvoke, run.state(), config, output_keys=_RESULT)
        result = run.results(output)[0]
        return replace(result, results=(*changes, *result.results))

    @steps
    def _retract(self, edits: Edits) -> PlanSteps[tuple[Change, ...]]:
        texts = [text for write in edits.writes for text in _texts(write)]
        vectors = yield from self._vectors(texts)
        carry_out = self.ledger.within(texts)

        def work(connection: Connection) -> tuple[Change, ...]:
            done = [carry_out(connection, replace(write, vectors=vectors)) for write in edits.writes]
            sources.reopen(connection, edits)
            return tuple(change for changes in done for change in changes)

        return (yield from self.ledger.writing(work))

    # ── one piece of work ───────────────────────────────────────────────────────────────────────────────────────────

    @steps
    def edit(self, prepare: Callable[[], Write]) -> PlanSteps[Change]:
        """Apply one decision from outside the pipeline; *prepare* returns it without vectors and may read."""
        write = self._checked((yield from Plan(prepare)))
        vectors = yield from self._vectors(_texts(write))
        write = replace(write, vectors=vectors)
        changes = yield from Plan.calling(self.ledger.apply, self.ledger.aapply, write)
        return changes[0]

    def _checked(self, write: Write) -> Write:
        self.ledger.check(write)
        return write

    @steps
    def _vectors(self, texts: Sequence[str]) -> PlanSteps[dict[str, NDArray[Any]]]:
        vectors = yield from Plan.calling(self.embedder.vectors, self.embedder.avectors, texts)
        return dict(zip(texts, vectors, strict=True))

    @steps
    def edit_each(self, writes: Sequence[Write | LangmemAdapterError]) -> PlanSteps[list[Change | Exception]]:
        """Apply several such decisions in one commit; errors in *writes* stay in their places."""
        writes = [or_refused(self._checked, write) if isinstance(write, Write) else write for write in writes]
        wanted = [write for write in writes if isinstance(write, Write)]
        vectors = yield from self._vectors([text for write in wanted for text in _texts(write)])
        ready = [replace(write, vectors=vectors) for write in wanted]
        done = iter((yield from Plan.in_new_thread(partial(self.ledger.apply_each, ready))))
        ends = [next(done) if isinstance(write, Write) else write for write in writes]
        return [end if isinstance(end, LangmemAdapterError) else end[0] for end in ends]

    def erase(self, scope: Scope | None) -> Erasure:
        """Erase a scope, or everything, from the database, its files, the index and the caches."""
        removed = erasure.remove(self.database, scope)
        self.embedder.forget()
        self.searcher.forget()
        forks.clear_caches()
        files, remains = 0, list[str]()
        if self.cache is not None:
            with erasure.noting(remains, "copies of conversations are left in Redis for half an hour; purge again"):
                self.cache.erase(scope)
        # This process and the database are erased by now; a store elsewhere follows, or remains.
        empty = self.indexer.index is None and not self._outside
        if not empty:
            with erasure.noting(remains, "the vector index of this process was not brought up to date; purge again"):
                self.indexer.pull()
        with erasure.noting(remains, "files of the vector index were not removed; purge again"):
            files, left = erase_index_files(self.database.path) if self.database.path else (0, 0)
            if left:
                remains.append(f"{left} files of the vector index are being written, or cannot be removed; purge again")
        if not empty:
            self.indexer.write_segment()
        return erasure.clean(self.database, replace(removed, files=files, remains=tuple(remains)))

    def feed(self, space: Space, mark: str) -> VectorFeed:
        """The index of an integration's own space, for one embedding model; closed with the memory."""
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
            rows = (*meta.unreadable_dates(connection, metadata), *meta.unreadable_messages(connection))
        stats = meta.stats(self.database)
        return replace(self.indexer.verify(), unreadable=rows, turns=stats.turns, notes=stats.notes)

    def close(self) -> None:
        """Close every part, also after errors, which are raised together; see `Memory.close`."""
        if self.database.inherited:
            return
        cached = () if self.cache is None else (self.cache,)
        parts: tuple[Closeable, ...] = (*self.writers, self.indexer, *self._feeds.values(), *cached, self.database)
        errors: list[BaseException] = []
        for part in parts:
            error = attempt(part.close).error
            if error is not None:
                errors += error.exceptions if isinstance(error, BaseExceptionGroup) else [error]
        if errors:
            raise BaseExceptionGroup("the memory is closed; these parts of it failed", errors)


def chosen_settings(settings: object, **arguments: Any) -> Settings:
    """The settings of a memory: the argument or the environment, with *arguments* in their place."""
    chosen = Settings() if settings is None else settings
    if not isinstance(chosen, Settings):
        raise InvalidInputError(f"settings must be Settings(…), not {quoted(settings)}")
    return chosen.replace_with(**arguments)


class MemoryMixin:
    """Access to the parts, for the groups of methods of `Memory`."""

    _parts: Parts

    @property
    def parts(self) -> Parts:
        """The parts; a `StorageError` in a process that was forked from the one that opened the memory."""
        self._parts.database.refuse_inherited()
        return self._parts


def parts_of(memory: object, caller: str) -> Parts:
    """The parts of a memory; *caller* is the integration that the error names."""
    if not isinstance(memory, MemoryMixin):
        raise InvalidInputError(
            f"{caller} takes a Memory as its memory, not {quoted(memory)}; write Memory('memory.db')"
        )
    return memory.parts


def or_refused(make: Callable[P, R], *args: P.args, **options: P.kwargs) -> R | LangmemAdapterError:
    """The result of *make*, or its error."""
    try:
        return make(*args, **options)
    except LangmemAdapterError as error:
        return error


def each_or_refused(method: str, make: Callable[[Any], R], items: Iterable[object]) -> list[R | LangmemAdapterError]:
    """The result of *make* for each item, or its error, which names the *method* and the item from 1."""
    ends = [or_refused(make, item) for item in items]
    for number, end in enumerate(ends, 1):
        if isinstance(end, LangmemAdapterError):
            end.args = (f"{method}: item {number}: {end}",)
    return ends


def _texts(write: Write) -> list[str]:
    return [decision.text for decision in write.decisions if decision.text is not None]
