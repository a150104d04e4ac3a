"""How long a model may take and how often it is asked: nothing hangs, nothing is counted twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import httpx
import openai
import pytest
import requests
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_openai import ChatOpenAI

from langmem_adapter.errors import ModelTimeoutError
from langmem_adapter.limits import Limits, asked_of, is_passing, status_of
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from langmem_adapter.testing import ScriptedChatModel
from langmem_adapter.twins import beside
from tests.cases import each
from tests.openai_server import Failure, OpenAIServer, Stalled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FACTS = '{"facts": ["Lives in Rome"]}'
QUOTA = Failure(429, "insufficient_quota: You exceeded your current quota, please check your plan and billing details.")
IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/cat.png"}}]}
SHORT = 0.3


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """Set when the test is over; what waits for it goes on then, and has ended when the next test begins."""
    event = threading.Event()
    yield event
    event.set()
    ended()


def ended() -> None:
    """Wait until what was left behind has come back."""
    for thread in threading.enumerate():
        if thread.name == "langmem_adapter":
            thread.join()


async def call(memory: Memory, mode: str, method: str, *arguments: Any, **options: Any) -> Any:
    if mode == "sync":
        return getattr(memory, method)(*arguments, **options)
    return await getattr(memory, f"a{method}")(*arguments, **options)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("part", ["model", "embeddings"])
async def test_a_server_that_stops_half_way_ends_the_add(part: str, mode: str, held: threading.Event) -> None:
    stalled = Stalled(held)
    with OpenAIServer(lambda _: stalled, vectors=stalled) as server:
        settings = Settings(base_url=server.url, model_timeout=SHORT)
        with Memory(":memory:", **{part: "openai:slow"}, settings=settings) as memory:  # type: ignore[arg-type]
            with pytest.raises(ModelTimeoutError, match=f"openai:slow at {server.url} did not answer"):
                await call(memory, mode, "add", "I live in Rome.", user_id="a")
            assert memory.stats().changes == 0
        held.set()


HANGING: list[tuple[str, list[str], Any, dict[str, Any]]] = [
    ("extract", [], "I live in Rome.", {}),
    ("repair", ["no JSON"], "I live in Rome.", {}),
    ("decide", [FACTS, '{"facts": ["Lives in Oslo"]}'], "I live in Oslo.", {}),
    ("record", [], "I opened the page.", {"agent_id": "b", "memory_type": "procedural_memory"}),
    ("describe", [], [IMAGE], {}),
]


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(("replies", "said", "how"), [pytest.param(*row[1:], id=row[0]) for row in HANGING])
async def test_a_model_of_ones_own_is_left_behind_and_its_late_answer_changes_nothing(
    mode: str, replies: list[str], said: Any, how: dict[str, Any], held: threading.Event
) -> None:
    def late(_: object) -> str:
        held.wait()
        return FACTS

    model = ScriptedChatModel(replies=[*replies, late])
    with Memory(":memory:", model=model, vision=True, settings=Settings(model_timeout=SHORT)) as memory:
        if replies == HANGING[2][1]:
            memory.add("I live in Rome.", user_id="a")
        before = memory.stats().changes
        with pytest.raises(ModelTimeoutError, match="ScriptedChatModel scripted did not answer"):
            await call(memory, mode, "add", said, user_id="a", **how)
        held.set()
        ended()
        assert memory.stats().changes == before
        assert len(model.calls) == len(replies) + 1


class Stuck(Embeddings):
    """Embeddings that do not answer before they are let go."""

    def __init__(self, held: threading.Event) -> None:
        self._held = held

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self._held.wait()
        return [[1.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_embeddings_of_ones_own_are_left_behind(mode: str, held: threading.Event) -> None:
    with Memory(":memory:", embeddings=Stuck(held), settings=Settings(model_timeout=SHORT)) as memory:
        with pytest.raises(ModelTimeoutError, match="Stuck"):
            await call(memory, mode, "add", "I live in Rome.", user_id="a")
        with pytest.raises(ModelTimeoutError, match="Stuck"):
            await call(memory, mode, "search", "Rome", user_id="a")
        assert memory.stats().changes == 0


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_model_that_has_run_out_of_answers_is_no_model_that_is_slow(mode: str) -> None:
    model = GenericFakeChatModel(messages=iter([]))
    with Memory(":memory:", model=model, settings=Settings(model_timeout=SHORT)) as memory:
        with pytest.raises(RuntimeError, match="StopIteration was raised") as caught:
            await call(memory, mode, "add", "I live in Rome.", user_id="a")
        assert asked_of(caught.value) is not None
        assert memory.stats().changes == 0


async def test_many_that_hang_leave_the_executor_of_the_loop_free(held: threading.Event) -> None:
    model = ScriptedChatModel(replies=[lambda _: str(held.wait())] * 40)
    async with Memory(":memory:", model=model, settings=Settings(model_timeout=SHORT)) as memory:
        adds = (memory.aadd("I live in Rome.", user_id=str(number)) for number in range(40))
        assert {type(end) for end in await asyncio.gather(*adds, return_exceptions=True)} == {ModelTimeoutError}
        assert await beside(held.is_set) is False


def test_what_was_left_behind_asks_nobody_again(held: threading.Event) -> None:
    calls = []

    def lost() -> None:
        calls.append(1)
        held.wait()
        raise ConnectionError

    with pytest.raises(ModelTimeoutError):
        Limits(timeout=0.05).plan(lost).run()
    held.set()
    ended()
    assert len(calls) == 1


_PROGRAM = """
import asyncio, threading
from langmem_adapter import Memory, ModelTimeoutError, Settings
from langmem_adapter.testing import ScriptedChatModel

