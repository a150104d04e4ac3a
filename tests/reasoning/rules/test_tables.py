"""Every wording of the tables can be used: they are compiled when they are first met, which here is at once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from langmem_adapter.reasoning.rules import chinese as chinese_rules
from langmem_adapter.reasoning.rules import english as english_rules
from langmem_adapter.reasoning.rules import people, reasoner, sentences, verdicts
from langmem_adapter.statements import chinese, chinese_dates, dates, english, periods, things
from langmem_adapter.statements.statement import TableRow
from langmem_adapter.statements.tables import Patterns

MODULES = (
    *(chinese, chinese_dates, dates, english, periods, things),
    *(chinese_rules, english_rules, people, reasoner, sentences, verdicts),
)


def values(module: Any) -> list[Any]:
    """What the module holds, and what it holds by kind."""
    told = [value for name, value in vars(module).items() if not name.startswith("__")]
    return told + [part for value in told if isinstance(value, dict) for part in value.values()]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_pattern_and_row_of_a_table_compiles(module: Any) -> None:
    tables = [value for value in values(module) if isinstance(value, Patterns)]
    rows = [row for value in values(module) if isinstance(value, tuple) for row in value if isinstance(row, TableRow)]
    assert tables or rows
    for table in tables:
        assert all(table[name].pattern for name in table.texts)
    for row in rows:
        if module in {english, chinese}:
            names = re.findall(r"{(\w+)}", " ".join((row.put, *row.also)))
            assert {*names} <= {*row.pattern.groupindex, "head", "noun"}, row
        else:
            row.pattern.sub(row.put, "")  # fails where it names a group that is not there
