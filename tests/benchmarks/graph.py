"""What the knowledge graph gives and costs: answers two relations away, and the time of a search and of a write."""

from __future__ import annotations

import tempfile
import uuid
from dataclasses import replace
from itertools import count, cycle
from pathlib import Path
from typing import TYPE_CHECKING

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.graph import Triple
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.records.scope import Scope
from langmem_adapter.settings import Settings
from langmem_adapter.storage.database import Database
from langmem_adapter.storage.ledger import Ledger
from langmem_adapter.storage.migrations import prepare
from tests.benchmarks.families import families, remember
from tests.benchmarks.material import MARK, writes
from tests.benchmarks.measure import ratio, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langmem_adapter.storage.write import Write
    from tests.benchmarks.measure import Size

__all__ = ["bench_graph"]

_ANN = Scope(user_id="ann")


def bench_graph(report: Callable[..., None], size: Size) -> None:
    """Print what the graph finds, and ratios to the same work without it."""
    told = families(strangers=min(150, size.memories))
    with tempfile.TemporaryDirectory(prefix="langmem-bench-") as folder:
        path = Path(folder) / "m.db"
        plain = Settings(ranking=Ranking(graph=0), sweep_minutes=0)
        with Memory(path, graph=True) as memory:
            remember(memory, _ANN, told)
        with Memory(path, graph=True) as graph, Memory(path, settings=plain) as words:
            for name, memory in (("with", graph), ("without", words)):
                goal = (">=", 0.8) if memory is graph else None
                report(
                    f"graph: answers two relations away among ten hits, {name} it",
                    _found(memory, told.far),
                    "share",
                    goal,
                )
                report(f"graph: answers about whom they name first, {name} it", _found(memory, told.near, 1), "share")
            times = side_by_side(size, _asking(graph, told.far), _asking(words, told.far))
            report("graph: a search with it to one without, CPU", ratio(times[0].cpu, times[1].cpu), "x", ("<=", 5))
        _bench_writes(report, size, Path(folder))


def _found(memory: Memory, asked: Sequence[tuple[str, str]], k: int = 10) -> float:
    found = [answer in [hit.text for hit in memory.search(text, user_id="ann", k=k)] for text, answer in asked]
    return sum(found) / len(found)


def _asking(memory: Memory, asked: Sequence[tuple[str, str]]) -> Callable[[], object]:
    texts = cycle(text for text, _ in asked)
    return lambda: memory.search(next(texts), user_id="ann")


def _bench_writes(report: Callable[..., None], size: Size, folder: Path) -> None:
    ledgers = [_ledger(folder / name) for name in ("related.db", "alone.db")]
    related, alone = _relating(), writes()
    times = side_by_side(size, lambda: ledgers[0].apply(next(related)), lambda: ledgers[1].apply(next(alone)))
    report("graph: one fact with two relations to one without, CPU", ratio(times[0].cpu, times[1].cpu), "x", ("<=", 3))
    for ledger in ledgers:
        ledger.database.close()


def _ledger(path: Path) -> Ledger:
    database = Database(path)
    prepare(database)
    return Ledger(database, fingerprint=MARK)


def _relating() -> Iterator[Write]:
    for number, write in zip(count(), writes(), strict=False):
        (decision,) = write.decisions
        thing, other = f"thing {number % 97}", f"owner {uuid.uuid5(uuid.NAMESPACE_OID, str(number)).hex[:6]}"
        said = (Triple("user", "owns", thing), Triple(thing, "came_from", other))
        yield replace(write, decisions=(replace(decision, relations=said),))
