"""Facts that the rules find in talk they were not written for, against what a reader said of each.

`judged.jsonl` holds the verdicts on what they find now, `judged-before.jsonl` those on the rules before them. No text of the
data sets stands there: a fact is known by its turn and a hash. An output that nobody judged fails with the line to add.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest

from langmem_adapter.statements.parser import read
from tests.beside import DATA
from tests.cases import each
from tests.reasoning.rules.talk import SOURCES, Found, digest, found, overwrites

_SAMPLE: Final = 100
_COMMON: Final = frozenset({"", "any", "event", "habit", "own", "plan"})
"""Attributes under which anything may stand; no row had to understand what."""

pytestmark = [
    pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not there"),
    # One process finds the facts of a source, once.
    pytest.mark.parametrize("source", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in SOURCES]),
]


@dataclass(frozen=True, slots=True)
class Sheet:
    """Verdicts by source, turn and output."""

    rows: dict[tuple[str, str, str], dict[str, Any]]

    def verdict(self, source: str, turn: str, text: str, column: str) -> bool:
        """What the reader said; without it the test fails and shows what to judge."""
        row = self.rows.get((source, turn, digest(text)), {})
        if column not in row:
            asked = {"source": source, "turn": turn, "output": digest(text), column: None}
            pytest.fail(f"not judged yet: {text!r}\n{json.dumps(asked)}")
        return bool(row[column])


def sheet(name: str) -> Sheet:
    lines = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return Sheet({(row["source"], row["turn"], row["output"]): row for row in rows})


JUDGED: Final = sheet("judged.jsonl")


@lru_cache(maxsize=len(SOURCES))
def facts(source: str) -> tuple[Found, ...]:
    return tuple(found(source))


@each(("column", "least"), [("true", 0.97), ("clean", 0.88)])
def test_what_is_found_was_said_and_stands_on_its_own(source: str, column: str, least: float) -> None:
    sample = facts(source)[:_SAMPLE]
    verdicts = [JUDGED.verdict(source, fact.turn, fact.text, column) for fact in sample]
    assert len(verdicts) == _SAMPLE
    assert sum(verdicts) / _SAMPLE >= least


def test_no_fewer_true_facts_stand_under_named_attributes_than_before(source: str) -> None:
    before = sum(
        row.get("named", False) and row["true"]
        for row in sheet("judged-before.jsonl").rows.values()
        if row["source"] == source
    )
    named = [fact for fact in facts(source) if read(fact.text).attribute not in _COMMON]
    assert sum(JUDGED.verdict(source, fact.turn, fact.text, "true") for fact in named) >= before


def test_no_memory_is_overwritten_wrongly(source: str) -> None:
    wrong = [
        change
        for change in overwrites(source)
        if not JUDGED.verdict(source, change.turn, f"{change.before} → {change.after}", "right")
    ]
    assert wrong == []
