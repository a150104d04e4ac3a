"""Whatever is given where something else is wanted: a typed error, or a result; never a raw one, and no file of that name."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
from langchain_core.messages import ChatMessage, HumanMessage

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.embedding.hashing import HashEmbeddings
from langmem_adapter.errors import InvalidInputError, LangmemAdapterError
from langmem_adapter.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
        ChatMessage("Hi", role="x").model_copy(update={"role": HUGE}),
        [["user", "Hi"]],
        [HumanMessage("Hi"), 1],
    ),
    *(([], "x"), {"a": {"b": HUGE}}, "9999-12-31", datetime.max.replace(tzinfo=UTC)),
]
NEEDED: Final = {"memory_ids": [], "items": [], "revision": 1}


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        yield opened


def _methods(whole: object) -> list[str]:
    names = [name for name in dir(type(whole)) if not name.startswith("_") and name != "close"]
    found = {name: inspect.getattr_static(type(whole), name) for name in names}
    return [name for name, it in found.items() if inspect.isfunction(it) and not inspect.iscoroutinefunction(it)]


@pytest.mark.parametrize("part", ["memory", "graph"])
def test_every_argument_of_every_method(memory: Memory, part: str) -> None:
    whole: Any = memory if part == "memory" else memory.graph
    for name in _methods(whole):
        method = getattr(whole, name)
        parameters = inspect.signature(method).parameters
        needed = {key: NEEDED.get(key, "x") for key, it in parameters.items() if it.default is it.empty}
        scope = {"user_id": "u"} if "user_id" in parameters else {}
        for argument in parameters:
            for junk in JUNK:
                _refused_or_done(method, {**needed, **scope, argument: junk}, f"{name}({argument}=…)")


def test_a_class_is_no_cursor(memory: Memory) -> None:
    pages: list[Any] = [memory.get_all, memory.graph.relations, memory.graph.entities]
    for page in pages:
        for after in (*["x"] * 20, str):  # CPython 3.11 ended the process: a call that met only texts, and then a class
            with pytest.raises(InvalidInputError, match="is no cursor of ours"):
                page(user_id="u", after=after)


def _refused_or_done(method: Any, arguments: dict[str, Any], called: str) -> None:
    try:
        ended = method(**arguments)
    except LangmemAdapterError as error:
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


@pytest.mark.parametrize(
    ("where", "fix"),
    [
        ({"llm": {"provider": "openai"}}, "adapters.mem0"),
        ({}, "adapters.mem0"),
        ("openai:gpt-5-mini", r"write Memory\(model='openai:gpt-5-mini'\)"),
        ("ollama:qwen3:8b", "write Memory"),
        ("hash:512", r"write Memory\(embeddings='hash:512'\)"),
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
