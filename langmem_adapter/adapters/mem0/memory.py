"""Mem0's `Memory` and `AsyncMemory`: its names, parameters and results.

Each method is written once as a plan (`Mem0Methods`); `planned` and `awaited` make the blocking and the awaited methods.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from types import EllipsisType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, Self, TypeVar

from langmem_adapter.adapters.mem0 import shapes
from langmem_adapter.adapters.mem0.configs.base import MemoryConfig, open_store
from langmem_adapter.adapters.mem0.providers import ChatReranker, chat_model, embeddings, reranker, vision
from langmem_adapter.adapters.mem0.shapes import Id, Results, Row
from langmem_adapter.embedding.models import resolve_embeddings
from langmem_adapter.errors import InvalidInputError, MemoryNotFoundError
from langmem_adapter.memory.memory import Memory as Engine
from langmem_adapter.memory.parts import left_to_defaults, warn_of_defaults
from langmem_adapter.mirror.mirror import MirrorThread
from langmem_adapter.records.scope import SCOPE_FIELDS
from langmem_adapter.settings import Settings
from langmem_adapter.storage import meta
from langmem_adapter.twins import Plan, awaited, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from datetime import date, datetime
    from types import TracebackType

    from langchain_core.documents import BaseDocumentCompressor
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore

    from langmem_adapter.index.indexer import IndexKind
    from langmem_adapter.records.graph import Relation
    from langmem_adapter.records.results import AddResult

R = TypeVar("R")

# Where the scope is in the filters (Mem0 2.x) there are 20 rows by default, of a least relevance; else (1.x) 100.
_FEW, _MANY, _THRESHOLD = 20, 100, 0.1
_MOST: Final = 10_000  # relations among which those of the memories are looked for
_RELATIONS: Final = 5  # what Mem0's search shows of the graph at most, whatever the limit

_COLLECTION: Final = "mem0_collection"
_NO_RERANKER: Final = "no reranker is configured: the rows are in the order of the search"
_SHAPE: Final = "the shape of results is version in the configuration, 'v1.0' or 'v1.1'"
ELSEWHERE: Final = {
    "app_id": "an application belongs to Mem0's platform; name it as agent_id or run_id",
    "custom_instructions": "give the instructions as prompt, or as custom_fact_extraction_prompt in the configuration",
    "enable_graph": "a graph is configured: graph_store={'provider': 'sql'}, or none",
    "llm": "the model is llm in the configuration",
    "output_format": _SHAPE,
    "version": _SHAPE,
}


class _Mem0Memory(Protocol):
    """Our memory, whether results are lists (`version="v1.0"`) or have `"relations"`, and what reorders the best hits."""

    @property
    def engine(self) -> Engine: ...
    @property
    def bare(self) -> bool: ...
    @property
    def shows_graph(self) -> bool: ...
    @property
    def reranker(self) -> BaseDocumentCompressor | None: ...


def _split_filters(filters: Mapping[str, Any] | None, **fields: Any) -> tuple[Any, dict[str, Any], bool]:
    """The filters as Mem0 means them, the scope and conditions for the engine, and whether the call is that of Mem0 2.x."""
    normal = shapes.normalize_filters(filters)
    return normal, shapes.merge_scope(normal, **fields), all(value is None for value in fields.values())


class Mem0Methods(_Mem0Memory):
    """The methods of `Memory`, `AsyncMemory` and the REST server as plans; not instantiated."""

    def add(  # noqa: PLR0913 - Mem0's parameters
        self: _Mem0Memory,
        messages: Any = None,
        user_id: Id = None,
        agent_id: Id = None,
        run_id: Id = None,
        metadata: Mapping[str, Any] | None = None,
        filters: Mapping[str, Any] | None = None,
        prompt: str | None = None,
        *,
        data: Any = None,
        infer: bool = True,
        memory_type: str | None = None,
        timestamp: datetime | str | float | None = None,
        expiration_date: date | str | None = None,
    ) -> Plan[Any]:
        """Remember what a conversation says.

        Args:
            messages: A text, a dict with `role` and `content`, or a list of these; LangChain messages too.
            user_id: The user; at least one of the three is needed. A number means its digits.
            agent_id: The agent. Where the assistant speaks in *messages*, the facts are about the assistant.
            run_id: The run or session.
            metadata: A JSON object, kept with every memory that comes of it; `"created_at"` in it is the *timestamp*.
            filters: A parameter of Mem0 0.x; it has to be empty.
            prompt: Replaces the instructions, this time; needs a chat model.
            data: The messages, in the words of Mem0 0.0.x.
            infer: `False` stores each non-system message as it is.
            memory_type: `"procedural_memory"`, with *agent_id*: one step-by-step record of what the agent did.
            timestamp: When the conversation took place.
            expiration_date: The last day on which the memories are shown, in UTC.

        Returns:
            `{"results": [{"id", "memory", "event"}]}`, with `"previous_memory"` on an UPDATE, `"actor_id"` and `"role"` with
            `infer=False`. Facts that changed nothing (NONE) are not listed, as in Mem0; `engine.add` lists them, with reasons.
            With a graph there is also `"relations": {"deleted_entities": [[relation]], "added_entities": [[relation]]}`.

        Raises:
            ModelReplyError: With `on_bad_reply="raise"`, the chat model's reply stayed unreadable; nothing was written.
        """
        if filters:
            raise InvalidInputError("add() compares with all that its scope holds and takes no filters; leave them out")
        content = shapes.one_of_two("messages", messages, "data", data)
        if content is None:
            raise InvalidInputError("add() needs messages: a text, a dict with role and content, or a list of these")
        metadata, timestamp = shapes.split_date(metadata, timestamp)
        options: dict[str, Any] = {
            "metadata": metadata,
            "infer": infer,
            "prompt": prompt,
            "timestamp": timestamp,
            "memory_type": memory_type,
            "expires_at": shapes.parse_expiry(expiration_date),
            **shapes.scope_fields(user_id, agent_id, run_id),
        }

        def format_added(result: AddResult) -> Plan[Any]:
            rows = shapes.format_changes(result.results)
            relations = shapes.format_graph_changes(result.relations) if self.shows_graph else None
            read = Plan.each(lambda row: Plan.calling(self.engine.history, self.engine.ahistory, row["id"]), rows)
            labelled = Plan.of(rows) if infer else read.then(partial(shapes.add_speakers, rows))
            return labelled.then(lambda rows: _results(self, rows, relations))

        return Plan.calling(self.engine.add, self.engine.aadd, content, **options).and_then(format_added)

    def search(  # noqa: PLR0913 - Mem0's parameters
        self: _Mem0Memory,
        query: str,
        user_id: Id = None,
        agent_id: Id = None,
        run_id: Id = None,
        limit: int | None = None,
        filters: Mapping[str, Any] | None = None,
        *,
        top_k: int | None = None,
        threshold: float | EllipsisType | None = ...,
        rerank: bool | None = None,
        explain: bool = False,
        show_expired: bool = False,
        reference_date: date | str | float | None = None,
    ) -> Plan[Any]:
        """Find memories by meaning and words.

        Args:
            query: A question or statement.
            user_id: The user; one of the three is needed, here or in *filters*. `"*"` is a name (in filters an error).
            agent_id: The agent.
            run_id: The run or session.
            limit: At most so many, up to 10,000; by default 20 where the scope is in *filters* (Mem0 2.x), else 100 (1.x).
            top_k: The limit, in the words of Mem0 2.x.
            filters: Mem0's filters on scope fields, metadata and fields of the memory: see `langmem_adapter.filters`.
            threshold: Least `score`, 0 to 1; by default 0.1 where the scope is in *filters*, else none, as with `None`.
            rerank: Whether the reranker of the configuration orders the best once more; by default it does where there is one.
                `True` without one adds `"notes"` to the result.
            explain: Give each row `"score_details"`, with Mem0's keys; `"parts"` is what each kind of evidence added.
            show_expired: Whether expired memories are found as well, until they are swept.
            reference_date: The date that "last week" in the query is counted from; by default now.

        Returns:
            `{"results": [row, …]}`, best first; rows have those of Mem0's keys that are set, `"rerank_score"` after a reranker.
            With a graph there is also `"relations"`: the five best `{"source", "relationship", "destination"}`;
            with filters on more than the scope, of those that the rows state.

        Raises:
            ScopeError: No scope is given, or two that contradict each other.
            FilterError: A filter cannot be understood.
        """
        filters, where, is_recent = _split_filters(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        most = shapes.check_count(limit, top_k, _FEW if is_recent else _MANY)
        least = (_THRESHOLD if is_recent else None) if isinstance(threshold, EllipsisType) else threshold
        order = None if rerank is False else self.reranker
        order = order.without_notes() if isinstance(order, ChatReranker) else order
        options: dict[str, Any] = {
            **where,
            "k": most or 1,
            "threshold": least,
            "rerank": order,
            "explain": explain,
            "reference_date": reference_date,
            "include_expired": show_expired,
        }
        hits = Plan.calling(self.engine.search, self.engine.asearch, query, **options)
        rows = hits.then(lambda hits: shapes.format_hits(hits, threshold=least, reranked=order is not None)[:most])
        graph, scope = self.engine.graph, _scope(where)
        search = partial(Plan.calling, graph.search, graph.asearch, query, **scope)

        def add_notes(result: Any) -> Any:
            notes = order.notes if isinstance(order, ChatReranker) else []
            if rerank and order is None:
                notes = [_NO_RERANKER]
            if notes and isinstance(result, Results):
                result["notes"] = notes
            return result

        most_relations = min(most, _RELATIONS)
        return _add_relations(self, rows, search, filters, most_relations, "destination").then(add_notes)

    def get_all(
        self: _Mem0Memory,
        user_id: Id = None,
        agent_id: Id = None,
        run_id: Id = None,
        limit: int | None = None,
        *,
        top_k: int | None = None,
        filters: Mapping[str, Any] | None = None,
        show_expired: bool = False,
    ) -> Plan[Any]:
        """All memories of a scope, the newest statement first; the arguments are those of `search`.

        Returns:
            `{"results": [row, …]}`, with the rows of `search` without `"score"`. With a graph there is also `"relations"`: as
            many `{"source", "relationship", "target"}` that hold now, the newest first; with filters as in `search`.

        Raises:
            ScopeError: No scope is given, or two that contradict each other.
            FilterError: A filter cannot be understood.
        """
        filters, where, is_recent = _split_filters(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        most = shapes.check_count(limit, top_k, _FEW if is_recent else _MANY)
        options = {**where, "k": most or 1, "include_expired": show_expired}
        page = Plan.calling(self.engine.get_all, self.engine.aget_all, **options)
        rows = page.then(lambda items: shapes.format_items(items)[:most])
        graph = self.engine.graph
        relations = partial(Plan.calling, graph.relations, graph.arelations, **_scope(where))
        return _add_relations(self, rows, relations, filters, most, "target")

    def get(self: _Mem0Memory, memory_id: str) -> Plan[Row | None]:
        """A memory by its id, an expired one too, as a row of `search` with the score `None`; `None` where there is none."""
        item: Plan[Row | None] = Plan.calling(self.engine.get, self.engine.aget, memory_id).then(shapes.format_item)
        return _or_missing(item, None)

    def update(
        self: _Mem0Memory,
        memory_id: str,
        data: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: date | str | EllipsisType | None = ...,
        *,
        text: str | None = None,
    ) -> Plan[dict[str, str]]:
        """Change a memory by hand: its *text* (*data* in Mem0 1.x), its metadata, and the last day on which it is shown.

        The *metadata* are merged into those it has; a value of `None` removes a key. With *expiration_date* `None` it stays.

        Raises:
            MemoryNotFoundError: There is none.
            InvalidInputError: There is nothing to change, or an argument cannot be used.
        """
        new_text = data if text is None else text
        if new_text is None and metadata is None and expiration_date is ...:
            raise InvalidInputError("update() has nothing to change: give data, metadata or expiration_date")
        until = expiration_date if isinstance(expiration_date, EllipsisType) else shapes.parse_expiry(expiration_date)
        fields: dict[str, Any] = {"text": new_text, "metadata": metadata, "expires_at": until}
        return _with_message(
            Plan.calling(self.engine.update, self.engine.aupdate, memory_id, **fields), "Memory updated"
        )

    def delete(self: _Mem0Memory, memory_id: str) -> Plan[dict[str, str]]:
        """Delete a memory; its history stays.

        Raises:
            MemoryNotFoundError: There is none.
        """
        return _with_message(Plan.calling(self.engine.delete, self.engine.adelete, memory_id), "Memory deleted")

    def delete_all(
        self: _Mem0Memory, user_id: Id = None, agent_id: Id = None, run_id: Id = None
    ) -> Plan[dict[str, str]]:
        """Delete every memory of a scope, in one transaction, then every relation of its graph; their history stays.

        At least one of *user_id*, *agent_id* and *run_id* is needed. `"*"` is a user like any other, not everybody.

        Raises:
            ScopeError: No field of the scope is given; to delete everything there is `reset`.
        """
        scope, graph = shapes.scope_fields(user_id, agent_id, run_id), self.engine.graph
        relations = Plan.calling(graph.delete_all, graph.adelete_all, **scope)
        deleted = Plan.calling(self.engine.delete_all, self.engine.adelete_all, **scope)
        return _with_message(deleted.and_then(lambda _: relations), "Memories deleted")

    def history(self: _Mem0Memory, memory_id: str) -> Plan[list[dict[str, Any]]]:
        """Every change of a memory, oldest first; a deleted memory's too. An unknown id has none.

        Returns:
            Dicts with the keys `"id"`, `"memory_id"`, `"old_memory"`, `"new_memory"`, `"event"`, `"created_at"`,
            `"updated_at"`, `"is_deleted"`, `"actor_id"`, `"role"`.
        """
        steps = Plan.calling(self.engine.history, self.engine.ahistory, memory_id)
        return _or_missing(steps.then(lambda steps: [*map(shapes.format_revision, steps)]), [])

    def reset(
        self: _Mem0Memory,
        user_id: Id | EllipsisType = ...,
        agent_id: Id | EllipsisType = ...,
        run_id: Id | EllipsisType = ...,
    ) -> Plan[None]:
        """Remove every memory and relation of all users, or of one scope, with its history; a scope of `None` is an error."""
        fields = (user_id, agent_id, run_id)
        if all(field is ... for field in fields):
            return Plan(self.engine.reset, self.engine.areset).then(lambda _: None)
        scope = shapes.scope_fields(*(None if field is ... else field for field in fields))
        return Plan.calling(self.engine.purge, self.engine.apurge, **scope).then(lambda _: None)

    def chat(self: _Mem0Memory, query: str) -> Plan[NoReturn]:
        """Not implemented, as in Mem0.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "chat() is no part of a memory; search() first, and ask your chat model with the result"
        )


