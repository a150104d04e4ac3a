"""How long a model may take and how often it is asked: nothing hangs, nothing is counted twice."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import httpx
import pytest
import requests
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from langmem_adapter.errors import ModelError, ModelTimeoutError, ModelUnreachableError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.providers import Limits, is_passing, status_of
from langmem_adapter.settings import Settings
from langmem_adapter.testing import ScriptedChatModel
from langmem_adapter.twins import run_in_executor
from tests.cases import each
from tests.openai_server import Failure, OpenAIServer, Page, Stalled

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


RECORD = {"agent_id": "b", "memory_type": "procedural_memory"}
HANGING: list[Any] = [
    pytest.param("sync", [], "I live in Rome.", {}, id="extract"),
    pytest.param("async", [], "I live in Rome.", {}, id="extract async"),
    pytest.param("async", ["no JSON"], "I live in Rome.", {}, id="repair"),
    pytest.param("sync", [FACTS, '{"facts": ["Lives in Oslo"]}'], "I live in Oslo.", {}, id="decide"),
    pytest.param("async", [], "I opened the page.", RECORD, id="record"),
    pytest.param("sync", [], [IMAGE], {}, id="describe"),
]


@pytest.mark.parametrize(("mode", "replies", "said", "how"), HANGING)
async def test_a_model_of_ones_own_is_left_behind_and_its_late_answer_changes_nothing(
    mode: str, replies: list[str], said: Any, how: dict[str, Any], held: threading.Event
) -> None:
    def late(_: object) -> str:
        held.wait()
        return FACTS

    model = ScriptedChatModel(replies=[*replies, late])
    with Memory(":memory:", model=model, vision=True, settings=Settings(model_timeout=SHORT)) as memory:
        if FACTS in replies:
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
        with pytest.raises(ModelError, match="GenericFakeChatModel failed: StopIteration"):
            await call(memory, mode, "add", "I live in Rome.", user_id="a")
        assert memory.stats().changes == 0


async def test_many_that_hang_leave_the_executor_of_the_loop_free(held: threading.Event) -> None:
    model = ScriptedChatModel(replies=[lambda _: str(held.wait())] * 40)
    async with Memory(":memory:", model=model, settings=Settings(model_timeout=SHORT)) as memory:
        adds = (memory.aadd("I live in Rome.", user_id=str(number)) for number in range(40))
        assert {type(end) for end in await asyncio.gather(*adds, return_exceptions=True)} == {ModelTimeoutError}
        assert await run_in_executor(held.is_set) is False


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
            with pytest.raises(ModelError, match=f"^openai:any at {server.url} answered {failure.status}: ") as caught:
                memory.add("I live in Rome.", user_id="a")
            assert memory.stats().changes == 0
        assert (caught.value.status, caught.value.transient) == (failure.status, requests > 1)
        assert len(server.requests) == requests


NOWHERE = "http://127.0.0.1:9/v1"
UNKNOWN = "http://no-such-host.invalid/v1"
FAILURES: list[tuple[Failure | Page | str, type[ModelError], int | None, bool, str]] = [
    (NOWHERE, ModelUnreachableError, None, True, "cannot be reached: .*; is the server running"),
    (UNKNOWN, ModelUnreachableError, None, True, "cannot be reached: .*; is the server running"),
    (Failure(401), ModelError, 401, False, "answered 401: .*scripted failure.*; check the key"),
    (Failure(403), ModelError, 403, False, "answered 403: .*; check the key"),
    (Failure(404), ModelError, 404, False, "answered 404: .*; check the name of the model"),
    (Failure(429), ModelError, 429, True, "answered 429: .*; .*try again later"),
    (QUOTA, ModelError, 429, False, "answered 429: .*; the account is used up"),
    (Failure(500), ModelError, 500, True, "answered 500: .*; .*try again later"),
    (Failure(503), ModelError, 503, True, "answered 503: .*; .*try again later"),
    (Page(), ModelError, None, False, "gave no answer that can be read: .*; is it HTML"),
]


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("part", ["model", "embeddings"])
@each(("failure", "kind", "status", "transient", "words"), FAILURES)
async def test_each_failure_of_a_provider_is_a_model_error(
    part: str,
    mode: str,
    failure: Failure | Page | str,
    kind: type[ModelError],
    status: int | None,
    transient: bool,  # noqa: FBT001 - a column of the table
    words: str,
) -> None:
    wrong = Failure(418) if isinstance(failure, str) else failure
    with OpenAIServer(lambda _: wrong, vectors=wrong) as server:
        address = failure if isinstance(failure, str) else server.url
        settings = Settings(base_url=address, model_retries=0)
        with Memory(":memory:", **{part: "openai:any"}, settings=settings) as memory:  # type: ignore[arg-type]
            with pytest.raises(ModelError, match=f"^openai:any at {address} {words}") as caught:
                await call(memory, mode, "add", "I live in Rome.", user_id="a")
            assert memory.stats().changes == 0
    assert (type(caught.value), caught.value.status, caught.value.transient) == (kind, status, transient)
    assert str(caught.value).startswith(caught.value.brief) and "scripted" not in caught.value.brief
    assert isinstance(caught.value.__cause__, Exception)


@each("part", ["model", "embeddings"])
async def test_a_model_error_does_not_repeat_the_api_key(part: str) -> None:
    key = "sk-very-long-and-secret"
    wrong = Failure(401, f"Incorrect API key provided: {key}. Find yours.")
    with OpenAIServer(lambda _: wrong, vectors=wrong) as server:
        settings = Settings(base_url=server.url, api_key=SecretStr(key))
        memory = Memory(":memory:", **{part: "openai:any"}, settings=settings)  # type: ignore[arg-type]
        with memory, pytest.raises(ModelError, match=r"Incorrect API key provided: \*\*\*\. Find") as caught:
            await memory.aadd("I live in Rome.", user_id="a")
    assert key not in str(caught.value) and key not in caught.value.brief


class BusyError(Exception):
    """A failure of a client that has neither a status nor a cause."""


@each(
    ("error", "kind", "transient"),
    [
        (TimeoutError("slow"), ModelTimeoutError, True),
        (httpx.ReadTimeout("slow"), ModelTimeoutError, True),
        (httpx.ConnectTimeout("slow"), ModelTimeoutError, True),
        (ConnectionResetError("gone"), ModelUnreachableError, True),
        (httpx.ConnectError("refused"), ModelUnreachableError, True),
        (httpx.RemoteProtocolError("ended"), ModelUnreachableError, True),
        (socket.gaierror(-2, "Name or service not known"), ModelUnreachableError, True),
        (ssl.SSLCertVerificationError("self-signed"), ModelUnreachableError, False),
        (requests.ConnectionError("refused"), ModelUnreachableError, False),
        (BusyError("no"), ModelError, False),
        (KeyError("data"), ModelError, False),
    ],
)
def test_an_error_of_any_client_is_a_model_error_of_its_kind(
    error: Exception,
    kind: type[ModelError],
    transient: bool,  # noqa: FBT001 - a column of the table
) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(ModelError) as caught:
        Limits("vendor:any", retries=0).plan(fail).run()
    assert (type(caught.value), caught.value.transient, caught.value.__cause__) == (kind, transient, error)


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


@each(("mode", "retries"), [("sync", 0), ("async", 1)])
async def test_the_number_of_repeats_is_a_setting(retries: int, mode: str) -> None:
    with OpenAIServer(lambda _: 503) as server:
        settings = Settings(base_url=server.url, model_retries=retries)
        with Memory(":memory:", model="openai:any", settings=settings) as memory, pytest.raises(ModelError):
            await call(memory, mode, "add", "I live in Rome.", user_id="a")
        assert len(server.requests) == 1 + retries


def test_a_client_that_repeats_by_itself_is_left_to_it() -> None:
    with OpenAIServer(lambda _: 503) as server:
        model = ChatOpenAI(model="any", base_url=server.url, api_key="none", max_retries=1)  # type: ignore[arg-type]
        with Memory(":memory:", model=model) as memory, pytest.raises(ModelError):
            memory.add("I live in Rome.", user_id="a")
        assert len(server.requests) == 2


@each("pause", ["3600", format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)])
def test_a_retry_after_of_longer_than_there_is_time_is_respected(pause: str) -> None:
    with OpenAIServer(lambda _: Failure(429, headers={"retry-after": pause})) as server:
        with (
            Memory(":memory:", model="openai:any", settings=at(server)) as memory,
            pytest.raises(ModelError),
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
