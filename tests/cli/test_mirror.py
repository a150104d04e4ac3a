"""`graph mirror`, with a graph server in a process of its own."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter import Memory
from tests.bolt import lineage_of, nodes
from tests.programs import COMMAND, Program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.bolt import GraphServer

pytestmark = pytest.mark.xdist_group("bolt")


@pytest.fixture
def login(bolt_server: GraphServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_USERNAME", bolt_server.username)
    monkeypatch.setenv("NEO4J_PASSWORD", bolt_server.password)


@pytest.mark.usefixtures("login")
def test_mirror_once_ends(
    cli: Callable[..., Any],
    data: Callable[..., dict[str, Any]],
    bolt_server: GraphServer,
    database: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for user in ("ada", "bob"):
        cli("graph", "add", "Anna", "lives in", "Lyon", "-u", user)
    into = "graph", "mirror", bolt_server.uri, "--once", "--server-database", bolt_server.database
    [done] = data(*into, "-u", "ada", "--vectors")["data"]
    assert done == {"entities": 2, "relations": 1, "removed": 0, "rebuilt": True, "applied": 6}
    with Memory(database) as memory:
        found = nodes(bolt_server, lineage_of(memory)).values()
    assert {(node["user_id"], "embedding" in node) for node in found} == {("ada", True)}
    assert cli(*into, "-u", "ada", "--vectors").stdout.split() == ["0", "0", "0", "6"]
    assert data(*into)["data"][0]["entities"] == 4
    monkeypatch.setenv("NEO4J_USERNAME", "nobody")
    assert data(*into, "--username", bolt_server.username)["data"][0]["entities"] == 0


@pytest.mark.usefixtures("login")
def test_mirror_follows_until_a_signal(cli: Callable[..., Any], bolt_server: GraphServer, database: Path) -> None:
    cli("graph", "add", "Anna", "lives in", "Lyon", "-u", "ada")
    into = "graph", "mirror", bolt_server.uri, "--server-database", bolt_server.database, "--every", "0.1"
    program = Program(*COMMAND, "-d", str(database), *into)
    with Memory(database) as memory:
        lineage = lineage_of(memory)
        while len(nodes(bolt_server, lineage)) < 2:
            assert program.runs()
        memory.graph.add("Ben", "lives in", "Oslo", user_id="ada")
        while len(nodes(bolt_server, lineage)) < 4:
            assert program.runs()
    program.send(signal.SIGTERM)
    done = program.end()
    assert done.returncode == 0 and "filled anew: " in done.stderr


def test_mirror_takes_username_and_password_variable(
    data: Callable[..., dict[str, Any]],
    cli: Callable[..., Any],
    bolt_server: GraphServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEO4J_USERNAME", "somebody else")
    monkeypatch.setenv("NEO4J_PASSWORD", bolt_server.password)
    cli("graph", "add", "Anna", "lives in", "Lyon", "-u", "ada")
    named = "--username", bolt_server.username
    assert data("graph", "mirror", bolt_server.uri, "--once", "--server-database", bolt_server.database, *named)["ok"]
    assert data("graph", "import", bolt_server.uri, "--server-database", bolt_server.database, *named)["ok"]
    monkeypatch.delenv("NEO4J_PASSWORD")
    for command in ("mirror", "import"):
        assert "NEO4J_PASSWORD" in data("graph", command, bolt_server.uri, *named, code=2)["error"]["hint"]


def test_mirror_needs_a_server_and_a_password(cli: Callable[..., Any], data: Any) -> None:
    cli("graph", "add", "Anna", "lives in", "Lyon", "-u", "ada")
    away = data("graph", "mirror", "bolt://127.0.0.1:1", "--once", code=5)["error"]
    assert (away["code"], away["hint"]) == ("graph_server", "")
    assert "cannot be reached: Connection refused; is it running" in away["message"]
    nowhere = data("graph", "mirror", "bolt://127.0.0.1:1", "--password-env", "NOWHERE", code=2)["error"]
    assert "NOWHERE" in nowhere["message"] and "NOWHERE" in nowhere["hint"]
