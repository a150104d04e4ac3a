"""The mirror of the knowledge graph, read back over Bolt from a server in a process of its own."""

from __future__ import annotations

import logging
import math
import os
import secrets
import shutil
import socketserver
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from neo4j import AsyncGraphDatabase, GraphDatabase

from langmem_adapter import InvalidInputError, Memory, StorageError
from langmem_adapter.embedding.models import HashEmbeddings
from langmem_adapter.mirror.target import schema
from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.records.scope import Scope
from tests.benchmarks.measure import QUICK
from tests.benchmarks.mirror import measure_mirror
from tests.bolt import GraphServer, lineage_of, nodes, relations
from tests.cases import each
from tests.faults.proxy import Proxy
from tests.mirror.same import assert_same, moment
from tests.mirror.script import USERS, History

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langmem_adapter.mirror.mirror import Mirror

pytestmark = pytest.mark.xdist_group("bolt")

ALICE: dict[str, Any] = {"user_id": "alice"}
BOB: dict[str, Any] = {"user_id": "bob"}

HOSTILE = [
    "x`) DETACH DELETE n //",
    "'}) MATCH (m) DETACH DELETE m //",
    '"}) MATCH (m) DETACH DELETE m //',
    "\\u0060) DETACH DELETE n //",
    "\\' OR 1=1 //",
    "$rows",
    "{name}",
    "{{name}}",
    "${jndi:ldap://x}",
    "a\nb\r\nc\td",
    "/* comment */ CALL dbms.shutdown()",
    "; DROP CONSTRAINT langmem_entity_row;",
    "`Entity`",
    ":Entity:LangmemMirror",
    "n.lineage = 'x'",
    "<script>alert(1)</script>",
    "%s %d %(name)s",
    "a\u202eb",
    "a\u0301e\u0301",
    "é",
    "北京市朝阳区",
    "北京`市'朝\"阳\\区",
    "🧑‍🚀🪐",
    "ﬁancé",
    "-- -",
    "null a",
    "true b",
    "NaN c",
    "1e999 d",
    "9223372036854775808 e",
    "x" * 200,
    "长" * 200,
    *(f"a{chr(number)}b" for number in (0x7F, 0x85, 0xA0, 0xAD, 0x200B, 0x2028, 0xFEFF, 0xFFFD, 0x10FFFF)),
    *(f"{mark}name{mark}" for mark in "`'\"\\$@#!?|&*()[]<>~^=+"),
]


@contextmanager
def mirroring(memory: Memory, server: GraphServer, **how: Any) -> Iterator[Mirror]:
    with server.driver() as driver, memory.graph.mirror(driver, database=server.database, **how) as mirror:
        yield mirror


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:", graph=True) as opened:
        yield opened


@pytest.fixture
def others(bolt_server: GraphServer) -> Iterator[None]:
    """A graph of somebody else's in the same database, which looks like ours and must stay as it is."""
    mark = secrets.token_hex(8)
    theirs = "(a:Entity {lineage: $mark, pk: 1, name: 'Anna', user_id: 'alice'})"
    bolt_server.ask(f"CREATE {theirs}-[:lives_in {{pk: 3}}]->(:City {{name: $mark}})", mark=mark)
    count = "MATCH (a:Entity {lineage: $mark})-[r:lives_in]->(c:City) RETURN a.pk, a.name, a.user_id, r.pk, c.name"
    yield
    assert bolt_server.ask(count, mark=mark) == [[1, "Anna", "alice", 3, mark]]


# ── what it holds ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_mirror_nodes_and_relations_have_all_properties(memory: Memory, bolt_server: GraphServer) -> None:
    memory.graph.add("Anna", "lives in", "里昂", target_type="city", valid_from="2019-05-01", user_id="a", agent_id="g")
    memory.add("I live in Oslo.", run_id="r", user_id="a")
    with mirroring(memory, bolt_server) as mirror:
        assert (report := mirror.run_once()).rebuilt
        assert (report.entities, report.relations) == (4, 2) and not mirror.run_once().changed
    by_name = {node["name"]: node for node in nodes(bolt_server, lineage_of(memory)).values()}
    assert set(by_name) == {"Anna", "里昂", "a", "Oslo"}
    assert (by_name["里昂"]["type"], by_name["里昂"]["agent_id"], by_name["里昂"]["mentions"]) == ("city", "g", 1)
    ties = {tie["target"]: tie for tie in relations(bolt_server, lineage_of(memory)).values()}
    assert ties["里昂"]["type"] == "lives_in" and "retired_at" not in ties["里昂"] and "valid_to" not in ties["里昂"]
    assert str(moment(ties["里昂"]["valid_from"])) == "2019-05-01 00:00:00+00:00"
    assert ties["Oslo"]["memory_ids"] == [memory.get_all(user_id="a")[0].id] and ties["Oslo"]["run_id"] == "r"


