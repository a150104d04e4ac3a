"""Import and export over HTTP: how far an import that fails came, how it goes on, its keys; what ends both."""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx

from langmem_adapter.memory.memory import Memory
from langmem_adapter.server.app import create_app
from langmem_adapter.server.page.layout import COOKIE
from langmem_adapter.server.v1 import routes
from langmem_adapter.storage import jobs, keys
from langmem_adapter.storage import keys as sessions
from tests.cases import each
from tests.server.conftest import ALICE, HERE, client, key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    import pytest
    from fastapi.testclient import TestClient
    from starlette.types import Message

Piece = bytes | float | type[Exception]


async def pieces(*parts: Piece) -> AsyncIterator[bytes]:
    for part in parts:
        if isinstance(part, bytes):
            yield part
        elif isinstance(part, float):
            await asyncio.sleep(part)
        else:
            raise part


def import_(memory: Memory, *parts: Piece, key: str | None = None, **more: Any) -> httpx.Response:
    async def send() -> httpx.Response:
        app = create_app(memory, auth="local", max_body=100_000, request_timeout=0.5)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=HERE)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as http:
            headers = {} if key is None else {"Idempotency-Key": key}
            return await http.post("/v1/import", content=pieces(*parts), headers=headers, params=more)

    return asyncio.run(send())


LINES = 105


@each(
    ("name", "after", "status", "resume"),
    [
        ("too long", (b"x" * 100_000, b"x" * 100_000), 413, 106),
        ("too long in a piece", (b"x" * 200_000,), 413, 106),
        ("late", (b'{"text": ', 60.0), 408, 106),
        ("an error of ours", (OSError,), 500, 102),
        ("within a batch", (b'{"text": "one", "user_id": "x"}\n\n\n', b"x" * 100_000), 413, 109),
    ],
)
def test_failed_import_has_resume_line_and_goes_on_with_first_line(
    memory: Memory, name: str, after: tuple[Piece, ...], status: int, resume: int
) -> None:
    """Good lines and one that is refused, and then a body that fails: from the line that is named on, none is lost."""
    lines = [json.dumps({"text": f"fact {number}", "user_id": name}) for number in range(LINES)]
    lines[20] = "{"
    answer = import_(memory, "".join(f"{line}\n" for line in lines).encode(), *after)
    told = answer.json()
    kept = len(memory.get_all(user_id=name, k=1_000).items)
    assert (answer.status_code, told["status"], told["resume_line"]) == (status, status, resume)
    assert told["imported"] - (name == "within a batch") == kept == min(resume, LINES + 1) - 2
    assert (told["refused"], [error["line"] for error in told["errors"]]) == (1, [21])
    goes_on = [*lines[resume - 1 :], json.dumps({"text": "last", "user_id": name}), "{"]
    report = import_(memory, "\n".join(goes_on).encode(), first_line=resume).json()
    assert (report["imported"], [error["line"] for error in report["errors"]]) == (
        len(goes_on) - 1,
        [resume + len(goes_on) - 1],
    )
    assert len(memory.get_all(user_id=name, k=1_000).items) == LINES


def test_resumed_import_has_the_idempotency_keys_of_the_whole(memory: Memory) -> None:
    line = b'{"text": "I like tea", "user_id": "alice"}\n'
    pieces = (bytes([byte]) for byte in line)
    assert import_(memory, *pieces, line, b"x" * 200_000, key="k").json()["resume_line"] == 3
    assert import_(memory, line, line, key="k", first_line=3).json()["imported"] == 2
    assert import_(memory, line * 4, key="k").json()["imported"] == 4  # it was done before
    assert len(memory.get_all(user_id="alice").items) == 4


def test_import_ends_when_its_key_is_revoked(memory: Memory) -> None:
    headers = key(memory)

    async def body() -> AsyncIterator[bytes]:
        yield b'{"text": "before"}\n' * 150
        memory.parts.database.write(lambda connection: keys.revoke(connection, headers["X-API-Key"].split("_")[1]))
        yield b'{"text": "after"}\n' * 150

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(memory, auth="keys"), client=HERE)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as http:
            return await http.post("/v1/import", content=body(), headers=headers)

    answer = asyncio.run(send())
    told = answer.json()
    assert (answer.status_code, told["imported"], told["resume_line"]) == (401, 100, 101)
    assert len(memory.get_all(user_id="alice", k=1_000).items) == 100


async def asgi(
    memory: Memory, method: str, path: str, headers: dict[str, str], *parts: bytes, after: Callable[[], object] = bool
) -> list[Message]:
    """What an app sends to a client that breaks off after some parts of its body; *after* is called with the first one."""
    received: list[Message] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    sent: list[Message] = []

    async def receive() -> Message:
        if not parts:
            await asyncio.Event().wait()
        return received.pop(0) if received else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)
        if message.get("body"):
            after()

    names = {"host": "testserver", **({"transfer-encoding": "chunked"} if parts else {}), **headers}
    where = {"method": method, "path": path.partition("?")[0], "query_string": path.partition("?")[2].encode()}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "client": HERE,
        "server": ("testserver", 80),
        "scheme": "http",
        **where,
    }
    pairs = [(name.lower().encode(), value.encode()) for name, value in names.items()]
    await create_app(memory, auth="keys")({**scope, "headers": pairs}, receive, send)
    return sent


