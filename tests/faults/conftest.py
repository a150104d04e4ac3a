"""How long the fault tests last: a moment in `make test`, minutes in `make faults`, which also reports what it measured."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = os.environ.get("FAULTS") == "long"


class Bound(Protocol):
    def __call__(self, short: int, *, long: int) -> int: ...


@pytest.fixture
def bound() -> Bound:
    """Choose between the bound of `make test` and that of `make faults`."""

    def choose(short: int, *, long: int) -> int:
        return long if LONG else short

    return choose


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Note a result for the report at the end of `make faults`."""
    return lambda text: record_property("measured", text)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was measured."""
    passed = [report for report in terminalreporter.stats.get("passed", []) if report.when == "call"]
    told = [text for report in passed for name, text in report.user_properties if name == "measured"]
    if told and LONG:
        terminalreporter.section("measured")
        for text in told:
            terminalreporter.write_line(text)
