import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_adapter.cli.app import app
from langmem_adapter.cli.output import one_line
from langmem_adapter.errors import InvalidInputError
from langmem_adapter.maintenance.reindex import reindex
from langmem_adapter.memory.memory import Memory
from tests.cli.conftest import on_a_terminal
from tests.programs import COMMAND

Data = Callable[..., dict[str, Any]]
Cli = Callable[..., Any]


@pytest.fixture
def alice(data: Data) -> list[str]:
    """Three memories of alice, two of bob; gives alice's ids, oldest first."""
    for number, text in enumerate(["Lives in Kyoto", "Has a dog", "Likes jazz"], 1):
        data("add", text, "--no-infer", "-u", "alice", "--timestamp", f"2024-01-0{number}")
    data("add", "Has a cat", "--no-infer", "-u", "bob")
    data("add", "Has a cat", "--no-infer", "-u", "bob", "--run", "7")
    return [item["id"] for item in reversed(data("list", "-u", "alice")["data"])]


def test_search_prints_the_best_first_and_explains(data: Data, alice: list[str]) -> None:
    envelope = data("search", "does", "she", "have", "a", "dog", "-u", "alice", "-k", "2", "--explain")
    assert envelope["command"] == "search"
    assert envelope["count"] == len(envelope["data"]) == 2
    assert envelope["data"][0]["id"] == alice[1]
    assert set(envelope["data"][0]["explanation"]) == {"meaning", "words", "strategy", "parts", "ranks"}
    assert envelope["data"][0]["relevance"] >= envelope["data"][1]["relevance"]
    assert envelope["mode"] == "offline"
    assert envelope["ms"] >= 0


def test_search_threshold_is_a_number_or_auto(data: Data, alice: list[str]) -> None:
    small = data("search", "Which guitar?", "-u", "alice", "--threshold", "auto", "--max-tokens", 1_000)
    assert len(small["data"]) == len(alice)
    none = data("search", "Which guitar?", "-u", "alice", "-k", 1, "--threshold", "auto", code=3)
    assert none["abstained"]["threshold"] == 0.25
    assert data("search", "Which guitar?", "-u", "alice", "--threshold", 0.4, code=3)["abstained"]["threshold"] == 0.4
    for wrong in ("many", "7", ""):
        told = data("search", "Which guitar?", "-u", "alice", "--threshold", wrong, code=2)["error"]["message"]
        assert "from 0 to 1" in told and "'auto'" in told


def test_search_never_crosses_scopes(data: Data, alice: list[str]) -> None:
    assert {row["user_id"] for row in data("search", "cat", "-u", "bob")["data"]} == {"bob"}
    assert len(data("search", "cat", "-u", "bob", "--run", "7")["data"]) == 1
    assert "cat" not in json.dumps(data("search", "cat", "-u", "alice")["data"])


def test_search_without_hits_ends_with_3(data: Data, cli: Cli, alice: list[str]) -> None:
    silent = data("search", "dog", "-u", "alcie", code=3)
    assert silent["data"] == [] and silent["abstained"]["reason"] == "empty"
    assert "user=alice (3)" in cli("search", "dog", "-u", "alcie", code=3).stderr
    error = data("list", code=2)["error"]
    assert error["code"] == "scope" and "user=alice (3)" in error["hint"]


def test_list_pages_to_the_end(data: Data, cli: Cli, alice: list[str]) -> None:
    first = data("list", "-u", "alice", "--limit", "2")
    second = data("list", "-u", "alice", "--limit", "2", "--after", first["next"])
    assert [row["id"] for row in first["data"] + second["data"]] == alice[::-1]
    assert second["next"] is None
    assert f"more: --after {first['next']}" in cli("list", "-u", "alice", "--limit", "2").stderr