def test_mirror_follows_changes_and_keeps_properties_of_users(memory: Memory, bolt_server: GraphServer) -> None:
    memory.graph.add("Bob", "lives in", "Lyon", **ALICE)
    with mirroring(memory, bolt_server) as mirror:
        mirror.run_once()
        ours = {"lineage": lineage_of(memory)}
        bolt_server.ask("MATCH (n:Entity {lineage: $lineage, name: 'Lyon'}) SET n.community = 7", **ours)
        memory.graph.add("Robert", "lives in", "Lyon", **ALICE)
        memory.graph.merge("Bob", "Robert", **ALICE)
        mirror.run_once()
        assert_same(memory, bolt_server, ["alice"])
        by_name = {node["name"]: node for node in nodes(bolt_server, **ours).values()}
        assert by_name["Lyon"]["community"] == 7 and by_name["Lyon"]["mentions"] == 2
        assert by_name["Bob"]["merged_into"] == by_name["Robert"]["pk"] and by_name["Robert"]["aliases"] == ["Bob"]
        memory.graph.split("Bob", **ALICE)
        mirror.run_once()
        assert_same(memory, bolt_server, ["alice"])


def test_mirror_updates_memory_ids_of_all_rows(memory: Memory, bolt_server: GraphServer) -> None:
    memory.graph.add("me", "likes", "tea", valid_from="2020-01-01", **ALICE)
    memory.graph.add("me", "likes", "tea", valid_from="2019-01-01", **ALICE)
    with mirroring(memory, bolt_server) as mirror:
        mirror.run_once()
        memory.graph.add("me", "likes", "tea", valid_from="2019-01-01", **ALICE)
        mirror.run_once()
        assert_same(memory, bolt_server, ["alice"])
        assert [relation.mentions for relation in memory.graph.relations(**ALICE)] == [3]
        memory.add("I like tea.", **ALICE)
        mirror.run_once()
    assert_same(memory, bolt_server, ["alice"])
    known = memory.graph.relations(history=True, **ALICE)
    assert len(known) == 2 and len({relation.id for relation in known}) == 1 and all(each.memory_ids for each in known)


def test_mirror_embeddings_of_names(memory: Memory, bolt_server: GraphServer) -> None:
    memory.graph.add("Anna", "lives in", "Lyon", **ALICE)
    with mirroring(memory, bolt_server, embeddings=True) as mirror:
        mirror.run_once()
    vector = memory.parts.embedder.vectors(["Anna"])[0].tolist()
    query = "MATCH (n:Entity {lineage: $lineage}) RETURN n.name ORDER BY vector.similarity.cosine(n.embedding, $vector) DESC"
    assert bolt_server.ask(query, lineage=lineage_of(memory), vector=vector) == [["Anna"], ["Lyon"]]


@pytest.mark.usefixtures("others")
def test_mirror_escapes_hostile_names(memory: Memory, bolt_server: GraphServer) -> None:
    assert len(set(HOSTILE)) >= 60
    for name in HOSTILE:
        # ArcadeDB keeps the relations of a type in a file called so, percent-encoded: not every length fits.
        memory.graph.add("me", f"likes {name}"[:25], f"{name[:199]}.", target_type=name, user_id=name)
    with mirroring(memory, bolt_server) as mirror:
        mirror.run_once()
    assert_same(memory, bolt_server, HOSTILE)
    seen = {node["type"] for node in nodes(bolt_server, lineage_of(memory)).values()}
    assert seen == {name.strip() for name in HOSTILE} | {""}


