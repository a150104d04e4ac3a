"""Many adds for one scope at once, in tasks, threads and processes, end as if one came after the other."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.memory import Memory
from langmem_adapter.testing.fakes import ScriptedChatModel

if TYPE_CHECKING:
    from pathlib import Path

THINGS = "tea chess jazz hiking sushi violin tennis opera cactus bicycle".split()
FACTS = [f"Likes {thing} with {friend}" for thing in THINGS for friend in ("Ann", "Bob", "Cy", "Dee", "Eve")]


def answer(messages: list[Any]) -> str:
    """Finds the message itself as the fact, and adds every fact that it is asked about."""
    shown = json.loads(next(line for line in str(messages[-1].content).splitlines() if line.startswith("{")))
    if "conversation" in shown:
        return json.dumps({"facts": [shown["conversation"][0]["text"]]})
    added = [{"id": f"n{fact['number']}", "text": fact["text"], "event": "ADD"} for fact in shown["facts"]]
    return json.dumps({"memory": added})


def model() -> ScriptedChatModel:
    return ScriptedChatModel(replies=[answer] * 20_000)


async def add_all(path: Path, start: int = 0, count: int = 200) -> None:
    async with Memory(path, model=model()) as memory:
        said = (FACTS[(start + i) % len(FACTS)] for i in range(count))
        results = await asyncio.gather(*(memory.aadd(text, user_id="a") for text in said))
        assert all(len(result.results) == 1 for result in results)


def check(path: Path) -> None:
    with Memory(path) as memory:
        assert sorted(item.text for item in memory.get_all(user_id="a", k=1000)) == sorted(FACTS)
        assert memory.stats().changes == len(FACTS)
        assert memory.verify().ok


async def test_two_hundred_tasks_with_fifty_facts_end_in_fifty_memories(tmp_path: Path) -> None:
    await add_all(tmp_path / "m.db")
    check(tmp_path / "m.db")


def test_two_processes_with_fifty_facts_end_in_fifty_memories(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    code = f"import asyncio, runpy; t = runpy.run_path({__file__!r}); asyncio.run(t['add_all'](__import__('sys').argv[1], %d))"
    running = [subprocess.Popen([sys.executable, "-c", code % start, str(path)]) for start in (0, 25)]
    assert [process.wait(timeout=110) for process in running] == [0, 0]
    check(path)


def test_a_slow_model_of_one_scope_keeps_no_other_waiting(tmp_path: Path) -> None:
    released, reached = threading.Event(), threading.Event()

    def slowly(messages: list[Any]) -> str:
        if "slow" in str(messages[-1].content):
            reached.set()
            assert released.wait(timeout=30)
        return answer(messages)

    with Memory(tmp_path / "m.db", model=ScriptedChatModel(replies=[slowly] * 9)) as memory:
        waiting = threading.Thread(target=memory.add, args=("slow",), kwargs={"user_id": "a"})
        waiting.start()
        assert reached.wait(timeout=30)
        assert memory.add("quick", user_id="b").results[0].event == "ADD"
        assert waiting.is_alive()
        released.set()
        waiting.join()


@pytest.mark.parametrize("infer", [True, False])
def test_two_writers_on_one_file_lose_nothing(tmp_path: Path, infer: bool) -> None:  # noqa: FBT001 - a parameter of the test
    with Memory(tmp_path / "m.db") as one, Memory(tmp_path / "m.db") as two:
        errors: list[BaseException | None] = []

        def work(memory: Memory, name: str) -> None:
            for i in range(40):
                memory.add(f"I own the book {name}{i}x{i}.", user_id="a", infer=infer)
            errors.append(None)

        threads = [threading.Thread(target=work, args=pair) for pair in ((one, "Left"), (two, "Right"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == [None, None]
        assert len(one.get_all(user_id="a", k=1000)) == len(two.get_all(user_id="a", k=1000)) == 80
        assert one.search("book", user_id="a", k=100).__len__() == 80