def test_search_and_list_take_as_of_and_known_at(data: Data, cli: Cli, alice: list[str]) -> None:
    data("update", alice[0], "Lives in Lyon", "-u", "alice")
    then = "-u", "alice", "--as-of", "2024-01-02"
    assert [row["text"] for row in data("list", *then)["data"]] == ["Has a dog", "Lives in Kyoto"]
    assert {row["text"] for row in data("search", "home", *then)["data"]} == {"Has a dog", "Lives in Kyoto"}
    first, second = data("history", alice[0])["data"]
    assert (first["valid_from"], first["valid_to"]) == ("2024-01-01T00:00:00+00:00", second["valid_from"])
    assert second["valid_to"] is None
    known = "-u", "alice", "--known-at"
    assert data("list", *known, "2024-01-02")["data"] == []
    assert data("search", "home", *known, "2024-01-02", code=3)["data"] == []
    assert len(data("list", *known, "2100-01-01")["data"]) == 3
    assert "as_of" in cli("list", "-u", "alice", "--as-of", "soon", code=2).stderr


def test_add_notes_a_past_expires_at_and_list_expired_shows_it(cli: Cli, data: Data) -> None:
    for end, told in (("2999-01-01", False), ("2001-01-01", True)):
        assert ("list --expired shows it" in cli("add", "I like tea", "-u", end, "--expires-at", end).stderr) == told
    assert (data("list", "-u", end)["count"], data("list", "-u", end, "--expired")["count"]) == (0, 1)
    known = cli("add", "I like tea", "-u", "2999-01-01", "--expires-at", end).stderr
    assert "list --expired shows it" not in known
    assert "existing memories keep their expiry" in known


def test_list_prints_tab_separated_lines_in_a_pipe(cli: Cli, data: Data) -> None:
    data("add", "one\ttab\nand \\ \x1b[31mred", "--no-infer", "-u", "a")
    (line,) = cli("list", "-u", "a").stdout.splitlines()
    _, _, text = line.split("\t")
    assert text == r"one\ttab\nand \\ \x1b[31mred"


def test_show_prints_the_columns_of_its_help_in_a_pipe(cli: Cli, data: Data, alice: list[str]) -> None:
    (item,) = data("show", alice[0])["data"]
    assert (item["text"], item["revision"]) == ("Lives in Kyoto", 1)
    told = re.search(r"these are columns: ([^.]*)\.", " ".join(cli("show", "--help").stdout.split()))
    assert told is not None
    names = told[1].split(", ")
    assert set(names) == set(item) - {"hash"}
    shown = cli("show", alice[0]).stdout.rstrip("\n").split("\t")
    assert shown == [one_line(item[name]) for name in names]
    assert data("show", alice[0], "-u", "bob", code=3)["error"]["code"] == "not_found"
    assert data("show", "nobody", code=3)["error"]["hint"]


def test_search_explain_is_a_column_in_a_pipe(cli: Cli, alice: list[str]) -> None:
    result = cli("search", "Kyoto", "-u", "alice", "--explain")
    assert "offline: rules" in result.stderr and "offline" not in result.stdout
    for line in result.stdout.splitlines():
        score, _, _, _, why = line.split("\t")
        assert sum(json.loads(why)["parts"].values()) == pytest.approx(float(score))
    assert all(line.count("\t") == 3 for line in cli("search", "Kyoto", "-u", "alice").stdout.splitlines())


def test_missing_database_is_an_error(data: Data, database: Any) -> None:
    error = data("list", "-u", "alice", code=3)["error"]
    assert error["code"] == "no_database"
    assert str(database) in error["message"]
    assert not database.exists()


