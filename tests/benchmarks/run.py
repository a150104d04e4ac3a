"""What the engine costs, as ratios to the least that the same work can cost, measured side by side in one run.

`make bench` prints JSON lines: `{"name", "value", "unit", "goal", "verdict"}`. Absolute times say more about a machine than
about a program; a ratio of two blocks that take turns within one process survives a busy one. `--quick` runs everything
once or twice, to see that it runs; its numbers mean nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a program, its neighbours are found all the same
from langgraph.graph import START, StateGraph
from sqlalchemy import Engine, event

from langmem_adapter.embedding.hashing import HashEmbeddings
from langmem_adapter.memory import Memory
from langmem_adapter.records import AddResult, Decision, Scope
from langmem_adapter.settings import Settings
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.ledger import Ledger, Write
from langmem_adapter.storage.meta import prepare
from langmem_adapter.storage.traces import TraceDraft
from tests.benchmarks.cost import bench_cost
from tests.benchmarks.index import bench_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langgraph.graph.state import CompiledStateGraph
    from sqlalchemy import Connection

SCOPE: Final = Scope(user_id="bench")
VECTORS: Final = HashEmbeddings(512)
MARK: Final = "hash:512/1"
PRAGMAS: Final = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON")
NOUNS: Final = "tea coffee bread violin garden bicycle river lantern harbour window orchard library".split()
VERBS: Final = "Likes Owns Sells Paints Repairs Collects Remembers Describes".split()


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rounds: int = 15
    calls: int = 20
    memories: int = 10_000
    scope: int = 600
    many: int = 100
    waiting: int = 200
    starts: int = 5


QUICK: Final = Size(rounds=2, calls=2, memories=60, scope=20, many=5, waiting=10, starts=1)


@dataclass
class Times:
    """CPU and wall seconds of each call, by round."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def take(self, calls: int, work: Callable[[], object]) -> None:
        """Measure one round of some calls."""
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(calls):
            work()
        self.cpu.append((time.process_time() - cpu) / calls)
        self.wall.append((time.perf_counter() - wall) / calls)


def side_by_side(size: Size, *works: Callable[[], object]) -> list[Times]:
    """Measure several kinds of work in turns, so that a slow moment of the machine hits all of them."""
    for work in works:  # warm up: caches, prepared statements, the first page of a file
        work()
    times = [Times() for _ in works]
    for _ in range(size.rounds):
        for measured, work in zip(times, works, strict=True):
            measured.take(size.calls, work)
    return times


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """How many times as much: the median over the rounds."""
    return statistics.median(a / b for a, b in zip(one, other, strict=True))


def report(name: str, value: float, unit: str, goal: tuple[Literal["<=", ">="], float] | None = None) -> None:
    """Print one line."""
    met = goal is not None and (value <= goal[1] if goal[0] == "<=" else value >= goal[1])
    line = {
        "name": name,
        "value": float(f"{value:.4g}"),
        "unit": unit,
        "goal": None if goal is None else f"{goal[0]} {goal[1]:g}",
        "verdict": "none" if goal is None else "met" if met else "missed",
    }
    print(json.dumps(line), flush=True)  # noqa: T201 - this program prints