memory = Memory(":memory:", model=ScriptedChatModel(replies=[lambda _: threading.Event().wait()] * 2),
                settings=Settings(model_timeout=0.1))
try:
    memory.add("I live in Rome.", user_id="a")
except ModelTimeoutError:
    print("sync")
try:
    asyncio.run(memory.aadd("I live in Rome.", user_id="a"))
except ModelTimeoutError:
    print("async")
"""


def test_a_model_that_never_answers_keeps_no_interpreter_from_ending() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False, timeout=100)
    assert (done.stdout, done.returncode) == ("sync\nasync\n", 0), done.stderr


# ── repeats ──────────────────────────────────────────────────────────────────────────────────────────────────────────

ASKED = [*((Failure(status), 3) for status in (408, 409, 429, 500, 503, 529))]
ASKED += [*((Failure(status), 1) for status in (400, 401, 403, 404, 422, 501)), (QUOTA, 1)]


@each("part", ["model", "embeddings"])
@each(("failure", "requests"), ASKED)
def test_only_what_may_pass_is_asked_again_and_at_most_twice(part: str, failure: Failure, requests: int) -> None:
    with OpenAIServer(lambda _: failure, vectors=failure) as server:
        settings = Settings(base_url=server.url)
        with Memory(":memory:", **{part: "openai:any"}, settings=settings) as memory:  # type: ignore[arg-type]
            with pytest.raises(openai.APIStatusError) as caught:
                memory.add("I live in Rome.", user_id="a")
            assert memory.stats().changes == 0
        assert asked_of(caught.value) == f"openai:any at {server.url}"
        assert len(server.requests) == requests


@pytest.mark.parametrize("get", [httpx.get, requests.get, urlopen])
def test_a_lost_connection_passes_whatever_client_lost_it(get: Callable[[str], object]) -> None:
    with pytest.raises(Exception, match="refused") as caught:
        get("http://127.0.0.1:9/")
    assert is_passing(caught.value)


def test_a_number_that_is_no_http_status_is_none() -> None:
    for code, status, passing in ((1006, None, False), (399, None, False), (503, 503, True), (404, 404, False)):
        error = Exception()
        error.code = code  # type: ignore[attr-defined]
        assert (status_of(error), is_passing(error)) == (status, passing)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("retries", [0, 1])
async def test_the_number_of_repeats_is_a_setting(retries: int, mode: str) -> None:
    with OpenAIServer(lambda _: 503) as server:
        settings = Settings(base_url=server.url, model_retries=retries)
        with Memory(":memory:", model="openai:any", settings=settings) as memory, pytest.raises(openai.APIStatusError):
            await call(memory, mode, "add", "I live in Rome.", user_id="a")
        assert len(server.requests) == 1 + retries


def test_a_client_that_repeats_by_itself_is_left_to_it() -> None:
    with OpenAIServer(lambda _: 503) as server:
        model = ChatOpenAI(model="any", base_url=server.url, api_key="none", max_retries=1)  # type: ignore[arg-type]
        with Memory(":memory:", model=model) as memory, pytest.raises(openai.APIStatusError):
            memory.add("I live in Rome.", user_id="a")
        assert len(server.requests) == 2


def test_a_server_that_wants_to_be_left_alone_for_longer_than_there_is_time_is_left_alone() -> None:
    with OpenAIServer(lambda _: Failure(429, headers={"retry-after": "3600"})) as server:
        with (
            Memory(":memory:", model="openai:any", settings=at(server)) as memory,
            pytest.raises(openai.RateLimitError),
        ):
            memory.add("I live in Rome.", user_id="a")
        assert len(server.requests) == 1


def test_a_failure_of_one_conversation_does_not_ask_for_the_others_again() -> None:
    failures = [503]

    def serve(body: dict[str, Any]) -> Any:
        return failures.pop() if failures and "Oslo" in str(body) else {"facts": []}

    with OpenAIServer(serve) as server, Memory(":memory:", model="openai:any", settings=at(server)) as memory:
        memory.add_many([{"messages": f"I live in {city}.", "user_id": "a"} for city in ("Rome", "Oslo", "Bern")])
        asked = [str(request.body) for request in server.requests]
        assert [sum(city in body for body in asked) for city in ("Rome", "Oslo", "Bern")] == [1, 2, 1]


def at(server: OpenAIServer) -> Settings:
    return Settings(base_url=server.url)
