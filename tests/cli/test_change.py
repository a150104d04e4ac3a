import os
import pty
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.programs import COMMAND, Program

Data = Callable[..., dict[str, Any]]


@pytest.fixture
def dog(data: Data) -> str:
    data("add", "Has a cat", "--no-infer", "-u", "alice", "--run", "7")
    return str(data("add", "Has a dog", "--no-infer", "-u", "alice")["data"][0]["id"])


def test_update_changes_text_and_metadata(data: Data, dog: str) -> None:
    (change,) = data("update", dog, "Has", "two", "dogs", "--metadata", '{"checked": true}')["data"]
    assert (change["event"], change["previous_text"], change["text"]) == ("UPDATE", "Has a dog", "Has two dogs")
    assert data("show", dog)["data"][0]["metadata"] == {"checked": True}


def test_update_refuses_nothing_and_strangers(data: Data, dog: str) -> None:
    assert data("update", dog, code=2)["error"]["message"] == "nothing to change"
    assert data("update", dog, "x", "-u", "bob", code=3)["error"]["code"] == "not_found"


def test_delete_takes_one_and_keeps_its_history(data: Data, dog: str) -> None:
    assert data("delete", dog)["data"][0]["event"] == "DELETE"
    assert data("show", dog, code=3)["error"]["code"] == "not_found"
    assert data("history", dog)["count"] == 2


def test_delete_needs_an_id_or_all(data: Data, dog: str) -> None:
    assert data("delete", code=2)["error"]["code"] == "usage"
    assert data("delete", dog, "--all", "-u", "alice", code=2)["error"]["code"] == "usage"
    assert data("delete", "--all", "--yes", code=2)["error"]["code"] == "scope"


def test_delete_all_refuses_where_nobody_can_be_asked(data: Data, dog: str) -> None:
    assert data("delete", "--all", "-u", "alice", code=2)["error"]["code"] == "confirmation_needed"
    assert data("list", "-u", "alice")["count"] == 2


def test_delete_all_stays_within_its_scope(data: Data, dog: str) -> None:
    assert data("delete", "--all", "-u", "alice", "--run", "7", "--yes")["data"][0]["deleted"] == 1
    assert [item["id"] for item in data("list", "-u", "alice")["data"]] == [dog]


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 2)])
def test_delete_all_asks_on_a_terminal(data: Data, dog: str, database: Path, answer: str, left: int) -> None:
    said = _on_a_terminal(["-d", str(database), "delete", "--all", "-u", "alice"], answer)
    assert "Delete every memory of user=alice?" in said
    assert data("list", "-u", "alice")["count"] == left


def test_a_terminal_gets_pictures(data: Data, dog: str, database: Path) -> None:
    data("update", dog, "Has two dogs")
    listed = _on_a_terminal(["-d", str(database), "list", "-u", "alice"])
    assert "updated (UTC)" in listed
    assert dog in listed
    told = _on_a_terminal(["-d", str(database), "history", dog], NO_COLOR="1")
    assert "Has [-a dog-]{+two dogs+}" in re.sub(r"\x1b\[[0-9;]*m", "", told)
    assert "\x1b[31m" not in told
    assert "[-" not in _on_a_terminal(["-d", str(database), "history", dog])
    for arguments in (["show", dog], ["search", "dogs", "-u", "alice", "--explain"], ["update", dog, "Has a dog"]):
        assert "dog" in _on_a_terminal(["-d", str(database), *arguments])


def _on_a_terminal(arguments: list[str], answer: str = "", **environment: str) -> str:
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    looks = {"COLUMNS": "100", "TERM": "xterm-256color", **environment}
    with ThreadPoolExecutor(1) as reader:
        said = reader.submit(_read, ours)
        code = Program(*COMMAND, *arguments, terminal=os.ttyname(theirs), **looks).end().returncode
        os.close(theirs)
    os.close(ours)
    assert code == 0, said.result()
    return said.result()


def _read(terminal: int) -> str:
    said = b""
    with suppress(OSError):  # Linux says so when the other end is closed
        while part := os.read(terminal, 65536):
            said += part
    return said.decode()
