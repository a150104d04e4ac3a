"""`MemoryStore` beside LangGraph's own stores, filled with the same items and asked the same questions in one process.

`SqliteStore` needs the package langgraph-checkpoint-sqlite, and a Python whose sqlite3 loads extensions, or pysqlite3-binary;
where one is missing, a line says so. All three get the same function for vectors, which costs next to nothing.
"""

from __future__ import annotations

import gc
import sqlite3
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import xxhash
from langgraph.store.base import BaseStore, IndexConfig, PutOp
from langgraph.store.memory import InMemoryStore

from langmem_adapter.adapters.store import MemoryStore
from langmem_adapter.memory.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["bench_store"]

DIMENSIONS: Final = 384
BATCH: Final = 100


Goal: TypeAlias = "tuple[Literal['<=', '>='], float] | None"


class Report(Protocol):
    """Prints one line."""

    def __call__(self, name: str, value: float, unit: str, goal: Goal = None, /) -> None: ...


@dataclass(frozen=True)
class Size:
    """How much is measured; a search over everything is asked less often, since one store takes seconds for it."""

    items: int = 20_000
    namespaces: int = 100
    calls: int = 60
    wide: int = 5


QUICK: Final = Size(items=200, namespaces=10, calls=2, wide=2)


@dataclass
class Contender:
    """One store, and the seconds that its calls took, by what was asked."""

    name: str
    store: BaseStore
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def take(self, what: str, work: Callable[[BaseStore], object]) -> None:
        """Measure one call."""
        begun = time.perf_counter()
        work(self.store)
        self.seconds.setdefault(what, []).append(time.perf_counter() - begun)

    def median(self, what: str) -> float:
        """Milliseconds of the median call."""
        return statistics.median(self.seconds[what]) * 1000


def bench_store(report: Report, *, quick: bool) -> None:
    """Fill the stores and search them, in turns.

    Args:
        report: Prints a line.
        quick: See that it runs; the numbers mean nothing.
    """
    size = QUICK if quick else Size()
    with TemporaryDirectory(prefix="langmem-bench-") as folder, contenders(Path(folder)) as (ours, *peers):
        for peer in ("SqliteStore",):
            if peer not in {contender.name for contender in peers}:
                report(f"store: {peer} is not measured", 0, "not installed")
        fill((ours, *peers), size)
        for what, work in searches(size).items():
            turns = size.wide if "whole" in what else size.calls
            measure((ours, *peers), what, work, turns)
        tell(report, ours, peers, size)


def tell(report: Report, ours: Contender, peers: Sequence[Contender], size: Size) -> None:
    """Print what was measured: times, and the ratios that have a goal."""
    where = f"{size.items:,} items"
    for what in ours.seconds:
        for contender in (ours, *peers):
            report(f"store: {what}, {where}, {contender.name}", contender.median(what), "ms")
    kinds = [what for what in ours.seconds if what.startswith("search")]
    for peer in peers:
        slowest = max(kinds, key=peer.median)
        times = peer.median(slowest) / ours.median(slowest)
        report(f"store: {slowest}, {where}: times faster than {peer.name}, its slowest", times, "x", (">=", 5))
    for what in kinds:
        share = ours.median(what) / min(peer.median(what) for peer in peers)
        goal: Goal = None if "filter" in what else ("<=", 1)  # the others know six operators, and compare in SQL
        report(f"store: {what}, {where}: to the faster of the others", share, "x", goal)
    for peer in peers:
        if peer.name == "SqliteStore":
            share = ours.median(_PUT) / peer.median(_PUT)
            report(f"store: {_PUT}, {where}: to SqliteStore, both durable", share, "x", ("<=", 1))


# ── the stores ────────────────────────────────────────────────────────────────────────────────────────────────────────


def embed(texts: Sequence[str]) -> list[list[float]]:
    """A random vector for each text, always the same one."""
    seeds = (xxhash.xxh3_64_intdigest(text.encode()) for text in texts)
    return [np.random.default_rng(seed).standard_normal(DIMENSIONS, np.float32).tolist() for seed in seeds]


@contextmanager
def contenders(folder: Path) -> Iterator[list[Contender]]:
    """Every store that can be measured here, ours first."""
    index: IndexConfig = {"dims": DIMENSIONS, "embed": embed, "fields": ["text"]}
    with Memory(folder / "ours.db") as memory:
        found = [
            Contender("MemoryStore", MemoryStore(memory, index=index)),
            Contender("InMemoryStore", InMemoryStore(index=index)),
        ]
        sqlite = _sqlite_store(folder / "theirs.db", index)
        yield found if sqlite is None else [*found, Contender("SqliteStore", sqlite)]


def _sqlite_store(path: Path, index: IndexConfig) -> BaseStore | None:
    driver: Any = sqlite3
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        driver = import_module("pysqlite3") if find_spec("pysqlite3") is not None else None
    if driver is None or find_spec("langgraph.store.sqlite") is None:
        return None
    # As `SqliteStore.from_conn_string` connects. It reads the fields from a key that its documentation does not name.
    connection = driver.connect(str(path), check_same_thread=False, isolation_level=None)
    config = {**index, "text_fields": index["fields"]}
    store: Any = import_module("langgraph.store.sqlite").SqliteStore(connection, index=config)
    store.setup()
    opened: BaseStore = store
    return opened


# ── the work ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_PUT: Final = f"put of {BATCH} in a batch"


def fill(stores: Sequence[Contender], size: Size) -> None:
    """Put every item into every store, batch by batch in turns."""
    for start in range(0, size.items, BATCH):
        ops = [_put(number, size) for number in range(start, min(start + BATCH, size.items))]
        for contender in stores:
            contender.take(_PUT, lambda store: store.batch(ops))  # noqa: B023 - called at once


def _put(number: int, size: Size) -> PutOp:
    return PutOp(_namespace(number, size), f"key {number}", {"text": f"fact number {number}", "kind": number % 7})


def _namespace(number: int, size: Size) -> tuple[str, ...]:
    return ("bench", f"user {number % size.namespaces}")


def searches(size: Size) -> dict[str, Callable[[int, BaseStore], object]]:
    """What is asked, by its name; another question each time, so that nobody remembers the answer."""
    return {
        "search in a namespace": lambda n, store: store.search(_namespace(n, size), query=f"question {n}"),
        "search in a namespace with a filter": lambda n, store: store.search(
            _namespace(n, size), query=f"other question {n}", filter={"kind": 3}
        ),
        "search over a whole prefix": lambda n, store: store.search(("bench",), query=f"wide question {n}"),
    }


def measure(stores: Sequence[Contender], what: str, work: Callable[[int, BaseStore], object], turns: int) -> None:
    """Ask every store the same questions, in turns, after a first one that is not counted."""
    for contender in stores:
        work(turns, contender.store)
    gc.collect()
    for turn in range(turns):
        for contender in stores:
            contender.take(what, partial(work, turn))
