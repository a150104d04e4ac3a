"""Mem0's routes: what its own programs send, and what they get."""

from __future__ import annotations

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
import uvicorn

from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.server.app import create_app
from langmem_adapter.server.mem0 import ELSEWHERE
from tests.server.conftest import client, key, remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi.testclient import TestClient

PAGE: Final = Path(__file__).parents[2] / "examples" / "guide" / "rest.md"
TALK: Final = [{"role": "user", "content": "I am vegetarian and I live in Lyon."}]
NOBODY: Final = "At least one identifier (user_id, agent_id, run_id) is required."


def added(http: TestClient, text: str = "I like tea", **more: Any) -> str:
    body = {"messages": [{"role": "user", "content": text}], "user_id": "alice", "infer": False, **more}
    return str(http.post("/memories", json=body).json()["results"][0]["id"])


@pytest.fixture
def wire(memory: Memory) -> Iterator[httpx.Client]:
    """A client of a server that listens on a port."""
    door = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(memory, auth="local"), log_config=None, ws="none"))
    with ThreadPoolExecutor(1) as beside, httpx.Client(base_url=f"http://127.0.0.1:{door.getsockname()[1]}") as http:
        beside.submit(server.run, sockets=[door])
        yield http
        server.should_exit = True


def test_mem0_routes_do_the_seven_operations(wire: httpx.Client) -> None:
    created = wire.post("/memories", json={"messages": TALK, "user_id": "alice", "metadata": {"source": "chat"}})
    assert created.status_code == 200
    first, second = created.json()["results"]
    assert (first["memory"], first["event"], second["memory"]) == ("Is vegetarian", "ADD", "Lives in Lyon")

    listed = wire.get("/memories", params={"user_id": "alice"}).json()["results"]
    assert {row["id"] for row in listed} == {first["id"], second["id"]}
    one = wire.get(f"/memories/{first['id']}").json()
    assert (one["memory"], one["user_id"], one["metadata"]) == ("Is vegetarian", "alice", {"source": "chat"})

    found = wire.post("/search", json={"query": "where does she live?", "filters": {"user_id": "alice"}}).json()
    assert found["results"][0]["memory"] == "Lives in Lyon"

    (row,) = wire.post("/memories", json={"messages": "I live in Rome now.", "user_id": "alice"}).json()["results"]
    assert (row["event"], row["previous_memory"]) == ("UPDATE", "Lives in Lyon")
    changed = wire.put(f"/memories/{second['id']}", json={"text": "Lives in Oslo"})
    assert changed.json() == {"message": "Memory updated successfully!"}
    steps = wire.get(f"/memories/{second['id']}/history").json()
    assert [(step["event"], step["old_memory"], step["new_memory"]) for step in steps] == [
        ("ADD", None, "Lives in Lyon"),
        ("UPDATE", "Lives in Lyon", "Lives in Rome"),
        ("UPDATE", "Lives in Rome", "Lives in Oslo"),
    ]

    assert wire.delete(f"/memories/{first['id']}").json() == {"message": "Memory deleted successfully"}
    assert wire.delete("/memories", params={"user_id": "alice"}).json() == {"message": "All relevant memories deleted"}
    assert wire.get("/memories", params={"user_id": "alice"}).json() == {"results": []}
    assert len(wire.get(f"/memories/{first['id']}/history").json()) == 2

    assert wire.post("/reset").json() == {"message": "All memories reset"}
    assert wire.get(f"/memories/{first['id']}/history").json() == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "detail"),
    [
        ("POST", "/memories", {"messages": TALK}, 400, NOBODY),
        ("POST", "/memories", {"messages": TALK, "user_id": ""}, 400, NOBODY),
        ("POST", "/memories", {"messages": TALK, "user_id": " "}, 400, "user_id is blank"),
        ("POST", "/memories", {"messages": [], "user_id": "a"}, 400, "empty"),
        ("POST", "/memories", {"messages": TALK, "user_id": "a", "memory_type": "core"}, 400, "procedural_memory"),
        ("POST", "/memories", {"messages": TALK, "user_id": "a", "expiration_date": "soon"}, 400, "expiration_date"),
        ("DELETE", "/memories", None, 400, "At least one identifier is required."),
        ("DELETE", "/memories?user_id=", None, 400, "At least one identifier is required."),
        ("POST", "/search", {"query": "tea"}, 400, NOBODY),
        ("POST", "/search", {"query": "tea", "filters": {"user_id": ""}}, 400, NOBODY),
        ("POST", "/search", {"query": " ", "user_id": "a"}, 400, "query"),
        ("POST", "/search", {"query": "tea", "user_id": "a", "filters": {"user_id": "b"}}, 400, "named twice"),
        ("POST", "/search", {"query": "tea", "user_id": "a", "filters": {"AND": 1}}, 400, "AND"),
        ("PUT", "/memories/unknown", {"text": "x"}, 404, "unknown"),
        ("PUT", "/memories/unknown", {}, 400, "nothing to change"),
        ("PUT", "/memories/unknown", {"text": "x", "data": "y"}, 400, "differ"),
        ("DELETE", "/memories/unknown", None, 404, "unknown"),
        ("POST", "/reset", {"user_id": ""}, 400, "blank"),
        ("POST", "/reset", {"user_id": None}, 400, "user_id is missing"),
        ("GET", "/memories/", None, 404, "Not Found"),
    ],
)
def test_mem0_errors_have_a_detail(
    http: TestClient, method: str, path: str, body: Any, status: int, detail: str
) -> None:
    answer = http.request(method, path, json=body)
    assert (answer.status_code, detail in answer.json()["detail"]) == (status, True), answer.json()


