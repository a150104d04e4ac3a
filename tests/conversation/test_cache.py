"""Redis keeps copies of conversations: quick where they are right, of no use where they are not, and never missed."""

from __future__ import annotations

import logging
import socketserver
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import redis
from langchain_core.messages import AIMessage

from langmem_adapter import InvalidInputError, Memory, MissingDependencyError, Settings
from langmem_adapter.conversation import BrainMemory, WorkingMemory
from langmem_adapter.storage.conversations import Cache

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def url(redis_server: Callable[..., Any], free_port: int) -> str:
    redis_server(free_port)
    return f"redis://127.0.0.1:{free_port}/0"


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with redis.Redis.from_url(url, decode_responses=True) as opened:
        yield opened


@pytest.fixture
def memory(url: str, tmp_path: Path) -> Iterator[Memory]:
    with opened(url, tmp_path) as memory:
        yield memory


def opened(url: str, folder: Path) -> Memory:
    return Memory(folder / "memory.db", settings=Settings(redis_url=url))


def brain(memory: Memory, chat: str = "monday", user: str = "alice") -> BrainMemory:
    return BrainMemory(memory, chat, user_id=user)


def texts(one: BrainMemory) -> list[str]:
    return [message.text for message in one.history]


def test_a_copy_is_kept_for_half_an_hour_under_user_and_chat(memory: Memory, client: Any) -> None:
    brain(memory, chat="1:2").add_talk("Hi")
    assert texts(brain(memory, chat="1:2")) == ["Hi"]
    (key,) = client.keys()
    assert key == "langmem_adapter:alice//:1%3A2"
    assert 0 < client.ttl(key) <= 1_800


def test_a_copy_is_read_in_place_of_the_messages(memory: Memory, client: Any) -> None:
    one = brain(memory)
    one.add_talk("Hi")
    assert texts(one) == ["Hi"]
    (key,) = client.keys()
    ((version, kept),) = client.hgetall(key).items()
    client.hset(key, version, kept.replace("Hi", "Ho"))
    assert texts(one) == ["Ho"]


@pytest.mark.parametrize("change", ["add", "remove", "sum up", "clear", "begin again"])
def test_a_copy_that_is_not_of_today_is_never_read(memory: Memory, client: Any, change: str) -> None:
    one = brain(memory)
    for text in ("one", "two"):
        one.add_answer(AIMessage(text, id=text))
    assert texts(one) == ["one", "two"]
    (key,) = client.keys()
    old = client.dump(key)
    log = WorkingMemory(memory=memory, session_id="monday", user_id="alice")
    if change == "add":
        log.add(AIMessage("three", id="3"))
    elif change == "remove":
        log.delete_newest()
    elif change == "sum up":
        one.summarize()
    elif change == "clear":
        log.clear()
    else:
        memory.purge(user_id="alice")
        log.add_batch([AIMessage("eins", id="one"), AIMessage("zwei", id="two")])
    client.delete(key)
    if old:
        client.restore(key, 1_000_000, old)
    expected = [turn.text for turn in log.storage] if change != "sum up" else []
    assert texts(one) == expected


@pytest.mark.parametrize(
    "value",
    [b"\xff\xfe", b"no JSON", b"3", b"{}", b"[3]", b'[{"created_at": "noon"}]', b'[{"created_at": "2026-01-01"}]'],
)
@pytest.mark.parametrize("kind", ["copy", "key"])
def test_what_is_no_copy_of_ours_is_not_read(url: str, memory: Memory, value: bytes, kind: str) -> None:
    """Another program wrote it there, or another release of this one that knows other fields."""
    one = brain(memory)
    one.add_talk("Hi")
    assert texts(one) == ["Hi"]
    with redis.Redis.from_url(url) as client:
        (key,) = client.keys()
        ((version, _),) = client.hgetall(key).items()
        if kind == "copy":
            client.hset(key, version, value)
        else:
            client.set(key, value)
        assert texts(one) == ["Hi"]
        assert texts(one) == ["Hi"]
        assert b"Hi" in client.hget(key, version)


@pytest.mark.parametrize("erase", ["purge", "clear"])
def test_what_is_erased_while_a_copy_is_made_leaves_none(
    memory: Memory, client: Any, monkeypatch: pytest.MonkeyPatch, erase: str
) -> None:
    one, put = brain(memory), Cache.put
    one.add_talk("Hi")

    def overtaken(cache: Cache, *arguments: Any) -> None:
        if erase == "purge":
            assert memory.purge(user_id="alice").remains == ()
        else:
            one.clear()
        put(cache, *arguments)

    monkeypatch.setattr(Cache, "put", overtaken)
    assert texts(one) == ["Hi"]
    assert client.keys() == []


