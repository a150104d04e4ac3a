"""How benchmarks measure: kinds of work that take turns, and one JSON line for each ratio."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["QUICK", "Size", "Times", "apart", "ratio", "report", "side_by_side"]


ONE_THREAD: Final = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rounds: int = 15
    calls: int = 20
    memories: int = 10_000
    scope: int = 600
    grown: int = 100_000
    many: int = 100
    waiting: int = 200
    starts: int = 5


QUICK: Final = Size(rounds=2, calls=2, memories=60, scope=20, grown=400, many=5, waiting=10, starts=1)


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


def apart(program: str, *, quick: bool, seconds: float = 300) -> None:
    """Run a benchmark as a program of its own, where numpy's products run on one thread; its lines come in between."""
    sys.stdout.flush()
    arguments = [sys.executable, program, *(["--quick"] if quick else [])]
    subprocess.run(arguments, check=True, env=os.environ | ONE_THREAD, timeout=seconds)