# ── material ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def fact(number: int) -> str:
    """A short statement, another one for each number."""
    noun, other = NOUNS[number % 12], NOUNS[number // 12 % 12]
    return f"{VERBS[number % 8]} the {noun} beside the {other} of house number {number}"


def prepared(number: int, *, traced: bool = False) -> Write:
    """One decision with its vector, ready to be applied; *traced* as the pipeline does it, with a run's name and trace."""
    text = fact(number)
    decision = Decision("ADD", str(uuid.uuid4()), text, "stored as said", actor_id="user", role="user")
    vectors = {text: VECTORS.vector(text)}
    if not traced:
        return Write((decision,), SCOPE, SCOPE, vectors)
    key = str(uuid.uuid4())
    turn = {"role": "user", "text": text, "actor": "user", "time": "2024-05-01T00:00:00+00:00", "item": 0, "notes": []}
    state = {"scope": SCOPE.named, "turns": [turn], "facts": [], "decisions": [decision.to_json()], "mode": "offline"}
    return Write((decision,), SCOPE, SCOPE, vectors, key=key, trace=TraceDraft(key, SCOPE, 30, state))


def writes(*, traced: bool = False) -> Iterator[Write]:
    """Prepared decisions without end."""
    number = 0
    while True:
        number += 1
        yield prepared(number, traced=traced)


def filled(path: Path, size: Size) -> None:
    """A database with that many memories, *size.scope* of them in our scope."""
    database = Database(path)
    prepare(database)
    ledger = Ledger(database, fingerprint=MARK)
    others = [Scope(user_id=f"user {n}") for n in range(10)]
    for start in range(0, size.memories, 500):
        for place, scope in enumerate([SCOPE, *others]):
            numbers = [n for n in range(start, min(start + 500, size.memories)) if _owner(n, size) == place]
            decisions = tuple(Decision("ADD", str(uuid.uuid4()), fact(n)) for n in numbers)
            ledger.apply(Write(decisions, scope, scope, {fact(n): VECTORS.vector(fact(n)) for n in numbers}))
    database.close()


def _owner(number: int, size: Size) -> int:
    """0 for our scope, evenly spread among the others' memories."""
    return 0 if number * size.scope % size.memories < size.scope else 1 + number % 10


def raw(path: Path) -> sqlite3.Connection:
    """The driver alone, with the settings that the engine uses."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    return connection


def copied(path: Path, name: str) -> Path:
    """A copy of a closed database."""
    return Path(shutil.copy(path, path.with_name(name)))


# ── applying ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Statements = list[tuple[str, Any, bool]]


def recorded(path: Path, count: int) -> list[Statements]:
    """The statements of that many applies, as the driver gets them."""
    database = Database(path)
    ledger, source, seen = Ledger(database, fingerprint=MARK), writes(), list[Statements]()

    def note(_c: object, _k: object, statement: str, parameters: Any, _x: object, many: bool) -> None:  # noqa: FBT001
        seen[-1].append((statement, parameters, many))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        for _ in range(count):
            seen.append([])
            ledger.apply(next(source))
    finally:
        event.remove(Engine, "before_cursor_execute", note)
        database.close()
    return seen


def replay(connection: sqlite3.Connection, statements: Statements) -> None:
    """Run the statements of one apply and commit."""
    cursor = connection.cursor()
    for statement, parameters, many in statements:
        if many:
            cursor.executemany(statement, parameters)
        else:
            cursor.execute(statement, parameters)
            cursor.fetchall()
    cursor.close()
    connection.execute("COMMIT")


def bench_apply(start: Path, size: Size) -> None:
    """`Ledger.apply` of one prepared decision against the driver with the very same statements and rows."""
    count = size.rounds * size.calls + 1
    plain, script = raw(copied(start, "raw.db")), iter(recorded(copied(start, "recorded.db"), count))
    database = Database(copied(start, "apply.db"))
    ledger, ready = Ledger(database, fingerprint=MARK), iter([prepared(n) for n in range(count)])
    engine, driver = side_by_side(size, lambda: ledger.apply(next(ready)), lambda: replay(plain, next(script)))
    database.close()
    plain.close()
    report("apply: CPU to raw sqlite3", ratio(engine.cpu, driver.cpu), "x", ("<=", 4))
    report("apply: wall to raw sqlite3, commit included", ratio(engine.wall, driver.wall), "x", ("<=", 2))
    report("apply: CPU", statistics.median(engine.cpu) * 1000, "ms")


# ── adding ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Nothing(TypedDict):
    """The state of an empty graph."""

    n: int


def empty_graph() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Five nodes that do nothing: what LangGraph itself costs."""
    graph = StateGraph(Nothing)
    names = ["parse", "extract", "retrieve", "decide", "apply"]
    for before, name in zip([START, *names], names, strict=False):
        graph.add_node(name, lambda state: {"n": state["n"] + 1})
        graph.add_edge(before, name)
    return graph.compile(checkpointer=False)


def bench_add(start: Path, size: Size) -> None:
    """`Memory.add(infer=False)` against an empty graph and an apply."""
    graph, number = empty_graph(), iter(range(10**9))
    database = Database(copied(start, "traced.db"))
    ledger = Ledger(database, fingerprint=MARK)
    ready = iter([prepared(n, traced=True) for n in range(size.rounds * size.calls + 1)])
    with (
        Memory(copied(start, "add.db")) as memory,
        Memory(copied(start, "bare.db"), settings=Settings(trace_days=0)) as bare,
    ):
        adds, untraced, applies, empty = side_by_side(
            size,
            lambda: memory.add(fact(next(number)), infer=False, **SCOPE.named),  # type: ignore[arg-type]
            lambda: bare.add(fact(next(number)), infer=False, **SCOPE.named),  # type: ignore[arg-type]
            lambda: ledger.apply(next(ready)),
            lambda: graph.invoke({"n": 0}),
        )
    database.close()
    rest = [add - apply for add, apply in zip(adds.cpu, applies.cpu, strict=True)]
    report("add(infer=False) without its apply: CPU to an empty graph", ratio(rest, empty.cpu), "x", ("<=", 1.3))
    report("add(infer=False): CPU", statistics.median(adds.cpu) * 1000, "ms")
    report("add(infer=False) without traces: CPU", statistics.median(untraced.cpu) * 1000, "ms")
    report("its apply: CPU", statistics.median(applies.cpu) * 1000, "ms")
    report("an empty graph of five nodes: CPU", statistics.median(empty.cpu) * 1000, "ms")


def bench_many(start: Path, size: Size) -> None:
    """A hundred memories in one `add_many` against as many `add`s."""
    number = iter(range(10**9))

    def one_by_one() -> None:
        for _ in range(size.many):
            singly.add(fact(next(number)), infer=False, **SCOPE.named)  # type: ignore[arg-type]

    def at_once() -> None:
        items = [{"messages": fact(next(number)), "infer": False, **SCOPE.named} for _ in range(size.many)]
        results = together.add_many(items)
        assert all(isinstance(result, AddResult) for result in results)

    with Memory(copied(start, "singly.db")) as singly, Memory(copied(start, "together.db")) as together:
        single, many = side_by_side(Size(rounds=min(size.rounds, 7), calls=1), one_by_one, at_once)
    report("add_many per memory: wall, times faster than add", ratio(single.wall, many.wall), "x", (">=", 8))
    report("add_many per memory: CPU, times less than add", ratio(single.cpu, many.cpu), "x")


async def _gathered(memory: Memory, count: int) -> None:
    await asyncio.gather(*(memory.aadd(fact(n), infer=False, **SCOPE.named) for n in range(count)))  # type: ignore[arg-type]


def bench_shared_commits(start: Path, size: Size) -> None:
    """How many of the waiting tasks share one commit."""
    commits: list[None] = []

    def count(connection: Connection) -> None:
        if connection.get_execution_options().get("sqlite_begin") == "IMMEDIATE":
            commits.append(None)

    with Memory(copied(start, "gathered.db")) as memory:
        asyncio.run(_gathered(memory, 2))
        event.listen(Engine, "commit", count)
        try:
            asyncio.run(_gathered(memory, size.waiting))
        finally:
            event.remove(Engine, "commit", count)
    report(f"{size.waiting} waiting aadd: adds per commit", size.waiting / len(commits), "adds")
    report(f"{size.waiting} waiting aadd: commits", len(commits), "commits")


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────────────────────

ROWS: Final = (
    "SELECT m.pk, m.id, m.text, m.metadata, m.created_at, s.user_id FROM memories m JOIN scopes s ON s.id = m.scope_id "
)


def bench_search(start: Path, size: Size) -> None:
    """`Memory.search` against the product of the scope's vectors with the query's, and the rows of the ten best."""
    path = copied(start, "search.db")
    plain = raw(path)
    kept = plain.execute(
        "SELECT pk, embedding FROM memories WHERE scope_id = (SELECT id FROM scopes WHERE user_id = ?)", [SCOPE.user_id]
    ).fetchall()
    pks = np.array([pk for pk, _ in kept])
    matrix = np.stack([np.frombuffer(embedding, np.float32) for _, embedding in kept])
    question = "Who repairs the bicycle beside the orchard?"
    vector = VECTORS.vector(question)

    def bare() -> list[Any]:
        best = pks[np.argsort(-(matrix @ vector))[:10]].tolist()
        return plain.execute(f"{ROWS} WHERE m.pk IN ({','.join('?' * len(best))})", best).fetchall()

    with Memory(path) as memory:
        engine, product = side_by_side(size, lambda: memory.search(question, **SCOPE.named), bare)  # type: ignore[arg-type]
    plain.close()
    where = f"{len(kept)} of {size.memories:,} memories"
    report(f"search, {where}: wall to a numpy product and a raw fetch", ratio(engine.wall, product.wall), "x")
    report(f"search, {where}: CPU", statistics.median(engine.cpu) * 1000, "ms")


# ── starting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def bench_start(size: Size) -> None:
    """How long Python needs to start, alone, with the face of the package, and with the command line's help."""
    programs = {
        "alone": ["-c", "pass"],
        "face": ["-c", "import langmem_adapter"],
        "help": ["-m", "langmem_adapter.cli.app", "--help"],
        "engine": ["-c", "from langmem_adapter import Memory"],
    }
    walls: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(size.starts):
        for name, arguments in programs.items():
            begun = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True, timeout=120)
            walls[name].append(time.perf_counter() - begun)
    for name, label in {
        "face": "import langmem_adapter",
        "help": "langmem-adapter --help",
        "engine": "import Memory",
    }.items():
        spent = [one - other for one, other in zip(walls[name], walls["alone"], strict=True)]
        report(f"{label}: beyond the interpreter's own start", statistics.median(spent) * 1000, "ms")
        report(f"{label}: wall to the bare interpreter", ratio(walls[name], walls["alone"]), "x")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description="Measures ratios and prints JSON lines.")
    parser.add_argument("--quick", action="store_true", help="see that it runs; the numbers mean nothing")
    size = QUICK if parser.parse_args(arguments).quick else Size()
    with tempfile.TemporaryDirectory(prefix="langmem-bench-") as folder:
        small, large = Path(folder) / "small.db", Path(folder) / "large.db"
        filled(small, Size(memories=min(1_000, size.memories), scope=min(100, size.scope)))
        filled(large, size)
        bench_cost(report, messages=size.many)
        bench_apply(small, size)
        bench_add(small, size)
        bench_many(small, size)
        bench_shared_commits(small, size)
        bench_search(large, size)
    bench_index(quick=size is QUICK)
    bench_start(size)


if __name__ == "__main__":
    main()
