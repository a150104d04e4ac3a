"""Our own routes: what they do, what they refuse, and that they tell what they are."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from langmem_adapter.adapters.chat_history import SQLChatMessageHistory
from langmem_adapter.memory.memory import Memory
from langmem_adapter.records.scope import Scope
from langmem_adapter.storage import conversations
from langmem_adapter.storage.conversations import Conversation, Note
from langmem_adapter.storage.erasure import Erasure
from tests.server.conftest import ALICE, client, key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi.testclient import TestClient


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", graph=True) as memory:
        yield memory


@pytest.fixture
def keyed(memory: Memory) -> Iterator[TestClient]:
    """A client of a server that asks for keys."""
    with client(memory) as keyed:
        yield keyed


def added(http: TestClient, text: str, user: str = "alice", **more: Any) -> dict[str, Any]:
    answer = http.post("/v1/memories", json={"messages": text, "user_id": user, **more})
    assert answer.status_code == 201, answer.text
    (change,) = answer.json()["results"]
    return dict(change)


def problem(answer: Any, status: int) -> str:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    body = answer.json()
    assert (body["status"], body["type"]) == (status, "about:blank")
    return str(body["detail"])


def test_add_search_and_import_take_a_timezone(http: TestClient) -> None:
    late = {"timestamp": "2026-06-12T00:30", "timezone": "Asia/Shanghai"}
    assert added(http, "I visited Rome yesterday.", **late)["text"] == "Visited Rome on 2026-06-11"
    line = {"text": "Walked.", "created_at": late["timestamp"], "timezone": late["timezone"], "user_id": "alice"}
    assert http.post("/v1/import", content=json.dumps(line)).json()["imported"] == 1
    dates = [item["created_at"] for item in http.get("/v1/memories", params={"user_id": "alice"}).json()["items"]]
    assert dates == ["2026-06-12T00:30:00+08:00"] * 2
    asked = {"query": "walk", "user_id": "alice"}
    assert http.post("/v1/search", json={**asked, "after": "2026-06-12", "before": "2026-06-13"}).json()["results"]
    assert not http.post("/v1/search", json={**asked, "before": "2026-06-12"}).json()["results"]
    refused = http.post("/v1/search", json={**asked, "timezone": "Mars/Base"})
    assert "timezone='Mars/Base'" in problem(refused, 400)


@pytest.mark.parametrize(("said", "held"), [("I live in Lyon.", "Lives in Lyon"), ("我住在里昂。", "住在里昂")])
def test_memory_is_added_changed_deleted_and_restored(http: TestClient, said: str, held: str) -> None:
    change = added(http, said, metadata={"from": "chat"})
    assert (change["event"], change["text"]) == ("ADD", held)
    where = f"/v1/memories/{change['id']}"
    shown = http.get(where).json()
    assert (shown["text"], shown["user_id"], shown["metadata"]) == (held, "alice", {"from": "chat"})

    changed = http.patch(
        where, json={"text": "Lives in Oslo", "metadata": {"from": None}, "expires_at": "2100-01-01T00:00:00Z"}
    )
    assert (changed.status_code, changed.json()["previous_text"]) == (200, held)
    shown = http.get(where).json()
    assert (shown["text"], shown["metadata"], shown["expires_at"]) == ("Lives in Oslo", {}, "2100-01-01T00:00:00Z")
    assert http.patch(where, json={"expires_at": None}).status_code == 200
    assert http.get(where).json()["expires_at"] is None

    deleted = http.delete(where)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert "no memory" in problem(http.get(where), 404)
    events = [revision["event"] for revision in http.get(f"{where}/history").json()["items"]]
    assert events == ["ADD", "UPDATE", "UPDATE", "DELETE"]
    assert http.post(f"{where}/restore", json={"revision": 1}).json()["text"] == held
    assert http.get(where).json()["text"] == held


def test_memories_are_listed_page_by_page(http: TestClient) -> None:
    for number in range(3):
        added(http, f"fact {number}", infer=False, metadata={"even": number % 2 == 0})
    first = http.get("/v1/memories?user_id=alice&k=2").json()
    rest = http.get("/v1/memories", params={"user_id": "alice", "after": first["next"]}).json()
    assert [item["text"] for item in first["items"] + rest["items"]] == ["fact 2", "fact 1", "fact 0"]
    assert rest["next"] is None
    even = http.get("/v1/memories", params={"user_id": "alice", "filters": '{"even": true}'}).json()["items"]
    assert [item["text"] for item in even] == ["fact 2", "fact 0"]
    assert "no cursor" in problem(http.get("/v1/memories?user_id=alice&after=x"), 400)
    assert http.request("DELETE", "/v1/memories?user_id=alice").json() == {"deleted": 3}


def test_search_takes_explain_filters_as_of_and_known_at(http: TestClient) -> None:
    added(http, "I live in Lyon.", timestamp="2024-05-01T00:00:00Z")
    added(http, "I moved to Oslo.", timestamp="2026-05-01T00:00:00Z")
    asked = {"query": "Where does she live?", "user_id": "alice", "k": 1, "explain": True}
    (hit,) = http.post("/v1/search", json=asked).json()["results"]
    assert "Oslo" in hit["text"] and sum(hit["explanation"]["parts"].values()) == pytest.approx(hit["score"])
    (then,) = http.post("/v1/search", json={**asked, "as_of": "2025-01-01T00:00:00Z"}).json()["results"]
    assert "Lyon" in then["text"]
    assert http.post("/v1/search", json={**asked, "filters": {"user": "x"}}).json()["results"] == []
    assert http.post("/v1/search", json={**asked, "known_at": "2020-01-01T00:00:00Z"}).json()["results"] == []
    assert "filter" in problem(http.post("/v1/search", json={**asked, "filters": {"a": {"$near": 1}}}), 400)


def test_search_threshold_is_a_number_or_auto_and_abstained_says_why(http: TestClient) -> None:
    for text in ("I like tea.", "I have a cat.", "I live in Oslo."):
        added(http, text)
    asked = {"query": "Which guitar did I buy?", "user_id": "alice", "k": 3}
    for least, told in (("auto", "nothing above 0.25"), (0.5, "nothing above 0.5")):
        assert http.post("/v1/search", json={**asked, "threshold": least}).json()["abstained"]["brief"] == told
    typed = {**asked, "memory_type": "procedural_memory"}
    assert "procedural_memory" in http.post("/v1/search", json=typed).json()["abstained"]["brief"]
    for wrong in ("many", 7):
        answer = http.post("/v1/search", json={**asked, "threshold": wrong})
        assert answer.status_code == 422 and "Input should be 'auto'" in answer.text


def test_idempotency_key_adds_once(http: TestClient) -> None:
    def add(headers: dict[str, str], **more: str) -> Any:
        return http.post(
            "/v1/memories", json={"messages": "x", "user_id": "alice", "infer": False, **more}, headers=headers
        )

    first, again = add({"Idempotency-Key": "k"}), add({}, idempotency_key="k")
    assert first.json()["results"] == again.json()["results"]
    assert "differ" in problem(add({"Idempotency-Key": "k"}, idempotency_key="l"), 400)
    assert len(http.get("/v1/memories?user_id=alice").json()["items"]) == 1


def test_batch_has_a_result_or_error_per_item(http: TestClient) -> None:
    items = [{"messages": "I like tea.", "user_id": "alice"}, {"messages": "I like tea."}]
    one, two = http.post("/v1/memories/batch", json={"items": items}).json()["items"]
    assert (one["added"]["results"][0]["text"], one["error"]) == ("Likes tea", None)
    assert (two["added"], two["error"]["status"]) == (None, 400)
    assert problem(http.post("/v1/memories/batch", json={"items": []}), 422)


def test_fetch_images_allows_addresses_of_images(memory: Memory, http: TestClient) -> None:
    image = {"type": "image_url", "image_url": {"url": "http://10.0.0.1/x.png"}}
    body = {
        "messages": [{"role": "user", "content": [image, {"type": "text", "text": "This is my dog."}]}],
        "user_id": "a",
    }
    tried = ("/v1/memories", body), ("/v1/memories?wait=false", body), ("/v1/memories/batch", {"items": [body]})
    for path, sent in (*tried, ("/v1/memories", {"messages": "x", "context": body["messages"], "user_id": "a"})):
        assert "data: URLs" in problem(http.post(path, json=sent), 400)
    with client(memory, auth="local", fetch_images=True) as allowed:
        assert allowed.post("/v1/memories", json=body).status_code == 201


def test_purge_erases_memories_and_waiting_jobs(memory: Memory, http: TestClient) -> None:
    added(http, "I like tea.")
    assert (
        http.post("/v1/memories?wait=false", json={"messages": "I live in Lyon", "user_id": "alice"}).status_code == 202
    )
    erased = http.post("/v1/purge", json={"user_id": "alice"}).json()
    assert (erased["revisions"] in {1, 2}, erased["jobs"]) == (True, 1)  # a worker may have been faster
    assert erased.keys() == {field.name for field in fields(Erasure)}
    assert memory.get_all(user_id="alice").items == ()


def test_relations_and_entities_are_listed_and_added(http: TestClient) -> None:
    told = {"source": "Anna", "relation": "lives in", "target": "Lyon", "user_id": "alice"}
    answer = http.post("/v1/relations", json={**told, "valid_from": "2019-05-01T00:00:00Z"})
    assert (answer.status_code, answer.json()["event"]) == (201, "ADD")
    http.post("/v1/relations", json={**told, "target": "Oslo", "valid_from": "2024-05-01T00:00:00Z"})
    now = http.get("/v1/relations?user_id=alice&entity=anna").json()["items"]
    then = http.get("/v1/relations?user_id=alice&as_of=2020-01-01T00:00:00Z").json()["items"]
    assert [[each["text"] for each in items] for items in (now, then)] == [
        ["Anna lives in Oslo"],
        ["Anna lives in Lyon"],
    ]
    page = http.get("/v1/entities?user_id=alice&unrelated=true&k=2").json()
    assert {item["name"] for item in page["items"]} < {"Anna", "Lyon", "Oslo"} and page["next"]


def test_entities_path_neighbours_merge_split_and_end(http: TestClient) -> None:
    told = ("Anna", "married to", "Ben"), ("Annie", "works at", "阿克梅/é"), ("Ben", "lives in", "Lyon")
    body = {"user_id": "alice"}
    ways = {"source": "阿克梅/é", "target": "Lyon", **body}
    made = [
        http.post("/v1/relations", json={"source": one, "relation": what, "target": other, **body}).json()["relation"]
        for one, what, other in told
    ]
    walk = http.get("/v1/entities/path", params=ways)
    assert walk.json() == {"items": []}
    assert http.post("/v1/entities/merge", json={"name": "Annie", "into": "Anna", **body}).json() == {"relations": 1}
    walk = http.get("/v1/entities/path", params=ways)
    assert [each["text"] for each in walk.json()["items"]] == [
        "Anna works at 阿克梅/é",
        "Anna married to Ben",
        "Ben lives in Lyon",
    ]
    near = http.get("/v1/entities/neighbours?user_id=alice&entity=Ben&hops=2").json()["items"]
    assert {(each["entity"]["name"], each["hops"]) for each in near} == {("Anna", 1), ("Lyon", 1), ("阿克梅/é", 2)}
    found = http.post("/v1/relations/search", json={"query": "Where does Ben live?", **body}).json()["items"]
    assert found[0]["text"] == "Ben lives in Lyon"
    assert http.post("/v1/entities/split", json={"name": "Annie", **body}).json() == {"relations": 1}
    ended = http.post(f"/v1/relations/{made[2]['id']}/end", json=body).json()
    assert (ended["event"], ended["relation"]["valid_to"] is None) == ("END", False)
    assert "had ended" in problem(http.post(f"/v1/relations/{made[2]['id']}/end", json=body), 400)
    gone = http.delete(f"/v1/relations/{made[0]['id']}?user_id=alice").json()
    assert (gone["event"], gone["relation"]["retired_at"] is None) == ("DELETE", False)
    problem(http.delete(f"/v1/relations/{made[0]['id']}?user_id=alice"), 404)
    assert [each["text"] for each in http.get("/v1/relations?user_id=alice").json()["items"]] == [
        "Annie works at 阿克梅/é"
    ]
    problem(http.post("/v1/entities/merge", json={"name": "Annie", "into": "Anna", "user_id": "bob"}), 404)


def test_traces_are_listed_page_by_page(http: TestClient) -> None:
    for text in ("I like tea.", "I have a dog."):
        added(http, text)
    added(http, "I like jazz.", user_id="bob")
    first = http.get("/v1/traces?user_id=alice&k=1").json()
    rest = http.get("/v1/traces", params={"user_id": "alice", "after": first["next"]}).json()
    assert [each["said"] for each in first["items"] + rest["items"]] == ["I have a dog.", "I like tea."]
    assert (first["items"][0]["events"], rest["next"]) == ({"ADD": 1}, None)
    assert http.get(f"/v1/traces/{first['items'][0]['id']}").json()["turns"][0]["text"] == "I have a dog."
    problem(http.get("/v1/traces?user_id=alice&after=x"), 400)


def test_health_checks_need_an_admin_of_everything(memory: Memory) -> None:
    with client(memory) as http:
        told = http.get("/v1/health/checks", headers=key(memory, None, "admin")).json()
        found = {each["name"]: each["status"] for each in told["items"]}
        assert (found["database"], found["index"], found["disk"]) == ("OK", "OK", "OK")
        assert told["status"] in {"OK", "WARN"}  # packages of the machine that tests may be others
        for headers in (key(memory, None), key(memory, ALICE, "admin")):
            problem(http.get("/v1/health/checks", headers=headers), 403)


def test_conversations_turns_are_read_backwards(memory: Memory, http: TestClient) -> None:
    session = "team/频道 1"
    chat = SQLChatMessageHistory(session, memory=memory, user_id="alice")
    for number in range(5):
        chat.add_user_message(f"turn {number}")
    note = Note(kind="summary", text="five turns", covers_from=1, covers_to=5)
    memory.parts.database.write(lambda c: conversations.keep(c, Conversation(session, ALICE), note))
    (listed,) = http.get("/v1/conversations?user_id=alice").json()["items"]
    assert (listed["session_id"], listed["user_id"], listed["turns"]) == (session, "alice", 5)
    where = f"/v1/conversations/{session}"
    page = http.get(f"{where}/turns?user_id=alice&k=2").json()
    assert [turn["text"] for turn in page["items"]] == ["turn 3", "turn 4"]
    before = http.get(f"{where}/turns?user_id=alice&before={page['next']}").json()
    assert [turn["message"]["data"]["content"] for turn in before["items"]] == ["turn 0", "turn 1", "turn 2"]
    assert before["next"] is None
    assert [note["text"] for note in http.get(f"{where}/notes?user_id=alice").json()["items"]] == ["five turns"]
    assert http.get(f"{where}/turns?user_id=bob").json() == {"items": [], "next": None}


def test_export_streams_all_pages_and_can_be_imported_into_another_scope(memory: Memory, http: TestClient) -> None:
    messages = [f"fact {number}" for number in range(600)]
    memory.add(messages, user_id="alice", infer=False, metadata={"n": 1}, timestamp="2020-01-01T00:00:00Z")
    lines = http.get("/v1/export?user_id=alice").text.replace('"alice"', '"bob"')
    assert http.post("/v1/import", content=lines).json() == {"imported": 600, "refused": 0, "errors": []}

    def shown(user: str) -> list[tuple[Any, ...]]:
        items = memory.get_all(user_id=user, k=1_000)
        return sorted((item.text, item.created_at, item.actor_id, item.role, *item.metadata) for item in items)

    assert shown("alice") == shown("bob") and len(shown("bob")) == 600


def test_import_reads_create_time(http: TestClient) -> None:
    times = [-14_182_980.5, "1969-07-20T20:17:00Z", 1_683_547_200_000, "soon"]
    lines = [json.dumps({"text": f"{time}", "user_id": "alice", "create_time": time}) for time in times]
    lines.append(json.dumps({"text": "both", "user_id": "alice", "create_time": 0, "created_at": 0}))
    report = http.post("/v1/import", content="\n".join(lines)).json()
    assert [error["line"] for error in report["errors"]] == [3, 4, 5]
    assert "is it in milliseconds?" in report["errors"][0]["detail"]
    items = http.get("/v1/memories?user_id=alice").json()["items"]
    assert {item["created_at"] for item in items} == {"1969-07-20T20:16:59.500000Z", "1969-07-20T20:17:00Z"}


def test_import_reports_bad_lines_and_takes_the_others(http: TestClient) -> None:
    good = json.dumps({"text": "I like tea.", "user_id": "alice"})
    bad = ["{", "[]", '{"text": ""}', '{"text": "x"}', json.dumps({"text": "x", "user_id": "alice", "colour": 1})]
    bad += [json.dumps({"text": "x", "user_id": "alice", "role": "system"}), "\udcff"]
    lines = "\n".join([*bad, "", good]).encode(errors="surrogateescape")
    for _ in range(2):
        report = http.post("/v1/import", content=lines, headers={"Idempotency-Key": "k"}).json()
        assert (report["imported"], report["refused"]) == (1, 7)
        assert [error["line"] for error in report["errors"]] == [1, 2, 3, 4, 5, 6, 7]
        assert {error["status"] for error in report["errors"]} == {400}
    assert len(http.get("/v1/memories?user_id=alice").json()["items"]) == 1


def test_health_and_ready_need_no_key(memory: Memory, keyed: TestClient) -> None:
    assert keyed.get("/v1/health").json()["status"] == "alive"
    assert keyed.get("/v1/ready").json()["status"] == "ready"
    memory.parts.database.close()
    assert keyed.get("/v1/health").status_code == 200
    assert str(memory.location) not in problem(keyed.get("/v1/ready"), 503)


def test_key_sets_its_scope_and_refuses_others(memory: Memory, keyed: TestClient) -> None:
    hers, his = key(memory), key(memory, Scope(user_id="bob"))
    change = keyed.post("/v1/memories", json={"messages": "I like tea."}, headers=hers).json()["results"][0]
    assert memory.get(change["id"]).scope == ALICE
    assert keyed.post("/v1/search", json={"query": "tea"}, headers=his).json()["results"] == []
    foreign = [
        keyed.post("/v1/search", json={"query": "tea", "user_id": "alice"}, headers=his),
        keyed.get("/v1/memories?user_id=alice", headers=his),
        keyed.get("/v1/export?user_id=alice", headers=his),
        keyed.post("/v1/memories/batch", json={"items": [{"messages": "x", "user_id": "alice"}]}, headers=his),
    ]
    assert [problem(answer, 403) for answer in foreign] == ["this key reaches another scope"] * 4
    line = keyed.post("/v1/import", content='{"text": "x", "user_id": "alice"}', headers=his).json()
    assert (line["imported"], line["errors"][0]["status"]) == (0, 403)
    missing, forbidden = (keyed.get(f"/v1/memories/{each}", headers=his) for each in ("none", change["id"]))
    assert problem(missing, 404).replace("none", change["id"]) == problem(forbidden, 404)


def test_routes_need_their_rights(memory: Memory, keyed: TestClient) -> None:
    reader, writer, chief = key(memory, ALICE, "read"), key(memory, ALICE, "write"), key(memory, ALICE, "admin")
    memory.add("I like tea.", user_id="bob")
    assert problem(keyed.post("/v1/memories", json={"messages": "x"}, headers=reader), 403)
    assert problem(keyed.get("/v1/memories", headers=writer), 403)
    assert problem(keyed.post("/v1/purge", json={}, headers=writer), 403)
    assert problem(keyed.get("/v1/scopes", headers=reader), 403)
    assert keyed.get("/v1/scopes", headers=chief).json() == {"items": []}  # bob's is not hers
    keyed.post("/v1/memories", json={"messages": "I like tea."}, headers=chief)
    assert [each["user_id"] for each in keyed.get("/v1/scopes", headers=chief).json()["items"]] == ["alice"]
    assert problem(keyed.get("/v1/memories"), 401)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/search", b'{"query": "x", "user_id": "a", "colour": 1}', 422),
        ("/v1/search", b'{"query": "x", "user_id": "a", "\\ud800": 1}', 422),
        ("/v1/search", b'{"query": "\\ud800", "user_id": "a"}', 400),
        ("/v1/search", b'{"query": "x\\u0000", "user_id": "a"}', 400),
        ("/v1/search", b'{"query": "x", "user_id": "a", "threshold": NaN}', 422),
        ("/v1/search", b'{"query": "x", "user_id": "a", "k": 1e400}', 422),
        ("/v1/search", b"[" * 100_000, 400),
        ("/v1/search", b"\xff", 400),
        ("/v1/memories", b'{"messages": "x", "user_id": "a", "metadata": {"x": NaN}}', 400),
        ("/v1/memories", b'{"messages": [{"role": "user", "content": "\\ud800"}], "user_id": "a"}', 400),
        ("/v1/memories", b'{"messages": "x", "user_id": " "}', 400),
        ("/v1/memories", b'{"messages": "x", "user_id": "a", "expires_at": "9999-12-31T23:59:59-10:00"}', 400),
        ("/v1/memories", b'{"messages": "x", "user_id": "a", "metadata": {"n": 1' + b"0" * 5_000 + b"}}", 400),
    ],
)
def test_invalid_bodies_are_problems_that_repeat_nothing(http: TestClient, path: str, body: bytes, status: int) -> None:
    for wait in ("true", "false"):
        problem(
            http.post(
                f"{path}{'' if 'search' in path else f'?wait={wait}'}",
                content=body,
                headers={"content-type": "application/json"},
            ),
            status,
        )


ANSWERED = {
    "MemoryResponse": (
        "actor_id agent_id created_at expires_at hash id is_verbatim memory_type metadata revision role run_id text "
        "updated_at user_id"
    ),
    "HitResponse": (
        "actor_id agent_id created_at expires_at explanation hash id is_verbatim memory_type metadata passage relevance "
        "revision role run_id score text updated_at user_id"
    ),
    "ChangeResponse": "event id previous_text reason relations text valid_to",
    "AddResponse": "mode notes results trace_id usage",
    "RelationResponse": (
        "agent_id confidence id memory_ids mentions recorded_at relation retired_at run_id source source_type "
        "target target_type text user_id valid_from valid_to"
    ),
    "EntityResponse": "agent_id aliases created_at id mentions name run_id type updated_at user_id",
    "JobResponse": "agent_id attempts created_at error id kind progress result run_id state updated_at user_id",
    "TraceResponse": "agent_id calls candidates created_at decisions facts id result run_id turns user_id",
    "ConversationResponse": "agent_id created_at run_id session_id turns updated_at user_id",
}
"""The fields of answers, which clients name: a record's new field is shown by whoever adds it here."""


