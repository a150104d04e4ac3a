"""Limits of connections: `langmem-adapter serve` as a program, called over raw sockets by clients that mean harm and others."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpx
import pytest
from httpx import AsyncClient
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from langmem_adapter.memory.memory import Memory
from langmem_adapter.storage import jobs
from tests.cases import each
from tests.programs import COMMAND, python
from tests.server.conftest import key
from tests.serving import served, stopped, within_a_minute

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

MEGABYTE: Final = 1_000_000
TIMEOUT: Final = ("--request-timeout", "0.5")
LIMIT: Final = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300)); " + COMMAND[1]


class Server:
    """A server with a key, and raw connections to it."""

    def __init__(self, address: str, shown: str, database: Path) -> None:
        self.address = address
        self.database = database
        self.key = {"X-API-Key": shown}
        self.line = f"X-API-Key: {shown}\r\n"

    def connect(self) -> socket.socket:
        """A new connection; what its test waits for comes, or never does."""
        at = urlsplit(self.address)
        assert at.hostname is not None
        return socket.create_connection((at.hostname, at.port or 0), timeout=60)

    def answer(self, *parts: bytes | Iterable[bytes]) -> bytes:
        """What comes back until the server closes the connection, which it does: nothing here ends by itself."""
        with self.connect() as connection:
            with suppress(BrokenPipeError, ConnectionResetError):
                for part in parts:
                    for piece in [part] if isinstance(part, bytes) else part:
                        connection.sendall(piece)
            return read(connection)

    def head(self, request: str, *headers: str, shown: bool = True) -> bytes:
        """The beginning of a request, with the key."""
        lines = [request, "Host: localhost", *headers]
        return ("\r\n".join(lines) + "\r\n" + (self.line if shown else "")).encode()


def read(connection: socket.socket) -> bytes:
    got = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            got += piece
    return got


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    database = tmp_path_factory.mktemp("served") / "memory.db"
    with Memory(database) as memory:
        shown = key(memory)["X-API-Key"]
    with served(database, *TIMEOUT, "--mcp", "--max-body", str(3 * MEGABYTE)) as (running, address):
        yield Server(address, shown, database)
        stopped(running)


POST: Final = "POST /v1/search HTTP/1.1"
JSON: Final = "Content-Type: application/json"
CHUNKED: Final = "Transfer-Encoding: chunked"
QUESTION: Final = b'{"query": "tea", "user_id": "alice"}'
END: Final = b"\r\n"


def endless(piece: bytes, megabytes: int = 2) -> Iterable[bytes]:
    """Some megabytes, far beyond each limit."""
    return [piece * (65_536 // len(piece))] * (megabytes * 16)


def slowly(piece: bytes, seconds: float = 60, pause: float = 0.1) -> Iterator[bytes]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield piece
        time.sleep(pause)


def test_serve_refuses_requests_over_a_limit(server: Server) -> None:
    get, post = server.head("GET /v1/health HTTP/1.1"), server.head(POST, JSON)
    chunked, old = server.head(POST, JSON, CHUNKED) + END, server.head("POST /v1/search HTTP/1.0", JSON, CHUNKED) + END
    many = (f"h{number}: x\r\n".encode() * 100 for number in range(20_000))
    over: dict[str, tuple[int, *tuple[bytes | Iterable[bytes], ...]]] = {
        "header lines": (431, get, many),
        "header value": (431, get, b"h: ", endless(b"x")),
        "header lines at once": (431, get + b"h: x\r\n" * 15_000 + END),
        "HEAD": (431, server.head("HEAD /v1/health HTTP/1.1") + b"h: x\r\n" * 15_000 + END),
        "URL": (414, server.head(f"GET /{'x' * 9_000} HTTP/1.1") + END),
        "long URL": (414, server.head(f"GET /{'x' * 90_000} HTTP/1.1") + END),
        "URL without an end": (414, b"GET /", endless(b"x")),
        "trailers": (431, chunked + b"2\r\n{}\r\n0\r\n", endless(b"t: x\r\n")),
        "chunk extension": (431, chunked + b"2;", endless(b"x")),
        "chunk size": (431, chunked, endless(b"0")),
        "small chunks": (400, chunked, endless(b"1\r\n \r\n")),
        "small chunks with extensions": (400, chunked, endless(b"1;" + b"x" * 1_000 + b"\r\n \r\n")),
        "two lengths": (400, post + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
        "length and chunks": (400, post + f"Content-Length: 2\r\n{CHUNKED}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode()),
        "old and chunked": (400, old + b"2\r\n{}\r\n0\r\n\r\n"),
        "gzip": (501, post + b"Transfer-Encoding: gzip\r\n\r\n"),
        "no HTTP": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + END),
    }
    for what, (expected, *parts) in over.items():
        check_refusal(server.answer(*parts), expected, what)
        assert httpx.get(f"{server.address}/v1/health", timeout=60).status_code == 200


def test_serve_refuses_late_requests(server: Server) -> None:
    get, post = server.head("GET /v1/health HTTP/1.1"), server.head(POST, JSON)
    late: list[tuple[bytes | Iterable[bytes], ...]] = [
        (get,),
        (get + b"h: ", slowly(b"x")),
        (post + b"Content-Length: 100\r\n\r\n{",),
        (post + b"Content-Length: 10000\r\n\r\n{", slowly(b" ")),
        (server.head(POST, JSON, CHUNKED) + END + b"9\r\n{",),
    ]
    with ThreadPoolExecutor(len(late)) as threads:
        answers = [threads.submit(server.answer, *parts) for parts in late]
        for answer in answers:
            check_refusal(answer.result(), 408, "late")


def check_refusal(answer: bytes, expected: int, what: str) -> None:
    assert status(answer) == expected and answer.count(b"HTTP/1.1") == 1, (what, answer[:300])
    assert b"connection: close" in answer.lower() and "detail" in json.loads(answer.partition(b"\r\n\r\n")[2])


@each(
    ("what", "expected", "rest"),
    [("chunk size", 400, [b"no number\r\n"]), ("trailers", 431, [b"0\r\n", [b"t: x\r\n" * 9_000] * 32])],
)
def test_import_refused_within_its_body_has_resume_line(
    server: Server, what: str, expected: int, rest: list[bytes | Iterable[bytes]]
) -> None:
    rows = ({"text": f"fact {number}", "user_id": "alice", "run_id": what} for number in range(130))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    head = server.head("POST /v1/import HTTP/1.1", "Content-Type: application/x-ndjson", CHUNKED) + END
    answer = server.answer(head + f"{len(lines):x}\r\n{lines}\r\n".encode(), *rest)
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (status(answer), body["imported"], body["resume_line"]) == (expected, 130, 131)
    with Memory(server.database) as memory:
        assert len(memory.get_all(run_id=what, k=1_000).items) == 130


def test_serve_closes_a_connection_without_a_request_silently(server: Server) -> None:
    with server.connect() as connection:
        assert read(connection) == b""


def test_serve_answers_requests_within_its_limits(server: Server) -> None:
    get, post = server.head("GET /v1/health HTTP/1.1"), server.head(POST, JSON)
    nothing = server.head("GET /nothing HTTP/1.1") + END
    length = f"Content-Length: {len(QUESTION)}\r\n".encode()
    chunked = server.head(POST, JSON, CHUNKED) + END
    last_chunk = b"%x;a=b\r\n%b\r\n0\r\nt: x\r\n\r\n" % (len(QUESTION), QUESTION)
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in QUESTION)
    upgrade = ["GET /v1/health HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
    upgrade.append(f"Sec-WebSocket-Key: {'A' * 22}==")
    unread = server.head("DELETE /v1/memories?user_id=alice HTTP/1.1") + b"Content-Length: 9\r\n\r\n"
    within: dict[str, tuple[list[int], *tuple[bytes | Iterable[bytes], ...]]] = {
        "keep-alive": ([200, 200, 200], get + END, slowly(b"", 0.1), get + END),
        "pipelining": ([200, 404, 200], get + END + nothing),
        "pipelining after chunks": ([200, *[404] * 900, 200], chunked + last_chunk + nothing * 900),
        "chunks and a trailer": ([200, 200], chunked + last_chunk),
        "slow progress": ([200, 200], chunked, slowly(b"64\r\n%b\r\n" % (b" " * 100), 1), last_chunk),
        "byte by byte": ([200, 200], [bytes([byte]) for byte in post + length + END + QUESTION]),
        "small chunks": ([200, 200], chunked + chunks + b"0\r\n\r\n"),
        "continue": ([100, 200, 200], post + length + b"Expect: 100-continue\r\n\r\n", slowly(b"", 0.2), QUESTION),
        "HTTP/1.0": ([200], server.head("POST /v1/search HTTP/1.0", JSON) + length + END + QUESTION),
        "WebSocket": ([200, 200], server.head(*upgrade) + END),
        "WebSocket with a body": ([200, 200], server.head(*upgrade, "Content-Length: 5") + END, b"12345"),
        "unread body": ([200, 200], unread, b"123456789"),
        "long URL": ([200, 200], server.head(f"GET /v1/health?{'x' * 8_000} HTTP/1.1") + END),
        "long headers": ([200, 200], get + b"h: " + b"x" * 60_000 + END + END),
    }
    last = server.head("GET /v1/health HTTP/1.1", "Connection: close") + END
    for what, (expected, *parts) in within.items():
        answer = server.answer(*parts, *([] if len(expected) == 1 else [last]))
        assert [int(each[:3]) for each in answer.split(b"HTTP/1.1 ")[1:]] == expected, (what, answer)


def test_serve_gives_a_slow_answer_its_time(server: Server) -> None:
    """The stream of a job outlasts all deadlines; neither ends the other, also where the body never comes."""
    with Memory(server.database) as memory:
        write = memory.parts.database.write
        (job,) = write(partial(jobs.submit, requests=[{"messages": "I like tea.", "user_id": "alice"}], most=9))
        assert write(partial(jobs.take, owner="somebody", lease=600)) is not None
        with server.connect() as connection, server.connect() as other:
            for one, header in ((connection, "Accept: */*"), (other, "Content-Length: 9")):
                one.sendall(server.head(f"GET /v1/jobs/{job.id}/events HTTP/1.1", header) + END)
            time.sleep(1.2)
            write(partial(jobs.finish, job=job, owner="somebody", error={"status": 400, "detail": "over"}))
            for one in (connection, other):
                got = b""
                while b"event: failed" not in got:
                    piece = one.recv(65_536)
                    assert piece, got
                    got += piece
                assert status(got) == 200 and b"event: running" in got


def test_serve_gives_a_slow_reader_all_of_the_answers_and_closes_a_connection_whose_client_reads_nothing(
    server: Server,
) -> None:
    big, last = server.head("GET /openapi.json HTTP/1.1", shown=False) + END, "GET /v1/health HTTP/1.1"
    requests = big * 100 + server.head(last, "Connection: close", shown=False) + END  # of answers of 13 MB
    got, until = b"", time.monotonic() + 4  # longer than the deadlines
    with server.connect() as connection, server.connect() as idle:
        for one in (connection, idle):
            one.sendall(requests)
        while piece := connection.recv(65_536):
            got += piece
            time.sleep(0.1 if time.monotonic() < until else 0)
        assert got.count(b"HTTP/1.1 200") == 101
        assert read(idle).count(b"HTTP/1.1 200") < 101


def test_a_client_of_mcp_works_within_the_limits(server: Server) -> None:
    async def use() -> list[str]:
        async with (
            AsyncClient(headers=server.key) as http,
            streamable_http_client(f"{server.address}/mcp", http_client=http) as (receive, send, _),
            ClientSession(receive, send) as client,
        ):
            await client.initialize()
            await asyncio.sleep(0.7)  # longer than the deadlines
            return [tool.name for tool in (await client.list_tools()).tools]

    assert "search_memories" in asyncio.run(use())


@each("how", ["", "Connection: close", "HTTP/1.0", "Expect: 100-continue", CHUNKED])
def test_serve_answers_a_wrong_key_before_the_body_comes(server: Server, how: str) -> None:
    """Nothing of it comes, or more and more: the answer arrives in both cases, and the connection is closed."""
    version, header = ("1.0", "Accept: */*") if how == "HTTP/1.0" else ("1.1", how or "Accept: */*")
    length = [] if how == CHUNKED else ["Content-Length: 2900000"]
    head = server.head(f"POST /v1/memories HTTP/{version}", JSON, header, *length, shown=False) + END
    for body in ((), endless(b"60\r\n%b\r\n" % (b"[]," * 32) if how == CHUNKED else b"[],", 2)):
        answer = server.answer(head, body)
        assert status(answer) == 401 and b"100 Continue" not in answer, answer[:300]


def test_serve_closes_connections_beyond_max_connections_and_recovers(tmp_path: Path) -> None:
    with ExitStack() as opened:
        running, address = opened.enter_context(
            served(tmp_path / "memory.db", "--request-timeout", "2", program=("-c", LIMIT))
        )
        server = Server(address, "none", tmp_path)
        waiting = [opened.enter_context(server.connect()) for _ in range(290)]
        for connection in waiting:
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(b"GET / HTTP/1.1\r\nHost:")
        answers = [read(connection) for connection in waiting]
        assert {answer and status(answer) for answer in answers} == {b"", 408}
        assert sum(answer != b"" for answer in answers) == 150
        within_a_minute(lambda: server.answer(server.head("GET /v1/health HTTP/1.1", "Connection: close") + END))
        log = stopped(running)
    assert log.count("150 connections are open") == 1


def test_max_connections_counts_open_connections(tmp_path: Path) -> None:
    with served(tmp_path / "memory.db", "--max-connections", "2") as (running, address):
        server = Server(address, "none", tmp_path)
        with server.connect(), server.connect(), server.connect() as third:
            assert read(third) == b""
        stopped(running)


@each(
    ("options", "passed", "warnings"),
    [((), 3, 1), (("--forwarded-allow-ips", "10.0.0.0/8"), 3, 0), (("--forwarded-allow-ips", "127.0.0.1"), 9, 0)],
)
def test_per_minute_reads_x_forwarded_for_of_named_proxies(
    tmp_path: Path, options: tuple[str, ...], passed: int, warnings: int
) -> None:
    with served(tmp_path / "memory.db", "--per-minute", "3", *options) as (running, address):
        asked = [httpx.post(f"{address}/memories", headers={"X-Forwarded-For": f"10.1.0.{n}"}) for n in range(9)]
        log = stopped(running)
    assert [answer.status_code for answer in asked].count(401) == passed
    assert {answer.status_code for answer in asked} <= {401, 429}
    assert log.count("X-Forwarded-For is not read") == warnings


def test_forwarded_allow_ips_takes_addresses(tmp_path: Path) -> None:
    for wrong in ("*", "proxy.example", "10.0.0.1/8"):
        done = python(
            *COMMAND, "-d", tmp_path / "memory.db", "serve", "--port", "0", "--forwarded-allow-ips", wrong, code=2
        )
        assert "--forwarded-allow-ips" in done.stderr
