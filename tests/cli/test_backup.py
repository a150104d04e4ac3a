from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.memory.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Cli

    Data = Callable[..., dict[str, Any]]


@pytest.fixture
def two(database: Path) -> None:
    with Memory(database) as memory:
        memory.add("I live in Lyon. I have a dog.", user_id="alice")


def test_backup_prints_how_many_memories_up_to_which_change(cli: Cli, data: Data, two: None, tmp_path: Path) -> None:
    assert cli("backup", "b.db").stdout == f"{tmp_path / 'b.db'}\t2\t2\n"
    assert data("backup", "b.db", "--force")["data"] == [
        {"location": str(tmp_path / "b.db"), "memories": 2, "changes": 2}
    ]
    assert data("list", "-u", "alice", "-d", "b.db")["count"] == 2


def test_backup_refuses_what_it_would_harm(data: Data, two: None, database: Path) -> None:
    data("backup", "b.db")
    error = data("backup", "b.db", code=2)["error"]
    assert error["code"] == "invalid_input" and "--force" in error["message"]
    assert data("backup", str(database), "--force", code=2)["error"]["code"] == "invalid_input"
    assert data("backup", "missing/b.db", code=5)["error"]["code"] == "storage"
    assert data("backup", "c.db", "-d", "none.db", code=3)["error"]["code"] == "no_database"
    assert not Path("none.db").exists() and not Path("c.db").exists()


def test_copy_restores_a_backup(cli: Cli, data: Data, two: None, database: Path) -> None:
    cli("backup", "b.db")
    cli("add", "I like tea", "-u", "alice")
    error = data("copy", "b.db", database, code=2)["error"]
    assert error["code"] == "invalid_input" and re.search(r"not empty.*memories 3\b.*--replace", error["message"])
    assert data("copy", "b.db", database, "--replace")["data"][0]["memories"] == 2
    assert data("list", "-u", "alice")["count"] == 2
    assert data("copy", "none.db", database, "--replace", code=5)["error"]["code"] == "storage"


@pytest.mark.postgres
def test_copy_to_postgres_shows_progress_and_no_password(
    cli: Cli, data: Data, two: None, database: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langmem_adapter.cli.output._EVERY", 0.0)
    result = cli("copy", database, postgres_url.replace("postgres:@", "postgres:s3cret@"))
    assert re.search(r"100 of 100 %, .*/s, 0 s left", result.stderr)
    assert "s3cret" not in result.stdout + result.stderr and result.stdout.endswith("\t2\t2\n")
    assert data("list", "-u", "alice", "-d", postgres_url)["count"] == 2