def test_two_databases_at_one_server_do_not_disturb_each_other(url: str, tmp_path: Path) -> None:
    """As after a backup was put back: number of the conversation and of its messages are the same."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with opened(url, tmp_path / "one") as one, opened(url, tmp_path / "two") as two:
        for memory, text in ((one, "Hi"), (two, "Ho")):
            brain(memory).add_talk(text)
        assert [texts(brain(memory)) for memory in (one, two, one)] == [["Hi"], ["Ho"], ["Hi"]]


def test_a_server_that_dies_in_the_middle_loses_nothing_and_is_told_once(
    redis_server: Callable[..., subprocess.Popen[bytes]],
    free_port: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = redis_server(free_port, "--requirepass", "s3cret")
    with opened(f"redis://:s3cret@127.0.0.1:{free_port}", tmp_path) as memory:
        one = brain(memory)
        one.add_talk("one")
        assert texts(one) == ["one"]
        server.kill()
        server.wait()
        with caplog.at_level(logging.WARNING, logger="langmem_adapter"):
            assert texts(one) == ["one"]
            one.add_talk("two")
            assert texts(one) == ["one", "two"]
            assert one.summarize()
            one.clear()
        told = [record for record in caplog.records if "Redis" in record.getMessage()]
        assert len(told) == 1
        assert "s3cret" not in told[0].getMessage()
        redis_server(free_port, "--requirepass", "s3cret")
        one.add_talk("three")
        assert texts(one) == ["three"]
        with redis.Redis(port=free_port, password="s3cret") as client:  # noqa: S106 - of a server that lives a second
            assert len(client.keys()) == 1


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$abc\r\n"])
def test_a_server_that_is_no_redis_disturbs_nobody(
    tmp_path: Path, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langmem_adapter.storage.conversations._PATIENCE", 0.1)

    class Stranger(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while self.request.recv(65_536):
                self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Stranger) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with opened(f"redis://127.0.0.1:{server.server_address[1]}", tmp_path) as memory:
            one = brain(memory)
            one.add_talk("Hi")
            assert texts(one) == ["Hi"]
            one.clear()
            (told,) = memory.purge(user_id="alice").remains
            assert "copies of conversations are left in Redis" in told
        server.shutdown()


def test_a_purge_takes_the_copies_of_its_scope_with_it(memory: Memory, client: Any) -> None:
    for user, chat in (("alice", "1"), ("alice", "*"), ("alice*", "1"), ("ali", "ce"), ("里昂", "一")):
        brain(memory, chat, user).add_talk("Hi")
        assert texts(brain(memory, chat, user))
    assert len(client.keys()) == 5
    assert memory.purge(user_id="alice").remains == ()
    assert sorted(client.keys()) == [
        "langmem_adapter:%E9%87%8C%E6%98%82//:%E4%B8%80",
        "langmem_adapter:ali//:ce",
        "langmem_adapter:alice%2A//:1",
    ]
    assert memory.reset().remains == ()
    assert client.keys() == []


def test_a_purge_of_many_copies_takes_the_server_a_few_at_a_time(memory: Memory, client: Any) -> None:
    client.mset({f"langmem_adapter:alice//:{number}": "a copy" for number in range(1_700)})
    assert memory.purge(user_id="alice").remains == ()
    assert client.keys() == []
    assert client.info("commandstats")["cmdstat_unlink"]["calls"] == 4


def test_a_purge_says_what_it_could_not_reach(
    redis_server: Callable[..., subprocess.Popen[bytes]], free_port: int, tmp_path: Path
) -> None:
    server = redis_server(free_port)
    with opened(f"redis://127.0.0.1:{free_port}", tmp_path) as memory:
        brain(memory).add_talk("Hi")
        assert texts(brain(memory)) == ["Hi"]
        server.kill()
        server.wait()
        (told,) = memory.purge(user_id="alice").remains
        assert "copies of conversations are left in Redis for half an hour" in told


def test_an_address_that_is_none_is_refused_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="redis://localhost:6379/0") as told:
        opened("http://:s3cret@localhost", tmp_path)
    assert "s3cret" not in str(told.value)


def test_without_the_package_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingDependencyError, match=r"langchain-langmem-adapter\[redis\]"):
        opened("redis://localhost", tmp_path)