@pytest.mark.parametrize(
    ("where", "named"), [("~/m.db", "option"), ("~/m.db", "setting"), ("sqlite:///m.db", "option")]
)
def test_every_command_reads_the_database_option_alike(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, where: str, named: str
) -> None:
    def run(*arguments: str, code: int = 0) -> Any:
        monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", where)
        result = CliRunner().invoke(app, [*arguments, *(["-d", where] if named == "option" else [])])
        assert result.exit_code == code, result.output
        return result

    file = Path(where.removeprefix("sqlite:///")).expanduser()
    for arguments in (["list", "-u", "a"], ["search", "x", "-u", "a"], ["history", "some-id"], ["reindex"]):
        assert "there is no database at" in run(*arguments, code=3).stderr
    assert not file.exists()
    run("add", "I live in Lyon", "-u", "a")
    assert file.exists()
    for arguments in (["list", "-u", "a"], ["search", "Lyon", "-u", "a"]):
        assert "Lives in Lyon" in run(*arguments).stdout
    assert "memories 1, scopes 1, entities 0" in run("doctor").stdout


def test_every_command_refuses_a_blank_database(data: Data, tmp_path: Path) -> None:
    looks = ["list", "-u", "a"], ["search", "x", "-u", "a"], ["add", "I like tea", "-u", "a"], ["reindex"]
    for arguments in looks:
        assert "name is blank" in data(*arguments, "-d", "", code=4)["error"]["message"]
    with pytest.raises(InvalidInputError, match="name is blank"):
        reindex("", "hash:64")
    assert not list(tmp_path.rglob("*.db"))


def test_list_show_history_and_graph_import_nothing_heavy(data: Data, database: Path, alice: list[str]) -> None:
    data("graph", "add", "Anna", "lives in", "Lyon", "-u", "alice")
    # one new interpreter for all: a fork of the test's own has everything imported
    program = (
        "import sys\nfrom langmem_adapter.cli.app import app\n"
        "alice = ['-u', 'alice']\n"
        "looking = ['list', *alice], ['show', sys.argv[2]], ['history', sys.argv[2]]\n"
        "looking += ['graph', *alice], ['graph', 'entities', *alice]\n"
        "for arguments in looking:\n"
        "    app(['-d', sys.argv[1], *arguments, '--json'], standalone_mode=False)\n"
        "heavy = 'alembic numpy faiss langgraph langchain langchain_core langsmith openai'\n"
        "print([name for name in heavy.split() if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(database), alice[0]]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    *envelopes, imported = done.stdout.splitlines()
    assert [json.loads(envelope)["count"] for envelope in envelopes] == [3, 1, 1, 1, 2]
    assert imported == "[]"


def test_list_show_history_and_graph_need_no_model(data: Data, alice: list[str]) -> None:
    other = ("--embeddings", "hash:64", "--model", "nobody:nothing")
    assert data("list", "-u", "alice", *other)["count"] == 3
    assert data("show", alice[0], *other)["count"] == 1
    assert data("history", alice[0], *other)["count"] == 1
    assert (
        data("graph", "-u", "alice", *other)["count"] == data("graph", "entities", "-u", "alice", *other)["count"] == 0
    )


def test_trace_lists_adds_and_shows_one(data: Data, cli: Cli) -> None:
    data("add", "I like tea", "-u", "a")
    data("add", "你好\x1b[31m", "-u", "a", "--no-infer")
    data("add", "I have a cat", "-u", "b")
    first = data("trace", "-u", "a", "-k", "1")
    (newer,), (older,) = first["data"], data("trace", "-u", "a", "--after", first["next"])["data"]
    assert [(did["said"], did["events"]) for did in (older, newer)] == [
        ("I like tea", {"ADD": 1}),
        ("你好\x1b[31m", {"ADD": 1}),
    ]
    assert cli("trace", "-u", "a").stdout.splitlines()[1].startswith(f"{older['id']}\t")
    assert "user=a (2), user=b (1)" in cli("trace", "-u", "c").stderr
    (shown,) = data("trace", older["id"][:8], "-u", "a")["data"]
    assert [fact["text"] for fact in shown["facts"]] == ["Likes tea"]
    assert data("trace", older["id"], "-u", "b", code=3)["error"]["code"] == "not_found"
    assert data("trace", older["id"][:8], "-u", "b", code=3)["error"]["code"] == "not_found"


def test_full_id_wins_over_an_id_that_begins_with_it(data: Data, database: Path) -> None:
    with Memory(database) as memory:
        for text in ("I like tea", "I like jazz"):
            memory.add(text, user_id="a")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "UPDATE traces SET id = 'note-1' || CASE WHEN id = (SELECT min(id) FROM traces) THEN '' ELSE '2' END"
        )
    assert data("trace", "note-1")["data"][0]["id"] == "note-1"
    assert data("trace", "note", code=2)["error"]["code"] == "ambiguous"


