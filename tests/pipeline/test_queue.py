"""The queue: the adds of a scope that compare do so one after the other, all others go side by side; nobody waits for ever."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pytest

from langmem_adapter.errors import LangmemAdapterError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.pipeline.retrieve import Queue, queue_of
from langmem_adapter.records.scope import Scope
from langmem_adapter.settings import Settings
from langmem_adapter.storage.database import Database
from langmem_adapter.testing import ScriptedChatModel
from langmem_adapter.twins import run_in_executor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


ANN: Final[Any] = {"user_id": "ann"}
FRIENDS: Final = "Bob Cy Dee Eve Fay Gus Hal Ida Jo Kim".split()
ANNS: Final = Scope(user_id="ann")


class Model:
    """Says what it is told as the fact, adds every fact, and counts; a fact with a word of `held` waits for its event."""

    def __init__(self) -> None:
        self.shown: list[int] = []  # how many memories, in each decision
        self.held: dict[str, threading.Event] = {}
        self.reached = threading.Semaphore(0)
        self.broken: set[str] = set()

    def __call__(self, messages: list[Any]) -> str:
        shown = json.loads(next(line for line in str(messages[-1].content).splitlines() if line.startswith("{")))
        if "conversation" in shown:
            return json.dumps({"facts": [shown["conversation"][0]["text"]]})
        self.shown.append(len(shown["memories"]))
        text = shown["facts"][0]["text"]
        for word, released in self.held.items():
            if word in text:
                self.reached.release()
                assert released.wait(timeout=100)
        if any(word in text for word in self.broken):
            raise ValueError("the model is broken")
        return json.dumps({"memory": [{"id": "n0", "text": text, "event": "ADD"}]})


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def memory(tmp_path: Path, model: Model) -> Iterator[Memory]:
    with Memory(tmp_path / "m.db", model=ScriptedChatModel(replies=[model] * 500)) as memory:
        yield memory


def hold(model: Model, word: str) -> threading.Event:
    """Let the model wait before it decides about facts with this word."""
    model.held[word] = threading.Event()
    return model.held[word]


def texts(memory: Memory) -> list[str]:
    return sorted(item.text for item in memory.get_all(**ANN, k=100))


# ── in the pipeline ───────────────────────────────────────────────────────────────────────────────────────────────────


FIFTY: Final = [f"{doing} with {friend}" for friend in FRIENDS for doing in "Sings Cooks Runs Skis Reads".split()]


@pytest.mark.parametrize("way", ["tasks", "threads"])
async def test_of_fifty_adds_at_once_each_asks_twice_and_sees_all_before_it(
    memory: Memory, model: Model, way: str
) -> None:
    if way == "tasks":
        done = await asyncio.gather(*(memory.aadd(text, **ANN) for text in FIFTY))
    else:
        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(lambda text: memory.add(text, **ANN), FIFTY))
    assert texts(memory) == sorted(FIFTY)
    assert sum(result.usage.model_calls for result in done) == 2 * len(FIFTY) - 1  # the first finds nothing known
    assert sorted(model.shown) == list(range(1, len(FIFTY)))


def test_add_whoever_compares_in_a_scope_waits_and_nobody_else_does(memory: Memory, model: Model) -> None:
    memory.add("Likes tea with Bob", **ANN)
    released = hold(model, "Cy")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(memory.add, "Likes tea with Cy", **ANN)
        assert model.reached.acquire(timeout=100)
        second = pool.submit(memory.add, "Owns a red bicycle", **ANN)
        assert memory.add("Owns a red bicycle", user_id="bob").results[0].event == "ADD"
        assert memory.add("Owns a red bicycle", infer=False, **ANN).results[0].event == "ADD"
        assert not second.done()
        released.set()
        assert [run.result(timeout=100).results[0].event for run in (first, second)] == ["ADD", "NONE"]


def test_a_failed_add_lets_the_next_one_go_on(memory: Memory, model: Model) -> None:
    memory.add("Likes tea with Bob", **ANN)
    released = hold(model, "Cy")
    model.broken.add("Cy")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(memory.add, "Likes tea with Cy", **ANN)
        assert model.reached.acquire(timeout=100)
        second = pool.submit(memory.add, "Likes tea with Dee", **ANN)
        released.set()
        with pytest.raises((ValueError, LangmemAdapterError), match="broken"):
            first.result(timeout=100)
        assert second.result(timeout=100).results[0].event == "ADD"


async def test_a_cancelled_add_lets_the_next_one_go_on(memory: Memory, model: Model) -> None:
    await memory.aadd("Likes tea with Bob", **ANN)
    released = hold(model, "Cy")
    first = asyncio.create_task(memory.aadd("Likes tea with Cy", **ANN))
    assert await run_in_executor(model.reached.acquire, timeout=100)
    second = asyncio.create_task(memory.aadd("Likes tea with Dee", **ANN))
    third = asyncio.create_task(memory.aadd("Likes tea with Eve", **ANN))
    await asyncio.sleep(0.2)  # they stand in the queue
    second.cancel()
    first.cancel()
    assert (await asyncio.wait_for(third, timeout=100)).results[0].event == "ADD"
    released.set()
    assert "Likes tea with Dee" not in texts(memory)


def test_add_a_dry_run_holds_nobody_up(memory: Memory) -> None:
    done = memory.add("Likes tea with Bob", **ANN)
    assert done.trace_id is not None
    memory.replay(done.trace_id)
    assert not queue_of(memory.parts.database)._running


# ── by themselves ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Queueing:
    """The queue of one test, and a task for each run that has come."""

    def __init__(self) -> None:
        self.queue = Queue()
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, key: str, scope: Scope = ANNS, *, lease: float = 1_000) -> bool:
        """Whether who comes goes on at once."""
        taking = self.queue.atake(scope, key, lease=lease)
        self.tasks[key] = asyncio.create_task(taking)
        return await self.goes_on(key)

    async def goes_on(self, key: str) -> bool:
        """Whether who has come waits no longer, when every task has gone as far as it can."""
        for _ in range(10):
            await asyncio.sleep(0)
        return self.tasks[key].done()


async def test_add_who_comes_waits_for_all_before_in_the_scope_and_for_nobody_else() -> None:
    test = Queueing()
    assert await test.come("one")
    assert await test.come("of another", scope=Scope(user_id="bob"))
    assert await test.come("one")  # again, as after a conflict
    assert not await test.come("two")
    assert not await test.come("three")
    test.queue.leave(ANNS, "unknown")
    test.queue.leave(ANNS, "two")
    assert not await test.goes_on("three")
    test.queue.leave(ANNS, "one")
    assert await test.goes_on("three")


async def test_add_who_has_waited_holds_others_up_no_longer_than_his_lease_from_his_turn_on() -> None:
    test = Queueing()
    assert await test.come("one")
    assert not await test.come("two", lease=0.05)
    assert not await test.come("three")
    test.queue.leave(ANNS, "one")
    await asyncio.wait_for(test.tasks["three"], timeout=100)  # far less than the lease of the first


async def test_add_a_place_that_is_never_left_is_over_after_its_lease() -> None:
    test = Queueing()
    assert await test.come("abandoned", lease=0)
    assert await test.come("next")
    await test.come("behind", lease=0.1)
    test.queue.leave(ANNS, "next")
    assert await test.goes_on("behind")
    await test.come("last")
    await asyncio.wait_for(test.tasks["last"], timeout=100)  # far less than its own lease


def test_add_a_run_that_nobody_reads_on_holds_others_up_no_longer_than_a_model_may_take(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", settings=Settings(model_timeout=0.01)) as memory, ThreadPoolExecutor(1) as pool:
        stream = memory.build_pipeline().stream({"messages": "I like tea.", "scope": ANN}, stream_mode="updates")
        assert any("retrieve" in update for update in stream)  # and not a step further
        assert pool.submit(memory.add, "I like tea.", **ANN).result(timeout=30).results[0].event == "ADD"


def test_add_everybody_who_writes_to_one_file_keeps_one_order(tmp_path: Path) -> None:
    one, two, memory, another = (
        Database(where) for where in (tmp_path / "m.db", tmp_path / "m.db", ":memory:", ":memory:")
    )
    kept = queue_of(one)
    assert queue_of(two) is kept
    assert queue_of(memory) is not queue_of(another)
    for database in (one, two, memory, another):
        database.close()
