"""The beginning of an id stands for it where only one begins so."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, text

from langmem_adapter.storage.database import Database

Data = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.parametrize(
    "database_url", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)

TWINS = [f"abcd{number}000-0000-5000-8000-000000000000" for number in range(2)]
BOBS = "abcd9000-0000-5000-8000-000000000000"


@pytest.fixture
def on(data: Data, database_url: str) -> Data:
    """Runs a command on a database in which alice has two memories with ids that begin alike, and bob a third."""

    def run(*arguments: object, code: int = 0) -> dict[str, Any]:
        return data("-d", database_url, *arguments, code=code)

    rows = run("add", '["Note 0", "Note 1"]', "--no-infer", "-u", "alice")["data"]
    rows += run("add", "Note 9", "--no-infer", "-u", "bob")["data"]
    renamed = [{"old": row["id"], "new": memory_id} for row, memory_id in zip(rows, [*TWINS, BOBS], strict=True)]

    def rename(connection: Connection) -> None:
        connection.execute(text("UPDATE memories SET id = :new WHERE id = :old"), renamed)
        connection.execute(text("UPDATE history SET memory_id = :new WHERE memory_id = :old"), renamed)

    database = Database(database_url)
    database.setup(rename)
    database.close()
    return run


def test_id_prefix_works_in_every_command(on: Data) -> None:
    assert on("show", "abcd0")["data"][0]["id"] == TWINS[0]
    assert on("update", "abcd1", "Note one")["data"][0]["id"] == TWINS[1]
    assert on("delete", "abcd0")["data"][0]["id"] == TWINS[0]
    assert on("history", "abcd0")["data"][-1]["event"] == "DELETE"  # history tells of deleted ones
    assert on("show", "abcd", "-u", "alice")["data"][0]["id"] == TWINS[1]  # show does not: now only one is left
    assert on("show", TWINS[0], code=3)["error"]["code"] == "not_found"


def test_ambiguous_id_prefix_is_refused(on: Data) -> None:
    for command in (["show"], ["history"], ["update", "x"], ["delete"]):
        error = on(command[0], "abcd", *command[1:], "-u", "alice", code=2)["error"]
        assert error["code"] == "ambiguous"
        assert error["hint"].splitlines()[1:] == TWINS
    assert {row["text"] for row in on("list", "-u", "alice")["data"]} == {"Note 0", "Note 1"}


def test_id_prefix_stays_within_the_scope(on: Data) -> None:
    assert on("show", "abcd", "-u", "bob")["data"][0]["id"] == BOBS
    for command in ("show", "history", "delete"):
        foreign, absent = (on(command, beginning, "-u", "bob", code=3) for beginning in ("abcd0", "fedc0"))
        assert (
            json.dumps(foreign).replace("abcd0", "fedc0").partition('"ms"')[0]
            == json.dumps(absent).partition('"ms"')[0]
        )


def test_id_prefix_is_no_pattern_and_has_four_letters(on: Data) -> None:
    for pattern in ("%%%%", "abc_", "ABCD"):
        assert on("show", pattern, "-u", "bob", code=3)["error"]["code"] == "not_found"
    assert "at least 4" in on("show", "abc", "-u", "bob", code=2)["error"]["message"]


def test_id_prefix_of_a_trace_and_of_a_relation(on: Data) -> None:
    (row,) = on("trace", "-u", "bob")["data"]
    assert on("trace", row["id"][:8], "-u", "bob")["data"][0]["turns"][0]["text"] == "Note 9"
    error = on("trace", row["id"][:8], "-u", "alice", code=3)["error"]
    assert (error["code"], error["hint"]) == ("not_found", "langmem-adapter trace -u NAME shows the ids")
    (row,) = on("graph", "add", "Anna", "lives in", "Lyon", "-u", "alice")["data"]
    assert on("graph", "end", row["id"][:8], "-u", "alice")["data"][0]["id"] == row["id"]
    assert on("graph", "delete", row["id"][:8], "-u", "bob", code=3)["error"]["code"] == "not_found"
