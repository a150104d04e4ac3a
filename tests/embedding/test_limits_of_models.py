"""Embedding models that take few texts a call, or short texts, and embeddings that call their own memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings

from langmem_adapter.embedding.embedder import Embedder
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.errors import InvalidInputError, ModelError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from tests.cases import each
from tests.openai_server import Failure, OpenAIServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODES = ["sync", "async"]
LONG = ("The flat in Lyon has a balcony. " * 262).strip()


async def call(memory: Memory, mode: str, method: str, *arguments: Any, **options: Any) -> Any:
    if mode == "sync":
        return getattr(memory, method)(*arguments, **options)
    return await getattr(memory, f"a{method}")(*arguments, **options)


def texts_of(body: dict[str, Any]) -> list[str]:
    return [body["input"]] if isinstance(body["input"], str) else body["input"]


def refusing(
    failure: Failure, *, texts: int = 10**9, letters: int = 10**9
) -> Callable[[dict[str, Any]], Failure | None]:
    """Refuse requests of more than so many texts, or with a text of more than so many letters."""

    def refuse(body: dict[str, Any]) -> Failure | None:
        sent = texts_of(body)
        return failure if len(sent) > texts or any(len(text) > letters for text in sent) else None

    return refuse


def opened(server: OpenAIServer, **settings: Any) -> Memory:
    return Memory(":memory:", embeddings="openai:any", settings=Settings(base_url=server.url, **settings))


def messages(count: int, start: int = 0) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"Owns boat number {number}"} for number in range(start, start + count)]


# ── texts of one call ────────────────────────────────────────────────────────────────────────────────────────────────

TOO_MANY = [
    Failure(
        400,
        "<400> InternalError.Algo.InvalidParameter: Value error, batch size is invalid, it should not be larger than 10.",
    ),
    Failure(413, "input batch size 40 > maximum allowed batch size 10"),
    Failure(422, "batch size 40 > maximum allowed batch size 10"),
    Failure(
        400,
        "Invalid 'input': array too long. Expected an array with maximum length 10, but got an array with length 40.",
    ),
    Failure(400, "invalid request"),
    Failure(429, "Request too large for text-embedding-3-small on tokens per min (TPM): Limit 40000, Requested 90000."),
]


@each("mode", MODES)
@each("failure", TOO_MANY)
async def test_an_add_of_more_texts_than_the_embeddings_server_takes_is_kept(failure: Failure, mode: str) -> None:
    with OpenAIServer(vectors=refusing(failure, texts=10)) as server, opened(server) as memory:
        result = await call(memory, mode, "add", messages(40), user_id="a", infer=False)
        assert len(result.results) == 40 and not any("letters" in note for note in result.notes)
        learning = [len(texts_of(request.body)) for request in server.requests]
        await call(memory, mode, "add", messages(25, 40), user_id="a", infer=False)
        later = [len(texts_of(request.body)) for request in server.requests][len(learning) :]
        assert memory.search("Owns boat number 7", user_id="a", k=1)[0].text == "Owns boat number 7"
    assert learning == [40, 1, 20, 1, 10, 10, 10, 10]
    assert later[:3] == [10, 10, 5]


@each(("batch", "sizes"), [(7, [7, 7, 6]), (256, [20])])
def test_embedding_batch_is_how_many_texts_a_call_has(batch: int, sizes: list[int]) -> None:
    with OpenAIServer() as server, opened(server, embedding_batch=batch) as memory:
        memory.add(messages(20), user_id="a", infer=False)
        assert [len(texts_of(request.body)) for request in server.requests][: len(sizes)] == sizes


def test_embedding_batch_is_a_positive_number() -> None:
    with pytest.raises(InvalidInputError, match="embedding_batch"):
        Settings(embedding_batch=0)


# ── letters of one text ──────────────────────────────────────────────────────────────────────────────────────────────

TOO_LONG = [
    Failure(400, "This model's maximum context length is 500 tokens, however you requested 2100 tokens."),
    Failure(400, "the input length exceeds the context length"),
    Failure(413, "Input validation error: `inputs` must have less than 512 tokens. Given: 2100"),
    Failure(
        500, "input (2100 tokens) is too large to process. increase the physical batch size (current batch size: 512)"
    ),
    Failure(422, "unprocessable"),
]


@each("mode", MODES)
@each("failure", TOO_LONG)
async def test_an_add_of_a_long_memory_is_embedded_by_its_first_part_with_a_note(failure: Failure, mode: str) -> None:
    said = [*messages(8), {"role": "user", "content": LONG}, *messages(11, 8)]
    with OpenAIServer(vectors=refusing(failure, letters=2_000)) as server, opened(server) as memory:
        result = await call(memory, mode, "add", said, user_id="a", infer=False)
        (note,) = [note for note in result.notes if "letters" in note]
        assert note.startswith("'The flat in Lyon has a balcony. The flat") and "has 8,383 letters" in note
        assert "takes the first 1,047" in note
        assert len(memory.get_all(user_id="a", k=30)) == 20
        expected = HashEmbeddings(64).vector(LONG[: len(LONG) // 8])
        assert np.allclose(memory.parts.embedder.vectors([LONG])[0], expected, atol=1e-6)
        before = len(server.requests)
        await call(memory, mode, "add", messages(40, 50), user_id="a", infer=False)
        assert len(texts_of(server.requests[before].body)) == 40  # one long text made no call smaller


@each("mode", MODES)
@each("failure", TOO_LONG)
async def test_a_search_with_a_long_query_finds_by_its_first_part(failure: Failure, mode: str) -> None:
    with OpenAIServer(vectors=refusing(failure, letters=2_000)) as server, opened(server) as memory:
        memory.add("The flat in Lyon has a balcony.", user_id="a", infer=False)
        (hit,) = await call(memory, mode, "search", LONG, user_id="a")
        assert hit.text == "The flat in Lyon has a balcony."


class Narrow(Embeddings):
    """A model in this process, with limits of its own."""

    def __init__(self, texts: int, letters: int, error: Callable[[str], Exception] = ValueError) -> None:
        self.texts, self.letters, self.error = texts, letters, error
        self.calls: list[int] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(len(texts))
        longest = max(map(len, texts))
        if len(texts) > self.texts:
            raise self.error(f"at most {self.texts} texts are allowed, not {len(texts)}")
        if longest > self.letters:
            raise self.error(f"the text has {longest // 4} tokens, this model takes {self.letters // 4}")
        return HashEmbeddings(64).embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@each("mode", MODES)
@each("error", [ValueError, RuntimeError])
async def test_search_and_add_work_with_a_model_of_ones_own_that_raises_for_long_texts(
    mode: str, error: type[Exception]
) -> None:
    with Memory(":memory:", embeddings=Narrow(10, 2_000, error)) as memory:
        result = await call(
            memory, mode, "add", [*messages(12), {"role": "user", "content": LONG}], user_id="a", infer=False
        )
        assert len(result.results) == 13 and any("has 8,383 letters" in note for note in result.notes)
        assert await call(memory, mode, "search", LONG, user_id="a")


@given(
    st.lists(st.integers(1, 3_000), min_size=1, max_size=40), st.integers(1, 12), st.integers(200, 3_000), st.booleans()
)
def test_vectors_of_any_texts_come_from_a_model_of_any_limits(
    lengths: list[int],
    texts: int,
    letters: int,
    anew: bool,  # noqa: FBT001 - a drawn value
) -> None:
    model = Narrow(texts, letters)
    embedder = Embedder(model, dimensions=None)
    every = [f"{number} {'tea and biscuits ' * 200}"[: length + 3] for number, length in enumerate(lengths)]
    for _ in range(1 + anew):
        vectors = embedder.vectors(every)
        embedder.forget() if anew else None
    parts = [text if len(text) <= letters else text[: _fitting(text, letters)] for text in every]
    assert np.allclose(vectors, HashEmbeddings(64).embed_documents(parts), atol=1e-6)
    assert len(model.calls) <= (1 + anew) * 16 * len(every)


def _fitting(text: str, letters: int) -> int:
    length = len(text) // 2
    while length > letters:
        length //= 2
    return length


# ── errors that are about something else ─────────────────────────────────────────────────────────────────────────────

OTHERS = [Failure(400, "no such model"), Failure(422, "max tokens of the model: none")]


@each("mode", MODES)
@each("failure", OTHERS)
@each(
    ("method", "given", "requests"),
    [
        ("add", "I live in Rome.", 1),
        ("add", messages(40), 2),
        ("add", LONG, 2),
        ("search", "Rome", 1),
        ("search", LONG, 2),
    ],
)
async def test_an_add_or_search_that_is_refused_for_another_reason_ends_after_two_calls(
    method: str, given: Any, requests: int, failure: Failure, mode: str
) -> None:
    with OpenAIServer() as server, opened(server) as memory:
        memory.add("I live in Lyon.", user_id="a")
        memory.search("Lyon", user_id="a")  # the scale is found
        server.vectors, before = failure, len(server.requests)
        options = {"infer": False} if method == "add" else {}
        with pytest.raises(ModelError, match=failure.message) as caught:
            await call(memory, mode, method, given, user_id="a", **options)
        assert (caught.value.status, len(server.requests) - before) == (failure.status, requests)


# ── embeddings that call their memory ────────────────────────────────────────────────────────────────────────────────


class Calling(Embeddings):
    """Embeddings that do something with a memory when they are called."""

    fingerprint = "hash:64/2"

    def __init__(self) -> None:
        self.act: Callable[[], object] | None = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.act is not None:
            self.act()
        return HashEmbeddings(64).embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class CallingAsync(Calling):
    """The same, on the event loop."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.act is not None:
            done = self.act()
            if asyncio.iscoroutine(done):
                await done
        return HashEmbeddings(64).embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return (await self.aembed_documents([text]))[0]