def test_run_once_reports_progress_and_resumes(memory: Memory, bolt_server: GraphServer) -> None:
    triples = [Triple(SELF, "likes", f"thing {number}") for number in range(1_100)]
    memory.parts.ledger.relate(Scope(**ALICE), triples)
    seen: list[tuple[int, int]] = []

    def break_off(done: int, total: int) -> None:
        seen.append((done, total))
        raise KeyboardInterrupt

    with mirroring(memory, bolt_server) as mirror:
        with pytest.raises(KeyboardInterrupt):
            mirror.run_once(progress=break_off)
        memory.graph.add("me", "likes", "tea", **ALICE)
        report = mirror.run_once(progress=lambda done, total: seen.append((done, total)))
    assert not report.rebuilt and [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[0] == (1_000, 2_201) and seen[1][0] > 1_000 and seen[-1] == (2_203, 2_203)
    assert assert_same(memory, bolt_server, ["alice"]) == (1_102, 1_101)


# ── whose it is ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("others")
def test_a_mirror_of_a_scope_holds_nothing_of_others_and_a_purge_leaves_nothing(
    memory: Memory, bolt_server: GraphServer
) -> None:
    canary = "canary-" + secrets.token_hex(8)
    for whose in (ALICE, BOB):
        memory.graph.add("me", "knows", f"{canary} {whose['user_id']}", target_type=canary, **whose)
    memory.add(f"I live in {canary.title()}.", **ALICE)
    with mirroring(memory, bolt_server, **ALICE) as one, mirroring(memory, bolt_server) as every:
        one.run_once()
        assert {node["user_id"] for node in nodes(bolt_server, lineage_of(memory)).values()} == {"alice"}
        every.run_once()
        assert_same(memory, bolt_server, ["alice", "bob"])
        memory.purge(**ALICE)
        assert one.run_once().removed == 3
        assert {node["user_id"] for node in nodes(bolt_server, lineage_of(memory)).values()} == {"bob"}
        memory.purge(**BOB)
        every.run_once()
    assert nodes(bolt_server, lineage_of(memory)) == {}
    everything = bolt_server.ask("MATCH (n) OPTIONAL MATCH (n)-[r]->() RETURN labels(n), properties(n), properties(r)")
    assert canary not in str(everything).casefold()


def test_run_once_in_several_threads_writes_once(bolt_server: GraphServer, tmp_path: Path) -> None:
    with Memory(tmp_path / "memory.db", graph=True) as memory, ExitStack() as opened:
        history, stop, failed = History(memory, 5), threading.Event(), []
        mirrors = [opened.enter_context(mirroring(memory, bolt_server)) for _ in range(3)]

        def follow(mirror: Mirror) -> None:
            try:
                while not stop.is_set():
                    mirror.run_once()
            except StorageError as error:
                failed.append(error)

        threads = [threading.Thread(target=follow, args=(mirror,)) for mirror in mirrors]
        for thread in threads:
            thread.start()
        for _ in range(40):
            history.step()
        stop.set()
        for thread in threads:
            thread.join()
        assert failed == []
        mirrors[0].run_once()
        assert_same(memory, bolt_server, USERS)


class Interrupting(HashEmbeddings):
    """Calls somebody while a mirror is about to write what it has read."""

    call: Callable[[], object] | None = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        call, self.call = self.call, None
        if call is not None:
            call()
        return super().embed_documents(texts)


def test_run_once_that_was_overtaken_writes_nothing_old(bolt_server: GraphServer) -> None:
    embeddings = Interrupting(64)
    with ExitStack() as opened:
        memory = opened.enter_context(Memory(":memory:", embeddings=embeddings))
        one, other = (opened.enter_context(mirroring(memory, bolt_server, embeddings=True)) for _ in range(2))
        memory.graph.add("Anna", "lives in", "Lyon", **BOB)
        one.run_once()
        memory.graph.add("Eva", "lives in", "Oslo", **ALICE)

        def overtake() -> None:
            memory.purge(**ALICE)
            assert other.run_once().changed

        embeddings.call = overtake
        assert not one.run_once().changed
        assert_same(memory, bolt_server, ["alice", "bob"])


@pytest.mark.postgres
async def test_arun_once_mirrors_a_memory_on_postgres(postgres_url: str, bolt_server: GraphServer) -> None:
    with Memory(postgres_url, graph=True) as memory, mirroring(memory, bolt_server) as mirror:
        history = History(memory, 3)
        for _ in range(3):
            for _ in range(10):
                history.step()
            await mirror.arun_once()
        assert_same(memory, bolt_server, USERS)


# ── another history ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("others")
def test_run_once_after_a_restored_backup_rebuilds(bolt_server: GraphServer, tmp_path: Path) -> None:
    path, backup = tmp_path / "memory.db", tmp_path / "backup.db"
    with Memory(path) as memory, mirroring(memory, bolt_server) as mirror:
        memory.graph.add("Anna", "lives in", "Lyon", **ALICE)
        mirror.run_once()
    shutil.copy(path, backup)
    with Memory(path) as memory, mirroring(memory, bolt_server) as mirror:
        memory.graph.add("Anna", "lives in", "Oslo", **ALICE)
        assert not mirror.run_once().rebuilt
    path.unlink()
    shutil.move(backup, path)
    with Memory(path) as memory, mirroring(memory, bolt_server) as mirror:
        memory.graph.add("Anna", "lives in", "Rome", **ALICE)
        memory.graph.add("Anna", "lives in", "Bonn", **ALICE)
        assert mirror.run_once().rebuilt
        assert_same(memory, bolt_server, ["alice"])
        bolt_server.ask("MATCH (n {lineage: $lineage}) DETACH DELETE n", lineage=lineage_of(memory))
        bolt_server.ask("MATCH (n:LangmemMirror) DETACH DELETE n")
        assert mirror.run_once().rebuilt
        assert_same(memory, bolt_server, ["alice"])


def test_run_once_of_an_empty_memory(memory: Memory, bolt_server: GraphServer) -> None:
    with mirroring(memory, bolt_server) as mirror:
        assert not mirror.run_once().changed


# ── a server that is away ───────────────────────────────────────────────────────────────────────────────────────────────


def test_follow_logs_a_lost_server_once_and_catches_up(
    memory: Memory, bolt_server: GraphServer, caplog: pytest.LogCaptureFixture
) -> None:
    port = urlsplit(bolt_server.uri).port
    assert port is not None
    stop, done = threading.Event(), threading.Event()
    login = bolt_server.username, bolt_server.password
    with Proxy(port) as way, GraphDatabase.driver(f"bolt://127.0.0.1:{way.port}", auth=login) as driver:
        way.cut()
        with memory.graph.mirror(driver, database=bolt_server.database) as mirror:
            memory.graph.add("Anna", "lives in", "Lyon", **ALICE)
            with pytest.raises(StorageError, match="cannot be reached") as refused:
                mirror.run_once()
            assert refused.value.transient
            with caplog.at_level(logging.WARNING, "langmem_adapter"):
                options = {"every": 0.1, "report": lambda _: done.set()}
                thread = threading.Thread(target=mirror.follow, args=(stop,), kwargs=options)
                thread.start()
                while not caplog.records:
                    memory.graph.add("me", "likes", "tea", **ALICE)
                way.mend()
                assert done.wait(60)
            stop.set()
            thread.join()
            mirror.run_once()
    assert_same(memory, bolt_server, ["alice"])
    assert [record.levelname for record in caplog.records if "not mirrored" in record.message] == ["WARNING"]


def test_run_once_with_a_wrong_password_names_the_fix(memory: Memory, bolt_server: GraphServer) -> None:
    memory.graph.add("Anna", "lives in", "Lyon", **ALICE)
    wrong = secrets.token_hex(8)
    with (
        memory.graph.mirror(bolt_server.uri, username="root", password=wrong) as mirror,
        pytest.raises(StorageError, match="NEO4J_PASSWORD") as refused,
    ):
        mirror.follow(threading.Event())
    assert not refused.value.transient and wrong not in str(refused.value)


def test_run_once_with_an_older_bolt(memory: Memory, bolt_server: GraphServer) -> None:
    memory.graph.add("Anna", "lives in", "Lyon", **ALICE)
    login: dict[str, Any] = {"username": bolt_server.username, "password": bolt_server.password}
    # Both agree on 4.4, as a Neo4j of that number does; only from 5.2 on a client may say what it wants to be told.
    older = bytes.fromhex("6060b017 00000404 00000000 00000000 00000000")
    with (
        Proxy(urlsplit(bolt_server.uri).port or 0, opening=older) as way,
        memory.graph.mirror(f"bolt://127.0.0.1:{way.port}", database=bolt_server.database, **login) as mirror,
    ):
        mirror.run_once()
    assert_same(memory, bolt_server, ["alice"])


@each(
    ("answer", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "looks like HTTP"),
        (b"\x00\x00\x00\x09", "does not support communication with this driver"),
        (b"", "incomplete handshake"),
    ],
)
def test_run_once_with_a_server_without_bolt(memory: Memory, answer: bytes, told: str) -> None:
    memory.graph.add("Anna", "lives in", "Lyon", **ALICE)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), partial(Answering, answer)) as other:
        threading.Thread(target=other.serve_forever, args=(0.01,)).start()
        with (
            memory.graph.mirror(f"bolt://127.0.0.1:{other.server_address[1]}", username="a", password="b") as mirror,  # noqa: S106
            pytest.raises((StorageError, InvalidInputError), match=told),
        ):
            mirror.run_once()
        other.shutdown()


