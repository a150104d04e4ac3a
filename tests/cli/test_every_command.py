"""Every command in a pseudo-terminal and in a pipe: an example of its help runs, `--json` parses, exit codes are asserted."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import sqlite3
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from langmem_adapter.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = re.compile(r"^ *\$ langmem-adapter (.+?)(?: {2,}.*)?$", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7])[;\d]*m")
# Which example of its help runs here, the first where nothing is said; and the exit codes that are not 0.
CHOSEN = {
    "delete": 2, "purge": 1, "reindex": 1, "backup": 1, "copy": 1, "trace": 0, "show": 0, "init": 1, "doctor": 1,
    "list": 2, "search": 4, "import": 1, "demo": 1, "migrate langgraph": 1, "graph": 0, "graph import": 0,
}  # fmt: skip
CODES = {"init": [0, 2, 2], "graph end": [0, 2, 2], "graph delete": [0, 3, 3], "keys revoke": [0, 3, 3]}
ELSEWHERE = {  # they serve, or need a server or a model; their own tests start these
    "serve", "mcp", "graph mirror", "eval answers", "eval prompts", "eval conversations", "eval questions", "refine",
    "migrate mem0", "graph merge", "graph split", "graph suggest",
}  # fmt: skip


def commands() -> Iterator[tuple[str, str]]:
    """Every command with its help."""
    for name, command in sorted(get_command(app).commands.items()):  # type: ignore[attr-defined]
        for inner, each in [(None, command), *sorted(getattr(command, "commands", {}).items())]:
            if inner != "show" and not (inner is None and hasattr(command, "commands") and name != "graph"):
                told = command.commands["show"] if name == "graph" and inner is None else each
                yield (name if inner is None else f"{name} {inner}"), told.help or ""


def on_terminal(arguments: list[str], **environment: str) -> tuple[int, str]:
    """Run a command on a pseudo-terminal of this process: its exit code, and what the terminal got."""
    ours, theirs = pty.openpty()
    read: list[bytes] = []

    def drain() -> None:
        try:
            while part := os.read(ours, 65536):
                read.append(part)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=drain)
    reader.start()
    before = sys.stdout, sys.stderr, dict(os.environ)
    os.environ.update({"TERM": "xterm-256color", **environment})
    sys.stdout = sys.stderr = io.TextIOWrapper(os.fdopen(theirs, "wb", buffering=0), write_through=True)
    try:
        app(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout.close()
        sys.stdout, sys.stderr = before[:2]
        os.environ.clear()
        os.environ.update(before[2])
    reader.join()
    os.close(ours)
    return code, b"".join(read).decode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A folder with all that the examples name; what stands for an id in them."""
    run = CliRunner()
    monkeypatch.setenv("LANGMEM_ADAPTER_DATABASE", str(tmp_path / "memory.db"))

    def json_of(*arguments: str) -> Any:
        return json.loads(run.invoke(app, [*arguments, "--json"]).stdout)["data"]

    told = "I live in Lyon. My sister Jesica lives in Oslo. Tom is my brother."
    json_of("add", told, "-u", "alice", "--graph")
    memory = json_of("add", "I like tea", "-u", "alice", "--metadata", '{"topic": "travel"}')[0]["id"]
    ended, deleted = (
        json_of("graph", "add", "Anna", verb, "Lyon", "-u", "alice")[0]["id"] for verb in ("lives in", "works in")
    )
    json_of("graph", "add", "me", "has brother", "Tom", "-u", "alice")
    key = json_of("keys", "create", "-u", "alice")[0]["id"]
    trace = json_of("trace", "-u", "alice")[0]["id"]
    Path("chat.jsonl").write_text('{"role": "user", "content": "I work at Bosch"}\n')
    Path("conversations.json").write_text(json.dumps([{"uuid": "c", "chat_messages": []}]))
    Path("export.zip").write_bytes(Path("conversations.json").read_bytes())
    json_of("export", "-o", "alice.jsonl", "-u", "alice")
    json_of("graph", "export", "-o", "graph.jsonl", "-u", "alice")
    json_of("backup", "backup.db")
    with sqlite3.connect("store.db") as store:
        store.execute("CREATE TABLE store (prefix, key, value, created_at, updated_at)")
        row = ("memories.ann", "k", '{"content": "Likes tea"}', "2025-01-01")
        store.execute("INSERT INTO store VALUES (?, ?, ?, ?4, ?4)", row)
    with sqlite3.connect("checkpoints.db") as checkpoints:
        from langgraph.checkpoint.sqlite import SqliteSaver

        SqliteSaver(checkpoints).setup()
    return {
        "ID": memory, "0f8fad5b-d9cb-469f-a165-70867728950e": memory, "0f8fad5b": trace,
        "graph end": ended, "graph delete": deleted,
        "3f2a90b17c44": key, "/mnt/backups/monday.db": "monday.db",
    }  # fmt: skip


