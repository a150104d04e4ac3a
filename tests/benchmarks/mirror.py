"""What a mirror of the knowledge graph costs: an add beside it, how far it lags, how quickly it is filled.

The graph server is the tests' own (`tests/bolt.py`); another one has other times.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langmem_adapter.mirror.mirror import Mirror
from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import feed
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.migrations import prepare
from tests.benchmarks.material import MARK
from tests.benchmarks.measure import ratio, side_by_side
from tests.bolt import graph_server
from tests.faults.processes import start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.measure import Size
    from tests.bolt import GraphServer

__all__ = ["bench_mirror", "measure_mirror"]

_ANN = Scope(user_id="ann")
_EVERY = 0.1


def bench_mirror(report: Callable[..., None], size: Size) -> None:
    """Print it, with a server of its own."""
    with tempfile.TemporaryDirectory(prefix="langmem-bench-") as folder, graph_server(Path(folder)) as server:
        measure_mirror(report, size, server)


def measure_mirror(report: Callable[..., None], size: Size, server: GraphServer) -> None:
    """The same, with a server that runs."""
    with tempfile.TemporaryDirectory(prefix="langmem-bench-") as folder:
        ledgers = [_ledger(Path(folder, name)) for name in ("mirrored.db", "alone.db")]
        for ledger in ledgers:
            ledger.relate(_ANN, [Triple(SELF, "likes", f"thing {number}") for number in range(size.memories // 2)])
        _bench_fill(report, ledgers[0].database, server)
        with _followed(Path(folder, "mirrored.db"), server):
            works = [_relating(ledger) for ledger in ledgers]
            times = side_by_side(size, *works)
            report(
                "mirror: an add beside one to one without, CPU", ratio(times[0].cpu, times[1].cpu), "x", ("<=", 1.15)
            )
            _bench_lag(report, size, ledgers[0].database, works[0], server)
        for ledger in ledgers:
            ledger.database.close()


def _bench_fill(report: Callable[..., None], database: Database, server: GraphServer) -> None:
    with server.driver() as driver, Mirror(database, driver, name=server.database) as mirror:
        begun = time.perf_counter()
        done = mirror.run_once()
        spent = time.perf_counter() - begun
    report("mirror: a first fill", (done.entities + done.relations) / spent, "rows/s")


def _bench_lag(
    report: Callable[..., None], size: Size, database: Database, work: Callable[[], object], server: GraphServer
) -> None:
    """From the commit of an add until the mirror shows it, while others are added all the while."""
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.wait(0.01):
            work()

    busy = threading.Thread(target=keep_busy)
    busy.start()
    with server.driver() as driver, driver.session(database=server.database) as session:
        lags = [_lag(session, database, work) for _ in range(size.rounds)]
    stop.set()
    busy.join()
    report(f"mirror: lag on a busy memory, looking every {_EVERY:g} s, median", 1_000 * statistics.median(lags), "ms")


def _lag(session: Any, database: Database, work: Callable[[], object]) -> float:
    work()
    with database.read() as connection:
        written, birth = feed.last_seq(connection), feed.birth(connection)
    begun = time.perf_counter()
    ours = {"lineage": (birth or b"").hex(), "pk": written}
    query = "MATCH (n:Entity {lineage: $lineage}) WHERE n.pk > $pk - 3 RETURN count(n)"
    while not session.run(query, ours).single()[0]:
        pass
    return time.perf_counter() - begun


def _relating(ledger: Ledger) -> Callable[[], object]:
    numbers = count()
    return lambda: ledger.relate(_ANN, [Triple(SELF, "owns", f"{ledger.database.location[-8:]} {next(numbers)}")])


def _ledger(path: Path) -> Ledger:
    database = Database(path)
    prepare(database)
    return Ledger(database, fingerprint=MARK)


@contextmanager
def _followed(path: Path, server: GraphServer) -> Iterator[None]:
    """A process that mirrors it meanwhile."""
    process = start(_follow, str(path), server)
    try:
        yield
    finally:
        process.kill()
        process.join()


def _follow(path: str, server: GraphServer) -> None:
    with closing(Database(path)) as database, server.driver() as driver:
        Mirror(database, driver, name=server.database).follow(threading.Event(), every=_EVERY)
