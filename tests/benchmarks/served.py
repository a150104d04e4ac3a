"""A real server under load, beside the same calls in one process without it; then it is killed, and nothing may be missing.

Started by `run.py` as a program of its own. What is compared, in turns of some seconds: 64 clients over HTTP, half of them on
Mem0's routes, half on ours, call `langmem-adapter serve`; 64 threads call `Memory.search` and `Memory.add`, in this process, on
a copy of the database. Both ask and add the same, one add (`infer=False`) to four searches for ten hits, each caller for a user
of its own: one with 10,000 memories, one with 2,000, the others with 600 each. The clients run in this process: what they take
of the machine is reported, and counts against the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a program, its neighbours are found all the same
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from tests.benchmarks import search
from tests.benchmarks.measure import apart, ratio, report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

__all__ = ["bench_served"]

PROGRAM: Final = "from langmem_adapter.cli.app import main; main()"
FACES: Final = (("/search", "top_k", "/memories"), ("/v1/search", "k", "/v1/memories"))
FIFTH: Final = 5  # call of every client is an add


@dataclass(frozen=True)
class Size:
    """How much is measured; the others' memories belong to users with `search.Size.own` each, the clients' among them."""

    memories: int = 100_000
    users: tuple[int, ...] = (10_000, 2_000)
    filling: search.Size = field(default_factory=search.Size)
    clients: int = 64
    turns: int = 6
    seconds: float = 10.0
    questions: int = 40


QUICK: Final = Size(300, (50, 20), search.QUICK, clients=4, turns=1, seconds=0.1, questions=2)


@dataclass
class Turn:
    """What happened in one turn: calls by kind, CPU of whoever answered them, and of the clients beside it."""

    wall: float
    calls: Counter[str]
    answering: float
    calling: float = 0.0

    @property
    def searches(self) -> float:
        """A second."""
        return self.calls["search"] / self.wall

    @property
    def cpu(self) -> float:
        """Seconds for one call."""
        return self.answering / self.calls.total()


def bench_served(*, quick: bool) -> None:
    """Run this program; its lines are printed between the caller's own."""
    apart(__file__, quick=quick, seconds=900)


# ── who calls ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Callers:
    """What 64 callers ask and add, the same on both ways; of what was acknowledged the texts are kept, by id.

    Args:
        size: How many there are, and how long a turn lasts.
    """

    def __init__(self, size: Size) -> None:
        self._size = size
        self._asked = search.questions(size.questions)
        others = size.clients - len(size.users)
        self.users = [*map(search.user, size.users), *(f"other {number}" for number in range(others))]
        self._luck = [random.Random(name) for name in self.users]
        self._said = Counter[int]()
        self.acknowledged: dict[str, str] = {}
        self.failed: list[str] = []

    def ending(self) -> Callable[[], bool]:
        """Says when a turn that begins now is over."""
        end = time.perf_counter() + self._size.seconds
        return lambda: time.perf_counter() >= end

    def next(self, caller: int, *, adds: bool) -> tuple[Literal["add", "search"], str]:
        """What somebody does next, and its text."""
        self._said[caller] += 1
        if adds and (caller + self._said[caller]) % FIFTH == 0:
            return "add", f"{search.said(self._luck[caller])} ({caller}, {self._said[caller]})"
        return "search", self._luck[caller].choice(self._asked)


# ── without a server ──────────────────────────────────────────────────────────────────────────────────────────────────


def direct(memory: Memory, callers: Callers, *, adds: bool) -> Turn:
    """One turn of a thread for each caller."""
    over = callers.ending()

    def work(caller: int) -> Counter[str]:
        calls, user = Counter[str](), callers.users[caller]
        while not over():
            kind, text = callers.next(caller, adds=adds)
            if kind == "add":
                memory.add(text, user_id=user, infer=False)
            else:
                memory.search(text, user_id=user, k=search.K)
            calls[kind] += 1
        return calls

    cpu, wall = time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(len(callers.users)) as threads:
        calls = sum(threads.map(work, range(len(callers.users))), Counter[str]())
    return Turn(time.perf_counter() - wall, calls, time.process_time() - cpu)


# ── over HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def serving(path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server of its own process, and its port; it is killed in the end."""
    command = [sys.executable, "-c", PROGRAM, "-d", str(path), "serve", "--port", "0"]
    with path.with_suffix(".log").open("w") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=path.parent)
    try:
        assert server.stdout is not None
        yield server, int(server.stdout.readline().strip().rpartition(":")[2])
    finally:
        server.kill()
        server.communicate()


def served(server: subprocess.Popen[str], port: int, callers: Callers, *, adds: bool) -> Turn:
    """One turn of a client for each caller."""
    busy, cpu, wall = _cpu_of(server.pid), time.process_time(), time.perf_counter()
    calls = asyncio.run(_all(port, callers, callers.ending(), adds=adds))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Turn(wall, calls, _cpu_of(server.pid) - busy, cpu)


