"""The parts of a memory, wired once; integrations reach them through `Memory.parts`."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar
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
from langmem_adapter.twins import Plan, attempt

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
    from langmem_adapter.reasoning.base import Reasoner
    from langmem_adapter.records.results import Change
    from langmem_adapter.records.scope import Scope
    from langmem_adapter.storage.erasure import Erasure
    from langmem_adapter.storage.feed import Space
    from langmem_adapter.storage.sources import Edits

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
    """Defaults that rarely fit the other choices, each with the line that changes it.

    These are hash embeddings, which see only common words, with a chat model; and the offline rules while a model's key is in
    the environment. Naming `"offline"` or `"hash:512"` is a choice.
    """
    offline = (model or settings.model) == "offline"
    if offline and model is None and "model" not in settings.model_fields_set:
        return [_keyed(key, name, choice) for key, name in _KEYS.items() if os.environ.get(key)][:1]
    if not offline and embeddings is None and "embeddings" not in settings.model_fields_set:
        return [_HASH_EMBEDDINGS]
    return []


def _keyed(key: str, name: str, choice: str) -> str:
    choice = choice.format(name=name, provider=name.partition(":")[0])
    return (
        f"{key} is set, but the offline rules extract facts and no model is called; choose one with {choice} or "
        f'LANGMEM_ADAPTER_MODEL={name}, or say "offline" to keep the rules'
    )


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
    """Something in the background that must come to an end before the database is closed."""

    def close(self) -> object:
        """End it."""


class Parts:
    """The parts of a memory, wired once, and what several of them do together.

    Args:
        database: As its other arguments, see `Memory`.
        prompts: The caller's own `fact_extraction_prompt`, `update_memory_prompt` and `graph_prompt`.
    """

    uses_graph: bool
    """Whether facts are to say their relations, and relations help to find memories."""

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
        _check(graph)
        self.settings = settings
        self.longest = Longest(settings.max_text, settings.max_message, settings.timezone)
        self.uses_graph = settings.graph if graph is None else flag(graph, "graph")
        if prompts.get("graph_prompt") is not None and not self.uses_graph:
            raise InvalidInputError("graph_prompt is about the relations of a knowledge graph; also give graph=True")
        self.writers: WeakSet[Closeable] = WeakSet()  # what works in the background and is still open
        self._feeds: dict[tuple[str, str], VectorFeed] = {}
        self._opening = Lock()
        self.reasoner = resolve_model(model or settings.model, settings, **prompts)
        self.describer = _describer(self.reasoner) if flag(vision, "vision") else None
        spec = embeddings or settings.embeddings
        vectors = resolve_embeddings(spec, settings)
        self._limits = embedding_limits(spec, vectors, settings)
        self.cache = Cache(settings.redis_url) if settings.redis_url is not None else None
        self.database = Database(chosen_database(database, settings), **settings.database_options)
        with ExitStack() as undo:
            undo.callback(self.database.close)
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

    def add(self, run: Run) -> Plan[AddResult]:
        """One pass through the pipeline; none where the caller's key says that it has happened before."""
        swept = Plan.in_new_thread(self.sweeper.sweep_if_due) if self.sweeper.due else Plan.of(None)
        if not run.repeatable:
            return swept.and_then(lambda _: self._run(run))
        before = swept.and_then(lambda _: Plan(partial(self.ledger.finished, run.scope, run.key)))
        return before.and_then(lambda changes: self._run(run) if changes is None else self._repeated(changes))

    def _run(self, run: Run, tried: int = 1) -> Plan[AddResult]:
        thread = run.thread
        if thread is None:
            return self._run_pipeline(run)

        def again(error: Exception) -> Plan[AddResult] | None:
            repeats = isinstance(error, ConflictError) and tried < self.settings.attempts
            return self._run(run, tried + 1) if repeats else None

        read = Plan(partial(self.reading, sources.edits, thread, run.digests))
        return read.and_then(partial(self._run_new, run)).or_else(again)

    def _run_new(self, run: Run, edits: Edits) -> Plan[AddResult]:
        new = select_new(run, self.longest, edits.remembered_ids)
        if new is None:
            note = "the messages of this thread were remembered before; nothing was done again"
            return Plan.of(AddResult((), self.reasoner.mode, notes=(note,)))

        def ran(changes: tuple[Change, ...]) -> Plan[AddResult]:
            return self._run_pipeline(new).then(lambda result: replace(result, results=(*changes, *result.results)))

        return self._retract(edits).and_then(ran)

    def _retract(self, edits: Edits) -> Plan[tuple[Change, ...]]:
        """Take back what came of the older text of edited messages, in one transaction."""
        if not edits.ids:
            return Plan.of(())
        texts = [text for write in edits.writes for text in _texts(write)]
        carry_out = self.ledger.within(texts)

        def work(vectors: dict[str, NDArray[Any]], connection: Connection) -> tuple[Change, ...]:
            done = [carry_out(connection, replace(write, vectors=vectors)) for write in edits.writes]
            sources.reopen(connection, edits)
            return tuple(change for changes in done for change in changes)

        return self._vectors(texts).and_then(lambda vectors: self.ledger.writing(partial(work, vectors)))

    def _run_pipeline(self, run: Run) -> Plan[AddResult]:
        state, config = run.state(), run_config("memory.add", run.scope, self.reasoner.mode)
        passed = Plan.calling(self.pipeline.invoke, self.pipeline.ainvoke, state, config, output_keys=_RESULT)
        return passed.then(lambda output: run.results(output)[0])

    def _repeated(self, changes: tuple[Change, ...]) -> Plan[AddResult]:
        note = "this idempotency_key was used before; nothing was done again"
        return Plan.of(AddResult(changes, self.reasoner.mode, notes=(note,)))

    # ── one piece of work ───────────────────────────────────────────────────────────────────────────────────────────

    def reading(self, read: Callable[Concatenate[Connection, P], R], *arguments: P.args, **options: P.kwargs) -> R:
        """Call a storage function with a read transaction."""
        with self.database.read() as connection:
            return read(connection, *arguments, **options)

    def edit(self, prepare: Callable[[], Write]) -> Plan[Change]:
        """Apply one decision from outside the pipeline; *prepare* returns it without vectors and may read."""
        ready = Plan(prepare).then(self._checked).and_then(self._with_vectors)
        applied = ready.and_then(lambda write: Plan.calling(self.ledger.apply, self.ledger.aapply, write))
        return applied.then(lambda changes: changes[0])

    def _checked(self, write: Write) -> Write:
        self.ledger.check(write)
        return write

    def _with_vectors(self, write: Write) -> Plan[Write]:
        return self._vectors(_texts(write)).then(lambda vectors: replace(write, vectors=vectors))

    def _vectors(self, texts: Sequence[str]) -> Plan[dict[str, NDArray[Any]]]:
        made = Plan.calling(self.embedder.vectors, self.embedder.avectors, texts)
        return made.then(lambda vectors: dict(zip(texts, vectors, strict=True)))

    def edit_each(self, writes: Sequence[Write | LangmemAdapterError]) -> Plan[list[Change | Exception]]:
        """Apply several such decisions in one commit; errors in *writes* stay in their places."""
        writes = [or_refused(self._checked, write) if isinstance(write, Write) else write for write in writes]
        wanted = [write for write in writes if isinstance(write, Write)]

        def apply(vectors: dict[str, NDArray[Any]]) -> list[Change | Exception]:
            done = iter(self.ledger.apply_each([replace(write, vectors=vectors) for write in wanted]))
            ends = [next(done) if isinstance(write, Write) else write for write in writes]
            return [end if isinstance(end, LangmemAdapterError) else end[0] for end in ends]

        texts = [text for write in wanted for text in _texts(write)]
        return self._vectors(texts).and_then(lambda vectors: Plan.in_new_thread(partial(apply, vectors)))

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
        """Finish background writes, write the index files and close every connection, also after errors.

        In a forked child it does nothing: everything belongs to the parent.

        Raises:
            ExceptionGroup: What failed.
        """
        if self.database.inherited:
            return
        errors: list[BaseException] = []
        cached = () if self.cache is None else (self.cache,)
        parts: tuple[Closeable, ...] = (self.database, *cached, *self._feeds.values(), self.indexer, *self.writers)
        with ExitStack() as closing:  # from the last to the first
            for part in parts:
                closing.callback(_close, part, errors)
        if errors:
            raise BaseExceptionGroup("the memory is closed; these parts of it failed", errors)


