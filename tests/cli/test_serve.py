"""`serve` and `keys`: a real server, called by a real client."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx
import pytest

from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage import jobs
from tests.serving import served, stopped, within_a_minute

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

Cli: TypeAlias = "Callable[..., Result]"
Data: TypeAlias = "Callable[..., dict[str, Any]]"

SLOW = """
import pathlib, sys, time
from langmem_adapter.cli.app import main
from langmem_adapter.storage.ledger import Ledger

begun, go = pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
apply = Ledger.aapply

async def slow(self, *arguments, **named):
    import asyncio
    begun.touch()
    while not go.exists():
        await asyncio.sleep(0.01)
    return await apply(self, *arguments, **named)

Ledger.aapply = slow
main()
"""


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_answers_until_a_signal(database: Path, number: int) -> None:
    with served(database) as (running, address):
        body = {"messages": "My secret is a red bicycle.", "user_id": "alice", "infer": False}
        row = httpx.post(f"{address}/memories", json=body).json()["results"][0]
        found = httpx.post(f"{address}/search", json={"query": "bicycle", "user_id": "alice"}).json()["results"]
        assert [each["id"] for each in found] == [row["id"]]
        assert httpx.get(f"{address}/docs").status_code == 200
        assert httpx.get(f"{address}/memories/{row['id']}", headers={"Host": "evil.example"}).status_code == 421
        told = stopped(running, number)
    assert "no key: only local connections" in told and f"{address}/docs" in told
    lines = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    asked = [(line["method"], line["route"], line["status"]) for line in lines if line["message"] == "request"]
    assert asked[:2] == [("POST", "/memories", 200), ("POST", "/search", 200)]
    assert all(word not in json.dumps(lines) for word in ("bicycle", "alice", row["id"]))
    with Memory(database) as memory:
        assert [item.text for item in memory.get_all(user_id="alice")] == ["My secret is a red bicycle."]


def test_serve_finishes_running_requests_before_it_stops(database: Path, tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    with served(database, program=("-c", SLOW, begun, go)) as (running, address), ThreadPoolExecutor(1) as caller:
        body = {"messages": "I live in Lyon.", "user_id": "alice"}
        answer = caller.submit(httpx.post, f"{address}/memories", json=body, timeout=60)
        within_a_minute(begun.exists)
        running.send(signal.SIGTERM)
        within_a_minute(lambda: _refuses(address))
        go.touch()
        assert answer.result().json()["results"][0]["memory"] == "Lives in Lyon"
        assert running.end().returncode == 0
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT text FROM memories").fetchall() == [("Lives in Lyon",)]


def _refuses(address: str) -> bool:
    try:
        httpx.get(f"{address}/docs")
    except httpx.TransportError:
        return True
    return False


def test_serve_ends_open_event_streams_when_it_stops(database: Path) -> None:
    with Memory(database) as memory, served(database) as (running, address):
        write = memory.parts.database.write
        (job,) = write(partial(jobs.submit, requests=[{"messages": "I like tea.", "user_id": "alice"}], most=9))
        assert write(partial(jobs.take, owner="somebody", lease=600)) is not None
        with httpx.stream("GET", f"{address}/v1/jobs/{job.id}/events", timeout=60) as events:
            lines = events.iter_lines()
            assert next(lines) == "event: running"
            running.send(signal.SIGTERM)
            assert not [line for line in lines if line.startswith("event:")]
        assert running.end().returncode == 0


def test_serve_needs_a_key_where_one_exists(database: Path, data: Data) -> None:
    (key,) = data("keys", "create", "-u", "alice", "--name", "phone")["data"]
    with Memory(database) as memory:
        his = memory.add("I am Bob", user_id="bob", infer=False).results[0].id
    with served(database) as (running, address):
        body = {"messages": "I live in Lyon.", "user_id": "alice"}
        assert httpx.post(f"{address}/memories", json=body).status_code == 401
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key['key']}"}) as http:
            assert http.post("/memories", json=body).status_code == 200
            assert http.get(f"/memories/{his}").json() is None
            data("keys", "revoke", key["id"])
            assert http.get("/memories").status_code == 401
        told = stopped(running)
    assert "every call needs a key" in told
    assert key["key"].split("_", 2)[2] not in told
    assert {"caller": key["id"], "status": 200}.items() <= json.loads(_requests(told)[1]).items()


def _requests(told: str) -> list[str]:
    return [line for line in told.splitlines() if '"message": "request"' in line]


def test_serve_refuses_what_it_cannot_serve_safely(database: Path, data: Data) -> None:
    error = data("serve", "--host", "0.0.0.0", code=4)["error"]  # noqa: S104 - it is refused
    assert (error["code"], "keys create" in error["hint"]) == ("no_key", True)
    data("keys", "create", "-u", "alice")
    data("keys", "revoke", data("keys", "list")["data"][0]["id"])
    assert data("serve", "--host", "0.0.0.0", code=4)["error"]["code"] == "no_key"  # noqa: S104 - the same
    assert "any web page" in data("serve", "--port", "0", "--host-name", "*", code=2)["error"]["message"]
    error = data("-d", ":memory:", "serve", "--port", "0", "--workers", "2", code=2)["error"]
    assert "one process" in error["message"] and "memory.db" in error["hint"]
    with served(database) as (running, address):
        error = data("serve", "--port", address.rpartition(":")[2], code=4)["error"]
        assert error["code"] == "address" and "--port 0" in error["hint"]
        stopped(running)


def test_keys_are_shown_once_listed_and_revoked(cli: Cli, data: Data, database: Path) -> None:
    made = cli("keys", "create", "-u", "alice", "--run", "7", "--rights", "read")
    shown = made.stdout.strip()
    assert shown.startswith("lma_") and "start it again" in made.stderr
    second = cli("keys", "create", "--everything", "--rights", "read,write,admin", "--name", "钥匙")
    assert "start it again" not in second.stderr
    everywhere, hers = data("keys", "list")["data"]
    assert (everywhere["name"], everywhere["user_id"], everywhere["rights"]) == (
        "钥匙",
        None,
        ["admin", "read", "write"],
    )
    assert (hers["user_id"], hers["run_id"], hers["rights"], hers["revoked_at"]) == ("alice", "7", ["read"], None)
    assert shown.split("_", 2)[2] not in cli("keys", "list").stdout
    assert all(shown.split("_", 2)[2].encode() not in file.read_bytes() for file in database.parent.glob("memory.db*"))
    assert cli("keys", "revoke", hers["id"]).stdout == f"{hers['id']}\n"
    assert data("keys", "list")["data"][1]["revoked_at"] is not None
    assert data("keys", "revoke", hers["id"], code=3)["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["create"], 2, "--everything"),
        (["create", "--everything", "-u", "alice"], 2, "--everything"),
        (["create", "-u", "alice", "--rights", "all"], 2, "read, write, admin"),
        (["create", "-u", "alice", "--name", " "], 2, "name is blank"),
        (["list"], 3, "no database"),
        (["revoke", "x"], 3, "no database"),
    ],
)
def test_keys_create_names_wrong_options(data: Data, arguments: list[str], code: int, said: str) -> None:
    error = data("keys", *arguments, code=code)["error"]
    assert said in error["message"] + error["hint"]


@pytest.mark.parametrize("absent", ["mcp.server.fastmcp", "starlette.requests"])
def test_mcp_names_its_missing_extra(cli: Cli, monkeypatch: pytest.MonkeyPatch, absent: str) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    monkeypatch.delitem(sys.modules, "langmem_adapter.server.mcp", raising=False)
    told = cli("mcp", "-u", "ann", code=4).stderr
    assert "mcp is not installed; run: pip install 'langchain-langmem-adapter[mcp]'" in told