@pytest.mark.parametrize(
    ("method", "path", "body", "where"),
    [
        ("POST", "/memories", {"user_id": "a"}, ["body", "messages"]),
        ("POST", "/memories", {"messages": [{"content": "x"}], "user_id": "a"}, ["body", "messages"]),
        ("POST", "/memories", {"messages": TALK, "user_id": "a", "app_id": "x"}, ["body", "app_id"]),
        ("POST", "/memories", {"messages": TALK, "user_id": 7}, ["body", "user_id"]),
        ("GET", "/memories?user_id=a&top_k=1001", None, ["query", "top_k"]),
        ("GET", "/memories?user_id=a&top_k=-1", None, ["query", "top_k"]),
        ("DELETE", "/memories?user_id=a&app_id=x", None, ["query", "app_id"]),
        ("POST", "/search", {"user_id": "a"}, ["body", "query"]),
        ("DELETE", "/entities/app/a", None, ["path", "entity_type"]),
    ],
)
def test_mem0_invalid_request_is_a_list_of_places(
    http: TestClient, method: str, path: str, body: Any, where: list[str]
) -> None:
    answer = http.request(method, path, json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"][:2] == where


def test_mem0_ignores_empty_ids_and_unknown_ids_are_null(http: TestClient) -> None:
    memory_id = added(http)
    assert http.get("/memories?user_id=alice&agent_id=&run_id=").json()["results"][0]["id"] == memory_id
    body = {"query": "tea", "user_id": "alice", "agent_id": "", "filters": {"run_id": ""}}
    assert http.post("/search", json=body).json()["results"][0]["id"] == memory_id
    unknown = http.get("/memories/unknown")
    assert (unknown.status_code, unknown.json()) == (200, None)
    assert http.get("/memories/unknown/history").json() == []


def test_mem0_top_k_show_expired_and_all_scopes(http: TestClient) -> None:
    for number in range(3):
        added(http, f"note {number}")
    added(http, "old", user_id="bob", expiration_date="2001-01-01")
    assert len(http.get("/memories?user_id=alice&top_k=2").json()["results"]) == 2
    assert http.get("/memories?user_id=alice&top_k=0").json() == {"results": []}
    assert http.get("/memories?user_id=bob").json() == {"results": []}
    (old,) = http.get("/memories?user_id=bob&show_expired=true").json()["results"]
    assert (old["memory"], old["expiration_date"]) == ("old", "2001-01-01")
    assert len(http.get("/memories").json()["results"]) == 3
    everybody = http.get("/memories?show_expired=true&top_k=1000").json()["results"]
    assert {row["user_id"] for row in everybody} == {"alice", "bob"}
    search = {"query": "note", "user_id": "alice"}
    assert len(http.post("/search", json={**search, "top_k": 1}).json()["results"]) == 1
    assert http.post("/search", json={**search, "top_k": 0}).json() == {"results": []}
    expired = {"query": "old", "user_id": "bob", "show_expired": True}
    assert [row["memory"] for row in http.post("/search", json=expired).json()["results"]] == ["old"]


def test_mem0_search_takes_filters_and_explain(http: TestClient) -> None:
    added(http, "The hotel was 120 euros", metadata={"euros": 120})
    added(http, "The tram was 9 euros", metadata={"euros": 9})
    body = {"query": "What did it cost?", "filters": {"user_id": "alice", "euros": {"gte": 100}}, "explain": True}
    (row,) = http.post("/search", json=body).json()["results"]
    assert row["memory"] == "The hotel was 120 euros"
    assert set(row["score_details"]) >= {"semantic_score", "bm25_score", "final_score", "threshold"}


@pytest.mark.parametrize("name", ["text", "data"])
def test_mem0_update_takes_each_field(http: TestClient, name: str) -> None:
    memory_id = added(http, metadata={"a": 1, "b": 2})
    http.put(f"/memories/{memory_id}", json={name: "Likes green tea"})
    http.put(f"/memories/{memory_id}", json={"metadata": {"a": None, "c": 3}})
    http.put(f"/memories/{memory_id}", json={"expiration_date": "2999-12-31"})
    row = http.get(f"/memories/{memory_id}").json()
    assert (row["memory"], row["metadata"]) == ("Likes green tea", {"b": 2, "c": 3})
    assert row["expiration_date"] == "2999-12-31"
    http.put(f"/memories/{memory_id}", json={"expiration_date": None})
    assert "expiration_date" not in http.get(f"/memories/{memory_id}").json()


def test_mem0_reset_erases_one_scope_within_that_of_the_key(memory: Memory) -> None:
    hers, his = remembered(memory, "alice"), remembered(memory, "bob")
    http, headers = client(memory), key(memory, Scope("alice"), "admin")
    assert http.post("/reset", json={"user_id": "bob"}, headers=headers).status_code == 403
    for body in (None, {"user_id": "alice"}):
        assert http.post("/reset", json=body, headers=key(memory, Scope("alice"), "admin")).status_code == 200
        assert client(memory, auth="local").get(f"/memories/{hers}/history").json() == []
    assert len(memory.history(his)) == 1


def test_mem0_routes_for_admins(memory: Memory) -> None:
    everywhere, admin = key(memory, None), key(memory, None, "admin")
    remembered(memory, "alice")
    http = client(memory)
    for method, path in (("GET", "/memories"), ("GET", "/entities"), ("POST", "/reset")):
        refused = http.request(method, path, headers=everywhere)
        assert (refused.status_code, "admin" in refused.json()["detail"]) == (403, True)
        assert http.request(method, path, headers=admin).status_code == 200


def test_mem0_routes_refuse_a_scope_with_blanks(memory: Memory) -> None:
    remembered(memory, "alice")
    http, headers = client(memory), key(memory, Scope("alice "))
    answers = [
        http.get("/memories", headers=headers),
        http.post("/search", json={"query": "tea"}, headers=headers),
        http.post("/memories", json={"messages": "I like tea"}, headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert http.delete("/entities/user/alice", headers=headers).status_code == 403
    assert len(memory.get_all(user_id="alice")) == 1


def test_mem0_entities_are_counted_and_deleted_within_the_scope_of_the_key(memory: Memory, http: TestClient) -> None:
    added(http)
    added(http, agent_id="guide")
    added(http, user_id="bob")
    told = {(row["type"], row["id"]): row["total_memories"] for row in http.get("/entities").json()}
    assert told == {("agent", "guide"): 1, ("user", "alice"): 2, ("user", "bob"): 1}
    his = client(memory).get("/entities", headers=key(memory, Scope("bob"))).json()
    assert [(row["type"], row["id"]) for row in his] == [("user", "bob")]
    assert http.delete("/entities/user/alice").json() == {"message": "Entity deleted"}
    assert [row["id"] for row in http.get("/entities").json()] == ["bob"]


@pytest.mark.parametrize("path", ELSEWHERE)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_mem0_other_routes_say_what_to_do_instead(http: TestClient, method: str, path: str) -> None:
    answer = http.request(method, path.replace("{rest:path}", "login"))
    assert (answer.status_code, answer.json()) == (404, {"detail": ELSEWHERE[path]})
    assert "langmem-adapter" in ELSEWHERE[path] or "standard error" in ELSEWHERE[path]


def test_the_guide_lists_every_route_of_mem0(http: TestClient) -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    ours = [path for path in http.get("/openapi.json").json()["paths"] if not path.startswith("/v1/")]
    for path in (*ELSEWHERE, *ours):
        shown = re.compile(rf"`(?:[A-Z]+ )?{re.escape(path.replace('{rest:path}', '*'))}`")
        (row,) = (row for row in rows if shown.search(row.split("|")[1]))
        assert ("| 404: " in row) == (path in ELSEWHERE), row


def test_mem0_relations_need_a_graph() -> None:
    with Memory(":memory:", graph=True) as memory:
        http = client(memory, auth="local")
        created = http.post("/memories", json={"messages": TALK, "user_id": "alice"}).json()
        triple = {"source": "alice", "relationship": "lives_in", "target": "Lyon"}
        assert [triple] in created["relations"]["added_entities"]
        assert triple in http.get("/memories?user_id=alice").json()["relations"]
        found = http.post("/search", json={"query": "Lyon", "user_id": "alice"}).json()["relations"]
        assert {"source": "alice", "relationship": "lives_in", "destination": "Lyon"} in found
        http.delete("/entities/user/alice")
        assert not memory.graph.relations(user_id="alice")


ELSEWHERE_IMAGE: Final = "http://169.254.169.254/latest"


@pytest.mark.parametrize(
    "content",
    [
        {"type": "image_url", "image_url": {"url": ELSEWHERE_IMAGE}},
        [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": ELSEWHERE_IMAGE}],
        [[{"type": "image", "url": ELSEWHERE_IMAGE}]],
        [{"type": "input_image", "image_url": "FILE:///etc/passwd"}],
        [{"type": "tool_result", "content": [{"type": "image", "url": ELSEWHERE_IMAGE}]}],
    ],
)
def test_mem0_images_are_not_fetched(memory: Memory, http: TestClient, content: Any) -> None:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": content}], "user_id": "alice"}
    answer = http.post("/memories", json=body)
    assert (answer.status_code, "data: URLs" in answer.json()["detail"]) == (400, True)
    allowed = client(memory, auth="local", fetch_images=True).post("/memories", json=body)
    assert "data: URLs" not in allowed.text
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    body["messages"] = [{"role": "user", "content": [{"type": "text", "text": "I live in Lyon."}, part]}]
    assert http.post("/memories", json=body).json()["results"][0]["memory"] == "Lives in Lyon"
