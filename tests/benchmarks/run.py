"""What the engine costs, as ratios to the least that the same work can cost, measured side by side in one run.

`make bench` prints JSON lines: `{"name", "value", "unit", "goal", "verdict"}`. Absolute times say more about a machine than
about a program; a ratio of two blocks that take turns within one process survives a busy one. `--quick` runs everything
once or twice, to see that it runs; its numbers mean nothing.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a program, its neighbours are found all the same
from tests.benchmarks.brain import bench_brain
from tests.benchmarks.candidates import bench_candidates
from tests.benchmarks.cost import bench_cost
from tests.benchmarks.exchange import bench_exchange
from tests.benchmarks.graph import bench_graph
from tests.benchmarks.growth import bench_twice
from tests.benchmarks.index import bench_index
from tests.benchmarks.material import filled
from tests.benchmarks.measure import QUICK, Size, ratio, report
from tests.benchmarks.mirror import bench_mirror
from tests.benchmarks.oracle import bench_oracle
from tests.benchmarks.prepared import bench_prepared
from tests.benchmarks.recall import bench_recall
from tests.benchmarks.search import bench_search
from tests.benchmarks.served import bench_served
from tests.benchmarks.store import bench_store
from tests.benchmarks.updates import bench_updates
from tests.benchmarks.writing import bench_add, bench_apply, bench_growth, bench_many, bench_shared_commits

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        small = Path(folder) / "small.db"
        filled(small, Size(memories=min(1_000, size.memories), scope=min(100, size.scope)))
        bench_cost(report, messages=size.many)
        bench_candidates(quick=size is QUICK)
        bench_oracle(quick=size is QUICK)
        bench_updates(quick=size is QUICK)
        bench_recall(quick=size is QUICK)
        bench_brain(report, quick=size is QUICK)
        bench_apply(small, size)
        bench_add(small, size)
        bench_growth(Path(folder), size)
        bench_many(small, size)
        bench_prepared(Path(folder), size)
        bench_shared_commits(small, size)
        bench_exchange(small, size)
    bench_twice(quick=size is QUICK)
    bench_graph(report, size)
    if size is not QUICK:  # tests/mirror measures it with the server that it has
        bench_mirror(report, size)
    bench_search(quick=size is QUICK)
    bench_index(quick=size is QUICK)
    bench_served(quick=size is QUICK)
    bench_store(report, quick=size is QUICK)
    bench_start(size)


if __name__ == "__main__":
    main()