async def _all(port: int, callers: Callers, over: Callable[[], bool], *, adds: bool) -> Counter[str]:
    clients = (_client(port, callers, number, over, adds=adds) for number in range(len(callers.users)))
    return sum(await asyncio.gather(*clients), Counter[str]())


async def _client(port: int, callers: Callers, number: int, over: Callable[[], bool], *, adds: bool) -> Counter[str]:
    """Calls one after the other, on one connection; a lean client, since it shares the machine with the server."""
    calls, post = Counter[str](), await _connected(port)
    asking, most, adding = FACES[number % 2]
    while not over():
        kind, text = callers.next(number, adds=adds)
        whose = {"user_id": callers.users[number]}
        if kind == "add":
            status, told = await post(adding, {"messages": text, "infer": False, **whose})
        else:
            status, told = await post(asking, {"query": text, most: search.K, **whose})
        if status >= 300:
            callers.failed.append(f"{status}: {told[:200]!r}")
        elif kind == "add":
            callers.acknowledged[json.loads(told)["results"][0]["id"]] = text
        calls[kind] += 1
    return calls


async def _connected(port: int) -> Callable[[str, dict[str, Any]], Awaitable[tuple[int, bytes]]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def post(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        told = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(told)}\r\n\r\n".encode() + told)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return int(answer.split()[1]), await reader.readexactly(length)

    return post


def _cpu_of(pid: int) -> float:
    """CPU seconds of another process; Linux tells them."""
    told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


# ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def killed(server: subprocess.Popen[str], port: int, callers: Callers, size: Size) -> None:
    """Kill the server while all of them call it."""

    async def work() -> None:
        asyncio.get_running_loop().call_later(size.seconds / 2, server.kill)
        with suppress(OSError, EOFError):
            await _all(port, callers, lambda: False, adds=True)

    asyncio.run(work())
    server.wait()


def missing(path: Path, acknowledged: dict[str, str]) -> int:
    """How many of the writes that were acknowledged are not there."""
    with Memory(path) as memory:
        kept = {item.id: item.text for user in memory.scopes() for item in _all_of(memory, user.scope.named)}
    return sum(kept.get(number) != text for number, text in acknowledged.items())


def _all_of(memory: Memory, whose: dict[str, Any]) -> Iterator[Any]:
    after = None
    while True:
        page = memory.get_all(**whose, k=10_000, after=after)
        yield from page
        after = page.next
        if after is None:
            return


# ── measuring ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_load(folder: Path, size: Size) -> None:
    """The load, in turns with the same calls without a server, and what is left when the server is killed."""
    path = search.filled(folder / "served.db", size.filling, size.memories, size.users, HashEmbeddings(search.WIDE))
    copies = {file: file.with_name(file.name.replace("served", "direct", 1)) for file in folder.glob("served.db*")}
    for file, copy in copies.items():
        shutil.copy(file, copy)
    callers = Callers(size)
    with Memory(copies[path], settings=Settings()) as memory, serving(path) as (server, port):
        for adds in (True, False):
            turns = [(served(server, port, callers, adds=adds), direct(memory, callers, adds=adds))]  # to warm up
            turns = [
                (served(server, port, callers, adds=adds), direct(memory, callers, adds=adds))
                for _ in range(size.turns if adds else 1)
            ]
            told(size, turns, adds=adds)
        killed(server, port, callers, size)
    for text in callers.failed[:3]:
        print(text, file=sys.stderr)  # noqa: T201 - this program prints
    report(f"{_name(size)}: requests that failed", len(callers.failed), "requests", ("<=", 0))
    lost = missing(path, callers.acknowledged)
    report("server, SIGKILL: acknowledged writes that are not there", lost, "writes", ("<=", 0))


def _name(size: Size) -> str:
    return f"server, {size.clients} clients, {size.memories:,} memories"


def told(size: Size, turns: Sequence[tuple[Turn, Turn]], *, adds: bool) -> None:
    """Print what was measured."""
    name = f"{_name(size)}, {'20 % adds' if adds else 'no adds'}"
    over, bare = zip(*turns, strict=True)
    share = ratio([turn.searches for turn in over], [turn.searches for turn in bare])
    report(f"{name}: searches a second to those of Memory.search in threads", share, "x", (">=", 0.6) if adds else None)
    report(f"{name}: CPU of a call to that without a server", ratio([t.cpu for t in over], [t.cpu for t in bare]), "x")
    report(f"{name}: searches a second", sum(turn.searches for turn in over) / len(over), "1/s")
    calling = sum(turn.calling for turn in over) / sum(turn.answering for turn in over)
    report(f"{name}: CPU of the clients to the server's", calling, "x")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description="Puts a server under load and prints JSON lines.")
    parser.add_argument("--quick", action="store_true", help="see that it runs; the numbers mean nothing")
    size = QUICK if parser.parse_args(arguments).quick else Size()
    with tempfile.TemporaryDirectory(prefix="langmem-bench-") as folder:
        bench_load(Path(folder), size)


if __name__ == "__main__":
    main()
