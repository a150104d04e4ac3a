"""Whether the newer of two messages comes first where it tells the present, and the older where it is about something else.

`data/newer.jsonl` holds messages to a companion or an assistant by three writers who knew nothing of the rules, each with a
question and which of the two answers it. The first two sets were at hand while the rules were made, the third was not. Each
user also said what fourteen lines of `data/others.*.txt` say.
"""

from __future__ import annotations

import json
import random
import statistics
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.ranking import Ranking
from langmem_adapter.settings import Settings
from tests.benchmarks.measure import report

__all__ = ["bench_newer"]

DATA: Final = Path(__file__).with_name("data")
UNSEEN: Final = 3
BEGINS: Final = datetime(2025, 1, 6, 9, tzinfo=UTC)
GOALS: Final[dict[str, tuple[Literal["<=", ">="], float] | None]] = {"newer": (">=", 0.75), "older": None}
NAMES: Final = {"newer": "is newer and tells the present", "older": "is older, the other about something else"}


def bench_newer(*, quick: bool) -> None:
    """Print how often what answers comes first, with that step of a search and without it.

    Args:
        quick: Use a few rows.
    """
    rows = [json.loads(line) for line in (DATA / "newer.jsonl").read_text(encoding="utf-8").splitlines()]
    for unseen in (True, False):
        for first, goal in GOALS.items():
            chosen = [row for row in rows if row["first"] == first and (row["writer"] == UNSEEN) == unseen]
            name = f"newer first: answer {NAMES[first]}, {'unseen' if unseen else 'at hand'}"
            chosen = chosen[:2] if quick else chosen
            report(name, _right(chosen, newest_first=True), "share", goal if unseen else None)
            report(f"{name}, without", _right(chosen, newest_first=False), "share")


def _right(rows: list[dict[str, Any]], *, newest_first: bool) -> float:
    settings = Settings(trace_days=0, ranking=Ranking(newest_first=newest_first))
    with Memory(":memory:", embeddings="hash:512", settings=settings) as memory:
        memory.add_many([message for number, row in enumerate(rows) for message in _messages(number, row)])
        return statistics.mean(_is_right(memory, number, row) for number, row in enumerate(rows))


def _messages(number: int, row: dict[str, Any]) -> list[dict[str, Any]]:
    others = (DATA / f"others.{row['language']}.txt").read_text(encoding="utf-8").splitlines()
    said = random.Random(number).sample(others, 14)
    told = [*said[:6], row["older"], *said[6:10], row["newer"], *said[10:]]
    return [
        {"messages": text, "user_id": str(number), "infer": False, "timestamp": BEGINS + timedelta(days=9 * day)}
        for day, text in enumerate(told)
    ]


def _is_right(memory: Memory, number: int, row: dict[str, Any]) -> bool:
    found = [hit.text for hit in memory.search(row["question"], user_id=str(number))]
    second = row["older" if row["first"] == "newer" else "newer"]
    return row[row["first"]] in found and second not in found[: found.index(row[row["first"]])]
