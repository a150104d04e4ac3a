"""The commands that measure what is found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from typer.testing import CliRunner

from langmem_adapter.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

    Cli: TypeAlias = Callable[..., Result]
    Data: TypeAlias = Callable[..., dict[str, Any]]

TURNS = {
    "I live in Oslo.": "Where does Mira live?",
    "My boat is called Sparrow.": "What is the name of the boat?",
    "We grew tomatoes last summer.": "Which vegetables did they grow?",
}


@pytest.fixture
def measure(tmp_path: Path) -> Data:
    """Runs `eval conversations`, each time in a database of its own."""

    def run(*arguments: object) -> dict[str, Any]:
        result = CliRunner().invoke(app, ["eval", "conversations", *map(str, arguments), "--json"])
        assert result.exit_code == 0, result.output
        (tmp_path / "run.json").write_text(result.stdout, encoding="utf-8")
        envelope: dict[str, Any] = json.loads(result.stdout)
        return envelope

    return run


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """A tiny conversation in LoCoMo's format, written for these tests."""
    turns = [{"speaker": "Mira", "dia_id": f"D1:{n}", "text": text} for n, text in enumerate(TURNS, 1)]
    asked = [
        {"question": question, "evidence": [f"D1:{n}"], "category": category}
        for n, (question, category) in enumerate(zip(TURNS.values(), (4, 1, 5), strict=True), 1)
    ]
    asked.append({"question": "Who is the aunt?", "evidence": [], "category": 2})
    conversation = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}
    samples = [{"sample_id": f"talk-{n}", "conversation": conversation, "qa": asked} for n in (1, 2)]
    file = tmp_path / "talk.json"
    file.write_text(json.dumps(samples), encoding="utf-8")
    return file


