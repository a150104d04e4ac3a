"""How background writers end: with the memory, with the program, and in a process that was forked."""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.adapters import mem0
from langmem_adapter.errors import ModelReplyError, StorageError
from langmem_adapter.memory.memory import Memory
from langmem_adapter.testing import ScriptedChatModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from langmem_adapter.pipeline.background import BackgroundWriter

PROGRAMS = Path(__file__).with_name("ending_programs.py")
UNREADABLE = ["no json", "still none"]


def texts(path: Path, user_id: str) -> list[str]:
    with Memory(path) as memory:
        return [item.text for item in memory.get_all(user_id=user_id)]


# ── the program ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_background_a_program_that_ends_without_closing_writes_what_waits(tmp_path: Path) -> None:
    subprocess.run([sys.executable, PROGRAMS, tmp_path], check=True, timeout=120)
    said = {path.stem: path.read_text() for path in tmp_path.glob("*.stderr")}
    lost = ["needs_an_executor", "is_interrupted"]
    codes = dict(line.split() for line in (tmp_path / "codes").read_text().splitlines())
    assert codes == dict.fromkeys(said, "0") | {"raises": "1", "exits": "3"}
    with Memory(tmp_path / "m.db") as memory:
        written = {name: [item.text for item in memory.get_all(user_id=name)] for name in said}
    assert written == {name: [] if name in lost else ["I like tea."] for name in said}
    assert "background write of 2 messages of {'user_id': 'needs_an_executor'} failed" in said["needs_an_executor"]
    assert "cannot schedule new futures" in said["needs_an_executor"]
    assert "has written 1 message of {'user_id': 'is_interrupted'}, now lost" in said["is_interrupted"]
    assert said["speaks_when_all_is_over"].count("the program is ending") == 2
    assert not any(re.search("secret|tea", said[name]) for name in lost)  # whose, and how much, but not what
    assert {name for name, words in said.items() if words} == {*lost, "raises", "speaks_when_all_is_over"}


# ── a fork ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("use", "refused"),
    [
        (lambda writer, _: writer.add("I like milk.", user_id="a"), True),
        (lambda writer, _: writer.drain(), True),
        (lambda _, memory: memory.background(), True),
        (lambda writer, _: writer.failed, False),
        (lambda writer, _: writer.close(), False),
        (lambda _, memory: memory.close(), False),
    ],
    ids=["add", "drain", "background", "failed", "close", "memory.close"],
)
def test_background_a_forked_child_is_refused_and_never_waits(
    tmp_path: Path, use: Callable[[BackgroundWriter, Memory], object], *, refused: bool
) -> None:
    with Memory(tmp_path / "m.db") as memory, memory.background(after=math.inf) as writer:
        writer.add("I like tea.", user_id="a")
        child = os.fork()
        if child == 0:  # pragma: no cover - runs in the child
            signal.alarm(30)  # or it would wait for ever
            outcome = "broken"
            try:
                use(writer, memory)
                outcome = "done"
            except StorageError as error:
                outcome = "refused" if "forked" in str(error) else "broken"
            finally:
                os._exit(0 if outcome == ("refused" if refused else "done") else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert texts(tmp_path / "m.db", "a") == []
    assert texts(tmp_path / "m.db", "a") == ["Likes tea"]


# ── the memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def failing(path: Path, writes: int) -> Memory:
    return Memory(path, model=ScriptedChatModel(replies=UNREADABLE * writes), on_bad_reply="raise")


class Broken:
    """Something in the background whose closing fails in a way that nobody foresaw."""

    def close(self) -> None:
        """Fail."""
        raise OSError("no place left")


def test_background_what_nobody_foresaw_in_closing_hides_nothing_of_the_others(tmp_path: Path) -> None:
    memory, broken = failing(tmp_path / "m.db", 1), (Broken(), Broken())
    memory.parts.writers.update(broken)
    memory.background(after=math.inf).add("I like tea.", user_id="a")
    with pytest.raises(ExceptionGroup) as caught:
        memory.close()
    assert sorted(type(error).__name__ for error in caught.value.exceptions) == [
        "ModelReplyError",
        "OSError",
        "OSError",
    ]
    with pytest.raises(StorageError, match="closed"):
        memory.stats()


def test_background_what_fails_in_closing_keeps_nothing_else_from_it(tmp_path: Path) -> None:
    memory = failing(tmp_path / "m.db", 2)
    writers = [memory.background(after=math.inf) for _ in range(3)]
    for name, writer in enumerate(writers):
        writer.add("I like tea.", infer=name == 1, user_id=str(name))
    writers[0].add("I like tea.", user_id="0")
    with pytest.raises(ExceptionGroup) as caught:
        memory.close()
    assert [type(error) for error in caught.value.exceptions] == [ModelReplyError] * 2
    memory.close()
    with pytest.raises(StorageError, match="closed"):
        memory.stats()
    with pytest.raises(StorageError, match="closed"):
        memory.background()
    assert [texts(tmp_path / "m.db", name) for name in "012"] == [["I like tea."], [], ["I like tea."]]


def in_vain(memory: Memory) -> None:
    with memory.background(after=math.inf) as writer:
        memory.background(after=math.inf).add("I like tea.", user_id="a")
        writer.add("I like tea.", user_id="b")
        raise LookupError("mine")


def blocking(face: Any, memory: Memory) -> None:
    with face:
        in_vain(memory)


def on_a_loop(face: Any, memory: Memory) -> None:
    async def run() -> None:
        async with face:
            in_vain(memory)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("guest", "use"),
    [(None, blocking), (None, on_a_loop), (mem0.Memory, blocking), (mem0.AsyncMemory, on_a_loop)],
)
def test_background_an_error_under_way_goes_on_with_a_note(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    guest: type[mem0.Memory | mem0.AsyncMemory] | None,
    use: Callable[[Any, Memory], None],
) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_ON_BAD_REPLY", "raise")
    llm = {"provider": "langchain", "config": {"model": ScriptedChatModel(replies=UNREADABLE * 2)}}
    if guest is None:
        face: Any = failing(tmp_path / "m.db", 2)
    else:
        face = guest.from_config({"history_db_path": str(tmp_path / "m.db"), "llm": llm})
    with pytest.raises(LookupError, match="mine") as caught:
        use(face, face if guest is None else face.engine)
    assert [note.split(":")[:2] for note in caught.value.__notes__] == [["while closing", " ModelReplyError"]] * 2


async def test_background_closing_on_an_event_loop_tells_as_much(tmp_path: Path) -> None:
    memory = failing(tmp_path / "m.db", 1)
    memory.background(after=math.inf).add("I like tea.", user_id="a")
    with pytest.raises(ExceptionGroup):
        await memory.aclose()