def chosen_settings(settings: object, **arguments: Any) -> Settings:
    """The settings of a memory: the argument or the environment, with *arguments* in their place."""
    chosen = Settings() if settings is None else settings
    if not isinstance(chosen, Settings):
        raise InvalidInputError(f"settings must be Settings(…), not {quoted(settings)}")
    return chosen.replace_with(**arguments)


def _check(graph: object) -> None:
    if isinstance(graph, Mapping):
        raise InvalidInputError(
            "graph must be True or False; Mem0's configurations, graph_store among them, are for "
            "langmem_adapter.adapters.mem0: Memory.from_config({…})"
        )


def _close(part: Closeable, errors: list[BaseException]) -> None:
    error = attempt(part.close).error
    if isinstance(error, BaseExceptionGroup):
        errors.extend(error.exceptions)
    elif error is not None:
        errors.append(error)


class MemoryMixin:
    """Access to the parts, for the groups of methods of `Memory`."""

    _parts: Parts

    @property
    def parts(self) -> Parts:
        """The parts.

        Raises:
            StorageError: This process was forked from the one that opened the memory.
        """
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


def _describer(reasoner: Reasoner) -> Describer:
    if not isinstance(reasoner, Describer):
        raise InvalidInputError("vision needs a chat model to look at images; give model='openai:…' or the like")
    return reasoner


def _texts(write: Write) -> list[str]:
    return [decision.text for decision in write.decisions if decision.text is not None]
