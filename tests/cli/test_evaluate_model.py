"""`eval prompts` and `eval answers`: what a chat model's memory keeps, and how it answers from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from typer.testing import CliRunner

from langmem_adapter import Memory
from langmem_adapter.cli.app import app
from langmem_adapter.evaluation.prompts import PromptCase, read_cases, run_cases, states, totals
from langmem_adapter.records.results import Usage
from tests.openai_server import OpenAIServer

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

Run: TypeAlias = Callable[..., "Result"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["eval", *map(str, arguments)])


def rows_of(result: Result) -> dict[str, dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return {row.get("kind", row.get("category")): row for row in json.loads(result.stdout)["data"]}


class Recited:
    """A memory system that keeps every text as it is, each twice where it is asked to, and fails on a word."""

    name = "recited"
    errors = (ValueError,)

    def __init__(self, copies: int = 1) -> None:
        self._copies = copies
        self._texts: dict[str, list[str]] = {}

    def add(self, messages: list[dict[str, str]], user_id: str, timestamp: str | None) -> Usage:
        if "fail" in messages[-1]["content"]:
            raise ValueError(timestamp)
        self._texts.setdefault(user_id, []).extend([messages[-1]["content"]] * self._copies)
        return Usage(1, 10, 2)

    def texts(self, user_id: str) -> list[str]:
        return self._texts.get(user_id, [])


def test_eval_prompts_counts_facts_updates_copies_and_errors() -> None:
    cases = [
        PromptCase("update", ({"text": "I live in Ghent"}, {"text": "I live in Cork"}), ("cork",), ("ghent !cork",)),
        PromptCase("facts", ({"text": "I like tea"}, {"text": "fail"}), ("tea", "dog")),
    ]
    update, facts, overall = (score.to_json() for score in totals(run_cases(Recited(copies=2), cases)))
    assert (update["right"], update["copied"], update["updates_wrong"], update["wrong"]) == (1, 1, 1, 0)
    assert (facts["right"], facts["missed"], facts["copied"], facts["errors"], facts["calls"]) == (1, 1, 1, 1, 1)
    assert (overall["kind"], overall["facts"], overall["tokens"]) == ("overall", 3, 36)


def test_eval_prompts_conversations_can_be_satisfied_by_their_own_words() -> None:
    """What a case requires stands in what its user says or asks for, so that a right memory can state it."""
    for case in read_cases():
        said = " ".join(f"{turn.get('name', '')} {turn.get('assistant', '')} {turn['text']}" for turn in case.turns)
        dated = [fact for fact in case.facts if not states(said, fact)]
        assert all(case.kind in {"dates", "update"} for _ in dated), (case, dated)
        assert case.facts or case.ended or case.kind in {"injection", "small talk"}, case


def test_eval_prompts_runs_without_a_model_and_prints_each_kind(tmp_path: Path) -> None:
    result = run("prompts", "--model", "offline", "--kinds", "facts,small talk", "--limit", 8, "--json")
    rows = rows_of(result)
    assert list(rows) == ["facts", "overall"]
    assert rows["facts"]["right"] == rows["facts"]["facts"] == 9
    conversations = json.loads(result.stdout)["conversations"]["langmem_adapter"]
    assert conversations[0]["memories"] == ["Works as a carpenter in Malmö"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prompts", "--model", "offline", "--kinds", "poems"), "there is no poems; there are facts, several"),
        (("prompts", "--model", "offline", "--against", "mem0", "--limit", 1), "this needs a chat model"),
        (("answers", "none.jsonl", "-u", "a"), "cannot read none.jsonl"),
    ],
)
def test_eval_prompts_and_answers_name_what_to_change(arguments: tuple[object, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())


@pytest.fixture
def questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two questions about memories of alice, in a database that the command finds."""
    database = tmp_path / "memory.db"
    with Memory(database, model="offline", embeddings="hash") as memory:
        memory.add("I live in Lyon and I have a dog.", user_id="alice")
    monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", str(database))
    monkeypatch.setenv("LANGMEM_ADAPTER_EMBEDDINGS", "hash")
    file = tmp_path / "mine.jsonl"
    rows = [
        {"question": "Where does she live?", "answer": "Lyon", "category": "home"},
        {"question": "Which pet does she have?", "answer": "a dog", "category": "pets"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def test_eval_answers_shows_the_cost_judges_and_goes_on_where_it_stopped(
    questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reply(body: dict[str, Any]) -> str | int:
        request = body["messages"][-1]["content"]
        if "Which pet" in request and not server_is_up:
            return 400
        if request.startswith("{"):
            return "Right." if "Lyon" in json.loads(request)["answer"] else "wrong"
        assert "Lives in Lyon" in request
        return "She lives in Lyon." if "Where" in request else "A cat."

    server_is_up = False
    with OpenAIServer(reply) as server:
        monkeypatch.setenv("LANGMEM_ADAPTER_BASE_URL", server.url)
        monkeypatch.setenv("LANGMEM_ADAPTER_API_KEY", "key")
        command = ("answers", questions, "-u", "alice", "--model", "openai:scripted", "--price", "1,2")
        unasked = run(*command)
        assert "this would make 4 calls of scripted" in " ".join(unasked.output.split())
        assert server.requests == []
        assert run(*command, "--yes").exit_code != 0
        server_is_up = True
        before = len(server.requests)
        result = run(*command, "--yes", "--json")
        assert len(server.requests) == before + 2
    rows = rows_of(result)
    assert (rows["home"]["right"], rows["pets"]["right"], rows["overall"]["share"]) == (1, 0, 0.5)
    answers = questions.with_name("mine.jsonl.answers.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["answer"] for line in answers] == ["She lives in Lyon.", "A cat."]