def _results(self: _Mem0Memory, rows: list[Row], relations: Any = None) -> Any:
    # Any: which of the two it is depends on the configuration, and a program of either age must pass a type checker.
    return rows if self.bare else Results(rows, relations)


def _or_missing(plan: Plan[R], otherwise: R) -> Plan[R]:
    return plan.or_else(lambda error: Plan.of(otherwise) if isinstance(error, MemoryNotFoundError) else None)


def _with_message(plan: Plan[Any], text: str) -> Plan[dict[str, str]]:
    return plan.then(lambda _: {"message": f"{text} successfully!"})


def _scope(where: Mapping[str, Any]) -> dict[str, Any]:
    return {name: where[name] for name in SCOPE_FIELDS if name in where}


def _add_relations(
    self: _Mem0Memory,
    rows: Plan[list[Row]],
    find_relations: Callable[..., Plan[Any]],
    filters: Any,
    most: int,
    target: str,
) -> Plan[Any]:
    """The rows, and beside them what the graph says; with *filters* beyond the scope only what the rows say."""
    if not self.shows_graph:
        return rows.then(partial(_results, self))
    by_rows = shapes.beyond_scope(filters)

    def add(rows: list[Row]) -> Plan[Any]:
        ids = {row["id"] for row in rows}

        def select(relations: Sequence[Relation]) -> Any:
            stated = [each for each in relations if not by_rows or not ids.isdisjoint(each.memory_ids)]
            return _results(self, rows, shapes.format_relations(stated[:most], target=target))

        return find_relations(k=_MOST if by_rows else most or 1).then(select)

    return rows.and_then(add)


