"""A graph server that speaks Bolt, in a process of its own, and what is read from it.

It is ArcadeDB (`arcadedb-embedded` brings its own JRE), which understands the Cypher of Neo4j 5 that is used here. That is no
proof of Neo4j: where `NEO4J_URI` is set, with `NEO4J_USERNAME` and `NEO4J_PASSWORD`, a test of the mirror asks that one, too.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neo4j import GraphDatabase
from neo4j.exceptions import ServiceUnavailable

from langmem_adapter.storage import feed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neo4j import Driver

    from langmem_adapter import Memory

__all__ = ["GraphServer", "graph_server", "lineage_of", "nodes", "relations"]

_PASSWORD: Final = "playwithdata"  # noqa: S105 - of a server that lives as long as a test run
_PATIENCE: Final = 100.0


@dataclass(frozen=True, slots=True)
class GraphServer:
    """A graph server.

    Attributes:
        uri: Its address.
        username: Who may do everything there.
        password: His.
        database: The name of the database; `None` for the server's default.
    """

    uri: str
    username: str
    password: str
    database: str | None = None

    @contextmanager
    def driver(self) -> Iterator[Driver]:
        """A connection to it."""
        login = self.username, self.password
        with GraphDatabase.driver(self.uri, auth=login, notifications_min_severity="OFF") as driver:
            yield driver

    def ask(self, statement: str, **given: Any) -> list[list[Any]]:
        """The values of a statement's records."""
        with self.driver() as driver, driver.session(database=self.database) as session:
            return session.run(statement, given).values()


@contextmanager
def graph_server(folder: Path) -> Iterator[GraphServer]:
    """Start one, which ends with this block, or with this process."""
    port = _free_port()
    environment = {**os.environ, "ARCADEDB_JVM_ARGS": "-Xmx512m"}
    command = [sys.executable, str(Path(__file__).resolve()), str(port), str(_free_port()), str(folder)]
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, cwd=folder, env=environment
        )
    server = GraphServer(f"bolt://127.0.0.1:{port}", "root", _PASSWORD, "graph")
    try:
        _wait(server, process, folder)
        yield server
    finally:
        process.kill()
        process.communicate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


def _wait(server: GraphServer, process: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while "the database is there" not in (folder / "output.txt").read_text(errors="replace"):
        assert process.poll() is None and time.monotonic() < end, (folder / "output.txt").read_text(errors="replace")
        time.sleep(0.05)
    with server.driver() as driver:
        while True:
            try:
                driver.verify_connectivity()
            except ServiceUnavailable:
                assert time.monotonic() < end
            else:
                return


# ── what it holds ───────────────────────────────────────────────────────────────────────────────────────────────────────


def lineage_of(memory: Memory) -> str:
    """What marks a memory's database in a mirror."""
    with memory.parts.database.read() as connection:
        return (feed.birth(connection) or b"").hex()


def nodes(server: GraphServer, lineage: str) -> dict[int, dict[str, Any]]:
    """The nodes of a memory's database, by pk."""
    found = server.ask("MATCH (n:Entity {lineage: $lineage}) RETURN properties(n)", lineage=lineage)
    return {properties["pk"]: properties for (properties,) in found}


def relations(server: GraphServer, lineage: str) -> dict[int, dict[str, Any]]:
    """The relations of a memory's database, by pk, each with its `type` and the names of its ends."""
    query = "MATCH (s:Entity {lineage: $lineage})-[r]->(t) RETURN properties(r), type(r), s.name, t.name"
    found = server.ask(query, lineage=lineage)
    told = [{**properties, "type": kind, "source": s, "target": t} for properties, kind, s, t in found]
    assert len({each["pk"] for each in told}) == len(told)
    return {each["pk"]: each for each in told}


def _serve(port: int, http: int, folder: str) -> None:
    import arcadedb_embedded as arcadedb

    plugin = {"server_plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin", "bolt_port": port}
    ours = {**plugin, "host": "127.0.0.1", "http_port": http}
    server = arcadedb.create_server(root_path=folder, root_password=_PASSWORD, config=ours)
    server.start()
    server.create_database("graph")
    print("the database is there", flush=True)  # noqa: T201 - whoever started it waits for that
    sys.stdin.read()  # until whoever started it is gone


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
