"""What somebody plainly says of himself takes the place of what he said before, and of nothing else."""

from __future__ import annotations

import pytest

from tests.benchmarks.candidates import LANGUAGES
from tests.benchmarks.updates import MADE_GOAL, said_of, told


@pytest.mark.parametrize("code", LANGUAGES.values(), ids=LANGUAGES.keys())
def test_plain_updates_are_made(code: str) -> None:
    outcomes = told(said for said in said_of(code) if said.kind == "update")
    missed = [outcome for outcome in outcomes if not outcome.made]
    assert len(missed) <= (1 - MADE_GOAL) * len(outcomes), missed


@pytest.mark.parametrize("code", LANGUAGES.values(), ids=LANGUAGES.keys())
def test_statements_that_only_look_alike_overwrite_nothing(code: str) -> None:
    outcomes = told(said for said in said_of(code) if said.kind == "alike")
    assert not [outcome for outcome in outcomes if outcome.overwritten]