# ── the classes ───────────────────────────────────────────────────────────────────────────────────────────────────────


_CHOICE: Final = 'Memory.from_config({{"llm": {{"provider": "{provider}"}}}})'


class _ConfiguredMemory:
    """A configuration, and an engine made from it."""

    def __init__(self, config: MemoryConfig | None = None) -> None:
        if not isinstance(config, MemoryConfig | None):
            raise InvalidInputError(
                f"config must be a MemoryConfig, not {type(config).__name__}; for a dict there is from_config"
            )
        self.config = config = config or MemoryConfig()
        self.bare: Final = config.bare
        self._model = None if config.llm is None else chat_model(config.llm)
        self.reranker = reranker(config.reranker, self._model)
        with ExitStack() as stack:
            vectors = None if config.embedder is None else embeddings(config.embedder)
            settings = Settings()
            notes = left_to_defaults(self._model, vectors or "hash", settings, choice=_CHOICE)
            warn_of_defaults(notes, stacklevel=3)
            self._index = _open_index(config, vectors, stack)
            graph = config.graph
            self._engine = Engine(
                config.database,
                model="offline" if notes else self._model,
                embeddings=vectors,
                index=self._index,
                graph=None if graph is None else True,
                graph_prompt=None if graph is None else graph.prompt,
                fact_extraction_prompt=config.custom_fact_extraction_prompt,
                update_memory_prompt=config.custom_update_memory_prompt,
                vision=vision(config.llm),
                settings=settings,
            )
            stack.callback(self._engine.close)
            _claim_collection(self._engine, config)
            if graph is not None and graph.server is not None:
                mirror = self._engine.graph.mirror(**graph.server, embeddings=True)
                self._engine.parts.writers.add(MirrorThread(mirror))
            self._closing = stack.pop_all()

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """A memory from a configuration in Mem0's form, with the keys of `MemoryConfig`.

        Raises:
            InvalidInputError: A key cannot be honoured; the message says what to do instead.
        """
        return cls(MemoryConfig.parse(config_dict))

    @property
    def engine(self) -> Engine:
        """Our own memory behind it, for what Mem0 has no words for: reasons, pages, restore, LCEL."""
        return self._engine

    @property
    def shows_graph(self) -> bool:
        """Whether results have `"relations"`: there is a graph, and a dict to put it into."""
        return self._engine.parts.uses_graph and not self.bare

    @property
    def db(self) -> SimpleNamespace:
        """Mem0's history database, for reading: it has `get_history`."""
        return SimpleNamespace(get_history=lambda memory_id: Mem0Methods.history(self, memory_id).run())

    @property
    def llm(self) -> SimpleNamespace | None:
        """The chat model of the configuration, if any: it has `generate_response`, and `model` is LangChain's object."""
        if (model := self._model) is None:
            return None
        return SimpleNamespace(model=model, generate_response=lambda messages: str(model.invoke(messages).text))

    @property
    def embedding_model(self) -> SimpleNamespace:
        """The embeddings: they have `embed`, and `model` is LangChain's object."""
        model = self._engine.parts.embedder.embeddings
        return SimpleNamespace(model=model, embed=lambda text, memory_action=None: model.embed_query(text))  # noqa: ARG005

    @property
    def vector_store(self) -> IndexKind | VectorStore:
        """The index: a LangChain vector store, or the name of a built-in one."""
        return self._index or self._engine.settings.index

    def close(self) -> None:
        """Write what waits and the index's files, and close every connection; the object is of no use afterwards.

        A graph server (`graph_store`) is brought up to date before, unless it is away or takes longer than a few seconds.
        """
        self._closing.close()

    def __repr__(self) -> str:
        """Location and mode."""
        return f"{type(self).__name__}({self._engine.location!r}, mode={self._engine.mode!r})"


