"""What an add and a search cost through SQLAlchemy's Core, beside their statements as `Prepared` runs them."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage.queries import Prepared
from tests.benchmarks.measure import Size, ratio, report, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from sqlalchemy import Connection

__all__ = ["bench_prepared"]


@contextmanager
def plain() -> Iterator[None]:
    """Every statement of an add or a search goes through Core."""

    def rows(statement: Prepared, connection: Connection, values: Mapping[str, Any] = {}) -> list[Any]:
        return list(connection.execute(statement.statement, dict(values)))

    def run(statement: Prepared, connection: Connection, *rows: Mapping[str, Any]) -> None:
        if rows:
            connection.execute(statement.statement, [dict(row) for row in rows])

    with patch.object(Prepared, "rows", rows), patch.object(Prepared, "run", run):
        yield


def bench_prepared(folder: Path, size: Size) -> None:
    """A search and an add through Core, beside the same with statements that are compiled once."""
    for graph in (False, True):
        with Memory(folder / f"prepared-{graph}.db", graph=graph) as memory:
            texts = [f"I repaired the boat of {number} people near the bridge" for number in range(size.scope)]
            memory.add_many([{"messages": text, "user_id": "ann", "infer": False} for text in texts])
            number = count()
            works: dict[str, Callable[[], object]] = {
                "search": partial(memory.search, "Who repaired the boat near the bridge?", user_id="ann"),
                "add": lambda: memory.add(f"I saw {next(number)} boats", user_id="bob", infer=False),  # noqa: B023
            }
            for name, work in works.items():
                core, own = side_by_side(size, plain()(work), work)
                what = f"{name}{' with the graph' if graph else ''}: CPU through Core to compiled once"
                report(what, ratio(core.cpu, own.cpu), "x", (">=", 1.2) if name == "search" else None)
