"""The background writer: messages are taken at once and remembered once a thread falls quiet."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.errors import InvalidInputError, ScopeError
from langmem_adapter.memory import Memory
from langmem_adapter.testing.fakes import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m.db") as opened:
        yield opened


def texts(memory: Memory, **scope: Any) -> set[str]:
    return {item.text for item in memory.get_all(**scope)}


def test_what_is_said_in_one_breath_is_one_conversation(memory: Memory) -> None:
    with memory.background(after=60) as writer:
        futures = [
            writer.add(text, user_id="d") for text in ("I have a sister.", "Her name is Jesica.", "She has a dog.")
        ]
        other = writer.add("I like tea.", user_id="e")
        assert texts(memory, user_id="d") == set()
    assert texts(memory, user_id="d") == {"Has a sister named Jesica", "Jesica has a dog"}
    assert {future.result(timeout=1).trace_id for future in futures} == {futures[0].result().trace_id}
    assert other.result(timeout=1).results[0].text == "Likes tea"


def test_it_runs_by_itself_after_the_quiet(memory: Memory) -> None:
    writer = memory.background(after=0.01)
    assert writer.add("I like tea.", user_id="a").result(timeout=20).results[0].event == "ADD"
    writer.close()


def test_a_thread_that_never_falls_quiet_is_written_all_the_same(memory: Memory) -> None:
    with memory.background(after=30, at_most=30) as slow, memory.background(after=0.2, at_most=0.3) as writer:
        first = writer.add("I like tea.", user_id="a")
        for _ in range(40):
            writer.add("hm", user_id="a")
            if first.done():
                break
            threading.Event().wait(0.1)
        assert first.done()
        slow.add("I like milk.", user_id="b")


def test_different_options_are_different_conversations(memory: Memory) -> None:
    with memory.background(after=60) as writer:
        one = writer.add("I like tea.", user_id="a", metadata={"n": 1})
        two = writer.add("I like milk.", user_id="a", metadata={"n": 2})
    assert one.result().trace_id != two.result().trace_id
    assert {item.text: item.metadata["n"] for item in memory.get_all(user_id="a")} == {"Likes tea": 1, "Likes milk": 2}


def test_bad_input_is_refused_at_once(memory: Memory) -> None:
    with memory.background(after=60) as writer:
        with pytest.raises(ScopeError):
            writer.add("I like tea.")
        with pytest.raises(InvalidInputError):
            writer.add("", user_id="a")
        with pytest.raises(InvalidInputError, match="idempotency_key"):
            writer.add("I like tea.", user_id="a", idempotency_key="x")
    with pytest.raises(InvalidInputError, match="closed"):
        writer.add("I like tea.", user_id="a")
    with pytest.raises(InvalidInputError):
        memory.background(after=-1)
    assert memory.stats().changes == 0


def test_a_failed_write_reaches_whoever_waits_and_whoever_closes(tmp_path: Path) -> None:
    model = ScriptedChatModel(replies=["no json", "still none"] * 3)
    with Memory(tmp_path / "m.db", model=model) as memory:
        writer = memory.background(after=60)
        future = writer.add("I like tea.", user_id="a")
        with pytest.raises(ExceptionGroup, match="background") as caught:
            writer.close()
        assert isinstance(caught.value.exceptions[0], ValueError)
        assert isinstance(future.exception(timeout=1), ValueError)
        (failed,) = writer.failed
        assert failed.arguments == {"user_id": "a", "messages": ["I like tea."]}
        told: list[Any] = []
        with memory.background(after=60, on_error=told.append) as polite:
            polite.add("I like tea.", user_id="a")
        assert [type(failed.error) for failed in told] == [type(caught.value.exceptions[0])]
        assert memory.stats().changes == 0


def test_closing_the_memory_writes_the_rest(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m.db")
    writer = memory.background(after=60)
    writer.add("I like tea.", user_id="a")
    memory.close()
    with Memory(tmp_path / "m.db") as again:
        assert texts(again, user_id="a") == {"Likes tea"}


def test_threads_do_not_wait_for_each_other(tmp_path: Path) -> None:
    released, reached = threading.Event(), threading.Event()

    def answer(messages: list[Any]) -> str:
        if "slow" in str(messages[-1].content):
            reached.set()
            assert released.wait(timeout=30)
        return '{"facts": []}'

    with Memory(tmp_path / "m.db", model=ScriptedChatModel(replies=[answer] * 2)) as memory:
        writer = memory.background(after=0)
        slow = writer.add("slow", user_id="a")
        assert reached.wait(timeout=30)
        writer.add("quick", user_id="b").result(timeout=30)
        assert not slow.done()
        released.set()
        writer.close()


async def test_its_futures_can_be_awaited(memory: Memory) -> None:
    with memory.background(after=0.01) as writer:
        result = await asyncio.wrap_future(writer.add("I like tea.", user_id="a"))
    assert result.results[0].text == "Likes tea"


def test_an_on_error_that_fails_itself_keeps_nobody_waiting(tmp_path: Path) -> None:
    def clumsy(_: Any) -> None:
        raise RuntimeError("clumsy")

    with Memory(tmp_path / "m.db", model=ScriptedChatModel(replies=["no json", "still none"])) as memory:
        with memory.background(after=60, on_error=clumsy) as writer:
            future = writer.add("I like tea.", user_id="a")
        assert isinstance(future.exception(timeout=5), ValueError)