def write(file: Path, *rows: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def test_eval_conversations_prints_metrics(data: Data, talk: Path) -> None:
    envelope = data("eval", "conversations", talk)
    assert envelope["command"] == "eval conversations"
    rows = {row["category"]: row for row in envelope["data"]}
    assert list(rows) == ["multi-hop", "single-hop", "overall", "adversarial"]
    assert rows["overall"]["questions"] == 4
    assert rows["overall"]["recall@5"] == rows["overall"]["recall@20"] == 1  # there are only three turns
    assert 0.5 <= rows["overall"]["mrr"] <= rows["overall"]["ndcg@10"] <= 1
    assert rows["adversarial"]["apart"]
    assert (envelope["turns"], envelope["infer"]) == (6, False)
    assert (envelope["mode"], envelope["embeddings"].split("/")[0]) == ("offline", "hash:512")
    assert envelope["context_tokens"] > 0
    assert envelope["p95_ms"] >= envelope["p50_ms"] > 0
    assert [row["ranks"] for row in envelope["questions"] if not row["apart"]] == [[1]] * 4
    assert rows["overall"]["session recall"] == rows["overall"]["first session"] == 1
    assert envelope["intervals"]["recall@10"] == [1, 1]
    assert [row["category"] for row in envelope["conversations"]] == ["talk-1", "talk-2"]
    assert envelope["left_out"] == [f"question 4 of talk-{n} names no turn: Who is the aunt?" for n in (1, 2)]


def test_eval_conversations_takes_limit_categories_and_k(data: Data, talk: Path) -> None:
    envelope = data("eval", "conversations", talk, "--limit", 1, "--categories", "single-hop,adversarial", "-k", "1,2")
    assert [row["category"] for row in envelope["conversations"]] == ["talk-1"]
    assert [row["category"] for row in envelope["data"]] == ["single-hop", "overall", "adversarial"]
    assert {"recall@1", "recall@2", "recall@10"} <= envelope["data"][0].keys()
    told = CliRunner().invoke(app, ["eval", "conversations", str(talk), "--limit", "1"]).stderr
    assert "foreign questions: none, since there is no other conversation to ask them of" in told


def test_eval_conversations_removes_its_database(
    talk: Path, tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", str(tmp_path / "mine.db"))
    assert CliRunner().invoke(app, ["eval", "conversations", str(talk)]).exit_code == 0
    assert list(tmp_path.rglob("*.db")) == []
    assert CliRunner().invoke(app, ["eval", "conversations", str(talk), "-d", str(database)]).exit_code == 0
    assert database.exists()
    again = CliRunner().invoke(app, ["eval", "conversations", str(talk), "-d", str(database), "--json"])
    assert again.exit_code == 2
    assert "has memories of talk-1 already" in json.loads(again.stdout)["error"]["message"]


def test_eval_conversations_takes_infer(data: Data, talk: Path) -> None:
    envelope = data("eval", "conversations", talk, "--infer", "--limit", "1", "--categories", "single-hop")
    assert (envelope["infer"], envelope["turns"], envelope["data"][-1]["recall@10"]) == (True, 3, 1)


def test_eval_prints_rows_in_a_pipe_and_a_table_on_a_terminal(
    cli: Cli, talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = CliRunner().invoke(app, ["eval", "conversations", str(talk)])
    assert [line.split("\t")[:2] for line in result.stdout.splitlines()] == [
        ["multi-hop", "2"],
        ["single-hop", "2"],
        ["overall", "4"],
        ["adversarial", "2"],
    ]
    for told in (
        "left out: question 4 of talk-1 names no turn",
        "context of ten hits",
        "by conversation",
        "foreign questions, names as asked: AUROC 0.500",
    ):
        assert told in result.stderr
    monkeypatch.setattr("langmem_adapter.cli.output.Output.on_terminal", True)
    shown = cli("eval", "conversations", talk).stdout
    assert "talk.json, turns kept word for word · hash:512" in shown
    assert "(adversarial)" in shown
    assert "session" in shown and "r@500t" in shown
    assert all(len(line.rstrip()) <= 80 for line in shown.splitlines())


def test_eval_conversations_measures_foreign_questions(measure: Data, talk: Path) -> None:
    (asked, replaced) = measure(talk)["silence"]
    assert (asked["names"], replaced["names"]) == ("as asked", "replaced")
    assert asked["own"] == asked["foreign"] == 4
    assert asked["auroc"] == replaced["auroc"] == 0.5  # both conversations say the same
    assert measure(talk, "--others", "0")["silence"] == []


def test_eval_against_compares_with_an_earlier_run(measure: Data, cli: Cli, talk: Path, tmp_path: Path) -> None:
    measure(talk, "--limit", "1")
    compared = ("--against", tmp_path / "run.json")
    assert (
        "mrr +0.000 (+0.000 to +0.000) against the earlier run" in cli("eval", "conversations", talk, *compared).stderr
    )
    (row,) = (row for row in measure(talk, *compared)["against"] if row["metric"] == "mrr")
    assert row == {"metric": "mrr", "questions": 2, "difference": 0, "low": 0, "high": 0}


def test_eval_conversations_takes_user_turns(measure: Data, tmp_path: Path) -> None:
    turns = [{"id": "1", "text": "I live in Oslo."}, {"id": "2", "role": "assistant", "text": "Oslo is lovely."}]
    asked = [{"question": "Where do I live?", "gold": ["1"]}, {"question": "What is lovely?", "gold": ["2"]}]
    file = tmp_path / "plain.json"
    talk = {"user": "ada", "sessions": [{"time": None, "turns": turns}], "questions": asked}
    file.write_text(json.dumps([talk]), encoding="utf-8")
    assert measure(file)["turns"] == 2
    envelope = measure(file, "--user-turns")
    assert (envelope["turns"], envelope["data"][0]["questions"], envelope["silence"]) == (1, 1, [])
    assert envelope["left_out"] == ["question 2 of ada names no turn: What is lovely?"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--against", "absent.json"], "cannot read absent.json"),
        (["-k", "0"], "-k takes numbers from 1 to 1,000"),
        (["-k", "5;10"], "-k takes numbers"),
        (["--categories", "temporal"], "there is no temporal; there are adversarial, multi-hop, single-hop"),
    ],
)
def test_eval_refuses_wrong_options(data: Data, talk: Path, arguments: list[str], told: str) -> None:
    assert told in data("eval", "conversations", talk, *arguments, code=2)["error"]["message"]


@pytest.fixture
def known(data: Data) -> list[str]:
    """Ids of Ada's memories."""
    added = data("add", "I live in Oslo. I like tea. I have a boat.", "-u", "ada")
    return [row["id"] for row in added["data"]]


def test_eval_questions_measures_own_memories(data: Data, known: list[str], tmp_path: Path) -> None:
    file = write(
        tmp_path / "mine.jsonl",
        {"question": "Where does she live?", "expected": known[:1], "category": "place"},
        {"question": "What does she like?", "contains": ["TEA"]},
        {"question": "Who won the cup?", "contains": ["football", "tea"]},
    )
    before = data("list", "-u", "ada")["data"]
    envelope = data("eval", "questions", file, "-u", "ada", "-k", "1,10")
    assert data("list", "-u", "ada")["data"] == before
    assert envelope["command"] == "eval questions"
    assert [(row["category"], row["questions"]) for row in envelope["data"]] == [("place", 1), ("overall", 3)]
    assert envelope["data"][0]["recall@1"] == 1
    assert envelope["data"][1]["recall@10"] == pytest.approx(2.5 / 3, abs=1e-4)
    assert [row["where"] for row in envelope["questions"] if len(row["ranks"]) < row["pieces"]] == ["line 3"]


def test_eval_questions_names_missed_questions(cli: Cli, known: list[str], tmp_path: Path) -> None:
    del known
    rows = [{"question": f"Who is {n}?", "contains": ["nobody"], "user_id": "ada"} for n in range(12)]
    result = cli("eval", "questions", write(tmp_path / "q.jsonl", *rows))
    assert "12 of 12 questions did not find everything within ten hits" in result.stderr
    assert "line 10: 0 of 1 found · Who is 9?" in result.stderr
    assert "by scope" not in result.stderr  # all are of one
    assert "line 11" not in result.stderr
    assert "and 2 more; --json names all" in result.stderr


def test_eval_questions_names_what_is_not_there(data: Data, tmp_path: Path) -> None:
    file = write(tmp_path / "q.jsonl", {"question": "tea?", "contains": ["tea"]})
    assert data("eval", "questions", file, "-u", "ada", code=3)["error"]["code"] == "no_database"
    known = data("add", "I like tea.", "-u", "ada")["data"][0]["id"]
    error = data("eval", "questions", file, "-u", "adda", code=3)["error"]
    assert error["message"] == "line 1: there are no memories of user=adda" and "user=ada" in error["hint"]
    write(file, {"question": "tea?", "expected": [known, "gone"]})
    message = data("eval", "questions", file, "-u", "ada", code=2)["error"]["message"]
    assert message == "no such memory in that scope: line 1: gone"
