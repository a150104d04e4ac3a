"""Who gets in: names, origins, lengths, rates, keys; and how errors look."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from langmem_adapter.errors import InvalidInputError
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.app import create_app
from langmem_adapter.server.page import router
from langmem_adapter.storage import keys
from tests.cases import each
from tests.server.conftest import ALICE, HERE, client, key

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Message, Receive, Send
    from starlette.types import Scope as Asked

    from langmem_adapter.memory.memory import Memory


@pytest.mark.parametrize("given", ["", "x", "lma_", "lma_000000000000_x", "lma_é_x", "lma_" + "1" * 5_000])
def test_invalid_keys_are_refused(memory: Memory, given: str) -> None:
    key(memory)
    answer = client(memory).get("/memories/x", headers={b"X-API-Key": given.encode()})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "valid key" in answer.json()["detail"]


def test_no_route_reads_a_body_before_authentication(memory: Memory) -> None:
    """Routes come from the document, and from the page's, so that a new one is tried without being written down here."""
    app, page = create_app(memory, auth="keys", hosts=["testserver"], mcp=True), FastAPI()
    page.include_router(router)
    paths = {**app.openapi()["paths"], "/mcp": {"post": {}}, **page.openapi()["paths"]}
    routes = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    checked = [
        each
        for each in routes
        if not each[1].startswith(("/ui/login", "/ui/logout", "/ui/theme", "/v1/health", "/v1/ready"))
    ]

    async def status_of(method: str, path: str) -> int:
        async def receive() -> Message:
            pytest.fail(f"{method} {path} reads the body")

        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"host", b"testserver"), (b"content-type", b"application/json"), (b"content-length", b"9000000")]
        asked = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": headers,
        }
        await app({**asked, "client": HERE, "server": ("testserver", 80), "scheme": "http"}, receive, send)
        return int(sent[0]["status"])

    statuses = {each: asyncio.run(status_of(*each)) for each in checked}
    assert len(statuses) > 60 and set(statuses.values()) == {401, 303}, statuses
    assert {path for (_, path), status in statuses.items() if status == 303} <= set(page.openapi()["paths"])


@each("path", ["/ui/login", "/ui/logout", "/ui/theme"])
def test_form_without_login_is_short(memory: Memory, path: str) -> None:
    http = client(memory)
    for body in ({"data": {"key": "x" * 20_000}}, {"content": (b"key=" + b"x" * 900 for _ in range(20))}):
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        assert http.post(path, headers=headers, **body).status_code == 413


def test_revoked_key_is_refused_at_once(memory: Memory) -> None:
    http, headers = client(memory), key(memory)
    assert http.get("/memories/x", headers=headers).status_code == 200
    (one,) = memory.parts.reading(keys.listed)
    answer = http.get("/memories/x", headers=key(memory, ALICE, "write"))
    assert (answer.status_code, answer.json()) == (403, {"detail": "this needs a key with the right to read"})
    assert memory.parts.database.write(lambda c: keys.revoke(c, one.id))
    assert not memory.parts.database.write(lambda c: keys.revoke(c, one.id))
    assert http.get("/memories/x", headers=headers).status_code == 401


def test_no_secret_is_stored_and_purge_removes_keys_of_its_scope(memory: Memory, tmp_path: Path) -> None:
    secret = key(memory)["X-API-Key"].split("_", 2)[2].encode()
    key(memory, Scope(user_id="bob"))
    key(memory, None, "admin")
    assert all(secret not in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert memory.purge(user_id="alice").keys == 1
    assert [one.scope for one in memory.parts.reading(keys.listed)] == [None, Scope(user_id="bob")]
    assert memory.reset().keys == 1
    assert [one.scope for one in memory.parts.reading(keys.listed)] == [None]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "localhost:8765"}, 200),
        ({"host": "[::1]:8765"}, 200),
        ({"x-forwarded-for": "127.0.0.1"}, 401),
        ({"forwarded": "for=127.0.0.1"}, 401),
        ({"x-forwarded-proto": "https"}, 401),
        ({"via": "1.1 somebody"}, 401),
        ({"cf-connecting-ip": "127.0.0.1"}, 401),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
        ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, 200),
    ],
)
def test_auth_local_serves_local_connections_only(memory: Memory, headers: dict[str, str], status: int) -> None:
    app = create_app(memory, auth="local")
    http = TestClient(app, client=("127.0.0.1", 1))
    assert http.get("/memories/x", headers=headers).status_code == status
    assert TestClient(app, client=("10.0.0.7", 1)).get("/memories/x").status_code == 401

    async def proxied(scope: Asked, receive: Receive, send: Send) -> None:  # by one that adds no header
        await app({**scope, "http_version": "1.0"}, receive, send)

    assert TestClient(proxied, client=HERE).get("/memories/x").status_code == 401


def test_cross_site_requests_and_long_bodies_are_refused_unread(memory: Memory) -> None:
    http = client(memory, auth="local", max_body=100)
    assert http.post("/search", headers={"origin": "https://evil.example"}, json={}).status_code == 403
    assert http.post("/search", content=b"x" * 101).status_code == 413
    assert http.post("/search", content=(b"x" * 60 for _ in range(2))).status_code == 413


@pytest.mark.parametrize("path", ["/memories", "/v1/memories"])
def test_repeated_query_parameter_is_refused(memory: Memory, path: str) -> None:
    http = client(memory, auth="local")
    for user in ("alice", "bob"):
        http.post("/memories", json={"messages": "I like tea.", "user_id": user, "infer": False})
    answer = http.delete(path, params=[("user_id", "alice"), ("user_id", "bob")])
    assert answer.status_code == 422 and "Give it once" in answer.text
    assert len(memory.get_all(user_id="bob")) == 1


def test_per_minute_counts_an_ipv6_network_as_one_caller(memory: Memory) -> None:
    app = create_app(memory, auth="keys", hosts=["testserver"], per_minute=1)
    visitors = ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:10.0.0.7", "10.0.0.7", "10.0.0.8")
    statuses = [TestClient(app, client=(each, 1)).get("/memories/x").status_code for each in visitors]
    assert statuses == [401, 429, 401, 401, 429, 401]
    assert int(TestClient(app, client=("10.0.0.8", 1)).get("/memories/x").headers["retry-after"]) > 0


def test_every_response_has_request_id_and_security_headers(memory: Memory) -> None:
    http = client(memory)
    answer = http.get("/memories/x", headers={"X-Request-ID": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert len(http.get("/memories/x", headers={"X-Request-ID": "bad id"}).headers["x-request-id"]) == 32


def test_create_app_needs_auth(memory: Memory) -> None:
    with pytest.raises(InvalidInputError, match="keys"):
        create_app(memory, auth="open")
