"""The background writer: messages are taken at once and remembered once a thread falls quiet."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langmem_adapter.errors import InvalidInputError, ModelReplyError, ScopeError, UnknownArgumentError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m.db") as opened:
        yield opened


def texts(memory: Memory, **scope: Any) -> set[str]:
    return {item.text for item in memory.get_all(**scope)}


def test_background_what_is_said_in_one_breath_is_one_conversation(memory: Memory) -> None:
    with memory.background(after=60) as writer:
        futures = [
            writer.add(text, user_id="d") for text in ("I have a sister.", "Her name is Jesica.", "She has a dog.")
        ]
        other = writer.add("I like tea.", user_id="e")
        assert texts(memory, user_id="d") == set()
    assert texts(memory, user_id="d") == {"Has a sister named Jesica", "Jesica has a dog"}
    assert {future.result(timeout=1).trace_id for future in futures} == {futures[0].result().trace_id}
    assert other.result(timeout=1).results[0].text == "Likes tea"


def test_background_it_runs_by_itself_after_the_quiet(memory: Memory) -> None:
    writer = memory.background(after=0.01)
    assert writer.add("I like tea.", user_id="a").result(timeout=20).results[0].event == "ADD"
    writer.close()


def test_background_a_thread_that_never_falls_quiet_is_written_all_the_same(memory: Memory) -> None:
    with memory.background(after=30, at_most=30) as slow, memory.background(after=0.2, at_most=0.3) as writer:
        first = writer.add("I like tea.", user_id="a")
        for _ in range(40):
            writer.add("hm", user_id="a")
            if first.done():
                break
            threading.Event().wait(0.1)
        assert first.done()
        slow.add("I like milk.", user_id="b")


@pytest.mark.parametrize(
    ("after", "at_most"), [(math.inf, None), (60, math.inf), (threading.TIMEOUT_MAX * 2, None), (10**400, 10**500)]
)
def test_background_what_is_to_wait_for_ever_waits_for_the_drain(
    memory: Memory, after: float, at_most: float | None
) -> None:
    with memory.background(after=after, at_most=at_most) as writer:
        soon = memory.background(after=0).add("I like milk.", user_id="b")
        future = writer.add("I like tea.", user_id="a")
        assert soon.result(timeout=30).results and not future.done()
        writer.drain()
        assert future.result(timeout=30).results[0].text == "Likes tea"


@pytest.mark.parametrize("seconds", [-1, -math.inf, math.nan, True, "2", None, [2]])
def test_background_what_is_no_time_is_refused(memory: Memory, seconds: Any) -> None:
    with pytest.raises(InvalidInputError, match="after is a number of seconds"):
        memory.background(after=seconds)
    if seconds is not None:  # the default
        with pytest.raises(InvalidInputError, match="at_most is a number of seconds"):
            memory.background(after=1, at_most=seconds)
    with pytest.raises(InvalidInputError, match="less than after"):
        memory.background(after=math.inf, at_most=1)


def test_background_a_drain_writes_what_was_taken_before_it(tmp_path: Path) -> None:
    released, reached = threading.Event(), threading.Event()

    def answer(_: object) -> str:
        reached.set()
        assert released.wait(timeout=30)
        return '{"facts": []}'

    with Memory(tmp_path / "m.db", model=ScriptedChatModel(replies=[answer] * 3)) as memory:
        writer = memory.background(after=math.inf)
        before = writer.add("before", user_id="a")
        draining = threading.Thread(target=writer.drain)
        draining.start()
        assert reached.wait(timeout=30)  # so it has begun
        after = [writer.add("meanwhile", user_id=name) for name in ("a", "b")]
        released.set()
        draining.join()
        assert before.done() and not any(future.done() for future in after)


def test_background_what_is_written_is_what_was_said(memory: Memory) -> None:
    metadata, part = {"deep": {"n": 1}}, {"type": "text", "text": "one"}
    parts: list[str | dict[Any, Any]] = [part]
    spoken, told = HumanMessage("two"), HumanMessage([part], additional_kwargs={"timestamp": "2001-01-01"})
    said: list[Any] = [{"role": "user", "content": parts}, spoken, told, ("user", parts)]
    writer = memory.background(after=math.inf)
    writer.add(said, user_id="a", infer=False, metadata=metadata)
    writer.add(("user", "last"), user_id="a", infer=False, metadata=metadata)
    metadata["deep"]["n"], part["text"], spoken.content = 2, "changed", "changed"
    told.additional_kwargs.clear()
    parts.append("more")
    said.clear()
    writer.close()
    found = sorted((item.text, item.metadata["deep"]["n"]) for item in memory.get_all(user_id="a"))
    assert found == [("last", 1), ("one", 1), ("one", 1), ("one", 1), ("two", 1)]
    assert [item.created_at.year for item in memory.get_all(user_id="a")].count(2001) == 1


def test_background_what_was_said_is_dated_then(memory: Memory) -> None:
    writer = memory.background(after=math.inf)
    begun = datetime.now(UTC)
    writer.add("I like tea.", user_id="a")
    taken = datetime.now(UTC)
    writer.close()
    (kept,) = memory.get_all(user_id="a")
    assert begun <= kept.created_at <= taken


def test_background_different_options_are_different_conversations(memory: Memory) -> None:
    with memory.background(after=60) as writer:
        one = writer.add("I like tea.", user_id="a", metadata={"n": 1})
        two = writer.add("I like milk.", user_id="a", metadata={"n": 2})
    assert one.result().trace_id != two.result().trace_id
    assert {item.text: item.metadata["n"] for item in memory.get_all(user_id="a")} == {"Likes tea": 1, "Likes milk": 2}


def test_background_the_same_options_are_one_conversation_however_they_are_written(memory: Memory) -> None:
    with memory.background(after=60) as writer:
        one = writer.add(
            "I have a sister.", user_id="a", timestamp=datetime(2024, 5, 1, tzinfo=UTC), metadata={"n": 1, "m": [2]}
        )
        two = writer.add(
            "Her name is Jesica.", user_id="a", timestamp="2024-05-01T00:00:00Z", metadata={"m": (2,), "n": 1}
        )
    assert one.result().trace_id == two.result().trace_id
    assert texts(memory, user_id="a") == {"Has a sister named Jesica"}


def test_background_bad_input_is_refused_at_once(memory: Memory) -> None:
    with memory.background(after=60) as writer:
        with pytest.raises(ScopeError):
            writer.add("I like tea.")
        with pytest.raises(InvalidInputError):
            writer.add("", user_id="a")
        with pytest.raises(UnknownArgumentError, match=r"add\(\) has no argument 'user'; did you mean 'user_id'"):
            writer.add("I like tea.", user="a")
        with pytest.raises(InvalidInputError, match="idempotency_key"):
            writer.add("I like tea.", user_id="a", idempotency_key="x")
    with pytest.raises(InvalidInputError, match="closed"):
        writer.add("I like tea.", user_id="a")
    assert memory.stats().changes == 0


def test_background_a_failed_write_reaches_whoever_waits_and_whoever_closes(tmp_path: Path) -> None:
    model = ScriptedChatModel(replies=["no json", "still none"] * 3)
    with Memory(tmp_path / "m.db", model=model, on_bad_reply="raise") as memory:
        writer = memory.background(after=60)
        future = writer.add("I like tea.", user_id="a")
        with pytest.raises(ExceptionGroup, match="background") as caught:
            writer.close()
        assert isinstance(caught.value.exceptions[0], ValueError)
        assert isinstance(future.exception(timeout=1), ValueError)
        (failed,) = writer.failed
        taken = failed.arguments["timestamp"]
        assert failed.arguments == {"user_id": "a", "messages": ["I like tea."], "timestamp": taken}
        assert taken < datetime.now(UTC).isoformat()
        told: list[Any] = []
        with memory.background(after=60, on_error=told.append) as polite:
            polite.add("I like tea.", user_id="a")
        assert [type(failed.error) for failed in told] == [type(caught.value.exceptions[0])]
        assert memory.stats().changes == 0


def test_background_closing_the_memory_writes_the_rest(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m.db")
    writer = memory.background(after=60)
    writer.add("I like tea.", user_id="a")
    memory.close()
    with Memory(tmp_path / "m.db") as again:
        assert texts(again, user_id="a") == {"Likes tea"}


def test_background_threads_do_not_wait_for_each_other(tmp_path: Path) -> None:
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


async def test_background_its_futures_can_be_awaited(memory: Memory) -> None:
    with memory.background(after=0.01) as writer:
        result = await asyncio.wrap_future(writer.add("I like tea.", user_id="a"))
    assert result.results[0].text == "Likes tea"


@pytest.mark.parametrize("way", ["drain", "writer.close", "memory.close", "exit"])
def test_background_whatever_is_done_when_a_future_is_done_keeps_nobody_waiting(tmp_path: Path, way: str) -> None:
    memory, told = Memory(tmp_path / "m.db"), threading.Barrier(5)
    writer = memory.background(after=math.inf)
    does = {"drain": writer.drain, "writer.close": writer.close, "memory.close": memory.close, "exit": sys.exit}[way]
    names = [f"user {number}" for number in range(4)]  # one for each worker
    later: list[Future[Any]] = []

    def say(_: object) -> None:
        told.wait(timeout=60)  # all of them are here, and none is left for what waits
        told.wait(timeout=60)
        does()
        told.wait(timeout=60)

    for name in names:
        writer.add("I like tea.", user_id=name).add_done_callback(say)
        later.append(writer.add("I like tea.", user_id=name))
    threading.Thread(target=writer.drain, daemon=True).start()
    told.wait(timeout=60)
    later += [writer.add("I like milk.", user_id=name) for name in (*names, "another")]
    told.wait(timeout=60)
    if way != "exit":
        told.wait(timeout=60)
    else:
        threading.Thread(target=writer.drain, daemon=True).start()
    assert {len(future.result(timeout=60).results) for future in later} == {1}
    memory.close()


def test_background_two_writers_may_both_be_told_to_close_everything(memory: Memory) -> None:
    told = threading.Barrier(3)

    def say(_: object) -> None:
        told.wait(timeout=60)
        memory.close()
        told.wait(timeout=60)

    for name in "ab":
        memory.background(after=0).add("I like tea.", user_id=name).add_done_callback(say)
    told.wait(timeout=60)
    told.wait(timeout=60)


def test_background_an_on_error_that_fails_itself_keeps_nobody_waiting(tmp_path: Path) -> None:
    def clumsy(_: Any) -> None:
        raise RuntimeError("clumsy")

    model = ScriptedChatModel(replies=["no json", "still none"])
    with Memory(tmp_path / "m.db", model=model, on_bad_reply="raise") as memory:
        writer = memory.background(after=0, on_error=clumsy)
        future = writer.add("I like tea.", user_id="a")
        assert isinstance(future.exception(timeout=30), ModelReplyError)
        assert writer.add("I like tea.", user_id="a", infer=False).result(timeout=30).results[0].text == "I like tea."
        with pytest.raises(ExceptionGroup) as caught:
            writer.close()
    assert [type(error) for error in caught.value.exceptions] == [ModelReplyError, RuntimeError]