class Answering(socketserver.BaseRequestHandler):
    """Says one thing and goes."""

    def __init__(self, answer: bytes, *given: Any) -> None:
        self._answer = answer
        super().__init__(*given)

    def handle(self) -> None:
        """Say it."""
        self.request.recv(100)
        self.request.sendall(self._answer)


async def test_mirror_refuses_unusable_targets(memory: Memory) -> None:
    bolt = "bolt://127.0.0.1:1"
    for given, how, told in (
        ("http://localhost:7474", {}, "bolt://localhost:7687"),
        ("bolt://host:x", {}, "bolt://localhost:7687"),
        (7687, {}, "neo4j.Driver"),
        ("bolt://neo4j:s3cret@localhost:7687", {}, "NEO4J_PASSWORD"),
        (bolt, {"label": "a b"}, "one word"),
        (bolt, {"dialect": "oracle"}, "memgraph"),
        (bolt, {"user_id": " "}, "blank"),
    ):
        with pytest.raises(ValueError, match=told) as refused:
            memory.graph.mirror(given, **how)  # type: ignore[arg-type]
        assert "s3cret" not in str(refused.value)
    async with AsyncGraphDatabase.driver(bolt) as driver:
        with pytest.raises(InvalidInputError, match=r"GraphDatabase\.driver"):
            memory.graph.mirror(driver)  # type: ignore[arg-type]


