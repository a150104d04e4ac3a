import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage import erasure

Data = Callable[..., dict[str, Any]]
Cli = Callable[..., Any]


@pytest.fixture
def two(data: Data) -> None:
    data("add", "Has a dog", "--no-infer", "-u", "alice")
    data("add", "Has a cat", "--no-infer", "-u", "bob")


def test_purge_erases_one_scope_after_a_confirmation(data: Data, cli: Cli, two: None) -> None:
    assert data("purge", "--yes", code=2)["error"]["code"] == "scope"
    refused = data("purge", "-u", "alice", code=2)["error"]
    assert refused["code"] == "confirmation_needed" and "--yes" in refused["hint"]
    assert "alice" in cli("purge", "-u", "alice", code=2).stderr
    assert data("list", "-u", "alice")["count"] == 1
    (row,) = data("purge", "-u", "alice", "--yes")["data"]
    assert (row["memories"], row["revisions"], row["scopes"], row["remains"]) == (1, 1, 1, [])
    assert (row["user_id"], data("list", "-u", "alice")["data"], data("list", "-u", "bob")["count"]) == ("alice", [], 1)


def test_purge_ends_with_6_when_something_remains(
    data: Data, database: Path, two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(erasure.clean.__kwdefaults__, "patience", 0.2)  # type: ignore[arg-type]
    with Memory(database) as memory, memory.parts.database.read() as reading:
        reading.exec_driver_sql("SELECT * FROM memories").all()
        told = data("purge", "-u", "alice", "-y", code=6)
    assert told["ok"]
    assert "purge again" in told["data"][0]["remains"][0]
    assert data("purge", "-u", "alice", "-y")["data"][0]["remains"] == []


def test_purge_prints_the_numbers_of_its_help_in_a_pipe(cli: Cli, two: None) -> None:
    numbers = cli("purge", "-u", "alice", "-y").stdout
    assert re.fullmatch(r"1\t1\t\d+\t1\t1\t1\t\d\t\d+\t0\t0\n", numbers)
    named = re.search(r"the numbers are: ([^.]*)\.", " ".join(cli("purge", "--help").stdout.split()))
    assert named is not None
    names = [name.split()[0] for name in named[1].split(", ")]
    assert names == "memories revisions words traces runs scopes files freed relations entities".split()
    assert "how many were deleted" in cli("delete", "--help").stdout


def test_search_with_other_embeddings_names_reindex(data: Data, cli: Cli, database: Path, two: None) -> None:
    error = data("search", "dog", "-u", "alice", "--embeddings", "hash:64", code=4)["error"]
    assert error["code"] == "embedding_mismatch"
    assert "hash:512," in error["message"] and "hash:64;" in error["message"]
    assert data("list", "-u", "alice", "--embeddings", "hash:64")["count"] == 1
    command = re.search(r"langmem-adapter (reindex -d \S+ --embeddings) NAME", error["message"])
    assert command is not None
    cli(*command[1].split(), "hash:64")
    assert data("search", "dog", "-u", "alice", "--embeddings", "hash:64")["data"][0]["text"] == "Has a dog"


def test_reindex_prints_its_result_and_the_new_setting(
    data: Data, cli: Cli, two: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert data("reindex", "--embeddings", "hash:64")["data"] == [
        {"memories": 2, "embedded": 2, "resumed": 0, "before": "hash:512/2", "after": "hash:64/2"}
    ]
    again = cli("reindex", "--embeddings", "hash:64")
    assert again.stdout == "2\thash:64/2\thash:64/2\n"
    told = re.search(r"export (\w+)=(\S+)", again.stderr)
    assert told is not None
    monkeypatch.setenv(*told.groups())
    assert "Has a dog" in cli("search", "dog", "-u", "alice").stdout
    assert "export" not in cli("reindex").stderr
    assert data("reindex", "-d", str(tmp_path / "none.db"), code=3)["error"]["code"] == "no_database"
    assert not (tmp_path / "none.db").exists()
    assert data("reindex", "--embeddings", "nonsense", code=2)["error"]["code"] == "invalid_input"


def test_reindex_shows_its_progress(cli: Cli, data: Data, monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    monkeypatch.setattr("langmem_adapter.cli.output._EVERY", 0.0)
    with Memory(database) as memory:
        memory.add_many([{"messages": f"fact {n}", "user_id": "a", "infer": False} for n in range(60)])
    told = cli("reindex", "--embeddings", "hash:64", "--batch", "20").stderr
    assert "20 of 60 memories" in told and "60 of 60 memories" in told


def test_refine_without_a_model_names_the_option(data: Data, two: None) -> None:
    assert "--model" in data("refine", "-u", "alice", "--dry-run", code=2)["error"]["message"]
