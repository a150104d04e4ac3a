"""What a lossless export and its import cost beside SQLite alone, which reads and writes the same rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from langmem_adapter.storage.database import Database
from langmem_adapter.storage.lossless.export import export_lines
from langmem_adapter.storage.lossless.imports import LosslessImport
from langmem_adapter.storage.lossless.kinds import KINDS
from langmem_adapter.storage.meta import EMBEDDINGS, get
from langmem_adapter.storage.migrations import prepare
from langmem_adapter.storage.tables import meta, metadata
from tests.benchmarks.material import copied, raw
from tests.benchmarks.measure import Size, Times, ratio, report

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["bench_exchange"]


def bench_exchange(path: Path, size: Size) -> None:
    """Export a small database and import it into empty ones, in turns with the driver alone."""
    times = [Times() for _ in range(4)]
    database, driver = Database(copied(path, "exported.db")), raw(copied(path, "read.db"))
    with database.read() as connection:
        mark = str(get(connection, EMBEDDINGS))
    vectors = mark, lambda texts: np.ones((len(texts), 8), np.float32)
    lines = list(export_lines(database, None, vectors=True))
    tables = [table for table in metadata.sorted_tables if table is not meta]
    rows = {table.name: driver.execute(f"SELECT * FROM {table.name}").fetchall() for table in tables}
    for number in range(min(size.rounds, 3)):
        empty = [path.with_name(f"empty-{number}-{name}.db") for name in ("own", "raw")]
        for each in empty:
            made = Database(each)
            prepare(made)
            made.close()
        target, alone = Database(empty[0]), raw(empty[1])
        times[0].take(1, lambda: list(export_lines(database, None, vectors=True)))
        times[1].take(1, lambda: [_dumped(driver, kind.table.name) for kind in KINDS.values()])
        times[2].take(1, lambda target=target: LosslessImport(target, *vectors).run(lines))  # type: ignore[misc]
        times[3].take(1, lambda alone=alone: _written(alone, rows))  # type: ignore[misc]
        target.close()
        alone.close()
    database.close()
    driver.close()
    for place, name in ((0, "export"), (2, "import")):
        value = ratio(times[place].cpu, times[place + 1].cpu)
        report(f"{name} without loss: CPU to that of SQLite's driver with the same rows", value, "x")


def _dumped(driver: Any, table: str) -> list[str]:
    return [json.dumps(row, default=str) for row in driver.execute(f"SELECT * FROM {table}")]


def _written(driver: Any, rows: dict[str, list[tuple[Any, ...]]]) -> None:
    driver.execute("BEGIN IMMEDIATE")
    for table, found in rows.items():
        if found:
            driver.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(found[0]))})", found)
    driver.execute("COMMIT")