def test_openapi_has_the_known_fields_and_describes_everything(http: TestClient) -> None:
    document = http.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    for name, known in ANSWERED.items():
        assert sorted(schemas[name]["properties"]) == sorted(schemas[name]["required"]) == known.split(), name
    for name, form in schemas.items():
        assert name.isalnum() and form["title"] == name
        if not name.startswith(("Mem0", "HTTPValidation", "Validation")):
            assert form.get("description") and "id" not in [*form["properties"]][1:], name
    ours = {path: how for path, how in document["paths"].items() if path.startswith("/v1/")}
    assert len(ours) >= 20
    for path, operations in ours.items():
        for operation in operations.values():
            assert operation["summary"] and operation["description"], path
            assert "application/problem+json" in operation["responses"]["default"]["content"], path


@pytest.mark.parametrize("moment", [2024, 0.5, "2024", "-1", "0.5", "20240501", "soon"])
def test_as_of_refuses_numbers(http: TestClient, moment: Any) -> None:
    asked = {"query": "tea", "user_id": "alice"}
    for answer in (
        http.post("/v1/search", json={**asked, "as_of": moment}),
        http.get("/v1/memories", params={"user_id": "alice", "as_of": moment}),
    ):
        assert answer.status_code == 422 and "2026-05-01T09:30:00Z" in answer.text
    assert http.post("/v1/search", json={**asked, "as_of": "2024-05-01"}).status_code == 200
