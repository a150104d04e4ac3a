import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import on_a_terminal
from tests.programs import COMMAND

Data = Callable[..., dict[str, Any]]


@pytest.fixture
def dog(data: Data) -> str:
    data("add", "Has a cat", "--no-infer", "-u", "alice", "--run", "7")
    return str(data("add", "Has a dog", "--no-infer", "-u", "alice")["data"][0]["id"])


def test_update_changes_text_and_metadata(data: Data, dog: str) -> None:
    (change,) = data("update", dog, "Has", "two", "dogs", "--metadata", '{"checked": true}')["data"]
    assert (change["event"], change["previous_text"], change["text"]) == ("UPDATE", "Has a dog", "Has two dogs")
    assert data("show", dog)["data"][0]["metadata"] == {"checked": True}
    assert data("update", dog, code=2)["error"]["message"] == "nothing to change"
    assert data("update", dog, "x", "-u", "bob", code=3)["error"]["code"] == "not_found"


def test_delete_takes_one_or_all_of_its_scope(data: Data, dog: str) -> None:
    for wrong, code in (
        ((), "usage"),
        ((dog, "--all", "-u", "alice"), "usage"),
        (("--all", "--yes"), "scope"),
        (("--all", "-u", "alice"), "confirmation_needed"),
    ):
        assert data("delete", *wrong, code=2)["error"]["code"] == code
    assert data("delete", "--all", "-u", "alice", "--run", "7", "--yes")["data"][0]["deleted"] == 1
    assert [item["id"] for item in data("list", "-u", "alice")["data"]] == [dog]
    assert data("delete", dog)["data"][0]["event"] == "DELETE"
    assert data("show", dog, code=3)["error"]["code"] == "not_found"
    assert data("history", dog)["count"] == 2


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 2)])
def test_delete_all_asks_on_a_terminal(data: Data, dog: str, database: Path, answer: str, left: int) -> None:
    said = on_a_terminal([*COMMAND, "-d", str(database), "delete", "--all", "-u", "alice"], answer)
    assert "Delete every memory of user=alice?" in said
    assert data("list", "-u", "alice")["count"] == left


def test_update_and_delete_show_tables_on_a_terminal(data: Data, dog: str, database: Path) -> None:
    data("update", dog, "Has two dogs")
    listed = on_a_terminal([*COMMAND, "-d", str(database), "list", "-u", "alice"])
    assert "updated" in listed
    assert dog in listed
    told = on_a_terminal([*COMMAND, "-d", str(database), "history", dog], NO_COLOR="1")
    assert "Has [-a dog-]{+two dogs+}" in re.sub(r"\x1b\[[0-9;]*m", "", told)
    assert "\x1b[31m" not in told
    assert "[-" not in on_a_terminal([*COMMAND, "-d", str(database), "history", dog])
    for arguments in (["show", dog], ["search", "dogs", "-u", "alice", "--explain"], ["update", dog, "Has a dog"]):
        assert "dog" in on_a_terminal([*COMMAND, "-d", str(database), *arguments])


LOOKING = """
import os, sys
from langmem_adapter.cli.app import app

for width in ("80", "60", "40"):
    os.environ["COLUMNS"] = width
    for words in sys.argv[2:]:
        print("width", width, flush=True)
        app(["-d", sys.argv[1], *words.split()], standalone_mode=False)
"""


def test_ids_and_cursors_are_whole_on_a_narrow_terminal(data: Data, dog: str, database: Path) -> None:
    whose = ["-u", "alice"]
    cat = data("add", "Has a cat of the long-haired kind that sleeps all day", "--no-infer", *whose)["data"][0]["id"]
    friend = data("graph", "add", "Anna", "loves", "Bartholomew", *whose)["data"][0]["id"]
    cursor = data("list", "-k", "1", *whose)["next"]
    commands = {
        "list -u alice": {dog, cat},
        "list -k 1 -u alice": {f"--after {cursor}"},
        "search has a cat -u alice -k 2 --explain": {cat},
        f"show {cat}": {cat},
        f"history {cat}": set(),
        f"update {cat} Has a cat": set(),
        "graph -u alice --history": {friend},
        "graph search Bartholomew -u alice": {friend},
        "graph add Anna loves Bartholomew -u alice": {friend},
        f"show {cat} -u bob": {cat},
    }
    said = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(["-c", LOOKING, str(database), *commands]))
    pictures = [part.split("\n", 1) for part in said.replace("\r", "").split("width ")[1:]]
    assert len(pictures) == 3 * len(commands)
    for (width, picture), (command, ids) in zip(pictures, [*commands.items()] * 3, strict=True):
        assert all(whole in picture for whole in ids), (width, command, picture)
        lines = [line for line in picture.splitlines() if not line.startswith(("more:", "hint:"))]
        assert max(map(len, lines)) <= int(width), (width, command, picture)


def test_restore_brings_back_an_earlier_revision_also_after_deletion(data: Data, dog: str) -> None:
    data("update", dog, "Has two dogs")
    data("delete", dog)
    (change,) = data("restore", dog[:8], 1)["data"]
    assert (change["event"], change["text"]) == ("ADD", "Has a dog")
    assert data("restore", dog, 9, code=2)["error"]["code"] == "invalid_input"
    assert data("restore", dog, 2, "-u", "bob", code=3)["error"]["code"] == "not_found"


def test_purge_that_is_declined_says_what_did_not_happen(data: Data, dog: str, database: Path) -> None:
    said = " ".join(on_a_terminal([*COMMAND, "-d", str(database), "purge", "-u", "alice"], "n\n").split())
    assert "nothing was done: did not erase everything of user=alice, for good" in said
    assert data("list", "-u", "alice")["count"] == 2
