"""A writer that stands still in the middle of its transaction: the others read on, and are told who is in the way."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from sqlalchemy import Engine, event

from langmem_adapter.errors import StorageError
from tests.faults.processes import start
from tests.faults.worker import USER, open_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from langmem_adapter.memory.memory import Memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")

PATIENCE: Final = 0.1


def stand_still(database: str) -> None:
    """Write everything down, and stop before the commit."""
    memory = open_memory(database)
    memory.add("before", user_id=USER, infer=False)

    def stop(connection: Connection) -> None:
        if connection.get_execution_options().get("sqlite_begin") == "IMMEDIATE":
            os.kill(os.getpid(), signal.SIGSTOP)

    event.listen(Engine, "commit", stop)
    memory.add("in the middle", user_id=USER, infer=False)
    memory.close()


class Stopped:
    """The process that stands still."""

    def __init__(self, database: str) -> None:
        self._process = start(stand_still, database)
        self._pid = int(self._process.pid or 0)
        _wait_until(lambda: _state(self._pid) == "T")

    def go_on(self) -> None:
        """Let it finish, as well as it can."""
        os.kill(self._pid, signal.SIGCONT)
        self._process.join(30)
        assert self._process.exitcode == 0

    def die(self) -> None:
        """Kill it where it stands, if it still does."""
        self._process.kill()
        self._process.join()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def _wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 100
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")


@pytest.fixture
def other(database: str) -> Iterator[Memory]:
    with open_memory(database, busy_timeout=PATIENCE) as memory:
        yield memory


@pytest.fixture
def stopped(database: str, other: Memory) -> Iterator[Stopped]:
    process = Stopped(database)
    yield process
    process.die()


def texts(memory: Memory) -> set[str]:
    return {item.text for item in memory.get_all(user_id=USER)}


@pytest.mark.usefixtures("stopped")
def test_add_names_a_long_lock_and_may_try_again(other: Memory) -> None:
    with pytest.raises(StorageError, match=r"locked.*busy_timeout") as caught:
        other.add("meanwhile", user_id=USER, infer=False)
    assert caught.value.transient
    with pytest.raises(StorageError) as caught:
        other.delete_all(user_id=USER)
    assert caught.value.transient


@pytest.mark.usefixtures("stopped")
async def test_aadd_names_a_long_lock(other: Memory) -> None:
    told = await asyncio.gather(
        *(other.aadd(f"meanwhile {number}", user_id=USER, infer=False) for number in range(5)), return_exceptions=True
    )
    assert all(isinstance(error, StorageError) and error.transient for error in told), told


@pytest.mark.usefixtures("stopped")
def test_search_goes_on_beside_a_half_transaction(database: str, other: Memory) -> None:
    assert texts(other) == {"before"}
    assert [hit.text for hit in other.search("in the middle", user_id=USER)] == ["before"]
    with open_memory(database, busy_timeout=PATIENCE) as third:
        assert texts(third) == {"before"}
        assert third.verify().ok


def test_add_continues_after_the_lock(stopped: Stopped, other: Memory) -> None:
    with pytest.raises(StorageError):
        other.add("meanwhile", user_id=USER, infer=False)
    stopped.go_on()
    assert [hit.text for hit in other.search("in the middle", user_id=USER, k=1)] == ["in the middle"]
    other.add("meanwhile", user_id=USER, infer=False)
    assert texts(other) == {"before", "in the middle", "meanwhile"}
    assert other.verify().ok


def test_add_of_a_killed_process_is_undone(stopped: Stopped, other: Memory) -> None:
    stopped.die()
    other.add("afterwards", user_id=USER, infer=False)
    assert texts(other) == {"before", "afterwards"}
    assert other.verify().ok