def test_every_command_runs_its_example_in_a_pipe_and_on_a_terminal(
    folder: dict[str, str],
) -> None:
    wrong: list[object] = []
    for name, text in commands():
        examples = [shlex.split(each.replace("\\[", "["), comments=False) for each in EXAMPLE.findall(text)]
        if not examples:
            wrong.append((name, "its help has no example"))
            continue
        if name in ELSEWHERE:
            continue
        chosen = examples[CHOSEN.get(name, 0)]
        end = next((place for place, word in enumerate(chosen) if word in {"|", ">", "2>"}), len(chosen))
        id_ = folder.get(name, folder["ID"])
        arguments = [id_ if word == "ID" else folder.get(word, word) for word in chosen[:end]]
        codes = CODES.get(name, [0, 0, 0])
        piped = CliRunner().invoke(app, [*arguments, "--json"])
        if piped.exit_code != codes[0] or piped.stdout.count("\n") != 1 or "\x1b" in piped.output:
            wrong.append((name, arguments, "--json", piped.exit_code, piped.output[-300:]))
        elif json.loads(piped.stdout)["ok"] != (codes[0] == 0):
            wrong.append((name, "ok", piped.stdout))
        plain = CliRunner().invoke(app, arguments)
        if plain.exit_code != codes[1] or "\x1b" in plain.output:
            wrong.append((name, "in a pipe", plain.exit_code, plain.output[-300:]))
        code, shown = on_terminal(arguments, NO_COLOR="1")
        if code != codes[2] or COLOUR.search(shown) or not (shown.strip() or name == "export"):
            wrong.append((name, "on a terminal", code, shown[-300:]))
    assert wrong == [], "\n".join(map(str, wrong))
    assert COLOUR.search(on_terminal(["search", "tea", "-u", "alice"])[1]), "without NO_COLOR there are colours"


def test_the_demos_closing_commands_work_when_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell reads them; a program in the place of ours notes what it was called with."""
    import subprocess

    program = tmp_path / "not in PATH" / "langmem-adapter"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\nfor word; do printf "%s\\\\0" "$word"; done >> calls\necho >> calls\nenv > environment\n'
    )
    program.chmod(0o700)
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])
    printed = CliRunner().invoke(app, ["demo"]).stdout
    lines = printed[printed.index("    export") :]
    subprocess.run(["/bin/bash", "-e"], input=lines, text=True, check=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})
    exported = dict(line.split("=", 1) for line in (tmp_path / "environment").read_text().splitlines() if "=" in line)
    for name in ("LANGMEM_ADAPTER_DATABASE", "LANGMEM_ADAPTER_USER"):
        monkeypatch.setenv(name, exported[name])
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [line.split("\0")[0] for line in calls] == ["list", "add", "search", "graph", "history"]
    for line in calls:
        done = CliRunner().invoke(app, line.split("\0")[:-1])
        assert done.exit_code == 0 and done.stdout, (line, done.output)
