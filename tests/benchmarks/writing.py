"""What writing costs: `Ledger.apply` beside the driver alone, `Memory.add` beside an empty graph."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
from typing import TYPE_CHECKING, Any, Self, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from sqlalchemy import Engine, event

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.results import AddResult
from langmem_adapter.settings import Settings
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.sqlite import FileConnection
from tests.benchmarks.material import MARK, SCOPE, copied, fact, filled, prepared, raw, said, writes
from tests.benchmarks.measure import Size, ratio, report, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langgraph.graph.state import CompiledStateGraph
    from sqlalchemy import Connection

__all__ = ["bench_add", "bench_apply", "bench_growth", "bench_many", "bench_shared_commits"]

# ── applying ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Statements = list[tuple[str, Any, bool]]


def recorded(path: Path, count: int) -> list[Statements]:
    """The statements of that many applies, as the driver gets them."""
    seen: list[Statements] = [[]]

    class Recording(sqlite3.Cursor):
        def execute(self, statement: str, parameters: Any = ()) -> Self:
            seen[-1].append((statement, parameters, False))
            return super().execute(statement, parameters)

        def executemany(self, statement: str, parameters: Any) -> Self:
            seen[-1].append((statement, parameters, True))
            return super().executemany(statement, parameters)

    def cursor(self: FileConnection, _: object = None) -> Any:
        return sqlite3.Connection.cursor(self, Recording)

    patch = pytest.MonkeyPatch()
    patch.setattr(FileConnection, "cursor", cursor)
    database = Database(path)
    try:
        ledger, source = Ledger(database, fingerprint=MARK), writes()
        ledger.apply(next(source))  # opens the connection
        for _ in range(count):
            seen.append([])
            ledger.apply(next(source))
    finally:
        patch.undo()
        database.close()
    return seen[1:]


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
    """`Memory.add(infer=False)` against an empty graph and an apply.

    The graph is measured as part of a loop that applies as well: alone, it would find its data in the processor's caches,
    from which every commit drives it out.
    """
    graph, number = empty_graph(), iter(range(10**9))
    database = Database(copied(start, "traced.db"))
    ledger = Ledger(database, fingerprint=MARK)
    ready = iter([prepared(n, traced=True) for n in range(2 * (size.rounds * size.calls + 1))])
    with (
        Memory(copied(start, "add.db")) as memory,
        Memory(copied(start, "bare.db"), settings=Settings(trace_days=0)) as bare,
    ):
        adds, untraced, applies, both = side_by_side(
            size,
            lambda: memory.add(fact(next(number)), infer=False, **SCOPE.named),  # type: ignore[arg-type]
            lambda: bare.add(fact(next(number)), infer=False, **SCOPE.named),  # type: ignore[arg-type]
            lambda: ledger.apply(next(ready)),
            lambda: (ledger.apply(next(ready)), graph.invoke({"n": 0})),
        )
    database.close()
    rest = [add - apply for add, apply in zip(adds.cpu, applies.cpu, strict=True)]
    empty = [two - apply for two, apply in zip(both.cpu, applies.cpu, strict=True)]
    report("add(infer=False) without its apply: CPU to an empty graph", ratio(rest, empty), "x", ("<=", 1.3))
    report("add(infer=False): CPU", statistics.median(adds.cpu) * 1000, "ms")
    report("add(infer=False) without traces: CPU", statistics.median(untraced.cpu) * 1000, "ms")
    report("its apply: CPU", statistics.median(applies.cpu) * 1000, "ms")
    report("an empty graph of five nodes: CPU", statistics.median(empty) * 1000, "ms")


def bench_growth(folder: Path, size: Size) -> None:
    """An add among many memories of others against one among none; our scope has as many in both."""
    own = min(100, size.scope)
    few, grown = (filled(folder / f"{count}.db", Size(memories=count, scope=own)) for count in (own, size.grown))
    number = iter(range(10**9))

    def adding(memory: Memory, *, infer: bool) -> Callable[[], object]:
        return lambda: memory.add(said(next(number)), infer=infer, **SCOPE.named)  # type: ignore[arg-type]

    with Memory(few) as empty, Memory(grown) as full:
        for infer in (False, True):
            one, other = side_by_side(size, adding(empty, infer=infer), adding(full, infer=infer))
            name = f"an add(infer={infer}) at {size.grown:,} memories to one at {own}"
            report(f"{name}: CPU", ratio(other.cpu, one.cpu), "x", ("<=", 1.3))
            report(f"{name}: wall", ratio(other.wall, one.wall), "x")


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
    report(f"{size.waiting} waiting aadd: commits", len(commits), "commits", ("<=", 5))
