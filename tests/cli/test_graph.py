import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from langmem_adapter.cli.app import app

Data = Callable[..., dict[str, Any]]
Cli = Callable[..., Any]

ADA = ("-u", "ada")
COMMANDS = "show entities path search add end delete merge split mirror export import backfill suggest".split()


@pytest.fixture
def ada(data: Data) -> dict[str, str]:
    """Relations of ada, one of which ended at the beginning of 2024; gives their ids by target."""
    rows = [
        data("graph", "add", "me", "lives in", "Kyoto", "--from", "2020-01-01", *ADA),
        data("graph", "add", "me", "lives in", "Lyon", "--from", "2024-01-01", *ADA),
        data("graph", "add", "me", "has sister", "小红", "--from", "2020-01-01", "--target-type", "person", *ADA),
        data("graph", "add", "小红", "works at", "Bosch", "--from", "2021-06-01", *ADA),
    ]
    return {envelope["data"][0]["target"]: envelope["data"][0]["id"] for envelope in rows}


def edges(envelope: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(row["source"], row["relation"], row["target"]) for row in envelope["data"]]


def test_graph_shows_the_newest_relations_first(data: Data, ada: dict[str, str]) -> None:
    envelope = data("graph", *ADA)
    assert envelope["command"] == "graph show"
    assert edges(envelope) == [
        ("小红", "works_at", "Bosch"),
        ("ada", "has_sister", "小红"),
        ("ada", "lives_in", "Lyon"),
    ]
    row = envelope["data"][2]
    assert (row["id"], row["user_id"], row["valid_to"], row["memory_ids"]) == (ada["Lyon"], "ada", None, [])
    assert row["valid_from"] == "2024-01-01T00:00:00+00:00"
    assert edges(data("graph", "show", *ADA)) == edges(envelope)


def test_graph_entity_takes_any_spelling_as_of_known_at_and_history(data: Data, ada: dict[str, str]) -> None:
    assert edges(data("graph", "LYON", *ADA)) == [("ada", "lives_in", "Lyon")]
    assert len(data("graph", "me", *ADA)["data"]) == 2
    assert ("ada", "lives_in", "Kyoto") in edges(data("graph", "me", "--as-of", "2022-01-01", *ADA))
    assert data("graph", "--known-at", "2022-01-01", *ADA)["data"] == []
    rows = data("graph", "me", "--history", *ADA)["data"]
    kyoto = [row for row in rows if row["target"] == "Kyoto"]
    assert [row["valid_to"] and row["valid_to"][:10] for row in kyoto] == ["2024-01-01", None]
    assert [row["retired_at"] is None for row in kyoto] == [True, False]


def test_graph_hops_show_neighbours(data: Data, ada: dict[str, str]) -> None:
    rows = data("graph", "me", "--hops", "2", *ADA)["data"]
    assert [(row["hops"], row["name"]) for row in rows][-1] == (2, "Bosch")
    assert [each["relation"] for each in rows[-1]["relations"]] == ["works_at"]


def test_graph_limit_and_after_page_through_all(data: Data, cli: Cli, ada: dict[str, str]) -> None:
    first = data("graph", "--limit", "2", *ADA)
    second = data("graph", "--limit", "2", "--after", first["next"], *ADA)
    assert len(first["data"]) == 2 and len(second["data"]) == 1 and second["next"] is None
    assert "more: --after " in cli("graph", "--limit", "2", *ADA).stderr


def test_graph_path_ends_with_3_without_a_path(data: Data, cli: Cli, ada: dict[str, str]) -> None:
    assert edges(data("graph", "path", "ada", "Bosch", *ADA)) == [
        ("ada", "has_sister", "小红"),
        ("小红", "works_at", "Bosch"),
    ]
    assert data("graph", "path", "Lyon", "Nowhere", *ADA, code=3)["data"] == []
    assert "no path of 4 relations" in cli("graph", "path", "Lyon", "Nowhere", *ADA, code=3).stderr


def test_graph_search_and_entities_find_what_is_there(data: Data, ada: dict[str, str]) -> None:
    assert edges(data("graph", "search", "who", "works", "at", "Bosch", *ADA))[0] == ("小红", "works_at", "Bosch")
    assert data("graph", "search", "anything", "-u", "nobody", code=3)["data"] == []
    rows = data("graph", "entities", *ADA)["data"]
    assert (rows[0]["name"], rows[0]["mentions"]) == ("ada", 3)
    assert [row["name"] for row in data("graph", "entities", "--type", "person", *ADA)["data"]] == ["小红"]


@pytest.mark.parametrize(("form", "begin"), [("mermaid", "flowchart LR"), ("dot", "digraph"), ("graphml", "<?xml")])
def test_graph_format_prints_a_drawing(data: Data, cli: Cli, ada: dict[str, str], form: str, begin: str) -> None:
    drawing = cli("graph", "--format", form, *ADA).stdout
    assert drawing.startswith(begin) and "小红" in drawing
    if form == "graphml":
        ET.fromstring(drawing)  # noqa: S314 - our own
    (row,) = data("graph", "me", "--hops", "1", "--format", form, *ADA)["data"]
    assert row["format"] == form and "Bosch" not in row["text"]


