"""Turns: adds that say something near come one after the other, all others side by side; nobody waits for ever."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from langmem_adapter.errors import LangmemAdapterError
from langmem_adapter.memory import Memory
from langmem_adapter.pipeline.turns import Turns, turns_of
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage.database import Database
from langmem_adapter.testing.fakes import ScriptedChatModel
from langmem_adapter.twins import beside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANN: Final[Any] = {"user_id": "ann"}
FRIENDS: Final = "Bob Cy Dee Eve Fay Gus Hal Ida Jo Kim".split()
ANNS: Final = Scope(user_id="ann")
ONE: Final = np.eye(4, dtype=np.float32)[:1]
OTHER: Final = np.eye(4, dtype=np.float32)[1:2]


class Model:
    """Says what it is told as the fact, adds every fact, and counts; a fact with a word of `held` waits for its event."""

    def __init__(self) -> None:
        self.decided = 0
        self.held: dict[str, threading.Event] = {}
        self.reached = threading.Semaphore(0)
        self.broken: set[str] = set()

    def __call__(self, messages: list[Any]) -> str:
        shown = json.loads(next(line for line in str(messages[-1].content).splitlines() if line.startswith("{")))
        if "conversation" in shown:
            return json.dumps({"facts": [shown["conversation"][0]["text"]]})
        self.decided += 1
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


async def test_waiting_adds_that_say_something_near_ask_the_model_once_each(memory: Memory, model: Model) -> None:
    said = [f"Likes tea with {friend}" for friend in FRIENDS] * 3
    await asyncio.gather(*(memory.aadd(text, **ANN) for text in said))
    assert texts(memory) == sorted(set(said))
    assert model.decided == len(FRIENDS) - 1  # the first has nothing near, and a repetition needs no judgement


def test_threads_that_say_something_near_ask_the_model_once_each(memory: Memory, model: Model) -> None:
    said = [f"Likes tea with {friend}" for friend in FRIENDS] * 2
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: memory.add(text, **ANN), said))
    assert texts(memory) == sorted(set(said))
    assert model.decided == len(FRIENDS) - 1


def test_near_waits_and_far_does_not(memory: Memory, model: Model) -> None:
    memory.add("Likes tea with Bob", **ANN)
    released = hold(model, "Cy")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(memory.add, "Likes tea with Cy", **ANN)
        assert model.reached.acquire(timeout=100)
        second = pool.submit(memory.add, "Likes tea with Dee", **ANN)
        assert memory.add("Owns a red bicycle", **ANN).results[0].event == "ADD"
        assert model.decided == 1
        assert not second.done()
        released.set()
        assert [run.result(timeout=100).results[0].event for run in (first, second)] == ["ADD", "ADD"]
    assert model.decided == 2


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
    assert await beside(model.reached.acquire, timeout=100)
    second = asyncio.create_task(memory.aadd("Likes tea with Dee", **ANN))
    third = asyncio.create_task(memory.aadd("Likes tea with Eve", **ANN))
    await asyncio.sleep(0.2)  # they wait for their turn
    second.cancel()
    first.cancel()
    assert (await asyncio.wait_for(third, timeout=100)).results[0].event == "ADD"
    released.set()
    assert "Likes tea with Dee" not in texts(memory)


def test_a_dry_run_holds_nobody_up(memory: Memory) -> None:
    done = memory.add("Likes tea with Bob", **ANN)
    assert done.trace_id is not None
    memory.replay(done.trace_id)
    assert not turns_of(memory.engine.database)._running


# ── by themselves ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_whoever_comes_first_waits_for_nobody() -> None:
    turns = Turns(lease=1_000)  # longer than a test may last
    turns.take(ANNS, "one", ONE, near=0.5)
    turns.take(ANNS, "far", OTHER, near=0.5)
    turns.take(Scope(user_id="bob"), "of another", ONE, near=0.5)
    turns.take(ANNS, "one", ONE, near=0.5)  # again, as after a conflict


def test_a_turn_that_is_never_ended_runs_out() -> None:
    turns = Turns(lease=0.1)
    begun = time.monotonic()
    turns.take(ANNS, "abandoned", ONE, near=0.5)
    turns.take(ANNS, "next", ONE, near=0.5)
    assert time.monotonic() - begun >= 0.1
    turns.leave(ANNS, "abandoned")
    turns.leave(ANNS, "next")
    turns.leave(ANNS, "unknown")


async def test_a_task_waits_without_blocking_the_loop() -> None:
    turns = Turns(lease=1_000)
    await turns.atake(ANNS, "one", ONE, near=0.5)
    waiting = asyncio.create_task(turns.atake(ANNS, "two", ONE, near=0.5))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    turns.leave(ANNS, "one")
    await waiting


def test_everybody_who_writes_to_one_file_keeps_one_order(tmp_path: Path) -> None:
    one, two, memory, another = (
        Database(where) for where in (tmp_path / "m.db", tmp_path / "m.db", ":memory:", ":memory:")
    )
    kept = turns_of(one)
    assert turns_of(two) is kept
    assert turns_of(memory) is not turns_of(another)
    for database in (one, two, memory, another):
        database.close()