class Memory(_ConfiguredMemory):
    """Mem0's `Memory` (Chhikara et al. 2025, arXiv:2504.19413): its method names, parameters and dicts, on our engine.

    Without a configuration it takes our settings: offline (rules in place of a model, hash embeddings), in the user's data
    directory. A key in the environment alone, like `OPENAI_API_KEY`, does not make it call a provider.

    Raises:
        InvalidInputError: A key of the configuration cannot be honoured.
        MissingDependencyError: A provider's package is not installed.
        StorageError: The database cannot be opened.

    Example:
        >>> memory = Memory.from_config({"history_db_path": ":memory:"})
        >>> [row["event"] for row in memory.add("I live in Lyon.", user_id="alice")]
        ['ADD']
        >>> memory.search("Where does she live?", user_id="alice")["results"][0]["memory"]
        'Lives in Lyon'
        >>> memory.close()
    """

    add = planned(Mem0Methods.add, elsewhere=ELSEWHERE)
    search = planned(Mem0Methods.search, elsewhere=ELSEWHERE)
    get = planned(Mem0Methods.get)
    get_all = planned(Mem0Methods.get_all, elsewhere=ELSEWHERE)
    update = planned(Mem0Methods.update)
    delete = planned(Mem0Methods.delete)
    delete_all = planned(Mem0Methods.delete_all, elsewhere=ELSEWHERE)
    history = planned(Mem0Methods.history)
    reset = planned(Mem0Methods.reset)
    chat = planned(Mem0Methods.chat)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; an error of the `with` statement goes on, with a note of an error while closing."""
        with self._closing:
            self._engine.__exit__(kind, error, trace)


class AsyncMemory(_ConfiguredMemory):
    """Mem0's `AsyncMemory`: `Memory` with methods to await; `close` blocks, as Mem0's does, `async with` does not."""

    add = awaited(Memory.add, name="add", elsewhere=ELSEWHERE)
    search = awaited(Memory.search, name="search", elsewhere=ELSEWHERE)
    get = awaited(Memory.get, name="get")
    get_all = awaited(Memory.get_all, name="get_all", elsewhere=ELSEWHERE)
    update = awaited(Memory.update, name="update")
    delete = awaited(Memory.delete, name="delete")
    delete_all = awaited(Memory.delete_all, name="delete_all", elsewhere=ELSEWHERE)
    history = awaited(Memory.history, name="history")
    reset = awaited(Memory.reset, name="reset")
    chat = awaited(Memory.chat, name="chat")

    def __await__(self) -> Generator[Any, None, Self]:
        """The memory itself: Mem0 1.x awaits `from_config`, 2.x does not."""
        yield from ()
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; an error of the `with` statement goes on, with a note of an error while closing."""
        with self._closing:
            await self._engine.__aexit__(kind, error, trace)


def _open_index(config: MemoryConfig, vectors: Embeddings | None, stack: ExitStack) -> IndexKind | VectorStore | None:
    """The index that `vector_store` names."""
    store = config.vector_store
    if store is None:
        return None
    if store.provider == "faiss" or store.url is not None:
        return "faiss" if store.url is None else "pgvector"
    settings = Settings()
    return open_store(store, vectors or resolve_embeddings(settings.embeddings, settings), stack)


def _claim_collection(engine: Engine, config: MemoryConfig) -> None:
    """A database holds one collection: the first that is opened there."""
    store, database = config.vector_store, engine.parts.database
    if store is None or store.provider == "langchain":
        return
    collection = engine.parts.reading(meta.get, _COLLECTION)
    if collection is None:
        database.write(lambda connection: meta.put(connection, _COLLECTION, store.collection))
    elif collection != store.collection:
        raise InvalidInputError(
            f"the database {engine.location} holds the collection {collection!r}, not {store.collection!r}: name another "
            "database (history_db_path, or dbname)"
        )
