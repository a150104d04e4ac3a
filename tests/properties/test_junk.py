"""Whatever is given where something else is wanted: a typed error, or a result; never a raw one, and no file of that name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from langchain_core.messages import ChatMessage, HumanMessage
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, MatchCondition, SearchOp
from typer.testing import CliRunner

from langmem_adapter.adapters import mem0
from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.adapters.checkpointer import SQLAlchemySaver
from langmem_adapter.adapters.classic import ConversationMemory
from langmem_adapter.adapters.mem0 import MemoryConfig
from langmem_adapter.adapters.middleware import MemoryMiddleware
from langmem_adapter.adapters.nodes import experience_node, recall_node, remember_node
from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.cli.app import app
from langmem_adapter.cli.output import ExitCode
from langmem_adapter.conversation import ExperienceMemory, reflect
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.maintenance.reindex import reindex
from langmem_adapter.memory.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable

HUGE: Final = 10**5000  # Python itself refuses to write it
ODD: Final[list[Any]] = []
PARTS: Final[list[dict[str, Any]]] = [
    {"type": []},
    {"type": HUGE},
    {"type": "text", "text": HUGE},
    {"type": "image", "url": []},
]


def _changed(**fields: Any) -> HumanMessage:
    """A message whose fields were set after LangChain had checked them."""
    message = HumanMessage("Hi")
    for name, value in fields.items():
        setattr(message, name, value)
    return message


JUNK: Final[list[Any]] = [
    *(None, True, -1, 1, 2.5, float("nan"), HUGE, "x", "\x00", b"x", [], [HUGE], [[]], {"a": 1}, {1: 2}, object(), len),
    *(str, dict, "\ud800", 10**400),  # a class has the methods of what it makes, and no value to call them on
    *([{"role": "user", "content": [part]}] for part in PARTS),
    *({"role": "user", "content": "Hi", name: HUGE} for name in ("role", "name", "timestamp")),
    *({"role": "user", "content": "Hi", name: ODD} for name in ("role", "name", "timestamp")),
    *(
        [{"messages": "Hi", "user_id": "u", **odd}]
        for odd in ({"messages": HUGE}, {"messages": [ODD]}, {"timestamp": HUGE})
    ),
    *([{"memory_id": HUGE, "text": "x"}], [{"memory_id": "x", "text": ODD}], [{HUGE: 1}]),
    *(_changed(**{name: 5}) for name in ("content", "additional_kwargs", "name", "type")),
    *(
        _changed(content=[5]),
        ChatMessage(content="Hi", role="x").model_copy(update={"role": HUGE}),
        [["user", "Hi"]],
        [HumanMessage("Hi"), 1],
    ),
    *(([], "x"), {"a": {"b": HUGE}}, "9999-12-31", datetime.max.replace(tzinfo=UTC)),
]
NODE: Final[Any] = {"configurable": {"user_id": "u", "thread_id": "t", "checkpoint_id": "c"}}
NEEDED: Final = {
    "memory_ids": [],
    "items": [],
    "revision": 1,
    "config": NODE,
    "thread_ids": ["t"],
    "run_ids": ["r"],
    "channels": [],
    "namespace": ("a",),
    "namespace_prefix": ("a",),
    "value": {"a": 1},
    "ops": [],
    "refresh_ttl": None,
}


LIKE_JSON: Final[list[Any]] = [
    None, True, -1, 2.5, HUGE, "", "x", "~no-such-user/x", "\x00", "\ud800", [], ["a"], {}, {"a": 1},
]  # fmt: skip
SERVER: Final = {"model": "x", "api_key": "k", "openai_base_url": "http://127.0.0.1:9/v1"}
MEM0: Final[dict[str, Any]] = {  # each of them alone is right
    "history_db_path": ":memory:",
    "version": "v1.1",
    "custom_instructions": "x",
    "custom_update_memory_prompt": "x",
    "llm": {"provider": "openai", "config": {**SERVER, "temperature": 0, "max_tokens": 5, "enable_vision": False}},
    "embedder": {"provider": "openai", "config": {**SERVER, "embedding_dims": 8}},
    "vector_store": {"provider": "faiss", "config": {"path": "x", "collection_name": "x", "embedding_model_dims": 8}},
    "graph_store": {"provider": "sql", "config": {}},
    "reranker": {"provider": "langchain", "config": {"model": None}},
}


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


def _methods(whole: object) -> list[str]:
    names = [name for name in dir(type(whole)) if not name.startswith("_") and name != "close"]
    found = {name: inspect.getattr_static(type(whole), name) for name in names}
    return [name for name, it in found.items() if inspect.isfunction(it) and not inspect.iscoroutinefunction(it)]


@pytest.mark.parametrize("part", ["memory", "graph"])
def test_every_argument_of_every_method(
    memory: Memory, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a backup is written to a file of any name
    whole: Any = memory if part == "memory" else memory.graph
    _called_with_junk(whole, _methods(whole))


def _called_with_junk(whole: Any, methods: list[str]) -> None:
    for name in methods:
        method = getattr(whole, name)
        parameters = inspect.signature(method).parameters
        needed = {key: NEEDED.get(key, "x") for key, it in parameters.items() if it.default is it.empty}
        scope = {"user_id": "u"} if "user_id" in parameters else {}
        for argument in parameters:
            for junk in JUNK:
                given = {**needed, **scope, argument: junk}
                first = [given.pop(key) for key, it in parameters.items() if it.kind is it.POSITIONAL_ONLY]
                _refused_or_done(partial(method, *first), given, f"{name}({argument}=…)")


CALLS: Final[dict[str, Callable[[Memory, Any], Any]]] = {
    "recall": lambda memory, junk: memory.recall(user_id="u").invoke({"input": junk}),
    "recall alone": lambda memory, junk: memory.recall(user_id="u").invoke(junk),
    "recall key": lambda memory, junk: memory.recall(junk, user_id="u").invoke("Hi"),
    "recall length": lambda memory, junk: memory.recall(max_tokens=junk, user_id="u").invoke("Hi"),
    "middleware": lambda memory, junk: MemoryMiddleware(memory, max_tokens=junk),
    "pipeline": lambda memory, junk: memory.build_pipeline().invoke({"messages": junk, "scope": {"user_id": "u"}}),
    "pipeline items": lambda memory, junk: memory.build_pipeline().invoke({"items": junk, "scope": {"user_id": "u"}}),
    "hash": lambda _, junk: HashEmbeddings(junk),
    "reindex batch": lambda _, junk: reindex(":memory:", "hash:64", batch=junk),
    "mem0 config": lambda _, junk: MemoryConfig.parse(junk),
    "mem0 version": lambda _, junk: MemoryConfig.parse({"version": junk}),
    "mem0 history": lambda _, junk: MemoryConfig.parse({"history_db_path": junk}),
    "recall_node": lambda memory, junk: recall_node(memory).invoke({"messages": junk}, NODE),
    "recall_node state": lambda memory, junk: recall_node(memory).invoke(junk, NODE),
    "recall_node key": lambda memory, junk: recall_node(memory, messages_key=junk).invoke({"messages": "Hi"}, NODE),
    "remember_node": lambda memory, junk: remember_node(memory).invoke({"messages": junk}, NODE),
    "experience_node": lambda memory, junk: experience_node(ExperienceMemory(memory, user_id="u"), junk),
    "experiences judge": lambda memory, junk: ExperienceMemory(memory, user_id="u", judge=junk),
    "experiences serializer": lambda memory, junk: ExperienceMemory(memory, user_id="u", serializer=junk),
    "reflect": lambda memory, junk: reflect(memory, junk, user_id="u"),
    "retriever": lambda memory, junk: memory.as_retriever(user_id="u").invoke(junk),
    "retriever filters": lambda memory, junk: memory.as_retriever(user_id="u").invoke("Hi", filters=junk),
    "chain": lambda memory, junk: _chain(memory).load_memory_variables(junk),
    "chain input": lambda memory, junk: _chain(memory).save_context({"input": junk}, {"output": "Hi"}),
    "chain inputs": lambda memory, junk: _chain(memory).save_context(junk, {"output": "Hi"}),
    "chain outputs": lambda memory, junk: _chain(memory).save_context({"input": "Hi"}, junk),
    "chain k": lambda memory, junk: ConversationMemory(memory=memory, k=junk),
    "history": lambda memory, junk: SQLChatMessageHistory("s", memory).add_messages(junk),
    "history session": lambda memory, junk: SQLChatMessageHistory(junk, memory),
    "store index": lambda memory, junk: MemoryStore(memory, index=junk),
    "store fields": lambda memory, junk: MemoryStore(memory, index={"fields": junk}),
    "store ttl": lambda memory, junk: MemoryStore(memory, ttl=junk),
    "store default_ttl": lambda memory, junk: MemoryStore(memory, ttl={"default_ttl": junk}),
    "store get": lambda memory, junk: MemoryStore(memory).batch([GetOp(junk, "k")]),
    "store search": lambda memory, junk: MemoryStore(memory).batch([SearchOp(junk)]),
    "store list": lambda memory, junk: MemoryStore(memory).batch([ListNamespacesOp(junk)]),
    "store match": lambda memory, junk: MemoryStore(memory).batch(
        [ListNamespacesOp((MatchCondition("prefix", junk),))]
    ),
    "store matching": lambda memory, junk: MemoryStore(memory).batch(
        [ListNamespacesOp((MatchCondition(junk, ("a",)),))]
    ),
    "saver": lambda memory, junk: SQLAlchemySaver(memory).get_tuple({"configurable": {"thread_id": junk}}),
    "saver namespace": lambda memory, junk: SQLAlchemySaver(memory).get_tuple(
        {"configurable": {"thread_id": "t", "checkpoint_ns": junk, "checkpoint_id": junk}}
    ),
}


def _chain(memory: Memory) -> ConversationMemory:
    return ConversationMemory(memory=memory, user_id="u")


@pytest.mark.parametrize("name", CALLS)
def test_every_call_of_a_guest(memory: Memory, name: str) -> None:
    for junk in JUNK:
        _refused_or_done(lambda junk: CALLS[name](memory, junk), {"junk": junk}, name)


def test_every_argument_of_every_method_of_guests(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", ":memory:")
    with mem0.Memory() as door:
        _called_with_junk(door, ["add", "search", "get", "get_all", "update", "delete", "delete_all", "history"])
    _called_with_junk(ExperienceMemory(memory, user_id="u"), ["add", "query", "count", "delete_all"])
    _called_with_junk(MemoryStore(memory), ["get", "search", "put", "delete", "list_namespaces", "batch"])
    reading = ["get", "get_tuple", "list", "get_delta_channel_history"]
    _called_with_junk(SQLAlchemySaver(memory), [*reading, "delete_thread", "delete_for_runs", "copy_thread", "prune"])


async def test_the_twins_of_a_store_refuse_the_same(memory: Memory) -> None:
    store: Any = MemoryStore(memory)
    for call in (store.aget, store.adelete, partial(store.aput, value={"a": 1})):
        with pytest.raises(InvalidInputError, match="a key"):
            await call(("a",), HUGE)
    for search in (partial(store.asearch, 5), partial(store.alist_namespaces, prefix=5)):
        with pytest.raises(InvalidInputError, match="namespace"):
            await search()


def test_a_class_is_no_cursor(memory: Memory) -> None:
    pages: list[Any] = [memory.get_all, memory.graph.relations, memory.graph.entities]
    for page in pages:
        for after in (*["x"] * 20, str):  # CPython 3.11 ended the process: a call that met only texts, and then a class
            with pytest.raises(InvalidInputError, match="is no cursor of this list"):
                page(user_id="u", after=after)


def _refused_or_done(method: Any, arguments: dict[str, Any], called: str) -> None:
    try:
        ended = method(**arguments)
        ended = list(ended) if isinstance(ended, Iterator) else ended
    except (LangmemAdapterError, InvalidNamespaceError) as error:
        ended = len(str(error)) < 2_000 or pytest.fail(f"{called}: an error of {len(str(error))} letters")
    except Exception as error:
        raise AssertionError(called) from error
    for each in ended if isinstance(ended, list) else []:
        assert not isinstance(each, Exception) or isinstance(each, LangmemAdapterError)


@pytest.mark.parametrize(
    "argument", [name for name in inspect.signature(Memory).parameters if name not in {"model", "embeddings", "index"}]
)
def test_every_argument_of_a_memory(argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", ":memory:")
    for junk in JUNK:
        if not (argument == "database" and junk in ("x", "9999-12-31")):  # names of files
            _refused_or_done(lambda **given: Memory(**given).close(), {argument: junk}, argument)
    assert not any(tmp_path.iterdir())


def _spoilt(whole: Any, junk: object) -> Iterator[object]:
    """The junk in place of the whole, and of each part of it."""
    yield junk
    for key, part in whole.items() if isinstance(whole, dict) else ():
        yield from ({**whole, key: spoilt} for spoilt in _spoilt(part, junk))


@pytest.mark.parametrize("key", MEM0)
def test_every_part_of_a_configuration_of_mem0(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", ":memory:")
    for junk in LIKE_JSON:
        for spoilt in _spoilt(MEM0[key], junk):
            _refused_or_done(
                lambda **given: mem0.Memory.from_config(given).close(), {key: spoilt}, f"{key}={type(junk)}"
            )


@pytest.mark.parametrize(
    "where", ["~no-such-user/x.db", "loop", "loop/x.db", "x" * 300, "/".join(["x" * 200] * 30)], ids=[*"abcde"]
)
def test_a_file_that_cannot_be(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    with pytest.raises(LangmemAdapterError):
        Memory(where)
    assert CliRunner().invoke(app, ["list", "-u", "a", "-d", where]).exit_code in {
        ExitCode.CONFIGURATION,
        ExitCode.NOTHING_FOUND,
    }


def test_a_background_writer_takes_every_shape_of_a_message_that_a_memory_takes() -> None:
    said = [_Said("user", "I like tea."), ("user", "I like tea."), {"role": "user", "content": "I like tea."}]
    for message in (*said, *([each] for each in said), tuple(said)):
        with Memory(":memory:") as memory, memory.background(after=60) as writer:
            future = writer.add(message, user_id="a")
            writer.drain()
            told = [change.text for change in future.result(0).results]
            assert told == [change.text for change in memory.add(message, user_id="b").results] != []


@pytest.mark.parametrize(
    ("where", "fix"),
    [
        ({"llm": {"provider": "openai"}}, "adapters.mem0"),
        ({}, "adapters.mem0"),
        ("openai:gpt-5-mini", r"pass a model as model="),
        ("ollama:qwen3:8b", "pass a model as model="),
        ("hash:512", r"embeddings=…"),
    ],
)
def test_what_is_no_database_makes_no_file(
    where: Any, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=fix):
        Memory(where)
    assert not any(tmp_path.iterdir())


def test_a_guest_without_a_memory_says_so(memory: Memory) -> None:
    guests: list[Any] = [lambda: MemoryStore("x.db"), lambda: SQLChatMessageHistory(memory, "s")]  # type: ignore[arg-type]
    for guest in guests:
        with pytest.raises(InvalidInputError, match="takes a Memory as its memory, not '"):
            guest()


class _Said(NamedTuple):
    role: str
    content: str


class _Silent(HashEmbeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:  # noqa: ARG002 - it answers nothing
        return None  # type: ignore[return-value] # some do

    def embed_query(self, text: str) -> list[float]:  # noqa: ARG002 - the same
        return None  # type: ignore[return-value] # the same


def test_embeddings_that_return_nothing_are_named() -> None:
    with Memory(":memory:", embeddings=_Silent()) as silent:
        for call in (lambda: silent.add("I like tea.", user_id="u"), lambda: silent.search("tea", user_id="u")):
            with pytest.raises(InvalidInputError, match="the embedding model"):
                call()
