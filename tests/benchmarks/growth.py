"""How work grows: twice as much of it may take little more than twice as long, and nothing grows with the square."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from langmem_adapter.memory.memory import Memory
from langmem_adapter.settings import Settings
from tests.benchmarks.material import SCOPE
from tests.benchmarks.measure import Size, ratio, report, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["bench_twice"]

_GOAL: Final = 2.3


def _statements(count: int) -> None:
    """One message of that many short statements."""
    with Memory(":memory:", settings=Settings(trace_days=0)) as memory:
        memory.add(" ".join(f"I like A{number}." for number in range(count)), **SCOPE.named)  # type: ignore[arg-type]


def _many_and_gone(count: int) -> None:
    """That many conversations in one `add_many`, and all that they left deleted."""
    with Memory(":memory:", settings=Settings(trace_days=0)) as memory:
        memory.add_many([{"messages": f"tea {n}", "infer": False, **SCOPE.named} for n in range(count)])
        memory.delete_all(**SCOPE.named)


def _long_text(letters: int) -> None:
    """One memory of that many letters, and as long a question."""
    text = " ".join(f"word{number}" for number in range(letters // 9))
    with Memory(":memory:", settings=Settings(trace_days=0)) as memory:
        memory.add(text, infer=False, **SCOPE.named)  # type: ignore[arg-type]
        memory.search(text, **SCOPE.named)  # type: ignore[arg-type]


def bench_twice(*, quick: bool) -> None:
    """Twice the work beside the work itself."""
    works: dict[str, tuple[Callable[[int], None], int]] = {
        "short statements in one message": (_statements, 1_000),
        "conversations in one add_many, then deleted": (_many_and_gone, 2_000),
        "letters of a memory and of a question": (_long_text, 45_000),
    }
    for name, (work, count) in works.items():
        some = max(2, count // 50) if quick else count
        size = Size(rounds=1 if quick else 3, calls=1)
        once, twice = side_by_side(size, lambda do=work, n=some: do(n), lambda do=work, n=2 * some: do(n))  # type: ignore[misc]
        report(f"twice as many {name}: CPU", ratio(twice.cpu, once.cpu), "x", ("<=", _GOAL))
