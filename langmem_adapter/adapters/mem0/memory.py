"""`Memory` and `AsyncMemory` with Mem0's names, parameters and results."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Self

from langmem_adapter.adapters.mem0.calls import Calls
from langmem_adapter.adapters.mem0.config import MemoryConfig, open_store
from langmem_adapter.adapters.mem0.providers import chat_model, embeddings, reranker, vision
from langmem_adapter.embedding.models import resolve_embeddings
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory as Engine
from langmem_adapter.mirror.mirror import Following
from langmem_adapter.settings import Settings
from langmem_adapter.storage import meta
from langmem_adapter.twins import awaited, planned

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from types import TracebackType

    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore

    from langmem_adapter.index.indexer import IndexKind

_COLLECTION: Final = "mem0_collection"
_SHAPE: Final = "the shape of results is version in the configuration, 'v1.0' or 'v1.1'"
ELSEWHERE: Final = {
    "app_id": "an application is a thing of Mem0's platform; name it as agent_id or run_id",
    "custom_instructions": "give the instructions as prompt, or as custom_fact_extraction_prompt in the configuration",
    "enable_graph": "whether there is a graph is said in the configuration: graph_store={'provider': 'sql'}, or none",
    "llm": "the model is llm in the configuration",
    "output_format": _SHAPE,
    "version": _SHAPE,
}


class _Guest:
    """What both classes are: a configuration, and an engine made from it."""

    def __init__(self, config: MemoryConfig | None = None) -> None:
        if not isinstance(config, MemoryConfig | None):
            raise InvalidInputError(
                f"config must be a MemoryConfig, not {type(config).__name__}; for a dict there is from_config"
            )
        self.config = config or MemoryConfig()
        self.bare: Final = self.config.bare
        self._model = None if self.config.llm is None else chat_model(self.config.llm)
        self.reranker = reranker(self.config.reranker, self._model)
        with ExitStack() as stack:
            vectors = None if self.config.embedder is None else embeddings(self.config.embedder)
            self._index = _index(self.config, vectors, stack)
            graph = self.config.graph
            self._engine = Engine(
                self.config.database,
                model=self._model,
                embeddings=vectors,
                index=self._index,
                graph=None if graph is None else True,
                graph_prompt=None if graph is None else graph.prompt,
                fact_extraction_prompt=self.config.custom_fact_extraction_prompt,
                update_memory_prompt=self.config.custom_update_memory_prompt,
                vision=vision(self.config.llm),
            )
            stack.callback(self._engine.close)
            _claim(self._engine, self.config)
            if graph is not None and graph.server is not None:
                mirror = self._engine.graph.mirror(**graph.server, embeddings=True)
                self._engine.parts.writers.add(Following(mirror))
            self._closing = stack.pop_all()

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """A memory from a configuration in Mem0's form.

        Args:
            config_dict: The keys of `MemoryConfig`.

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
        return SimpleNamespace(get_history=lambda memory_id: Calls.history(self, memory_id).run())

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
        """What finds the memories: a LangChain vector store, or the name of our own index."""
        return self._engine.settings.index if self._index is None else self._index

    def close(self) -> None:
        """Write what waits and the index's files, and close every connection; the object is of no use afterwards.

        A graph server (`graph_store`) is brought up to date before, unless it is away or takes longer than a few seconds.
        """
        self._closing.close()

    def __repr__(self) -> str:
        """Where it lies and who thinks."""
        return f"{type(self).__name__}({self._engine.location!r}, mode={self._engine.mode!r})"


class Memory(_Guest):
    """Mem0's `Memory`: the same method names, parameters and dicts, on our engine.

    Without a configuration it takes our settings: offline (rules in place of a model, hash embeddings), in the user's data
    directory. A key in the environment alone, like `OPENAI_API_KEY`, does not make it call anybody.

    The names are those of Mem0 (Chhikara et al. 2025, arXiv:2504.19413).

    Args:
        config: See `MemoryConfig`; for a dict there is `from_config`.

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

    add = planned(Calls.add, elsewhere=ELSEWHERE)
    search = planned(Calls.search, elsewhere=ELSEWHERE)
    get = planned(Calls.get)
    get_all = planned(Calls.get_all, elsewhere=ELSEWHERE)
    update = planned(Calls.update)
    delete = planned(Calls.delete)
    delete_all = planned(Calls.delete_all, elsewhere=ELSEWHERE)
    history = planned(Calls.history)
    reset = planned(Calls.reset)
    chat = planned(Calls.chat)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; an error of the `with` statement goes on, with a note of what closing met."""
        with self._closing:
            self._engine.__exit__(kind, error, trace)


class AsyncMemory(_Guest):
    """Mem0's `AsyncMemory`: `Memory` with methods to await; `close` blocks, as Mem0's does, `async with` does not.

    It is made as `Memory` is, with the same errors.

    Example:
        >>> import asyncio
        >>> async def main() -> str:
        ...     async with AsyncMemory.from_config({"history_db_path": ":memory:"}) as memory:
        ...         await memory.add("I live in Lyon.", user_id="alice")
        ...         return (await memory.search("Where does she live?", user_id="alice"))["results"][0]["memory"]
        >>> asyncio.run(main())
        'Lives in Lyon'
    """

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
        """Close; an error of the `with` statement goes on, with a note of what closing met."""
        with self._closing:
            await self._engine.__aexit__(kind, error, trace)


def _index(config: MemoryConfig, vectors: Embeddings | None, stack: ExitStack) -> IndexKind | VectorStore | None:
    """The index that `vector_store` names."""
    store = config.vector_store
    if store is None:
        return None
    if store.provider == "faiss" or store.url is not None:
        return "faiss" if store.url is None else "pgvector"
    settings = Settings()
    return open_store(store, vectors or resolve_embeddings(settings.embeddings, settings), stack)


def _claim(engine: Engine, config: MemoryConfig) -> None:
    """A database holds one collection: the first that is opened there."""
    store, database = config.vector_store, engine.parts.database
    if store is None or store.provider == "langchain":
        return
    held = engine.parts.reading(meta.get, _COLLECTION)
    if held is None:
        database.write(lambda connection: meta.put(connection, _COLLECTION, store.collection))
    elif held != store.collection:
        raise InvalidInputError(
            f"the database {engine.location} holds the collection {held!r}, not {store.collection!r}: name another database "
            "(history_db_path, or dbname)"
        )
