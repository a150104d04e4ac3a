"""`Memory` and `AsyncMemory`: the same plans, called and awaited."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Self

from langmem_adapter.adapters.mem0.calls import Calls
from langmem_adapter.adapters.mem0.config import MemoryConfig
from langmem_adapter.adapters.mem0.models import chat_model, embeddings, reranker, vision
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.memory.memory import Memory as Engine
from langmem_adapter.mirror.background import Following
from langmem_adapter.twins import awaited, planned

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from types import TracebackType

__all__ = ["AsyncMemory", "Memory"]

_SHAPE: Final = "the shape of results is version in the configuration, 'v1.0' or 'v1.1'"
_ELSEWHERE: Final = {
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
        self.reranker = reranker(self.config.reranker)
        self._engine = _open(self.config)
        _follow(self._engine, self.config)

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

    def close(self) -> None:
        """Write what waits and the index's files, and close every connection; the object is of no use afterwards.

        A graph server (`graph_store`) is brought up to date before, unless it is away or takes longer than a few seconds.
        """
        self._engine.close()

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

    add = planned(Calls.add, elsewhere=_ELSEWHERE)
    search = planned(Calls.search, elsewhere=_ELSEWHERE)
    get = planned(Calls.get)
    get_all = planned(Calls.get_all, elsewhere=_ELSEWHERE)
    update = planned(Calls.update)
    delete = planned(Calls.delete)
    delete_all = planned(Calls.delete_all, elsewhere=_ELSEWHERE)
    history = planned(Calls.history)
    reset = planned(Calls.reset)
    chat = planned(Calls.chat)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; an error of the `with` statement goes on, with a note of what closing met."""
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

    add = awaited(Memory.add, name="add", elsewhere=_ELSEWHERE)
    search = awaited(Memory.search, name="search", elsewhere=_ELSEWHERE)
    get = awaited(Memory.get, name="get")
    get_all = awaited(Memory.get_all, name="get_all", elsewhere=_ELSEWHERE)
    update = awaited(Memory.update, name="update")
    delete = awaited(Memory.delete, name="delete")
    delete_all = awaited(Memory.delete_all, name="delete_all", elsewhere=_ELSEWHERE)
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
        await self._engine.__aexit__(kind, error, trace)


def _open(config: MemoryConfig) -> Engine:
    return Engine(
        config.database,
        model=None if config.llm is None else chat_model(config.llm),
        embeddings=None if config.embedder is None else embeddings(config.embedder),
        graph=None if config.graph is None else True,
        graph_prompt=None if config.graph is None else config.graph.prompt,
        fact_extraction_prompt=config.custom_fact_extraction_prompt,
        update_memory_prompt=config.custom_update_memory_prompt,
        vision=vision(config.llm),
    )


def _follow(engine: Engine, config: MemoryConfig) -> None:
    """Show the graph in the graph server of the configuration, in the background."""
    if config.graph is None or config.graph.server is None:
        return
    with ExitStack() as undo:
        undo.callback(engine.close)
        mirror = engine.graph.mirror(**config.graph.server, embeddings=True)
        engine.parts.writers.add(Following(mirror))
        undo.pop_all()
