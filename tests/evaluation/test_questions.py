"""One's own questions: JSON lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.evaluation.questions import read_questions
from langmem_adapter.records.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., Path]:
    def write(*rows: Any) -> Path:
        file = tmp_path / "mine.jsonl"
        texts = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return file

    return write


def test_read_questions_reads_a_question_per_line(lines: Callable[..., Path]) -> None:
    file = lines(
        {"question": "Where?", "expected": ["a", "b", "a"], "category": "place"},
        "",
        {"question": "Who? ", "contains": "Rex", "user_id": "ben", "run_id": "7"},
    )
    where, who = read_questions(file, {"user_id": "ada", "agent_id": "guide"})
    assert (where.where, where.text, where.evidence, where.pieces) == ("line 1", "Where?", ("a", "b"), 2)
    assert (where.category, where.scope) == ("place", Scope("ada", "guide"))
    assert (who.where, who.contains, who.scope) == ("line 3", ("Rex",), Scope("ben", "guide", "7"))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ('{"question": ', "broken JSON at column"),
        ('["Where?"]', "expected an object"),
        ({"question": "Where?"}, 'give "expected"'),
        ({"question": "Where?", "expected": []}, 'give "expected"'),
        ({"question": "Where?", "contains": [3]}, '"contains" must be a list of texts'),
        ({"question": "Where?", "contains": [" "]}, '"contains" must be a list of texts'),
        ({"question": "Where?", "expect": ["a"]}, "unknown key 'expect'; write one of question, expected"),
        ({"question": " ", "contains": ["a"]}, '"question" is blank'),
        ({"contains": ["a"]}, '"question" must be a str'),
        ({"question": "Where?", "contains": ["a"], "category": 3}, '"category" must be a str'),
        ({"question": "Where?", "contains": ["a"], "category": "overall"}, "means all of them"),
        ({"question": "Where?", "contains": ["a"], "user_id": 7}, "user_id must be a str"),
    ],
)
def test_read_questions_names_a_wrong_line(lines: Callable[..., Path], row: object, told: str) -> None:
    good = {"question": "Where?", "contains": ["a"]}
    with pytest.raises(InvalidInputError, match=rf"mine.jsonl, line 3: .*{told}"):
        read_questions(lines(good, "", row), {"user_id": "ada"})


def test_read_questions_needs_a_scope_and_a_question(lines: Callable[..., Path]) -> None:
    with pytest.raises(InvalidInputError, match="line 1: user_id is missing"):
        read_questions(lines({"question": "Where?", "contains": ["a"]}))
    with pytest.raises(InvalidInputError, match="holds no question"):
        read_questions(lines("", "  "), {"user_id": "ada"})
