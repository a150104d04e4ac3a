import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.cli.conftest import stopped
from tests.programs import python

Process = Callable[..., CompletedProcess[str]]

WRITER = """
import os, signal, sys
from langmem_adapter import Memory
memory = Memory(sys.argv[1])
for number in range(5):
    result = memory.add(f"The code of door {number} is {number * 1111}.", user_id="a", infer=False)
print(result.results[0].id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_add_is_found_and_updated_by_another_process(process: Process) -> None:
    process("add", "I live in Kyoto and I have a dog.", "-u", "alice")
    found = json.loads(process("search", "where does she live", "-u", "alice", "--json").stdout)
    assert found["data"][0]["text"] == "Lives in Kyoto"
    assert process("search", "dog", "-u", "bob", code=3).stdout == ""
    process("add", "-u", "alice", input="I live in Lyon now.")
    history = json.loads(process("history", found["data"][0]["id"], "--json").stdout)["data"]
    assert [(r["event"], r["old_text"]) for r in history] == [("ADD", None), ("UPDATE", "Lives in Kyoto")]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_add_survives_sigkill_once_acknowledged(process: Process, database: Path) -> None:
    killed = python("-c", WRITER, database, code=-9)
    shown = json.loads(process("show", killed.stdout.strip(), "--json").stdout)["data"][0]
    assert shown["text"] == "The code of door 4 is 4444."
    assert json.loads(process("search", "door 4", "-u", "a", "--json").stdout)["count"] == 5
    doctor = json.loads(process("doctor", "--json").stdout)["data"]
    assert {check["name"]: check["status"] for check in doctor}["index"] == "OK"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_add_killed_keeps_whole_chunks(process: Process, database: Path, tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_text("".join(json.dumps({"role": "user", "content": f"note {n}"}) + "\n" for n in range(1_000)))
    python("-c", stopped("SIGKILL", 400), "-d", database, "add", "--no-infer", "-u", "a", "-f", file, code=-9)
    with closing(sqlite3.connect(database)) as connection:  # one chunk, one transaction: the second had no commit
        assert connection.execute("SELECT count(*) FROM memories").fetchall() == [(200,)]
    doctor: list[dict[str, Any]] = json.loads(process("doctor", "--json").stdout)["data"]
    assert {check["name"]: check["status"] for check in doctor}["index"] == "OK"