def test_mirror_dialect_of_memgraph() -> None:
    told = schema("memgraph", "__Entity__")
    assert "CREATE CONSTRAINT ON (n:`__Entity__`) ASSERT n.lineage, n.pk IS UNIQUE" in told
    assert "CREATE INDEX ON :`__Entity__`(pk)" in told and not any("IF NOT EXISTS" in each for each in told)


def test_mirror_label_has_its_own_constraints() -> None:
    made = [
        statement.split(" IF NOT")[0]
        for label in ("Entity", "__Entity__", "entity")
        for statement in schema("neo4j", label)
    ]
    assert len(set(made)) == len(made) == 12


def test_the_benchmark_of_the_mirror_runs(bolt_server: GraphServer) -> None:
    told: list[tuple[str, float]] = []
    measure_mirror(lambda name, value, *_: told.append((name, value)), QUICK, bolt_server)
    assert len(dict(told)) == 3 and all(math.isfinite(value) for _, value in told)


# ── a real Neo4j ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif("NEO4J_URI" not in os.environ, reason="NEO4J_URI names no server")
def test_mirror_on_the_server_of_neo4j_uri(tmp_path: Path) -> None:
    login = os.environ.get("NEO4J_USERNAME", "neo4j"), os.environ.get("NEO4J_PASSWORD", "")
    server = GraphServer(os.environ["NEO4J_URI"], *login, os.environ.get("NEO4J_DATABASE"))
    with Memory(tmp_path / "memory.db", graph=True) as memory, mirroring(memory, server) as mirror:
        history = History(memory, 7)
        for _ in range(100):
            history.step()
            mirror.run_once()
        for name in HOSTILE:
            memory.graph.add("me", "likes", f"{name[:199]}.", user_id=name)
        mirror.run_once()
        assert_same(memory, server, [*USERS, *HOSTILE])
        for user in [*USERS, *HOSTILE]:
            memory.purge(user_id=user)
        mirror.run_once()
        assert nodes(server, lineage_of(memory)) == {}
