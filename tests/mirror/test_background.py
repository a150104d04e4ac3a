"""A mirror in the background: the memory does not notice what becomes of the graph server, and the server catches up."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from langmem_adapter import HashEmbeddings, Memory
from langmem_adapter.mirror.mirror import MirrorThread
from tests.faults.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable

    from langmem_adapter.mirror.mirror import Mirror
    from tests.bolt import GraphServer

pytestmark = pytest.mark.xdist_group("bolt")


def wait_for(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.02)


def mirror_at(port: int, memory: Memory, server: GraphServer, *, embeddings: bool = False) -> Mirror:
    return memory.graph.mirror(
        f"bolt://127.0.0.1:{port}",
        username=server.username,
        password=server.password,
        database=server.database,
        embeddings=embeddings,
    )


def port_of(server: GraphServer) -> int:
    return urlsplit(server.uri).port or 0


def likes(server: GraphServer, who: str) -> set[str]:
    return {name for (name,) in server.ask("MATCH ({user_id: $who})-[:likes]->(n) RETURN n.name", who=who)}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_mirror_catches_up_after_the_server_was_away(
    bolt_server: GraphServer, caplog: pytest.LogCaptureFixture
) -> None:
    who = "away and back"
    with Proxy(port_of(bolt_server)) as proxy, Memory(":memory:") as memory:
        proxy.cut()
        following = MirrorThread(mirror_at(proxy.port, memory, bolt_server), every=0.05)
        memory.graph.add("Anna", "likes", "tea", user_id=who)
        wait_for(lambda: len(warnings(caplog)) == 1)
        assert len(memory.graph.relations(user_id=who)) == 1
        proxy.mend()
        wait_for(lambda: likes(bolt_server, who) == {"tea"})
        memory.graph.add("Anna", "likes", "jazz", user_id=who)
        following.close()  # the last run comes before the end
    assert likes(bolt_server, who) == {"tea", "jazz"}


def test_close_of_a_mirror_waits_until_the_target_has_everything(
    bolt_server: GraphServer, caplog: pytest.LogCaptureFixture
) -> None:
    who = "close waits"
    with Memory(":memory:") as memory:
        with mirror_at(port_of(bolt_server), memory, bolt_server) as mirror:
            memory.graph.add("Anna", "likes", "tea", user_id=who)
            assert mirror.run_once().applied == mirror.applied == memory.stats().changes
            memory.graph.add("Anna", "likes", "jazz", user_id=who)
        assert likes(bolt_server, who) == {"tea", "jazz"}
        assert mirror.applied == memory.stats().changes
    assert warnings(caplog) == []


def test_close_of_a_mirror_that_cannot_says_how_far_it_is(
    bolt_server: GraphServer, caplog: pytest.LogCaptureFixture
) -> None:
    with Proxy(port_of(bolt_server)) as proxy, Memory(":memory:") as memory:
        mirror = mirror_at(proxy.port, memory, bolt_server)
        memory.graph.add("Anna", "likes", "tea", user_id="how far")
        mirror.run_once()
        done = memory.stats().changes
        memory.graph.add("Anna", "likes", "jazz", user_id="how far")
        proxy.cut()
        mirror.close()
    (warning,) = warnings(caplog)
    assert f"mirrored up to change {done}, and not to its end: " in warning
    assert likes(bolt_server, "how far") == {"tea"}


def test_close_waits_for_a_mirror_that_gets_on_and_says_how_far_another_one_is(
    bolt_server: GraphServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("langmem_adapter.mirror.mirror._PATIENCE", 0.0)
    answering = threading.Event()

    class Silent(HashEmbeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            answering.wait()
            return super().embed_documents(texts)

    with Memory(":memory:", embeddings=Silent(64)) as memory:
        memory.graph.add("Anna", "likes", "tea", user_id="silent")
        following = MirrorThread(mirror_at(port_of(bolt_server), memory, bolt_server, embeddings=True), every=0.05)
        following.close()
        (warning,) = warnings(caplog)
        assert "mirrored up to change 0; the rest follows when the memory is opened again" in warning
        monkeypatch.undo()
        answering.set()
        following.close()
    assert likes(bolt_server, "silent") == {"tea"}


_NEVER_CLOSED = """
import os, sys
from langmem_adapter import Memory
from langmem_adapter.mirror.mirror import MirrorThread

memory = Memory(":memory:")
uri, username, password, database = sys.argv[1:]
MirrorThread(memory.graph.mirror(uri, username=username, password=password, database=database), every=1000)
memory.graph.add("Anna", "likes", "tea", user_id="never closed")
if child := os.fork():
    os.waitpid(child, 0)
"""


def test_mirror_of_a_program_without_close_is_complete(bolt_server: GraphServer) -> None:
    # A process of its own: a fork that `multiprocessing` makes skips what is to be done at a program's exit.
    login = bolt_server.uri, bolt_server.username, bolt_server.password, str(bolt_server.database)
    subprocess.run([sys.executable, "-c", _NEVER_CLOSED, *login], check=True, timeout=100)
    assert likes(bolt_server, "never closed") == {"tea"}


class Broken(HashEmbeddings):
    """A model whose provider has a bad day, for the names that a mirror asks for."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed nothing."""
        raise RuntimeError(f"no quota for {len(texts)} texts")


def test_mirror_alone_stops_where_the_embeddings_fail(
    bolt_server: GraphServer, caplog: pytest.LogCaptureFixture
) -> None:
    with Memory(":memory:", embeddings=Broken(64)) as memory:
        memory.graph.add("Anna", "likes", "tea", user_id="quota")
        following = MirrorThread(mirror_at(port_of(bolt_server), memory, bolt_server, embeddings=True), every=0.05)
        wait_for(lambda: bool(warnings(caplog)))
        following.close()
        assert len(memory.graph.relations(user_id="quota")) == 1
    assert warnings(caplog) == ["the graph is not mirrored now: no quota for 2 texts"]
    assert likes(bolt_server, "quota") == set()
