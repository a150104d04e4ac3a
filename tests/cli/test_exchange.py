"""`export` and `import`."""

from __future__ import annotations

import csv
import io
import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


@pytest.fixture
def file(cli: Cli, tmp_path: Path) -> Path:
    """An export of everything, from a database that then goes."""
    cli("add", "I live in Lyon.", "-u", "alice")
    cli("add", "I live in Oslo.", "-u", "alice")
    cli("add", "I like tea.", "-u", "bob")
    path = tmp_path / "all.jsonl"
    cli("export", "-o", path, "--everything")
    for each in tmp_path.glob("memory*"):
        each.unlink()
    return path


def test_export_and_import_make_the_same_again(cli: Cli, data: Any, file: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "all scopes" in cli("import", file, code=2).output
    done = data("import", file, "--everything", "--dry-run")["data"][0]
    assert done["is_dry_run"] and done["added"] == done["lines"]
    imported = cli("import", file, "--everything")
    assert (
        imported.stdout == f"{done['lines']}\t{done['lines']}\t0\t0\n"
        and "embedding up to 2 memories" in imported.stderr
    )
    assert data("import", file, "--everything")["data"][0]["known"] == done["lines"]
    again = tmp_path / "again.jsonl"
    cli("export", "-o", again, "--everything")
    assert again.read_bytes().splitlines()[1:] == file.read_bytes().splitlines()[1:]
    assert cli("search", "where does she live", "-u", "alice").stdout.count("Oslo") == 1
    assert cli("export", "-o", "-", "-u", "bob").stdout.count('"kind":"memory"') == 1


def test_import_names_rejected_lines_and_a_missing_end(cli: Cli, data: Any, file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:3], b"broken\n", *lines[3:-1]]))
    ended = data("import", file, "--everything", code=6)
    rejected = Path(f"{file}.rejected.jsonl")
    assert [json.loads(line) for line in rejected.read_text().splitlines()] == [
        {"line": 4, "reason": "it is no JSON object"}
    ]
    assert stat.S_IMODE(rejected.stat().st_mode) == 0o600
    assert ended["error"]["code"] == "partial" and "last line" in ended["error"]["message"]
    data("import", file, "--everything", code=6)
    assert len(rejected.read_text().splitlines()) == 1, "what went on adds to it, and nothing stands there twice"
    other = b"".join([lines[0], b"broken\n", *lines[1:]])
    assert "has changed since" in cli("import", "-", "--everything", input=other, code=2).stderr
    shown = cli("import", "-", "--everything", input=other, code=6)
    assert "line 2: it is no JSON object" in shown.stderr
    rejected.unlink(missing_ok=True)
    rejected.mkdir()
    file.write_bytes(other)
    assert f"cannot write {rejected}" in cli("import", file, "--everything", code=2).stderr.replace("\n", " ")


def test_import_as_another_user(cli: Cli, file: Path, tmp_path: Path) -> None:
    cli("import", file, "-u", "alice", code=6)
    own = tmp_path / "alice.jsonl"
    cli("export", "-o", own, "-u", "alice")
    cli("import", own, "--as", "user_id=carol")
    assert "Oslo" in cli("list", "-u", "carol").stdout
    assert "--as" in cli("import", own, "--as", "carol", code=2).output


def test_export_of_memories_to_be_read(cli: Cli, file: Path, tmp_path: Path) -> None:
    cli("import", file, "--everything")
    (line,) = cli("export", "-o", "-", "--format", "lines", "-u", "alice").stdout.splitlines()
    assert json.loads(line)["text"] == "Lives in Oslo"
    table = tmp_path / "alice.csv"
    cli("export", "-o", table, "--format", "csv", "-u", "alice")
    (row,) = csv.DictReader(io.StringIO(table.read_text("utf-8-sig")))
    assert (row["text"], row["user_id"]) == ("Lives in Oslo", "alice")
    assert "without vectors" in cli("export", "-o", table, "--format", "csv", "--vectors", "-u", "alice", code=2).output
    assert "scope is missing" in cli("export", "-o", table, code=2).output