def test_graph_prints_tab_separated_lines_in_a_pipe(cli: Cli, ada: dict[str, str]) -> None:
    lines = cli("graph", *ADA).stdout.splitlines()
    assert lines[0].split("\t")[1:] == ["小红", "works_at", "Bosch", "2021-06-01T00:00:00+00:00", ""]
    assert len(lines) == 3
    assert "it knows Lyon" in cli("graph", "Lyonn", *ADA, code=3).stderr
    assert "it knows Bosch" in cli("graph", "Bosh", "--hops", "2", *ADA, code=3).stderr


def test_graph_without_relations_says_how_to_begin(cli: Cli, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    data("add", "I like tea", *ADA)
    assert "--graph" in cli("graph", *ADA).stderr
    monkeypatch.setattr("langmem_adapter.cli.output.Output.on_terminal", True)
    for arguments in (("entities",), (), ("suggest",)):
        assert data("graph", *arguments, *ADA, code=3 if "suggest" in arguments else 0)["data"] == []


def test_graph_refuses_contradicting_options(data: Data, ada: dict[str, str]) -> None:
    assert "ENTITY" in data("graph", "--hops", "2", *ADA, code=2)["error"]["hint"]
    assert "--history" in data("graph", "--history", "--format", "dot", *ADA, code=2)["error"]["message"]
    assert data("graph", "--as-of", "soon", *ADA, code=2)["error"]["code"] == "invalid_input"
    assert data("graph", code=2)["error"]["code"] == "scope"


def test_graph_end_and_delete(data: Data, ada: dict[str, str]) -> None:
    (row,) = data("graph", "add", "ada", "resides in", "lyon", *ADA)["data"]
    assert (row["event"], row["id"], row["mentions"]) == ("NONE", ada["Lyon"], 2)
    (ended,) = data("graph", "end", ada["Bosch"], "--at", "2022-01-01", *ADA)["data"]
    assert (ended["event"], ended["valid_to"]) == ("END", "2022-01-01T00:00:00+00:00")
    assert data("graph", "delete", ada["Lyon"])["data"][0]["event"] == "DELETE"
    assert edges(data("graph", *ADA)) == [("ada", "has_sister", "小红")]
    for command in ("end", "delete"):
        error = data("graph", command, ada["Lyon"], code=3)["error"]
        assert error["code"] == "not_found" and "langmem-adapter graph" in error["hint"]
    assert data("graph", "delete", ada["小红"], "-u", "bob", code=3)["error"]["code"] == "not_found"


def test_graph_merge_and_split(data: Data, ada: dict[str, str]) -> None:
    data("graph", "add", "Red", "likes", "tea", *ADA)
    assert data("graph", "merge", "Red", "小红", *ADA)["data"][0]["moved"] == 1
    assert ("小红", "likes", "tea") in edges(data("graph", "red", *ADA))
    assert data("graph", "split", "Red", *ADA)["data"][0]["moved"] == 1
    assert edges(data("graph", "red", *ADA)) == [("Red", "likes", "tea")]
    error = data("graph", "merge", "Nobody", "小红", *ADA, code=3)["error"]
    assert error["code"] == "not_found" and "graph entities" in error["hint"]


def test_add_graph_shows_changes_of_relations(data: Data, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data("add", "I live in Kyoto", *ADA)["data"][0]["relations"] == []
    (row,) = data("add", "I live in Oslo", *ADA, "--graph")["data"]
    assert [(each["event"], each["relation"]["target"]) for each in row["relations"]] == [("ADD", "Oslo")]
    monkeypatch.setenv("LANGMEM_ADAPTER_GRAPH", "true")
    (row,) = data("add", "I moved to Lyon", *ADA)["data"]
    assert [(each["event"], each["relation"]["target"]) for each in row["relations"]] == [
        ("END", "Oslo"),
        ("ADD", "Lyon"),
    ]
    assert row["relations"][0]["relation"]["valid_to"] is not None
    assert "relations: 1 added, 1 ended" in cli("add", "I live in Rome now", *ADA).stderr
    (row,) = data("add", "I live in Paris now", *ADA, "--no-graph")["data"]
    assert [each["event"] for each in row["relations"]] == ["END"]  # the memory that said so says something else now
    assert "relations" not in cli("add", "I live in Paris now", *ADA, "--no-graph").stderr
    data("add", "My sister Mia works at Bosch.", *ADA)
    found = data("search", "where", "does", "my", "sister", "work", *ADA, "--graph")["data"]
    assert "Bosch" in found[0]["text"]


def test_purge_and_doctor_count_the_graph(data: Data, ada: dict[str, str]) -> None:
    (check,) = [check for check in data("doctor")["data"] if check["name"] == "database"]
    assert "entities 5, relations 4" in check["detail"]
    (erased,) = data("purge", *ADA, "--yes")["data"]
    assert (erased["relations"], erased["entities"]) == (4, 5)
    assert data("graph", *ADA)["data"] == []


def test_graph_backfill_reads_memories_once(data: Data, cli: Cli) -> None:
    data("add", "I work at Bosch.", "--no-infer", *ADA)
    data("add", "Good morning!", "--no-infer", *ADA)
    (first,) = data("graph", "backfill", "--limit", "1", *ADA)["data"]
    assert (first["read"], first["left"]) == (1, 1)
    assert cli("graph", "backfill", *ADA).stdout.split() == ["1", "0", "0", "0", "0", "0"]
    assert edges(data("graph", *ADA)) == [("ada", "works_at", "Bosch")]
    assert data("graph", "backfill", *ADA)["data"][0]["read"] == 0


def test_graph_suggest_prints_a_command_that_works(data: Data, cli: Cli) -> None:
    for target in ("José $(rm)", "José", "-Jose"):
        cli("graph", "add", *ADA, "--", "me", "visits", target)
    (row,) = data("graph", "suggest", *ADA)["data"]
    assert {row["source"], row["into"]} == {"José", "-Jose"}
    said = cli("graph", "suggest", *ADA)
    assert row["command"] in said.stderr
    assert row["why"] in said.stdout
    name, *arguments = shlex.split(row["command"])
    assert name == "langmem-adapter"
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert data("graph", "suggest", *ADA, code=3)["data"] == []


def test_graph_export_and_import_make_the_same_again(data: Data, cli: Cli, ada: dict[str, str], tmp_path: Path) -> None:
    [row] = data("graph", "export", "-o", "graph.jsonl", *ADA)["data"]
    assert row == {"format": "jsonl", "entities": 5, "relations": 4, "file": "graph.jsonl"}
    envelope = data("-d", "other.db", "graph", "import", "graph.jsonl")
    assert envelope["data"] == [{"read": 4, "added": 4, "widened": 0, "known": 0, "past": 0, "refused": 0}]
    assert edges(data("-d", "other.db", "graph", *ADA)) == edges(data("graph", *ADA))
    table = cli("graph", "export", "-o", "-", "--format", "csv", *ADA).stdout
    assert cli("graph", "import", "-", "--format", "csv", *ADA, input=table).stdout == "4\t0\t0\t4\t0\t0\n"
    assert not data("graph", "import", "graph.jsonl", "-u", "bob", code=6)["ok"]
    assert "there are no relations of user=adda" in cli("graph", "export", "-o", "graph.csv", "-u", "adda").stderr
    result = cli("graph", "import", "graph.csv", *ADA)
    assert ("nothing to take in from graph.csv" in result.stderr, result.stdout) == (True, "0\t0\t0\t0\t0\t0\n")


def test_graph_import_names_refused_lines(data: Data, cli: Cli) -> None:
    table = "source,relation,target\nAnna,likes,tea\nAnna,,tea\n"
    envelope = data("graph", "import", "-", "--format", "csv", *ADA, input=table, code=6)
    assert envelope["failed"] == [{"where": "line 3", "begins": "Anna,,tea", "reason": "relation is missing"}]
    assert envelope["error"]["code"] == "partial"
    result = cli("graph", "import", "-", "--format", "csv", *ADA, input=table, code=6)
    assert (result.stdout, "line 3: relation is missing (Anna,,tea)" in result.stderr) == ("2\t0\t0\t1\t0\t1\n", True)


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        (("import", "absent.csv"), "cannot read absent.csv"),
        (("import", "graph.xml"), "'jsonl', 'csv'"),
        (("export", "-o", "graph.xml"), "'graphml'"),
        (("export", "-o", "-"), "a stream has no known ending"),
        (("import", "-"), "a stream has no known ending"),
        (("import", "http://localhost:7474"), "bolt://localhost:7687"),
        (("import", "bolt:/localhost"), "bolt://localhost:7687"),
        (("export", "-o", "nowhere/graph.csv"), "cannot write nowhere/graph.csv"),
        (("import", "-", "--format", "csv"), "missing: source, relation, target"),
        (("export", "-o", "/dev/full", "--format", "csv"), "cannot write /dev/full"),
    ],
)
def test_graph_import_names_unusable_files(cli: Cli, ada: dict[str, str], arguments: tuple[str, ...], fix: str) -> None:
    assert fix in cli("graph", *arguments, *ADA, input="a,b\n", code=2).stderr


def test_graph_format_says_when_it_is_cut(cli: Cli) -> None:
    lines = "".join(f'{{"source": "hub", "relation": "knows", "target": "name {number}"}}\n' for number in range(420))
    cli("graph", "import", "-", "--format", "jsonl", *ADA, input=lines)
    assert "graph export -o graph.graphml" in cli("graph", "--format", "dot", *ADA).stderr