def test_no_command_prints_terminal_escapes(cli: Cli, data: Data) -> None:
    evil = "I like tea \x1b[2J \x9b31m \x1b]0;x\x07 \x7f \u202e"
    id_ = data("add", evil, "--no-infer", "-u", "a", "--graph")["data"][0]["id"]
    data("graph", "add", "a", "likes", evil, "-u", "a")
    commands = [
        ["list"],
        ["show", id_],
        ["search", "tea"],
        ["history", id_],
        ["trace"],
        ["graph"],
        ["graph", "search", "tea"],
    ]
    for command in commands:
        for form in ([], ["--json"]):
            shown = cli(*command, "-u", "a", *form).stdout
            assert "like" in shown and not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown), (command, form)
    assert data("show", id_)["data"][0]["text"] == evil


def test_trace_prints_a_picture_on_a_terminal(data: Data, database: Path) -> None:
    data("add", "I like tea \x1b[31m", "-u", "a")
    number = data("trace", "-u", "a")["data"][0]["id"]
    listed, shown = (
        on_a_terminal([*COMMAND, "-d", str(database), "trace", *more], NO_COLOR="1") for more in (["-u", "a"], [number])
    )
    assert "+ 1 ADD" in listed and number in listed
    assert "+ ADD" in shown and "I like tea" in shown
    assert "\x1b[31m" not in listed + shown


def test_users_lists_whose_memories_there_are(data: Data, cli: Cli, alice: list[str]) -> None:
    data("add", "I like figs", "-u", "bob", "--run", "7")
    rows = {(row["user_id"], row["run_id"]): row["memories"] for row in data("users")["data"]}
    assert rows == {("alice", None): 3, ("bob", None): 1, ("bob", "7"): 2}
    assert {line.split("\t")[0] for line in cli("users").stdout.splitlines()} == {"alice", "bob"}


def test_users_shows_a_line_feed_of_an_id_escaped(cli: Cli, database: Path) -> None:
    cli("add", "I like tea", "-u", "ann\nuser=bob  9")
    assert "user=ann\\nuser=bob  9" in on_a_terminal([*COMMAND, "-d", str(database), "users"])
    assert "no traces of user=x\\ny" in cli("trace", "-u", "x\ny").stderr


def test_search_and_list_take_a_filter_and_list_as_of(data: Data) -> None:
    for year, home, topic in (("2024", "Lyon", "home"), ("2026", "Oslo", "home"), ("2025", "tea", "food")):
        text = f"I like {home}" if topic == "food" else f"I live in {home}"
        data("add", text, "-u", "ann", "--timestamp", f"{year}-05-01", "--metadata", json.dumps({"topic": topic}))
    food = '{"topic": "food"}'
    assert [row["text"] for row in data("list", "-u", "ann", "--filter", food)["data"]] == ["Likes tea"]
    assert [row["text"] for row in data("search", "Oslo", "-u", "ann", "--filter", food)["data"]] == ["Likes tea"]
    assert data("list", "-u", "ann", "--filter", '{"topic": "none"}')["count"] == 0
    assert [row["text"] for row in data("list", "-u", "ann", "--as-of", "2024-06-01")["data"]] == ["Lives in Lyon"]
    assert data("list", "-u", "ann", "--filter", '{"topic": {"$odd": 1}}', code=2)["error"]["code"] == "filter"
    for broken in ("{", '{"a": 1' + "0" * 5_000 + "}"):
        assert "--filter is no JSON" in data("list", "-u", "ann", "--filter", broken, code=2)["error"]["message"]
