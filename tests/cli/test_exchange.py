"""`export` and `import`."""

from __future__ import annotations

import csv
import io
import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import on_a_terminal
from tests.programs import COMMAND

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
    rejected = Path(f"{file}.rejected.jsonl")
    assert "line 4: it is no JSON object" in cli("import", file, "--everything", "--dry-run", code=6).stderr
    assert not rejected.exists()
    ended = data("import", file, "--everything", code=6)
    cli("import", file, "--everything", "--dry-run", code=6)
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


def test_migrate_names_counts_users_and_losses_and_writes_nothing_in_a_dry_run(
    cli: Cli, data: Any, database: Path, tmp_path: Path
) -> None:
    rows = [{"id": f"{n:08}", "memory": f"Likes {n}", "user_id": "ann", "created_at": "2025-05-01"} for n in range(3)]
    broken = {"id": "broken", "memory": "", "user_id": "ann"}
    nobody = {"id": "nobody", "memory": "Likes jam", "created_at": "2025-05-01"}
    file = tmp_path / "all.json"
    file.write_text(json.dumps([*rows, broken, nobody]))
    report = data("migrate", "mem0", file, "--dry-run", "--model", "openai:gpt-5-mini", code=6)  # without a key
    assert report["error"]["code"] == "partial" and not database.exists()
    (told,) = report["data"]
    assert told["is_dry_run"] and told["added"]["memories"] == 3 and told["users"] == {"user=ann": 3}
    assert told["left_out"] == {"memory that names no user, agent or run; -u NAME takes it": 1}
    assert [row["place"] for row in told["rejections"]] == ["row 4"]
    rejected = Path("migrate-mem0.rejected.jsonl")
    assert not rejected.exists()
    assert "row 4: it has no text" in cli("migrate", "mem0", file, "--dry-run", code=6).stderr
    data("migrate", "mem0", file, code=6)
    cli("migrate", "mem0", file, "--dry-run", code=6)
    assert [json.loads(line)["place"] for line in rejected.read_text().splitlines()] == ["row 4"]
    assert stat.S_IMODE(rejected.stat().st_mode) == 0o600
    file.write_text(json.dumps([*rows, nobody]))
    assert data("migrate", "mem0", file, "-u", "bob")["data"][0]["users"] == {"user=bob": 1}
    assert not rejected.exists()
    assert [item["text"] for item in data("list", "-u", "bob")["data"]] == ["Likes jam"]
    assert cli("migrate", "mem0", file, "-u", "bob").stdout == "4\t0\t4\t0\t0\n"
    said = on_a_terminal([*COMMAND, "-d", str(database), "migrate", "mem0", str(file), "-u", "bob"])
    assert "memories: 4 read, 0 added, 4 here already" in said
    for wrong in (["mem0", tmp_path / "none"], ["langgraph", "none.db"], ["threads", "none.db"], ["chat", "none.json"]):
        assert data("migrate", *wrong, code=2)["error"]["code"] == "invalid_input"


def test_migrate_chat_remembers_after_it_says_what_that_costs(
    cli: Cli, data: Any, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"role": "user", "content": f"My dog is called Rex{n}"} for n in range(25)]
    Path("chat.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    chat = ("migrate", "chat", "chat.jsonl", "-u", "ann")
    with monkeypatch.context() as with_key:
        with_key.setenv("OPENAI_API_KEY", "none")
        cost = cli(*chat, "--remember", "--dry-run", "--model", "openai:gpt-5-mini").stderr
    assert "2 adds, at most 4 model calls and about" in cost
    assert data(*chat, "--remember", code=2)["error"]["code"] == "confirmation_needed"
    declined = on_a_terminal([*COMMAND, "-d", str(database), *chat, "--remember"], "n\n")
    assert "nothing was done" in declined and data("list", "-u", "ann")["count"] == 0
    assert data(*chat)["data"][0]["added"]["messages"] == 25 and data("list", "-u", "ann")["count"] == 0
    assert data(*chat, "--remember", "--yes")["data"][0]["unchanged"]["messages"] == 25
    count = data("list", "-u", "ann")["count"]
    assert count > 0
    data(*chat, "--remember", "--yes")
    assert data("list", "-u", "ann")["count"] == count


def test_export_of_a_scope_without_memories_has_a_first_and_a_last_line(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "nothing.jsonl"
    cli("add", "I live in Lyon", "-u", "bob")
    assert cli("export", "-o", str(file), "-u", "ann").exit_code == 0
    assert [json.loads(line).get("format", "end") for line in file.read_text().splitlines()] == [
        "langmem_adapter",
        "end",
    ]