def _ids(memory: Memory) -> str:
    return memory.get_all(user_id="a")[0].id


ACTS: list[tuple[str, Callable[[Memory], object]]] = [
    ("search", lambda memory: memory.search("tea", user_id="a")),
    ("add", lambda memory: memory.add("I like cocoa.", user_id="a")),
    ("update", lambda memory: memory.update(_ids(memory), "Likes cocoa", user_id="a")),
    ("asearch", lambda memory: asyncio.run(memory.asearch("tea", user_id="a"))),
]


@each("mode", MODES)
@each("outer", ["add", "search"])
@each(("name", "act"), ACTS)
async def test_embeddings_that_call_their_memory_get_an_error_at_once(
    name: str, act: Callable[[Memory], object], outer: str, mode: str
) -> None:
    embeddings = Calling()
    with Memory(":memory:", embeddings=embeddings, settings=Settings(model_timeout=3_600)) as memory:
        memory.add("I like tea.", user_id="a")
        embeddings.act = lambda: act(memory)
        with pytest.raises(InvalidInputError, match="these embeddings call the Memory"):
            await call(memory, mode, outer, f"I like {name}.", user_id="a")


@each("outer", ["aadd", "asearch"])
async def test_async_embeddings_that_call_their_memory_get_an_error_at_once(outer: str) -> None:
    embeddings = CallingAsync()
    async with Memory(":memory:", embeddings=embeddings, settings=Settings(model_timeout=3_600)) as memory:
        await memory.aadd("I like tea.", user_id="a")
        embeddings.act = lambda: memory.asearch("tea", user_id="a")
        with pytest.raises(InvalidInputError, match="these embeddings call the Memory"):
            await getattr(memory, outer)("I like cocoa.", user_id="a")