@each("path", ["/v1/export", "/ui/export?format=jsonl", "/ui/export?format=csv"])
async def test_export_breaks_off_when_its_key_is_revoked(
    memory: Memory, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    write = memory.parts.database.write
    if not memory.get_all(user_id="alice"):
        memory.add_many([{"messages": [f"fact {number}" for number in range(600)], "user_id": "alice", "infer": False}])
    headers = key(memory)
    shown = headers["X-API-Key"]
    if path.startswith("/ui"):
        found = memory.parts.reading(keys.find, shown)
        assert found is not None
        headers = {"cookie": f"{COOKIE}={write(partial(sessions.begin, key=found))}"}
    revoke = partial(write, lambda connection: keys.revoke(connection, shown.split("_")[1]))
    start, *bodies = await asgi(memory, "GET", path, headers, after=revoke)
    assert (start["status"], b"".join(body["body"] for body in bodies).count(b"fact")) == (200, 500)
    assert all(body["more_body"] for body in bodies)  # no end: the server closes the connection
    assert "an answer was broken off: NobodyError" in caplog.messages
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_events_of_a_job_break_off_when_the_key_is_revoked(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(routes, "_PAUSE", 0)
    headers, write = key(memory), memory.parts.database.write
    request = {"messages": "I like tea", "user_id": "alice"}
    (job,) = write(partial(jobs.submit, requests=[request], most=1))  # nobody carries it out
    revoke = partial(write, lambda connection: keys.revoke(connection, headers["X-API-Key"].split("_")[1]))
    *_, last = await asgi(memory, "GET", f"/v1/jobs/{job.id}/events", headers, after=revoke)
    assert last["more_body"] and "an answer was broken off: NobodyError" in caplog.messages


async def test_import_logs_one_warning_when_the_client_disconnects(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    line = b'{"text": "I like tea"}\n'
    await asgi(memory, "POST", "/v1/import", key(memory), line, line[:5])
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert record.getMessage().endswith("the client broke off")
    assert len(memory.get_all(user_id="alice").items) == 1


def test_idempotency_keys_of_imports_and_adds_are_separate(http: TestClient) -> None:
    """An add, a job or a line named like a line of an import hinders none, and an import none of them."""

    def added(key: str, wait: str = "true") -> int:
        body = {"messages": f"fact {key}", "user_id": "alice", "infer": False}
        return http.post(f"/v1/memories?wait={wait}", json=body, headers={"Idempotency-Key": key}).status_code

    lines = "\n".join(json.dumps({"text": f"line {number}", "user_id": "alice"}) for number in (1, 2, 3))
    assert [added("imp:1"), added("imp:2", "false"), added("imp:1:1")] == [201, 202, 201]
    report = http.post("/v1/import", content=lines, headers={"Idempotency-Key": "imp"}).json()
    assert report["imported"] == 3
    assert http.post("/v1/import", content=lines, headers={"Idempotency-Key": "imp:1"}).json()["imported"] == 3
    assert added("imp:3") == 201
    texts = [item["text"] for item in http.get("/v1/memories?user_id=alice").json()["items"]]
    assert sorted(text for text in texts if text.startswith("line")) == sorted(f"line {n}" for n in (1, 2, 3) * 2)
    assert {"fact imp:1", "fact imp:1:1", "fact imp:3"} <= set(texts)


def test_import_of_a_full_export_makes_the_same_again(memory: Memory, tmp_path: Path) -> None:
    memory.add("I live in Lyon.", user_id="alice", timestamp="2024-05-01")
    memory.add("I live in Oslo.", user_id="alice", timestamp="2025-05-01")
    memory.add("I like tea.", user_id="bob")
    own, admin = key(memory), key(memory, ALICE, "admin")
    everything: dict[str, Any] = {"format": "full", "everything": True}
    with client(memory) as http:
        exported = http.get("/v1/export", params={"format": "full"}, headers=own)
        lines = [json.loads(line) for line in exported.text.splitlines()]
        assert {line["user_id"] for line in lines if "user_id" in line} == {"alice"}
        for headers in (own, admin):
            assert http.get("/v1/export", params=everything, headers=headers).status_code == 403
            assert http.post("/v1/import", params=everything, headers=headers).status_code == 403
        assert http.get("/v1/export", params={"format": "full", "user_id": "bob"}, headers=own).status_code == 403
        all_ = http.get("/v1/export", params=everything, headers=key(memory, None, "admin"))
        assert {"alice", "bob"} <= {json.loads(line).get("user_id") for line in all_.text.splitlines()}
        again = http.post("/v1/import", params={"format": "full"}, content=all_.content, headers=own).json()
        assert again["known"] == len(lines) - 2 and again["rejected"] == all_.text.count("\n") - len(lines)
    with Memory(tmp_path / "other.db") as other, client(other) as http:
        headers = key(other)
        counted = http.post(
            "/v1/import", params={"format": "full", "dry_run": True}, content=all_.content, headers=headers
        )
        assert counted.json()["is_dry_run"] and not other.stats().memories
        report = http.post("/v1/import", params={"format": "full"}, content=all_.content, headers=headers).json()
        assert report["rejected"] and {each["reason"] for each in report["rejections"]} == {
            "it lies outside the scope that is imported"
        }
        assert list(other.export(user_id="alice"))[1:] == [
            f"{line}\n".encode() for line in exported.text.splitlines()[1:]
        ]
        refused = http.post("/v1/import", params={"format": "full"}, content=b"{}", headers=headers)
        assert refused.status_code == 400 and "no lossless export" in refused.json()["detail"]


def test_import_of_a_full_export_refuses_more_rows_than_its_body_can_hold(memory: Memory) -> None:
    memory.add("I live in Lyon.", user_id="alice")
    head, *lines = memory.export(user_id="alice")
    counts = {**json.loads(head)["counts"], "revision": 2**31}
    forged = json.dumps({**json.loads(head), "counts": counts}).encode()
    with client(memory) as http:
        for body, status in ((b"\n".join([forged, *lines]), 400), (b"".join([head, *lines]), 200)):
            answer = http.post("/v1/import", params={"format": "full"}, content=body, headers=key(memory))
            assert answer.status_code == status, answer.text
