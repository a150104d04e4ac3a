"""Replies of two real chat models, of 0.5 and 1.5 billion parameters, read again: no fact is lost, none is invented."""

from __future__ import annotations

import json
from itertools import groupby
from operator import itemgetter

import pytest

from tests.reasoning.real_replies import FILE, replay

ROWS = sorted(
    map(json.loads, FILE.read_text(encoding="utf-8").splitlines()), key=itemgetter("model", "profile", "case")
)
RUNS = {name: list(rows) for name, rows in groupby(ROWS, itemgetter("model", "profile"))}


@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_model_profile_keeps_what_a_real_model_said_as_when_it_was_recorded(run: tuple[str, str]) -> None:
    rows = RUNS[run]
    scores, unasked = replay(rows)
    assert unasked == 0, "other calls than recorded: record again, see real_replies.py"
    assert [score.errors for score in scores if score.errors] == []
    for name, sign in (("right", 1), ("ended", 1), ("wrong", -1)):
        now, recorded = (
            sum(values) for values in ((getattr(score, name) for score in scores), (row[name] for row in rows))
        )
        assert sign * now >= sign * recorded, name