@each("mode", MODES)
async def test_embeddings_may_call_another_memory_and_read_their_own(mode: str, tmp_path: Path) -> None:
    embeddings, path = Calling(), tmp_path / f"{mode}.db"
    with Memory(path, embeddings=embeddings) as memory, Memory(path, embeddings="hash:64") as other:
        other.add("I like tea.", user_id="b")
        found: list[Any] = []
        embeddings.act = lambda: found.append([other.search("tea", user_id="b"), memory.get_all(user_id="a")])
        await call(memory, mode, "add", "I like cocoa.", user_id="a")
        assert found[0][0][0].text == "Likes tea" and memory.get_all(user_id="a")


async def test_a_task_that_outlives_the_call_of_the_embeddings_may_search_again() -> None:
    embeddings, tasks, over = CallingAsync(), list[asyncio.Task[Any]](), asyncio.Event()
    async with Memory(":memory:", embeddings=embeddings) as memory:
        await memory.aadd("I like tea.", user_id="a")

        async def search() -> Any:
            await over.wait()
            return await memory.asearch("tea", user_id="a")

        def start() -> None:
            tasks.append(asyncio.create_task(search()))

        embeddings.act = start
        await memory.aadd("I like cocoa.", user_id="a")
        embeddings.act = None
        over.set()
        for hits in await asyncio.gather(*tasks):
            assert hits
